"""Ctrl-C in programs that run a batch: nothing is left, and the journal is complete."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import interrupted, program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")

START = """
agent = scripted_agent([[{"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}, {"wait_cancel": True}]])
asked = []
def approve(request):
    asked.append(request)
    if len(asked) == 2:
        print("running", flush=True)
    return "approve"
options = {"executable": agent, "concurrency": 2, "journal": "../batch.jsonl", "workspace": "worktree"}
options |= {"work_dir": ".", "on_approval": approve}
jobs = ["a", "b", "c"]
"""
PROGRAMS = {
    "loop": """
async def main():
    async for result in kimi_agent.run_batch(jobs, **options):
        print(result.status, flush=True)
asyncio.run(main())
""",
    "block": """
async def main():
    async with kimi_agent.run_batch(jobs, **options) as batch:
        async for result in batch:
            print(result.status, flush=True)
asyncio.run(main())
""",
    "blocking": """
for result in kimi_agent.sync.run_batch(jobs, **options):
    print(result.status, flush=True)
""",
}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_ctrl_c_leaves_nothing(code: str, tmp_path: Path) -> None:
    repository, temp = tmp_path / "repository", tmp_path / "temp"
    repository.mkdir()
    temp.mkdir()
    git(repository, "init", "--quiet")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    running = program(START + code, repository, TMPDIR=str(temp))
    said, err = interrupted(running)
    # Python ends itself with the signal, which shells report as 130.
    assert running.returncode == -signal.SIGINT, err
    assert said[0] == "running"
    assert "KeyboardInterrupt" in err
    lines = (tmp_path / "batch.jsonl").read_text("utf-8").splitlines()[1:]
    assert [json.loads(line)["status"] for line in lines] == ["cancelled", "cancelled"]
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "branch", "--list", "kimi-agent/*") == ""
    assert list(temp.iterdir()) == []


RUNNER = """
class Runner:
    concurrency = 2
    async def open(self, options, /):
        self.running = 0
    async def run_job(self, request, /):
        self.running += 1
        if self.running == 2:
            print("running", flush=True)
        await asyncio.Event().wait()
    async def close(self):
        await asyncio.sleep(0.1)
        print("closed", flush=True)
options = {"on": Runner(), "journal": "batch.jsonl"}
jobs = ["a", "b", "c"]
"""


@pytest.mark.parametrize("name", ["block", "blocking block"])
def test_ctrl_c_in_block_closes_runner(name: str, tmp_path: Path) -> None:
    codes = {
        "block": PROGRAMS["block"],
        "blocking block": """
with kimi_agent.sync.run_batch(jobs, **options) as batch:
    for result in batch:
        print(result.status, flush=True)
""",
    }
    running = program(RUNNER + codes[name], tmp_path)
    said, err = interrupted(running)
    assert running.returncode == -signal.SIGINT, err
    assert said == ["running", "closed"]
    lines = (tmp_path / "batch.jsonl").read_text("utf-8").splitlines()[1:]
    assert [json.loads(line)["status"] for line in lines] == ["cancelled", "cancelled"]
