//! Structured output, as a program asks for it: a schema, or a type, and a check of its own.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use kimi_agent_protocol::output::{OutputPlan, OutputSpec};
use kimi_agent_protocol::{OutputError, OutputMode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::connection::TurnOutput;
use crate::handler::HandlerFuture;

/// The check of the program: returns the violations of a value that matches the schema.
pub(crate) type OutputCheck = Arc<dyn Fn(Value) -> HandlerFuture<Vec<OutputError>> + Send + Sync>;

/// A value that a turn must return: its JSON Schema, or a type. An option of a session
/// ([`SessionOptions::output`](crate::SessionOptions::output), for all of its turns), and of a prompt
/// ([`PromptOptions::output`](crate::PromptOptions::output)).
///
/// The SDK offers the model a tool that takes the value, or takes the value from the text of the answer: see
/// [`Output::mode`]. It checks the value, and asks the model again if the value is invalid or missing. All of that is one
/// turn for the program. The turn returns a valid value or fails with
/// [`Error::OutputInvalid`](crate::Error::OutputInvalid); only a cancelled turn, or one that reached its limit of steps, has a
/// result without a value.
///
/// ```
/// # use kimi_agent::testing::scripted_agent;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = scripted_agent(serde_json::json!([[{"text": "{\"approved\": true, \"problems\": []}"}]]));
/// # use kimi_agent::Session;
/// use kimi_agent::{Output, PromptOptions};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Review {
///     approved: bool,
///     problems: Vec<String>,
/// }
///
/// # let session = Session::builder().executable(&agent).start().await?;
/// let prompt = PromptOptions::new("Review the last commit").output(Output::of::<Review>());
/// let review: Review = session.prompt(prompt)?.result().await?.output()?;
/// assert!(review.approved && review.problems.is_empty());
/// # session.close().await
/// # }
/// ```
#[derive(Clone)]
pub struct Output {
    spec: OutputSpec,
    /// Shared by clones, so that a schema is compiled once.
    plan: Arc<OnceLock<Result<Arc<OutputPlan>, String>>>,
    check: Option<OutputCheck>,
}

impl Output {
    /// Makes an output with a JSON Schema of draft 2020-12, or of draft 7 if `$schema` says so. Its references stay within
    /// the schema. A wrong schema fails where the option is given, with
    /// [`Error::InvalidOption`](crate::Error::InvalidOption).
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Output;
    /// let output = Output::new(serde_json::json!({"type": "array", "items": {"type": "string"}}));
    /// # drop(output);
    /// ```
    pub fn new(schema: Value) -> Self {
        Self { spec: OutputSpec::new(schema), plan: Arc::default(), check: None }
    }

    /// Makes an output with the schema of a type. A value that the type refuses is reported to the model, although it
    /// matches the schema.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Output;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Invoice {
    ///     /// The sum of all lines, in cents.
    ///     total: u64,
    /// }
    ///
    /// let output = Output::of::<Invoice>();
    /// # drop(output);
    /// ```
    pub fn of<T: JsonSchema + DeserializeOwned>() -> Self {
        let check = |value: Value| async move { deserialized::<T>(&value) };
        Self::new(schemars::schema_for!(T).to_value()).check(check)
    }

    /// Adds a check of values that match the schema, instead of an earlier check. It returns the violations, which the model
    /// gets like those of the schema. A check that panics counts as a violation.
    ///
    /// # Errors
    /// The function returns the violations as an error.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{Output, OutputError};
    /// let output = Output::new(serde_json::json!({"type": "integer"})).check(|value| async move {
    ///     match value.as_i64() {
    ///         Some(n) if n % 2 == 1 => Err(vec![OutputError::new("", "expected an even number")]),
    ///         _ => Ok(()),
    ///     }
    /// });
    /// # drop(output);
    /// ```
    #[must_use]
    pub fn check<F, R>(self, check: F) -> Self
    where
        F: Fn(Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Vec<OutputError>>> + Send + 'static,
    {
        self.checked_by(Arc::new(move |value| {
            let checking = check(value);
            Box::pin(async move { Ok(checking.await.err().unwrap_or_default()) })
        }))
    }

    /// Sets the name of the tool that takes the value: at most 64 letters, digits, `_` and `-`. Default: `final_result`.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Output;
    /// let output = Output::new(serde_json::json!({"type": "object"})).name("submit_review");
    /// # drop(output);
    /// ```
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.spec.name = name.into();
        self.plan = Arc::default();
        self
    }

    /// Sets a description of the value, which the model reads. Default: none.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Output;
    /// let output = Output::new(serde_json::json!({"type": "object"})).description("A review of the last commit.");
    /// # drop(output);
    /// ```
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.spec.description = Some(description.into());
        self.plan = Arc::default();
        self
    }

    /// Sets how the model returns the value. Default: [`OutputMode::Auto`].
    ///
    /// A tool is possible for the `output` of a session and of [`prompt`](crate::prompt()), with agents that take tools. The
    /// `output` of one prompt comes too late for that, unless it equals that of the session.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{Output, OutputMode};
    /// let output = Output::new(serde_json::json!({"type": "object"})).mode(OutputMode::Text);
    /// # drop(output);
    /// ```
    #[must_use]
    pub fn mode(mut self, mode: OutputMode) -> Self {
        self.spec.mode = mode;
        self.plan = Arc::default();
        self
    }

    /// Sets how many invalid or missing values the SDK answers with a request for another one. An invalid call of the tool
    /// counts, and the end of a prompt without a value. After the last one the turn is cancelled and fails. Default: 2.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Output;
    /// let output = Output::new(serde_json::json!({"type": "object"})).retries(5);
    /// # drop(output);
    /// ```
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.spec.retries = retries;
        self.plan = Arc::default();
        self
    }

    pub(crate) fn from_spec(spec: OutputSpec) -> Self {
        Self { spec, plan: Arc::default(), check: None }
    }

    pub(crate) fn checked_by(mut self, check: OutputCheck) -> Self {
        self.check = Some(check);
        self.spec.is_checked = true;
        self.plan = Arc::default();
        self
    }

    pub(crate) fn spec(&self) -> &OutputSpec {
        &self.spec
    }

    /// Returns the option with its compiled schema.
    ///
    /// # Errors
    /// Returns the problem of the option.
    pub(crate) fn plan(&self) -> Result<Arc<OutputPlan>, String> {
        self.plan.get_or_init(|| OutputPlan::new(&self.spec).map(Arc::new)).clone()
    }

    pub(crate) fn for_turn(&self, plan: Arc<OutputPlan>, by_tool: bool) -> Box<PromptOutput> {
        let turn = TurnOutput { plan, by_tool, is_checked: self.check.is_some() };
        Box::new(PromptOutput { turn, check: self.check.clone() })
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("name", &self.spec.name)
            .field("mode", &self.spec.mode)
            .field("retries", &self.spec.retries)
            .field("schema", &self.spec.schema)
            .finish_non_exhaustive()
    }
}

/// The structured output of one turn, for the driver.
pub(crate) struct PromptOutput {
    pub(crate) turn: TurnOutput,
    pub(crate) check: Option<OutputCheck>,
}

impl fmt::Debug for PromptOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptOutput").field("by_tool", &self.turn.by_tool).finish_non_exhaustive()
    }
}

/// The structured output of a session, for its turns.
#[derive(Debug)]
pub(crate) struct SessionOutput {
    pub(crate) output: Output,
    pub(crate) plan: Arc<OutputPlan>,
    /// Whether the agent has the tool.
    pub(crate) by_tool: bool,
}

fn deserialized<T: DeserializeOwned>(value: &Value) -> Result<(), Vec<OutputError>> {
    let error = match serde_path_to_error::deserialize::<_, T>(value) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let mut pointer = String::new();
    for segment in error.path() {
        use serde_path_to_error::Segment;
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            // A variant is not always a level of the JSON.
            Segment::Enum { .. } | Segment::Unknown => break,
        }
    }
    Err(vec![OutputError::new(pointer, error.inner().to_string())])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    struct Line {
        #[expect(dead_code)]
        amount: u8,
    }

    #[test]
    fn type_refusal_has_pointer() {
        assert_eq!(deserialized::<Vec<Line>>(&json!([{"amount": 1}])), Ok(()));
        let errors = deserialized::<Vec<Line>>(&json!([{"amount": 1}, {"amount": 300}])).expect_err("a refusal");
        assert_eq!(errors[0].pointer, "/1/amount");
    }

    #[test]
    fn changed_output_is_compiled_again() {
        let output = Output::new(json!({"type": "object"}));
        assert_eq!(output.plan().expect("a plan").spec().name, "final_result");
        let named = output.clone().name("other");
        assert_eq!(named.plan().expect("a plan").spec().name, "other");
        assert!(Arc::ptr_eq(&output.plan().unwrap(), &output.clone().plan().unwrap()));
    }
}
