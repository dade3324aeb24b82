//! The outcome of a turn, as programs get it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tool_calls::{HandlerFailure, RejectedApproval, ToolCallRecord};
use crate::error::{Error, Result, invalid_option};
use crate::messages::{Cost, Plan, TokenUsage};

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
    /// The answer ends at the model's limit of tokens.
    Truncated,
    /// The model, its provider or a hook of the agent refused to answer.
    Refused,
}

impl TurnStatus {
    /// Returns the word for the status: `finished`, `cancelled`, `max_steps_reached`, `truncated`, `refused`.
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
            Self::Truncated => "truncated",
            Self::Refused => "refused",
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
    /// How the turn ended. The result of an error has [`TurnStatus::Cancelled`] if the turn did not come to its end, whatever the
    /// error is.
    pub status: TurnStatus,
    /// Why the turn ended, in the agent's own word: over ACP `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`,
    /// `cancelled` or another one; over Wire the status. Absent if the agent did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
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
    /// The agent's last plan of the turn, without unknown fields. At most its first 1,000 entries, whose texts together take at
    /// most 256 KiB. Absent if the agent sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The cost of the turn: as the agent reported it, or the price of its tokens by the option `prices`. Absent if neither is known,
    /// or if the agent reported several currencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
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
            stop_reason: None,
            steps: 0,
            text: String::new(),
            output: None,
            usage: TokenUsage::default(),
            tool_calls: Vec::new(),
            rejected: Vec::new(),
            handler_failures: Vec::new(),
            plan: None,
            cost: None,
        }
    }

    /// Returns the value of the turn's `output` as a type. Name the type, as in `output::<Review>()`: without it, the compiler says
    /// that `Deserialize` is not implemented for `!`, or that type annotations are needed.
    ///
    /// # Errors
    /// Those of [`PromptResult::raise_for_status`].
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
            let missing =
                || invalid_option("output", "the turn had no such option; set it for the session or the prompt");
            return Err(self.clone().raise_for_status().err().unwrap_or_else(missing));
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
    /// [`Error::TurnCancelled`] if the turn was cancelled, [`Error::MaxStepsReached`] if it reached its limit of steps,
    /// [`Error::AnswerTruncated`] if the answer was cut at the model's limit of tokens, [`Error::AnswerRefused`] if the model
    /// refused to answer.
    ///
    /// ```no_run
    /// # use kimi_agent_protocol as kimi_agent;
    /// # struct Turn;
    /// # impl Turn { async fn result(&mut self) -> kimi_agent::Result<kimi_agent::PromptResult> { Err(kimi_agent::Error::session_closed()) } }
    /// # async fn example(turn: &mut Turn) -> kimi_agent::Result<()> {
    /// let text = turn.result().await?.raise_for_status()?.text;
    /// # Ok(()) }
    /// ```
    pub fn raise_for_status(self) -> Result<Self> {
        match self.status {
            TurnStatus::Finished => Ok(self),
            TurnStatus::Cancelled => Err(Error::TurnCancelled(self.into())),
            TurnStatus::MaxStepsReached => {
                Err(Error::MaxStepsReached { steps: self.limit_of_steps(), result: self.into() })
            }
            TurnStatus::Truncated => Err(Error::AnswerTruncated(Box::new(self))),
            TurnStatus::Refused => Err(Error::AnswerRefused(Box::new(self))),
        }
    }

    /// Returns the number of steps that a turn was limited to. Over ACP an agent reports no steps: the SDK counts the turn as
    /// one.
    #[doc(hidden)]
    pub fn limit_of_steps(&self) -> Option<i64> {
        Some(self.steps).filter(|steps| *steps > 1 || self.stop_reason.as_deref() != Some("max_turn_requests"))
    }
}
