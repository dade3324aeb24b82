"""Secrets stay secret, values arrive unchanged, and approvals fail closed: docs/evidence/security.md."""

from __future__ import annotations

import asyncio
import copy
import enum
import gc
import logging
import os
import pickle
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import open_session, read_until
from test_handlers import ASKS

from kimi_agent import (
    ApprovalRequest,
    ApprovalResponse,
    HandlerFailed,
    InvalidOption,
    KimiAgentError,
    Reject,
    _native,
    create_session,
    printable,
    prompt,
    sync,
    testing,
)
from kimi_agent.testing import scripted_agent

# The same in all processes of a run, because they are in the names of tests.
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", os.getpid())
SECRETS = {name: f"canary-of-{name}-{RUN}" for name in ("config", "mcp", "env")}
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def secretive() -> dict[str, Any]:
    """Options with a secret wherever one may be."""
    return {
        "config": {"providers": {"p": {"type": "kimi", "api_key": SECRETS["config"]}}},
        "mcp_configs": [{"mcpServers": {"docs": {"command": "x", "env": {"TOKEN": SECRETS["mcp"]}}}}],
        "env": {"API_TOKEN": SECRETS["env"]},
    }


def found_in(text: str) -> list[str]:
    return [name for name, secret in SECRETS.items() if secret in text]


def shown(thing: Any) -> str:
    """All that can be seen of an object by the means of the language."""
    views = [repr(thing), str(thing), f"{thing}", repr(dir(thing))]
    views += [repr(getattr(thing, "__dict__", None)), repr(sys.exc_info())]
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        try:
            views.append(repr(make(thing)))
        except TypeError as refused:
            views.append(str(refused))
    return "\n".join(views)


def reachable(thing: Any) -> Iterator[str]:
    """Every text that an object holds on to, however far down; not what modules, classes and functions hold."""
    seen: set[int] = set()
    left = [thing]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(
            one, (types.ModuleType, type, types.FunctionType, types.FrameType, asyncio.AbstractEventLoop)
        ):
            continue
        seen.add(id(one))
        if isinstance(one, str):
            yield one
        left.extend(gc.get_referents(one))


def told(error: BaseException) -> str:
    """All that a log or a report would show of an error, with what the package's own frames hold."""
    own = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if "kimi_agent" in frame.f_code.co_filename]
    views = [repr(error), str(error), repr(error.args), repr(vars(error)), *traceback.format_exception(error)]
    views += [repr(frame.f_locals) for frame in own]
    return "\n".join([*views, repr(pickle.dumps(error)), repr(error.__cause__), repr(error.__context__)])


async def failure(**options: Any) -> KimiAgentError:
    with pytest.raises(KimiAgentError) as caught:
        await create_session(**options)
    return caught.value


@linux
async def test_secrets_appear_in_no_output(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    # Invalid lines with echoes of the values are logged without the values.
    script = scripted_agent([[{"raw": f"echo {SECRETS}"}, {"text": "fine"}, {"exit": 3}]])
    opening = create_session(executable=script, **secretive())
    assert found_in(shown(opening)) == []
    session = await opening
    assert found_in(shown(opening)) == []
    arguments = Path(f"/proc/{session.pid}/cmdline").read_text()
    assert "--config-file=" in arguments
    assert found_in(arguments) == []
    assert found_in(shown(session)) == []
    turn = session.prompt("hi")
    assert found_in(shown(turn)) == []
    with pytest.raises(KimiAgentError) as caught:
        await turn.result()
    errors: list[KimiAgentError] = [caught.value]
    with pytest.raises(KimiAgentError) as caught:
        session.prompt("more")
    errors.append(caught.value)
    for holder in (session, turn, opening):
        assert not [text for text in reachable(holder) if found_in(text)], holder
    await session.close()

    errors.append(await failure(executable="/no/such", **secretive()))
    errors.append(await failure(executable=[sys.executable, "-c", "raise SystemExit(4)"], **secretive()))
    errors.append(await failure(executable=script, **secretive(), model=object()))
    errors.append(await failure(executable=script, **secretive(), config_file="/no/such"))
    errors.append(await failure(executable=script, **{**secretive(), "work_dri": "."}))
    wrong: dict[str, Any] = {**secretive(), "work_dri": "."}
    for fails in (
        lambda: prompt("hi", **wrong),
        lambda: sync.create_session(executable="/no/such", **secretive()),
        lambda: sync.create_session(**wrong),
        lambda: sync.prompt("hi", **wrong),
    ):
        with pytest.raises(KimiAgentError) as caught:
            fails()
        errors.append(caught.value)
    option, exited, spawn = "invalid_option", "agent_exited", "spawn_error"
    codes = [exited, exited, spawn, exited, option, option, option, option, spawn, option, option]
    assert [error.code for error in errors] == codes
    for error in errors:
        assert found_in(told(error)) == [], error
    messages = [record.getMessage() for record in caplog.records]
    assert any("agent started" in message for message in messages), messages
    assert found_in("\n".join([caplog.text, *messages, *(repr(vars(record)) for record in caplog.records)])) == []


ESCAPES = "\x1b]52;c;aGk=\x07\x9b31m\u202etxt"


async def test_control_characters_are_escaped_in_output(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_session([{"raw": ESCAPES}, {"text": "fine"}]) as session:
        assert (await session.prompt("go").result()).text == "fine"
    shown = r"\x1b]52;c;aGk=\x07\x9b31m\u202etxt"
    assert shown in caplog.text
    code = f"import sys; print({ESCAPES!r}); sys.stderr.write({ESCAPES!r}); sys.exit(3)"
    for error in (
        await failure(executable=[sys.executable, "-c", code]),
        await failure(executable=f"/no/such/{ESCAPES}"),
    ):
        assert shown in str(error)
        assert not set("\x1b\x07\x9b\u202e") & set(str(error))
    assert not set("\x1b\x07\x9b\u202e") & set(caplog.text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls\x1b[2J", r"ls\x1b[2J"),
        ("a\u202eb\u2066c\u061c\u2028\x7f", r"a\u202eb\u2066c\u061c\u2028\x7f"),
        ("one\r\ntwo\tthree\rfour", "one\ntwo\tthree\\rfour"),
        ("lone \ud800 half", r"lone \ud800 half"),
        ("übung 🦀 日本", "übung 🦀 日本"),
    ],
)
def test_printable_escapes_control_characters(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_printable_refuses_other_types() -> None:
    with pytest.raises(TypeError, match="expected a str, got bytes"):
        printable(b"x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("config", [SECRETS["config"]]),
        ("config", SECRETS["config"]),
        ("config", {"key": {SECRETS["config"]}, "other": object()}),
        ("config", {"key": SECRETS["config"], b"bytes": 1}),
        ("mcp_configs", SECRETS["mcp"]),
        ("mcp_configs", [SECRETS["mcp"]]),
        ("mcp_configs", {"mcpServers": {"a": SECRETS["mcp"]}}),
        ("env", [SECRETS["env"]]),
        ("env", SECRETS["env"]),
        ("env", {f"API_TOKEN={SECRETS['env']}": "x"}),
        ("env", {"API_TOKEN": f"{SECRETS['env']}\0"}),
        ("env", {"API_TOKEN": [SECRETS["env"]]}),
        ("env", {"API_TOKEN": {"a": SECRETS["env"]}}),
    ],
)
async def test_error_about_secret_omits_its_value(option: str, value: Any) -> None:
    error = await failure(**{option: value})
    assert isinstance(error, InvalidOption)
    assert error.option == option
    views = [repr(error), str(error), repr(vars(error)), *traceback.format_exception(error)]
    assert found_in("\n".join(views)) == []


class Leaking:
    def __init__(self) -> None:
        self.hidden = {"deep": [secretive()]}


def test_leak_is_found_by_these_tests(caplog: pytest.LogCaptureFixture) -> None:
    assert found_in(shown(Leaking())) == list(SECRETS)
    assert {name for text in reachable(Leaking()) for name in found_in(text)} == set(SECRETS)
    assert found_in(repr(pickle.dumps(Leaking()))) == list(SECRETS)
    error = KimiAgentError("harmless")
    error.__cause__ = ValueError(SECRETS["env"])
    assert found_in(told(error)) == ["env"]
    logging.getLogger("kimi_agent").warning("%s", SECRETS["mcp"])
    assert found_in(caplog.text) == ["mcp"]


@linux
async def test_private_files_are_deleted_when_close_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # The one of this process may stand elsewhere already.
    monkeypatch.setattr(testing, "_folder", _native.PrivateFolder())
    script = scripted_agent([[{"text": "fine"}]])
    # All stand in one folder.
    (common,) = tmp_path.iterdir()
    scripts = set(common.iterdir())
    session = await create_session(executable=script, **secretive())
    (folder,) = set(common.iterdir()) - scripts
    assert folder.stat().st_mode & 0o7777 == 0o700
    files = {file.name: file for file in folder.iterdir()}
    assert files.keys() == {"lock", "config.json", "mcp-0.json"}
    assert {file.stat().st_mode & 0o7777 for file in files.values()} == {0o600}
    assert SECRETS["config"] in files["config.json"].read_text()
    await session.close()
    assert set(common.iterdir()) == scripts


ODD = "a b\n\"c\" 'd' $(touch owned) `touch owned` ;touch owned; & | * ? ~ \\ -- é 文"


@linux
@pytest.mark.parametrize("blocking", [False, True])
async def test_unusual_paths_arrive_unchanged(tmp_path: Path, blocking: bool) -> None:
    folder = tmp_path / ODD
    skills = folder / "--yolo"
    skills.mkdir(parents=True)
    program = folder / "pro gram"
    program.write_text('#!/bin/sh\nexec "$@"\n')
    program.chmod(0o755)
    config = folder / "-x"
    config.write_text("")
    agent: list[Any] = [program, *scripted_agent([[{"text": "fine"}]])]
    options: dict[str, Any] = {"work_dir": folder, "skills_dir": skills, "config_file": config, "agent_file": config}
    options |= {"model": "--yolo", "extra_args": ["--", "-x", "$HOME"]}
    if blocking:

        def main() -> tuple[str, str, str]:
            with sync.create_session(executable=agent, **options) as session:
                arguments = Path(f"/proc/{session.pid}/cmdline").read_text()
                return session.work_dir, arguments, session.prompt("hi").result().text

        work_dir, arguments, text = await asyncio.to_thread(main)
    else:
        async with create_session(executable=agent, **options) as session:
            arguments = Path(f"/proc/{session.pid}/cmdline").read_text()
            work_dir, text = session.work_dir, (await session.prompt("hi").result()).text
    assert (work_dir, text) == (str(folder), "fine")
    words = arguments.split("\0")[:-1]
    given = [word for word in words[words.index("--wire") :] if not word.startswith("--session=")]
    assert given == [
        "--wire", f"--work-dir={folder}", "--model=--yolo", f"--config-file={config}", f"--agent-file={config}",
        f"--skills-dir={skills}", "--", "-x", "$HOME",
    ]  # fmt: skip
    assert not list(tmp_path.rglob("owned"))
    assert not Path("owned").exists()


@linux
async def test_agent_inherits_environment_plus_env(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMI_SDK_TEST_SET_AT_RUN_TIME", ODD)
    monkeypatch.setenv("KIMI_SDK_TEST_CHANGED", "before")
    monkeypatch.delenv("KIMI_SDK_TEST_GONE", raising=False)
    mine = {"KIMI_SDK_TEST_CHANGED": f"after {ODD}", "KIMI_SDK_TEST_NEW": "= é"}
    async with open_session([], env=mine) as session:
        raw = Path(f"/proc/{session.pid}/environ").read_bytes()
    found = dict(word.split(b"=", 1) for word in raw.split(b"\0")[:-1])
    # The library that edits lines sets these behind Python's back.
    for name in {b"COLUMNS", b"LINES"} - os.environb.keys():
        found.pop(name, None)
    assert found == {**os.environb, **{os.fsencode(name): os.fsencode(value) for name, value in mine.items()}}


class Odd(enum.Enum):
    NO = "no"


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("not even that")

    __repr__ = __str__


def raises(error: BaseException) -> Callable[[ApprovalRequest], Any]:
    def handler(request: ApprovalRequest) -> Any:
        raise error

    return handler


def returns(value: Any) -> Callable[[ApprovalRequest], Any]:
    return lambda request: value


async def cancels_itself(request: ApprovalRequest) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "approve"


async def yields(request: ApprovalRequest) -> Any:
    yield "approve"


async def times_out(request: ApprovalRequest) -> Any:
    await asyncio.wait_for(asyncio.get_running_loop().create_future(), 0)
    return "approve"


DOUBTS: dict[str, Any] = {
    "nothing": returns(None),
    "true": returns(True),
    "one": returns(1),
    "an unknown word": returns("yes"),
    "in capitals": returns("Approve"),
    "with a space": returns("approve "),
    "empty": returns(""),
    "bytes": returns(b"approve"),
    "in a list": returns(["approve"]),
    "in a set": returns({"approve"}),
    "in an object": returns({"response": "approve"}),
    "an enum": returns(Odd.NO),
    "not a number": returns(float("nan")),
    "the class": returns(Reject),
    "a thing without a text": returns(Unspeakable()),
    "a function": returns(lambda: "approve"),
    "an exception as a value": returns(ValueError("approve")),
    "a generator": yields,
    "raises": raises(ValueError("approve")),
    "raises what has no text": raises(RuntimeError(Unspeakable())),
    "exits": raises(SystemExit("approve")),
    "stops an iteration": raises(StopIteration("approve")),
    "interrupts a generator": raises(GeneratorExit()),
    "is cancelled": raises(asyncio.CancelledError()),
    "cancels itself": cancels_itself,
    "times out": times_out,
    "takes no argument inside": lambda *given: (lambda: "approve")(*given),
}


@pytest.mark.parametrize("doubt", DOUBTS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_ambiguous_approval_is_rejected(doubt: str, tmp_path: Path) -> None:
    async with open_session(ASKS, on_approval=DOUBTS[doubt], work_dir=tmp_path) as session:
        events = [event async for event in session.prompt("go")]
    (resolved,) = [event for event in events if isinstance(event, ApprovalResponse)]
    assert resolved.response == "reject"
    (failed,) = [event for event in events if isinstance(event, HandlerFailed)]
    assert failed.handler == "approval"
    assert not (tmp_path / "out.txt").exists()


async def test_handler_without_argument_is_refused() -> None:
    handler: Any = lambda: "approve"  # noqa: E731
    with pytest.raises(InvalidOption, match=r"on_approval.*is called with one argument, the request, and takes"):
        await open_session(ASKS, on_approval=handler)


@pytest.mark.parametrize("answer", ["approve", "approve_for_session"])
async def test_exact_approval_is_carried_out(answer: str, tmp_path: Path) -> None:
    async with open_session(ASKS, on_approval=returns(answer), work_dir=tmp_path) as session:
        assert (await session.prompt("go").result()).text == answer
    assert (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    "answer", [None, True, "yes", "Approve", b"approve", ["approve"], {"approve": True}, object(), 7]
)
async def test_invalid_manual_answer_is_refused(answer: Any, tmp_path: Path) -> None:
    async with open_session(ASKS, on_approval="manual", work_dir=tmp_path) as session:
        turn = session.prompt("go")
        request = await read_until(turn, ApprovalRequest)
        with pytest.raises((InvalidOption, TypeError)):
            await turn.respond(request, answer)
        # It still waits, and ends with the turn.
        await turn.cancel()
        assert (await turn.result()).status == "cancelled"
    assert not (tmp_path / "out.txt").exists()


async def test_answer_to_foreign_request_is_refused(tmp_path: Path) -> None:
    dirs = [tmp_path / "first", tmp_path / "second"]
    for path in dirs:
        path.mkdir()
    first = await open_session(ASKS, on_approval="manual", work_dir=dirs[0])
    second = await open_session(ASKS, on_approval="manual", work_dir=dirs[1])
    async with first, second:
        turns = [session.prompt("go") for session in (first, second)]
        requests = [await read_until(turn, ApprovalRequest) for turn in turns]
        # Two agents may well use one id; the objects are bound to their sessions all the same.
        for wrong in (turns[1], second):
            with pytest.raises(InvalidOption, match="is a request of another session") as caught:
                await wrong.respond(requests[0], "approve")
            assert caught.value.option == "request"
        with pytest.raises(InvalidOption, match="is a request of another session"):
            await second.respond(copy.copy(requests[0]), "approve")
        await turns[1].respond(requests[1], "reject")
        # A copy by way of pickle has lost the binding, and names its request by the id.
        copied = pickle.loads(pickle.dumps(requests[0]))
        assert copied == requests[0]
        assert repr(copied) == repr(requests[0])
        await turns[0].respond(copied, "approve")
        await asyncio.gather(*(turn.result() for turn in turns))
    assert (dirs[0] / "out.txt").exists()
    assert not (dirs[1] / "out.txt").exists()


def test_blocking_answer_to_foreign_request_is_refused(tmp_path: Path) -> None:
    agent = scripted_agent([ASKS])
    with (
        sync.create_session(executable=agent, on_approval="manual", work_dir=tmp_path) as first,
        sync.create_session(executable=agent, on_approval="manual", work_dir=tmp_path) as second,
    ):
        turns = [first.prompt("go"), second.prompt("go")]
        requests = [next(event for event in turn if isinstance(event, ApprovalRequest)) for turn in turns]
        with pytest.raises(InvalidOption, match="is a request of another session"):
            turns[1].respond(requests[0], "approve")
        for turn, request in zip(turns, requests, strict=True):
            turn.respond(request, "reject")
            turn.result()
    assert not (tmp_path / "out.txt").exists()


async def test_manual_request_left_unanswered_is_rejected(tmp_path: Path) -> None:
    async with open_session(ASKS, [{"text": "next"}], on_approval="manual", work_dir=tmp_path) as session:
        turn = session.prompt("go")
        request: ApprovalRequest | None = await read_until(turn, ApprovalRequest)
        assert request is not None
        del request, turn
        gc.collect()
        result = await session.prompt("next").result()
        assert result.text == "next"
    assert not (tmp_path / "out.txt").exists()


async def test_close_during_approval_rejects_it(tmp_path: Path) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def decide(request: ApprovalRequest) -> str:
        asked.set()
        try:
            await answer.wait()
        except asyncio.CancelledError:
            return "approve"
        return "approve"

    session = await open_session(ASKS, on_approval=decide, work_dir=tmp_path)
    turn = session.prompt("go")
    await asked.wait()
    await session.close()
    answer.set()
    del turn
    assert not (tmp_path / "out.txt").exists()


async def test_one_shot_secrets_appear_in_no_output() -> None:
    turn = prompt("hi", executable=scripted_agent([[{"text": "fine"}]]), **secretive())
    assert found_in(shown(turn)) == []
    assert not [text for text in reachable(turn) if found_in(text)]
    assert (await turn.result()).text == "fine"
