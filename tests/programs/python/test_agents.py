"""One program for several agents, each of which is found by its name on PATH."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import AGENT, DEADLINE, HERE

TURN = [
    {"tool_call": {"name": "Write", "arguments": {}, "approve": {"description": "Write a.txt"}, "result": "ok"}},
    {"text": "You said {{last.response}}, and I got {{argv}}."},
]
KIMI_CODE = {"release": "2.1.0", "server": {"name": "Kimi Code CLI", "version": "2.1.0"}, "turns": [TURN]}
KIMI_CLI = {"release": "1.51.0", "turns": [TURN]}
GEMINI = {"wire": "acp", "server": {"name": "gemini-cli", "version": "0.61.0"}, "turns": [TURN]}


def run(folder: Path, program: str, script: Any, name: str, answer: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with a PATH on which a program plays the script."""
    (folder / "script.json").write_text(json.dumps(script))
    command = shlex.join([str(AGENT), str(folder / "script.json")])
    # uvx gets the name of the package and that of its program before the agent's own arguments.
    skipped = "shift 3\n" if program == "uvx" else ""
    (folder / program).write_text(f'#!/bin/sh\n{skipped}exec {command} "$@"\n')
    (folder / program).chmod(0o755)
    env = {**os.environ, "PATH": str(folder)}
    env.pop("KIMI_AGENT_EXECUTABLE", None)
    return subprocess.run(
        [sys.executable, str(HERE / "agents.py"), name, "Write"], env=env, cwd=folder, input=answer,
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "program", "script", "protocol", "arguments"),
    [
        ("kimi-code", "kimi", KIMI_CODE, "acp-1", "acp"),
        ("kimi-cli", "uvx", KIMI_CLI, "1.10", "--wire"),
        ("gemini", "gemini", GEMINI, "acp-1", "--acp"),
    ],
)
def test_each_agent_starts_and_asks_handler(
    name: str, program: str, script: Any, protocol: str, arguments: str, tmp_path: Path
) -> None:
    done = run(tmp_path, program, script, name, "y\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"speaks {protocol}, and can: " in done.stdout
    assert 'Write a.txt": ' in done.stdout
    assert "\nApprove? [y/N] " in done.stdout
    assert "You said approve, and I got " in done.stdout
    assert arguments in done.stdout.split("I got ")[1]
    assert "finished" in done.stdout


def test_nothing_is_hidden_from_person(tmp_path: Path) -> None:
    hidden = f"ls{' ' * 190}; rm\x1b]52;c;eA==\x07\x1b[8m\u202e\u200b\u3164\nApprove? [y/N] y"
    call = {"name": "Shell", "arguments": {"command": hidden}, "approve": {"description": hidden}, "result": "ok"}
    script = {**KIMI_CLI, "turns": [[{"text": hidden}, {"tool_call": call}]]}
    done = run(tmp_path, "uvx", script, "kimi-cli", "n\n")
    assert done.returncode == 0, done.stderr
    shown = r"ls[190 blanks]; rm\u001b]52;c;eA==\u0007\u001b[8m\u202e\u200b\u3164\nApprove? [y/N] y"
    assert f'"{shown}": {{"command": "{shown}"}}' in done.stdout
    assert all(c.isprintable() or c in "\n\u200b\u3164" for c in done.stdout)


def test_rejected_action_is_counted(tmp_path: Path) -> None:
    done = run(tmp_path, "gemini", GEMINI, "gemini", "n\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("1 rejected\n")


def test_missing_agent_error_names_install(tmp_path: Path) -> None:
    done = run(tmp_path, "kimi", KIMI_CODE, "claude", "y\n")
    assert done.returncode == 1
    assert "npm install -g" in done.stderr
