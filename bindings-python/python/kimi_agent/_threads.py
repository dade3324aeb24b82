"""Threads for plain handlers. Each running handler has a thread of its own, which it may block."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ._failures import failure_text, is_a
from ._process import in_this_process, leave_child

__all__ = ["awaited_in_thread", "in_thread"]

T = TypeVar("T")
_logger = logging.getLogger("kimi_agent")

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


async def awaited_in_thread(function: Callable[[], T]) -> T:
    """Calls a function in a thread of its own, in the context of the caller, and returns its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, failure: BaseException | None) -> None:
        if future.done():
            return
        if failure is None:
            future.set_result(value)
        elif is_a(failure, Exception) and not is_a(failure, StopIteration):
            future.set_exception(failure)
        else:
            # A future accepts neither of these.
            carrier = RuntimeError(failure_text(failure))
            carrier.__cause__ = failure
            future.set_exception(carrier)

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(function)
        except BaseException as error:
            failure = error
        if not in_this_process():
            leave_child(failure)
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            # The loop is closed, so the result is not needed.
            _logger.debug("a function of the program ended after its event loop")

    in_thread(work)
    return await future
