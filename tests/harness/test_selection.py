"""The selection of scenarios: it is small, and has everything once."""

from __future__ import annotations

from pathlib import Path

from harness import scenario, selection
from harness.acp import ACP

SCENARIOS = scenario.load_all(Path(__file__).resolve().parent.parent / "scenarios")


def test_covering_keeps_few_items_with_all_features() -> None:
    words = ["ab", "b", "bc", "abc", "d", "dd"]
    assert selection.covering(words, set) == ["abc", "d"]
    assert selection.covering([], set) == []


def test_item_that_later_ones_make_needless_goes() -> None:
    assert selection.covering(["abcd", "abe", "cdf"], set) == ["abe", "cdf"]


def test_selection_has_each_feature_of_the_suite() -> None:
    left = selection.left_out(SCENARIOS, "Wire")["python-sync"]
    able = [one for one in SCENARIOS if not one.skipped("python-sync")]
    chosen = [one for one in able if one.name not in left]
    assert set().union(*map(selection.features, chosen)) == set().union(*map(selection.features, able))
    assert len(chosen) < len(able) / 3


def test_wire_is_played_in_full_where_languages_have_own_code() -> None:
    assert set(selection.left_out(SCENARIOS, "Wire")) == {"python-sync"}
    over, _ = ACP.chosen(SCENARIOS, ACP.declared(), set())
    left = selection.left_out(over, "ACP")
    assert "rust" not in left
    assert left["python-sync"] == {one.name for one in over}
    assert left["node"] < left["python-sync"]
