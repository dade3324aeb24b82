"""Structured output: types and schemas, the check of values, errors, and wrong options."""

from __future__ import annotations

import datetime
import decimal
import enum
import gc
import logging
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
import pytest
from support import open_session
from typing_extensions import TypedDict

import kimi_agent
from kimi_agent import HandlerFailed, InvalidOption, Output, OutputError, OutputInvalid, sync
from kimi_agent._output import read_output
from kimi_agent._type_schema import TypeSchema
from kimi_agent.testing import scripted_agent


class Line(pydantic.BaseModel):
    total: int

    @pydantic.field_validator("total")
    @classmethod
    def is_positive(cls, total: int) -> int:
        if total <= 0:
            raise ValueError("expected a positive number")
        return total


class Invoice(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    day: datetime.date
    lines: list[Line]


@dataclass
class Point:
    x: int
    y: float = 0.5


class Movie(TypedDict):
    title: str


class Color(enum.Enum):
    RED = "red"


class Node(pydantic.BaseModel):
    name: str = pydantic.Field(alias="the/name")
    children: list[Node] = []


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, pydantic.AfterValidator(lambda lives: lives)]

    @pydantic.model_validator(mode="after")
    def lives_are_nine(self) -> Cat:
        if self.lives != 9:
            raise AssertionError("expected nine lives")
        return self


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


def says(text: str) -> list[dict[str, Any]]:
    """A turn that answers with this text."""
    return [{"text": text}]


def calls(value: Any, name: str = "final_result") -> dict[str, Any]:
    """A call of the tool of the output."""
    return {"external_tool": {"id": "t1", "name": name, "arguments": value}}


KINDS: list[tuple[Any, str, Any]] = [
    (Line, '{"total": 2}', Line(total=2)),
    (Invoice, '{"day": "2026-01-31", "lines": []}', Invoice(day=datetime.date(2026, 1, 31), lines=[])),
    (Point, '{"x": 1}', Point(1)),
    (Point, '{"x": 1.0, "y": 2}', Point(1, 2.0)),
    (Movie, '{"title": "M"}', {"title": "M"}),
    (Color, '"red"', Color.RED),
    (list[Point], '[{"x": 1}]', [Point(1)]),
    (tuple[int, str], '[1, "a"]', (1, "a")),
    (int, "3", 3),
    # Its schema has a pattern with a look-ahead.
    (decimal.Decimal, '"0.10"', decimal.Decimal("0.10")),
    (bool, "false", False),
    (int | None, "null", None),
    (Pet, '{"kind": "dog"}', Dog(kind="dog")),
    (Node, '{"the/name": "a", "children": [{"the/name": "b"}]}', None),
    ({"type": "object"}, '{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
]


@pytest.mark.parametrize(("kind", "text", "value"), KINDS)
async def test_value_has_its_type(kind: Any, text: str, value: Any) -> None:
    async with open_session(says(text)) as session:
        result = (await session.prompt("Go", output=kind)).raise_for_status()
    assert result.text == text
    if kind is Node:
        assert (result.output.name, result.output.children[0].name) == ("a", "b")
    else:
        assert result.output == value
        assert type(result.output) is type(value)


async def test_tool_of_session_takes_value() -> None:
    described = Output(Point, name="point", description="A point.")
    async with open_session([calls({"x": 1}, "point")], says('{"total": 5}'), output=described) as session:
        assert (await session.prompt("Go")).output == Point(1)
        assert (await session.prompt("Go", output=Line)).output == Line(total=5)
        assert session.external_tools.accepted == []


async def test_errors_of_type_reach_model() -> None:
    script = [calls({"lines": [{"total": 0}], "day": "2026-01-31"}), {"text": "{{last.message}}"}]
    valid = {"lines": [{"total": 1}], "day": "2026-01-31"}
    async with open_session([*script, calls(valid)], output=Invoice) as session:
        result = await session.prompt("Go")
    assert "- /lines/0/total: expected a positive number\n" in result.text
    assert result.output == Invoice.model_validate_json('{"day": "2026-01-31", "lines": [{"total": 1}]}')
    assert result.handler_failures == []


@pytest.mark.parametrize(
    ("kind", "value", "errors"),
    [
        (Line, {}, [("/total", "Field required")]),
        (list[Line], [{"total": 1}, {"total": -1}], [("/1/total", "expected a positive number")]),
        (Node, {"the/name": "a", "children": [{"the/name": 1}]}, [("/children/0/the~1name", None)]),
        (dict[str, int], {"a~b": "x", "c/d": "y"}, [("/a~0b", None), ("/c~1d", None)]),
        (Pet, {"kind": "cat", "lives": 7}, [("", "expected nine lives")]),
        (Pet, {"kind": "cat", "lives": "x"}, [("/lives", None)]),
        (list[Cat | int], [{"kind": "cat"}], [("/0/lives", "Field required")]),
        (int, "x", [("", None)]),
    ],
)
def test_errors_have_json_pointers(kind: Any, value: Any, errors: list[tuple[str, str | None]]) -> None:
    found = TypeSchema(kind).read(value)[1]
    assert [error["pointer"] for error in found] == [pointer for pointer, _ in errors]
    for error, (_, message) in zip(found, errors, strict=True):
        assert error["message"]
        assert message in (None, error["message"])


def test_schema_has_no_repeated_titles() -> None:
    schema = Output(Line).json_schema
    assert schema["properties"]["total"] == {"type": "integer"}
    assert schema["required"] == ["total"]


async def test_failure_of_check_is_handler_failure(caplog: pytest.LogCaptureFixture) -> None:
    def fail(value: int) -> int:
        if value < 3:
            raise RuntimeError("the database is closed")
        return value

    kind: Any = Annotated[int, pydantic.AfterValidator(fail)]
    async with open_session(says("1"), says("2"), says("3")) as session:
        turn = session.prompt("Go", output=kind)
        failures = [event.message async for event in turn if isinstance(event, HandlerFailed)]
        result = await turn.result()
    assert result.output == 3
    assert failures == [failure.message for failure in result.handler_failures] == ["the database is closed"] * 2
    assert {failure.handler for failure in result.handler_failures} == {"output"}
    logged = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage().partition(".")[0] for record in logged] == ["the check of `output` failed"]
    assert logged[0].exc_info is not None
    assert isinstance(logged[0].exc_info[1], RuntimeError)


async def test_failure_of_check_is_cause() -> None:
    def fail(value: int) -> int:
        raise RuntimeError("the database is closed")

    kind: Any = Output(Annotated[int, pydantic.AfterValidator(fail)], name="number", retries=0)
    async with open_session([calls(1, "number")], says("no"), output=kind) as session:
        with pytest.raises(OutputInvalid, match="correct the check of `output`") as caught:
            await session.prompt("Go")
        (failure,) = caught.value.result.handler_failures
        assert (failure.handler, failure.tool_call and failure.tool_call.name) == ("output", "number")
        assert isinstance(caught.value.__cause__, RuntimeError)
        with pytest.raises(OutputInvalid, match="simplify the schema") as caught:
            await session.prompt("Go")
        assert caught.value.__cause__ is None


async def test_numbers_above_64_bits_are_rounded() -> None:
    plain: dict[str, Any] = {"type": "integer"}
    exact, large = [-(2**63), 2**53 + 1, 2**64 - 1], 2**64 + 1
    async with open_session(*(says(str(n)) for n in (*exact, *exact, large))) as session:
        for schema in (plain, int):
            assert [(await session.prompt("Go", output=schema)).output for _ in exact] == exact
        assert (await session.prompt("Go", output=plain)).output == float(large)
    # The type does not take the rounded number.
    async with open_session(says(str(large)), says("1")) as session:
        result = await session.prompt("Go", output=int)
        assert (result.output, result.steps) == (1, 2)


async def test_refused_tool_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    output = Output({"type": "object"}, name="Shell")
    async with open_session(says("{}"), output=output) as session:
        assert (await session.prompt("Go")).output == {}
    (logged,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert logged.startswith("the agent refused the tool of the output")
    assert "Shell" in logged


async def test_check_runs_once_for_result() -> None:
    checked: list[int] = []

    def check(value: int) -> list[int]:
        checked.append(value)
        return [value]

    kind: Any = Annotated[int, pydantic.AfterValidator(check)]
    async with open_session(says("1"), says("2"), output=Output(kind, mode="text")) as session:
        first = session.prompt("Go")
        found = (await first.result()).output
        assert (found, checked) == ([1], [1])
        assert (await first.result()).output is found
        second = await session.prompt("Go")
        assert (second.output, checked) == ([2], [1, 2])


async def test_late_result_has_own_value() -> None:
    async with open_session(says("1"), says("true"), output=Output(Any, mode="text")) as session:
        first = session.prompt("Go")
        async for _ in first:
            pass
        assert (await session.prompt("Go")).output is True
        assert type((await first.result()).output) is int


async def test_invalid_output_has_last_attempt() -> None:
    async with open_session(says("no"), says('{"total": 0}'), says("Fine")) as session:
        with pytest.raises(OutputInvalid) as caught:
            await session.prompt("Go", output=Output(Line, retries=1))
        error = caught.value
        assert (error.attempts, error.text) == (2, '{"total": 0}')
        assert error.errors == [OutputError("/total", "expected a positive number")]
        assert str(error.errors[0]) == "/total: expected a positive number"
        assert (error.result.status, error.result.steps, error.result.output) == ("finished", 2, None)
        assert not error.retryable
        assert (await session.prompt("Go")).text == "Fine"


async def test_cancelled_turn_has_no_value() -> None:
    async with open_session([{"text": "On"}, {"wait_cancel": True}], output=Line) as session:
        turn = session.prompt("Go")
        await turn.cancel()
        result = await turn.result()
        assert (result.status, result.output) == ("cancelled", None)


async def test_one_shot_uses_tool() -> None:
    agent = scripted_agent([[calls({"x": 4})]])
    turn = kimi_agent.prompt("Go", executable=agent, output=Point)
    assert (await turn).output == Point(4)


def test_blocking_api_returns_value() -> None:
    agent = scripted_agent([[calls({"total": 0}), calls({"total": 3})], says('{"x": 1}')])
    with sync.create_session(executable=agent, output=Line) as session:
        assert session.prompt("Go").result().output == Line(total=3)
        assert session.prompt("Go", output=Point).result().output == Point(1)
    with pytest.raises(OutputInvalid):
        sync.prompt("Go", executable=scripted_agent([says("no")]), output=Output(Line, retries=0)).result()


async def test_checks_end_with_their_turns() -> None:
    async with open_session(says("1"), says("2")) as session:
        turn = session.prompt("Go", output=int)
        await turn.result()
        turn = session.prompt("Go", output=int)
        await turn.result()
        assert len(session._handlers._checks) == 1
        del turn
        gc.collect()
        assert len(session._handlers._checks) == 0


def test_output_has_its_details() -> None:
    output = Output(Line, name="line", mode="tool", retries=0)
    assert (output.schema, output.name, output.description) == (Line, "line", None)
    assert (output.mode, output.retries) == ("tool", 0)
    assert repr(output) == "Output(Line, name='line')"
    assert repr(Output({"type": "object"})) == "Output({'type': 'object'}, name='final_result')"
    encoded, check = read_output(output)
    assert check is not None
    assert encoded == {
        "schema": {
            "type": "object",
            "properties": {"total": {"type": "integer"}},
            "required": ["total"],
            "title": "Line",
        },
        "name": "line",
        "description": None,
        "mode": "tool",
        "retries": 0,
    }
    assert read_output(None) == (None, None)


class Odd:
    """A class that pydantic cannot describe."""


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("Line", 'expected a type, a JSON Schema as a dict, or an Output with one of them; got "Line"'),
        (3, "expected a type, a JSON Schema as a dict, or an Output with one of them; got 3"),
        ([Line], "an Output with one of them; got an object of type list"),
        (kimi_agent.image, "an Output with one of them; got the function image"),
        (print, "an Output with one of them; got the function print"),
        (Odd, "pydantic does not know <class '.*Odd'>; use a pydantic model, a dataclass or a TypedDict instead$"),
        (list[Odd], "pydantic does not know <class '.*Odd'>"),
        (Odd(), "got an object of type .*Odd, which is not a type$"),
        (Line(total=1), "got an object of type .*Line, which is not a type$"),
        (Output, "the type cannot be described with a JSON Schema"),
        ({"type": "text"}, "the schema is not a JSON Schema: at `/type`"),
        ({"type": {1}}, "the schema is not a JSON Schema"),
        ({"type": object()}, "builtins.object has no JSON form"),
    ],
)
async def test_wrong_output_is_refused(output: Any, problem: str) -> None:
    with pytest.raises(InvalidOption, match=f"^invalid option `output`: .*{problem}") as caught:
        await open_session(says("Fine"), output=output)
    assert caught.value.option == "output"
    async with open_session(says("Fine")) as session:
        with pytest.raises(InvalidOption, match=problem):
            session.prompt("Go", output=output)
        assert (await session.prompt("Go")).text == "Fine"


@pytest.mark.parametrize(
    ("details", "problem"),
    [
        ({"name": "a b"}, "a tool's name"),
        ({"mode": "json"}, "`mode`"),
        ({"retries": -1}, "`retries`: expected a whole"),
        ({"retries": 2**32}, "`retries`: expected a whole number from 0 to 4294967295, got 4294967296"),
        ({"retries": float("inf")}, "inf is not a finite number"),
    ],
)
async def test_wrong_details_are_refused(details: Any, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        await open_session(says("Fine"), output=Output(Line, **details))


async def test_agent_has_no_output() -> None:
    with pytest.raises(InvalidOption, match="create_session"):
        await kimi_agent.open_agent(output=Line)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_schema_needs_no_pydantic() -> None:
    program = """
import sys
sys.modules["pydantic"] = None
import kimi_agent
kimi_agent.Output({"type": "object"})
try:
    kimi_agent.Output(int)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith('`output` with a type needs pydantic 2: pip install "kimi-agent[tools]"')
