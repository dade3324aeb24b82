#!/usr/bin/env python3
"""Runs targets of the Makefile side by side, and ends with what each said last, what failed, and the slowest cases.

    tools/proof.py test-rust test-docs     runs these targets, after what is built and fetched for all
    tools/proof.py --at-once 1 lint        one target at a time

What a target prints appears when it has ended, in one piece. `.cache/durations.json` has the seconds of each target and
of each case of the last run. The exit code is 1 if a target failed, or if it left something behind: a process, a git
worktree, a temporary file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import left_behind  # noqa: E402

DURATIONS = ROOT / ".cache/durations.json"
SLOWEST = 20
# Many targets wait more than they compute.
AT_ONCE = 5

# Several targets need these, and no two of them make the same. Each has those that must have ended before. `programs`
# compiles everything, so that no target waits for the compilers of another.
FIRST: dict[str, tuple[str, ...]] = {
    "setup": (),
    "programs": ("setup",),
    "fetch": ("setup",),
    "build": ("programs",),
    "docs-rust": ("programs",),
}
# The targets that take less; the others take all of FIRST.
EARLY = {"lint-prose": ("fetch",), "test-inspector": ("fetch",), "test-rust": ("programs", "fetch")}
# The programs are there, and cargo need not be asked.
BUILT = {"BUILT": "1"}
OWN_VARIABLES = {
    # Nothing is compiled a second time in a run.
    "CARGO_INCREMENTAL": "0",
    "CARGO_TERM_COLOR": "never",
    # pytest says what each test took that took as long. In seconds.
    "PYTEST_ADDOPTS": "--durations=0 --durations-min=0.1",
}

# In a proof with lint, clippy compiles our crates, as it does for `cargo clippy`: it finds what it finds as they are
# built, and nothing is compiled for lint alone. As this is compiled for the proof alone, it has no lines for
# backtraces, which take a tenth of the time.
LINTING = {
    "RUSTC_WORKSPACE_WRAPPER": "clippy-driver",
    "CLIPPY_ARGS": "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    "CARGO_PROFILE_DEV_DEBUG": "none",
}

# A case and its seconds, as the runners print them: pytest, ours, cargo nextest, and Node (milliseconds).
CASES = [
    re.compile(r"^(?P<seconds>[\d.]+)s (?:call|setup|teardown) +(?P<case>\S.*)$"),
    re.compile(r"^(?:pass|declared|unsupported)  (?P<case>.*?)  (?P<seconds>[\d.]+) s\b"),
    re.compile(r"^ +(?:PASS|SLOW|LEAK) \[ *(?P<seconds>[\d.]+)s\] +(?:\([ \d/]+\) +)?(?P<case>\S.*)$"),
    re.compile(r"^\s*✔ (?P<case>.*) \((?P<ms>[\d.]+)ms\)$"),
]
CLOSING = re.compile(
    r"^(test result:|\s*Summary \[|[0-9]+ passed|=+ .*(passed|failed)|# (tests|pass|fail) |ℹ (tests|pass|fail) )"
)
FAILURES = re.compile(r"FAILED|^not ok|^✖|^ +FAIL \[|panicked at|^(FAIL|ERROR|error)|^fail |Error [0-9]+$")


@dataclass
class Step:
    """A target, and what came of it."""

    target: str
    # Its own folder for temporary files, so that it is known who left what is there.
    folder: str = ""
    output: str = ""
    seconds: float = 0.0
    # What its processes computed, in seconds of one processor. The load of the machine does not matter to it.
    computed: float = 0.0
    failed: bool = False

    def cases(self) -> Iterator[tuple[str, float]]:
        for line in self.output.splitlines():
            for pattern in CASES:
                if found := pattern.match(line):
                    parts = found.groupdict()
                    took = float(parts["seconds"]) if "seconds" in parts else float(parts["ms"]) / 1000
                    yield f"{self.target}: {parts['case']}", took
                    break

    def closing(self) -> list[str]:
        return [line for line in self.output.splitlines() if CLOSING.match(line)][-12:]

    def failures(self) -> list[str]:
        """The lines that say what failed, with some of what follows them."""
        lines = self.output.splitlines()
        near = {at + more for at, line in enumerate(lines) if FAILURES.search(line) for more in range(7)}
        return [line for at, line in enumerate(lines) if at in near][:80] or lines[-20:]


@dataclass
class Proof:
    """The targets of a run."""

    temporary: str
    make: str = "make"
    begun: list[Step] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, targets: list[str], at_once: int) -> None:
        """Runs at most so many targets at once, the first whose needs are met. After a failure in FIRST none begins."""
        waiting = list(targets)
        ended = {name for name in FIRST if name not in waiting}

        def ready() -> str | None:
            needs = {**dict.fromkeys(waiting, tuple(FIRST)), **EARLY, **FIRST}
            return next((target for target in waiting if ended.issuperset(needs[target])), None)

        def work() -> None:
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: not waiting or ready())
                    if not (target := ready()):
                        return
                    waiting.remove(target)
                    print(f"\n{target} begins", flush=True)
                self.step(target)
                with self.changed:
                    ended.add(target)
                    if any(step.target in FIRST for step in self.failed):
                        waiting.clear()
                    self.changed.notify_all()

        workers = [threading.Thread(target=work) for _ in range(at_once)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def step(self, target: str) -> None:
        step = Step(target)
        started = time.monotonic()
        with self.changed:
            step.folder = os.path.join(self.temporary, str(len(self.begun)))
            self.begun.append(step)
        os.mkdir(step.folder)
        with tempfile.TemporaryFile() as log:
            command = [self.make, "--no-print-directory", target]
            quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, cwd=ROOT, env={**environment(target), "TMPDIR": step.folder}, **quiet)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            log.seek(0)
            step.output = log.read().decode("utf-8", "replace")
        step.seconds = time.monotonic() - started
        step.computed = usage.ru_utime + usage.ru_stime
        step.failed = process.returncode != 0
        with self.changed:
            self.steps.append(step)
            print(
                f"{step.output}\n{target} {'FAILED' if step.failed else 'ended'} after {step.seconds:.0f} s", flush=True
            )

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.failed]


def environment(target: str) -> dict[str, str]:
    """The variables of a target. Those of an outer `make` are about that one."""
    outer = ("BUILT", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    kept = {name: value for name, value in os.environ.items() if name not in outer}
    return {**kept, **OWN_VARIABLES, **({} if target in FIRST else BUILT)}


def summary(steps: list[Step]) -> str:
    """The last lines of the runners, the durations, and the slowest cases."""
    rows = ["\n=== What each runner said last"]
    for step in steps:
        closing = step.closing()
        rows += [f"--- {step.target}", *closing] if closing else []
    rows.append("\n=== What each target took, and what its processes computed")
    slowest = sorted(steps, key=lambda step: -step.seconds)
    rows += [f"{step.seconds:6.0f} s {step.computed:6.0f} s  {step.target}" for step in slowest]
    cases = sorted((case for step in steps for case in step.cases()), key=lambda case: -case[1])
    rows.append(f"\n=== The slowest of {len(cases)} cases")
    rows += [f"{took:6.1f} s  {name}" for name, took in cases[:SLOWEST]]
    return "\n".join(rows)


def durations(steps: list[Step]) -> dict[str, dict[str, float]]:
    return {
        "targets": {step.target: round(step.seconds, 1) for step in steps},
        "cases": {name: took for step in steps for name, took in step.cases()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"targets at once ({AT_ONCE})")
    parser.add_argument("targets", nargs="+", metavar="TARGET")
    chosen = parser.parse_args()
    if chosen.at_once < 1:
        parser.error("--at-once is a number from 1 on")
    started = time.monotonic()
    DURATIONS.parent.mkdir(exist_ok=True)
    noted = DURATIONS.with_name("before.json")
    os.environ.update(left_behind.before(noted))
    if "lint" in chosen.targets:
        os.environ.update(LINTING)
    proof = Proof(os.environ["TMPDIR"], os.environ.get("MAKE", "make"))
    proof.run([*FIRST, *(target for target in chosen.targets if target not in FIRST)], chosen.at_once)
    print(summary(proof.steps))
    DURATIONS.write_text(json.dumps(durations(proof.steps), indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"\nall of it took {time.monotonic() - started:.0f} s; .cache/durations.json has the durations")
    for step in proof.failed:
        print(f"\n--- failures of {step.target}", *step.failures(), sep="\n")
    left = left_behind.after(noted)
    print("\n=== What the tests have left behind", *(left or ["nothing"]), sep="\n")
    for step in proof.steps:
        if any(f"{step.folder}{os.sep}" in sentence for sentence in left):
            print(f"{step.folder} is of {step.target}")
    subprocess.run(["rm", "-rf", "--", os.environ["TMPDIR"]], check=False)
    if proof.failed or left:
        print("\nfailed:", *(step.target for step in proof.failed), *(["left behind"] if left else []))
        return 1
    print("everything passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
