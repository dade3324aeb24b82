"""Gives each parser of foreign text 1 MB of its worst texts, and counts what they take.

    inputs.py --program target/debug/worst-inputs                     the memory
    inputs.py --program target/release/worst-inputs --valgrind PATH   the instructions, too
    inputs.py … --only policy                                         some of the parsers

Neither depends on how fast or how busy the machine is. docs/evidence/security.md lists the parsers with their limits.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECURITY = Path(__file__).resolve().parents[2] / "docs/evidence/security.md"
SIZE = 1 << 20
# Beyond a few times its own size, a text may take this memory.
MEMORY = (64 << 20) + 4 * SIZE
# A part of JSON takes 72 bytes, half as much again while a list grows, and can be two bytes of text.
DECODED = 54 * SIZE
# These have no text that is not decoded first.
OF_JSON = ("arguments of a policy",)
# 50 ms of a processor that executes five instructions in a nanosecond.
INSTRUCTIONS = 250_000_000
# A decision takes less than a millisecond.
OF_RULES = "decisions by 10,000 rules"
OF_DECISION = 3_000_000
# Its text is the name of a case.
CASE = 100
# These have a thread of their own, and ten times the time.
APART = ("text of recordings, for secrets and paths", "recordings", "values in an answer's text")


def parsers(program: str) -> dict[str, int]:
    """The parsers, and how many texts each has."""
    lines = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return {name: int(count) for name, _, count in (line.partition("\t") for line in lines)}


def memory(program: str, name: str, text: int) -> int:
    """The largest memory during a call."""
    argv = [program, name, str(text), str(SIZE)]
    return int(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout)


def instructions(valgrind: str, program: str, name: str, text: int) -> int:
    """How many instructions a call takes."""
    counts = []
    for size in (0, CASE if name == OF_RULES else SIZE):
        tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"]
        argv = [valgrind, *tool, program, name, str(text), str(size)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        collected = re.search(r"Collected : (\d+)", done.stdout)
        if done.returncode or not collected:
            raise SystemExit(f"{name} {text}: counting failed, exit {done.returncode}:\n{done.stdout}")
        counts.append(int(collected[1]))
    return counts[1] - counts[0]


def main() -> int:
    """0, or 1 if a text takes too much."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", required=True)
    options.add_argument("--valgrind")
    options.add_argument("--only", default="", help="parsers whose names contain this")
    args = options.parse_args()
    found = parsers(args.program)
    documented = SECURITY.read_text("utf-8")
    wrong = [f"{name}: docs/evidence/security.md has no row" for name in found if f"| {name} |" not in documented]
    texts = [(name, text) for name, count in found.items() if args.only in name for text in range(count)]
    with ThreadPoolExecutor(2) as pool:
        peaks = list(pool.map(lambda each: memory(args.program, *each), texts))
        counts = list(
            pool.map(lambda each: instructions(args.valgrind, args.program, *each) if args.valgrind else 0, texts)
        )
    for (name, text), peak, count in zip(texts, peaks, counts, strict=True):
        print(f"{name}, text {text}: {peak:,} bytes" + (f", {count:,} instructions" if args.valgrind else ""))
        memory_allowed = MEMORY + (DECODED if name in OF_JSON else 0)
        if peak > memory_allowed:
            wrong.append(f"{name}, text {text}: {peak:,} bytes, at most {memory_allowed:,} are allowed")
        allowed = INSTRUCTIONS * 10 if name in APART else OF_DECISION if name == OF_RULES else INSTRUCTIONS
        if count > allowed:
            wrong.append(f"{name}, text {text}: {count:,} instructions, at most {allowed:,} are allowed")
    for line in wrong:
        print(f"FAILED {line}")
    print(f"{len(texts)} texts of {len(found)} parsers, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
