"""The catalogues of messages and options, as the core prints them, from which types and tables are generated."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def in_node(name: str) -> str:
    """The name of an option or a function in Node."""
    return re.sub("_(.)", lambda match: match[1].upper(), name)


def load_catalog(example: str = "wire_catalog") -> dict[str, Any]:
    """Runs the core's example that prints a catalogue. It is built with the other programs, in one command."""
    if "BUILT" not in os.environ:
        subprocess.run(["cargo", "programs", "--quiet"], cwd=ROOT, check=True)
    program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/examples" / example
    done = subprocess.run([program], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
