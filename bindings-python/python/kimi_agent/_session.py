"""Sessions and turns for coroutines. tools/generate_sync.py makes `kimi_agent.sync` from the public names."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Generator, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from . import _native
from ._encode import kind_of, seconds, to_jsonable
from ._errors import InvalidOption, KimiAgentError, TurnInProgress
from ._handlers import Handlers, encode_answer, serving_job
from ._holders import abandon_if_lost
from ._loop import LoopMailbox, called, show_messages
from ._message import Message
from ._opening import Opening, Owner, begun
from ._stream import EventIterator, Steps, Stream, TextStream

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._interface import Answer, Begin, Callbacks, Request
    from ._option_types import OneShotOptions, PromptOptions, Seconds, SessionOptions, UserInput
    from ._results import Capabilities, PromptResult
    from ._wire import ExternalToolsResult, ServerInfo, SlashCommand, StatusUpdate, TokenUsage

__all__ = ["Replay", "Session", "SessionOpening", "Turn", "create_session", "prompt"]


class Turn(Stream):
    """The agent's answer to a prompt. It runs from the start, also if nobody reads it.

    `async for event in turn` gives its events as they come, `turn.steps` the same step by step, `turn.text_stream` only
    the answer's text. `await turn.result()` alone runs it to its end. A turn that still runs is cancelled when its
    `async with` block ends, and when the program drops the last reference to it.

    Awaiting a turn is the same as awaiting `turn.result()`.
    """

    __slots__ = ("_handlers", "_session")

    def __init__(
        self, native: _native.Turn, mailbox: LoopMailbox, handlers: Handlers, session: Session | None = None
    ) -> None:
        super().__init__(native, mailbox)
        self._handlers = handlers
        # A turn keeps its session open.
        self._session = session

    @property
    def id(self) -> str:
        """The turn's id, unique in the session."""
        return self._native.id

    @property
    def usage(self) -> TokenUsage:
        """The tokens that the turn has used until now."""
        return self._native.usage()

    @property
    def discarded(self) -> int:
        """The number of events that were dropped because the buffer (`event_buffer_bytes`) was full.

        Events are dropped only while `result()` waits and nobody reads, and after `cancel()`.
        """
        return self._native.discarded

    @property
    def steps(self) -> Steps:
        """Iterates over the turn step by step: `async for step in turn.steps`, then `async for event in step`."""
        return Steps(self)

    @property
    def text_stream(self) -> TextStream:
        """Iterates over the answer's text as it comes: `async for piece in turn.text_stream` gives plain strings.

        No piece is empty. Thoughts and the text of subagents are left out. It reads the turn, so a loop over the turn
        cannot read it at the same time.
        """
        return TextStream(self)

    def __aiter__(self) -> EventIterator:
        return EventIterator(self)

    def __await__(self) -> Generator[Any, None, PromptResult]:
        return self.result().__await__()

    async def result(self) -> PromptResult:
        """Waits for the end of the turn and returns its outcome.

        It can be called again, and takes no events away from a reader: they wait in the buffer, also for a loop that
        starts later. If the buffer is full and nobody reads, further events are dropped and counted in `discarded`, so
        that the turn always ends. If nobody reads, a request that waits for `respond()` is rejected after one second (a
        question: dismissed).

        Cancelling the wait does not end a turn that the program still holds. Any other turn is cancelled, unless
        something else reads it or waits for it.

        Raises:
            TurnInProgress: A handler of this turn calls this, and the two would wait for each other.
            KimiAgentError: The error that ended the turn, for example `AgentExited` or an `RpcError`.
        """
        try:
            return await self._result(serving_job())
        except asyncio.CancelledError:
            # As in Stream: the traceback does not keep the turn.
            del self
            raise

    async def _result(self, within: int | None) -> PromptResult:
        self._mailbox.check()
        try:
            if self._reader is None and self._native.outcome() is None:
                # A loop that another task is about to start counts as a reader.
                await asyncio.sleep(0)
            outcome = await self._mailbox.wait(called(self._native.result, within))
        except asyncio.CancelledError:
            self._wait_cancelled()
            del self
            raise
        from ._results import result_of

        return result_of(outcome)

    async def cancel(self) -> None:
        """Cancels the turn and waits until it has ended. Does nothing if it has ended.

        Raises:
            Timeout: The agent does not answer within `cancel_timeout`. The session is closed.
        """
        await self._mailbox.call(self._native.cancel)

    async def steer(self, content: UserInput) -> None:
        """Says something to the model while the turn runs (from Wire 1.4 on).

        Raises:
            NoActiveTurn: The turn has ended.
            Unsupported: The agent cannot be steered.
        """
        await self._mailbox.call(self._native.steer, encode_input(content))

    async def respond(self, request: Request, answer: Answer) -> None:
        """Answers a request of this turn, if `on_approval` or `on_question` is "manual".

        Args:
            request: The request, or its id.
            answer: What the handler would return. Default of a question: None, which dismisses it.

        Raises:
            InvalidOption: The answer does not fit, or there is no such request. The request still waits.
        """
        await self._mailbox.call(self._native.respond, request_reference(request), given_answer(answer))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._native.outcome() is not None:
            return
        try:
            await self.cancel()
        except KimiAgentError:
            # The program has left; what is wrong with the session its next call will say.
            if error is None and self._native.outcome() is None:
                raise

    def __repr__(self) -> str:
        return f"<Turn {self.id}>"


class Replay(Stream):
    """The events of a session's past: `async for event in session.replay()`. Its requests need no answer."""

    __slots__ = ("_session",)

    def __init__(self, native: _native.Turn, mailbox: LoopMailbox, session: Session) -> None:
        super().__init__(native, mailbox)
        self._session = session

    def __aiter__(self) -> EventIterator:
        return EventIterator(self)


class Session(Owner[_native.Session]):
    """A conversation with an agent. `create_session` opens it."""

    __slots__ = ("_latest", "_origin")

    _name = "a Session"

    def __init__(
        self, native: _native.Session, mailbox: LoopMailbox, handlers: Handlers, origin: object = None
    ) -> None:
        super().__init__(native, mailbox, handlers)
        # A session keeps its agent open.
        self._origin = origin
        self._latest: weakref.ref[Turn] | None = None

    @property
    def id(self) -> str:
        """The session's id. The option `session_id` resumes it."""
        return self._native.id

    @property
    def work_dir(self) -> str:
        """The directory that the agent works in."""
        return self._native.work_dir

    @property
    def state(self) -> Literal["idle", "active", "closed"]:
        """The session's state: "idle", "active" while a turn runs, or "closed"."""
        return self._native.state

    @property
    def protocol_version(self) -> str | None:
        """The version of the protocol that the agent speaks, for example "1.10" or "acp-1". None before Wire 1.0."""
        return self._native.protocol_version

    @property
    def server(self) -> ServerInfo | None:
        """The agent's name and version, if the agent says them."""
        return self._native.info()["server"]

    @property
    def capabilities(self) -> Capabilities:
        """The features that the agent has."""
        from ._results import Capabilities

        return Capabilities(**self._native.info()["capabilities"])

    @property
    def slash_commands(self) -> list[SlashCommand]:
        """The commands that a prompt may begin with.

        Over ACP the list arrives soon after the session has opened, and again when it changes. Each time `on_event`
        gets an `available_commands_update`.
        """
        return self._native.info()["slash_commands"]

    @property
    def external_tools(self) -> ExternalToolsResult:
        """The tools of the program that the agent accepted, and those that it rejected, with reasons."""
        return self._native.info()["external_tools"]

    @property
    def pid(self) -> int | None:
        """The agent's process id."""
        return self._native.pid

    @property
    def usage(self) -> TokenUsage:
        """The tokens that all turns have used until now."""
        return self._native.usage()

    @property
    def status(self) -> StatusUpdate:
        """The last known status, from all updates: context, plan mode, MCP servers."""
        return self._native.status()

    def prompt(self, content: UserInput, **options: Unpack[PromptOptions]) -> Turn:
        """Sends a prompt to the agent. Returns at once, while the turn runs. One turn runs at a time.

        Args:
            content: Text, a content part, or a list of texts and parts.
            timeout: The longest time of this turn, in seconds or as a `timedelta`. Default: the session's
                `turn_timeout`.
            idle_timeout: The longest time in which the agent sends nothing, likewise. Default: the session's.

        Raises:
            TurnInProgress: Another turn runs, and the program holds it.
            InvalidOption: An option or the content is wrong.
            KimiAgentError: The session is closed: the error that closed it.
        """
        self._mailbox.check()
        show_messages()
        self._handlers.turn_context = contextvars.copy_context()
        native = self._prompt(encode_input(content), encode_prompt_options(options))
        turn = Turn(native, self._mailbox, self._handlers, self)
        self._latest = weakref.ref(turn)
        return turn

    def _prompt(self, content: str | list[dict[str, Any]], options: dict[str, Any]) -> _native.Turn:
        try:
            return called(self._native.prompt, content, options)
        except TurnInProgress:
            # The running turn may be one that only a traceback holds.
            if not abandon_if_lost(self._latest):
                raise
        return called(self._native.prompt, content, options)

    def replay(self) -> Replay:
        """Returns the events of the session until now (from Wire 1.3 on).

        Raises:
            TurnInProgress: A turn runs.
            Unsupported: The agent cannot replay.
        """
        self._mailbox.check()
        return Replay(called(self._native.replay), self._mailbox, self)

    async def set_plan_mode(self, on: bool) -> None:
        """Switches plan mode on or off (from Wire 1.4 on). In plan mode the agent plans and changes nothing.

        Raises:
            Unsupported: The agent has no plan mode.
        """
        await self._mailbox.call(self._native.set_plan_mode, on)

    async def respond(self, request: Request, answer: Answer) -> None:
        """Answers a request that came outside a turn, if `on_approval` or `on_question` is "manual".

        Args:
            request: The request, or its id.
            answer: What the handler would return. Default of a question: None, which dismisses it.

        Raises:
            InvalidOption: The answer does not fit, or there is no such request. The request still waits.
        """
        await self._mailbox.call(self._native.respond, request_reference(request), given_answer(answer))

    async def cancel(self) -> None:
        """Cancels the running turn, also one that was dropped and is about to end, and waits until it has ended.

        Does nothing if no turn runs or the session is closed.

        Raises:
            Timeout: The agent does not answer within `cancel_timeout`. The session is closed.
        """
        await self._mailbox.call(self._native.cancel)

    async def close(self, timeout: Seconds = None) -> None:
        """Cancels the running turn and ends the agent. Does nothing if the session is closed.

        Args:
            timeout: The longest wait for the agent to exit, in seconds or as a `timedelta`. 0 kills the agent at once,
                and a running turn fails with `SessionClosed`. Default: the option `close_timeout`.
        """
        await super().close(timeout)

    def _has_ended(self) -> bool:
        return self._native.state == "closed"

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.state}>"


class Origin(Protocol):
    """What opens a session other than one of its own agent."""

    def open(
        self, mailbox: _native.Mailbox, key: int, options: Mapping[str, Any], callbacks: Callbacks
    ) -> tuple[_native.Session, int]: ...


class SessionOpening(Opening[tuple[_native.Session, int], Session]):
    """What `create_session` returns: to await, or to enter with `async with`. Nothing starts before that."""

    __slots__ = ("_origin",)

    _what = "session"
    _by = "create_session"

    def __init__(self, options: Mapping[str, Any], origin: Origin | None = None) -> None:
        super().__init__(options)
        self._origin = origin

    def _begin(self) -> Begin[tuple[_native.Session, int]]:
        return _native.Session.open if self._origin is None else self._origin.open

    async def _made(self, begun: tuple[_native.Session, int], mailbox: LoopMailbox, handlers: Handlers) -> Session:
        native, ticket = begun
        try:
            await mailbox.wait(ticket)
        except BaseException:
            native.abandon()
            raise
        return Session(native, mailbox, handlers, self._origin)


def create_session(**options: Unpack[SessionOptions]) -> SessionOpening:
    """Opens a session: starts an agent and exchanges the handshake with it.

    `async with create_session(work_dir=".") as session: …` closes it at the end of the block. Without a block:
    `session = await create_session(work_dir=".")` and `await session.close()`.

    Args:
        options: The options of `SessionOptions`. Only options that are set reach the agent.

    Raises:
        InvalidOption: An option is unknown or has a wrong value.
        SpawnError: The agent cannot be started.
        HandshakeError: The agent does not answer as an agent should.

    >>> import asyncio
    >>> from kimi_agent.testing import scripted_agent
    >>> async def main():
    ...     async with create_session(executable=scripted_agent([[{"text": "Hello!"}]])) as session:
    ...         async for event in session.prompt("Say hello"):
    ...             print(event)
    >>> asyncio.run(main())
    TurnBegin(user_input='Say hello')
    StepBegin(n=1)
    TextPart(text='Hello!')
    TurnEnd()
    """
    return SessionOpening(options)


def prompt(content: UserInput, **options: Unpack[OneShotOptions]) -> Turn:
    """Runs one turn in a session of its own, which is closed after it.

    `async for event in prompt("…", work_dir=".")`, or `result = await prompt("…").result()`.

    Args:
        content: Text, a content part, or a list of texts and parts.
        options: The options of `create_session`, and `timeout`: the longest time of the turn, in seconds or as a
            `timedelta`. The start of the agent does not count.

    Raises:
        InvalidOption: An option or the content is wrong. The turn raises all other errors.

    >>> import asyncio
    >>> from kimi_agent.testing import scripted_agent
    >>> async def main():
    ...     result = await prompt("Say hello", executable=scripted_agent([[{"text": "Hello!"}]])).result()
    ...     return result.raise_for_status().text
    >>> asyncio.run(main())
    'Hello!'
    """
    rest: dict[str, Any] = {name: value for name, value in options.items() if name != "timeout"}
    own = encode_prompt_options({"timeout": options.get("timeout")})
    try:
        native, mailbox, handlers = begun(rest, partial(_native.Session.one_shot, encode_input(content), own))
    finally:
        del rest
        # As in begun().
        del options
    return Turn(native, mailbox, handlers)


def encode_prompt_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of one prompt as JSON; their names and values are judged by the core."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        try:
            found[name] = to_jsonable(seconds(value))
        except TypeError:
            # The core names what it expects instead, or an unknown name.
            found[name] = {}
    return found


def encode_input(content: UserInput) -> str | list[dict[str, Any]]:
    """What the program says, as text or as the wire's content parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, (Message, Mapping)):
        parts: Any = [content]
    elif isinstance(content, (bytes, bytearray, memoryview)) or not isinstance(content, Iterable):
        raise _wrong_content(content)
    else:
        parts = content
    found: list[dict[str, Any]] = []
    for at, part in enumerate(parts):
        if isinstance(part, str):
            found.append({"type": "text", "text": part})
        elif isinstance(part, Message) and part._wire_type == "ContentPart":
            found.append(part.to_payload())
        elif isinstance(part, Mapping):
            try:
                found.append(to_jsonable(part))
            except TypeError as error:
                raise InvalidOption(f"invalid option `content`: content[{at}]: {error}", "content") from None
        else:
            raise _wrong_content(part, f"content[{at}]: ")
    return found


def _wrong_content(got: object, place: str = "") -> InvalidOption:
    expected = "expected text, a content part such as TextPart(…), or a list of these"
    if isinstance(got, (bytes, bytearray, memoryview)):
        hint = "; decode text first, or pass an image as `kimi_agent.image(…)`"
    elif isinstance(got, Message):
        hint = f"; a {type(got).__name__} is not a content part"
    else:
        hint = ""
    kind = kind_of(got)
    return InvalidOption(f"invalid option `content`: {place}{expected}; got {kind}{hint}", "content")


def given_answer(answer: Answer) -> Any:
    """The answer that `respond()` was called with, as JSON."""
    try:
        return encode_answer(answer)
    except TypeError as error:
        raise InvalidOption(f"invalid option `answer`: {error}", "answer") from None


def request_reference(request: Request) -> tuple[str, tuple[int, int] | None]:
    """The id of a request, and which request of which session it is, unless only the id is known."""
    found = request if isinstance(request, str) else getattr(request, "id", None)
    if isinstance(found, str):
        return found, getattr(request, "_origin", None)
    expected = "expected the request event that is to be answered, or its `id`"
    raise InvalidOption(f"invalid option `request`: {expected}; got {kind_of(request)}", "request")
