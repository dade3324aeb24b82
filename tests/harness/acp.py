"""Scenarios over the Agent Client Protocol, which the scripted agent speaks as Kimi Code does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .over import (
    OWN_ACTIONS,
    OWN_OPTIONS,
    OWN_SCRIPT,
    Over,
    Rule,
    arguments_in_parts,
    asked,
    payload,
    repeated_ids,
    request,
    said_of_itself,
    session_names,
    with_fields,
    without,
)
from .trace import Line, event_type

OPTIONS = {
    **OWN_OPTIONS,
    "max_steps_per_turn": "only Kimi Code takes it there",
    "max_retries_per_step": "only Kimi Code takes it there",
    "hooks": "there are no hooks",
    "tools": "they need a client for MCP, which the scripted agent has not",
}
"""Options that scenarios over ACP can't have, and why."""

OPERATIONS = {"steer": "there is no steer", "replay": "there is no replay"}

ACTIONS = {
    **OWN_ACTIONS,
    "external_tool": "the program's tools need a client for MCP, which the scripted agent has not",
    "hook": "there are no hooks",
    "wait_steer": "there is no steer",
}


def _diffs(blocks: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """The part of a tool's display that ACP keeps."""
    kept = ("type", "path", "old_text", "new_text")
    return [{key: block[key] for key in kept} for block in blocks or [] if block.get("type") == "diff"]


def _marked(lines: list[Line]) -> list[Line]:
    return [
        with_fields(line, synthesized=True) if event_type(line) in ("TurnBegin", "TurnEnd") else line for line in lines
    ]


def _one_step(lines: list[Line]) -> list[Line]:
    """The first of each prompt, marked; a result has one, and one for each prompt that asks for the output again."""
    left: list[Line] = []
    begun = shown = False
    steps = 1
    for line in lines:
        kind = event_type(line)
        if kind == "TurnBegin":
            begun = shown = False
            steps = 1
        if kind == "SteerInput":
            begun = False
            steps += 1
        if set(line) == {"step"}:
            if not shown:
                left.append({"step": 1})
            shown = True
            continue
        if kind == "StepBegin":
            if not begun:
                left.append(with_fields(line, n=steps, synthesized=True))
            begun = True
        else:
            left.append({**line, "steps": min(line["steps"], steps)} if "steps" in line and "op" in line else line)
    return left


def _status_outside(lines: list[Line]) -> list[Line]:
    """Removes all reports in a turn; outside of turns only the mode is kept."""
    left: list[Line] = []
    running = False
    for line in lines:
        kind = event_type(line)
        if kind in ("TurnBegin", "TurnEnd"):
            running = kind == "TurnBegin"
        if kind != "StatusUpdate" or (not running and set(payload(line)) == {"plan_mode"}):
            left.append(line)
    return left


_KINDS = {
    "Shell": "execute", "WriteFile": "edit", "StrReplaceFile": "edit", "ReadFile": "read", "Glob": "search",
    "Grep": "search", "FetchURL": "fetch",
}  # fmt: skip


def _results(lines: list[Line]) -> list[Line]:
    names: dict[str, str] = {}
    titles: dict[str, str] = {}
    told: list[Line] = []
    for line in lines:
        said = payload(line)
        kind = event_type(line)
        if kind == "ToolCall":
            name = names[said["id"]] = said["function"]["name"]
            titles[said["id"]] = "Asking user questions" if name == "AskUserQuestion" else name
        if kind == "ApprovalRequest":
            titles[said["tool_call_id"]] = said["description"]
        if kind == "ToolResult" and said.get("tool_call_id") in names:
            value = said["return_value"]
            call = said["tool_call_id"]
            display = _diffs(value.get("display"))
            extras = {"kind": _KINDS.get(names[call], "other"), "title": titles[call]}
            output = value.get("output") or value.get("message", "")
            line = with_fields(
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
        said = payload(line)
        if event_type(line) == "ToolCall":
            names[said["id"]] = said["function"]["name"]
        about = request(line, "ApprovalRequest")
        if about:
            name = names.get(about["tool_call_id"], about["sender"])
            fields = {
                "id": about["id"],
                "tool_call_id": about["tool_call_id"],
                "sender": name,
                "action": name,
                "description": f"Requesting approval to {about['description']}",
                "display": _diffs(about.get("display")),
                "options": _OPTIONS,
            }
            line = asked(line, fields)
        told.append(line)
    return told


def _form(lines: list[Line]) -> list[Line]:
    """Of a question a form has text, header and options, and always whether several may be chosen."""
    told: list[Line] = []
    for line in lines:
        about = request(line, "QuestionRequest")
        if about:
            kept = ("question", "header", "options")
            questions = [
                {**{key: one[key] for key in kept if key in one}, "multi_select": one.get("multi_select", False)}
                for one in about["questions"]
            ]
            line = asked(line, {**about, "questions": questions})
        told.append(line)
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
            about = request(line, kind)
            if about:
                if about["id"] not in numbers:
                    numbers[about["id"]] = str(count)
                    count += 1
                line = asked(line, {**about, "id": numbers[about["id"]]})
        if event_type(line) == "HandlerFailed" and payload(line).get("request_id") in numbers:
            line = with_fields(line, request_id=numbers[payload(line)["request_id"]])
        told.append(line)
    return told


_CAPABILITIES = {
    "approval_feedback": False, "config_options": True, "external_tools": False, "files": True, "hooks": [],
    "policy": "approvals",
    "plan_mode": True,
    "questions": True, "replay": False, "steer": False, "terminals": True, "undo": False, "fork": True,
}  # fmt: skip


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


def _plans(lines: list[Line]) -> list[Line]:
    """An entry of a plan that a to-do list became has an importance."""

    def ranked(line: Line) -> Line:
        entries = payload(line)["entries"]
        return with_fields(line, entries=[{"priority": "medium", **entry} for entry in entries])

    return [ranked(line) if event_type(line) == "Plan" else line for line in lines]


RULES = (
    Rule("handshake", "the agent tells less of itself", said_of_itself("acp-1", _CAPABILITIES)),
    Rule("session ids", "the agent names a session", session_names),
    Rule(
        "repeated ids",
        "a call's id that there was in the turn already gets a number",
        repeated_ids(lambda line: event_type(line) == "TurnBegin"),
    ),
    Rule("results", "a tool's result is what the model gets; title and kind are in `extras`", _results),
    Rule(
        "permissions", "an approval's text is the agent's sentence, sender and action are the tool's name", _permissions
    ),
    Rule("questions", "questions come as a form", _form),
    Rule("request ids", "a request's id is a number of the agent's", _request_numbers),
    Rule("answers", "the agent doesn't tell that an approval was answered", without("ApprovalResponse")),
    Rule("plans", "the entries of a plan have an importance", _plans),
    Rule("arguments", "a call's arguments come as parts", arguments_in_parts),
    Rule("interruption", "it isn't told that a step was interrupted", without("StepInterrupted")),
    Rule("failed turns", "a turn that fails has no `TurnEnd`", _failed_without_end),
    Rule("turns", "`TurnBegin` and `TurnEnd` are made by the SDK", _marked),
    Rule("steps", "one step a turn is made by the SDK", _one_step),
    Rule("tokens", "a turn's tokens are not told", _no_tokens),
    Rule("status", "what has changed about the session is told outside of turns", _status_outside),
)

ACP = Over(
    title="ACP",
    word="acp",
    path=Path(__file__).with_name("acp.json"),
    lacking={"field of a script": OWN_SCRIPT, "option": OPTIONS, "operation": OPERATIONS, "action": ACTIONS},
    rules=RULES,
)
