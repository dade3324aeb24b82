"""Files and other resources as content parts. Loaded when a program makes one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import _native
from ._errors import InvalidOption
from ._loop import called

if TYPE_CHECKING:
    from ._option_types import StrPath
    from ._wire import ResourcePart

__all__ = ["file", "resource"]


def file(path: StrPath) -> ResourcePart:
    """Makes a content part from a file, for a prompt or for `steer()`.

    Agents get the part in the form that they take: its text, or a link to it. The file is read at once. The part has
    the text of a file of UTF-8 with at most 1 MiB. The part of another file is a link.

    Args:
        path: The path of the file. A relative path is relative to the current directory of the program.

    Returns:
        The part, whose `uri` is the URL of the file.

    Raises:
        InvalidOption: There is no such file, it cannot be read, or it is not a regular file.

    >>> turn = session.prompt(["Review this file.", file("parser.py")])
    """
    if isinstance(path, (str, os.PathLike)):
        return called(_native.file_part, os.fspath(path))
    raise InvalidOption(f"file: expected the path of a file, got {path!r}", "file")


def resource(
    uri: str,
    *,
    text: str | None = None,
    data: bytes | bytearray | memoryview | None = None,
    mime_type: str | None = None,
) -> ResourcePart:
    """Makes a content part from a text or from bytes with an address, for a prompt or for `steer()`.

    Without `text` and `data` the part is a link. Agents get the part in the form that they take. An agent that takes no
    bytes raises `Unsupported` for a prompt with `data`.

    Args:
        uri: The address: a URL, or another URI such as `issue:7`. The agent may not be able to read it.
        text: The content, if it is text. At most 8 MiB. Default: none.
        data: The content, if it is not text. At most 8 MiB. Default: none.
        mime_type: The media type, for example `text/markdown`. Default: none.

    Returns:
        The part.

    Raises:
        InvalidOption: The `uri` is not a URI, the content is too large, or there are both `text` and `data`.

    >>> log = resource("run:12", text="The test failed.", mime_type="text/plain")
    >>> turn = session.prompt(["Why did it fail?", log])
    """
    texts: list[tuple[str, str, object]] = [("uri", "text", uri)]
    texts += [(name, "text", value) for name, value in (("text", text), ("mime_type", mime_type)) if value is not None]
    wrong = [(name, kind, value) for name, kind, value in texts if not isinstance(value, str)]
    if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
        wrong.append(("data", "bytes", data))
    for name, kind, value in wrong:
        raise InvalidOption(f"resource: `{name}`: expected {kind}, got {value!r}", "resource")
    return called(_native.resource_part, uri, text, None if data is None else bytes(data), mime_type)
