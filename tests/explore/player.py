"""Plays programs in all languages: one runner process a language, which lives as long as it works."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import play, trace
from harness.runners import Outcome
from harness.scenario import fill

# Some seconds of deadlines are in a program; the rest is patience with a busy machine.
LIMIT = 150.0
HURRY = 60.0
# The time for what a session leaves to the background, after the program has ended.
BACKGROUND = 60.0
LOOK = 0.01
# Log lines about the agent are none of these; Node's package shows them as warnings of the process.
_ALARMING = re.compile(r"(?<!KimiAgent)Warning|never (awaited|retrieved)|[Uu]nhandled|Exception ignored|panicked")
# Warnings become failures.
STRICT = {"PYTHONWARNINGS": "error", "NODE_OPTIONS": "--unhandled-rejections=strict"}


class Runner:
    """The runner of one language, started again after a program that has broken it."""

    def __init__(self, argv: list[str], limit: float = LIMIT) -> None:
        self.limit = limit
        self._argv = argv
        self._process: subprocess.Popen[bytes] | None = None
        self._rows: queue.Queue[bytes] = queue.Queue()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 -- it lives as long as the runner
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def play(self, case: Path) -> Outcome:
        """Plays the scenario of a file and reports what it printed, and what it left running."""
        process = self._process or self._start()
        outcome = Outcome()
        with contextlib.suppress(BrokenPipeError):
            assert process.stdin
            process.stdin.write(f"{case}\n".encode())
            process.stdin.flush()
        outcome.problem = self._read(process, outcome.lines) or _left(process.pid)
        outcome.stderr = self._said()
        if not outcome.problem and _ALARMING.search(outcome.stderr):
            outcome.problem = "the runner wrote a warning to stderr"
        if outcome.problem:
            self.stop()
        return outcome

    def stop(self) -> None:
        """Ends the runner."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._folder:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._rows = queue.Queue()
        self._said()
        # What a killed program leaves in its folder for temporary files goes with this one.
        self._folder = tempfile.TemporaryDirectory(prefix="explore-", ignore_cleanup_errors=True)
        process = subprocess.Popen(
            [*self._argv, "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            env={**os.environ, **STRICT, "TMPDIR": self._folder.name}, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=_forward, args=(process.stdout, self._rows), daemon=True).start()
        self._process = process
        return process

    def _read(self, process: subprocess.Popen[bytes], lines: list[trace.Line]) -> str | None:
        """Reads the trace to its end. Returns the reason if it has no end."""
        until = time.monotonic() + self.limit
        while True:
            try:
                row = self._rows.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return f"a wait does not end: the program still ran after {self.limit:.0f} s"
            if not row:
                return f"the runner ended with {process.wait()}"
            line: trace.Line = json.loads(row)
            if "done" in line:
                return None
            if "case" not in line:
                lines.append(line)

    def _said(self) -> str:
        """The runner's stderr since the last call."""
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace")
        self._stderr.seek(0)
        self._stderr.truncate()
        return text


class Languages:
    """The runners of all languages, which play each program at the same time."""

    def __init__(self, commands: Mapping[str, list[str]]) -> None:
        self._runners = {language: Runner(argv) for language, argv in commands.items()}
        self._folder = tempfile.TemporaryDirectory(prefix="explore-")
        self._count = 0

    def __enter__(self) -> Languages:
        return self

    def __exit__(self, *_: object) -> None:
        for runner in self._runners.values():
            runner.stop()
        self._folder.cleanup()

    def play(self, scenario: dict[str, Any], languages: list[str]) -> dict[str, Outcome]:
        """Plays the scenario in these languages. Traces are normalised as those of scenarios are."""
        self._count += 1
        outcomes: dict[str, Outcome] = {}

        def job(language: str) -> None:
            folder = Path(self._folder.name).resolve() / f"{self._count}-{language}"
            folder.mkdir()
            case = play.case_file(folder.with_suffix(".case"), fill(scenario, {"dir": str(folder)}))
            outcome = self._runners[language].play(case)
            outcome.lines = trace.normalise(outcome.lines, str(folder))
            outcomes[language] = outcome

        threads = [threading.Thread(target=job, args=(language,)) for language in languages]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {language: outcomes[language] for language in languages}

    def hurry(self, limit: float = HURRY) -> None:
        """Waits no longer than this for programs that follow, which are tries to make a failure smaller."""
        for runner in self._runners.values():
            runner.limit = limit


def _forward(pipe: Any, rows: queue.Queue[bytes]) -> None:
    for row in pipe:
        rows.put(row)
    rows.put(b"")


def _left(pid: int) -> str | None:
    """Waits until the runner has no agent any more. Returns which are left."""
    until = time.monotonic() + BACKGROUND
    while agents := _agents(pid):
        if time.monotonic() > until:
            return f"{BACKGROUND:.0f} s after the program there are still processes: {'; '.join(agents)}"
        time.sleep(LOOK)
    return None


def _agents(pid: int) -> list[str]:
    """The children of a process that are agents, by their command line, and those that nobody has reaped."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if "scripted-agent" in line or state == "Z":
                    found.append(f"{folder.name} {state} {line}")
    return found
