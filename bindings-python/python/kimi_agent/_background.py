"""The event loop of the blocking API, in a thread that starts at the first call and ends with the program."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

from ._errors import KimiAgentError, SpawnError
from ._loop import called, check_process, mailbox_of
from ._process import in_this_process, leave_child

__all__ = ["block", "run", "run_call"]

T = TypeVar("T")
_logger = logging.getLogger("kimi_agent")
_PATIENCE = 1.0
# Seconds until a wait looks for signals.
_UNTIL_SIGNALS = 0.1
# Reentrant: a signal handler may call this module while its own thread holds the lock.
_lock = threading.RLock()
_current: _Background | None = None


class _Background:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.stopping = False
        # Whether the loop has ended before the program.
        self.has_ended = False
        try:
            # Windows' default loop watches no descriptors.
            self.loop = asyncio.SelectorEventLoop()
            # Nobody uses it. Each pipe has a number of its own, so that another file with its descriptor is noticed.
            self.witness, other = os.pipe()
            os.close(other)
        except OSError as error:
            raise _lacking("descriptor", error) from None
        self.identity = os.fstat(self.witness)[1:3]
        self.thread = threading.Thread(target=self._run, name="kimi-agent", daemon=True)
        try:
            self.thread.start()
        except RuntimeError as error:
            self.loop.close()
            raise _lacking("thread", error) from None

    def is_intact(self) -> bool:
        """Whether the descriptors are open. The program may have closed all of them, for example to become a daemon."""
        try:
            return os.fstat(self.witness)[1:3] == self.identity
        except OSError:
            return False

    def check(self) -> None:
        """Raises if a wait would not end."""
        if not self.is_intact():
            raise KimiAgentError(
                "this program has closed descriptors of kimi-agent, for example to become a daemon; the sessions of "
                "this process cannot be used any more. Open the first session after that"
            )
        if self.has_ended:
            raise _dead()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            try:
                self._serve()
            except BaseException as failure:
                # For example one that another thread has set. Later sessions have a new loop.
                # Without its descriptors, each call raises an error that says so.
                self.has_ended = self.is_intact()
                if not self.has_ended:
                    return
                _report("the event loop of the blocking API has ended", failure)
            mailbox = mailbox_of(self.loop)
            if mailbox is not None:
                mailbox.mute_logs()
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:
                # A handler that cannot be cancelled must not keep the program alive.
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=_PATIENCE))
        finally:
            # Other files may have its descriptors.
            if self.is_intact():
                self.loop.close()

    def _serve(self) -> None:
        """Runs the loop until `stop`."""
        while not self.stopping:
            try:
                # A handler can stop it, but this loop serves all sessions of the program.
                self.loop.run_forever()
            except (KeyboardInterrupt, SystemExit) as failure:
                if not in_this_process():
                    leave_child(failure)
                # In asyncio they end the loop.
                _report(f"{type(failure).__name__} in a task of a handler is ignored", failure)

    def stop(self) -> None:
        """Joins the thread, so that it does not run Python code while the interpreter shuts down."""
        if self.process == os.getpid():
            self.stopping = True
            # Another file may have the descriptor that wakes the loop.
            if not self.is_intact() or self.loop.is_closed():
                return
            self.loop.call_soon_threadsafe(self.loop.stop)
            # An async handler that blocks the loop must not keep the program alive either.
            self.thread.join(2 * _PATIENCE)


class _Unraisable:
    """Reports an exception to `sys.unraisablehook`, which gets what a destructor raises."""

    def __init__(self, failure: BaseException) -> None:
        self._failure = failure

    def __del__(self) -> None:
        raise self._failure


def _report(text: str, failure: BaseException) -> None:
    """Logs an exception that has no caller. Also the program's logging handlers can raise what ends a loop."""
    try:
        _logger.error("%s", text, exc_info=failure)
    except BaseException as raised:
        _Unraisable(raised)


def _is_usable(background: _Background | None) -> bool:
    return background is not None and background.process == os.getpid() and not background.has_ended


def _dead() -> KimiAgentError:
    return KimiAgentError(
        "the event loop of the blocking API has ended (the log has the cause), and its sessions cannot be used; "
        "open new ones"
    )


def _lacking(what: str, error: Exception) -> SpawnError:
    return SpawnError(f"can't start the agent: no {what} for it: {error}. Call again when there is one")


def _background() -> _Background:
    global _current
    check_process()
    with _lock:
        if not _is_usable(_current):
            made = _Background()
            if _is_usable(_current):
                # A signal handler of this thread has made one meanwhile.
                made.stop()
            else:
                _current = made
                atexit.register(made.stop)
        found = _current
    assert found is not None
    found.check()
    if threading.current_thread() is found.thread:
        raise KimiAgentError(
            "a blocking call from an async handler would wait for itself; make the handler a plain function"
        )
    return found


class _Call(Generic[T]):
    """A coroutine that another thread waits for. Ctrl-C may interrupt that thread at any point."""

    __slots__ = ("_begun", "_loop", "_work", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._loop = loop
        self._work = work
        self._begun = False

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Cancels the call. An interrupted caller cannot know whether it has started."""
        self.future.cancel()
        try:
            self.start()
        except RuntimeError:
            # The loop is closed.
            self._work.close()

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        if self.future.cancelled():
            self._work.close()
            return
        task = self._loop.create_task(self._work)
        task.add_done_callback(self._settle)
        # Not a method: a reference to `self` would be a cycle that keeps the result in memory.
        self.future.add_done_callback(partial(_pass_on_cancel, self._loop, task))

    def _settle(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.cancel()
            return
        error = task.exception()
        if not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(task.result())
        else:
            self.future.set_exception(error)


def _pass_on_cancel(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[T], future: concurrent.futures.Future[T]
) -> None:
    if future.cancelled() and not task.done():
        loop.call_soon_threadsafe(task.cancel)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the background loop, in the caller's context; Ctrl-C interrupts the wait and cancels it."""
    background = call = None
    try:
        background = _background()
        call = _Call(background.loop, work)
        try:
            call.start()
        except RuntimeError:
            # The loop is closed.
            if background.stopping:
                _too_late()
            raise _dead() from None
        # On Windows a signal interrupts no wait, and elsewhere not if the system has chosen another thread for it.
        while not call.future.done():
            concurrent.futures.wait([call.future], _UNTIL_SIGNALS)
            background.check()
        return call.future.result()
    except BaseException as error:
        if call is None:
            work.close()
        elif not call.future.done() and background is not None and background.is_intact():
            call.cancel()
        # The result is not delivered, and a traceback must not keep it.
        del call, work
        if background is not None and isinstance(error, concurrent.futures.CancelledError):
            if background.stopping:
                _too_late()
            if background.has_ended:
                raise _dead() from None
        raise


def block(wait: Callable[[], None]) -> None:
    """Waits in the caller's thread, without the loop. Ctrl-C interrupts the wait."""
    background = _background()
    called(wait)
    background.check()
    if background.stopping:
        _too_late()


def _too_late() -> NoReturn:
    if threading.current_thread().daemon:
        # As daemon threads do at the end of a program.
        threading.Event().wait()
    raise KimiAgentError("the program is ending, and its sessions are closed; use them before the main thread ends")


def run_call(function: Callable[..., T], *args: Any) -> T:
    """Calls a plain function on the background loop."""

    async def call() -> T:
        return function(*args)

    return run(call())
