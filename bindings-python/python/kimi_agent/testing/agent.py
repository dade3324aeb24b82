"""The scripted agent as a program: `python -m kimi_agent.testing.agent SCRIPT.json …`.

With `--play-recording RECORDING.jsonl …` it plays a recording.

As a file, which is how `scripted_agent` starts it, it loads the native module alone: the rest of the package, which the
agent does not need, takes several times as long to import as the agent to start.
"""

from __future__ import annotations

import os
import signal
import sys

# As type checkers know it; importing `typing` takes as long as all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

if TYPE_CHECKING or __package__:
    from .. import _native
else:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    def _beside() -> ModuleType:
        """The module of that name in the package that this file belongs to."""
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        spec = PathFinder.find_spec("_native", [package])
        if spec is None or spec.loader is None:
            raise ImportError(f"there is no native module in {package}")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    _native = _beside()

__all__ = ["main"]


def main() -> int:
    """Runs the scripted agent on stdin and stdout of this process. Returns the exit code."""
    # Python's own handler would only note the signal, for a bytecode that never comes.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_scripted_agent(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
