#!/usr/bin/env python3
"""Kills the complete program of docs/guides/run-many-prompts.md at random moments, and starts it again until it ends.

    run.py                  ten rounds
    run.py --rounds 100 --seed 7

In a round the program is killed four times: after a random number of results, or while git makes a worktree, reads
changes or removes something. At its last run nothing may be left, and each job has one result in the journal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import usage

usage.needs_package("kills")
usage.needs("kills", "git")

from kimi_agent.testing import scripted_agent  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "bindings-python" / "tests"))

from complete_program import SCRIPT, blocks, git, make_repository  # noqa: E402

JOBS = 40
KILLS = 4
# Far beyond what a run takes on a loaded machine: one that takes longer hangs.
HANG = 300
# The calls of git in which the program is killed.
CALLS = ("worktree add", "rev-parse --absolute-git-dir", "add --all", "diff --cached --raw", "diff --cached --no-color",
         "worktree remove", "branch -D", "for-each-ref")  # fmt: skip
# In place of git: kills the program at the call with this number, before git does anything or while it works.
GIT = """#!/bin/sh
if [ "${*#*"$KILL_CALL"}" != "$*" ]; then
    number=1
    while ! mkdir "$KILL_FOLDER/$number" 2>/dev/null; do number=$((number + 1)); done
    [ "$number" = "$KILL_NUMBER" ] && kill -9 "$PPID"
fi
exec "$REAL_GIT" "$@"
"""


class Failure(Exception):
    """Something is left, or missing."""


class Round:
    """A repository, and the program in it."""

    def __init__(self, folder: Path, agent: list[str]) -> None:
        self.repository, self.temp, self.tools = folder / "repository", folder / "temp", folder / "tools"
        for path in (self.repository, self.temp, self.tools):
            path.mkdir()
        (self.tools / "git").write_text(GIT, "utf-8")
        (self.tools / "git").chmod(0o755)
        code, _ = blocks()
        (folder / "program.py").write_text(code.replace("telemetry=True", "telemetry=False"), "utf-8")
        self.folder = folder
        self.env = {
            **os.environ,
            "KIMI_AGENT_EXECUTABLE": json.dumps(agent),
            "PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}",
            "REAL_GIT": shutil.which("git") or "git",
            "TMPDIR": str(self.temp),
        }
        make_repository(self.repository, JOBS)

    def start(self, call: str = "never", number: int = 0) -> subprocess.Popen[str]:
        """Starts the program. It is killed when git is called in this way for the time with this number."""
        counts = Path(tempfile.mkdtemp(dir=self.folder))
        env = {**self.env, "KILL_CALL": call, "KILL_NUMBER": str(number), "KILL_FOLDER": str(counts)}
        return subprocess.Popen(
            [sys.executable, self.folder / "program.py"],
            cwd=self.repository, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def kill(self, rng: random.Random) -> str:
        """Runs the program, and kills it at a random moment. Returns the moment."""
        if rng.random() < 0.3:
            results = rng.randrange(JOBS)
            with self.start() as program:
                assert program.stdout is not None
                for _ in range(results):
                    program.stdout.readline()
                program.kill()
            return f"after {results} results"
        call, number = rng.choice(CALLS), rng.randint(1, JOBS // KILLS)
        with self.start(call, number) as program:
            program.communicate(timeout=HANG)
        return f"call {number} of git {call}"

    def check(self) -> None:
        """Runs the program to its end, and looks for what is left."""
        with self.start() as program:
            out, errors = program.communicate(timeout=HANG)
        if program.returncode or len(out.splitlines()) != JOBS:
            raise Failure(f"exit code {program.returncode}, {len(out.splitlines())} results: {errors}")
        lines = [json.loads(line) for line in (self.repository / "batch.jsonl").read_text("utf-8").splitlines()[1:]]
        results = Counter((line["key"], line["status"], "+def test(): ..." in line["diff"]) for line in lines)
        if results != Counter((f"m{number}.py", "finished", True) for number in range(JOBS)):
            raise Failure(f"the journal has other results: {results}")
        left = {
            "worktrees": git(self.repository, "worktree", "list").splitlines()[1:],
            "branches": git(self.repository, "branch", "--list", "kimi-agent/*").split(),
            "folders": [str(path.relative_to(self.temp)) for path in self.temp.rglob("*")],
        }
        for name in ("worktrees", "kimi-agent"):
            with contextlib.suppress(FileNotFoundError):
                left[f".git/{name}"] = [path.name for path in (self.repository / ".git" / name).iterdir()]
        if any(left.values()):
            raise Failure(f"left: {left}")


def main() -> int:
    """Plays the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        usage.stop("kills", f"--rounds is {arguments.rounds}; give a number from 1 on")
    agent = [os.fspath(word) for word in scripted_agent(SCRIPT)]
    failed = 0
    for number in range(arguments.rounds):
        seed = arguments.seed + number
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory(prefix="kills-", ignore_cleanup_errors=True) as folder:
            played = Round(Path(folder), agent)
            killed = [played.kill(rng) for _ in range(KILLS)]
            try:
                played.check()
                said = "nothing is left"
            except Failure as failure:
                failed += 1
                said = f"FAILED: {failure}"
        print(f"seed {seed}: killed {', '.join(killed)}: {said}", flush=True)
    print(f"{arguments.rounds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(usage.reported("kills", main))
