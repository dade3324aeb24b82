"""Scenarios over another protocol than Wire: which are played, and what comes out otherwise.

The scripted agent speaks several protocols, and the same scenario has to give the same trace but for what is declared:
`rules` hold for every scenario. A file in JSON has the traces of the scenarios in which a turn takes another course.
What is declared but does not occur is a failure.
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


HAS: dict[str, Callable[[Scenario, str], bool]] = {
    "field of a script": _has_field,
    "option": _has_option,
    "operation": _has_operation,
    "action": _has_action,
}
"""What a scenario can have by name, by kind."""


@dataclass(frozen=True)
class Rule:
    """What comes out otherwise, in every scenario where it can."""

    name: str
    about: str
    apply: Callable[[list[Line]], list[Line]]


@dataclass(frozen=True)
class Declared:
    """What the file says."""

    left_out: dict[str, str]
    """By a regular expression for names: why these scenarios are not played."""
    courses: dict[str, dict[str, Any]]
    """By name: why a turn takes another course, and the whole trace."""


@dataclass(frozen=True)
class Over:
    """A protocol of the scripted agent."""

    title: str
    word: str
    """What a script and the option `dialect` call it."""
    path: Path
    """The file with what is declared."""
    lacking: dict[str, dict[str, str]]
    """What scenarios can't have there, by kind: the names with the reasons."""
    rules: tuple[Rule, ...]

    def declared(self, path: Path | None = None) -> Declared:
        data = json.loads((path or self.path).read_text("utf-8"))
        return Declared(data["left_out"], data["courses"])

    def translated(self, lines: list[Line], used: set[str] | None = None) -> list[Line]:
        """What has to come out where this came out over Wire; notes the rules that it took."""
        for rule in self.rules:
            after = rule.apply(lines)
            if after != lines and used is not None:
                used.add(rule.name)
            lines = after
        return _renumbered(lines)

    def reason(self, scenario: Scenario, known: Declared) -> str | None:
        """Why a scenario is not played."""
        named = (
            f"`{name}`: {why}"
            for kind, reasons in self.lacking.items()
            for name, why in reasons.items()
            if HAS[kind](scenario, name)
        )
        matched = (why for pattern, why in known.left_out.items() if re.fullmatch(pattern, scenario.name))
        return next(itertools.chain(named, matched), None)

    def cast(self, scenario: Scenario, known: Declared, used: set[str] | None = None) -> Scenario:
        """The scenario as it is played."""
        script = scenario.data["agent"]["script"]
        script = script if isinstance(script, dict) else {"turns": script}
        expect = self.translated(scenario.expect or [], used)
        course = known.courses.get(scenario.name)
        if course:
            if course["expect"] == expect:
                raise BadScenario(f"{self.path.name}: {scenario.name} takes no other course: take it out")
            expect = course["expect"]
        options = {**scenario.data.get("options", {}), "dialect": self.word}
        agent = {"script": {"wire": self.word, **script}}
        return replace(scenario, data={**scenario.data, "agent": agent, "options": options, "expect": expect})

    def chosen(
        self, scenarios: Iterable[Scenario], known: Declared, used: set[str]
    ) -> tuple[list[Scenario], dict[str, str]]:
        """What is played, and what isn't, with the reason."""
        played: list[Scenario] = []
        left: dict[str, str] = {}
        for scenario in scenarios:
            why = self.reason(scenario, known)
            if why:
                left[scenario.name] = why
            else:
                played.append(self.cast(scenario, known, used))
        return played, left

    def needless(self, scenarios: list[Scenario], known: Declared, used: set[str]) -> list[str]:
        """Declarations that nothing needs: over all scenarios."""
        played = {scenario.name for scenario in scenarios if self.reason(scenario, known) is None}
        bare = Declared({}, known.courses)
        otherwise = {scenario.name for scenario in scenarios if self.reason(scenario, bare) is None}
        complaints = [
            f"{self.path.name}: `{pattern}` leaves out nothing"
            for pattern in known.left_out
            if not any(re.fullmatch(pattern, name) for name in otherwise)
        ]
        complaints += [f"{self.path.name}: {name} is not played" for name in known.courses if name not in played]
        complaints += [f"the rule `{rule.name}` changes no trace" for rule in self.rules if rule.name not in used]
        for kind, reasons in self.lacking.items():
            unmet = [name for name in reasons if not any(HAS[kind](scenario, name) for scenario in scenarios)]
            complaints += [f"no scenario has the {kind} `{name}`" for name in unmet]
        return complaints

    def rewrite(self, traces: dict[str, list[Line] | None], known: Declared) -> None:
        """Writes down anew the courses that are declared; why one is there is for a person to say."""
        courses = {
            name: {**course, "expect": traces.get(name) or course["expect"]} for name, course in known.courses.items()
        }
        self.write(courses, known)

    def write(self, courses: dict[str, dict[str, Any]], known: Declared, path: Path | None = None) -> None:
        """One line a trace line, so that a change shows as what it is."""
        left = ",\n".join(f"  {json.dumps(key)}: {json.dumps(why)}" for key, why in known.left_out.items())
        rows = []
        for name, course in sorted(courses.items()):
            lines = ",\n".join(
                "    " + json.dumps(line, ensure_ascii=False, sort_keys=True) for line in course["expect"]
            )
            why = json.dumps(course["why"])
            rows.append(f'  {json.dumps(name)}: {{\n   "why": {why},\n   "expect": [\n{lines}\n   ]\n  }}')
        text = '{\n "left_out": {\n' + left + '\n },\n "courses": {\n' + ",\n".join(rows) + "\n }\n}\n"
        (path or self.path).write_text(text, "utf-8")


OWN_OPTIONS = {
    "config": "it is the agent's own configuration there",
    "config_file": "it is the agent's own configuration there",
    "agent_file": "it is the agent's own configuration there",
    "skills_dir": "it is the agent's own configuration there",
    "session_id": "the agent makes it",
    "dialect": "it chooses a dialect itself",
    "executable": "it starts something else than the scripted agent",
}
"""Options that no other protocol than Wire has, and why."""

OWN_ACTIONS = {
    "request": "it sends a request in Wire's own words",
    "event": "it sends an event in Wire's own words",
    "raw": "it sends bytes of Wire's own",
    "raw_base64": "it sends bytes of Wire's own",
}
"""Actions of the agent that only Wire has, and why."""

OWN_SCRIPT = {
    "wire": "it is about a version of Wire",
    "release": "it is about a release of kimi-cli",
}
"""Fields of a script that only Wire has, and why."""

_ID = re.compile(r"<id\d+>")


def _renumbered(lines: list[Line]) -> list[Line]:
    """The ids that are left, named in order of their appearance again."""
    known: dict[str, str] = {}
    text = "\n".join(json.dumps(line, sort_keys=True) for line in lines)
    text = _ID.sub(lambda found: known.setdefault(found.group(), f"<id{len(known) + 1}>"), text)
    return [json.loads(line) for line in text.splitlines()]


def payload(line: Line) -> dict[str, Any]:
    event = line.get("event") or {}
    return dict(event.get("payload") or {})


def with_fields(line: Line, **fields: Any) -> Line:
    """The line of an event with these fields in its payload."""
    return {**line, "event": {**line["event"], "payload": {**payload(line), **fields}}}


def request(line: Line, kind: str) -> dict[str, Any] | None:
    """The request of that kind that is in the line: an event, or what a handler is given."""
    if event_type(line) == kind:
        return payload(line)
    handlers = {"ApprovalRequest": "approval", "QuestionRequest": "question"}
    return line.get("request") if line.get("handler") == handlers[kind] else None


def asked(line: Line, about: dict[str, Any]) -> Line:
    """The line with this request in place of its own."""
    if "handler" in line:
        return {**line, "request": about}
    return {**line, "event": {**line["event"], "payload": about}}


def without(*kinds: str) -> Callable[[list[Line]], list[Line]]:
    return lambda lines: [line for line in lines if event_type(line) not in kinds]


def arguments_in_parts(lines: list[Line]) -> list[Line]:
    told: list[Line] = []
    for line in lines:
        if event_type(line) != "ToolCall":
            told.append(line)
            continue
        function = payload(line)["function"]
        told.append(with_fields(line, function={**function, "arguments": ""}))
        if function.get("arguments"):
            told.append({"event": {"type": "ToolCallPart", "payload": {"arguments_part": function["arguments"]}}})
    return told


_WITH_CALLS = ("ToolCall", "ToolResult", "ApprovalRequest", "QuestionRequest")


def repeated_ids(begins: Callable[[Line], bool]) -> Callable[[list[Line]], list[Line]]:
    """Of two calls with the same id, the second gets another id, until a line begins the counts anew."""

    def apply(lines: list[Line]) -> list[Line]:
        told: list[Line] = []
        seen: dict[str, int] = {}
        for line in lines:
            said = payload(line)
            kind = event_type(line)
            if begins(line):
                seen = {}
            if kind == "ToolCall":
                seen[said["id"]] = seen.get(said["id"], 0) + 1
            field = "id" if kind == "ToolCall" else "tool_call_id"
            count = seen.get(said.get(field), 1) if kind in _WITH_CALLS else 1
            told.append(with_fields(line, **{field: f"{said[field]}__{count}"}) if count > 1 else line)
        return told

    return apply


def session_names(lines: list[Line]) -> list[Line]:
    return [
        {**line, "id": f"session_{line['id']}"} if line.get("op") == "session" and "id" in line else line
        for line in lines
    ]


def said_of_itself(version: str, capabilities: dict[str, Any]) -> Callable[[list[Line]], list[Line]]:
    said = {"capabilities": capabilities, "protocol_version": version}
    return lambda lines: [
        {**line, **said} if line.get("op") == "info" and "capabilities" in line else line for line in lines
    ]
