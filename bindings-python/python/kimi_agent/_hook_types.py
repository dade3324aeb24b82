"""The types of a `Hook`. Loaded when a program names them; nothing else needs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Literal, Union

from ._answers import Block
from ._wire import HookRequest

__all__ = ["HookAnswer", "HookEvent", "HookHandler", "Seconds"]

HookEvent = Literal[
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "StopFailure", "SessionStart",
    "SessionEnd", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "Notification",
]  # fmt: skip
"""The events that kimi-cli has hooks for; `session.capabilities.hooks` lists those of the agent at hand."""

HookAnswer = Union[Block, Literal["allow", True], None]
"""The decision of a hook: a `Block`, or anything else here to continue."""

Seconds = Union[float, timedelta, None]

HookHandler = Callable[[HookRequest], Union[HookAnswer, Awaitable[HookAnswer]]]
