//! Reads keywords of one schema. A value of the wrong type is refused with its place.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::rules::{Bounds, TYPES, Types, type_of};
use super::{MAX_MESSAGE, escaped, number, quoted, shortened};

/// The annotations, with the types of their values.
const ANNOTATIONS: [(&str, &str); 10] = [
    ("$comment", "string"),
    ("title", "string"),
    ("description", "string"),
    ("format", "string"),
    ("contentEncoding", "string"),
    ("contentMediaType", "string"),
    ("$id", "string"),
    ("examples", "array"),
    ("readOnly", "boolean"),
    ("writeOnly", "boolean"),
];

/// The keywords of one schema, and its place.
#[derive(Clone, Copy)]
pub(super) struct Keywords<'s, 'p> {
    pub(super) map: &'s Map<String, Value>,
    pub(super) pointer: &'p str,
}

/// Describes a wrong value in a schema.
pub(super) fn wrong_at(pointer: &str, message: &str) -> String {
    let place = if pointer.is_empty() { String::new() } else { format!("at `{}`: ", shortened(pointer, MAX_MESSAGE)) };
    format!("the schema is not a JSON Schema: {place}{}", shortened(message, MAX_MESSAGE))
}

impl<'s> Keywords<'s, '_> {
    pub(super) fn value(self, key: &str) -> Option<&'s Value> {
        self.map.get(key)
    }

    pub(super) fn place(self, key: &str) -> String {
        format!("{}/{}", self.pointer, escaped(key))
    }

    pub(super) fn wrong(self, key: &str, message: &str) -> String {
        wrong_at(&self.place(key), message)
    }

    fn unexpected(self, key: &str, want: &str, value: &Value) -> String {
        self.wrong(key, &format!("want {want}, but got {}", type_of(value)))
    }

    /// Refuses annotations of the wrong type.
    pub(super) fn check_annotations(self) -> Result<(), String> {
        for (key, want) in ANNOTATIONS {
            if let Some(value) = self.value(key).filter(|value| type_of(value) != want) {
                return Err(self.unexpected(key, want, value));
            }
        }
        Ok(())
    }

    pub(super) fn text(self, key: &str) -> Result<Option<&'s str>, String> {
        let read = |value: &'s Value| value.as_str().ok_or_else(|| self.unexpected(key, "string", value));
        self.value(key).map(read).transpose()
    }

    pub(super) fn flag(self, key: &str) -> Result<bool, String> {
        let read = |value: &Value| value.as_bool().ok_or_else(|| self.unexpected(key, "boolean", value));
        Ok(self.value(key).map(read).transpose()?.unwrap_or_default())
    }

    pub(super) fn list(self, key: &str) -> Result<Option<&'s Vec<Value>>, String> {
        let read = |value: &'s Value| value.as_array().ok_or_else(|| self.unexpected(key, "array", value));
        self.value(key).map(read).transpose()
    }

    pub(super) fn object(self, key: &str) -> Result<Option<&'s Map<String, Value>>, String> {
        let read = |value: &'s Value| value.as_object().ok_or_else(|| self.unexpected(key, "object", value));
        self.value(key).map(read).transpose()
    }

    pub(super) fn number(self, key: &str) -> Result<Option<Number>, String> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number.clone())),
            Some(other) => Err(self.unexpected(key, "number", other)),
        }
    }

    pub(super) fn count(self, key: &str) -> Result<Option<usize>, String> {
        let Some(number) = self.value(key) else { return Ok(None) };
        match number {
            Value::Number(number) if number::is_whole(number) => {
                if number.as_f64().is_some_and(|float| float < 0.0) {
                    return Err(self.wrong(key, &format!("must be >=0, but got {number}")));
                }
                // A larger number than any length is as good as the largest length.
                Ok(Some(number.as_u64().map_or_else(|| number.as_f64().unwrap_or(f64::MAX) as usize, |n| n as usize)))
            }
            other => Err(self.unexpected(key, "integer", other)),
        }
    }

    pub(super) fn bounds(self, min: &str, max: &str) -> Result<Bounds, String> {
        Ok(Bounds { min: self.count(min)?, max: self.count(max)? })
    }

    /// Reads the names of properties in a list.
    pub(super) fn names(self, key: &str) -> Result<Vec<String>, String> {
        let mut names: Vec<String> = Vec::new();
        let mut known = HashSet::new();
        for (n, value) in self.list(key)?.into_iter().flatten().enumerate() {
            let name = value.as_str().ok_or_else(|| {
                wrong_at(&format!("{}/{n}", self.place(key)), &format!("want string, but got {}", type_of(value)))
            })?;
            if !known.insert(name) {
                return Err(self.wrong(key, &format!("items are equal: {}", quoted(name))));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    pub(super) fn types(self) -> Result<Option<Types>, String> {
        let Some(value) = self.value("type") else { return Ok(None) };
        let names = match value {
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        if names.is_empty() {
            return Err(self.wrong("type", "minimum 1 items required, but got 0 items"));
        }
        let mut types = Types::default();
        for (n, name) in names.iter().enumerate() {
            let place = if value.is_array() { format!("{}/{n}", self.place("type")) } else { self.place("type") };
            let Some(name) = name.as_str().filter(|name| TYPES.contains(name)) else {
                let mut known = TYPES.map(quoted);
                known.sort();
                return Err(wrong_at(&place, &format!("value must be one of {}", known.join(", "))));
            };
            if !types.insert(name) {
                return Err(self.wrong("type", &format!("items are equal: {}", quoted(name))));
            }
        }
        Ok(Some(types))
    }
}
