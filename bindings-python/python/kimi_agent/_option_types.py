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
    "Answers",
    "Approval",
    "ApprovalHandler",
    "EventHandler",
    "HookDecision",
    "HookHandler",
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

Answers = Mapping[str, Union[str, Sequence[str]]]
"""Answers to a `QuestionRequest` by the text of the question; a list where several may be chosen."""

HookDecision = Union[Block, Literal["allow", True], None]
"""What a hook decides: a `Block`, or anything else here to go on."""

ApprovalHandler = Callable[[ApprovalRequest], Union[Approval, Awaitable[Approval]]]
QuestionHandler = Callable[[QuestionRequest], Union[Answers, Awaitable[Union[Answers, None]], None]]
HookHandler = Callable[[HookRequest], Union[HookDecision, Awaitable[HookDecision]]]
EventHandler = Callable[[Event], object]
StderrHandler = Callable[[str], object]


class SessionOptions(TypedDict, total=False):
    """All options of `create_session()` and `prompt()`; only what is set is passed on to the agent."""

    work_dir: StrPath
    """The directory that the agent works in; unset: the current one."""
    session_id: str
    """A session to resume, or the id that a new one gets; unset: a new one with an id of its own."""
    model: str
    """The model, by its name in the configuration."""
    thinking: bool
    """Whether the model thinks first; unset: as configured."""
    yolo: bool
    """Approve everything."""
    config_file: StrPath
    """A configuration file instead of the user's own."""
    config: Mapping[str, Any]
    """A configuration instead of a file; it travels in a private file, never in the arguments."""
    executable: StrPath | Sequence[StrPath]
    """The agent's executable, or a list of it and its first arguments; unset: `$KIMI_AGENT_EXECUTABLE`, then
    `kimi` on PATH."""
    env: Mapping[str, str]
    """Environment variables on top of the program's own."""
    mcp_configs: Sequence[Mapping[str, Any]]
    """MCP servers, each as in an MCP configuration file."""
    agent_file: StrPath
    """An agent specification."""
    skills_dir: StrPath
    """A directory of skills."""
    tools: Sequence[ExternalTool]
    """Functions of the program that the model may call."""
    max_steps_per_turn: int
    """How many steps a turn may have."""
    max_retries_per_step: int
    """How often a step is tried again."""
    on_approval: ApprovalHandler | Literal["manual"]
    """Answers requests for approval; unset: `yolo` approves, else they are rejected."""
    on_question: QuestionHandler | Literal["manual"]
    """Answers the agent's questions; unset: the agent is told that there is nobody to ask."""
    hooks: Sequence[Hook]
    """Functions that the agent asks before or after it does something."""
    on_event: EventHandler
    """Gets events outside a turn, in order."""
    on_stderr: StderrHandler
    """Gets the lines that the agent writes to stderr, in order."""
    client_name: str
    """What the agent is told of the program."""
    client_version: str
    """What the agent is told of the program."""
    extra_args: Sequence[str]
    """More arguments for the agent, at the end."""
    dialect: str
    """The protocol; unset or "auto": found out."""
    handshake_timeout: float | timedelta
    """Seconds until the agent must have opened the session, or answered `steer()` or `set_plan_mode()`."""
    cancel_timeout: float | timedelta
    """Seconds until a cancelled turn is given up on."""
    close_timeout: float | timedelta
    """Seconds until an agent that is being closed is ended by force."""
    idle_timeout: float | timedelta
    """Seconds that a turn may be silent; unset: no limit."""
    turn_timeout: float | timedelta
    """Seconds that a turn may take; unset: no limit."""
    max_line_bytes: int
    """The longest line that the agent may write, in bytes."""
    event_buffer_bytes: int
    """How many bytes of events may wait to be read before the agent is made to wait."""


class AgentOptions(TypedDict, total=False):
    """All options of `open_agent()`; everything else is an option of its sessions."""

    executable: StrPath | Sequence[StrPath]
    """The agent's executable, or a list of it and its first arguments; unset: `$KIMI_AGENT_EXECUTABLE`, then
    `kimi` on PATH."""
    env: Mapping[str, str]
    """Environment variables on top of the program's own."""
    extra_args: Sequence[str]
    """More arguments for the agent, at the end."""
    dialect: str
    """The protocol; unset or "auto": found out."""
    on_stderr: StderrHandler
    """Gets the lines that the agent writes to stderr, in order, whichever session they are about."""
    client_name: str
    """What the agent is told of the program."""
    client_version: str
    """What the agent is told of the program."""
    handshake_timeout: float | timedelta
    """Seconds until the agent must have listed its sessions, its start included; sessions have their own."""
    close_timeout: float | timedelta
    """Seconds until a process that sessions share is ended by force; sessions have their own."""
