#!/usr/bin/env python3
"""Plays the scenarios through the SDK in each language and compares what comes out.

    tests/run_scenarios.py                                   the scripted agent, all languages
    tests/run_scenarios.py --select                          a selection where the languages can hardly differ
    tests/run_scenarios.py --acp                             the same scenarios over ACP instead of Wire
    tests/run_scenarios.py --web                             the same over the API of Kimi Code's server
    tests/run_scenarios.py --telemetry                       compares the spans and metrics of the languages
    tests/run_scenarios.py --cassettes                       the same from recordings; also with --acp or --web
    tests/run_scenarios.py --cassettes --sample 8            an eighth of them, by name
    tests/run_scenarios.py --real 1.51.0,kimi-code-2.1.0     real releases of kimi-cli and Kimi Code
    tests/run_scenarios.py --quick                           a selection of releases, as tests/real/releases.json has it
    tests/run_scenarios.py --newest                          the newest Kimi Code, as the registry of npm has it
    tests/run_scenarios.py --matrix                          all releases; writes docs/evidence/compatibility.md
    tests/run_scenarios.py --only cancel --languages rust    what has "cancel" in its name, one language
    tests/run_scenarios.py --update                          writes the traces that all agree on into the files

How a scenario is written is in tests/README.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).resolve().parent
RESULTS = TESTS / "real/results.json"
PAGE = TESTS.parent / "docs/evidence/compatibility.md"
sys.path.insert(0, str(TESTS))

from harness import cassettes, coverage, matrix, names, page, play, releases, runners, selection, trace  # noqa: E402
from harness.acp import ACP  # noqa: E402
from harness.over import Over  # noqa: E402
from harness.scenario import LANGUAGES, REAL_LANGUAGES, BadScenario, Scenario, load_all  # noqa: E402
from harness.web import WEB  # noqa: E402
from real.install import InstallFailed, NoPython, newest_kimi_code  # noqa: E402


def say(text: str) -> None:
    print(f"scenarios: {text}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", help="rust,python,python-sync,node or some of them")
    parser.add_argument("--acp", action="store_true", help="let the scripted agent speak ACP, as Kimi Code does")
    parser.add_argument("--web", action="store_true", help="let the scripted agent be Kimi Code's server")
    parser.add_argument("--cassettes", action="store_true", help="record each scenario once, and play the recordings")
    parser.add_argument("--select", action="store_true", help="a selection where the languages can hardly differ")
    parser.add_argument("--sample", type=int, metavar="N", help="with --cassettes: only one of N scenarios, by name")
    parser.add_argument("--telemetry", action="store_true", help="compare spans and metrics of the languages")
    parser.add_argument("--real", metavar="VERSIONS", help="play tests/real/cases with these releases")
    parser.add_argument("--quick", action="store_true", help="real releases, a selection of them and of languages")
    parser.add_argument("--newest", action="store_true", help="the newest release of Kimi Code, also an unknown one")
    parser.add_argument("--matrix", action="store_true", help="all releases, or those of --real, as a table")
    parser.add_argument("--add", action="store_true", help="with --matrix: on top of what earlier runs have found")
    parser.add_argument("--missing", action="store_true", help="as --add, and play only what has not been played")
    parser.add_argument("--at-once", type=int, default=play.AT_ONCE, help="how many real agents run at once")
    parser.add_argument("--only", action="append", default=[], help="part of a name; may be repeated")
    parser.add_argument("--update", action="store_true", help="write 'expect' of scripted scenarios anew")
    parser.add_argument("--python", help="the interpreter for the Python runner; this one if left out")
    parser.add_argument("--show", action="store_true", help="print the traces also of what passes")
    parser.add_argument("--keep", action="store_true", help="leave the cases' directories behind")
    chosen = parser.parse_args()
    chosen.add = chosen.add or chosen.missing
    if chosen.newest:
        if chosen.quick or chosen.matrix or chosen.real:
            parser.error("--newest is a release of its own: neither --quick, --matrix nor --real goes with it")
        chosen.real = ",".join(releases.newest_kimi_code(newest_kimi_code()))
    if chosen.add and not chosen.matrix:
        parser.error("--add and --missing are about the table: they go with --matrix")
    if chosen.quick and (chosen.matrix or chosen.real):
        parser.error("--quick is a selection of its own: neither --matrix nor --real goes with it")
    if (chosen.acp or chosen.web) and (chosen.quick or chosen.matrix or chosen.real):
        parser.error("--acp and --web are about the scripted agent")
    if chosen.cassettes and (chosen.update or chosen.quick or chosen.matrix or chosen.real):
        parser.error("--cassettes is about the scripted agent, and writes no traces")
    if chosen.select and (chosen.update or chosen.cassettes or chosen.telemetry or chosen.real or chosen.quick):
        parser.error("--select is a selection of the plays with the scripted agent, and writes no traces")
    others = (chosen.acp, chosen.web, chosen.cassettes, chosen.update, chosen.quick, chosen.matrix, chosen.real)
    if chosen.telemetry and any(others):
        parser.error("--telemetry is about the scripted agent over Wire, and writes no traces")
    if chosen.quick:
        chosen.real = ",".join(releases.quick())
    if chosen.matrix and not chosen.real:
        chosen.real = ",".join(releases.versions())
    default = REAL_LANGUAGES if chosen.real else LANGUAGES
    chosen.languages = [name.strip() for name in chosen.languages.split(",")] if chosen.languages else list(default)
    if chosen.sample is not None and (chosen.sample < 1 or not chosen.cassettes):
        parser.error("--sample is a number from 1 on, and goes with --cassettes")
    for name in chosen.languages:
        if name not in LANGUAGES:
            parser.error(f"no such language: {name}")
    if chosen.real and chosen.update:
        parser.error("what real cases expect is written by hand: --update is for scripted ones")
    return chosen


def untouched(scenarios: list[Scenario], plays: list[play.Play], measured: Path) -> list[str]:
    """What no scenario with either agent has to do with."""
    traces = [outcome.lines for one in plays for outcome in one.outcomes.values()]
    package = TESTS.parent / "bindings-python/python/kimi_agent"
    shown = coverage.seen(package, scenarios + load_all(TESTS / "real/cases"), traces)
    reports = {
        "python": names.Report.read(*measured.glob("python*")),
        "node": names.Report.read(*measured.glob("node.*")),
    }
    return coverage.untouched(package, shown) + names.untouched(names.load(TESTS.parent), reports, shown)


class Report:
    """Judges and prints what is done, counts it, and puts it into the table."""

    def __init__(self, chosen: argparse.Namespace, results: matrix.Results) -> None:
        self.chosen = chosen
        self.results = results
        self.cases = {one.name: one for one in load_all(TESTS / "real/cases")}
        self.counts = {"pass": 0, "FAIL": 0, "unsupported": 0, "skip": 0}

    def add(self, one: play.Play) -> None:
        verdict = play.judge(one, self.chosen.languages)
        self.counts[verdict.status] += 1
        if self.chosen.matrix:
            of = matrix.fingerprint(self.cases[one.scenario.name], str(one.version))
            matrix.add(self.results, verdict, of, self.chosen.languages)
            # Written immediately, so that --missing continues here if this run is interrupted.
            matrix.write(RESULTS, self.results)
        reasons = sorted(set(one.skips.values()))
        missing = one.missing
        note = f"  [{missing.about}{_since(one, missing)}]" if missing else ""
        note += f"  [not in {', '.join(one.skips)}: {'; '.join(reasons)}]" if one.skips else ""
        print(f"{verdict.status}  {one.title}  {one.seconds:.2f} s{note}", flush=True)
        for language, outcome in one.outcomes.items() if self.chosen.show else ():
            print(f"  the trace in {language}:")
            for line in outcome.lines:
                print(f"    {trace.compact(line)}")
        for complaint in verdict.complaints:
            print("  " + complaint.replace("\n", "\n  "))

    def add_traced(self, one: play.Play) -> None:
        """Judges whether all languages that play this have recorded the same spans and metrics."""
        languages = one.played_by(self.chosen.languages)
        one.scenario.data["expect"] = one.outcomes[languages[0]].lines
        self.add(one)

    def add_replayed(self, one: play.Play, reasons: cassettes.Reasons) -> None:
        """Judges a scenario from its cassette. One with a reason must fail."""
        reason = reasons.of(one.scenario)
        if reason:
            complaints = play.judge(one, self.chosen.languages[:1]).complaints
        else:
            complaints = play.judge(one, self.chosen.languages).complaints
            reason = cassettes.waits_for_file(one.scenario) if complaints else None
            if reason is None:
                return self.add(one)
        self.counts["unsupported" if complaints else "FAIL"] += 1
        print(f"{'declared' if complaints else 'FAIL'}  {one.title}  {one.seconds:.2f} s  [{reason}]", flush=True)
        if not complaints:
            print("  it passes: take its reason out of cassettes.json")
        for complaint in complaints if self.chosen.show else ():
            print("  " + complaint.replace("\n", "\n  "))
        return None

    def declared(self, needless: list[str]) -> None:
        self.counts["FAIL" if needless else "pass"] += 1
        print(f"{'FAIL' if needless else 'pass'}  every difference that is declared occurs")
        for what in needless:
            print(f"  {what}")

    def coverage(self, missing: list[str]) -> None:
        self.counts["FAIL" if missing else "pass"] += 1
        print(f"{'FAIL' if missing else 'pass'}  everything public is touched by a scenario")
        for name in missing:
            print(f"  {name}")

    def tabulate(self) -> None:
        scenarios = list(self.cases.values())
        PAGE.write_text(page.document(self.results, scenarios), "utf-8")
        print(matrix.text(matrix.table(self.results, scenarios)))
        say(f"wrote {RESULTS.relative_to(TESTS.parent)} and {PAGE.relative_to(TESTS.parent)}")

    def end(self) -> int:
        counts = self.counts
        without = f", {counts['unsupported']} unsupported" if counts["unsupported"] else ""
        skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
        print(f"{counts['pass']} passed, {counts['FAIL']} failed{without}{skipped}")
        return 1 if counts["FAIL"] else 0


def _since(one: play.Play, missing: releases.Feature) -> str:
    """What Kimi Code has not came to kimi-cli at some time, which says nothing here."""
    return "" if releases.release(str(one.version)).kimi_code else f": since {missing.since}"


def play_real(
    chosen: argparse.Namespace, scenarios: list[Scenario], commands: dict[str, list[str]], scratch: Path, report: Report
) -> list[play.Play]:
    def left_out(scenario: Scenario, version: str) -> dict[str, str]:
        if chosen.quick:
            return releases.quick_left_out(scenario, version, chosen.languages)
        done = matrix.played(report.results, scenario, version) if chosen.missing else {}
        done = {**done, **releases.other_languages(version, chosen.languages)}
        return {language: why for language, why in done.items() if language in commands}

    versions = [version.strip() for version in chosen.real.split(",")]
    return play.play_real(
        scenarios, versions, commands, scratch, say, done=report.add, at_once=chosen.at_once, left_out=left_out
    )


def play_over(
    over: Over,
    chosen: argparse.Namespace,
    scenarios: list[Scenario],
    commands: dict[str, list[str]],
    scratch: Path,
    report: Report,
) -> list[play.Play]:
    known, used = over.declared(), set[str]()
    played, left = over.chosen(scenarios, known, used)
    for name, why in left.items() if chosen.show or chosen.only else ():
        say(f"{name} is not played over {over.title}: {why}")
    say(f"{len(played)} scenarios over {over.title}; {len(left)} have no place there")
    left_out = selection.left_out(played, over.title) if chosen.select else None
    plays = play.play_scripted(played, commands, scratch, say, over=over.title, left_out=left_out)
    if chosen.update:
        over.rewrite({one.scenario.name: one.agreed(chosen.languages) for one in plays}, known)
        plays = [
            replace(one, scenario=over.cast(found, over.declared()))
            for one in plays
            if (found := _named(scenarios, one))
        ]
    for one in plays:
        report.add(one)
    if not chosen.only:
        report.declared(over.needless(scenarios, known, used))
    return plays


def traceable(scenarios: list[Scenario], chosen: argparse.Namespace, report: Report) -> list[Scenario]:
    """The scenarios whose spans can be compared, with the languages that do not play them."""
    declared = json.loads((TESTS / "harness/telemetry.json").read_text("utf-8"))
    if not chosen.only:
        names = [one.name for one in scenarios]
        needless = [name for name in declared["races"] if name not in names]
        needless += [one for one in declared["skip"] if not any(re.fullmatch(one, name) for name in names)]
        report.declared([f"telemetry.json: `{one}` matches no scenario" for one in needless])
    comparable = [one for one in scenarios if one.name not in declared["races"]]
    for pattern, skips in declared["skip"].items():
        comparable = [one.skipping(skips) if re.fullmatch(pattern, one.name) else one for one in comparable]
    return comparable


def play_cassettes(
    over: Over | None,
    chosen: argparse.Namespace,
    scenarios: list[Scenario],
    commands: dict[str, list[str]],
    scratch: Path,
    report: Report,
) -> list[play.Play]:
    if over:
        scenarios, _ = over.chosen(scenarios, over.declared(), set())
    reasons = cassettes.Reasons.read(over.word if over else "wire")
    playable = [one for one in scenarios if cassettes.unplayable(one) is None]
    if chosen.sample:
        playable = cassettes.sample(playable, reasons, chosen.sample)
    plays = cassettes.play_all(playable, reasons, commands, scratch, say, over.title if over else "Wire")
    for one in plays:
        report.add_replayed(one, reasons)
    say(f"{len(plays)} of {len(scenarios)} scenarios were played from cassettes")
    if not chosen.only and not chosen.sample:
        report.declared([f"cassettes.json: `{pattern}` matches no scenario" for pattern in reasons.needless()])
    return plays


def _named(scenarios: list[Scenario], one: play.Play) -> Scenario | None:
    return next((scenario for scenario in scenarios if scenario.name == one.scenario.name), None)


def main() -> int:
    chosen = arguments()
    started = time.monotonic()
    folder = TESTS / ("real/cases" if chosen.real else "scenarios")
    scenarios = load_all(folder, chosen.only)
    if not scenarios:
        say(f"no scenario in {folder.relative_to(TESTS.parent)} matches")
        return 1
    commands = {}
    for language in chosen.languages:
        say(f"getting the {language} runner ready")
        commands[language] = runners.command(language, chosen.python)
    report = Report(chosen, matrix.read(RESULTS) if chosen.add else {})
    report.results = matrix.current(report.results, report.cases.values())
    # Resolved, because an agent reports the directory under its real path.
    scratch = Path(tempfile.mkdtemp(prefix="scenarios-")).resolve()
    try:
        if chosen.cassettes:
            over = WEB if chosen.web else ACP if chosen.acp else None
            plays = play_cassettes(over, chosen, scenarios, commands, scratch, report)
        elif chosen.telemetry:
            scenarios = traceable(scenarios, chosen, report)
            plays = play.play_scripted(scenarios, commands, scratch, say, telemetry=True)
            for one in plays:
                report.add_traced(one)
        elif chosen.real:
            plays = play_real(chosen, scenarios, commands, scratch, report)
        elif chosen.acp or chosen.web:
            over = WEB if chosen.web else ACP
            plays = play_over(over, chosen, scenarios, commands, scratch, report)
        else:
            measured = scratch / "measured"
            measured.mkdir()
            left_out = selection.left_out(scenarios, "Wire") if chosen.select else None
            plays = play.play_scripted(scenarios, commands, scratch, say, measured, left_out=left_out)
            if chosen.update:
                play.update(plays, chosen.languages, say)
            for one in plays:
                report.add(one)
            if not chosen.only and set(chosen.languages) == set(LANGUAGES):
                report.coverage(untouched(scenarios, plays, measured))
    finally:
        play.clear(scratch, chosen.keep, say)
    say(f"{len(plays)} scenarios in {time.monotonic() - started:.0f} s")
    if chosen.matrix:
        report.tabulate()
    return report.end()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BadScenario, runners.RunnerMissing, NoPython, InstallFailed) as error:
        say(str(error))
        print("0 passed, 1 failed")
        sys.exit(1)
