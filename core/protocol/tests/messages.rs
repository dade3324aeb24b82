//! Every message type of Wire, taken from the catalogue: read, written, and read again.

#![allow(clippy::panic, reason = "a test that can't go on says so")]

use std::collections::BTreeMap;

use kimi_agent_protocol::messages::catalog::{Catalog, FieldType, MessageType, catalog};
use kimi_agent_protocol::messages::{ContentPart, DisplayBlock, Event, Json, TypeRef, UnknownEvent};
use serde_json::{Map, Value, json};

/// Makes messages of any type out of the catalogue.
struct Maker {
    catalog: Catalog,
}

impl Maker {
    fn new() -> Self {
        Self { catalog: catalog() }
    }

    fn message(&self, name: &str) -> &MessageType {
        self.catalog.messages.iter().find(|message| message.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// A message with all its fields (or only those that must be there), and `besides`.
    fn payload(&self, name: &str, all: bool, besides: bool, depth: u32) -> Value {
        let message = self.message(name);
        let mut map = Map::new();
        if let Some(tag) = message.tag {
            map.insert("type".into(), tag.into());
        }
        for field in message.fields.iter().filter(|field| all || field.required) {
            map.insert(field.name.into(), self.value(&field.ty, all, besides, depth));
        }
        if besides {
            map.insert("mood".into(), json!({"of": ["the", "day"], "n": 1.5, "none": null}));
        }
        Value::Object(map)
    }

    fn value(&self, ty: &TypeRef, all: bool, besides: bool, depth: u32) -> Value {
        match ty {
            TypeRef::String => "text \u{2028} \u{1f600}".into(),
            TypeRef::Int => (-7_000_000_000_i64).into(),
            TypeRef::Float => 0.25.into(),
            TypeRef::Bool => true.into(),
            TypeRef::Json => json!([{"any": null}]),
            TypeRef::Object => json!({"key": [1, {"deep": true}]}),
            TypeRef::Optional(inner) => self.value(inner, all, besides, depth),
            TypeRef::List(inner) => json!([self.value(inner, all, besides, depth)]),
            TypeRef::Words(words) => words[0].into(),
            TypeRef::Ref("Content") => json!([self.payload("TextPart", all, besides, depth)]),
            TypeRef::Ref("ContentPart") => self.payload("ImageURLPart", all, besides, depth),
            TypeRef::Ref("DisplayBlock") => self.payload("DiffDisplayBlock", all, besides, depth),
            TypeRef::Ref("Event") if depth > 2 => json!({"type": "CompactionBegin", "payload": {}}),
            TypeRef::Ref("Event") => {
                json!({"type": "SubagentEvent", "payload": self.payload("SubagentEvent", all, besides, depth + 1)})
            }
            TypeRef::Ref(name) => self.payload(name, all, besides, depth),
            other => panic!("a new kind of field: {other:?}"),
        }
    }

    /// All that can stand in the stream: (type, payload's own type).
    fn events(&self) -> Vec<(&'static str, &'static str)> {
        let plain = self.catalog.events.iter().chain(self.catalog.requests).filter(|name| **name != "ContentPart");
        let parts = self.catalog.content_parts.iter().filter(|name| **name != "UnknownContentPart");
        plain.map(|name| (*name, *name)).chain(parts.map(|name| ("ContentPart", *name))).collect()
    }
}

fn read(kind: &str, payload: &Value) -> Event {
    serde_json::from_value(json!({"type": kind, "payload": payload})).expect("an event is always read")
}

fn write(event: &Event) -> Value {
    serde_json::to_value(event).expect("JSON")
}

#[test]
fn any_type_keeps_unknown_fields() {
    let maker = Maker::new();
    for (kind, payload) in maker.events() {
        for (all, besides) in [(true, false), (true, true)] {
            let whole = maker.payload(payload, all, besides, 0);
            let event = read(kind, &whole);
            assert_eq!(event.type_name(), kind, "{whole}");
            assert!(!matches!(event, Event::Unknown(_)), "{kind}: {event:?}");
            let written = write(&event);
            assert_eq!(written, json!({"type": kind, "payload": whole}));
            assert_eq!(serde_json::from_value::<Event>(written).expect("an event"), event);
        }
    }
}

#[test]
fn fields_are_written_in_declared_order() {
    let text =
        r#"{"mood":"good","status_code":500,"n":1,"next_attempt":2,"wait_s":0.5,"max_attempts":3,"error_type":"E"}"#;
    let event: Event = serde_json::from_str(&format!(r#"{{"type":"StepRetry","payload":{text}}}"#)).expect("an event");
    assert_eq!(
        serde_json::to_string(&event).expect("JSON"),
        r#"{"type":"StepRetry","payload":{"n":1,"next_attempt":2,"max_attempts":3,"wait_s":0.5,"error_type":"E","status_code":500,"mood":"good"}}"#
    );
}

fn is_optional(field: &FieldType) -> bool {
    matches!(field.ty, TypeRef::Optional(_))
}

#[test]
fn optional_null_fields_equal_absent_fields() {
    let maker = Maker::new();
    for (kind, payload) in maker.events() {
        let least = maker.payload(payload, false, false, 0);
        let event = read(kind, &least);
        assert!(!matches!(event, Event::Unknown(_)), "{kind}: {event:?}");
        let mut with_nulls = least.clone();
        for field in maker.message(payload).fields.iter().filter(|field| !field.required) {
            with_nulls[field.name] = Value::Null;
        }
        assert_eq!(read(kind, &with_nulls), event, "{kind}");
        let written = write(&event);
        for field in maker.message(payload).fields.iter().filter(|field| is_optional(field)) {
            assert_eq!(written["payload"].get(field.name), None, "{kind}.{}", field.name);
        }
        // A list that is absent is empty, and says so.
        for field in maker.message(payload).fields.iter().filter(|field| matches!(field.ty, TypeRef::List(_))) {
            assert!(written["payload"][field.name].is_array(), "{kind}.{}", field.name);
        }
    }
}

#[test]
fn mismatched_payload_is_unknown_or_keeps_its_value() {
    let maker = Maker::new();
    let (mut checked, mut typed) = (0, 0);
    for (kind, payload) in maker.events() {
        for field in &maker.message(payload).fields {
            let mut wrong = maker.payload(payload, true, false, 0);
            // No field but one of any JSON takes a list of a list of a boolean.
            wrong[field.name] = json!([[true]]);
            let (name, kept, error) = match read(kind, &wrong) {
                Event::Unknown(UnknownEvent { kind, payload, error, .. }) => (kind, payload, error),
                // The event is of its type: the value is kept, in a content as a part of its own.
                event => {
                    let kept = &json!(event)["payload"][field.name];
                    // Arguments become text.
                    let forms = [json!([[true]]), json!([{"value": [true]}]), json!("[[true]]")];
                    assert!(forms.contains(kept), "{kind}.{}", field.name);
                    typed += 1;
                    continue;
                }
            };
            assert_eq!((name.as_str(), kept.to_value()), (kind, wrong));
            // For a message with a `type`, the path begins inside.
            let error = error.unwrap_or_default();
            assert!(error.contains(field.name) || kind == "ContentPart", "{kind}.{}: {error}", field.name);
            checked += 1;
            if field.required {
                let mut missing = maker.payload(payload, true, false, 0);
                missing.as_object_mut().expect("an object").shift_remove(field.name);
                let Event::Unknown(event) = read(kind, &missing) else { panic!("{kind} without {}", field.name) };
                assert!(event.error.is_some_and(|error| error.contains(field.name)), "{kind}.{}", field.name);
            }
        }
    }
    assert!(checked > 50 && typed > 20, "{checked} {typed}");
    let event = read(
        "ToolResult",
        &json!({"tool_call_id": "t", "return_value": {"is_error": "no", "output": "", "message": ""}}),
    );
    let Event::Unknown(event) = event else { panic!("{event:?}") };
    assert!(
        event.error.as_ref().is_some_and(|error| error.starts_with("return_value.is_error: ")),
        "{:?}",
        event.error
    );
}

#[test]
fn unreadable_list_is_written_once_as_it_came() {
    let value = json!({"is_error": false, "output": "a", "message": "", "display": {"type": "brief", "text": "b"}});
    let result = json!({"tool_call_id": "t", "return_value": value});
    let event = read("ToolResult", &result);
    let Event::ToolResult(read) = &event else { panic!("{event:?}") };
    assert_eq!(read.return_value.display, []);
    let text = serde_json::to_string(&event).expect("JSON");
    assert_eq!(text.matches("\"display\"").count(), 1, "{text}");
    assert_eq!(write(&event)["payload"], result);
}

#[test]
fn unknown_fields_are_kept_at_every_level() {
    let event = read("Sparkle", &json!([1, {"a": null}]));
    let Event::Unknown(unknown) = &event else { panic!("{event:?}") };
    assert_eq!((unknown.kind.as_str(), &unknown.error), ("Sparkle", &None));
    assert_eq!(unknown.payload.to_value(), json!([1, {"a": null}]));
    assert_eq!(serde_json::from_value::<Event>(write(&event)).expect("an event"), event);
    // Numbers and text that a parsed value could not hold.
    let raw = r#"{"type":"Sparkle","payload":{"big":123456789012345678901234567890.10,"half":"\ud800"}}"#;
    let Event::Unknown(unknown) = serde_json::from_str(raw).expect("an event") else { panic!("known") };
    assert_eq!(unknown.payload.get(), r#"{"big":123456789012345678901234567890.10,"half":"\ud800"}"#);

    let part = json!({"type": "smell", "smell_url": {"url": "x"}});
    let Event::ContentPart(ContentPart::Unknown(kept)) = read("ContentPart", &part) else { panic!("known") };
    assert_eq!(kept.kind, "smell");
    assert_eq!(serde_json::to_value(&kept).expect("JSON"), part);

    let block = json!({"type": "chart", "points": [1, 2]});
    let read: DisplayBlock = serde_json::from_value(block.clone()).expect("a block");
    assert!(matches!(&read, DisplayBlock::Unknown(kept) if kept.kind == "chart"));
    assert_eq!(serde_json::to_value(&read).expect("JSON"), block);
    // A known type with a body that does not fit is an error, not unknown.
    assert!(serde_json::from_value::<DisplayBlock>(json!({"type": "diff", "path": 1})).is_err());
}

#[test]
fn fractions_are_read_exactly() {
    for number in [-1.0301624275225935e+274, 0.1 + 0.2, f64::MIN_POSITIVE, f64::MAX] {
        let event = read("StatusUpdate", &json!({"context_usage": number, "mood": number}));
        let text = serde_json::to_string(&event).expect("JSON");
        assert_eq!(serde_json::from_str::<Event>(&text).expect("an event"), event, "{text}");
        assert_eq!(text.matches(&json!(number).to_string()).count(), 2, "{text}");
    }
}

#[test]
fn list_instead_of_object_is_refused() {
    // Where serde would take the fields of a struct in their order.
    let listed = r#"{"type":"SubagentEvent","payload":{"event":["TurnEnd",{}]}}"#;
    let Event::Unknown(unknown) = serde_json::from_str(listed).expect("an event") else { panic!("known") };
    assert!(unknown.error.is_some_and(|error| error.contains("a list, not an object")));
    assert!(serde_json::from_str::<Event>(r#"["TurnEnd",{}]"#).is_err());
    assert!(serde_json::from_str::<ContentPart>(r#"["text","x"]"#).is_err());
}

#[test]
fn unrepresentable_json_compares_by_text() {
    let json = |text: &str| serde_json::from_str::<Json>(text).expect("JSON");
    assert_eq!(json("[1, 2]"), json("[1,2]"));
    assert_eq!(json("1e999"), json("1e999"));
    assert_ne!(json("1e999"), json(r#""\ud800""#));
    assert_ne!(json("1e999"), json("null"));
}

#[test]
fn unknown_enum_values_are_kept() {
    let payload = json!({"request_id": "a", "response": "approve_forever"});
    let event = read("ApprovalResponse", &payload);
    let Event::ApprovalResponse(response) = &event else { panic!("{event:?}") };
    assert_eq!(response.response.as_str(), "approve_forever");
    assert_eq!(write(&event)["payload"], payload);
}

#[test]
fn messages_without_fields_may_come_without_payload() {
    for text in [
        r#"{"type":"CompactionBegin"}"#,
        r#"{"type":"CompactionBegin","payload":null}"#,
        r#"{"payload":{},"type":"CompactionBegin"}"#,
    ] {
        let event: Event = serde_json::from_str(text).expect("an event");
        assert_eq!(event.type_name(), "CompactionBegin");
        assert!(!matches!(event, Event::Unknown(_)));
    }
    assert!(matches!(serde_json::from_str(r#"{"type":"StepBegin"}"#), Ok(Event::Unknown(_))));
}

#[test]
fn event_nesting_is_bounded() {
    let depth = 20_000;
    let open = r#"{"type":"SubagentEvent","payload":{"event":"#.repeat(depth);
    let text = format!("{open}{}{}", r#"{"type":"CompactionBegin","payload":{}}"#, "}}".repeat(depth));
    let mut event: Event = serde_json::from_str(&text).expect("an event");
    let mut levels = 0;
    while let Event::SubagentEvent(outer) = event {
        levels += 1;
        event = *outer.event;
    }
    let Event::Unknown(rest) = event else { panic!("{levels} levels") };
    assert!(rest.error.is_some_and(|error| error.contains("nested too deeply")));
    assert!(levels > 10, "{levels} levels");
    // And the next one is read as ever.
    assert!(matches!(read("SubagentEvent", &json!({"event": {"type": "TurnEnd"}})), Event::SubagentEvent(_)));
}

/// The types that each version brought, written down apart from the declarations.
#[test]
fn catalogue_names_new_types_of_each_version() {
    let brought: &[(&str, &str, &[&str])] = &[
        ("1.0", "StatusUpdate", &["context_usage", "token_usage", "message_id"]),
        ("1.0", "ApprovalRequest", &["id", "tool_call_id", "sender", "action", "description", "display"]),
        ("1.0", "ToolReturnValue", &["is_error", "output", "message", "display", "extras"]),
        ("1.0", "ToolCall", &["id", "function", "extras"]),
        ("1.1", "ToolCallRequest", &["id", "name", "arguments"]),
        ("1.1", "ApprovalResponse", &["request_id", "response"]),
        ("1.1", "ShellDisplayBlock", &["language", "command"]),
        ("1.2", "TurnEnd", &[]),
        ("1.3", "QuestionRequest", &["id", "tool_call_id", "questions"]),
        (
            "1.3",
            "Question",
            &["question", "header", "options", "multi_select", "body", "other_label", "other_description"],
        ),
        ("1.3", "QuestionOption", &["label", "description"]),
        ("1.3", "MCPLoadingBegin", &[]),
        ("1.3", "MCPLoadingEnd", &[]),
        ("1.3", "StatusUpdate", &["context_tokens", "max_context_tokens"]),
        ("1.4", "StatusUpdate", &["plan_mode"]),
        ("1.5", "SteerInput", &["user_input"]),
        (
            "1.5",
            "Notification",
            &[
                "id",
                "category",
                "type",
                "source_kind",
                "source_id",
                "title",
                "body",
                "severity",
                "created_at",
                "payload",
            ],
        ),
        ("1.5", "StatusUpdate", &["mcp_status"]),
        ("1.5", "MCPStatus", &["loading", "connected", "total", "tools", "servers"]),
        ("1.5", "MCPServer", &["name", "status", "tools"]),
        ("1.6", "SubagentEvent", &["parent_tool_call_id", "agent_id", "subagent_type"]),
        ("1.6", "ApprovalRequest", &["source_kind", "source_id", "agent_id", "subagent_type", "source_description"]),
        ("1.6", "ApprovalResponse", &["feedback"]),
        ("1.7", "PlanDisplay", &["content", "file_path"]),
        ("1.8", "HookTriggered", &["event", "target", "hook_count"]),
        ("1.8", "HookResolved", &["event", "target", "action", "reason", "duration_ms"]),
        ("1.8", "HookRequest", &["id", "subscription_id", "event", "target", "input_data"]),
        ("1.8", "DiffDisplayBlock", &["is_summary"]),
        ("1.8", "HooksInfo", &["supported_events", "configured"]),
        ("1.9", "BtwBegin", &["id", "question"]),
        ("1.9", "BtwEnd", &["id", "response", "error"]),
        ("1.10", "StepRetry", &["n", "next_attempt", "max_attempts", "wait_s", "error_type", "status_code"]),
    ];
    let maker = Maker::new();
    for (since, name, fields) in brought {
        let message = maker.message(name);
        let known: BTreeMap<_, _> = message.fields.iter().map(|field| (field.name, field.since)).collect();
        if fields.is_empty() {
            assert_eq!(message.since, *since, "{name}");
        }
        for field in *fields {
            assert_eq!(known.get(field), Some(since), "{name}.{field}");
        }
    }
    // In the stream under these very names.
    for name in ["MCPLoadingBegin", "ContentPart", "HandlerFailed"] {
        assert!(Event::EVENT_TYPES.contains(&name));
    }
    let own_to_acp = ["ReadFileRequest", "WriteFileRequest", "TerminalRequest"];
    let of_wire = ["ApprovalRequest", "ToolCallRequest", "QuestionRequest", "HookRequest"];
    assert_eq!(Event::REQUEST_TYPES, [&of_wire[..], &own_to_acp].concat());
}

#[test]
fn unreadable_item_degrades_alone() {
    // As kimi-cli 0.59 sends it.
    let value = json!({"tool_call_id": "t", "return_value": {
        "is_error": false,
        "output": [{"type": "text", "text": "ok"}, {"type": "text"}, {"no": "type"}],
        "message": "",
        "display": [{"type": "brief", "data": "done"}, {"type": "brief", "text": "fine"}, {"type": 7, "x": 1}],
        "extras": "not an object",
    }});
    let event = read("ToolResult", &value);
    let Event::ToolResult(result) = &event else { panic!("{event:?}") };
    let returned = &result.return_value;
    let kimi_agent_protocol::messages::Content::Parts(parts) = &returned.output else { panic!("{returned:?}") };
    assert!(matches!(&parts[0], ContentPart::Text(part) if part.text == "ok"));
    assert!(matches!(&parts[1], ContentPart::Unknown(part) if part.kind == "text" && part.extra.is_empty()));
    assert!(matches!(&parts[2], ContentPart::Unknown(part) if part.kind.is_empty()));
    assert!(
        matches!(&returned.display[0], DisplayBlock::Unknown(block) if block.kind == "brief" && block.extra.get("data").is_some())
    );
    assert!(matches!(&returned.display[1], DisplayBlock::Brief(block) if block.text == "fine"));
    assert_eq!((returned.extras.as_ref(), returned.extra.get("extras")), (None, Some(&json!("not an object"))));
    assert_eq!(json!(event)["payload"], value);
}

#[test]
fn unrepresentable_extra_field_is_kept() {
    let raw = r#"{"type":"StepBegin","payload":{"n":1,"huge":1e999,"half":"\ud800","fine":2}}"#;
    let Event::StepBegin(step) = serde_json::from_str(raw).expect("an event") else { panic!("unknown") };
    assert_eq!(step.extra.get("fine"), Some(&json!(2)));
    assert_eq!(
        step.extra.raw().map(|(name, json)| (name.as_str(), json.get())).collect::<Vec<_>>(),
        [("huge", "1e999"), ("half", "\"\\ud800\""),]
    );
    let written = serde_json::to_string(&Event::StepBegin(step)).expect("JSON");
    assert_eq!(written, r#"{"type":"StepBegin","payload":{"n":1,"fine":2,"huge":1e999,"half":"\ud800"}}"#);
}
