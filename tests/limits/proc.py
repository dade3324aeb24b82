"""The system's figures of a process."""

from __future__ import annotations

import os
import select
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = [
    "Failure",
    "children",
    "descriptors",
    "eventually",
    "mapped_files",
    "peak",
    "pipe_is_full",
    "reset_peak",
    "resident",
    "threads",
]

T = TypeVar("T")
# Far beyond what anything here takes on a loaded machine: who takes longer hangs.
HANG = 120.0
LOOK = 0.005


class Failure(Exception):
    """A limit that does not hold."""


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise Failure(f"/proc/{pid}/status has no {name}")


def resident(pid: int) -> int:
    """Bytes of memory that it has now, without pages of files."""
    return (_status(pid, "RssAnon") + _status(pid, "RssShmem")) * 1024


def peak(pid: int) -> int:
    """The most bytes that it has had since `reset_peak`."""
    return _status(pid, "VmHWM") * 1024


def mapped_files(pid: int) -> int:
    """Bytes of its memory that are pages of files: mostly its own code, which is loaded when it runs first."""
    return _status(pid, "RssFile") * 1024


def reset_peak(pid: int) -> int:
    """From now on the peak counts anew; what it begins with."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident(pid)


def threads(pid: int) -> int:
    """How many it has."""
    return _status(pid, "Threads")


def descriptors(pid: int) -> Counter[str]:
    """Its open descriptors: pipes, sockets and the like by kind, files by name."""
    found: Counter[str] = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[os.readlink(link).split(":")[0]] += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def children(pid: int) -> list[str]:
    """Its children by name; ` Z` follows the name of a child that was not reaped."""
    found = []
    # A glob with more than the wildcard looks at each file first, and fails for a process that has just ended.
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        if int(rest[1]) == pid:
            found.append(f"{name} Z" if rest[0] == "Z" else name)
    return found


def bytes_read(pid: int) -> int:
    """The bytes that it has read from anywhere."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    raise Failure(f"/proc/{pid}/io has no rchar")


def pipe_is_full(pid: int, descriptor: int = 1) -> bool:
    """Whether a process that writes there now has to wait."""
    end = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        return not select.select([], [end], [], 0)[1]
    finally:
        os.close(end)


def eventually(what: str, look: Callable[[], T], right: Callable[[T], bool] = bool) -> T:
    """Looks until it is as it should be. For what no event tells: whether a process has gone that is not our child,
    whether one that could go on does not."""
    until = time.monotonic() + HANG
    while True:
        seen = look()
        if right(seen):
            return seen
        if time.monotonic() > until:
            raise Failure(f"{what}: {seen!r}")
        time.sleep(LOOK)
