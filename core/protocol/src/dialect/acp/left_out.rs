//! Debug records of what the types of the protocol's crate leave out of a message.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use super::Acp;
use crate::printable::printable_line;

/// The limit of fields that are logged in a session.
const MAX_FIELDS: usize = 64;
/// The limit of a message that is looked at, in bytes. Both forms of a large one would take much memory.
const MAX_MESSAGE: usize = 64 << 10;
/// The limit of the name of a field, in bytes.
const MAX_NAME: usize = 200;
/// Values that the types leave out when they are written, because they are the defaults.
const DEFAULTS: [&str; 2] = ["pending", "other"];

/// The fields that the log has named.
#[derive(Debug, Default)]
pub(super) struct LeftOut(HashSet<String>);

impl Acp {
    /// Logs the fields of a message that its decoded form lacks, each once in a session.
    pub(super) fn note_left_out(&mut self, message: &str, decoded: &impl Serialize) {
        // Both forms are made for the log only.
        if message.len() > MAX_MESSAGE || !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let (Ok(read), Ok(kept)) = (serde_json::from_str(message), serde_json::to_value(decoded)) else { return };
        let mut found = Vec::new();
        left_out(&read, &kept, "", &mut found);
        let LeftOut(logged) = &mut **self.left_out.get_or_insert_default();
        for field in found {
            if logged.len() < MAX_FIELDS && logged.insert(field.clone()) {
                let field = printable_line(&field);
                tracing::debug!(field = &*field, "a field that is unknown or can't be read is left out");
            }
        }
    }
}

/// Adds the places that a decoded form lacks, or has with another value.
fn left_out(read: &Value, kept: &Value, place: &str, found: &mut Vec<String>) {
    if found.len() >= MAX_FIELDS || place.len() > MAX_NAME {
        return;
    }
    match (read, kept) {
        (Value::Object(read), Value::Object(kept)) => {
            for (name, value) in read.iter().filter(|(name, _)| *name != "_meta") {
                let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                match kept.get(name) {
                    Some(kept) => left_out(value, kept, &place, found),
                    None if is_nothing(value) => {}
                    None => found.push(place),
                }
            }
        }
        (Value::Array(read), Value::Array(kept)) if read.len() == kept.len() => {
            let place = format!("{place}[]");
            read.iter().zip(kept).for_each(|(read, kept)| left_out(read, kept, &place, found));
        }
        (Value::Number(read), Value::Number(kept)) if read.as_f64() == kept.as_f64() => {}
        _ if read == kept || is_nothing(read) => {}
        _ => found.push(place.to_owned()),
    }
}

/// Whether a value says as much as none.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || DEFAULTS.contains(&&**text),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1 as acp;
    use serde_json::json;

    use super::*;

    fn found(read: Value) -> Vec<String> {
        let kept: acp::ToolCall = serde_json::from_value(read.clone()).unwrap();
        let mut found = Vec::new();
        left_out(&read, &serde_json::to_value(kept).unwrap(), "", &mut found);
        found
    }

    #[test]
    fn unreadable_and_unknown_fields_are_found() {
        let call =
            json!({"toolCallId": "t", "title": "T", "kind": "teleport", "status": 5, "locations": "/a", "new": 1});
        assert_eq!(found(call), ["kind", "status", "locations", "new"]);
        let call = json!({"toolCallId": "t", "title": "T", "locations": [{"path": "/a", "line": 3, "column": 7}]});
        assert_eq!(found(call), ["locations[].column"]);
    }

    #[test]
    fn what_is_read_or_says_nothing_is_not_found() {
        let call = json!({
            "toolCallId": "t", "title": "T", "kind": "other", "status": "pending", "content": [], "locations": null,
            "rawInput": {"any": [1, {"thing": 2.0}]}, "_meta": {"a": 1},
        });
        assert_eq!(found(call), Vec::<String>::new());
    }
}
