"""The program's functions, called on behalf of the agent."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support import LOOKUP, collect, eventually, open_session, read_until, texts

from kimi_agent import (
    ApprovalRequest,
    ApprovalResponse,
    Block,
    Event,
    ExternalTool,
    HandlerFailed,
    Hook,
    InvalidOption,
    Notification,
    QuestionRequest,
    Reject,
    TextPart,
    ToolCallRequest,
    ToolResult,
    ToolReturnValue,
    UnknownEvent,
    prompt,
    tool,
)
from kimi_agent.testing import scripted_agent

ASKS: list[dict[str, Any]] = [
    {
        "tool_call": {
            "id": "c1",
            "name": "WriteFile",
            "approve": {"action": "edit file", "description": "Write out.txt"},
            "effect": {"write_file": "out.txt", "content": "x"},
            "result": "written",
        }
    },
    {"text": "{{last.response}}"},
]
QUESTION: list[dict[str, Any]] = [
    {"question": {"questions": [{"question": "Which?", "options": ["A", "B"], "multi_select": True}]}},
    {"text": "{{last.answers.Which?}}"},
]
CALLS: list[dict[str, Any]] = [LOOKUP, {"text": "{{last.is_error}}: {{last.output}}{{last.message}}"}]
LOOKUP_SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}}


def lookup(handler: Any, timeout: float | None = None) -> ExternalTool:
    return ExternalTool("lookup", "Looks up.", LOOKUP_SCHEMA, handler, timeout)


def failures(events: list[Event]) -> list[HandlerFailed]:
    return [event for event in events if isinstance(event, HandlerFailed)]


async def test_approved_request_is_carried_out(tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []

    async def on_approval(request: ApprovalRequest) -> str:
        asked.append(request)
        return "approve"

    async with open_session(ASKS, work_dir=tmp_path, on_approval=on_approval) as session:
        events = await collect(session.prompt("Go"))
    assert asked == [event for event in events if isinstance(event, ApprovalRequest)]
    assert (asked[0].action, asked[0].description) == ("edit file", "Write out.txt")
    assert texts(events) == "approve"
    assert (tmp_path / "out.txt").read_text() == "x"


async def test_invalid_tool_arguments_error(caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []

    @tool
    def lookup(key: int, limit: int = 1) -> str:
        """Looks up."""
        called.append(key)
        return "found"

    call = {"external_tool": {"name": "lookup", "arguments": {"key": "a", "limit": "b"}}}
    async with open_session([call, {"text": "{{last.message}}"}], tools=[lookup]) as session:
        events = await collect(session.prompt("Go"))
    mistakes = [f"{name}: Input should be a valid integer" for name in ("key", "limit")]
    assert texts(events) == f"invalid arguments: {'; '.join(mistakes)}"
    assert not [event for event in events if isinstance(event, HandlerFailed)]
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
    assert called == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [("reject", ""), (Reject("not there"), "reject"), ("approve_for_session", "approve_for_session")],
)
async def test_plain_function_answers_approval(tmp_path: Path, answer: Any, said: str) -> None:
    threads: list[threading.Thread] = []

    def on_approval(request: ApprovalRequest) -> Any:
        threads.append(threading.current_thread())
        return answer

    async with open_session(ASKS, work_dir=tmp_path, on_approval=on_approval) as session:
        events = await collect(session.prompt("Go"))
    assert texts(events) == said
    assert (tmp_path / "out.txt").exists() == (answer == "approve_for_session")
    # Off the loop, so that it may block.
    assert threads[0] is not threading.current_thread()
    if isinstance(answer, Reject):
        response = next(event for event in events if isinstance(event, ApprovalResponse))
        assert response.feedback == "not there"


async def test_manual_requests_are_answered_with_respond(tmp_path: Path) -> None:
    async with open_session(ASKS, QUESTION, work_dir=tmp_path, on_approval="manual", on_question="manual") as session:
        turn = session.prompt("Go")
        async for event in turn:
            if isinstance(event, ApprovalRequest):
                with pytest.raises(InvalidOption) as caught:
                    await turn.respond(event, "perhaps")  # type: ignore[call-overload] # pyright: ignore
                assert caught.value.option == "answer"
                for answer in ({"Which?": "A"}, None):
                    with pytest.raises(InvalidOption):
                        await turn.respond(event, answer)  # type: ignore[call-overload] # pyright: ignore
                await turn.respond(event, "approve")
                # Twice does no harm.
                await turn.respond(event.id, "approve")
        assert (tmp_path / "out.txt").exists()
        turn = session.prompt("Ask")
        request: QuestionRequest = await read_until(turn, QuestionRequest)
        with pytest.raises(InvalidOption):
            await turn.respond(request, "approve")  # type: ignore[call-overload] # pyright: ignore
        await turn.respond(request, {"Which?": "A"})
        assert (await turn.result()).text == "A"
        with pytest.raises(InvalidOption):
            await session.respond("nothing-like-it", "approve")


async def test_request_outside_turn_is_answered() -> None:
    background = {
        "id": "a1", "tool_call_id": "c1", "sender": "Shell", "action": "run command", "description": "Run it",
        "source_kind": "background_agent", "source_id": "g1",
    }  # fmt: skip
    note = {
        "id": "n1", "category": "task", "type": "done", "source_kind": "task", "source_id": "t1",
        "title": "{{last.response}} {{last.feedback}}", "body": "", "severity": "info", "created_at": 1,
    }  # fmt: skip
    turn = [
        {"text": "Started"},
        {"end": "finished"},
        {"request": {"type": "ApprovalRequest", "payload": background}},
        {"event": {"type": "Notification", "payload": note}},
    ]
    outside: asyncio.Queue[Event] = asyncio.Queue()
    async with open_session(turn, on_approval="manual", on_event=outside.put_nowait) as session:
        await session.prompt("Go").result()
        request = await outside.get()
        assert isinstance(request, ApprovalRequest)
        await session.respond(request, Reject("not now"))
        answered = await outside.get()
        assert isinstance(answered, Notification)
        assert answered.title == "reject not now"


async def test_events_outside_turns_come_in_order() -> None:
    noise = [{"event": {"type": "Noise", "payload": {"n": n}}} for n in range(50)]
    got: list[int] = []
    done = asyncio.Event()

    async def on_event(event: Event) -> None:
        assert isinstance(event, UnknownEvent)
        if event.payload["n"] % 7 == 0:
            # A slow one does not let others pass.
            await asyncio.sleep(0.001)
        got.append(event.payload["n"])
        if len(got) == 50:
            done.set()

    async with open_session([{"text": "x"}, {"end": "finished"}, *noise], on_event=on_event) as session:
        assert texts(await collect(session.prompt("Go"))) == "x"
        await done.wait()
    assert got == list(range(50))


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("text", "false: text"),
        ({"a": [1, 2.5, None]}, 'false: {"a":[1,2.5,null]}'),
        (None, "false: "),
        (ToolReturnValue.error("no such key"), "true: no such key"),
        (ToolReturnValue.ok({"n": 1}, "fine"), 'false: {"n": 1}fine'),
        (TextPart("a part"), 'false: [{"type":"text","text":"a part"}]'),
    ],
)
async def test_tool_result_reaches_model(returned: Any, said: str) -> None:
    async def handler(arguments: dict[str, Any]) -> Any:
        assert arguments == {"key": "a"}
        return returned

    async with open_session(CALLS, tools=[lookup(handler)]) as session:
        assert session.external_tools.accepted == ["lookup"]
        events = await collect(session.prompt("Go"))
    assert texts(events).replace(", ", ",").replace(": ", ":") == said.replace(", ", ",").replace(": ", ":")
    assert failures(events) == []


async def test_decorated_function_is_called_as_tool() -> None:
    @tool
    def lookup(key: str, depth: int = 2) -> dict[str, Any]:
        """Looks up a value.

        Args:
            key: what to look for.
        """
        return {key: depth}

    wrong = {"external_tool": {"id": "t2", "name": "lookup", "arguments": {"key": 5}}}
    async with open_session([LOOKUP, wrong, {"text": "{{last.message}}"}], tools=[lookup]) as session:
        events = await collect(session.prompt("Go"))
    first, second = [event.return_value for event in events if isinstance(event, ToolResult)]
    assert (first.is_error, first.output) == (False, '{"a":2}')
    assert second.is_error
    assert "key" in texts(events)


async def test_plain_tools_run_concurrently() -> None:
    barrier = threading.Barrier(3, timeout=60)

    def handler(arguments: dict[str, Any]) -> str:
        barrier.wait()
        return "ok"

    calls = [{"external_tool": {"id": f"t{n}", "name": "lookup", "arguments": {}}} for n in range(3)]
    async with open_session([{"parallel": calls}, {"text": "Done"}], tools=[lookup(handler)]) as session:
        events = await collect(session.prompt("Go"))
    assert texts(events) == "Done"
    assert failures(events) == []


async def test_handlers_see_context_of_caller() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []

    async def asynchronous(arguments: dict[str, Any]) -> str:
        seen.append(who.get())
        who.set("a handler")
        return "ok"

    def plain(request: Any) -> Any:
        seen.append(who.get())

    outside: asyncio.Queue[str] = asyncio.Queue()
    who.set("the opener")
    hook = Hook("PreToolUse", None, plain)
    turn = [LOOKUP, {"end": "finished"}, {"event": {"type": "Noise", "payload": {}}}]
    options: dict[str, Any] = {"hooks": [hook], "on_event": lambda event: outside.put_nowait(who.get())}
    async with open_session(turn, turn, tools=[lookup(asynchronous)], **options) as session:
        who.set("the first prompt")
        await session.prompt("Go").result()
        assert await outside.get() == "the opener"
        who.set("the second prompt")
        await session.prompt("Go").result()
        assert await outside.get() == "the opener"
    assert seen == ["the first prompt", "the first prompt", "the second prompt", "the second prompt"]
    assert who.get() == "the second prompt"


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (RuntimeError("the drawer is locked"), "the drawer is locked"),
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError(), "ValueError"),
        (StopIteration(3), "StopIteration"),
        (SystemExit(2), "SystemExit"),
    ],
)
async def test_raising_tool_reports_error(
    kind: str, failure: BaseException, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def asynchronous(arguments: dict[str, Any]) -> Any:
        raise failure

    def plain(arguments: dict[str, Any]) -> Any:
        raise failure

    handler = asynchronous if kind == "async" else plain
    async with open_session(CALLS, [{"text": "Back"}], tools=[lookup(handler)]) as session:
        events = await collect(session.prompt("Go"))
        assert (await session.prompt("Again").result()).text == "Back"
    (failed,) = failures(events)
    assert (failed.handler, failed.name, failed.request_id) == ("tool", "lookup", "t1")
    assert said in failed.message
    assert said in texts(events)
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert warning.getMessage().startswith("tool lookup failed. ")
    assert warning.exc_info is not None


async def test_invalid_handler_result_default(tmp_path: Path) -> None:
    nonsense: Any = lambda value: object()  # noqa: E731
    hooks = [Hook("PreToolUse", None, nonsense)]
    options: dict[str, Any] = {"on_approval": nonsense, "on_question": nonsense, "hooks": hooks, "work_dir": tmp_path}
    async with open_session(CALLS, ASKS, QUESTION, tools=[lookup(nonsense)], **options) as session:
        kinds: list[str] = []
        for _ in range(3):
            events = await collect(session.prompt("Go"))
            kinds += [failed.handler for failed in failures(events)]
            assert all("object" in failed.message for failed in failures(events))
    assert kinds == ["hook", "tool", "hook", "approval", "hook", "question"]
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("yes", r"""^invalid option `answer`: expected "approve", .* as an approval, got "yes"$"""),
        (3, r"as an approval, got 3$"),
        (object(), r"""^invalid option `answer`: got an object of type object; expected "approve", """),
        ({"reject": b"no"}, r"got an object of type dict, and builtins\.bytes has no JSON form; expected"),
        (Reject, r"""^invalid option `answer`: got the class Reject, not an object of it: use Reject\("feedback"\)$"""),
    ],
)
async def test_respond_with_wrong_type_fails(answer: Any, text: str, tmp_path: Path) -> None:
    async with open_session(ASKS, on_approval="manual", work_dir=tmp_path) as session:
        turn = session.prompt("Go")
        async for event in turn:
            if isinstance(event, ApprovalRequest):
                with pytest.raises(InvalidOption, match=text):
                    await turn.respond(event, answer)
                await turn.respond(event, "approve")


async def test_failing_approval_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def on_approval(request: Any) -> Any:
        raise RuntimeError("on purpose")

    async with open_session(ASKS, work_dir=tmp_path, on_approval=on_approval) as session:
        await session.prompt("Go").result()
    assert "on_approval failed. The action is rejected. " in caplog.text


async def test_failing_observer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    outside: list[Event] = []

    def on_event(event: Event) -> None:
        outside.append(event)
        raise RuntimeError("on purpose")

    noise = {"event": {"type": "Noise", "payload": {}}}
    async with open_session([{"text": "x"}, {"end": "finished"}, noise, noise], on_event=on_event) as session:
        await session.prompt("Go").result()
        # The next one comes all the same.
        assert await eventually(lambda: len(outside) == 2)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == ["on_event failed. Further failures are logged at the level DEBUG"]


async def test_cancelled_turn_cancels_its_handlers() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def handler(arguments: dict[str, Any]) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with open_session(CALLS, tools=[lookup(handler)]) as session:
        turn = session.prompt("Go")
        await started.wait()
        await turn.cancel()
        await ended.wait()
        assert (await turn.result()).status == "cancelled"


async def test_closing_cancels_handlers(tmp_path: Path) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def on_approval(request: ApprovalRequest) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise
        return "approve"

    async with open_session(ASKS, on_approval=on_approval, work_dir=tmp_path) as session:
        # Held, or it would be cancelled at once.
        turn = session.prompt("Go")
        await started.wait()
    await ended.wait()
    assert (await turn.result()).status == "cancelled"


async def test_self_cancelled_handler_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(arguments: dict[str, Any]) -> str:
        raise asyncio.CancelledError

    async with open_session(CALLS, tools=[lookup(handler)]) as session:
        events = await collect(session.prompt("Go"))
    # Before Python 3.11, nothing says who has cancelled the handler.
    is_known = sys.version_info >= (3, 11)
    assert [failed.message for failed in failures(events)] == ["CancelledError" if is_known else "cancelled"]
    assert any("tool lookup failed" in record.message for record in caplog.records) == is_known


async def test_handler_may_use_its_turn() -> None:
    turns: list[Any] = []

    async def handler(arguments: dict[str, Any]) -> str:
        await turns[0].steer("by the way")
        return "ok"

    async with open_session([LOOKUP, {"wait_steer": True}, {"text": "{{steer}}"}], tools=[lookup(handler)]) as session:
        turns.append(session.prompt("Go"))
        assert (await turns[0].result()).text == "by the way"


async def test_handler_may_cancel_its_turn() -> None:
    turns: list[Any] = []

    async def handler(arguments: dict[str, Any]) -> str:
        await turns[0].cancel()
        return "never"

    async with open_session(CALLS, tools=[lookup(handler)]) as session:
        turns.append(session.prompt("Go"))
        assert (await turns[0].result()).status == "cancelled"


async def test_hooks(tmp_path: Path) -> None:
    seen: list[Any] = []

    def before(request: Any) -> Any:
        seen.append(request)
        return Block("read only") if request.target == "WriteFile" else "allow"

    calls = [
        {"tool_call": {"name": "ReadFile", "result": "ok"}},
        {"tool_call": {"name": "WriteFile", "effect": {"write_file": "out.txt", "content": "x"}, "result": "ok"}},
    ]
    hooks = [Hook("PreToolUse", "File", before)]
    async with open_session(calls, hooks=hooks, work_dir=tmp_path) as session:
        events = await collect(session.prompt("Go"))
    assert [request.target for request in seen] == ["ReadFile", "WriteFile"]
    assert not (tmp_path / "out.txt").exists()
    first, second = [event.return_value for event in events if isinstance(event, ToolResult)]
    assert (first.is_error, second.is_error, second.message) == (False, True, "read only")


async def test_requests_in_stream() -> None:
    async with open_session(CALLS, tools=[lookup(lambda arguments: "ok")]) as session:
        events = await collect(session.prompt("Go"))
    assert sum(isinstance(event, ToolCallRequest) for event in events) == 1


async def test_log_of_one_shot_prompt(caplog: pytest.LogCaptureFixture) -> None:
    asks: Any = [[{"tool_call": {"name": "Shell", "approve": True, "result": "x"}}]]
    await prompt("Hi", executable=scripted_agent(asks))
    assert "rejected because no handler answers: set `on_approval`" in caplog.text
    caplog.clear()
    wrong: Any = lambda request: True  # noqa: E731
    await prompt("Hi", executable=scripted_agent(asks), on_approval=wrong)
    assert "the handler returned true" in caplog.text
