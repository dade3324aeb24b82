"""What calls return. Loaded when first needed: dataclasses take as long to import as the rest of this package."""

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
    """The call; the model's own id."""
    name: str
    """The tool."""
    arguments: dict[str, Any] | None
    """The arguments, parsed. None if they are not a JSON object or did not fit."""
    output: Content | None
    """The tool's output; of a result without output, its message. None if the turn ended before the call did. An output
    above 256 KiB is cut, and ends with a line that says so: `[… 123 more bytes]`."""
    is_error: bool | None
    """Whether the tool failed; None if the turn ended before the call did."""
    duration: float | None
    """Seconds from the last piece of the arguments to the result, including the wait for an approval. None if the turn
    ended before the call did."""


@dataclass(frozen=True)
class RejectedApproval:
    """An approval that was rejected, in `PromptResult.rejected`."""

    tool_call: ToolCallInfo | None
    """The tool call that wanted it; None if the agent never named the call."""
    description: str
    """What the agent wanted to do, as its request described it. Above 4 KiB it is cut."""
    by: Literal["no_handler", "handler", "handler_failed", "policy", "cancelled"]
    """Who rejected it: `no_handler`, nobody could answer; `handler`, `on_approval` or `respond()`; `handler_failed`,
    `on_approval` failed; `policy`, a rule; `cancelled`, the turn was cancelled or ended before there was an answer."""


@dataclass(frozen=True)
class HandlerFailure:
    """A handler that failed, in `PromptResult.handler_failures`."""

    handler: Literal["approval", "question", "tool", "hook", "event"] | str
    """The kind of handler."""
    tool_call: ToolCallInfo | None
    """The tool call that it was called for; None if there is none, or if the agent never named the call."""
    message: str
    """What went wrong. Above 4 KiB it is cut."""


@dataclass(frozen=True)
class PromptResult:
    """What came of a turn."""

    status: Literal["finished", "cancelled", "max_steps_reached"]
    """How it ended."""
    steps: int
    """How many steps it had."""
    text: str
    """The text of its last step."""
    usage: TokenUsage
    """The tokens that it took."""
    tool_calls: list[ToolCallRecord] = field(default_factory=list)
    """The tool calls of the turn in order, those of subagents included. At most the first 10,000; their arguments and
    outputs together take at most 4 MiB, and what does not fit is left out of the list's entries."""
    rejected: list[RejectedApproval] = field(default_factory=list)
    """The approvals that were rejected, in order; at most the first 1,000."""
    handler_failures: list[HandlerFailure] = field(default_factory=list)
    """The handlers that failed while the turn ran, in order; at most the first 1,000."""

    def raise_for_status(self) -> Self:
        """Raises `TurnCancelled` or `MaxStepsReached` unless the turn has finished; returns the result itself."""
        if self.status == "cancelled":
            raise TurnCancelled("the turn was cancelled before it was finished; the session can still be used")
        if self.status == "max_steps_reached":
            hint = "prompt again to continue, or raise `max_steps_per_turn`"
            raise MaxStepsReached(f"the turn reached its limit of {self.steps} steps; {hint}", self.steps)
        return self


def result_of(outcome: dict[str, Any]) -> PromptResult:
    """The outcome of a turn as the core tells it."""
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
    """What an agent can do."""

    external_tools: bool
    """The program can offer tools."""
    questions: bool
    """The agent can ask questions."""
    approval_feedback: bool
    """A reject may carry feedback that the model sees."""
    steer: bool
    """A running turn can be steered."""
    plan_mode: bool
    """Plan mode can be switched."""
    replay: bool
    """A session's past can be replayed."""
    hooks: list[str]
    """The events that hooks can be set on; empty where there are none."""


@dataclass(frozen=True)
class SessionInfo:
    """A session that an agent keeps."""

    id: str
    """Its id, to resume it by."""
    work_dir: str
    """The directory that it works in."""
    title: str | None
    """What the agent calls it for people, if it does."""
    updated_at: str | None
    """When something last happened in it, in the words of ISO 8601, if the agent says."""
