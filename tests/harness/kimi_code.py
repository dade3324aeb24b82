"""The real cases as Kimi Code plays them: it has other tools than kimi-cli, and speaks ACP or over its own server.

A case whose turn takes the same course needs nothing said: what it expects is told here in the words of ACP, or of the
server. Where the course is another, the case's `kimi_code` says what, and why; over the server its `kimi_web`. An entry
of `before` in them is for older releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .scenario import Scenario, numbers

TOOLS = {
    "Shell": "Bash",
    "ReadFile": "Read",
    "WriteFile": "Write",
    "StrReplaceFile": "Edit",
    "SetTodoList": "TodoList",
}
"""Its tools that kimi-cli has under another name, with the same arguments as far as cases use them."""

_UNTOLD = frozenset({"ApprovalResponse", "StepInterrupted", "StepRetry", "PlanDisplay", "SubagentEvent"})
_OWN_WORDS = frozenset({"sender", "action", "display", "description", "source_kind", "subagent_type"})


def own(scenario: Scenario, number: str, server: bool) -> dict[str, Any]:
    """What the case says of Kimi Code, in this release, over ACP or its server."""
    found = dict(scenario.data.get("kimi_web" if server else "kimi_code", {}))
    for entry in found.pop("before", []):
        if numbers(number) < numbers(entry["release"]):
            return {**found, **{key: value for key, value in entry.items() if key != "release"}}
    return found


def cast(scenario: Scenario, own: dict[str, Any], server: bool) -> Scenario:
    """The case with Kimi Code's tools, and with what has to come out there."""
    kimi = {**scenario.kimi, **{key: own[key] for key in ("model", "config", "files") if key in own}}
    data = {**scenario.data, **{key: own[key] for key in ("program", "options") if key in own}}
    if "model" not in own:
        kimi["model"] = [_reply(reply) for reply in kimi.get("model", [])]
    told = over_server if server else over_acp
    expect = own.get("expect") or patterns(scenario.expect or [], told)
    return replace(scenario, data={**data, "agent": {"kimi": kimi}, "expect": expect})


def _reply(reply: dict[str, Any]) -> dict[str, Any]:
    told = dict(reply)
    if "calls" in told:
        told["calls"] = [{**call, "name": TOOLS.get(call["name"], call["name"])} for call in told["calls"]]
    for key in ("offers", "withholds"):
        if key in told:
            told[key] = [TOOLS.get(name, name) for name in told[key]]
    return told


def patterns(expect: list[Any], tell: Callable[[dict[str, Any]], dict[str, Any] | None]) -> list[Any]:
    """The expectations of a case for Wire, as far as Kimi Code has the same."""
    told = []
    for pattern in expect:
        inner = pattern.get("never", pattern)
        found = tell(inner)
        if found is not None:
            told.append({"never": found} if "never" in pattern else found)
    return told


def over_acp(pattern: dict[str, Any]) -> dict[str, Any] | None:
    event = pattern.get("event")
    if event is None:
        return _operation(pattern)
    kind, payload = event.get("type"), dict(event.get("payload", {}))
    if kind in _UNTOLD or (kind == "StepBegin" and payload.get("n", 1) != 1):
        return None
    if kind == "StatusUpdate" and set(payload) != {"plan_mode"}:
        return None
    # The agent puts the turn's number before the model's id.
    for field in ("tool_call_id", "id"):
        if field in payload and (field == "tool_call_id" or kind == "ToolCall"):
            payload[field] = f"~^[0-9]+:{payload[field]}$"
    return over_server({"event": {"type": kind, "payload": payload}})


def over_server(pattern: dict[str, Any]) -> dict[str, Any] | None:
    event = pattern.get("event")
    if event is None:
        return pattern
    kind, payload = event.get("type"), dict(event.get("payload", {}))
    if kind == "ToolCall" and "name" in payload.get("function", {}):
        function = payload["function"]
        payload["function"] = {**function, "name": TOOLS.get(function["name"], function["name"])}
    if kind == "ApprovalRequest":
        payload = {key: value for key, value in payload.items() if key not in _OWN_WORDS}
    if kind == "ToolResult" and "return_value" in payload:
        payload["return_value"] = {
            key: payload["return_value"][key] for key in payload["return_value"] if key != "message"
        }
    return {"event": {"type": kind, **({"payload": payload} if payload else {})}}


def _operation(pattern: dict[str, Any]) -> dict[str, Any] | None:
    if "step" in pattern:
        return pattern if pattern["step"] == 1 else None
    return pattern
