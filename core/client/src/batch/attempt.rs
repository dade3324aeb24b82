//! One attempt of a job: a session of its own with one turn.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use kimi_agent_protocol::batch::{AttemptOutcome, Retry, is_overload};
use tokio::sync::watch;

use super::driver::blocking;
use super::job::{Hash, Job};
use super::result::JobStatus;
use super::runner::{self, Runner};
use super::workspace::{Keep, Prepared, Workspaces};
use crate::connection::PromptResult;
use crate::messages::TokenUsage;
use crate::options::{AgentOptions, PromptOptions, SessionOptions};
use crate::{Agent, Error, Result, Session, Turn};

/// The parts that the attempts of all jobs share.
pub(super) struct Context {
    /// The options of a session that has a process of its own.
    pub(super) options: SessionOptions,
    /// The same without the options of the agent.
    pub(super) of_sessions: SessionOptions,
    pub(super) of_agent: AgentOptions,
    /// Its sessions are those of the jobs. Opened for the first job that needs it: with a runner, or if each job has an agent
    /// of its own, never.
    pub(super) agent: OnceLock<Agent>,
    pub(super) retry: Retry,
    pub(super) workspaces: Workspaces,
    /// Makes the attempts, if they are not made here.
    pub(super) runner: Option<Runner>,
    /// Whether the batch is cancelled.
    pub(super) cancelled: watch::Receiver<bool>,
}

impl Context {
    /// Opens the agent that the jobs share, unless it is open.
    pub(super) fn open_agent(&self) -> Result<()> {
        if self.agent.get().is_none() {
            self.agent.set(self.of_agent.clone().open()?).ok();
        }
        Ok(())
    }
}

/// The task of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) job: Arc<Job>,
    pub(super) hash: Hash,
    pub(super) key: String,
    pub(super) number: u32,
}

/// The outcome of an attempt.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// `None` if the batch was cancelled before the turn began.
    pub(super) outcome: Option<Result<PromptResult>>,
    pub(super) usage: TokenUsage,
    pub(super) recording: Option<PathBuf>,
    pub(super) diff: Option<String>,
    pub(super) workspace: Option<PathBuf>,
}

impl Report {
    /// Makes the report of an attempt that could not begin.
    pub(super) fn failed(error: Error) -> Self {
        Self { outcome: Some(Err(error)), ..Self::default() }
    }

    pub(super) fn status(&self) -> JobStatus {
        match &self.outcome {
            Some(Ok(result)) => result.status.into(),
            Some(Err(_)) => JobStatus::Failed,
            None => JobStatus::Cancelled,
        }
    }

    /// Returns the outcome for the schedule of the batch.
    pub(super) fn outcome(&self, retry: &Retry, attempt: u32) -> AttemptOutcome {
        match (&self.outcome, self.status()) {
            (Some(Err(error)), _) => {
                let retry_after = error.retry_after();
                let (may_retry, is_overload) = (retry.allows(attempt, error), is_overload(error));
                AttemptOutcome::Failure { may_retry, is_overload, retry_after }
            }
            (_, JobStatus::Cancelled) => AttemptOutcome::Cancelled,
            _ => AttemptOutcome::Success,
        }
    }
}

/// Runs an attempt, in a directory of its own if the batch has such directories.
pub(super) async fn run(context: Arc<Context>, task: Task) -> Report {
    // A place can share the directory of one job only.
    let has_own_place = context.options.place.is_some() && !context.workspaces.is_shared();
    let own_agent = task.job.needs_own_agent() || has_own_place;
    let base = if own_agent { &context.options } else { &context.of_sessions };
    let (mut options, prompt) = match task.job.configured(base) {
        Ok(configured) => configured,
        Err(error) => return Report::failed(error),
    };
    if let Some(work_dir) = &task.job.work_dir {
        options.work_dir = Some(work_dir.clone());
    }
    if let Some(runner) = &context.runner {
        let mut cancelled = context.cancelled.clone();
        return tokio::select! {
            biased;
            () = until(&mut cancelled) => Report::default(),
            report = runner::run(runner, &task) => report,
        };
    }
    let mut report = Report::default();
    if context.workspaces.is_shared() {
        run_session(&context, options, prompt, own_agent, &mut report).await;
        return report;
    }
    let prepared = match prepare(&context, &task, &options).await {
        Ok(prepared) => prepared,
        Err(_) if *context.cancelled.borrow() => return report,
        Err(error) => return Report::failed(error),
    };
    options.work_dir = Some(prepared.dir.clone());
    run_session(&context, options, prompt, own_agent, &mut report).await;
    let keep = match &report.outcome {
        Some(Err(error)) if !*context.cancelled.borrow() && context.retry.allows(task.number, error) => Keep::Never,
        Some(Err(_)) => Keep::Failed,
        Some(Ok(_)) | None => Keep::Unreadable,
    };
    let shared = Arc::clone(&context);
    let remains = blocking(move || Ok(shared.workspaces.finish(prepared, keep))).await.unwrap_or_default();
    (report.diff, report.workspace) = (remains.diff, remains.kept);
    report
}

/// Makes the directory of an attempt.
async fn prepare(context: &Arc<Context>, task: &Task, options: &SessionOptions) -> Result<Prepared> {
    let work_dir = options.absolute("work_dir", options.work_dir.as_deref().unwrap_or(Path::new(".")))?;
    let (context, key, hash) = (Arc::clone(context), task.key.clone(), task.hash);
    blocking(move || context.workspaces.prepare(&work_dir, &key, &hash)).await
}

/// Opens a session, runs the turn, and closes the session.
async fn run_session(
    context: &Context,
    mut options: SessionOptions,
    prompt: PromptOptions,
    own_agent: bool,
    report: &mut Report,
) {
    let slot = Arc::new(OnceLock::new());
    options.recorded_at = Some(Arc::clone(&slot));
    let mut cancelled = context.cancelled.clone();
    let id = uuid::Uuid::new_v4().to_string();
    let opening = async {
        let options = Box::new(options);
        match context.agent.get() {
            Some(agent) if !own_agent => agent.open_as(options, id).await,
            _ => options.start_as(id).await,
        }
    };
    let opened = tokio::select! {
        biased;
        () = until(&mut cancelled) => None,
        opened = opening => Some(opened),
    };
    match opened {
        None => {}
        Some(Err(error)) => report.outcome = Some(Err(error)),
        Some(Ok(session)) => {
            run_turn(&session, prompt, &mut cancelled, report).await;
            if let Err(error) = session.close().await {
                tracing::warn!(%error, "closing the session of a job failed");
            }
        }
    }
    report.recording = slot.get().map(|file| file.path().to_owned());
}

async fn run_turn(
    session: &Session,
    prompt: PromptOptions,
    cancelled: &mut watch::Receiver<bool>,
    report: &mut Report,
) {
    let mut turn = match session.prompt(prompt) {
        Ok(turn) => turn,
        Err(error) => {
            report.outcome = Some(Err(error));
            return;
        }
    };
    let ended = tokio::select! {
        ended = turn.result() => Some(ended),
        () = until(cancelled) => None,
    };
    report.outcome = match ended {
        Some(ended) => Some(ended),
        None => cancelled_outcome(&mut turn).await,
    };
    report.usage = turn.usage();
}

/// Cancels the turn. `None` if the agent did not end it: the job is cancelled in spite of that.
async fn cancelled_outcome(turn: &mut Turn) -> Option<Result<PromptResult>> {
    let ended = match turn.cancel().await {
        Ok(()) => turn.result().await,
        Err(error) => Err(error),
    };
    match ended {
        Err(error @ (Error::Timeout(_) | Error::AgentExited(_) | Error::SessionClosed(_))) => {
            tracing::warn!(%error, "the turn of a job did not end when it was cancelled");
            None
        }
        ended => Some(ended),
    }
}

/// Waits until the batch is cancelled.
async fn until(cancelled: &mut watch::Receiver<bool>) {
    if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
        std::future::pending::<()>().await;
    }
}
