"""Reading in part, leaving early, cancelling: what continues, what stops, and that the session is usable afterwards."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from support import (
    DEADLINE,
    HANGING,
    LOOKUP,
    children,
    collect,
    eventually,
    gone,
    open_session,
    read_until,
    stopped,
    texts,
)

import kimi_agent
from kimi_agent import (
    InvalidOption,
    KimiAgentError,
    Session,
    StepBegin,
    TextPart,
    Timeout,
    ToolCallRequest,
    Turn,
    TurnBegin,
    TurnEnd,
    TurnInProgress,
)
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

FRESH = [{"text": "Fresh"}]
DOWN = [{"error": {"code": -32003, "message": "the model is down"}}]
LONG = [{"repeat": {"times": 500, "actions": [{"text": "x"}]}}]


async def test_break_keeps_referenced_turn(tmp_path: Path) -> None:
    script = [{"text": "a"}, {"wait_file": "go"}, {"text": ["b", "c"]}]
    async with open_session(script, FRESH, work_dir=tmp_path) as session:
        turn = session.prompt("Go")
        first = await read_until(turn, TextPart)
        with pytest.raises(TurnInProgress):
            session.prompt("Too soon")
        (tmp_path / "go").touch()
        # The next reader continues where the first one stopped.
        rest = await collect(turn)
        assert first.text + texts(rest) == "abc"
        assert isinstance(rest[-1], TurnEnd)


async def test_break_cancels_unreferenced_turn() -> None:
    async with open_session(HANGING, FRESH) as session:
        async for event in session.prompt("Go"):
            if isinstance(event, TextPart):
                break
        assert (await session.prompt("Again").result()).text == "Fresh"


async def test_break_out_of_step_cancels_turn() -> None:
    async with open_session(HANGING, FRESH) as session:
        async for step in session.prompt("Go").steps:
            async for event in step:
                if isinstance(event, TextPart):
                    break
            break
        assert (await session.prompt("Again").result()).text == "Fresh"


async def test_dropping_last_reference_cancels_turn() -> None:
    async with open_session(HANGING, FRESH) as session:
        turn = session.prompt("Go")
        await read_until(turn, TextPart)
        del turn
        assert texts(await collect(session.prompt("Again"))) == "Fresh"


async def test_unassigned_turn_is_cancelled() -> None:
    async with open_session(HANGING, FRESH) as session:
        session.prompt("Go")
        assert (await session.prompt("Again").result()).text == "Fresh"


async def test_turn_keeps_its_session_alive() -> None:
    async def begin() -> Turn:
        return (await open_session([{"text": "a"}, {"text": "b"}])).prompt("Go")

    turn = await begin()
    assert texts(await collect(turn)) == "ab"
    with pytest.warns(ResourceWarning, match="never closed"):
        del turn


async def test_end_of_block_cancels_turn() -> None:
    async with open_session(HANGING, FRESH, HANGING, FRESH) as session:
        async with session.prompt("Go") as turn:
            await read_until(turn, TextPart)
        # Settled already.
        assert session.state == "idle"
        assert (await turn.result()).status == "cancelled"
        async with session.prompt("Again") as turn:
            assert (await turn.result()).text == "Fresh"
        with pytest.raises(LookupError):
            async with session.prompt("Go"):
                raise LookupError
        assert (await session.prompt("Again").result()).text == "Fresh"


async def test_second_reader_of_turn_is_refused() -> None:
    async with open_session(HANGING) as session:
        turn = session.prompt("Go")
        async for _ in turn:
            with pytest.raises(KimiAgentError, match="another loop reads its events already"):
                aiter(turn)
            with pytest.raises(InvalidOption, match="read by event"):
                await anext(turn.steps)
            break
        with pytest.raises(InvalidOption, match="it has been read by event and can't be read by step"):
            await anext(turn.steps)
        await turn.cancel()


async def test_second_task_on_one_iterator_is_refused() -> None:
    async with open_session(HANGING) as session:
        turn = session.prompt("Go")
        events = aiter(turn)
        await read_until(events, TextPart)
        first = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        with pytest.raises(KimiAgentError, match="waits for the next event"):
            await anext(events)
        await turn.cancel()
        await asyncio.wait([first])
        await events.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_slow_reader_gets_everything() -> None:
    turn = [{"repeat": {"times": 2000, "actions": [{"text": "{{round}} "}]}}]
    async with open_session(turn, event_buffer_bytes=2048) as session:
        words: list[str] = []
        async for event in session.prompt("Go"):
            if isinstance(event, TextPart):
                words += event.text.split()
                if len(words) % 500 == 0:
                    await asyncio.sleep(0.001)
    assert [int(word) for word in words] == list(range(int(words[0]), int(words[0]) + 2000))


async def test_cancel_with_full_buffer_returns() -> None:
    async with open_session([*LONG, {"wait_cancel": True}], FRESH, event_buffer_bytes=1024) as session:
        turn = session.prompt("Go")
        await turn.cancel()
        assert (await turn.result()).status == "cancelled"
        assert (await session.prompt("Again").result()).text == "Fresh"


async def _next(session: Session, turn: Turn) -> None:
    await read_until(turn, TurnEnd)


async def _next_step(session: Session, turn: Turn) -> None:
    async for step in turn.steps:
        await read_until(step, TurnEnd)


async def _result(session: Session, turn: Turn) -> None:
    await turn.result()


async def _cancel(session: Session, turn: Turn) -> None:
    await turn.cancel()


async def _steer(session: Session, turn: Turn) -> None:
    await turn.steer("hey")


async def _leave(session: Session, turn: Turn) -> None:
    async with turn:
        pass


async def _plan(session: Session, turn: Turn) -> None:
    await session.set_plan_mode(True)


async def _close(session: Session, turn: Turn) -> None:
    await session.close()


AWAITS: list[Callable[[Session, Turn], Coroutine[Any, Any, None]]] = [
    _next, _next_step, _result, _cancel, _steer, _leave, _plan, _close,
]  # fmt: skip


@pytest.mark.parametrize("waits", AWAITS, ids=lambda function: function.__name__.strip("_"))
async def test_task_cancelled_during_call_keeps_session(
    waits: Callable[[Session, Turn], Coroutine[Any, Any, None]],
) -> None:
    session = await open_session(HANGING, FRESH)
    turn = session.prompt("Go")
    with stopped(session.pid):
        task = asyncio.create_task(waits(session, turn))
        # It runs until it has to wait for the agent.
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    if waits is _close:
        # Begun operations continue.
        assert gone(session.pid)
    else:
        await turn.cancel()
        assert (await session.prompt("Again").result()).text == "Fresh"
    await session.close()


async def test_task_cancelled_during_opening_leaves_nothing() -> None:
    before = children()
    opening = open_session(script={"before_handshake": [{"stall": True}]}, close_timeout=0.1)
    task = asyncio.create_task(opening.__aenter__())
    assert await eventually(lambda: children() > before)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(gone(pid) for pid in children() - before)


async def test_cancelled_one_shot_prompt_leaves_nothing() -> None:
    import kimi_agent
    from kimi_agent.testing import scripted_agent

    before = children()
    started = asyncio.Event()

    async def work() -> None:
        async for event in kimi_agent.prompt("Go", executable=scripted_agent([HANGING])):
            if isinstance(event, TextPart):
                started.set()

    task = asyncio.create_task(work())
    await started.wait()
    mine = children() - before
    assert len(mine) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(gone(pid) for pid in mine)


async def test_deadline_around_result_keeps_turn() -> None:
    async with open_session(HANGING, FRESH) as session:
        turn = session.prompt("Go")
        await read_until(turn, TextPart)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(turn.result(), 0.001)
        if sys.version_info >= (3, 11):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await collect(turn)
        # The turn continues.
        with pytest.raises(TurnInProgress):
            session.prompt("Again")
        await turn.cancel()
        assert (await turn.result()).status == "cancelled"
        assert (await session.prompt("Again").result()).text == "Fresh"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout and TaskGroup came with 3.11")
async def test_deadline_around_session_ends_its_agent() -> None:
    if sys.version_info >= (3, 11):  # for mypy
        pids: list[int | None] = []

        async def work() -> None:
            async with open_session(HANGING) as session:
                pids.append(session.pid)
                turn = session.prompt("Go")
                await read_until(turn, TextPart)
                async with asyncio.timeout(0.001):
                    await turn.result()

        with pytest.raises(TimeoutError):
            await work()
        assert gone(pids[0])


async def test_agent_ignoring_cancel_is_killed() -> None:
    script = [{"text": "x"}, {"ignore_eof": True}, {"stderr": "stalling"}, {"stall": True}]
    said = asyncio.Event()

    async def on_stderr(line: str) -> None:
        said.set()

    async with open_session(script, cancel_timeout=0.1, close_timeout=0.1, on_stderr=on_stderr) as session:
        turn = session.prompt("Go")
        await read_until(turn, TextPart)
        # Until it reads no more cancels.
        await said.wait()
        with pytest.raises(Timeout):
            await turn.cancel()
        with pytest.raises(Timeout):
            await turn.result()
        assert session.state == "closed"
    assert gone(session.pid)


async def test_close_ends_waiting_readers(tmp_path: Path) -> None:
    async with open_session(HANGING, work_dir=tmp_path) as session:
        turn = session.prompt("Go")
        reading = asyncio.create_task(collect(turn))
        waiting = asyncio.create_task(turn.result())
        assert await eventually(lambda: session.state == "active")
        await session.close()
        events, result = await asyncio.wait_for(asyncio.gather(reading, waiting), DEADLINE)
        assert result.status == "cancelled"
        assert events[0] == TurnBegin("Go")


async def test_leaving_turn_cancels_its_running_tool() -> None:
    from kimi_agent import ExternalTool

    started, ended = asyncio.Event(), asyncio.Event()

    async def handler(arguments: dict[str, Any]) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, handler)]
    async with open_session([LOOKUP], FRESH, tools=tools) as session:
        async for event in session.prompt("Go"):
            if isinstance(event, ToolCallRequest):
                await started.wait()
                break
        await ended.wait()
        events = await collect(session.prompt("Again"))
        assert texts(events) == "Fresh"
        assert any(isinstance(event, StepBegin) for event in events)


async def test_close_during_unread_turn_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    async with open_session(HANGING) as session:
        turn = session.prompt("Go")
    del turn
    gc.collect()
    async with open_session(HANGING) as session:
        turn = session.prompt("Go")
        await read_until(turn, TextPart)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1, warnings
    assert "closed during a turn that was not read" in warnings[0]


@pytest.mark.parametrize("is_read", [False, True])
async def test_close_with_failed_unread_turn_warns_once(is_read: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with open_session(DOWN) as session:
        turn = session.prompt("Go")
        while session.state == "active":
            await asyncio.sleep(0)
        if is_read:
            with pytest.raises(kimi_agent.LlmServiceError):
                await turn
        await session.close()
    del turn
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [("the error of a turn was not read" in text, "the model is down" in text) for text in warnings] == (
        [] if is_read else [(True, True)]
    )


@pytest.mark.parametrize("use", [None, "result", "events", "text", "cancel", "session.cancel"])
async def test_close_with_ended_unread_turn_warns_once(use: str | None, caplog: pytest.LogCaptureFixture) -> None:
    script = HANGING if use == "session.cancel" else [{"text": "a"}]
    async with open_session(script) as session:
        turn = session.prompt("Go")
        if use == "session.cancel":
            await session.cancel()
        while session.state == "active":
            await asyncio.sleep(0)
        if use == "result":
            await turn.result()
        elif use == "events":
            await collect(turn)
        elif use == "text":
            assert [text async for text in turn.text_stream] == ["a"]
        elif use == "cancel":
            await turn.cancel()
        await session.close()
    del turn
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert ["a turn that has ended was not read" in text for text in warnings] == ([] if use else [True])


@pytest.mark.parametrize("is_read", [False, True])
async def test_batch_that_is_dropped_unread_warns_once(is_read: bool, caplog: pytest.LogCaptureFixture) -> None:
    ended = asyncio.Event()

    def on_progress(progress: kimi_agent.Progress) -> None:
        if progress.done == 1 and progress.running == 0:
            ended.set()

    batch = kimi_agent.run_batch(["Go"], executable=scripted_agent([DOWN]), retry=1, on_progress=on_progress)
    if is_read:
        assert [result.status async for result in batch] == ["failed"]
    else:
        await ended.wait()
    del batch
    gc.collect()
    # The records come over the loop.
    async with open_session(FRESH) as session:
        await session.prompt("Go")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [("batch dropped unread" in text, "the model is down" in text) for text in warnings] == (
        [] if is_read else [(True, True)]
    )


@pytest.mark.parametrize("open_", [kimi_agent.create_session, kimi_agent.open_agent])
def test_opening_that_is_never_awaited_warns(open_: Callable[..., Any]) -> None:
    with pytest.warns(RuntimeWarning, match=f"{open_.__name__}.* was never awaited: .*await {open_.__name__}"):
        open_(executable="/no/such/agent")


def test_open_blocking_session_at_exit() -> None:
    program = (
        "import atexit, kimi_agent.sync as sync\n"
        "def late():\n"
        "    try: sync.create_session(executable=['/bin/false'])\n"
        "    except Exception as error: print(type(error).__name__)\n"
        "atexit.register(late)\n"
        "late()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert len(ended.stdout.split()) == 2, ended
    assert "never awaited" not in ended.stderr, ended.stderr
