"""The table on Python in docs/reliability.md: every promise names tests, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_NAME = re.compile(r"`([^`]+)`")


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without head and ruler."""
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\|(.+)\|$", section.group(1), re.MULTILINE) if section else []
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def mistakes(text: str, heading: str, folders: list[Path]) -> list[str]:
    """What is wrong with the table; the files that it names are looked for in these folders."""
    found = []
    for row in rows(text, heading):
        names = _NAME.findall(row[-1])
        if len(row) != 3 or not all(row):
            found.append(f"a row without all of its cells: {row[0]}")
        elif not names or _NAME.sub("", row[-1]).replace(",", "").strip():
            found.append(f"no test, or more than names of tests: {row[-1]}")
        found += [f"there is no test {name}" for name in names if not exists(name, folders)]
    return found


def exists(name: str, folders: list[Path]) -> bool:
    """Is there `file.py::name`, a test or, in a program that is a test as a whole, what it plays?"""
    file, _, wanted = name.partition("::")
    return any(wanted in _defined(folder / file) for folder in folders if (folder / file).is_file())


def _defined(file: Path) -> set[str]:
    found = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            found.add(node.name)
        elif (
            isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not file.stem.startswith("test_")
        ):
            found.add(node.target.id)
    return found
