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
import importlib as _importlib
from typing import TYPE_CHECKING

from . import _native
from ._agent import Agent, AgentOpening, open_agent
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
from ._options import Block, Hook, Reject
from ._printable import printable
from ._session import Replay, Session, SessionOpening, Turn, create_session, prompt
from ._stream import EventIterator, Step, Steps, TextStream
from ._tool import ExternalTool, ToolArgumentError
from ._wire import (
    ApprovalRequest,
    ApprovalResponse,
    AudioURLPart,
    BackgroundTaskDisplayBlock,
    BriefDisplayBlock,
    BtwBegin,
    BtwEnd,
    CompactionBegin,
    CompactionEnd,
    Content,
    ContentPart,
    DiffDisplayBlock,
    DisplayBlock,
    Event,
    ExternalToolsResult,
    FunctionCall,
    HandlerFailed,
    HookRequest,
    HookResolved,
    HooksInfo,
    HookTriggered,
    ImageURLPart,
    InitializeResult,
    MCPLoadingBegin,
    MCPLoadingEnd,
    MCPServer,
    MCPStatus,
    MediaURL,
    Notification,
    PlanDisplay,
    Question,
    QuestionOption,
    QuestionRequest,
    RejectedTool,
    Request,
    ServerInfo,
    ShellDisplayBlock,
    SlashCommand,
    StatusUpdate,
    SteerInput,
    StepBegin,
    StepInterrupted,
    StepRetry,
    SubagentEvent,
    TextPart,
    ThinkPart,
    TodoDisplayBlock,
    TodoDisplayItem,
    TokenUsage,
    ToolCall,
    ToolCallInfo,
    ToolCallPart,
    ToolCallRequest,
    ToolResult,
    ToolReturnValue,
    TurnBegin,
    TurnEnd,
    UnknownContentPart,
    UnknownDisplayBlock,
    UnknownEvent,
    VideoURLPart,
    event_from_dict,
)

if TYPE_CHECKING:
    from ._function_tool import FunctionTool, tool
    from ._image import image
    from ._option_types import (
        AgentOptions,
        Approval,
        HookAnswer,
        OneShotOptions,
        PromptOptions,
        QuestionAnswer,
        SessionOptions,
        UserInput,
    )
    from ._results import (
        Capabilities,
        HandlerFailure,
        PromptResult,
        RejectedApproval,
        SessionInfo,
        ToolCallRecord,
    )

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentExited",
    "AgentOpening",
    "AgentOptions",
    "Approval",
    "ApprovalRequest",
    "ApprovalResponse",
    "AudioURLPart",
    "AuthExpired",
    "BackgroundTaskDisplayBlock",
    "Block",
    "BriefDisplayBlock",
    "BtwBegin",
    "BtwEnd",
    "Capabilities",
    "CompactionBegin",
    "CompactionEnd",
    "Content",
    "ContentPart",
    "DiffDisplayBlock",
    "DisplayBlock",
    "Event",
    "EventBufferFull",
    "EventIterator",
    "ExternalTool",
    "ExternalToolsResult",
    "FunctionCall",
    "FunctionTool",
    "HandlerFailed",
    "HandlerFailure",
    "HandshakeError",
    "Hook",
    "HookAnswer",
    "HookRequest",
    "HookResolved",
    "HookTriggered",
    "HooksInfo",
    "ImageURLPart",
    "InitializeResult",
    "InvalidOption",
    "KimiAgentError",
    "LlmNotSet",
    "LlmNotSupported",
    "LlmServiceError",
    "MCPLoadingBegin",
    "MCPLoadingEnd",
    "MCPServer",
    "MCPStatus",
    "MaxStepsReached",
    "MediaURL",
    "NoActiveTurn",
    "Notification",
    "OneShotOptions",
    "PlanDisplay",
    "PromptOptions",
    "PromptResult",
    "ProtocolError",
    "Question",
    "QuestionAnswer",
    "QuestionOption",
    "QuestionRequest",
    "Reject",
    "RejectedApproval",
    "RejectedTool",
    "Replay",
    "Request",
    "RpcError",
    "ServerInfo",
    "Session",
    "SessionClosed",
    "SessionInfo",
    "SessionOpening",
    "SessionOptions",
    "ShellDisplayBlock",
    "SlashCommand",
    "SpawnError",
    "StatusUpdate",
    "SteerInput",
    "Step",
    "StepBegin",
    "StepInterrupted",
    "StepRetry",
    "Steps",
    "SubagentEvent",
    "TextPart",
    "TextStream",
    "ThinkPart",
    "Timeout",
    "TodoDisplayBlock",
    "TodoDisplayItem",
    "TokenUsage",
    "ToolArgumentError",
    "ToolCall",
    "ToolCallInfo",
    "ToolCallPart",
    "ToolCallRecord",
    "ToolCallRequest",
    "ToolResult",
    "ToolReturnValue",
    "Turn",
    "TurnBegin",
    "TurnCancelled",
    "TurnEnd",
    "TurnInProgress",
    "UnknownContentPart",
    "UnknownDisplayBlock",
    "UnknownEvent",
    "Unsupported",
    "UserInput",
    "VideoURLPart",
    "__version__",
    "create_session",
    "event_from_dict",
    "image",
    "open_agent",
    "printable",
    "prompt",
    "tool",
]

# What a first session has no need of, by the module that it is in.
_LATER = {
    **dict.fromkeys(("FunctionTool", "tool"), "_function_tool"),
    "image": "_image",
    **dict.fromkeys(
        (
            "AgentOptions",
            "QuestionAnswer",
            "Approval",
            "HookAnswer",
            "OneShotOptions",
            "PromptOptions",
            "SessionOptions",
            "UserInput",
        ),
        "_option_types",
    ),
    **dict.fromkeys(
        ("Capabilities", "HandlerFailure", "PromptResult", "RejectedApproval", "SessionInfo", "ToolCallRecord"),
        "_results",
    ),
}

if not TYPE_CHECKING:

    def __getattr__(name):
        module = _LATER.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(_importlib.import_module(f".{module}", __name__), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


@_atexit.register
def _at_exit() -> None:
    # In a forked child the core's threads are not there to be stopped.
    if _in_this_process():
        _native.shutdown()
