"""Scenarios over the Agent Client Protocol: which are played, and what comes out otherwise than over Wire.

The scripted agent speaks ACP as Kimi Code does, and the same scenario has to give the same trace but for what is
declared here: `RULES` hold for every scenario, `acp.json` has the traces of those in which a turn takes another course,
and says why. What is declared but doesn't occur is a failure.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .scenario import BadScenario, Scenario
from .trace import Line, event_type

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
}


def _has_field(scenario: Scenario, name: str) -> bool:
    script = scenario.data["agent"]["script"]
    return isinstance(script, dict) and name in script


def _has_option(scenario: Scenario, name: str) -> bool:
    options = [scenario.data.get("options", {}), *(op.get("options", {}) for op in scenario.data["program"])]
    return any(name in given for given in options)


def _has_operation(scenario: Scenario, name: str) -> bool:
    return any(step["op"] == name for step in scenario.data["program"])


def _has_action(scenario: Scenario, name: str) -> bool:
    def within(value: Any) -> bool:
        if isinstance(value, dict):
            return name in value or any(within(item) for item in value.values())
        return isinstance(value, list) and any(within(item) for item in value)

    return within(scenario.data["agent"]["script"])


LACKING: tuple[tuple[str, dict[str, str], Callable[[Scenario, str], bool]], ...] = (
    ("field of a script", SCRIPT, _has_field),
    ("option", OPTIONS, _has_option),
    ("operation", OPERATIONS, _has_operation),
    ("action", ACTIONS, _has_action),
)
"""What scenarios over ACP can't have, by kind: the names with the reasons, and whether a scenario has one."""


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


def _request(line: Line, kind: str) -> dict[str, Any] | None:
    """The request of that kind that is in the line: an event, or what a handler is given."""
    if event_type(line) == kind:
        return _payload(line)
    handlers = {"ApprovalRequest": "approval", "QuestionRequest": "question"}
    return line.get("request") if line.get("handler") == handlers[kind] else None


def _asked(line: Line, request: dict[str, Any]) -> Line:
    """The line with this request in place of its own."""
    if "handler" in line:
        return {**line, "request": request}
    return {**line, "event": {**line["event"], "payload": request}}


def _diffs(blocks: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """What is left of what a tool shows."""
    kept = ("type", "path", "old_text", "new_text")
    return [{key: block[key] for key in kept} for block in blocks or [] if block.get("type") == "diff"]


def _marked(lines: list[Line]) -> list[Line]:
    return [_with(line, synthesized=True) if event_type(line) in ("TurnBegin", "TurnEnd") else line for line in lines]


def _one_step(lines: list[Line]) -> list[Line]:
    """The first of each turn, marked; a result tells one."""
    left: list[Line] = []
    begun = shown = False
    for line in lines:
        kind = event_type(line)
        if kind == "TurnBegin":
            begun = shown = False
        if set(line) == {"step"}:
            if not shown:
                left.append({"step": 1})
            shown = True
            continue
        if kind == "StepBegin":
            if not begun:
                left.append(_with(line, n=1, synthesized=True))
            begun = True
        else:
            left.append({**line, "steps": min(line["steps"], 1)} if "steps" in line and "op" in line else line)
    return left


def _status_outside(lines: list[Line]) -> list[Line]:
    """Of reports in a turn none is left; outside of one only the mode is told."""
    left: list[Line] = []
    running = False
    for line in lines:
        kind = event_type(line)
        if kind in ("TurnBegin", "TurnEnd"):
            running = kind == "TurnBegin"
        if kind != "StatusUpdate" or (not running and set(_payload(line)) == {"plan_mode"}):
            left.append(line)
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


def _results(lines: list[Line]) -> list[Line]:
    names: dict[str, str] = {}
    titles: dict[str, str] = {}
    told: list[Line] = []
    for line in lines:
        payload = _payload(line)
        kind = event_type(line)
        if kind == "ToolCall":
            name = names[payload["id"]] = payload["function"]["name"]
            titles[payload["id"]] = "Asking user questions" if name == "AskUserQuestion" else name
        if kind == "ApprovalRequest":
            titles[payload["tool_call_id"]] = payload["description"]
        if kind == "ToolResult" and payload.get("tool_call_id") in names:
            value = payload["return_value"]
            call = payload["tool_call_id"]
            display = _diffs(value.get("display"))
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
        request = _request(line, "ApprovalRequest")
        if request:
            name = names.get(request["tool_call_id"], request["sender"])
            fields = {
                "id": request["id"],
                "tool_call_id": request["tool_call_id"],
                "sender": name,
                "action": name,
                "description": f"Requesting approval to {request['description']}",
                "display": _diffs(request.get("display")),
                "options": _OPTIONS,
            }
            line = _asked(line, fields)
        told.append(line)
    return told


def _first_question(lines: list[Line]) -> list[Line]:
    told: list[Line] = []
    for line in lines:
        request = _request(line, "QuestionRequest")
        if request:
            first = {
                key: request["questions"][0][key]
                for key in ("question", "header", "options")
                if key in request["questions"][0]
            }
            line = _asked(line, {**request, "questions": [{**first, "multi_select": False}]})
        told.append(line)
    return told


def _repeated_ids(lines: list[Line]) -> list[Line]:
    """Of two calls in a turn that the model gives one id, the second gets another."""
    told: list[Line] = []
    seen: dict[str, int] = {}
    for line in lines:
        payload = _payload(line)
        kind = event_type(line)
        if kind == "TurnBegin":
            seen = {}
        if kind == "ToolCall":
            seen[payload["id"]] = seen.get(payload["id"], 0) + 1
        field = "id" if kind == "ToolCall" else "tool_call_id"
        count = (
            seen.get(payload.get(field), 1)
            if kind in ("ToolCall", "ToolResult", "ApprovalRequest", "QuestionRequest")
            else 1
        )
        told.append(_with(line, **{field: f"{payload[field]}__{count}"}) if count > 1 else line)
    return told


def _request_numbers(lines: list[Line]) -> list[Line]:
    """Requests have numbers, from 0 for each process."""
    told: list[Line] = []
    numbers: dict[str, str] = {}
    count = 0
    for line in lines:
        if line.get("op") in ("open", "one_shot"):
            numbers, count = {}, 0
        for kind in ("ApprovalRequest", "QuestionRequest"):
            request = _request(line, kind)
            if request:
                if request["id"] not in numbers:
                    numbers[request["id"]] = str(count)
                    count += 1
                line = _asked(line, {**request, "id": numbers[request["id"]]})
        if event_type(line) == "HandlerFailed" and _payload(line).get("request_id") in numbers:
            line = _with(line, request_id=numbers[_payload(line)["request_id"]])
        told.append(line)
    return told


_CAPABILITIES = {
    "approval_feedback": False, "external_tools": False, "hooks": [], "plan_mode": True, "questions": True,
    "replay": False, "steer": False,
}  # fmt: skip


def _handshake(lines: list[Line]) -> list[Line]:
    said = {"capabilities": _CAPABILITIES, "protocol_version": "acp-1"}
    return [{**line, **said} if line.get("op") == "info" and "capabilities" in line else line for line in lines]


def _session_names(lines: list[Line]) -> list[Line]:
    return [
        {**line, "id": f"session_{line['id']}"} if line.get("op") == "session" and "id" in line else line
        for line in lines
    ]


def _failed_without_end(lines: list[Line]) -> list[Line]:
    def fails(place: int) -> bool:
        return event_type(lines[place]) == "TurnEnd" and place + 1 < len(lines) and "rpc_code" in lines[place + 1]

    return [line for place, line in enumerate(lines) if not fails(place)]


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
    Rule("handshake", "the agent tells less of itself", _handshake),
    Rule("session ids", "the agent names a session", _session_names),
    Rule("repeated ids", "a call's id that there was in the turn already gets a number", _repeated_ids),
    Rule("results", "a tool's result is what the model gets; title and kind are in `extras`", _results),
    Rule(
        "permissions", "an approval's text is the agent's sentence, sender and action are the tool's name", _permissions
    ),
    Rule("questions", "the first question only, one choice", _first_question),
    Rule("request ids", "a request's id is a number of the agent's", _request_numbers),
    Rule("answers", "the agent doesn't tell that an approval was answered", _without("ApprovalResponse")),
    Rule("arguments", "a call's arguments come as parts", _arguments_in_parts),
    Rule("interruption", "it isn't told that a step was interrupted", _without("StepInterrupted")),
    Rule("failed turns", "a turn that fails has no `TurnEnd`", _failed_without_end),
    Rule("turns", "`TurnBegin` and `TurnEnd` are made by the SDK", _marked),
    Rule("steps", "one step a turn is made by the SDK", _one_step),
    Rule("tokens", "a turn's tokens are not told", _no_tokens),
    Rule("status", "what has changed about the session is told outside of turns", _status_outside),
)

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
    named = (f"`{name}`: {why}" for _, reasons, has in LACKING for name, why in reasons.items() if has(scenario, name))
    matched = (why for pattern, why in known.left_out.items() if re.fullmatch(pattern, scenario.name))
    return next(itertools.chain(named, matched), None)


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
    played = {scenario.name for scenario in scenarios if reason(scenario, known) is None}
    bare = Declared({}, known.courses)
    otherwise = {scenario.name for scenario in scenarios if reason(scenario, bare) is None}
    complaints = [
        f"{DECLARED.name}: `{pattern}` leaves out nothing"
        for pattern in known.left_out
        if not any(re.fullmatch(pattern, name) for name in otherwise)
    ]
    complaints += [f"{DECLARED.name}: {name} is not played" for name in known.courses if name not in played]
    complaints += [f"the rule `{rule.name}` changes no trace" for rule in RULES if rule.name not in used]
    for kind, reasons, has in LACKING:
        unmet = [name for name in reasons if not any(has(scenario, name) for scenario in scenarios)]
        complaints += [f"no scenario has the {kind} `{name}`" for name in unmet]
    return complaints


def rewrite(traces: dict[str, list[Line] | None], known: Declared) -> None:
    """Writes down anew the courses that are declared; why one is there is for a person to say."""
    courses = {
        name: {**course, "expect": traces.get(name) or course["expect"]} for name, course in known.courses.items()
    }
    write(courses, known)


def write(courses: dict[str, dict[str, Any]], known: Declared, path: Path = DECLARED) -> None:
    """One line a trace line, so that a change shows as what it is."""
    left = ",\n".join(f"  {json.dumps(key)}: {json.dumps(why)}" for key, why in known.left_out.items())
    rows = []
    for name, course in sorted(courses.items()):
        lines = ",\n".join("    " + json.dumps(line, ensure_ascii=False, sort_keys=True) for line in course["expect"])
        rows.append(
            f'  {json.dumps(name)}: {{\n   "why": {json.dumps(course["why"])},\n   "expect": [\n{lines}\n   ]\n  }}'
        )
    text = '{\n "left_out": {\n' + left + '\n },\n "courses": {\n' + ",\n".join(rows) + "\n }\n}\n"
    path.write_text(text, "utf-8")
