//! Members of payloads that servers write in several forms: ids as numbers, and texts that are null.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::json::whole_number;

/// Returns an id, also if it is a number.
pub(super) fn id_of(value: &Value) -> Option<String> {
    match value {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Reads an id.
pub(super) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    id_of(&Value::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("not an id"))
}

/// Reads an id that may be null.
pub(super) fn optional_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(String::new()),
        value => id_of(&value).ok_or_else(|| D::Error::custom("not an id")),
    }
}

/// Reads a text that may be null.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads the id of an agent. `None` if it is of another type.
pub(super) fn agent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Value::deserialize(deserializer).map(|value| id_of(&value))
}

/// Reads the number of a turn. `None` if it is not a whole number.
pub(super) fn turn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let whole = || whole_number(&value).and_then(|number| i64::try_from(number).ok());
    Ok(value.as_i64().or_else(whole))
}
