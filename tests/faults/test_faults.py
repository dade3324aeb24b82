"""The checks of the faults: outcomes, the sweep, and the table."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.trace import Line

from faults import ends, lines, outputs, run, squeeze, starts, table
from faults.fault import CLOSE, DRAIN, NEXT, OPEN, PROMPT, Fault, cleaned, error, step

DIED = error("agent_exited", "^the agent was ended by SIGKILL", signal="SIGKILL")
FAULT = Fault("family", "name", (OPEN, PROMPT, step("drain", DIED), CLOSE), [], total=1)
AFTER: list[Line] = [
    {"op": "open", "ok": True},
    {"op": "prompt", "ok": True},
    {"op": "result", "status": "finished", "text": "fine"},
    {"op": "close", "ok": True},
]


def trace(drain: Line, events: int = 1) -> list[Line]:
    said: list[Line] = [{"event": {"type": "TurnBegin"}}] * events
    return [{"op": "open", "ok": True}, {"op": "prompt", "ok": True}, *said, drain, {"op": "close", "ok": True}, *AFTER]


GOOD = {"op": "drain", "error": "agent_exited", "signal": "SIGKILL", "message": "the agent was ended by SIGKILL"}


def test_expected_trace_has_no_complaint() -> None:
    assert FAULT.complaint(trace(GOOD)) is None
    assert FAULT.outcome(trace(GOOD)) == "`agent_exited` (signal SIGKILL)"


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (trace({**GOOD, "signal": "SIGTERM"}), "instead of"),
        (trace({**GOOD, "message": "something happened"}), "instead of"),
        (trace({"op": "drain", "ok": True}), "instead of"),
        (trace(GOOD, events=0), "0 events instead of 1"),
        (trace(GOOD)[:-1], "7 of 8 operations"),
        ([*trace(GOOD)[:-2], {"op": "result", "error": "timeout"}, CLOSE.expect[0]], "instead of"),
        ([*trace(GOOD)[:-1], {"error": "runner_watchdog"}], "operations ended"),
    ],
)
def test_unexpected_trace_has_complaint(lines: list[Line], complaint: str) -> None:
    assert complaint in (FAULT.complaint(lines) or "")


def test_success_after_failure_in_sweep_is_reported() -> None:
    swept = Fault("family", "name", (OPEN, PROMPT, DRAIN, CLOSE), [], tolerant=DIED)
    assert swept.complaint(trace(GOOD)) is None
    assert swept.complaint(trace({"op": "drain", "ok": True})) is None
    early = [{"op": "open", "ok": True}, {**GOOD, "op": "prompt"}]
    problem = {"op": "drain", "error": "runner_problem", "message": "no turn"}
    assert swept.complaint(cleaned([*early, problem, {"op": "close", "ok": True}, *AFTER])) is None
    late = Fault("family", "name", (OPEN, PROMPT, step("steer"), CLOSE), [], tolerant=DIED)
    lines = [*early, {"op": "steer", "ok": True}, {"op": "close", "ok": True}, *AFTER]
    assert "after a failure" in (late.complaint(cleaned(lines)) or "")
    # A scenario that is invalid is not a fault of the agent.
    assert "1 of 8" in (swept.complaint(cleaned([{"error": "runner_problem", "message": "?"}])) or "")


def test_lost_event_in_sweep_is_reported() -> None:
    def traces(lost: int) -> dict[str, table.Traces]:
        names = [f"killed_{way}_".replace(" ", "_") for way in ends.WAYS]
        counts = [lines - (lines == lost) for lines in range(ends.FULL_LINES + 1)]
        died: Line = {"op": "drain", "error": "agent_exited"}
        return {
            "rust": {
                f"{name}{n:02}": [*[{"event": {}}] * count, died] for name in names for n, count in enumerate(counts)
            }
        }

    assert not list(ends.swept(traces(-1)))
    assert len(list(ends.swept(traces(7)))) == len(ends.WAYS)


def test_table_has_row_for_each_family() -> None:
    rows = table.rows([FAULT], {"name": trace(GOOD)})
    assert rows == [["fault", "tried", "outcome"], ["family", "1", "`agent_exited` (signal SIGKILL)"]]
    assert table.rows([FAULT], {"name": trace({"op": "drain", "ok": True})})[1] == ["family", "1", "nothing"]


def test_selection_has_each_outcome_of_family() -> None:
    other = replace(FAULT, name="other", steps=(OPEN, PROMPT, step("drain", {"error": "rpc_error"}), CLOSE))
    same = replace(FAULT, name="same")
    elsewhere = replace(FAULT, name="elsewhere", family="another")
    assert [one.name for one in run.selected([FAULT, same, other, elsewhere])] == ["name", "other", "elsewhere"]


def test_process_plays_faults_of_same_variables() -> None:
    faults = [replace(FAULT, name=str(n), env=(("A", str(n % 2)),)) for n in range(50)]
    parts = list(run.parts(faults))
    assert sorted(fault.name for part in parts for fault in part) == sorted(fault.name for fault in faults)
    assert all(len(part) <= run.AT_A_TIME and len({fault.env for fault in part}) == 1 for part in parts)


def test_limit_leaves_wanted_descriptors_free() -> None:
    used = {0, 1, 2, 5}
    for free in range(6):
        limit = squeeze.nth_free(used, free)
        assert len(set(range(limit)) - used) == free


def test_fetched_schema_is_reported() -> None:
    assert not list(outputs.contacted())
    socket.create_connection(outputs.listener().getsockname()).close()
    assert len(list(outputs.contacted())) == 1


def test_fault_names_are_unique() -> None:
    names = [fault.name for module in (ends, lines, outputs, starts) for fault in module.faults()]
    assert len(names) == len(set(names))
    assert len(NEXT) == len(AFTER)
