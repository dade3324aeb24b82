//! JSON kept as text, borrowed strings, and the scanner that cuts a line into slices.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

mod held;
pub(crate) mod scan;

pub use held::{held_text, held_value};

/// JSON of any shape, kept as the text that the agent sent.
///
/// It is parsed only on request: a large payload of an unknown type costs only a copy, and values that
/// [`serde_json::Value`] cannot hold (lone surrogates, huge numbers) stay unchanged.
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

    /// Returns the parsed value; `Value::Null` if the text holds something that a [`Value`] cannot.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.get()).unwrap_or(Value::Null)
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

/// Reads a struct from an object. A list of its fields, which serde would accept, is an error.
///
/// # Errors
/// Returns the problem of the text if it is not such an object.
pub fn object<'de, T: Deserialize<'de>>(json: &'de str) -> serde_json::Result<T> {
    if json.trim_start().starts_with('[') {
        return Err(serde::de::Error::custom("a list, not an object"));
    }
    serde_json::from_str(json)
}
