#!/usr/bin/env python3
"""Counts the instructions of the core's hot paths, and fails if one has become dearer.

    count.py               compares with baseline.json
    count.py --update      writes baseline.json
    count.py --only turn   some of the paths

The program `instruction-paths` walks a path 200 times and 1,200 times under callgrind; the difference of the two
counts, divided by 1,000, is what is told. Counts do not depend on how fast or how busy the machine is. They do depend
on the compiler, whose version is kept with the baseline.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline.json"
FEW, MANY = 200, 1200
# Hash seeds and the like move a count by some tenths of a percent.
TOLERANCE = 0.03
# Another compiler inlines otherwise: only what is much dearer is told from that.
OTHER_COMPILER = 0.25


def compiler() -> str:
    """The version of rustc, without its date."""
    told = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return " ".join(told.split()[:2])


def instructions(valgrind: str, program: str, path: str, times: int) -> int:
    """How many a whole run takes."""
    argv = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", program, path, str(times)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", done.stdout)
    if done.returncode or not collected:
        raise SystemExit(f"counting {path!r} failed, exit {done.returncode}:\n{done.stdout}")
    return int(collected[1])


def count(valgrind: str, program: str, path: str) -> int:
    """How many the path takes once."""
    few, many = (instructions(valgrind, program, path, times) for times in (FEW, MANY))
    return round((many - few) / (MANY - FEW))


def judge(counted: dict[str, int], baseline: dict[str, int], tolerance: float) -> tuple[list[str], list[str]]:
    """The table's lines, and what is wrong."""
    lines, wrong = [], []
    for path, now in counted.items():
        before = baseline.get(path)
        if before is None:
            wrong.append(f"{path}: is not in the baseline; record it with --update")
            continue
        change = now / before - 1
        lines.append(f"{path:<36} {before:>8,} {now:>8,} {change:+8.1%}")
        if now < before * (1 - TOLERANCE):
            lines.append(f"  {path} has become cheaper: record it with --update, or it may become dearer again")
        if now > before * (1 + tolerance):
            wrong.append(f"{path}: {now:,} instructions, {change:+.1%} over the baseline of {before:,}")
    return lines, wrong


def main() -> int:
    """0, or 1 if a path has become dearer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="instruction-paths, built for release")
    parser.add_argument("--valgrind", default="valgrind")
    parser.add_argument("--only", default="", help="paths whose names contain this")
    parser.add_argument("--update", action="store_true", help="records what is counted as the baseline")
    args = parser.parse_args()
    names = subprocess.run([args.program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    paths = [name for name in names if args.only in name]
    if not paths:
        raise SystemExit(f"no path's name contains {args.only!r}; there are {', '.join(names)}")
    with ThreadPoolExecutor(2) as pool:
        counted = dict(zip(paths, pool.map(lambda path: count(args.valgrind, args.program, path), paths), strict=True))
    baseline: dict[str, Any] = {"rustc": compiler(), "paths": {}}
    if BASELINE.exists():
        baseline = json.loads(BASELINE.read_text("utf-8"))
    if args.update:
        kept = {name: baseline["paths"].get(name) for name in names} | counted
        told = {"rustc": compiler(), "paths": {name: kept[name] for name in names if kept[name] is not None}}
        BASELINE.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
        print(f"recorded {len(counted)} paths; bench/page.py writes them into docs/evidence/performance.md")
        return 0
    tolerance = TOLERANCE
    if compiler() != baseline["rustc"]:
        tolerance = OTHER_COMPILER
        print(f"NOTE: the baseline is {baseline['rustc']}'s, this is {compiler()}: {tolerance:.0%} more are allowed")
    lines, wrong = judge(counted, baseline["paths"], tolerance)
    if not args.only:
        wrong += [f"{path}: is in the baseline only" for path in baseline["paths"] if path not in names]
    print(f"{'instructions':<36} {'before':>8} {'now':>8}", *lines, sep="\n")
    for line in wrong:
        print(f"FAILED {line}")
    print(f"{len(counted) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
