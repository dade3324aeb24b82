"""The command `kimi-agent` of the package."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, HANGING

from kimi_agent.testing import scripted_agent

ASKING = [{"text": "Look"}, {"tool_call": {"name": "Shell", "arguments": {"command": "ls"}, "approve": True}}]
on_unix = pytest.mark.skipif(sys.platform == "win32", reason="it needs a terminal of Unix, or its signals")


def command(name: str, turns: list[Any], *further: str) -> list[str]:
    """The command with an agent that follows a script."""
    agent = [word for part in scripted_agent(turns) for word in ("-x", part)]
    return [sys.executable, "-m", "kimi_agent", name, *agent, *further]


def run(name: str, turns: list[Any], *further: str) -> subprocess.CompletedProcess[str]:
    """The outcome of the command."""
    words = command(name, turns, *further)
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=DEADLINE, check=False
    )


def test_run_prints_answer() -> None:
    ran = run("run", [[{"text": "Hello, {{prompt}}"}]], "you")
    assert (ran.returncode, ran.stdout) == (0, "Hello, you\n"), ran.stderr


def test_run_json_has_result() -> None:
    ran = run("run", [[{"text": "Hello"}]], "--json", "you")
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (result["type"], result["text"], result["exit_code"]) == ("result", "Hello", 0)


def test_failure_has_exit_code() -> None:
    ran = run("run", [[{"error": {"code": -32004, "message": "login"}}]], "you")
    assert (ran.returncode, "kimi-agent: " in ran.stderr) == (3, True)


def test_recorded_run_is_verified(tmp_path: Path) -> None:
    recording = str(tmp_path / "run.jsonl")
    run("run", [ASKING], "--record", recording, "go")
    assert run("verify", [ASKING], recording).returncode == 0
    assert run("verify", [[{"text": "other"}]], recording).returncode == 1


def test_doctor_finds_agent() -> None:
    agent = " ".join(f"'{word}'" for word in scripted_agent([]))
    words = [sys.executable, "-m", "kimi_agent", "doctor", "--json", agent]
    ran = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=DEADLINE, check=False)
    assert (ran.returncode, json.loads(ran.stdout)["agents"][0]["state"]) == (0, "usable"), ran.stderr


@on_unix
def test_interrupt_cancels_run() -> None:
    words = command("run", [HANGING], "go")
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.read(2) == b"On"
        child.send_signal(signal.SIGINT)
        assert child.wait(DEADLINE) == 130


@on_unix
@pytest.mark.parametrize(("key", "response"), [("y", "approve"), ("n", "reject"), ("a", "approve_for_session")])
def test_terminal_is_asked(key: str, response: str) -> None:
    import pty

    words = command("run", [[*ASKING, {"text": "{{last.response}}"}]], "go")
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        assert "approve: Shell ls" in shown_until(ours, "in this session: ")
        os.write(ours, b"maybe\n")
        shown_until(ours, "in this session: ")
        os.write(ours, f"{key}\n".encode())
        shown = shown_until(ours, "; session ")
        assert child.wait(DEADLINE) == 0
    os.close(ours)
    assert f"\n{response}\r\n" in shown or response == "reject"


@on_unix
def test_interrupt_ends_question() -> None:
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(command("run", [ASKING], "go"), stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        shown_until(ours, "in this session: ")
        child.send_signal(signal.SIGINT)
        shown_until(ours, "; session ")
        assert child.wait(DEADLINE) == 130
    os.close(ours)


def shown_until(terminal: int, end: str) -> str:
    """Returns the output of the terminal up to this text."""
    shown = b""
    while not shown.endswith(end.encode()):
        shown += os.read(terminal, 1)
    return shown.decode()
