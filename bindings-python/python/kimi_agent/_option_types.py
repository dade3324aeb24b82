"""The options of a session, as types. Loaded when a program names them; nothing else needs them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from re import Pattern
from typing import Any, Literal, TypedDict, Union

from ._answers import Reject
from ._hook import Hook
from ._hook_types import HookAnswer, HookEvent, HookHandler, Seconds
from ._job import Progress, Retry
from ._place import Place
from ._policy import Policy, PolicyRules
from ._telemetry import MeterSource, Telemetry, TracerSource
from ._tool import ExternalTool
from ._wire import (
    ApprovalRequest,
    ContentPart,
    Event,
    QuestionRequest,
    ReadFileRequest,
    TerminalRequest,
    TerminalResult,
    WriteFileRequest,
)

__all__ = [
    "AgentOptions",
    "AgentSessionOptions",
    "AgentSessionSettings",
    "Approval",
    "ApprovalHandler",
    "BatchOptions",
    "BatchSettings",
    "Budget",
    "Dialect",
    "EventHandler",
    "HookAnswer",
    "HookEvent",
    "HookHandler",
    "JobSettings",
    "OneShotOptions",
    "OneShotSettings",
    "ProgressHandler",
    "PromptOptions",
    "PromptSettings",
    "QuestionAnswer",
    "QuestionHandler",
    "ReadFileHandler",
    "Seconds",
    "SessionOptions",
    "SessionSettings",
    "StderrHandler",
    "StrPath",
    "TerminalHandler",
    "UserInput",
    "WriteFileHandler",
]

StrPath = Union[str, "os.PathLike[str]"]

UserInput = Union[str, ContentPart, Sequence[Union[str, ContentPart, Mapping[str, Any]]]]
"""The content of a prompt: text, or content parts (as objects, or as the JSON of the wire)."""

Approval = Union[Literal["approve", "approve_for_session", "reject"], Reject]
"""The answer to an `ApprovalRequest`."""

QuestionAnswer = Mapping[str, Union[str, Sequence[str]]]
"""Answers to a `QuestionRequest` by the text of the question. The answer is a list if several may be chosen."""


class Budget(TypedDict, total=False):
    """Limits for a turn (`budget`) or for all turns of a session (`session_budget`). Subagents count.

    A turn that exceeds a limit is cancelled, and fails with `BudgetExceeded`.

    >>> limits: Budget = {"tokens": 200_000, "steps": 30, "seconds": 600}
    >>> result = await session.prompt("Fix the tests", budget=limits).result()
    """

    tokens: int | None
    """Tokens of the input and the output, those from a cache included."""
    output_tokens: int | None
    """Tokens of the output."""
    steps: int | None
    """Steps: calls of the model."""
    tool_calls: int | None
    """Tool calls. With 0 the first call exceeds the budget."""
    seconds: float | None
    """Seconds since the turn began, waits for handlers included."""
    usd: float | None
    """US dollars, as the agent reports its cost, or as the option `prices` estimates it."""


Dialect = Literal[
    "auto", "acp", "kimi-web", "legacy", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10"
]  # fmt: skip
"""A version of Wire, "legacy" for the protocol before it, "acp" for the Agent Client Protocol, "kimi-web" for Kimi
Code's own server, or "auto"."""

ApprovalHandler = Callable[[ApprovalRequest], Union[Approval, Awaitable[Approval]]]
QuestionHandler = Callable[[QuestionRequest], Union[QuestionAnswer, Awaitable[Union[QuestionAnswer, None]], None]]
EventHandler = Callable[[Event], object]
StderrHandler = Callable[[str], object]
ProgressHandler = Callable[[Progress], object]
ReadFileHandler = Callable[[ReadFileRequest], Union[str, Awaitable[Union[str, None]], None]]
WriteFileHandler = Callable[[WriteFileRequest], object]
TerminalHandler = Callable[[TerminalRequest], Union[TerminalResult, Awaitable[TerminalResult]]]

# Generated from here on by tools/generate_options.py; changes belong in core/protocol/src/options.rs.


class AgentSessionSettings(TypedDict, total=False):
    """The options of a session of an `Agent` without `output`."""

    work_dir: StrPath | None
    """The directory that the agent works in. Default: the current directory."""
    session_id: str | None
    """The id of the session to resume, or the id of a new one: at most 128 letters, digits, `.`, `_` and `-`. Default:
    a new session with a random id."""
    model: str | None
    """The model, by its name in the agent's configuration. Default: the default model of the configuration."""
    thinking: bool | None
    """Whether the model thinks before it answers. kimi-cli can turn thinking off since 0.67. Default: as the agent is
    configured."""
    yolo: bool | None
    """Whether the agent acts without asking for approval. Default: False."""
    config_file: StrPath | None
    """The path of a configuration file: JSON if its name ends with `.json`, else TOML. Not together with `config`.
    Default: the user's own file."""
    config: Mapping[str, Any] | None
    """The agent's configuration itself. It may hold keys, so the agent reads it from a private file. Not together with
    `config_file`. Default: the user's own file."""
    mcp_configs: Sequence[Mapping[str, Any]] | None
    """Configurations of MCP servers, each of the form `{"mcpServers": {…}}`. They may hold keys, so the agent reads
    them from private files. Default: the user's own."""
    agent_file: StrPath | None
    """The path of an agent specification: its prompt and its tools. Default: the agent's default one."""
    skills_dir: StrPath | None
    """The path of a directory with skills. Default: the agent's own directories."""
    system_prompt: str | Mapping[str, str] | None
    """Text that follows the agent's own system prompt; with the mode `override`, text that replaces it. Only over ACP,
    for example with Claude Code. Other agents raise `Unsupported`. Default: the agent's own."""
    additional_directories: Sequence[StrPath] | None
    """Further directories that the agent works in. Only over ACP, for example with Claude Code and Kimi Code. Other
    agents raise `Unsupported`. Default: none."""
    agent_meta: Mapping[str, Any] | None
    """Members of `_meta` in the request that opens the session, for options that only one agent knows. Only over ACP.
    Default: none."""
    tools: Sequence[ExternalTool] | None
    """Tools of this program that the model can call. Default: none."""
    max_steps_per_turn: int | None
    """The largest number of steps in a turn, at least 1. Over ACP only Kimi Code takes it, for a session with a process
    of its own. Default: as the agent is configured."""
    max_retries_per_step: int | None
    """The largest number of requests to the model's service in a step, at least 1. The first request counts, so 1 means
    no retry. Default: as the agent is configured."""
    policy: PolicyRules | Policy | StrPath | None
    """Rules that decide about approval requests before `on_approval`. If the agent has hooks, rules that deny, and a
    default that denies, also see calls that need no approval. Default: none."""
    enforce: Literal["approvals", "calls"] | None
    """The calls that `policy` must see. With `"calls"`, a session fails to open with `Unsupported` if the agent runs
    calls that the policy cannot see first. With `"approvals"`, the log has one warning about such an agent. Default:
    "approvals"."""
    on_approval: ApprovalHandler | Literal["manual"] | None
    """Answers approval requests. With `"manual"` the reader of the events answers them with `respond()`. It has no
    deadline. Default: with `yolo` every request is approved, else every request is rejected."""
    on_question: QuestionHandler | Literal["manual"] | None
    """Answers the agent's questions. With `"manual"` the reader of the events answers them with `respond()`. It has no
    deadline. Default: the agent cannot ask questions."""
    on_read_file: ReadFileHandler | None
    """Reads a file for the agent. Only over ACP, and only some agents use it. Sessions of an agent share a process if
    they set the same handlers of files and terminals. Default: the agent reads files itself."""
    on_write_file: WriteFileHandler | None
    """Writes a file for the agent. Only over ACP, and only some agents use it. Default: the agent writes files
    itself."""
    on_terminal: TerminalHandler | None
    """Runs a command for the agent. Only over ACP, and only some agents use it. Default: the agent runs commands
    itself."""
    hooks: Sequence[Hook] | None
    """Functions that the agent calls before or after an action, such as a tool call. Default: none."""
    on_event: EventHandler | None
    """Gets the events outside of turns, one after the other. Default: they are dropped."""
    read_session_files: bool | None
    """Whether the SDK reads the session's files, in which Kimi Code writes the tokens, the steps and the failure of a
    turn. ACP does not report these. The end of a turn waits up to a second for them. Other agents have no such files.
    Default: True."""
    handshake_timeout: Seconds
    """The time for the agent to start and to open the session, and later to answer `steer()` and `set_plan_mode()`.
    Also the longest silence in a `replay()`. In seconds. Default: 60."""
    cancel_timeout: Seconds
    """The time for a cancelled turn to end, before the SDK ends it. In seconds. Default: 10."""
    close_timeout: Seconds
    """The time for the agent to exit when the session closes. Then the agent gets SIGTERM, and SIGKILL two seconds
    later. A turn that is running is cancelled within the same time. 0 kills the agent at once. In seconds. Default:
    10."""
    idle_timeout: Seconds
    """The longest time in a turn without a message from the agent. Time in which the agent waits for this program does
    not count. In seconds. Default: no limit."""
    turn_timeout: Seconds
    """The time for a whole turn. In seconds. Default: no limit."""
    session_budget: Budget | None
    """The most that all turns of the session may use together: `tokens`, `output_tokens`, `steps`, `tool_calls`,
    `seconds`, `usd`. The turn that exceeds it is cancelled. That turn and every later prompt fail with
    `BudgetExceeded`. Default: no limit."""
    prices: Mapping[str, Mapping[str, float]] | StrPath | None
    """The prices of models in US dollars for a million tokens, by the names that the agent has for its models. A price
    has `input` and `output`, and if they differ from `input`, `cache_read` and `cache_write`. `*` is any other model.
    With agents that report tokens and no costs, `result.cost` and the limit `usd` of budgets use them. The path of a
    TOML file has a table for each model. Default: none."""
    telemetry: bool | Telemetry | TracerSource | MeterSource | None
    """Makes spans and metrics of OpenTelemetry for each turn, its steps and its tool calls. Handlers run in these
    spans, and the agent gets the context of the trace. Prompts, answers, arguments and results are left out, unless the
    program asks for them. Default: False."""
    max_line_bytes: int | None
    """The longest line that the agent may send. A longer one ends the session with `ProtocolError`, and so does a line
    with more than 1,048,576 JSON values. In bytes, at least 1024. Default: 268,435,456 (256 MiB)."""
    event_buffer_bytes: int | None
    """The size of the unread events of a turn from which on the agent has to wait. In bytes, at least 1024. Default:
    262,144 (256 KiB)."""


class AgentSessionOptions(AgentSessionSettings, total=False):
    """All options of `Agent.create_session()`. None is the same as leaving an option out.

    >>> options: AgentSessionOptions = {"work_dir": ".", "turn_timeout": 600}
    >>> async with agent.create_session(**options) as session:
    ...     print(session.state)
    idle
    """

    output: Any
    """The value that each turn must return, by its type or JSON Schema. The model returns it with a tool of the SDK if
    the agent takes tools, else in its text. An invalid value is returned to the model `retries` times; then the turn
    fails with `OutputInvalid`. Default: none: a turn returns text."""


class SessionSettings(AgentSessionSettings, total=False):
    """The options of `create_session()` and `prompt()` without `output`, for functions that set `output` themselves.

    >>> options: SessionSettings = {"work_dir": ".", "turn_timeout": 600}
    >>> async with create_session(output=int, **options) as session:
    ...     print(session.state)
    idle
    """

    executable: StrPath | Sequence[StrPath] | None
    """The agent: the path or name of a program, or a list of it and its first arguments. Default:
    `$KIMI_AGENT_EXECUTABLE` (a path, or a JSON list such as `["python3", "-m", "kimi_cli"]`), then `kimi` on PATH."""
    env: Mapping[str, str | None] | None
    """Environment variables for the agent, in addition to those that it inherits. Null removes an inherited variable.
    The agent's program is also looked for on a `PATH` that is set here. Default: none."""
    inherit_env: bool | Sequence[str] | None
    """The variables of this process that the agent inherits: all (true), only those that a process needs (false), or
    these and those of a list. In its names, `*` stands for any characters. A process needs `PATH`, `HOME`, `TMPDIR`,
    the locale and the time zone, and on Windows those of the system. Default: True."""
    auth: str | None
    """The login that an agent of ACP gets if it requires one: `none`, `auto`, or the ID of a login method of the agent.
    `auto` selects the method whose key is in `env`, for example `CODEX_API_KEY`. `kimi-agent login` runs methods that
    need a terminal. Agents without ACP raise `Unsupported`. Default: "none"."""
    place: Place | Mapping[str, Any] | None
    """The place in which the agent runs, for example a sandbox, a container, or another machine. Paths in options and
    events are always those of this program. Not over Kimi Code's server. Default: this machine, as a child of this
    program."""
    on_stderr: StderrHandler | None
    """Gets the lines that the agent writes to stderr, in order. If it fails, the failure is logged. Default: the last
    lines are kept for errors."""
    client_name: str | None
    """The name of this program, for the agent. Default: "kimi-agent"."""
    client_version: str | None
    """The version of this program, for the agent. Default: the version of this package."""
    extra_args: Sequence[str] | None
    """Further arguments for the agent, after all others. Default: none."""
    dialect: Dialect | None
    """The protocol to speak. `"auto"` finds out what the agent speaks. Default: "auto"."""
    record: StrPath | None
    """The file into which each message, decision and call of the session is written. Secrets that the SDK knows are
    replaced. An existing file is replaced when the session has opened. If this program writes to the file already, the
    recording gets the name `NAME-2`. Later sessions of an agent, and those of the environment variable, get such names,
    too. In a directory, which exists or whose path ends with a slash, each session gets a file of its own. Default:
    `$KIMI_AGENT_RECORD`, else no recording."""
    redact: Sequence[str | Pattern[str]] | None
    """Regular expressions of further secrets, which a recording shows as `***`. They match in each text of a message;
    look-around is not supported. Default: only what the SDK knows as secret."""


class SessionOptions(SessionSettings, AgentSessionOptions, total=False):
    """All options of `create_session()` and `prompt()`.

    Only options that are set are passed on to the agent. None is the same as leaving an option out.

    >>> options: SessionOptions = {"work_dir": ".", "yolo": True, "turn_timeout": 600}
    >>> async with create_session(**options) as session:
    ...     print(session.state)
    idle
    """


class PromptSettings(TypedDict, total=False):
    """The options of `session.prompt()` without `output`."""

    timeout: Seconds
    """The time for the whole turn. The start of the agent does not count. In seconds. Default: the session's
    `turn_timeout`."""
    idle_timeout: Seconds
    """The longest time without a message from the agent. Time in which the agent waits for this program does not count.
    In seconds. Default: the session's `idle_timeout`."""
    budget: Budget | None
    """The most that the turn may use: `tokens`, `output_tokens`, `steps`, `tool_calls`, `seconds`, `usd`. A turn that
    exceeds it is cancelled and fails with `BudgetExceeded`. Default: no limit."""


class PromptOptions(PromptSettings, total=False):
    """All options of `session.prompt()`. They override the session's.

    >>> limits: PromptOptions = {"timeout": 600, "idle_timeout": 60}
    >>> turn = session.prompt("Fix the tests", **limits)
    """

    output: Any
    """The value that the turn must return, by its type or JSON Schema. In an open session the model returns it in its
    text; only the `output` of the session is a tool. Default: the session's `output`."""


class OneShotSettings(SessionSettings, total=False):
    """The options of `prompt()` without `output`."""

    timeout: Seconds
    """The time for the whole turn. The start of the agent does not count. In seconds. Default: the session's
    `turn_timeout`."""
    budget: Budget | None
    """The most that the turn may use: `tokens`, `output_tokens`, `steps`, `tool_calls`, `seconds`, `usd`. A turn that
    exceeds it is cancelled and fails with `BudgetExceeded`. Default: no limit."""


class OneShotOptions(OneShotSettings, SessionOptions, total=False):
    """All options of `prompt()`, which has a session of its own.

    >>> options: OneShotOptions = {"work_dir": ".", "timeout": 600}
    >>> result = await prompt("What is in this directory?", **options).result()
    >>> result.text
    'There are 3 files.'
    """


class BatchSettings(SessionSettings, total=False):
    """The options of `run_batch()` without `output`. Only `session_id` is not one of them."""

    concurrency: int | None
    """The most jobs that run concurrently, at most 10,000. Default: 4."""
    retry: Retry | Mapping[str, Any] | int | None
    """How jobs are retried whose error has `retryable`: a `Retry`, or the number of attempts, with the first one.
    Default: 3 attempts."""
    journal: StrPath | None
    """The path of a file for the results. With the file of an earlier run, only jobs without a result run. Default: no
    journal."""
    workspace: Literal["shared", "copy", "worktree"] | None
    """The directory of each job: `work_dir` itself, a copy of it, or a new worktree of its git repository. Default:
    "shared"."""
    keep_failed: bool | None
    """Whether the copy or worktree of a failed job is kept. Default: False."""
    timeout: Seconds
    """The longest time of the batch. Then the running jobs are cancelled, and after their results the batch fails. In
    seconds. Default: no limit."""
    job_timeout: Seconds
    """The longest time of one attempt of a job. It is another name of `turn_timeout`. In seconds. Default: no limit."""
    on_progress: ProgressHandler | None
    """Is called with a `Progress` when its numbers change. While an asynchronous call runs, only the newest waits.
    Default: none."""
    progress: bool | None
    """Whether the progress is shown on stderr: as a bar if stderr is a terminal, else as lines. In Python, tqdm or rich
    draws the bar if it is installed. Default: False."""


class BatchOptions(BatchSettings, SessionOptions, total=False):
    """All options of `run_batch()`: its own, and those of the session of each job.

    >>> options: BatchOptions = {"concurrency": 8, "work_dir": ".", "job_timeout": 600}
    >>> async for result in run_batch(["What is in this directory?"], **options):
    ...     print(result.text)
    There are 3 files.
    """


class JobSettings(TypedDict, total=False):
    """The options of a session that a job of a batch can have."""

    model: str | None
    """The model, by its name in the agent's configuration. Default: the default model of the configuration."""
    thinking: bool | None
    """Whether the model thinks before it answers. kimi-cli can turn thinking off since 0.67. Default: as the agent is
    configured."""
    yolo: bool | None
    """Whether the agent acts without asking for approval. Default: False."""
    config_file: StrPath | None
    """The path of a configuration file: JSON if its name ends with `.json`, else TOML. Not together with `config`.
    Default: the user's own file."""
    config: Mapping[str, Any] | None
    """The agent's configuration itself. It may hold keys, so the agent reads it from a private file. Not together with
    `config_file`. Default: the user's own file."""
    executable: StrPath | Sequence[StrPath] | None
    """The agent: the path or name of a program, or a list of it and its first arguments. Default:
    `$KIMI_AGENT_EXECUTABLE` (a path, or a JSON list such as `["python3", "-m", "kimi_cli"]`), then `kimi` on PATH."""
    env: Mapping[str, str | None] | None
    """Environment variables for the agent, in addition to those that it inherits. Null removes an inherited variable.
    The agent's program is also looked for on a `PATH` that is set here. Default: none."""
    inherit_env: bool | Sequence[str] | None
    """The variables of this process that the agent inherits: all (true), only those that a process needs (false), or
    these and those of a list. In its names, `*` stands for any characters. A process needs `PATH`, `HOME`, `TMPDIR`,
    the locale and the time zone, and on Windows those of the system. Default: True."""
    auth: str | None
    """The login that an agent of ACP gets if it requires one: `none`, `auto`, or the ID of a login method of the agent.
    `auto` selects the method whose key is in `env`, for example `CODEX_API_KEY`. `kimi-agent login` runs methods that
    need a terminal. Agents without ACP raise `Unsupported`. Default: "none"."""
    place: Place | Mapping[str, Any] | None
    """The place in which the agent runs, for example a sandbox, a container, or another machine. Paths in options and
    events are always those of this program. Not over Kimi Code's server. Default: this machine, as a child of this
    program."""
    mcp_configs: Sequence[Mapping[str, Any]] | None
    """Configurations of MCP servers, each of the form `{"mcpServers": {…}}`. They may hold keys, so the agent reads
    them from private files. Default: the user's own."""
    agent_file: StrPath | None
    """The path of an agent specification: its prompt and its tools. Default: the agent's default one."""
    skills_dir: StrPath | None
    """The path of a directory with skills. Default: the agent's own directories."""
    system_prompt: str | Mapping[str, str] | None
    """Text that follows the agent's own system prompt; with the mode `override`, text that replaces it. Only over ACP,
    for example with Claude Code. Other agents raise `Unsupported`. Default: the agent's own."""
    additional_directories: Sequence[StrPath] | None
    """Further directories that the agent works in. Only over ACP, for example with Claude Code and Kimi Code. Other
    agents raise `Unsupported`. Default: none."""
    agent_meta: Mapping[str, Any] | None
    """Members of `_meta` in the request that opens the session, for options that only one agent knows. Only over ACP.
    Default: none."""
    max_steps_per_turn: int | None
    """The largest number of steps in a turn, at least 1. Over ACP only Kimi Code takes it, for a session with a process
    of its own. Default: as the agent is configured."""
    max_retries_per_step: int | None
    """The largest number of requests to the model's service in a step, at least 1. The first request counts, so 1 means
    no retry. Default: as the agent is configured."""
    policy: PolicyRules | Policy | StrPath | None
    """Rules that decide about approval requests before `on_approval`. If the agent has hooks, rules that deny, and a
    default that denies, also see calls that need no approval. Default: none."""
    enforce: Literal["approvals", "calls"] | None
    """The calls that `policy` must see. With `"calls"`, a session fails to open with `Unsupported` if the agent runs
    calls that the policy cannot see first. With `"approvals"`, the log has one warning about such an agent. Default:
    "approvals"."""
    client_name: str | None
    """The name of this program, for the agent. Default: "kimi-agent"."""
    client_version: str | None
    """The version of this program, for the agent. Default: the version of this package."""
    extra_args: Sequence[str] | None
    """Further arguments for the agent, after all others. Default: none."""
    read_session_files: bool | None
    """Whether the SDK reads the session's files, in which Kimi Code writes the tokens, the steps and the failure of a
    turn. ACP does not report these. The end of a turn waits up to a second for them. Other agents have no such files.
    Default: True."""
    dialect: Dialect | None
    """The protocol to speak. `"auto"` finds out what the agent speaks. Default: "auto"."""
    handshake_timeout: Seconds
    """The time for the agent to start and to open the session, and later to answer `steer()` and `set_plan_mode()`.
    Also the longest silence in a `replay()`. In seconds. Default: 60."""
    cancel_timeout: Seconds
    """The time for a cancelled turn to end, before the SDK ends it. In seconds. Default: 10."""
    close_timeout: Seconds
    """The time for the agent to exit when the session closes. Then the agent gets SIGTERM, and SIGKILL two seconds
    later. A turn that is running is cancelled within the same time. 0 kills the agent at once. In seconds. Default:
    10."""
    idle_timeout: Seconds
    """The longest time in a turn without a message from the agent. Time in which the agent waits for this program does
    not count. In seconds. Default: no limit."""
    turn_timeout: Seconds
    """The time for a whole turn. In seconds. Default: no limit."""
    session_budget: Budget | None
    """The most that all turns of the session may use together: `tokens`, `output_tokens`, `steps`, `tool_calls`,
    `seconds`, `usd`. The turn that exceeds it is cancelled. That turn and every later prompt fail with
    `BudgetExceeded`. Default: no limit."""
    prices: Mapping[str, Mapping[str, float]] | StrPath | None
    """The prices of models in US dollars for a million tokens, by the names that the agent has for its models. A price
    has `input` and `output`, and if they differ from `input`, `cache_read` and `cache_write`. `*` is any other model.
    With agents that report tokens and no costs, `result.cost` and the limit `usd` of budgets use them. The path of a
    TOML file has a table for each model. Default: none."""
    redact: Sequence[str | Pattern[str]] | None
    """Regular expressions of further secrets, which a recording shows as `***`. They match in each text of a message;
    look-around is not supported. Default: only what the SDK knows as secret."""
    max_line_bytes: int | None
    """The longest line that the agent may send. A longer one ends the session with `ProtocolError`, and so does a line
    with more than 1,048,576 JSON values. In bytes, at least 1024. Default: 268,435,456 (256 MiB)."""
    event_buffer_bytes: int | None
    """The size of the unread events of a turn from which on the agent has to wait. In bytes, at least 1024. Default:
    262,144 (256 KiB)."""


class AgentOptions(TypedDict, total=False):
    """All options of `open_agent()`. The other options are those of its sessions.

    None is the same as leaving an option out.

    >>> options: AgentOptions = {"client_name": "my program"}
    >>> async with open_agent(**options) as agent:
    ...     session = await agent.create_session(work_dir=".")
    """

    executable: StrPath | Sequence[StrPath] | None
    """The agent: the path or name of a program, or a list of it and its first arguments. Default:
    `$KIMI_AGENT_EXECUTABLE` (a path, or a JSON list such as `["python3", "-m", "kimi_cli"]`), then `kimi` on PATH."""
    env: Mapping[str, str | None] | None
    """Environment variables for the agent, in addition to those that it inherits. Null removes an inherited variable.
    The agent's program is also looked for on a `PATH` that is set here. Default: none."""
    inherit_env: bool | Sequence[str] | None
    """The variables of this process that the agent inherits: all (true), only those that a process needs (false), or
    these and those of a list. In its names, `*` stands for any characters. A process needs `PATH`, `HOME`, `TMPDIR`,
    the locale and the time zone, and on Windows those of the system. Default: True."""
    auth: str | None
    """The login that an agent of ACP gets if it requires one: `none`, `auto`, or the ID of a login method of the agent.
    `auto` selects the method whose key is in `env`, for example `CODEX_API_KEY`. `kimi-agent login` runs methods that
    need a terminal. Agents without ACP raise `Unsupported`. Default: "none"."""
    place: Place | Mapping[str, Any] | None
    """The place in which the agent runs, for example a sandbox, a container, or another machine. Paths in options and
    events are always those of this program. Not over Kimi Code's server. Default: this machine, as a child of this
    program."""
    on_stderr: StderrHandler | None
    """Gets the lines that the agent writes to stderr, in order. If it fails, the failure is logged. Default: the last
    lines are kept for errors."""
    client_name: str | None
    """The name of this program, for the agent. Default: "kimi-agent"."""
    client_version: str | None
    """The version of this program, for the agent. Default: the version of this package."""
    extra_args: Sequence[str] | None
    """Further arguments for the agent, after all others. Default: none."""
    dialect: Dialect | None
    """The protocol to speak. `"auto"` finds out what the agent speaks. Default: "auto"."""
    handshake_timeout: Seconds
    """The time for the agent to start and to list its sessions. Sessions have their own. In seconds. Default: 60."""
    close_timeout: Seconds
    """The time for a process that sessions share to exit, before it gets SIGTERM. Sessions have their own. In seconds.
    Default: 10."""
    record: StrPath | None
    """The file into which each message, decision and call of the session is written. Secrets that the SDK knows are
    replaced. An existing file is replaced when the session has opened. If this program writes to the file already, the
    recording gets the name `NAME-2`. Later sessions of an agent, and those of the environment variable, get such names,
    too. In a directory, which exists or whose path ends with a slash, each session gets a file of its own. Default:
    `$KIMI_AGENT_RECORD`, else no recording."""
    redact: Sequence[str | Pattern[str]] | None
    """Regular expressions of further secrets, which a recording shows as `***`. They match in each text of a message;
    look-around is not supported. Default: only what the SDK knows as secret."""
