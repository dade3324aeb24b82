//! Messages of Wire in forms that are clear, and do not follow the protocol.

use serde_json::{Value, json};

use crate::dialect::{Dialect, Incoming, Legacy, Wire, WireVersion};
use crate::messages::{ContentPart, DisplayBlock, Event, ToolCall, ToolResult};

fn read_by(dialect: &mut dyn Dialect, kind: &str, payload: &Value) -> Event {
    let line = json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}});
    match dialect.read_line(line.to_string().as_bytes()) {
        Incoming::Event(event) => *event,
        other => panic!("{other:?}"),
    }
}

fn read(kind: &str, payload: &Value) -> Event {
    let read = read_by(&mut Wire::new(WireVersion::LATEST), kind, payload);
    let subagent = json!({"parent_tool_call_id": 7, "event": {"type": kind, "payload": payload}});
    match read_by(&mut Wire::new(WireVersion::LATEST), "SubagentEvent", &subagent) {
        Event::SubagentEvent(subagent) => {
            assert_eq!(subagent.parent_tool_call_id.as_deref(), Some("7"));
            assert_eq!(*subagent.event, read);
        }
        other => panic!("{other:?}"),
    }
    read
}

#[test]
fn event_without_readable_type_is_an_unknown_event() {
    for (params, reason) in [
        (r#"{"type":7,"payload":{"text":"x"}}"#, "type: not a string"),
        (r#"{"payload":{"text":"x"}}"#, "missing field `type`"),
        (r#"["x"]"#, "a list, not an object"),
        (r#""x""#, "a single value, not an object"),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"event","params":{params}}}"#);
        match Wire::new(WireVersion::LATEST).read_line(line.as_bytes()) {
            Incoming::Event(event) => match *event {
                Event::Unknown(event) => {
                    assert_eq!((&*event.kind, event.payload.get()), ("event", params));
                    assert_eq!(event.error.as_deref(), Some(reason));
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn arguments_as_json_become_their_text() {
    let call = |arguments: &str| {
        let line = format!(
            r#"{{"method":"event","params":{{"type":"ToolCall","payload":{{"type":"function","id":"a","function":{{"name":"S","arguments":{arguments}}}}}}}}}"#
        );
        match Wire::new(WireVersion::LATEST).read_line(line.as_bytes()) {
            Incoming::Event(event) => match *event {
                Event::ToolCall(ToolCall { function, .. }) => function.arguments,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    for (sent, text) in [
        (r#""{\"a\": 1}""#, Some(r#"{"a": 1}"#)),
        (r#"{"command": "rm -rf /"}"#, Some(r#"{"command":"rm -rf /"}"#)),
        // Each number keeps its digits, and a name that occurs twice stays: rules ask about such a call.
        (
            r#"{"n": 123456789012345678901234567890, "n": [1.50]}"#,
            Some(r#"{"n":123456789012345678901234567890,"n":[1.50]}"#),
        ),
        ("[1, 2.50]", Some("[1,2.50]")),
        ("{}", Some("{}")),
        ("7", Some("7")),
        ("null", None),
    ] {
        assert_eq!(call(sent).as_deref(), text, "{sent}");
    }
    match read("ToolCallPart", &json!({"arguments_part": {"a": 1}})) {
        Event::ToolCallPart(part) => assert_eq!(part.arguments_part.as_deref(), Some(r#"{"a":1}"#)),
        other => panic!("{other:?}"),
    }
    let asked = json!({"id": 3, "name": "lookup", "arguments": {"key": "a"}});
    let line = json!({"id": "r", "method": "request", "params": {"type": "ToolCallRequest", "payload": asked}});
    match Wire::new(WireVersion::LATEST).read_line(line.to_string().as_bytes()) {
        Incoming::Request { request, .. } => match *request {
            Event::ToolCallRequest(request) => {
                assert_eq!((&*request.id, request.arguments.as_deref()), ("3", Some(r#"{"key":"a"}"#)));
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn counts_of_tokens_are_read_one_by_one() {
    for (given, counts) in [
        (
            json!({"input_other": 1000, "output": 10_000_000, "input_cache_read": null, "input_cache_creation": 4}),
            Some([1000, 10_000_000, 0, 4]),
        ),
        (json!({"input_other": 1000, "output": 200, "input_cache_read": 3}), Some([1000, 200, 3, 0])),
        (
            json!({"input_other": 1000.0, "output": 1e7, "input_cache_read": 0, "input_cache_creation": 0}),
            Some([1000, 10_000_000, 0, 0]),
        ),
        (
            json!({"input_other": "many", "output": 200, "input_cache_read": -3, "input_cache_creation": {}}),
            Some([0, 200, 0, 0]),
        ),
        (json!({"input_other": null, "output": "few"}), None),
        (json!({"input": 5}), None),
        (json!({}), None),
        (json!([1, 2]), None),
    ] {
        let status = json!({"token_usage": given, "context_tokens": 5});
        let of_legacy = read_by(&mut Legacy::new(None), "status_update", &status);
        let event = read("StatusUpdate", &status);
        assert_eq!(event, of_legacy);
        let Event::StatusUpdate(update) = event else { panic!("{event:?}") };
        assert_eq!(update.context_tokens, Some(5));
        let read = update
            .token_usage
            .as_ref()
            .map(|usage| [usage.input_other, usage.output, usage.input_cache_read, usage.input_cache_creation]);
        assert_eq!(read, counts, "{given}");
        let written = serde_json::to_value(&update).expect("JSON");
        if given["input_other"] == "many" {
            assert_eq!(written["token_usage"]["input_other"], "many", "what cannot be read is kept");
        }
    }
}

#[test]
fn content_without_known_type_is_read_as_text() {
    for (payload, expected) in [
        (json!({"text": "A"}), Some("A")),
        (json!({"type": null, "text": "A"}), Some("A")),
        (json!({"type": "Text", "text": "A"}), Some("A")),
        (json!("A"), Some("A")),
        (json!([{"type": "text", "text": "A"}]), Some("A")),
        (json!([{"type": "text", "text": "A"}, "B", {"text": "C"}]), Some("ABC")),
        (json!({"type": "markdown", "text": "A"}), None),
        (json!({"type": 7, "text": "A"}), None),
        (json!({"no": "text"}), None),
        (json!([]), None),
        (json!(null), None),
    ] {
        let event = read("ContentPart", &payload);
        let text = match &event {
            Event::ContentPart(ContentPart::Text(part)) => Some(&*part.text),
            _ => None,
        };
        assert_eq!(text, expected, "{payload}: {event:?}");
    }
    match read("ContentPart", &json!([{"type": "think", "think": "hm"}])) {
        Event::ContentPart(ContentPart::Think(part)) => assert_eq!(part.think, "hm"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn result_that_is_only_its_output_is_read() {
    for (value, output) in [
        (json!("plain out"), "plain out"),
        (json!(null), ""),
        (json!([{"type": "text", "text": "a"}, {"text": "b"}]), "ab"),
        (json!({"output": {"a": 1}}), r#"{"a":1}"#),
    ] {
        match read("ToolResult", &json!({"tool_call_id": 7, "return_value": value})) {
            Event::ToolResult(ToolResult { tool_call_id, return_value, .. }) => {
                assert_eq!((&*tool_call_id, return_value.is_error), ("7", false));
                assert_eq!(return_value.output.text(), output, "{value}");
            }
            other => panic!("{other:?}"),
        }
    }
    for value in [json!(7), json!(true)] {
        assert!(matches!(read("ToolResult", &json!({"tool_call_id": "a", "return_value": value})), Event::Unknown(_)));
    }
}

#[test]
fn unreadable_item_of_list_is_left_out_alone() {
    let shown = |items: Value| {
        let value =
            json!({"is_error": false, "output": "", "message": "", "display": [{"type": "todo", "items": items}]});
        match read("ToolResult", &json!({"tool_call_id": "a", "return_value": value})) {
            Event::ToolResult(mut result) => result.return_value.display.remove(0),
            other => panic!("{other:?}"),
        }
    };
    let good = json!({"title": "Test", "status": "done"});
    match shown(json!([good, {"title": 7}, "x", good])) {
        DisplayBlock::Todo(list) => {
            assert_eq!(list.items.len(), 2);
            assert_eq!(list.extra.get("unreadable_items"), Some(&json!([{"title": 7}, "x"])));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(shown(json!([{"title": 7}])), DisplayBlock::Unknown(_)));
    assert!(matches!(shown(json!([])), DisplayBlock::Todo(list) if list.items.is_empty()));
}

#[test]
fn call_without_readable_name_is_read() {
    for (function, name, arguments) in [
        (json!({"name": null, "arguments": "{}"}), "", Some("{}")),
        (json!({"arguments": {"a": 1}}), "", Some(r#"{"a":1}"#)),
        (json!({"name": 7}), "7", None),
        (json!(null), "", None),
    ] {
        match read("ToolCall", &json!({"type": "function", "id": 2, "function": function})) {
            Event::ToolCall(ToolCall { id, function: read, .. }) => {
                assert_eq!((&*id, &*read.name, read.arguments.as_deref()), ("2", name, arguments), "{function}");
            }
            other => panic!("{function}: {other:?}"),
        }
    }
    // An unknown event keeps these.
    for call in [
        json!({"id": null, "function": {"name": "Shell"}}),
        json!({"id": "2", "function": {"name": ["a"]}}),
        json!({"id": "2", "function": "Shell"}),
    ] {
        assert!(matches!(read("ToolCall", &call), Event::Unknown(_)), "{call}");
    }
}
