"""The references in documents: links, names of targets, and the names in tables."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import kimi_agent
from kimi_agent import BatchOptions, KimiAgentError, Retry, SessionOptions

_FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
_PATH = re.compile(r"`((?:core|bindings-python|bindings-node|tests|tools|demo|docs|\.ci)/[\w./-]+)`")
# `make docs` writes these pages, and the tests of the site follow the links to them.
_GENERATED = "docs/reference/api/"
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
            if not link.startswith(("http:", "https:")) and not _leads_somewhere(document, link, root):
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
    retry = {field.name for field in dataclasses.fields(Retry)}
    options = set(SessionOptions.__annotations__) | set(BatchOptions.__annotations__) | retry
    tables = (("reference/errors.md", _codes()), ("reference/options.md", options))
    for table, wanted in tables:
        looked_up += len(wanted)
        listed = set(_FIRST_COLUMN.findall((root / "docs" / table).read_text(encoding="utf-8")))
        found += [f"docs/{table}: `{one}` is missing" for one in sorted(wanted - listed)]
        found += [f"docs/{table}: there is no `{one}`" for one in sorted(listed - wanted)]
    wanted_sections, mistaken = _sections((root / "docs/reference/errors.md").read_text(encoding="utf-8"), _codes())
    return looked_up + wanted_sections, found + [f"docs/reference/errors.md: {mistake}" for mistake in mistaken]


def _sections(text: str, codes: set[str]) -> tuple[int, list[str]]:
    """How many sections of errors were looked up, and what is wrong with them. `help` of an error leads to one."""
    _, *sections = re.split(r"^## +", text, flags=re.MULTILINE)
    found: list[str] = []
    headings = [section.partition("\n")[0].strip() for section in sections]
    found += [f"there is no section `{code}`" for code in sorted(codes - set(headings))]
    found += [f"the section `{heading}` is of no code" for heading in headings if heading not in codes]
    found += [
        f"there are several sections `{heading}`" for heading in sorted(set(headings)) if headings.count(heading) > 1
    ]
    for heading, section in zip(headings, sections, strict=True):
        bullets = re.findall(r"^- \*\*(\w+):\*\* \S", section, re.MULTILINE)
        if bullets != ["Cause", "Check", "Remedy"]:
            found.append(f"the section `{heading}` has {bullets}; expected Cause, Check and Remedy")
    return len(codes), found


def _codes() -> set[str]:
    classes = [value for value in vars(kimi_agent).values() if isinstance(value, type)]
    return {kind.code for kind in classes if issubclass(kind, KimiAgentError)}


def _leads_somewhere(document: Path, link: str, root: Path) -> bool:
    path, _, anchor = link.partition("#")
    target = (document.parent / path).resolve() if path else document
    if target.is_relative_to(root / _GENERATED):
        return True
    # `make docs` makes a page of each recording.
    if target.suffix == ".html" and target.is_relative_to(root / "docs/assets"):
        return target.with_suffix(".jsonl").exists()
    if not target.exists():
        return False
    if not anchor or target.suffix != ".md":
        return True
    headings = _HEADING.findall(_FENCED.sub("", target.read_text(encoding="utf-8")))
    return anchor in {_anchor(heading) for heading in headings}


def _anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
