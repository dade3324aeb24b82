"""The program in docs/guides/run-many-prompts.md: 200 jobs in a git repository, killed twice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, gone, newest_only, program

from kimi_agent.testing import scripted_agent

GUIDE = Path(__file__).parents[2] / "docs/guides/run-many-prompts.md"
JOBS = 200
# Writes the names of spans that have ended.
TRACED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

class Names(SpanProcessor):
    def on_end(self, span):
        with open("spans.txt", "a") as file:
            file.write(span.name + "\\n")

provider = TracerProvider()
provider.add_span_processor(Names())
trace.set_tracer_provider(provider)
"""
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


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    for number in range(JOBS):
        (tmp_path / f"m{number}.py").write_text(f"n = {number}\n", "utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    return tmp_path


def started(repository: Path) -> subprocess.Popen[str]:
    [code] = re.findall(r"## A complete program.*?```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    executable = json.dumps([str(word) for word in scripted_agent(SCRIPT)])
    return program(TRACED + code, repository, KIMI_AGENT_EXECUTABLE=executable)


def lines_of_journal(repository: Path) -> list[dict[str, Any]]:
    """The complete lines with a result."""
    *lines, _ = (repository / "batch.jsonl").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines[1:]]


@newest_only
@pytest.mark.skipif(sys.platform == "win32", reason="kills the program")
def test_killed_program_has_all_results(repository: Path) -> None:
    for printed in (40, 120):
        running = started(repository)
        assert running.stdout is not None
        first = [running.stdout.readline() for _ in range(printed)]
        running.kill()
        rest, errors = running.communicate(timeout=DEADLINE)
        assert all(" finished Report(" in line for line in first), errors
        assert gone(running.pid)
        assert printed <= len(lines_of_journal(repository)) < JOBS, rest
    before = {line["key"] for line in lines_of_journal(repository)}
    out, errors = started(repository).communicate(timeout=DEADLINE)
    expected = [f"m{number}.py finished Report(summary='All cases', tests=3)" for number in range(JOBS)]
    assert sorted(out.splitlines()) == sorted(expected), errors
    lines = lines_of_journal(repository)
    assert Counter(line["key"] for line in lines) == Counter(f"m{number}.py" for number in range(JOBS))
    assert all("+def test(): ..." in line["diff"] for line in lines)
    assert len(before) < JOBS
    # Jobs that were killed have no complete span.
    names = (repository / "spans.txt").read_text("utf-8").splitlines()
    assert names.count("invoke_agent kimi-scripted-agent") >= JOBS
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "branch", "--list", "kimi-agent/*") == ""
    report = [sys.executable, "-m", "kimi_agent", "report", "batch.jsonl"]
    made = subprocess.run(report, cwd=repository, capture_output=True, text=True, timeout=DEADLINE)
    assert (made.returncode, made.stdout) == (0, "batch.html\n"), made.stderr
    assert (repository / "batch.html").read_text("utf-8").count("<td>finished") == JOBS
