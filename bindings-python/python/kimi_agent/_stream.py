"""Reading what a turn, or a replay, brings."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, NoReturn

from . import _native
from ._errors import KimiAgentError, from_native
from ._holders import Waits
from ._loop import LoopMailbox, called, in_this_process

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._wire import Event

__all__ = ["EventIterator", "Step", "Steps", "Stream", "TextStream"]

# As many events are fetched from the core at once.
_BATCH = 64


class Stream:
    """The events of a turn or a replay. Internal: `Turn` and `Replay` are its public forms.

    The native turn fetches events in batches and hands them out one by one; it tells the core when the program has got
    a batch, so that an agent never runs far ahead of a slow program.

    Coroutines that wait here let go of the stream where they are cancelled (`del self`): a task that was cancelled
    in its loop over a turn has left the turn, though its traceback, which whoever holds the task holds, is still there.
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_mailbox",
        "_native",
        "_next",
        "_reader",
        "_waiter",
        "_waits",
    )

    def __init__(self, native: _native.Turn, mailbox: LoopMailbox) -> None:
        self._native = native
        self._mailbox = mailbox
        self._next: tuple[int, int] | None = None
        self._ended = False
        self._reader: object = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits = Waits()
        mailbox.add_stream(native.key, self)

    def __del__(self) -> None:
        # The program has dropped the turn, or it has ended, when this does nothing.
        native = getattr(self, "_native", None)
        if native is not None and in_this_process():
            native.abandon()

    def _abandon(self) -> None:
        """Leaves it after an exception, which only is why it is lost; once it has ended this does nothing."""
        self._native.note_used()
        self._native.abandon()

    def _wait_cancelled(self) -> None:
        """A wait for it was cancelled; its caller lets go of it."""
        self._waits.cancelled(weakref.ref(self))

    def __reduce__(self) -> NoReturn:
        # The end of a copy would end the turn.
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled")

    def wake(self) -> None:
        """There is something to fetch."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _start_reading(self, reader: object, *, by_step: bool) -> None:
        # Raises if another loop reads the events.
        called(self._native.reader_started, by_step)
        self._reader = id(reader)

    def _stop_reading(self, reader: object) -> None:
        if self._reader == id(reader):
            self._reader = None
            self._native.acknowledge()
            self._native.reader_left()

    def _fetch(self, most: int = _BATCH, step: int | None = None) -> bool | None:
        """Fetches the next batch, when the last one is used up; with `step` only of that step.

        False: the end. None: nothing is there yet. True with nothing fetched: what comes next, `_next`, is of another
        step. Raises what ended the stream, if it did not end by itself.
        """
        if not self._ended:
            count, self._next, ended = self._native.fetch(most, step)
            self._ended = ended and self._next is None
            if count or self._next is not None:
                return True
            if not self._ended:
                return None
        outcome = self._native.outcome()
        if isinstance(outcome, tuple):
            raise from_native(*outcome)
        return False

    async def _fill(self, most: int = _BATCH, step: int | None = None) -> bool:
        """Waits for the next batch; see `_fetch`."""
        while (more := self._fetch(most, step)) is None:
            if not self._native.wait():
                try:
                    await self._wait()
                except asyncio.CancelledError:
                    self._wait_cancelled()
                    del self
                    raise
        return more

    def _wait(self) -> asyncio.Future[None]:
        if self._waiter is not None and not self._waiter.done():
            raise KimiAgentError("another task waits for the next event of this turn already; read a turn in one task")
        self._waiter = self._mailbox.check().create_future()
        return self._waiter


class EventIterator(_native.Reader):
    """The events of a turn or a replay, one by one. Leaving it leaves the events to a later reader."""

    __slots__ = ("_stream",)

    def __new__(cls, stream: Stream) -> Self:
        return super().__new__(cls, stream._native)

    def __init__(self, stream: Stream) -> None:
        self._stream: Stream | None = None
        stream._start_reading(self, by_step=False)
        self._stream = stream

    async def _later(self) -> Event:
        stream = self._stream
        if stream is None:
            raise StopAsyncIteration
        native = stream._native
        try:
            while True:
                # The reader has looked just now: there was nothing.
                if not stream._ended and not native.wait():
                    await stream._wait()
                more = stream._fetch()
                if more is False:
                    break
                event = native.pop()
                if event is not None:
                    return event
        except KimiAgentError:
            self._leave()
            raise
        except asyncio.CancelledError:
            stream._wait_cancelled()
            del self, stream, native
            raise
        self._leave()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stops reading."""
        self._leave()

    def __del__(self) -> None:
        if in_this_process():
            self._leave()

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            self._leave_events()
            stream._stop_reading(self)


class TextStream:
    """The answer's text, piece by piece, as plain strings: neither thoughts nor text of subagents."""

    __slots__ = ("_events", "_stream", "_text_part")

    def __init__(self, stream: Stream) -> None:
        from ._wire import TextPart

        self._stream = stream
        self._events: EventIterator | None = None
        self._text_part = TextPart

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        if self._events is None:
            self._events = EventIterator(self._stream)
        try:
            while True:
                event = await self._events.__anext__()
                if isinstance(event, self._text_part) and event.text:
                    return event.text
        except asyncio.CancelledError:
            # As in Stream: the traceback does not keep the turn.
            del self
            raise

    async def aclose(self) -> None:
        """Stops reading."""
        if self._events is not None:
            await self._events.aclose()


class Steps:
    """The steps of a turn, one by one. Going on to the next one passes over what was not read of the last."""

    __slots__ = ("__weakref__", "_current", "_left", "_reading", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._current: tuple[int, int] | None = None
        self._reading = False
        self._left = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        if self._left:
            raise StopAsyncIteration
        stream = self._stream
        if not self._reading:
            stream._start_reading(self, by_step=True)
            self._reading = True
        while True:
            stream._native.drop_fetched()
            # A look at what comes first; then whatever is left of the current step is passed over.
            try:
                asked = (0, None) if self._current is None else (_BATCH, self._current[0])
                more = await self._fill(*asked)
            except asyncio.CancelledError:
                del self, stream
                raise
            if not more:
                raise StopAsyncIteration
            if not stream._native.fetched_count and stream._next is not None and stream._next != self._current:
                self._current = stream._next
                return Step(self, stream._next)

    async def aclose(self) -> None:
        """Stops reading."""
        self._leave()

    def __del__(self) -> None:
        if in_this_process():
            self._leave()

    async def _fill(self, most: int, step: int | None) -> bool:
        try:
            more = await self._stream._fill(most, step)
        except KimiAgentError:
            self._leave()
            raise
        except asyncio.CancelledError:
            del self
            raise
        if not more:
            self._leave()
        return more

    async def _next_of(self, step: tuple[int, int]) -> Event | None:
        native = self._stream._native
        if self._current != step:
            return None
        event = native.pop()
        if event is not None or self._left:
            return event
        try:
            if not await self._fill(_BATCH, step[0]):
                return None
        except asyncio.CancelledError:
            del self
            raise
        return native.pop()

    def _leave(self) -> None:
        self._left = True
        if self._reading:
            self._reading = False
            self._stream._stop_reading(self)


class Step:
    """One step of a turn: a call of the model, and the tools that it asked for. `async for` gives its events."""

    __slots__ = ("_step", "_steps")

    def __init__(self, steps: Steps, step: tuple[int, int]) -> None:
        # A step that a program still has in a variable must not keep alive a turn whose loop it has left.
        self._steps = weakref.ref(steps)
        self._step = step

    @property
    def n(self) -> int:
        """The agent's number for it, from 1."""
        return self._step[1]

    def __repr__(self) -> str:
        return f"Step({self.n})"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = await self.take_later()
        if event is None:
            raise StopAsyncIteration
        return event

    def _reading(self) -> Steps:
        steps = self._steps()
        if steps is None:
            raise KimiAgentError("the loop over the steps has been left; read a step inside of that loop")
        return steps

    def take(self) -> Event | None:
        """The next event of the step, if it is there already."""
        steps = self._reading()
        return steps._stream._native.pop() if steps._current == self._step else None

    async def take_later(self) -> Event | None:
        """The next event of the step; None after its last one."""
        return await self._reading()._next_of(self._step)
