"""The types that checkers infer from `output`. mypy and pyright read this file, and the tests run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
from typing_extensions import TypedDict, assert_type

from kimi_agent import (
    Agent,
    Output,
    PromptOptions,
    PromptResult,
    Session,
    Turn,
    create_session,
    open_agent,
    prompt,
    run_batch,
    sync,
)
from kimi_agent.testing import scripted_agent


class Review(pydantic.BaseModel):
    approved: bool


@dataclass
class Point:
    x: int


class Movie(TypedDict):
    title: str


REVIEW = {"text": '{"approved": true}'}
POINT = {"text": '{"x": 1}'}
REVIEW_CALL = {"external_tool": {"id": "t1", "name": "final_result", "arguments": {"approved": True}}}
LIMITS: PromptOptions = {"timeout": 60}


async def test_prompt_has_type_of_output() -> None:
    agent = scripted_agent([[REVIEW], [POINT], [{"text": '{"title": "M"}'}], [{"text": "[1]"}], [REVIEW], [POINT]])
    async with create_session(executable=agent) as session:
        assert_type(session, Session[None])
        turn = session.prompt("Go", output=Review, timeout=60)
        assert_type(turn, Turn[Review])
        assert_type(await turn, PromptResult[Review])
        assert_type((await turn).output, Review | None)
        assert_type((await turn.result()).raise_for_status().output, Review)
        assert_type((await session.prompt("Go", output=Point)).output, Point | None)
        assert_type((await session.prompt("Go", output=Movie)).output, Movie | None)
        assert_type((await session.prompt("Go", output=list[int])).output, list[int] | None)
        assert_type((await session.prompt("Go", output=Output(Review, retries=1))).output, Review | None)
        union = Output(Review | Point)
        assert_type(union, Output[Review | Point])
        assert_type((await session.prompt("Go", output=union)).output, Review | Point | None)
        assert_type(Output(Annotated[Review | Point, pydantic.Field(description="A value")]), Output[Review | Point])
        assert_type(Output({"type": "object"}), Output[Any])


async def test_output_without_class_is_any() -> None:
    agent = scripted_agent([[REVIEW], [REVIEW], [{"text": "Fine"}], [{"text": "Fine"}]])
    async with create_session(executable=agent) as session:
        assert_type((await session.prompt("Go", output={"type": "object"})).output, Any | None)
        assert_type((await session.prompt("Go", output=Output({"type": "object"}))).output, Any | None)
        assert_type((await session.prompt("Go", **LIMITS)).output, Any | None)
        assert_type((await session.prompt("Go")).output, None)


async def test_union_without_output_is_known_to_pyright() -> None:
    # mypy takes Any.
    agent = scripted_agent([[REVIEW], [POINT]])
    async with create_session(executable=agent) as session:
        turn = session.prompt("Go", output=Review | Point)
        assert_type(turn, Turn[Review | Point])  # type: ignore[assert-type]
        assert (await turn).output == Review(approved=True)
        turn = session.prompt("Go", output=Annotated[Review | Point, pydantic.Field(description="A value")])
        assert_type(turn, Turn[Review | Point])  # type: ignore[assert-type]
        assert (await turn).output == Point(1)
    one_shot = prompt("Go", executable=agent, output=Point | None)
    assert_type(one_shot, Turn[Point | None])  # type: ignore[assert-type]
    await one_shot.cancel()


async def test_session_has_type_of_output() -> None:
    agent = scripted_agent([[REVIEW_CALL], [POINT]])
    async with create_session(executable=agent, output=Review) as session:
        assert_type(session, Session[Review])
        assert_type((await session.prompt("Go")).output, Review | None)
        assert_type((await session.prompt("Go", output=Point)).output, Point | None)
    opened = await create_session(executable=agent, output=Output(Point))
    assert_type(opened, Session[Point])
    await opened.close()


async def test_agent_and_one_shot_have_types() -> None:
    executable = scripted_agent([[REVIEW_CALL]])
    async with open_agent(executable=executable) as agent, agent.create_session(output=Review) as session:
        assert_type((await session.prompt("Go")).output, Review | None)
    turn = prompt("Go", executable=executable, output=Review)
    assert_type(turn, Turn[Review])
    assert_type((await turn).output, Review | None)
    plain = scripted_agent([[{"text": "Fine"}]])
    assert_type((await prompt("Go", executable=plain)).output, None)


def test_blocking_api_has_types() -> None:
    executable = scripted_agent([[REVIEW_CALL], [POINT]])
    with sync.create_session(executable=executable, output=Review) as session:
        assert_type(session, sync.Session[Review])
        assert_type(session.prompt("Go"), sync.Turn[Review])
        session.cancel()
        assert_type(session.prompt("Go", output=Point).result().output, Point | None)
    assert_type(sync.prompt("Go", executable=executable, output=Review).result().output, Review | None)
    with sync.open_agent(executable=executable) as agent, agent.create_session(output=Review) as other:
        assert_type(other.prompt("Go").result().output, Review | None)


def takes_any_turn(turn: Turn) -> None:
    """A function that programs annotate without the type of the value."""


async def test_bare_names_take_all_types() -> None:
    async with create_session(executable=scripted_agent([[REVIEW_CALL]]), output=Review) as session:
        bare: Session = session
        wider: Turn[pydantic.BaseModel] = session.prompt("Go")
        takes_any_turn(wider)
        assert (await wider).output == Review(approved=True)
        assert_type(bare, "Session[Any]")


def wrong_options_are_one_error_each() -> None:
    """Is not called. The codes are those of plain functions: an error of an overload lists all of its forms."""
    create_session(work_dri=".")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    create_session(yolo="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    create_session(output=Review, yolo="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    create_session(output="Review")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    create_session(output=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    prompt("Go", tiemout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    run_batch(["Go"], concurrency="4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sync.create_session(work_dri=".")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    sync.prompt("Go", tiemout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    sync.run_batch(["Go"], concurrency="4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def wrong_options_of_agents_are_one_error_each(agent: Agent, other: sync.Agent) -> None:
    """Is not called."""
    await agent.create_session(yolo="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await agent.resume("id", yolo="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await agent.fork("id", wrk_dir=".")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    other.resume("id", yolo="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
