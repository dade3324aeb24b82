"""Threads for plain handlers: each has one to itself, which it may block for as long as it likes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["in_thread"]

# A thread without work ends after so many seconds.
_PATIENCE = 5.0
_idle: list[_Thread] = []


class _Thread:
    """A thread that does one thing after the other: to start one takes as long as everything else about a call.

    It is a daemon, so that the program may end whatever a handler does.
    """

    __slots__ = ("_given", "_work")

    def __init__(self, work: tuple[Any, ...]) -> None:
        self._work: tuple[Any, ...] | None = work
        self._given = threading.Lock()
        self._given.acquire()
        threading.Thread(target=self._run, name="kimi-agent-handler", daemon=True).start()

    def give(self, work: tuple[Any, ...]) -> None:
        """To be called by whoever has taken it from those that are idle."""
        self._work = work
        self._given.release()

    def _run(self) -> None:
        while self._work is not None:
            function, *args = self._work
            self._work = None
            function(*args)
            # Nothing of the call is kept while there is no other.
            del function, args
            _idle.append(self)
            if self._given.acquire(timeout=_PATIENCE):
                continue
            try:
                _idle.remove(self)
            except ValueError:
                # Somebody has taken it just now.
                self._given.acquire()


def in_thread(function: Callable[..., object], *args: Any) -> None:
    """Calls a function, which must not raise, on a thread that does nothing else meanwhile."""
    work = (function, *args)
    try:
        thread = _idle.pop()
    except IndexError:
        _Thread(work)
    else:
        thread.give(work)
