#!/usr/bin/env python3
"""Counts how programs end that exit while threads of a Rust runtime enter Python.

    run.py [EXITS]     builds the crate in this folder with cargo, and leaves the interpreter EXITS times in each way

The Python that runs this file is the Python that is tested. The results are in
docs/explanation/decisions/no-foreign-threads-in-python.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
HANG = 20
# How a program leaves the interpreter while events are under way.
WAYS = {
    "futures, asyncio.run returns": """
async def main():
    tasks = [asyncio.create_task(read()) for _ in range(8)]
    await asyncio.sleep(0.02)
asyncio.run(main())
""",
    "futures, the loop is not closed": """
loop = asyncio.new_event_loop()
tasks = [loop.create_task(read()) for _ in range(8)]
loop.run_until_complete(asyncio.sleep(0.02))
""",
    "calls from the runtime's threads": """
seen = []
for _ in range(8):
    foreign_threads.call_for_each_event(lambda: seen.append(1))
time.sleep(0.02)
""",
}
PRELUDE = """
import asyncio, sys, time
import foreign_threads

async def read():
    while True:
        await foreign_threads.next_event()
"""


def outcome(program: str, folder: str) -> str:
    """How one program ends."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + program],
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            timeout=HANG,
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0 and not done.stderr.strip():
        return "ends well"
    for sign in ("Fatal Python error", "panicked"):
        if sign in done.stderr:
            return f"exit code {done.returncode}, {sign}"
    return f"exit code {done.returncode}"


def main() -> None:
    exits = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    subprocess.run(["cargo", "build", "-q", "--manifest-path", HERE / "Cargo.toml"], check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "debug"
    built = next(target.glob("libforeign_threads.[sd][oy]*"))
    print(f"Python {sys.version.split()[0]}, {exits} exits each")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "foreign_threads.abi3.so").symlink_to(built)
        for way, program in WAYS.items():
            for told, count in Counter(outcome(program, folder) for _ in range(exits)).most_common():
                print(f"{way}: {count} × {told}", flush=True)


main()
