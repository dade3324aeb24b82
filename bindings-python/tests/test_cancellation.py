"""A task is cancelled wherever it waits, one place after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from support import DEADLINE, LOOKUP, children, collect, eventually, gone, newest_only, open_session, read_until, texts

from kimi_agent import ApprovalRequest, ExternalTool, TextPart
from kimi_agent._loop import current_mailbox

ASK: list[dict[str, Any]] = [{"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}, {"text": "a"}]
STEERED: list[dict[str, Any]] = [{"text": "On"}, {"wait_steer": True}, {"text": "more"}, {"wait_cancel": True}]


class CancelledAt:
    """Awaits a coroutine, and cancels the task that does so when it waits for the nth time, counted from 0."""

    def __init__(self, work: Coroutine[Any, Any, None], at: int) -> None:
        self._work = work
        self._left = at
        self.done = False
        """The coroutine has come to its end without waiting so often."""

    def __await__(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        while True:
            try:
                future = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration:
                self.done = self._left >= 0
                return
            if self._left == 0:
                task.cancel()
            self._left -= 1
            error = None
            try:
                yield future
            except BaseException as raised:
                error = raised


async def everything() -> None:
    """Waits for all that can be waited for."""

    async def lookup(arguments: Any) -> str:
        await asyncio.sleep(0)
        return "found"

    tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, lookup)]
    turns = [ASK, [LOOKUP, {"text": "One"}, {"step": None}, {"text": "Two"}], STEERED, [{"text": "Last"}]]
    async with open_session(*turns, tools=tools, on_approval="manual") as session:
        await session.set_plan_mode(True)
        turn = session.prompt("Go")
        request = await read_until(turn, ApprovalRequest)
        await turn.respond(request, "approve")
        assert texts(await collect(turn)) == "a"
        steps = [texts([event async for event in step]) async for step in session.prompt("Go").steps]
        assert steps == ["", "One", "Two"]
        async with session.prompt("Go") as turn:
            await read_until(turn, TextPart)
            await turn.steer("on")
            await read_until(turn, TextPart)
            await turn.cancel()
        assert (await turn.result()).status == "cancelled"
        assert (await session.prompt("Go").result()).text == "Last"
        assert texts(await collect(session.replay())).endswith("Last")
        await session.close()


@newest_only
async def test_a_task_is_cancelled_at_every_await() -> None:
    before = children()
    mailbox = current_mailbox()
    here = {asyncio.current_task()}
    at = 0
    while True:
        work = CancelledAt(everything(), at)

        async def run(work: CancelledAt = work) -> None:
            await work

        task = asyncio.create_task(run())
        await asyncio.wait([task], timeout=DEADLINE)
        assert task.done(), f"cancelled at its {at}th await, it hangs"
        if work.done:
            task.result()
            break
        assert task.cancelled(), f"cancelled at its {at}th await, it ends with {task!r}"
        assert all(gone(pid) for pid in children() - before)
        assert await eventually(lambda: asyncio.all_tasks() == here)
        assert (mailbox._tickets, mailbox._jobs) == ({}, {})
        at += 1
    # It opens, sets, reads, answers, steers, cancels, replays and closes: each of them waits.
    assert at >= 12
