//! Values of JSON that `serde_json::Value` cannot hold.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::scan::{NotJson, for_each_member};

/// The levels of nesting that a value has at most. `serde_json` reads 127, and the value can become part of others.
const MAX_NESTING: usize = 100;
/// The levels in which single members are replaced.
const MAX_REPLACED: usize = 16;

/// Returns a value as JSON. A part that a [`Value`] cannot hold becomes a text with its JSON, such as `"1e999"`.
pub fn held_value<T: Serialize>(value: &T) -> Value {
    let text = || serde_json::to_string(value).unwrap_or_default();
    serde_json::to_value(value).unwrap_or_else(|_| held_text(&text()))
}

/// Parses JSON. A part that a [`Value`] cannot hold becomes a text with its JSON, such as `"1e999"`.
pub fn held_text(json: &str) -> Value {
    parse(json.trim(), 0)
}

fn parse(json: &str, level: usize) -> Value {
    if level + nesting(json) <= MAX_NESTING
        && let Ok(value) = serde_json::from_str(json)
    {
        return value;
    }
    let parts = if level < MAX_REPLACED { parse_parts(json, level + 1) } else { None };
    parts.unwrap_or_else(|| json.into())
}

/// Parses the members of an object, or the items of a list.
fn parse_parts(json: &str, level: usize) -> Option<Value> {
    if json.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        return Some(items.into_iter().map(|item| parse(item.get(), level)).collect());
    }
    let mut members = Map::new();
    let read = for_each_member(json, |name, value| {
        let name = name.decode().ok_or(NotJson)?;
        members.insert(name.into_owned(), parse(value, level));
        Ok(())
    });
    read.is_ok().then_some(Value::Object(members))
}

/// Returns the number of lists and objects around the innermost value.
fn nesting(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::Json;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn parts_that_no_value_holds_become_texts() {
        let value = held_text(r#" {"a": [1, 1e999, {"b": "\ud800", "c": "\"["}], "d": true} "#);
        assert_eq!(value, json!({"a": [1, "1e999", {"b": "\"\\ud800\"", "c": "\"["}], "d": true}));
        assert_eq!(held_text(r#"{"\ud800": 1}"#), json!(r#"{"\ud800": 1}"#));
    }

    #[test]
    fn deep_nesting_becomes_text() {
        for levels in [100, 101, 130, 5000] {
            let value = held_text(&format!(r#"{{"a": {}, "b": 1}}"#, nested(levels)));
            assert_eq!(value["b"], 1, "{levels}");
            let text = value.to_string();
            assert!(nesting(&text) <= MAX_NESTING && serde_json::from_str::<Value>(&text).is_ok(), "{levels}");
        }
        assert_eq!(held_text(&nested(MAX_NESTING)).to_string(), nested(MAX_NESTING));
    }

    #[test]
    fn serialized_json_keeps_its_other_members() {
        let raw: Json = serde_json::from_str("-1e999").unwrap();
        assert_eq!(held_value(&[("a", raw)]), json!([["a", "-1e999"]]));
        assert_eq!(held_value(&json!({"a": 1})), json!({"a": 1}));
    }
}
