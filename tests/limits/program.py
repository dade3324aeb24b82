"""A program in one of the languages, and the agents that it drives."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import proc
from proc import HANG, Failure

__all__ = ["Fifo", "Machine", "Program", "Reports"]

HERE = Path(__file__).resolve().parent
# The longest operation there is: a reader that takes 1 ms for each of 200,000 events, on a loaded machine.
ANSWER = 1800.0


class Machine:
    """The paths and the amounts of a run."""

    def __init__(self, rust_program: Path, full: bool, folder: Path) -> None:
        self.full = full
        self.folder = folder
        self._commands = {
            "rust": [str(rust_program)],
            "python": [sys.executable, str(HERE / "python" / "program.py")],
            "node": ["node", "--expose-gc", str(HERE / "node" / "program.mjs")],
        }
        # Cargo puts both into one directory.
        self._scripted = [str(rust_program.with_name("kimi-scripted-agent"))]

    def start(self, language: str, **env: str) -> Program:
        """A program in this language."""
        return Program(self._commands[language], env)

    def scripted(self, name: str, script: Any) -> list[str]:
        """The scripted agent as an `executable`."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(script))
        return [*self._scripted, str(path)]

    def writer(self, acp: bool = False) -> list[str]:
        """The agent that writes much as an `executable`."""
        return [sys.executable, "-S", str(HERE / "agent.py"), *(["--acp"] if acp else [])]

    def many(self) -> list[str]:
        """An agent that has any number of sessions, as an `executable`."""
        return [sys.executable, "-I", "-S", str(HERE.parent / "faults/agents/many.py")]

    def held(self, fifo: Fifo, descendant: str, agent: list[str]) -> list[str]:
        """An agent with a descendant; both hold the pipe open."""
        return ["/bin/sh", str(HERE / "held.sh"), str(fifo.path), descendant, *agent]


class Program:
    """A program that does one operation after the other. Its temporary files go into a folder of its own."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="limits-")
        self.folder = Path(self._temporary.name)
        self._process = subprocess.Popen(
            # A session holds its working directory: the path of the clone must not count.
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
            env={**os.environ, "TMPDIR": str(self.folder), **env},
        )  # fmt: skip
        self.pid = self._process.pid

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._pipe(self._process.stdin).close()
        if kind is not None:
            self.kill()
        try:
            code = self._process.wait(HANG)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure("the program does not end") from None
        self._pipe(self._process.stdout).close()
        left = [path.name for path in self.folder.iterdir()]
        self._temporary.cleanup()
        if kind is None and (code or left):
            raise Failure(f"the program ended with {code} and left {left}")

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe
        return pipe

    def begin(self, op: str, **arguments: Any) -> None:
        """Has it begin an operation."""
        stdin = self._pipe(self._process.stdin)
        stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        stdin.flush()

    def end(self) -> dict[str, Any]:
        """The outcome of the operation."""
        stdout = self._pipe(self._process.stdout)
        # Answers are short, and there is one at a time: nothing is left in the buffer that select can't see.
        if not select.select([stdout], [], [], ANSWER)[0]:
            raise Failure("the program does not answer: an operation hangs")
        line = stdout.readline()
        if not line:
            raise Failure(f"the program is gone, with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failure(str(answer["error"]))
        return answer

    def do(self, op: str, **arguments: Any) -> dict[str, Any]:
        """An operation and what came of it."""
        self.begin(op, **arguments)
        return self.end()

    def kill(self) -> None:
        """As if it had crashed."""
        self._process.kill()

    def killed(self) -> None:
        """Kills it, which is how it is to end."""
        self.kill()
        self._process.wait()
        self._process.returncode = 0

    @contextlib.contextmanager
    def growth(self) -> Iterator[Callable[[], int]]:
        """The most by which its own memory grew. Pages of files do not count: the kernel loads code in large pieces."""
        code = proc.mapped_files(self.pid)
        before = proc.reset_peak(self.pid)

        def grown() -> int:
            return max(0, proc.peak(self.pid) - max(code, proc.mapped_files(self.pid)) - before)

        yield grown


class Fifo:
    """A pipe that agents and their descendants hold open: its end is the end of them all."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def all_gone(self, what: str) -> None:
        """Waits for that end."""
        # Nothing is written to it: it is readable only at its end, and only after the first writer has opened it.
        if not select.select([self._reader], [], [], HANG)[0]:
            raise Failure(f"{what}: an agent or a descendant of one is still there")
        os.close(self._reader)
        self.path.unlink()


class Reports:
    """The report of the agent that writes much."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "reports"
        os.mkfifo(self.path)
        # With an end of our own to write to, it has no end.
        self._pipe = os.fdopen(os.open(self.path, os.O_RDWR), "rb", buffering=0)
        self._changed = threading.Condition()
        self._all: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._pipe:
            with self._changed:
                self._all.append(json.loads(line))
                self._changed.notify_all()

    def last(self, what: str) -> dict[str, Any] | None:
        """The last report of this kind, if there is one."""
        with self._changed:
            return next((report for report in reversed(self._all) if report["what"] == what), None)

    def wait(self, *kinds: str) -> dict[str, Any]:
        """Waits for a report of one of these kinds, and gives the last one."""
        until = time.monotonic() + HANG
        with self._changed:
            while not any(report["what"] in kinds for report in self._all):
                if not self._changed.wait(until - time.monotonic()):
                    raise Failure(f"the agent tells nothing of {kinds}")
            return next(report for report in reversed(self._all) if report["what"] in kinds)

    def forget(self) -> None:
        """Ignores the reports so far."""
        with self._changed:
            self._all.clear()

    def standstill(self, program: Program) -> dict[str, Any]:
        """Waits until the agent can't go on because the program does not read on, and gives what it told last.

        That nothing happens, no event can tell: the agent tells when its pipe is full, and then the program must be
        seen to leave it so. Should that be seen too early, the test is less strict, and not wrong. An agent that comes
        to its end was not held up.
        """
        self.wait("blocked", "ended")

        def stands() -> bool:
            if self.last("ended"):
                return True
            blocked = self.last("blocked")
            if not blocked or not proc.pipe_is_full(blocked["pid"]):
                return False
            before = proc.bytes_read(program.pid)
            time.sleep(proc.LOOK)
            return proc.pipe_is_full(blocked["pid"]) and proc.bytes_read(program.pid) == before

        proc.eventually("the program does not stop reading", stands)
        if ended := self.last("ended"):
            raise Failure(f"the agent was not held up; it could write all of {ended['sent']} events")
        blocked = self.last("blocked")
        assert blocked
        return blocked
