#!/usr/bin/env python3
"""Measures what sessions take and what they leave behind, in all three languages, against limits in bytes and counts.

    run.py                        what CI runs
    run.py --full                 the whole: 1,000 sessions in each way, 2 GB, a reader that takes 1 ms an event
    run.py --only slow --languages rust,node
    run.py --json FILE            also writes the figures

`tests/limits/README.md` says what is measured, and how.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import lifecycle
import memory
from harness import usage
from proc import Failure
from program import Machine

LANGUAGES = ("rust", "python", "node")


def main() -> int:
    """Prints the figures; 1 if a limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rust-program", type=Path, required=True, help="what cargo made of tests/limits/rust")
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", type=Path, help="where the figures go")
    arguments = parser.parse_args()
    languages = usage.chosen("limits", "--languages", arguments.languages, LANGUAGES)
    usage.needs("limits", arguments.rust_program, "node")
    cases = [case for case in [*memory.CASES, *lifecycle.CASES] if arguments.only in case.__name__]
    if not cases:
        names = ", ".join(case.__name__ for case in [*memory.CASES, *lifecycle.CASES])
        usage.stop("limits", f"no case has a name with {arguments.only!r}; there are {names}")
    usage.needs_package("limits")
    same_everywhere()
    figures: dict[str, dict[str, Any]] = {}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="limits-") as folder:
        machine = Machine(arguments.rust_program.resolve(), arguments.full, Path(folder))
        for case in cases:
            for language in languages:
                begun = time.monotonic()
                try:
                    measured = case(machine, language)
                    figures.setdefault(case.__name__, {})[language] = measured
                    said = ", ".join(f"{key} {shown(value)}" for key, value in measured.items())
                except Failure as failure:
                    failed += 1
                    said = f"FAILED: {failure}"
                except Exception:
                    failed += 1
                    said = f"FAILED: {traceback.format_exc()}"
                print(f"{case.__name__}, {language}: {said} ({time.monotonic() - begun:.1f} s)", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    passed = sum(len(by_language) for by_language in figures.values())
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def same_everywhere() -> None:
    """Sets what the figures would depend on from machine to machine, for this process and its programs."""
    # Allocators and runtimes take memory for each processor.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    # With huge pages, the first byte of a piece of memory takes 2 MiB. 41 is PR_SET_THP_DISABLE of linux/prctl.h.
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)


def shown(value: object) -> str:
    """A figure for people."""
    return f"{value:,}" if isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.exit(usage.reported("limits", main))
