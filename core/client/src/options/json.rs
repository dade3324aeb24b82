//! Options as the bindings pass them: plain JSON in the caller's own naming and units.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kimi_agent_protocol::budget::parse_budget;
use kimi_agent_protocol::cost::{Prices, parse_prices};
use kimi_agent_protocol::options::{Kind, LONGEST, OPTIONS, OptionInfo, find};
use kimi_agent_protocol::output::parse_output;
use kimi_agent_protocol::spelling::nearest;
use serde_json::{Map, Value};

use super::file_url::path_of;
use super::value::{duration_problem, is_too_deep, kind_of, too_deep};
use super::{Dialect, Enforce, Executable, InheritEnv, SessionOptions};
use crate::dialect::SystemPrompt;
use crate::error::invalid_option;
use crate::handler::Responder;
use crate::local::{Files, Terminals, files, terminals};
use crate::naming::Naming;
use crate::place;
use crate::session::policy::Policy;
use crate::{Budget, Error, Output, Result};

/// Reads the options of a session. Null is the default. Tools, hooks and handlers are set afterwards; the JSON can only
/// have `"manual"` for a handler.
///
/// # Errors
/// Returns `InvalidOption`, with the caller's names.
pub fn session_options(map: Map<String, Value>, naming: Naming) -> Result<SessionOptions> {
    let language = if naming == Naming::Camel { "node" } else { "python" };
    let mut options = SessionOptions { naming, language, ..SessionOptions::default() };
    for (given, value) in map {
        options.set_named(&given, value)?;
    }
    Ok(options)
}

impl SessionOptions {
    /// Sets an option by its name in the caller's naming. Null leaves it as it is.
    pub(crate) fn set_named(&mut self, given: &str, value: Value) -> Result<()> {
        let option = find(OPTIONS, given, self.naming).ok_or_else(|| unknown(given, self.naming, &[]))?;
        if value.is_null() { Ok(()) } else { self.set(option, value) }
    }

    fn set(&mut self, option: &OptionInfo, value: Value) -> Result<()> {
        let field = Field { option: option.name, naming: self.naming };
        if is_too_deep(&value) {
            return Err(field.wrong(too_deep()));
        }
        match option.name {
            "work_dir" => self.work_dir = Some(field.path(value)?),
            "session_id" => self.session_id = Some(field.text(value)?),
            "model" => self.model = Some(field.text(value)?),
            "thinking" => self.thinking = Some(field.boolean(&value)?),
            "read_session_files" => self.read_session_files = field.boolean(&value)?,
            "yolo" => self.yolo = field.boolean(&value)?,
            "config_file" => self.config_file = Some(field.path(value)?),
            "config" => self.config = Some(Value::Object(field.object(value, Kind::Object)?)),
            "executable" => self.executable = Some(field.executable(value)?),
            "env" => {
                for (variable, value) in field.object(value, Kind::Environment)? {
                    let value = match value {
                        Value::String(value) => Some(value.into()),
                        Value::Null => None,
                        other => {
                            let (expected, got) = (Kind::Environment.expected(self.naming), kind_of(&other));
                            return Err(field.wrong(format!("expected {expected}, got {got} for {variable:?}")));
                        }
                    };
                    self.set_variable(variable.into(), value);
                }
            }
            "inherit_env" => {
                self.inherited.rule = match value {
                    Value::Bool(true) => InheritEnv::All,
                    Value::Bool(false) => InheritEnv::Needed,
                    Value::Array(_) => InheritEnv::Only(field.texts(Kind::Texts, value)?),
                    other => return Err(field.expected(Kind::InheritEnv, &other)),
                };
            }
            "auth" => self.auth = Some(field.text(value)?),
            "place" => {
                let place = place::read(field.object(value, Kind::Place)?, self.naming);
                self.place = Some(Box::new(place.map_err(|problem| field.wrong(problem))?));
            }
            "mcp_configs" => self.mcp_configs = field.list(value, Kind::Objects)?,
            "agent_file" => self.agent_file = Some(field.path(value)?),
            "system_prompt" => self.system_prompt = Some(field.system_prompt(value)?),
            "additional_directories" => {
                self.additional_directories =
                    field.texts(Kind::Directories, value)?.into_iter().map(Into::into).collect();
            }
            "agent_meta" => self.agent_meta = Some(Value::Object(field.object(value, Kind::Object)?)),
            "skills_dir" => self.skills_dir = Some(field.path(value)?),
            "max_steps_per_turn" => self.max_steps_per_turn = Some(field.count(&value)?),
            "max_retries_per_step" => self.max_retries_per_step = Some(field.count(&value)?),
            // The bindings take every other value, because it needs their language.
            "telemetry" if value == false => {}
            "policy" => self.policy = Some(Arc::new(field.policy(&value)?)),
            "enforce" => {
                let text = value.as_str().and_then(Enforce::parse);
                let expected = Kind::Enforce.expected(field.naming);
                self.enforce = text.ok_or_else(|| field.wrong(format!("expected {expected}, got {value}")))?;
            }
            "on_approval" => {
                field.manual(&value)?;
                self.on_approval = Responder::Manual;
            }
            "on_question" => {
                field.manual(&value)?;
                self.on_question = Responder::Manual;
            }
            "on_read_file" => {
                let files = field.ready_files(&value)?;
                self.services.read_file = Some(Arc::new(files.reader()));
            }
            "on_write_file" => {
                let files = field.ready_files(&value)?;
                self.services.write_file = Some(Arc::new(files.writer()));
            }
            "on_terminal" => {
                let terminals = field.ready_terminals(&value)?;
                self.services.terminal = Some(Arc::new(terminals.runner()));
            }
            "client_name" => self.client_name = Some(field.text(value)?),
            "client_version" => self.client_version = Some(field.text(value)?),
            "extra_args" => self.extra_args = field.texts(Kind::Texts, value)?.into_iter().map(Into::into).collect(),
            "dialect" => {
                let text = field.text(value)?;
                self.dialect = Dialect::parse(&text)
                    .ok_or_else(|| field.wrong(format!("expected {}, got {text:?}", Dialect::expected())))?;
            }
            "handshake_timeout" => self.handshake_timeout = field.duration(&value)?,
            "cancel_timeout" => self.cancel_timeout = field.duration(&value)?,
            "close_timeout" => self.close_timeout = field.duration_or_zero(&value)?,
            "idle_timeout" => self.idle_timeout = Some(field.duration(&value)?),
            "session_budget" => self.session_budget = Some(field.budget(value)?),
            "prices" => self.prices = Some(field.prices(value)?),
            "output" => self.output = Some(Box::new(field.output(value)?)),
            "record" => self.record = Some(field.path(value)?),
            "redact" => self.redact = field.texts(Kind::Texts, value)?,
            "turn_timeout" => self.turn_timeout = Some(field.duration(&value)?),
            "max_line_bytes" => self.max_line_bytes = field.bytes(&value)?,
            "event_buffer_bytes" => self.event_buffer_bytes = field.bytes(&value)?,
            _ => return Err(field.expected(option.kind, &value)),
        }
        Ok(())
    }
}

/// Reads values, and describes their problems.
pub(super) struct Field<'a> {
    pub(super) option: &'a str,
    pub(super) naming: Naming,
}

impl Field<'_> {
    pub(super) fn wrong(&self, reason: impl Into<String>) -> Error {
        invalid_option(self.naming.name(self.option), reason)
    }

    /// Reads what `files()` of a binding has made: `{root, write, max_bytes}`.
    fn ready_files(&self, value: &Value) -> Result<Files> {
        let mut made = files(self.ready_root(value)?);
        if value.get("write") == Some(&Value::Bool(true)) {
            made = made.writable();
        }
        match value.get("max_bytes") {
            None | Some(Value::Null) => Ok(made),
            Some(limit) => Ok(made.max_bytes(self.bytes(limit)? as u64)),
        }
    }

    /// Reads what `terminals()` of a binding has made: `{root, timeout}`.
    fn ready_terminals(&self, value: &Value) -> Result<Terminals> {
        let made = terminals(self.ready_root(value)?);
        match value.get("timeout") {
            None | Some(Value::Null) => Ok(made),
            Some(limit) => Ok(made.timeout(self.duration(limit)?)),
        }
    }

    fn ready_root(&self, value: &Value) -> Result<PathBuf> {
        let root = value.get("root").and_then(Value::as_str).filter(|root| !root.is_empty());
        root.map(PathBuf::from).ok_or_else(|| self.wrong(format!("expected a function, got {}", kind_of(value))))
    }

    fn expected(&self, kind: Kind, got: &Value) -> Error {
        self.wrong(format!("expected {}, got {}", kind.expected(self.naming), kind_of(got)))
    }

    fn text(&self, value: Value) -> Result<String> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(self.expected(Kind::Text, &other)),
        }
    }

    fn path(&self, value: Value) -> Result<PathBuf> {
        match value {
            Value::String(path) => path_of(path).map_err(|problem| self.wrong(problem)),
            other => Err(self.expected(Kind::File, &other)),
        }
    }

    fn boolean(&self, value: &Value) -> Result<bool> {
        value.as_bool().ok_or_else(|| self.expected(Kind::Boolean, value))
    }

    fn object(&self, value: Value, kind: Kind) -> Result<Map<String, Value>> {
        match value {
            Value::Object(map) => Ok(map),
            other => Err(self.expected(kind, &other)),
        }
    }

    pub(super) fn budget(&self, value: Value) -> Result<Budget> {
        parse_budget(self.object(value, Kind::Budget)?, self.naming).map_err(|problem| self.wrong(problem))
    }

    fn prices(&self, value: Value) -> Result<Prices> {
        let (models, naming) = match value {
            Value::String(path) => (self.prices_of_file(path)?, Naming::Snake),
            value => (self.object(value, Kind::Prices)?, self.naming),
        };
        parse_prices(models, naming).map_err(|problem| self.wrong(problem))
    }

    #[cfg(feature = "policy")]
    fn prices_of_file(&self, path: String) -> Result<Map<String, Value>> {
        let path = path_of(path).map_err(|problem| self.wrong(problem))?;
        let failed = |problem: String| self.wrong(format!("the file {:?} cannot be read: {problem}", path.display()));
        kimi_agent_policy::toml_file(&path).map_err(failed)
    }

    #[cfg(not(feature = "policy"))]
    fn prices_of_file(&self, _: String) -> Result<Map<String, Value>> {
        Err(self.wrong("the program was built without the feature `policy` of the crate, which reads TOML; enable it"))
    }

    pub(super) fn output(&self, value: Value) -> Result<Output> {
        let spec = parse_output(self.object(value, Kind::Output)?).map_err(|problem| self.wrong(problem))?;
        Ok(Output::from_spec(spec))
    }

    fn list(&self, value: Value, kind: Kind) -> Result<Vec<Value>> {
        match value {
            Value::Array(items) => Ok(items),
            other => Err(self.expected(kind, &other)),
        }
    }

    fn texts(&self, kind: Kind, value: Value) -> Result<Vec<String>> {
        let items = self.list(value, kind)?;
        let text = |item| match item {
            Value::String(text) => Ok(text),
            other => Err(self.wrong(format!("expected {}, got {} in it", kind.expected(self.naming), kind_of(&other)))),
        };
        items.into_iter().map(text).collect()
    }

    /// Reads a text, or an object with `content` and `mode`.
    fn system_prompt(&self, value: Value) -> Result<SystemPrompt> {
        let Value::Object(mut object) = value else {
            return match value {
                Value::String(content) => Ok(content.into()),
                other => Err(self.expected(Kind::SystemPrompt, &other)),
            };
        };
        let content = object.remove("content").and_then(|content| content.as_str().map(str::to_owned));
        let content = content.ok_or_else(|| self.wrong("`content`: expected text"))?;
        let overrides = match object.remove("mode") {
            None => false,
            Some(mode) if mode == "append" => false,
            Some(mode) if mode == "override" => true,
            Some(mode) => return Err(self.wrong(format!("`mode`: expected \"append\" or \"override\", got {mode}"))),
        };
        match object.keys().next() {
            Some(unknown) => Err(self.wrong(format!("expected `content` and `mode`, got `{unknown}`"))),
            None if overrides => Ok(SystemPrompt::overriding(content)),
            None => Ok(content.into()),
        }
    }

    fn executable(&self, value: Value) -> Result<Executable> {
        match value {
            Value::String(program) => Ok(path_of(program).map_err(|problem| self.wrong(problem))?.into()),
            Value::Array(items) if items.iter().any(|item| item.is_array() || item.is_object()) => {
                let script = self.naming.name("scripted_agent");
                Err(self.wrong(format!("expected a path, or a list of text; did you mean `{script}(…)` of a script?")))
            }
            Value::Array(_) => Ok(self.texts(Kind::Texts, value)?.into()),
            other => Err(self.expected(Kind::Executable, &other)),
        }
    }

    #[cfg(feature = "policy")]
    fn policy(&self, value: &Value) -> Result<Policy> {
        match value {
            Value::String(name) => Policy::named(name),
            Value::Object(_) => Policy::from_value(value),
            other => Err(self.expected(Kind::Policy, other)),
        }
    }

    #[cfg(not(feature = "policy"))]
    fn policy(&self, _: &Value) -> Result<Policy> {
        Err(self.wrong("the program was built without the feature `policy` of the crate; enable it"))
    }

    fn manual(&self, value: &Value) -> Result<()> {
        match value {
            Value::String(word) if word == "manual" => Ok(()),
            Value::String(word) => Err(self.wrong(format!("expected a function or \"manual\", got {word:?}"))),
            other => Err(self.expected(Kind::ApprovalHandler, other)),
        }
    }

    fn whole(&self, value: &Value, kind: Kind) -> Result<u64> {
        // Languages with one type of number can write 5 as 5.0.
        let number = value
            .as_u64()
            .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..9e15).contains(n)).map(|n| n as u64));
        match (number, value) {
            (Some(number), _) => Ok(number),
            (None, Value::Number(_)) => Err(self.out_of_range(kind, value)),
            (None, other) => Err(self.expected(kind, other)),
        }
    }

    fn out_of_range(&self, kind: Kind, value: &Value) -> Error {
        self.wrong(format!("expected {}, got {value}", kind.expected(self.naming)))
    }

    fn count(&self, value: &Value) -> Result<u32> {
        let count = u32::try_from(self.whole(value, Kind::Count)?).ok().filter(|count| *count > 0);
        count.ok_or_else(|| self.out_of_range(Kind::Count, value))
    }

    fn bytes(&self, value: &Value) -> Result<usize> {
        usize::try_from(self.whole(value, Kind::Bytes)?).map_err(|_| self.out_of_range(Kind::Bytes, value))
    }

    /// Reads a duration that may be zero.
    fn duration_or_zero(&self, value: &Value) -> Result<Duration> {
        if value.as_f64() == Some(0.0) { Ok(Duration::ZERO) } else { self.duration(value) }
    }

    pub(super) fn duration(&self, value: &Value) -> Result<Duration> {
        let (unit, scale) = self.naming.unit();
        let Some(number) = value.as_f64() else {
            return Err(self.expected(Kind::Duration, value));
        };
        let seconds = number * scale;
        if seconds > 0.0 && seconds <= LONGEST.as_secs_f64() {
            // A duration below a nanosecond is still longer than 0.
            return Ok(Duration::from_secs_f64(seconds).max(Duration::from_nanos(1)));
        }
        let problem = duration_problem(if seconds > 0.0 { Duration::MAX } else { Duration::ZERO }).unwrap_or_default();
        Err(self.wrong(format!("{problem} ({unit}), got {value}")))
    }
}

/// Checks the names of options, before their values are used.
///
/// # Errors
/// `InvalidOption` names the first unknown option, with a suggestion.
pub fn check_names<'a>(given: impl IntoIterator<Item = &'a str>, naming: Naming) -> Result<()> {
    let mut given = given.into_iter();
    given.find(|given| find(OPTIONS, given, naming).is_none()).map_or(Ok(()), |given| Err(unknown(given, naming, &[])))
}

/// Makes the error for a value without a JSON form, which a binding cannot pass on. `got` is its type.
pub fn wrong_type(option: &str, got: &str, naming: Naming) -> Error {
    match find(OPTIONS, option, naming) {
        Some(found) => invalid_option(option, format!("expected {}, got {got}", found.kind.expected(naming))),
        None => unknown(option, naming, &[]),
    }
}

/// Reads the argument of `close()`, which overrides `close_timeout`. Zero kills the agent; null is the default.
///
/// # Errors
/// Returns `InvalidOption` for a value that is not a duration.
pub fn close_timeout(value: &Value, naming: Naming) -> Result<Option<Duration>> {
    let field = Field { option: "timeout", naming };
    if value.is_null() { Ok(None) } else { field.duration_or_zero(value).map(Some) }
}

/// Makes the error for an unknown option. It suggests an option or one of the other names.
pub(crate) fn unknown(given: &str, naming: Naming, others: &[&'static str]) -> Error {
    let others = others.iter().map(|name| (*name, *name));
    if given == "budget" {
        let reason = format!(
            "unknown option; did you mean `{}`? `budget` is an option of `prompt()`",
            naming.name("session_budget")
        );
        return invalid_option(given, reason);
    }
    match nearest(given, spellings(OPTIONS).chain(others)) {
        Some(name) => invalid_option(given, format!("unknown option; did you mean `{}`?", naming.name(name))),
        None => invalid_option(given, "unknown option"),
    }
}

/// Returns the option that may have been meant: the one whose name or alias has the most similar spelling.
pub(super) fn suggestion(given: &str, options: &'static [OptionInfo]) -> Option<&'static str> {
    nearest(given, spellings(options))
}

/// Returns pairs of a spelling of an option and its name.
fn spellings(options: &'static [OptionInfo]) -> impl Iterator<Item = (&'static str, &'static str)> {
    options.iter().flat_map(|option| {
        let aliases = option.aliases.iter().map(|alias| (*alias, option.name));
        aliases.chain([(option.name, option.name)])
    })
}
