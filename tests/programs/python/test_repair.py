"""A repair: the tests pass afterwards or not, rules deny the rest, and a budget ends the turn."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import DEADLINE, HERE, Environment

TEST = """import unittest

from shop import total


class Total(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)
"""
COMMAND = [sys.executable, "-B", "-m", "unittest", "discover", "-s", "tests", "-t", "."]


def asks(tool: str, title: str, **arguments: Any) -> dict[str, Any]:
    """A call for which the agent asks."""
    approve = {"action": tool, "description": title}
    return {"tool_call": {"name": tool, "arguments": arguments, "approve": approve, "result": "ok"}}


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Tests", "-c", "user.email=tests@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose test fails."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "shop.py").write_text("def total(prices):\n    return 0\n")
    (folder / "tests/__init__.py").touch()
    (folder / "tests/test_shop.py").write_text(TEST)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def repair(project: Path, env: Environment, edit: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with an agent that edits the files when it starts."""
    kimi = Path(env["KIMI_AGENT_EXECUTABLE"])
    kimi.write_text(kimi.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{edit}\n"))
    command = [sys.executable, str(HERE / "repair.py"), str(project), *COMMAND]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert len(git(project, "worktree", "list").splitlines()) == 1
    assert git(project, "status", "--short") == ""
    return done


def test_repair_is_printed_as_diff(agent: Callable[..., Environment], project: Path) -> None:
    run = shlex.join(COMMAND)
    turn = [
        asks("WriteFile", "Edit the shop", path="shop.py"),
        asks("Shell", "Run the tests", command=run),
        asks("WriteFile", "Edit the test", path="tests/test_shop.py"),
        asks("Shell", "Push it", command=f"{run}; git push", description="Push it"),
        {"text": "Repaired."},
    ]
    done = repair(project, agent([turn]), "sed -i 's/return 0/return sum(prices)/' shop.py")
    assert done.returncode == 0, done.stderr
    assert "-    return 0\n+    return sum(prices)\n" in done.stdout
    assert done.stderr == "denied: 'WriteFile'\ndenied: 'Push it'\nRepaired.\n"


def test_changed_tests_do_not_count(agent: Callable[..., Environment], project: Path) -> None:
    done = repair(project, agent([[{"text": "Done."}]]), "echo pass >tests/test_shop.py")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Done.\nThe tests still fail.\n")


def test_budget_ends_repair(agent: Callable[..., Environment], project: Path) -> None:
    calls = [asks("ReadFile", f"Read {n}", path="shop.py") for n in range(61)]
    done = repair(project, agent([[*calls, {"wait_cancel": True}]]), ":")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "stopped: 61 of 60 tool_calls\n\nThe tests still fail.\n"
