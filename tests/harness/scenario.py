"""Scenario files: reading, checking, preparing for a run, and writing a new expectation back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

LANGUAGES = ("rust", "python", "python-sync", "node")
"""The Python package has two APIs; the blocking one counts as a language."""

REAL_LANGUAGES = ("rust", "python", "node")
"""What real agents are played through, unless others are asked for."""

_KEYS = {
    "name", "about", "agent", "options", "program", "expect", "keep", "unordered", "skip", "trace_handlers",
    "needs", "before", "kimi_code",
}  # fmt: skip
_KIMI_KEYS = {"model", "config", "files"}
_BEFORE_KEYS = {"release", "why", "model", "expect", "program"}
_KIMI_CODE_KEYS = {"why", "refused", "lacking", "model", "config", "files", "expect", "program", "options"}
_NOT_FOR_RUNNERS = {"expect", "keep", "skip", "unordered", "needs", "before", "kimi_code"}
OPS = {
    "open_agent", "list_sessions", "close_agent", "open", "prompt", "next", "drain", "steps", "result",
    "raise_for_status", "cancel", "steer", "respond", "set_plan_mode", "replay", "usage", "state", "info", "session",
    "turn", "leave", "one_shot", "close", "touch", "read", "exists", "wait_outside", "spawn_result", "spawn_drain",
    "join", "result_and_drain", "two_loops", "text_stream",
    "cancel_session",
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
        """What the agent of a real case needs; empty for a scripted one."""
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


def load(path: Path) -> Scenario:
    try:
        data = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise BadScenario(f"{path}: {error}") from None
    complaint = _complaint(data)
    if complaint:
        raise BadScenario(f"{path}: {complaint}")
    return Scenario(path, data)


def load_all(folder: Path, only: Iterable[str] = ()) -> list[Scenario]:
    """The folder's scenarios by name; `only` keeps those whose name contains one of its words."""
    words = list(only)
    scenarios = [load(path) for path in sorted(folder.glob("*.json"))]
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
    elif {"needs", "before", "kimi_code"} & set(data):
        return "'needs', 'before' and 'kimi_code' are for real cases"
    own = data.get("kimi_code", {"why": ""})
    if not (isinstance(own, dict) and "why" in own and set(own) <= _KIMI_CODE_KEYS):
        return f"'kimi_code' has 'why' and what is otherwise with it: {json.dumps(own)}"
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


def fill(value: Any, names: dict[str, str]) -> Any:
    """The value with `{name}` replaced in all its strings."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, dict):
        return {fill(key, names): fill(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, names) for item in value]
    return value


def prepared(scenario: Scenario, names: dict[str, str]) -> dict[str, Any]:
    """The case as a runner gets it: placeholders filled in, what only the orchestrator needs left out."""
    data = {key: value for key, value in scenario.data.items() if key not in _NOT_FOR_RUNNERS}
    return dict(fill(data, names))


def with_expectation(text: str, expect: list[Any]) -> str:
    """The file's text with `expect` replaced, one line a trace line; the rest stays as it was written."""
    lines = ",\n".join("    " + json.dumps(line, ensure_ascii=False, sort_keys=True) for line in expect)
    written = f"[\n{lines}\n  ]" if expect else "[]"
    span = _span_of(text, "expect")
    if span:
        return text[: span[0]] + written + text[span[1] :]
    end = text.rindex("}")
    return text[:end].rstrip() + f',\n  "expect": {written}\n' + text[end:]


def _span_of(text: str, wanted: str) -> tuple[int, int] | None:
    """Where the value of a top-level key begins and ends."""
    decoder = json.JSONDecoder()

    def skip(position: int) -> int:
        found = re.compile(r"\s*").match(text, position)
        return found.end() if found else position

    position = skip(text.index("{") + 1)
    while text[position] != "}":
        key, position = decoder.raw_decode(text, position)
        start = skip(skip(position) + 1)
        _, end = decoder.raw_decode(text, start)
        if key == wanted:
            return start, end
        position = skip(end)
        if text[position] == ",":
            position = skip(position + 1)
    return None
