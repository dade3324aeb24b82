"""Programs whose agent sends updates of ACP with members that may be absent, null, strange or unknown.

The schema of ACP says what the members are, so new updates need no change here. `generated.rs` in the tests of the core
plays many more of them, and the requests and answers; here they pass through each language.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .choices import Choices
from .messages import ROOT, STRANGE, TEXTS, written
from .programs import Program

Json = dict[str, Any]

DEEPEST = 12


@functools.cache
def schema() -> Json:
    """The output of the core."""
    path = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/examples/acp_schema"
    done = subprocess.run([path], stdout=subprocess.PIPE, check=True)
    found: Json = json.loads(done.stdout)
    return found


def kinds() -> list[str]:
    """The kinds of updates."""
    return [update["properties"]["sessionUpdate"]["const"] for update in schema()["oneOf"]]


def make(choices: Choices) -> Program:
    """A session with up to three turns, each of up to six updates."""
    turns = [
        [{"raw": written(_update(choices))} for _ in range(choices.number(1, 6))] for _ in range(choices.number(1, 3))
    ]
    program: list[Json] = [{"op": "open"}]
    for number, actions in enumerate(turns):
        actions.append({"text": f"p{number}"})
        program += [{"op": "prompt", "input": f"{number}"}, {"op": "drain"}, {"op": "result"}]
    scenario: Json = {
        "name": "explored",
        "about": "Generated messages.",
        "agent": {"script": {"wire": "acp", "turns": turns}},
        "options": {"work_dir": "{dir}", "dialect": "acp", "on_event": "record"},
        "program": [*program, {"op": "close"}],
    }
    return Program(scenario, exact=True, labels={})


def _update(choices: Choices) -> Json:
    update = _value(choices, choices.pick(schema()["oneOf"]), 0)
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "{{session}}", "update": update}}


def _value(choices: Choices, given: Any, depth: int) -> Any:
    """A value that fits a schema in all that is required."""
    if not isinstance(given, dict):
        return choices.pick(STRANGE)
    if depth > DEEPEST:
        return None
    if "$ref" in given:
        referred = _value(choices, schema()["$defs"][given["$ref"].rpartition("/")[2]], depth + 1)
        # Members beside the reference, such as the kind of an update.
        beside = _object(choices, given, depth) if "properties" in given and isinstance(referred, dict) else {}
        return {**referred, **beside} if beside else referred
    if "const" in given:
        return given["const"]
    if "enum" in given:
        return choices.pick([*given["enum"], "novelty"])
    made = _object(choices, given, depth) if "properties" in given else None
    for name in ("allOf", "oneOf", "anyOf"):
        listed = given.get(name, [])
        for each in listed if name == "allOf" else [choices.pick(listed)] if listed else []:
            value = _value(choices, each, depth + 1)
            if not isinstance(value, dict):
                return value
            made = {**(made or {}), **value}
    if made is not None:
        return dict(reversed(made.items())) if choices.flag() else made
    kind = given.get("type")
    simple: Json = {
        "string": lambda: choices.pick(TEXTS),
        "integer": lambda: choices.number(0, 999),
        "number": lambda: choices.number(0, 999),
        "boolean": choices.flag,
        "array": lambda: [_value(choices, given.get("items"), depth + 1) for _ in range(choices.number(0, 2))],
        "object": dict,
        "null": lambda: None,
    }
    make_one = simple.get(kind[0] if isinstance(kind, list) else kind)
    return choices.pick(STRANGE) if make_one is None else make_one()


def _object(choices: Choices, given: Json, depth: int) -> Json:
    made: Json = {}
    for name, member in given["properties"].items():
        # The right value is the simplest choice.
        way = 0 if name in given.get("required", ()) else choices.number(0, 4)
        if way < 2:
            made[name] = _value(choices, member, depth + 1)
        elif way > 2:
            made[name] = choices.pick(STRANGE)
    if choices.one_in(3):
        made["x-novelty"] = choices.pick(STRANGE)
    return made
