#!/usr/bin/env python3
"""Says what a run of the tests has left behind.

    eval "$(tests/left_behind.py --before FILE)"
    make test
    tests/left_behind.py --after FILE

The first call makes a folder for temporary files, and prints `export` lines with it and with a mark, for everything
that is started next. It also writes down what is there. The second call fails with a sentence for each process,
listening port, temporary file, private folder and git worktree that is left. A process belongs to the run if it has
the mark in its environment. Without any mark, it belongs to the run if its folder or an argument is in the run's
folder, or if an argument is in the repository and it has no terminal. So nothing else on the machine changes the
verdict. Processes are known on Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shlex
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARK = "KIMI_AGENT_TEST_RUN"
# A server of an agent may take 9 seconds to end its tools after its program has ended; the rest is for a busy machine.
PATIENCE = 60.0

# What programs of others leave in the folder for temporary files, however they end.
OF_OTHERS = (
    "pytest-of-*",  # pytest keeps the folders of its last runs, for a look
    "cc-socks",  # Claude Code: sockets of its tools
    "claude-*",  # Claude Code: the output of background commands
    "gemini-client-error-*",  # Gemini CLI: a report of each error of its model's service
    "opencode",  # OpenCode: its logs and libraries
    ".*-00000000.so",  # OpenCode: a library that Bun unpacks
    "qwen-socks-*",  # Qwen Code: the socket of a session
    "node-compile-cache",  # Node: compiled programs of npm
)


@dataclass(frozen=True)
class Process:
    """A process, with what shows where it comes from."""

    pid: int
    started: str
    parent: int
    group: int
    has_terminal: bool
    folder: str
    arguments: tuple[str, ...]
    environment: frozenset[str]

    @property
    def known_as(self) -> str:
        """Differs for processes that have the same id one after the other."""
        return f"{self.pid} {self.started}"

    def is_from(self, run: dict[str, Any]) -> bool:
        """Whether the run has started it."""
        marks = [word for word in self.environment if word.startswith(f"{MARK}=")]
        if marks:
            return marks == [f"{MARK}={run['mark']}"]
        words = (self.folder, *self.arguments)
        if any(_is_in(word, run["temporary"]) for word in words):
            return True
        return not self.has_terminal and any(_is_in(word, run["root"]) for word in self.arguments)

    def __str__(self) -> str:
        words = " ".join(" ".join(self.arguments).split())
        return f"{self.pid} ({words if len(words) <= 200 else words[:200] + ' …'})"


def _is_in(word: str, folder: str) -> bool:
    return word == folder or word.startswith(folder + "/")


def _process(folder: Path) -> Process | None:
    """The process of this folder of /proc, unless it has ended, or belongs to another user."""
    try:
        if folder.stat().st_uid != os.getuid():
            return None
        stat = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        if stat[0] in "ZX":
            return None
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        environment = (folder / "environ").read_bytes().decode("utf-8", "replace").split("\0")
        cwd = os.readlink(folder / "cwd")
        ids = int(folder.name), stat[19], int(stat[1]), int(stat[2])
        return Process(*ids, stat[4] != "0", cwd, tuple(words[:-1]), frozenset(environment))
    except OSError:
        return None


def processes() -> Iterator[Process]:
    """The processes of this user, without this one, those that wait for it, and those that read what it prints."""
    found = [process for folder in Path("/proc").glob("[0-9]*") if (process := _process(folder))]
    parents = {process.pid: process.parent for process in found}
    waiting, pid = set(), os.getpid()
    while pid in parents:
        waiting.add(pid)
        pid = parents[pid]
    pipeline = (os.getppid(), os.getpgrp())
    return (process for process in found if process.pid not in waiting and (process.parent, process.group) != pipeline)


def _has_ended(process: Process, until: float) -> bool:
    """Waits for its end, at most until then."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return True
    try:
        now = _process(Path("/proc") / str(process.pid))
        if now is None or now.known_as != process.known_as:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))
    finally:
        os.close(descriptor)


def left_processes(run: dict[str, Any], patience: float) -> list[Process]:
    """The processes of the run that do not end within this time, in seconds. Also those that they start meanwhile."""
    until = time.monotonic() + patience
    while True:
        left = [process for process in processes() if process.known_as not in run["processes"] and process.is_from(run)]
        if not left or time.monotonic() >= until:
            return left
        for process in left:
            _has_ended(process, until)


def ports(process: Process) -> list[int]:
    """The TCP ports on which it listens."""
    listening = {}
    for name in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/{process.pid}/net/{name}").read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        # The fields are the address, the state, of which 0A is to listen, and the inode.
        listening.update({row[9]: int(row[1].rpartition(":")[2], 16) for row in map(str.split, rows) if row[3] == "0A"})
    found = set()
    try:
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            inode = os.readlink(link).removeprefix("socket:[").removesuffix("]")
            found.update({listening[inode]} if inode in listening else ())
    except OSError:
        pass
    return sorted(found)


def worktrees(root: Path) -> list[str]:
    """The git worktrees of the repository."""
    listed = subprocess.run(
        ["git", "-C", str(root), "worktree", "list", "--porcelain", "-z"], capture_output=True, text=True, check=True
    )
    return [line.removeprefix("worktree ") for line in listed.stdout.split("\0") if line.startswith("worktree ")]


def entries(folder: Path) -> Iterator[str]:
    """A sentence for each entry of a folder for temporary files."""
    for path in sorted(path for path in folder.iterdir() if not any(path.match(name) for name in OF_OTHERS)):
        inside = sorted(entry.name for entry in path.iterdir()) if path.is_dir() and not path.is_symlink() else []
        if path.name.isdecimal() and path.is_dir():
            yield from entries(path)
            continue
        if path.name == f"kimi-agent-{os.getuid()}":
            yield from (f"The private folder {path / name} is left." for name in inside)
            continue
        kind = "folder" if path.is_dir() else "file"
        rest = f", with {len(inside)} entries such as {inside[0]}" if inside else ""
        yield f"The temporary {kind} {path} is left{rest}."


def before(file: Path) -> dict[str, str]:
    """Writes down what is there, and returns the variables of everything that is started next."""
    # Short, because the path of a socket has at most 107 bytes. A folder below it whose name is a number is one more of
    # the kind: programs that run side by side have one each.
    temporary = tempfile.mkdtemp(prefix="k-")
    run = {
        "mark": uuid.uuid4().hex,
        "temporary": temporary,
        "root": str(ROOT),
        "processes": [process.known_as for process in processes()],
        "worktrees": worktrees(ROOT),
    }
    file.write_text(json.dumps(run), "utf-8")
    return {MARK: run["mark"], "TMPDIR": temporary}


def after(file: Path, patience: float = PATIENCE) -> list[str]:
    """A sentence for everything that is left. Deletes the run's folder if there is nothing."""
    run = json.loads(file.read_text("utf-8"))
    found = []
    for process in left_processes(run, patience):
        found.append(f"Process {process} still runs in {process.folder}.")
        found += [f"Process {process.pid} listens on port {port}." for port in ports(process)]
    root = Path(run["root"])
    found += [f"The git worktree {path} is left." for path in worktrees(root) if path not in run["worktrees"]]
    temporary = Path(run["temporary"])
    if temporary.is_dir():
        found += entries(temporary)
        if not found:
            # Tests make folders that are deeper than shutil can go.
            subprocess.run(["rm", "-rf", "--", str(temporary)], check=False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    moment = parser.add_mutually_exclusive_group(required=True)
    moment.add_argument(
        "--before", type=Path, metavar="FILE", help="writes down what is there, and prints `export` lines"
    )
    moment.add_argument("--after", type=Path, metavar="FILE", help="says what is left, and fails then")
    arguments = parser.parse_args()
    try:
        if arguments.before:
            for name, value in before(arguments.before).items():
                print(f"export {name}={shlex.quote(value)}")
            return
        found = after(arguments.after)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        advice = "Run `tests/left_behind.py --before FILE` first, in a clone of git"
        raise SystemExit(f"left_behind: {error}. {advice}") from error
    for sentence in found:
        print(sentence, file=sys.stderr)
    if found:
        raise SystemExit(f"left_behind: the tests have left {len(found)} things, which are named above")


if __name__ == "__main__":
    main()
