"""The types of the scripted agent's scripts. `docs/reference/scripted-agent.md` describes every action."""

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
    "ScriptReadFile",
    "ScriptRepeat",
    "ScriptResult",
    "ScriptStatus",
    "ScriptTerminal",
    "ScriptToolCall",
    "ScriptTurn",
    "ScriptTurnObject",
    "ScriptUsage",
    "ScriptWriteFile",
]

ScriptStatus = Literal["finished", "cancelled", "max_steps_reached", "truncated", "refused"]
"""How a turn ends."""

ScriptSignal = Literal[
    "HUP", "INT", "QUIT", "ABRT", "KILL", "SEGV", "TERM",
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGKILL", "SIGSEGV", "SIGTERM",
]  # fmt: skip
"""A signal that ends a process."""


class ScriptResult(TypedDict, total=False):
    """The result of a scripted tool call.

    >>> result: ScriptResult = {"output": "no such file", "is_error": True}
    >>> executable = scripted_agent([[{"tool_call": {"name": "ReadFile", "result": result}}]])
    """

    output: Any
    """The output for the model: text, or content parts. Default: empty."""
    message: str
    """A note on the result. Default: empty."""
    is_error: bool
    """Whether the call failed. Default: False."""
    display: Sequence[Any]
    """Blocks for display. Default: none."""
    extras: Mapping[str, Any]
    """Further fields. Default: none."""


class ScriptApproval(TypedDict, total=False):
    """Fields of the approval request that a scripted tool call makes.

    >>> approval: ScriptApproval = {"action": "run command", "description": "Run `make`"}
    >>> executable = scripted_agent([[{"tool_call": {"name": "Shell", "approve": approval}}]])
    """

    action: str
    """The kind of action. Default: `use ` and the tool's name."""
    description: str
    """The description for the user. Default: `Use ` and the tool's name."""
    display: Sequence[Any]
    """Blocks for display. Default: none."""
    id: str
    """The id of the request. Default: a random one."""
    sender: str
    """The sender of the request. Default: the tool's name."""
    source_kind: Literal["foreground_turn", "background_agent"]
    """The kind of source: the turn, or an agent in the background. Default: none."""
    source_id: str
    """The id of the source. Default: none."""
    agent_id: str
    """The id of the subagent that asks. Default: none."""
    subagent_type: str
    """The type of the subagent that asks. Default: none."""
    source_description: str
    """A description of the source. Default: none."""
    tool_call: Mapping[str, Any]
    """Over ACP: further fields of the request's `toolCall`, for example `rawInput` and `kind`. They may differ from the
    call. Over other protocols the request shows the command of `rawInput`. Default: none."""


class ScriptEffect(TypedDict, total=False):
    """A file that a tool call writes.

    >>> effect: ScriptEffect = {"write_file": "notes.txt", "content": "done"}
    >>> executable = scripted_agent([[{"tool_call": {"name": "WriteFile", "effect": effect}}]])
    """

    write_file: Required[str]
    """Its path, relative to the session's working directory."""
    content: str
    """The bytes to write. Default: none."""


class ScriptToolCall(TypedDict, total=False):
    """A call of one of the agent's own tools.

    >>> call: ScriptToolCall = {"name": "Shell", "arguments": {"command": "ls"}, "approve": True, "result": "README.md"}
    >>> executable = scripted_agent([[{"tool_call": call}, {"text": "There is one file."}]])
    """

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
    """The actions if the call is carried out. Default: none."""
    result: Union[str, ScriptResult]
    """The result; text is its output. Default: an empty success."""
    feedback_result: Union[str, ScriptResult]
    """The result if the user rejects with feedback."""


class ScriptExternalTool(TypedDict, total=False):
    """A call of a tool of the program.

    >>> call: ScriptExternalTool = {"name": "weather", "arguments": {"city": "Oslo"}}
    >>> executable = scripted_agent([[{"external_tool": call}, {"text": "It is {{last.output}} there."}]])
    """

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
    """Questions for the user.

    >>> ask: ScriptQuestion = {"questions": [{"question": "Which language?", "options": ["Python", "Rust"]}]}
    >>> executable = scripted_agent([[{"question": ask}, {"text": "{{last.answers.Which language?}} it is."}]])
    """

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
    """A hook that the agent runs.

    >>> hook: ScriptHook = {"event": "Notification", "target": "build", "input_data": {"title": "Build finished"}}
    >>> executable = scripted_agent([[{"hook": hook}, {"text": "The hook said {{last.action}}."}]])
    """

    event: Required[str]
    """The event of the hook, for example `Notification`."""
    target: str
    """The text that the hook's matcher is searched for in. Default: empty."""
    input_data: Mapping[str, Any]
    """The data of the event. Default: empty."""
    subscription_id: str
    """Only the hook of that id is asked. Default: all hooks that match."""


class ScriptUsage(TypedDict, total=False):
    """The tokens of a step.

    >>> usage: ScriptUsage = {"input_other": 80, "output": 10}
    >>> executable = scripted_agent([[{"text": "Hello"}, {"usage": usage}]])
    """

    input_other: int
    """Input tokens that no cache had. Default: 0."""
    output: int
    """Output tokens. Default: 0."""
    input_cache_read: int
    """Input tokens that were read from a cache. Default: 0."""
    input_cache_creation: int
    """Input tokens that were written to a cache. Default: 0."""


class ScriptMessage(TypedDict, total=False):
    """An event or request in its wire form.

    >>> message: ScriptMessage = {"type": "CompactionBegin", "payload": {}}
    >>> executable = scripted_agent([[{"event": message}, {"text": "Hello"}]])
    """

    type: Required[str]
    """The name of the event or request."""
    payload: Any
    """Its fields. Default: none."""


class ScriptError(TypedDict, total=False):
    """An error that answers the prompt.

    >>> error: ScriptError = {"code": -32003, "message": "the model is down", "data": {"status": 500}}
    >>> executable = scripted_agent([[{"error": error}]])
    """

    code: Required[int]
    """The JSON-RPC error code: -32001 no model is set, -32002 the model cannot do this, -32003 the model's service
    failed, -32004 the login has expired."""
    message: str
    """The text of the error. Default: empty."""
    data: Any
    """Further data about the error. Default: none."""


class ScriptReadFile(TypedDict, total=False):
    """A file that the program reads for the agent.

    >>> file: ScriptReadFile = {"path": "/project/notes.txt", "line": 2, "limit": 1}
    >>> executable = scripted_agent({"wire": "acp", "turns": [[{"read_file": file}, {"text": "{{last.content}}"}]]})
    """

    path: Required[str]
    """The absolute path."""
    line: int
    """The first line, from 1 on. Default: the first line of the file."""
    limit: int
    """The number of lines. Default: all."""


class ScriptWriteFile(TypedDict):
    """A file that the program writes for the agent.

    >>> file: ScriptWriteFile = {"path": "/project/notes.txt", "content": "buy milk"}
    >>> executable = scripted_agent({"wire": "acp", "turns": [[{"write_file": file}, {"text": "Written."}]]})
    """

    path: str
    """The absolute path."""
    content: str
    """The whole new content."""


class ScriptTerminal(TypedDict, total=False):
    """A command that the program runs for the agent.

    >>> command: ScriptTerminal = {"command": "make", "args": ["test"]}
    >>> executable = scripted_agent({"wire": "acp", "turns": [[{"terminal": command}, {"text": "{{last.output}}"}]]})
    """

    command: Required[str]
    """The program to run."""
    args: Sequence[str]
    """The arguments. Default: none."""
    env: Mapping[str, str]
    """Environment variables for the command. Default: none."""
    cwd: str
    """The absolute path of the directory to run it in. Default: that of the session."""
    output_byte_limit: int
    """How many bytes of the end of the output the agent wants. Default: all that the program keeps."""


class ScriptRepeat(TypedDict):
    """Actions that are repeated.

    >>> lines: ScriptRepeat = {"times": 1000, "actions": [{"text": "line {{round}}"}]}
    >>> executable = scripted_agent([[{"repeat": lines}]])
    """

    times: int
    """The number of rounds."""
    actions: Sequence[ScriptAction]
    """The actions of each round. They may not end the turn."""


class ScriptAction(TypedDict, total=False):
    """One thing that the agent does.

    One key names the action, such as `{"text": "Hello"}`; `delay`, `bulk` and other keys of the action may be added.

    >>> actions: list[ScriptAction] = [{"think": "A greeting."}, {"text": ["Hel", "lo!"], "delay_between": 0.01}]
    >>> executable = scripted_agent([actions])
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
    """Sends the tokens of the step. The action may also have fields of a `StatusUpdate`."""
    context_usage: float
    """With `usage`: the part of the context that is used, from 0 to 1."""
    context_tokens: int
    """With `usage`: the tokens in the context."""
    max_context_tokens: int
    """With `usage`: the largest number of tokens in the context."""
    message_id: str
    """With `usage`: the id of the model's message."""
    plan_mode: bool
    """With `usage`: whether the agent is in plan mode."""
    mcp_status: Mapping[str, Any]
    """With `usage`: the state of the MCP servers, in its wire form."""
    status: Mapping[str, Any]
    """Sends a `StatusUpdate` with these fields."""
    event: ScriptMessage
    """Sends any event."""
    verbatim: bool
    """Whether `event` is sent as it is, with every version of the protocol. Default: False."""
    request: ScriptMessage
    """Sends any request."""
    id: str
    """The id of `request`."""
    wait: bool
    """Whether the agent waits for the answer to `request`."""
    read_file: ScriptReadFile
    """Reads a file through the program, over ACP."""
    write_file: ScriptWriteFile
    """Writes a file through the program, over ACP."""
    terminal: ScriptTerminal
    """Runs a command through the program, over ACP, and waits for its end."""
    raw: Union[str, Mapping[str, Any]]
    """Writes a line as it is."""
    raw_base64: str
    """Writes bytes as they are."""
    end: ScriptStatus
    """Ends the turn; actions after it happen outside of the turn."""
    steps: int
    """With `end`: after how many steps."""
    stop_reason: str
    """With `end`: the word that the agent sends for it, instead of that of the status."""
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
    break_socket: Literal[True, "pongs", "silence"]
    """As Kimi Code's server: breaks the client's WebSockets, loses the client's pongs, or sends nothing more."""
    wait_socket: Literal[True]
    """As Kimi Code's server: waits until a WebSocket has subscribed to the session."""
    ignore_eof: Literal[True]
    """The end of stdin no longer ends the process."""
    stall: Literal[True]
    """Reads and writes nothing more; the process stays."""


class ScriptTurnObject(TypedDict, total=False):
    """A turn that says how it ends.

    >>> stopped: ScriptTurnObject = {"actions": [{"text": "That was enough."}], "status": "max_steps_reached"}
    >>> executable = scripted_agent([stopped])
    """

    actions: Required[Sequence[ScriptAction]]
    """The agent's actions."""
    status: ScriptStatus
    """How the turn ends after its actions. Default: "finished"."""
    steps: int
    """With "max_steps_reached": after how many steps. Default: as many as there were."""


ScriptTurn = Union[Sequence[ScriptAction], ScriptTurnObject]
"""The agent's actions for one prompt."""


class ScriptCut(TypedDict, total=False):
    """Actions at a point of the conversation.

    >>> cut: ScriptCut = {"bytes": 300, "actions": [{"stall": True}]}
    >>> executable = scripted_agent({"cut": cut, "turns": [[{"text": "Never said in full."}]]})
    """

    lines: int
    """After so many lines that the agent has written."""
    bytes: int
    """After so many bytes that the agent has written."""
    call: str
    """When this method is called, before it is answered."""
    actions: Required[Sequence[ScriptAction]]
    """The agent's actions."""


class ScriptWeb(TypedDict, total=False):
    """The behaviour of the agent as Kimi Code's server, if it differs from the real one.

    >>> web: ScriptWeb = {"status": {"prompt": 500}, "heartbeat": 0.5}
    >>> executable = scripted_agent({"wire": "kimi-web", "web": web, "turns": []})
    """

    protocol_version: int
    """The version in its first frame. Default: 2."""
    heartbeat: float
    """Seconds between two pings. Default: 10."""
    status: Mapping[str, int]
    """Calls that are answered with an HTTP status and nothing else, by their names. Default: none."""
    late: Sequence[str]
    """Calls within a turn that are answered after it. Default: none."""
    refuses: bool
    """Whether the server refuses the program's password. Default: False."""
    foreign: bool
    """Whether it is another program's server. Default: False."""


class ScriptLogin(TypedDict, total=False):
    """The login of an agent that speaks ACP. Calls about sessions are refused until the client has logged in.

    >>> login: ScriptLogin = {"methods": [{"id": "api-key", "name": "API Key", "variables": ["CODEX_API_KEY"]}]}
    >>> executable = scripted_agent({"wire": "acp", "login": login, "turns": []})
    """

    required: bool
    """Whether sessions need a login. Default: True."""
    methods: Sequence[Mapping[str, Any]]
    """The ways in the handshake, with the members of ACP. Of `variables`, which are not sent, one must be set."""


class ScriptObject(TypedDict, total=False):
    """A script that says more than a list of turns.

    >>> script: ScriptObject = {"wire": "1.10", "questions": False, "turns": [[{"text": "Hello!"}]]}
    >>> executable = scripted_agent(script)
    """

    turns: Sequence[ScriptTurn]
    """The turns, one for each prompt. Further prompts are answered with `(script exhausted)`."""
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
    forms: bool
    """Whether the agent asks by a form, which has all questions, if it speaks ACP. Default: true."""
    embedded_context: bool
    """Whether the agent takes the content of resources in a prompt, if it speaks ACP. Default: true."""
    session_files: bool
    """Whether the agent writes the files that Kimi Code writes about turns, if it speaks ACP. Default: false."""
    sessions_per_page: int
    """The number of sessions in a page of their list, if the agent speaks ACP. Default: all sessions are one page."""
    login: ScriptLogin
    """The login of the agent, if it speaks ACP. Default: sessions need none."""
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
    web: ScriptWeb
    """How the agent behaves as Kimi Code's server."""
