"""The tables of docs/security.md: every row names tests, and each test that is named is there, in any language."""

from __future__ import annotations

import re
from pathlib import Path

import promises
import servers

_NAME = re.compile(r"`([^`]+)`")
_PROSE = re.compile(r"`([\w./]+::[^`]+)`")
_TABLE = re.compile(r"^\|.*\| tests \|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    """The cells of all tables whose last column are tests."""
    lines = [line for table in _TABLE.findall(text) for line in table.splitlines()]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def mistakes(text: str, root: Path) -> list[str]:
    found = []
    for row in rows(text):
        names = _NAME.findall(row[-1])
        if len(row) != 3 or not all(row):
            found.append(f"a row without all of its cells: {row[0]}")
        elif not names or re.sub(r"[,\s]", "", _NAME.sub("", row[-1])):
            found.append(f"no test, or more than names of tests: {row[-1]}")
        found += [f"there is no test {name}" for name in names if not exists(name, root)]
    prose = _TABLE.sub("", text)
    return found + [f"there is no test {name}" for name in _PROSE.findall(prose) if not exists(name, root)]


def exists(name: str, root: Path) -> bool:
    file, _, wanted = name.partition("::")
    if file.endswith(".mjs"):
        path = root / "bindings-node/test" / file
        return path.is_file() and f'test("{wanted}", ' in path.read_text("utf-8")
    if file.endswith(".py"):
        return promises.exists(name, [root / "bindings-python/tests", root / "tests/attacks"])
    return servers.exists(name, root)
