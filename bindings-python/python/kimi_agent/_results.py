"""The results that calls return. Imported when first needed, because dataclasses take long to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ._errors import MaxStepsReached, TurnCancelled

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._wire import Content, TokenUsage, ToolCallInfo

__all__ = [
    "Capabilities",
    "HandlerFailure",
    "PromptResult",
    "RejectedApproval",
    "SessionInfo",
    "ToolCallRecord",
]


@dataclass(frozen=True)
class ToolCallRecord:
    """One tool call of a turn, in `PromptResult.tool_calls`."""

    id: str
    """The id of the call, which the model has chosen."""
    name: str
    """The name of the tool."""
    arguments: dict[str, Any] | None
    """The arguments, parsed. None if they are not a JSON object or did not fit."""
    output: Content | None
    """The tool's output, or its message if there is no output. None if the turn ended before the call. An output above
    256 KiB is cut and ends with a line that says so: `[… 123 more bytes]`."""
    is_error: bool | None
    """Whether the tool failed. None if the turn ended before the call."""
    duration: float | None
    """The seconds from the last piece of the arguments to the result, with the wait for an approval. None if the turn
    ended before the call."""


@dataclass(frozen=True)
class RejectedApproval:
    """An approval that was rejected, in `PromptResult.rejected`."""

    tool_call: ToolCallInfo | None
    """The tool call that needed the approval. None if the agent never named the call."""
    description: str
    """The description in the agent's request, for example `Run make`. Above 4 KiB it is cut."""
    by: Literal["no_handler", "handler", "handler_failed", "policy", "cancelled"]
    """The reason: "no_handler" (there was no handler), "handler" (`on_approval` or `respond()` rejected it),
    "handler_failed" (`on_approval` failed), "policy" (a rule), "cancelled" (the turn was cancelled or ended first)."""


@dataclass(frozen=True)
class HandlerFailure:
    """A handler that failed, in `PromptResult.handler_failures`."""

    handler: Literal["approval", "question", "tool", "hook", "event"] | str
    """The kind of handler."""
    tool_call: ToolCallInfo | None
    """The tool call of the request. None if there is none, or if the agent never named the call."""
    message: str
    """The text of the error. Above 4 KiB it is cut."""


@dataclass(frozen=True)
class PromptResult:
    """The outcome of a turn."""

    status: Literal["finished", "cancelled", "max_steps_reached"]
    """How the turn ended."""
    steps: int
    """The number of steps."""
    text: str
    """The text of the last step."""
    usage: TokenUsage
    """The tokens that the turn has used."""
    tool_calls: list[ToolCallRecord] = field(default_factory=list)
    """The tool calls of the turn and of its subagents, in order, at most 10,000. Their arguments and outputs take at
    most 4 MiB together; arguments and outputs that do not fit are left out."""
    rejected: list[RejectedApproval] = field(default_factory=list)
    """The approvals that were rejected, in order, at most 1,000."""
    handler_failures: list[HandlerFailure] = field(default_factory=list)
    """The handlers that failed during the turn, in order, at most 1,000."""

    def raise_for_status(self) -> Self:
        """Returns this result if the turn has finished.

        Raises:
            TurnCancelled: The turn was cancelled.
            MaxStepsReached: The turn reached its limit of steps.
        """
        if self.status == "cancelled":
            raise TurnCancelled("the turn was cancelled before it was finished; the session can still be used")
        if self.status == "max_steps_reached":
            hint = "prompt again to continue, or raise `max_steps_per_turn`"
            raise MaxStepsReached(f"the turn reached its limit of {self.steps} steps; {hint}", self.steps)
        return self


def result_of(outcome: dict[str, Any]) -> PromptResult:
    """Makes a result from the outcome that the core reports."""
    return PromptResult(
        outcome["status"],
        outcome["steps"],
        outcome["text"],
        outcome["usage"],
        [ToolCallRecord(**call) for call in outcome["tool_calls"]],
        [RejectedApproval(**rejection) for rejection in outcome["rejected"]],
        [HandlerFailure(**failure) for failure in outcome["handler_failures"]],
    )


@dataclass(frozen=True)
class Capabilities:
    """The features that an agent has."""

    external_tools: bool
    """The program can offer tools."""
    questions: bool
    """The agent can ask questions."""
    approval_feedback: bool
    """A rejection can have feedback, which the model reads."""
    steer: bool
    """A running turn can be steered."""
    plan_mode: bool
    """The agent has plan mode."""
    replay: bool
    """The agent can replay a session's events."""
    hooks: list[str]
    """The events that hooks can be set on. Empty if the agent has no hooks."""


@dataclass(frozen=True)
class SessionInfo:
    """A session that an agent has stored."""

    id: str
    """The session's id. `Agent.resume` continues the session."""
    work_dir: str
    """The directory that the session works in."""
    title: str | None
    """The title that the agent gave the session, if any."""
    updated_at: str | None
    """The time of the last activity in ISO 8601, if the agent says it."""
