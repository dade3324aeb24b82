//! The options of a batch as the bindings pass them.

use std::time::Duration;

use kimi_agent_protocol::batch::Retry;
use kimi_agent_protocol::options::{LONGEST, OPTIONS, find};
use kimi_agent_protocol::spelling::nearest;
use serde_json::{Map, Value};

use super::options::{BatchOptions, Workspace};
use crate::Result;
use crate::error::invalid_option;
use crate::naming::Naming;
use crate::options::{duration_problem, kind_of};

/// The fields of the option `retry`.
const OF_RETRY: [&str; 4] = ["attempts", "initial_delay", "max_delay", "multiplier"];

/// The options of the batch, with those that a binding reads itself.
const OF_BATCH: [&str; 9] = [
    "concurrency",
    "retry",
    "journal",
    "workspace",
    "keep_failed",
    "timeout",
    "job_timeout",
    "on_progress",
    "progress",
];

/// Takes the options of the batch out of a map with the caller's names and units; those of the sessions are left.
/// `job_timeout` becomes `turn_timeout`.
///
/// # Errors
/// `InvalidOption`, with the caller's names.
pub fn take_batch_options(map: &mut Map<String, Value>, naming: Naming) -> Result<BatchOptions> {
    check_batch_names(map.keys().map(String::as_str), naming)?;
    let mut take = |name: &'static str| {
        let value = map.remove(&naming.name(name)).filter(|value| !value.is_null());
        value.map(|value| (Field { name, naming }, value))
    };
    let mut options = BatchOptions::new();
    if let Some((field, value)) = take("concurrency") {
        options = options.concurrency(field.whole(&value)?);
    }
    if let Some((field, value)) = take("retry") {
        options = options.retry(field.retry(value)?);
    }
    if let Some((field, value)) = take("journal") {
        options = options.journal(field.path(value)?);
    }
    if let Some((field, value)) = take("workspace") {
        options = options.workspace(field.workspace(value)?);
    }
    if let Some((field, value)) = take("keep_failed") {
        let keep = value.as_bool().ok_or_else(|| field.expected("a boolean", &value))?;
        options = options.keep_failed(keep);
    }
    if let Some((field, value)) = take("timeout") {
        options = options.timeout(field.duration(&value)?);
    }
    if let Some((field, value)) = take("job_timeout") {
        let other = naming.name("turn_timeout");
        if map.get(&other).is_some_and(|value| !value.is_null()) {
            return Err(field.wrong(format!("it means the same as `{other}`; leave one of the two out")));
        }
        if let Some(problem) = duration_problem(field.duration(&value)?) {
            return Err(field.wrong(problem));
        }
        map.insert(other, value);
    }
    Ok(options)
}

/// Checks the names of a batch's options, before their values are used. The session of a batch suggests only its own names.
///
/// # Errors
/// `InvalidOption` names the first unknown option, with a suggestion.
pub fn check_batch_names<'a>(given: impl IntoIterator<Item = &'a str>, naming: Naming) -> Result<()> {
    let is_known = |given: &str| find(OPTIONS, given, naming).is_some() || is_batch_option(given, naming);
    let Some(given) = given.into_iter().find(|given| !is_known(given)) else { return Ok(()) };
    let names = OPTIONS.iter().map(|option| option.name).chain(OF_BATCH);
    let hint = nearest(given, names.map(|name| (name, name)));
    let hint = hint.map(|name| format!("; did you mean `{}`?", naming.name(name))).unwrap_or_default();
    Err(invalid_option(given, format!("unknown option{hint}")))
}

/// Returns whether a name is that of an option of the batch, which is not an option of sessions.
pub(super) fn is_batch_option(given: &str, naming: Naming) -> bool {
    OF_BATCH.iter().any(|own| naming.name(own) == given)
}

/// Reads values, and describes their problems.
struct Field {
    name: &'static str,
    naming: Naming,
}

impl Field {
    fn wrong(&self, reason: String) -> crate::Error {
        invalid_option(self.naming.name(self.name), reason)
    }

    fn expected(&self, expected: &str, value: &Value) -> crate::Error {
        let got = if value.is_number() { value.to_string() } else { kind_of(value).to_owned() };
        self.wrong(format!("expected {expected}, got {got}"))
    }

    fn path(&self, value: Value) -> Result<String> {
        match value {
            Value::String(text) if text.is_empty() => {
                Err(self.wrong("it is empty; leave it out to have no journal".to_owned()))
            }
            Value::String(text) => Ok(text),
            other => Err(self.expected("a path", &other)),
        }
    }

    fn whole<N: TryFrom<u64>>(&self, value: &Value) -> Result<N> {
        // Languages with one type of number can write 5 as 5.0.
        let float = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
        let number = value.as_u64().or(float.map(|number| number as u64)).and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| self.expected("a whole number from 1 on", value))
    }

    fn duration(&self, value: &Value) -> Result<Duration> {
        let (unit, scale) = self.naming.unit();
        let seconds = value.as_f64().map(|number| number * scale);
        let seconds = seconds.filter(|seconds| (0.0..=LONGEST.as_secs_f64()).contains(seconds));
        seconds
            .map(Duration::from_secs_f64)
            .ok_or_else(|| self.expected(&format!("a number of {unit}, at most ten years"), value))
    }

    fn workspace(&self, value: Value) -> Result<Workspace> {
        let expected = "\"shared\", \"copy\" or \"worktree\"";
        match &value {
            Value::String(word) => {
                Workspace::parse(word).ok_or_else(|| self.wrong(format!("expected {expected}, got {word:?}")))
            }
            other => Err(self.expected(expected, other)),
        }
    }

    /// Reads a number of attempts, or an object of limits.
    fn retry(&self, value: Value) -> Result<Retry> {
        let map = match value {
            Value::Object(map) => map,
            number if number.is_number() => return Ok(Retry::new().attempts(self.whole(&number)?)),
            other => return Err(self.expected("a number of attempts, or an object", &other)),
        };
        let mut retry = Retry::new();
        for (given, value) in map.into_iter().filter(|(_, value)| !value.is_null()) {
            let Some(name) = OF_RETRY.into_iter().find(|name| self.naming.name(name) == given) else {
                let hint = nearest(&given, OF_RETRY.map(|name| (name, name)));
                let hint = hint.map(|name| format!("; did you mean `{}`?", self.naming.name(name)));
                return Err(self.wrong(format!("unknown field `{given}`{}", hint.unwrap_or_default())));
            };
            retry = match name {
                "attempts" => retry.attempts(self.whole(&value)?),
                "initial_delay" => retry.initial_delay(self.duration(&value)?),
                "max_delay" => retry.max_delay(self.duration(&value)?),
                _ => retry.multiplier(value.as_f64().ok_or_else(|| self.expected("a number", &value))?),
            };
        }
        Ok(retry)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value, naming: Naming) -> Result<(BatchOptions, Map<String, Value>)> {
        let mut map = value.as_object().unwrap().clone();
        take_batch_options(&mut map, naming).map(|options| (options, map))
    }

    #[test]
    fn options_of_sessions_are_left() {
        let value = json!({"concurrency": 8.0, "workspace": "copy", "model": "m", "job_timeout": 5, "timeout": 2});
        let (options, left) = read(value, Naming::Snake).unwrap();
        assert_eq!((options.concurrency, options.workspace), (8, Workspace::Copy));
        assert_eq!(options.timeout, Some(Duration::from_secs(2)));
        assert_eq!(Value::Object(left), json!({"model": "m", "turn_timeout": 5}));
    }

    #[test]
    fn camel_case_has_milliseconds() {
        let value = json!({"retry": {"attempts": 5, "initialDelay": 20}, "keepFailed": true, "jobTimeout": 7});
        let (options, left) = read(value, Naming::Camel).unwrap();
        assert_eq!(options.retry, Retry::new().attempts(5).initial_delay(Duration::from_millis(20)));
        assert!(options.keep_failed);
        assert_eq!(Value::Object(left), json!({"turnTimeout": 7}));
        let (options, _) = read(json!({"retry": 2, "journal": null}), Naming::Camel).unwrap();
        assert_eq!(options.retry, Retry::new().attempts(2));
    }

    #[test]
    fn wrong_value_is_named() {
        for (value, words) in [
            (json!({"concurrency": "8"}), "`concurrency`: expected a whole number"),
            (json!({"concurrency": -1}), "got -1"),
            (json!({"retry": {"attemps": 5}}), "did you mean `attempts`"),
            (json!({"retry": "often"}), "got text"),
            (json!({"workspace": "clone"}), "got \"clone\""),
            (json!({"concurency": 8}), "did you mean `concurrency`"),
            (json!({"modle": "m"}), "did you mean `model`"),
            (json!({"concurrency": "8", "modle": "m"}), "`modle`: unknown option"),
            (json!({"journal": ""}), "`journal`: it is empty"),
            (json!({"timeout": -1}), "`timeout`: expected a number of seconds"),
            (json!({"job_timeout": 1, "turn_timeout": 2}), "leave one of the two out"),
            (json!({"job_timeout": "1"}), "`job_timeout`: expected a number of seconds"),
            (json!({"job_timeout": 0}), "`job_timeout`: expected a duration longer than 0"),
        ] {
            let error = read(value, Naming::Snake).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
