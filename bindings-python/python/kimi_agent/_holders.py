"""Finds turns that the program has lost although a traceback still holds them.

A traceback keeps the frames of the calls that an exception has left, and with them their variables. How long it does
depends on the program and on the Python release; whether a turn goes on must not.
"""

from __future__ import annotations

import asyncio
import sys
import types
import weakref
from functools import partial
from typing import Any, Protocol

__all__ = ["Abandonable", "Waits", "abandon_if_lost", "is_lost"]


class Abandonable(Protocol):
    """A turn, as either API has it."""

    def _abandon(self) -> None: ...


def is_lost(reference: weakref.ref[Any]) -> bool:
    """Whether an object is referred to, but only by frames of calls that have ended."""
    target = reference()
    if target is None:
        return False
    # Imported here, because few programs need it.
    import gc

    references = sys.getrefcount(target) - _own_references()
    frames = [holder for holder in gc.get_referrers(target) if isinstance(holder, types.FrameType)]
    while frames:
        frame = frames.pop()
        if _has_ended(frame):
            references -= list(map(id, gc.get_referents(frame))).count(id(target))
        # Before Python 3.11 it may be the frame of this very call, which must not hold itself.
        del frame
    return references <= 0


def abandon_if_lost(reference: weakref.ref[Any] | None) -> bool:
    """Abandons a turn that only tracebacks hold; says whether it did."""
    if reference is None or not is_lost(reference):
        return False
    turn: Abandonable | None = reference()
    if turn is not None:
        turn._abandon()
    return True


class Waits:
    """Cancelled waits for a turn: when the task that waited ends, the turn may be lost."""

    __slots__ = ("_starter", "_watched")

    def __init__(self) -> None:
        task = _current_task()
        # `asyncio.wait_for` cancels a task of its own, and the task that began the turn can end because of that.
        self._starter = None if task is None else weakref.ref(task)
        self._watched: weakref.WeakSet[asyncio.Task[Any]] | None = None

    def cancelled(self, turn: weakref.ref[Any]) -> None:
        """A wait for the turn was cancelled, in the current task."""
        if self._watched is None:
            self._watched = weakref.WeakSet()
        for task in (_current_task(), None if self._starter is None else self._starter()):
            if task is not None and not task.done() and task not in self._watched:
                self._watched.add(task)
                task.add_done_callback(partial(_task_ended, turn))


def _task_ended(turn: weakref.ref[Any], _: object) -> None:
    abandon_if_lost(turn)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _own_references() -> int:
    """The result of `sys.getrefcount` for an object that one local variable holds."""
    target = object()
    return sys.getrefcount(target)


def _has_ended(frame: types.FrameType) -> bool:
    if sys.version_info >= (3, 11):
        # A frame shows the collector its variables only when its call has ended.
        return True
    import gc

    return not _is_running(frame) and not any(map(_is_suspendable, gc.get_referrers(frame)))


def _is_running(frame: types.FrameType) -> bool:
    """Whether a thread is in the frame's call, or in one that it made."""
    callers = list(sys._current_frames().values())
    while callers:
        caller = callers.pop()
        if caller is frame:
            return True
        if caller.f_back is not None:
            callers.append(caller.f_back)
    return False


def _is_suspendable(holder: object) -> bool:
    return isinstance(holder, (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType))
