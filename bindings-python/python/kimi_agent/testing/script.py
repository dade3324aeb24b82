"""The types of the scripted agent's scripts. `docs/testing.md` describes every action."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from .._option_types import Dialect

if TYPE_CHECKING:
    from typing_extensions import Required
elif sys.version_info >= (3, 11):
    from typing import Required
else:

    class Required:
        """Stands for `typing.Required`, so that annotations can be evaluated."""

        def __class_getitem__(cls, item):
            return item


__all__ = [
    "ScriptAction",
    "ScriptApproval",
    "ScriptCut",
    "ScriptEffect",
    "ScriptError",
    "ScriptExternalTool",
    "ScriptHook",
    "ScriptMessage",
    "ScriptObject",
    "ScriptQuestion",
    "ScriptRepeat",
    "ScriptResult",
    "ScriptStatus",
    "ScriptToolCall",
    "ScriptTurn",
    "ScriptTurnObject",
    "ScriptUsage",
]

ScriptStatus = Literal["finished", "cancelled", "max_steps_reached"]
"""How a turn ends."""

ScriptSignal = Literal[
    "HUP", "INT", "QUIT", "ABRT", "KILL", "SEGV", "TERM",
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGKILL", "SIGSEGV", "SIGTERM",
]  # fmt: skip
"""A signal that ends a process."""


class ScriptResult(TypedDict, total=False):
    """The result of a scripted tool call."""

    output: Any
    """What the model gets to read: text, or content parts. Default: empty."""
    message: str
    """A note on the result. Default: empty."""
    is_error: bool
    """Whether the call failed. Default: False."""
    display: Sequence[Any]
    """Blocks for display. Default: none."""
    extras: Mapping[str, Any]
    """Further fields. Default: none."""


class ScriptApproval(TypedDict, total=False):
    """Fields of the approval request that a scripted tool call makes."""

    action: str
    description: str
    display: Sequence[Any]
    id: str
    sender: str
    source_kind: Literal["foreground_turn", "background_agent"]
    source_id: str
    agent_id: str
    subagent_type: str
    source_description: str


class ScriptEffect(TypedDict, total=False):
    """A file that a tool call writes."""

    write_file: Required[str]
    """Its path, relative to the session's working directory."""
    content: str
    """What is written. Default: nothing."""


class ScriptToolCall(TypedDict, total=False):
    """A call of one of the agent's own tools."""

    name: Required[str]
    """The tool."""
    id: str
    """The id of the call. Default: `tc_1`, `tc_2`, …"""
    arguments: Any
    """An object, or text that is passed on as it is. Default: `{}`."""
    split: int
    """How many `ToolCallPart`s carry the arguments. Default: 0, the call itself carries them."""
    approve: Union[bool, ScriptApproval, None]
    """Whether the agent asks before the call, and what its request says. Default: it does not ask."""
    effect: ScriptEffect
    """What happens if the call is carried out. Default: nothing."""
    result: Union[str, ScriptResult]
    """The result; text is its output. Default: an empty success."""
    feedback_result: Union[str, ScriptResult]
    """The result if the user rejects with feedback."""


class ScriptExternalTool(TypedDict, total=False):
    """A call of a tool of the program."""

    name: Required[str]
    """The tool."""
    id: str
    """The id of the call. Default: `tc_1`, `tc_2`, …"""
    arguments: Any
    """An object, or text that is passed on as it is. Default: `{}`."""
    split: int
    """How many `ToolCallPart`s carry the arguments. Default: 0."""
    force: bool
    """Whether the tool is called even if the program did not register it. Default: False."""


class ScriptQuestion(TypedDict, total=False):
    """Questions for the user."""

    questions: Required[Sequence[Mapping[str, Any]]]
    """Each with `question` and `options`, and if wanted `header`, `multi_select`, `body`, `other_label` and
    `other_description`."""
    id: str
    """The id of the call."""
    request_id: str
    """The id of the request."""
    split: int
    """How many `ToolCallPart`s carry the arguments. Default: 0."""


class ScriptHook(TypedDict, total=False):
    """A hook that the agent runs."""

    event: Required[str]
    target: str
    input_data: Mapping[str, Any]
    subscription_id: str
    """Only the hook of that id is asked."""


class ScriptUsage(TypedDict, total=False):
    """The tokens of a step. Default: 0 each."""

    input_other: int
    output: int
    input_cache_read: int
    input_cache_creation: int


class ScriptMessage(TypedDict, total=False):
    """An event or request in its wire form."""

    type: Required[str]
    payload: Any


class ScriptError(TypedDict, total=False):
    """An error that answers the prompt."""

    code: Required[int]
    message: str
    data: Any


class ScriptRepeat(TypedDict):
    """Actions that are repeated."""

    times: int
    actions: Sequence[ScriptAction]


class ScriptAction(TypedDict, total=False):
    """One thing that the agent does.

    One key names the action, such as `{"text": "Hello"}`; `delay`, `bulk` and its other keys may stand beside it.
    """

    delay: float
    """Seconds before the action. Alone: a pause. Default: 0."""
    bulk: bool
    """Whether the action's messages are written in one piece. Default: False."""
    text: Union[str, Sequence[str]]
    """Text of the answer, or pieces of it, each sent as an event of its own."""
    think: Union[str, Sequence[str]]
    """The same for the model's thinking."""
    delay_between: float
    """Seconds between the pieces of `text` or `think`. Default: 0."""
    step: Union[int, Literal[True], None]
    """Begins a step; a number makes it that step."""
    tool_call: ScriptToolCall
    """Calls one of the agent's own tools."""
    external_tool: ScriptExternalTool
    """Calls a tool of the program."""
    question: ScriptQuestion
    """Asks the user."""
    parallel: Sequence[ScriptAction]
    """Calls of tools that run at the same time."""
    hook: ScriptHook
    """Runs hooks of the program."""
    usage: ScriptUsage
    """Sends the tokens of the step; fields of a `StatusUpdate` may stand beside it."""
    context_usage: float
    context_tokens: int
    max_context_tokens: int
    message_id: str
    plan_mode: bool
    mcp_status: Mapping[str, Any]
    status: Mapping[str, Any]
    """Sends a `StatusUpdate` with these fields."""
    event: ScriptMessage
    """Sends any event."""
    verbatim: bool
    """Whether `event` is sent as it is, whatever the version. Default: False."""
    request: ScriptMessage
    """Sends any request."""
    id: str
    """The id of `request`."""
    wait: bool
    """Whether the agent waits for the answer to `request`."""
    raw: Union[str, Mapping[str, Any]]
    """Writes a line as it is."""
    raw_base64: str
    """Writes bytes as they are."""
    end: ScriptStatus
    """Ends the turn; actions after it happen outside of the turn."""
    steps: int
    """With `end`: after how many steps."""
    error: ScriptError
    """Answers the prompt with an error."""
    never_answer: Literal[True]
    """Leaves the prompt without an answer."""
    wait_cancel: Literal[True]
    """Waits for a cancel."""
    wait_steer: Literal[True]
    """Waits until the user says something more."""
    wait_file: str
    """Waits until there is a file, relative to the working directory."""
    repeat: ScriptRepeat
    """Repeats actions, and counts in `{{round}}`."""
    stderr: str
    """Writes to stderr."""
    exit: int
    """Ends the process with this code."""
    signal: ScriptSignal
    """Ends the process by this signal."""
    ignore_signal: ScriptSignal
    """A signal no longer ends the process."""
    close_stdout: Literal[True]
    """Writes nothing more; the process stays."""
    ignore_eof: Literal[True]
    """The end of stdin no longer ends the process."""
    stall: Literal[True]
    """Reads and writes nothing more; the process stays."""


class ScriptTurnObject(TypedDict, total=False):
    """A turn that says how it ends."""

    actions: Required[Sequence[ScriptAction]]
    """What the agent does."""
    status: ScriptStatus
    """How the turn ends after its actions. Default: "finished"."""
    steps: int
    """With "max_steps_reached": after how many steps. Default: as many as there were."""


ScriptTurn = Union[Sequence[ScriptAction], ScriptTurnObject]
"""What the agent does about one prompt."""


class ScriptCut(TypedDict, total=False):
    """Actions at a point of the conversation."""

    lines: int
    """After so many lines that the agent has written."""
    bytes: int
    """After so many bytes that the agent has written."""
    call: str
    """When this method is called, before it is answered."""
    actions: Required[Sequence[ScriptAction]]
    """What the agent does then."""


class ScriptObject(TypedDict, total=False):
    """A script that says more than a list of turns."""

    turns: Sequence[ScriptTurn]
    """What the agent does, one turn for each prompt. Further prompts are answered with `(script exhausted)`."""
    wire: Dialect
    """The protocol that the agent speaks. Default: the newest version of Wire."""
    release: str
    """The release that the agent plays: of kimi-cli, or from "2.0" on of Kimi Code."""
    server: Mapping[str, str]
    """The `name` and `version` in the handshake."""
    slash_commands: Sequence[Mapping[str, Any]]
    """The commands in the handshake, each with `name`, `description` and `aliases`. Default: none."""
    before_handshake: Sequence[ScriptAction]
    """Actions before anything is read. Default: none."""
    steer: bool
    """Whether the agent can be steered. Default: decided by the version."""
    questions: bool
    """Whether the agent can ask questions. Default: decided by the version."""
    silent_errors: bool
    """Whether the agent ignores what it does not understand. Default: decided by the release."""
    half_duplex: bool
    """Whether the agent reads nothing during a turn. Default: only with `"wire": "legacy"`."""
    session_file: str
    """The file that keeps the sessions, so that a later process can resume them. Default: none."""
    cut: ScriptCut
    """Actions at a point of the conversation. Default: none."""
    deaf_to: Sequence[str]
    """Methods whose calls are ignored. Default: none."""
