"""Programs whose agent sends messages of Wire with members that may be absent, null, strange or unknown.

The catalogue of the core says what the members are, so new messages need no change here. `generated.rs` in the tests of
the core plays many more of these messages; here they pass through each language. `acp_messages.py` makes those of ACP.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .choices import Choices
from .programs import Program

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent.parent
DEEPEST = 4
TEXTS = ("a", "", "/a/b", "\x01\t", "\u2028", "ü🚀", '{"a":1}')
STRANGE: tuple[Any, ...] = (None, 5, -1.5, True, "novelty", "\uf8ff", [], [{}], {}, {"type": "novelty"})
"""Values of a wrong type, most likely. One stands for half of a character, which `written` writes."""
ONCE = ("TurnBegin", "TurnEnd")
"""Events that the scripted agent sends. A turn has one of each."""


@functools.cache
def catalog() -> Json:
    """The output of the core."""
    path = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/examples/wire_catalog"
    done = subprocess.run([path], stdout=subprocess.PIPE, check=True)
    found: Json = json.loads(done.stdout)
    return found | {"messages": {message["name"]: message for message in found["messages"]}}


def make(choices: Choices) -> Program:
    """A session with up to three turns, each of up to six messages."""
    turns = [
        [{"raw": written(_event(choices))} for _ in range(choices.number(1, 6))] for _ in range(choices.number(1, 3))
    ]
    program: list[Json] = [{"op": "open"}]
    for number, actions in enumerate(turns):
        actions.append({"text": f"p{number}"})
        program += [{"op": "prompt", "input": f"{number}"}, {"op": "drain"}, {"op": "result"}]
    scenario: Json = {
        "name": "explored",
        "about": "Generated messages.",
        "agent": {"script": {"wire": "1.10", "turns": turns}},
        "options": {"work_dir": "{dir}", "on_event": "record"},
        "program": [*program, {"op": "close"}],
    }
    return Program(scenario, exact=True, labels={})


def written(message: Json) -> str:
    """A line as an agent may write it: with escapes, and half of a pair of them."""
    return json.dumps(message, ensure_ascii=False).replace("\uf8ff", "\\ud83d").replace("🚀", "\\ud83d\\ude80")


def _event(choices: Choices) -> Json:
    kind, payload = _payload(choices, 0)
    return {"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}}


def _payload(choices: Choices, depth: int) -> tuple[str, Any]:
    kind = choices.pick([event for event in catalog()["events"] if event not in ONCE])
    return kind, _of(choices, kind, depth)


def _of(choices: Choices, name: str, depth: int) -> Any:
    """A value of a type that the catalogue names."""
    if name == "Content":
        parts = [_of(choices, "ContentPart", depth + 1) for _ in range(choices.number(0, 2))]
        return parts if parts and depth < DEEPEST else choices.pick(TEXTS)
    if name in ("ContentPart", "DisplayBlock"):
        members = catalog()["content_parts" if name == "ContentPart" else "display_blocks"]
        return _of(choices, choices.pick(members), depth)
    if name == "Event":
        if depth > DEEPEST:
            return {"type": "Novelty", "payload": {"text": choices.pick(TEXTS)}}
        kind, payload = _payload(choices, depth + 1)
        return {"type": kind, "payload": payload}
    message = catalog()["messages"][name]
    made = [("type", message["tag"])] if message["tag"] else []
    for field in message["fields"]:
        # The right value is the simplest choice.
        way = 0 if field["required"] else choices.number(0, 4)
        if way < 2:
            made.append((field["name"], _value(choices, field["type"], depth)))
        elif way > 2:
            made.append((field["name"], choices.pick(STRANGE)))
    if choices.one_in(3):
        made.append(("x-novelty", choices.pick(STRANGE)))
    return dict(reversed(made) if choices.flag() else made)


def _value(choices: Choices, kind: Json, depth: int) -> Any:
    of: Any = kind.get("of")
    if kind["kind"] == "ref":
        return _of(choices, of, depth + 1)
    if kind["kind"] == "optional":
        return _value(choices, of, depth)
    if kind["kind"] == "list":
        return [_value(choices, of, depth + 1) for _ in range(choices.number(0, 2))]
    if kind["kind"] == "words":
        return choices.pick([*of, "novelty"])
    simple: dict[str, Any] = {
        "int": lambda: choices.number(0, 999),
        "float": lambda: choices.pick((0.5, 3, 1e300)),
        "bool": choices.flag,
        "json": lambda: choices.pick(STRANGE),
        "object": lambda: {"member": choices.pick(STRANGE)},
        "string": lambda: choices.pick(TEXTS),
    }
    return simple[kind["kind"]]()
