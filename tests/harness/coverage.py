"""The names that no scenario touches: events, error codes, options and operations whose loss no test would notice.

The names are read from the Python package's sources, which have them in one place; they are the same in the other
languages. The names of each language are compared in `names`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .names import Seen, described
from .scenario import OPS, Scenario
from .trace import Line

_PARTS = {
    "text": "TextPart",
    "think": "ThinkPart",
    "image_url": "ImageURLPart",
    "audio_url": "AudioURLPart",
    "video_url": "VideoURLPart",
    "resource": "ResourcePart",
}
# The options that every scenario has without naming them: from the runner, or from the staging of real cases.
_ALWAYS_USED = {"executable", "work_dir", "config_file", "env", "handshake_timeout"}


def events(package: Path) -> set[str]:
    """The members of the union of everything that comes out of a stream."""
    for node in ast.walk(_parsed(package / "_wire.py")):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "Event" for t in node.targets):
            return {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)} - {"Union"}
    raise LookupError("_wire.py declares no Event")


def error_codes(package: Path) -> set[str]:
    """The codes of the errors that programs can get. The code of the base class reports a defect."""
    return {
        str(node.value.value)
        for node in ast.walk(_parsed(package / "_errors.py"))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "code"
        and isinstance(node.value, ast.Constant)
    }


def options(package: Path) -> set[str]:
    classes = {
        node.name: node for node in ast.walk(_parsed(package / "_option_types.py")) if isinstance(node, ast.ClassDef)
    }
    if "SessionOptions" not in classes:
        raise LookupError("_option_types.py declares no SessionOptions")
    found: set[str] = set()
    names = ["SessionOptions"]
    while names:
        declared = classes[names.pop()]
        names += [base.id for base in declared.bases if isinstance(base, ast.Name) and base.id in classes]
        found |= {
            part.target.id
            for part in declared.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
    return found


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def seen(package: Path, scenarios: list[Scenario], traces: Iterable[list[Line]]) -> Seen:
    """The names in the scenarios and in the traces of this run."""
    known = events(package)
    lines = [line for trace in traces for line in trace]
    lines += [line for scenario in scenarios for line in scenario.expect or []]
    programs = [op for scenario in scenarios for op in scenario.data["program"]]
    used = [*(scenario.data.get("options", {}) for scenario in scenarios), *(op.get("options", {}) for op in programs)]
    return Seen(
        events={name for line in lines for name in _events_in(line, known)},
        codes={str(line["error"]) for line in lines if isinstance(line.get("error"), str)},
        options={name for options in used for name in options} | _ALWAYS_USED,
        ops={name for op in programs for name in _done_by(op)},
        described=described(scenarios),
        agent_options={name for op in programs if op["op"] == "open_agent" for name in op.get("options", {})}
        | {"executable"},
        call_options=_call_options(programs),
    )


def _call_options(programs: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The options that calls are given, by the type that has them. Those that nothing knows are there to be refused."""
    given: dict[str, set[str]] = {"PromptOptions": set(), "OneShotOptions": set(), "CloseOptions": set()}
    for op in programs:
        options = {"prompt": "PromptOptions", "one_shot": "OneShotOptions"}.get(op["op"])
        if options:
            given[options] |= op.get("prompt_options", {}).keys()
        if op["op"] in ("close", "close_agent") and "timeout" in op:
            given["CloseOptions"].add("timeout")
    return given


def _done_by(op: dict[str, Any]) -> Iterator[str]:
    """The kinds of operations, by the names that tables use."""
    yield op["op"]
    if op["op"] == "open" and "agent" in op:
        yield next((call for call in ("resume", "fork") if call in op), "open in an agent")


def untouched(package: Path, shown: Seen) -> list[str]:
    """The missing parts, as sentences."""
    return [
        f"no scenario {verb} {name}"
        for verb, names in (
            ("shows the event", events(package) - shown.events),
            ("fails with", error_codes(package) - shown.codes),
            ("sets the option", options(package) - shown.options),
            ("does the operation", OPS - shown.ops),
        )
        for name in sorted(names)
    ]


def _events_in(value: Any, known: set[str]) -> Iterator[str]:
    """The names of the classes that the events in a trace's line have, nested ones included."""
    if isinstance(value, list):
        for item in value:
            yield from _events_in(item, known)
    if not isinstance(value, dict):
        return
    kind = value.get("type")
    if isinstance(kind, str) and "payload" in value:
        payload = value["payload"]
        if "error" in value:
            # It could not be read.
            yield "UnknownEvent"
        elif kind == "ContentPart" and isinstance(payload, dict):
            yield _PARTS.get(str(payload.get("type")), "UnknownContentPart")
        else:
            yield kind if kind in known else "UnknownEvent"
    for item in value.values():
        yield from _events_in(item, known)
