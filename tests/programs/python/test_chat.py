"""The terminal chats, in a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DEADLINE, HERE, Environment

SCRIPT = [
    [{"text": "Hello!"}],
    [{"text": "One, two, "}, {"wait_cancel": True}],
    [{"text": "Still here."}],
    [
        {"tool_call": {"name": "WriteFile", "approve": {"description": "Write notes"}, "result": "ok"}},
        {"text": "Done."},
    ],
]


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, program: str, folder: Path, env: Environment) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / program), str(folder)],
            stdin=slave, stdout=slave, stderr=slave, env=env, cwd=folder, start_new_session=True,
            preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(slave)
        self.shown = ""
        self._seen = 0

    def expect(self, text: str) -> None:
        """Waits until the program shows a text, after what was expected before."""
        while text not in self.shown[self._seen :]:
            assert select.select([self._master], [], [], DEADLINE)[0], f"{text!r} is not shown:\n{self.shown}"
            try:
                self.shown += os.read(self._master, 65536).decode()
            except OSError:
                raise AssertionError(f"the program ended before it showed {text!r}:\n{self.shown}") from None
        self._seen = self.shown.index(text, self._seen) + len(text)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def close(self) -> int:
        try:
            return self.process.wait(DEADLINE)
        finally:
            self.process.kill()
            os.close(self._master)


def _take_terminal() -> None:
    import fcntl
    import termios

    # The tests may run as a background job of a shell, which ignores SIGINT. Programs in a terminal do not.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize("program", ["chat.py", "blocking_chat.py"])
def test_ctrl_c_stops_answer_and_continues(program: str, agent: Callable[..., Environment], tmp_path: Path) -> None:
    terminal = Terminal(program, tmp_path, agent(SCRIPT))
    terminal.expect("> ")
    terminal.type("Hi\n")
    terminal.expect("Hello!")
    terminal.expect("> ")
    terminal.type("Count\n")
    terminal.expect("two, ")
    terminal.type("\x03")
    terminal.expect("(stopped)")
    terminal.expect("> ")
    terminal.type("And now?\n")
    terminal.expect("Still here.")
    terminal.expect("> ")
    if program == "chat.py":
        # The second line was typed before the question, and is not its answer.
        terminal.type("Write\nn\n")
        terminal.expect("[WriteFile]")
        terminal.expect('"Write notes": ')
        terminal.expect("Approve? [y/N]")
        assert "Done." not in terminal.shown
        terminal.type("y\n")
        terminal.expect("Done.")
        terminal.expect("> ")
    terminal.type("\x04")
    assert terminal.close() == 0, terminal.shown
    assert "Traceback" not in terminal.shown
