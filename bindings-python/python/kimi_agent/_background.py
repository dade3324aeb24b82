"""The event loop that the blocking API runs on: one thread, started when first needed, ended with the program."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from ._errors import KimiAgentError
from ._loop import check_process, mailbox_of

__all__ = ["block", "run", "run_call"]

T = TypeVar("T")
_PATIENCE = 1.0
_lock = threading.Lock()
_current: _Background | None = None


class _Background:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.stopping = False
        # Windows' default loop watches no descriptors.
        self.loop = asyncio.SelectorEventLoop()
        self.thread = threading.Thread(target=self._run, name="kimi-agent", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            mailbox = mailbox_of(self.loop)
            if mailbox is not None:
                mailbox.hush()
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:
                # A handler that does not let itself be cancelled must not keep the program.
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=_PATIENCE))
        finally:
            self.loop.close()

    def stop(self) -> None:
        """Joins the thread, so that it does not run Python code while the interpreter goes down."""
        if self.process == os.getpid():
            self.stopping = True
            self.loop.call_soon_threadsafe(self.loop.stop)
            # An async handler that blocks never lets go of the loop; it must not keep the program either.
            self.thread.join(2 * _PATIENCE)


def _background() -> _Background:
    global _current
    check_process()
    with _lock:
        # A fork before the first use of the core leaves no thread, and no harm.
        if _current is None or _current.process != os.getpid():
            _current = _Background()
            atexit.register(_current.stop)
        found = _current
    if threading.current_thread() is found.thread:
        raise KimiAgentError(
            "a blocking call from an async handler would wait for itself; make the handler a plain function"
        )
    return found


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the background loop, in the caller's context; Ctrl-C interrupts the wait and cancels it."""
    background = None
    try:
        background = _background()
        future = asyncio.run_coroutine_threadsafe(work, background.loop)
    except BaseException:
        work.close()
        # Then the loop is closed.
        if background is not None and background.stopping:
            _too_late()
        raise
    try:
        if sys.platform == "win32":
            # A wait without a timeout cannot be interrupted there.
            while True:
                try:
                    return future.result(0.1)
                except TimeoutError:
                    if future.done():
                        raise
        return future.result()
    except BaseException as error:
        future.cancel()
        if background.stopping and isinstance(error, concurrent.futures.CancelledError):
            _too_late()
        raise


def block(wait: Callable[[], None]) -> None:
    """Waits on the caller's own thread for what needs no loop; Ctrl-C interrupts the wait."""
    background = _background()
    wait()
    if background.stopping:
        _too_late()


def _too_late() -> NoReturn:
    if threading.current_thread().daemon:
        # As all that daemon threads do at the end of a program.
        threading.Event().wait()
    raise KimiAgentError("the program ends: nothing can be asked of an agent any more")


def run_call(function: Callable[..., T], *args: Any) -> T:
    """Calls a plain function on the background loop."""

    async def call() -> T:
        return function(*args)

    return run(call())
