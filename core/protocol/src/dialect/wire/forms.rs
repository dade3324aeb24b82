//! Reads messages of Wire with former names, and messages whose form differs from the protocol's but is clear.

use serde_json::{Map, Value};

use crate::json::{is_true, parsed_object, whole_number};
use crate::messages::{Content, ContentPart, Event, StatusUpdate, TokenUsage};

/// Reads an event again that has former names, or that the general decoder could not read in full.
pub(in crate::dialect) fn read_other_forms(event: &mut Event) {
    match event {
        Event::Unknown(unknown) => {
            let payload = unknown.payload.get();
            let read = match &*unknown.kind {
                "ToolCall" => tool_call(payload),
                "ToolResult" => tool_result(payload),
                "ContentPart" => content_part(payload),
                // Its name until 1.1.
                "ApprovalRequestResolved" => Some(Event::decode("ApprovalResponse", payload)),
                _ => None,
            };
            if let Some(read) = read {
                *event = read;
            }
        }
        Event::ContentPart(part @ ContentPart::Unknown(_)) => {
            if let Some(read) = serde_json::to_string(part).ok().and_then(|payload| content_part(&payload)) {
                *event = read;
            }
        }
        Event::StatusUpdate(update) => read_counts(update),
        Event::SubagentEvent(subagent) => {
            if subagent.parent_tool_call_id.is_none() {
                // Its name until 1.6.
                subagent.parent_tool_call_id = match subagent.extra.remove("task_tool_call_id") {
                    Some(Value::String(id)) => Some(id),
                    Some(Value::Number(id)) => Some(id.to_string()),
                    _ => None,
                };
            }
            read_other_forms(&mut subagent.event);
        }
        _ => {}
    }
}

/// Reads a call whose tool has no name, or a number as its name. The pieces of its arguments follow.
fn tool_call(payload: &str) -> Option<Event> {
    let mut call = parsed_object(payload)?;
    let mut function = match call.remove("function").unwrap_or_default() {
        Value::Object(function) => function,
        Value::Null => Map::new(),
        _ => return None,
    };
    let name = match function.remove("name").unwrap_or_default() {
        name @ Value::String(_) => name,
        Value::Number(name) => name.to_string().into(),
        Value::Null => "".into(),
        _ => return None,
    };
    function.insert("name".to_owned(), name);
    call.insert("function".to_owned(), Value::Object(function));
    let event = Event::decode("ToolCall", &Value::Object(call).to_string());
    matches!(event, Event::ToolCall(_)).then_some(event)
}

/// Reads the result of a tool whose optional parts are absent or of another type, or that is only its output.
fn tool_result(payload: &str) -> Option<Event> {
    let mut result = parsed_object(payload)?;
    let value = match result.remove("return_value")? {
        Value::Object(value) => value,
        Value::Null => Map::new(),
        output @ (Value::String(_) | Value::Array(_)) => Map::from_iter([("output".to_owned(), output)]),
        _ => return None,
    };
    result.insert("return_value".to_owned(), Value::Object(return_value(value)));
    let event = Event::decode("ToolResult", &Value::Object(result).to_string());
    matches!(event, Event::ToolResult(_)).then_some(event)
}

fn return_value(mut value: Map<String, Value>) -> Map<String, Value> {
    let is_error = value.get("is_error").is_some_and(is_true);
    value.insert("is_error".to_owned(), is_error.into());
    for (name, has_parts) in [("message", false), ("output", true)] {
        let text = match value.remove(name) {
            None | Some(Value::Null) => "".into(),
            Some(text @ Value::String(_)) => text,
            Some(parts @ Value::Array(_)) if has_parts => parts,
            Some(other) => other.to_string().into(),
        };
        value.insert(name.to_owned(), text);
    }
    value
}

/// Reads a part of the answer that is a text, a text without a type, or a list with one part or with texts.
fn content_part(payload: &str) -> Option<Event> {
    let mut parts = match serde_json::from_str::<Content>(payload).ok()? {
        Content::Text(text) => return Some(ContentPart::text(text).into()),
        Content::Parts(parts) => parts,
    };
    if parts.len() == 1 {
        return parts.pop().filter(|part| !matches!(part, ContentPart::Unknown(_))).map(Event::from);
    }
    let are_texts = !parts.is_empty() && parts.iter().all(|part| matches!(part, ContentPart::Text(_)));
    are_texts.then(|| ContentPart::text(Content::Parts(parts).text()).into())
}

/// Reads the counts of tokens one by one if they cannot be read together. Without a count that can be read, there is no usage.
fn read_counts(update: &mut StatusUpdate) {
    const COUNTS: [&str; 4] = ["input_other", "output", "input_cache_read", "input_cache_creation"];
    let Some(Value::Object(given)) = update.extra.get("token_usage").filter(|_| update.token_usage.is_none()) else {
        return;
    };
    let count = |name: &str| i64::try_from(whole_number(given.get(name)?)?).ok();
    let mut usage = TokenUsage::default();
    if COUNTS.iter().all(|name| count(name).is_none()) {
        return;
    }
    let fields =
        [&mut usage.input_other, &mut usage.output, &mut usage.input_cache_read, &mut usage.input_cache_creation];
    for (name, field) in COUNTS.into_iter().zip(fields) {
        match (count(name), given.get(name)) {
            (Some(count), _) => *field = count,
            (None, None | Some(Value::Null)) => {}
            (None, Some(value)) => {
                tracing::debug!(field = name, %value, "a count of tokens that can't be read is left out");
            }
        }
    }
    for (name, value) in given {
        let is_read = count(name).is_some() || value.is_null();
        if !(COUNTS.contains(&&**name) && is_read) {
            usage.extra.insert(name, value.clone());
        }
    }
    update.extra.remove("token_usage");
    update.token_usage = Some(usage);
}
