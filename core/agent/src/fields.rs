//! Reads the JSON of scripts. Errors name the turn, the action and the field.

use std::cell::RefCell;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The problem of a script, and where it is.
pub(crate) type Wrong = String;

/// Adds the place to a problem.
pub(crate) fn wrong(place: &str, what: impl std::fmt::Display) -> Wrong {
    if place.is_empty() { what.to_string() } else { format!("{place}: {what}") }
}

/// The fields of an object. Each is taken by name; `finish` reports the fields that were not taken.
pub(crate) struct Fields<'a> {
    place: String,
    /// The names of the enclosing objects, for example `tool_call.approve`.
    within: String,
    map: &'a Map<String, Value>,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(place: &str, value: &'a Value) -> Result<Self, Wrong> {
        match value {
            Value::Object(map) => {
                Ok(Self { place: place.to_owned(), within: String::new(), map, known: RefCell::default() })
            }
            other => Err(wrong(place, format_args!("must be an object, not {}", a(other)))),
        }
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.map.keys().map(String::as_str)
    }

    /// Makes the error for a field.
    pub(crate) fn wrong(&self, name: &str, what: impl std::fmt::Display) -> Wrong {
        wrong(&self.place, format_args!("\"{}{name}\" {what}", self.within))
    }

    /// Returns a copy of a member that is passed on unread.
    pub(crate) fn value(&self, name: &str) -> Value {
        self.map.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn get(&self, name: &'static str) -> Option<&'a Value> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
        self.map.get(name)
    }

    fn typed<T>(
        &self,
        name: &'static str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Wrong> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match read(value) {
                None => Err(self.wrong(name, format_args!("must be {what}, not {}", a(value)))),
                some => Ok(some),
            },
        }
    }

    pub(crate) fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, Wrong> {
        value.ok_or_else(|| self.wrong(name, "is missing"))
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<Option<String>, Wrong> {
        self.typed(name, "text", |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn required_text(&self, name: &'static str) -> Result<String, Wrong> {
        self.required(name, self.text(name)?)
    }

    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Vec<String>>, Wrong> {
        self.typed(name, "text or a list of texts", |value| match value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(list) => list.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            _ => None,
        })
    }

    pub(crate) fn whole(&self, name: &'static str) -> Result<Option<i64>, Wrong> {
        self.typed(name, "a whole number", Value::as_i64)
    }

    pub(crate) fn flag(&self, name: &'static str) -> Result<Option<bool>, Wrong> {
        self.typed(name, "true or false", Value::as_bool)
    }

    /// Reads the flag of an action without arguments.
    pub(crate) fn only_true(&self, name: &'static str) -> Result<(), Wrong> {
        self.typed(name, "true", |value| value.as_bool().filter(|on| *on)).map(drop)
    }

    pub(crate) fn seconds(&self, name: &'static str) -> Result<Option<Duration>, Wrong> {
        self.typed(name, "a number of seconds", |value| Duration::try_from_secs_f64(value.as_f64()?).ok())
    }

    pub(crate) fn list(&self, name: &'static str) -> Result<Option<&'a Vec<Value>>, Wrong> {
        self.typed(name, "a list", Value::as_array)
    }

    pub(crate) fn object(&self, name: &'static str) -> Result<Option<Fields<'a>>, Wrong> {
        let map = self.typed(name, "an object", Value::as_object)?;
        Ok(map.map(|map| Fields {
            place: self.place.clone(),
            within: format!("{}{name}.", self.within),
            map,
            known: RefCell::default(),
        }))
    }

    pub(crate) fn required_object(&self, name: &'static str) -> Result<Fields<'a>, Wrong> {
        self.required(name, self.object(name)?)
    }

    /// Takes a value that must have the form of `T`, and returns it unchanged.
    pub(crate) fn shaped<T: DeserializeOwned>(&self, name: &'static str) -> Result<Option<Value>, Wrong> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match serde_path_to_error::deserialize::<_, T>(value) {
            Ok(_) => Ok(Some(value.clone())),
            Err(error) if error.path().iter().next().is_none() => Err(self.wrong(name, error.inner())),
            Err(error) => Err(self.wrong(&format!("{name}.{}", error.path()), error.inner())),
        }
    }

    /// Reports the fields that were not taken. Call it last.
    pub(crate) fn finish(&self) -> Result<(), Wrong> {
        let known = self.known.borrow();
        match self.map.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let known = known.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
                Err(self.wrong(name, format_args!("is not known here (there are {known})")))
            }
        }
    }
}

/// Returns the name of a value's type, for errors.
pub(crate) fn a(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().count() > 40 => "a long text".to_owned(),
        other => other.to_string(),
    }
}
