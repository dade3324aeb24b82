"""Helpers of the tests of sessions."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterable, Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kimi_agent import Event, SessionOpening, TextPart, create_session
from kimi_agent.testing import scripted_agent

__all__ = [
    "DEADLINE",
    "HANGING",
    "LOOKUP",
    "children",
    "collect",
    "eventually",
    "gone",
    "interrupted",
    "newest_only",
    "oldest_and_newest",
    "open_session",
    "program",
    "read_until",
    "stopped",
    "texts",
    "told",
    "waited",
]

DEADLINE = 60.0
"""Nothing takes that long; waiting ends there, so that a test fails instead of hanging."""

newest_only = pytest.mark.skipif(
    sys.version_info < (3, 13), reason="for the time that it takes, on Python 3.13 and later only"
)
oldest_and_newest = pytest.mark.skipif(
    (3, 11) <= sys.version_info < (3, 13),
    reason="for the time that it takes, on Python 3.10, and on 3.13 and later only",
)

HANGING: list[dict[str, Any]] = [{"text": "On"}, {"wait_cancel": True}]
"""A turn that runs until it is cancelled."""

LOOKUP: dict[str, Any] = {"external_tool": {"id": "t1", "name": "lookup", "arguments": {"key": "a"}}}
"""A call of the program's tool."""


def open_session(*turns: Any, script: Mapping[str, Any] | None = None, **options: Any) -> SessionOpening:
    """`create_session` with an agent that follows a script of these turns."""
    return create_session(executable=scripted_agent({**(script or {}), "turns": list(turns)}), **options)


def texts(events: list[Event]) -> str:
    """The model's text in them."""
    return "".join(event.text for event in events if isinstance(event, TextPart))


async def collect(source: AsyncIterable[Event]) -> list[Event]:
    """All events."""
    return [event async for event in source]


async def read_until(source: AsyncIterable[Event], kind: type) -> Any:
    """The first event of a kind; then the reading is left."""
    async for event in source:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def gone(pid: int | None) -> bool:
    """Waits until a process has ended."""
    assert pid is not None
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([descriptor], [], [], DEADLINE)[0])
        finally:
            os.close(descriptor)
    if sys.platform == "win32":
        return _gone_on_windows(pid)

    def ended() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    return waited(ended)


def _gone_on_windows(pid: int) -> bool:
    """`os.kill(pid, 0)` sends Ctrl-C there, so the handle of the process is waited for."""
    if sys.platform != "win32":  # For type checkers.
        raise AssertionError("it is for Windows")
    import ctypes

    synchronize, signaled = 0x00100000, 0
    handle = ctypes.windll.kernel32.OpenProcess(synchronize, False, pid)
    if not handle:
        return True
    try:
        return bool(ctypes.windll.kernel32.WaitForSingleObject(handle, int(DEADLINE * 1000)) == signaled)
    finally:
        ctypes.windll.kernel32.CloseHandle(handle)


@contextlib.contextmanager
def stopped(pid: int | None) -> Generator[None]:
    """Keeps an agent from answering meanwhile, however long this process is kept from running."""
    assert pid is not None
    if sys.platform == "win32":  # It can't be done there.
        yield
        return
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def waited(condition: Callable[[], bool]) -> bool:
    """Waits until a condition holds that no event reports."""
    until = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


async def eventually(condition: Callable[[], bool]) -> bool:
    """Waits until something holds, while the loop runs."""
    until = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.005)
    return True


def children() -> set[int]:
    """The running children of this process without the helper of the core, which runs while there are agents.

    A test that counts them is skipped where there is no /proc.
    """
    if sys.platform != "linux":
        pytest.skip("the system does not list the children of a process")
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        try:
            pids = [int(pid) for pid in (thread / "children").read_text().split()]
        except OSError:
            continue
        found.update(pid for pid in pids if not _is_guard(pid))
    return found


def _is_guard(pid: int) -> bool:
    """Whether a process is the helper that ends agents with the program."""
    process = Path(f"/proc/{pid}")
    try:
        words = (process / "cmdline").read_bytes()
        # A process that has ended and is not reaped yet has only its name. Agents of tests are not shells.
        return b"\0kimi-agent-guard" in words or (not words and (process / "comm").read_text() == "sh\n")
    except OSError:
        return False


def told(records: list[str]) -> Callable[[Any], None]:
    """A handler that keeps what it is called with."""

    def handler(value: Any) -> None:
        records.append(value)

    return handler


def collected() -> None:
    """Collects objects in cycles."""
    for _ in range(3):
        gc.collect()


PRELUDE = """
import asyncio, os, signal, sys
from pathlib import Path
import kimi_agent, kimi_agent.sync
from kimi_agent.testing import scripted_agent

CANCELLED = {"tool_call": {"name": "WriteFile", "effect": {"write_file": "cancelled", "content": ""}, "result": "ok"}}
HANGING = [{"text": "On"}, {"wait_cancel": True}, CANCELLED]
"""


def program(code: str, folder: Path, *flags: str, **env: str) -> subprocess.Popen[str]:
    """Starts a Python program; its working directory is `folder`, warnings are errors."""
    file = folder / "program.py"
    file.write_text(PRELUDE + textwrap.dedent(code), "utf-8")
    return subprocess.Popen(
        [sys.executable, "-W", "error", *flags, str(file)],
        cwd=folder, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def interrupted(running: subprocess.Popen[str]) -> tuple[list[str], str]:
    """Sends Ctrl-C when the program has said something; what it printed after that, and its stderr."""
    assert running.stdout is not None
    first = running.stdout.readline()
    assert first, running.communicate()[1]
    try:
        running.send_signal(signal.SIGINT)
        try:
            out, err = running.communicate(timeout=DEADLINE / 2)
        except subprocess.TimeoutExpired:
            # CPython does not see a signal that arrives just before the main thread blocks. A user sends it again.
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=DEADLINE)
    finally:
        running.kill()
    return [first.strip(), *out.split()], err
