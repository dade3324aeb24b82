"""The blocking API, and Ctrl-C in both."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, HANGING, LOOKUP, gone, interrupted, program, texts, waited

from kimi_agent import (
    ApprovalRequest,
    Event,
    ExternalTool,
    InvalidOption,
    KimiAgentError,
    TextPart,
    TurnBegin,
    TurnEnd,
    TurnInProgress,
    sync,
)
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

FRESH = [{"text": "Fresh"}]


def open_session(*turns: Any, **options: Any) -> sync.Session:
    return sync.create_session(executable=scripted_agent(list(turns)), **options)


def test_turn_streams_its_events() -> None:
    with open_session([{"text": ["Hel", "lo"]}]) as session:
        turn = session.prompt("Say hello")
        events = list(turn)
        assert events[0] == TurnBegin("Say hello")
        assert events[-1] == TurnEnd()
        assert texts(events) == turn.result().text == "Hello"
        assert (session.state, session.protocol_version) == ("idle", "1.10")
        assert session.id in repr(session)
        assert turn.usage == session.usage == turn.result().usage
        assert list(turn) == []
    assert session.state == "closed"
    assert gone(session.pid)


def test_break_cancels_only_unreferenced_turn() -> None:
    with open_session(HANGING, HANGING, FRESH) as session:
        turn = session.prompt("Go")
        for event in turn:
            if isinstance(event, TextPart):
                break
        with pytest.raises(TurnInProgress):
            session.prompt("Too soon")
        turn.cancel()
        assert turn.result().status == "cancelled"
        for event in session.prompt("Once more"):
            if isinstance(event, TextPart):
                break
        assert session.prompt("Again").result().text == "Fresh"


def test_second_reader_of_turn_is_refused() -> None:
    with open_session(HANGING, FRESH) as session, session.prompt("Go") as turn:
        events = iter(turn)
        with pytest.raises(InvalidOption, match="another loop reads its events already"):
            iter(turn)
        events.close()
        assert next(iter(turn)) == TurnBegin("Go")


def test_handlers_may_use_session() -> None:
    turns: list[sync.Turn] = []
    ready = threading.Event()

    def handler(arguments: dict[str, Any]) -> str:
        assert ready.wait(DEADLINE)
        turns[0].steer("by the way")
        return "ok"

    tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, handler)]
    with open_session([LOOKUP, {"wait_steer": True}, {"text": "{{steer}}"}], tools=tools) as session:
        turns.append(session.prompt("Go"))
        ready.set()
        assert turns[0].result().text == "by the way"


def test_async_handler_must_not_block_its_loop() -> None:
    said: list[str] = []

    async def handler(arguments: dict[str, Any]) -> str:
        try:
            session.close()
        except KimiAgentError as error:
            said.append(str(error))
        return "ok"

    tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, handler)]
    with open_session([LOOKUP, {"text": "Done"}], tools=tools) as session:
        assert session.prompt("Go").result().text == "Done"
    assert "plain function" in said[0]


def test_threads_can_have_own_sessions() -> None:
    said: list[str] = []

    def work(n: int) -> None:
        with open_session([{"text": "{{prompt}}"}]) as session:
            said.append(session.prompt(f"thread {n}").result().text)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert sorted(said) == [f"thread {n}" for n in range(4)]


def test_threads_can_share_iterator() -> None:
    for _ in range(5):
        seen: list[list[str]] = [[], [], []]
        with open_session([{"text": [str(n) for n in range(200)]}]) as session:
            events = iter(session.prompt("Go"))

            def take(mine: list[str], events: Iterator[Event] = events) -> None:
                mine.extend(event.text for event in events if isinstance(event, TextPart))

            threads = [threading.Thread(target=take, args=(mine,), daemon=True) for mine in seen]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
                assert not thread.is_alive()
        assert sorted(int(text) for mine in seen for text in mine) == list(range(200))


@pytest.mark.parametrize("way", ["iterator", "session"])
def test_close_ends_threads_waiting_for_events(way: str) -> None:
    with open_session(HANGING) as session:
        turn = session.prompt("Go")
        events = iter(turn)
        assert isinstance(next(events), TurnBegin)
        ended: list[object] = []

        def wait() -> None:
            try:
                ended.append(len(list(events)))
            except KimiAgentError as error:
                ended.append(error.code)

        threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        if way == "iterator":
            events.close()
        else:
            session.close()
        for thread in threads:
            thread.join(DEADLINE)
            assert not thread.is_alive()
        assert len(ended) == 3


def test_session_can_be_used_from_another_thread() -> None:
    with open_session([{"text": "a"}], [{"text": "b"}]) as session:
        said: list[str] = []
        thread = threading.Thread(target=lambda: said.append(session.prompt("Go").result().text))
        thread.start()
        thread.join(DEADLINE)
        said.append(session.prompt("Go").result().text)
    assert said == ["a", "b"]


@pytest.mark.skipif(sys.platform == "win32", reason="closing descriptors is what daemons of Unix do")
def test_closed_descriptors_are_an_error() -> None:
    code = """
import os, kimi_agent
from kimi_agent import sync
from kimi_agent.testing import scripted_agent
agent = scripted_agent([[{"text": "a"}], [{"text": "b"}]])
session = sync.create_session(executable=agent).__enter__()
assert session.prompt("Go").result().text == "a"
os.closerange(3, 300)
for call in (lambda: session.prompt("Go").result(), lambda: sync.create_session(executable=agent).__enter__()):
    try:
        call()
    except kimi_agent.KimiAgentError as error:
        print(error, flush=True)
os._exit(0)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert ran.stdout.count("has closed descriptors of kimi-agent") == 2, ran


@pytest.mark.skipif(sys.platform == "win32", reason="closing descriptors is what daemons of Unix do")
@pytest.mark.parametrize("ends", ["", "session = None"])
def test_exit_with_closed_descriptors_one_warning(ends: str) -> None:
    code = f"""
import os, sys
from kimi_agent import sync
session = sync.create_session(executable=sys.argv[1:])
assert session.prompt("Go").result().text == "a"
os.closerange(3, 300)
{ends}
"""
    command = [sys.executable, "-c", code, *scripted_agent([[{"text": "a"}]])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)
    assert ran.stderr.startswith("kimi-agent: this program has closed descriptors of kimi-agent, so open"), ran
    assert ran.stderr.count("\n") == 1, ran


BLOCKING = """
with kimi_agent.sync.create_session(executable=scripted_agent([HANGING]), work_dir=".") as session:
    pid = session.pid
    turn = session.prompt("Go")
    try:
        WAIT
    finally:
        print("left", flush=True)
"""
WAITS = {
    "reading": "for event in turn:\n            if isinstance(event, kimi_agent.TextPart): print(pid, flush=True)",
    "reading steps": (
        "for step in turn.steps:\n"
        "            for event in step:\n"
        "                if isinstance(event, kimi_agent.TextPart): print(pid, flush=True)"
    ),
    "result": (
        "for event in turn:\n"
        "            if isinstance(event, kimi_agent.TextPart): break\n"
        "        print(pid, flush=True)\n"
        "        turn.result()"
    ),
}
ASYNC = """
async def main():
    async with kimi_agent.create_session(executable=scripted_agent([HANGING]), work_dir=".") as session:
        turn = session.prompt("Go")
        try:
            async for event in turn:
                if isinstance(event, kimi_agent.TextPart):
                    print(session.pid, flush=True)
        finally:
            print("left", flush=True)
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent otherwise there")
@pytest.mark.parametrize("code", [*(BLOCKING.replace("WAIT", wait) for wait in WAITS.values()), ASYNC])
def test_ctrl_c_ends_program_and_agent(code: str, tmp_path: Path) -> None:
    running = program(code, tmp_path)
    (pid, *rest), err = interrupted(running)
    assert rest == ["left"]
    assert err.strip().endswith("KeyboardInterrupt")
    assert running.returncode == -signal.SIGINT
    # The agent got the cancel, and has exited.
    assert (tmp_path / "cancelled").exists()
    assert gone(int(pid))


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent otherwise there")
def test_caught_ctrl_c_keeps_session_usable(tmp_path: Path) -> None:
    code = """
    with kimi_agent.sync.create_session(executable=scripted_agent([HANGING, [{"text": "Fresh"}]])) as session:
        turn = session.prompt("Go")
        try:
            for event in turn:
                if isinstance(event, kimi_agent.TextPart):
                    print(session.pid, flush=True)
        except KeyboardInterrupt:
            turn.cancel()
        print(turn.result().status, session.prompt("Again").result().text)
    """
    running = program(code, tmp_path)
    (_, *rest), err = interrupted(running)
    assert rest == ["cancelled", "Fresh"]
    assert err == ""
    assert running.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent otherwise there")
def test_ctrl_c_while_opening_ends_agent(tmp_path: Path) -> None:
    code = """
    agent = {"before_handshake": [{"stderr": "here"}, {"stall": True}]}
    said = lambda line: print(line, flush=True)
    kimi_agent.sync.create_session(executable=scripted_agent(agent), on_stderr=said, close_timeout=0.1)
    """
    running = program(code, tmp_path)
    (first, *rest), err = interrupted(running)
    assert (first, rest) == ("here", [])
    assert err.strip().endswith("KeyboardInterrupt")
    assert running.returncode == -signal.SIGINT


def test_program_exit_ends_agent(tmp_path: Path) -> None:
    code = """
    import atexit

    @atexit.register
    def late():
        # Registered before the package was used, so called after its end.
        try:
            session.prompt("Go")
        except kimi_agent.KimiAgentError as error:
            print(error)

    session = kimi_agent.sync.create_session(executable=scripted_agent([HANGING]))
    """
    out, err = program(code, tmp_path).communicate(timeout=DEADLINE)
    assert (out.strip(), err) == (
        "the program is ending, and its sessions are closed; use them before the main thread ends",
        "",
    )


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit])
def test_async_handler_raising_system_exit_fails(
    failure: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    async def on_approval(request: ApprovalRequest) -> Any:
        raise failure

    async def lookup(arguments: Any) -> str:
        raise failure("no")

    async def on_event(event: Any) -> None:
        seen.append(event)
        raise failure

    shell = {"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}
    tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, lookup)]
    turns = ([shell], [LOOKUP, {"text": "{{last.message}}"}], FRESH)
    with open_session(*turns, on_approval=on_approval, tools=tools, on_event=on_event) as session:
        session.prompt("Go").result()
        assert failure.__name__ in session.prompt("Go").result().text
        session.set_plan_mode(True)
        assert waited(lambda: bool(seen))
        assert session.prompt("Go").result().text == "Fresh"
    failed = [record.message.partition(".")[0] for record in caplog.records if " failed. " in record.message]
    assert failed == ["on_approval failed", "tool lookup failed", "on_event failed"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit])
def test_task_of_async_handler_keeps_shared_loop(
    failure: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    tasks: list[Any] = []

    async def lookup(arguments: Any) -> str:
        async def work() -> None:
            raise failure

        tasks.append(asyncio.create_task(work()))
        await asyncio.sleep(0)
        return "ok"

    tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, lookup)]
    with open_session([LOOKUP, {"text": "Done"}], FRESH, tools=tools) as session:
        assert session.prompt("Go").result().text == "Done"
        assert session.prompt("Go").result().text == "Fresh"
    assert isinstance(tasks[0].exception(), failure)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        f"{failure.__name__} in a task of a handler is ignored"
    ]


@pytest.mark.parametrize("failure", ["SystemExit", "KeyboardInterrupt"])
def test_exit_in_logging_handler(failure: str, tmp_path: Path) -> None:
    code = """
    import logging

    class Strict(logging.Handler):
        def emit(self, record):
            if record.levelno >= logging.WARNING:
                raise FAILURE("on purpose")

    async def on_approval(request):
        raise ValueError("a bug")

    logging.getLogger().addHandler(Strict())
    reported = []
    sys.unraisablehook = lambda ignored: reported.append(ignored.exc_type.__name__)
    ask = [{"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}, {"text": "{{last.response}}"}]
    agent = scripted_agent([ask, ask])
    with kimi_agent.sync.create_session(executable=agent, on_approval=on_approval) as session:
        print(session.prompt("Go").result().status)
        with kimi_agent.sync.create_session(executable=scripted_agent([[{"text": "b"}]])) as other:
            print(other.prompt("Go").result().text)
    print(set(reported))
    """
    out, err = program(code.replace("FAILURE", failure), tmp_path).communicate(timeout=DEADLINE)
    assert out.splitlines() == ["finished", "b", f"{{'{failure}'}}"], err


def test_sessions_of_dead_loop(tmp_path: Path) -> None:
    code = """
    import asyncio, logging
    from kimi_agent import _background
    logging.disable()

    def refused(work):
        try:
            work()
        except kimi_agent.KimiAgentError as error:
            print(error)

    calls = []

    async def on_approval(request):
        loop = asyncio.get_running_loop()
        loop.stop()
        def fail():
            del loop._run_once
            raise ValueError("on purpose")
        if calls.append(request) or len(calls) == 2:
            loop._run_once = fail
        await asyncio.sleep(0)
        return "approve"

    ask = {"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}
    agent = scripted_agent([[ask, {"text": "a"}], [ask, {"text": "b"}]])
    session = kimi_agent.sync.create_session(executable=agent, on_approval=on_approval)
    print(session.prompt("Go").result().text)
    refused(lambda: session.prompt("Go").result())
    refused(lambda: session.prompt("Go"))
    with kimi_agent.sync.create_session(executable=scripted_agent([[{"text": "c"}]])) as other:
        print(other.prompt("Go").result().text)
    """
    out, err = program(code, tmp_path).communicate(timeout=DEADLINE)
    first, ended, refused, text = out.splitlines()
    assert (first, text) == ("a", "c"), err
    assert ended.startswith("the event loop of the blocking API has ended"), err
    assert "belongs to another event loop" in refused


def test_text_stream_may_be_left_early() -> None:
    with open_session([{"text": ["Hel", "lo"]}]) as session:
        turn = session.prompt("Go")
        stream = turn.text_stream
        # Before anything is read there is nothing to leave.
        stream.close()
        assert next(stream) == "Hel"
        stream.close()
        # What is left is for a later reader.
        assert list(turn.text_stream) == ["lo"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals have no thread there")
@pytest.mark.parametrize("wait", ["for event in turn: event", "turn.result()"])
def test_signal_elsewhere_ends_wait(wait: str, tmp_path: Path) -> None:
    code = f"""
    import threading
    waiting = threading.Event()
    def interrupt():
        waiting.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
    agent = scripted_agent([[{{"tool_call": {{"name": "Shell", "approve": True, "result": "ok"}}}}, *HANGING]])
    reading = threading.Event()
    def approve(request):
        # The agent may ask before `prompt` has returned.
        reading.wait()
        waiting.set()
        return "approve"
    with kimi_agent.sync.create_session(executable=agent, on_approval=approve) as session:
        turn = session.prompt("Go")
        try:
            next(iter(turn))
            reading.set()
            {wait}
        except KeyboardInterrupt:
            print("interrupted")
    """
    out, err = program(code, tmp_path).communicate(timeout=DEADLINE)
    assert (out, err) == ("interrupted\n", "")
