#!/usr/bin/env python3
"""Converts raw traffic of agents, plays each recording in all languages, and compares the events.

    tests/recordings/replay.py                               tests/recorded
    tests/recordings/replay.py --folder FOLDER               other logs, of the kinds that convert.py reads
    tests/recordings/replay.py --only steer --show           a part, with the traces

The events must be the same in all languages, and those that the recording itself leads to (`Recording::events()`). Only
the ids of prompts and the working directory are normalised. `reasons.json` names the logs that cannot be converted,
with the reasons. Other logs or other reasons are a failure.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
RECORDED = TESTS / "recorded"
REASONS = Path(__file__).with_name("reasons.json")
sys.path.insert(0, str(TESTS))

from harness import runners, trace, usage  # noqa: E402
from recordings.convert import convert_all  # noqa: E402
from recordings.program import Program  # noqa: E402

_PROMPT_ID = re.compile(r"\b[0-9a-f]{32}(-[0-9]+)\b")
LANGUAGES = ("rust", "python", "node")


@dataclass
class Played:
    """A recording with its events, and the traces of its program."""

    name: str
    program: Program
    outcomes: dict[str, runners.Outcome] = field(default_factory=dict)

    def complaints(self) -> list[str]:
        """Differences between the languages, and between the traces and the recording."""
        for language, outcome in self.outcomes.items():
            broken = [line for line in outcome.lines if str(line.get("error")).startswith("runner_")]
            problem = outcome.problem or (trace.compact(broken[0]) if broken else None)
            if problem:
                return [f"{language}: {problem}"]
        (first, expected), *others = self.outcomes.items()
        for language, outcome in others:
            diff = trace.difference(expected.lines, outcome.lines, (first, language))
            if diff:
                return [f"{first} and {language} differ\n{diff}"]
        recorded = comparable([{"event": event["event"]} for event in self._of_program()], None)
        played = [line for line in expected.lines if "event" in line]
        diff = trace.difference(recorded, played, ("recording", first))
        return [f"the events differ\n{diff}"] if diff else []

    def _of_program(self) -> list[dict[str, Any]]:
        """The events of turns and of replays. Events outside of both reach a program at any moment."""
        replays = self._replays()
        events = self.program.events
        return [event for event in events if event["turn"] or any(event["entry"] in span for span in replays)]

    def _replays(self) -> list[range]:
        entries = self.program.entries
        spans = []
        for begin, entry in enumerate(entries):
            if entry["type"] == "call" and entry["call"] == "replay":
                call = entries[begin + 1]["message"]
                answers = (
                    at
                    for at, one in enumerate(entries[begin:], begin)
                    if "method" not in one.get("message", call) and one["message"].get("id") == call["id"]
                )
                spans.append(range(begin, next(answers, len(entries)) + 1))
        return spans


def comparable(lines: list[trace.Line], folder: Path | None) -> list[trace.Line]:
    """The lines without the values that differ: the directory, and the ids that the SDK gives its prompts."""
    told = []
    for line in lines:
        text = _PROMPT_ID.sub(r"<prompt\1>", json.dumps(line, sort_keys=True))
        if folder:
            text = text.replace(str(folder), "{{work_dir}}")
        else:
            # A terminal without a directory has that of the session, which raw traffic does not name.
            text = text.replace('"cwd": "/"', '"cwd": "{{work_dir}}"')
        told.append(json.loads(text))
    return told


def recorded_events(paths: dict[str, Path], command: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The events of recordings, without an agent."""
    outcomes = runners.run([*command, "--events"], {str(path): path for path in paths.values()})
    return {name: outcomes[str(path)].lines for name, path in paths.items()}


def play(programs: list[Program], commands: dict[str, list[str]], scratch: Path) -> list[Played]:
    """Plays the programs. Those that wait have a process of their own for each language, beside the others."""
    plays = {program.name: Played(program.name, program) for program in programs}

    def job(some: list[Program], language: str, command: list[str]) -> None:
        files = {}
        for program in some:
            folder = scratch / language / program.recording.stem
            folder.mkdir(parents=True)
            files[program.name] = folder.with_name(f"{folder.name}.case.json")
            files[program.name].write_text(json.dumps(program.scenario(folder)), "utf-8")
        for name, outcome in runners.run(command, files).items():
            folder = scratch / language / plays[name].program.recording.stem
            outcome.lines = comparable(outcome.lines, folder)
            plays[name].outcomes[language] = outcome

    waiting = [program for program in programs if program.waits()]
    others = [program for program in programs if program not in waiting]
    jobs = [partial(job, some, *command) for some in (waiting, others) if some for command in commands.items()]
    runners.parallel(jobs, 2 + len(commands))
    for one in plays.values():
        one.outcomes = {language: one.outcomes[language] for language in commands if language in one.outcomes}
    return list(plays.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=RECORDED)
    parser.add_argument("--only", action="append", default=[], help="part of a name; may be repeated")
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--show", action="store_true", help="print the traces")
    parser.add_argument("--keep", action="store_true", help="leave the recordings for a look")
    chosen = parser.parse_args()
    usage.chosen("replay", "--languages", chosen.languages, LANGUAGES)
    if not chosen.folder.is_dir():
        usage.stop("replay", f"there is no folder {chosen.folder}; --folder names one with recorded traffic")
    started = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="replay-")).resolve()
    try:
        code = run(chosen, scratch)
    finally:
        if chosen.keep:
            print(f"the recordings are in {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    print(f"{time.monotonic() - started:.0f} s")
    return code


def run(chosen: argparse.Namespace, scratch: Path) -> int:
    made, refused = convert_all(chosen.folder, scratch / "recordings")
    made = {name: path for name, path in made.items() if not chosen.only or any(part in name for part in chosen.only)}
    if not made:
        usage.stop("replay", f"no recording has a name with {' or '.join(map(repr, chosen.only))} in {chosen.folder}")
    languages = chosen.languages.split(",")
    commands = {language: runners.command(language) for language in dict.fromkeys(["rust", *languages])}
    events = recorded_events(made, commands["rust"])
    commands = {language: commands[language] for language in languages}
    programs = [Program(name, path, events[name]) for name, path in made.items()]
    failed, equal, compared = 0, 0, 0
    for one in play(programs, commands, scratch):
        complaints = one.complaints()
        compared += sum("event" in line for outcome in one.outcomes.values() for line in outcome.lines)
        failed, equal = failed + bool(complaints), equal + (not complaints)
        for complaint in complaints:
            print(f"FAIL  {one.name}\n  " + complaint.replace("\n", "\n  "))
        for line in next(iter(one.outcomes.values())).lines if chosen.show else ():
            print(f"    {trace.compact(line)}")
    for name, reason in sorted(refused.items()):
        print(f"not converted  {name}: {reason}")
    if chosen.folder == RECORDED and not chosen.only:
        expected = json.loads(REASONS.read_text("utf-8"))
        failed += refused != expected
        if refused != expected:
            print(f"FAIL  {REASONS.name} names other logs, or other reasons: {json.dumps(expected, indent=1)}")
    print(f"{len(made)} converted, {equal} equal, {failed} failed, {len(refused)} not converted; {compared} events")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(usage.reported("replay", main))
