"""Costs of turns, and prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kimi_agent import Cost, InvalidOption, sync
from kimi_agent.testing import scripted_agent

SCRIPT = [[{"text": "Done"}, {"usage": {"input_other": 1_000_000, "output": 100_000}}]]
ESTIMATED = Cost(0.85, "USD", "estimated")


def test_prices_estimate_cost_of_turn_and_session() -> None:
    options: Any = {"model": "k2", "prices": {"k2": {"input": 0.6, "output": 2.5}}}
    with sync.create_session(executable=scripted_agent(SCRIPT), **options) as session:
        result = session.prompt("Go").result()
        assert result.cost == ESTIMATED
        status = session.status
    assert status is not None
    assert status.cost == ESTIMATED


@pytest.mark.parametrize("kind", [str, Path])
def test_prices_are_read_from_toml(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text("[k2]\ninput = 0.6\noutput = 2.5\n")
    with sync.create_session(executable=scripted_agent(SCRIPT), model="k2", prices=kind(path)) as session:
        assert session.prompt("Go").result().cost == ESTIMATED


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read"),
        ("k2 = ", "cannot be read"),
        ("[k2]\ninput = 0.6\n", "`output` is missing"),
        ("", "it has no model"),
    ],
)
def test_wrong_file_of_prices_is_refused(content: str | None, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidOption, match=problem) as caught:
        sync.create_session(executable=scripted_agent(SCRIPT), prices=path)
    assert caught.value.option == "prices"
