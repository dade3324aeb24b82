"""Scenarios over the API of Kimi Code's server, which the scripted agent speaks, too."""

from __future__ import annotations

import itertools
from pathlib import Path

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
    "place": "the server runs in no place",
    "hooks": "there are no hooks of the program",
    "tools": "there are no tools of the program",
}
"""Options that scenarios over the server can't have, and why."""

ACTIONS = {
    **OWN_ACTIONS,
    "external_tool": "there are no tools of the program",
    "hook": "there are no hooks of the program",
}

_CAPABILITIES = {
    "approval_feedback": True, "config_options": False, "external_tools": False, "files": False, "hooks": [],
    "policy": "approvals",
    "plan_mode": True, "questions": True, "replay": True, "steer": True, "terminals": False, "undo": True, "fork": True,
}  # fmt: skip

_TOKENS = ("input_other", "output", "input_cache_read", "input_cache_creation")


def _end_of_steps(lines: list[Line]) -> list[Line]:
    """A step ends with its tokens, all at once, or with an interruption."""
    told: list[Line] = []
    sums: dict[str, int] = {}
    running = False

    def end(interrupted: bool) -> None:
        steps = [told.pop() for _ in itertools.takewhile(lambda line: set(line) == {"step"}, reversed(told[:]))]
        if interrupted:
            told.append({"event": {"type": "StepInterrupted", "payload": {}}})
        elif running:
            usage = {name: sums.get(name, 0) for name in _TOKENS}
            told.append({"event": {"type": "StatusUpdate", "payload": {"token_usage": usage}}})
        told.extend(reversed(steps))

    for place, line in enumerate(lines):
        kind = event_type(line)
        if kind == "TurnBegin":
            # The end of the turn before was not read.
            running, sums = False, {}
        if kind in ("StepBegin", "SteerInput"):
            end(interrupted=False)
            running, sums = kind == "StepBegin", {}
        if kind == "TurnEnd":
            end(_is_cut_short(lines[place:], running))
            running, sums = False, {}
        if kind == "StepInterrupted":
            continue
        if kind == "StatusUpdate" and "token_usage" in payload(line):
            for name, tokens in payload(line)["token_usage"].items():
                sums[name] = sums.get(name, 0) + tokens
            rest = {name: value for name, value in payload(line).items() if name != "token_usage"}
            if not rest:
                continue
            line = {"event": {"type": "StatusUpdate", "payload": rest}}
        told.append(line)
    return told


def _is_cut_short(rest: list[Line], running: bool) -> bool:
    """Whether the turn that ends here was cancelled in a step, has run out of time, or has failed."""
    for line in itertools.takewhile(lambda line: event_type(line) != "TurnBegin", rest):
        if "rpc_code" in line:
            return True
        if line.get("error") == "timeout":
            return running
        if "status" in line and "op" in line and isinstance(line["status"], str):
            return running and line["status"] == "cancelled"
    return False


def _results(lines: list[Line]) -> list[Line]:
    """A result is what the model gets."""
    told: list[Line] = []
    for line in lines:
        if event_type(line) == "ToolResult":
            value = payload(line)["return_value"]
            output = value.get("output") or value.get("message", "")
            value = {"display": [], "is_error": value["is_error"], "message": "", "output": output}
            line = with_fields(line, return_value=value)
        told.append(line)
    return told


def _approvals(lines: list[Line]) -> list[Line]:
    """An approval shows what the agent says, one block at most, and belongs to the turn of the prompt."""
    told: list[Line] = []
    turns = 0
    for line in lines:
        if line.get("op") in ("open", "one_shot"):
            turns = 0
        if line.get("op") == "prompt" and line.get("ok"):
            turns += 1
        about = request(line, "ApprovalRequest")
        if about:
            display = [block for block in about.get("display", [])[:1] if block["type"] in ("shell", "diff")]
            actions = {"shell": "run command", "diff": "edit file"}
            fields = {
                "id": about["id"],
                "tool_call_id": about["tool_call_id"],
                "sender": about["sender"],
                "action": actions[display[0]["type"]] if display else about["description"],
                "description": about["description"],
                "display": display,
                "source_kind": "foreground_turn",
                "source_id": str(max(turns - 1, 0)),
            }
            line = asked(line, fields)
        told.append(line)
    return told


def _questions(lines: list[Line]) -> list[Line]:
    """Options have descriptions; the question has no text next to it."""
    told: list[Line] = []
    for line in lines:
        about = request(line, "QuestionRequest")
        if about:
            questions = [
                {
                    **{key: question[key] for key in ("question", "header") if question.get(key)},
                    "multi_select": question.get("multi_select") is True,
                    "options": [{"description": "", **option} for option in question["options"]],
                }
                for question in about["questions"]
            ]
            line = asked(line, {**about, "questions": questions})
        told.append(line)
    return told


RULES = (
    Rule("handshake", "the agent says of itself what it can", said_of_itself("kimi-web-2", _CAPABILITIES)),
    Rule("session ids", "the agent names a session", session_names),
    Rule("results", "a tool's result is what the model gets", _results),
    Rule("plans", "a to-do list is not shown", without("Plan")),
    Rule("arguments", "a call's arguments come as parts", arguments_in_parts),
    Rule(
        "repeated ids",
        "a call's id that there was in the session already gets a number",
        repeated_ids(lambda line: line.get("op") in ("open", "one_shot")),
    ),
    Rule("approvals", "an approval shows what the agent says of it", _approvals),
    Rule("questions", "options have descriptions, and questions nothing else", _questions),
    Rule("ends of steps", "a step's tokens are told when it ends, or that it was interrupted", _end_of_steps),
)

WEB = Over(
    title="Kimi Code's server",
    word="kimi-web",
    path=Path(__file__).with_name("web.json"),
    lacking={"field of a script": OWN_SCRIPT, "option": OPTIONS, "action": ACTIONS},
    rules=RULES,
)
