"""What real agents do has a test each, and the page that says so is looked through."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from servers import exists, mistakes, rows

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/real-servers.md"


def test_every_row_names_tests_that_are_there() -> None:
    text = PAGE.read_text("utf-8")
    assert len(rows(text)) > 30
    assert mistakes(text, ROOT) == []


@pytest.mark.parametrize(
    "name",
    [
        "scenarios/steer_media",
        "scenarios/steer/text",
        "real/steer",
        "connection::tests::calls::noise_changes_nothing",
        "wire::framing::tests::separators_other_than_newline_stay_in_the_line",
        "session::errors::a_tombstone_is_quoted",
    ],
)
def test_a_test_is_found_wherever_it_is(name: str) -> None:
    assert exists(name, ROOT)
    assert not exists(f"{name}_not", ROOT)


def test_a_function_that_is_no_test_is_none() -> None:
    assert not exists("connection::tests::servers::asking", ROOT)


@pytest.mark.parametrize("cell", ["", "none", "`scenarios/steer` and so on", "`scenarios/nowhere`"])
def test_a_row_without_a_test_is_noticed(cell: str) -> None:
    head = "| what | when | so | test |\n| --- | --- | --- | --- |\n"
    assert mistakes(f"{head}| They wait. | all | It waits. | `scenarios/steer` |\n", ROOT) == []
    assert mistakes(f"{head}| They wait. | all | It waits. | {cell} |\n", ROOT)
