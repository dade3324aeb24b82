//! Options as the bindings pass them: plain JSON in the caller's own naming and units.

use std::time::Duration;

use serde_json::{Map, Value};

use super::check::{LONGEST, duration_problem, kind_of};
use super::{Dialect, Executable, SessionOptions};
use crate::handler::Responder;
use crate::{Error, OnError, Result};

/// The habits of the calling language.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// `handshake_timeout`, in seconds.
    #[default]
    Snake,
    /// `handshakeTimeout`, in milliseconds.
    Camel,
}

/// Every option, in the order of the documentation.
const NAMES: [&str; 31] = [
    "work_dir",
    "session_id",
    "model",
    "thinking",
    "yolo",
    "config_file",
    "config",
    "executable",
    "env",
    "mcp_configs",
    "agent_file",
    "skills_dir",
    "tools",
    "max_steps_per_turn",
    "max_retries_per_step",
    "on_approval",
    "on_question",
    "hooks",
    "on_event",
    "on_stderr",
    "client_name",
    "client_version",
    "extra_args",
    "dialect",
    "handshake_timeout",
    "cancel_timeout",
    "close_timeout",
    "idle_timeout",
    "turn_timeout",
    "max_line_bytes",
    "event_buffer_bytes",
];

impl SessionOptions {
    /// Reads plain options. What is a function in the host language (tools, hooks and handlers) is set afterwards; of
    /// those only the word `"manual"` may be here. Null is unset.
    ///
    /// ```
    /// use kimi_agent::{Naming, SessionOptions};
    /// use serde_json::json;
    /// let plain = json!({"workDir": ".", "handshakeTimeout": 90_000});
    /// SessionOptions::from_json(plain.as_object().unwrap().clone(), Naming::Camel)?.validate()?;
    ///
    /// let wrong = json!({"workdir": "."});
    /// let error = SessionOptions::from_json(wrong.as_object().unwrap().clone(), Naming::Camel).unwrap_err();
    /// assert_eq!(error.to_string(), "invalid option `workdir`: there is no such option; did you mean `workDir`?");
    /// # Ok::<(), kimi_agent::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidOption`, in the caller's own naming.
    #[doc(hidden)]
    pub fn from_json(map: Map<String, Value>, naming: Naming) -> Result<Self> {
        let mut options = Self { naming, ..Self::default() };
        for (given, value) in map {
            let Some(name) = NAMES.iter().copied().find(|name| naming.name(name) == given) else {
                return Err(unknown(&given, naming));
            };
            if !value.is_null() {
                options.set(name, value)?;
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: Value) -> Result<()> {
        let field = Field { option: name, naming: self.naming };
        match name {
            "work_dir" => self.work_dir = Some(field.text(value)?.into()),
            "session_id" => self.session_id = Some(field.text(value)?),
            "model" => self.model = Some(field.text(value)?),
            "thinking" => self.thinking = Some(field.boolean(&value)?),
            "yolo" => self.yolo = field.boolean(&value)?,
            "config_file" => self.config_file = Some(field.text(value)?.into()),
            "config" => self.config = Some(Value::Object(field.object(value)?)),
            "executable" => self.executable = Some(field.executable(value)?),
            "env" => {
                for (variable, value) in field.object(value)? {
                    let Value::String(value) = value else {
                        return Err(field
                            .wrong(format!("expected an object of text, got {} for {variable:?}", kind_of(&value))));
                    };
                    self.env.push((variable.into(), value.into()));
                }
            }
            "mcp_configs" => self.mcp_configs = field.list(value, "a list of objects")?,
            "agent_file" => self.agent_file = Some(field.text(value)?.into()),
            "skills_dir" => self.skills_dir = Some(field.text(value)?.into()),
            "max_steps_per_turn" => self.max_steps_per_turn = Some(field.count(&value)?),
            "max_retries_per_step" => self.max_retries_per_step = Some(field.count(&value)?),
            "on_approval" => {
                field.manual(&value)?;
                self.on_approval = Responder::Manual;
            }
            "on_question" => {
                field.manual(&value)?;
                self.on_question = Responder::Manual;
            }
            "client_name" => self.client_name = Some(field.text(value)?),
            "client_version" => self.client_version = Some(field.text(value)?),
            "extra_args" => self.extra_args = field.texts(value)?.into_iter().map(Into::into).collect(),
            "dialect" => {
                let text = field.text(value)?;
                self.dialect = Dialect::parse(&text)
                    .ok_or_else(|| field.wrong(format!("expected {}, got {text:?}", Dialect::EXPECTED)))?;
            }
            "handshake_timeout" => self.handshake_timeout = field.duration(&value)?,
            "cancel_timeout" => self.cancel_timeout = field.duration(&value)?,
            "close_timeout" => self.close_timeout = field.duration(&value)?,
            "idle_timeout" => self.idle_timeout = Some(field.duration(&value)?),
            "turn_timeout" => self.turn_timeout = Some(field.duration(&value)?),
            "max_line_bytes" => self.max_line_bytes = field.bytes(&value)?,
            "event_buffer_bytes" => self.event_buffer_bytes = field.bytes(&value)?,
            "tools" => return Err(field.wrong(format!("expected a list of tools, got {}", kind_of(&value)))),
            "hooks" => return Err(field.wrong(format!("expected a list of hooks, got {}", kind_of(&value)))),
            _ => return Err(field.wrong(format!("expected a function, got {}", kind_of(&value)))),
        }
        Ok(())
    }
}

/// Reads values and says what is wrong with them.
struct Field<'a> {
    option: &'a str,
    naming: Naming,
}

impl Field<'_> {
    fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::option(self.naming.name(self.option), reason)
    }

    fn expected(&self, what: &str, got: &Value) -> Error {
        self.wrong(format!("expected {what}, got {}", kind_of(got)))
    }

    fn text(&self, value: Value) -> Result<String> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(self.expected("text", &other)),
        }
    }

    fn boolean(&self, value: &Value) -> Result<bool> {
        value.as_bool().ok_or_else(|| self.expected("a boolean", value))
    }

    fn object(&self, value: Value) -> Result<Map<String, Value>> {
        match value {
            Value::Object(map) => Ok(map),
            other => Err(self.expected("an object", &other)),
        }
    }

    fn list(&self, value: Value, what: &str) -> Result<Vec<Value>> {
        match value {
            Value::Array(items) => Ok(items),
            other => Err(self.expected(what, &other)),
        }
    }

    fn texts(&self, value: Value) -> Result<Vec<String>> {
        let items = self.list(value, "a list of text")?;
        let text = |item| match item {
            Value::String(text) => Ok(text),
            other => Err(self.wrong(format!("expected a list of text, got {} in it", kind_of(&other)))),
        };
        items.into_iter().map(text).collect()
    }

    fn executable(&self, value: Value) -> Result<Executable> {
        match value {
            Value::String(program) => Ok(program.into()),
            Value::Array(_) => Ok(self.texts(value)?.into()),
            other => Err(self.expected("a path, or a list of a path and arguments", &other)),
        }
    }

    fn manual(&self, value: &Value) -> Result<()> {
        match value {
            Value::String(word) if word == "manual" => Ok(()),
            Value::String(word) => Err(self.wrong(format!("expected a function or \"manual\", got {word:?}"))),
            other => Err(self.expected("a function or \"manual\"", other)),
        }
    }

    fn whole(&self, value: &Value, what: &str) -> Result<u64> {
        // Languages with one kind of number write 5 as 5.0 at times.
        let number = value
            .as_u64()
            .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..9e15).contains(n)).map(|n| n as u64));
        match (number, value) {
            (Some(number), _) => Ok(number),
            (None, Value::Number(got)) => Err(self.wrong(format!("expected {what}, got {got}"))),
            (None, other) => Err(self.expected(what, other)),
        }
    }

    fn count(&self, value: &Value) -> Result<u32> {
        let what = "a whole number from 1 on";
        match u32::try_from(self.whole(value, what)?) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(self.wrong(format!("expected {what}, got {value}"))),
        }
    }

    fn bytes(&self, value: &Value) -> Result<usize> {
        let what = "a whole number of bytes";
        usize::try_from(self.whole(value, what)?).map_err(|_| self.wrong(format!("expected {what}, got {value}")))
    }

    fn duration(&self, value: &Value) -> Result<Duration> {
        let (unit, scale) = match self.naming {
            Naming::Snake => ("seconds", 1.0),
            Naming::Camel => ("milliseconds", 1e-3),
        };
        let Some(number) = value.as_f64() else {
            return Err(self.expected(&format!("a number of {unit}"), value));
        };
        let seconds = number * scale;
        if seconds > 0.0 && seconds <= LONGEST.as_secs_f64() {
            // What is too little to count is still more than nothing.
            return Ok(Duration::from_secs_f64(seconds).max(Duration::from_nanos(1)));
        }
        let problem = duration_problem(if seconds > 0.0 { Duration::MAX } else { Duration::ZERO }).unwrap_or_default();
        Err(self.wrong(format!("{problem} ({unit}), got {value}")))
    }
}

fn unknown(given: &str, naming: Naming) -> Error {
    let plain = |name: &str| name.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_lowercase();
    let wanted = plain(given);
    let closest = NAMES.iter().map(|name| (distance(&wanted, &plain(name)), name)).min();
    let hint = match closest {
        // Two letters of five may be wrong; more is another word.
        Some((distance, name)) if distance * 5 <= wanted.len() * 2 => {
            format!("there is no such option; did you mean `{}`?", naming.name(name))
        }
        _ => "there is no such option".to_owned(),
    };
    Error::option(given, hint)
}

/// How many letters must be put in, taken out or replaced to make one text of the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// A tool without its function.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// The JSON Schema of its parameters.
    pub parameters: Value,
    /// How long its function may take.
    pub timeout: Option<Duration>,
}

/// A hook without its function.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct HookSpec {
    /// The event that it is on.
    pub event: String,
    /// The targets that it is for.
    pub matcher: Option<String>,
    /// How long its function may take.
    pub timeout: Option<Duration>,
    /// What counts where its function fails.
    pub on_error: OnError,
}

/// Reads `{name, description, parameters, timeout?}`, and checks it.
///
/// # Errors
/// `InvalidOption` for `tools`.
#[doc(hidden)]
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
/// `InvalidOption` for `hooks`.
#[doc(hidden)]
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

/// One of the items of an option that is a list of objects.
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
        match map.keys().find(|key| !known.iter().any(|name| naming.name(name) == **key)) {
            Some(key) => Err(field.wrong(format!("{what} has `{key}`, which is not known"))),
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
