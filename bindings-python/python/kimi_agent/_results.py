"""The results that calls return. Imported when first needed, because dataclasses take long to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, cast

from ._errors import AnswerRefused, AnswerTruncated, KimiAgentError, MaxStepsReached, TurnCancelled
from ._output import T_co

if TYPE_CHECKING:
    from ._output import OutputCheck
    from ._wire import Content, Cost, Plan, TokenUsage, ToolCallInfo

__all__ = [
    "Capabilities",
    "ConfigChoice",
    "ConfigOption",
    "HandlerFailure",
    "OutputError",
    "PromptResult",
    "RejectedApproval",
    "SessionInfo",
    "ToolCallRecord",
]


@dataclass(frozen=True)
class ToolCallRecord:
    """One tool call of a turn, in `PromptResult.tool_calls`.

    >>> result = await turn.result()
    >>> for call in result.tool_calls:
    ...     print(call.name, call.arguments, "failed" if call.is_error else call.output)
    Shell {'command': 'ls'} README.md
    """

    id: str
    """The id of the call, which the model has chosen."""
    name: str
    """The name of the tool."""
    arguments: dict[str, Any] | None
    """The arguments, parsed. None if they are not a JSON object or did not fit."""
    output: Content | None
    """The tool's output, or its message if there is no output. If the turn ended before the call, it is what the call
    had shown, or None. An output above 256 KiB is cut and ends with a line that says so: `[… 123 more bytes]`."""
    is_error: bool | None
    """Whether the tool failed. None if the turn ended before the call."""
    duration: float | None
    """The seconds from the last piece of the arguments to the result, with the wait for an approval. None if the turn
    ended before the call."""


@dataclass(frozen=True)
class RejectedApproval:
    """An approval that was rejected, in `PromptResult.rejected`.

    >>> result = await turn.result()
    >>> for rejection in result.rejected:
    ...     print(rejection.description, "-", rejection.by)
    Run `make` - no_handler
    """

    tool_call: ToolCallInfo | None
    """The tool call that needed the approval. None if the agent never named the call."""
    description: str
    """The description in the agent's request, for example `Run make`. For a call that was denied before the agent
    asked: the model's description of the command, the command, or the name of the tool. Above 4 KiB it is cut."""
    by: Literal["no_handler", "handler", "handler_failed", "policy", "cancelled"]
    """The reason: "no_handler" (there was no handler), "handler" (`on_approval` or `respond()` rejected it),
    "handler_failed" (`on_approval` failed), "policy" (a rule), "cancelled" (the turn was cancelled or ended first)."""
    reason: str | None = None
    """Of a rejection by the policy: the reason, as a sentence for people."""
    part: str | None = None
    """Of a rejection by the policy: the part of the call that decided, for example a simple command or a path."""


@dataclass(frozen=True)
class HandlerFailure:
    """A handler that failed, in `PromptResult.handler_failures`.

    >>> def decide(request):
    ...     raise RuntimeError("the approver is out")
    >>> async with create_session(work_dir=".", on_approval=decide) as session:
    ...     result = await session.prompt("Build it").result()
    >>> for failure in result.handler_failures:
    ...     print(failure.handler, "-", failure.message)
    approval - the approver is out
    """

    handler: (
        Literal["approval", "question", "tool", "output", "hook", "event", "read_file", "write_file", "terminal"] | str
    )
    """The kind of handler. "output" is the check of a value by the type in `output`."""
    tool_call: ToolCallInfo | None
    """The tool call of the request. None if there is none, or if the agent never named the call."""
    message: str
    """The text of the error. Above 4 KiB it is cut."""


@dataclass(frozen=True)
class OutputError:
    """An error in a value of `output`, in `OutputInvalid.errors`.

    >>> error = OutputError("/lines/0/total", "expected a positive number")
    >>> print(error)
    /lines/0/total: expected a positive number
    """

    pointer: str
    """The place in the value as a JSON Pointer, for example `/lines/0/total`. Empty for the value itself."""
    message: str
    """The text of the error, which the model got, too."""

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


def _no_value() -> None:
    """The value of a result without one."""


@dataclass(frozen=True)
class PromptResult(Generic[T_co]):
    """The outcome of a turn. `Turn.result` returns it.

    >>> result = await turn.result()
    >>> print(result.status, result.steps, result.text)
    finished 1 There are 3 files.
    """

    status: Literal["finished", "cancelled", "max_steps_reached", "truncated", "refused"]
    """How the turn ended. "truncated" if the answer ends at the model's limit of tokens, "refused" if the model, its
    provider or a hook of the agent refused to answer. The result of an error has "cancelled" if the turn did not come
    to its end."""
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
    output: T_co | None = field(default_factory=_no_value)
    """The value of the option `output`, of its type. None without the option, and if the turn was cancelled or reached
    its limit of steps before it had a value. `raise_for_status` raises for these, so that its result has a value. In
    the result of an error it is plain JSON."""
    stop_reason: str | None = None
    """Why the turn ended, in the agent's own word: over ACP "end_turn", "max_tokens", "max_turn_requests", "refusal",
    "cancelled" or another one; over Wire the status. None if the agent did not say."""
    plan: Plan | None = None
    """The agent's last plan of the turn, without unknown fields. At most its first 1,000 entries, whose texts together
    take at most 256 KiB. None if the agent sent none."""
    cost: Cost | None = None
    """The cost of the turn: as the agent reported it, or the price of its tokens by the option `prices`. None if
    neither is known, or if the agent reported several currencies."""

    def raise_for_status(self) -> FinishedResult[T_co]:
        """Returns this result if the turn has finished. A turn with the option `output` then has a value.

        Raises:
            TurnCancelled: The turn was cancelled.
            MaxStepsReached: The turn reached its limit of steps.
            AnswerTruncated: The answer was cut at the model's limit of tokens.
            AnswerRefused: The model, its provider or a hook of the agent refused to answer.

        >>> result = await turn.result()
        >>> print(result.raise_for_status().text)
        There are 3 files.
        """
        error = self._error()
        if error is not None:
            error.result = self
            raise error
        return cast("FinishedResult[T_co]", self)

    def _error(self) -> KimiAgentError | None:
        """Returns the error for a turn that has not finished."""
        if self.status == "cancelled":
            return TurnCancelled("the turn was cancelled before it was finished; the session can still be used")
        if self.status == "max_steps_reached":
            hint = "prompt again to continue, or raise `max_steps_per_turn`"
            # Over ACP an agent reports no steps: the SDK counts the turn as one.
            is_known = self.steps > 1 or self.stop_reason != "max_turn_requests"
            limit = f"{self.steps} steps" if is_known else "steps"
            return MaxStepsReached(f"the turn reached its limit of {limit}; {hint}", self.steps if is_known else None)
        if self.status == "truncated":
            hint = "prompt again to continue, or raise the limit in the agent's configuration"
            return AnswerTruncated(f"the answer was cut at the model's limit of tokens; {hint}")
        if self.status == "refused":
            return AnswerRefused("the model, its provider or a hook of the agent refused to answer; change the prompt")
        return None


if TYPE_CHECKING:

    class FinishedResult(PromptResult[T_co]):
        """A result whose turn has finished, for type checkers: its `output` is not None."""

        output: T_co

else:
    FinishedResult = PromptResult


def value_of(outcome: dict[str, Any], check: OutputCheck | None) -> Any:
    """Returns the value of `output` in the outcome that the core reports, of the type that has checked it."""
    value = outcome["output"]
    return value if value is None or check is None else check.take(value)


def result_of(outcome: dict[str, Any]) -> PromptResult[Any]:
    """Makes a result from the outcome that the core reports."""
    return PromptResult(
        outcome["status"],
        outcome["steps"],
        outcome["text"],
        outcome["usage"],
        [ToolCallRecord(**call) for call in outcome["tool_calls"]],
        [RejectedApproval(**rejection) for rejection in outcome["rejected"]],
        [HandlerFailure(**failure) for failure in outcome["handler_failures"]],
        outcome["output"],
        outcome["stop_reason"],
        outcome["plan"],
        outcome["cost"],
    )


@dataclass(frozen=True)
class Capabilities:
    """The features that an agent has, in `Session.capabilities`. Check these, not versions.

    >>> if session.capabilities.steer:
    ...     print("This agent can be steered.")
    This agent can be steered.
    """

    external_tools: bool
    """Whether the program can offer tools: from Wire 1.1 on, and over ACP if the agent accepts MCP servers by HTTP."""
    questions: bool
    """Whether the agent can ask questions: from Wire 1.4 on, over ACP, and with Kimi Code's server."""
    approval_feedback: bool
    """Whether the model reads the feedback of a rejection: from Wire 1.6 on, and with Kimi Code's server."""
    steer: bool
    """Whether a running turn can be steered: from Wire 1.4 on, with Kimi Code's server, and with some agents of ACP."""
    plan_mode: bool
    """Whether the agent has plan mode: from Wire 1.4 on, with Kimi Code's server, and over ACP if the agent says so."""
    config_options: bool
    """Whether the session has options that can be set while it is open: only over ACP."""
    replay: bool
    """Whether the agent can replay a session's events: from Wire 1.3 on, and with Kimi Code's server."""
    undo: bool
    """Whether the last turns of a session can be undone: only with Kimi Code's server."""
    fork: bool
    """Whether a session can begin with the history of another: with Kimi Code's server, and over ACP if the agent says
    so."""
    hooks: list[str]
    """The events that hooks can be set on, from Wire 1.8 on. Empty if the agent has no hooks."""
    policy: Literal["approvals", "tool_calls"] = "approvals"
    """The tool calls that a policy sees: "approvals" (those that the agent asks about), or "tool_calls" (from Wire 1.8
    on, where rules that deny see every call)."""
    files: bool = False
    """Whether the program can offer to read and write files for the agent: only over ACP. Some agents do not use it."""
    terminals: bool = False
    """Whether the program can offer to run commands for the agent: only over ACP. Some agents do not use it."""


@dataclass(frozen=True)
class ConfigChoice:
    """A value to choose for a `ConfigOption`.

    >>> for option in session.config_options:
    ...     print(option.id, [choice.value for choice in option.choices])
    model ['scripted']
    thinking ['off', 'on']
    mode ['default', 'plan', 'auto', 'yolo']
    """

    value: str
    """The value, for `set_config_option`."""
    name: str
    """The name, for people."""
    description: str | None
    """The description, if the agent sends one."""


@dataclass(frozen=True)
class ConfigOption:
    """An option of a session that can be set while the session is open, in `Session.config_options`.

    >>> for option in session.config_options:
    ...     print(option.id, option.value)
    model scripted
    thinking off
    mode default
    """

    id: str
    """The id, for `set_config_option`."""
    name: str
    """The name, for people."""
    description: str | None
    """The description, if the agent sends one."""
    category: Literal["model", "thought_level", "mode"] | str | None
    """The category, if the agent names one."""
    value: str | bool
    """The current value."""
    choices: list[ConfigChoice]
    """The values to choose from. Empty if the option is on or off."""


def config_option_of(told: dict[str, Any]) -> ConfigOption:
    """Makes an option from what the core reports."""
    choices = [ConfigChoice(**choice) for choice in told["choices"]]
    return ConfigOption(
        id=told["id"],
        name=told["name"],
        description=told["description"],
        category=told["category"],
        value=told["value"],
        choices=choices,
    )


@dataclass(frozen=True)
class SessionInfo:
    """A session that an agent has stored. `Agent.list_sessions` returns a list of them.

    >>> for info in await agent.list_sessions(work_dir="."):
    ...     session = await agent.resume(info.id)
    """

    id: str
    """The session's id. `Agent.resume` continues the session."""
    work_dir: str
    """The directory that the session works in."""
    title: str | None
    """The title that the agent gave the session, if any."""
    updated_at: str | None
    """The time of the last activity in ISO 8601, if the agent says it."""
    archived: bool | None = None
    """Whether the session is archived, if the agent says it."""
