//! Checks of single values, for options from Rust and from JSON.

use std::time::Duration;

use kimi_agent_protocol::options::LONGEST;
use serde_json::Value;

/// Returns the problem of a duration, if it has one.
pub(crate) fn duration_problem(duration: Duration) -> Option<String> {
    match duration {
        Duration::ZERO => Some("expected a duration longer than 0".to_owned()),
        duration if duration > LONGEST => {
            Some("expected at most ten years; leave it out to have the default".to_owned())
        }
        _ => None,
    }
}

/// Returns the problem of a tool's name, if it has one.
pub(super) fn tool_name_problem(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match name {
        "" => Some("a tool needs a name".to_owned()),
        name if name.len() > 64 || !name.chars().all(plain) => {
            Some(format!("a tool's name is at most 64 letters, digits, `_` and `-`, which {name:?} is not"))
        }
        _ => None,
    }
}

/// Returns the type of a JSON value, for errors. The value itself may be secret.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The limit of nesting in a value. JSON parsers have similar limits.
const MAX_DEPTH: usize = 120;

/// Returns the reason for a value that is nested too deep.
pub fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// Returns whether the nesting of a value exceeds the limit.
pub(super) fn is_too_deep(value: &Value) -> bool {
    fn exceeds(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left == 0 || items.iter().any(|item| exceeds(item, left - 1)),
            Value::Object(map) => left == 0 || map.values().any(|item| exceeds(item, left - 1)),
            _ => false,
        }
    }
    exceeds(value, MAX_DEPTH)
}
