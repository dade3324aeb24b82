"""Errors for attributes and loops that programs try on the wrong object."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import AsyncIterable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

import kimi_agent
from kimi_agent import (
    ApprovalRequest,
    InvalidOption,
    Output,
    Reject,
    Retry,
    SessionClosed,
    create_session,
    open_agent,
    sync,
    tool,
)
from kimi_agent._hints import clear_arguments
from kimi_agent.testing import cassette, scripted_agent

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


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: anything(cassette)("a", excutable="b"),
            r"^cassette\(\) has no parameter 'excutable'; did you mean 'executable'\?$",
        ),
        (
            lambda: anything(cassette)(),
            r"^cassette\(\) needs path; it has the parameters path, executable, mode, verify$",
        ),
        (
            lambda: anything(cassette)(1, 2, 3, 4, 5),
            r"^cassette\(\) takes from 1 to 4 positional arguments but 5 were given$",
        ),
        (lambda: anything(tool)(tiemout=3), r"^tool\(\) has no parameter 'tiemout'; did you mean 'timeout'\?$"),
        (lambda: anything(Output)({}, retry=1), r"^Output\(\) has no parameter 'retry'; did you mean 'retries'\?$"),
        (
            lambda: anything(Retry)(x=1),
            r"^Retry\(\) has no parameter 'x'; it has attempts, initial_delay, max_delay, multiplier$",
        ),
        (lambda: anything(Reject)(feedbak="a"), r"^Reject\(\) has no parameter 'feedbak'; did you mean 'feedback'\?$"),
        (lambda: anything(Reject)(), r"^Reject\(\) needs feedback$"),
        (lambda: anything(kimi_agent.Block)(), r"^Block\(\) needs reason$"),
        (lambda: anything(Reject)(3), r"^a Reject needs the text that the model reads, got 3; .*answer \"reject\"$"),
        (lambda: anything(kimi_agent.Block)(None), r"^a Block needs the text that the model reads, got None$"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], object], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


def anything(function: Any) -> Any:
    """The function for calls that type checkers refuse."""
    return function


def test_error_inside_a_call_is_kept() -> None:
    with pytest.raises(TypeError, match="1 needs keywords"):
        anything(clear_arguments(failing))(1)


def failing(value: int) -> None:
    raise TypeError(f"{value} needs keywords")


def test_answers_are_copied_and_pickled() -> None:
    for answer in (Reject("a"), kimi_agent.Block("b")):
        assert pickle.loads(pickle.dumps(answer)) == copy.copy(answer) == answer


async def test_closed_session_or_agent_is_not_entered() -> None:
    session = await create_session(executable=scripted_agent(HELLO))
    async with session:
        pass
    with pytest.raises(SessionClosed, match="the session is closed; open a new one"):
        async with session:
            pass
    agent = await open_agent(executable=scripted_agent(HELLO))
    await agent.close()
    with pytest.raises(SessionClosed, match="the agent is closed; open a new one"):
        async with agent:
            pass


def test_closed_blocking_session_is_not_entered() -> None:
    session = sync.create_session(executable=scripted_agent(HELLO))
    session.close()
    with pytest.raises(SessionClosed, match="the session is closed; open a new one"), session:
        pass
