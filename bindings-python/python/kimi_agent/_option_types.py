"""The options of a session, as types. Loaded when a program names them; nothing else needs them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict, Union

from ._options import Block, Hook, Reject
from ._tool import ExternalTool
from ._wire import ApprovalRequest, ContentPart, Event, HookRequest, QuestionRequest

__all__ = [
    "AgentOptions",
    "AgentSessionOptions",
    "Approval",
    "ApprovalHandler",
    "Dialect",
    "EventHandler",
    "HookAnswer",
    "HookEvent",
    "HookHandler",
    "OneShotOptions",
    "PromptOptions",
    "QuestionAnswer",
    "QuestionHandler",
    "SessionOptions",
    "StderrHandler",
    "StrPath",
    "UserInput",
]

StrPath = Union[str, "os.PathLike[str]"]

UserInput = Union[str, ContentPart, Sequence[Union[str, ContentPart, Mapping[str, Any]]]]
"""What a prompt is made of: text, or content parts (as objects, or as the wire's own JSON)."""

Approval = Union[Literal["approve", "approve_for_session", "reject"], Reject]
"""The answer to an `ApprovalRequest`."""

QuestionAnswer = Mapping[str, Union[str, Sequence[str]]]
"""Answers to a `QuestionRequest` by the text of the question; a list where several may be chosen."""

Dialect = Literal["auto", "acp", "legacy", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10"]
"""A version of Wire, "legacy" for the protocol before it, "acp" for the Agent Client Protocol, or "auto"."""

HookEvent = Literal[
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "StopFailure", "SessionStart",
    "SessionEnd", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "Notification",
]  # fmt: skip
"""The events that kimi-cli has hooks for; `session.capabilities.hooks` lists those of the agent at hand."""

HookAnswer = Union[Block, Literal["allow", True], None]
"""What a hook decides: a `Block`, or anything else here to go on."""

Seconds = Union[float, timedelta, None]

ApprovalHandler = Callable[[ApprovalRequest], Union[Approval, Awaitable[Approval]]]
QuestionHandler = Callable[[QuestionRequest], Union[QuestionAnswer, Awaitable[Union[QuestionAnswer, None]], None]]
HookHandler = Callable[[HookRequest], Union[HookAnswer, Awaitable[HookAnswer]]]
EventHandler = Callable[[Event], object]
StderrHandler = Callable[[str], object]


class AgentSessionOptions(TypedDict, total=False):
    """The options of a session of an `Agent`. None is the same as leaving an option out."""

    work_dir: StrPath | None
    """The directory that the agent works in. Default: the current one."""
    session_id: str | None
    """The session to resume, or the id of a new one. Default: a new session with a random id."""
    model: str | None
    """The model, by its name in the agent's configuration. Default: the one configured there."""
    thinking: bool | None
    """Whether the model thinks first. Default: as configured."""
    yolo: bool | None
    """Whether everything is approved without asking. Default: False."""
    config_file: StrPath | None
    """The path of a configuration file, JSON if named `*.json`, else TOML. Default: the user's own."""
    config: Mapping[str, Any] | None
    """The configuration itself; it travels in a private file, never in the arguments. Not together with `config_file`.
    Default: the user's own."""
    mcp_configs: Sequence[Mapping[str, Any]] | None
    """MCP configurations, each `{"mcpServers": {…}}`. Default: the user's own."""
    agent_file: StrPath | None
    """The path of an agent specification. Default: the agent's own."""
    skills_dir: StrPath | None
    """A directory of skills. Default: the agent's own places."""
    tools: Sequence[ExternalTool] | None
    """Tools of the program that the model may call; `@tool` makes them. Default: none."""
    max_steps_per_turn: int | None
    """How many steps a turn may have, at least 1. Default: as configured."""
    max_retries_per_step: int | None
    """How often the model's service is asked in one step, the first time included, at least 1. Default: as
    configured."""
    on_approval: ApprovalHandler | Literal["manual"] | None
    """Answers requests for approval, or "manual": `turn.respond()` answers them. Default: `yolo` approves, otherwise
    every request is rejected."""
    on_question: QuestionHandler | Literal["manual"] | None
    """Answers the agent's questions, or "manual": `turn.respond()` answers them. Default: the agent is told that it
    cannot ask."""
    hooks: Sequence[Hook] | None
    """Hooks, which the agent asks before or after it does something. Default: none."""
    on_event: EventHandler | None
    """Gets events outside of turns, one after the other. Default: they are dropped."""
    handshake_timeout: Seconds
    """Seconds for the agent to open the session, and to answer `steer()` and `set_plan_mode()`. Default: 60."""
    cancel_timeout: Seconds
    """Seconds for a cancelled turn to end before the SDK ends it. Default: 10."""
    close_timeout: Seconds
    """Seconds for the agent to exit when the session closes, before it is ended by force. Default: 10."""
    idle_timeout: Seconds
    """Seconds that a turn may be silent while the agent does not wait for the program. Default: no limit."""
    turn_timeout: Seconds
    """Seconds that a turn may take. Default: no limit."""
    max_line_bytes: int | None
    """The longest line in bytes that the agent may write, at least 1024. Default: 268435456 (256 MiB)."""
    event_buffer_bytes: int | None
    """How many bytes of events of a turn may be unread before the agent has to wait, at least 1024. Default: 262144
    (256 KiB)."""


class SessionOptions(AgentSessionOptions, total=False):
    """All options of `create_session()` and `prompt()`. Only what is set is passed on to the agent; None is the same as
    leaving an option out."""

    executable: StrPath | Sequence[StrPath] | None
    """The agent's executable, or a list of it and its first arguments. Default: `$KIMI_AGENT_EXECUTABLE`, then `kimi`
    on PATH."""
    env: Mapping[str, str] | None
    """Environment variables in addition to the program's own. Default: none."""
    extra_args: Sequence[str] | None
    """Further arguments for the agent, at the end. Default: none."""
    dialect: Dialect | None
    """The protocol. Default: "auto", which finds it out."""
    on_stderr: StderrHandler | None
    """Gets the lines that the agent writes to stderr, in order. Default: they are kept for errors only."""
    client_name: str | None
    """The name of the program that the agent is told. Default: "kimi-agent"."""
    client_version: str | None
    """The version of the program that the agent is told. Default: the version of this package."""


class PromptOptions(TypedDict, total=False):
    """All options of `session.prompt()`; they override the session's."""

    timeout: Seconds
    """Seconds that the turn may take; unset: the session's `turn_timeout`."""
    idle_timeout: Seconds
    """Seconds that the agent may send nothing; unset: the session's `idle_timeout`."""


class OneShotOptions(SessionOptions, total=False):
    """All options of `prompt()`, which has a session of its own."""

    timeout: Seconds
    """Seconds that the turn may take, without the start of the agent; unset: `turn_timeout`."""


class AgentOptions(TypedDict, total=False):
    """All options of `open_agent()`; the other options are those of its sessions. None is the same as leaving an option
    out."""

    executable: StrPath | Sequence[StrPath] | None
    """The agent's executable, or a list of it and its first arguments. Default: `$KIMI_AGENT_EXECUTABLE`, then `kimi`
    on PATH."""
    env: Mapping[str, str] | None
    """Environment variables in addition to the program's own. Default: none."""
    extra_args: Sequence[str] | None
    """Further arguments for the agent, at the end. Default: none."""
    dialect: Dialect | None
    """The protocol. Default: "auto", which finds it out."""
    on_stderr: StderrHandler | None
    """Gets the lines that the agent writes to stderr, in order, whichever session they are about. Default: they are
    kept for errors only."""
    client_name: str | None
    """The name of the program that the agent is told. Default: "kimi-agent"."""
    client_version: str | None
    """The version of the program that the agent is told. Default: the version of this package."""
    handshake_timeout: Seconds
    """Seconds for the agent to list its sessions, its start included; sessions have their own. Default: 60."""
    close_timeout: Seconds
    """Seconds for a process that sessions share to exit before it is ended by force; sessions have their own. Default:
    10."""
