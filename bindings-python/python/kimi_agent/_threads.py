"""Threads for plain handlers. Each running handler has a thread of its own, which it may block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["in_thread"]

# Seconds after which a thread without work ends.
_IDLE_TIMEOUT = 5.0
_idle: list[_Thread] = []


class _Thread:
    """A thread that is reused, because to start a thread takes as long as the rest of a call.

    It is a daemon, so that a handler that blocks does not keep the program alive.
    """

    __slots__ = ("_given", "_work")

    def __init__(self, work: tuple[Any, ...]) -> None:
        self._work: tuple[Any, ...] | None = work
        self._given = threading.Lock()
        self._given.acquire()
        threading.Thread(target=self._run, name="kimi-agent-handler", daemon=True).start()

    def give(self, work: tuple[Any, ...]) -> None:
        """Gives work to a thread that the caller has taken from `_idle`."""
        self._work = work
        self._given.release()

    def _run(self) -> None:
        while self._work is not None:
            function, *args = self._work
            self._work = None
            function(*args)
            # An idle thread keeps nothing of the call.
            del function, args
            _idle.append(self)
            if self._given.acquire(timeout=_IDLE_TIMEOUT):
                continue
            try:
                _idle.remove(self)
            except ValueError:
                # Another thread has taken it just now and gives it work.
                self._given.acquire()


def in_thread(function: Callable[..., object], *args: Any) -> None:
    """Calls a function in a thread of its own. The function must not raise."""
    work = (function, *args)
    try:
        thread = _idle.pop()
    except IndexError:
        _Thread(work)
    else:
        thread.give(work)
