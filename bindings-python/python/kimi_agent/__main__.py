"""The command `kimi-agent`, also as `python -m kimi_agent`."""

from __future__ import annotations

import signal
import sys

from . import _native

__all__ = ["main"]


def main() -> int:
    """Runs the command with the arguments of this process. Returns the exit code."""
    # Python's own handler would only note the signal, for a bytecode that comes after the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_command(["kimi-agent", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
