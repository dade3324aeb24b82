"""The scripted agent as a program: `python -m kimi_agent.testing.agent SCRIPT.json …`."""

from __future__ import annotations

import signal
import sys

from .._native import run_scripted_agent

__all__ = ["main"]


def main() -> int:
    """Runs it on this process's stdin and stdout."""
    # Python's own handler would only note the signal, for a bytecode that never comes.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_scripted_agent(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
