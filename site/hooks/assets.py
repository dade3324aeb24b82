"""Adds the site's own style sheet and script, and the script with which the search works from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

SITE = Path(__file__).resolve().parent.parent
# Its name tells the plugin for offline use that it need not add the script of another host.
WORKER = "assets/iframe-worker.js"


# Before the plugin for offline use looks.
@event_priority(100)
def on_config(config: Any) -> Any:
    config.extra.setdefault("polyfills", []).append(WORKER)
    return config


def on_files(files: Any, config: Any) -> Any:
    worker = SITE / "node_modules" / "iframe-worker" / "shim" / "index.js"
    files.append(File.generated(config, WORKER, abs_src_path=str(worker)))
    for own in sorted((SITE / "assets").iterdir()):
        files.append(File.generated(config, f"assets/{own.name}", abs_src_path=str(own)))
    return files
