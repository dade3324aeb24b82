"""Code blocks in Markdown, with what the comments before them say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

DIRECTIVES = {
    "setup": "the block is put into this preamble (preambles/NAME.*)",
    "agent": "the agent that `executable` stands for when unset follows this script (scripts/NAME.json)",
    "output": "the text is what the block before prints",
    "data": "the JSON is no script",
    "run": "the shell commands are run",
    "fails": "the shell commands are run, must fail, and print this text",
    "project": "the block belongs to these directories of its document: a file, or commands that run there",
    "untyped": "run, but its types are not checked, for the reason given",
    "skip": "not run, for the reason given",
}
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')
_DIRECTIVE = re.compile(r"^<!-- (?P<name>[a-z]+)(?:: (?P<value>.*\S))? -->$")


class Mistake(Exception):
    """A document is not as it should be."""


@dataclass
class Block:
    """A block of code, and where it stands."""

    document: str
    line: int
    language: str
    code: str
    directives: dict[str, str] = field(default_factory=dict)
    title: str = ""

    @property
    def projects(self) -> list[str]:
        """The directories that the block shares with other blocks of its document."""
        return [f"{self.document} {name}" for name in self.directives.get("project", "").split()]

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def name(self) -> str:
        """A name for files and modules."""
        return re.sub(r"[^a-z0-9]+", "_", self.document.lower()) + f"_{self.line}"


def read(path: Path, root: Path) -> list[Block]:
    """All blocks of a document."""
    document = path.relative_to(root).as_posix()
    found: list[Block] = []
    directives: dict[str, str] = {}
    lines = iter(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        opening = _FENCE.match(line)
        if opening is None:
            comment = _DIRECTIVE.match(line.strip())
            if comment is not None:
                if comment["name"] not in DIRECTIVES:
                    raise Mistake(f"{document}:{number}: there is no directive {comment['name']!r}")
                directives[comment["name"]] = comment["value"] or ""
            elif line.strip() and directives:
                raise Mistake(f"{document}:{number}: a directive stands before something that is no block")
            continue
        code: list[str] = []
        for _, inner in lines:
            closing = _FENCE.match(inner)
            if closing and closing["fence"].startswith(opening["fence"]) and not closing["info"].strip():
                break
            code.append(inner.removeprefix(opening["indent"]))
        else:
            raise Mistake(f"{document}:{number}: the block has no end")
        # What follows the language is for the site, for example `title="main.py"`.
        language = (opening["info"].split() or [""])[0]
        title = _TITLE.search(opening["info"])
        found.append(
            Block(document, number, language, "\n".join(code) + "\n", directives, title["title"] if title else "")
        )
        directives = {}
    return found


def with_preamble(block: Block, preamble: Path) -> str:
    """The block in the place that its preamble has for it, indented as that place is."""
    lines = preamble.read_text(encoding="utf-8").splitlines()
    places = [at for at, line in enumerate(lines) if line.strip() in ("# the block", "// the block")]
    if len(places) != 1:
        raise Mistake(f"{preamble.name}: there must be one line for the block")
    (at,) = places
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    body = [f"{indent}{line}" if line.strip() else "" for line in block.code.splitlines()]
    return "\n".join([*lines[:at], *body, *lines[at + 1 :]]) + "\n"
