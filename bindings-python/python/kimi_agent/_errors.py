"""The exceptions of the package. `code` is the same string in every language."""

# The code of a class never changes, so that it may be narrower than that of its base.
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

__all__ = [
    "AgentExited",
    "AuthExpired",
    "EventBufferFull",
    "HandshakeError",
    "InvalidOption",
    "KimiAgentError",
    "LlmNotSet",
    "LlmNotSupported",
    "LlmServiceError",
    "MaxStepsReached",
    "NoActiveTurn",
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
    "auth_expired",
]  # fmt: skip
"""The codes of errors that the agent answers with."""


class KimiAgentError(Exception):
    """The base class of all errors of this package.

    The class itself is raised for a wrong use of the package (a session in another event loop, a task of trio, a forked
    process), or for a defect of the package.
    """

    code: ClassVar[str] = "internal_error"
    """A stable name for the kind of error."""
    retryable: bool = False
    """Whether the same call can succeed later without a change: the model is overloaded or limits the rate, the agent
    exited, a deadline was exceeded, or another turn was running."""
    _attributes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __repr__(self) -> str:
        known = [f", {name}={getattr(self, name)!r}" for name in self._attributes]
        return f"{type(self).__name__}({str(self)!r}{''.join(known)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Not that of OSError, which some of the classes derive from and which would leave out the attributes.
        state = {name: getattr(self, name) for name in self._attributes}
        if "retryable" in self.__dict__:
            state["retryable"] = self.retryable
        return (type(self), self.args, state)


class InvalidOption(KimiAgentError, ValueError):
    """An option or an argument has a wrong name or value. Also a `ValueError`."""

    code: ClassVar[Literal["invalid_option"]] = "invalid_option"
    _attributes = ("option",)

    def __init__(self, message: str = "", option: str = "") -> None:
        super().__init__(message)
        self.option = option
        """The name of the option or argument."""


class SpawnError(KimiAgentError, OSError):
    """The agent cannot be started. The text says which program was looked for, and where. Also an `OSError`.

    `errno` is None.
    """

    code: ClassVar[Literal["spawn_error"]] = "spawn_error"


class HandshakeError(KimiAgentError):
    """The agent refused the handshake, or did not answer as an agent should."""

    code: ClassVar[Literal["handshake_error"]] = "handshake_error"


class AgentExited(KimiAgentError):
    """The agent exited. All pending calls fail with this error, and the session is closed."""

    code: ClassVar[Literal["agent_exited"]] = "agent_exited"
    retryable = True
    _attributes = ("exit_code", "signal", "stderr")

    def __init__(
        self, message: str = "", exit_code: int | None = None, signal: str | None = None, stderr: str = ""
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """The exit code. None if a signal ended the agent."""
        self.signal = signal
        """The name of the signal that ended the agent, for example "SIGKILL"."""
        self.stderr = stderr
        """The end of the agent's output on stderr."""


class ProtocolError(KimiAgentError):
    """The agent violated the protocol, for example with a line that is too long. The session is closed."""

    code: ClassVar[Literal["protocol_error"]] = "protocol_error"


class Unsupported(KimiAgentError):
    """The agent does not have this feature."""

    code: ClassVar[Literal["unsupported"]] = "unsupported"


class SessionClosed(KimiAgentError):
    """The session is closed. Open a new one with the same `session_id` to continue the conversation."""

    code: ClassVar[Literal["session_closed"]] = "session_closed"


class Timeout(KimiAgentError, TimeoutError):
    """A deadline was exceeded. The text names the call and the option. Also a `TimeoutError`."""

    code: ClassVar[Literal["timeout"]] = "timeout"
    retryable = True


class EventBufferFull(KimiAgentError):
    """The buffer of unread events is full.

    Raised if a call inside the loop over a turn waits for an answer behind too many unread events. Also raised if a
    session that shares its process leaves too many events unread; that session is closed.
    """

    code: ClassVar[Literal["event_buffer_full"]] = "event_buffer_full"


class RpcError(KimiAgentError):
    """The agent answered a call with an error."""

    code: ClassVar[RpcErrorCode] = "rpc_error"
    _attributes = ("rpc_code", "message", "data", "hint")

    def __init__(
        self, message: str = "", rpc_code: int | None = None, data: Any = None, hint: str | None = None
    ) -> None:
        text = message if rpc_code is None else f"{message} ({rpc_code})"
        super().__init__(text if hint is None else f"{text}; {hint}")
        self.rpc_code = rpc_code
        """The JSON-RPC error code from the agent. None if the SDK raises the error."""
        self.message = message
        """The agent's text."""
        self.data = data
        """The agent's further data about the error."""
        self.hint = hint
        """Advice of the SDK, if there is any."""

    def __reduce__(self) -> tuple[Any, ...]:
        kind, _, state = super().__reduce__()
        return (kind, (self.message, self.rpc_code, self.data, self.hint), state)


class TurnInProgress(RpcError):
    """Another turn is running."""

    code: ClassVar[Literal["turn_in_progress"]] = "turn_in_progress"
    retryable = True


class NoActiveTurn(RpcError):
    """There is no running turn to steer."""

    code: ClassVar[Literal["no_active_turn"]] = "no_active_turn"


class LlmNotSet(RpcError):
    """No model is configured."""

    code: ClassVar[Literal["llm_not_set"]] = "llm_not_set"


class LlmNotSupported(RpcError):
    """The model does not support the request."""

    code: ClassVar[Literal["llm_not_supported"]] = "llm_not_supported"


class LlmServiceError(RpcError):
    """The model's service failed. Not `retryable` if it refuses the request, for example because of a wrong key."""

    code: ClassVar[Literal["llm_service_error"]] = "llm_service_error"
    retryable = True


class AuthExpired(RpcError):
    """The login has expired."""

    code: ClassVar[Literal["auth_expired"]] = "auth_expired"


class TurnCancelled(KimiAgentError):
    """The turn was cancelled. `PromptResult.raise_for_status()` raises it."""

    code: ClassVar[Literal["turn_cancelled"]] = "turn_cancelled"


class MaxStepsReached(KimiAgentError):
    """The turn reached its limit of steps. `PromptResult.raise_for_status()` raises it."""

    code: ClassVar[Literal["max_steps_reached"]] = "max_steps_reached"
    _attributes = ("steps",)

    def __init__(self, message: str = "", steps: int | None = None) -> None:
        super().__init__(message)
        self.steps = steps
        """The number of steps, if the agent says it."""


def _classes(base: type[KimiAgentError]) -> dict[str, type[KimiAgentError]]:
    found = {base.code: base}
    for derived in base.__subclasses__():
        found.update(_classes(derived))
    return found


_BY_CODE = _classes(KimiAgentError)

for _class in _BY_CODE.values():
    # A traceback names what programs import.
    _class.__module__ = "kimi_agent"


def from_native(code: str, message: str, fields: Mapping[str, Any]) -> KimiAgentError:
    """Returns the exception for an error of the core."""
    kind = _BY_CODE.get(code, KimiAgentError)
    found: KimiAgentError
    if issubclass(kind, RpcError):
        found = kind(fields.get("message", message), fields.get("rpc_code"), fields.get("data"), fields.get("hint"))
    else:
        found = kind(message, **{name: fields[name] for name in kind._attributes if name in fields})
    retryable = fields.get("retryable", kind.retryable)
    if retryable != kind.retryable:
        found.retryable = retryable
    return found
