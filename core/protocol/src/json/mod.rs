//! JSON kept as text, borrowed strings, the scanner that cuts a line into slices, and the lenient reader for what a strict
//! parser refuses.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::jsonrpc::framing::{MAX_VALUES, has_too_many_values};

mod encoded;
pub(crate) mod lenient;
mod optional;
pub(crate) mod scan;

pub use encoded::encoded_size;
pub(crate) use encoded::start_of_encoded_end;
pub use optional::{exact, object, read};

/// JSON of any shape, kept as the text that the agent sent.
///
/// It is parsed only on request: a large payload of an unknown type costs only a copy, and numbers that
/// [`serde_json::Value`] cannot hold stay unchanged.
///
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::wire::Json;
/// let json = Json::from(serde_json::json!({"a": [1, 2]}));
/// assert_eq!(json.get(), r#"{"a":[1,2]}"#);
/// assert_eq!(json.to_value()["a"][1], 2);
/// ```
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Returns the JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Returns the parsed value. A number that a [`Value`] cannot hold becomes a text with its digits, and half of a
    /// surrogate pair U+FFFD.
    pub fn to_value(&self) -> Value {
        held_text(self.get())
    }

    /// Decodes the JSON into a type of your own.
    ///
    /// # Errors
    /// Returns serde's error if the JSON does not have this form.
    pub fn decode<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.get())
    }

    #[doc(hidden)]
    pub fn from_raw(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }

    /// Makes JSON from its text; `null` if the text is not JSON.
    pub(crate) fn from_text(text: &str) -> Self {
        serde_json::from_str::<&RawValue>(text).map_or_else(|_| Self::null(), Self::from_raw)
    }

    /// Makes the JSON `null`.
    pub fn null() -> Self {
        Self::from(Value::Null)
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(serde_json::value::to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::null()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        let value = |json: &Self| serde_json::from_str::<Value>(json.get()).ok();
        // A number or text that a `Value` cannot hold is equal only to the same JSON text.
        self.get() == other.get() || value(self).is_some_and(|mine| value(other) == Some(mine))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

/// Returns whether a truth value is true, also in the form of a word or of a number.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(is_true) => *is_true,
        Value::String(word) => !["", "false", "no", "0", "null"].contains(&&*word.to_ascii_lowercase()),
        other => !other.is_null() && other.as_f64() != Some(0.0),
    }
}

/// Returns a count: a whole number from 0 on, also in the form `50.0` of libraries that know only floating-point numbers.
pub(crate) fn whole_number(value: &Value) -> Option<u64> {
    // The largest whole number that all languages hold exactly.
    const MAX_EXACT: f64 = 9_007_199_254_740_991.0;
    let whole = |number: &f64| number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(number);
    value.as_u64().or_else(|| value.as_f64().filter(whole).map(|number| number as u64))
}

/// Text that is borrowed from the line if it has no escapes (serde's own `Cow` always copies).
pub struct Key<'de>(pub Cow<'de, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// Returns a value as JSON. A part that a [`Value`] cannot hold becomes a text, such as `"1e999"`.
pub fn held_value<T: Serialize>(value: &T) -> Value {
    let text = || serde_json::to_string(value).unwrap_or_default();
    serde_json::to_value(value).unwrap_or_else(|_| held_text(&text()))
}

/// Parses JSON. A part that a [`Value`] cannot hold becomes a text, such as `"1e999"`.
pub fn held_text(json: &str) -> Value {
    parsed(json).unwrap_or_else(|_| json.into())
}

/// Parses JSON, or what is nearly JSON: it may have unpaired surrogates, control characters and invalid UTF-8.
///
/// # Errors
/// Returns the problem that a strict parser finds if the text is neither. Text with more than 1,048,576 values is an error, too:
/// it can be a string in a line, whose values the limit of the line does not count.
pub fn parsed(json: &str) -> serde_json::Result<Value> {
    if has_too_many_values(json.as_bytes()) {
        return Err(serde::de::Error::custom(format_args!("more than {MAX_VALUES} values")));
    }
    match serde_json::from_str(json) {
        Ok(value) if !crate::jsonrpc::is_too_deep(json) => Ok(value),
        strict => lenient::value(json).map_or(strict, Ok),
    }
}

/// Parses the JSON that a text of a message can be. `None` if it is not JSON, or has more values than a line may have.
pub(crate) fn of_text(text: &str) -> Option<Value> {
    Some(text).filter(|text| !has_too_many_values(text.as_bytes())).and_then(|text| serde_json::from_str(text).ok())
}

/// Returns nearly-JSON as strict JSON. `None` if it is not JSON in this wider sense.
pub fn rewritten(json: &[u8]) -> Option<String> {
    lenient::rewrite(json, lenient::Huge::Kept).map(|read| read.text)
}

/// Parses an object, or what is nearly JSON. `None` if the text is not an object.
pub fn parsed_object(json: &str) -> Option<Map<String, Value>> {
    match parsed(json) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

/// Reads a struct that borrows from an object. A list of its fields, which serde would accept, is an error.
///
/// # Errors
/// Returns the problem of the text if it is not such an object.
pub fn borrowed<'de, T: Deserialize<'de>>(json: &'de str) -> serde_json::Result<T> {
    if json.trim_start().starts_with('[') {
        return Err(serde::de::Error::custom("a list, not an object"));
    }
    serde_json::from_str(json)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_that_no_value_holds_become_texts() {
        let value = held_text(r#" {"a": [1, 1e999, {"b": "\ud800", "c": "\"["}], "d": true} "#);
        assert_eq!(value, json!({"a": [1, "1e999", {"b": "\u{fffd}", "c": "\"["}], "d": true}));
        assert_eq!(held_text(r#"{"\ud800": 1}"#), json!({"\u{fffd}": 1}));
        assert_eq!(held_text("no JSON"), json!("no JSON"));
    }

    #[test]
    fn text_with_too_many_values_is_not_decoded() {
        let list = |commas: usize| format!("[{}0]", "0,".repeat(commas));
        assert!(parsed(&list(MAX_VALUES - 1)).is_ok());
        let error = parsed(&list(MAX_VALUES)).unwrap_err();
        assert_eq!(error.to_string(), "more than 1048576 values");
        assert!(of_text(&list(MAX_VALUES)).is_none() && of_text(&list(MAX_VALUES - 1)).is_some());
        // Not the invalid text either, which the lenient parser would read.
        assert!(parsed(&format!("[\"\\ud800\",{}]", list(MAX_VALUES))).is_err());
        assert_eq!(
            parsed(&format!("\"{}\"", ",".repeat(MAX_VALUES + 1))).unwrap().as_str().map(str::len),
            Some(MAX_VALUES + 1)
        );
    }

    #[test]
    fn serialized_json_keeps_its_other_members() {
        let raw: Json = serde_json::from_str("-1e999").unwrap();
        assert_eq!(held_value(&[("a", raw)]), json!([["a", "-1e999"]]));
        assert_eq!(held_value(&json!({"a": 1})), json!({"a": 1}));
    }
}
