"""Sessions for coroutines. tools/generate_sync.py makes `kimi_agent.sync` from the public names."""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, overload

from . import _native
from ._errors import KimiAgentError, TurnInProgress
from ._handlers import Handlers
from ._hints import no_attribute
from ._holders import abandon_if_lost
from ._input import encode_input, encode_prompt_options, given_answer, request_reference
from ._loop import LoopMailbox, called, current_mailbox, show_messages
from ._opening import Opening, Owner, begun
from ._output import T_co
from ._turn import Replay, Turn

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._interface import Answer, Begin, Callbacks, Request
    from ._option_types import (
        Approval,
        OneShotSettings,
        PromptSettings,
        QuestionAnswer,
        Seconds,
        SessionSettings,
        UserInput,
    )
    from ._output import OutputType, T, V
    from ._results import Capabilities, ConfigOption
    from ._wire import (
        ApprovalRequest,
        ExternalToolsResult,
        QuestionRequest,
        ServerInfo,
        SlashCommand,
        StatusUpdate,
        TokenUsage,
    )

__all__ = ["Session", "SessionOpening", "create_session", "prompt"]


class Session(Owner[_native.Session], Generic[T_co]):
    """A conversation with an agent. `create_session` opens it.

    One turn runs at a time. The session keeps the conversation until it is closed.

    >>> async with create_session(work_dir=".") as session:
    ...     for question in ("What is in this directory?", "What is it for?"):
    ...         result = await session.prompt(question).result()
    ...         print(result.text)
    There are 3 files.
    There are 3 files.
    """

    __slots__ = ("_latest", "_origin")

    _name = "a Session"

    def __init__(
        self, native: _native.Session, mailbox: LoopMailbox, handlers: Handlers, origin: object = None
    ) -> None:
        super().__init__(native, mailbox, handlers)
        # A session keeps its agent open.
        self._origin = origin
        self._latest: weakref.ref[Turn[Any]] | None = None

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
        """The protocol that the agent speaks: a version of Wire such as "1.10", "legacy", "acp-1" or "kimi-web-2"."""
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
    def config_options(self) -> list[ConfigOption]:
        """The options of the session that can be set while it is open, with their current values.

        Empty if the agent has none. Agents that speak ACP have them, for example for the model, thinking and the mode.
        """
        from ._results import config_option_of

        return [config_option_of(option) for option in self._native.info()["config_options"]]

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

    @overload
    def prompt(self, content: UserInput, *, output: OutputType[T], **options: Unpack[PromptSettings]) -> Turn[T]: ...
    @overload
    def prompt(self, content: UserInput, *, output: None = None, **options: Unpack[PromptSettings]) -> Turn[T_co]: ...
    def prompt(self, content: UserInput, *, output: Any = None, **options: Unpack[PromptSettings]) -> Turn[Any]:
        """Sends a prompt to the agent. Returns at once, while the turn runs. One turn runs at a time.

        Args:
            content: Text, a content part, or a list of texts and parts.
            timeout: The longest time of this turn, in seconds or as a `timedelta`. Default: the session's
                `turn_timeout`.
            idle_timeout: The longest time in which the agent sends nothing, likewise. Default: the session's.
            budget: The most that this turn may use, as a `Budget`. Default: no limit.
            output: The value that this turn must return, as for `create_session`. The model returns it in its text,
                unless it equals the session's. Default: the session's.
            options: All options of `PromptOptions`. Default: those of the session.

        Returns:
            The turn, which runs already.

        Raises:
            TurnInProgress: Another turn runs, and the program holds it.
            InvalidOption: An option or the content is wrong.
            Unsupported: The agent does not report what the budget limits.
            KimiAgentError: The session is closed: the error that closed it.

        >>> turn = session.prompt(["What is wrong here?", image("screenshot.png")], timeout=600)
        >>> async for piece in turn.text_stream:
        ...     print(piece)
        There are 3 files.
        """
        self._mailbox.check()
        show_messages()
        if options:
            called(_native.check_prompt_names, list(options))
        self._handlers.turn_context = contextvars.copy_context()
        encoded, check = self._handlers.add_output(output)
        native = self._prompt(encode_input(content), {**encode_prompt_options(options), "output": encoded})
        if encoded is None:
            check = self._handlers.output_check
        turn: Turn[Any] = Turn(native, self._mailbox, self._handlers, check, self)
        self._latest = weakref.ref(turn)
        return turn

    def _prompt(self, content: str | list[dict[str, Any]], options: dict[str, Any]) -> _native.Turn:
        try:
            return self._begin(content, options)
        except TurnInProgress:
            # The running turn may be one that only a traceback holds.
            if not abandon_if_lost(self._latest):
                raise
        return self._begin(content, options)

    def _begin(self, content: str | list[dict[str, Any]], options: dict[str, Any]) -> _native.Turn:
        if self._handlers.tracing is not None:
            start = called(self._native.begin_turn, content, options)
            options = self._mailbox.with_span(self._handlers.key, start, options)
        return called(self._native.prompt, content, options)

    def replay(self) -> Replay:
        """Returns the events of the session until now (from Wire 1.3 on).

        Raises:
            TurnInProgress: A turn runs.
            Unsupported: The agent cannot replay. `session.capabilities.replay` is then False.

        >>> result = await session.prompt("What is in this directory?").result()
        >>> async for event in session.replay():
        ...     if isinstance(event, TurnBegin):
        ...         print("You:", event.user_input)
        You: What is in this directory?
        """
        self._mailbox.check()
        return Replay(called(self._native.replay), self._mailbox, self)

    async def set_plan_mode(self, on: bool) -> None:
        """Switches plan mode on or off (from Wire 1.4 on). In plan mode the agent plans and changes nothing.

        Args:
            on: True for on, False for off.

        Raises:
            Unsupported: The agent has no plan mode. `session.capabilities.plan_mode` is then False.

        >>> await session.set_plan_mode(True)
        >>> session.status.plan_mode
        True
        """
        await self._mailbox.call(self._native.set_plan_mode, on)

    async def set_config_option(self, id: str, value: str | bool) -> None:
        """Sets one of `config_options`, for example the model. A turn that runs may continue with the old value.

        Args:
            id: The id of the option.
            value: One of the values of its `choices`, or a bool if the option is on or off.

        Raises:
            InvalidOption: The agent lists no such option or value; the error names those that it lists.
            Unsupported: The agent has no such options. Over Wire no agent has.

        >>> await session.set_config_option("mode", "plan")
        >>> for option in session.config_options:
        ...     print(option.id, option.value)
        model scripted
        thinking off
        mode plan
        """
        await self._mailbox.call(self._native.set_config_option, id, value)

    async def undo(self, count: int = 1) -> None:
        """Removes the last turns from the conversation. Their changes to files stay.

        Args:
            count: The number of turns, at least 1. Default: 1.

        Raises:
            TurnInProgress: A turn runs.
            Unsupported: The agent cannot undo turns. Only Kimi Code's server can (`dialect="kimi-web"`).

        >>> result = await session.prompt("What is in this directory?").result()
        >>> await session.undo()
        """
        await self._mailbox.call(self._native.undo, count)

    @overload
    async def respond(self, request: ApprovalRequest, answer: Approval) -> None: ...
    @overload
    async def respond(self, request: QuestionRequest, answer: QuestionAnswer | None) -> None: ...
    @overload
    async def respond(self, request: str, answer: Answer) -> None: ...
    async def respond(self, request: Request, answer: Answer) -> None:
        """Answers a request that came outside a turn, if `on_approval` or `on_question` is "manual".

        Such requests reach `on_event`. `Turn.respond` answers those of a turn.

        Args:
            request: The request, or its id.
            answer: The value that the handler would return. None dismisses a question.

        Raises:
            InvalidOption: The answer does not fit, or there is no such request. The request still waits.

        >>> try:
        ...     await session.respond("request-1", "reject")
        ... except InvalidOption:
        ...     print("The agent does not wait for this answer.")
        The agent does not wait for this answer.
        """
        await self._mailbox.call(self._native.respond, request_reference(request), given_answer(answer))

    async def cancel(self) -> None:
        """Cancels the running turn, also one that was dropped and is about to end, and waits until it has ended.

        Does nothing if no turn runs.

        Raises:
            Timeout: The agent does not answer within `cancel_timeout`. The session is closed.
            SessionClosed: The session is closed.

        >>> turn = session.prompt("Write a book")
        >>> await session.cancel()
        >>> session.state
        'idle'
        """
        await self._mailbox.call(self._native.cancel)

    async def close(self, timeout: Seconds = None) -> None:
        """Cancels the running turn and ends the agent. Does nothing if the session is closed.

        Args:
            timeout: The longest wait for the agent to exit, in seconds or as a `timedelta`. With 0 the agent is killed
                at once, and a running turn fails with `SessionClosed`. Default: the option `close_timeout`.

        Raises:
            Timeout: The agent still runs five seconds after SIGKILL, for example because it runs as another user.
            RpcError: The agent compares the program with a recording, and the program has left out something. Only the
                first call raises it.

        >>> session = await create_session(work_dir=".")
        >>> await session.close()
        >>> session.state
        'closed'
        """
        await super().close(timeout)

    async def wait_closed(self) -> KimiAgentError | None:
        """Waits until the session is closed and its agent has exited, also if an idle agent exits.

        Returns:
            The error that closed the session, None after `close`. It is not raised.

        >>> session = await create_session(work_dir=".")
        >>> await session.close()
        >>> await session.wait_closed() is None
        True
        """
        self._mailbox.check()
        ticket = called(self._native.wait_closed)
        try:
            await self._mailbox.wait(ticket)
        except KimiAgentError as error:
            return error
        return None

    def _has_ended(self) -> bool:
        return self._native.state == "closed"

    def __repr__(self) -> str:
        server = self.server
        agent = f" agent={server.name!r}" if server is not None else ""
        return f"<Session {self.id} {self.state}{agent} pid={self.pid}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)


class Origin(Protocol):
    """Opens a session of a shared agent."""

    def open(
        self, mailbox: _native.Mailbox, key: int, options: Mapping[str, Any], callbacks: Callbacks
    ) -> tuple[_native.Session, int]: ...


class SessionOpening(Opening[tuple[_native.Session, int], Session[T_co]], Generic[T_co]):
    """The result of `create_session`: await it, or enter it with `async with`. Nothing starts before that.

    >>> opening = create_session(work_dir=".")
    >>> async with opening as session:
    ...     print(session.state)
    idle
    """

    __slots__ = ("_origin",)

    _what = "session"
    _by = "create_session"

    def __init__(self, options: Mapping[str, Any], origin: Origin | None = None) -> None:
        super().__init__(options)
        self._origin = origin

    def _begin(self) -> Begin[tuple[_native.Session, int]]:
        return _native.Session.open if self._origin is None else self._origin.open

    async def _made(
        self, begun: tuple[_native.Session, int], mailbox: LoopMailbox, handlers: Handlers
    ) -> Session[T_co]:
        native, ticket = begun
        try:
            await mailbox.wait(ticket)
        except BaseException:
            native.abandon()
            raise
        return Session(native, mailbox, handlers, self._origin)


def create_session(*, output: OutputType[V] | None = None, **options: Unpack[SessionSettings]) -> SessionOpening[V]:
    """Opens a session: starts an agent and exchanges the handshake with it.

    `async with create_session(work_dir=".") as session: …` closes it at the end of the block. Without a block:
    `session = await create_session(work_dir=".")` and `await session.close()`.

    Args:
        output: The value that each turn of the session must return: a pydantic model, a dataclass, a `TypedDict`, any
            other type that pydantic takes, a JSON Schema as a dict, or an `Output`. Default: None, and turns return
            text.
        options: All options of `SessionOptions`. Only options that are set reach the agent.

    Returns:
        The session, once it is awaited or entered.

    Raises:
        InvalidOption: An option is unknown or has a wrong value.
        SpawnError: The agent cannot be started.
        HandshakeError: The agent does not answer as an agent should.

    >>> async with create_session(work_dir=".") as session:
    ...     async for event in session.prompt("What is in this directory?"):
    ...         print(event)
    TurnBegin(user_input='What is in this directory?')
    StepBegin(n=1)
    TextPart(text='There are 3 files.')
    TurnEnd()
    """
    return SessionOpening({**options, "output": output})


def _begin_one_shot(
    given: UserInput,
    limits: Mapping[str, Any],
    mailbox: _native.Mailbox,
    key: int,
    options: Mapping[str, Any],
    callbacks: Callbacks,
) -> _native.Turn:
    try:
        own, content = encode_prompt_options(limits), encode_input(given)
        if options.get("telemetry") is not None:
            start = _native.Session.begin_one_shot(content, own, options)
            own = current_mailbox().with_span(key, start, own)
        return _native.Session.one_shot(content, own, mailbox, key, options, callbacks)
    finally:
        # As in begun().
        del options


# The options of a prompt that a session has under no or under another name.
ONE_SHOT = ("timeout", "budget")


def prompt(content: UserInput, *, output: OutputType[V] | None = None, **options: Unpack[OneShotSettings]) -> Turn[V]:
    """Runs one turn in a session of its own, which is closed after it.

    `async for event in prompt("…", work_dir=".")`, or `result = await prompt("…").result()`.

    Args:
        content: Text, a content part, or a list of texts and parts.
        output: The value that the turn must return, as for `create_session`. Default: None, and it returns text.
        options: The options of `create_session`, and two of `Session.prompt`: `timeout`, the longest time of the turn,
            and `budget`, the most that it may use. The start of the agent does not count.

    Returns:
        The turn, which runs already.

    Raises:
        InvalidOption: An option or the content is wrong. The turn raises all other errors.

    >>> result = await prompt("What is in this directory?", work_dir=".").result()
    >>> result.raise_for_status().text
    'There are 3 files.'
    """
    rest: dict[str, Any] = {name: value for name, value in options.items() if name not in ONE_SHOT}
    rest["output"] = output
    try:
        limits = {name: options.get(name) for name in ONE_SHOT}
        native, mailbox, handlers = begun(rest, partial(_begin_one_shot, content, limits))
    finally:
        del rest
        # As in begun().
        del options
    return Turn(native, mailbox, handlers, handlers.output_check)
