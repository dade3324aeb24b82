"""What is made of measurements: ratios within a round, verdicts, the page and its plots."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(BENCH), str(BENCH / "instructions")]

import count  # noqa: E402
import page  # noqa: E402
from measures import FIGURES, Size, measures  # noqa: E402
from roster import CLIENTS  # noqa: E402
from table import rows  # noqa: E402
from targets import ORJSON, PYTHON, TARGETS, Target, judge  # noqa: E402

BULK = "events, in bulk"
HALF = Target(BULK, PYTHON, 0.5, ORJSON)


def result(ours: list[float], peers: list[float]) -> dict[str, Any]:
    return {"figures": {BULK: {PYTHON: ours, ORJSON: peers}}}


def test_ratios_are_those_within_a_round() -> None:
    # The machine was busy in the second round, for both.
    verdict = judge(result([1.0, 8.0, 1.2], [2.0, 20.0, 2.0]), HALF)
    assert verdict
    assert (verdict.median, verdict.low, verdict.high, verdict.met) == (0.5, 0.4, 0.6, True)


def test_a_missed_target_is_told_as_missed() -> None:
    verdict = judge(result([3.0], [4.0]), HALF)
    assert verdict
    assert not verdict.met
    assert page.told(verdict) == "**0.75**"


def test_what_was_not_measured_is_not_judged() -> None:
    assert judge(result([1.0], []), HALF) is None
    assert judge({"figures": {}}, HALF) is None
    assert page.told(None) == "not measured"


def test_differences_and_figures_by_themselves() -> None:
    over = judge(result([3.0, 5.0], [2.0, 3.5]), Target(BULK, PYTHON, 1.0, ORJSON, how="over"))
    itself = judge(result([3.0], []), Target(BULK, PYTHON, 2.0, how="itself"))
    assert over
    assert itself
    assert (over.median, over.met, itself.median, itself.met) == (1.25, False, 3.0, False)


def test_targets_and_measures_name_what_there_is() -> None:
    names = {client.name for client in CLIENTS}
    for target in TARGETS:
        assert target.figure in FIGURES
        assert {target.client, target.peer} - {""} <= names
    for measure in measures(Size(1, 1, 1, 1, 1)):
        assert set(measure.figures) <= set(FIGURES)
        assert any(measure.task in client.tasks for client in CLIENTS)


def test_rows_tell_the_ratio_to_ours() -> None:
    assert rows(result([1.0, 2.0], [2.0, 6.0]), BULK) == [
        (PYTHON, "1.50", "1.00 to 2.00", "1.00"),
        (ORJSON, "4.00", "2.00 to 6.00", "2.50"),
    ]


def test_limits_read_as_people_write_them() -> None:
    assert page.limit(HALF) == f"≤ 1/2 of {ORJSON}"
    assert page.limit(Target(BULK, PYTHON, 0.85, ORJSON)) == f"≤ 0.85 of {ORJSON}"
    assert page.limit(Target("large line", PYTHON, 125, how="itself")) == "≤ 125 MB"


def test_the_page_its_plots_and_the_results_belong_together() -> None:
    assert page.mistakes() == []


def test_another_figure_on_the_page_or_in_a_plot_is_noticed() -> None:
    def read(path: Path) -> str:
        text = path.read_text("utf-8")
        return text.replace("results ", "results of ") if path.suffix == ".svg" else text.replace("≤ 1/8", "≤ 1/9")

    assert len(page.mistakes(read)) == 1 + len(page.PLOTS)


@pytest.mark.parametrize(
    ("now", "wrong"),
    [(100, False), (103, False), (104, True), (50, False)],
)
def test_a_dearer_path_fails(now: int, wrong: bool) -> None:
    assert bool(count.judge({"path": now}, {"path": 100}, count.TOLERANCE)[1]) is wrong


def test_a_path_without_a_baseline_fails() -> None:
    assert count.judge({"new": 1}, {}, count.TOLERANCE)[1]


def test_the_baseline_is_complete() -> None:
    baseline = json.loads(count.BASELINE.read_text("utf-8"))
    assert baseline["rustc"].startswith("rustc ")
    assert all(counted > 0 for counted in baseline["paths"].values())
