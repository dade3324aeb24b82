"""The runner notices what it looks for: what crosses, what leaks, what hangs, what fails in a calm plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import plan  # noqa: E402
import run  # noqa: E402

AGENT = HERE.parent.parent / "target/debug/kimi-scripted-agent"
MARKER, OTHER = "mark-0-0-00000000", "mark-0-1-11111111"
CALM = dict.fromkeys(plan.SHORT, 30.0)
TURN = {"prompt_size": 0, "then": "none", "stop_after": 0, "pieces": 1, "rough": False, "read": "events"}
ACTOR = {
    "marker": MARKER, "agent": None, "dialect": "auto", "approval": "none", "answer": "reject", "behaviour": "answer",
    "tools": False, "secret": False, "buffer": None, "meddler": None, "end": "close",
    "turns": [TURN], "calm": True, "deadlines": CALM,
}  # fmt: skip


def played(monkeypatch: pytest.MonkeyPatch, folder: Path, language: str, says: Any, **changes: Any) -> str | None:
    """The runner's report of a round with one actor, whose agent does `says`."""
    actor = {**ACTOR, "script": {"turns": [says]}, **changes}
    made = {"round": 0, "width": 1, "collect": False, "agents": [], "actors": [actor]}
    # The plan of a round that fails is kept among the temporary files.
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(plan, "make", lambda *_: json.loads(json.dumps(made)))
    chosen = Namespace(seed="test", round=0, times=1, seconds=0)
    soak = run.Soak(chosen, language, AGENT, folder / language)
    soak.run()
    return soak.failure


@pytest.mark.parametrize("language", plan.LANGUAGES)
def test_calm_round_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str) -> None:
    assert played(monkeypatch, tmp_path, language, [{"text": MARKER}]) is None


@pytest.mark.parametrize("language", plan.LANGUAGES)
def test_marker_of_another_session_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str) -> None:
    failure = played(monkeypatch, tmp_path, language, [{"text": OTHER}])
    assert failure
    assert f"crossed: an event has {OTHER}" in failure
    assert f"--seed test --languages {language} --round 0" in failure


@pytest.mark.parametrize("language", plan.LANGUAGES)
def test_lost_text_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str) -> None:
    failure = played(monkeypatch, tmp_path, language, [{"text": [MARKER, MARKER]}])
    assert failure
    assert "2 pieces instead of 1" in failure


@pytest.mark.parametrize("language", plan.LANGUAGES)
def test_approval_without_answer_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str) -> None:
    failure = played(monkeypatch, tmp_path, language, [{"text": "answer=approve"}])
    assert failure
    assert "approved though nobody did" in failure


@pytest.mark.parametrize("language", plan.LANGUAGES)
def test_error_in_calm_plan_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str) -> None:
    failure = played(monkeypatch, tmp_path, language, [{"exit": 3}])
    assert failure
    assert "AgentExited" in failure


@pytest.mark.parametrize("language", plan.LANGUAGES)
def test_process_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str) -> None:
    monkeypatch.setattr(run, "PATIENCE", 1.0)
    monkeypatch.setattr(run.Player, "left", lambda _: ["4711 an agent"])
    failure = played(monkeypatch, tmp_path, language, [{"text": MARKER}])
    assert failure
    assert "processes are left" in failure


@pytest.mark.parametrize("language", plan.LANGUAGES)
def test_hung_round_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str) -> None:
    monkeypatch.setattr(run, "PATIENCE", 2.0)
    failure = played(monkeypatch, tmp_path, language, [{"text": MARKER}, {"wait_cancel": True}])
    assert failure
    assert f"{MARKER} hangs at turn 0" in failure


def test_left_processes_are_found_by_their_environment(tmp_path: Path) -> None:
    player = run.Player("python-sync", "test", AGENT, tmp_path / "player")
    env = {**os.environ, "KIMI_SOAK": player.mark}
    words = ["/bin/sh", "-c", "echo ready; read -r line"]
    try:
        assert player.left() == []
        with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            # The system has the environment of a process a moment after its start.
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            found = player.left()
            child.kill()
        assert [one.split()[0] for one in found] == [str(child.pid)]
    finally:
        player.kill()


def test_seed_gives_same_plan_again() -> None:
    for language in plan.LANGUAGES:
        for number in range(50):
            assert plan.make("7", language, number) == plan.make("7", language, number)


def test_growth_of_any_count_is_noticed() -> None:
    before = {"threads": 4, "descriptors": {"pipe": 3}, "children": {}}
    assert not run.more(before, {"threads": 3, "descriptors": {"pipe": 3, "socket": 0}, "children": {}})
    assert run.more(before, {"threads": 4, "descriptors": {"pipe": 3}, "children": {"cat Z": 1}})
    assert run.more(before, {"threads": 5, "descriptors": {"pipe": 3}, "children": {}})
