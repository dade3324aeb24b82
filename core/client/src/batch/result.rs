//! The results of a batch.

use std::path::PathBuf;
use std::time::Duration;

use kimi_agent_protocol::error_json::{error_from_json, error_to_json};
use kimi_agent_protocol::json::held_value;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::connection::{PromptResult, TurnStatus};
use crate::error::Error;
use crate::messages::{Content, TokenUsage};

/// How a job of a batch ended.
///
/// # Examples
/// ```
/// assert_eq!(kimi_agent::batch::JobStatus::Finished.as_str(), "finished");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobStatus {
    /// The agent finished the turn.
    Finished,
    /// The turn reached its limit of steps.
    MaxStepsReached,
    /// The answer ends at the model's limit of tokens.
    Truncated,
    /// The model, its provider or a hook of the agent refused to answer.
    Refused,
    /// The turn was cancelled, for example because the batch was.
    Cancelled,
    /// The job has an error.
    Failed,
}

impl JobStatus {
    /// Returns the word for the status: `finished`, `max_steps_reached`, `truncated`, `refused`, `cancelled`, `failed`.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(kimi_agent::batch::JobStatus::Failed.as_str(), "failed");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::MaxStepsReached => "max_steps_reached",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Returns whether the job has a result, so that it does not run again with the same journal.
    pub(super) fn has_result(self) -> bool {
        matches!(self, Self::Finished | Self::MaxStepsReached | Self::Truncated | Self::Refused)
    }
}

impl From<TurnStatus> for JobStatus {
    fn from(status: TurnStatus) -> Self {
        match status {
            TurnStatus::Finished => Self::Finished,
            TurnStatus::MaxStepsReached => Self::MaxStepsReached,
            TurnStatus::Truncated => Self::Truncated,
            TurnStatus::Refused => Self::Refused,
            _ => Self::Cancelled,
        }
    }
}

/// The result of a job.
///
/// # Examples
/// ```
/// fn report(result: &kimi_agent::batch::JobResult) {
///     match (&result.result, &result.error) {
///         (Some(done), _) => println!("{}: {}", result.key, done.text),
///         (None, Some(error)) => eprintln!("{} failed after {} attempts: {error}", result.key, result.attempts),
///         (None, None) => eprintln!("{} was cancelled", result.key),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JobResult {
    /// The key of the job: its own, or a hash of its prompt and options.
    pub key: String,
    /// The position of the job in the batch, from 0 on.
    pub index: u64,
    /// The prompt of the job.
    pub prompt: Content,
    /// The `data` of the job.
    pub data: Value,
    /// How the job ended.
    pub status: JobStatus,
    /// The result of the turn. Absent if the job failed, or was cancelled before its turn began.
    pub result: Option<PromptResult>,
    /// The error of the last attempt, if the job failed.
    pub error: Option<Error>,
    /// The tokens of all attempts.
    pub usage: TokenUsage,
    /// The number of attempts, from 1 on.
    pub attempts: u32,
    /// The time from the start of the first attempt to the end of the last one.
    pub duration: Duration,
    /// The recording of the last attempt, if `record` is set.
    pub recording: Option<PathBuf>,
    /// The changes in the worktree of the last attempt, as `git diff` prints them. Absent without worktrees, and if they
    /// cannot be read; then the worktree is kept.
    pub diff: Option<String>,
    /// The copy or the worktree, if it was kept.
    pub workspace: Option<PathBuf>,
    /// Whether the result is from the journal, so that the job did not run now.
    pub from_journal: bool,
}

impl JobResult {
    /// Returns the result as JSON: the object in the journal and in the results of `kimi-agent batch`. Durations are in
    /// seconds.
    ///
    /// # Examples
    /// ```
    /// fn print(result: &kimi_agent::batch::JobResult) {
    ///     println!("{}", result.to_json());
    /// }
    /// ```
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut set = |name: &str, value: Value| object.insert(name.to_owned(), value);
        set("key", self.key.as_str().into());
        set("index", self.index.into());
        set("status", self.status.as_str().into());
        set("prompt", held_value(&self.prompt));
        set("data", self.data.clone());
        set("result", held_value(&self.result));
        set("error", self.error.as_ref().map_or(Value::Null, error_to_json));
        set("usage", held_value(&self.usage));
        set("attempts", self.attempts.into());
        set("duration", self.duration.as_secs_f64().into());
        set("recording", held_value(&self.recording.as_ref().map(|path| path.to_string_lossy())));
        set("diff", held_value(&self.diff));
        set("workspace", held_value(&self.workspace.as_ref().map(|path| path.to_string_lossy())));
        set("from_journal", self.from_journal.into());
        Value::Object(object)
    }
}

/// A result in the journal.
#[derive(Deserialize)]
pub(super) struct StoredResult {
    key: String,
    index: u64,
    prompt: Content,
    data: Value,
    status: JobStatus,
    pub(super) result: Option<PromptResult>,
    error: Option<Value>,
    usage: TokenUsage,
    attempts: u32,
    duration: f64,
    recording: Option<PathBuf>,
    diff: Option<String>,
    workspace: Option<PathBuf>,
}

impl StoredResult {
    pub(super) fn into_result(self) -> JobResult {
        JobResult {
            key: self.key,
            index: self.index,
            prompt: self.prompt,
            data: self.data,
            status: self.status,
            result: self.result,
            error: self.error.as_ref().map(error_from_json),
            usage: self.usage,
            attempts: self.attempts,
            duration: Duration::try_from_secs_f64(self.duration).unwrap_or_default(),
            recording: self.recording,
            diff: self.diff,
            workspace: self.workspace,
            from_journal: true,
        }
    }
}
