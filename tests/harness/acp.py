"""Scenarios over the Agent Client Protocol: which are played, and what comes out otherwise than over Wire.

The scripted agent speaks ACP as Kimi Code does, and the same scenario has to give the same trace but for what is declared
here: `RULES` hold for every scenario, `acp.json` has the traces of those in which a turn takes another course, and
says why. What is declared but doesn't occur is a failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .scenario import BadScenario, Scenario, with_expectation
from .trace import Line, compact, event_type

DECLARED = Path(__file__).with_name("acp.json")

OPTIONS = {
    "config": "it is the agent's own configuration there",
    "config_file": "it is the agent's own configuration there",
    "agent_file": "it is the agent's own configuration there",
    "skills_dir": "it is the agent's own configuration there",
    "max_steps_per_turn": "it is the agent's own configuration there",
    "max_retries_per_step": "it is the agent's own configuration there",
    "hooks": "there are no hooks",
    "tools": "they need a client for MCP, which the scripted agent has not",
    "session_id": "the agent makes it",
    "dialect": "it chooses a dialect itself",
    "executable": "it starts something else than the scripted agent",
}
"""Options that scenarios over ACP can't have, and why."""

OPERATIONS = {"steer": "there is no steer", "replay": "there is no replay"}

ACTIONS = {
    "external_tool": "the program's tools need a client for MCP, which the scripted agent has not",
    "hook": "there are no hooks",
    "wait_steer": "there is no steer",
    "request": "it sends a request in Wire's own words",
    "event": "it sends an event in Wire's own words",
    "raw": "it sends bytes of Wire's own",
    "raw_base64": "it sends bytes of Wire's own",
}

SCRIPT = {
    "wire": "it is about a version of Wire",
    "release": "it is about a release of kimi-cli",
    "session_file": "it goes on with a session by a name of the program's own",
    "deaf_to": "it is about a call of Wire's",
    "cut": "it counts lines or calls of Wire's",
}


@dataclass(frozen=True)
class Rule:
    """What comes out otherwise, in every scenario where it can."""

    name: str
    about: str
    apply: Callable[[list[Line]], list[Line]]


def _payload(line: Line) -> dict[str, Any]:
    event = line.get("event") or {}
    return dict(event.get("payload") or {})


def _with(line: Line, **fields: Any) -> Line:
    return {**line, "event": {**line["event"], "payload": {**_payload(line), **fields}}}


def _marked(lines: list[Line]) -> list[Line]:
    return [_with(line, synthesized=True) if event_type(line) in ("TurnBegin", "TurnEnd") else line for line in lines]


def _one_step(lines: list[Line]) -> list[Line]:
    """The first of each turn, marked; a result tells one."""
    left: list[Line] = []
    begun = False
    for line in lines:
        kind = event_type(line)
        if kind == "TurnBegin":
            begun = False
        if kind == "StepBegin":
            if not begun:
                left.append(_with(line, n=1, synthesized=True))
            begun = True
        else:
            left.append({**line, "steps": min(line["steps"], 1)} if "steps" in line and "op" in line else line)
    return left


def _without(*kinds: str) -> Callable[[list[Line]], list[Line]]:
    return lambda lines: [line for line in lines if event_type(line) not in kinds]


def _arguments_in_parts(lines: list[Line]) -> list[Line]:
    told: list[Line] = []
    for line in lines:
        if event_type(line) != "ToolCall":
            told.append(line)
            continue
        function = _payload(line)["function"]
        told.append(_with(line, function={**function, "arguments": ""}))
        if function.get("arguments"):
            told.append({"event": {"type": "ToolCallPart", "payload": {"arguments_part": function["arguments"]}}})
    return told


_KINDS = {
    "Shell": "execute", "WriteFile": "edit", "StrReplaceFile": "edit", "ReadFile": "read", "Glob": "search",
    "Grep": "search", "FetchURL": "fetch",
}  # fmt: skip


def _results_as_the_model_gets_them(lines: list[Line]) -> list[Line]:
    names: dict[str, str] = {}
    titles: dict[str, str] = {}
    told: list[Line] = []
    for line in lines:
        payload = _payload(line)
        kind = event_type(line)
        if kind == "ToolCall":
            names[payload["id"]] = titles[payload["id"]] = payload["function"]["name"]
        if kind == "ApprovalRequest":
            titles[payload["tool_call_id"]] = payload["description"]
        if kind == "ToolResult" and payload.get("tool_call_id") in names:
            value = payload["return_value"]
            call = payload["tool_call_id"]
            display = [block for block in value.get("display", []) if block.get("type") == "diff"]
            extras = {"kind": _KINDS.get(names[call], "other"), "title": titles[call]}
            output = value.get("output") or value.get("message", "")
            line = _with(
                line, return_value={**value, "output": output, "message": "", "display": display, "extras": extras}
            )
        told.append(line)
    return told


_OPTIONS = [
    {"kind": "allow_once", "name": "Approve once", "optionId": "approve_once"},
    {"kind": "allow_always", "name": "Approve for this session", "optionId": "approve_always"},
    {"kind": "reject_once", "name": "Reject", "optionId": "reject"},
]


def _permissions(lines: list[Line]) -> list[Line]:
    names: dict[str, str] = {}
    told: list[Line] = []
    for line in lines:
        payload = _payload(line)
        if event_type(line) == "ToolCall":
            names[payload["id"]] = payload["function"]["name"]
        if event_type(line) == "ApprovalRequest":
            name = names.get(payload["tool_call_id"], payload["sender"])
            display = [block for block in payload.get("display", []) if block.get("type") == "diff"]
            known = {key: payload[key] for key in ("id", "tool_call_id")}
            description = f"Requesting approval to {payload['description']}"
            fields = {**known, "sender": name, "action": name, "description": description, "display": display}
            line = {"event": {"type": "ApprovalRequest", "payload": {**fields, "options": _OPTIONS}}}
        told.append(line)
    return told


def _request_numbers(lines: list[Line]) -> list[Line]:
    """Requests have numbers, from 0 for each process."""
    told: list[Line] = []
    count = 0
    for line in lines:
        if line.get("op") in ("open", "one_shot"):
            count = 0
        if event_type(line) in ("ApprovalRequest", "QuestionRequest"):
            line = _with(line, id=str(count))
            count += 1
        told.append(line)
    return told


def _no_tokens(lines: list[Line]) -> list[Line]:
    def cleared(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {
            "input_other", "output", "input_cache_read", "input_cache_creation",
        }:  # fmt: skip
            return dict.fromkeys(value, 0)
        if isinstance(value, dict):
            return {key: cleared(item) for key, item in value.items()}
        return value

    return [cleared(line) if "op" in line else line for line in lines]


RULES = (
    Rule("permissions", "an approval's text is the agent's sentence, its sender and action the tool's name", _permissions),
    Rule("request ids", "a request's id is a number of the agent's", _request_numbers),
    Rule("answers", "the agent doesn't tell that an approval was answered", _without("ApprovalResponse")),
    Rule("results", "a tool's result is what the model gets, its title and kind are in `extras`", _results_as_the_model_gets_them),
    Rule("arguments", "a call's arguments come as parts", _arguments_in_parts),
    Rule("turns", "the SDK makes `TurnBegin` and `TurnEnd`", _marked),
    Rule("steps", "the SDK makes one step a turn", _one_step),
    Rule("interrupted", "a step's interruption is not told", _without("StepInterrupted")),
    Rule("tokens", "tokens are not told", _no_tokens),
    Rule("status", "how full the context is comes after the turn, and not among its events", _without("StatusUpdate")),
)  # fmt: skip

_ID = re.compile(r"<id\d+>")


def _renumbered(lines: list[Line]) -> list[Line]:
    """The ids that are left, named in order of their appearance again."""
    known: dict[str, str] = {}
    text = "\n".join(json.dumps(line, sort_keys=True) for line in lines)
    text = _ID.sub(lambda found: known.setdefault(found.group(), f"<id{len(known) + 1}>"), text)
    return [json.loads(line) for line in text.splitlines()]


def translated(lines: list[Line], used: set[str] | None = None) -> list[Line]:
    """What has to come out over ACP where this came out over Wire; notes the rules that it took."""
    for rule in RULES:
        after = rule.apply(lines)
        if after != lines and used is not None:
            used.add(rule.name)
        lines = after
    return _renumbered(lines)


@dataclass(frozen=True)
class Declared:
    """What `acp.json` says."""

    left_out: dict[str, str]
    """By a regular expression for names: why these scenarios are not played."""
    courses: dict[str, dict[str, Any]]
    """By name: why a turn takes another course, and the whole trace."""


def declared(path: Path = DECLARED) -> Declared:
    data = json.loads(path.read_text("utf-8"))
    return Declared(data["left_out"], data["courses"])


def reason(scenario: Scenario, known: Declared) -> str | None:
    """Why a scenario is not played over ACP."""
    data = scenario.data
    script = data["agent"]["script"]
    if isinstance(script, dict):
        for field, why in SCRIPT.items():
            if field in script:
                return f"`{field}`: {why}"
    options = [data.get("options", {}), *(op.get("options", {}) for op in data["program"])]
    for option, why in OPTIONS.items():
        if any(option in given for given in options):
            return f"`{option}`: {why}"
    for op, why in OPERATIONS.items():
        if any(step["op"] == op for step in data["program"]):
            return why
    for action, why in ACTIONS.items():
        if _has_action(script, action):
            return f"`{action}`: {why}"
    found = [why for pattern, why in known.left_out.items() if re.fullmatch(pattern, scenario.name)]
    return found[0] if found else None


def _has_action(value: Any, action: str) -> bool:
    if isinstance(value, dict):
        return action in value or any(_has_action(item, action) for item in value.values())
    return isinstance(value, list) and any(_has_action(item, action) for item in value)


def cast(scenario: Scenario, known: Declared, used: set[str] | None = None) -> Scenario:
    """The scenario as it is played over ACP."""
    script = scenario.data["agent"]["script"]
    script = script if isinstance(script, dict) else {"turns": script}
    expect = translated(scenario.expect or [], used)
    course = known.courses.get(scenario.name)
    if course:
        if course["expect"] == expect:
            raise BadScenario(f"{DECLARED.name}: {scenario.name} takes no other course: take it out")
        expect = course["expect"]
    options = {**scenario.data.get("options", {}), "dialect": "acp"}
    agent = {"script": {"wire": "acp", **script}}
    return replace(scenario, data={**scenario.data, "agent": agent, "options": options, "expect": expect})


def chosen(scenarios: Iterable[Scenario], known: Declared, used: set[str]) -> tuple[list[Scenario], dict[str, str]]:
    """What is played, and what isn't, with the reason."""
    played: list[Scenario] = []
    left: dict[str, str] = {}
    for scenario in scenarios:
        why = reason(scenario, known)
        if why:
            left[scenario.name] = why
        else:
            played.append(cast(scenario, known, used))
    return played, left


def needless(scenarios: list[Scenario], known: Declared, used: set[str]) -> list[str]:
    """Declarations that nothing needs: over all scenarios."""
    names = {scenario.name for scenario in scenarios}
    bare = Declared({}, known.courses)
    otherwise = {scenario.name for scenario in scenarios if reason(scenario, bare) is None}
    complaints = [
        f"{DECLARED.name}: `{pattern}` leaves out nothing"
        for pattern in known.left_out
        if not any(re.fullmatch(pattern, name) for name in otherwise)
    ]
    complaints += [f"{DECLARED.name}: there is no {name}" for name in known.courses if name not in names]
    complaints += [f"the rule `{rule.name}` changes no trace" for rule in RULES if rule.name not in used]
    for kind, table, has in (("option", OPTIONS, _with_option), ("operation", OPERATIONS, _with_operation)):
        complaints += [f"no scenario has the {kind} `{name}`" for name in table if not any(has(s, name) for s in scenarios)]
    return complaints


def _with_option(scenario: Scenario, name: str) -> bool:
    options = [scenario.data.get("options", {}), *(op.get("options", {}) for op in scenario.data["program"])]
    return any(name in given for given in options)


def _with_operation(scenario: Scenario, name: str) -> bool:
    return any(step["op"] == name for step in scenario.data["program"])


def write(courses: dict[str, dict[str, Any]], known: Declared, path: Path = DECLARED) -> None:
    """One line a trace line, so that a change shows as what it is."""
    left = ",\n".join(f"  {json.dumps(key)}: {json.dumps(why)}" for key, why in known.left_out.items())
    rows = []
    for name, course in sorted(courses.items()):
        lines = ",\n".join("    " + json.dumps(line, ensure_ascii=False, sort_keys=True) for line in course["expect"])
        rows.append(f'  {json.dumps(name)}: {{\n   "why": {json.dumps(course["why"])},\n   "expect": [\n{lines}\n   ]\n  }}')
    text = '{\n "left_out": {\n' + left + '\n },\n "courses": {\n' + ",\n".join(rows) + "\n }\n}\n"
    path.write_text(text, "utf-8")
