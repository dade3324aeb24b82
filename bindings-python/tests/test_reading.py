"""Reading a turn: an event is taken when `__anext__` is awaited, and stays as it is."""

from __future__ import annotations

import asyncio
import collections.abc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from support import open_session

from kimi_agent import TextPart, Turn, TurnBegin
from kimi_agent._stream import EventIterator

WORDS = ["one", "two", "three", "four"]


@asynccontextmanager
async def all_there() -> AsyncGenerator[tuple[Turn, EventIterator], None]:
    """A turn that has ended, of which nothing was read."""
    async with open_session([{"text": WORDS, "bulk": True}]) as session:
        turn = session.prompt("Go")
        events = aiter(turn)
        await turn.result()
        yield turn, events


async def test_anext_works_directly_and_in_task() -> None:
    async with all_there() as (_, events):
        first = events.__anext__()
        assert isinstance(first, collections.abc.Coroutine)
        assert isinstance(await asyncio.create_task(first), TurnBegin)
        assert type(await asyncio.wait_for(anext(events), 60)).__name__ == "StepBegin"
        found = [await events.__anext__() for _ in WORDS]
        assert found == [TextPart(word) for word in WORDS]
        assert type(await anext(events)).__name__ == "TurnEnd"
        assert await anext(events, None) is None


@pytest.mark.parametrize("every", [1, 2, 3])
async def test_kept_events_do_not_change(every: int) -> None:
    words = [str(n) * (5000 if n % 7 == 0 else 1) for n in range(300)]
    kept = {}
    async with open_session([{"text": words, "bulk": True}]) as session:
        seen = 0
        async for event in session.prompt("Go"):
            if not isinstance(event, TextPart):
                continue
            assert event == TextPart(words[seen])
            if seen % every == 0:
                kept[seen] = event
            seen += 1
    assert seen == len(words)
    assert kept == {n: TextPart(words[n]) for n in range(0, len(words), every)}
    assert len({id(event) for event in kept.values()}) == len(kept)


async def test_anext_awaited_twice_takes_one_event() -> None:
    async with all_there() as (_, events):
        first = events.__anext__()
        await first
        with pytest.raises(RuntimeError, match="already awaited"):
            await first
        # The next event is not lost.
        assert type(await anext(events)).__name__ == "StepBegin"


async def test_anext_not_awaited_takes_no_event() -> None:
    async with all_there() as (_, events):
        events.__anext__().close()
        with pytest.raises(ValueError, match="thrown"):
            events.__anext__().throw(ValueError("thrown"))
        assert isinstance(await anext(events), TurnBegin)


MIB = 1 << 20


@pytest.mark.parametrize(("length", "end"), [(8 * MIB + 1, ""), (9 * MIB, "€")])
async def test_long_text_is_whole(length: int, end: str) -> None:
    # Without a part that comes twice.
    text = "".join(f"{n:07} " for n in range(length // 8 + 1))[:length] + end
    async with open_session([{"text": text}]) as session:
        found = [event.text async for event in session.prompt("Go") if isinstance(event, TextPart)]
    assert [len(part) for part in found] == [len(text)]
    # Not displayed, because it is long.
    is_whole = found == [text] and hash(found[0]) == hash(text)
    assert is_whole
