"""A task is cancelled wherever it waits, one place after the other."""

from __future__ import annotations

import asyncio
import linecache
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, LOOKUP, children, collect, eventually, gone, newest_only, open_session, read_until, texts

from kimi_agent import ApprovalRequest, ExternalTool, TextPart
from kimi_agent._loop import current_mailbox

pytestmark = pytest.mark.interpreter


class CancelledAt:
    """Awaits a coroutine, and cancels the task that does so at the wait that is asked for: told are how many have been
    before it, and the coroutine's line that waits."""

    def __init__(self, work: Coroutine[Any, Any, None], here: Callable[[int, str], bool]) -> None:
        self._work = work
        self._here = here
        self.done = False
        """The coroutine has come to its end without that wait."""

    def __await__(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        cancelled, waits = False, 0
        while True:
            try:
                future = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration:
                self.done = not cancelled
                return
            if not cancelled and self._here(waits, self._line()):
                cancelled = True
                task.cancel()
            waits += 1
            error = None
            try:
                yield future
            except BaseException as raised:
                error = raised

    def _line(self) -> str:
        frame = getattr(self._work, "cr_frame", None)
        return linecache.getline(__file__, frame.f_lineno) if frame else ""


def held(folder: Path, name: str, *script: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn that waits to be let on."""
    return [{"wait_file": str(folder / name)}, *script]


def let_on(folder: Path, name: str) -> None:
    """Lets a turn on once this task waits, so that it surely does."""
    asyncio.get_running_loop().call_soon((folder / name).touch)


async def everything(folder: Path) -> None:
    """Waits for all that can be waited for."""

    async def lookup(arguments: Any) -> str:
        await asyncio.sleep(0)
        return "found"

    tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, lookup)]
    ask = {"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}
    turns = [
        held(folder, "asked", ask, {"text": "a"}),
        held(folder, "stepped", LOOKUP, {"text": "One"}, {"step": None}, {"text": "Two"}),
        held(folder, "steered", {"text": "On"}, {"wait_steer": True}, {"text": "more"}, {"wait_cancel": True}),
        [{"text": "Last"}],
    ]
    async with open_session(*turns, tools=tools, on_approval="manual") as session:
        await session.set_plan_mode(True)
        await session.set_plan_mode(False)
        turn = session.prompt("Go")
        let_on(folder, "asked")
        request = await read_until(turn, ApprovalRequest)
        await turn.respond(request, "approve")
        assert texts(await collect(turn)) == "a"
        let_on(folder, "stepped")
        steps = [texts([event async for event in step]) async for step in session.prompt("Go").steps]
        assert steps == ["", "One", "Two"]
        async with session.prompt("Go") as turn:
            let_on(folder, "steered")
            await read_until(turn, TextPart)
            await turn.steer("on")
            await read_until(turn, TextPart)
            await turn.cancel()
        assert (await turn.result()).status == "cancelled"
        assert (await session.prompt("Go").result()).text == "Last"
        assert texts(await collect(session.replay())).endswith("Last")
        await session.close()


# What waits however fast the agent is: it is asked first, or held. What else waits is a matter of luck.
ALWAYS = [
    "open_session(",
    "set_plan_mode(True)",
    "set_plan_mode(False)",
    "read_until(turn, ApprovalRequest)",
    "turn.respond(",
    "in session.prompt(",
    "read_until(turn, TextPart)",
    "turn.steer(",
    "turn.cancel(",
    "turn.result()",
    'prompt("Go").result()',
    "session.close()",
]


async def cancelled(folder: Path, here: Callable[[int, str], bool]) -> bool:
    """Whether there was such a wait. A task cancelled at it ends, and leaves nothing behind."""
    folder.mkdir()
    before = children()
    mailbox = current_mailbox()
    tasks = asyncio.all_tasks()
    work = CancelledAt(everything(folder), here)

    async def run() -> None:
        await work

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=DEADLINE)
    assert task.done(), "it hangs"
    if work.done:
        task.result()
        return False
    assert task.cancelled(), f"it ends with {task!r}"
    assert all(gone(pid) for pid in children() - before)
    assert await eventually(lambda: asyncio.all_tasks() == tasks)
    assert (mailbox._tickets, mailbox._jobs) == ({}, {})
    return True


def nth(at: int) -> Callable[[int, str], bool]:
    return lambda waits, _: waits == at


@newest_only
async def test_task_cancelled_at_any_await_leaves_nothing(tmp_path: Path) -> None:
    at = 0
    while await cancelled(tmp_path / str(at), nth(at)):
        at += 1
    assert at >= len(ALWAYS)


@newest_only
@pytest.mark.parametrize("call", ALWAYS)
async def test_cancelled_call_cleanup(call: str, tmp_path: Path) -> None:
    assert await cancelled(tmp_path / "folder", lambda _, line: call in line)
