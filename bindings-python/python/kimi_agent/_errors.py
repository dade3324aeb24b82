"""The exceptions of the package. `code` is the same string in every language."""

# The code of a class never changes, so that it may be narrower than that of its base.
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ._errors_page import ERRORS_PAGE
from ._printable import printable

if TYPE_CHECKING:
    from ._auth import AuthMethod
    from ._results import OutputError, PromptResult

__all__ = [
    "AgentExited",
    "AnswerRefused",
    "AnswerTruncated",
    "AuthExpired",
    "BudgetExceeded",
    "ContextTooLong",
    "EventBufferFull",
    "HandshakeError",
    "InvalidOption",
    "KimiAgentError",
    "LlmNotSet",
    "LlmNotSupported",
    "LlmServiceError",
    "MaxStepsReached",
    "NoActiveTurn",
    "OutputInvalid",
    "ProtocolError",
    "RpcError",
    "SessionClosed",
    "SpawnError",
    "Timeout",
    "TurnCancelled",
    "TurnInProgress",
    "Unsupported",
    "from_native",
]


RpcErrorCode = Literal[
    "rpc_error", "turn_in_progress", "no_active_turn", "llm_not_set", "llm_not_supported", "llm_service_error",
    "auth_expired", "context_too_long",
]  # fmt: skip
"""The codes of errors that the agent answers with."""


class KimiAgentError(Exception):
    """The base class of all errors of this package.

    The class itself is raised for a wrong use of the package (a session in another event loop, a task of trio, a forked
    process), or for a defect of the package.

    Args:
        message: The text of the error. Default: empty.

    >>> try:
    ...     result = await session.prompt("What is in this directory?").result()
    ... except KimiAgentError as error:
    ...     print(error.code, "- retry" if error.retryable else "- give up")
    llm_service_error - retry
    """

    code: ClassVar[str] = "internal_error"
    """A stable name for the kind of error."""
    retryable: bool = False
    """Whether the same call can succeed later without a change: the model is overloaded or limits the rate, the agent
    exited, a deadline was exceeded, or another turn was running."""
    result: PromptResult[Any] | None = None
    """What the turn had produced, if the error ended a turn: its text, its tool calls and its tokens."""
    _attributes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    @property
    def help(self) -> str:
        """The address of the documentation of this kind of error: its causes, what to check, and remedies."""
        return f"{ERRORS_PAGE}#{self.code}"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __repr__(self) -> str:
        known = [f", {name}={getattr(self, name)!r}" for name in self._attributes]
        return f"{type(self).__name__}({str(self)!r}{''.join(known)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Not that of OSError, which some of the classes derive from and which would leave out the attributes.
        state = {name: getattr(self, name) for name in self._attributes}
        for name in ("retryable", "result"):
            if name in self.__dict__:
                state[name] = getattr(self, name)
        return (type(self), self.args, state)


class InvalidOption(KimiAgentError, ValueError):
    """An option or an argument has a wrong name or value. Also a `ValueError`.

    >>> try:
    ...     session = await create_session(work_dir=".", max_steps_per_turn=0)
    ... except InvalidOption as error:
    ...     print(f"{error.option}: {error}")
    max_steps_per_turn: invalid option `max_steps_per_turn`: expected a whole number from 1 on, got 0
    """

    code: ClassVar[Literal["invalid_option"]] = "invalid_option"
    _attributes = ("option",)

    def __init__(self, message: str = "", option: str = "") -> None:
        super().__init__(message)
        self.option = option
        """The name of the option or argument."""


class SpawnError(KimiAgentError, OSError):
    """The agent cannot be started. The text says which program was looked for, and where. Also an `OSError`.

    `errno` is None.

    >>> try:
    ...     session = await create_session(executable="no-such-agent")
    ... except SpawnError:
    ...     print("Install the agent, or set `executable` to its path.")
    Install the agent, or set `executable` to its path.
    """

    code: ClassVar[Literal["spawn_error"]] = "spawn_error"


class HandshakeError(KimiAgentError):
    """The agent refused the handshake, or did not answer as an agent should.

    The text quotes what the program printed.

    >>> try:
    ...     session = await create_session(executable=["echo", "Not an agent"], dialect="1.10")
    ... except HandshakeError:
    ...     print("`executable` is not an agent.")
    `executable` is not an agent.
    """

    code: ClassVar[Literal["handshake_error"]] = "handshake_error"


class AgentExited(KimiAgentError):
    """The agent exited. All pending calls fail with this error, and the session is closed.

    >>> try:
    ...     result = await session.prompt("What is in this directory?").result()
    ... except AgentExited as error:
    ...     print(error.exit_code, error.stderr.strip())
    7 out of memory
    """

    code: ClassVar[Literal["agent_exited"]] = "agent_exited"
    retryable = True
    _attributes = ("exit_code", "signal", "stderr")

    def __init__(
        self, message: str = "", exit_code: int | None = None, signal: str | None = None, stderr: str = ""
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """The exit code. None if a signal ended the agent, or if the system does not report it."""
        self.signal = signal
        """The name of the signal that ended the agent, for example "SIGKILL"."""
        self.stderr = stderr
        """The end of the agent's output on stderr."""


class ProtocolError(KimiAgentError):
    """The agent violated the protocol, for example with a line that is too long. The session is closed.

    >>> async with create_session(work_dir=".", max_line_bytes=4096) as session:
    ...     try:
    ...         result = await session.prompt("Print a large file").result()
    ...     except ProtocolError:
    ...         print("Raise `max_line_bytes`.")
    Raise `max_line_bytes`.
    """

    code: ClassVar[Literal["protocol_error"]] = "protocol_error"


class Unsupported(KimiAgentError):
    """The agent does not have this feature. `Session.capabilities` lists the features that it has.

    >>> try:
    ...     await session.undo()
    ... except Unsupported:
    ...     print("This agent cannot undo turns.")
    This agent cannot undo turns.
    """

    code: ClassVar[Literal["unsupported"]] = "unsupported"


class SessionClosed(KimiAgentError):
    """The session is closed. Open a new one with the same `session_id` to continue the conversation.

    >>> await session.close()
    >>> try:
    ...     turn = session.prompt("What is in this directory?")
    ... except SessionClosed:
    ...     session = await create_session(session_id=session.id)
    >>> session.state
    'idle'
    >>> await session.close()
    """

    code: ClassVar[Literal["session_closed"]] = "session_closed"


class Timeout(KimiAgentError, TimeoutError):
    """A deadline was exceeded. The text names the call and the option. Also a `TimeoutError`.

    >>> try:
    ...     result = await session.prompt("Write a book", timeout=0.1).result()
    ... except Timeout:
    ...     print("The turn took too long.")
    The turn took too long.
    """

    code: ClassVar[Literal["timeout"]] = "timeout"
    retryable = True


class EventBufferFull(KimiAgentError):
    """The buffer of unread events is full.

    Raised if a call inside the loop over a turn waits for an answer behind too many unread events. Also raised if a
    session that shares its process leaves too many events unread; that session is closed.

    >>> async for event in turn:
    ...     try:
    ...         await session.set_plan_mode(True)
    ...     except EventBufferFull:
    ...         print("Read more events before the next call.")
    """

    code: ClassVar[Literal["event_buffer_full"]] = "event_buffer_full"


class RpcError(KimiAgentError):
    """The agent answered a call with an error.

    Args:
        message: The agent's text. Default: empty.
        rpc_code: The JSON-RPC error code from the agent. Default: None.
        data: The agent's further data about the error. Default: None.
        hint: Advice of the SDK. Default: None.

    >>> try:
    ...     result = await session.prompt("What is in this directory?").result()
    ... except RpcError as error:
    ...     print(error.rpc_code, error.message)
    -32050 the disk is full
    """

    code: ClassVar[RpcErrorCode] = "rpc_error"
    _attributes = ("rpc_code", "message", "data", "hint")

    def __init__(
        self, message: str = "", rpc_code: int | None = None, data: Any = None, hint: str | None = None
    ) -> None:
        text = message if rpc_code is None else f"{message} ({rpc_code})"
        # Python prints it in a traceback.
        super().__init__(printable(text if hint is None else f"{text}; {hint}"))
        self.rpc_code = rpc_code
        """The JSON-RPC error code from the agent. None if the SDK raises the error."""
        self.message = message
        """The agent's text, as it arrived."""
        self.data = data
        """The agent's further data about the error."""
        self.hint = hint
        """Advice of the SDK, if there is any."""

    def __reduce__(self) -> tuple[Any, ...]:
        kind, _, state = super().__reduce__()
        return (kind, (self.message, self.rpc_code, self.data, self.hint), state)


class TurnInProgress(RpcError):
    """Another turn of this session runs, or a handler waits for the turn that waits for this handler.

    >>> turn = session.prompt("What is in this directory?")
    >>> try:
    ...     second = session.prompt("What is it for?")
    ... except TurnInProgress:
    ...     await turn.cancel()
    """

    code: ClassVar[Literal["turn_in_progress"]] = "turn_in_progress"
    retryable = True


class NoActiveTurn(RpcError):
    """No turn is running that could be steered.

    >>> result = await turn.result()
    >>> try:
    ...     await turn.steer("Only the tests")
    ... except NoActiveTurn:
    ...     turn = session.prompt("Only the tests")
    """

    code: ClassVar[Literal["no_active_turn"]] = "no_active_turn"


class LlmNotSet(RpcError):
    """The agent has no login and no model, or kimi-cli does not know the name in `model`.

    >>> try:
    ...     result = await session.prompt("What is in this directory?").result()
    ... except LlmNotSet:
    ...     print("Log in with `kimi login`, or set `model`.")
    Log in with `kimi login`, or set `model`.
    """

    code: ClassVar[Literal["llm_not_set"]] = "llm_not_set"


class LlmNotSupported(RpcError):
    """The model lacks an ability that the prompt needs, for example to read images.

    >>> try:
    ...     result = await session.prompt(["What is wrong here?", image("screenshot.png")]).result()
    ... except LlmNotSupported:
    ...     print("This model cannot read images.")
    This model cannot read images.
    """

    code: ClassVar[Literal["llm_not_supported"]] = "llm_not_supported"


class _OfService:
    """The attributes of errors of the model's service."""

    status: int | None = None
    """The HTTP status of the service, if the agent reports it."""
    retry_after: float | None = None
    """The seconds that the service asks to wait before the next attempt, if the agent reports it."""

    def __reduce__(self) -> tuple[Any, ...]:
        reduced: Any = super().__reduce__()
        kind, args, state = reduced
        return (kind, args, {**state, "status": self.status, "retry_after": self.retry_after})


class LlmServiceError(_OfService, RpcError):
    """The model's service failed. Not `retryable` if it refuses the request, for example because of an unknown model.

    `retryable` after the HTTP status 408, 409, 429 or any from 500 on, after a lost connection, and if the service is
    overloaded.

    >>> try:
    ...     result = await session.prompt("What is in this directory?").result()
    ... except LlmServiceError as error:
    ...     print("Retry later." if error.retryable else "Check the key.")
    Retry later.
    """

    code: ClassVar[Literal["llm_service_error"]] = "llm_service_error"
    retryable = True


class ContextTooLong(_OfService, RpcError):
    """The prompt and the conversation exceed the context window of the model.

    >>> try:
    ...     result = await session.prompt("What is in this directory?").result()
    ... except ContextTooLong:
    ...     print("Continue in a new session.")
    Continue in a new session.
    """

    code: ClassVar[Literal["context_too_long"]] = "context_too_long"


class AuthExpired(_OfService, RpcError):
    """The agent's login has expired or is missing, or the model's service refuses its key.

    >>> try:
    ...     result = await session.prompt("What is in this directory?").result()
    ... except AuthExpired:
    ...     print("Log in again with `kimi login`.")
    Log in again with `kimi login`.
    """

    code: ClassVar[Literal["auth_expired"]] = "auth_expired"
    methods: tuple[AuthMethod, ...] = ()
    """The ways to log in that the agent offers. Empty if it lists none, as agents of Wire do."""

    def __reduce__(self) -> tuple[Any, ...]:
        reduced: Any = super().__reduce__()
        kind, args, state = reduced
        return (kind, args, {**state, "methods": self.methods})


class TurnCancelled(KimiAgentError):
    """The turn was cancelled. `PromptResult.raise_for_status()` raises it.

    >>> await turn.cancel()
    >>> result = await turn.result()
    >>> try:
    ...     print(result.raise_for_status().text)
    ... except TurnCancelled:
    ...     print("cancelled")
    cancelled
    """

    code: ClassVar[Literal["turn_cancelled"]] = "turn_cancelled"


class MaxStepsReached(KimiAgentError):
    """The turn reached its limit of steps. `PromptResult.raise_for_status()` raises it.

    >>> result = await turn.result()
    >>> try:
    ...     print(result.raise_for_status().text)
    ... except MaxStepsReached as error:
    ...     print(f"not finished after {error.steps} steps")
    not finished after 5 steps
    """

    code: ClassVar[Literal["max_steps_reached"]] = "max_steps_reached"
    _attributes = ("steps",)

    def __init__(self, message: str = "", steps: int | None = None) -> None:
        super().__init__(message)
        self.steps = steps
        """The number of steps, if the agent says it."""


class AnswerTruncated(KimiAgentError):
    """The answer ends at the model's limit of tokens. `PromptResult.raise_for_status()` raises it.

    >>> result = await turn.result()
    >>> try:
    ...     print(result.raise_for_status().text)
    ... except AnswerTruncated:
    ...     print(f"cut after {result.text!r}")
    cut after 'Once upon a'
    """

    code: ClassVar[Literal["answer_truncated"]] = "answer_truncated"


class AnswerRefused(KimiAgentError):
    """The model, its provider or a hook of the agent refused to answer. `PromptResult.raise_for_status()` raises it.

    >>> result = await turn.result()
    >>> try:
    ...     print(result.raise_for_status().text)
    ... except AnswerRefused:
    ...     print("refused")
    refused
    """

    code: ClassVar[Literal["answer_refused"]] = "answer_refused"


class BudgetExceeded(KimiAgentError):
    """The turn, or all turns of its session, used more than a budget allows. The turn is cancelled.

    >>> try:
    ...     result = await session.prompt("Fix the tests", budget={"steps": 2}).result()
    ... except BudgetExceeded as error:
    ...     print(f"{error.used} of {error.limit} {error.counter}:", error.result.text)
    3 of 2 steps: Second step.
    """

    code: ClassVar[Literal["budget_exceeded"]] = "budget_exceeded"
    result: PromptResult[Any]
    _attributes = ("option", "counter", "limit", "used", "result")

    def __init__(
        self,
        message: str = "",
        option: Literal["budget", "session_budget"] = "budget",
        counter: Literal["tokens", "output_tokens", "steps", "tool_calls", "seconds"] = "tokens",
        limit: float = 0,
        used: float = 0,
        result: PromptResult[Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.option = option
        """The option with the limit. After "session_budget" every further prompt of the session fails, too."""
        self.counter = counter
        """The name of the limit."""
        self.limit = limit
        """The limit."""
        self.used = used
        """The amount that was used."""
        self.result = _nothing() if result is None else result
        """The result of the turn up to its end: its tool calls, its tokens, and the last text that it said."""


class OutputInvalid(KimiAgentError):
    """The turn has no valid value of `output` after all attempts. If the last one was a call, the turn is cancelled.

    If a validator of the type raised an unexpected exception, that is the `__cause__` of the error from `Turn.result`.

    >>> try:
    ...     result = await session.prompt("Count the files", output=int).result()
    ... except OutputInvalid as error:
    ...     print(f"{error.attempts} attempts; the last answer was {error.text!r}")
    ...     for problem in error.errors:
    ...         print(problem)
    3 attempts; the last answer was 'There are 3 files.'
    the answer has no complete JSON value
    """

    code: ClassVar[Literal["output_invalid"]] = "output_invalid"
    result: PromptResult[Any]
    _attributes = ("attempts", "text", "errors", "result")

    def __init__(
        self,
        message: str = "",
        attempts: int = 0,
        text: str = "",
        errors: Sequence[OutputError] = (),
        result: PromptResult[Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.attempts = attempts
        """The number of values that were invalid or missing."""
        self.text = text
        """The last attempt: the text of the answer, or the arguments of the call. Above 64 KiB it is cut."""
        self.errors = list(errors)
        """The errors in the last attempt, at most 20."""
        self.result = _nothing() if result is None else result
        """The result of the turn up to its end: its tool calls, its tokens, and the last text that it said."""


def _nothing() -> PromptResult[Any]:
    """The result of an error that was made without one."""
    from ._results import PromptResult
    from ._wire import TokenUsage

    return PromptResult("cancelled", 0, "", TokenUsage(0, 0, 0, 0))


def _classes(base: type[KimiAgentError]) -> dict[str, type[KimiAgentError]]:
    found = {base.code: base}
    for derived in base.__subclasses__():
        found.update(_classes(derived))
    return found


_BY_CODE = _classes(KimiAgentError)

for _class in _BY_CODE.values():
    # So that a traceback shows the name that programs import.
    _class.__module__ = "kimi_agent"


def from_native(code: str, message: str, fields: Mapping[str, Any]) -> KimiAgentError:
    """Returns the exception for an error of the core."""
    kind = _BY_CODE.get(code, KimiAgentError)
    found: KimiAgentError
    if issubclass(kind, RpcError):
        found = kind(fields.get("message", message), fields.get("rpc_code"), fields.get("data"), fields.get("hint"))
        for name in ("status", "retry_after"):
            if fields.get(name) is not None:
                setattr(found, name, fields[name])
        if isinstance(found, AuthExpired):
            from ._auth import AuthMethod

            found.methods = tuple(AuthMethod(**method) for method in fields.get("methods", ()))
    else:
        given = {name: fields[name] for name in kind._attributes if name in fields}
        if "result" in given:
            from ._results import result_of

            given["result"] = result_of(given["result"])
        if "errors" in given:
            from ._results import OutputError

            given["errors"] = [OutputError(**error) for error in given["errors"]]
        found = kind(message, **given)
    if "result" in fields and "result" not in kind._attributes:
        from ._results import result_of

        found.result = result_of(fields["result"])
    retryable = fields.get("retryable", kind.retryable)
    if retryable != kind.retryable:
        found.retryable = retryable
    return found
