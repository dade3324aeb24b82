"""Does what `tests/limits` asks of a program in Python: one operation a line on stdin, one answer a line on stdout.

`tests/limits/README.md` lists the operations.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from kimi_agent import (
    Agent,
    Event,
    ExternalTool,
    Session,
    TextPart,
    ToolResult,
    Turn,
    _threads,
    create_session,
    open_agent,
    run_batch,
)
from kimi_agent._loop import LoopMailbox

# A thread of handlers without work ends by itself after 5 s. This program does not wait for that.
_threads._PATIENCE = 0.05
# How far the opening of a session that is given up at once gets: so many turns of the event loop.
YIELDS = 20

Line = dict[str, Any]


class Program:
    """The objects that the operations work on."""

    def __init__(self) -> None:
        self.agent: Agent | None = None
        self.sessions: list[Session] = []
        self.turn: Turn | None = None
        self.reader: AsyncIterator[Event] | None = None
        self.asked = asyncio.Semaphore(0)
        self.may_answer = asyncio.Semaphore(0)

    def options(self, described: Line) -> dict[str, Any]:
        """The options of a session."""
        options = {key: value for key, value in described.items() if key in ("executable", "dialect", "close_timeout")}

        async def on_approval(_: object) -> str:
            self.asked.release()
            await self.may_answer.acquire()
            return "approve"

        if described.get("approval"):
            options["on_approval"] = on_approval
        if described.get("tool"):
            schema = {"type": "object"}
            options["tools"] = [ExternalTool("big", "Gives much", schema, lambda arguments: "x" * arguments["size"])]
        return options

    async def run(self, op: Line) -> Line:
        """One operation."""
        operation = getattr(self, f"op_{op.pop('op')}")
        outcome: Line | None = await operation(**op)
        return outcome or {}

    async def op_open_agent(self, options: Line) -> None:
        self.agent = await open_agent(executable=options["executable"], dialect="acp")

    async def op_close_agent(self) -> None:
        assert self.agent
        await self.agent.close()
        self.agent = None

    async def opened(self, options: Line) -> Session:
        create = self.agent.create_session if self.agent else create_session
        return await create(**self.options(options))

    async def op_open(self, options: Line) -> Line:
        session = await self.opened(options)
        self.sessions.append(session)
        return {"pid": session.pid}

    async def op_open_many(self, count: int, options: Line) -> None:
        self.sessions += await asyncio.gather(*(self.opened(options) for _ in range(count)))

    async def op_batch(self, count: int) -> Line:
        """Runs so many jobs, which fail before an agent starts."""
        jobs = ({"prompt": f"job {n}", "max_steps_per_turn": 0} for n in range(count))
        return {"failed": sum([1 async for result in run_batch(jobs, concurrency=32, executable="sh") if result.error])}

    async def op_turns(self) -> Line:
        async def right(n: int, turn: Turn) -> bool:
            return (await turn.result()).text == f"Hello, turn {n}!"

        turns = [session.prompt(f"turn {n}") for n, session in enumerate(self.sessions)]
        return {"right": sum(await asyncio.gather(*(right(n, turn) for n, turn in enumerate(turns))))}

    async def op_prompt(self, input: str) -> None:
        self.turn = self.sessions[-1].prompt(input)
        self.reader = None

    async def op_read(self, count: int, pause: float = 0) -> Line:
        """Reads so many events, or to the end where `count` is 0; `pause` seconds lie between any two."""
        assert self.turn
        if self.reader is None:
            self.reader = aiter(self.turn)
        events = chars = 0
        while count == 0 or events < count:
            event = await anext(self.reader, None)
            if event is None:
                return {"events": events, "chars": chars, "ended": True}
            events += 1
            chars += length(event)
            del event
            if pause:
                await asyncio.sleep(pause)
        return {"events": events, "chars": chars, "ended": False}

    async def op_leave(self) -> None:
        # The iterator is dropped, as it is after a `break`.
        self.reader = None

    async def op_result(self) -> Line:
        assert self.turn
        status = (await self.turn.result()).status
        return {"status": status, "discarded": self.turn.discarded}

    async def op_cancel(self) -> Line:
        assert self.turn
        await self.turn.cancel()
        return {"discarded": self.turn.discarded}

    async def op_asked(self) -> None:
        await self.asked.acquire()

    async def op_answer(self) -> None:
        self.may_answer.release()

    async def op_forget(self) -> None:
        self.turn = self.reader = None

    async def op_close(self) -> None:
        self.turn = self.reader = None
        while self.sessions:
            await self.sessions.pop().close()

    async def op_cycle(self, way: str, times: int, width: int, options: Line) -> None:
        """`times` sessions, `width` at once, left in the `way` that the operation says."""
        leave = {"close": self._close, "drop": self._drop, "collect": self._collect, "cancel": self._give_up}[way]
        numbers = iter(range(times))

        async def work() -> None:
            for n in numbers:
                await leave(self.options(options), n)

        await asyncio.gather(*(work() for _ in range(width)))

    async def _close(self, options: dict[str, Any], _: int) -> None:
        async with create_session(**options) as session:
            await session.prompt("again").result()

    async def _begin(self, options: dict[str, Any], n: int) -> tuple[Session, Turn | None]:
        """Before a turn, in the middle of one, or after it."""
        session = await create_session(**options)
        if n % 3 == 0:
            return session, None
        turn = session.prompt("again")
        async for _event in turn:
            break
        if n % 3 == 2:
            await turn.result()
        return session, turn

    async def _drop(self, options: dict[str, Any], n: int) -> None:
        await self._begin(options, n)

    async def _collect(self, options: dict[str, Any], n: int) -> None:
        # A circle, which only the garbage collector breaks.
        circle: list[Any] = [await self._begin(options, n)]
        circle.append(circle)
        del circle
        gc.collect()

    async def _give_up(self, options: dict[str, Any], n: int) -> None:
        """At once, or when the agent has begun to run and does not answer."""
        runs = asyncio.Event()
        loop = asyncio.get_running_loop()
        if n % 2:
            # A plain handler, which is called on a thread.
            options["on_stderr"] = lambda _: loop.call_soon_threadsafe(runs.set)

        async def open_it() -> None:
            await create_session(**options)

        opening = asyncio.create_task(open_it())
        if n % 2:
            await runs.wait()
        else:
            for _ in range(n % YIELDS):
                await asyncio.sleep(0)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening

    async def op_counts(self) -> Line:
        gc.collect()
        ours = Counter(
            type(thing).__name__
            for thing in gc.get_objects()
            if (type(thing).__module__ or "").startswith("kimi_agent") and not isinstance(thing, LoopMailbox)
        )
        mailboxes = [thing for thing in gc.get_objects() if isinstance(thing, LoopMailbox)]
        waiting = sum(len(kept) for box in mailboxes for kept in (box._tickets, box._jobs, box._streams, box._handlers))
        return {
            "objects": dict(ours),
            "mailboxes": len(mailboxes),
            "waiting": waiting,
            "tasks": len(asyncio.all_tasks()),
            "threads": len(threading.enumerate()),
            "ending": ours["_Thread"],
        }


def length(event: Event) -> int:
    """How much text an event brings."""
    if isinstance(event, TextPart):
        return len(event.text)
    if isinstance(event, ToolResult):
        return len(event.return_value.output)
    return 0


async def main() -> None:
    """Reads operations to the end."""
    program = Program()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        try:
            answer = await program.run(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
