"""The package's two APIs behind one face, so that one program plays through either.

A program is a coroutine. With `Coroutines` it runs on an event loop; with `Blocking` its awaits never suspend, as
every call has blocked and returned.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

from behaviour import HANG
from output import print_line

import kimi_agent
import kimi_agent.sync
from kimi_agent import ToolContext
from kimi_agent._background import run_call

__all__ = ["Api", "Blocking", "Coroutines", "Job", "Record"]

T = TypeVar("T")


class Record(Protocol):
    """The arguments of a handler's calls, in order."""

    def put(self, item: Any) -> None: ...
    async def get(self) -> Any: ...


class Job(Protocol):
    """A call that runs concurrently with the program."""

    async def join(self) -> Any: ...


class Api(Protocol):
    """How sessions and turns are used."""

    def run(self, play: Coroutine[Any, Any, None], limit: float) -> None:
        """Plays a program; one that takes longer than `limit` is given up on."""

    async def open(self, options: dict[str, Any]) -> Any: ...
    async def open_agent(self, options: dict[str, Any]) -> Any: ...
    def one_shot(self, content: Any, options: dict[str, Any]) -> Any: ...
    async def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Calls a method that is a coroutine in one API and blocks in the other."""

    async def outcome(self, turn: Any) -> Any:
        """The result of a turn, in the shortest way."""

    async def pause(self, seconds: float) -> None: ...
    async def settle(self, wait: Callable[[], None]) -> None:
        """Calls a function that waits for the event loop of the sessions, and lets the loop finish its step."""

    def iterate(self, source: Any) -> AsyncIterator[Any]: ...
    async def leave_block(self, thing: Any) -> None:
        """Ends the `with` block whose value the program has."""

    def start(self, function: Callable[[], Any]) -> Job: ...
    def start_reading(self, turn: Any, take: Callable[[Any], None]) -> Job: ...
    def record(self) -> Record: ...
    def handler(self, decide: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function for the options, in this API's habit, which returns what `decide` does or hangs."""

    def tool_handler(self, decide: Callable[[Any, ToolContext], Any]) -> Callable[..., Any]:
        """The same for a tool."""


class _Task:
    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    async def join(self) -> Any:
        return await self._task


class _Queue:
    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, item: Any) -> None:
        self._queue.put_nowait(item)

    async def get(self) -> Any:
        return await self._queue.get()


class Coroutines:
    """`kimi_agent` itself, in an event loop for each scenario."""

    def run(self, play: Coroutine[Any, Any, None], limit: float) -> None:
        async def bounded() -> None:
            try:
                await asyncio.wait_for(play, limit)
            except asyncio.TimeoutError:
                print_line({"error": "runner_watchdog"})

        asyncio.run(bounded())

    async def open(self, options: dict[str, Any]) -> kimi_agent.Session:
        return await kimi_agent.create_session(**options)

    async def open_agent(self, options: dict[str, Any]) -> kimi_agent.Agent:
        return await kimi_agent.open_agent(**options)

    def one_shot(self, content: Any, options: dict[str, Any]) -> kimi_agent.Turn:
        return kimi_agent.prompt(content, **options)

    async def call(self, function: Callable[..., Awaitable[T]], *args: Any, **named: Any) -> T:
        return await function(*args, **named)

    async def outcome(self, turn: kimi_agent.Turn) -> kimi_agent.PromptResult:
        return await turn

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def settle(self, wait: Callable[[], None]) -> None:
        await asyncio.to_thread(wait)

    def iterate(self, source: Any) -> AsyncIterator[Any]:
        return aiter(source)

    async def leave_block(self, thing: Any) -> None:
        async with thing:
            pass

    def start(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> Job:
        return _Task(asyncio.create_task(function()))

    def start_reading(self, turn: Any, take: Callable[[Any], None]) -> Job:
        async def read() -> None:
            async for event in turn:
                take(event)

        return self.start(read)

    def record(self) -> Record:
        return _Queue()

    def handler(self, decide: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def handler(value: Any) -> Any:
            decision = decide(value)
            if decision is HANG:
                await asyncio.Event().wait()
            return decision

        return handler

    def tool_handler(self, decide: Callable[[Any, ToolContext], Any]) -> Callable[..., Any]:
        async def handler(arguments: Any, context: ToolContext) -> Any:
            return await self.handler(partial(decide, context=context))(arguments)

        return handler


class _Thread(threading.Thread):
    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._value: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # raised again where the program joins
            self._error = error
        # The turn may be left meanwhile: a thread that has ended must not keep it.
        del self._function

    async def join_program(self) -> Any:
        super().join()
        if self._error is not None:
            raise self._error
        return self._value


class _ThreadJob:
    def __init__(self, function: Callable[[], Any]) -> None:
        self._thread = _Thread(function)

    async def join(self) -> Any:
        return await self._thread.join_program()


class _ThreadQueue:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, item: Any) -> None:
        self._queue.put(item)

    async def get(self) -> Any:
        return self._queue.get()


class _Iterator:
    def __init__(self, source: Iterator[Any]) -> None:
        self._source = source

    def __aiter__(self) -> _Iterator:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self._source)
        except StopIteration:
            raise StopAsyncIteration from None


class Blocking:
    """`kimi_agent.sync`; handlers are plain functions."""

    def run(self, play: Coroutine[Any, Any, None], limit: float) -> None:
        watchdog = threading.Timer(limit, self._give_up)
        watchdog.daemon = True
        watchdog.start()
        try:
            play.send(None)
            raise RuntimeError("a blocking call was awaited")
        except StopIteration:
            pass
        finally:
            watchdog.cancel()

    def _give_up(self) -> None:
        print_line({"error": "runner_watchdog"})
        os._exit(3)

    async def open(self, options: dict[str, Any]) -> kimi_agent.sync.Session:
        return kimi_agent.sync.create_session(**options)

    async def open_agent(self, options: dict[str, Any]) -> kimi_agent.sync.Agent:
        return kimi_agent.sync.open_agent(**options)

    def one_shot(self, content: Any, options: dict[str, Any]) -> kimi_agent.sync.Turn:
        return kimi_agent.sync.prompt(content, **options)

    async def call(self, function: Callable[..., T], *args: Any, **named: Any) -> T:
        return function(*args, **named)

    async def outcome(self, turn: kimi_agent.sync.Turn) -> kimi_agent.PromptResult:
        return turn.result()

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def settle(self, wait: Callable[[], None]) -> None:
        wait()
        run_call(int)

    def iterate(self, source: Any) -> AsyncIterator[Any]:
        return _Iterator(iter(source))

    async def leave_block(self, thing: Any) -> None:
        with thing:
            pass

    def start(self, function: Callable[[], Any]) -> Job:
        return _ThreadJob(function)

    def start_reading(self, turn: Any, take: Callable[[Any], None]) -> Job:
        def read() -> None:
            for event in turn:
                take(event)

        return self.start(read)

    def record(self) -> Record:
        return _ThreadQueue()

    def handler(self, decide: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def handler(value: Any) -> Any:
            decision = decide(value)
            if decision is HANG:
                threading.Event().wait()
            return decision

        return handler

    def tool_handler(self, decide: Callable[[Any, ToolContext], Any]) -> Callable[..., Any]:
        def handler(arguments: Any, context: ToolContext) -> Any:
            return self.handler(partial(decide, context=context))(arguments)

        return handler
