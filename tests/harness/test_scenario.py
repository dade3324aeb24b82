"""Scenario files: mistakes that are refused, tables that are expanded, and expectations that are written back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import scenario

GOOD: dict[str, Any] = {
    "name": "one",
    "about": "It does one thing.",
    "agent": {"script": [[{"text": "{dir}"}]]},
    "program": [{"op": "open"}],
}
TABLE: dict[str, Any] = {
    "name": "table",
    "about": "With {version}.",
    "cases": [
        {"case": "old", "version": "1.0", "more": [], "end": {"made": True}},
        {"case": "new", "version": "1.10", "more": [{"n": "{version}"}, {"n": 2}]},
        {"case": "last", "program": [{"op": "close"}], "end": {}},
    ],
    "agent": {"script": {"wire": "{version}", "{version}": "in {version}, {dir}"}},
    "program": [{"op": "open"}],
    "expect": [{"op": "open"}, "{...more}", {"event": {"type": "TurnEnd", "payload": "{end}"}}],
}


def load(folder: Path, **changes: Any) -> list[scenario.Scenario]:
    path = folder / "one.json"
    path.write_text(json.dumps({**GOOD, **changes}), "utf-8")
    return scenario.load(path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"exepct": []}, "unknown key 'exepct'"),
        ({"about": None}, "'about'"),
        ({"agent": {}}, "'script' or 'kimi'"),
        ({"program": [{"op": "opne"}]}, "step 0"),
        ({"agent": {"kimi": {}}}, "needs 'expect'"),
        ({"needs": ["hooks"]}, "real cases"),
        ({"agent": {"kimi": {}}, "expect": [{}], "before": [{"release": "1.9"}]}, "'before'"),
        ({"agent": {"kimi": {"modle": []}}}, "'modle' in 'agent.kimi'"),
        ({"skip": {"perl": "no"}}, "no language"),
        ({"cases": [{"case": "a"}]}, "two or more"),
        ({"cases": [{"case": "a"}, {"case": "a"}]}, "a 'case' of its own"),
        ({"cases": [{"case": "a"}, {"case": "b", "x": 1}]}, "the first row of 'cases' has no 'x'"),
        ({"cases": [{"case": "a", "x": 1}, {"case": "b"}]}, "nothing has the placeholder of 'x'"),
        ({"cases": [{"case": "a"}, {"case": "b", "program": []}], "program": None}, "'program'"),
    ],
)
def test_wrong_file_is_refused(changes: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(scenario.BadScenario) as refused:
        load(tmp_path, **changes)
    assert complaint in str(refused.value)


def test_table_is_expanded_by_row() -> None:
    old, new, last = scenario.expanded(TABLE)
    assert (old["name"], old["about"]) == ("table/old", "With 1.0.")
    assert old["agent"] == {"script": {"wire": "1.0", "1.0": "in 1.0, {dir}"}}
    assert old["expect"] == [{"op": "open"}, {"event": {"type": "TurnEnd", "payload": {"made": True}}}]
    # A value that is left out is that of the row above; a value may contain those before it.
    assert new["expect"][1:3] == [{"n": "1.10"}, {"n": 2}]
    assert new["expect"][3] == old["expect"][1]
    # A key of a scenario in a row stands for that of the file.
    assert last["program"] == [{"op": "close"}]
    assert last["about"] == "With 1.10."


def test_names_are_unique_and_match_partially(tmp_path: Path) -> None:
    load(tmp_path)
    (tmp_path / "table.json").write_text(json.dumps(TABLE), "utf-8")
    assert [one.name for one in scenario.load_all(tmp_path, ["le/n"])] == ["table/new"]
    (tmp_path / "two.json").write_text(json.dumps(GOOD), "utf-8")
    with pytest.raises(scenario.BadScenario):
        scenario.load_all(tmp_path)


def test_case_for_older_release_has_changes(tmp_path: Path) -> None:
    kimi = {"kimi": {"model": [{"text": "new"}]}}
    entry = {"release": "1.9", "why": "it differs", "model": [{"text": "old"}], "expect": [{"op": "close"}]}
    one = load(tmp_path, agent=kimi, expect=[{"op": "open"}], before=[entry])[0]
    assert one.before("1.10.0") is one
    older = one.before("1.8.0")
    assert older.expect == [{"op": "close"}]
    assert older.kimi["model"] == [{"text": "old"}]


def test_runner_gets_case_with_its_directory(tmp_path: Path) -> None:
    one = load(tmp_path, expect=[{"text": "{dir}"}], keep=["StatusUpdate"], skip={"node": "why"})[0]
    assert (one.skipped("node"), one.skipped("rust")) == ("why", None)
    data = scenario.prepared(one, {"dir": "/tmp/x"})
    assert data["agent"] == {"script": [[{"text": "/tmp/x"}]]}
    assert set(data) == {"name", "about", "agent", "program"}


@pytest.mark.parametrize("old", ['"expect": [ {"op":\n"old"} ],\n  "last": 1', '"last": 1'])
def test_update_writes_only_expectation(old: str) -> None:
    lines = [{"b": "ü", "a": [1]}, {"op": "close"}]
    text = '{\n  "name": "x",   "odd": {"expect": [0]},\n  ' + old + "\n}\n"
    written, unfit = scenario.updated(text, {"x": lines})
    assert unfit == []
    assert json.loads(written) == {"name": "x", "odd": {"expect": [0]}, "last": 1, "expect": lines}
    assert '\n    {"a": [1], "b": "ü"},\n' in written
    assert written.startswith('{\n  "name": "x",   "odd": {"expect": [0]},\n')
    assert scenario.updated(written, {"x": lines}) == (written, [])


def traces(**fields: Any) -> dict[str, list[Any]]:
    """The traces of the table with further fields in each line."""
    return {one["name"]: [{**line, **fields} for line in one["expect"]] for one in scenario.expanded(TABLE)}


def test_update_keeps_fitting_placeholders() -> None:
    wanted = {name: [*lines, {"op": "close"}] for name, lines in traces().items()}
    for name, lines in wanted.items():
        lines[0] = {"op": "open", "error": f"timeout of {name.removeprefix('table/')}"}
    table = {**TABLE, "expect": [{"op": "open", "error": "end of {case}"}, *TABLE["expect"][1:]]}
    written, unfit = scenario.updated(json.dumps(table), wanted)
    assert unfit == []
    expect = [{"op": "open", "error": "timeout of {case}"}, *TABLE["expect"][1:], {"op": "close"}]
    assert json.loads(written) == {**TABLE, "expect": expect}


def test_update_refuses_structural_differences() -> None:
    text = json.dumps(TABLE)
    wanted = traces()
    wanted["table/new"] = [{"op": "open", "error": "timeout"}, *wanted["table/new"][1:]]
    assert scenario.updated(text, wanted) == (text, ["table/new"])


def test_update_writes_expectation_of_row() -> None:
    rows = [{**row, "expect": []} for row in TABLE["cases"][:1]] + TABLE["cases"][1:]
    written, unfit = scenario.updated(
        json.dumps({**TABLE, "cases": rows}), {f"table/{name}": [{"op": "x"}] for name in ("old", "new", "last")}
    )
    assert (json.loads(written)["cases"][0]["expect"], unfit) == ([{"op": "x"}], [])
    assert json.loads(written)["expect"] == TABLE["expect"]
