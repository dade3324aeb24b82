"""Plays scenarios through the Python package: `runner.py [--api=sync] CASE.json …`. `tests/README.md` has the format.

The trace goes to stdout, one JSON object a line. What is wrong with a scenario itself is a line, too:
`{"error": "runner_problem", "message": …}`. With `--api=sync` (or `SCENARIO_API=sync`) the same program goes through
the blocking API. With `SCENARIO_TOUCHED=FILE` the names of the package that were used are written there.

With `-` in place of the files, each line of stdin names a case, and `{"done": name}` ends its trace.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

from apis import Api, Blocking, Coroutines
from output import print_line
from program import Player, Problem, read_case
from touched import watch

# Longer than any scenario takes, even on a machine that does much else. In seconds.
WATCHDOG = float(os.environ.get("SCENARIO_WATCHDOG", "120"))
# The time of the watchdog to end the case; after that the whole process is killed.
GRACE = 30.0


async def play(player: Player) -> None:
    """One scenario, from its first operation to the closing of what it left open."""
    try:
        for op in player.program:
            try:
                await player.step(op)
            except Problem as problem:
                print_line({"op": op.get("op"), "error": "runner_problem", "message": str(problem)})
    finally:
        await player.finish()


def run(path: str, api: Api) -> str:
    """Plays the scenario of a file, and returns its name."""
    case = read_case(Path(path))
    print_line({"case": case["name"]})
    # The watchdog is Python, too: a defect may keep it from running. This needs no lock of the interpreter's.
    faulthandler.dump_traceback_later(WATCHDOG + GRACE, exit=True)
    try:
        api.run(play(Player(case, api)), WATCHDOG)
    except Problem as problem:
        print_line({"error": "runner_problem", "message": str(problem)})
    finally:
        faulthandler.cancel_dump_traceback_later()
    return str(case["name"])


def main() -> int:
    """Exits with 2 if the files are not scenarios."""
    api: Api = Blocking() if os.environ.get("SCENARIO_API") == "sync" else Coroutines()
    files: list[str] = []
    for argument in sys.argv[1:]:
        if argument == "--api=sync":
            api = Blocking()
        elif argument == "--api=async":
            api = Coroutines()
        else:
            files.append(argument)
    if not files:
        print_line({"error": "runner_problem", "message": "usage: runner.py [--api=sync] CASE.json …"})
        return 2
    if os.environ.get("SCENARIO_TOUCHED"):
        watch(os.environ["SCENARIO_TOUCHED"])
    streamed = files == ["-"]
    for path in (line.rstrip("\n") for line in sys.stdin) if streamed else files:
        try:
            name = run(path, api)
            if streamed:
                print_line({"done": name})
        except (OSError, ValueError, KeyError) as error:
            print_line({"error": "runner_problem", "message": f"{path}: {error!r}"})
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
