//! Converts messages to older versions: omits what the version does not have yet, and renames what had another name.
//! The catalogue of messages says which version added what.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::dialect::WireVersion;
use crate::messages::TypeRef;
use crate::messages::catalog::{MessageType, catalog};

const APPROVAL_RENAMED: WireVersion = WireVersion::new(1, 1);
const PARENT_RENAMED: WireVersion = WireVersion::new(1, 6);

struct Spelling {
    types: HashMap<&'static str, MessageType>,
    /// Type names by the word in a message's `type` field.
    tags: HashMap<&'static str, &'static str>,
}

fn spelling() -> &'static Spelling {
    static SPELLING: OnceLock<Spelling> = OnceLock::new();
    SPELLING.get_or_init(|| {
        let messages = catalog().messages;
        Spelling {
            tags: messages.iter().filter_map(|message| Some((message.tag?, message.name))).collect(),
            types: messages.into_iter().map(|message| (message.name, message)).collect(),
        }
    })
}

/// Converts an event or a request to the form of `version`. `None` if the version has no such message. Unknown types
/// stay unchanged.
pub(crate) fn spell(version: WireVersion, kind: &str, mut payload: Value) -> Option<(String, Value)> {
    if version >= WireVersion::LATEST {
        return Some((kind.to_owned(), payload));
    }
    if kind == "ApprovalResponse" && version < APPROVAL_RENAMED {
        trim(version, kind, &mut payload);
        return Some(("ApprovalRequestResolved".to_owned(), payload));
    }
    if spelling().types.get(kind).is_some_and(|message| newer(message.since, version)) {
        return None;
    }
    if kind == "SubagentEvent" {
        return subagent_event(version, payload).map(|payload| (kind.to_owned(), payload));
    }
    trim(version, kind, &mut payload);
    Some((kind.to_owned(), payload))
}

/// If the version does not have the nested event, the whole event is omitted.
fn subagent_event(version: WireVersion, mut payload: Value) -> Option<Value> {
    if let Some(event) = payload.get_mut("event")
        && let Some(kind) = event.get("type").and_then(Value::as_str).map(str::to_owned)
    {
        let inner = event.get_mut("payload").map(Value::take).unwrap_or_default();
        let (kind, inner) = spell(version, &kind, inner)?;
        *event = serde_json::json!({"type": kind, "payload": inner});
    }
    if version < PARENT_RENAMED
        && let Some(fields) = payload.as_object_mut()
        && let Some(parent) = fields.shift_remove("parent_tool_call_id")
    {
        fields.shift_insert(0, "task_tool_call_id".to_owned(), parent);
    }
    trim(version, "SubagentEvent", &mut payload);
    Some(payload)
}

fn trim(version: WireVersion, name: &str, value: &mut Value) {
    let tagged = value.get("type").and_then(Value::as_str).and_then(|tag| spelling().tags.get(tag));
    // The members of a union have types of their own. A field names the type.
    let message = spelling().types.get(name).or_else(|| spelling().types.get(tagged?));
    let (Some(message), Some(fields)) = (message, value.as_object_mut()) else { return };
    for field in &message.fields {
        if field.since != message.since && newer(field.since, version) {
            fields.shift_remove(field.name);
        } else if let Some(value) = fields.get_mut(field.name) {
            trim_field(version, &field.ty, value);
        }
    }
}

fn trim_field(version: WireVersion, ty: &TypeRef, value: &mut Value) {
    match ty {
        TypeRef::Optional(inner) => trim_field(version, inner, value),
        TypeRef::List(inner) => {
            value.as_array_mut().into_iter().flatten().for_each(|item| trim_field(version, inner, item));
        }
        // Text, or a list of parts.
        TypeRef::Ref("Content") => {
            value.as_array_mut().into_iter().flatten().for_each(|part| trim(version, "ContentPart", part));
        }
        TypeRef::Ref(name) => trim(version, name, value),
        _ => {}
    }
}

fn newer(since: &str, version: WireVersion) -> bool {
    since.parse::<WireVersion>().is_ok_and(|since| since > version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(minor: u32, kind: &str, payload: Value) -> Option<(String, Value)> {
        spell(WireVersion::new(1, minor), kind, payload)
    }

    #[test]
    fn events_unknown_to_version_are_omitted() {
        for (kind, since) in [
            ("TurnBegin", 0),
            ("TurnEnd", 2),
            ("MCPLoadingBegin", 3),
            ("SteerInput", 5),
            ("Notification", 5),
            ("PlanDisplay", 7),
            ("HookTriggered", 8),
            ("BtwBegin", 9),
            ("StepRetry", 10),
        ] {
            for minor in 0..=10 {
                assert_eq!(at(minor, kind, json!({})).is_some(), minor >= since, "{kind} in 1.{minor}");
            }
        }
        assert_eq!(at(3, "Invented", json!({"a": 1})), Some(("Invented".to_owned(), json!({"a": 1}))));
    }

    #[test]
    fn fields_unknown_to_version_are_omitted() {
        let status = json!({"context_usage": 0.5, "context_tokens": 3, "plan_mode": null, "mcp_status": null, "x": 1});
        let fields = |minor| {
            let (_, payload) = at(minor, "StatusUpdate", status.clone()).expect("all have it");
            payload.as_object().expect("object").keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(fields(2), "context_usage x");
        assert_eq!(fields(3), "context_usage context_tokens x");
        assert_eq!(fields(4), "context_usage context_tokens plan_mode x");
        assert_eq!(fields(5), "context_usage context_tokens plan_mode mcp_status x");
    }

    #[test]
    fn nested_messages_are_spelled_too() {
        let diff = json!({"type": "diff", "path": "a", "old_text": "", "new_text": "b", "is_summary": true});
        let result = json!({"tool_call_id": "t", "return_value": {"is_error": false, "output": "", "message": "",
            "display": [diff]}});
        let event =
            json!({"parent_tool_call_id": "p", "agent_id": "a", "event": {"type": "ToolResult", "payload": result}});
        let (_, old) = at(5, "SubagentEvent", event.clone()).expect("has it");
        assert_eq!(old["task_tool_call_id"], "p");
        assert!(old.get("agent_id").is_none() && old.get("parent_tool_call_id").is_none());
        let block = &old["event"]["payload"]["return_value"]["display"][0];
        assert_eq!(block, &json!({"type": "diff", "path": "a", "old_text": "", "new_text": "b"}));
        assert_eq!(at(10, "SubagentEvent", event.clone()), Some(("SubagentEvent".to_owned(), event)));
        let newer = json!({"parent_tool_call_id": "p", "event": {"type": "StepRetry", "payload": {}}});
        assert_eq!(at(6, "SubagentEvent", newer), None);
    }

    #[test]
    fn renamed_message_has_its_old_name() {
        let payload = json!({"request_id": "r", "response": "reject", "feedback": "no"});
        let short = json!({"request_id": "r", "response": "reject"});
        assert_eq!(at(0, "ApprovalResponse", payload.clone()), Some(("ApprovalRequestResolved".into(), short.clone())));
        assert_eq!(at(5, "ApprovalResponse", payload.clone()), Some(("ApprovalResponse".into(), short)));
        assert_eq!(at(6, "ApprovalResponse", payload.clone()), Some(("ApprovalResponse".into(), payload)));
    }
}
