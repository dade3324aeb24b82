"""Documents that promise something name tests that exist; a name of a test that does not exist is noticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from named_tests import exists, mistakes, rows

ROOT = Path(__file__).resolve().parent.parent.parent


def section(page: str, heading: str = "") -> str:
    text = (ROOT / "docs" / page).read_text("utf-8")
    return text.split(f"\n{heading}\n")[1].split("\n## ")[0] if heading else text


@pytest.mark.parametrize(
    ("page", "heading", "least"),
    [
        ("evidence/reliability.md", "## In Python", 15),
        ("evidence/security.md", "", 30),
        ("evidence/real-servers.md", "", 30),
    ],
)
def test_every_row_names_existing_tests(page: str, heading: str, least: int) -> None:
    text = section(page, heading)
    assert len(rows(text)) > least
    assert mistakes(text, ROOT) == []


@pytest.mark.parametrize(
    "name",
    [
        "scenarios/steer_media",
        "scenarios/steer/text",
        "real/steer",
        "test_sync.py::test_ctrl_c_ends_program_and_agent",
        "run.py::WAYS",
        "image.test.mjs::",
    ],
)
def test_test_is_found_by_whole_name(name: str) -> None:
    if name.endswith("::"):
        name += (ROOT / "bindings-node/test/image.test.mjs").read_text("utf-8").split('\ntest("')[1].split('", ')[0]
    assert exists(name, ROOT)
    assert not exists(f"{name}_not", ROOT)


@pytest.mark.parametrize("cell", ["", "none", "`scenarios/steer/text` and so on", "`scenarios/nowhere`"])
def test_row_without_test_is_noticed(cell: str) -> None:
    head = "| promise | how | tests |\n| --- | --- | --- |\n"
    assert mistakes(f"{head}| It ends. | So. | `scenarios/steer/text` |\n", ROOT) == []
    assert mistakes(f"{head}| It ends. | So. | {cell} |\n", ROOT)


def test_test_named_in_prose_is_looked_up() -> None:
    assert mistakes("As `test_security.py::test_nothing` shows.\n", ROOT)
