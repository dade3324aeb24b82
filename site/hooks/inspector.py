"""Adds the pages of the inspector: one for each recording in docs/assets, with the same name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = Path(os.environ.get("DOCS_COMMAND", ROOT / "target" / "debug" / "kimi-agent"))


def on_files(files: Any, config: Any) -> Any:
    if not COMMAND.exists():
        raise PluginError(f"the command {COMMAND} does not exist; `make docs` builds it first")
    for recording in sorted((Path(config.docs_dir) / "assets").glob("*.jsonl")):
        made = subprocess.run([COMMAND, "inspect", recording, "-o", "-"], capture_output=True, check=False)
        if made.returncode:
            raise PluginError(f"{recording.name}: {made.stderr.decode()}")
        files.append(File.generated(config, f"assets/{recording.stem}.html", content=made.stdout))
    return files
