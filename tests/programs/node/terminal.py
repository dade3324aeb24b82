"""Drives a program in a pseudo-terminal: waits for texts, types, and at the end says how the program ended.

`terminal.py PROGRAM ARGUMENT …`; stdin holds one JSON list a step: `["expect", TEXT]` or `["type", TEXT]`.
"""

from __future__ import annotations

import json
import os
import pty
import select
import sys

HANG = 60.0
"""Seconds without output after which the program hangs: far beyond what it takes on a loaded machine."""


def main() -> int:
    steps = [json.loads(line) for line in sys.stdin if line.strip()]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    unseen, everything = "", ""
    for what, text in steps:
        if what == "type":
            os.write(terminal, text.encode())
            continue
        while text not in unseen:
            piece = read(terminal)
            if piece is None:
                print(f"expected {text!r} after:\n{everything}", file=sys.stderr)
                os.kill(pid, 9)
                return 1
            unseen, everything = unseen + piece, everything + piece
        unseen = unseen.split(text, 1)[1]
    while (piece := read(terminal)) is not None:
        everything += piece
    sys.stdout.write(everything)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def read(terminal: int) -> str | None:
    """The output of the program; None at its end, or if it hangs."""
    if not select.select([terminal], [], [], HANG)[0]:
        return None
    try:
        return os.read(terminal, 65536).decode(errors="replace") or None
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main())
