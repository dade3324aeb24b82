"""Threads, sessions and cancellations at random; a seed that failed can be played again.

KIMI_AGENT_STRESS_SEED=… names the seed; what is done in a round depends on nothing but the seed and the round.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support import DEADLINE, LOOKUP, children, eventually, gone, newest_only, open_session, texts

import kimi_agent.sync
from kimi_agent import ExternalTool, Session, TextPart, Turn
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

THREADS = 6
ROUNDS = 6
WORDS = 200

ASK: dict[str, Any] = {"tool_call": {"name": "Shell", "approve": True, "result": "ok"}}
SAYS: list[dict[str, Any]] = [{"repeat": {"times": WORDS, "actions": [{"text": "word "}]}}]
# What a turn may be, and the text of its last step if it comes to its end.
TURNS: list[list[dict[str, Any]]] = [
    [*SAYS, {"wait_cancel": True}],
    [LOOKUP, *SAYS],
    [ASK, *SAYS],
    SAYS,
]
FRESH = [{"text": "Fresh"}]


async def lookup(arguments: Any) -> str:
    await asyncio.sleep(0)
    return "found"


OPTIONS: dict[str, Any] = {
    "tools": [ExternalTool("lookup", "Looks up.", {"type": "object"}, lookup)],
    "on_approval": lambda request: "approve",
    "event_buffer_bytes": 4096,
}


async def read(turn: Turn, count: int) -> int:
    """Reads that many pieces of text, or to the end if there are less; how many there were."""
    seen = 0
    async for event in turn:
        seen += isinstance(event, TextPart)
        if seen == count:
            break
    return seen


async def play(chance: random.Random, session: Session, endless: bool) -> None:
    """A turn, and one of the ways that it ends."""
    turn = session.prompt("Go")
    match chance.choice(["end", "cancel", "leave", "task", "result", "drop"]):
        case "end" if not endless:
            assert await read(turn, WORDS + 1) == WORDS
            assert (await turn.result()).text == "word " * WORDS
        case "cancel":
            await read(turn, chance.randrange(1, WORDS))
            await turn.cancel()
        case "leave":
            async with turn:
                await read(turn, chance.randrange(1, WORDS))
        case "task":
            task = asyncio.create_task(read(turn, WORDS + 1))
            for _ in range(chance.randrange(20)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await turn.cancel()
        case "result":
            waiting = [asyncio.create_task(turn.result()) for _ in range(3)]
            for waiter in waiting[chance.randrange(3) :]:
                waiter.cancel()
            await turn.cancel()
            await asyncio.wait(waiting)
        case _:
            # Dropped unread, as the function ends.
            pass


async def async_round(chance: random.Random) -> None:
    kind = chance.randrange(len(TURNS))
    session = await open_session(TURNS[kind], FRESH, **OPTIONS)
    await play(chance, session, endless=kind == 0)
    if chance.random() < 0.7:
        # Whatever became of the first turn, the next one is right.
        assert (await session.prompt("Again").result()).text == "Fresh"
    closing = asyncio.create_task(session.close())
    if chance.random() < 0.3:
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
    else:
        await closing


def blocking_round(chance: random.Random) -> None:
    kind = chance.randrange(len(TURNS))
    agent = scripted_agent([TURNS[kind], FRESH])
    with kimi_agent.sync.create_session(executable=agent, **OPTIONS) as session:
        turn = session.prompt("Go")
        if kind != 0 and chance.random() < 0.5:
            assert texts(list(turn)) == "word " * WORDS
        else:
            seen = 0
            stop = chance.randrange(1, WORDS)
            for event in turn:
                seen += isinstance(event, TextPart)
                if seen == stop:
                    break
            if chance.random() < 0.5:
                turn.cancel()
        del turn
        if chance.random() < 0.7:
            assert session.prompt("Again").result().text == "Fresh"


def work(n: int, seed: int, failures: list[str]) -> None:
    """One thread's rounds: on a loop of its own each, or by the blocking API, whose loop the threads share."""
    for round in range(ROUNDS):
        chance = random.Random(f"{seed}/{n}/{round}")
        try:
            if n % 2:
                blocking_round(chance)
            else:
                asyncio.run(asyncio.wait_for(async_round(chance), DEADLINE))
        except BaseException as failure:
            failures.append(f"thread {n}, round {round}: {failure!r}")


def counts() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@newest_only
@pytest.mark.skipif(sys.platform != "linux", reason="it counts in /proc")
def test_random_threads_sessions_and_cancellations_leave_nothing() -> None:
    seed = int(os.environ.get("KIMI_AGENT_STRESS_SEED") or random.randrange(1 << 32))
    print(f"KIMI_AGENT_STRESS_SEED={seed}")
    blocking_round(random.Random(seed))
    asyncio.run(async_round(random.Random(seed)))
    before, processes = counts(), children()
    failures: list[str] = []
    threads = [threading.Thread(target=work, args=(n, seed, failures)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(gone(pid) for pid in children() - processes)
    # The threads of handlers end by themselves.
    asyncio.run(_settled(lambda: counts()[1] <= before[1]))
    assert counts() <= before


async def _settled(condition: Callable[[], bool]) -> None:
    assert await eventually(condition)
