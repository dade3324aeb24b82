"""Puts what rustdoc has written into the site, and adds a page that leads there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

WRITTEN = Path(os.environ.get("DOCS_RUST", Path(__file__).resolve().parent.parent.parent / "target" / "doc"))
FOLDER = "reference/api/rust"
PAGE = """\
# Rust API

rustdoc has pages of its own, with their own search:

<p><a class="md-button md-button--primary" href="kimi_agent/index.html">Documentation of the crate kimi_agent</a></p>

They include what the features `agent`, `testing`, `mcp` and `kimi-web` add.
"""


def on_files(files: Any, config: Any) -> Any:
    if not (WRITTEN / "kimi_agent" / "index.html").exists():
        raise PluginError(f"rustdoc has written nothing into {WRITTEN}; `make docs` calls it first")
    files.append(File.generated(config, f"{FOLDER}/index.md", content=PAGE))
    files.append(File.generated(config, f"{FOLDER}/.nav.yml", content="title: Rust\n"))
    return files


def on_post_build(config: Any) -> None:
    # Not index.html, which would be that of this page, and no other crate that was documented into the same folder.
    crates = {path.name for path in WRITTEN.glob("*") if path.is_dir() and path.name.startswith("kimi_agent")}
    for path in WRITTEN.iterdir():
        if (
            path.name in {*crates, "static.files", "search.index", "src", "trait.impl", "type.impl"}
            or path.suffix == ".js"
        ):
            place = Path(config.site_dir) / FOLDER / path.name
            if path.is_dir():
                shutil.copytree(path, place, dirs_exist_ok=True)
            else:
                shutil.copy(path, place)
