//! Tools and hooks as the bindings pass them, without their handlers.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Naming;
use super::json::Field;
use super::value::{kind_of, tool_name_problem};
use crate::{Error, OnError, Result};

/// A tool without its handler.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// The description that the model reads.
    pub description: String,
    /// The JSON Schema of its parameters.
    pub parameters: Value,
    /// The timeout of its handler.
    pub timeout: Option<Duration>,
}

/// A hook without its handler.
#[derive(Clone, Debug, PartialEq)]
pub struct HookSpec {
    /// The event of the hook.
    pub event: String,
    /// The matcher of the targets.
    pub matcher: Option<String>,
    /// The timeout of its handler.
    pub timeout: Option<Duration>,
    /// The decision if the handler fails.
    pub on_error: OnError,
}

/// Reads `{name, description, parameters, timeout?}`, and checks it.
///
/// # Errors
/// Returns `InvalidOption` for `tools`.
pub fn parse_tool(value: Value, naming: Naming) -> Result<ToolSpec> {
    let mut item = Item::new(value, "tools", naming, &["name", "description", "parameters", "timeout"])?;
    let name = item.text("name")?.unwrap_or_default();
    if let Some(problem) = tool_name_problem(&name) {
        return Err(item.field().wrong(problem));
    }
    item.what = format!("the tool `{name}`");
    let description = item.text("description")?.unwrap_or_default();
    let parameters = match item.take("parameters") {
        Some(Value::Object(map)) => Value::Object(map),
        other => {
            let got = other.as_ref().map_or("nothing", kind_of);
            let problem = format!("{}: expected an object (a JSON Schema) in `parameters`, got {got}", item.what);
            return Err(item.field().wrong(problem));
        }
    };
    Ok(ToolSpec { name, description, parameters, timeout: item.timeout()? })
}

/// Reads `{event, matcher?, timeout?, on_error?}`, and checks it.
///
/// # Errors
/// Returns `InvalidOption` for `hooks`.
pub fn parse_hook(value: Value, naming: Naming) -> Result<HookSpec> {
    let mut item = Item::new(value, "hooks", naming, &["event", "matcher", "timeout", "on_error"])?;
    let event = item.text("event")?.filter(|event| !event.is_empty());
    let Some(event) = event else {
        return Err(item.field().wrong("a hook needs the name of an event in `event`"));
    };
    item.what = format!("the hook on `{event}`");
    let on_error = match item.text("on_error")?.as_deref() {
        None | Some("allow") => OnError::Allow,
        Some("block") => OnError::Block,
        Some(other) => {
            let name = naming.name("on_error");
            let problem = format!("{}: expected \"allow\" or \"block\" in `{name}`, got {other:?}", item.what);
            return Err(item.field().wrong(problem));
        }
    };
    Ok(HookSpec { event, matcher: item.text("matcher")?, timeout: item.timeout()?, on_error })
}

/// An item of an option that is a list of objects.
struct Item {
    option: &'static str,
    naming: Naming,
    what: String,
    map: Map<String, Value>,
}

impl Item {
    fn new(value: Value, option: &'static str, naming: Naming, known: &[&str]) -> Result<Self> {
        let field = Field { option, naming };
        let what = format!("one of the {option}");
        let map = match value {
            Value::Object(map) => map,
            other => return Err(field.wrong(format!("expected a list of objects, got {} in it", kind_of(&other)))),
        };
        let expected: Vec<String> = known.iter().map(|name| naming.name(name)).collect();
        match map.keys().find(|key| !expected.contains(key)) {
            Some(key) => {
                Err(field.wrong(format!("{what} has an unknown key `{key}`; expected only {}", expected.join(", "))))
            }
            None => Ok(Self { option, naming, what, map }),
        }
    }

    fn field(&self) -> Field<'_> {
        Field { option: self.option, naming: self.naming }
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(&self.naming.name(key)).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => {
                let key = self.naming.name(key);
                let problem = format!("{}: expected text in `{key}`, got {}", self.what, kind_of(&other));
                Err(self.field().wrong(problem))
            }
        }
    }

    fn timeout(&mut self) -> Result<Option<Duration>> {
        let Some(value) = self.take("timeout") else { return Ok(None) };
        self.field().duration(&value).map(Some).map_err(|error| match error {
            Error::InvalidOption { option, reason } => {
                Error::InvalidOption { option, reason: format!("{}: in `timeout`: {reason}", self.what) }
            }
            other => other,
        })
    }
}
