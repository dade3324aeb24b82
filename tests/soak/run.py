#!/usr/bin/env python3
"""Plays random sessions, several at once, in Python (both APIs) and Node, and fails on what hangs, leaks or crosses.

    run.py --seconds 10                                  what CI runs
    run.py --seconds 3600 --languages node               an hour of one language
    run.py --seed 7 --languages python --round 12 --times 20   the round that a failure named, again and again

`tests/soak/README.md` says what is played and what is looked at.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plan

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import usage

HERE = Path(__file__).resolve().parent
# Far beyond what a round or an ending takes on a loaded machine: what takes longer hangs.
PATIENCE = 180.0
LOOK = 0.02
# Resident memory may grow by so much from the first third of the rounds to the last, in bytes.
TREND = {"python": 24 << 20, "python-sync": 24 << 20, "node": 64 << 20}
# Rounds that warm up: what they leave is what others are held against.
WARM = 2


class Failure(Exception):
    """Something hangs, has leaked or has crossed."""


class Player:
    """A program that plays rounds, and what the system says of it."""

    def __init__(self, language: str, seed: str, agent: Path, folder: Path) -> None:
        self.language, self.seed, self.folder = language, seed, folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.mark = f"soak-{os.getpid()}-{language}-{time.monotonic_ns()}"
        self._stderr = (folder / "stderr").open("w+b")
        env = {**os.environ, "KIMI_SOAK_AGENT": str(agent), "KIMI_SOAK": self.mark, "TMPDIR": str(self.temporary)}
        self.process = subprocess.Popen(
            command(language), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, env=env
        )
        self.pid = self.process.pid
        self.resident: list[int] = []
        self.before: dict[str, Any] | None = None

    def ask(self, line: str) -> dict[str, Any]:
        """One line to it, and its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], PATIENCE + 30)[0]:
            # Not even its own watchdog has a say.
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            raise Failure(f"the program does not answer; its threads:\n{stacks(self.pid)}\n{self.stderr()}")
        answer = self.process.stdout.readline()
        if not answer:
            raise Failure(f"the program ended with {self.process.wait()}:\n{self.stderr()}")
        parsed: dict[str, Any] = json.loads(answer)
        return parsed

    def stderr(self) -> str:
        """The text that it has written there."""
        return (self.folder / "stderr").read_text(errors="replace")[-20000:]

    def play(self, number: int) -> None:
        """One round, after which everything has to be as before."""
        folder = self.folder / f"round-{number}"
        began = time.monotonic()
        made = plan.make(self.seed, self.language, number)
        path = plan.write({**made, "patience": PATIENCE}, folder)
        wrong = self.ask(str(path))["wrong"]
        if wrong:
            raise Failure("\n".join(wrong))
        played = time.monotonic()
        eventually("processes are left", self.left_after_collecting, lambda left: not left)
        eventually("private files are left", self.files, lambda left: not left)
        if "KIMI_SOAK_SHOW" in os.environ:
            now = time.monotonic()
            print(
                f"{self.language}, round {number}: {played - began:.1f} s, {now - played:.1f} s to clean up", flush=True
            )
        shutil.rmtree(folder)
        if number < WARM:
            return
        if self.before is None:
            self.before = self.counts()
        else:
            # Threads end by themselves, and the garbage collector of Node takes its time.
            eventually(f"more than before ({self.before})", self.counts, self.as_before)
        # Without pages of files, which the kernel loads in pieces of any size.
        self.resident.append((status(self.pid, "RssAnon") + status(self.pid, "RssShmem")) * 1024)

    def counts(self) -> dict[str, Any]:
        return {
            "player": self.ask("counts"),
            "threads": status(self.pid, "Threads"),
            "descriptors": descriptors(self.pid),
            "children": children(self.pid),
        }

    def as_before(self, now: dict[str, Any]) -> bool:
        assert self.before
        return not more(self.before, now)

    def left_after_collecting(self) -> list[str]:
        """The same. Dropped objects are collected by the garbage collector."""
        left = self.left()
        if left:
            self.ask("counts")
        return left

    def left(self) -> list[str]:
        """Processes that the player's sessions have started, wherever they are."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                pid, environ = int(folder.name), (folder / "environ").read_bytes()
                if pid != self.pid and self.mark.encode() in environ and not is_thread_like(pid, self.pid):
                    found.append(f"{pid} {(folder / 'cmdline').read_bytes().decode(errors='replace')}")
        return found

    def files(self) -> list[str]:
        return [str(path) for path in self.temporary.rglob("*")]

    def end(self) -> None:
        """Lets it end, as it should."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"the program does not end; its threads:\n{stacks(self.pid)}") from None
        if "KIMI_SOAK_SHOW" in os.environ:
            print(f"{self.language}:\n{self.stderr()}")
        elif code or self.stderr().strip():
            raise Failure(f"the program ended with {code}, and said:\n{self.stderr()}")
        eventually("processes are left", self.left, lambda left: not left)
        eventually("private files are left", self.files, lambda left: not left)
        third = len(self.resident) // 3
        if third >= 10:
            first, last = sorted(self.resident[:third])[third // 2], sorted(self.resident[-third:])[third // 2]
            if last - first > TREND[self.language]:
                raise Failure(f"memory grows: {first:,} bytes in the first rounds, {last:,} in the last")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def command(language: str) -> list[str]:
    """The command that starts a player."""
    if language == "node":
        return ["node", "--expose-gc", "--unhandled-rejections=strict", str(HERE / "player.mjs")]
    api = "sync" if language == "python-sync" else "async"
    return [sys.executable, "-W", "error", "-X", "faulthandler", str(HERE / "player.py"), api]


def more(before: Any, now: Any) -> bool:
    """Whether there is more of anything than before."""
    if isinstance(now, dict):
        return any(more(before.get(key, 0) if isinstance(before, dict) else 0, value) for key, value in now.items())
    return bool(now > before)


def status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise Failure(f"/proc/{pid}/status has no {name}")


def descriptors(pid: int) -> dict[str, int]:
    """Its open descriptors: pipes, sockets and the like by kind, files by name."""
    found: Counter[str] = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[os.readlink(link).split(":")[0]] += 1
    return dict(found)


def stat(pid: int) -> tuple[str, list[str]]:
    """Its name, and the fields after that."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()


def children(pid: int) -> dict[str, int]:
    """Its children by name and state; `Z` is a child that was not reaped."""
    found: Counter[str] = Counter()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, rest = stat(int(path.name))
            if int(rest[1]) == pid and name != "kimi-watcher":
                found[f"{name} {rest[0]}"] += 1
    return dict(found)


def is_thread_like(pid: int, parent: int) -> bool:
    """Whether it is the watcher, which shares the memory of the program, its environment included."""
    with contextlib.suppress(OSError):
        name, rest = stat(pid)
        return name == "kimi-watcher" and int(rest[1]) == parent
    return True


def stacks(pid: int) -> str:
    """The stacks of its threads, if gdb is installed."""
    if not shutil.which("gdb"):
        return "(no gdb here)"
    argv = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 25"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120).stdout


def eventually(what: str, look: Callable[[], Any], right: Callable[[Any], bool]) -> None:
    """Polls until the condition holds, for states that no event reports."""
    until = time.monotonic() + PATIENCE / 2
    while not right(seen := look()):
        if time.monotonic() > until:
            raise Failure(f"{what}: {json.dumps(seen, indent=1)}")
        time.sleep(LOOK)


class Soak:
    """One language, round after round, until the time is over."""

    def __init__(self, chosen: argparse.Namespace, language: str, agent: Path, folder: Path) -> None:
        self.chosen, self.language, self.agent, self.folder = chosen, language, agent, folder
        self.rounds = 0
        self.failure: str | None = None

    def run(self) -> None:
        player = Player(self.language, self.chosen.seed, self.agent, self.folder)
        number = 0
        try:
            for number in self.numbers():
                player.play(number)
                self.rounds += 1
            number = -1
            player.end()
        except BaseException as error:
            self.failure = self.described(number, error)
            if not isinstance(error, Failure):
                raise
        finally:
            player.kill()

    def numbers(self) -> Any:
        if self.chosen.round is not None:
            yield from [self.chosen.round] * self.chosen.times
            return
        until = time.monotonic() + self.chosen.seconds
        number = 0
        while number <= WARM or time.monotonic() < until:
            yield number
            number += 1

    def described(self, number: int, error: BaseException) -> str:
        where = f"round {number}" if number >= 0 else "the end"
        again = f"tests/soak/run.py --seed {self.chosen.seed} --languages {self.language}"
        again += f" --round {number} --times 20" if number >= 0 else f" --seconds {self.chosen.seconds}"
        text = f"FAIL  {self.language}, {where}: {error}\n  again: {again}"
        if number >= 0:
            kept = Path(tempfile.gettempdir()) / f"kimi-soak-{self.chosen.seed}-{self.language}-{number}.json"
            kept.write_text(json.dumps(plan.make(self.chosen.seed, self.language, number), indent=1))
            text += f"\n  its plan: {kept}"
        return text


def main() -> int:
    """Prints what failed, with what plays it again; 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--minutes", type=float, help="instead of --seconds")
    parser.add_argument("--seed", default=str(int.from_bytes(os.urandom(4), "big")))
    parser.add_argument("--languages", default=",".join(plan.LANGUAGES))
    parser.add_argument("--round", type=int, help="this round only")
    parser.add_argument("--times", type=int, default=1, help="how often, with --round")
    parser.add_argument("--show", action="store_true", help="print how long each round and each actor took")
    parser.add_argument("--agent", type=Path, default=HERE.parent.parent / "target/debug/kimi-scripted-agent")
    chosen = parser.parse_args()
    if chosen.minutes is not None:
        chosen.seconds = 60 * chosen.minutes
    if chosen.show:
        os.environ["KIMI_SOAK_SHOW"] = "1"
    languages = usage.chosen("soak", "--languages", chosen.languages, plan.LANGUAGES)
    usage.needs("soak", chosen.agent, "node")
    usage.needs_package("soak")
    print(f"soak: seed {chosen.seed}, {chosen.seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soaks = [Soak(chosen, language, chosen.agent.resolve(), Path(folder) / language) for language in languages]
        threads = [threading.Thread(target=soak.run) for soak in soaks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for soak in soaks:
        print(soak.failure or f"pass  {soak.language}: {soak.rounds} rounds")
    failed = sum(bool(soak.failure) for soak in soaks)
    print(f"{len(soaks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(usage.reported("soak", main))
