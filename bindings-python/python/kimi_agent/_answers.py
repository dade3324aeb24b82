"""The answers `Reject` and `Block`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Block", "Reject"]


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
