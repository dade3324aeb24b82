"""The mailbox of an event loop: it brings results, requests and log records of the core to coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from . import _native
from ._encode import NotUnicode, valid_unicode
from ._errors import InvalidOption, KimiAgentError, from_native
from ._failures import class_name, failure_text
from ._handlers import UNSENDABLE, Handlers, Job, was_logged
from ._process import in_this_process, note_use

if TYPE_CHECKING:
    from ._interface import Delivery, ErrorTuple
    from ._spans import Tracing

__all__ = [
    "LoopMailbox",
    "called",
    "check_process",
    "current_mailbox",
    "finish_telemetry",
    "mailbox_of",
]

T = TypeVar("T")
_logger = logging.getLogger("kimi_agent")
_wire_logger = logging.getLogger("kimi_agent.wire")
# Seconds that the end of the program waits for event loops that apply telemetry, in all.
_TELEMETRY_TIMEOUT = 1.0
_shows_messages = False
# Reentrant: a signal handler or the garbage collector may call this module while its own thread holds the lock.
_lock = threading.RLock()
_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[LoopMailbox]] = weakref.WeakKeyDictionary()


class Wakeable(Protocol):
    """A reader that waits for "readable"."""

    def _wake(self) -> None: ...


def check_process() -> None:
    """Raises in a process that was forked after the package was first used."""
    if not in_this_process():
        raise KimiAgentError(
            "kimi_agent was used before this process was forked and cannot be used in the child; "
            'start the child with multiprocessing\'s "spawn" method, or use the package in one of the two only'
        )


def called(function: Callable[..., T], *args: Any) -> T:
    """Calls into the core; its errors become exceptions of this package."""
    try:
        return function(*args)
    except _native.NativeError as error:
        # Arguments can be secret, and error reports can show the variables of frames.
        del args
        raise from_native(*error.args) from None
    except UnicodeEncodeError as error:
        # Of an argument that was not encoded here, for example the id of a session.
        del args
        raise InvalidOption(f"invalid argument: {NotUnicode(error)}") from None


def current_mailbox() -> LoopMailbox:
    """Returns the mailbox of the running event loop, and makes it at the first call."""
    check_process()
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise KimiAgentError(_without_loop()) from None
    with _lock:
        known = _mailboxes.get(loop)
        found = known() if known is not None else None
        if found is None:
            found = LoopMailbox(loop)
            note_use()
            # The loop keeps the mailbox, as its reader; a strong value here would keep the loop alive.
            _mailboxes[loop] = weakref.ref(found)
    return found


def _without_loop() -> str:
    trio = sys.modules.get("trio")
    try:
        if trio is not None and trio.lowlevel.current_trio_token() is not None:
            return (
                "this is a task of trio, and kimi_agent's coroutines run on asyncio only: use `kimi_agent.sync` inside "
                "`trio.to_thread.run_sync(…)`, or run this with asyncio (with anyio: `anyio.run(…, backend='asyncio')`)"
            )
    except (AttributeError, RuntimeError):
        # trio is imported, but does not run in this thread.
        pass
    return "no event loop is running here: call this from a coroutine, or use `kimi_agent.sync` without coroutines"


def show_messages() -> None:
    """Lets the core log every message if the logger `kimi_agent.wire` has the level DEBUG.

    Only this logger's own level counts, because DEBUG for all loggers must not log every message.
    """
    global _shows_messages
    wanted = 0 < _wire_logger.level <= logging.DEBUG
    if wanted != _shows_messages:
        _shows_messages = wanted
        _native.set_wire_log(wanted)


def mailbox_of(loop: asyncio.AbstractEventLoop) -> LoopMailbox | None:
    """Returns the mailbox of a loop, if there is one."""
    with _lock:
        known = _mailboxes.get(loop)
    return None if known is None else known()


class LoopMailbox:
    """Hands out deliveries of the core, on the thread of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.native = called(_native.Mailbox)
        self._loop = weakref.ref(loop)
        self._tickets: dict[int, asyncio.Future[Any]] = {}
        self._jobs: dict[int, Job] = {}
        self._streams: weakref.WeakValueDictionary[int, Wakeable] = weakref.WeakValueDictionary()
        self._handlers: weakref.WeakValueDictionary[int, Handlers] = weakref.WeakValueDictionary()
        # The tracings that have open spans, by session. A session that is collected leaves its spans to them.
        self._tracings: dict[int, Tracing] = {}
        # The deliveries that were taken from the core and not handled yet.
        self._undelivered: deque[Delivery] = deque()
        # The loop's thread holds it while it changes `_undelivered` or applies telemetry. Reentrant: a span processor
        # may call this package.
        self._telemetry_lock = threading.RLock()
        self._telemetry_has_ended = False
        self._is_muted = False
        weakref.finalize(self, _close, self.native, self._undelivered, self._tracings).atexit = False
        try:
            loop.add_reader(self.native.fileno(), self._drain)
        except NotImplementedError:
            # Windows' proactor loop watches no descriptors.
            _Watcher(self, loop).start()

    def check(self) -> asyncio.AbstractEventLoop:
        """Returns this mailbox's loop. Raises if another loop, or none, runs here."""
        check_process()
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is None or running is not self._loop():
            raise KimiAgentError(
                "the session belongs to another event loop; use a session in the event loop that opened it, or open "
                "one in each"
            )
        return running

    def mute_logs(self) -> None:
        """Drops further log records: the program ends, so its handlers cannot finish."""
        self._is_muted = True

    def add_stream(self, key: int, stream: Wakeable) -> None:
        self._streams[key] = stream

    def add_handlers(self, key: int, handlers: Handlers) -> None:
        self._handlers[key] = handlers

    def tracing(self, key: int) -> Tracing | None:
        """Returns the tracing of a session. None if its telemetry is off."""
        handlers = self._handlers.get(key)
        return self._tracings.get(key) if handlers is None else handlers.tracing

    def with_span(self, key: int, start: dict[str, Any] | None, options: dict[str, Any]) -> dict[str, Any]:
        """Starts the span of a turn, and adds it to the options of its prompt."""
        tracing = self.tracing(key)
        if tracing is None or start is None:
            return options
        with self._telemetry_lock:
            span = None if self._telemetry_has_ended else tracing.begin(start)
        if span is None:
            return options
        self._tracings[key] = tracing
        return {**options, "$span": span}

    async def call(self, operation: Callable[..., int], *args: Any) -> Any:
        """Starts an operation of the core and returns its result."""
        self.check()
        return await self.wait(called(operation, *args))

    async def wait(self, ticket: int) -> Any:
        """Returns the result of a started operation. Cancelling the wait does not cancel the operation."""
        return await self.result_of(ticket)

    def result_of(self, ticket: int) -> asyncio.Future[Any]:
        """Returns the future result of an operation that the current step of the event loop has started.

        In a later step the result may have been delivered already.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._tickets[ticket] = future
        future.add_done_callback(lambda _: self._tickets.pop(ticket, None))
        return future

    def finish_telemetry(self, deadline: float) -> None:
        """Applies the telemetry that was not delivered, because the program ends. The loop applies no more after it."""
        # A span processor that hangs in the loop's thread must not keep the program alive.
        is_held = self._telemetry_lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
        try:
            self._telemetry_has_ended = True
            self._undelivered.extend(self.native.drain())
            _apply_telemetry(list(self._undelivered), self.tracing)
        finally:
            if is_held:
                self._telemetry_lock.release()
        loop = self._loop()
        if loop is not None:
            # The loop still has to get the other deliveries, unless it is closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        with self._telemetry_lock:
            self._undelivered.extend(self.native.drain())
        try:
            while self._undelivered:
                with self._telemetry_lock:
                    delivery = self._undelivered.popleft()
                    if delivery[0] == "telemetry":
                        self._attempt(self._trace, delivery)
                        continue
                self._attempt(self._deliver, delivery)
        finally:
            loop = self._loop()
            if self._undelivered and loop is not None:
                # Ctrl-C has raised KeyboardInterrupt here, and the loop continues to end its tasks.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon(self._drain)

    def _attempt(self, handle: Callable[[Delivery], None], delivery: Delivery) -> None:
        try:
            handle(delivery)
        except Exception:
            # A delivery that fails must not affect the others.
            _logger.exception("a delivery of the core could not be handled: %r", delivery)

    def _deliver(self, delivery: Delivery) -> None:
        if delivery[0] == "readable":
            stream = self._streams.get(delivery[1])
            if stream is not None:
                stream._wake()
        elif delivery[0] == "done":
            self._done(delivery[1], delivery[2], delivery[3])
        elif delivery[0] == "job":
            self._start_job(*delivery[1:])
        elif delivery[0] == "cancel_job":
            job = self._jobs.pop(delivery[1], None)
            if job is not None:
                job.cancel()
        elif delivery[0] == "log" and not self._is_muted:
            _, level, target, message = delivery
            if was_logged(message):
                level = logging.DEBUG
            # Python has no level below that of debugging.
            logging.getLogger(target.replace("::", ".")).log(max(level, logging.DEBUG), "%s", message)

    def _done(self, ticket: int, value: Any, error: ErrorTuple | None) -> None:
        future = self._tickets.get(ticket)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(from_native(*error))

    def _trace(self, delivery: Delivery) -> None:
        assert delivery[0] == "telemetry"
        session = delivery[1]
        tracing = self.tracing(session)
        # `finish_telemetry` has applied what was left, and nothing ends a span that would start now.
        if tracing is not None and not self._telemetry_has_ended:
            tracing.apply(delivery[2])
            if tracing.is_idle:
                self._tracings.pop(session, None)
            else:
                self._tracings[session] = tracing

    def _start_job(
        self,
        job_id: int,
        session: int,
        kind: str,
        index: int | None,
        payload: Any,
        call_id: str | None,
        in_turn: bool,
        span: int | None,
    ) -> None:
        handlers = self._handlers.get(session)
        loop = self._loop()
        if handlers is None or loop is None:
            # The program has dropped the session or its loop: no handler has failed.
            self.native.finish_job(job_id, None, "cancelled", None)
            return
        job = self._jobs[job_id] = Job(job_id, loop, self._finish_job, call_id, self._report_progress)
        try:
            handlers.start(job, kind, index, payload, in_turn, span)
        except Exception as failure:
            job.finish(None, failure_text(failure), class_name(failure))
            raise

    def _report_progress(self, job_id: int, fraction: float | None, message: str | None) -> None:
        self.native.report_progress(job_id, fraction, None if message is None else valid_unicode(message))

    def _finish_job(self, job_id: int, value: Any, error: str | None, kind: str | None) -> None:
        # Perhaps in another thread, while the loop's thread cancels the job.
        if self._jobs.pop(job_id, None) is None:
            return
        if value is UNSENDABLE:
            self.native.refuse_answer(job_id, valid_unicode(error or ""))
        else:
            self.native.finish_job(job_id, value, None if error is None else valid_unicode(error), kind)


def finish_telemetry() -> None:
    """Applies the telemetry that was not delivered, because the program ends."""
    with _lock:
        mailboxes = [found for known in _mailboxes.values() if (found := known()) is not None]
    deadline = time.monotonic() + _TELEMETRY_TIMEOUT
    for mailbox in mailboxes:
        mailbox.finish_telemetry(deadline)


def _apply_telemetry(deliveries: list[Delivery], tracing_of: Callable[[int], Tracing | None]) -> None:
    for delivery in deliveries:
        if delivery[0] == "telemetry":
            tracing = tracing_of(delivery[1])
            if tracing is not None:
                tracing.apply(delivery[2])


def _close(native: _native.Mailbox, undelivered: deque[Delivery], tracings: dict[int, Tracing]) -> None:
    if in_this_process():
        _apply_telemetry([*undelivered, *native.drain()], tracings.get)
        native.close()
        for tracing in tracings.values():
            tracing.end_all()


class _Watcher(threading.Thread):
    """Wakes a loop that cannot watch descriptors when there is something to drain."""

    def __init__(self, mailbox: LoopMailbox, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name="kimi-agent-watcher", daemon=True)
        self._mailbox = weakref.ref(mailbox)
        # Nothing else holds the mailbox of such a loop.
        self._kept: LoopMailbox | None = mailbox
        self._loop = loop
        self._drained = threading.Event()

    def run(self) -> None:
        while (mailbox := self._mailbox()) is not None and not self._loop.is_closed():
            # The timeout lets the thread see that the loop has been closed or collected.
            readable, _, _ = select.select([mailbox.native.fileno()], [], [], 1.0)
            if not readable:
                continue
            self._drained.clear()
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                break
            del mailbox
            while not self._drained.wait(1.0) and not self._loop.is_closed():
                pass
        self._kept = None

    def _drain(self) -> None:
        mailbox = self._mailbox()
        if mailbox is not None:
            mailbox._drain()
        self._drained.set()
