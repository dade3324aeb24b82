"""Prepares a page of docs/ for the site: language tabs, programs, links to files outside of docs/, no comments.

The pages are written for GitHub as well, where blocks of code in several languages stand below each other, and where a
program and the example of README.md are links.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
REPOSITORY = "https://github.com/kimi-agent/kimi-agent"
# The tabs in their order, by the language of a block.
TABS = {"python": "Python", "ts": "Node", "js": "Node", "cjs": "Node", "rust": "Rust"}
ORDER = ("Python", "Node", "Rust")
# The language of a program, by the end of its name; by the whole name if it has no dot.
PROGRAMS = {
    ".cjs": "js",
    ".html": "html",
    ".js": "js",
    ".json": "json",
    ".mjs": "js",
    ".py": "python",
    ".rs": "rust",
    ".ts": "ts",
    ".yml": "yaml",
    "Dockerfile": "dockerfile",
}

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_COMMENT = re.compile(r"^ *<!--.*-->\s*$")
_OUTPUT = re.compile(r"^ *<!-- output -->\s*$")
# A line of its own.
_PROGRAM = re.compile(r"^\[`(?P<name>[\w.]+)`\]\((?P<path>(?:\.\./)+(?:tests|demo|core)/\S+)\)$")
# A line of its own: a section of README.md, of which the site shows the blocks of code.
_README = re.compile(r"^\[[^\]]+\]\(\.\./README\.md#(?P<anchor>[\w-]+)\)$")
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
# A link to a file of the API, or to a name in it.
_API = re.compile(
    r"\[(?P<text>[^\]]+)\]\((?P<file>(?:\.\./)*api/(?P<language>python|node|rust)\.md)(?:#(?P<anchor>\w+))?\)"
)


@dataclass
class Text:
    """Lines that are not in a block of code."""

    lines: list[str]

    def is_blank(self) -> bool:
        return not any(line.strip() for line in self.lines)


@dataclass
class Block:
    """A block of code with its fences."""

    lines: list[str]
    language: str
    is_output: bool
    indented: bool


def on_config(config: Any) -> Any:
    """Makes anchors of headings as GitHub does, so that links work in both places."""
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def slug(heading: str, separator: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    # Pages that other hooks generate are complete.
    if page.file.generated_by:
        return markdown
    parts = list(read(markdown, page.file.src_uri))
    for part in parts:
        if isinstance(part, Text):
            part.lines = [
                link_to_repository(link_to_api(line, page.file.src_uri), page.file.src_uri) for line in part.lines
            ]
    return "\n".join(line for part in grouped(parts) for line in part) + "\n"


def read(markdown: str, page: str) -> Iterator[Text | Block]:
    """The parts of a page, without comments. A comment becomes an empty line, a link to an example its code."""
    text = Text([])
    is_output = False
    lines = iter(markdown.splitlines())
    for line in lines:
        opening = _FENCE.match(line)
        program = _PROGRAM.match(line)
        if program and language_of(program["name"]):
            yield text
            text = Text([])
            yield shown_program(
                program["name"], posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), program["path"]))
            )
            continue
        if example := _README.match(line):
            yield text
            text = Text([])
            yield from (part for part in read(readme_section(example["anchor"]), page) if isinstance(part, Block))
            continue
        if opening is None:
            is_output = bool(_OUTPUT.match(line)) or (is_output and not line.strip())
            text.lines.append("" if _COMMENT.match(line) else line)
            continue
        yield text
        text = Text([])
        block = [line]
        for inner in lines:
            block.append(inner)
            closing = _FENCE.match(inner)
            if closing and closing["fence"].startswith(opening["fence"]) and not closing["info"].strip():
                break
        language = (opening["info"].split() or [""])[0]
        yield Block(block, language, is_output, bool(opening["indent"]))
        is_output = False
    yield text


def readme_section(anchor: str) -> str:
    """The section of README.md below the heading with this anchor."""
    _, *sections = re.split(r"^## ", (ROOT / "README.md").read_text("utf-8"), flags=re.MULTILINE)
    return next(section for section in sections if slug(section.partition("\n")[0], "-") == anchor)


def grouped(parts: list[Text | Block]) -> Iterator[list[str]]:
    """The lines of the parts; blocks of several languages that follow each other become tabs."""
    at = 0
    while at < len(parts):
        group, end = tabs_at(parts, at)
        if len(group) > 1:
            for label in ORDER:
                if label in group:
                    yield ["", f'=== "{label}"', *indented(group[label])]
            yield [""]
            at = end
        else:
            part = parts[at]
            yield part.lines if isinstance(part, Text) else shown(part)
            at += 1


def tabs_at(parts: list[Text | Block], at: int) -> tuple[dict[str, list[str]], int]:
    """The tabs that begin at a part, and the part after them."""
    group: dict[str, list[str]] = {}
    label = ""
    end = at
    for number, part in enumerate(parts[at:], at):
        if isinstance(part, Text):
            if number == at or not part.is_blank():
                break
            continue
        if part.is_output and label:
            group[label] += ["", *shown(part)]
        elif part.language in TABS and not part.indented and TABS[part.language] not in group:
            label = TABS[part.language]
            group[label] = ["", *shown(part)]
        else:
            break
        end = number + 1
    return group, end


def language_of(program: str) -> str:
    return PROGRAMS.get(posixpath.splitext(program)[1] or program, "")


def shown_program(name: str, path: str) -> Block:
    language = language_of(name)
    code = (ROOT / path).read_text("utf-8").rstrip("\n").splitlines()
    return Block([f'```{language} title="{path}"', *code, "```"], language, is_output=False, indented=False)


def shown(block: Block) -> list[str]:
    """The lines of a block, with what the site adds to its first one."""
    first, *rest = block.lines
    if block.language == "cjs":
        first = first.replace("cjs", "js", 1)
    if block.is_output:
        first += ' title="Output"'
    return [first, *rest]


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]


def link_to_api(line: str, page: str) -> str:
    """The line with its links to names of the API leading to the pages of the site, which have them one by one."""

    def replaced(link: re.Match[str]) -> str:
        if link["anchor"] is None:
            # As HTML, because the file is on the site as it is.
            return f'<a href="{link["file"]}">{link["text"]}</a>'
        heading = re.compile(rf"^### ({link['anchor']})$", re.MULTILINE | re.IGNORECASE)
        file = (ROOT / "docs" / "api" / f"{link['language']}.md").read_text("utf-8")
        name = heading.findall(file)[0]
        if link["language"] == "python":
            return f"[{link['text']}][kimi_agent.{name}]"
        written = next((ROOT / ".cache" / "site" / "node").rglob(f"kimi-agent.{name}.md"))
        target = f"reference/api/node/{written.parent.name}/{written.name}"
        return f"[{link['text']}]({posixpath.relpath(target, posixpath.dirname(page) or '.')})"

    return _API.sub(replaced, line)


def link_to_repository(line: str, page: str) -> str:
    """The line with its links to files outside of docs/ leading to the repository."""

    def replaced(link: re.Match[str]) -> str:
        path, hash_, anchor = link[2].partition("#")
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
        if not path or re.match(r"[a-z]+:", path) or target.startswith("docs/") or target == "docs":
            return link[0]
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{link[1]}{REPOSITORY}/{kind}/main/{target}{hash_}{anchor}{link[3]}"

    return _LINK.sub(replaced, line)
