"""The answers `Reject` and `Block`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from ._encode import kind_of
from ._hints import clear_arguments

__all__ = ["Block", "Reject", "answer_fields"]


class Reject(NamedTuple):
    """Rejects an approval request with feedback. The model reads it and continues.

    Needs `Capabilities.approval_feedback` (from Wire 1.6 on). Other agents only get the rejection.

    >>> def decide(request):
    ...     return "approve" if request.sender == "ReadFile" else Reject("Change nothing, only explain.")
    >>> session = await create_session(work_dir=".", on_approval=decide)
    >>> await session.close()
    """

    feedback: str
    """The text that the model reads."""


class Block(NamedTuple):
    """Blocks the action that a hook was asked about (from Wire 1.8 on).

    >>> def check(request):
    ...     if "rm -rf" in str(request.input_data):
    ...         return Block("Delete nothing.")
    >>> session = await create_session(work_dir=".", hooks=[Hook("PreToolUse", check, matcher="Shell")])
    >>> await session.close()
    """

    reason: str
    """The reason, which the model reads."""


def answer_fields(answer: Reject | Block) -> dict[str, str]:
    """Returns the answer as the core takes it.

    Raises:
        TypeError: Its text is not a text.
    """
    (text,) = answer
    if isinstance(text, str):
        return {"reject" if isinstance(answer, Reject) else "block": text}
    without = '; to reject without a text, answer "reject"' if isinstance(answer, Reject) else ""
    raise TypeError(f"a {type(answer).__name__} needs the text that the model reads, got {kind_of(text)}{without}")


if not TYPE_CHECKING:

    def _checked(kind: Any) -> None:
        made = clear_arguments(kind.__new__, kind.__name__)

        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            answer = made(cls, *args, **kwargs)
            answer_fields(answer)
            return answer

        # A NamedTuple cannot have a `__new__` in its body.
        kind.__new__ = functools.wraps(kind.__new__)(new)

    _checked(Reject)
    _checked(Block)
