"""What is promised of Python has a test each, and the table that says so is looked through."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from promises import exists, mistakes, rows

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/reliability.md"
FOLDERS = [ROOT / "bindings-python/tests", ROOT / "tests/exit"]


def test_every_promise_names_tests_that_are_there() -> None:
    text = PAGE.read_text("utf-8")
    assert len(rows(text, "In Python")) > 15
    assert mistakes(text, "In Python", FOLDERS) == []


@pytest.mark.parametrize(
    "name", ["test_sync.py::test_ctrl_c", "test_leaving.py::test_break_out_of_a_step", "run.py::WAYS"]
)
def test_a_test_is_found(name: str) -> None:
    assert exists(name, FOLDERS)
    assert not exists(f"{name}_not", FOLDERS)
    assert not exists(name.replace(".py", "_not.py"), FOLDERS)


def test_a_function_that_is_no_test_is_none() -> None:
    assert not exists("test_sync.py::open_session", FOLDERS)


@pytest.mark.parametrize("cell", ["", "none", "`test_sync.py::test_ctrl_c` and so on", "`test_sync.py::test_nothing`"])
def test_a_row_without_a_test_is_noticed(cell: str) -> None:
    head = "## Here\n\n| promise | how it is kept | test |\n| --- | --- | --- |\n"
    end = "\n## There\n\n| a | table |\n"
    assert mistakes(f"{head}| It ends. | It does. | `test_sync.py::test_ctrl_c` |\n{end}", "Here", FOLDERS) == []
    assert mistakes(f"{head}| It ends. | It does. | {cell} |\n{end}", "Here", FOLDERS)
