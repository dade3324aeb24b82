"""The texts of errors: every row of `tests/errors/table.json`, through both APIs."""

from __future__ import annotations

import json
import math
import re
import sys
import types
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest

import kimi_agent
from kimi_agent import HandlerFailed, KimiAgentError, Output, Policy, Reject, sync
from kimi_agent.testing import scripted_agent

TABLE = Path(__file__).resolve().parents[2] / "tests" / "errors" / "table.json"
ROWS: list[dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
APPROVAL = [[{"tool_call": {"name": "Shell", "approve": {"action": "run command", "description": "Run it"}}}]]


def rows(language: str) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in ROWS if language not in row.get("skip", {})]


def options_of(row: dict[str, Any]) -> dict[str, Any]:
    how = row["how"]
    options = dict(how.get("options", {}))
    if "shell" in how:
        options["executable"] = ["sh", "-c", how["shell"]]
    if "output" in how:
        options["output"] = how["output"]
    if "script" in how:
        options["executable"] = scripted_agent(how["script"])
    return options


async def provoke(how: dict[str, Any], options: dict[str, Any]) -> None:
    """Makes a row's mistake, with coroutines."""
    done = how["do"]
    if done in ("list_sessions", "session_with_env"):
        async with kimi_agent.open_agent(**options) as agent:
            await (agent.list_sessions() if done == "list_sessions" else agent.create_session(env={"A": "b"}))  # type: ignore[call-arg]  # pyright: ignore
        return
    async with kimi_agent.create_session(**options) as session:
        if done == "set_plan_mode":
            await session.set_plan_mode(True)
        elif done == "respond_unknown":
            await session.respond("nope", "approve")
        elif done == "prompt_after_close":
            await session.close()
            session.prompt("go")
        turn = session.prompt("go")
        if done == "prompt_twice":
            session.prompt("again")
        elif done == "steer":
            await turn.steer("more")
        elif done == "steer_in_loop":
            async for event in turn:
                if isinstance(event, kimi_agent.TextPart):
                    await turn.steer("more")
        result = await turn.result()
        if done == "steer_after_end":
            await turn.steer("more")
        elif done == "raise_for_status":
            result.raise_for_status()


def provoke_blocking(how: dict[str, Any], options: dict[str, Any]) -> None:
    """The same without them."""
    done = how["do"]
    if done in ("list_sessions", "session_with_env"):
        with sync.open_agent(**options) as agent:
            if done == "list_sessions":
                agent.list_sessions()
            else:
                agent.create_session(env={"A": "b"})  # type: ignore[call-arg]  # pyright: ignore
        return
    with sync.create_session(**options) as session:
        if done == "set_plan_mode":
            session.set_plan_mode(True)
        elif done == "respond_unknown":
            session.respond("nope", "approve")
        elif done == "prompt_after_close":
            session.close()
            session.prompt("go")
        turn = session.prompt("go")
        if done == "prompt_twice":
            session.prompt("again")
        elif done == "steer":
            turn.steer("more")
        elif done == "steer_in_loop":
            for event in turn:
                if isinstance(event, kimi_agent.TextPart):
                    turn.steer("more")
        result = turn.result()
        if done == "steer_after_end":
            turn.steer("more")
        elif done == "raise_for_status":
            result.raise_for_status()


async def opened(**options: Any) -> None:
    await kimi_agent.create_session(executable=scripted_agent([]), **options)


async def prompted(content: Any) -> None:
    async with kimi_agent.create_session(executable=scripted_agent([])) as session:
        await session.prompt(content).result()


async def answered(answer: Any) -> str:
    """The report of an approval handler that returns this."""
    async with kimi_agent.create_session(
        executable=scripted_agent(APPROVAL), on_approval=lambda request: answer
    ) as session:
        async for event in session.prompt("go"):
            if isinstance(event, HandlerFailed):
                return event.message
    raise AssertionError("no handler has failed")


async def responded() -> None:
    async with kimi_agent.create_session(executable=scripted_agent([])) as session:
        await session.respond(None, "approve")  # type: ignore[call-overload]


async def not_awaited() -> None:
    kimi_agent.create_session().prompt("go")  # type: ignore[attr-defined]


async def entered() -> None:
    with kimi_agent.create_session():  # type: ignore[attr-defined]
        pass


def under_trio() -> None:
    # As trio says it to a task of its own; its package need not be installed for that.
    trio: Any = types.ModuleType("trio")
    trio.lowlevel = types.SimpleNamespace(current_trio_token=object)
    known = sys.modules.get("trio")
    sys.modules["trio"] = trio
    try:
        kimi_agent.create_session().__await__().send(None)
    finally:
        del sys.modules["trio"]
        if known is not None:
            sys.modules["trio"] = known


def blocking(content: Any) -> None:
    with sync.create_session(executable=scripted_agent([])) as session:
        session.prompt(content).result()


def closed(value: Any) -> Any:
    raise RuntimeError("the database is closed")


FAILING: Any = Annotated[Any, pydantic.AfterValidator(closed)]
VALUES = [[{"text": "1"}]] * 3


async def prompted_with(**options: Any) -> None:
    async with kimi_agent.create_session(executable=scripted_agent(VALUES)) as session:
        await session.prompt("go", **options).result()


def blocking_with(**options: Any) -> None:
    with sync.create_session(executable=scripted_agent(VALUES)) as session:
        session.prompt("go", **options).result()


def answered_blocking(answer: Any) -> str:
    with sync.create_session(executable=scripted_agent(APPROVAL), on_approval=lambda request: answer) as session:
        failures = [event.message for event in session.prompt("go") if isinstance(event, HandlerFailed)]
    return failures[0]


def responded_blocking() -> None:
    with sync.create_session(executable=scripted_agent([])) as session:
        session.respond(None, "approve")  # type: ignore[call-overload]


CHAT = [{"role": "user", "content": "hi"}]
Provoker = Callable[[], Awaitable[Any]]
ASYNC: dict[str, Provoker] = {
    "misspelt_option_with_a_function": lambda: opened(on_aproval=print),
    "option_of_a_wrong_type": lambda: opened(work_dir=print),
    "prompt_nothing": lambda: prompted(None),
    "prompt_bytes": lambda: prompted(b"x"),
    "prompt_chat_messages": lambda: prompted(CHAT),
    "prompt_number_in_list": lambda: prompted(["a", 5]),
    "prompt_part_without_text": lambda: prompted([{"type": "text"}]),
    "respond_to_nothing": responded,
    "handler_returns_the_class": lambda: answered(Reject),
    "handler_returns_nothing": lambda: answered(None),
    "handler_returns_a_wrong_word": lambda: answered("yes"),
    "budget_that_is_infinite": lambda: prompted_with(budget={"seconds": math.inf}),
    "output_check_that_fails": lambda: prompted_with(output=FAILING),
    "output_in_an_output": lambda: prompted_with(output=Output(Output(int))),
    "policy_of_a_path": lambda: opened(policy=Policy("x.toml")),  # type: ignore[arg-type]  # pyright: ignore
    "missing_await": not_awaited,
    "with_instead_of_async_with": entered,
}
BLOCKING: dict[str, Callable[[], Any]] = {
    "misspelt_option_with_a_function": lambda: sync.create_session(on_aproval=print),  # type: ignore[call-arg]
    "option_of_a_wrong_type": lambda: sync.create_session(work_dir=print),  # type: ignore[arg-type]
    "prompt_nothing": lambda: blocking(None),
    "prompt_bytes": lambda: blocking(b"x"),
    "prompt_chat_messages": lambda: blocking(CHAT),
    "prompt_number_in_list": lambda: blocking(["a", 5]),
    "prompt_part_without_text": lambda: blocking([{"type": "text"}]),
    "respond_to_nothing": responded_blocking,
    "handler_returns_the_class": lambda: answered_blocking(Reject),
    "handler_returns_nothing": lambda: answered_blocking(None),
    "handler_returns_a_wrong_word": lambda: answered_blocking("yes"),
    "budget_that_is_infinite": lambda: blocking_with(budget={"seconds": math.inf}),
    "output_check_that_fails": lambda: blocking_with(output=FAILING),
    "output_in_an_output": lambda: blocking_with(output=Output(Output(int))),
    "policy_of_a_path": lambda: Policy("x.toml"),  # type: ignore[arg-type]  # pyright: ignore
}
OUTSIDE: dict[str, Callable[[], Any]] = {"under_trio": under_trio}


@pytest.mark.parametrize("language", ["python", "python-sync"])
def test_every_row_is_played_or_skipped(language: str) -> None:
    made = {**ASYNC, **OUTSIDE} if language == "python" else BLOCKING
    played = {row["name"] for row in ROWS if language not in row.get("skip", {})}
    generic = {row["name"] for row in ROWS if "how" in row}
    assert played - generic == set(made)


@pytest.mark.parametrize("row", rows("python"))
async def test_async_error_text_matches_table(row: dict[str, Any]) -> None:
    if row["name"] in OUTSIDE:
        pytest.skip("it needs to have no event loop")
    told: Any = None
    try:
        told = await (ASYNC[row["name"]]() if "how" not in row else provoke(row["how"], options_of(row)))
    except Exception as error:
        told = error
    check(row, told)


@pytest.mark.parametrize("row", [row for row in rows("python") if row.id in OUTSIDE])
def test_error_without_loop_has_text_of_table(row: dict[str, Any]) -> None:
    with pytest.raises(KimiAgentError) as caught:
        OUTSIDE[row["name"]]()
    check(row, caught.value)


@pytest.mark.parametrize("row", rows("python-sync"))
def test_blocking_error_text_matches_table(row: dict[str, Any]) -> None:
    told: Any = None
    try:
        if "how" in row:
            provoke_blocking(row["how"], options_of(row))
        else:
            told = BLOCKING[row["name"]]()
    except Exception as error:
        told = error
    check(row, told)


def check(row: dict[str, Any], told: Any) -> None:
    assert told is not None, "no error"
    text = str(told)
    if row["code"] is not None:
        assert isinstance(told, KimiAgentError), repr(told)
        assert told.code == row["code"], text
    for name in ("retryable", "option", "rpc_code"):
        if name in row:
            assert getattr(told, name) == row[name], text
    for word in row["words"]:
        assert spelled(word) in text
    for word in row.get("never", ()):
        assert spelled(word) not in text


def spelled(word: str) -> str:
    return re.sub(r"\{(\w+)\}", r"\1", word)
