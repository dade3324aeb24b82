#!/usr/bin/env python3
"""Plays the faults through the SDK in each language, and prints what came of each.

    tests/faults/run.py                                  all; also checks the table in docs/evidence/reliability.md
    tests/faults/run.py --select                         all in Rust; elsewhere of each family each outcome
    tests/faults/run.py --update                         writes that table
    tests/faults/run.py --only descriptors --show        what has "descriptors" in its name or family, with traces
    tests/faults/run.py --languages rust,node

After each fault a next session is opened in the same process, and has to work. tests/README.md says more.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from harness import play, runners, trace, usage  # noqa: E402
from harness.scenario import LANGUAGES  # noqa: E402

from faults import acp, ends, lines, outputs, shared, starts, table, web  # noqa: E402
from faults.fault import Fault, cleaned  # noqa: E402

Played = dict[str, runners.Outcome]
# So many in one process of a runner.
AT_A_TIME = 20
# Each fault names its own agent.
NO_OTHER = {"SCENARIO_EXECUTABLE": '["no-other-agent"]'}


def say(text: str) -> None:
    print(f"faults: {text}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", default=",".join(LANGUAGES), help="some of rust,python,python-sync,node")
    parser.add_argument("--only", action="append", default=[], help="part of a name or a family; may be repeated")
    parser.add_argument("--python", help="the interpreter for the Python runner; this one if left out")
    parser.add_argument("--select", action="store_true", help="a selection in all languages but Rust")
    parser.add_argument("--update", action="store_true", help="write the table into docs/evidence/reliability.md")
    parser.add_argument("--show", action="store_true", help="print the traces also of what passes")
    chosen = parser.parse_args()
    chosen.languages = chosen.languages.split(",")
    for name in chosen.languages:
        if name not in LANGUAGES:
            parser.error(f"no such language: {name}")
    return chosen


def everything(only: list[str]) -> list[Fault]:
    modules = (ends, lines, shared, outputs, starts, acp, web)
    faults = [fault for module in modules for fault in module.faults()]
    names = [fault.name for fault in faults]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise LookupError(f"two faults are called {', '.join(sorted(twice))}")
    return [one for one in faults if not only or any(word in one.name or word in one.family for word in only)]


def play_some(language: str, faults: list[Fault], agent: Path, command: list[str], scratch: Path, into: Played) -> None:
    """Plays faults that have the same variables, in one process."""
    # As Node and Python do by themselves; a program that does not is ended by the system where no file can be written.
    command = ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", *command]
    files = {}
    for fault in faults:
        folder = scratch / language / fault.name
        files[fault.name] = play.case_file(scratch / language / f"{fault.name}.case", fault.case(folder, agent))
    for name, outcome in runners.run(command, files, {**os.environ, **NO_OTHER, **dict(faults[0].env)}).items():
        outcome.lines = cleaned(trace.normalise(outcome.lines, str(scratch / language / name)))
        into[name] = outcome


def parts(faults: list[Fault]) -> Iterator[list[Fault]]:
    """The faults, as many as go into a process, with the same variables."""
    for env in sorted({fault.env for fault in faults}):
        chosen = [fault for fault in faults if fault.env == env]
        yield from (chosen[at : at + AT_A_TIME] for at in range(0, len(chosen), AT_A_TIME))


def selected(faults: list[Fault]) -> list[Fault]:
    """The first fault of each family that ends in its way."""
    return list({(fault.family, fault.expected()): fault for fault in reversed(faults)}.values())[::-1]


def complaints(fault: Fault, played: dict[str, Played], left_out: set[str]) -> list[str]:
    found = []
    for language, outcomes in played.items():
        outcome = outcomes.get(fault.name)
        if outcome is None and language in left_out:
            continue
        if outcome is None:
            found.append(f"{language}: the runner didn't play it")
            continue
        wrong = outcome.problem or fault.complaint(outcome.lines)
        if wrong:
            rows = "\n".join(f"      {trace.compact(line)[:400]}" for line in outcome.lines)
            found.append(f"{language}: {wrong}\n    the trace:\n{rows}\n    stderr:\n{outcome.stderr[-1000:]}")
    if found or not fault.calm:
        return found
    first, *others = [language for language in played if language not in left_out]
    for other in others:
        differs = trace.difference(
            fault.own(played[first][fault.name].lines), fault.own(played[other][fault.name].lines), (first, other)
        )
        if differs:
            found.append(f"{first} and {other} differ\n{differs[:4000]}")
    return found


def main() -> int:
    chosen = arguments()
    started = time.monotonic()
    faults = everything(chosen.only)
    if not faults:
        words = " or ".join(map(repr, chosen.only))
        usage.stop(
            "faults", f"no fault has {words} in its name or family; docs/evidence/reliability.md has the families"
        )
    say(f"{len(faults)} faults in {len({fault.family for fault in faults})} families")
    agent = runners.built("kimi-scripted-agent")
    commands = {language: runners.command(language, chosen.python) for language in chosen.languages}
    played: dict[str, Played] = {language: {} for language in commands}
    few = {fault.name for fault in selected(faults)} if chosen.select else {fault.name for fault in faults}
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        scratch = Path(folder).resolve()
        jobs = [
            partial(play_some, language, some, agent, command, scratch, played[language])
            for language, command in commands.items()
            for some in parts([fault for fault in faults if language == "rust" or fault.name in few])
        ]
        runners.parallel(jobs, play.PROCESSES)
    failed = 0
    for fault in faults:
        found = complaints(fault, played, set() if fault.name in few else set(played) - {"rust"})
        failed += bool(found)
        took = max(
            (outcomes[fault.name].seconds for outcomes in played.values() if fault.name in outcomes), default=0.0
        )
        print(f"{'FAIL' if found else 'pass'}  {fault.name}  {took:.2f} s")
        for language, outcomes in played.items() if chosen.show else ():
            print(f"  {language}:")
            for line in outcomes[fault.name].lines if fault.name in outcomes else ():
                print(f"    {trace.compact(line)[:600]}")
        for text in found:
            print("  " + text)
    traces = {language: {name: one.lines for name, one in outcomes.items()} for language, outcomes in played.items()}
    whole = {language: found for language, found in traces.items() if len(found) == len(faults)}
    sweeps = () if chosen.only else (*ends.swept(whole), *acp.swept(whole), *web.swept(whole))
    for wrong in (*outputs.contacted(), *sweeps):
        failed += 1
        print(f"FAIL  {wrong}")
    if not failed and whole:
        # The outcomes of the languages are equal: this has been judged above.
        rows = table.rows(faults, next(iter(whole.values())))
        print(table.text(rows))
        if not chosen.only:
            failed += table.stale(rows, len(faults), chosen.update, say)
    say(f"{time.monotonic() - started:.0f} s")
    print(f"{len(faults) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
