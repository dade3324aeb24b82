#!/usr/bin/env python3
"""Runs a program that may not send signals, nor may anything that it starts: every attempt is refused with EPERM.

    deny_signals.py PROGRAM ARGUMENT…

This is how a system refuses them if the other process runs as another user.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

CALLS = {"x86_64": (62, 200, 234), "aarch64": (129, 130, 131)}
"""The numbers of kill, tkill and tgkill."""
PIDFD_SEND_SIGNAL = 424
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main() -> None:
    # Not tkill and tgkill: with these a program ends itself.
    calls = [CALLS[platform.machine()][0], PIDFD_SEND_SIGNAL]
    rows = [(LOAD, 0, 0, 0)]
    rows += [(EQUAL, len(calls) - at, 0, number) for at, number in enumerate(calls)]
    rows += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    code = b"".join(struct.pack("HBBI", *row) for row in rows)
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(rows), code)
    failed = libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if failed or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
        sys.exit(f"deny_signals: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
