"""Adds the pages of the Node API, which TypeDoc has written as Markdown into .cache/site/node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

WRITTEN = Path(__file__).resolve().parent.parent.parent / ".cache" / "site" / "node"
FOLDER = "reference/api/node"


def on_files(files: Any, config: Any) -> Any:
    pages = sorted(WRITTEN.rglob("*.md"))
    if not pages:
        raise PluginError(f"TypeDoc has written nothing into {WRITTEN}; `make docs` calls it first")
    for page in pages:
        path = page.relative_to(WRITTEN).as_posix()
        files.append(File.generated(config, f"{FOLDER}/{path}", abs_src_path=str(page)))
    files.append(File.generated(config, f"{FOLDER}/.nav.yml", content="title: Node\n"))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Writes `\\<`, which Python's Markdown does not know, in another way."""
    if not page.file.src_uri.startswith(f"{FOLDER}/"):
        return markdown
    return markdown.replace("\\<", "&lt;").replace("\\>", "&gt;")
