//! Options as the bindings pass them: plain JSON in the caller's own naming and units.

use std::time::Duration;

use serde_json::{Map, Value};

use super::check::{LONGEST, duration_problem, is_too_deep, kind_of, too_deep};
use super::{Dialect, Executable, SessionOptions};
use crate::handler::Responder;
use crate::naming::{Naming, OPTION_NAMES};
use crate::{Error, Result};

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
            let Some(name) = OPTION_NAMES.iter().copied().find(|name| naming.name(name) == given) else {
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
        if is_too_deep(&value) {
            return Err(field.wrong(too_deep()));
        }
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
                    .ok_or_else(|| field.wrong(format!("expected {}, got {text:?}", Dialect::expected())))?;
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
pub(super) struct Field<'a> {
    pub(super) option: &'a str,
    pub(super) naming: Naming,
}

impl Field<'_> {
    pub(super) fn wrong(&self, reason: impl Into<String>) -> Error {
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

    /// As `duration`, but zero is allowed.
    fn duration_or_zero(&self, value: &Value) -> Result<Duration> {
        if value.as_f64() == Some(0.0) { Ok(Duration::ZERO) } else { self.duration(value) }
    }

    pub(super) fn duration(&self, value: &Value) -> Result<Duration> {
        let (unit, scale) = self.naming.unit();
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

/// The names that other SDKs and people have for options.
const ALIASES: [(&str, &str); 25] = [
    ("allow_all", "yolo"),
    ("args", "extra_args"),
    ("auto_approve", "yolo"),
    ("can_use_tool", "on_approval"),
    ("cli_path", "executable"),
    ("command", "executable"),
    ("cwd", "work_dir"),
    ("deadline", "turn_timeout"),
    ("directory", "work_dir"),
    ("environment", "env"),
    ("kimi_path", "executable"),
    ("max_steps", "max_steps_per_turn"),
    ("max_turns", "max_steps_per_turn"),
    ("mcp_servers", "mcp_configs"),
    ("path", "executable"),
    ("protocol", "dialect"),
    ("resume", "session_id"),
    ("root", "work_dir"),
    ("session", "session_id"),
    ("settings", "config"),
    ("skills", "skills_dir"),
    ("start_timeout", "handshake_timeout"),
    ("stderr", "on_stderr"),
    ("timeout", "turn_timeout"),
    ("workspace", "work_dir"),
];

/// Checks names of options, before anything is done with their values.
///
/// # Errors
/// `InvalidOption` names the first that is unknown, with a suggestion.
pub fn check_names<'a>(given: impl IntoIterator<Item = &'a str>, naming: Naming) -> Result<()> {
    let is_known = |given: &str| OPTION_NAMES.iter().any(|name| naming.name(name) == given);
    given.into_iter().find(|given| !is_known(given)).map_or(Ok(()), |given| Err(unknown(given, naming)))
}

/// The error for a value that a binding can't hand over, since it has no form as JSON; `got` is its type.
pub fn wrong_type(option: &str, got: &str, naming: Naming) -> Error {
    let Some(name) = OPTION_NAMES.iter().copied().find(|name| naming.name(name) == option) else {
        return unknown(option, naming);
    };
    let unit = naming.unit().0;
    let expected = match name {
        "work_dir" | "config_file" | "agent_file" | "skills_dir" => "a path".to_owned(),
        "thinking" | "yolo" => "a boolean".to_owned(),
        "config" => "an object".to_owned(),
        "executable" => "a path, or a list of a path and arguments".to_owned(),
        "env" => "an object of text".to_owned(),
        "mcp_configs" => "a list of objects".to_owned(),
        "extra_args" => "a list of text".to_owned(),
        "tools" => "a list of tools".to_owned(),
        "hooks" => "a list of hooks".to_owned(),
        "max_steps_per_turn" | "max_retries_per_step" => "a whole number from 1 on".to_owned(),
        "max_line_bytes" | "event_buffer_bytes" => "a whole number of bytes".to_owned(),
        "on_approval" | "on_question" => "a function or \"manual\"".to_owned(),
        name if name.ends_with("_timeout") => format!("a number of {unit}"),
        name if name.starts_with("on_") => "a function".to_owned(),
        _ => "text".to_owned(),
    };
    Error::option(option, format!("expected {expected}, got {got}"))
}

/// The argument of `close()`, which overrides `close_timeout`. Zero kills at once, null is unset.
pub fn close_timeout(value: &Value, naming: Naming) -> Result<Option<Duration>> {
    let field = Field { option: "timeout", naming };
    if value.is_null() { Ok(None) } else { field.duration_or_zero(value).map(Some) }
}

fn unknown(given: &str, naming: Naming) -> Error {
    match suggestion(given, &OPTION_NAMES, &ALIASES) {
        Some(name) => Error::option(given, format!("there is no such option; did you mean `{}`?", naming.name(name))),
        None => Error::option(given, "there is no such option"),
    }
}

/// The name that may have been meant: the name, or the alias of a name, that is spelled most alike.
pub(crate) fn suggestion<'a>(given: &str, names: &[&'a str], aliases: &[(&str, &'a str)]) -> Option<&'a str> {
    let plain = |name: &str| name.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_lowercase();
    let wanted = plain(given);
    let spellings = names.iter().map(|name| (*name, *name)).chain(aliases.iter().copied());
    let (distance, name) = spellings.map(|(spelling, name)| (distance(&wanted, &plain(spelling)), name)).min()?;
    // Two letters of five may be wrong; more is another word.
    (distance * 5 <= wanted.len() * 2).then_some(name)
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
