"""The complete program of docs/guides/run-many-prompts.md, its repository, and the checks of its results.

The tests of this folder run it on one machine, those of tests/ray on a cluster, and tests/kills at random moments.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = [
    "JOBS",
    "SCRIPT",
    "TURN",
    "blocks",
    "check_left",
    "check_report",
    "check_results",
    "git",
    "journal",
    "make_repository",
]

GUIDE = Path(__file__).parents[2] / "docs/guides/run-many-prompts.md"
JOBS = 200
TURN = "invoke_agent kimi-scripted-agent"
"""The name of the span of a job."""
REPORT: dict[str, Any] = {"summary": "All cases", "tests": 3}
SCRIPT: list[Any] = [
    [
        {
            "tool_call": {
                "name": "WriteFile",
                "arguments": {"path": "test_new.py", "content": "def test(): ..."},
                "approve": {"action": "edit file", "description": "Write `test_new.py`"},
                "effect": {"write_file": "test_new.py", "content": "def test(): ...\n"},
                "result": "written",
            }
        },
        {"external_tool": {"id": "t1", "name": "final_result", "arguments": REPORT}},
        {"text": "Done"},
    ]
]
"""The agent that the program is run with."""


def blocks() -> tuple[str, str]:
    """The program, and the line of it that differs on a cluster."""
    section = GUIDE.read_text("utf-8").split("## A complete program")[1].split("\n## ")[0]
    program, line = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return program, line


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder."""
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def make_repository(folder: Path, jobs: int = JOBS) -> None:
    """Makes a repository with a file for each job."""
    git(folder, "init", "--quiet")
    for number in range(jobs):
        (folder / f"m{number}.py").write_text(f"n = {number}\n", "utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")


def journal(repository: Path) -> list[dict[str, Any]]:
    """The complete lines with a result."""
    *lines, _ = (repository / "batch.jsonl").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines[1:]]


def check_results(repository: Path, printed: Iterable[str]) -> None:
    """Each job has one result, in the lines of the output and in the journal."""
    expected = [f"m{number}.py finished Report(summary='All cases', tests=3)" for number in range(JOBS)]
    assert Counter(printed) == Counter(expected)
    lines = journal(repository)
    assert Counter(line["key"] for line in lines) == Counter(f"m{number}.py" for number in range(JOBS))
    assert all("+def test(): ..." in line["diff"] for line in lines)


def check_left(repository: Path) -> None:
    """No worktree, branch or lock file is left."""
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "branch", "--list", "kimi-agent/*") == ""
    assert not (repository / ".git/kimi-agent").exists()


def check_report(repository: Path) -> None:
    """The page of the journal has all jobs."""
    report = [sys.executable, "-m", "kimi_agent", "report", "batch.jsonl"]
    made = subprocess.run(report, cwd=repository, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stdout) == (0, "batch.html\n"), made.stderr
    assert (repository / "batch.html").read_text("utf-8").count("<td>finished") == JOBS
