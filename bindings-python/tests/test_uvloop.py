"""A session on uvloop, an event loop that many servers run on."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from support import (
    DEADLINE,
    HANGING,
    LOOKUP,
    collect,
    gone,
    interrupted,
    open_session,
    program,
    read_until,
    texts,
    waited,
)

from kimi_agent import ExternalTool, KimiAgentError, Session, TextPart, Turn, prompt
from kimi_agent.testing import scripted_agent

if sys.platform == "win32":
    pytest.skip("there is no uvloop for it", allow_module_level=True)

import uvloop

pytestmark = pytest.mark.interpreter

ASK: dict[str, Any] = {"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}
FRESH = [{"text": "Fresh"}]


def test_uvloop_delivers_events_and_calls_handlers() -> None:
    async def lookup(arguments: Any) -> str:
        await asyncio.sleep(0)
        return "found"

    async def main() -> None:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, lookup)]
        # One handler is a coroutine, the other runs in a thread.
        options: dict[str, Any] = {"tools": tools, "on_approval": lambda request: "approve"}
        turn = [LOOKUP, {"text": "{{last.output}} "}, ASK, {"text": "{{last.response}}"}]
        async with open_session(turn, **options) as session:
            assert texts(await collect(session.prompt("Go"))) == "found approve"
            pid = session.pid
        assert gone(pid)
        assert (await prompt("Go", executable=scripted_agent([FRESH])).result()).text == "Fresh"

    uvloop.run(main())


def test_uvloop_runs_concurrent_sessions_with_many_events() -> None:
    async def work(n: int) -> str:
        async with open_session([{"repeat": {"times": 500, "actions": [{"text": f"{n}"}]}}]) as session:
            return texts(await collect(session.prompt("Go")))

    async def main() -> list[str]:
        return await asyncio.gather(*map(work, range(4)))

    assert uvloop.run(main()) == [str(n) * 500 for n in range(4)]


def test_uvloop_turns_can_be_left_and_cancelled() -> None:
    async def main() -> None:
        async with open_session(HANGING, HANGING, HANGING, FRESH) as session:
            async for event in session.prompt("Go"):
                if isinstance(event, TextPart):
                    break
            turn = session.prompt("Go")
            await read_until(turn, TextPart)
            await turn.cancel()
            assert (await turn.result()).status == "cancelled"
            turn = session.prompt("Go")
            reading = asyncio.create_task(collect(turn))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(turn.result(), 0.001)
            await turn.cancel()
            assert (await session.prompt("Go").result()).text == "Fresh"

    uvloop.run(main())


def test_closed_event_loop_ends_agent() -> None:
    async def begin() -> tuple[Session, Turn]:
        session = await open_session(HANGING)
        turn = session.prompt("Go")
        await read_until(turn, TextPart)
        return session, turn

    loop = uvloop.new_event_loop()
    session, turn = loop.run_until_complete(begin())
    loop.close()
    pid = session.pid
    with pytest.raises(KimiAgentError, match="another event loop"):
        session.prompt("Again")
    held: list[object] = [session, turn]
    del session, turn
    with pytest.warns(ResourceWarning, match="never closed"):
        held.clear()
    assert gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="it counts in /proc")
def test_closed_sessions_leave_no_descriptor_or_thread() -> None:
    async def main() -> None:
        async with open_session([ASK], on_approval=lambda request: "approve") as session:
            await collect(session.prompt("Go"))

    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    uvloop.run(main())
    before = descriptors()
    for _ in range(3):
        uvloop.run(main())
    # Background work of a session may end after it.
    assert waited(lambda: descriptors() <= before)


READING = """
import uvloop
async def main():
    async with kimi_agent.create_session(executable=scripted_agent([HANGING]), work_dir=".") as session:
        async for event in session.prompt("Go"):
            if isinstance(event, kimi_agent.TextPart):
                print(session.pid, flush=True)
                LEAVE
uvloop.run(main())
"""


@pytest.mark.parametrize(
    ("leave", "status", "said"), [("sys.exit(3)", 3, ""), ("raise LookupError('on purpose')", 1, "on purpose")]
)
def test_program_exit_ends_agent(leave: str, status: int, said: str, tmp_path: Path) -> None:
    running = program(READING.replace("LEAVE", leave), tmp_path)
    out, err = running.communicate(timeout=DEADLINE)
    assert running.returncode == status, err
    assert err.strip().endswith(said)
    assert (said != "") == (err != "")
    assert gone(int(out))


def test_ctrl_c_ends_program_and_agent(tmp_path: Path) -> None:
    running = program(READING.replace("LEAVE", "pass"), tmp_path)
    (pid, *rest), err = interrupted(running)
    assert rest == []
    assert err.strip().endswith("KeyboardInterrupt")
    assert running.returncode == -signal.SIGINT
    assert (tmp_path / "cancelled").exists()
    assert gone(int(pid))
