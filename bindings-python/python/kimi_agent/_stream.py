"""Iterators over the events of a turn or a replay. The core decides which event comes next and where a step ends."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, NoReturn, TypeVar

from . import _native
from ._errors import KimiAgentError, from_native
from ._handlers import serving_job
from ._hints import CoroutinesOnly, MadeByFunction, Property
from ._holders import Waits
from ._loop import LoopMailbox, called
from ._process import in_this_process

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._wire import Event

__all__ = ["EventIterator", "Pieces", "Step", "Steps", "Stream", "TextStream"]

T = TypeVar("T")


class Stream(MadeByFunction, CoroutinesOnly):
    """The events of a turn or a replay. Internal: `Turn` and `Replay` are its public forms.

    Coroutines that wait here release the stream when they are cancelled (`del self`): their task has left the turn,
    even if something still holds the task, and with it the traceback.
    """

    __slots__ = (
        "__weakref__",
        "_batch",
        "_last",
        "_mailbox",
        "_native",
        "_reader",
        "_size",
        "_waiter",
        "_waits",
    )

    def __init__(self, native: _native.Turn, mailbox: LoopMailbox) -> None:
        self._native = native
        self._mailbox = mailbox
        # The events of the last batch that the program has not taken. A later reader continues with them.
        self._batch: Iterator[Event] = iter(())
        self._last: Event | None = None
        self._size = 0
        self._reader: object = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits = Waits()
        mailbox.add_stream(native.key, self)

    def __del__(self) -> None:
        # The program has dropped the turn, which is then cancelled. Does nothing if the turn has ended.
        native = getattr(self, "_native", None)
        if native is not None and in_this_process():
            native.abandon()

    def _abandon(self) -> None:
        """Cancels a turn that the program lost by an exception, without a warning. Does nothing after the end."""
        self._native.note_used()
        self._report()
        self._batch, self._last = iter(()), None
        self._native.abandon()

    def _wait_cancelled(self) -> None:
        """A coroutine that waited for the stream was cancelled, and releases it."""
        self._waits.cancelled(weakref.ref(self))

    def __reduce__(self) -> NoReturn:
        # The end of a copy would end the turn.
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled")

    def _wake(self) -> None:
        """There is something to fetch."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fetch(self) -> Event | None:
        """Returns the next event after those in `_batch`, with the next batch if need be. None: there is none yet."""
        last, self._last = self._last, None
        if last is None:
            batch = self._native.next_batch()
            if batch is None:
                return None
            last = batch.pop()
            self._size = len(batch) + 1
            if batch:
                self._batch, self._last = iter(batch), last
                return next(self._batch)
        # A handler may wait until the program has got the events before its request.
        self._native.take_batch(self._size)
        return last

    def _report(self) -> None:
        """Reports how many events of the batch the program has got."""
        if self._last is not None:
            self._native.take_batch(self._size - 1 - length_hint(self._batch))

    def _start_reading(self, reader: object, *, by_step: bool) -> None:
        # Raises if another loop reads the events.
        called(self._native.start_loop, by_step)
        self._reader = id(reader)

    def _stop_reading(self, reader: object) -> None:
        if self._reader == id(reader):
            self._reader = None
            self._report()
            self._native.leave()

    async def _until(self, poll: Callable[[], T | None], leave: Callable[[], None]) -> T:
        """Waits until `poll` returns something. Leaves the loop if the turn failed."""
        try:
            while (found := poll()) is None:
                await self._wait()
            return found
        except asyncio.CancelledError:
            self._wait_cancelled()
            del self, poll, leave
            raise
        except _native.NativeError as error:
            leave()
            raise from_native(*error.args) from None
        except KimiAgentError:
            leave()
            raise

    def _wait(self) -> asyncio.Future[None]:
        if self._waiter is not None and not self._waiter.done():
            raise KimiAgentError("another task waits for the next event of this turn already; read a turn in one task")
        if (within := serving_job()) is not None:
            called(self._native.check_wait, within)
        self._waiter = self._mailbox.check().create_future()
        return self._waiter


class EventIterator(CoroutinesOnly):
    """The events of a turn or a replay, one by one. Leaving it leaves the events to a later reader.

    `async for event in turn` makes it.

    >>> events = aiter(turn)
    >>> await anext(events)
    TurnBegin(user_input='What is in this directory?')
    """

    __slots__ = ("__weakref__", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream: Stream | None = None
        stream._start_reading(self, by_step=False)
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        stream = self._stream
        if stream is None:
            raise StopAsyncIteration
        for ready in stream._batch:
            return ready
        try:
            # Not by `_until`, which would cost another coroutine for each event.
            while (event := stream._fetch()) is None:
                await stream._wait()
            return event
        except asyncio.CancelledError:
            stream._wait_cancelled()
            del self, stream
            raise
        except _native.NativeError as error:
            self._leave()
            raise from_native(*error.args) from None
        except (KimiAgentError, StopAsyncIteration):
            self._leave()
            raise

    async def aclose(self) -> None:
        """Stops reading. The events that were not read stay for a later reader.

        >>> events = aiter(turn)
        >>> first = await anext(events)
        >>> await events.aclose()
        >>> async for event in turn:
        ...     print(event)
        StepBegin(n=1)
        TextPart(text='There are 3 files.')
        TurnEnd()
        """
        self._leave()

    def __del__(self) -> None:
        if in_this_process():
            self._leave()

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream._stop_reading(self)


class Pieces:
    """The pieces of the answer's text in events, with a blank line between two messages of one step. Internal."""

    __slots__ = ("_message", "_step_begin", "_text_part")

    def __init__(self) -> None:
        from ._wire import StepBegin, TextPart

        self._step_begin, self._text_part = StepBegin, TextPart
        # The message of the last piece, if the agent sends ids.
        self._message: str | None = None

    def of(self, event: Event) -> str:
        """Returns the piece in an event. Empty if there is none."""
        if isinstance(event, self._text_part):
            message = event.message_id
            if message is None or not event.text or message == self._message:
                return event.text
            before, self._message = self._message, message
            return event.text if before is None else f"\n\n{event.text}"
        if isinstance(event, self._step_begin):
            self._message = None
        return ""


class TextStream(Property, CoroutinesOnly):
    """The answer's text, piece by piece, as plain strings: neither thoughts nor text of subagents.

    `Turn.text_stream` returns it.

    >>> async for piece in turn.text_stream:
    ...     print(piece)
    There are 3 files.
    """

    __slots__ = ("_events", "_pieces", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._events: EventIterator | None = None
        self._pieces = Pieces()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        if self._events is None:
            self._events = EventIterator(self._stream)
        try:
            while True:
                piece = self._pieces.of(await self._events.__anext__())
                if piece:
                    return piece
        except asyncio.CancelledError:
            # As in Stream: the traceback does not keep the turn.
            del self
            raise

    async def aclose(self) -> None:
        """Stops reading. The events that were not read stay for a later reader.

        >>> texts = turn.text_stream
        >>> await anext(texts)
        'There are 3 files.'
        >>> await texts.aclose()
        """
        if self._events is not None:
            await self._events.aclose()


class Steps(Property, CoroutinesOnly):
    """The steps of a turn, one by one. The next step passes over the unread events of the step before it.

    `Turn.steps` returns it.

    >>> async for step in turn.steps:
    ...     print("Step", step.n)
    Step 1
    """

    __slots__ = ("__weakref__", "_is_reading", "_left", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._is_reading = False
        self._left = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        if self._left:
            raise StopAsyncIteration
        stream = self._stream
        if not self._is_reading:
            stream._start_reading(self, by_step=True)
            self._is_reading = True
        try:
            return Step(self, *await stream._until(stream._native.next_step, self._leave))
        except asyncio.CancelledError:
            # As in Stream.
            del self, stream
            raise
        except StopAsyncIteration:
            self._leave()
            raise

    async def aclose(self) -> None:
        """Stops reading. The events that were not read stay for a later reader.

        >>> steps = turn.steps
        >>> await anext(steps)
        Step(1)
        >>> await steps.aclose()
        """
        self._leave()

    def __del__(self) -> None:
        if in_this_process():
            self._leave()

    def _leave(self) -> None:
        self._left = True
        if self._is_reading:
            self._is_reading = False
            self._stream._stop_reading(self)


class Step(CoroutinesOnly):
    """One step of a turn: a call of the model, and the tools that it asked for. `async for` gives its events.

    `Turn.steps` gives the steps.

    >>> async for step in turn.steps:
    ...     async for event in step:
    ...         if isinstance(event, TextPart):
    ...             print(step.n, event.text)
    1 There are 3 files.
    """

    __slots__ = ("_index", "_n", "_steps")

    def __init__(self, steps: Steps, index: int, n: int) -> None:
        # A step that a program still has in a variable must not keep alive a turn whose loop it has left.
        self._steps = weakref.ref(steps)
        self._index = index
        self._n = n

    @property
    def n(self) -> int:
        """The agent's number for the step, from 1."""
        return self._n

    def __repr__(self) -> str:
        return f"Step({self.n})"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        steps = self._reading()
        try:
            return await steps._stream._until(partial(steps._stream._native.next_of, self._index), steps._leave)
        except asyncio.CancelledError:
            # As in Stream.
            del self, steps
            raise

    def _reading(self) -> Steps:
        steps = self._steps()
        if steps is None:
            raise KimiAgentError("the loop over the steps has been left; read a step inside of that loop")
        return steps

    def take(self) -> Event | None:
        """Returns the next event of the step if it is there already. None: there is none yet, or the step has ended.

        Raises:
            KimiAgentError: The loop over the steps has been left, or the turn failed.

        >>> async for step in turn.steps:
        ...     event = step.take()
        """
        steps = self._reading()
        try:
            return called(steps._stream._native.next_of, self._index)
        except StopAsyncIteration:
            return None
        except KimiAgentError:
            steps._leave()
            raise

    async def take_later(self) -> Event | None:
        """Returns the next event of the step; None after its last one.

        Raises:
            KimiAgentError: The loop over the steps has been left, or the turn failed.

        >>> async for step in turn.steps:
        ...     while event := await step.take_later():
        ...         print(event)
        TurnBegin(user_input='What is in this directory?')
        StepBegin(n=1)
        TextPart(text='There are 3 files.')
        TurnEnd()
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            return None
