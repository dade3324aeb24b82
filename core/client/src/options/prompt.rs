//! Options of one prompt.

use std::time::Duration;

use kimi_agent_protocol::budget::budget_problem;
use kimi_agent_protocol::options::{OPTIONS, PROMPT_OPTIONS, find};
use serde_json::{Map, Value};

use super::check::check_output;
use super::content::check_content;
use super::json::{Field, suggestion};
use super::value::duration_problem;
use crate::connection::TurnLimits;
use crate::error::Error;
use crate::error::invalid_option;
use crate::messages::Content;
use crate::naming::Naming;
use crate::telemetry::GivenSpan;
use crate::{Budget, Output, Result};

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
    pub(crate) budget: Option<Budget>,
    pub(crate) output: Option<Box<Output>>,
    pub(crate) naming: Naming,
    /// The span of the turn, if the host has started it.
    pub(crate) span: Option<GivenSpan>,
}

impl PromptOptions {
    /// Makes a prompt without options.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::PromptOptions;
    /// let prompt = PromptOptions::new("Say hello");
    /// # drop(prompt);
    /// ```
    pub fn new(content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
            timeout: None,
            idle_timeout: None,
            budget: None,
            output: None,
            naming: Naming::default(),
            span: None,
        }
    }

    /// Cancels the turn if it takes longer than `limit`; the turn then fails with [`Error::Timeout`], and the session can
    /// still be used. Overrides [`turn_timeout`](crate::SessionOptions::turn_timeout). Default: the session's.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use kimi_agent::PromptOptions;
    /// let prompt = PromptOptions::new("Say hello").timeout(Duration::from_secs(60));
    /// # drop(prompt);
    /// ```
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Cancels the turn if the agent sends nothing for longer than `limit`, as [`PromptOptions::timeout`] does. Overrides
    /// the session's [`idle_timeout`](crate::SessionOptions::idle_timeout). Default: the session's.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use kimi_agent::PromptOptions;
    /// let prompt = PromptOptions::new("Say hello").idle_timeout(Duration::from_secs(20));
    /// # drop(prompt);
    /// ```
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = Some(limit);
        self
    }

    /// Cancels the turn if it uses more than `budget`. The turn then fails with [`Error::BudgetExceeded`], which has the
    /// partial result, and the session can still be used. Default: no limit.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{Budget, PromptOptions};
    /// let prompt = PromptOptions::new("Fix the failing test").budget(Budget::new().tokens(200_000).steps(30));
    /// # drop(prompt);
    /// ```
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets the value that the turn must return. Overrides the `output` of the session. Default: that of the session.
    ///
    /// In an open session the model returns the value in its text, because a tool would come too late. With
    /// [`prompt`](crate::prompt()) it is a tool, if the agent takes tools.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{Output, PromptOptions};
    /// let names = serde_json::json!({"type": "array", "items": {"type": "string"}});
    /// let prompt = PromptOptions::new("Which functions have no tests?").output(Output::new(names));
    /// # drop(prompt);
    /// ```
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.output = Some(Box::new(output));
        self
    }

    /// Checks the content and the options, and returns the limits of the turn.
    ///
    /// # Errors
    /// Returns `InvalidOption` for wrong content, for a deadline that is zero or too long, or for a wrong budget.
    pub(crate) fn limits(&self) -> Result<TurnLimits> {
        check_content(&self.content)?;
        for (name, limit) in [("timeout", self.timeout), ("idle_timeout", self.idle_timeout)] {
            if let Some(problem) = limit.and_then(duration_problem) {
                return Err(invalid_option(self.naming.name(name), problem));
            }
        }
        if let Some(problem) = self.budget.and_then(|budget| budget_problem(&budget, self.naming)) {
            return Err(invalid_option("budget", problem));
        }
        if let Some(Err(problem)) = self.output.as_deref().map(check_output) {
            return Err(invalid_option("output", problem));
        }
        Ok(TurnLimits { turn: self.timeout, idle: self.idle_timeout, budget: self.budget })
    }
}

/// Reads the options of a prompt, with the caller's names and units. Null is the default.
///
/// # Errors
/// Returns `InvalidOption`, with the caller's names.
pub fn prompt_options(content: Content, map: Map<String, Value>, naming: Naming) -> Result<PromptOptions> {
    let mut options = PromptOptions { naming, ..PromptOptions::new(content) };
    for (given, value) in map {
        let Some(option) = find(PROMPT_OPTIONS, &given, naming) else {
            return Err(unknown(&given, naming));
        };
        if value.is_null() {
            continue;
        }
        let field = Field { option: option.name, naming };
        match option.name {
            "timeout" => options.timeout = Some(field.duration(&value)?),
            "output" => options.output = Some(Box::new(field.output(value)?)),
            "budget" => options.budget = Some(field.budget(value)?),
            _ => options.idle_timeout = Some(field.duration(&value)?),
        }
    }
    Ok(options)
}

/// Checks the names of a prompt's options, before their values are used.
///
/// # Errors
/// `InvalidOption` names the first unknown option, with a suggestion.
pub fn check_prompt_names<'a>(given: impl IntoIterator<Item = &'a str>, naming: Naming) -> Result<()> {
    let mut given = given.into_iter();
    given
        .find(|given| find(PROMPT_OPTIONS, given, naming).is_none())
        .map_or(Ok(()), |given| Err(unknown(given, naming)))
}

fn unknown(given: &str, naming: Naming) -> Error {
    let reason = match given {
        "turn_timeout" | "turnTimeout" => "a prompt has no such option; did you mean `timeout`?".to_owned(),
        _ => match suggestion(given, PROMPT_OPTIONS) {
            Some(name) => format!("a prompt has no such option; did you mean `{}`?", naming.name(name)),
            None if find(OPTIONS, given, naming).is_some() => {
                let open = naming.name("create_session");
                format!("a prompt has no such option; it is an option of the session: pass it to `{open}()`")
            }
            None => {
                let names: Vec<_> =
                    PROMPT_OPTIONS.iter().map(|option| format!("`{}`", naming.name(option.name))).collect();
                format!("a prompt has no such option; it has {}", names.join(", "))
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
    fn unknown_option_error_has_suggestion() {
        let suggested = |given: &str, name: &str| {
            format!("invalid option `{given}`: a prompt has no such option; did you mean `{name}`?")
        };
        assert_eq!(error(json!({"timout": 1}), Naming::Snake), suggested("timout", "timeout"));
        assert_eq!(error(json!({"turnTimeout": 1}), Naming::Camel), suggested("turnTimeout", "timeout"));
        assert_eq!(error(json!({"idle_timeout": 1}), Naming::Camel), suggested("idle_timeout", "idleTimeout"));
        assert!(error(json!({"workDir": "x"}), Naming::Camel).ends_with("pass it to `createSession()`"));
        assert!(
            error(json!({"zebra": "x"}), Naming::Snake)
                .ends_with("it has `timeout`, `idle_timeout`, `budget`, `output`")
        );
        assert!(error(json!({"timeout": "5"}), Naming::Camel).contains("a number of milliseconds"));
        assert!(error(json!({"timeout": 0}), Naming::Snake).contains("`timeout`"));
    }

    #[test]
    fn timeout_units_follow_language() {
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
