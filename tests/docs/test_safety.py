"""What is said of security has tests, and the page that says so is looked through."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from safety import exists, mistakes, rows

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/security.md"


def test_every_row_names_tests_that_are_there() -> None:
    text = PAGE.read_text("utf-8")
    assert len(rows(text)) > 30
    assert mistakes(text, ROOT) == []


@pytest.mark.parametrize(
    "name",
    [
        "private::tests::links_lead_nowhere",
        "connection::tests::doubts::no_other_text_approves",
        "test_security.py::test_a_doubt_is_a_reject",
        "security.test.mjs::a doubt is a reject",
    ],
)
def test_a_test_is_found_in_every_language(name: str) -> None:
    assert exists(name, ROOT)
    assert not exists(f"{name}_not", ROOT)
    assert not exists(name.replace("::", "_not::", 1), ROOT)


@pytest.mark.parametrize(
    "cell", ["", "none", "`private::tests::links_lead_nowhere` and so on", "`private::tests::nothing`"]
)
def test_a_row_without_a_test_is_noticed(cell: str) -> None:
    head = "| promise | how | tests |\n| --- | --- | --- |\n"
    assert mistakes(f"{head}| It is. | So. | `private::tests::links_lead_nowhere` |\n", ROOT) == []
    assert mistakes(f"{head}| It is. | So. | {cell} |\n", ROOT)


def test_prose_is_looked_through_as_well() -> None:
    assert mistakes("As `test_security.py::test_nothing` shows.\n", ROOT)
