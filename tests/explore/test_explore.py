"""The generator makes every operation and every fault, and a wrong runner is noticed, and its program made small."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.runners import Outcome
from harness.scenario import OPS, load

from explore import acp_messages
from explore.checks import Complaint, complaints
from explore.explore import Failure, explore, program
from explore.messages import ONCE, catalog
from explore.player import Languages
from explore.programs import Program
from explore.run import KINDS, Judge, text

SEED = 0
"""The programs that CI plays."""
# The first two look at files. The others are calls of ACP, which have scenarios; most random programs speak Wire.
NOT_MADE = {
    "read",
    "exists",
    "config_options",
    "set_config_option",
    "delete_session",
    "rename_session",
    "archive_session",
    "unarchive_session",
}
OF_OPERATIONS = ("exact", "racy")
"""The kinds of programs that consist of any operations."""
# By what programs are about, and so are not in every one of them.
FAULTS = ("exit", "signal", "close_stdout", "raw", "raw_base64", "stderr", "stall", "never_answer", "error")


@functools.cache
def made(kind: str) -> list[Program]:
    return [program(SEED, kind, number)[1] for number in range(KINDS[kind])]


def actions(value: Any) -> Iterator[str]:
    """The names in a script."""
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from actions(item)
    elif isinstance(value, list):
        for item in value:
            yield from actions(item)


def test_seed_of_ci_has_each_operation() -> None:
    ops = {op["op"] for kind in KINDS for one in made(kind) for op in one.scenario["program"]}
    assert OPS - NOT_MADE - ops == set()


@pytest.mark.parametrize("kind", OF_OPERATIONS)
def test_seed_of_ci_has_each_fault(kind: str) -> None:
    found = {name for one in made(kind) for name in actions(one.scenario["agent"])}
    wanted = {*FAULTS, "wait_cancel", "wait_steer", "wait_file", "tool_call", "question", "external_tool", "parallel"}
    assert wanted - found == set()


@pytest.mark.parametrize("kind", OF_OPERATIONS)
def test_ci_seed_has_each_session_kind(kind: str) -> None:
    opened = [[op for op in one.scenario["program"] if op["op"] == "open"] for one in made(kind)]
    shared = [ops for ops in opened if "agent" in ops[0]]
    two = [ops for ops in opened if len({op["session"] for op in ops}) > 1]
    assert shared
    assert two
    assert [ops for ops in two if ops in shared]


def test_ci_seed_has_each_event() -> None:
    turns = [turn for one in made("messages") for turn in one.scenario["agent"]["script"]["turns"]]
    found = {json.loads(action["raw"])["params"]["type"] for turn in turns for action in turn if "raw" in action}
    assert set(catalog()["events"]) - found == {*ONCE}


def test_ci_seed_has_each_update() -> None:
    turns = [turn for one in made("acp") for turn in one.scenario["agent"]["script"]["turns"]]
    lines = [json.loads(action["raw"]) for turn in turns for action in turn if "raw" in action]
    assert set(acp_messages.kinds()) - {line["params"]["update"]["sessionUpdate"] for line in lines} == set()


def test_written_scenario_can_be_loaded(tmp_path: Path) -> None:
    for one in made("exact"):
        path = tmp_path / "explored.json"
        path.write_text(text(one.scenario), "utf-8")
        assert [loaded.data for loaded in load(path)] == [one.scenario]


FAKE = """
import json, pathlib, sys
for line in sys.stdin:
    case = json.loads(pathlib.Path(line.strip()).read_text())
    print(json.dumps({"case": case["name"]}))
    for op in case["program"]:
        if op["op"] == "drain" and WRONG != "loses":
            print(json.dumps({"event": {"type": "TurnEnd", "payload": {}}}))
        if op["op"] == "steer" and WRONG == "hangs":
            sys.stdin.read()
        print(json.dumps({"op": op["op"], "ok": True}))
    print(json.dumps({"done": case["name"]}), flush=True)
"""


def fake(folder: Path, wrong: str) -> list[str]:
    """A runner that plays nothing."""
    path = folder / f"{wrong}.py"
    path.write_text(f"WRONG = {wrong!r}\n{FAKE}")
    return [sys.executable, str(path)]


def played(number: int, languages: Languages) -> Failure | None:
    return explore(SEED, "exact", number, Judge(languages, ["one", "two", "three"]))


def test_wrong_runner_is_reported_and_program_shrunk(tmp_path: Path) -> None:
    with Languages(
        {"one": fake(tmp_path, ""), "two": fake(tmp_path, ""), "three": fake(tmp_path, "loses")}
    ) as languages:
        failure = next(filter(None, (played(number, languages) for number in range(50))))
    assert failure.steady
    assert [complaint.languages for complaint in failure.complaints] == [("one", "three")]
    assert "one and three differ" in str(failure.complaints[0])
    ops = [op["op"] for op in failure.program.scenario["program"]]
    assert "drain" in ops
    assert len(ops) <= 6


def test_hanging_runner_is_replaced(tmp_path: Path) -> None:
    with Languages({"one": fake(tmp_path, "hangs")}) as languages:
        languages.hurry(1.0)
        steers: dict[str, Any] = {"name": "x", "program": [{"op": "steer"}]}
        opens: dict[str, Any] = {"name": "x", "program": [{"op": "open"}]}
        assert "a wait does not end" in str(languages.play(steers, ["one"])["one"].problem)
        assert languages.play(opens, ["one"])["one"].problem is None


def judged(*lines: dict[str, Any], exact: bool = False) -> list[Complaint]:
    """The problems of a trace; `as` in a line is only the operation's."""
    ops = [{key: line[key] for key in ("op", "as") if key in line} for line in lines if "op" in line]
    trace = [{key: value for key, value in line.items() if key != "as"} for line in lines]
    made = Program({"program": ops}, exact, {1: ["1", "2", "3"]})
    return complaints(made, {"rust": Outcome(trace)})


def said(label: str) -> dict[str, Any]:
    return {"event": {"type": "ContentPart", "payload": {"type": "text", "text": f"a1.1.{label};"}}}


END = {"event": {"type": "TurnEnd", "payload": {}}}
DRAIN = {"op": "drain", "as": "a1", "ok": True}
RESULT = {"op": "result", "as": "a1", "status": "finished", "steps": 1, "text": "a1.1.3;", "usage": {}}
WRONG: dict[str, tuple[dict[str, Any], ...]] = {
    "lacks texts that were not counted": (said("1"), said("3"), END, DRAIN, RESULT),
    "lacks its last texts": (said("1"), END, DRAIN, RESULT),
    "texts twice, or in another order": (said("1"), said("1"), DRAIN),
    "texts of another": (
        said("1"),
        {"event": {"type": "ContentPart", "payload": {"type": "text", "text": "b1.1.2;"}}},
        DRAIN,
    ),
    "2 ends": (END, END, DRAIN),
    "events after its end": (END, DRAIN, said("1"), DRAIN),
    "two outcomes": (RESULT, {**RESULT, "status": "cancelled"}),
    "not an error of the SDK": ({"op": "drain", "as": "a1", "error": "runner_problem", "message": "TypeError"},),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_trace_breaking_rule_is_noticed(wrong: str) -> None:
    assert wrong in "\n".join(map(str, judged(*WRONG[wrong])))


def test_counted_discarded_texts_have_no_complaint() -> None:
    counted = {"op": "turn", "as": "a1", "discarded": 1, "id": "turn-1"}
    assert judged(said("1"), said("2"), said("3"), END, DRAIN, RESULT) == []
    assert judged(said("1"), said("3"), END, DRAIN, RESULT, counted) == []


def test_written_scenario_has_one_operation_per_line() -> None:
    written = text({"name": "x", "program": [{"op": "open"}, {"op": "close"}]})
    assert json.loads(written)["program"] == [{"op": "open"}, {"op": "close"}]
    assert '    {"op": "open"},\n' in written
