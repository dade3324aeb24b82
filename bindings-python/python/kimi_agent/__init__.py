"""Drive Kimi's coding agent from Python: sessions, streamed turns, approvals, tools.

>>> import kimi_agent
>>> async def main():
...     async with kimi_agent.create_session(work_dir=".") as session:
...         async for event in session.prompt("What is in this directory?"):
...             match event:
...                 case kimi_agent.TextPart(text=text):
...                     print(text, end="")

The same without coroutines is in `kimi_agent.sync`, an agent for tests in `kimi_agent.testing`.
"""

from __future__ import annotations

import atexit as _atexit

from . import _native, _wire
from ._errors import (
    AgentExited,
    AuthExpired,
    EventBufferFull,
    HandshakeError,
    InvalidOption,
    KimiAgentError,
    LlmNotSet,
    LlmNotSupported,
    LlmServiceError,
    MaxStepsReached,
    NoActiveTurn,
    ProtocolError,
    RpcError,
    SessionClosed,
    SpawnError,
    Timeout,
    TurnCancelled,
    TurnInProgress,
    Unsupported,
)
from ._loop import in_this_process as _in_this_process
from ._options import Answers, Approval, Block, Hook, HookDecision, Reject, SessionOptions, UserInput
from ._session import Capabilities, PromptResult, Replay, Session, SessionOpening, Turn, create_session, prompt
from ._stream import EventIterator, Step, Steps
from ._tool import ExternalTool, FunctionTool, ToolArgumentError, tool
from ._wire import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "AgentExited",
    "Answers",
    "Approval",
    "AuthExpired",
    "Block",
    "Capabilities",
    "EventBufferFull",
    "EventIterator",
    "ExternalTool",
    "FunctionTool",
    "HandshakeError",
    "Hook",
    "HookDecision",
    "InvalidOption",
    "KimiAgentError",
    "LlmNotSet",
    "LlmNotSupported",
    "LlmServiceError",
    "MaxStepsReached",
    "NoActiveTurn",
    "PromptResult",
    "ProtocolError",
    "Reject",
    "Replay",
    "RpcError",
    "Session",
    "SessionClosed",
    "SessionOpening",
    "SessionOptions",
    "SpawnError",
    "Step",
    "Steps",
    "Timeout",
    "ToolArgumentError",
    "Turn",
    "TurnCancelled",
    "TurnInProgress",
    "Unsupported",
    "UserInput",
    "__version__",
    "create_session",
    "prompt",
    "tool",
]
__all__ += _wire.__all__


@_atexit.register
def _at_exit() -> None:
    # In a forked child the core's threads are not there to be stopped.
    if _in_this_process():
        _native.shutdown()
