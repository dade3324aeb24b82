"""Errors for attributes and loops that programs try on the wrong object."""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

import kimi_agent
from kimi_agent import ApprovalRequest, InvalidOption, create_session, sync
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

HELLO: Any = [[{"text": "Hello"}]]
FIELDS = ["text", "status", "tool_calls", "rejected", "handler_failures"]


async def test_result_fields_of_a_turn_name_the_result() -> None:
    async with create_session(executable=scripted_agent(HELLO)) as session:
        turn: Any = session.prompt("Say hello")
        for name in FIELDS:
            with pytest.raises(AttributeError, match=rf"`result = await turn\.result\(\)`, then `result\.{name}`"):
                getattr(turn, name)
        with pytest.raises(AttributeError, match=r"`result\.raise_for_status\(\)`"):
            turn.raise_for_status()
        assert not hasattr(turn, "text")
        with pytest.raises(AttributeError, match=r"^'Turn' object has no attribute 'other'$"):
            _ = turn.other
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            copy.copy(turn)
        assert (await turn).text == "Hello"


def test_blocking_turn_result_hint() -> None:
    with sync.create_session(executable=scripted_agent(HELLO)) as session:
        turn: Any = session.prompt("Say hello")
        for name in FIELDS:
            with pytest.raises(AttributeError, match=rf"`result = turn\.result\(\)`, then `result\.{name}`"):
                getattr(turn, name)
        with pytest.raises(AttributeError, match=r"then `turn\.steer\("):
            getattr(session, "steer")  # noqa: B009
        assert turn.result().text == "Hello"


@pytest.mark.parametrize("module", [kimi_agent, sync], ids=["async", "blocking"])
def test_call_of_class_names_function(module: Any) -> None:
    for name, by in (
        ("Session", "create_session"),
        ("Turn", "session.prompt"),
        ("Agent", "open_agent"),
        ("Batch", "run_batch"),
    ):
        for args in ((), ("x",)):
            with pytest.raises(TypeError, match=rf"^{name} is not called to make an object: call `{by}\(\)`"):
                getattr(module, name)(*args)


def test_blocking_objects_are_not_copied() -> None:
    with sync.open_agent(executable=scripted_agent(HELLO)) as agent, agent.create_session() as session:
        for kept in (agent, session, session.prompt("Say hello")):
            for attempt in (copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=f"a {type(kept).__name__} can be neither copied nor pickled"):
                    attempt(kept)


def test_respond_of_a_request_names_the_turn() -> None:
    request: Any = ApprovalRequest("id", "call", "Shell", "run command", "ls")
    with pytest.raises(AttributeError, match=r"`await turn\.respond\(request, …\)`"):
        request.respond("approve")
    with pytest.raises(AttributeError, match=r"^'ApprovalRequest' object has no attribute 'other'$"):
        _ = request.other


async def test_steer_of_a_session_names_the_turn() -> None:
    async with create_session(executable=scripted_agent(HELLO)) as session:
        anything: Any = session
        with pytest.raises(AttributeError, match=r"`turn = session\.prompt\(…\)`, then `await turn\.steer\(…\)`"):
            await anything.steer("Not the tests")


async def test_plain_loop_and_await_name_async_for() -> None:
    async with create_session(executable=scripted_agent(HELLO)) as session:
        turn: Any = session.prompt("Say hello")
        with pytest.raises(TypeError, match=r"a Turn is read with `async for`; .*`kimi_agent\.sync`"):
            list(turn)
        await turn
        replay: Any = session.replay()
        with pytest.raises(TypeError, match="a Replay is read with `async for`"):
            for _ in replay:
                pass
        with pytest.raises(TypeError, match=r"\[event async for event in session\.replay\(\)\]"):
            await replay
        kinds = [type(event).__name__ async for event in replay]
        assert kinds[0] == "TurnBegin"


async def test_turn_as_content_is_refused() -> None:
    async with create_session(executable=scripted_agent(HELLO)) as session:
        turn: Any = session.prompt("Say hello")
        await turn
        with pytest.raises(InvalidOption, match="expected text, a content part"):
            await session.prompt(turn)


async def test_path_as_image_url_names_image() -> None:
    part: Any = {"type": "image_url", "image_url": {"url": "picture.png"}}
    async with create_session(executable=scripted_agent(HELLO)) as session:
        with pytest.raises(InvalidOption, match=r'not a URL: "picture\.png"; .*`image\(path\)`'):
            await session.prompt(["What is this?", part])


async def test_text_and_steps_of_a_turn_name_the_loop() -> None:
    async with create_session(executable=scripted_agent(HELLO)) as session:
        turn: Any = session.prompt("Say hello")
        for reader, name in ((turn.text_stream, "text_stream"), (turn.steps, "steps")):
            with pytest.raises(TypeError, match="is read with `async for`"):
                list(reader)
            with pytest.raises(TypeError, match=rf"`{name}` is a property: write `turn\.{name}` without parentheses"):
                reader()
        with pytest.raises(TypeError, match="a Turn is entered with `async with`"), turn:
            pass
        assert (await turn).text == "Hello"


def test_blocking_objects_are_not_asynchronous() -> None:
    # Web frameworks and helpers of asyncio choose by these checks.
    session: Any = sync.create_session(executable=scripted_agent(HELLO))
    turn = session.prompt("Say hello")
    for holder in (session, turn, turn.text_stream, turn.steps):
        assert not inspect.isawaitable(holder)
        assert not isinstance(holder, AsyncIterable | AbstractAsyncContextManager)
    assert turn.result().text == "Hello"
    session.close()


async def test_wrong_attributes_of_session() -> None:
    async with create_session(executable=scripted_agent(HELLO)) as session:
        anything: Any = session
        with pytest.raises(AttributeError, match=r"it is `session\.id`"):
            _ = anything.session_id
        with pytest.raises(AttributeError, match=r"`result = await session\.prompt\(…\)\.result\(\)`"):
            anything.result()
