#!/usr/bin/env python3
"""Plays random programs through the SDK in each language, and shrinks what fails to a scenario.

    tests/explore/run.py                            what CI plays: 115 programs of a fixed seed
    tests/explore/run.py --minutes 60               one seed after the other for an hour; --seed says the first
    tests/explore/run.py --seed 7 --kind racy       the racy programs of one seed again
    tests/explore/run.py --seed 7 --kind racy --number 31 --times 9   one program, again and again

tests/explore/README.md says what is played and what fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from harness import runners, usage  # noqa: E402
from harness.scenario import LANGUAGES  # noqa: E402

from explore.checks import Complaint, complaints  # noqa: E402
from explore.explore import Failure, explore  # noqa: E402
from explore.player import LIMIT, Languages  # noqa: E402
from explore.programs import Program  # noqa: E402

KINDS = {"exact": 50, "racy": 25, "messages": 20, "acp": 20}
"""How many programs of each kind a seed has."""
ENOUGH = 5
"""So many failures end a seed."""
AT_ONCE = 3
"""How many programs are played at a time. Many of them wait for a deadline."""


def say(text: str) -> None:
    print(f"explore: {text}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, help="play more seeds for as long; a random first one if none is given"
    )
    parser.add_argument("--kind", choices=KINDS, help="only one kind of programs")
    parser.add_argument("--number", type=int, help="only this program of the seed; takes --kind")
    parser.add_argument("--times", type=int, default=1, help="how often to play it")
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument(
        "--found", type=Path, default=TESTS.parent / ".cache/explore", help="where scenarios are written"
    )
    return parser.parse_args()


class Judge:
    """Plays programs, and once one has failed, the smaller ones only in the languages that it takes."""

    def __init__(self, languages: Languages, names: list[str]) -> None:
        self.played = 0
        self._languages = languages
        self._names = names

    def __call__(self, program: Program) -> list[Complaint]:
        self.played += 1
        found = complaints(program, self._languages.play(program.scenario, program.languages(self._names)))
        if found:
            self._names = [name for name in self._names if name in found[0].languages]
            self._languages.hurry()
        return found


def play_seed(chosen: argparse.Namespace, seed: int, lanes: list[Languages]) -> Counter[str]:
    """Plays the programs of a seed, prints what fails, and counts what passed and failed."""
    counts: Counter[str] = Counter()
    started = time.monotonic()
    waiting = numbers(chosen)
    lock = threading.Lock()

    def play(languages: Languages) -> None:
        while counts["failed"] < ENOUGH:
            with lock:
                kind, number = next(waiting, ("", 0))
            if not kind:
                return
            failure = explore(seed, kind, number, Judge(languages, chosen.languages.split(",")))
            with lock:
                counts["failed" if failure else "passed"] += 1
                if failure:
                    languages.hurry(LIMIT)
                    again = f"--seed {seed} --kind {kind} --number {number}"
                    print(described(failure, again, chosen.found), flush=True)

    runners.parallel([partial(play, languages) for languages in lanes], len(lanes))
    say(f"seed {seed}: {counts.total()} programs in {time.monotonic() - started:.0f} s")
    return counts


def numbers(chosen: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """The kinds and numbers of the programs that are to be played."""
    for kind in [chosen.kind] if chosen.kind else KINDS:
        for number in range(KINDS[kind]) if chosen.number is None else [chosen.number] * chosen.times:
            yield kind, number


def described(failure: Failure, again: str, folder: Path) -> str:
    """The failure, with the scenario, which is written to a file."""
    name = "explored_" + "_".join(again.split()[1::2])
    scenario = {**failure.program.scenario, "name": name}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(text(scenario), "utf-8")
    often = "" if failure.steady else ", but not each time it is played"
    wrong = "\n".join(map(str, failure.complaints))
    return f"FAIL  {name}{often}\n{wrong}\n{path}:\n{text(scenario)}again: tests/explore/run.py {again}"


def text(scenario: dict[str, object]) -> str:
    """A scenario as a file has it."""
    program = ",\n".join(f"    {json.dumps(op)}" for op in scenario["program"])  # type: ignore[attr-defined]
    head = {key: value for key, value in scenario.items() if key != "program"}
    return json.dumps(head, indent=2)[:-2] + f',\n  "program": [\n{program}\n  ]\n}}\n'


def main() -> int:
    chosen = arguments()
    usage.chosen("explore", "--languages", chosen.languages, LANGUAGES)
    usage.needs_package("explore")
    until = time.monotonic() + 60 * (chosen.minutes or 0)
    counts: Counter[str] = Counter()
    commands = {language: runners.command(language) for language in chosen.languages.split(",")}
    seed = chosen.seed
    with contextlib.ExitStack() as stack:
        lanes = [stack.enter_context(Languages(commands)) for _ in range(AT_ONCE)]
        while seed == chosen.seed or time.monotonic() < until:
            counts.update(play_seed(chosen, seed, lanes))
            seed += 1
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(usage.reported("explore", main))
