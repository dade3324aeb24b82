//! The checks of options before a process is started.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use kimi_agent_protocol::budget::budget_problem;
use kimi_agent_protocol::cost::prices_problem;
use kimi_agent_protocol::options::{Kind, OPTIONS, OptionInfo, SMALLEST_BUFFER};
use serde_json::Value;

use super::setting::Setting;
use super::value::{duration_problem, kind_of, tool_name_problem};
use super::{Enforce, InheritEnv, SessionOptions, pattern};
use crate::error::invalid_option;
use crate::{Error, ExternalTool, Hook, Output, OutputMode, Place, Result};

/// The result of a check. The error is the reason why a value is wrong.
type Checked = std::result::Result<(), String>;

impl SessionOptions {
    /// Checks everything that can be checked without starting the agent. Opening a session includes these checks.
    ///
    /// ```
    /// use kimi_agent::{Error, SessionOptions};
    /// let error = SessionOptions::new().max_steps_per_turn(0).validate().unwrap_err();
    /// assert!(matches!(error, Error::InvalidOption { option, .. } if option == "max_steps_per_turn"));
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the first wrong option.
    pub fn validate(&self) -> Result<()> {
        OPTIONS.iter().try_for_each(|option| {
            let remote = self.problem_with_remote(option.name).map_or(Ok(()), Err);
            let checked = remote.and_then(|()| self.check(option)).and_then(|()| self.check_more(option.name));
            checked.map_err(|reason| self.invalid(option.name, reason))
        })
    }

    /// Makes the error for an option, with the caller's name of it.
    pub(crate) fn invalid(&self, option: &str, reason: impl Into<String>) -> Error {
        invalid_option(self.naming.name(option), reason)
    }

    /// Checks what the type of the option requires.
    fn check(&self, option: &OptionInfo) -> Checked {
        match self.setting(option.name) {
            Setting::Text(text) => check_text(text.as_ref()),
            Setting::Path(path) => {
                check_text(path.as_os_str())?;
                if option.kind == Kind::Recording {
                    return Ok(());
                }
                path_problem(path, option.kind == Kind::Directory).map_or(Ok(()), Err)
            }
            Setting::Count(0) => Err("expected at least 1, got 0".to_owned()),
            // Kills the agent when the session closes, as `close(timeout=0)` does.
            Setting::Duration(Duration::ZERO) if option.name == "close_timeout" => Ok(()),
            Setting::Duration(duration) => duration_problem(duration).map_or(Ok(()), Err),
            Setting::Bytes(bytes) if bytes < SMALLEST_BUFFER => {
                Err(format!("expected at least {SMALLEST_BUFFER} bytes, got {bytes}"))
            }
            Setting::Json(values) => match values.iter().find(|value| !value.is_object()) {
                Some(value) if option.kind == Kind::Objects => {
                    Err(format!("expected a list of objects, got {} in it", kind_of(value)))
                }
                Some(value) => Err(format!("expected an object, got {}", kind_of(value))),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Checks what only this option requires.
    fn check_more(&self, name: &str) -> Checked {
        match name {
            "session_id" => self.session_id.as_deref().and_then(session_id_problem).map_or(Ok(()), Err),
            "config" if self.config.is_some() && self.config_file.is_some() => {
                let other = self.naming.name("config_file");
                Err(format!("it cannot be combined with `{other}`; leave one of the two out"))
            }
            "executable" => self.executable.as_ref().map_or(Ok(()), |executable| {
                check_text(
                    executable.program().ok_or("the list is empty; expected the program, and its first arguments")?,
                )?;
                executable.problem().map_or(Ok(()), |problem| Err(problem.to_owned()))?;
                executable.args().iter().try_for_each(|arg| check_nul(arg))
            }),
            "extra_args" => self.extra_args.iter().try_for_each(|arg| check_nul(arg)),
            "env" => {
                self.env.iter().try_for_each(|(name, value)| check_variable(name, value))?;
                self.inherited.removed.iter().try_for_each(|name| check_variable(name, OsStr::new("")))
            }
            "inherit_env" => match &self.inherited.rule {
                InheritEnv::Only(names) => {
                    names.iter().try_for_each(|name| check_variable(name.as_ref(), OsStr::new("")))
                }
                _ => Ok(()),
            },
            "enforce" if self.enforce == Enforce::Calls && self.policy.is_none() => {
                let policy = self.naming.name("policy");
                Err(format!("\"calls\" needs `{policy}`, which says what the agent may do without asking; set one"))
            }
            "place" => self.place.as_deref().and_then(Place::problem).map_or(Ok(()), Err),
            "tools" => self.check_tools(),
            "session_budget" => {
                self.session_budget.and_then(|budget| budget_problem(&budget, self.naming)).map_or(Ok(()), Err)
            }
            "prices" => self.prices.as_ref().and_then(|prices| prices_problem(prices, self.naming)).map_or(Ok(()), Err),
            "output" => self.output.as_deref().map_or(Ok(()), |output| {
                check_output(output)?;
                let name = &output.spec().name;
                match self.tools.iter().any(|tool| tool.name == *name) {
                    true if output.spec().mode != OutputMode::Text => {
                        Err(format!("`tools` has a tool named `{name}`, too; set another `name` of the output"))
                    }
                    _ => Ok(()),
                }
            }),
            "mcp_configs" => match self.mcp_configs.iter().all(has_servers) {
                true => Ok(()),
                false => {
                    Err("expected an object with `mcpServers`, got one without: {\"mcpServers\": {\"NAME\": {…}}}"
                        .to_owned())
                }
            },
            "redact" => crate::recording::check_patterns(&self.redact),
            "additional_directories" => self.additional_directories.iter().try_for_each(|path| {
                check_text(path.as_os_str())?;
                path_problem(path, true).map_or(Ok(()), Err)
            }),
            "hooks" => self.hooks.iter().try_for_each(check_hook),
            _ => Ok(()),
        }
    }

    fn check_tools(&self) -> Checked {
        let mut names = HashSet::new();
        self.tools.iter().try_for_each(|tool| {
            check_tool(tool)?;
            if names.insert(&tool.name) { Ok(()) } else { Err(format!("there are two named `{}`", tool.name)) }
        })
    }
}

fn check_text(text: &OsStr) -> Checked {
    if text.is_empty() { Err("it is empty; leave it out to have the default".to_owned()) } else { check_nul(text) }
}

fn check_nul(text: &OsStr) -> Checked {
    if contains_nul(text) { Err("it contains a NUL byte; expected text without one".to_owned()) } else { Ok(()) }
}

fn session_id_problem(id: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // The agent makes a directory with this name, and it must not look like a flag.
    let is_valid = id.chars().all(plain) && !id.starts_with(['-', '.']) && id.len() <= 128;
    (!is_valid).then(|| {
        format!("expected at most 128 letters, digits, `.`, `_` and `-`, the first a letter, digit or `_`; got {id:?}")
    })
}

fn check_variable(name: &OsStr, value: &OsStr) -> Checked {
    if name.is_empty() {
        return Err("a variable's name is empty".to_owned());
    }
    if name.as_encoded_bytes().contains(&b'=') {
        // The text after `=` may be a secret value.
        let shown = name.to_string_lossy().split('=').next().unwrap_or_default().to_owned();
        return Err(format!("a variable's name contains `=`: it begins with {shown:?}"));
    }
    check_nul(name)?;
    if contains_nul(value) { Err(format!("the value of {name:?} contains a NUL byte")) } else { Ok(()) }
}

fn check_tool(tool: &ExternalTool) -> Checked {
    let name = &tool.name;
    if let Some(problem) = tool_name_problem(name) {
        return Err(problem);
    }
    if !tool.parameters.is_object() {
        let got = kind_of(&tool.parameters);
        return Err(format!("the parameters of `{name}` are {got}, but a JSON Schema is an object"));
    }
    let kind = tool.parameters.get("type").and_then(Value::as_str);
    if let Some(other @ ("array" | "boolean" | "integer" | "null" | "number" | "string")) = kind {
        return Err(format!(
            "the parameters of `{name}` have the type {other:?}; models call tools with an \"object\" only"
        ));
    }
    if let Some((key, expected)) = malformed_key(&tool.parameters) {
        let got = kind_of(&tool.parameters[key]);
        return Err(format!("the parameters of `{name}` are malformed: `{key}` must be {expected}, got {got}"));
    }
    if let Some(key) = not_a_schema(&tool.parameters) {
        return Err(format!(
            "the parameters of `{name}` are not a JSON Schema of an object: they have `{key}`, and no `type`; expected \
             {{\"type\": \"object\", \"properties\": {{…}}}}"
        ));
    }
    let problem = tool.timeout.and_then(duration_problem);
    problem.map_or(Ok(()), |problem| Err(format!("the timeout of `{name}`: {problem}")))
}

/// Checks an output, and compiles its schema.
pub(super) fn check_output(output: &Output) -> Checked {
    tool_name_problem(&output.spec().name).map_or(Ok(()), Err)?;
    output.plan().map(drop)
}

fn check_hook(hook: &Hook) -> Checked {
    if hook.event.is_empty() {
        return Err("a hook's event is empty".to_owned());
    }
    if let Some(matcher) = &hook.matcher
        && let Err(problem) = pattern::check(matcher)
    {
        return Err(format!(
            "the matcher of the hook on `{}` is not a regular expression in the syntax of Python: {matcher:?}: {} at \
             position {}",
            hook.event, problem.reason, problem.position
        ));
    }
    let problem = hook.timeout.and_then(duration_problem);
    problem.map_or(Ok(()), |problem| Err(format!("the timeout of a hook on `{}`: {problem}", hook.event)))
}

/// The keywords of a schema that describes an object's properties.
const SCHEMA_KEYS: [&str; 10] =
    ["type", "$ref", "anyOf", "allOf", "oneOf", "properties", "additionalProperties", "required", "$schema", "$defs"];

/// Returns a key of a schema whose value is malformed, and the expected form. Agents would refuse the tool, and only log it.
fn malformed_key(parameters: &Value) -> Option<(&'static str, &'static str)> {
    let is_schema = |value: &Value| value.is_object() || value.is_boolean();
    let properties =
        parameters.get("properties").map(|given| given.as_object().is_some_and(|all| all.values().all(is_schema)));
    let required =
        parameters.get("required").map(|given| given.as_array().is_some_and(|all| all.iter().all(Value::is_string)));
    let checked = [("properties", "an object of schemas", properties), ("required", "a list of texts", required)];
    checked.into_iter().find(|(_, _, valid)| *valid == Some(false)).map(|(key, expected, _)| (key, expected))
}

/// Returns the first key of an object that is not a JSON Schema, for example the properties without the schema around
/// them. An empty schema accepts everything.
fn not_a_schema(parameters: &Value) -> Option<&str> {
    let map = parameters.as_object()?;
    if SCHEMA_KEYS.iter().any(|&key| map.contains_key(key)) {
        return None;
    }
    map.keys().next().map(String::as_str)
}

/// Returns whether a configuration of MCP is empty, or has servers: in `mcpServers`, or at its top, as some agents accept.
fn has_servers(config: &Value) -> bool {
    let Value::Object(map) = config else { return true };
    let is_server = |value: &Value| value.get("command").or_else(|| value.get("url")).is_some();
    map.is_empty() || map.contains_key("mcpServers") || map.values().any(is_server)
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
