//! Converts events and requests to the protocol before Wire 1.0, which has fewer types and fewer fields.

use serde_json::{Map, Value, json};

use crate::messages::Event;

/// Converts an event or a request. `None` if the legacy protocol has no such message. Unknown types stay unchanged.
pub(super) fn spell(kind: &str, payload: Value) -> Option<(String, Value)> {
    let (name, payload) = match kind {
        "StepBegin" => ("step_begin", payload),
        "StepInterrupted" => ("step_interrupted", payload),
        "CompactionBegin" => ("compaction_begin", payload),
        "CompactionEnd" => ("compaction_end", payload),
        "StatusUpdate" => ("status_update", only(payload, &["context_usage"])?),
        "ContentPart" => ("content_part", payload),
        "ToolCall" => ("tool_call", payload),
        "ToolCallPart" => ("tool_call_part", payload),
        "ToolResult" => ("tool_result", tool_result(&payload)),
        "SubagentEvent" => ("subagent_event", subagent_event(payload)?),
        "ApprovalRequest" => {
            ("approval", only(payload, &["id", "tool_call_id", "sender", "action", "description"]).unwrap_or_default())
        }
        _ if Event::EVENT_TYPES.contains(&kind) || Event::REQUEST_TYPES.contains(&kind) => return None,
        _ => (kind, payload),
    };
    Some((name.to_owned(), payload))
}

/// Returns the fields of the legacy form. `None` if there are none.
fn only(payload: Value, names: &[&str]) -> Option<Value> {
    let Value::Object(fields) = payload else { return Some(payload) };
    let kept: Map<String, Value> = fields.into_iter().filter(|(name, _)| names.contains(&&**name)).collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

fn tool_result(payload: &Value) -> Value {
    let value = &payload["return_value"];
    let display = value["display"].as_array().into_iter().flatten();
    let brief = display.filter(|block| block["type"] == "brief").find_map(|block| block["text"].as_str());
    json!({
        "tool_call_id": payload["tool_call_id"],
        "ok": value["is_error"] != true,
        "result": {
            "output": value["output"],
            "message": value["message"],
            "brief": brief.unwrap_or_default(),
        },
    })
}

/// If the legacy protocol does not have the nested event, the whole event is omitted.
fn subagent_event(mut payload: Value) -> Option<Value> {
    let inner = payload.get_mut("event").map(Value::take)?;
    let (kind, inner) = spell(inner["type"].as_str()?, inner["payload"].clone())?;
    Some(json!({"task_tool_call_id": payload["parent_tool_call_id"], "event": {"type": kind, "payload": inner}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_events_have_their_old_spelling() {
        let result = json!({"tool_call_id": "t", "return_value": {"is_error": true, "output": "o", "message": "m",
            "display": [{"type": "shell", "command": "x"}, {"type": "brief", "text": "b"}]}});
        let old = json!({"tool_call_id": "t", "ok": false, "result": {"output": "o", "message": "m", "brief": "b"}});
        assert_eq!(spell("ToolResult", result.clone()), Some(("tool_result".to_owned(), old.clone())));
        let nested =
            json!({"parent_tool_call_id": "p", "agent_id": "a", "event": {"type": "ToolResult", "payload": result}});
        let event = json!({"task_tool_call_id": "p", "event": {"type": "tool_result", "payload": old}});
        assert_eq!(spell("SubagentEvent", nested), Some(("subagent_event".to_owned(), event)));
        let request = json!({"id": "a", "tool_call_id": "t", "sender": "s", "action": "x", "description": "d",
            "display": []});
        let (kind, payload) = spell("ApprovalRequest", request).expect("it is there");
        assert_eq!((&*kind, payload.get("display")), ("approval", None));
    }

    #[test]
    fn events_unknown_to_legacy_are_left_out() {
        for kind in ["TurnBegin", "TurnEnd", "ApprovalResponse", "StepRetry", "QuestionRequest"] {
            assert_eq!(spell(kind, json!({})), None, "{kind}");
        }
        assert_eq!(spell("StatusUpdate", json!({"message_id": "m"})), None);
        let status = spell("StatusUpdate", json!({"context_usage": 0.5, "message_id": "m"}));
        assert_eq!(status, Some(("status_update".to_owned(), json!({"context_usage": 0.5}))));
        let nested = json!({"parent_tool_call_id": "p", "event": {"type": "TurnBegin", "payload": {}}});
        assert_eq!(spell("SubagentEvent", nested), None);
        assert_eq!(spell("Invented", json!({"a": 1})), Some(("Invented".to_owned(), json!({"a": 1}))));
    }
}
