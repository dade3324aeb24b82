//! Attempts that another program makes, for example on a cluster. Requests and results are JSON.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use kimi_agent_protocol::error_json::error_from_json;
use serde::Deserialize;
use serde_json::{Value, json};

use super::attempt::{Report, Task};
use super::options::{BatchOptions, Workspace};
use super::result::JobStatus;
use crate::Error;
use crate::connection::PromptResult;
use crate::error::invalid_option;
use crate::messages::TokenUsage;

/// Makes an attempt. Dropping the future cancels it.
pub(super) type Runner =
    Arc<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync>;

/// The parts of the result of an attempt that count.
#[derive(Deserialize)]
struct Attempt {
    status: JobStatus,
    result: Option<PromptResult>,
    error: Option<Value>,
    usage: Option<TokenUsage>,
    recording: Option<PathBuf>,
    diff: Option<String>,
    workspace: Option<PathBuf>,
}

/// Lets `runner` make all attempts of a batch. It gets `{key, attempt, job}` and returns the result of the attempt, both as
/// JSON. The batch opens no sessions then.
pub fn set_runner<F, R>(options: &mut BatchOptions, runner: F)
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, String>> + Send + 'static,
{
    options.runner = Some(Arc::new(move |request| Box::pin(runner(request))));
    // The runner makes the directories.
    options.workspace = Workspace::Shared;
}

/// Lets the runner make an attempt.
pub(super) async fn run(runner: &Runner, task: &Task) -> Report {
    // Its path is absolute, because the runner can have another working directory.
    let job = match task.job.to_json() {
        Ok(job) => job,
        Err(error) => return Report::failed(error),
    };
    let request = json!({"key": task.key, "attempt": task.number, "job": job});
    match runner(request).await.map(serde_json::from_value) {
        Ok(Ok(attempt)) => report(attempt),
        Ok(Err(error)) => Report::failed(Error::Internal(format!("the result of an attempt is malformed: {error}"))),
        Err(text) => Report::failed(invalid_option("on", format!("it failed to run a job: {text}"))),
    }
}

fn report(attempt: Attempt) -> Report {
    let outcome = match (attempt.error, attempt.result) {
        (Some(error), _) => Some(Err(error_from_json(&error))),
        (None, Some(result)) => Some(Ok(result)),
        (None, None) if attempt.status == JobStatus::Cancelled => None,
        (None, None) => Some(Err(Error::Internal("the result of an attempt is empty".to_owned()))),
    };
    Report {
        outcome,
        usage: attempt.usage.unwrap_or_default(),
        recording: attempt.recording,
        diff: attempt.diff,
        workspace: attempt.workspace,
    }
}
