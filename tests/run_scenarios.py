#!/usr/bin/env python3
"""Plays the scenarios through the SDK in each language and compares what comes out.

    tests/run_scenarios.py                                   the scripted agent, all languages
    tests/run_scenarios.py --real 1.49.0,1.51.0              real kimi-cli releases
    tests/run_scenarios.py --matrix                          all releases; prints and writes docs/compatibility.md
    tests/run_scenarios.py --only cancel --languages rust    what has "cancel" in its name, one language
    tests/run_scenarios.py --update                          writes the traces that all agree on into the files

How a scenario is written is in tests/README.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
RESULTS = TESTS.parent / ".cache/matrix.json"
sys.path.insert(0, str(TESTS))

from harness import coverage, matrix, play, releases, runners, trace  # noqa: E402
from harness.scenario import LANGUAGES, REAL_LANGUAGES, BadScenario, Scenario, load_all  # noqa: E402
from real.install import InstallFailed, NoPython  # noqa: E402


def say(text: str) -> None:
    print(f"scenarios: {text}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", help="rust,python,python-sync,node or some of them")
    parser.add_argument("--real", metavar="VERSIONS", help="play tests/real/cases with these kimi-cli releases")
    parser.add_argument("--matrix", action="store_true", help="all releases, or those of --real, as a table")
    parser.add_argument("--add", action="store_true", help="with --matrix: on top of what earlier runs have found")
    parser.add_argument("--at-once", type=int, default=play.AT_ONCE, help="how many real agents run at once")
    parser.add_argument("--only", action="append", default=[], help="part of a name; may be repeated")
    parser.add_argument("--update", action="store_true", help="write 'expect' of scripted scenarios anew")
    parser.add_argument("--python", help="the interpreter for the Python runner; this one if left out")
    parser.add_argument("--show", action="store_true", help="print the traces also of what passes")
    parser.add_argument("--keep", action="store_true", help="leave the cases' directories behind")
    chosen = parser.parse_args()
    if chosen.matrix and not chosen.real:
        chosen.real = ",".join(releases.versions())
    default = REAL_LANGUAGES if chosen.real else LANGUAGES
    chosen.languages = [name.strip() for name in chosen.languages.split(",")] if chosen.languages else list(default)
    for name in chosen.languages:
        if name not in LANGUAGES:
            parser.error(f"no such language: {name}")
    if chosen.real and chosen.update:
        parser.error("what real cases expect is written by hand: --update is for scripted ones")
    return chosen


def untouched(scenarios: list[Scenario], plays: list[play.Play]) -> list[str]:
    """What no scenario with either agent has to do with."""
    traces = [outcome.lines for one in plays for outcome in one.outcomes.values()]
    package = TESTS.parent / "bindings-python/python/kimi_agent"
    return coverage.untouched(package, scenarios + load_all(TESTS / "real/cases"), traces)


def tabulate(results: matrix.Results) -> None:
    scenarios = load_all(TESTS / "real/cases")
    matrix.write(RESULTS, results)
    (TESTS.parent / "docs/compatibility.md").write_text(matrix.document(results, scenarios), "utf-8")
    print(matrix.text(matrix.table(results, scenarios)))
    say("wrote docs/compatibility.md")


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
    # Resolved, because an agent reports the directory under its real path.
    scratch = Path(tempfile.mkdtemp(prefix="scenarios-")).resolve()
    try:
        if chosen.real:
            versions = [version.strip() for version in chosen.real.split(",")]
            plays = play.play_real(scenarios, versions, commands, scratch, say, chosen.at_once)
        else:
            plays = play.play_scripted(scenarios, commands, scratch, say)
    finally:
        play.clear(scratch, chosen.keep, say)
    counts = {"pass": 0, "FAIL": 0, "unsupported": 0, "skip": 0}
    results = matrix.read(RESULTS) if chosen.add else {}
    for one in plays:
        if chosen.update and play.update(one, chosen.languages):
            say(f"wrote {one.scenario.path.relative_to(TESTS.parent)}")
        verdict = play.judge(one, chosen.languages)
        counts[verdict.status] += 1
        if chosen.matrix:
            matrix.add(results, verdict, chosen.languages)
        reasons = sorted(set(one.skips.values()))
        missing = one.missing
        note = f"  [{missing.about}: since {missing.since}]" if missing else ""
        note += f"  [not in {', '.join(one.skips)}: {'; '.join(reasons)}]" if one.skips else ""
        print(f"{verdict.status}  {one.title}{note}")
        for language, outcome in one.outcomes.items() if chosen.show else ():
            print(f"  the trace in {language}:")
            for line in outcome.lines:
                print(f"    {trace.compact(line)}")
        for complaint in verdict.complaints:
            print("  " + complaint.replace("\n", "\n  "))
    if not chosen.real and not chosen.only and set(chosen.languages) == set(LANGUAGES):
        missing = untouched(scenarios, plays)
        counts["FAIL" if missing else "pass"] += 1
        print(f"{'FAIL' if missing else 'pass'}  everything public is touched by a scenario")
        for name in missing:
            print(f"  {name}")
    say(f"{len(plays)} scenarios in {time.monotonic() - started:.0f} s")
    if chosen.matrix:
        tabulate(results)
    without = f", {counts['unsupported']} unsupported" if counts["unsupported"] else ""
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    print(f"{counts['pass']} passed, {counts['FAIL']} failed{without}{skipped}")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BadScenario, runners.RunnerMissing, NoPython, InstallFailed) as error:
        say(str(error))
        print("0 passed, 1 failed")
        sys.exit(1)
