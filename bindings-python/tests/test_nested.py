"""Handlers that use sessions themselves, and handlers that block."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, HANGING, LOOKUP, collect, open_session, texts

import kimi_agent.sync
from kimi_agent import ExternalTool, Turn, TurnInProgress
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

SAYS: list[dict[str, Any]] = [LOOKUP, {"text": "{{last.output}}"}]


def lookup(handler: Callable[[Any], Any]) -> list[ExternalTool]:
    return [ExternalTool("lookup", "Looks up.", {"type": "object"}, handler)]


async def test_handler_prompts_another_session() -> None:
    async with open_session([{"text": "inner"}], [{"text": "again"}]) as helper:

        async def handler(arguments: Any) -> str:
            return (await helper.prompt("Help").result()).text

        async with open_session(SAYS, SAYS, tools=lookup(handler)) as session:
            assert texts(await collect(session.prompt("Go"))) == "inner"
            assert (await session.prompt("Go").result()).text == "again"


async def test_handlers_open_sessions_inside_of_each_other() -> None:
    async def handler(depth: int) -> str:
        async def deeper(arguments: Any) -> str:
            return await handler(depth - 1)

        async with open_session([{"text": "bottom"}] if depth == 0 else SAYS, tools=lookup(deeper)) as session:
            return f"{depth} {(await session.prompt('Go').result()).text}"

    assert await handler(3) == "3 2 1 0 bottom"


def test_plain_handler_prompts_another_blocking_session() -> None:
    def handler(arguments: Any) -> str:
        with kimi_agent.sync.create_session(executable=scripted_agent([[{"text": "inner"}]])) as helper:
            return helper.prompt("Help").result().text

    with kimi_agent.sync.create_session(executable=scripted_agent([SAYS]), tools=lookup(handler)) as session:
        assert session.prompt("Go").result().text == "inner"


async def test_handler_cannot_prompt_its_own_session() -> None:
    async def handler(arguments: Any) -> str:
        with pytest.raises(TurnInProgress):
            session.prompt("Me again")
        return "ok"

    async with open_session(SAYS, tools=lookup(handler)) as session:
        assert (await session.prompt("Go").result()).text == "ok"


async def test_handler_cannot_wait_for_its_own_turn() -> None:
    turns: list[Turn] = []
    later: list[asyncio.Task[Any]] = []

    async def handler(arguments: Any) -> str:
        # A task that the handler leaves behind is not a deadlock.
        later.append(asyncio.create_task(turns[-1].result()))
        await asyncio.sleep(0)
        with pytest.raises(TurnInProgress, match="waits for this handler"):
            await turns[-1].result()
        return "ok"

    async with open_session(SAYS, SAYS, tools=lookup(handler)) as session:
        turns.append(session.prompt("Go"))
        assert (await turns[0].result()).text == "ok"
        assert (await later[0]).text == "ok"
        # Again: another turn, and the end of the first one can be had inside of it.
        turns.append(session.prompt("Go"))
        assert (await turns[1].result()).text == "ok"
        assert (await later[1]).text == "ok"


async def test_handler_may_await_earlier_turn() -> None:
    turns: list[Turn] = []

    async def handler(arguments: Any) -> str:
        return (await turns[0].result()).text

    async with open_session([{"text": "first"}], SAYS, tools=lookup(handler)) as session:
        for _ in range(2):
            turns.append(session.prompt("Go"))
            assert (await turns[-1].result()).text == "first"


def test_plain_handler_waiting_for_turn_fails() -> None:
    turns: list[kimi_agent.sync.Turn] = []
    ready = threading.Event()

    def handler(arguments: Any) -> str:
        assert ready.wait(DEADLINE)
        with pytest.raises(TurnInProgress, match="waits for this handler"):
            turns[0].result()
        return "ok"

    with kimi_agent.sync.create_session(executable=scripted_agent([SAYS]), tools=lookup(handler)) as session:
        turns.append(session.prompt("Go"))
        ready.set()
        assert turns[0].result().text == "ok"


async def test_handler_may_close_its_own_session() -> None:
    ended = asyncio.Event()

    async def handler(arguments: Any) -> str:
        try:
            await session.close()
        finally:
            ended.set()
        return "never"

    async with open_session(SAYS, tools=lookup(handler)) as session:
        turn = session.prompt("Go")
        assert (await turn.result()).status == "cancelled"
        await ended.wait()
        await session.close()
        assert session.state == "closed"


async def test_blocked_event_loop_loses_no_events(tmp_path: Path) -> None:
    words = [f"{n} " for n in range(300)]

    async def blocking(arguments: Any) -> str:
        # Wrong of the program, as nothing else of its loop runs meanwhile. The core reads on.
        until = time.monotonic() + DEADLINE
        while not (tmp_path / "all said").exists() and time.monotonic() < until:
            time.sleep(0.001)
        return "ok"

    said = {"tool_call": {"name": "WriteFile", "effect": {"write_file": "all said", "content": ""}, "result": "ok"}}
    waiting = {"wait_file": "blocked"}
    async with (
        open_session(SAYS, tools=lookup(blocking)) as blocks,
        open_session([waiting, {"text": words}, said], work_dir=tmp_path) as talks,
    ):
        turn = talks.prompt("Go")
        blocked = blocks.prompt("Go")
        (tmp_path / "blocked").touch()
        events, result = await asyncio.gather(collect(turn), blocked.result())
    assert (tmp_path / "all said").exists()
    assert texts(events) == "".join(words)
    assert result.text == "ok"


async def test_blocking_plain_handlers_delay_no_other_session() -> None:
    entered, release = threading.Event(), threading.Event()

    def handler(arguments: Any) -> str:
        entered.set()
        return "late" if release.wait(DEADLINE) else "never"

    async with open_session(SAYS, tools=lookup(handler)) as blocked, open_session(HANGING) as other:
        turn = blocked.prompt("Go")
        hanging = other.prompt("Go")
        await asyncio.to_thread(entered.wait, DEADLINE)
        # The loop runs, other sessions work, and this one can be asked.
        await hanging.cancel()
        assert blocked.state == "active"
        release.set()
        assert (await turn.result()).text == "late"
