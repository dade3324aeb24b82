"""Cassettes: each mode, their errors, and the options that they give a session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import kimi_agent.sync
from kimi_agent import ExternalTool, InvalidOption, RpcError, SessionOptions, create_session, open_agent
from kimi_agent.testing import cassette, replayed_agent, scripted_agent

# `rewrite` records the cassette of Python anew; see tests/recordings/record.py.
MODE: Any = os.environ.get("KIMI_RECORD", "none")
RECORDINGS = Path(__file__).parents[2] / "tests" / "recordings"


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIMI_RECORD", raising=False)
    monkeypatch.delenv("CI", raising=False)


def agent(text: str = "4") -> list[str]:
    return scripted_agent([[{"text": text}]])


async def ask(question: str = "2 + 2?", **options: Any) -> str:
    async with create_session(**options) as session:
        return (await session.prompt(question).result()).text


async def recorded(path: Path) -> Path:
    assert await ask(**cassette(path, agent())) == "4"
    return path


async def test_once_records_then_plays(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "sum.jsonl"
    for is_recording, text in [(True, "4"), (False, "5")]:
        tape = cassette(path, executable=agent(text))
        assert (tape.is_recording, tape.path) == (is_recording, path)
        assert await ask(**tape) == "4"


async def test_options_are_part_of_typed_options(tmp_path: Path) -> None:
    # Type checkers read this file, too.
    for is_recording in (True, False):
        tape = cassette(tmp_path / "sum.jsonl", executable=agent())
        assert tape.is_recording == is_recording
        options: SessionOptions = {**tape.options(), "yolo": True}
        assert dict(options) == {**tape, "yolo": True}
        async with create_session(**tape.options()) as session:
            assert (await session.prompt("2 + 2?")).text == "4"
    tape.options()["record"] = "other.jsonl"
    assert "record" not in tape


async def test_difference_fails(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "sum.jsonl")
    with pytest.raises(RpcError, match=r'turn 1: `prompt`: expected "2 \+ 2\?", got "2 \+ 3\?" at /user_input'):
        await ask("2 + 3?", **cassette(path))
    assert await ask("2 + 3?", **cassette(path, verify=False)) == "4"


async def test_missing_file_is_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption) as caught:
        cassette("sum", mode="none")
    assert caught.value.option == "cassette"
    missing = f"invalid option `cassette`: {Path('cassettes', 'sum.jsonl')} is missing"
    command = "run KIMI_RECORD=once <the command that runs this test>"
    assert str(caught.value) == f'{missing}; record it: remove the mode "none", then {command}'
    monkeypatch.setenv("KIMI_RECORD", "none")
    with pytest.raises(InvalidOption, match="record it: KIMI_RECORD=once <the command that runs this test>"):
        cassette("sum")
    assert cassette("sum", mode="once").is_recording


@pytest.mark.parametrize("mode", ["all", "rewrite"])
async def test_recording_is_replaced(mode: Any, tmp_path: Path) -> None:
    path = await recorded(tmp_path / "sum.jsonl")
    tape = cassette(path, agent("5"), mode)
    assert tape.is_recording
    assert path.exists()
    assert await ask(**tape) == "5"
    assert await ask(**cassette(path)) == "5"


async def test_incomplete_recording_is_replaced(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "sum.jsonl")
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    with pytest.raises(InvalidOption, match="is incomplete, because its session was never closed; record it again"):
        cassette(path, mode="none")
    assert await ask(**cassette(path, agent("5"))) == "5"


async def test_variable_sets_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await recorded(tmp_path / "sum.jsonl")
    monkeypatch.setenv("KIMI_RECORD", "all")
    assert cassette(path).is_recording
    assert not cassette(path, mode="once").is_recording
    monkeypatch.setenv("KIMI_RECORD", "twice")
    expected = r'expected "once", "none", "all" or "rewrite" in \$KIMI_RECORD, got "twice"'
    with pytest.raises(InvalidOption, match=expected) as caught:
        cassette(path)
    assert caught.value.option == "mode"


async def test_ci_records_nothing_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(InvalidOption, match="is missing; record it: KIMI_RECORD=once <the command that runs this"):
        cassette(tmp_path / "sum.jsonl")
    assert cassette(tmp_path / "sum.jsonl", mode="once").is_recording
    monkeypatch.setenv("KIMI_RECORD", "once")
    assert cassette(tmp_path / "sum.jsonl").is_recording
    monkeypatch.delenv("KIMI_RECORD")
    monkeypatch.setenv("CI", "false")
    assert cassette(tmp_path / "sum.jsonl").is_recording


async def test_other_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"jsonrpc": "2.0"}\n', "utf-8")
    with pytest.raises(InvalidOption, match="it is not the header of a recording") as caught:
        await ask(**cassette(path))
    assert caught.value.option == "executable"


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match='expected "once", "none", "all" or "rewrite", got "x"'):
        cassette(tmp_path / "a.jsonl", mode="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="expected a name or a path"):
        cassette("")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidOption, match=r"invalid option `cassette`: .* can't be written"):
        cassette(tmp_path / "file" / "a.jsonl", mode="all")


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (5, "5"),
        (None, "None"),
        (b"two.jsonl", "an object of type bytes"),
        ("", "an empty text"),
        (["two.jsonl"], "an object of type list"),
    ],
)
def test_name_that_is_not_path_is_refused(given: Any, got: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        cassette(given)
    assert str(caught.value) == f"invalid option `cassette`: expected a name or a path; got {got}"
    assert caught.value.option == "cassette"


def test_cassette_is_mapping(tmp_path: Path) -> None:
    tape = cassette(tmp_path / "a.jsonl")
    assert isinstance(tape, Mapping)
    assert dict(tape) == {"record": str(tmp_path / "a.jsonl")}
    assert repr(tape) == f"<Cassette {str(tmp_path / 'a.jsonl')!r}, recording>"
    with pytest.raises(TypeError):
        tape["record"] = "other"  # type: ignore[index]
    with pytest.raises(AttributeError):
        tape.is_recording = False  # type: ignore[misc]


def test_blocking_session_uses_cassette(tmp_path: Path) -> None:
    for is_recording in (True, False):
        tape = cassette(tmp_path / "sum.jsonl", agent())
        assert tape.is_recording == is_recording
        with kimi_agent.sync.create_session(**tape) as session:
            assert session.prompt("2 + 2?").result().text == "4"


async def test_open_agent_uses_cassette(tmp_path: Path) -> None:
    for is_recording in (True, False):
        tape = cassette(tmp_path / "sum.jsonl", agent())
        assert tape.is_recording == is_recording
        async with open_agent(**tape) as opened, opened.create_session() as session:
            assert (await session.prompt("2 + 2?").result()).text == "4"


async def test_close_reports_omission_once(tmp_path: Path) -> None:
    def tape() -> Any:
        return cassette(RECORDINGS / "wire.jsonl", mode="none")

    session = await create_session(work_dir=tmp_path, **tape())
    with pytest.raises(RpcError, match="the program never called `prompt`"):
        await session.close()
    await session.close()
    with pytest.raises(ZeroDivisionError):
        async with create_session(work_dir=tmp_path, **tape()):
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), kimi_agent.sync.create_session(work_dir=tmp_path, **tape()):
        raise ZeroDivisionError


@pytest.mark.parametrize("dialect", ["wire", "legacy", "acp", "kimi-web"])
async def test_recordings_of_others_are_played(dialect: str, tmp_path: Path) -> None:
    tape = cassette(RECORDINGS / f"{dialect}.jsonl", mode="none")
    options: dict[str, Any] = {"yolo": True} if dialect == "legacy" else {"on_approval": lambda request: "approve"}
    async with create_session(work_dir=tmp_path, **options, **tape) as session:
        assert (await session.prompt("List the files")).text == "There is a.txt."
        await session.prompt("Thanks")


@pytest.mark.parametrize("language", ["python", "node", "rust"])
async def test_cassette_of_each_language(language: str, tmp_path: Path) -> None:
    tool = ExternalTool("add", "Adds", {"type": "object"}, lambda numbers: str(numbers["a"] + numbers["b"]))
    mode: Any = MODE if language == "python" else "none"
    tape = cassette(RECORDINGS / f"of-{language}.jsonl", scripted_agent(RECORDINGS / "sum.json"), mode)
    async with create_session(**tape, tools=[tool], work_dir=tmp_path) as session:
        result = await session.prompt("Add 1 and 2").result()
    assert (result.text, [call.output for call in result.tool_calls]) == ("The sum is 3.", ["3"])


async def test_stub_uses_present_tools(tmp_path: Path) -> None:
    path = tmp_path / "sum.jsonl"
    script = scripted_agent([[{"external_tool": {"name": "add", "arguments": {"a": 1}}}, {"text": "So be it."}]])

    async def outputs(value: str, **options: Any) -> list[str]:
        tool = ExternalTool("add", "Adds", {"type": "object"}, lambda arguments: f"{value}: {arguments['a']}")
        async with create_session(tools=[tool], **options) as session:
            result = await session.prompt("Add").result()
        assert result.text == "So be it."
        return [str(call.output) for call in result.tool_calls]

    assert await outputs("then", executable=script, record=path) == ["then: 1"]
    assert await outputs("now", executable=replayed_agent(path)) == ["then: 1"]
    assert await outputs("now", executable=replayed_agent(path, mode="stub")) == ["now: 1"]


@pytest.mark.parametrize(("name", "value"), [("mode", 3), ("verify", "no")])
def test_wrong_types_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption, match=f"invalid option `{name}`: expected .*, got {value!r}"):
        cassette("sum", **{name: value})


def test_batch_refuses_cassette_that_records(tmp_path: Path) -> None:
    options = cassette(tmp_path / "tape.jsonl", scripted_agent([[{"text": "4"}]]), mode="once")
    with pytest.raises(InvalidOption, match="a cassette is the recording of one session") as caught:
        list(kimi_agent.sync.run_batch(["a"], **options))
    assert caught.value.option == "record"


def test_second_session_and_batch_are_refused_while_playing(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"

    def play(options: Any) -> str:
        with kimi_agent.sync.create_session(**options) as session:
            return session.prompt("2 + 2?").result().text

    assert play(cassette(path, scripted_agent([[{"text": "4"}]]), mode="once")) == "4"
    options = cassette(path, mode="none")
    assert play(options) == "4"
    with pytest.raises(InvalidOption, match="this cassette has a session already") as caught:
        play(options)
    assert caught.value.option == "executable"
    with pytest.raises(InvalidOption, match="a batch has a session for each job"):
        list(kimi_agent.sync.run_batch(["a"], **options))
    # A further test may play it.
    assert play(cassette(path, mode="none")) == "4"
