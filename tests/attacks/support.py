"""Hosts, agents and limits for the attacks."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness import runners

__all__ = ["DEADLINE", "LANGUAGES", "Host", "gone", "limited", "scripted", "shared_folder"]

HERE = Path(__file__).resolve().parent
LANGUAGES = ("python", "python-sync", "node")
DEADLINE = 120.0
"""Nothing takes that long; waiting ends there, so that a test fails instead of hanging."""
COMMANDS = {
    "python": [sys.executable, str(HERE / "host.py"), "--api", "async"],
    "python-sync": [sys.executable, str(HERE / "host.py"), "--api", "sync"],
    "node": ["node", "--expose-gc", str(HERE / "host.mjs")],
}


class Host:
    """A program that executes operations with the SDK."""

    def __init__(self, language: str, folder: Path, prefix: Sequence[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [*prefix, *COMMANDS[language]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, cwd=folder, env={**os.environ, **env},
        )  # fmt: skip
        self.pid = self.process.pid
        self.stderr = ""
        self._rows: queue.Queue[str | None] = queue.Queue()
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._read, self._read_stderr)]
        for thread in self._threads:
            thread.start()
        assert self._answer() == {}

    def _read(self) -> None:
        assert self.process.stdout
        for row in self.process.stdout:
            self._rows.put(row)
        self._rows.put(None)

    def _read_stderr(self) -> None:
        assert self.process.stderr
        for row in self.process.stderr:
            self.stderr += row

    def _answer(self) -> dict[str, Any]:
        row = self._rows.get(timeout=DEADLINE)
        if row is None:
            self._threads[1].join(DEADLINE)
            raise AssertionError(f"the host ended with {self.process.wait()}:\n{self.stderr}")
        answer: dict[str, Any] = json.loads(row)
        return answer

    def tell(self, op: str, **arguments: Any) -> None:
        """Tells it to do something, and does not wait."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()

    def do(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Has it do something; returns what came of it."""
        self.tell(op, **arguments)
        return self._answer()

    def end(self) -> int:
        """Ends it as programs end; returns its exit code."""
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for thread in self._threads:
            thread.join(DEADLINE)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@cache
def _agent() -> Path:
    given = os.environ.get("KIMI_SCRIPTED_AGENT")
    return Path(given) if given else runners.built("kimi-scripted-agent")


def scripted(folder: Path, script: Any) -> list[str]:
    """The command line of an agent that follows a script."""
    path = folder / f"script-{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(script), "utf-8")
    path.chmod(0o644)
    return [str(_agent()), str(path)]


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that every user may write to, with the scripted agent in it."""
    folder = Path(tempfile.mkdtemp(prefix="attacks-"))
    try:
        folder.chmod(0o777)
        shutil.copy(_agent(), folder / "agent")
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def limited(pid: int, kind: int, value: int) -> Iterator[None]:
    """Takes a resource from a process meanwhile."""
    soft, hard = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (value, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, kind, (soft, hard))


def gone(pid: int) -> bool:
    """Waits until a process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], DEADLINE)[0])
    finally:
        os.close(descriptor)


def kill(pid: int) -> None:
    """Ends a process that a host could not end."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
