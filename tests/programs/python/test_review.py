"""The review of a change, run as the workflow runs it, and the workflow's rights."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from conftest import DEADLINE, HERE, Environment

WRITES = {
    "name": "WriteFile",
    "approve": {"description": "Write \x1b[2Ka.txt"},
    "effect": {"write_file": "a.txt", "content": ""},
}
REVIEW = "Fine. ```@everyone``` ![x](https://example.org/x)"
WORKFLOW: dict[str, Any] = yaml.safe_load((HERE / "review.yml").read_text())


def step(name: str) -> dict[str, Any]:
    (found,) = [step for job in WORKFLOW["jobs"].values() for step in job["steps"] if step.get("name") == name]
    return dict(found)


def review(env: Environment, folder: Path, change: bytes) -> subprocess.CompletedProcess[str]:
    """Runs the step of the workflow in a repository with the program."""
    (folder / ".github").mkdir()
    shutil.copy(HERE / "review.py", folder / ".github")
    (folder / "change.diff").write_bytes(change)
    path = f"{Path(sys.executable).parent}:{env['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", step("Review the change")["run"]],
        env={**env, "PATH": path, "RUNNER_TEMP": str(folder)}, cwd=folder,
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip


def test_review_is_code_block_without_writes(agent: Callable[..., Environment], tmp_path: Path) -> None:
    env = agent([[{"tool_call": WRITES}, {"text": REVIEW}]])
    done = review(env, tmp_path, b"+\xff new line")
    assert (done.returncode, done.stderr) == (0, "rejected: 'Write \\x1b[2Ka.txt'\n")
    assert not (tmp_path / "a.txt").exists()
    printed = (tmp_path / "review.md").read_text()
    assert "asked for more than reading 1 times" in printed
    assert printed.endswith(f"\n````text\n{REVIEW}\n````\n")


def test_long_change_is_truncated_with_note(agent: Callable[..., Environment], tmp_path: Path) -> None:
    done = review(agent([[{"text": "{{prompt}}"}]]), tmp_path, b"+" * 100_001)
    assert done.returncode == 0, done.stderr
    printed = (tmp_path / "review.md").read_text()
    assert "only the first 100,000 of its 100,001 characters" in printed
    assert printed.endswith(f"\n\n{'+' * 100_000}\n```\n")


def test_failed_review_fails_step(agent: Callable[..., Environment], tmp_path: Path) -> None:
    done = review(agent([[{"text": "I feel "}, {"exit": 3}]]), tmp_path, b"+")
    assert (done.returncode, (tmp_path / "review.md").read_text()) == (1, "")
    assert done.stderr.startswith("There is no review: ")


def test_workflow_gives_agent_one_secret() -> None:
    jobs = WORKFLOW["jobs"]
    assert WORKFLOW["permissions"] == {}
    assert set(jobs["review"]["permissions"].values()) == {"read"}
    assert "GH_TOKEN" not in step("Review the change")["env"]
    checkouts = [step for job in jobs.values() for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert [step["with"] for step in checkouts] == [{"persist-credentials": False}]
    secrets = [
        name for job in jobs.values() for step in job["steps"] for name, value in step.get("env", {}).items()
        if "secrets." in value
    ]  # fmt: skip
    assert secrets == ["KIMI_MODEL_API_KEY"]
    # A value of an event that stands in a script would be run as a part of it.
    assert not [step for job in jobs.values() for step in job["steps"] if "${{" in step.get("run", "")]
