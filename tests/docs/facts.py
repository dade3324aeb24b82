"""What documents say that can be looked up: links, names of targets, and the names in tables."""

from __future__ import annotations

import re
from pathlib import Path

import kimi_agent
from kimi_agent import KimiAgentError, SessionOptions

_FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
_PATH = re.compile(r"`((?:core|bindings-python|bindings-node|tests|tools|demo|docs|\.ci)/[\w./-]+)`")
_FIRST_COLUMN = re.compile(r"^\| *`([a-z_]+)`", re.MULTILINE)


def mistakes(documents: list[Path], root: Path) -> tuple[int, list[str]]:
    """How many facts were looked up, and what is wrong with them."""
    found: list[str] = []
    looked_up = 0
    targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(), re.MULTILINE))
    for document in documents:
        name = document.relative_to(root).as_posix()
        text = document.read_text(encoding="utf-8")
        prose = _FENCED.sub("", text)
        for link in _LINK.findall(prose):
            looked_up += 1
            if not link.startswith(("http:", "https:")) and not _leads_somewhere(document, link):
                found.append(f"{name}: the link {link} leads nowhere")
        # In prose a target is between backticks; "make sure" is none.
        code = re.findall(r"`[^`\n]+`", prose)
        code += [block.group(0) for block in _FENCED.finditer(text) if re.match(r" *[`~]+(sh|bash)", block.group(0))]
        for target in _MAKE.findall("\n".join(code)):
            looked_up += 1
            if target not in targets:
                found.append(f"{name}: there is no `make {target}`")
        for path in _PATH.findall(prose):
            looked_up += 1
            if not (root / path).exists() and not list(root.glob(path)):
                found.append(f"{name}: there is no {path}")
    for table, wanted in (("errors.md", _codes()), ("options.md", set(SessionOptions.__annotations__))):
        looked_up += len(wanted)
        listed = set(_FIRST_COLUMN.findall((root / "docs" / table).read_text(encoding="utf-8")))
        found += [f"docs/{table}: `{one}` is missing" for one in sorted(wanted - listed)]
        found += [f"docs/{table}: there is no `{one}`" for one in sorted(listed - wanted)]
    return looked_up, found


def _codes() -> set[str]:
    classes = [value for value in vars(kimi_agent).values() if isinstance(value, type)]
    return {kind.code for kind in classes if issubclass(kind, KimiAgentError)}


def _leads_somewhere(document: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (document.parent / path) if path else document
    if not target.exists():
        return False
    if not anchor or target.suffix != ".md":
        return True
    headings = _HEADING.findall(_FENCED.sub("", target.read_text(encoding="utf-8")))
    return anchor in {_anchor(heading) for heading in headings}


def _anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
