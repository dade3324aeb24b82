"""The command `kimi-agent` of the package."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, HANGING

from kimi_agent.testing import scripted_agent

ASKING = [{"text": "Look"}, {"tool_call": {"name": "Shell", "arguments": {"command": "ls"}, "approve": True}}]
# The command marks what only it can print.
_MARKS = re.compile(r"\x1b\[7m\?\x1b\[0m |\x1b\[[07]m")
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
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_reach_no_file(tmp_path: Path, closed: str) -> None:
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text('{"prompt": "go"}\n')
    recording, journal, output = (tmp_path / name for name in ("run.jsonl", "journal.jsonl", "output.jsonl"))
    for words, writes in (
        (command("run", [ASKING], "--json", "--record", str(recording), "go"), True),
        (command("verify", [ASKING], str(recording)), True),
        (command("batch", [ASKING], str(jobs), "--journal", str(journal), "--out", str(output)), False),
        ([sys.executable, "-m", "kimi_agent", "inspect", "--json", str(recording)], True),
    ):
        shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *words]
        ran = subprocess.run(shell, timeout=DEADLINE, capture_output=True, encoding="utf-8", check=False)
        fails = writes and ">&-" in closed.split()
        assert ran.returncode == int(fails), (words, ran.stderr)
        if fails and "2>&-" not in closed:
            assert "the standard output cannot be written: it is closed" in ran.stderr, words
    entries = [json.loads(line) for line in recording.read_text().splitlines()]
    assert (entries[0]["type"], entries[-1]["type"]) == ("header", "end")
    assert "result" not in {entry["type"] for entry in entries}
    for written in (journal, output):
        assert all(json.loads(line) for line in written.read_text().splitlines())


@on_unix
@pytest.mark.parametrize("mask", [0o777, 0o277])
def test_mask_of_process_hides_no_private_file(tmp_path: Path, mask: int) -> None:
    recording = tmp_path / "run.jsonl"
    for words in (
        command("run", [ASKING], "--record", str(recording), "go"),
        command("verify", [ASKING], str(recording)),
    ):
        ran = subprocess.run(words, timeout=DEADLINE, capture_output=True, umask=mask, check=False)
        assert ran.returncode == 0, ran.stderr
    assert recording.stat().st_mode & 0o777 == 0o600


@on_unix
def test_interrupt_cancels_run() -> None:
    words = command("run", [HANGING], "go")
    with started(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert shown_until(child.stdout.fileno(), "On") == "On"
        child.send_signal(signal.SIGINT)
        assert child.wait(DEADLINE) == 130


@on_unix
@pytest.mark.parametrize(("key", "response"), [("y", "approve"), ("n", "reject"), ("a", "approve_for_session")])
def test_terminal_is_asked(key: str, response: str) -> None:
    with asked([[*ASKING, {"text": "{{last.response}}"}]]) as (child, terminal):
        shown = shown_until(terminal, "in this session: ")
        assert "approve:\r\n  tool: Shell\r\n" in shown
        assert "argument command: ls\r\n" in shown
        os.write(terminal, b"maybe\n")
        shown_until(terminal, "in this session: ")
        os.write(terminal, f"{key}\n".encode())
        shown = shown_until(terminal, "; session ")
        assert child.wait(DEADLINE) == 0
    assert f"\n{response}\r\n" in shown or response == "reject"


@on_unix
def test_long_action_is_approved_on_its_last_part() -> None:
    words = "".join(f"echo {number}\n" for number in range(200))
    call = {"name": "Shell", "arguments": {"command": words}, "approve": True}
    with asked([[{"tool_call": call}, {"text": "{{last.response}}"}]]) as (child, terminal):
        assert "approve (part 1 of " in shown_until(terminal, "[m]ore, [n]o: ")
        os.write(terminal, b"y\n")
        shown = shown_until(terminal, "[n]o: ")
        assert "approve (part 1 of " in shown
        while shown.endswith("[m]ore, [n]o: "):
            os.write(terminal, b"m\n")
            shown = shown_until(terminal, "[m]ore, [n]o: ", "in this session: ")
        assert "echo 199" in shown
        os.write(terminal, b"y\n")
        assert "\napprove\r\n" in shown_until(terminal, "; session ")
        assert child.wait(DEADLINE) == 0


@on_unix
def test_interrupt_ends_question() -> None:
    with asked([ASKING]) as (child, terminal):
        shown_until(terminal, "in this session: ")
        child.send_signal(signal.SIGINT)
        shown_until(terminal, "; session ")
        assert child.wait(DEADLINE) == 130


@contextmanager
def started(
    words: list[str], *, stdin: int, stdout: int, stderr: int | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """Starts a process. It is killed if the test fails, so that nothing waits for it."""
    with subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=stderr) as child:
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def asked(turns: list[Any]) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """Starts `kimi-agent run` at a terminal, and returns the process and our end of the terminal."""
    import pty

    ours, theirs = pty.openpty()
    try:
        with started(command("run", turns, "go"), stdin=theirs, stdout=theirs, stderr=theirs) as child:
            os.close(theirs)
            yield child, ours
    finally:
        os.close(ours)


def shown_until(descriptor: int, *ends: str) -> str:
    """Returns the output up to one of these texts, without the marks of questions. Fails if nothing more comes."""
    shown = b""
    while not (text := _MARKS.sub("", shown.decode(errors="ignore"))).endswith(ends):
        assert select.select([descriptor], [], [], DEADLINE)[0], shown.decode(errors="replace")
        byte = os.read(descriptor, 1)
        assert byte, shown.decode(errors="replace")
        shown += byte
    return text


@on_unix
def test_files_without_end_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    ran = run("verify", [ASKING], str(pipe))
    assert (ran.returncode, "no program writes to it" in ran.stderr) == (2, True), ran.stderr
    words = [sys.executable, "-m", "kimi_agent", "inspect", str(pipe)]
    ran = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=DEADLINE, check=False)
    assert (ran.returncode, "no program writes to it" in ran.stderr) == (1, True), ran.stderr
    ran = run("batch", [ASKING], "/dev/zero")
    assert (ran.returncode, "it is a device" in ran.stderr) == (2, True), ran.stderr
