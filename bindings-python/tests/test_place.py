"""Places in which agents run."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kimi_agent import Container, InvalidOption, Place, Prefix, Sandbox, SpawnError, Ssh, sync
from kimi_agent.testing import scripted_agent


def test_agent_runs_behind_command() -> None:
    agent = scripted_agent([[{"text": "{{env.PLACE}}"}]])
    with sync.create_session(executable=agent, place=Prefix(["env", "PLACE=behind"])) as session:
        assert session.prompt("x").result().text == "behind"


@pytest.mark.parametrize(
    "place",
    [
        Prefix([]),
        Sandbox(write=3),  # type: ignore[arg-type]
        Container(),
        Container("a", name="b"),
        Container("a", mount={"no-such-file": "/a"}),
        Ssh("host", "relative"),
        {"type": "moon"},
        "sandbox",
    ],
)
def test_wrong_place_is_refused(place: Any) -> None:
    with pytest.raises(InvalidOption) as failure:
        sync.create_session(executable="agent", place=place)
    assert failure.value.option == "place"


@pytest.mark.parametrize(
    ("place", "settings", "problem"),
    [
        (Sandbox, {"hide": [b"x"]}, "`hide`: expected a list of text or paths, got one with an object"),
        (Sandbox, {"write": iter(["x"])}, "`write`: expected text, a list or a mapping, got an object of type list_"),
        (
            Container,
            {"image": "a", "mount": {b"x": "/y"}},
            "`mount`: expected a mapping of paths and text, got one with an object",
        ),
        (Prefix, {"command": ["a", object()]}, "`command`: expected a list of text or paths, got one with an object"),
        (Prefix, {"command": ["\ud800"]}, "`command`: "),
    ],
)
def test_wrong_setting_of_place_is_named(place: Any, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidOption) as failure:
        sync.create_session(executable="agent", place=place(**settings))
    assert failure.value.option == "place"
    assert str(failure.value).startswith(f"invalid option `place`: {problem}")


def test_places_are_places() -> None:
    assert isinstance(Prefix(["env"]), Place)
    assert isinstance(Sandbox(), Place)
    assert isinstance(Container("agents:1"), Place)
    assert isinstance(Ssh("host", "/work"), Place)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no containers of agents on Windows")
def test_missing_runtime_is_an_error() -> None:
    with pytest.raises(SpawnError, match=r"no-such-runtime.*set another `runtime`"):
        sync.create_session(executable="agent", place=Container("a", runtime="no-such-runtime"))
