"""Tables in documents whose last column names tests: every row names tests, and each named test exists."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

_TABLE = re.compile(r"^\|.*\| tests? \|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")
_IN_PROSE = re.compile(r"`([\w./]+::[^`]+)`")
_PYTHON_FOLDERS = ("bindings-python/tests", "tests/attacks", "tests/exit")


def rows(text: str) -> list[list[str]]:
    """The cells of all tables whose last column is `test` or `tests`."""
    lines = [line for table in _TABLE.findall(text) for line in table.splitlines()]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def mistakes(text: str, root: Path) -> list[str]:
    """The problems of the tables, and of tests that the text around them names."""
    found = []
    for row in rows(text):
        names = _NAME.findall(row[-1])
        if not all(row):
            found.append(f"a row with an empty cell: {row[0]}")
        if not names or re.sub(r"[,\s]", "", _NAME.sub("", row[-1])):
            found.append(f"no test, or more than names of tests: {row[-1]}")
        found += [f"there is no test {name}" for name in names if not exists(name, root)]
    prose = _TABLE.sub("", text)
    return found + [f"there is no test {name}" for name in _IN_PROSE.findall(prose) if not exists(name, root)]


def exists(name: str, root: Path) -> bool:
    """Is there `scenarios/NAME` (or `TABLE/CASE`), `real/NAME`, `file.py::NAME`, `file.mjs::NAME`,
    `file.ts::NAME` or `module::NAME`?"""
    for folder, place in (("scenarios/", "tests/scenarios"), ("real/", "tests/real/cases")):
        if name.startswith(folder):
            file, _, case = name.removeprefix(folder).partition("/")
            path = root / place / f"{file}.json"
            cases = json.loads(path.read_text("utf-8")).get("cases", []) if path.exists() else []
            return any(row["case"] == case for row in cases) if case else path.exists()
    file, _, wanted = name.partition("::")
    if file.endswith((".mjs", ".ts")):
        of_node = ("bindings-node/test", "tests/programs/node", "tests/foreign/node")
        folders = ("inspector/test",) if file.endswith(".ts") else of_node
        paths = [root / folder / file for folder in folders]
        return any(f'test("{wanted}", ' in path.read_text("utf-8") for path in paths if path.is_file())
    if file.endswith(".py"):
        paths = [root / folder / file for folder in _PYTHON_FOLDERS]
        return any(wanted in _in_python(path) for path in paths if path.is_file())
    return _in_rust(name.split("::"), root)


def _in_python(file: Path) -> set[str]:
    """Test functions; in a program that is no file of tests, the tables that it works through."""
    body = ast.parse(file.read_text("utf-8")).body
    tests = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    tables = {node.target.id for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    return {test for test in tests if test.startswith("test_")} if file.stem.startswith("test_") else tables


def _in_rust(path: list[str], root: Path) -> bool:
    """The path may begin with a crate's folder in core/; unit tests may be a module in the file itself."""
    *modules, function = path
    if modules[-1:] == ["tests"] and not _rust_files(modules, root):
        modules.pop()
    test = re.compile(rf"#\[(?:tokio::)?test(?:\([^)]*\))?\]\s*(?:async )?fn {re.escape(function)}\(")
    return any(test.search(file.read_text("utf-8")) for file in _rust_files(modules, root))


def _rust_files(modules: list[str], root: Path) -> list[Path]:
    crate, place = root / "core" / modules[0] / "src", "/".join(modules[1:]) or "lib"
    inside = [crate / f"{place}.rs", crate / place / "mod.rs"]
    anywhere = [file for end in (".rs", "/mod.rs") for file in root.glob(f"core/**/{'/'.join(modules)}{end}")]
    return [file for file in [*inside, *anywhere] if file.is_file()]
