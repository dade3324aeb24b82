"""The wire's types as classes."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

import kimi_agent
from kimi_agent import (
    ApprovalRequest,
    BriefDisplayBlock,
    HandlerFailed,
    ImageURLPart,
    MediaURL,
    StatusUpdate,
    StepBegin,
    SubagentEvent,
    TextPart,
    TokenUsage,
    ToolCall,
    ToolResult,
    ToolReturnValue,
    TurnBegin,
    TurnEnd,
    UnknownContentPart,
    UnknownDisplayBlock,
    UnknownEvent,
    create_session,
    event_from_dict,
)
from kimi_agent._message import Message
from kimi_agent.testing import scripted_agent

TEXT: dict[str, Any] = {"type": "ContentPart", "payload": {"type": "text", "text": "hi"}}
EVENTS: list[tuple[Any, dict[str, Any]]] = [
    (TextPart("hi"), TEXT),
    (TextPart("hi", extra={"lang": "en"}), {"type": "ContentPart", "payload": {**TEXT["payload"], "lang": "en"}}),
    (
        ImageURLPart(MediaURL("https://x/y.png")),
        {"type": "ContentPart", "payload": {"type": "image_url", "image_url": {"url": "https://x/y.png"}}},
    ),
    (
        UnknownContentPart("hologram", extra={"depth": 3}),
        {"type": "ContentPart", "payload": {"type": "hologram", "depth": 3}},
    ),
    (TurnBegin([TextPart("hi")]), {"type": "TurnBegin", "payload": {"user_input": [{"type": "text", "text": "hi"}]}}),
    (TurnBegin("hi", True), {"type": "TurnBegin", "payload": {"user_input": "hi", "synthesized": True}}),
    (TurnEnd(), {"type": "TurnEnd", "payload": {}}),
    (
        ToolCall("tc", kimi_agent.FunctionCall("Shell", "{}")),
        {
            "type": "ToolCall",
            "payload": {"type": "function", "id": "tc", "function": {"name": "Shell", "arguments": "{}"}},
        },
    ),
    (
        ToolResult(
            "tc", ToolReturnValue(False, "ok", "", [BriefDisplayBlock("b"), UnknownDisplayBlock("new", {"a": 1})])
        ),
        {
            "type": "ToolResult",
            "payload": {
                "tool_call_id": "tc",
                "return_value": {
                    "is_error": False,
                    "output": "ok",
                    "message": "",
                    "display": [{"type": "brief", "text": "b"}, {"type": "new", "a": 1}],
                },
            },
        },
    ),
    (
        StatusUpdate(0.5, token_usage=TokenUsage(1, 2, 3, 4)),
        {
            "type": "StatusUpdate",
            "payload": {
                "context_usage": 0.5,
                "token_usage": {"input_other": 1, "output": 2, "input_cache_read": 3, "input_cache_creation": 4},
            },
        },
    ),
    (
        SubagentEvent("tc", None, None, SubagentEvent("tc2", None, None, TextPart("hi"))),
        {
            "type": "SubagentEvent",
            "payload": {
                "parent_tool_call_id": "tc",
                "event": {"type": "SubagentEvent", "payload": {"parent_tool_call_id": "tc2", "event": TEXT}},
            },
        },
    ),
    (
        ApprovalRequest("a", "tc", "Shell", "run", "Run it"),
        {
            "type": "ApprovalRequest",
            "payload": {
                "id": "a",
                "tool_call_id": "tc",
                "sender": "Shell",
                "action": "run",
                "description": "Run it",
                "display": [],
            },
        },
    ),
    (
        HandlerFailed("tool", "add", None, "it broke"),
        {"type": "HandlerFailed", "payload": {"handler": "tool", "name": "add", "message": "it broke"}},
    ),
    (UnknownEvent("Sparkle", {"n": 1}), {"type": "Sparkle", "payload": {"n": 1}}),
    (UnknownEvent("StepBegin", 3, "no object"), {"type": "StepBegin", "payload": 3, "error": "no object"}),
]


def pickled(thing: Any) -> list[Any]:
    """By every protocol that there is."""
    return [pickle.loads(pickle.dumps(thing, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]


@pytest.mark.parametrize(("event", "wire"), EVENTS, ids=[repr(event)[:40] for event, _ in EVENTS])
def test_objects_convert_to_wire_and_back(event: Any, wire: dict[str, Any]) -> None:
    assert event.to_dict() == wire
    assert list(event.to_dict()["payload"]) == list(wire["payload"]) if isinstance(wire["payload"], dict) else True
    assert event_from_dict(wire) == event
    assert type(event).from_dict(wire) == event
    for again in (*pickled(event), copy.deepcopy(event), copy.copy(event)):
        assert again == event
        assert hash(again) == hash(event)
        assert again.to_dict() == wire


def test_events_can_be_matched_by_pattern() -> None:
    match event_from_dict(TEXT):
        case TextPart(text=text):
            assert text == "hi"
        case _:
            pytest.fail("no match")
    match event_from_dict({"type": "StepBegin", "payload": {"n": 3}}):
        case StepBegin(3):
            pass
        case _:
            pytest.fail("no match")


def test_equality_is_by_type_and_fields() -> None:
    assert TextPart("a") == TextPart("a")
    assert TextPart("a") != TextPart("b")
    assert TextPart("a") != TextPart("a", extra={"x": 1})
    assert TextPart("a") != BriefDisplayBlock("a")
    assert TextPart("a") != "a"
    assert len({TextPart("a"), TextPart("a"), TurnBegin([TextPart("a")])}) == 2


def test_repr_shows_only_set_fields() -> None:
    assert repr(StatusUpdate(0.5)) == "StatusUpdate(context_usage=0.5)"
    assert repr(TextPart("a", extra={"x": 1})) == "TextPart(text='a', extra={'x': 1})"


def test_objects_are_immutable() -> None:
    event = TextPart("a")
    with pytest.raises(AttributeError, match="TextPart does not change: 'text' cannot be set"):
        event.text = "b"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del event.text  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(event, "__dict__")


def test_unknown_fields_are_kept() -> None:
    event = event_from_dict({"type": "StepBegin", "payload": {"n": 1, "mood": {"good": True}}})
    assert event.extra == {"mood": {"good": True}}
    assert event.to_dict() == {"type": "StepBegin", "payload": {"n": 1, "mood": {"good": True}}}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"type": "StepBegin", "payload": {}}, "StepBegin: 'n' is missing"),
        ({"type": "StepBegin", "payload": []}, "StepBegin: expected an object, got []"),
        ({"type": "TurnBegin", "payload": {"user_input": 3}}, "expected a list, got 3"),
    ],
)
def test_known_type_with_invalid_payload_is_unknown(data: dict[str, Any], error: str) -> None:
    assert event_from_dict(data) == UnknownEvent(data["type"], data["payload"], error)


# As kimi-cli 0.59 sends it, and worse.
UNREADABLE: dict[str, Any] = {
    "tool_call_id": "t",
    "return_value": {
        "is_error": False,
        "output": [{"type": "text", "text": "ok"}, {"type": "text"}, {"no": "type"}],
        "message": "",
        "display": [{"type": "brief", "data": "done"}, {"type": "brief", "text": "fine"}, {"type": 7, "x": 1}],
        "extras": "not an object",
    },
}


def test_unreadable_item_degrades_alone() -> None:
    event: Any = event_from_dict({"type": "ToolResult", "payload": UNREADABLE})
    assert isinstance(event, ToolResult)
    assert event.return_value.output == [
        TextPart("ok"),
        UnknownContentPart("text"),
        UnknownContentPart("", {"no": "type"}),
    ]
    assert event.return_value.display[:2] == [UnknownDisplayBlock("brief", {"data": "done"}), BriefDisplayBlock("fine")]
    assert event.to_dict() == {"type": "ToolResult", "payload": UNREADABLE}
    part = event_from_dict({"type": "ContentPart", "payload": {"type": "text"}})
    assert isinstance(part, UnknownEvent)


async def test_event_with_unreadable_item_stays_typed() -> None:
    script = [[{"event": {"type": "ToolResult", "payload": UNREADABLE}}]]
    async with create_session(executable=scripted_agent(script)) as session:
        [result] = [event async for event in session.prompt("go") if isinstance(event, ToolResult)]
    assert result.return_value.display[0] == UnknownDisplayBlock("brief", {"data": "done"})
    assert result.return_value.extra == {"extras": "not an object"}
    assert result.to_dict() == {"type": "ToolResult", "payload": UNREADABLE}


async def test_unreadable_list_is_written_as_it_came() -> None:
    value = {"is_error": False, "output": "a", "message": "", "display": {"type": "brief", "text": "b"}}
    payload = {"tool_call_id": "t", "return_value": value}
    script = [[{"event": {"type": "ToolResult", "payload": payload}}]]
    async with create_session(executable=scripted_agent(script)) as session:
        [result] = [event async for event in session.prompt("go") if isinstance(event, ToolResult)]
    assert result.return_value.display == []
    assert result.to_dict() == {"type": "ToolResult", "payload": payload}


async def test_unreadable_extra_field_is_kept_unchanged() -> None:
    payload = '{"n":7,"huge":1e999,"half":"\\ud800"}'
    line = '{"jsonrpc":"2.0","method":"event","params":{"type":"StepBegin","payload":%s}}' % payload  # noqa: UP031
    async with create_session(executable=scripted_agent([[{"raw": line}]])) as session:
        steps = [event async for event in session.prompt("go") if isinstance(event, StepBegin)]
    assert steps[-1] == StepBegin(7, {"huge": float("inf"), "half": "\ufffd"})


def test_invalid_event_dict_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected {'type': …, 'payload': …}, got {}"):
        event_from_dict({})
    with pytest.raises(ValueError, match="TextPart: expected"):
        TextPart.from_dict({"type": "StepBegin", "payload": {"n": 1}})


def test_usage_and_tool_results_have_shorthands() -> None:
    usage = TokenUsage(1, 2, 3, 4)
    assert (usage.input, usage.total) == (8, 10)
    assert ToolReturnValue.ok({"a": "ö"}) == ToolReturnValue(False, '{"a": "ö"}', "", [])
    assert ToolReturnValue.ok([TextPart("x")], "m") == ToolReturnValue(False, [TextPart("x")], "m", [])
    assert ToolReturnValue.error("no") == ToolReturnValue(True, "", "no", [])


def test_every_class_is_documented_and_exported() -> None:
    classes = [each for each in vars(kimi_agent._wire).values() if inspect.isclass(each) and issubclass(each, Message)]
    public = [each for each in classes if each.__module__ == "kimi_agent._wire"]
    assert len(public) > 50
    for each in public:
        assert getattr(kimi_agent, each.__name__) is each
        assert each.__name__ in kimi_agent.__all__
        assert each.__doc__
        assert each.__match_args__ == tuple(each._fields)
        assert each.__slots__ == (*each.__match_args__, *each._added)
        names = list(inspect.signature(each.__init__).parameters)
        assert names == ["self", *each._fields, "extra", *each._added]


def test_acp_fields_are_properties() -> None:
    payload: dict[str, Any] = {
        "id": "1",
        "sender": "Shell",
        "tool_call_id": "c1",
        "action": "run",
        "description": "ls",
        "display": [],
    }
    offered = [{"optionId": "a", "name": "Allow", "kind": "allow_once"}]
    plain = kimi_agent.event_from_dict({"type": "ApprovalRequest", "payload": payload})
    acp = kimi_agent.event_from_dict({"type": "ApprovalRequest", "payload": {**payload, "options": offered}})
    assert isinstance(plain, kimi_agent.ApprovalRequest)
    assert isinstance(acp, kimi_agent.ApprovalRequest)
    assert (plain.options, acp.options) == (None, offered)
    call: dict[str, Any] = {"type": "function", "id": "c1", "function": {"name": "Shell", "arguments": "{}"}}
    for kind, told in (("ToolCall", call), ("StepBegin", {"n": 1})):
        for made in (False, True):
            payload = {**told, "synthesized": True} if made else told
            event = kimi_agent.event_from_dict({"type": kind, "payload": payload})
            assert isinstance(event, (kimi_agent.ToolCall, kimi_agent.StepBegin))
            assert event.synthesized is made
