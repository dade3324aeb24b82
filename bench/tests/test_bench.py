"""The evaluation of measurements: ratios within a round, verdicts, the page and its plots."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(BENCH), str(BENCH / "instructions")]

import count  # noqa: E402
import page  # noqa: E402
import run  # noqa: E402
from measures import FIGURES, Run, Size, measures  # noqa: E402
from roster import CLIENTS  # noqa: E402
from table import rows  # noqa: E402
from targets import ORJSON, PYTHON, TARGETS, Target, judge  # noqa: E402

BULK = "events, in bulk"
HALF = Target(BULK, PYTHON, 0.5, ORJSON)
ONE = Size(**dict.fromkeys(Size.__dataclass_fields__, 1))


def result(ours: list[float], peers: list[float]) -> dict[str, Any]:
    return {"figures": {BULK: {PYTHON: ours, ORJSON: peers}}}


def test_ratios_are_computed_within_round() -> None:
    # The machine was busy in the second round, for both.
    verdict = judge(result([1.0, 8.0, 1.2], [2.0, 20.0, 2.0]), HALF)
    assert verdict
    assert (verdict.median, verdict.low, verdict.high, verdict.met) == (0.5, 0.4, 0.6, True)


def test_missed_target_is_reported() -> None:
    verdict = judge(result([3.0], [4.0]), HALF)
    assert verdict
    assert not verdict.met
    assert page.told(verdict) == "**0.75**"


def test_unmeasured_target_is_not_judged() -> None:
    assert judge(result([1.0], []), HALF) is None
    assert judge({"figures": {}}, HALF) is None
    assert page.told(None) == "not measured"


def test_figure_without_peer_is_judged_alone() -> None:
    verdict = judge(result([3.0], []), Target(BULK, PYTHON, 2.0))
    assert verdict
    assert (verdict.median, verdict.met) == (3.0, False)


def test_targets_and_measures_name_existing_rows() -> None:
    names = {client.name for client in CLIENTS}
    for target in TARGETS:
        assert target.figure in FIGURES
        assert {target.client, target.peer} - {""} <= names
    for measure in measures(ONE):
        assert set(measure.figures) <= set(FIGURES)
        assert any(measure.task in client.tasks for client in CLIENTS)


def batch(finished: int, jobs: int) -> Run:
    told = {"cpu_s": 0.5, "peak_kb": 2000, "sessions": finished}
    return Run(told, 0, [], replace(ONE, jobs=jobs))


def test_batch_is_measured_by_job() -> None:
    [measure] = [measure for measure in measures(replace(ONE, jobs=250)) if measure.task == "batch"]
    run = batch(250, 250)
    assert {figure: of(run) for figure, of in measure.figures.items()} == {"batch": 2.0, "batch, memory": 2.048}
    assert measure.env["BENCH_JOBS"] == "250"


def test_unfinished_batch_is_refused() -> None:
    with pytest.raises(SystemExit, match="249 of 250 jobs"):
        batch(249, 250).cpu_ms_a_job()


def test_rows_show_ratio_to_sdk() -> None:
    assert rows(result([1.0, 2.0], [2.0, 6.0]), BULK) == [
        (PYTHON, "1.50", "1.00 to 2.00", "1.00"),
        (ORJSON, "4.00", "2.00 to 6.00", "2.50"),
    ]


MACHINE = {"cpu": "one", "cpus": 2}


def measured(figure: str, value: float, rounds: int) -> dict[str, Any]:
    return {
        "machine": MACHINE,
        "load": [0.5, 1.5],
        "size": {"rounds": rounds},
        "figures": {figure: {PYTHON: [value]}},
    }


def test_renewed_figures_carry_their_date() -> None:
    whole = run.renewed(measured(BULK, 1.0, 9), measured("import", 20.0, 5), "loaded", "2026-01-02")
    assert whole["figures"] == {BULK: {PYTHON: [1.0]}, "import": {PYTHON: [20.0]}}
    assert (whole["size"], list(whole["renewed"])) == ({"rounds": 9}, ["import"])
    again = run.renewed(whole, measured("import", 21.0, 5), "quiet", "2026-01-03")
    assert again["figures"]["import"] == {PYTHON: [21.0]}
    assert again["renewed"]["import"] == {"kind": "quiet", "date": "2026-01-03", "load": [0.5, 1.5], "rounds": 5}


def test_figures_of_another_machine_are_refused() -> None:
    other = {**measured(BULK, 1.0, 9), "machine": {"cpu": "other", "cpus": 2}}
    with pytest.raises(SystemExit):
        run.renewed(measured(BULK, 1.0, 9), other, "quiet", "2026-01-02")


def test_renewed_figures_own_column() -> None:
    kept, whole = next(iter(page.results().items()))
    label = {"kind": "loaded", "date": "2026-01-02", "load": [0.5, 1.5], "rounds": 5}
    own = {**whole, "figures": {**whole["figures"], "server, text": {PYTHON: [1.0]}}}
    text = page.generated({kept: {**own, "renewed": {"server, text": label}}, "other": whole})
    section = text.split("### Server, text\n")[1].split("###")[0]
    assert "Measured separately on 2026-01-02 on a loaded machine: 5 rounds, with a load from 0.5 to 1.5." in section
    assert "| client | loaded | range | to ours |" in section


def test_limits_are_read_in_their_written_form() -> None:
    assert page.limit(HALF) == f"≤ 1/2 of {ORJSON}"
    assert page.limit(Target(BULK, PYTHON, 0.85, ORJSON)) == f"≤ 0.85 of {ORJSON}"
    assert page.limit(Target("large line", PYTHON, 125)) == "≤ 125 MB"


def test_page_plots_and_results_match() -> None:
    assert page.mistakes() == []


def test_changed_figure_reported() -> None:
    def read(path: Path) -> str:
        text = path.read_text("utf-8")
        return text.replace("results ", "results of ") if path.suffix == ".svg" else text.replace("≤ 1/2", "≤ 1/9")

    assert len(page.mistakes(read)) == 1 + len(page.PLOTS)


@pytest.mark.parametrize(
    ("now", "wrong"),
    [(100, False), (103, False), (104, True), (50, False)],
)
def test_more_expensive_path_fails(now: int, wrong: bool) -> None:
    assert bool(count.judge({"path": now}, {"path": 100}, count.TOLERANCE)[1]) is wrong


def test_path_without_baseline_fails() -> None:
    assert count.judge({"new": 1}, {}, count.TOLERANCE)[1]


def test_baseline_is_complete() -> None:
    baseline = json.loads(count.BASELINE.read_text("utf-8"))
    assert baseline["rustc"].startswith("rustc ")
    assert all(counted > 0 for counted in baseline["paths"].values())
