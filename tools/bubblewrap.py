"""Puts bubblewrap, with which the tests run agents in a sandbox, into .cache, if this machine has none.

The package is taken from Debian and extracted, not installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "cross"))

import debian

CACHE = Path(__file__).resolve().parent.parent / ".cache"


def main() -> int:
    """Exits with 0 also if it cannot be had: the tests that need it then say so."""
    if sys.platform != "linux" or shutil.which("bwrap"):
        return 0
    try:
        debian.extract(CACHE, "bubblewrap", ("bubblewrap",))
    except (SystemExit, OSError, subprocess.CalledProcessError) as error:
        print(f"bubblewrap cannot be taken from Debian: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
