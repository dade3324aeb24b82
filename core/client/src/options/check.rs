//! What can be known to be wrong before anything is started.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::SessionOptions;
use super::pattern;
use super::spec::tool_name_problem;
use crate::{Error, Result};

/// What is added to the present time must not overflow anywhere.
pub(super) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const SMALLEST_BUFFER: usize = 1 << 10;

impl SessionOptions {
    /// Checks everything that can be checked without starting the agent; opening a session does it, too.
    ///
    /// ```
    /// use kimi_agent::{Error, SessionOptions};
    /// let error = SessionOptions::new().max_steps_per_turn(0).validate().unwrap_err();
    /// assert!(matches!(error, Error::InvalidOption { option, .. } if option == "max_steps_per_turn"));
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the first wrong one.
    pub fn validate(&self) -> Result<()> {
        self.check_paths()?;
        self.check_texts()?;
        self.check_configs()?;
        self.check_tools_and_hooks()?;
        self.check_numbers()
    }

    /// An error that names an option as the caller knows it.
    pub(crate) fn invalid(&self, option: &str, reason: impl Into<String>) -> Error {
        Error::option(self.naming.name(option), reason)
    }

    fn check_paths(&self) -> Result<()> {
        let paths = [
            ("work_dir", &self.work_dir, true),
            ("config_file", &self.config_file, false),
            ("agent_file", &self.agent_file, false),
            ("skills_dir", &self.skills_dir, true),
        ];
        for (option, path, directory) in paths {
            let Some(path) = path else { continue };
            self.check_text(option, path.as_os_str())?;
            if let Some(reason) = path_problem(path, directory) {
                return Err(self.invalid(option, reason));
            }
        }
        Ok(())
    }

    fn check_texts(&self) -> Result<()> {
        if let Some(id) = &self.session_id {
            self.check_text("session_id", id.as_ref())?;
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            // The agent makes a directory of it, and it must not look like a flag.
            if !id.chars().all(plain) || id.starts_with(['-', '.']) || id.len() > 128 {
                let reason = format!(
                    "expected at most 128 letters, digits, `.`, `_` and `-`, the first a letter, digit or `_`; got {id:?}"
                );
                return Err(self.invalid("session_id", reason));
            }
        }
        let texts =
            [("model", &self.model), ("client_name", &self.client_name), ("client_version", &self.client_version)];
        for (option, text) in texts {
            if let Some(text) = text {
                self.check_text(option, text.as_ref())?;
            }
        }
        if let Some(executable) = &self.executable {
            match executable.program() {
                None => {
                    return Err(
                        self.invalid("executable", "the list is empty; expected the program, and its first arguments")
                    );
                }
                Some(program) => self.check_text("executable", program)?,
            }
            executable.args().iter().try_for_each(|arg| self.check_nul("executable", arg))?;
        }
        self.extra_args.iter().try_for_each(|arg| self.check_nul("extra_args", arg))?;
        for (name, value) in &self.env {
            if name.is_empty() {
                return Err(self.invalid("env", "a variable's name is empty"));
            }
            if name.as_encoded_bytes().contains(&b'=') {
                // What follows may be a value.
                let shown = name.to_string_lossy().split('=').next().unwrap_or_default().to_owned();
                return Err(self.invalid("env", format!("a variable's name contains `=`: it begins with {shown:?}")));
            }
            self.check_nul("env", name)?;
            if contains_nul(value) {
                return Err(self.invalid("env", format!("the value of {name:?} contains a NUL byte")));
            }
        }
        Ok(())
    }

    fn check_text(&self, option: &str, text: &OsStr) -> Result<()> {
        if text.is_empty() {
            return Err(self.invalid(option, "it is empty; leave it out to have the default"));
        }
        self.check_nul(option, text)
    }

    fn check_nul(&self, option: &str, text: &OsStr) -> Result<()> {
        if contains_nul(text) { Err(self.invalid(option, "it contains a NUL byte")) } else { Ok(()) }
    }

    fn check_configs(&self) -> Result<()> {
        if let Some(config) = &self.config {
            if self.config_file.is_some() {
                let other = self.naming.name("config_file");
                return Err(
                    self.invalid("config", format!("it cannot be combined with `{other}`; leave one of the two out"))
                );
            }
            if !config.is_object() {
                return Err(self.invalid("config", format!("expected an object, got {}", kind_of(config))));
            }
        }
        match self.mcp_configs.iter().find(|config| !config.is_object()) {
            Some(config) => {
                Err(self.invalid("mcp_configs", format!("expected a list of objects, got {} in it", kind_of(config))))
            }
            None => Ok(()),
        }
    }

    fn check_tools_and_hooks(&self) -> Result<()> {
        let mut names = HashSet::new();
        for tool in &self.tools {
            if let Some(problem) = tool_name_problem(&tool.name) {
                return Err(self.invalid("tools", problem));
            }
            if !names.insert(&tool.name) {
                return Err(self.invalid("tools", format!("there are two named `{}`", tool.name)));
            }
            if !tool.parameters.is_object() {
                let got = kind_of(&tool.parameters);
                let reason = format!("the parameters of `{}` are {got}, where a JSON Schema is an object", tool.name);
                return Err(self.invalid("tools", reason));
            }
            if let Some(key) = not_a_schema(&tool.parameters) {
                let reason = format!(
                    "the parameters of `{}` are no JSON Schema of an object: they have `{key}`, and no `type`; expected \
                     {{\"type\": \"object\", \"properties\": {{…}}}}",
                    tool.name
                );
                return Err(self.invalid("tools", reason));
            }
            if let Some(problem) = tool.timeout.and_then(duration_problem) {
                return Err(self.invalid("tools", format!("the timeout of `{}`: {problem}", tool.name)));
            }
        }
        for hook in &self.hooks {
            if hook.event.is_empty() {
                return Err(self.invalid("hooks", "a hook's event is empty"));
            }
            if let Some(matcher) = &hook.matcher
                && let Err(problem) = pattern::check(matcher)
            {
                let reason = format!(
                    "the matcher of the hook on `{}` is not a regular expression in the syntax of Python: {matcher:?}: {} at \
                     position {}",
                    hook.event, problem.reason, problem.position
                );
                return Err(self.invalid("hooks", reason));
            }
            if let Some(problem) = hook.timeout.and_then(duration_problem) {
                return Err(self.invalid("hooks", format!("the timeout of a hook on `{}`: {problem}", hook.event)));
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<()> {
        let counts =
            [("max_steps_per_turn", self.max_steps_per_turn), ("max_retries_per_step", self.max_retries_per_step)];
        for (option, count) in counts {
            if count == Some(0) {
                return Err(self.invalid(option, "expected at least 1, got 0"));
            }
        }
        let timeouts = [
            ("handshake_timeout", Some(self.handshake_timeout)),
            ("cancel_timeout", Some(self.cancel_timeout)),
            ("close_timeout", Some(self.close_timeout)),
            ("idle_timeout", self.idle_timeout),
            ("turn_timeout", self.turn_timeout),
        ];
        for (option, timeout) in timeouts {
            if let Some(problem) = timeout.and_then(duration_problem) {
                return Err(self.invalid(option, problem));
            }
        }
        for (option, bytes) in
            [("max_line_bytes", self.max_line_bytes), ("event_buffer_bytes", self.event_buffer_bytes)]
        {
            if bytes < SMALLEST_BUFFER {
                return Err(self.invalid(option, format!("expected at least {SMALLEST_BUFFER} bytes, got {bytes}")));
            }
        }
        Ok(())
    }
}

pub(super) fn duration_problem(duration: Duration) -> Option<String> {
    match duration {
        Duration::ZERO => Some("expected a duration longer than 0".to_owned()),
        duration if duration > LONGEST => {
            Some("expected at most ten years; leave it out to have the default".to_owned())
        }
        _ => None,
    }
}

/// What makes an object a schema of an object's properties, or may do so.
const SCHEMA_KEYS: [&str; 10] =
    ["type", "$ref", "anyOf", "allOf", "oneOf", "properties", "additionalProperties", "required", "$schema", "$defs"];

/// The first key of an object that is no JSON Schema, such as properties without the schema around them. An empty schema
/// takes everything.
fn not_a_schema(parameters: &Value) -> Option<&str> {
    let map = parameters.as_object()?;
    if SCHEMA_KEYS.iter().any(|&key| map.contains_key(key)) {
        return None;
    }
    map.keys().next().map(String::as_str)
}

fn contains_nul(text: &OsStr) -> bool {
    text.as_encoded_bytes().contains(&0)
}

fn path_problem(path: &Path, directory: bool) -> Option<String> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(metadata) if directory && !metadata.is_dir() => Some(format!("{shown} is not a directory")),
        Ok(metadata) if !directory && metadata.is_dir() => Some(format!("{shown} is a directory, not a file")),
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(match std::path::absolute(path) {
            Ok(absolute) => format!("{} does not exist", absolute.display()),
            Err(_) => format!("{shown} does not exist"),
        }),
        Err(error) => Some(format!("{shown}: {error}")),
    }
}

/// What a JSON value is, for errors: never its content, which may be secret.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// How deep a value may nest: what reads JSON has limits of this size.
const MAX_DEPTH: usize = 120;

/// Returns the reason for a value that is nested too deep.
pub fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// Whether a value nests deeper than others can read.
pub(super) fn is_too_deep(value: &Value) -> bool {
    fn exceeds(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left == 0 || items.iter().any(|item| exceeds(item, left - 1)),
            Value::Object(map) => left == 0 || map.values().any(|item| exceeds(item, left - 1)),
            _ => false,
        }
    }
    exceeds(value, MAX_DEPTH)
}
