"""Writes what language models read: each page as Markdown next to its address, `llms.txt` and `llms-full.txt`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from pages import Block, link_to_repository, read

# Directives for the tests of the documents, and sections for one package: a line of its own.
_DIRECTIVE = re.compile(r"^[ \t]*<!--.*?-->\n", re.MULTILINE)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_CODE_OR_BREAK = re.compile(r"\n\s*\n")


def plain(markdown: str, page: str) -> str:
    """Returns the text of a page without the comments that only tests read.

    A link to a program becomes its code, and other links to files outside of docs/ lead to the repository.
    """
    lines: list[str] = []
    for part in read(_DIRECTIVE.sub("", markdown), page):
        lines += part.lines if isinstance(part, Block) else [link_to_repository(line, page) for line in part.lines]
    return "\n".join(lines) + "\n"


def summary(markdown: str) -> str:
    """Returns the first paragraph of a page on one line, without links."""
    body = _TITLE.split(_DIRECTIVE.sub("", markdown), maxsplit=1)[-1].strip()
    first = _CODE_OR_BREAK.split(body, maxsplit=1)[0]
    if first.startswith(("#", "|", "```", "!", "- ", "<")):
        return ""
    return " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first).split())


def texts(pages: dict[str, str], about: str) -> dict[str, str]:
    """Returns the files by their paths. `pages` has the Markdown of each page by its path, in the order of the site."""
    found = {path: plain(markdown, path) for path, markdown in pages.items()}
    lines = [
        "# kimi-agent",
        "",
        f"> {about}",
        "",
        "Pages without the API in one file: [llms-full.txt](llms-full.txt)",
    ]
    section = None
    for path, markdown in pages.items():
        folder = path.split("/")[0] if "/" in path else "start"
        if folder != section:
            section = folder
            lines += ["", f"## {'API' if folder == 'api' else folder.capitalize()}", ""]
        title = _TITLE.search(markdown)
        said = summary(markdown)
        lines.append(f"- [{title[1] if title else path}]({path})" + (f": {said}" if said else ""))
    found["llms.txt"] = "\n".join(lines) + "\n"
    found["llms-full.txt"] = "\n".join(
        f"<!-- {path} -->\n\n{found[path]}" for path in pages if not path.startswith("api/")
    )
    return found


def on_post_build(config: Any) -> None:
    root = Path(config.docs_dir)
    sections = ["", "tutorial", "guides", "cookbook", "reference", "explanation", "evidence", "api"]
    paths = [path.relative_to(root).as_posix() for path in root.rglob("*.md")]
    # An index is the first page of its folder.
    ordered = sorted(
        (path for path in paths if path.rpartition("/")[0].split("/")[0] in sections),
        key=lambda path: (sections.index(path.rpartition("/")[0].split("/")[0]), not path.endswith("index.md"), path),
    )
    pages = {path: (root / path).read_text("utf-8") for path in ordered}
    for path, text in texts(pages, config.site_description).items():
        target = Path(config.site_dir) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
