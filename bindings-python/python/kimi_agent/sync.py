"""The same as in `kimi_agent`, blocking: for programs without coroutines.

>>> from kimi_agent import TextPart, sync
>>> def main():
...     with sync.create_session(work_dir=".") as session:
...         for event in session.prompt("What is in this directory?"):
...             if isinstance(event, TextPart):
...                 print(event.text, end="")

Sessions and turns may be used from any thread, by one thread at a time; handlers that are plain functions run in
threads of their own and may use them, too. Ctrl-C interrupts every wait.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from . import _agent, _native, _session, _stream
from ._background import block, run, run_call
from ._errors import KimiAgentError, TurnInProgress
from ._handlers import serving_job
from ._holders import abandon_if_lost
from ._loop import in_this_process

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._interface import Answer, Request
    from ._option_types import (
        AgentOptions,
        AgentSessionOptions,
        OneShotOptions,
        PromptOptions,
        Seconds,
        SessionOptions,
        StrPath,
        UserInput,
    )
    from ._results import Capabilities, PromptResult, SessionInfo
    from ._wire import Event, ExternalToolsResult, ServerInfo, SlashCommand, StatusUpdate, TokenUsage

__all__ = [
    "Agent",
    "EventIterator",
    "Replay",
    "Session",
    "Step",
    "Steps",
    "TextStream",
    "Turn",
    "create_session",
    "open_agent",
    "prompt",
]

Inner = TypeVar("Inner", _agent.Agent, _session.Session)


class EventIterator(_native.BlockingReader):
    """The events of a turn or a replay, one by one. Leaving it leaves the events to a later reader.

    Several threads may take events from one iterator: each event goes to one of them, and all of them end with the
    turn, or with `close()`.
    """

    __slots__ = ("_lock", "_open", "_stream")

    def __new__(cls, stream: _stream.Stream) -> Self:
        return super().__new__(cls, stream._native)

    def __init__(self, stream: _stream.Stream) -> None:
        self._open = False
        # The core has a place for one thread that waits.
        self._lock = threading.Lock()
        self._stream = stream
        stream._start_reading(self, by_step=False)
        self._open = True

    def _later(self) -> Event:
        native = self._stream._native
        try:
            with self._lock:
                while True:
                    # Looked at before `_open`, so that a close in between ends the wait.
                    seen = native.interrupts
                    if not self._open:
                        break
                    more = self._stream._fetch()
                    if more is None:
                        block(partial(native.block, seen))
                    elif not more:
                        self.close()
                    elif (event := native.pop()) is not None:
                        return event
        except KimiAgentError:
            self.close()
            raise
        except BaseException:
            # Ctrl-C: the traceback, which a REPL keeps, does not keep the turn.
            del self, native
            raise
        raise StopIteration

    def close(self) -> None:
        """Stops reading."""
        if self._open:
            self._open = False
            self._leave_events()
            self._stream._stop_reading(self)
            self._stream._native.interrupt()

    def __del__(self) -> None:
        if in_this_process():
            self.close()


class TextStream:
    """The answer's text, piece by piece, as plain strings: neither thoughts nor text of subagents."""

    __slots__ = ("_events", "_stream", "_text_part")

    def __init__(self, stream: _stream.Stream) -> None:
        from ._wire import TextPart

        self._stream = stream
        self._events: EventIterator | None = None
        self._text_part = TextPart

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if self._events is None:
            self._events = EventIterator(self._stream)
        try:
            while True:
                event = next(self._events)
                if isinstance(event, self._text_part) and event.text:
                    return event.text
        except KeyboardInterrupt:
            # As in EventIterator.
            del self
            raise

    def close(self) -> None:
        """Stops reading."""
        if self._events is not None:
            self._events.close()


class Step:
    """One step of a turn; `for` gives its events."""

    __slots__ = ("_step",)

    def __init__(self, step: _stream.Step) -> None:
        self._step = step

    @property
    def n(self) -> int:
        """The agent's number for it, from 1."""
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


class Steps:
    """The steps of a turn, one by one. Going on to the next one passes over what was not read of the last."""

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


class _Events:
    """What a turn and a replay share."""

    __slots__ = ("_stream",)

    def __init__(self, stream: _stream.Stream) -> None:
        self._stream = stream

    def __iter__(self) -> EventIterator:
        return EventIterator(self._stream)


class Replay(_Events):
    """The events of a session's past. Requests in it are not to be answered."""

    __slots__ = ()


class Turn(_Events):
    """A turn: the agent's answer to a prompt, under way from the start.

    `for` gives its events as they come, `turn.steps` the same step by step; `result()` alone runs it to its end.
    Losing the last reference to a turn that runs cancels it, and so does leaving `with`.
    """

    __slots__ = ("__weakref__", "_turn")

    def __init__(self, turn: _session.Turn) -> None:
        super().__init__(turn)
        self._turn = turn

    @property
    def id(self) -> str:
        """Its id, unique in the session."""
        return self._turn.id

    @property
    def usage(self) -> TokenUsage:
        """The tokens that it has taken until now."""
        return self._turn.usage

    @property
    def discarded(self) -> int:
        """How many events were dropped because the buffer (`event_buffer_bytes`) was full: while `result()` waited and
        nobody read, or after `cancel()`."""
        return self._turn.discarded

    @property
    def text_stream(self) -> TextStream:
        """The answer's text as it comes: `for piece in turn.text_stream` gives plain strings.

        No piece is empty. Thoughts and text of subagents are left out. It reads the turn by event, as a loop over the
        turn does.
        """
        return TextStream(self._turn)

    @property
    def steps(self) -> Steps:
        """The turn step by step: `for step in turn.steps`, in it `for event in step`."""
        return Steps(self._turn.steps)

    def result(self) -> PromptResult:
        """Waits for the end of the turn and returns its outcome.

        Takes no events away from a reader: events wait in the buffer, also for a loop that starts later. If the buffer
        is full and nobody reads, further events are dropped and counted in `discarded`, so that the turn always ends. A
        request that waits for `respond()` and is unread for one second is then rejected (a question: dismissed).
        """
        try:
            return run(self._turn._result(serving_job()))
        except BaseException:
            # As in EventIterator. Ctrl-C may come before the wait has begun.
            self._turn._native.note_used()
            del self
            raise

    def cancel(self) -> None:
        """Stops the turn and waits until it has settled; does nothing if it has ended."""
        run(self._turn.cancel())

    def steer(self, content: UserInput) -> None:
        """Says something to the model while the turn runs (from Wire 1.3 on)."""
        run(self._turn.steer(content))

    def respond(self, request: Request, answer: Answer) -> None:
        """Answers a request of this turn, where the option that would answer it is "manual"."""
        run(self._turn.respond(request, answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self._turn.__aexit__(kind, error, traceback))

    def _abandon(self) -> None:
        self._turn._abandon()

    def __repr__(self) -> str:
        return repr(self._turn)


class _Owner(Generic[Inner]):
    """What owns agents until it is closed."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Inner) -> None:
        self._inner: Inner = inner

    def close(self, timeout: Seconds = None) -> None:
        run(self._inner.close(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._inner)


class Session(_Owner[_session.Session]):
    """A session with an agent, that remembers from turn to turn. See `create_session`."""

    __slots__ = ("_latest",)

    def __init__(self, inner: _session.Session) -> None:
        super().__init__(inner)
        self._latest: weakref.ref[Turn] | None = None

    @property
    def id(self) -> str:
        """Its id, to resume it by."""
        return self._inner.id

    @property
    def work_dir(self) -> str:
        """The directory that the agent works in."""
        return self._inner.work_dir

    @property
    def state(self) -> Literal["idle", "active", "closed"]:
        """Whether a turn runs."""
        return self._inner.state

    @property
    def protocol_version(self) -> str | None:
        """The version of Wire that the agent speaks."""
        return self._inner.protocol_version

    @property
    def server(self) -> ServerInfo | None:
        """Name and version of the agent, if it says."""
        return self._inner.server

    @property
    def capabilities(self) -> Capabilities:
        """What the agent can do."""
        return self._inner.capabilities

    @property
    def slash_commands(self) -> list[SlashCommand]:
        """The commands that a prompt may begin with. Agents of ACP tell them soon after the session has opened, and
        again when they change; each time `on_event` gets an `available_commands_update`."""
        return self._inner.slash_commands

    @property
    def external_tools(self) -> ExternalToolsResult:
        """Which of the program's tools the agent took, and why not the others."""
        return self._inner.external_tools

    @property
    def pid(self) -> int | None:
        """The process id of the agent."""
        return self._inner.pid

    @property
    def usage(self) -> TokenUsage:
        """The tokens of all turns until now."""
        return self._inner.usage

    @property
    def status(self) -> StatusUpdate:
        """How things stand, all updates put together: context, plan mode, MCP servers."""
        return self._inner.status

    def prompt(self, content: UserInput, **options: Unpack[PromptOptions]) -> Turn:
        """Says something to the agent. Returns at once; the turn is under way. One turn runs at a time.

        Args:
            content: text, or a list of content parts.
            timeout: seconds that this turn may take; it overrides the session's `turn_timeout`.
            idle_timeout: seconds that the agent may send nothing; it overrides the session's.

        Raises at the call: `TurnInProgress` while another turn is held and runs, `InvalidOption` for a wrong option,
        what ended the session if it is closed.
        """
        turn = Turn(self._prompt(content, options))
        self._latest = weakref.ref(turn)
        return turn

    def _prompt(self, content: UserInput, options: PromptOptions) -> _session.Turn:
        prompt = partial(self._inner.prompt, **options)
        try:
            return run_call(prompt, content)
        except TurnInProgress:
            # The running turn may be one that only a traceback holds, for example that of a Ctrl-C at a REPL.
            if not abandon_if_lost(self._latest):
                raise
        return run_call(prompt, content)

    def replay(self) -> Replay:
        """What has happened in the session, once more (from Wire 1.3 on)."""
        return Replay(run_call(self._inner.replay))

    def set_plan_mode(self, on: bool) -> None:
        """Switches plan mode, in which the agent plans and changes nothing (from Wire 1.4 on)."""
        run(self._inner.set_plan_mode(on))

    def respond(self, request: Request, answer: Answer) -> None:
        """Answers a request that came outside a turn, where the option that would answer it is "manual"."""
        run(self._inner.respond(request, answer))

    def cancel(self) -> None:
        """Cancels the turn that runs, if there is one, and waits until it has ended: also a turn that was dropped and
        whose end is still under way. Does nothing without a turn, or if the session is closed.

        Raises `Timeout` if the agent does not answer within `cancel_timeout`; the session is over then.
        """
        run(self._inner.cancel())

    def close(self, timeout: Seconds = None) -> None:
        """Stops the turn that runs, if any, and ends the agent. Closing twice is fine.

        `timeout`, in seconds, overrides `close_timeout`. 0 kills the agent at once; a turn that runs then fails with
        `SessionClosed`.
        """
        super().close(timeout)


async def _opened(opening: Awaitable[Inner]) -> Inner:
    return await opening


def create_session(**options: Unpack[SessionOptions]) -> Session:
    """Opens a session: starts an agent and shakes hands with it. Takes the options of `kimi_agent.create_session`.

    `with create_session(work_dir=".") as session: …` closes it at the end of the block.
    """
    opening = _session.create_session(**options)
    # They may be secret, and reports of errors may show what frames hold.
    del options
    return Session(run(_opened(opening)))


class Agent(_Owner[_agent.Agent]):
    """An agent that has any number of sessions at once. See `open_agent`."""

    __slots__ = ()

    def create_session(self, **options: Unpack[AgentSessionOptions]) -> Session:
        """Opens a session. The options are those of `create_session`, but for those that are the agent's."""
        opening = self._inner.create_session(**options)
        # As in create_session.
        del options
        return Session(run(_opened(opening)))

    def resume(self, session_id: str, /, **options: Unpack[AgentSessionOptions]) -> Session:
        """Goes on with a session: `create_session` with a `session_id`."""
        opening = self._inner.resume(session_id, **options)  # pyright: ignore[reportArgumentType]
        del options
        return Session(run(_opened(opening)))

    def fork(self, session_id: str, /, **options: Unpack[AgentSessionOptions]) -> Session:
        """Opens a session that begins with the past of another, which stays as it is."""
        opening = self._inner.fork(session_id, **options)  # pyright: ignore[reportArgumentType]
        del options
        return Session(run(_opened(opening)))

    def list_sessions(self, work_dir: StrPath | None = None) -> list[SessionInfo]:
        """The sessions that the agent keeps, those of other processes included; only those of `work_dir`, if given."""
        return run(self._inner.list_sessions(work_dir))

    def close(self, timeout: Seconds = None) -> None:
        """Closes all sessions and waits until no process is left. Closing twice is fine.

        `timeout`, in seconds, overrides `close_timeout` for the sessions and the processes. 0 kills at once.
        """
        super().close(timeout)


def open_agent(**options: Unpack[AgentOptions]) -> Agent:
    """Opens an agent, whose sessions share one process where its protocol can. Takes the options of
    `kimi_agent.open_agent`.

    >>> from kimi_agent.testing import scripted_agent
    >>> with open_agent(executable=scripted_agent([[{"text": "Hello!"}]])) as agent:
    ...     session = agent.create_session(work_dir=".")
    ...     session.prompt("Say hello").result().text
    'Hello!'
    """
    opening = _agent.open_agent(**options)
    # As in create_session.
    del options
    return Agent(run(_opened(opening)))


def prompt(content: UserInput, **options: Unpack[OneShotOptions]) -> Turn:
    """One turn in a session of its own, which is opened for it and closed after it.

    `for event in prompt("…", work_dir=".")`, or `prompt("…").result()`. Takes the options of `create_session`, and
    `timeout`: seconds that the turn may take, without the start of the agent.

    >>> from kimi_agent.testing import scripted_agent
    >>> prompt("Say hello", executable=scripted_agent([[{"text": "Hello!"}]])).result().text
    'Hello!'
    """
    try:
        # It has run before they are deleted.
        return Turn(run_call(lambda: _session.prompt(content, **options)))  # noqa: F821
    finally:
        # As in create_session.
        del options
