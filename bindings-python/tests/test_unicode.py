"""Texts that are not valid Unicode, such as the names of files that are not UTF-8."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pydantic
import pytest
from support import LOOKUP, collect, open_session

import kimi_agent
from kimi_agent import (
    ExternalTool,
    HandlerFailed,
    InvalidOption,
    Job,
    KimiAgentError,
    Policy,
    Reject,
    TextPart,
    ToolArgumentError,
    ToolResult,
    ToolReturnValue,
    run_batch,
    sync,
)
from kimi_agent._encode import to_jsonable, valid_unicode
from kimi_agent.testing import scripted_agent

pytestmark = pytest.mark.interpreter

# As `os.listdir()` returns the name of a file whose bytes are `b\xe9.md`.
NAME = "b\udce9.md"
EXPECTED = r"expected valid Unicode, got text with '\\udce9' at index 1.*half of a surrogate pair; replace it with"
ECHO: list[Any] = [[{"text": "{{prompt}}!"}]]


class Word(str, enum.Enum):
    WRONG = NAME


@pytest.mark.parametrize(
    "content", [NAME, [NAME], TextPart(NAME), {"type": "text", "text": NAME}, ["b", "\ud83d.md"], "\ud83d\ude00"]
)
async def test_text_of_prompt_is_made_valid(content: Any) -> None:
    async with open_session(ECHO[0]) as session:
        text = (await session.prompt(content).result()).text
    assert text in ("b\ufffd.md!", "\U0001f600!")


def test_sync_text_of_prompt_is_made_valid() -> None:
    assert sync.prompt(NAME, executable=scripted_agent(ECHO)).result().text == "b\ufffd.md!"


async def test_member_of_part_is_made_valid() -> None:
    async with open_session(ECHO[0]) as session:
        part: Any = {"type": "text", "text": "a", NAME: 1}
        assert (await session.prompt(part).result()).text == "a!"


async def test_remedy_of_error_is_valid() -> None:
    async with open_session([{"text": "{{prompt}}"}]) as session:
        result = await session.prompt(NAME.encode("utf-8", "replace").decode()).result()
    assert result.text == "b?.md"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("model", NAME),
        ("model", Word.WRONG),
        ("env", {"A": NAME}),
        ("env", {NAME: "a"}),
        ("redact", [NAME]),
        ("tools", [ExternalTool("a", NAME, {"type": "object"}, print)]),
    ],
)
async def test_option_not_unicode(option: str, value: Any) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(InvalidOption, match=f"`{option}`: .*{EXPECTED}") as refused:
        await open_session(**options)
    assert refused.value.option == option


@pytest.mark.parametrize("option", ["work_dir", "record", "config_file"])
async def test_path_not_utf8(option: str) -> None:
    options: dict[str, Any] = {option: NAME}
    with pytest.raises(InvalidOption, match=f"`{option}`: expected a path in UTF-8, .*; rename the file") as refused:
        await open_session(**options)
    assert "replace" not in str(refused.value)


async def test_prompt_option_not_unicode() -> None:
    async with open_session([{"text": "a"}]) as session:
        options: dict[str, Any] = {"timeout": NAME}
        with pytest.raises(InvalidOption, match="`timeout`: " + EXPECTED):
            session.prompt("a", **options)


async def test_other_arguments_not_unicode() -> None:
    async with open_session() as session:
        with pytest.raises(InvalidOption, match=EXPECTED):
            await session.set_config_option(NAME, "a")
    options: dict[str, Any] = {NAME: 1}
    with pytest.raises(InvalidOption, match=EXPECTED):
        await open_session(**options)


def test_policy_not_unicode() -> None:
    with pytest.raises(InvalidOption, match="`policy`: " + EXPECTED):
        Policy({"deny": [NAME]})
    with pytest.raises(InvalidOption, match="`policy`: expected a path in UTF-8"):
        Policy.load(NAME)
    with pytest.raises(InvalidOption, match="`tool_call`: " + EXPECTED):
        Policy({}).check({"name": NAME})


@pytest.mark.parametrize(
    ("job", "option"),
    [
        ({"prompt": "a", "key": NAME}, "key"),
        ({"prompt": "a", "model": NAME}, "model"),
    ],
)
async def test_job_not_unicode(job: Any, option: str) -> None:
    batch = run_batch(["a", job, "b"], executable=scripted_agent(ECHO), concurrency=1)
    found = sorted([result async for result in batch], key=lambda result: result.index)
    assert [result.text for result in found] == ["a!", "", "b!"]
    error = found[1].error
    assert isinstance(error, InvalidOption)
    assert error.option == option
    assert "expected valid Unicode" in str(error)


@pytest.mark.parametrize("job", [NAME, {"prompt": NAME}, Job(["b", "\udce9.md"]), TextPart(NAME)])
async def test_prompt_of_job_is_made_valid(job: Any) -> None:
    (result,) = [found async for found in run_batch([job], executable=scripted_agent(ECHO))]
    assert result.text == "b\ufffd.md!"


async def test_data_of_job_is_made_valid() -> None:
    (result,) = [found async for found in run_batch([Job("a", data={NAME: [NAME]})], executable=scripted_agent(ECHO))]
    assert result.data == {"b\ufffd.md": ["b\ufffd.md"]}


@pytest.mark.parametrize(("name", "shown"), [(NAME, "b\ufffd.md"), (5, "5")])
async def test_wrong_name_in_job_fails_it_alone(name: Any, shown: str) -> None:
    batch = run_batch([{"prompt": "a", name: 1}, "b"], executable=scripted_agent(ECHO), concurrency=1)
    found = [result async for result in batch]
    assert f"`{shown}`: unknown option" in str(found[0].error)
    assert found[1].text == "b!"


async def test_failing_iterable_not_unicode() -> None:
    def jobs() -> Iterator[str]:
        yield "a"
        raise LookupError(NAME)

    batch = run_batch(jobs(), executable=scripted_agent(ECHO))
    assert (await anext(batch)).text == "a!"
    with pytest.raises(InvalidOption, match=r"LookupError: b\ufffd\.md"):
        await anext(batch)


def _raise(error: Exception) -> Any:
    raise error


class Found(pydantic.BaseModel):
    file: str


@pytest.mark.parametrize(
    ("handler", "output"),
    [
        (lambda _: NAME, "b\ufffd.md"),
        (lambda _: {"file": NAME}, '{"file":"b\ufffd.md"}'),
        (lambda _: Found(file=NAME), '{"file":"b\ufffd.md"}'),
        (lambda _: [TextPart(NAME)], '[{"type":"text","text":"b\ufffd.md"}]'),
        (lambda _: ToolReturnValue.ok(NAME), "b\ufffd.md"),
    ],
)
async def test_result_of_tool_is_made_valid(handler: Callable[[dict[str, Any]], Any], output: str) -> None:
    tools = [ExternalTool("lookup", "Looks up a file.", {"type": "object"}, handler)]
    async with open_session([LOOKUP, {"text": "{{last.output}}"}], tools=tools) as session:
        assert (await session.prompt("Go").result()).text == output


async def test_failure_of_tool_is_made_valid(caplog: pytest.LogCaptureFixture) -> None:
    tools = [ExternalTool("lookup", "Looks.", {"type": "object"}, lambda _: _raise(ValueError(f"no {NAME}")))]
    with caplog.at_level(logging.WARNING, "kimi_agent"):
        async with open_session([LOOKUP, {"text": "a"}], tools=tools) as session:
            events = await collect(session.prompt("Go"))
    (failure,) = [event for event in events if isinstance(event, HandlerFailed)]
    assert "no b\ufffd.md" in failure.message
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert result.return_value.is_error
    # The core reports the failure, too, which is logged once.
    assert len(caplog.records) == 1


async def test_tool_argument_error_not_unicode() -> None:
    def lookup(_: Any) -> str:
        raise ToolArgumentError(f"key: no {NAME}")

    tools = [ExternalTool("lookup", "Looks up a file.", {"type": "object"}, lookup)]
    async with open_session([LOOKUP, {"text": "a"}], tools=tools) as session:
        events = await collect(session.prompt("Go"))
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert result.return_value.message == "key: no b\ufffd.md"


APPROVE = {"tool_call": {"name": "Shell", "approve": {"action": "run command", "description": "Run it"}}}


async def test_feedback_is_made_valid() -> None:
    async with open_session([APPROVE, {"text": "{{last.feedback}}"}], on_approval=lambda _: Reject(NAME)) as session:
        result = await asyncio.wait_for(session.prompt("Go").result(), 60)
    assert result.text == "b\ufffd.md"


async def test_manual_answer_is_made_valid() -> None:
    async with open_session([APPROVE, {"text": "{{last.feedback}}"}], on_approval="manual") as session:
        turn = session.prompt("Go")
        async for event in turn:
            if isinstance(event, kimi_agent.ApprovalRequest):
                await turn.respond(event, Reject(NAME))
        assert (await turn.result()).text == "b\ufffd.md"


def test_error_is_one_of_this_package_without_the_text() -> None:
    with pytest.raises(KimiAgentError) as refused:
        sync.prompt("a", model="secret" + NAME, executable=scripted_agent(ECHO))
    assert "secret" not in str(refused.value)


def test_values_that_become_text_are_checked() -> None:
    from pathlib import PurePosixPath

    class Report(pydantic.BaseModel):
        path: PurePosixPath

    for value in (PurePosixPath(NAME), Word.WRONG, {PurePosixPath(NAME): 1}):
        with pytest.raises(TypeError, match=EXPECTED):
            to_jsonable(value)
    assert to_jsonable(Report(path=PurePosixPath("a"))) == {"path": "a"}


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("a", "a"),
        ("é\U0001f600", "é\U0001f600"),
        (NAME, "b\ufffd.md"),
        ("\ud800", "\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
    ],
)
def test_valid_unicode_replaces_halves_of_pairs(text: str, valid: str) -> None:
    assert valid_unicode(text) == valid
