"""The values of the program on their way to the core: options, input, answers."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import re
import typing
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import pytest

import kimi_agent
from kimi_agent import Block, Hook, InvalidOption, Reject, SessionOptions, TextPart, ToolReturnValue, sync, tool
from kimi_agent._encode import to_jsonable
from kimi_agent._handlers import Handlers, encode_answer
from kimi_agent._input import encode_input
from kimi_agent._opening import encode_options
from kimi_agent.testing import scripted_agent

NAMES = """
    work_dir session_id model thinking yolo config_file config executable env mcp_configs agent_file skills_dir tools
    max_steps_per_turn max_retries_per_step policy enforce on_approval on_question on_read_file on_write_file
    on_terminal hooks on_event on_stderr client_name client_version record redact session_budget output telemetry
    extra_args read_session_files dialect handshake_timeout cancel_timeout close_timeout idle_timeout turn_timeout
    max_line_bytes event_buffer_bytes inherit_env system_prompt additional_directories agent_meta auth
    place prices
"""
PARTS = {"is_error": False, "output": [{"type": "text", "text": "a"}], "message": "", "display": []}


class Word(str):
    pass


class Color(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: Any


@dataclass
class Record:
    name: str
    at: datetime.date


@tool
def add(a: int) -> int:
    """Adds."""
    return a


def encode(**options: Any) -> dict[str, Any]:
    return encode_options(options, Handlers(options))


def test_every_option_is_typed() -> None:
    assert sorted(SessionOptions.__annotations__) == sorted(NAMES.split())


def test_options_become_json() -> None:
    hook = Hook("PreToolUse", "Shell", lambda request: None, 2.5, on_error="block")
    found = encode(
        work_dir=pathlib.Path("/tmp"),
        executable=[pathlib.Path("/bin/kimi"), "-x"],
        env={"A": "b"},
        model=None,
        handshake_timeout=1.5,
        on_event=print,
        tools=[add],
        hooks=(hook,),
    )
    assert found == {
        "work_dir": str(pathlib.Path("/tmp")),
        "executable": [str(pathlib.Path("/bin/kimi")), "-x"],
        "env": {"A": "b"},
        "model": None,
        "handshake_timeout": 1.5,
        "tools": [{"name": "add", "description": "Adds.", "parameters": add.parameters, "timeout": None}],
        "hooks": [{"event": "PreToolUse", "matcher": "Shell", "timeout": 2.5, "on_error": "block"}],
    }


def test_durations_may_be_timedeltas() -> None:
    duration = datetime.timedelta(minutes=1, milliseconds=500)
    found = encode(turn_timeout=duration, hooks=[Hook("Stop", None, print, typing.cast(Any, duration))])
    assert found["turn_timeout"] == 60.5
    assert found["hooks"][0]["timeout"] == 60.5


async def test_names_are_checked_before_values() -> None:
    for options in ({"on_aproval": print}, {"cwd": object()}, {"timeout": datetime.timedelta(1), "tools": 3}):
        with pytest.raises(InvalidOption, match="unknown option; did you mean"):
            await kimi_agent.create_session(**typing.cast(Any, options))


def test_misspelled_timeout_has_suggestion() -> None:
    with pytest.raises(InvalidOption, match="did you mean `turn_timeout`"):
        sync.prompt("Hi", **typing.cast(Any, {"timout": 1}))


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ([{"text": "Hi"}], "turn 1: is an action: a script is a list of turns, and a turn a list of actions"),
        ([[{"txt": "Hi"}]], 'turn 1, action 1: unknown action "txt"'),
        ([[{"text": object()}]], "object has no JSON form"),
        ("nowhere.json", r"nowhere\.json: can't read it"),
    ],
)
def test_wrong_script_is_refused_at_call(script: Any, text: str) -> None:
    with pytest.raises(InvalidOption, match=f"^invalid option `script`: .*{text}"):
        scripted_agent(script)


def test_handlers_are_announced_to_core() -> None:
    found = Handlers({"on_approval": "manual", "on_question": print, "on_event": None}).callbacks()
    unset = dict.fromkeys(("on_event", "on_stderr", "on_read_file", "on_write_file", "on_terminal"), False)
    assert found == {"on_approval": "manual", "on_question": True, **unset}


@pytest.mark.parametrize(
    ("options", "option", "message"),
    [
        ({"on_approval": "approve"}, "on_approval", '`on_approval`: expected a function or "manual", got "approve"'),
        ({"on_event": "manual"}, "on_event", '`on_event`: expected a function, got "manual"'),
        ({"tools": add}, "tools", r"`tools`: expected a list of tools, got .*put it into a list: `tools=\["),
        ({"hooks": Hook("Stop", None, print)}, "hooks", r"put it into a list: `hooks=\["),
        ({"tools": [add, print]}, "tools", r"tools\[1\]: expected an ExternalTool \(@tool makes one of a function\)"),
        ({"hooks": [3]}, "hooks", r"hooks\[0\]: expected a Hook, got 3"),
        ({"config": {"a": object()}}, "config", "`config`: builtins.object has no JSON form"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], option: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as caught:
        encode(**options)
    assert caught.value.option == option


def test_hooks() -> None:
    hook = Hook("Stop", None, print)
    assert (hook.event, hook.matcher, hook.handler, hook.timeout, hook.on_error) == ("Stop", None, print, None, "allow")
    assert repr(Hook("PreToolUse", "Shell", print)) == "Hook('PreToolUse', 'Shell')"
    with pytest.raises(InvalidOption, match="invalid option `hooks`: the handler of 'Stop' is not a function: 3"):
        Hook("Stop", None, typing.cast(Any, 3))


@pytest.mark.parametrize(
    ("content", "wire"),
    [
        ("hi", "hi"),
        (TextPart("hi"), [{"type": "text", "text": "hi"}]),
        ({"type": "text", "text": "hi"}, [{"type": "text", "text": "hi"}]),
        (
            ["a", TextPart("b"), {"type": "text", "text": "c"}],
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "text", "text": "c"}],
        ),
        ([], []),
    ],
)
def test_input_is_encoded(content: Any, wire: Any) -> None:
    assert encode_input(content) == wire


def test_wrong_input_is_named() -> None:
    with pytest.raises(
        InvalidOption, match=r"content\[1\]: expected text, a content part .*StepBegin is not a content"
    ):
        encode_input(typing.cast(Any, ["a", kimi_agent.StepBegin(1)]))
    for content in (pathlib.Path("p.png"), ["a", pathlib.Path("p.png")]):
        with pytest.raises(InvalidOption, match=r"or an image as `kimi_agent\.image\(path\)`"):
            encode_input(typing.cast(Any, content))


@pytest.mark.parametrize(
    ("value", "kind", "answer"),
    [
        ("approve", "approval", "approve"),
        (Reject("no"), "approval", {"reject": "no"}),
        (Block("no"), "hook", {"block": "no"}),
        (None, "hook", None),
        ({"Which?": ("a", "b")}, "question", {"Which?": ["a", "b"]}),
        (TextPart("a"), "event", None),
        ([TextPart("a")], "tool", PARTS),
        (TextPart("a"), "tool", PARTS),
        (ToolReturnValue.error("no"), "tool", {"is_error": True, "output": "", "message": "no", "display": []}),
        ([], "tool", []),
    ],
)
def test_answers_are_encoded(value: Any, kind: str, answer: Any) -> None:
    assert encode_answer(value, kind) == answer


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (None, None),
        (True, True),
        (Word("a"), "a"),
        (Color.RED, "red"),
        (1.5, 1.5),
        ({1, 2}, [1, 2]),
        ((1, "a"), [1, "a"]),
        (Pair(1, Color.RED), {"left": 1, "right": "red"}),
        ({Color.RED: pathlib.PurePosixPath("a"), 3: decimal.Decimal("1.10")}, {"red": "a", "3": "1.10"}),
        (Record("a", datetime.date(2024, 2, 29)), {"name": "a", "at": "2024-02-29"}),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (TextPart("a"), {"type": "text", "text": "a"}),
    ],
)
def test_values_become_json(value: Any, json: Any) -> None:
    found = to_jsonable(value)
    assert (found, type(found)) == (json, type(json))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "builtins.object has no JSON form"),
        (float("nan"), "nan is not a finite number"),
        ({True: 1}, "key True: JSON has string keys only"),
        (b"raw", "builtins.bytes has no JSON form"),
    ],
)
def test_values_without_json_form_are_refused(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        to_jsonable(value)


def test_recursive_value_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(TypeError, match="nested more than 190 deep, or containing itself"):
        to_jsonable(ring)


def test_script_and_option_types_are_evaluable() -> None:
    from kimi_agent import _option_types, testing
    from kimi_agent.testing import ScriptObject, ScriptTurn, script

    turns: list[ScriptTurn] = [
        [{"text": "Hello"}],
        {"actions": [{"tool_call": {"name": "Shell"}}], "status": "finished"},
    ]
    whole: ScriptObject = {"turns": turns, "wire": "1.9"}
    assert sync.prompt("Hi", executable=testing.scripted_agent(whole)).result().text == "Hello"
    for module in (_option_types, script):
        for name in module.__all__:
            kind = getattr(module, name)
            # In Python 3.10 a `Mapping[...]` is an instance of `type`, too.
            if isinstance(kind, type) and get_origin(kind) is None:
                assert get_type_hints(kind)
    assert {"ScriptAction", "Script"} <= set(testing.__all__)


def test_none_options_are_unset() -> None:
    names = [name for name in get_type_hints(SessionOptions) if name != "executable"]
    options: Any = dict.fromkeys(names)
    with sync.create_session(executable=scripted_agent([]), **options) as session:
        assert session.state == "idle"


def test_hook_events_of_type_match_agent() -> None:
    from kimi_agent._option_types import HookEvent

    with sync.create_session(executable=scripted_agent([])) as session:
        assert session.capabilities.hooks == list(get_args(HookEvent))


def test_dialects_of_type_are_accepted() -> None:
    from kimi_agent._option_types import Dialect

    for dialect in get_args(Dialect):
        script: Any = {"wire": dialect, "turns": []} if dialect != "auto" else []
        with sync.create_session(executable=scripted_agent(script), dialect=dialect, yolo=True) as session:
            assert session.state == "idle"


def test_code_of_error_matches_its_type() -> None:
    import kimi_agent

    for kind in vars(kimi_agent).values():
        if isinstance(kind, type) and issubclass(kind, kimi_agent.KimiAgentError):
            declared = kind.__annotations__["code"]
            expected = ["ClassVar[str]", "ClassVar[RpcErrorCode]", f"ClassVar[Literal[{kind.code!r}]]"]
            assert declared in expected


async def test_file_urls_and_compiled_patterns_are_taken(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    hook = Hook("Stop", lambda request: None, re.compile("^x", re.MULTILINE))
    options: dict[str, Any] = {"work_dir": folder.as_uri(), "redact": [re.compile("ab+", re.IGNORECASE), "c"]}
    async with kimi_agent.create_session(executable=scripted_agent([]), hooks=[hook], **options) as session:
        assert session.work_dir == str(folder)
    with pytest.raises(InvalidOption, match="a file URL of this machine"):
        await kimi_agent.create_session(executable=scripted_agent([]), work_dir="file://elsewhere/x")
    with pytest.raises(InvalidOption, match="is a pattern for bytes"):
        await kimi_agent.create_session(executable=scripted_agent([]), redact=[re.compile(b"x")])  # type: ignore[arg-type]
