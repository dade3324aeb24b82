"""This SDK, with coroutines."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from measure import Measure

import kimi_agent


async def approve(request: kimi_agent.ApprovalRequest) -> str:
    return "approve"


async def look_up(arguments: dict[str, Any]) -> str:
    return "12"


# Not `@tool`: its pydantic would be most of what a start costs, and the rivals do without.
PARAMETERS = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
LOOK_UP = kimi_agent.ExternalTool("look_up", "Looks an item up.", PARAMETERS, look_up)


async def turn(**options: Any) -> None:
    async with kimi_agent.create_session(**options) as session:
        measure = Measure()
        events = 0
        async for _ in session.prompt("go"):
            if not events:
                measure.first()
            events += 1
        measure.end(events)


async def sessions(agent: str, count: int) -> None:
    measure = Measure()
    opened = []
    for _ in range(count):
        session = await kimi_agent.create_session(executable=agent)
        async for _ in session.prompt("go"):
            pass
        opened.append(session)
    measure.end(sessions=count)
    await asyncio.gather(*(session.close() for session in opened))


async def server_sessions(agent: str, count: int) -> None:
    async with kimi_agent.open_agent(executable=[agent], dialect="kimi-web") as process:
        measure = Measure()
        opened = []
        for _ in range(count):
            session = await process.create_session()
            async for _ in session.prompt("go"):
                pass
            opened.append(session)
        measure.end(sessions=len(opened))


async def batch(agent: str, count: int, concurrency: int) -> None:
    measure = Measure()
    jobs = [f"job {number}" for number in range(count)]
    texts = [result.text async for result in kimi_agent.run_batch(jobs, concurrency=concurrency, executable=agent)]
    measure.end(sessions=texts.count("Hello"))


async def main(agent: str) -> None:
    if os.environ["BENCH_TASK"] == "sessions":
        await sessions(agent, int(os.environ["BENCH_SESSIONS"]))
    elif os.environ["BENCH_TASK"] == "batch":
        await batch(agent, int(os.environ["BENCH_JOBS"]), int(os.environ["BENCH_CONCURRENCY"]))
    elif os.environ["BENCH_TASK"] == "acp":
        await turn(executable=[agent, "acp"], dialect="acp")
    elif os.environ["BENCH_TASK"] == "server":
        await turn(executable=[agent], dialect="kimi-web", on_approval=approve)
    elif os.environ["BENCH_TASK"] == "server sessions":
        await server_sessions(agent, int(os.environ["BENCH_SESSIONS"]))
    else:
        await turn(executable=agent, on_approval=approve, tools=[LOOK_UP])


asyncio.run(main(sys.argv[1]))
