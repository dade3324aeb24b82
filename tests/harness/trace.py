"""Traces: making them comparable, and comparing them.

A trace is a list of JSON objects, one a line of a runner's output.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "telemetry"))

from trees import comparable

Line = dict[str, Any]

_UUID = re.compile(r"(?:\b|(?<=session_))[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_HEX = re.compile(r"[0-9a-f]{12,64}")
# A bare run of hex digits is an id only where an id is expected: elsewhere it may be anybody's text.
_ID_KEYS = frozenset({"id", "request_id", "source_id", "agent_id", "session_id", "tool_call_id"})
_CLOCK_KEYS = frozenset({"duration_ms", "durationMs", "created_at", "wait_s"})
# Private files are in a directory with a name of its own. A path is only looked for where one begins: texts are long.
_PRIVATE = re.compile(r"(?<![^\s\"'=])[^\s\"'=]*[/\\]kimi-agent-\w+(?=[/\\])")
_PLAN_FILE = re.compile(r"(/plans/)[a-z0-9-]+(\.md)")

# Reports that a real agent may send at any moment between others.
INCIDENTAL = frozenset({"StatusUpdate", "MCPLoadingBegin", "MCPLoadingEnd", "Notification"})
# These two travel through different queues of a real agent, and either may come first.
_RACING = frozenset({"ApprovalResponse", "ToolResult"})

# Operations that wait for nothing.
_AT_ONCE = frozenset({"prompt", "touch", "spawn_result"})


def compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def telemetry(lines: Iterable[Line]) -> list[Line]:
    """The spans of the sessions as trees, a line each, and their metrics, after what a runner could not do.

    Texts of errors differ between languages.
    """
    lines = list(lines)
    broken = [line for line in lines if str(line.get("error")).startswith("runner_")]
    recorded = [comparable(line["recorded"]) for line in lines if "recorded" in line]
    return broken + [item for one in recorded for item in [*map(_without_message, one["spans"]), *one["metrics"]]]


def _without_message(span: Line) -> Line:
    children = [_without_message(child) for child in span["children"]]
    return {name: value for name, value in {**span, "children": children}.items() if name != "message"}


def normalise(lines: Iterable[Line], directory: str) -> list[Line]:
    """The trace without what differs between two equal runs: the case's directory, ids, times."""
    known: dict[str, str] = {}

    def named(found: str) -> str:
        return known.setdefault(found, f"<id{len(known) + 1}>")

    def clean(value: Any, key: str | None) -> Any:
        if isinstance(value, str):
            if key in _ID_KEYS and _HEX.fullmatch(value):
                return named(value)
            text = value.replace(directory, "{dir}")
            text = _UUID.sub(lambda found: named(found.group()), text)
            text = _PRIVATE.sub("<private>", text)
            return _PLAN_FILE.sub(r"\1<plan>\2", text)
        if key in _CLOCK_KEYS and isinstance(value, (int, float)) and not isinstance(value, bool):
            return 0
        if isinstance(value, dict):
            # In the order of the keys, so that numbering doesn't depend on how a runner sorts.
            return {name: clean(value[name], name) for name in sorted(value)}
        if isinstance(value, list):
            return [clean(item, key) for item in value]
        return value

    return _handlers_after([clean(line, None) for line in lines])


def _handlers_after(lines: list[Line]) -> list[Line]:
    """Handlers run concurrently: a handler may be called before the operation that caused it reports its end."""
    settled: list[Line] = []
    for line in lines:
        place = len(settled)
        if line.get("op") in _AT_ONCE:
            while place and "handler" in settled[place - 1]:
                place -= 1
        settled.insert(place, line)
    return settled


def event_type(line: Line) -> str | None:
    event = line.get("event")
    return event.get("type") if isinstance(event, dict) else None


def _type_name(line: Line) -> str:
    return event_type(line) or ""


def simplify(lines: Iterable[Line], keep: frozenset[str] = frozenset()) -> list[Line]:
    """A real agent's trace without what depends on its timing: parts are merged, incidental reports left out."""
    simple: list[Line] = []
    for line in lines:
        if event_type(line) in INCIDENTAL - keep:
            continue
        if simple and _merge(simple[-1], line):
            continue
        simple.append(json.loads(json.dumps(line)))
    return _settled(simple)


def _merge(last: Line, line: Line) -> bool:
    """Adds the line to the one before it, where both are pieces of one thing."""
    kinds = (event_type(last), event_type(line))
    if kinds == ("ContentPart", "ContentPart"):
        before, after = last["event"]["payload"], line["event"]["payload"]
        kind = before.get("type")
        if kind in ("text", "think") and kind == after.get("type") and before.keys() == after.keys():
            before[kind] += after[kind]
            return True
    if kinds == ("ToolCall", "ToolCallPart"):
        function = last["event"]["payload"]["function"]
        part = line["event"]["payload"].get("arguments_part") or ""
        function["arguments"] = (function.get("arguments") or "") + part
        return True
    return False


def _settled(lines: list[Line]) -> list[Line]:
    """Neighbours that race each other, in a fixed order."""
    settled: list[Line] = []
    group: list[Line] = []
    for line in lines:
        if event_type(line) in _RACING:
            group.append(line)
            continue
        settled += sorted(group, key=_type_name)
        group = []
        settled.append(line)
    return settled + sorted(group, key=_type_name)


def fits(pattern: Any, value: Any) -> bool:
    """Whether the value has everything that the pattern names. A string `~…` is a regular expression."""
    if isinstance(pattern, str) and pattern.startswith("~"):
        text = value if isinstance(value, str) else compact(value)
        return re.search(pattern[1:], text, re.DOTALL) is not None
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(key in value and fits(part, value[key]) for key, part in pattern.items())
    if isinstance(pattern, list):
        return isinstance(value, list) and len(pattern) == len(value) and all(map(fits, pattern, value))
    return type(pattern) is type(value) and bool(pattern == value)


def unmet(patterns: list[Line], lines: list[Line]) -> str | None:
    """The reason why the patterns do not occur in the trace in their order; nothing if they do.

    `{"never": pattern}` must not occur between its neighbours' places.
    """
    position = 0
    forbidden: list[Line] = []

    def trespass(end: int) -> str | None:
        for line in lines[position:end]:
            for pattern in forbidden:
                if fits(pattern, line):
                    return f"never expected {compact(pattern)}\n         but there is {compact(line)}"
        return None

    for number, pattern in enumerate(patterns, 1):
        if set(pattern) == {"never"}:
            forbidden.append(pattern["never"])
            continue
        place = next((at for at in range(position, len(lines)) if fits(pattern, lines[at])), None)
        if place is None:
            nearest = _nearest(pattern, lines[position:])
            hint = f"\n  the nearest is {compact(nearest)}" if nearest else ""
            return f"no. {number} is missing from line {position + 1} on: {compact(pattern)}{hint}"
        wrong = trespass(place)
        if wrong:
            return wrong
        position, forbidden = place + 1, []
    return trespass(len(lines))


def _nearest(pattern: Line, lines: list[Line]) -> Line | None:
    wanted = compact(pattern)

    def likeness(line: Line) -> float:
        return difflib.SequenceMatcher(None, wanted, compact(line), autojunk=False).quick_ratio()

    return max(lines, key=likeness, default=None)


def difference(before: list[Line], after: list[Line], names: tuple[str, str]) -> str | None:
    """A diff of two traces, line by line; nothing if they are equal."""
    if before == after:
        return None
    rows = difflib.unified_diff(
        [compact(line) for line in before],
        [compact(line) for line in after],
        *names,
        lineterm="",
        n=2,
    )
    return "\n".join(rows)
