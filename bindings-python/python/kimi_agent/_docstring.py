"""Reads what a docstring says about a function and about each of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Docstring", "parse"]


class Docstring(NamedTuple):
    """A docstring taken apart."""

    description: str
    """Everything that is not about parameters or exceptions."""
    parameters: dict[str, str]


_PARAMETERS = frozenset(
    {
        "args",
        "arguments",
        "attributes",
        "keyword args",
        "keyword arguments",
        "other parameters",
        "parameters",
        "params",
    }
)
_ERRORS = frozenset({"raises", "exceptions", "except"})
_OTHER = frozenset(
    {"example", "examples", "note", "notes", "return", "returns", "see also", "warning", "warnings", "yield", "yields"}
)
# Compiled when first needed: many docstrings need none of them.
_HEADER = r"^([A-Za-z][A-Za-z ]*?)\s*:\s*$"
_UNDERLINE = r"^-{3,}\s*$"
_GOOGLE_ITEM = r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*(?::|--?(?=\s))\s*(.*)$"
_NUMPY_ITEM = r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_FIELD = r"^:(\w+)(?:\s+([^:]*?))?\s*:\s*(.*)$"
_PARAM_FIELDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "ivar", "var"})


def parse(text: str | None) -> Docstring:
    """Google, NumPy and Sphinx sections are understood, in any mixture; other text is description."""
    lines = inspect.cleandoc(text or "").splitlines()
    kept: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if at + 1 < len(lines) and _match(_UNDERLINE, "---", lines[at + 1]) and _known(line):
            end = _numpy_end(lines, at + 2)
            block = lines[at + 2 : end]
            if _is(line, _PARAMETERS):
                parameters.update(_items(block, _numpy_names))
            elif not _is(line, _ERRORS):
                kept += [f"{line.strip()}:", *block]
            at = end
        elif (header := _match(_HEADER, ":", line)) and _known(header.group(1)):
            end = _indented_end(lines, at + 1, _indent(line))
            block = lines[at + 1 : end]
            if _is(header.group(1), _PARAMETERS):
                # PEP 257's own example does not indent what follows "Keyword arguments:".
                if not any(row.strip() for row in block):
                    end = _flush_end(lines, at + 1)
                    block = lines[at + 1 : end]
                parameters.update(_items(block, _google_names))
            elif not _is(header.group(1), _ERRORS):
                kept += [line, *block]
            at = end
        elif field := _match(_FIELD, ":", line):
            end = _indented_end(lines, at + 1, 0)
            if field.group(1) in _PARAM_FIELDS and field.group(2):
                # ":param int limit: …" carries a type before the name.
                name = field.group(2).split()[-1].lstrip("*")
                parameters[name] = _join([field.group(3), *lines[at + 1 : end]])
            elif field.group(1) in ("return", "returns"):
                kept.append("Returns: " + _join([field.group(3), *lines[at + 1 : end]]))
            at = end
        else:
            kept.append(line)
            at += 1
    description = "\n".join(row.rstrip() for row in kept).strip()
    if "\n\n\n" in description:
        description = re.sub(r"\n{3,}", "\n\n", description)
    return Docstring(description, {name: said for name, said in parameters.items() if said})


def _match(pattern: str, mark: str, line: str) -> re.Match[str] | None:
    """A match with a pattern that needs the mark, without which the pattern is not even compiled."""
    return re.match(pattern, line) if mark in line else None


def _is(title: str, names: frozenset[str]) -> bool:
    return title.strip().lower() in names


def _known(title: str) -> bool:
    return _is(title, _PARAMETERS | _ERRORS | _OTHER)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _indented_end(lines: list[str], at: int, outer: int) -> int:
    end = at
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > outer):
        at += 1
        if lines[at - 1].strip():
            end = at
    return end


def _flush_end(lines: list[str], at: int) -> int:
    while at < len(lines) and lines[at].strip():
        at += 1
    return at


def _numpy_end(lines: list[str], at: int) -> int:
    while at < len(lines):
        if at + 1 < len(lines) and _match(_UNDERLINE, "---", lines[at + 1]) and lines[at].strip():
            break
        if (header := _match(_HEADER, ":", lines[at])) and _known(header.group(1)):
            break
        at += 1
    return at


def _google_names(line: str) -> tuple[list[str], str] | None:
    found = re.match(_GOOGLE_ITEM, line.strip())
    return ([found.group(1)], found.group(2)) if found else None


def _numpy_names(line: str) -> tuple[list[str], str] | None:
    found = re.match(_NUMPY_ITEM, line.strip())
    return ([name.strip().lstrip("*") for name in found.group(1).split(",")], "") if found else None


def _items(block: list[str], names: Callable[[str], tuple[list[str], str] | None]) -> dict[str, str]:
    rows = [row for row in block if row.strip()]
    if not rows:
        return {}
    margin = min(_indent(row) for row in rows)
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for row in block:
        item = names(row) if row.strip() and _indent(row) == margin else None
        if item is not None:
            current = [item[1]]
            for name in item[0]:
                found[name] = current
        else:
            current.append(row)
    return {name: _join(said) for name, said in found.items()}


def _join(rows: list[str]) -> str:
    return " ".join(row.strip() for row in rows if row.strip())
