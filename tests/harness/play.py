"""Playing scenarios through the languages, and judging what came out."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from real.install import InstallFailed, NoPython, command, kimi_code

from . import alone, real, releases, runners, trace
from .scenario import Scenario, prepared, updated

AGENTS = Path(__file__).resolve().parent.parent / "agents"

Say = Callable[[str], None]
LeftOut = Callable[[Scenario, str], dict[str, str]]
# Real agents at once.
AT_ONCE = 2
# Processes of runners at once: their cases wait more than they compute.
PROCESSES = 4
# Cases in a process, so that the processes end at about the same time.
IN_A_PROCESS = 40


@dataclass
class Play:
    """One scenario, for a real one with one release, in all the languages asked for."""

    scenario: Scenario
    version: str | None = None
    outcomes: dict[str, runners.Outcome] = field(default_factory=dict)
    skips: dict[str, str] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    """The languages that do not play it in a selection."""
    missing: releases.Feature | None = None
    """The features that the release lacks; then there is either nothing to play, or only the refusal."""
    unused: dict[str, int] = field(default_factory=dict)
    over: str | None = None
    """The protocol of the scripted agent, if it isn't Wire."""

    @property
    def title(self) -> str:
        said = f"over {self.over}" if self.over else ""
        if self.version:
            found = releases.release(self.version)
            said = found.title if found.kimi_code else f"kimi-cli {found.title}"
        return f"{self.scenario.name} ({said})" if said else self.scenario.name

    @property
    def seconds(self) -> float:
        """The time of the slowest language."""
        return max((outcome.seconds for outcome in self.outcomes.values()), default=0.0)

    def played_by(self, languages: list[str]) -> list[str]:
        return [language for language in languages if language not in self.skips and language not in self.left_out]

    def agreed(self, languages: list[str]) -> list[trace.Line] | None:
        """The trace, if all languages that play it have the same."""
        ran = [self.outcomes.get(language) for language in self.played_by(languages)]
        traces = [outcome.lines for outcome in ran if outcome and not outcome.problem]
        agree = traces and len(traces) == len(ran) and all(lines == traces[0] for lines in traces)
        return traces[0] if agree else None


@dataclass
class Verdict:
    play: Play
    complaints: list[str]

    @property
    def status(self) -> str:
        if self.complaints:
            return "FAIL"
        if self.play.missing:
            return "unsupported"
        return "pass" if set(self.play.outcomes) - set(self.play.skips) else "skip"


def case_file(folder: Path, data: dict[str, object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "case.json"
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False), "utf-8")
    return path


def play_scripted(
    scenarios: list[Scenario],
    commands: dict[str, list[str]],
    scratch: Path,
    say: Say,
    measured: Path | None = None,
    over: str | None = None,
    telemetry: bool = False,
    left_out: Mapping[str, set[str]] | None = None,
) -> list[Play]:
    """All the scenarios, in processes of many. In the folder `measured`, if any, go the names that they touch.

    With `telemetry`, the traces are the spans and metrics alone. `left_out` has the names of the scenarios that a
    language does not play.

    What a language is declared not to play is played all the same, so that it is noticed when the reason has gone.
    """
    plays = {scenario.name: Play(scenario, over=over) for scenario in scenarios}
    jobs: list[Callable[[], None]] = []

    def job(language: str, number: int, some: list[Play]) -> None:
        files: dict[str, Path] = {}
        for play in some:
            name = play.scenario.name
            directory = scratch / language / name
            directory.mkdir(parents=True)
            files[name] = case_file(
                scratch / language / f"{name}.case",
                prepared(play.scenario, {"dir": str(directory), "python": sys.executable, "agents": str(AGENTS)}),
            )
        added = {"SCENARIO_TOUCHED": str(measured / f"{language}.{number}")} if measured else {}
        # For scenarios about what an agent inherits.
        env = {
            **os.environ,
            "SCENARIO_INHERITED": "inherited",
            **added,
            **({"SCENARIO_TELEMETRY": "1"} if telemetry else {}),
        }
        for name, outcome in runners.run(commands[language], files, env).items():
            if name in plays:
                if telemetry:
                    outcome.lines = trace.telemetry(outcome.lines)
                outcome.lines = trace.normalise(outcome.lines, str(scratch / language / name))
                plays[name].outcomes[language] = outcome

    for language in commands:
        own: list[Play] = []
        for play in plays.values():
            reason = play.scenario.skipped(language)
            if reason:
                play.skips[language] = reason
            if play.scenario.name in (left_out or {}).get(language, ()):
                play.left_out.add(language)
            else:
                own.append(play)
        say(f"{language}: {len(own)} scenarios with the scripted agent{f' over {over}' if over else ''}")
        parts = range(0, len(own), IN_A_PROCESS)
        jobs += [partial(job, language, at, own[at : at + IN_A_PROCESS]) for at in parts]
    runners.parallel(jobs, PROCESSES)
    return list(plays.values())


def play_real(
    scenarios: list[Scenario],
    versions: list[str],
    commands: dict[str, list[str]],
    scratch: Path,
    say: Say,
    *,
    done: Callable[[Play], None] = lambda play: None,
    at_once: int = AT_ONCE,
    through: Callable[[Path], list[str]] = lambda _: [],
    left_out: LeftOut = lambda scenario, version: {},
) -> list[Play]:
    """A process for each scenario, release and language: each has a model server of its own.

    `done` is called with each play when the last of its languages is through, one at a time. `through` gives the
    program that stands before the agent, if any, by the case's directory. `left_out` says which languages don't play
    a case with a release, and why; a play that is left to none is none.
    """
    plays = [_cast(scenario, version, left_out) for version in versions for scenario in scenarios]
    plays = [play for play in plays if play.skips.keys() != commands.keys()]
    versions = [version for version in versions if any(play.version == version for play in plays)]
    agents = _agents(versions, plays, commands, say)
    jobs: dict[str, alone.Job] = {}
    starts = alone.Starts()
    lock = threading.Lock()
    count = 0

    def job(play: Play, language: str, suffix: str) -> str | None:
        nonlocal count
        name = play.scenario.name
        version = str(play.version)
        directory = scratch / f"{version}-{language}" / f"{name}{suffix}"
        directory.mkdir(parents=True)
        with real.staged(play.scenario, directory, releases.release(version)) as (case, model):
            path = case_file(directory.parent / f"{name}{suffix}.case", case)
            env = real.runner_env([*through(directory), *agents[version]])
            with starts.turn(version) as begun:
                outcome = runners.run(commands[language], {name: path}, env, begun)[name]
            failure = alone.own_failure(play.scenario.expect, outcome)
            if failure and not suffix:
                return failure
            orphans = real.left_behind(directory)
            if orphans:
                outcome.problem = outcome.problem or f"left behind: {'; '.join(orphans)}"
            lines = trace.simplify(outcome.lines, play.scenario.keep)
            outcome.lines = trace.normalise(lines, str(directory))
            with lock:
                play.outcomes[language] = outcome
                play.unused[language] = 0 if play.missing else model.unused
                count += 1
                if count % 10 == 0 or count == len(jobs):
                    say(f"{count} of {len(jobs)} runs with a real agent done")
                if play.outcomes.keys() | play.skips.keys() == commands.keys():
                    done(play)
        return None

    for play in plays:
        if play.missing and not play.missing.refused:
            done(play)
            continue
        for language in commands:
            reason = play.scenario.skipped(language)
            if reason:
                play.skips[language] = reason
            elif play.version in agents and language not in play.skips:
                jobs[f"{play.title} in {language}"] = partial(job, play, language)
        if play.skips.keys() == commands.keys():
            done(play)
    say(f"{len(jobs)} runs with a real agent, {at_once} at once")
    alone.play_all(jobs, at_once, say)
    return plays


def _cast(scenario: Scenario, version: str, left_out: LeftOut) -> Play:
    cast = releases.cast(scenario, version)
    return Play(cast.scenario, version, missing=cast.missing, skips=left_out(scenario, version))


def _agents(versions: list[str], plays: list[Play], commands: dict[str, list[str]], say: Say) -> dict[str, list[str]]:
    """The installed releases; what can't be had is a failure on CI and a declared skip elsewhere."""
    agents: dict[str, list[str]] = {}

    def install(version: str) -> None:
        try:
            found = releases.release(version)
            agents[version] = kimi_code(found.number, say) if found.kimi_code else command(version, found.original, say)
        except NoPython as error:
            if os.environ.get("CI"):
                raise
            say(f"skipping {version}: {error}")
            for play in plays:
                if play.version == version:
                    play.skips = dict.fromkeys(commands, "no Python here can run it")
        except InstallFailed as error:
            raise InstallFailed(f"{version} could not be installed\n{error}") from None

    runners.parallel([partial(install, version) for version in versions], AT_ONCE)
    return agents


def judge(play: Play, languages: list[str]) -> Verdict:
    complaints: list[str] = []
    if play.missing and not play.missing.refused:
        return Verdict(play, complaints)
    for language in languages:
        outcome = play.outcomes.get(language)
        if language in play.left_out:
            continue
        if language in play.skips:
            if outcome and not outcome.problem and not _judge_trace(play, language, outcome):
                complaints.append(f"{language}: it is declared not to play this, but does: take the 'skip' out")
            continue
        if outcome is None:
            complaints.append(f"{language}: the runner didn't run it")
            continue
        if outcome.problem:
            complaints.append(f"{language}: {outcome.problem}{_quoted(outcome.stderr)}")
        complaints += _judge_trace(play, language, outcome)
    if not complaints and not (play.scenario.real and play.scenario.unordered):
        complaints += _judge_agreement(play, languages)
    if play.scenario.expect is None and not complaints:
        complaints.append("there is no 'expect' yet: look at what came out, then write it with --update")
    return Verdict(play, complaints)


def _judge_trace(play: Play, language: str, outcome: runners.Outcome) -> list[str]:
    expect = play.scenario.expect
    broken = [line for line in outcome.lines if str(line.get("error")).startswith("runner_")]
    if broken:
        return [f"{language}: {trace.compact(line)}{_quoted(outcome.stderr)}" for line in broken]
    if play.scenario.real:
        wrong = trace.unmet(expect or [], outcome.lines)
        if not wrong and play.unused.get(language):
            wrong = f"{play.unused[language]} replies of the model were never asked for"
        if not wrong:
            return []
        rows = "\n".join(f"    {number:3} {trace.compact(line)}" for number, line in enumerate(outcome.lines, 1))
        return [f"{language}: {wrong}\n  the whole trace:\n{rows}{_quoted(outcome.stderr)}"]
    if expect is None:
        return []
    diff = trace.difference(expect, outcome.lines, ("expected", language))
    return [f"{language}: the trace differs\n{diff}{_quoted(outcome.stderr)}"] if diff else []


def _judge_agreement(play: Play, languages: list[str]) -> list[str]:
    ran = [language for language in play.played_by(languages) if language in play.outcomes]
    first = ran[0] if ran else ""
    complaints = []
    for other in ran[1:]:
        diff = trace.difference(play.outcomes[first].lines, play.outcomes[other].lines, (first, other))
        if diff:
            complaints.append(f"{first} and {other} differ\n{diff}")
    return complaints


def _quoted(stderr: str) -> str:
    text = stderr.strip()
    return "\n  stderr of the runner, its end:\n    " + text[-1500:].replace("\n", "\n    ") if text else ""


def update(plays: list[Play], languages: list[str], say: Say) -> None:
    """Writes the traces that all languages agree on into the files of the scenarios."""
    agreed = [(play, lines) for play in plays if (lines := play.agreed(languages)) is not None]
    for path in sorted({play.scenario.path for play, lines in agreed if play.scenario.expect != lines}):
        traces = {play.scenario.name: lines for play, lines in agreed if play.scenario.path == path}
        text, unfit = updated(path.read_text("utf-8"), traces)
        path.write_text(text, "utf-8")
        say(f"updated {path.name}")
        for name in unfit:
            say(f"{name} is not written: it differs from other cases by more than the values in the table")
        for play, lines in agreed:
            if play.scenario.path == path and play.scenario.name not in unfit:
                play.scenario.data["expect"] = lines


def clear(scratch: Path, keep: bool, say: Say) -> None:
    if keep:
        say(f"the cases' directories are in {scratch}")
    else:
        shutil.rmtree(scratch, ignore_errors=True)
