"""Sessions on an event loop that watches no descriptors, as the Proactor loop of Windows."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from support import LOOKUP, collect, open_session, texts

from kimi_agent import ExternalTool

pytestmark = pytest.mark.interpreter

if sys.platform == "win32":
    LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.ProactorEventLoop, asyncio.SelectorEventLoop]
else:

    class WatchesNoDescriptors(asyncio.SelectorEventLoop):
        def add_reader(self, *_: Any) -> None:  # type: ignore[override]
            raise NotImplementedError

    LOOPS = [WatchesNoDescriptors]


def run(make: Callable[[], asyncio.AbstractEventLoop], main: Coroutine[Any, Any, None]) -> None:
    loop = make()
    try:
        loop.run_until_complete(asyncio.wait_for(main, 60))
    finally:
        loop.close()


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kimi-agent-watcher"]


@pytest.mark.parametrize("make", LOOPS)
def test_loop_without_descriptors_delivers_events_and_calls_handlers(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def lookup(arguments: Any) -> str:
        await asyncio.sleep(0)
        return "found"

    async def main() -> None:
        tools = [ExternalTool("lookup", "Looks up.", {"type": "object"}, lookup)]
        turn = [LOOKUP, {"text": "{{last.output}}"}]
        async with open_session(turn, tools=tools) as one, open_session(turn, tools=tools) as two:
            turns = await asyncio.gather(collect(one.prompt("Go")), collect(two.prompt("Go")))
            assert [texts(events) for events in turns] == ["found", "found"]

    run(make, main())


@pytest.mark.parametrize("make", LOOPS)
def test_closed_loop_ends_its_watcher(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    before = watchers()

    async def main() -> None:
        async with open_session([{"text": "Fresh"}]) as session:
            assert texts(await collect(session.prompt("Go"))) == "Fresh"

    run(make, main())
    for thread in watchers():
        if thread not in before:
            thread.join(60)
            assert not thread.is_alive()
