"""Converts the arguments of sessions and turns for the core: prompts, their options, and manual answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._encode import NotUnicode, kind_of, seconds, to_jsonable, valid_unicode
from ._errors import InvalidOption
from ._handlers import encode_answer
from ._message import Message
from ._stream import Stream

if TYPE_CHECKING:
    from ._interface import Answer, Request
    from ._option_types import UserInput

__all__ = ["encode_input", "encode_prompt_options", "given_answer", "request_reference"]


def encode_prompt_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of one prompt as JSON; their names and values are judged by the core."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        try:
            found[name] = to_jsonable(seconds(value))
        except TypeError as error:
            if isinstance(value, (float, Mapping)) or isinstance(error, NotUnicode):
                raise InvalidOption(f"invalid option `{name}`: {error}", name) from None
            # The core names what it expects instead, or an unknown name.
            found[name] = {}
    return found


def encode_input(content: UserInput) -> str | list[dict[str, Any]]:
    """The input of the program as text or as content parts of the wire, with U+FFFD for half of a surrogate pair."""
    if isinstance(content, str):
        return valid_unicode(str.__str__(content))
    if isinstance(content, (Message, Mapping)):
        parts: Any = [content]
    elif isinstance(content, (bytes, bytearray, memoryview, Stream)) or not isinstance(content, Iterable):
        raise _wrong_content(content)
    else:
        parts = content
    found: list[dict[str, Any]] = []
    for at, part in enumerate(parts):
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        if isinstance(part, Mapping) or (isinstance(part, Message) and part._wire_type == "ContentPart"):
            try:
                found.append(to_jsonable(part, valid_unicode))
            except TypeError as error:
                raise InvalidOption(f"invalid option `content`: content[{at}]: {error}", "content") from None
        else:
            raise _wrong_content(part, f"content[{at}]: ")
    return found


def _wrong_content(got: object, place: str = "") -> InvalidOption:
    expected = "expected text, a content part such as TextPart(…), or a list of these"
    if isinstance(got, (bytes, bytearray, memoryview)):
        hint = "; decode text first, or pass an image as `kimi_agent.image(…)`"
    elif isinstance(got, os.PathLike):
        hint = "; pass the file as `kimi_agent.file(path)`, or an image as `kimi_agent.image(path)`"
    elif isinstance(got, Message):
        hint = f"; a {type(got).__name__} is not a content part"
    else:
        hint = ""
    kind = kind_of(got)
    return InvalidOption(f"invalid option `content`: {place}{expected}; got {kind}{hint}", "content")


def given_answer(answer: Answer) -> Any:
    """The answer that `respond()` was called with, as JSON."""
    try:
        return encode_answer(answer)
    except TypeError as error:
        raise InvalidOption(f"invalid option `answer`: {error}", "answer") from None


def request_reference(request: Request) -> tuple[str, tuple[int, int] | None]:
    """The id of a request, and which request of which session it is, unless only the id is known."""
    found = request if isinstance(request, str) else getattr(request, "id", None)
    if isinstance(found, str):
        return found, getattr(request, "_origin", None)
    expected = "expected the request event that is to be answered, or its `id`"
    raise InvalidOption(f"invalid option `request`: {expected}; got {kind_of(request)}", "request")
