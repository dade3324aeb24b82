"""The conversion of raw traffic."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from recordings.convert import convert_all


def converted(name: str, text: str) -> tuple[list[list[dict[str, Any]]], dict[str, str]]:
    """The entries of the recordings of a log, and the logs that are refused."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        logs.mkdir()
        (logs / name).write_text(text, "utf-8")
        made, refused = convert_all(logs, Path(folder, "made"))
        rows = [path.read_text("utf-8").removesuffix("\n").split("\n") for path in made.values()]
        return [[json.loads(row) for row in each] for each in rows], refused


def said(mark: str, **message: Any) -> str:
    return f"{mark} {json.dumps({'jsonrpc': '2.0', **message})}\n"


def row(way: str, **message: Any) -> str:
    return json.dumps({"dir": way, "t": 1.5, "line": json.dumps(message)}) + "\n"


def calls(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["call"] for entry in entries if entry["type"] == "call"]


def test_wire_gets_calls() -> None:
    log = said(">", id="i", method="initialize", params={})
    log += said("<", id="i", result={"protocol_version": "1.10", "server": {"name": "a", "version": "1"}})
    log += said(">", id="p", method="prompt", params={"user_input": "go"})
    log += said(">", id="c", method="cancel", params={})
    log += said("<", id="p", result={"status": "cancelled"})
    [entries], _ = converted("a.wire", log)
    assert calls(entries) == ["prompt", "cancel", "close"]
    assert entries[0]["dialect"] == "wire"
    assert entries[3]["agent"] == {"name": "a", "version": "1"}
    assert entries[4]["arguments"] == {"input": "go"}
    assert entries[-1]["type"] == "end"


def test_missing_opening_is_added() -> None:
    log = row("in", id=3, method="session/prompt", params={"sessionId": "s", "prompt": []})
    log += row("out", id=3, result={"stopReason": "end_turn"})
    [entries], _ = converted("a.jsonl", log)
    methods = [entry["message"].get("method") for entry in entries if entry["type"] == "message"]
    assert methods == ["initialize", None, "session/new", None, "session/prompt", None]
    assert entries[-1]["time"] == 1.5


def test_sessions_are_separated() -> None:
    log = row("in", id=1, method="initialize", params={"protocolVersion": 1}) + row("out", id=1, result={})
    for number, name in ((2, "s"), (3, "t")):
        log += row("in", id=number, method="session/new", params={})
        log += row("out", id=number, result={"sessionId": name})
        log += row("in", id=9 * number, method="session/prompt", params={"sessionId": name, "prompt": []})
        log += row("out", id=9 * number, result={"stopReason": "end_turn"})
    recordings, _ = converted("a.jsonl", log)
    assert [calls(entries) for entries in recordings] == [["prompt", "close"]] * 2


def test_second_prompt_is_refused() -> None:
    log = "".join(said(">", id=each, method="prompt", params={"user_input": "go"}) for each in ("p", "q"))
    log += "".join(said("<", id=each, result={"status": "finished"}) for each in ("p", "q"))
    recordings, refused = converted("a.wire", log)
    assert recordings == []
    assert "while a turn ran" in refused["a.wire"]


def test_other_files_are_refused() -> None:
    recordings, refused = converted("a.jsonl", '{"type":"metadata"}\n')
    assert (recordings, list(refused)) == ([], ["a.jsonl"])
