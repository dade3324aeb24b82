#!/usr/bin/env python3
"""Counts the instructions of each way to decode a line: `cargo build --release`, then this. It needs valgrind."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "target/release/decoders"
WAYS = [
    "utf8",
    "skip",
    "hand",
    "envelope",
    "envelope2",
    "serde3",
    "serde2",
    "serde1",
    "sonic",
    "sonic1",
    "simd",
    "scanner",
]
FEW, MANY = 100, 600


def run(job: tuple[str, ...], times: int) -> int:
    """The instructions of a whole run."""
    way, protocol, *spaced = job
    argv = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        str(PROGRAM),
        way,
        protocol,
        str(times),
        *spaced,
    ]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if collected is None:
        raise SystemExit(done.stderr)
    return int(collected[1])


def count(job: tuple[str, ...]) -> int:
    """The instructions of one line."""
    return round((run(job, MANY) - run(job, FEW)) / (MANY - FEW))


def main() -> None:
    """Prints a table."""
    columns = [("wire",), ("wire", "spaced"), ("acp",), ("acp", "spaced")]
    jobs = [(way, *column) for way in WAYS for column in columns]
    with ThreadPoolExecutor(2) as pool:
        counted = dict(zip(jobs, pool.map(count, jobs), strict=True))
    print(f"{'':10}" + "".join(f"{' '.join(column):>14}" for column in columns))
    for way in WAYS:
        print(f"{way:10}" + "".join(f"{counted[(way, *column)]:14,}" for column in columns))


if __name__ == "__main__":
    main()
