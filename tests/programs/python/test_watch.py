"""Claude Code, watched and steered, against an agent that opens sessions for subagents as claude-agent-acp does."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import AGENT, DEADLINE, HERE


def subagent(session: str, state: str, **more: Any) -> dict[str, Any]:
    return {"sessionId": session, "state": {"state": state}, **more}


def update(payload: Any, under: str | None = None) -> dict[str, Any]:
    event = {"type": "subagent_update", "payload": payload}
    return {"event": {"type": "SubagentEvent", "payload": {"session_id": under, "event": event}} if under else event}


def says(session: str, text: str) -> dict[str, Any]:
    part = {"type": "ContentPart", "payload": {"type": "text", "text": text}}
    return {"event": {"type": "SubagentEvent", "payload": {"session_id": session, "event": part}}}


CLAUDE: dict[str, Any] = {
    "wire": "acp",
    "steer": True,
    "turns": [
        [
            {"text": ["Asking ", "others."]},
            update(subagent("reader", "running", title="Read", capabilities={"cancel": {}})),
            says("reader", "Two\nfiles."),
            update(subagent("deep", "running", title="Deeper"), "reader"),
            says("deep", "Hm."),
            update(subagent("deep", "idle"), "reader"),
            update(subagent("reader", "idle")),
            {"tool_call": {"name": "Read", "id": "c1", "arguments": {"path": "a.py"}, "result": "a"}},
            {"wait_steer": True},
            {"text": "As you say: {{steer}}."},
        ]
    ],
}
SHOWN = """\
Asking others.
> Read (reader)
    Two
    files.
    > Deeper (deep)
        Hm.
    < Deeper: idle
< Read: idle
[Read]
As you say: only tests.
(finished)
"""


def run(folder: Path, script: Any, typed: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with a `claude-agent-acp` that plays the script."""
    (folder / "script.json").write_text(json.dumps(script))
    program = folder / "claude-agent-acp"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([str(AGENT), str(folder / "script.json")])} "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": str(folder)}
    env.pop("KIMI_AGENT_EXECUTABLE", None)
    return subprocess.run(
        [sys.executable, str(HERE / "watch.py"), "Look"], env=env, cwd=folder, input=typed, capture_output=True,
        text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip


def test_subagents_are_indented_and_line_steers(tmp_path: Path) -> None:
    done = run(tmp_path, CLAUDE, "only tests\n")
    assert (done.stdout, done.returncode) == (SHOWN, 0)
    # A policy cannot see what an agent of ACP does without asking.
    assert done.stderr.startswith("the policy sees only the calls that the agent asks about")
    assert done.stderr.count("\n") == 1


def test_unknown_subagent_cannot_be_stopped(tmp_path: Path) -> None:
    done = run(tmp_path, CLAUDE, "stop somebody\nonly tests\n")
    assert "invalid_option: " in done.stdout
    assert done.stdout.endswith("As you say: only tests.\n(finished)\n")


def test_error_is_shown(tmp_path: Path) -> None:
    done = run(tmp_path, {**CLAUDE, "turns": [[{"text": "Hm."}, {"error": {"code": -32603, "message": "broken"}}]]}, "")
    assert done.returncode == 1
    assert done.stdout.startswith("Hm.\n")
    assert "broken" in done.stdout
