"""Lifetimes: loops, threads, forks, the collector; and that nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, HANGING, collect, eventually, gone, open_session, program, read_until, texts, waited

import kimi_agent.sync
from kimi_agent import KimiAgentError, Session, TextPart, Turn
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

FRESH = [{"text": "Fresh"}]
LINUX = sys.platform == "linux"


def collect_garbage(things: list[object]) -> None:
    """Lets the collector delete objects that only this list holds. They are in a cycle, like many objects of a program.
    An earlier cycle could be collected at any moment."""
    circle = [*things]
    circle.append(circle)
    things.clear()
    del circle
    gc.collect()


def test_collection_within_first_event(tmp_path: Path) -> None:
    # Python collects garbage at any moment, and the warning for the session asks for its agent.
    code = """
        import warnings
        import kimi_agent._message as message
        warnings.simplefilter("always")
        lost = []
        make = message.maker
        def maker(kind):
            lost.clear()
            return make(kind)
        message.maker = maker
        lost.append(kimi_agent.sync.create_session(executable=scripted_agent([])))
        with kimi_agent.sync.create_session(executable=scripted_agent([[{"text": "Hello"}]])) as session:
            events = list(session.prompt("Go"))
        assert lost == []
        print(kimi_agent.TextPart("Hello") in events)
    """
    running = program(code, tmp_path)
    try:
        out, err = running.communicate(timeout=DEADLINE)
    finally:
        running.kill()
    assert out == "True\n", err
    assert "was never closed" in err


async def test_collected_session_ends_its_agent() -> None:
    session = await open_session(FRESH)
    await session.prompt("Go").result()
    pid = session.pid
    held: list[object] = [session]
    del session
    with pytest.warns(ResourceWarning, match="never closed"):
        collect_garbage(held)
    assert gone(pid)


async def test_session_collected_during_turn_ends_agent() -> None:
    session = await open_session(HANGING)
    turn = session.prompt("Go")
    await read_until(turn, TextPart)
    pid = session.pid
    held: list[object] = [session, turn]
    del session, turn
    with pytest.warns(ResourceWarning, match="never closed"):
        collect_garbage(held)
    assert gone(pid)


def test_collected_blocking_session_agent_exit() -> None:
    session = kimi_agent.sync.create_session(executable=scripted_agent([HANGING]))
    turn = session.prompt("Go")
    pid = session.pid
    held: list[object] = [session, turn]
    del session, turn
    with pytest.warns(ResourceWarning, match="never closed"):
        collect_garbage(held)
    assert gone(pid)


def test_closed_event_loop_ends_agent() -> None:
    loop = asyncio.new_event_loop()

    async def begin() -> tuple[Session, Turn]:
        session = await open_session(HANGING)
        turn = session.prompt("Go")
        await read_until(turn, TextPart)
        return session, turn

    session, turn = loop.run_until_complete(begin())
    loop.close()
    with pytest.raises(KimiAgentError, match="another event loop"):
        session.prompt("Again")
    with pytest.raises(KimiAgentError, match="another event loop"):
        asyncio.run(turn.result())
    pid = session.pid
    assert session.id in repr(session)
    held: list[object] = [session, turn]
    del session, turn
    with pytest.warns(ResourceWarning, match="never closed"):
        collect_garbage(held)
    assert gone(pid)


def test_event_loop_end_during_handler_ends_agent() -> None:
    release = threading.Event()
    ended = threading.Event()

    def on_approval(request: Any) -> str:
        started.set()
        release.wait(DEADLINE)
        ended.set()
        return "approve"

    started = threading.Event()
    ask = {"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}

    async def main() -> None:
        async with open_session([ask], on_approval=on_approval) as session:
            turn = session.prompt("Go")
            assert await eventually(started.is_set)
            await turn.cancel()

    asyncio.run(main())
    # It returns when no caller is left, which does no harm.
    release.set()
    assert ended.wait(DEADLINE)


def test_session_used_in_another_loop_is_refused() -> None:
    async def main() -> None:
        async with open_session(HANGING) as session:
            turn = session.prompt("Go")
            said: list[str] = []

            async def elsewhere() -> None:
                for use in (turn.result, turn.cancel, session.close, lambda: collect(turn)):
                    try:
                        await use()
                    except KimiAgentError as error:
                        said.append(str(error))

            await asyncio.to_thread(asyncio.run, elsewhere())
            assert len(said) == 4
            assert all("another event loop" in text for text in said)
            await turn.cancel()

    asyncio.run(main())


def test_sessions_in_loops_of_several_threads_work() -> None:
    said: list[str] = []

    async def main(n: int) -> None:
        async with open_session([{"text": "{{prompt}}"}]) as session:
            said.append((await session.prompt(f"loop {n}").result()).text)

    threads = [threading.Thread(target=lambda n=n: asyncio.run(main(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert sorted(said) == [f"loop {n}" for n in range(4)]


def test_log_records_arrive_in_session_loop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    loops = 4
    all_open = threading.Barrier(loops, timeout=DEADLINE)

    async def main() -> None:
        async with open_session([{"text": "x"}]):
            # With all of them open, a record could come out at any.
            await asyncio.to_thread(all_open.wait)

    threads = [threading.Thread(target=lambda: asyncio.run(main()), name=f"loop {n}") for n in range(loops)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    started = [record.threadName for record in caplog.records if "agent started" in record.getMessage()]
    assert sorted(filter(None, started)) == [f"loop {n}" for n in range(loops)]


async def test_concurrent_sessions_get_their_own_answers() -> None:
    async def work(n: int) -> str:
        async with open_session([{"text": "{{prompt}}"}]) as session:
            return (await session.prompt(f"session {n}").result()).text

    assert await asyncio.gather(*map(work, range(5))) == [f"session {n}" for n in range(5)]


def test_session_without_running_loop_is_refused() -> None:
    with pytest.raises(KimiAgentError, match=r"kimi_agent\.sync"):
        kimi_agent.prompt("Go", executable="kimi")


async def _one_session() -> None:
    async with open_session([{"text": "Hi"}], HANGING, on_event=print) as session:
        await collect(session.prompt("Go"))
        async for event in session.prompt("Go"):
            if isinstance(event, TextPart):
                break


@pytest.mark.skipif(not LINUX, reason="it counts in /proc")
def test_closed_sessions_leave_no_descriptor_or_thread() -> None:
    def counts() -> tuple[int, int, int]:
        gc.collect()
        descriptors, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        return descriptors, threads, threading.active_count()

    async def several(n: int) -> None:
        for _ in range(n):
            await _one_session()

    asyncio.run(several(3))
    before = counts()
    asyncio.run(several(10))
    for _ in range(5):
        asyncio.run(_one_session())
    # Background work of a session may end after it.
    if not waited(lambda: all(now <= then for now, then in zip(counts(), before, strict=True))):
        open_ones = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        raise AssertionError(f"{counts()} instead of {before}: {open_ones}")


async def test_unawaited_outcome_brings_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with open_session([{"text": "x"}, {"exit": 3}]) as session:
            turn = session.prompt("Go")
            assert await eventually(lambda: session.state == "closed")
        async with open_session([{"text": "x"}, {"exit": 3}]) as session:
            turn = session.prompt("Go")
            waiting = asyncio.create_task(turn.result())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert await eventually(lambda: session.state == "closed")
            del turn, waiting
        gc.collect()
        await asyncio.sleep(0)
    assert [str(warning.message) for warning in caught] == []
    assert [record for record in caplog.records if record.name == "asyncio"] == []


EVERYTHING = """
@kimi_agent.tool
def lookup(key: str) -> str:
    "Looks up."
    return key

TURN = [
    {"external_tool": {"id": "t1", "name": "lookup", "arguments": {"key": "a"}}},
    {"tool_call": {"name": "Shell", "approve": True, "result": "ok"}},
    {"text": ["a", "b"]},
    {"end": "finished"},
    {"event": {"type": "Noise", "payload": {}}},
]
heard = []

async def on_approval(request):
    await asyncio.sleep(0)
    return "approve"

async def told(count):
    # Before the next turn, or it would come in that.
    while len(heard) < count:
        await asyncio.sleep(0.001)

OPTIONS = dict(tools=[lookup], on_event=heard.append, work_dir=".")

async def main():
    agent = scripted_agent([TURN, TURN, HANGING, HANGING, [{"text": "x"}]])
    async with kimi_agent.create_session(executable=agent, on_approval=on_approval, **OPTIONS) as session:
        events = [event async for event in session.prompt("Go")]
        await told(1)
        assert (await session.prompt("Go").result()).text == "ab"
        await told(2)
        async with session.prompt("Go") as turn:
            async for event in turn:
                if isinstance(event, kimi_agent.TextPart):
                    break
        async for event in session.prompt("Go"):
            if isinstance(event, kimi_agent.TextPart):
                break
        async for step in session.prompt("Go").steps:
            async for event in step:
                pass
    assert (await kimi_agent.prompt("Go", executable=agent, on_approval=on_approval, **OPTIONS).result()).text == "ab"

asyncio.run(main())
agent = scripted_agent([TURN, HANGING])
with kimi_agent.sync.create_session(executable=agent, on_approval=lambda request: "approve", **OPTIONS) as session:
    for event in session.prompt("Go"):
        pass
    session.prompt("Go").cancel()
print("done")
"""


@pytest.mark.parametrize("flags", [(), ("-X", "dev")])
def test_interpreter_flags_bring_no_warning(flags: tuple[str, ...], tmp_path: Path) -> None:
    out, err = program(EVERYTHING, tmp_path, *flags, PYTHONASYNCIODEBUG="1").communicate(timeout=DEADLINE)
    # asyncio reports slow callbacks, which occur on a loaded machine.
    lines = [line for line in err.splitlines() if not (line.startswith("Executing <") and line.endswith("seconds"))]
    assert (out.strip(), lines) == ("done", [])


FORK = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, in 3.12 and later

agent = scripted_agent([[{"text": "a"}, {"wait_file": "go"}, {"text": "b"}]])
session = kimi_agent.sync.create_session(executable=agent, work_dir=".")
turn = session.prompt("Go")
for event in turn:
    if isinstance(event, kimi_agent.TextPart):
        break

def refused(work):
    try:
        work()
    except kimi_agent.KimiAgentError as error:
        return "forked" in str(error)
    return False

async def open_one():
    await kimi_agent.create_session(executable=scripted_agent([]))

pid = os.fork()
if pid == 0:
    checks = [
        refused(lambda: session.prompt("Go")),
        refused(lambda: turn.result()),
        refused(lambda: next(iter(turn))),
        refused(lambda: session.close()),
        refused(lambda: asyncio.run(open_one())),
        refused(lambda: kimi_agent.sync.create_session()),
    ]
    LEAVE
_, status = os.waitpid(pid, 0)
Path("go").touch()
print(os.waitstatus_to_exitcode(status), turn.result().text, session.state)
session.close()
print(session.state)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(
    "leave",
    [
        "os._exit(7 if all(checks) else 1)",
        # As a whole: the objects are collected, what is registered at exit runs.
        "sys.exit(7 if all(checks) else 1)",
        "del session, turn, event; import gc; gc.collect(); sys.exit(7 if all(checks) else 1)",
    ],
)
def test_use_after_fork_is_refused(leave: str, tmp_path: Path) -> None:
    code = FORK.replace("LEAVE", leave)
    out, err = program(code, tmp_path).communicate(timeout=DEADLINE)
    assert err == ""
    assert out.split() == ["7", "ab", "idle", "closed"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_before_first_use_works(tmp_path: Path) -> None:
    code = """
    pid = os.fork()
    text = kimi_agent.sync.prompt("Go", executable=scripted_agent([[{"text": "Hi"}]])).result().text
    if pid:
        os.waitpid(pid, 0)
    print(text)
    """
    out, err = program(code, tmp_path).communicate(timeout=DEADLINE)
    assert (out.split(), err) == (["Hi", "Hi"], "")


async def test_invalid_lines_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    noise = [
        {"raw": "this is no JSON"},
        {"event": {"type": "StepBegin", "payload": {"n": "one"}}},
        {"request": {"type": "UnheardOf", "payload": {}}},
    ]
    async with open_session([*noise, {"text": "x"}]) as session:
        assert texts(await collect(session.prompt("Go"))) == "x"
    records = [record for record in caplog.records if record.name.startswith("kimi_agent.")]
    warned = [record.getMessage() for record in records if record.levelno == logging.WARNING]
    assert any("this is no JSON" in text for text in warned)
    assert any("StepBegin" in text for text in warned)
    assert any("UnheardOf" in text for text in warned)
    assert any(record.levelno == logging.DEBUG and "agent started" in record.getMessage() for record in records)


async def test_messages_are_logged_by_wire_logger(caplog: pytest.LogCaptureFixture) -> None:
    def messages() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "kimi_agent.wire"]

    caplog.set_level(logging.DEBUG)
    wire = logging.getLogger("kimi_agent.wire")
    async with open_session(
        [{"text": "a"}], [{"text": "b"}], [{"text": "c"}], env={"TOKEN": "canary-of-env"}
    ) as session:
        await session.prompt("one").result()
        assert messages() == []
        try:
            wire.setLevel(logging.DEBUG)
            await session.prompt("two canary-of-env").result()
        finally:
            wire.setLevel(logging.NOTSET)
        told = messages()
        assert any(text.startswith("> {") and '"prompt"' in text and "two ***" in text for text in told)
        assert any(text.startswith("< {") and '"text":"b"' in text for text in told)
        assert not any("canary" in text for text in told)
        await session.prompt("three").result()
        assert messages() == told


async def test_flood_of_invalid_lines_is_summarised(caplog: pytest.LogCaptureFixture) -> None:
    flood = {"repeat": {"times": 3000, "actions": [{"raw": "not JSON"}]}, "bulk": True}
    async with open_session([flood, {"text": "done"}]) as session:
        assert texts(await collect(session.prompt("go"))) == "done"
    told = [record.getMessage() for record in caplog.records if "invalid line" in record.getMessage()]
    assert 5 <= len(told) <= 8
    assert any("more invalid lines dropped count=" in text for text in told)


async def test_unknown_events_are_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_session([{"event": {"type": "Novel", "payload": {}}}]) as session:
        await session.prompt("go").result()
    [record] = [record for record in caplog.records if "unknown event delivered" in record.getMessage()]
    assert record.levelno == logging.DEBUG
    assert "Novel" in record.getMessage()
