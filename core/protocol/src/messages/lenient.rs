//! Fields that agents write in another form, which is clear: the arguments of a call as an object instead of its text, and an id
//! as a number. The macro `message!` names them: `or json` and `or number`. `or others` is for a list whose items are read one by one.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::value::{Decoded, Field, keep_unknown};
use super::{Extra, Json};
use crate::json::Key;

/// JSON text that the agent writes as a string, or as the JSON itself. Numbers keep their digits.
pub struct JsonText(pub Option<String>);

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = JsonText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON as text, or JSON itself")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<JsonText, E> {
                Ok(JsonText(Some(text.to_owned())))
            }
            fn visit_string<E: Error>(self, text: String) -> Result<JsonText, E> {
                Ok(JsonText(Some(text)))
            }
            fn visit_unit<E: Error>(self) -> Result<JsonText, E> {
                Ok(JsonText(None))
            }
            fn visit_bool<E: Error>(self, value: bool) -> Result<JsonText, E> {
                Ok(JsonText(Some(value.to_string())))
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<JsonText, E> {
                Ok(JsonText(Some(value.to_string())))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<JsonText, E> {
                Ok(JsonText(Some(value.to_string())))
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<JsonText, E> {
                Ok(JsonText(Some(Value::from(value).to_string())))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonText, A::Error> {
                let mut text = String::from("{");
                // A name that occurs twice stays twice: rules ask about such arguments.
                while let Some((name, value)) = map.next_entry::<Key<'de>, Json>()? {
                    if text.len() > 1 {
                        text.push(',');
                    }
                    text.push_str(&Value::from(&*name.0).to_string());
                    text.push(':');
                    text.push_str(value.get());
                }
                text.push('}');
                Ok(JsonText(Some(text)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<JsonText, A::Error> {
                let mut text = String::from("[");
                while let Some(value) = seq.next_element::<Json>()? {
                    if text.len() > 1 {
                        text.push(',');
                    }
                    text.push_str(value.get());
                }
                text.push(']');
                Ok(JsonText(Some(text)))
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// An id that the agent writes as text, or as a whole number.
struct Id(String);

/// The id of a field, which may be optional.
pub struct Number<T>(pub T);

impl<'de> Deserialize<'de> for Number<String> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Id::deserialize(deserializer).map(|id| Self(id.0))
    }
}

impl<'de> Deserialize<'de> for Number<Option<String>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<Id>::deserialize(deserializer).map(|id| Self(id.map(|id| id.0)))
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
                Ok(Id(text.to_owned()))
            }
            fn visit_string<E: Error>(self, text: String) -> Result<Id, E> {
                Ok(Id(text))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Id, E> {
                Ok(Id(number.to_string()))
            }
        }
        deserializer.deserialize_any(IdVisitor)
    }
}

/// Reads a list item by item. The items that cannot be read are left out, and kept in the field `unreadable_NAME`.
///
/// # Errors
/// Returns the problem of the first item if none can be read.
pub fn items<T: Field>(list: &Json, name: &str, extra: &mut Extra) -> serde_json::Result<Vec<T>> {
    let (mut read, mut unreadable, mut problem) = (Vec::new(), Vec::new(), None);
    for item in list.decode::<Option<Vec<Json>>>()?.unwrap_or_default() {
        match item.decode::<Decoded<T>>() {
            Ok(item) => read.push(item.0),
            Err(error) => {
                problem.get_or_insert(error);
                unreadable.push(item);
            }
        }
    }
    match problem {
        Some(problem) if read.is_empty() => return Err(problem),
        Some(problem) => {
            tracing::debug!(field = name, %problem, "unreadable items of a list left out");
            let unreadable: Vec<_> = unreadable.iter().map(Json::get).collect();
            let unreadable = Json::from_text(&format!("[{}]", unreadable.join(",")));
            keep_unknown(extra, format!("unreadable_{name}"), unreadable);
        }
        None => {}
    }
    Ok(read)
}
