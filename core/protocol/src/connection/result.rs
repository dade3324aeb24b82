//! The outcome of a turn, as programs get it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tool_calls::{HandlerFailure, RejectedApproval, ToolCallRecord};
use crate::error::{Error, Result, invalid_option};
use crate::messages::TokenUsage;

/// How a turn ended that did not fail.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     if result.status == kimi_agent::TurnStatus::MaxStepsReached {
///         println!("stopped after {} steps", result.steps);
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnStatus {
    /// The agent finished the turn.
    Finished,
    /// The turn was cancelled.
    Cancelled,
    /// The turn reached its limit of steps.
    MaxStepsReached,
}

impl TurnStatus {
    /// Returns the word for the status: `finished`, `cancelled`, `max_steps_reached`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert_eq!(kimi_agent::TurnStatus::Finished.as_str(), "finished");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::MaxStepsReached => "max_steps_reached",
        }
    }
}

/// The outcome of a turn.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(result: &kimi_agent::PromptResult) {
///     println!("{} after {} steps: {}", result.status.as_str(), result.steps, result.text);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptResult {
    /// How the turn ended.
    pub status: TurnStatus,
    /// The number of steps.
    pub steps: i64,
    /// The text of the last step. Beyond 4 MiB (64 MiB with `output`) it is cut, and ends with a line that says so:
    /// `[… 123 more bytes]`.
    pub text: String,
    /// The value of the turn's `output`, which is valid. Absent without the option, and if the turn was cancelled or reached
    /// its limit of steps before it had a value. [`PromptResult::output`](method@PromptResult::output) returns it as a type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The tokens that the turn took, those of subagents included.
    pub usage: TokenUsage,
    /// The tool calls of the turn in order, those of subagents included. At most the first 10,000; their arguments and outputs
    /// together take at most 4 MiB, and what does not fit is left out of the list's entries.
    pub tool_calls: Vec<ToolCallRecord>,
    /// The approvals that were rejected, in order; at most the first 1,000.
    pub rejected: Vec<RejectedApproval>,
    /// The handlers that failed while the turn ran, in order; at most the first 1,000.
    pub handler_failures: Vec<HandlerFailure>,
}

impl PromptResult {
    /// Makes the result of a turn in which nothing happened.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::{PromptResult, TurnStatus};
    /// assert_eq!(PromptResult::empty(TurnStatus::Finished).text, "");
    /// ```
    pub fn empty(status: TurnStatus) -> Self {
        Self {
            status,
            steps: 0,
            text: String::new(),
            output: None,
            usage: TokenUsage::default(),
            tool_calls: Vec::new(),
            rejected: Vec::new(),
            handler_failures: Vec::new(),
        }
    }

    /// Returns the value of the turn's `output` as a type.
    ///
    /// # Errors
    /// [`Error::TurnCancelled`] and [`Error::MaxStepsReached`] as [`PromptResult::raise_for_status`] does.
    /// [`Error::InvalidOption`] if the prompt had no `output`, or if its schema allows a value that does not fit the type.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// #[derive(serde::Deserialize)]
    /// struct Review {
    ///     approved: bool,
    /// }
    ///
    /// fn report(result: &kimi_agent::PromptResult) -> kimi_agent::Result<()> {
    ///     let review: Review = result.output()?;
    ///     println!("approved: {}", review.approved);
    ///     Ok(())
    /// }
    /// # assert!(report(&kimi_agent::PromptResult::empty(kimi_agent::TurnStatus::Finished)).is_err());
    /// ```
    pub fn output<T: DeserializeOwned>(&self) -> Result<T> {
        let Some(value) = &self.output else {
            return Err(match self.status {
                TurnStatus::Cancelled => Error::TurnCancelled,
                TurnStatus::MaxStepsReached => Error::MaxStepsReached { steps: Some(self.steps) },
                TurnStatus::Finished => {
                    invalid_option("output", "the prompt had no such option; set it for the prompt")
                }
            });
        };
        serde_path_to_error::deserialize(value).map_err(|error| {
            invalid_option(
                "output",
                format!("the value does not fit the type: {error}; expected a schema of this type"),
            )
        })
    }

    /// Returns the result itself if the turn finished.
    ///
    /// # Errors
    /// [`Error::TurnCancelled`] if the turn was cancelled, [`Error::MaxStepsReached`] if it reached its limit of steps.
    ///
    /// ```no_run
    /// # use kimi_agent_protocol as kimi_agent;
    /// # struct Turn;
    /// # impl Turn { async fn result(&mut self) -> kimi_agent::Result<kimi_agent::PromptResult> { Err(kimi_agent::Error::SessionClosed) } }
    /// # async fn example(turn: &mut Turn) -> kimi_agent::Result<()> {
    /// let text = turn.result().await?.raise_for_status()?.text;
    /// # Ok(()) }
    /// ```
    pub fn raise_for_status(self) -> Result<Self> {
        match self.status {
            TurnStatus::Finished => Ok(self),
            TurnStatus::Cancelled => Err(Error::TurnCancelled),
            TurnStatus::MaxStepsReached => Err(Error::MaxStepsReached { steps: Some(self.steps) }),
        }
    }
}
