"""Stands between an SDK and an agent, and writes down each line that either says.

    tee.py [--all] LOG PROGRAM [ARGUMENT…]

Each line of the log is `{"dir": "in" | "out", "line": text}`; `{"dir": "start"}` begins a process. What isn't a
session, as `--version`, is passed through without a word; with `--all` everything is one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from typing import BinaryIO


def main() -> None:
    sessions = sys.argv[1] == "--all"
    log_path, *command = sys.argv[2:] if sessions else sys.argv[1:]
    if not sessions and "--wire" not in command:
        os.execvp(command[0], command)
    lock = threading.Lock()
    with open(log_path, "a", encoding="utf-8") as log:

        def note(entry: dict[str, str]) -> None:
            with lock:
                log.write(json.dumps(entry, ensure_ascii=False) + "\n")
                log.flush()

        def carry(direction: str, source: BinaryIO, target: BinaryIO) -> None:
            # Written down before it is passed on: an answer never stands before what it answers.
            with contextlib.suppress(BrokenPipeError):
                for line in source:
                    note({"dir": direction, "line": line.decode("utf-8", "replace").removesuffix("\n")})
                    target.write(line)
                    target.flush()

        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert agent.stdin is not None
        assert agent.stdout is not None
        to_agent = agent.stdin
        note({"dir": "start"})

        def inward() -> None:
            carry("in", sys.stdin.buffer, to_agent)
            with contextlib.suppress(BrokenPipeError):
                to_agent.close()

        threading.Thread(target=inward, daemon=True).start()
        carry("out", agent.stdout, sys.stdout.buffer)
        status = agent.wait()
    # The other thread may be waiting for a line that never comes.
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
