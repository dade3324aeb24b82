"""The option `progress` of a batch: bars of tqdm or rich on a terminal, and lines without them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from kimi_agent.testing import scripted_agent

if sys.platform == "win32":
    pytest.skip("needs a pseudoterminal", allow_module_level=True)

import fcntl
import pty
import struct
import termios

BATCH = """
import json, sys
import kimi_agent.sync
hidden, agent = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(hidden))
jobs = ["a", "b", "c"]
for result in kimi_agent.sync.run_batch(jobs, executable=agent, concurrency=2, progress=True):
    assert result.error is None, result.error
"""
NUMBERS = """
import json, sys
from kimi_agent import Progress
from kimi_agent._progress import ProgressDisplay
hidden, total = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(hidden))
display = ProgressDisplay()
for done in (0, 1, 2):
    counts = {"done": done, "failed": 1, "running": 1, "waiting": 1, "retried": 0, "tokens": 1500}
    display.update(Progress(total=total, concurrency=4, elapsed=5, **counts))
display.close()
display.close()
"""
DETAILS = "1 running, 1 waiting, 1 failed, 1,500 tokens"
# The packages that the program cannot import.
WITH_TQDM: list[str] = []
WITH_RICH = ["tqdm"]
WITH_NEITHER = ["tqdm", "rich"]


def shown(program: str, *arguments: Any) -> str:
    """Runs a program whose stderr is a terminal of 160 columns. Returns the text without sequences of the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 160, 0, 0))
    # These would change the width and the form of the bars.
    unwanted = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    env = {name: value for name, value in os.environ.items() if name not in unwanted} | {"TERM": "xterm-256color"}
    argv = [sys.executable, "-c", program, json.dumps(arguments)]
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=theirs, env=env)
    os.close(theirs)
    text = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        while chunk := read(terminal.fileno()):
            text += chunk
    assert child.wait() == 0, text.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode())


def read(terminal: int) -> bytes:
    """The next bytes. Nothing after the last program has closed the terminal, which Linux reports as an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def last_line(text: str) -> str:
    """The text of a bar after its last change."""
    return re.split(r"[\r\n]+", text.rstrip())[-1]


def executable() -> list[str]:
    usage = {"usage": {"input_other": 1000, "output": 200}}
    return [os.fspath(word) for word in scripted_agent([[{"text": "Hello"}, usage]])]


def test_tqdm_shows_batch() -> None:
    bar = last_line(shown(BATCH, WITH_TQDM, executable()))
    assert bar.startswith("100%|")
    assert "| 3/3 [" in bar
    assert bar.endswith("0 running, 3,600 tokens]")


def test_rich_shows_batch() -> None:
    bar = last_line(shown(BATCH, WITH_RICH, executable()))
    assert bar.startswith("0 running, 3,600 tokens ")
    assert " 100% " in bar


def test_lines_show_batch() -> None:
    # Jobs that end together are one report, so the number of lines varies.
    assert last_line(shown(BATCH, WITH_NEITHER, executable())) == "3 of 3 jobs done, 0 running, 3,600 tokens"


def test_tqdm_shows_numbers() -> None:
    bar = last_line(shown(NUMBERS, WITH_TQDM, 4))
    assert bar.startswith(" 50%|")
    assert "| 2/4 [" in bar
    assert bar.endswith(f"{DETAILS}]")


def test_rich_shows_numbers() -> None:
    bar = last_line(shown(NUMBERS, WITH_RICH, 4))
    assert bar.startswith(f"{DETAILS} ")
    assert " 50% " in bar


def test_tqdm_shows_unknown_total() -> None:
    bar = last_line(shown(NUMBERS, WITH_TQDM, None))
    assert bar.startswith("2job [")
    assert bar.endswith(f"{DETAILS}]")


def test_rich_shows_unknown_total() -> None:
    bar = last_line(shown(NUMBERS, WITH_RICH, None))
    assert bar.startswith(f"{DETAILS} ")
    assert "%" not in bar


def test_lines_show_unknown_total() -> None:
    lines = shown(NUMBERS, WITH_NEITHER, None).splitlines()
    assert lines == [f"1 jobs done, {DETAILS}", f"2 jobs done, {DETAILS}"]


def test_file_gets_lines() -> None:
    argv = [sys.executable, "-c", NUMBERS, json.dumps([WITH_TQDM, 4])]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr.splitlines() == [f"1 of 4 jobs done, {DETAILS}", f"2 of 4 jobs done, {DETAILS}"]
