"""Scenarios from cassettes: each is recorded once, and then played with the agent of its recordings.

The languages take turns in recording. The agent compares the programs with the recording (the mode `verify`). The trace
has to be the expected one. `cassettes.json` names the scenarios for which this is not so, with the reasons. They are
played, too: a reason that does not apply is a failure. Its part `unverified` names the scenarios without `verify`.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import play
from .over import HAS
from .scenario import Scenario
from .trace import Line

PATH = Path(__file__).with_name("cassettes.json")
SHORT_WATCHDOG = 5
"""The limit of a scenario that has a reason to fail, in seconds. One language plays it."""

_OPENS = ("open", "one_shot")


@dataclass
class Reasons:
    """Why scenarios are not played from cassettes, by a regular expression for their names."""

    known: dict[str, str]
    without_verify: dict[str, str] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, protocol: str, path: Path = PATH) -> Reasons:
        data = json.loads(path.read_text("utf-8"))
        known, unverified = ({**part["all"], **part.get(protocol, {})} for part in (data, data["unverified"]))
        return cls(known, unverified)

    def of(self, scenario: Scenario) -> str | None:
        return self._find(self.known, scenario)

    def unverified(self, scenario: Scenario) -> str | None:
        """Why the agent does not compare the program with the recording."""
        return self._find(self.without_verify, scenario)

    def _find(self, reasons: dict[str, str], scenario: Scenario) -> str | None:
        for pattern, reason in reasons.items():
            if re.fullmatch(pattern, scenario.name):
                self._used.add(pattern)
                return reason
        return None

    def needless(self) -> list[str]:
        return [pattern for pattern in (*self.known, *self.without_verify) if pattern not in self._used]


def recorder(scenario: Scenario, languages: Sequence[str]) -> str | None:
    """The language that records a scenario, the same in each run. `None` if none of them plays it."""
    able = [language for language in languages if not scenario.skipped(language)]
    return able[zlib.crc32(scenario.name.encode()) % len(able)] if able else None


def sample(scenarios: list[Scenario], reasons: Reasons, every: int) -> list[Scenario]:
    """One of n of the scenarios that have no reason to fail, by their names: another scenario changes nothing."""
    able = [one for one in scenarios if reasons.of(one) is None and waits_for_file(one) is None]
    return [one for one in able if zlib.crc32(f"sample {one.name}".encode()) % every == 0]


def waits_for_file(scenario: Scenario) -> str | None:
    """Why the trace of a scenario may differ in some runs: its agent waits for a file."""
    has_wait = HAS["action"](scenario, "wait_file")
    return "the agent waits for a file of the program; a recorded agent does not" if has_wait else None


def not_begun(scenario: Scenario, folder: Path) -> str | None:
    """Why a recorded scenario has no agent to play: a session that fails before it talks to its agent."""
    count = sum(op["op"] in _OPENS for op in scenario.data["program"])
    for number in range(1, count + 1):
        cassette = _cassette(scenario, folder, number)
        if not cassette.exists() or cassette.read_bytes().count(b"\n") < 2:
            return "a session has no messages to play"
    return None


def without_traces(lines: list[Line] | None) -> list[Line] | None:
    """The lines without the effects of an agent outside of its messages: its files, and its stderr."""
    if lines is None:
        return None
    kept = [line for line in lines if line.get("op") not in ("read", "exists")]
    return [
        {**line, "fields": {**line["fields"], "stderr": ""}} if "stderr" in line.get("fields", {}) else line
        for line in kept
    ]


def unplayable(scenario: Scenario) -> str | None:
    """Why a scenario cannot be recorded, by its form."""
    program = scenario.data["program"]
    options = [scenario.data.get("options", {}), *(op.get("options", {}) for op in program)]
    if any(op["op"] == "open_agent" for op in program):
        return "its sessions share an agent; a recording has one session"
    if any("executable" in given for given in options):
        return "its subject is the executable"
    if any("record" in given for given in options):
        return "its subject is the recording"
    return None


def recorded(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario, with a recording of each of its sessions."""
    return _with_options(scenario, lambda number: {"record": str(_cassette(scenario, folder, number))})


def replayed(scenario: Scenario, folder: Path, mode: str = "verify") -> Scenario:
    """The scenario with the agents of the recordings."""
    return _with_options(
        scenario, lambda number: {"executable": {"recording": str(_cassette(scenario, folder, number)), "mode": mode}}
    )


def _cassette(scenario: Scenario, folder: Path, number: int) -> Path:
    return folder / f"{scenario.name.replace('/', '--')}-{number}.jsonl"


def _with_options(scenario: Scenario, of: Any) -> Scenario:
    program, number = [], 0
    for op in scenario.data["program"]:
        if op["op"] in _OPENS:
            number += 1
            op = {**op, "options": {**op.get("options", {}), **of(number)}}
        program.append(op)
    return replace(scenario, data={**scenario.data, "program": program})


def play_all(
    scenarios: list[Scenario], reasons: Reasons, commands: dict[str, list[str]], scratch: Path, say: play.Say, over: str
) -> list[play.Play]:
    """Records each scenario in one language, and plays the recordings in all."""
    cassettes = scratch / "cassettes"
    cassettes.mkdir()
    recorders = {one.name: language for one in scenarios if (language := recorder(one, list(commands)))}
    scenarios = [one for one in scenarios if one.name in recorders]
    say("recording")
    made: list[play.Play] = []
    for language, command in commands.items():
        own = [recorded(one, cassettes) for one in scenarios if recorders[one.name] == language]
        if own:
            made += play.play_scripted(own, {language: command}, scratch / "recorded", say, over=over)
    begun = {one.scenario.name for one in made if not_begun(one.scenario, cassettes) is None}
    broken = [
        one for one in made if one.scenario.name in begun and play.judge(one, [recorders[one.scenario.name]]).complaints
    ]
    good = begun - {one.scenario.name for one in broken}
    played = [
        replayed(one, cassettes, "replay" if reasons.unverified(one) else "verify")
        for one in scenarios
        if one.name in good
    ]
    say(f"{len(begun)} of {len(scenarios)} scenarios have cassettes")
    plays = list(broken)
    first = dict(list(commands.items())[:1])
    for has_reason, using in ((False, commands), (True, first)):
        if has_reason:
            os.environ["SCENARIO_WATCHDOG"] = str(SHORT_WATCHDOG)
        some = [one for one in played if (reasons.of(one) is not None) == has_reason]
        place = scratch / ("reasons" if has_reason else "replayed")
        if some:
            plays += play.play_scripted(some, using, place, say, over=f"{over}, from a cassette")
    for one in plays:
        name = one.scenario.name
        _compare_messages(one, scratch / "recorded" / recorders[name] / name)
    return plays


def _compare_messages(one: play.Play, recorded_in: Path) -> None:
    """Leaves in the traces what a recording can have, with the directory of this run."""
    one.scenario = replace(one.scenario, data={**one.scenario.data, "expect": without_traces(one.scenario.expect)})
    for outcome in one.outcomes.values():
        lines = json.loads(json.dumps(outcome.lines).replace(str(recorded_in), "{dir}"))
        outcome.lines = without_traces(lines) or []
