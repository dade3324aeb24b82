"""The types of values between Python and the core. `_native.pyi` has the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Union

from . import _native
from ._option_types import Approval, QuestionAnswer
from ._wire import ApprovalRequest, ExternalToolsResult, QuestionRequest, ServerInfo, SlashCommand, TokenUsage

__all__ = ["Answer", "Begin", "Callbacks", "Delivery", "ErrorTuple", "Info", "NoForm", "Outcome", "Request"]

Request: TypeAlias = Union[ApprovalRequest, QuestionRequest, str]
"""A request that is answered manually, or its id."""

Answer: TypeAlias = Union[Approval, QuestionAnswer, None]
"""A manual answer."""

ErrorTuple: TypeAlias = tuple[str, str, dict[str, Any]]
"""Code, message and fields of an error, as `_errors.from_native` takes them."""

Delivery: TypeAlias = Union[
    tuple[Literal["done"], int, Any, Union[ErrorTuple, None]],
    tuple[Literal["readable"], int],
    tuple[Literal["job"], int, int, str, Union[int, None], Any, Union[str, None], bool, Union[int, None]],
    tuple[Literal["telemetry"], int, list[dict[str, Any]]],
    tuple[Literal["cancel_job"], int],
    tuple[Literal["log"], int, str, str],
]
"""The deliveries of a mailbox:

- `("done", ticket, value, None)` or `("done", ticket, None, error)`: an operation has ended.
- `("readable", stream_key)`: a stream whose `wait` returned False has something, or has ended.
- `("job", job_id, session_key, kind, index, payload, call_id, in_turn, span)`: a function of the program is to be
  called, and `Mailbox.finish_job` with what came of it. `kind` is "approval", "question", "tool", "hook", "event",
  "stderr", "read_file", "write_file", "terminal", "output", "next_job" or "progress"; `index` the place in the options'
  `tools` or `hooks`, or the number of a check of `output`; `payload` the request as an object of `_wire`, for a tool
  its arguments as a dict, for "output" the value, for "event" the event, for "stderr" a line. `call_id`: the ID of a
  tool's call. `in_turn`: it belongs to the running turn. `span`: the number of the span that it runs in.
- `("telemetry", session_key, operations)`: operations on spans and metrics, which are applied in order.
- `("cancel_job", job_id)`: the job was withdrawn.
- `("log", level, target, message)`: a record for `logging`; the level is `logging`'s number.
"""


class Callbacks(TypedDict):
    """The handlers that the program has."""

    on_approval: bool | Literal["manual"]
    on_question: bool | Literal["manual"]
    on_event: bool
    on_stderr: bool
    on_read_file: bool
    on_write_file: bool
    on_terminal: bool


class Info(TypedDict):
    """The handshake result; `capabilities` are the fields of `Capabilities`."""

    server: ServerInfo | None
    capabilities: dict[str, Any]
    config_options: list[dict[str, Any]]
    slash_commands: list[SlashCommand]
    external_tools: ExternalToolsResult


class Outcome(TypedDict):
    """How a turn ended."""

    status: Literal["finished", "cancelled", "max_steps_reached", "truncated", "refused"]
    stop_reason: str | None
    steps: int
    text: str
    output: Any
    usage: TokenUsage


B = TypeVar("B")
F_co = TypeVar("F_co", covariant=True)

Begin: TypeAlias = Callable[[_native.Mailbox, int, Mapping[str, Any], Callbacks], B]
"""An operation of the core that takes options. The key names its jobs in the mailbox of the event loop."""


class NoForm(Protocol[F_co]):
    """A type that no value has."""

    def no_form(self) -> F_co: ...
