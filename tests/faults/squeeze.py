#!/usr/bin/env python3
"""Takes a resource from a process, until a file is deleted.

    squeeze.py PID descriptors 3 FILE    no more than 3 further descriptors can be opened
    squeeze.py PID file-size 0 FILE      no file can be written

Returns once the limit holds. Removing FILE, which needs no descriptor, lifts it again; `FILE.lifted` tells so.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

LOOK_SECONDS = 0.005


def nth_free(used: set[int], free: int) -> int:
    """The limit below which so many numbers are free."""
    limit = 0
    while free > 0 or limit in used:
        free -= limit not in used
        limit += 1
    return limit


def main() -> None:
    pid, what, amount, file = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    if what == "descriptors":
        kind, value = resource.RLIMIT_NOFILE, nth_free({int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}, amount)
    else:
        kind, value = resource.RLIMIT_FSIZE, amount
    soft, hard = resource.prlimit(pid, kind)
    file.touch()
    resource.prlimit(pid, kind, (value, hard))
    if os.fork():
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    try:
        while file.exists():
            time.sleep(LOOK_SECONDS)
        resource.prlimit(pid, kind, (soft, hard))
        Path(f"{file}.lifted").touch()
    except (ProcessLookupError, FileNotFoundError):
        # The process has exited, or the folder of the file is deleted.
        pass


if __name__ == "__main__":
    main()
