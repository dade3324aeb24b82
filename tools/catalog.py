"""The catalogues of messages and options, as the core prints them, from which types and tables are generated."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def in_node(name: str) -> str:
    """The name of an option or a function in Node."""
    return re.sub("_(.)", lambda match: match[1].upper(), name)


def load_catalog(example: str = "wire_catalog") -> dict[str, Any]:
    """Builds and runs the core's example that prints a catalogue."""
    command = ["cargo", "run", "--quiet", "--locked", "--package", "kimi-agent-protocol", "--example", example]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
