"""Places in which agents run."""

from __future__ import annotations

import copy
import pickle
import socket
import sys
from typing import Any

import pytest

from kimi_agent import (
    Container,
    InvalidOption,
    Place,
    Prefix,
    Remote,
    Sandbox,
    SpawnError,
    Ssh,
    Unsupported,
    sync,
    tool,
)
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
        Remote("agents.example/acp"),
        Remote("wss://agents.example/acp", work_dir="relative"),
        Remote("wss://agents.example/acp", headers={"a b": "c"}),
        Remote("wss://agents.example/acp", headers={"a": 1}),  # type: ignore[dict-item]
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
    assert isinstance(Remote("wss://agents.example/acp"), Place)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no containers of agents on Windows")
def test_missing_runtime_is_an_error() -> None:
    with pytest.raises(SpawnError, match=r"no-such-runtime.*set another `runtime`"):
        sync.create_session(executable="agent", place=Container("a", runtime="no-such-runtime"))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("executable", "agent"),
        ("extra_args", ["-x"]),
        ("env", {"A": "b"}),
        ("env", {"A": None}),
        ("inherit_env", False),
        ("dialect", "1.10"),
        ("dialect", "kimi-web"),
    ],
)
def test_remote_agent_is_not_started_with_options_of_processes(option: str, value: Any) -> None:
    place = Remote("wss://agents.example/acp?key=canary", headers={"Authorization": "canary"})
    assert "canary" not in repr(place)
    with pytest.raises(InvalidOption, match=r"the agent at wss://agents\.example/acp \(from `place`\)") as failure:
        sync.create_session(place=place, **{option: value})
    assert failure.value.option == option
    assert "canary" not in str(failure.value)


def test_remote_agent_shows_no_secrets() -> None:
    place = Remote(
        "wss://me:canary@agents.example/acp?token=canary", headers={"Authorization": "canary"}, work_dir="/w"
    )
    assert repr(place) == "Remote('wss://agents.example/acp', headers=['Authorization'], work_dir='/w')"
    with pytest.raises(TypeError):
        vars(place)
    with pytest.raises(TypeError, match="a Remote cannot be pickled, because") as failure:
        pickle.dumps(place)
    assert "canary" not in str(failure.value)
    assert copy.copy(place) is copy.deepcopy(place) is place
    # The core gets the address as it is.
    with pytest.raises(InvalidOption, match="`url`: it contains a user name"):
        sync.create_session(place=place)


def test_remote_agent_cannot_have_tools_or_limits() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    place = Remote("ws://127.0.0.1:9/acp")
    with pytest.raises(Unsupported, match=r"which the agent at ws://127\.0\.0\.1:9/acp does not reach"):
        sync.create_session(place=place, tools=[add])
    with pytest.raises(Unsupported, match="does not support `max_steps_per_turn`"):
        sync.create_session(place=place, max_steps_per_turn=3)


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_server_that_is_not_there_is_an_error(scheme: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        SpawnError, match=rf"can't reach the agent at {scheme}://127\.0\.0\.1:{port}/acp: nothing listens"
    ):
        sync.create_session(place=Remote(f"{scheme}://127.0.0.1:{port}/acp"))
