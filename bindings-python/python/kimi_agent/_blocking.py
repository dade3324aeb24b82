"""The hand-written part of `kimi_agent.sync`: reading, and what its classes have in common."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from . import _agent, _batch, _native, _session, _stream, _turn
from ._background import block, run, run_call
from ._errors import KimiAgentError, TurnInProgress, from_native
from ._handlers import serving_job
from ._hints import MadeByFunction, Property, no_attribute
from ._holders import abandon_if_lost
from ._loop import called
from ._opening import Opening
from ._output import T_co
from ._process import in_this_process

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._job import JobResult
    from ._option_types import Seconds, UserInput
    from ._results import PromptResult
    from ._wire import Event

__all__ = [
    "EventIterator",
    "Owner",
    "Prompter",
    "Readable",
    "Results",
    "Step",
    "Steps",
    "TextStream",
    "Waiter",
    "opened",
]

Inner = TypeVar("Inner", covariant=True)
Stream = TypeVar("Stream", bound=_stream.Stream, covariant=True)
Owned = TypeVar("Owned", bound="_agent.Agent | _session.Session[Any]", covariant=True)
Turn = TypeVar("Turn", bound="Waiter[Any]")


class EventIterator:
    """The events of a turn or a replay, one by one. Leaving it leaves the events to a later reader.

    Several threads may take events from one iterator: each event goes to one of them, and all of them end with the
    turn, or with `close()`. `for event in turn` makes it.

    >>> events = iter(turn)
    >>> next(events)
    TurnBegin(user_input='What is in this directory?')
    """

    __slots__ = ("__weakref__", "_lock", "_open", "_stream")

    def __init__(self, stream: _stream.Stream) -> None:
        self._open = False
        # The core has a place for one thread that waits.
        self._lock = threading.Lock()
        self._stream = stream
        stream._start_reading(self, by_step=False)
        self._open = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        native = self._stream._native
        try:
            with self._lock:
                while True:
                    # Looked at before `_open`, so that a close in between ends the wait.
                    seen = native.interrupts
                    if not self._open:
                        break
                    event = native.next()
                    if event is not None:
                        return event
                    if (within := serving_job()) is not None:
                        called(native.check_wait, within)
                    block(partial(native.block, seen))
        except StopAsyncIteration:
            self.close()
        except _native.NativeError as error:
            self.close()
            raise from_native(*error.args) from None
        except KimiAgentError:
            self.close()
            raise
        except BaseException:
            # Ctrl-C: the traceback, which a REPL keeps, does not keep the turn.
            del self, native
            raise
        raise StopIteration

    def close(self) -> None:
        """Stops reading. The events that were not read stay for a later reader.

        >>> events = iter(turn)
        >>> first = next(events)
        >>> events.close()
        >>> for event in turn:
        ...     print(event)
        StepBegin(n=1)
        TextPart(text='There are 3 files.')
        TurnEnd()
        """
        if self._open:
            self._open = False
            self._stream._stop_reading(self)
            self._stream._native.interrupt()

    def __del__(self) -> None:
        if in_this_process():
            self.close()


class TextStream(Property):
    """The answer's text, piece by piece, as plain strings: neither thoughts nor text of subagents.

    `Turn.text_stream` returns it.

    >>> for piece in turn.text_stream:
    ...     print(piece)
    There are 3 files.
    """

    __slots__ = ("_events", "_pieces", "_stream")

    def __init__(self, stream: _stream.Stream) -> None:
        self._stream = stream
        self._events: EventIterator | None = None
        self._pieces = _stream.Pieces()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if self._events is None:
            self._events = EventIterator(self._stream)
        try:
            while True:
                piece = self._pieces.of(next(self._events))
                if piece:
                    return piece
        except KeyboardInterrupt:
            # As in EventIterator.
            del self
            raise

    def close(self) -> None:
        """Stops reading. The events that were not read stay for a later reader.

        >>> texts = turn.text_stream
        >>> next(texts)
        'There are 3 files.'
        >>> texts.close()
        """
        if self._events is not None:
            self._events.close()


class Step:
    """One step of a turn: a call of the model, and the tools that it asked for. `for` gives its events.

    `Turn.steps` gives the steps.

    >>> for step in turn.steps:
    ...     for event in step:
    ...         if isinstance(event, TextPart):
    ...             print(step.n, event.text)
    1 There are 3 files.
    """

    __slots__ = ("_step",)

    def __init__(self, step: _stream.Step) -> None:
        self._step = step

    @property
    def n(self) -> int:
        """The agent's number for the step, from 1."""
        return self._step.n

    def __repr__(self) -> str:
        return repr(self._step)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._step.take()
        if event is None:
            event = run(self._step.take_later())
        if event is None:
            raise StopIteration
        return event


class Steps(Property):
    """The steps of a turn, one by one. The next step passes over the unread events of the step before it.

    `Turn.steps` returns it.

    >>> for step in turn.steps:
    ...     print("Step", step.n)
    Step 1
    """

    __slots__ = ("_steps",)

    def __init__(self, steps: _stream.Steps) -> None:
        self._steps = steps

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Step:
        try:
            step = run(self._next())
        except BaseException:
            # As in EventIterator.
            del self
            raise
        if step is None:
            raise StopIteration
        return Step(step)

    async def _next(self) -> _stream.Step | None:
        try:
            return await self._steps.__anext__()
        except StopAsyncIteration:
            return None


class _Blocking(MadeByFunction, Generic[Inner]):
    """Does the work with the object of the asynchronous API."""

    __slots__ = ("__weakref__", "_inner")

    def __init__(self, inner: Inner) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    def __reduce__(self) -> NoReturn:
        # A copy would close the original.
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled")


class Readable(_Blocking[Stream]):
    """The events of a turn or a replay, for `for`."""

    __slots__ = ()

    def __iter__(self) -> EventIterator:
        return EventIterator(self._inner)


class Waiter(Readable[_turn.Turn[T_co]], Generic[T_co]):
    """Methods of a turn alone."""

    __slots__ = ()

    def _wait(self) -> PromptResult[T_co]:
        try:
            return run(self._inner._result(serving_job()))
        except BaseException:
            # As in EventIterator. Ctrl-C may come before the wait has begun.
            self._inner._native.note_used()
            del self
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self._inner.__aexit__(kind, error, traceback))

    def _abandon(self) -> None:
        self._inner._abandon()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, wait="")


class Results(_Blocking[_batch.Batch[T_co]], Generic[T_co]):
    """The results of a batch, for `for`. Ctrl-C cancels the batch, so that its journal is complete."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> JobResult[T_co]:
        try:
            result = run(self._inner._next())
        except KeyboardInterrupt:
            # A second Ctrl-C ends this wait.
            run(self._inner.cancel())
            raise
        if result is None:
            raise StopIteration
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self._inner.cancel())


class Owner(_Blocking[Owned]):
    """A session or an agent, which `with` closes."""

    __slots__ = ()

    def close(self, timeout: Seconds = None) -> None:
        run(self._inner.close(timeout))

    def __enter__(self) -> Self:
        self._inner._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self._inner.__aexit__(kind, error, traceback))


class Prompter(Owner[_session.Session[T_co]], Generic[T_co]):
    """Methods of a session alone."""

    __slots__ = ("_latest",)

    def __init__(self, inner: _session.Session[T_co]) -> None:
        super().__init__(inner)
        self._latest: weakref.ref[Waiter[Any]] | None = None

    def _prompt(self, make: Callable[[_turn.Turn[Any]], Turn], content: UserInput, options: Mapping[str, Any]) -> Turn:
        turn = make(self._begin(content, options))
        self._latest = weakref.ref(turn)
        return turn

    def _begin(self, content: UserInput, options: Mapping[str, Any]) -> _turn.Turn[Any]:
        prompt = partial(self._inner.prompt, **options)
        try:
            return run_call(prompt, content)
        except TurnInProgress:
            # The running turn may be one that only a traceback holds, for example that of a Ctrl-C at a REPL.
            if not abandon_if_lost(self._latest):
                raise
        return run_call(prompt, content)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, wait="")


def opened(opening: Awaitable[Inner]) -> Inner:
    """Waits until a session or an agent is open."""
    # At the end of the program it is not opened any more. The program has no coroutine that it could await.
    if isinstance(opening, Opening):
        opening._is_told = True

    async def wait() -> Inner:
        return await opening

    return run(wait())
