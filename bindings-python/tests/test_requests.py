"""Tool calls in handlers and outcomes, and handlers that are refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any, cast

import pytest
from support import open_session

import kimi_agent
from kimi_agent import ApprovalRequest, Block, ExternalTool, Hook, ImageURLPart, InvalidOption, MediaURL, ToolResult

CALL = {
    "tool_call": {
        "name": "WriteFile",
        "id": "c1",
        "arguments": {"path": "a.txt"},
        "split": 2,
        "approve": {"action": "edit file", "description": "Write a.txt"},
        "result": "ok",
    }
}
IMAGE = ImageURLPart(MediaURL("data:image/png;base64,iVBORw0KGgo="))


async def test_approval_has_tool_call_outside_payload() -> None:
    requests: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> str:
        requests.append(request)
        return "approve"

    events: list[Any] = []
    async with open_session([CALL], on_approval=decide) as session:
        async for event in session.prompt("Go"):
            events.append(event)
    (request,) = requests
    assert request.tool_call is not None
    assert (request.tool_call.name, request.tool_call.arguments) == ("WriteFile", {"path": "a.txt"})
    assert "tool_call" not in request.to_dict()["payload"]
    unpickled = pickle.loads(pickle.dumps(request))
    assert unpickled == request
    assert unpickled.tool_call is None
    assert copy.copy(request).tool_call is request.tool_call
    assert ApprovalRequest.from_dict(request.to_dict()).tool_call is None
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert result.tool_call is not None
    assert result.tool_call.id == "c1"


async def test_outcome_lists_calls_rejections_and_failures() -> None:
    async with open_session([CALL]) as session:
        result = await session.prompt("Go").result()
    (call,) = result.tool_calls
    assert (call.id, call.name, call.arguments, call.is_error) == ("c1", "WriteFile", {"path": "a.txt"}, True)
    assert call.duration is not None
    (rejection,) = result.rejected
    assert (rejection.by, rejection.description) == ("no_handler", "Write a.txt")
    assert rejection.tool_call is not None
    assert rejection.tool_call.name == "WriteFile"
    assert result.handler_failures == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on_approval": lambda: "approve"}, "`on_approval`: the function is called with one argument, the request"),
        ({"on_event": lambda event, more: None}, "`on_event`: the function is called with one argument, the event"),
        (
            {"tools": [ExternalTool("add", "d", {"type": "object"}, cast(Any, lambda: 1))]},
            r"`tools`: the handler of tools\[0\] \(add\)",
        ),
        ({"hooks": [Hook("Stop", cast(Any, lambda a, b: None))]}, r"`hooks`: the handler of hooks\[0\] \(Stop\)"),
        ({"hooks": [Hook("Stop", lambda request: None, "(")]}, "missing \\), unterminated subpattern at position 0"),
    ],
)
async def test_invalid_handler_is_refused_at_opening(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        async with open_session([], **options):
            pass


def test_hook_accepts_matcher_before_or_after_handler() -> None:
    def no(request: Any) -> Block:
        return Block("no")

    for hook in (Hook("Stop", no, "x"), Hook("Stop", "x", no), Hook("Stop", handler=no, matcher="x")):
        assert (hook.event, hook.matcher, hook.handler) == ("Stop", "x", no)
    assert Hook("Stop", no).matcher is None
    assert Hook("Stop", None, no).handler is no


async def test_tool_may_mix_text_and_parts() -> None:
    @kimi_agent.tool
    def shoot() -> list[Any]:
        """Takes a picture."""
        return ["a picture:", IMAGE]

    @kimi_agent.tool
    def mistake() -> list[Any]:
        """Mixes too much."""
        return ["a picture:", IMAGE, 7]

    script: list[Any] = [{"external_tool": {"name": name, "arguments": {}}} for name in ("shoot", "mistake")]
    async with open_session(script, tools=[shoot, mistake]) as session:
        result = await session.prompt("Go").result()
    good, bad = result.tool_calls
    assert good.output == [kimi_agent.TextPart("a picture:"), IMAGE]
    assert bad.is_error
    # The program reads why, and the model does not.
    assert bad.output == "the handler returned a value that cannot be sent"
    assert [failure.handler for failure in result.handler_failures] == ["tool"]
    assert "whose item 2 is" in result.handler_failures[0].message


async def test_failure_has_class_and_model_reads_text() -> None:
    def find(arguments: dict[str, Any]) -> str:
        raise LookupError("page 9")

    def speak(arguments: dict[str, Any]) -> str:
        raise RuntimeError("no voice")

    script: list[Any] = [{"external_tool": {"name": name, "arguments": {}}} for name in ("find", "speak")]
    tools = [kimi_agent.ExternalTool(handler.__name__, "", {"type": "object"}, handler) for handler in (find, speak)]
    async with open_session(script, tools=tools) as session:
        result = await session.prompt("Go").result()
    assert [failure.message for failure in result.handler_failures] == ["LookupError: page 9", "no voice"]
    assert [call.output for call in result.tool_calls] == ["page 9", "no voice"]
