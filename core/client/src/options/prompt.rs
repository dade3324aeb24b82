//! Options of one prompt.

use std::time::Duration;

use kimi_agent_protocol::options::{PROMPT_OPTIONS, find};
use serde_json::{Map, Value};

use super::check::duration_problem;
use super::json::{Field, suggestion};
use crate::Result;
use crate::connection::TurnLimits;
use crate::error::Error;
use crate::error::invalid_option;
use crate::naming::Naming;
use crate::wire::Content;

/// A prompt with options of its own, which override the session's. [`Session::prompt`](crate::Session::prompt) takes one,
/// or plain content.
///
/// ```
/// # use kimi_agent::{Session, testing::scripted_agent};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = scripted_agent(serde_json::json!([[{"text": "Hello"}]]));
/// # let session = Session::builder().executable(&agent).start().await?;
/// use std::time::Duration;
///
/// use kimi_agent::PromptOptions;
/// let prompt = PromptOptions::new("Say hello").timeout(Duration::from_secs(60));
/// assert_eq!(session.prompt(prompt)?.result().await?.text, "Hello");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PromptOptions {
    pub(crate) content: Content,
    timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
    naming: Naming,
}

impl PromptOptions {
    /// A prompt without options.
    pub fn new(content: impl Into<Content>) -> Self {
        Self { content: content.into(), timeout: None, idle_timeout: None, naming: Naming::default() }
    }

    /// Cancels the turn if it takes longer than `limit`; the turn then fails with [`Error::Timeout`], and the session can
    /// still be used. Overrides [`turn_timeout`](crate::SessionOptions::turn_timeout). Default: the session's.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Cancels the turn if the agent sends nothing for longer than `limit`, as [`PromptOptions::timeout`] does. Overrides
    /// the session's [`idle_timeout`](crate::SessionOptions::idle_timeout). Default: the session's.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = Some(limit);
        self
    }

    /// The deadlines of the turn.
    ///
    /// # Errors
    /// `InvalidOption` for a deadline of no time, or of too much.
    pub(crate) fn limits(&self) -> Result<TurnLimits> {
        for (name, limit) in [("timeout", self.timeout), ("idle_timeout", self.idle_timeout)] {
            if let Some(problem) = limit.and_then(duration_problem) {
                return Err(invalid_option(self.naming.name(name), problem));
            }
        }
        Ok(TurnLimits { turn: self.timeout, idle: self.idle_timeout })
    }
}

/// Reads the options of a prompt, in the caller's naming and units. Null is unset.
///
/// # Errors
/// `InvalidOption`, in the caller's own naming.
pub fn prompt_options(content: Content, map: Map<String, Value>, naming: Naming) -> Result<PromptOptions> {
    let mut options = PromptOptions { naming, ..PromptOptions::new(content) };
    for (given, value) in map {
        let Some(option) = find(PROMPT_OPTIONS, &given, naming) else {
            return Err(unknown(&given, naming));
        };
        if value.is_null() {
            continue;
        }
        let limit = Field { option: option.name, naming }.duration(&value)?;
        match option.name {
            "timeout" => options.timeout = Some(limit),
            _ => options.idle_timeout = Some(limit),
        }
    }
    Ok(options)
}

fn unknown(given: &str, naming: Naming) -> Error {
    let reason = match given {
        "turn_timeout" | "turnTimeout" => "a prompt has no such option; did you mean `timeout`?".to_owned(),
        _ => match suggestion(given, PROMPT_OPTIONS) {
            Some(name) => format!("a prompt has no such option; did you mean `{}`?", naming.name(name)),
            None => {
                let names: Vec<_> =
                    PROMPT_OPTIONS.iter().map(|option| format!("`{}`", naming.name(option.name))).collect();
                format!("a prompt has no such option; it has {}", names.join(" and "))
            }
        },
    };
    invalid_option(given, reason)
}

impl<T: Into<Content>> From<T> for PromptOptions {
    fn from(content: T) -> Self {
        Self::new(content)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(options: Value, naming: Naming) -> String {
        let map = options.as_object().expect("an object").clone();
        let read = prompt_options("hi".into(), map, naming).and_then(|options| options.limits());
        read.expect_err("a wrong option").to_string()
    }

    #[test]
    fn wrong_option_is_named_with_a_suggestion() {
        let suggested = |given: &str, name: &str| {
            format!("invalid option `{given}`: a prompt has no such option; did you mean `{name}`?")
        };
        assert_eq!(error(json!({"timout": 1}), Naming::Snake), suggested("timout", "timeout"));
        assert_eq!(error(json!({"turnTimeout": 1}), Naming::Camel), suggested("turnTimeout", "timeout"));
        assert_eq!(error(json!({"idle_timeout": 1}), Naming::Camel), suggested("idle_timeout", "idleTimeout"));
        assert!(error(json!({"model": "x"}), Naming::Snake).ends_with("it has `timeout` and `idle_timeout`"));
        assert!(error(json!({"timeout": "5"}), Naming::Camel).contains("a number of milliseconds"));
        assert!(error(json!({"timeout": 0}), Naming::Snake).contains("`timeout`"));
    }

    #[test]
    fn units_are_those_of_the_language() {
        let limits = |naming| {
            let map = json!({"timeout": 2, "idleTimeout": null}).as_object().expect("an object").clone();
            let map = map.into_iter().filter(|(name, _)| naming == Naming::Camel || name == "timeout").collect();
            prompt_options("hi".into(), map, naming).and_then(|options| options.limits()).expect("limits")
        };
        assert_eq!(limits(Naming::Snake).turn, Some(Duration::from_secs(2)));
        assert_eq!(limits(Naming::Camel).turn, Some(Duration::from_millis(2)));
        assert_eq!(limits(Naming::Camel).idle, None);
    }
}
