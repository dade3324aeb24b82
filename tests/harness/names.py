"""Public names that no scenario touches, in any language.

Python's and Node's runners measure: they put a recorder in front of every public function, method and property, and
report which there are and which were called. A field can't be watched and counts as its class does. Rust's names aren't
measured: a table says which operation of its runner calls each.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from .scenario import Scenario

# Python's classes that are only put into others; a program meets their methods there.
_MIXINS = {"TokenUsageMethods": "TokenUsage", "ToolReturnValueMethods": "ToolReturnValue",
           "UnknownEventMethods": "UnknownEvent", "UnknownItemMethods": "UnknownDisplayBlock",
           "ApprovalRequestMethods": "ApprovalRequest", "SynthesizedMethods": "ToolCall"}  # fmt: skip

RUST = {
    "Agent": "open_agent", "Agent.builder": "open_agent", "AgentOptions.open": "open_agent",
    "AgentOptions.validate": "open_agent", "Agent.list_sessions": "list_sessions", "Agent.close": "close_agent",
    "Agent.list_archived_sessions": "list_sessions", "Agent.rename_session": "rename_session",
    "Agent.archive_session": "archive_session", "Agent.unarchive_session": "unarchive_session",
    "Agent.delete_session": "delete_session", "Session.config_options": "config_options",
    "Session.set_config_option": "set_config_option",
    "Agent.create_session": "open in an agent", "Agent.resume": "resume", "Agent.fork": "fork",
    "Session.builder": "open", "SessionOptions.start": "open", "SessionOptions.validate": "open",
    "testing.scripted_agent": "open", "prompt": "one_shot", "Turn": "prompt", "Session.prompt": "prompt",
    "Session.id": "session", "Session.work_dir": "session", "Session.pid": "session", "Session.status": "session",
    "Session.state": "state", "Session.closed": "wait_closed", "Session.protocol_version": "info",
    "Session.server": "info",
    "Session.capabilities": "info", "Session.slash_commands": "info", "Session.external_tools": "info",
    "Session.usage": "usage", "Turn.usage": "usage", "Session.replay": "replay", "Replay": "replay",
    "Replay.next": "replay", "Session.set_plan_mode": "set_plan_mode", "Session.undo": "undo",
    "Session.close": "close", "Turn.id": "turn",
    "Session.cancel": "cancel_session", "Turn.text_stream": "text_stream", "TextStream": "text_stream",
    "TextStream.next": "text_stream", "PromptOptions.new": "prompt", "PromptOptions.timeout": "prompt",
    "PromptOptions.idle_timeout": "prompt", "PromptOptions.budget": "prompt", "Budget": "prompt",
    "PromptOptions.output": "prompt", "PromptResult.output": "result", "Output.new": "prompt",
    "Session.close_with_timeout": "close",
    "Agent.close_with_timeout": "close_agent",
    "Turn.discarded": "turn", "Turn.next": "next", "Turn.steps": "steps", "Step": "steps", "Step.n": "steps",
    "Step.next": "steps", "Turn.result": "result", "PromptResult.status": "result", "PromptResult.steps": "result",
    "PromptResult.text": "result", "PromptResult.usage": "result", "PromptResult.tool_calls": "result",
    "PromptResult.rejected": "result", "PromptResult.handler_failures": "result",
    "PromptResult.plan": "result", "PromptResult.cost": "result",
    "PromptResult.stop_reason": "result", "Error.result": "result",
    "PromptResult.raise_for_status": "raise_for_status", "Turn.cancel": "cancel", "Turn.steer": "steer",
    "Turn.cancel_subagent": "cancel_subagent",
    "Session.respond": "respond", "Session.respond_question": "respond", "Turn.respond": "respond",
    "Turn.respond_question": "respond", "Approval": "respond", "Answers": "respond",
    "ExternalTool.with_context": "open", "ToolContext.call_id": "open", "ToolContext.progress": "open",
    "Hook.new": "open", "HookDecision.Allow": "open", "HookDecision.Block": "open",
    "wire.Event.type_name": "wait_outside", "wire.Event.request_id": "respond",
}  # fmt: skip
"""Which operation of the runner in Rust calls what; those of `open` in an agent have names of their own."""

_BATCHES = "batches have tests of their own in each package"
_TELEMETRY = "needs packages, in the tests of telemetry"
_OWN_TESTS = "a convenience of its own, in the tests and documents of its package"
_LOOPS = "what loops call where they are left early, in the tests of its package"
_HANDSHAKE = "a part of the handshake, which sessions show as their capabilities"
_PLACES = "scenarios write places as objects; the functions are in the tests of attacks and of their package"
_ONLY_A_TYPE = "a type: there is nothing to call"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "python": {
        **dict.fromkeys(["Container", "Place", "Prefix", "Remote", "Sandbox", "Ssh"], _PLACES),
        "testing.replayed_agent": _OWN_TESTS,
        "testing.Cassette": _OWN_TESTS,
        "Cassette.is_recording": _OWN_TESTS,
        "Cassette.options": _OWN_TESTS,
        "Cassette.path": _OWN_TESTS,
        "testing.Cassette.is_recording": _OWN_TESTS,
        "testing.Cassette.options": _OWN_TESTS,
        "testing.Cassette.path": _OWN_TESTS,
        "testing.cassette": _OWN_TESTS,
        "tool": _OWN_TESTS,
        "FunctionTool": _OWN_TESTS,
        "KimiAgentError.help": _OWN_TESTS,
        "ToolArgumentError": _OWN_TESTS,
        "event_from_dict": _OWN_TESTS,
        "Files": _OWN_TESTS,
        "files": _OWN_TESTS,
        "terminals": _OWN_TESTS,
        "image": _OWN_TESTS,
        "Policy": _OWN_TESTS,
        "Policy.check": _OWN_TESTS,
        "Policy.load": _OWN_TESTS,
        "Policy.rules": _OWN_TESTS,
        "Policy.to_payload": _OWN_TESTS,
        "Policy.warnings": _OWN_TESTS,
        "PolicyVerdict": _OWN_TESTS,
        "PolicyVerdict.decision": _OWN_TESTS,
        "PolicyVerdict.part": _OWN_TESTS,
        "PolicyVerdict.reason": _OWN_TESTS,
        "PolicyVerdict.rule": _OWN_TESTS,
        "PolicyVerdict.source": _OWN_TESTS,
        "Output.schema": _OWN_TESTS,
        "Telemetry": _TELEMETRY,
        "Telemetry.capture_content": _TELEMETRY,
        "Telemetry.meter_provider": _TELEMETRY,
        "Telemetry.tracer_provider": _TELEMETRY,
        "Batch": _BATCHES,
        "Batch.cancel": _BATCHES,
        "BatchOptions": _BATCHES,
        "Job": _BATCHES,
        "JobResult": _BATCHES,
        "JobResult.output": _BATCHES,
        "JobResult.raise_for_status": _BATCHES,
        "JobResult.text": _BATCHES,
        "JobResult.to_dict": _BATCHES,
        "Progress": _BATCHES,
        "Retry": _BATCHES,
        "Retry.to_payload": _BATCHES,
        "run_batch": _BATCHES,
        "sync.Batch": _BATCHES,
        "sync.Batch.cancel": _BATCHES,
        "sync.run_batch": _BATCHES,
        "printable": _OWN_TESTS,
        "ApprovalRequest.options": _OWN_TESTS,
        "ToolCall.synthesized": _OWN_TESTS,
        "Message.from_dict": _OWN_TESTS,
        "UnknownEvent.from_dict": _OWN_TESTS,
        "TokenUsage.input": _OWN_TESTS,
        "TokenUsage.total": _OWN_TESTS,
        "ToolReturnValue.ok": _OWN_TESTS,
        "ToolReturnValue.error": _OWN_TESTS,
        "EventIterator.aclose": _LOOPS,
        "TextStream.aclose": _LOOPS,
        "sync.TextStream.close": _LOOPS,
        "Steps.aclose": _LOOPS,
        "HooksInfo": _HANDSHAKE,
        "InitializeResult": _HANDSHAKE,
    },
    "node": {
        **dict.fromkeys(
            ["AuthMethod", *[f"AuthMethod.{name}" for name in ("id", "name", "description", "kind")]], _ONLY_A_TYPE
        ),
        **dict.fromkeys(["Place", "PlanEntry"], _ONLY_A_TYPE),
        **dict.fromkeys(["container", "prefix", "remote", "sandbox", "ssh"], _PLACES),
        "files": _OWN_TESTS,
        "terminals": _OWN_TESTS,
        "Batch": _BATCHES,
        "Batch.cancel": _BATCHES,
        "JobResult": _BATCHES,
        "JobResult.output": _BATCHES,
        "JobResult.raiseForStatus": _BATCHES,
        "JobResult.text": _BATCHES,
        "JobResult.toJSON": _BATCHES,
        "runBatch": _BATCHES,
        "TelemetryOptions": _TELEMETRY,
        "TerminalResult": _ONLY_A_TYPE,
        "block": _OWN_TESTS,
        "hook": _OWN_TESTS,
        "Hook": _OWN_TESTS,
        "image": _OWN_TESTS,
        "isKimiAgentError": _OWN_TESTS,
        "Policy": _OWN_TESTS,
        "Policy.check": _OWN_TESTS,
        "Policy.rules": _OWN_TESTS,
        "Policy.toJSON": _OWN_TESTS,
        "Policy.warnings": _OWN_TESTS,
        "PolicyVerdict": _ONLY_A_TYPE,
        "printable": _OWN_TESTS,
        "PromptOptions.signal": "an AbortSignal, which only JavaScript has, in the tests of its package",
        "reject": _OWN_TESTS,
        "testing.cassette": _OWN_TESTS,
        "testing.replayedAgent": _OWN_TESTS,
        "tool": _OWN_TESTS,
        "Replay.next": _OWN_TESTS,
        "Replay.return": _LOOPS,
        "Replay.throw": _LOOPS,
        "Step.return": _LOOPS,
        "Step.throw": _LOOPS,
        "Turn.throw": _LOOPS,
        **dict.fromkeys(["ToolContext", "ToolContext.callId", "ToolContext.progress"], _ONLY_A_TYPE),
        "setLogger": "set-up of logs, which are no part of a trace",
    },
    "rust": {
        "AuthMethod.id": _ONLY_A_TYPE,
        **dict.fromkeys(["Container", "Prefix", "Remote", "Sandbox", "Ssh"], _PLACES),
        "testing.Cassette": _OWN_TESTS,
        "testing.Cassette.agent_options": _OWN_TESTS,
        "testing.Cassette.executable": _OWN_TESTS,
        "testing.Cassette.is_recording": _OWN_TESTS,
        "testing.Cassette.mode": _OWN_TESTS,
        "testing.Cassette.options": _OWN_TESTS,
        "testing.Cassette.path": _OWN_TESTS,
        "testing.Cassette.verify": _OWN_TESTS,
        "testing.CassetteMode": _OWN_TESTS,
        "testing.CassetteMode.as_str": _OWN_TESTS,
        "testing.ReplayMode": _OWN_TESTS,
        "testing.ReplayedAgent.mode": _OWN_TESTS,
        "testing.replayed_agent": _OWN_TESTS,
        **dict.fromkeys(["ExternalTool.new", "ExternalTool.typed", "ExternalTool.typed_with_context"], _OWN_TESTS),
        **dict.fromkeys(
            [
                "proxy",
                *(
                    f"ProxyOptions.{name}"
                    for name in (
                        "new",
                        "policy",
                        "enforce",
                        "session_budget",
                        "turn_budget",
                        "day_budget",
                        "record_to",
                        "redact",
                        "work_dir",
                        "place",
                        "place_named",
                        "on_stderr",
                        "with_user_settings",
                    )
                ),
            ],
            _OWN_TESTS,
        ),
        **dict.fromkeys(["ToolContext.cancelled", "ToolContext.is_cancelled"], _OWN_TESTS),
        "Partial": _OWN_TESTS,
        "SessionOptions.env_remove": _OWN_TESTS,
        "SystemPrompt.overriding": _OWN_TESTS,
        **dict.fromkeys(["Price", "Prices"], "the runner makes it of JSON"),
        "printable": _OWN_TESTS,
        "Policy.check": _OWN_TESTS,
        "Policy.check_json": _OWN_TESTS,
        "Policy.from_json": _OWN_TESTS,
        "Policy.from_toml": _OWN_TESTS,
        "Policy.from_value": _OWN_TESTS,
        "Policy.load": _OWN_TESTS,
        **dict.fromkeys(["Policy.default_decision", "Policy.named", "Policy.preset", "Policy.rules"], _OWN_TESTS),
        "Policy.warnings": _OWN_TESTS,
        "wire.ContentPart.file": "the runner calls it for a part of a prompt",
        **dict.fromkeys(
            [f"wire.ResourcePart.{name}" for name in ("new", "with_text", "with_data", "with_mime_type")],
            "the runner calls it for a part of a prompt",
        ),
        "wire.ContentPart.image_bytes": _OWN_TESTS,
        "wire.ContentPart.image_file": _OWN_TESTS,
        "Output.of": _OWN_TESTS,
        "Output.check": "the runner has its checks from the bindings' side of the core",
        **dict.fromkeys(
            ["Output.name", "Output.description", "Output.mode", "Output.retries"], "the runner makes it of JSON"
        ),
        "Approval.reject": "a constructor; the runner makes it of JSON",
        "wire.Event.text": _OWN_TESTS,
        **dict.fromkeys(
            [
                f"wire.{name}Request.new"
                for name in ("Approval", "Hook", "Question", "ReadFile", "Terminal", "WriteFile")
            ],
            _OWN_TESTS,
        ),
        **dict.fromkeys(["wire.Question.new", "wire.ToolCallInfo.new"], _OWN_TESTS),
        "RpcError.kind": "the code of the error tells it",
        "RpcError.new": "a constructor, for the tests of programs",
        "Error.help": _OWN_TESTS,
        "Error.is_retryable": "the table of errors in `tests/errors` has it",
    },
}
"""The names that scenarios need not touch, with reasons."""


@dataclass
class Report:
    """The measurements of a runner."""

    public: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, *paths: Path) -> Report:
        """All that the processes of some runners have added to their files."""
        report = cls()
        for line in [line for path in paths if path.exists() for line in path.read_text("utf-8").splitlines()]:
            data = json.loads(line)
            report.public |= {_renamed(name) for name in data["public"]}
            report.touched |= {_renamed(name) for name in data["touched"]}
        return report


@dataclass
class Seen:
    """The names in the scenarios, for all languages."""

    events: set[str]
    codes: set[str]
    options: set[str]
    ops: set[str]
    described: dict[str, set[str]]
    """The keys that tools and hooks are described with, by `ExternalTool` and `Hook`."""
    agent_options: set[str] = field(default_factory=set)
    call_options: dict[str, set[str]] = field(default_factory=dict)
    """The options of single calls, by `PromptOptions`, `OneShotOptions` and `CloseOptions`."""


def described(scenarios: list[Scenario]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for option, name in (("tools", "ExternalTool"), ("hooks", "Hook")):
        lists = [scenario.data.get("options", {}).get(option) for scenario in scenarios]
        items = [item for value in lists if isinstance(value, list) for item in value if isinstance(item, dict)]
        found[name] = {"handler" if key == "behaviour" else key for item in items for key in item}
    return found


def untouched(names: dict[str, list[str]], reports: dict[str, Report], seen: Seen) -> list[str]:
    """The missing names, and the exceptions that are not needed any more, as sentences."""
    complaints = []
    for language, listed in names.items():
        report = reports.get(language, Report())
        known = set(listed) | report.public
        missing = {name for name in known if not _is_touched(language, name, report, seen)}
        excepted = EXCEPTIONS.get(language, {})
        complaints += [f"no scenario touches {name} ({language})" for name in sorted(missing - set(excepted))]
        for name in sorted(set(excepted) - missing):
            state = "is" if name in known else "is no public name"
            complaints.append(f"{name} is declared not to be touched ({language}), but it {state}")
    return complaints


def _is_touched(language: str, name: str, report: Report, seen: Seen) -> bool:
    owner, _, member = name.rpartition(".")
    top = name.split(".")[0]
    if name in report.touched:
        return True
    if name in _TYPES.get(language, {}):
        return True
    if language == "rust" and name in RUST:
        return RUST[name] in seen.ops
    if top == "SessionOptions":
        return not member or _snake(member).removesuffix("_manual") in seen.options
    if top == "AgentOptions":
        return _snake(member) in seen.agent_options
    if language != "rust" and top in seen.call_options:
        given = seen.call_options[top]
        return _snake(member) in given if owner else bool(given)
    if top == "SessionInfo":
        return "list_sessions" in seen.ops
    if top in ("ConfigOption", "ConfigChoice"):
        return "config_options" in seen.ops
    if language != "python" and (name.startswith("wire.") or top in seen.events):
        return _event(name) in seen.events
    if language != "python" and top in seen.described and _snake(member) in seen.described[top]:
        return True
    if language == "rust":
        return _rust_touched(name, seen)
    # What isn't watched is a field.
    return bool(owner) and name not in report.public and owner in report.touched


_TYPES = {
    "python": dict.fromkeys(
        ["AgentOptions", "AgentSessionOptions", "Answer", "Approval", "Budget", "Content", "ContentPart",
         "DisplayBlock", "Event", "HookAnswer", "PolicyRules", "QuestionAnswer", "Request", "SessionOptions",
         "SessionSettings", "UserInput", "testing.ScriptAction", "testing.ScriptObject"], _ONLY_A_TYPE),
    "node": dict.fromkeys(
        ["AgentOptions", "Budget", "Cost", "ExternalTool", "Price", "Prices", "SessionOptions", "Event", "TokenUsage",
         "ToolReturnValue", "HandlerFailure", "RejectedApproval", "ToolCallInfo", "ToolCallRecord",
         "Output", "OutputOptions", "OutputError", "OutputSchema", "ResourceContent"], _ONLY_A_TYPE),
}  # fmt: skip
_EVENT_NAMES = {"Text": "TextPart", "Think": "ThinkPart", "ImageUrl": "ImageURLPart", "AudioUrl": "AudioURLPart",
                "VideoUrl": "VideoURLPart", "Resource": "ResourcePart", "Unknown": "UnknownEvent"}  # fmt: skip


def _event(name: str) -> str:
    last = name.split(".")[-1] if name.startswith("wire.") else name.split(".")[0]
    return _EVENT_NAMES.get(last, last)


def _rust_touched(name: str, seen: Seen) -> bool:
    owner, _, member = name.rpartition(".")
    if owner == "Capabilities":
        return "info" in seen.ops
    code = _snake(member)
    if owner == "Error":
        return code == "code" or bool({code, f"{code}_error"} & seen.codes)
    if owner == "RpcErrorKind":
        return code in seen.codes
    codes = {
        "AgentExit": "agent_exited",
        "RpcError": "rpc_error",
        "BudgetExceeded": "budget_exceeded",
        "OutputInvalid": "output_invalid",
    }
    return codes.get(owner) in seen.codes and name not in EXCEPTIONS["rust"]


def _renamed(name: str) -> str:
    top, dot, rest = name.partition(".")
    return _MIXINS.get(top, top) + dot + rest


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def load(root: Path) -> dict[str, list[str]]:
    """The public names by language. Those of Rust are in the file that compiles a use of each."""
    listed: dict[str, list[str]] = json.loads((root / "tests/api/names.json").read_text("utf-8"))
    uses = next((root / "core").glob("**/public_names.rs")).read_text("utf-8")
    return {**listed, "rust": re.findall(r'^ +"([\w.]+)" =>', uses, re.MULTILINE)}
