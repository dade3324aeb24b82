"""Scenario files: reads and checks them, expands their tables, prepares runs, and writes new expectations back."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

LANGUAGES = ("rust", "python", "python-sync", "node")
"""The Python package has two APIs; the blocking one counts as a language."""

REAL_LANGUAGES = ("rust", "python", "node")
"""The default cases of real agents."""

_KEYS = {
    "name", "about", "agent", "options", "program", "expect", "keep", "unordered", "skip", "trace_handlers",
    "needs", "before", "kimi_code", "kimi_web", "agents",
}  # fmt: skip
_KIMI_KEYS = {"model", "config", "files", "mcp"}
_BEFORE_KEYS = {"release", "why", "model", "expect", "program"}
_KIMI_CODE_KEYS = {"why", "refused", "lacking", "model", "config", "files", "expect", "program", "options", "before"}
_AGENTS_KEYS = {
    "why", "refused", "lacking", "without", "absent", "model", "files", "mcp", "expect", "program", "options",
}  # fmt: skip
_NOT_FOR_RUNNERS = {"expect", "keep", "skip", "unordered", "needs", "before", "kimi_code", "kimi_web", "agents"}
OPS = {
    "rename_session", "archive_session", "unarchive_session",
    "open_agent", "list_sessions", "delete_session", "close_agent", "open", "prompt", "next", "drain", "steps",
    "result", "raise_for_status", "cancel", "cancel_subagent", "steer", "respond", "set_plan_mode", "set_config_option",
    "config_options",
    "undo", "replay", "usage", "state", "info", "wait_closed",
    "session", "turn", "leave", "one_shot", "close", "touch", "read", "exists", "wait_outside", "spawn_result",
    "spawn_drain", "join", "result_and_drain", "two_loops", "text_stream", "cancel_session",
}  # fmt: skip


class BadScenario(Exception):
    """A scenario file that isn't one."""


@dataclass(frozen=True)
class Scenario:
    path: Path
    data: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.data["name"])

    @property
    def about(self) -> str:
        return str(self.data["about"])

    @property
    def real(self) -> bool:
        return "kimi" in self.data["agent"]

    @property
    def kimi(self) -> dict[str, Any]:
        """The needs of a real case's agent; empty for a scripted one."""
        return dict(self.data["agent"].get("kimi", {}))

    @property
    def expect(self) -> list[Any] | None:
        return self.data.get("expect")

    @property
    def keep(self) -> frozenset[str]:
        return frozenset(self.data.get("keep", []))

    @property
    def unordered(self) -> bool:
        return bool(self.data.get("unordered", False))

    def skipped(self, language: str) -> str | None:
        """Why this isn't run, if the file says so."""
        declared = self.data.get("skip", {})
        if language in declared:
            return str(declared[language])
        return None

    def skipping(self, reasons: Mapping[str, str]) -> Scenario:
        """With reasons not to run this, by language, added to its own."""
        return replace(self, data={**self.data, "skip": {**self.data.get("skip", {}), **reasons}})

    @property
    def needs(self) -> frozenset[str]:
        """Features that a real agent must have."""
        return frozenset(self.data.get("needs", []))

    def with_options(self, options: dict[str, Any]) -> Scenario:
        """With options of its own over these."""
        return replace(self, data={**self.data, "options": {**options, **self.data.get("options", {})}})

    def before(self, version: str) -> Scenario:
        """As it is for releases before one: the first entry of `before` that this release is older than."""
        for entry in self.data.get("before", []):
            if numbers(version) < numbers(entry["release"]):
                data = {**self.data, **{key: entry[key] for key in ("expect", "program") if key in entry}}
                if "model" in entry:
                    data["agent"] = {"kimi": {**self.kimi, "model": entry["model"]}}
                return replace(self, data=data)
        return self


def numbers(version: str) -> tuple[int, ...]:
    """Of `1.5`, or of `kimi-code-2.1.0`."""
    return tuple(int(part) for part in version.rpartition("-")[2].split("."))


def load(path: Path) -> list[Scenario]:
    """Reads the scenario in a file, or the scenarios of its table."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise BadScenario(f"{path}: {error}") from None
    complaint = _table_complaint(data)
    scenarios = [] if complaint else [Scenario(path, one) for one in expanded(data)]
    for scenario in scenarios:
        complaint = complaint or _complaint(scenario.data)
    if complaint:
        raise BadScenario(f"{path}: {complaint}")
    return scenarios


def expanded(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the scenarios in a file's object: the object itself, or one for each row of `cases`."""
    if "cases" not in data:
        return [data]
    scenarios = []
    for values in _rows(data):
        own = {key: values[key] for key in values if key in _KEYS}
        common = {key: value for key, value in data.items() if key != "cases"}
        scenarios.append({**fill({**common, **own}, values), "name": f"{data['name']}/{values['case']}"})
    return scenarios


def _rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a table with all their values.

    A row that leaves a value out has the value of the row above. A value may have placeholders of the values before it.
    """
    rows: list[dict[str, Any]] = []
    written: dict[str, Any] = {}
    for row in data["cases"]:
        written = {**written, **row}
        values: dict[str, Any] = {}
        for key, value in written.items():
            values[key] = fill(value, values)
        rows.append(values)
    return rows


def _table_complaint(data: Any) -> str | None:
    """Says what is wrong with the table, if anything is."""
    if not isinstance(data, dict) or "cases" not in data:
        return None
    rows = data["cases"]
    if not (isinstance(rows, list) and len(rows) > 1 and all(isinstance(row, dict) for row in rows)):
        return "'cases' must be a list of two or more objects"
    names = [row.get("case") for row in rows]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        return "each row of 'cases' must have a 'case' of its own, its name"
    unknown = {key for row in rows for key in row} - rows[0].keys() - _KEYS
    if unknown:
        return f"the first row of 'cases' has no {sorted(unknown)[0]!r}, which a later row has"
    text = json.dumps(data)
    for key in sorted(rows[0].keys() - _KEYS - {"case"}):
        if f"{{{key}}}" not in text and f"{{...{key}}}" not in text:
            return f"nothing has the placeholder of {key!r}, which 'cases' gives a value"
    return None


def load_all(folder: Path, only: Iterable[str] = ()) -> list[Scenario]:
    """The folder's scenarios by name; `only` keeps those whose name contains one of its words."""
    words = list(only)
    scenarios = [scenario for path in sorted(folder.glob("*.json")) for scenario in load(path)]
    names = [scenario.name for scenario in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise BadScenario(f"{folder}: two scenarios are called {name}")
    return [s for s in scenarios if not words or any(word in s.name for word in words)]


def _complaint(data: Any) -> str | None:
    if not isinstance(data, dict):
        return "a scenario is an object"
    unknown = set(data) - _KEYS
    if unknown:
        return f"unknown key {sorted(unknown)[0]!r}"
    for key, kind in (("name", str), ("about", str), ("agent", dict), ("program", list)):
        if not isinstance(data.get(key), kind):
            return f"{key!r} must be there, a {kind.__name__}"
    agent = data["agent"]
    if len(agent) != 1 or not set(agent) <= {"script", "kimi"}:
        return "'agent' holds either 'script' or 'kimi'"
    if "kimi" in agent:
        unknown = set(agent["kimi"]) - _KIMI_KEYS
        if unknown:
            return f"unknown key {sorted(unknown)[0]!r} in 'agent.kimi'"
        if not data.get("expect"):
            return "a real case needs 'expect'"
    elif {"needs", "before", "kimi_code", "kimi_web", "agents"} & set(data):
        return "'needs', 'before', 'kimi_code', 'kimi_web' and 'agents' are for real cases"
    for name in ("kimi_code", "kimi_web"):
        own = data.get(name, {"why": ""})
        if not (isinstance(own, dict) and "why" in own and set(own) <= _KIMI_CODE_KEYS):
            return f"'{name}' has 'why' and what is otherwise with it: {json.dumps(own)}"
    for name, other in data.get("agents", {}).items():
        if not {"why"} <= set(other) <= _AGENTS_KEYS:
            return f"{name} in 'agents' has 'why' and what differs with it: {sorted(other)}"
    for entry in data.get("before", []):
        if not {"release", "why"} <= set(entry) <= _BEFORE_KEYS:
            return f"an entry of 'before' has 'release', 'why' and what differs: {sorted(entry)}"
    for number, op in enumerate(data["program"]):
        if not isinstance(op, dict) or op.get("op") not in OPS:
            return f"step {number} of the program has no known 'op': {json.dumps(op)}"
    for language, reason in data.get("skip", {}).items():
        if language not in LANGUAGES:
            return f"'skip' names {language!r}, which is no language"
        if not (isinstance(reason, str) and reason):
            return f"'skip' says no reason for {language}"
    return None


# Two braces are the scripted agent's own: `{{prompt}}`.
_PLACEHOLDER = re.compile(r"(?<!\{)\{(\w+)\}")
_SPREAD = re.compile(r"\{\.\.\.(\w+)\}")


def fill(value: Any, values: Mapping[str, Any]) -> Any:
    """Returns the value with its placeholders replaced.

    A string `{name}` becomes the value of that name; in a longer string it becomes the value's text. An item
    `{...name}` of a list becomes the items of the value, which is a list. Unknown names stay as they are.
    """
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole and whole[1] in values:
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda found: _text(values.get(found[1], found[0])), value)
    if isinstance(value, dict):
        return {fill(key, values): fill(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [line for item in value for line in _filled_item(item, values)]
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _filled_item(item: Any, values: Mapping[str, Any]) -> list[Any]:
    spread = _SPREAD.fullmatch(item) if isinstance(item, str) else None
    return list(values[spread[1]]) if spread and spread[1] in values else [fill(item, values)]


def prepared(scenario: Scenario, names: dict[str, str]) -> dict[str, Any]:
    """The case as a runner gets it: placeholders filled in, what only the orchestrator needs left out."""
    data = {key: value for key, value in scenario.data.items() if key not in _NOT_FOR_RUNNERS}
    return dict(fill(data, names))


Place = tuple[str | int, ...]
"""The keys, and the numbers of items, that lead to a value in a file."""


def updated(text: str, traces: Mapping[str, list[Any]]) -> tuple[str, list[str]]:
    """Returns a file's text with these traces of its cases in `expect`, and the names of the cases that do not fit.

    A placeholder in `expect` stays if it gives what is in the trace. If cases that share an `expect` then still differ,
    that `expect` stays as it was: somebody has to add a value to the table that tells the cases apart.
    """
    data = json.loads(text)
    unfit: list[str] = []
    for place, cases in _expectations(data).items():
        old: Any = data
        for key in place:
            old = old.get(key) if isinstance(old, dict) else old[key]
        new = old
        played = [(name, values) for name, values in cases if name in traces]
        for name, values in played:
            new = _fitted(new, values, traces[name])
        if any(fill(new, values) != traces[name] for name, values in played):
            unfit += [name for name, values in played if fill(old, values) != traces[name]]
        elif new != old:
            text = _with_value(text, place, new)
    return text, unfit


def _expectations(data: dict[str, Any]) -> dict[Place, list[tuple[str, dict[str, Any]]]]:
    """Returns the places of all `expect` in a file, each with the names and the values of its cases."""
    place: Place = ("expect",)
    if "cases" not in data:
        return {place: [(str(data["name"]), {})]}
    places: dict[Place, list[tuple[str, dict[str, Any]]]] = {}
    for number, values in enumerate(_rows(data)):
        if "expect" in data["cases"][number]:
            place = ("cases", number, "expect")
        places.setdefault(place, []).append((f"{data['name']}/{values['case']}", values))
    return places


def _fitted(template: Any, values: Mapping[str, Any], wanted: Any) -> Any:
    """Changes the template as little as possible, so that it gives the wanted value with these values."""
    if template is not None and fill(template, values) == wanted:
        return template
    if isinstance(template, dict) and isinstance(wanted, dict):
        return {key: _fitted(template.get(key), values, value) for key, value in wanted.items()}
    if isinstance(template, list) and isinstance(wanted, list):
        return _fitted_list(template, values, wanted)
    if isinstance(template, str) and isinstance(wanted, str):
        for name in _PLACEHOLDER.findall(template):
            if values.get(name):
                wanted = wanted.replace(_text(values[name]), "{" + name + "}")
    return wanted


def _fitted_list(template: list[Any], values: Mapping[str, Any], wanted: list[Any]) -> list[Any]:
    """Does the same for lists, whose lines are paired by subject. A spread stays if all its lines are wanted."""
    runs = [_filled_item(item, values) for item in template]
    lines = [(number, place, line) for number, run in enumerate(runs) for place, line in enumerate(run)]
    subjects = [_subject(line) for _, _, line in lines], [_subject(line) for line in wanted]
    fitted = [[] if run else [item] for item, run in zip(template, runs)]
    added: list[Any] = []
    last = added
    for kind, start, end, first, stop in difflib.SequenceMatcher(None, *subjects, autojunk=False).get_opcodes():
        if kind != "equal":
            last += wanted[first:stop]
            continue
        for (number, place, _), position in zip(lines[start:end], range(first, stop)):
            item, run, last = template[number], runs[number], fitted[number]
            if run == wanted[max(0, position - place) :][: len(run)]:
                last += [item] if place == 0 else []
            else:
                last.append(_fitted(item, values, wanted[position]) if len(run) == 1 else wanted[position])
    return added + [item for items in fitted for item in items]


def _subject(line: Any) -> str:
    """Returns the operation, or the type of the event, in a line of a trace."""
    event = line.get("event") if isinstance(line, dict) else None
    return json.dumps([line.get("op"), event and event.get("type")] if isinstance(line, dict) else line)


def _with_value(text: str, place: Place, lines: list[Any]) -> str:
    """Returns the text with a list in that place, one line for each item; the rest stays as it was written."""
    span = _span_of(text, place)
    indent = "  " * len(place)
    rows = ",\n".join(f"{indent}  " + json.dumps(line, ensure_ascii=False, sort_keys=True) for line in lines)
    written = f"[\n{rows}\n{indent}]" if lines else "[]"
    if span:
        return text[: span[0]] + written + text[span[1] :]
    end = text.rindex("}")
    return text[:end].rstrip() + f',\n  "expect": {written}\n' + text[end:]


def _span_of(text: str, place: Place, start: int = 0) -> tuple[int, int] | None:
    """Returns where the value in that place begins and ends."""
    decoder = json.JSONDecoder()

    def skip(position: int) -> int:
        found = re.compile(r"\s*").match(text, position)
        return found.end() if found else position

    start = skip(start)
    if not place:
        return start, decoder.raw_decode(text, start)[1]
    position, number = skip(start + 1), 0
    while text[position] not in "}]":
        key: str | int = number
        if text[start] == "{":
            key, position = decoder.raw_decode(text, position)
            position = skip(skip(position) + 1)
        if key == place[0]:
            return _span_of(text, place[1:], position)
        position = skip(decoder.raw_decode(text, position)[1])
        if text[position] == ",":
            position = skip(position + 1)
        number += 1
    return None
