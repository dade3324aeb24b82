"""A deadline, a cancelled task or Ctrl-C leaves a turn without references, except those of a traceback."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE, HANGING, eventually, open_session, program, read_until

from kimi_agent import Session, TextPart, Turn, TurnInProgress

pytestmark = pytest.mark.interpreter

FRESH = [{"text": "Fresh"}]
SOON = 0.001
KEPT: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_is_collected() -> Generator[None]:
    """References in cycles stay, as they may for a long time in a program."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    KEPT.clear()


async def with_deadline(wait: Callable[[], Awaitable[Any]]) -> None:
    """A deadline in the task that waits."""
    if sys.version_info < (3, 11):
        await asyncio.wait_for(wait(), SOON)
    else:
        async with asyncio.timeout(SOON):
            await wait()


async def waited_for(wait: Callable[[], Awaitable[Any]]) -> None:
    """A deadline around a task of its own, before Python 3.12."""
    await asyncio.wait_for(wait(), SOON)


async def cancelled_from_outside(wait: Callable[[], Awaitable[Any]]) -> None:
    async def run() -> None:
        await wait()

    task = asyncio.create_task(run())
    KEPT.append(task)
    # It runs until it waits for the agent, which says no more.
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await task


def unnamed_result(session: Session) -> Callable[[], Awaitable[Any]]:
    return lambda: session.prompt("Go").result()


def named_result(session: Session) -> Callable[[], Awaitable[Any]]:
    async def wait() -> None:
        turn = session.prompt("Go")
        await turn.result()

    return wait


def passed_on_result(session: Session) -> Callable[[], Awaitable[Any]]:
    async def ask(turn: Turn) -> None:
        await turn.result()

    return lambda: ask(session.prompt("Go"))


def named_loop(session: Session) -> Callable[[], Awaitable[Any]]:
    async def wait() -> None:
        turn = session.prompt("Go")
        async for _ in turn:
            pass

    return wait


def named_steps(session: Session) -> Callable[[], Awaitable[Any]]:
    async def wait() -> None:
        turn = session.prompt("Go")
        async for step in turn.steps:
            async for _ in step:
                pass

    return wait


LIMITS = [with_deadline, waited_for, cancelled_from_outside]
WAITS = [unnamed_result, named_result, passed_on_result, named_loop, named_steps]


def named(function: Any) -> str:
    return str(function.__name__)


@pytest.mark.parametrize("limit", LIMITS, ids=named)
@pytest.mark.parametrize("wait", WAITS, ids=named)
@pytest.mark.parametrize("keep", [False, True], ids=["passed over", "kept"])
async def test_turn_is_cancelled_with_only_wait(
    wait: Callable[[Session], Callable[[], Awaitable[Any]]],
    limit: Callable[[Callable[[], Awaitable[Any]]], Awaitable[None]],
    keep: bool,
) -> None:
    async with open_session(HANGING, FRESH) as session:
        try:
            await limit(wait(session))
        except (asyncio.TimeoutError, asyncio.CancelledError) as error:
            if keep:
                KEPT.append(error)
        assert (await session.prompt("Again").result()).text == "Fresh"


async def test_deadline_of_caller_of_result_cancels_turn() -> None:
    if sys.version_info >= (3, 11):
        async with open_session(HANGING, FRESH) as session:
            try:
                async with asyncio.timeout(SOON):
                    await session.prompt("Go").result()
            except TimeoutError as error:
                KEPT.append(error)
            assert (await session.prompt("Again").result()).text == "Fresh"


@pytest.mark.parametrize("wait", [named_result, named_loop], ids=named)
async def test_turn_of_ended_task_is_cancelled(
    wait: Callable[[Session], Callable[[], Awaitable[Any]]],
) -> None:
    async with open_session(HANGING, FRESH) as session:

        async def work() -> None:
            await asyncio.wait_for(wait(session)(), SOON)

        # The exceptions are kept, and so are their tracebacks.
        KEPT.extend(await asyncio.gather(work(), return_exceptions=True))
        assert isinstance(KEPT[0], asyncio.TimeoutError)
        assert await eventually(lambda: session.state == "idle")


async def test_referenced_turn_after_cancelled_wait(tmp_path: Path) -> None:
    script = [{"text": "a"}, {"wait_file": "go"}, {"text": "b"}]
    turns: list[Turn] = []

    class Holder:
        def __init__(self, turn: Turn) -> None:
            self.turn = turn

    async def in_a_list(session: Session) -> None:
        turns.append(session.prompt("Go"))
        await turns[0].result()

    async def in_an_attribute(session: Session) -> None:
        holder = Holder(session.prompt("Go"))
        KEPT.append(holder)
        turns.append(holder.turn)
        await holder.turn.result()

    async def in_a_closure(session: Session) -> None:
        turn = session.prompt("Go")
        KEPT.append(lambda: turn)
        await turn.result()

    async def in_a_task_that_waits(session: Session) -> None:
        turn = session.prompt("Go")

        async def hold() -> Turn:
            await release.wait()
            return turn

        KEPT.append(asyncio.create_task(hold()))
        await turn.result()

    for work in (in_a_list, in_an_attribute, in_a_closure, in_a_task_that_waits):
        release = asyncio.Event()
        async with open_session(script, work_dir=tmp_path) as session:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(work(session), SOON)
            with pytest.raises(TurnInProgress):
                session.prompt("Again")
            (tmp_path / "go").touch()
            assert await eventually(lambda session=session: session.state == "idle")  # type: ignore[misc]
            release.set()
            await asyncio.sleep(0)
            kept: Any = KEPT.pop() if KEPT else None
            turn: Any = turns.pop() if turns else kept() if callable(kept) else await kept
            assert (await turn.result()).status == "finished"
        (tmp_path / "go").unlink()


async def test_turn_referenced_by_coroutine_survives_deadline() -> None:
    async with open_session([{"text": "a"}, {"wait_steer": True}, {"text": "b"}]) as session:
        turn = session.prompt("Go")
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(turn.result(), SOON)
        with pytest.raises(TurnInProgress):
            session.prompt("Again")
        await turn.steer("go on")
        assert (await turn.result()).text == "b"


async def test_turn_awaited_by_another_task_continues(tmp_path: Path) -> None:
    async with open_session([{"text": "a"}, {"wait_file": "go"}, {"text": "b"}], work_dir=tmp_path) as session:

        async def work() -> None:
            turn = session.prompt("Go")
            await read_until(turn, TextPart)
            KEPT.append(asyncio.create_task(turn.result()))
            await asyncio.sleep(0)
            await asyncio.wait_for(turn.result(), SOON)

        with pytest.raises(asyncio.TimeoutError) as caught:
            await work()
        (tmp_path / "go").touch()
        assert (await KEPT[0]).status == "finished"
        del caught


BLOCKING = """
import threading

def interrupt():
    # CPython does not see a signal that arrives just before the main thread blocks. A user presses Ctrl-C again.
    expected = caught
    os.kill(os.getpid(), signal.SIGINT)
    while not expected.wait(2):
        os.kill(os.getpid(), signal.SIGINT)

def said(session):
    # Ctrl-C comes while the loop waits.
    threading.Timer(0.01, interrupt).start()

def unnamed(session):
    for event in session.prompt("Go"):
        if isinstance(event, kimi_agent.TextPart): said(session)

def unnamed_steps(session):
    for step in session.prompt("Go").steps:
        for event in step:
            if isinstance(event, kimi_agent.TextPart): said(session)

def interrupt_result():
    # As soon as the main thread waits in result().
    main = threading.main_thread().ident
    def look():
        while True:
            frame = sys._current_frames()[main]
            while frame is not None:
                if frame.f_code.co_name == "result" and "kimi_agent" in frame.f_code.co_filename:
                    return interrupt()
                frame = frame.f_back
    threading.Thread(target=look).start()

def unnamed_result(session):
    interrupt_result()
    session.prompt("Go").result()

def named(session):
    turn = session.prompt("Go")
    for event in turn:
        if isinstance(event, kimi_agent.TextPart): said(session)

def named_result(session):
    interrupt_result()
    turn = session.prompt("Go")
    turn.result()

import gc
gc.disable()
for work in (unnamed, unnamed_steps, unnamed_result, named, named_result):
    agent = scripted_agent([HANGING, [{"text": "Fresh"}]])
    caught = threading.Event()
    with kimi_agent.sync.create_session(executable=agent, work_dir=".") as session:
        try:
            work(session)
        except KeyboardInterrupt as error:
            caught.set()
            # As a REPL does.
            sys.last_value, sys.last_traceback = error, error.__traceback__
        print(work.__name__, session.prompt("Again").result().text, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent otherwise there")
def test_ctrl_c_with_kept_traceback(tmp_path: Path) -> None:
    out, err = program(BLOCKING, tmp_path).communicate(timeout=DEADLINE)
    assert err == ""
    names = ["unnamed", "unnamed_steps", "unnamed_result", "named", "named_result"]
    assert out.splitlines() == [f"{name} Fresh" for name in names]


def test_exception_in_loop_brings_no_warning(tmp_path: Path) -> None:
    code = """
    agent = scripted_agent([HANGING, [{"text": "Fresh"}]])

    def fails(session):
        turn = session.prompt("Go")
        raise KeyboardInterrupt

    with kimi_agent.sync.create_session(executable=agent) as session:
        try:
            fails(session)
        except KeyboardInterrupt as error:
            kept = error
        print(session.prompt("Again").result().text)
    """
    out, err = program(code.replace("HANGING", repr(HANGING)), tmp_path).communicate(timeout=DEADLINE)
    assert (out, err) == ("Fresh\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent otherwise there")
def test_ctrl_c_keeps_referenced_turn(tmp_path: Path) -> None:
    code = """
    import threading
    agent = scripted_agent([[{"text": "a"}, {"wait_steer": True}, {"text": "b"}]])
    with kimi_agent.sync.create_session(executable=agent) as session:
        turn = session.prompt("Go")
        try:
            for event in turn:
                if isinstance(event, kimi_agent.TextPart):
                    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
        except KeyboardInterrupt as error:
            sys.last_value = error
        try:
            session.prompt("Again")
        except kimi_agent.TurnInProgress:
            turn.steer("go on")
        print(turn.result().text)
    """
    out, err = program(code, tmp_path).communicate(timeout=DEADLINE)
    assert (out.strip(), err) == ("b", "")
