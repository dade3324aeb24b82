"""Drive coding agents such as Kimi Code from Python: sessions, streamed turns, approvals, tools.

>>> import kimi_agent
>>> async with kimi_agent.create_session(work_dir=".") as session:
...     async for event in session.prompt("What is in this directory?"):
...         match event:
...             case kimi_agent.TextPart(text=text):
...                 print(text)
There are 3 files.

Examples are written as for `python -m asyncio`, which accepts `await` outside of functions. In a program they stand in
an `async def`. They use the names of `kimi_agent` without an import. If an example does not say where `agent`,
`session` and `turn` come from, they are an `Agent`, a `Session` and a `Turn` of it.

The same without coroutines is in `kimi_agent.sync`, an agent for tests in `kimi_agent.testing`.
"""

from __future__ import annotations

import atexit as _atexit
import importlib as _importlib
from typing import TYPE_CHECKING

from . import _native
from ._agent import Agent, AgentOpening, open_agent
from ._answers import Block, Reject
from ._errors import (
    AgentExited,
    AnswerRefused,
    AnswerTruncated,
    AuthExpired,
    BudgetExceeded,
    ContextTooLong,
    EventBufferFull,
    HandshakeError,
    InvalidOption,
    KimiAgentError,
    LlmNotSet,
    LlmNotSupported,
    LlmServiceError,
    MaxStepsReached,
    NoActiveTurn,
    OutputInvalid,
    ProtocolError,
    RpcError,
    SessionClosed,
    SpawnError,
    Timeout,
    TurnCancelled,
    TurnInProgress,
    Unsupported,
)
from ._hook import Hook
from ._local import Files, files, terminals
from ._output import Output
from ._printable import printable
from ._process import in_this_process as _in_this_process
from ._session import Session, SessionOpening, create_session, prompt
from ._stream import EventIterator, Step, Steps, TextStream
from ._tool import ExternalTool, ToolArgumentError
from ._tool_context import ToolContext
from ._turn import Replay, Turn
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
    Cost,
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
    Plan,
    PlanDisplay,
    PlanEntry,
    PolicyDecision,
    Question,
    QuestionOption,
    QuestionRequest,
    ReadFileRequest,
    RejectedTool,
    Request,
    ResourcePart,
    ServerInfo,
    ShellDisplayBlock,
    SlashCommand,
    StatusUpdate,
    SteerInput,
    StepBegin,
    StepInterrupted,
    StepRetry,
    SubagentEvent,
    TerminalRequest,
    TerminalResult,
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
    WriteFileRequest,
    event_from_dict,
)

if TYPE_CHECKING:
    from . import sync as sync
    from . import testing as testing
    from ._auth import AuthMethod
    from ._batch import Batch, run_batch
    from ._function_tool import FunctionTool, tool
    from ._image import image
    from ._job import Job, JobResult, Progress, Retry
    from ._option_types import (
        AgentOptions,
        AgentSessionOptions,
        Approval,
        BatchOptions,
        Budget,
        HookAnswer,
        OneShotOptions,
        PromptOptions,
        QuestionAnswer,
        SessionOptions,
        SessionSettings,
        UserInput,
    )
    from ._place import Container, Place, Prefix, Remote, Sandbox, Ssh
    from ._policy import Policy, PolicyRules, PolicyVerdict
    from ._resource import file, resource
    from ._results import (
        Capabilities,
        ConfigChoice,
        ConfigOption,
        HandlerFailure,
        OutputError,
        PromptResult,
        RejectedApproval,
        SessionInfo,
        ToolCallRecord,
    )
    from ._telemetry import Telemetry

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentExited",
    "AgentOpening",
    "AgentOptions",
    "AgentSessionOptions",
    "AnswerRefused",
    "AnswerTruncated",
    "Approval",
    "ApprovalRequest",
    "ApprovalResponse",
    "AudioURLPart",
    "AuthExpired",
    "AuthMethod",
    "BackgroundTaskDisplayBlock",
    "Batch",
    "BatchOptions",
    "Block",
    "BriefDisplayBlock",
    "BtwBegin",
    "BtwEnd",
    "Budget",
    "BudgetExceeded",
    "Capabilities",
    "CompactionBegin",
    "CompactionEnd",
    "ConfigChoice",
    "ConfigOption",
    "Container",
    "Content",
    "ContentPart",
    "ContextTooLong",
    "Cost",
    "DiffDisplayBlock",
    "DisplayBlock",
    "Event",
    "EventBufferFull",
    "EventIterator",
    "ExternalTool",
    "ExternalToolsResult",
    "Files",
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
    "Job",
    "JobResult",
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
    "Output",
    "OutputError",
    "OutputInvalid",
    "Place",
    "Plan",
    "PlanDisplay",
    "PlanEntry",
    "Policy",
    "PolicyDecision",
    "PolicyRules",
    "PolicyVerdict",
    "Prefix",
    "Progress",
    "PromptOptions",
    "PromptResult",
    "ProtocolError",
    "Question",
    "QuestionAnswer",
    "QuestionOption",
    "QuestionRequest",
    "ReadFileRequest",
    "Reject",
    "RejectedApproval",
    "RejectedTool",
    "Remote",
    "Replay",
    "Request",
    "ResourcePart",
    "Retry",
    "RpcError",
    "Sandbox",
    "ServerInfo",
    "Session",
    "SessionClosed",
    "SessionInfo",
    "SessionOpening",
    "SessionOptions",
    "SessionSettings",
    "ShellDisplayBlock",
    "SlashCommand",
    "SpawnError",
    "Ssh",
    "StatusUpdate",
    "SteerInput",
    "Step",
    "StepBegin",
    "StepInterrupted",
    "StepRetry",
    "Steps",
    "SubagentEvent",
    "Telemetry",
    "TerminalRequest",
    "TerminalResult",
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
    "ToolContext",
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
    "WriteFileRequest",
    "__version__",
    "create_session",
    "event_from_dict",
    "file",
    "files",
    "image",
    "open_agent",
    "printable",
    "prompt",
    "resource",
    "run_batch",
    "terminals",
    "tool",
]

# Names that a first session does not need, by module.
_LATER = {
    "AuthMethod": "_auth",
    **dict.fromkeys(("FunctionTool", "tool"), "_function_tool"),
    **dict.fromkeys(("Batch", "run_batch"), "_batch"),
    **dict.fromkeys(("Container", "Place", "Prefix", "Remote", "Sandbox", "Ssh"), "_place"),
    "image": "_image",
    **dict.fromkeys(("file", "resource"), "_resource"),
    **dict.fromkeys(("Job", "JobResult", "Progress", "Retry"), "_job"),
    "Policy": "_policy",
    "PolicyRules": "_policy",
    "PolicyVerdict": "_policy",
    "Telemetry": "_telemetry",
    **dict.fromkeys(
        (
            "AgentOptions",
            "AgentSessionOptions",
            "QuestionAnswer",
            "Approval",
            "BatchOptions",
            "Budget",
            "HookAnswer",
            "OneShotOptions",
            "PromptOptions",
            "SessionOptions",
            "SessionSettings",
            "UserInput",
        ),
        "_option_types",
    ),
    **dict.fromkeys(
        (
            "Capabilities",
            "ConfigChoice",
            "ConfigOption",
            "HandlerFailure",
            "OutputError",
            "PromptResult",
            "RejectedApproval",
            "SessionInfo",
            "ToolCallRecord",
        ),
        "_results",
    ),
}

# Modules that `import kimi_agent` alone makes reachable.
_MODULES = ("sync", "testing")

if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _MODULES:
            return _importlib.import_module(f".{name}", __name__)
        module = _LATER.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(_importlib.import_module(f".{module}", __name__), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})


@_atexit.register
def _at_exit() -> None:
    # In a forked child the core's threads are not there to be stopped.
    if _in_this_process():
        _native.shutdown()
