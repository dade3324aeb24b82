"""Many repositories: failures, a program that is killed, and the run after it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import DEADLINE, HERE, Environment

ANSWER = [[{"text": "It is {{prompt}}."}]]
DIES = [[{"text": "I feel "}, {"exit": 3}]]
WAITS = [[{"text": "I wait."}, {"wait_cancel": True}]]


def repositories(folder: Path, names: list[str]) -> list[str]:
    """Repositories with one commit each."""
    for name in names:
        git = ["git", "-C", str(folder / name), "-c", "user.name=Tests", "-c", "user.email=tests@example.org"]
        subprocess.run(["git", "init", "-q", str(folder / name)], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", name], check=True)
    return [f"file://{folder / name}" for name in names]


def command(results: Path) -> list[str]:
    return [sys.executable, str(HERE / "repositories.py"), "a project", str(results)]


def run(env: Environment, results: Path, urls: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(results), env=env, input="\n".join(urls), capture_output=True, text=True, timeout=DEADLINE, check=False
    )


def lines(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()]


def test_failures_are_recorded_and_asked_again(agent: Callable[..., Environment], tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    urls = [*repositories(tmp_path, ["a", "b"]), f"file://{tmp_path / 'missing'}"]
    env = agent(DIES, ANSWER)
    first = run(env, results, [*urls, urls[0]])
    assert first.returncode == 1, first.stderr
    assert first.stderr.startswith("3 to do, 0 done\n")
    outcomes = {line["repository"]: line.get("error") for line in lines(results)}
    assert outcomes.pop(urls[2]) == "clone_failed"
    assert sorted(outcomes.values(), key=str) == [None, "agent_exited"]
    second = run(env, results, urls[:2])
    assert (second.returncode, second.stderr.splitlines()[0]) == (0, "1 to do, 1 done")
    assert sorted(line["repository"] for line in lines(results) if line.get("text") == "It is a project.") == urls[:2]


def test_killed_run_repairs_truncated_line(agent: Callable[..., Environment], tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    urls = repositories(tmp_path, ["a", "b"])
    env = agent(ANSWER, WAITS, ANSWER)
    command_line = command(results)
    mine = {**env, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command_line, env=mine, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as killed:
        assert killed.stdin is not None
        assert killed.stderr is not None
        killed.stdin.write("\n".join(urls))
        killed.stdin.close()
        assert killed.stderr.readline() == "2 to do, 0 done\n"
        assert killed.stderr.readline().endswith(": done\n")
        killed.kill()
    with results.open("a") as file:
        file.write('{"repository": "fi')
    (tmp_path / "agent" / "taken.1").mkdir(exist_ok=True)
    done = run(env, results, urls)
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, "1 to do, 1 done")
    assert sorted(line["repository"] for line in lines(results)) == urls
