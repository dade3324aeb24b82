"""The table of docs/real-servers.md: every row names a test, and every test that it names is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

CRATES = ("protocol", "files", "client", "agent", "bridge", "kimi-agent")
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"`([a-z_]+(?:::[a-z_0-9]+)+)`")


def rows(text: str) -> list[list[str]]:
    """The cells of the tables, without heads and rulers."""
    found = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in _ROW.findall(text)]
    return [row for row in found if row[-1] != "test" and set(row[-1]) != {"-"}]


def mistakes(text: str, root: Path) -> list[str]:
    found = []
    for row in rows(text):
        names = _NAME.findall(row[-1])
        if len(row) != 4 or not all(row):
            found.append(f"a row without all of its cells: {row[0]}")
        elif not names or _NAME.sub("", row[-1]).replace(",", "").strip():
            found.append(f"no test, or more than names of tests: {row[-1]}")
        found += [f"there is no test {name}" for name in names if not exists(name, root)]
    # What the page says in prose is to be true, too.
    prose = _ROW.sub("", text)
    found += [
        f"there is no test {name}"
        for name in re.findall(r"`([a-z_]+(?:::[a-z_0-9]+)+)`", prose)
        if not exists(name, root)
    ]
    return found


def exists(name: str, root: Path) -> bool:
    for folder, place in (("scenarios/", "tests/scenarios"), ("real/", "tests/real/cases")):
        if name.startswith(folder):
            file, _, case = name.removeprefix(folder).partition("/")
            path = root / place / f"{file}.json"
            cases = json.loads(path.read_text("utf-8")).get("cases", []) if path.exists() else []
            return any(row["case"] == case for row in cases) if case else path.exists()
    *modules, function = name.split("::")
    attributed = re.compile(rf"#\[(?:tokio::)?test(?:\([^)]*\))?\]\s*(?:async )?fn {re.escape(function)}\(")
    return any(attributed.search(path.read_text("utf-8")) for path in files(modules, root))


def files(modules: list[str], root: Path) -> list[Path]:
    """Where a Rust module may be; its unit tests may be a module in the file itself."""
    inside = modules[:-1] if modules[-1:] == ["tests"] else modules
    places = []
    for path in {"/".join(modules), "/".join(inside)}:
        places += [f"core/{crate}/{path}" for crate in CRATES for path in (f"src/{path}.rs", f"src/{path}/mod.rs", f"tests/{path}.rs")]
    return [root / place for place in places if (root / place).is_file()]
