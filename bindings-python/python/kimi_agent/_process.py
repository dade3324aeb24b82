"""Processes that were forked from this one. The core and its threads stay in the parent."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import NoReturn

__all__ = ["in_this_process", "leave_child", "note_use"]

_used = False
_forked = False


def in_this_process() -> bool:
    """Whether the core is in this process. A fork leaves it and its threads behind."""
    return not _forked


def note_use() -> None:
    """Notes that the core is used from now on."""
    global _used
    _used = True


def leave_child(failure: BaseException | None) -> NoReturn:
    """Ends a process that was forked in a handler, when the handler ends, in the way of `multiprocessing`.

    The event loop shares descriptors with that of the parent. To run or to close it here would stop the parent's loop.
    """
    code = 1
    try:
        code = _reported(failure)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
    finally:
        os._exit(code)


def _reported(failure: BaseException | None) -> int:
    """Prints an exception as the interpreter does, and returns the exit code."""
    if failure is None:
        return 0
    if not isinstance(failure, SystemExit):
        traceback.print_exception(type(failure), failure, failure.__traceback__)
        return 1
    if failure.code is None or isinstance(failure.code, int):
        return (failure.code or 0) & 0xFF
    print(failure.code, file=sys.stderr)
    return 1


def _note_fork() -> None:
    global _forked
    _forked = _forked or _used


if hasattr(os, "register_at_fork"):
    # To ask the system at each call would double its time.
    os.register_at_fork(after_in_child=_note_fork)
