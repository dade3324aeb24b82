"""The catalogue of Wire's messages, as the core prints it, from which Python's and TypeScript's types are generated."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def load_catalog() -> dict[str, Any]:
    """Builds and runs the core's example that prints the catalogue."""
    command = ["cargo", "run", "--quiet", "--locked", "--package", "kimi-agent-protocol", "--example", "wire_catalog"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
