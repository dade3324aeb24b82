//! The task of a batch. The [`Scheduler`] makes its decisions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Instant;

use kimi_agent_protocol::batch::{AttemptOutcome, JobId, Scheduler, Step};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::attempt::{self, Report, Task};
use super::job::{Hash, Job, hex};
use super::journal::Journal;
use super::options::{BatchOptions, Progress};
use super::result::{JobResult, JobStatus};
use super::workspace::Workspaces;
use super::{Control, Source};
use crate::error::invalid_option;
use crate::messages::TokenUsage;
use crate::{Error, Result};

/// The end of a task.
enum Ended {
    Attempt(JobId, Box<Report>),
    /// The result is in the journal.
    Recorded(Box<JobResult>, Result<()>),
}

/// The event for which the task of the batch has waited.
enum Happened {
    Ended(std::result::Result<Ended, tokio::task::JoinError>),
    Pulled(Box<Option<Result<Job>>>),
    Woken,
    Deadline,
    Cancelled,
}

/// A job that runs or waits for its next attempt.
struct Active {
    task: Task,
    usage: TokenUsage,
    began: Instant,
    /// The report of the last attempt.
    last: Option<Report>,
}

struct Driver {
    options: BatchOptions,
    source: Source,
    context: Arc<attempt::Context>,
    journal: Option<Arc<Mutex<Journal>>>,
    scheduler: Scheduler,
    tasks: JoinSet<Ended>,
    jobs: HashMap<JobId, Active>,
    /// How often the hash of a job has occurred.
    seen: HashMap<Hash, u32>,
    /// The results that are being written to the journal.
    recording: usize,
    results: mpsc::Sender<Result<JobResult>>,
    control: Arc<Control>,
    progress: Progress,
    /// The numbers that the handler has got, without the time.
    reported: Option<Progress>,
    began: Instant,
    /// Whether the working directory was checked.
    is_checked: bool,
    /// The error of the whole batch.
    error: Option<Error>,
}

/// Sets the end of the batch, also if its task panics or is dropped.
struct EndGuard(Arc<Control>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
    }
}

/// Runs a batch to its end.
pub(super) async fn run(
    source: Source,
    options: BatchOptions,
    results: mpsc::Sender<Result<JobResult>>,
    control: Arc<Control>,
) {
    let _end = EndGuard(Arc::clone(&control));
    let mut running = pin!(async {
        Driver::open(source, options, results.clone(), Arc::clone(&control)).await?.run().await;
        Ok(())
    });
    let ended = std::future::poll_fn(|cx| {
        // Without an error a panic would look like the end of the batch.
        catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))).unwrap_or_else(|_| {
            let reason = "the task of the batch has panicked, so the batch was cancelled; run it again";
            Poll::Ready(Err(Error::Internal(reason.to_owned())))
        })
    });
    if let Err(error) = ended.await {
        control.stop();
        control.failed(&error);
        results.try_send(Err(error)).ok();
    }
}

impl Driver {
    /// Checks the options, and opens the journal.
    async fn open(
        source: Source,
        mut options: BatchOptions,
        results: mpsc::Sender<Result<JobResult>>,
        control: Arc<Control>,
    ) -> Result<Self> {
        options.validate()?;
        options.session.turn_timeout = options.job_timeout.or(options.session.turn_timeout);
        options.session.record = options.recordings();
        let batch = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
        let journal = match options.journal.clone() {
            None => None,
            Some(path) => {
                let redactor = options.session.secrets_redactor()?;
                let batch = batch.clone();
                let opened = blocking(move || Journal::open(&path, redactor, &batch)).await?;
                Some(Arc::new(Mutex::new(opened)))
            }
        };
        let (kind, keep_failed, cancelled) = (options.workspace, options.keep_failed, control.cancelled.subscribe());
        let workspaces = blocking(move || Ok(Workspaces::new(kind, keep_failed, &batch, cancelled))).await?;
        let (of_agent, of_sessions) = options.session.clone().split();
        let context = attempt::Context {
            options: options.session.clone(),
            of_sessions,
            of_agent,
            agent: OnceLock::new(),
            retry: options.retry,
            workspaces,
            runner: options.runner.clone(),
            cancelled: control.cancelled.subscribe(),
        };
        let total = source.total();
        Ok(Self {
            scheduler: Scheduler::new(options.concurrency, options.retry),
            source,
            context: Arc::new(context),
            journal,
            options,
            tasks: JoinSet::new(),
            jobs: HashMap::new(),
            seen: HashMap::new(),
            recording: 0,
            results,
            control,
            progress: Progress { total, ..Progress::default() },
            reported: None,
            began: Instant::now(),
            is_checked: false,
            error: None,
        })
    }

    async fn run(mut self) {
        let deadline = self.options.timeout.map(|limit| self.began + limit);
        let mut cancelled = self.control.cancelled.subscribe();
        loop {
            self.report_progress();
            let (mut pulls, mut wake) = (false, None);
            match self.scheduler.poll(Instant::now(), self.unread()) {
                Step::End if self.tasks.is_empty() => break,
                Step::End => {}
                // The source may be pending for a long time.
                Step::Pull => (pulls, wake) = (true, self.scheduler.next_retry()),
                Step::Retry { job, .. } => {
                    self.retry(job);
                    continue;
                }
                Step::Wait(until) => wake = until,
            }
            let is_running = !self.scheduler.is_stopped();
            let source = &mut self.source;
            let happened = tokio::select! {
                biased;
                _ = cancelled.wait_for(|cancelled| *cancelled), if is_running => Happened::Cancelled,
                () = at(deadline), if is_running && deadline.is_some() => Happened::Deadline,
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => Happened::Ended(ended),
                () = self.control.taken.notified() => Happened::Woken,
                () = at(wake), if wake.is_some() => Happened::Woken,
                job = std::future::poll_fn(|cx| poll_job(source, cx)), if pulls => Happened::Pulled(Box::new(job)),
            };
            match happened {
                Happened::Ended(ended) => self.ended(ended),
                Happened::Pulled(job) => self.pulled(*job).await,
                Happened::Woken => {}
                Happened::Deadline => self.exceed_deadline(),
                Happened::Cancelled => self.stop(),
            }
        }
        self.finish().await;
    }

    /// Returns how many results wait for the program, or will in a moment.
    fn unread(&self) -> usize {
        self.results.max_capacity() - self.results.capacity() + self.recording
    }

    /// Handles the next job of the source, or its end.
    async fn pulled(&mut self, pulled: Option<Result<Job>>) {
        let job = match pulled {
            Some(Ok(job)) => job,
            Some(Err(error)) => return self.end_source(Some(error)),
            None => return self.end_source(None),
        };
        let (hash, key) = match self.identify(&job) {
            Ok(identity) => identity,
            Err(error) => return self.end_source(Some(error)),
        };
        if let Some(result) = self.recall(&hash).await
            && !self.lacks_output(&job, &result)
        {
            self.scheduler.handle_known();
            // Those in the journal have no secrets, or are of an earlier run.
            return self.deliver(JobResult { key, prompt: job.prompt, data: job.data, ..result });
        }
        if let Err(error) = self.check_work_dir(&job).await {
            return self.end_source(Some(error));
        }
        // A runner starts the agents, with paths of its machine.
        if self.context.runner.is_none()
            && !job.needs_own_agent()
            && let Err(error) = self.context.open_agent()
        {
            return self.end_source(Some(error));
        }
        let task = Task { job: Arc::new(job), hash, key, number: 1 };
        let id = self.scheduler.handle_job();
        self.spawn(id, task.clone());
        let active = Active { task, usage: TokenUsage::default(), began: Instant::now(), last: None };
        self.jobs.insert(id, active);
    }

    /// Checks once that the working directory of the batch suits the workspace, before its first job starts.
    async fn check_work_dir(&mut self, job: &Job) -> Result<()> {
        if self.is_checked || job.work_dir.is_some() || self.context.runner.is_some() {
            return Ok(());
        }
        self.is_checked = true;
        let context = Arc::clone(&self.context);
        blocking(move || {
            let work_dir = context.options.work_dir.as_deref().unwrap_or(Path::new("."));
            context.workspaces.check(&context.options.absolute("work_dir", work_dir)?)
        })
        .await
    }

    /// Takes no more jobs; those that have started run to their end.
    fn end_source(&mut self, error: Option<Error>) {
        self.error = self.error.take().or(error);
        self.scheduler.handle_source_end();
    }

    /// Returns the hash of a job and its key.
    fn identify(&mut self, job: &Job) -> Result<(Hash, String)> {
        let (hash, is_named) = job.hash();
        let ordinal = match self.seen.entry(hash) {
            Entry::Vacant(entry) => *entry.insert(1),
            Entry::Occupied(mut entry) => {
                *entry.get_mut() += 1;
                *entry.get()
            }
        };
        match &job.key {
            Some(key) if ordinal > 1 => {
                let reason = format!("two jobs have the key {key:?}; keys of a batch must differ");
                Err(invalid_option("key", reason))
            }
            Some(key) => Ok((hash, key.clone())),
            None if ordinal == 1 || is_named => Ok((hash, hex(&hash))),
            // Equal jobs are told apart by their order.
            None => {
                let key = format!("{}-{ordinal}", hex(&hash));
                Ok((super::job::hash_of_key(&key), key))
            }
        }
    }

    /// Returns the result of a job from the journal.
    async fn recall(&mut self, hash: &Hash) -> Option<JobResult> {
        let (journal, hash) = (Arc::clone(self.journal.as_ref()?), *hash);
        let index = self.scheduler.next_job();
        blocking(move || Ok(lock(&journal).find(&hash, index))).await.ok().flatten()
    }

    /// Returns whether a result of an earlier run has no value, although the option `output` has been set since.
    fn lacks_output(&self, job: &Job, result: &JobResult) -> bool {
        let is_absent = result.result.as_ref().is_some_and(|result| result.output.is_none());
        let lacks = result.status == JobStatus::Finished && is_absent && job.has_output(&self.context.options);
        if lacks {
            tracing::warn!(key = result.key, "a result in the journal has no value of `output`; its job runs again");
        }
        lacks
    }

    fn spawn(&mut self, id: JobId, task: Task) {
        let context = Arc::clone(&self.context);
        let run = async move {
            // A task of its own, so that a panic ends only this job.
            let outcome = tokio::spawn(attempt::run(context, task).in_current_span()).await;
            let report = outcome.unwrap_or_else(|error| Report::failed(Error::Internal(error.to_string())));
            Ended::Attempt(id, Box::new(report))
        };
        self.tasks.spawn(run.in_current_span());
    }

    fn retry(&mut self, id: JobId) {
        self.scheduler.handle_retry(id);
        if let Some(active) = self.jobs.get_mut(&id) {
            active.task.number += 1;
            let task = active.task.clone();
            self.spawn(id, task);
        }
    }

    fn ended(&mut self, ended: std::result::Result<Ended, tokio::task::JoinError>) {
        match ended {
            Ok(Ended::Attempt(id, report)) => self.attempted(id, *report),
            Ok(Ended::Recorded(result, written)) => {
                self.recording -= 1;
                self.deliver(*result);
                if let Err(error) = written {
                    self.end_source(Some(error));
                }
            }
            // These tasks neither panic nor are aborted.
            Err(error) => self.end_source(Some(Error::Internal(error.to_string()))),
        }
    }

    fn attempted(&mut self, id: JobId, report: Report) {
        let Some(active) = self.jobs.get_mut(&id) else { return };
        active.usage += &report.usage;
        self.progress.tokens += u64::try_from(report.usage.total()).unwrap_or_default();
        let mut outcome = report.outcome(&self.options.retry, active.task.number);
        if *self.control.cancelled.borrow()
            && let AttemptOutcome::Failure { may_retry, .. } = &mut outcome
        {
            *may_retry = false;
        }
        if let Some(Err(error)) = &report.outcome {
            let (key, attempt) = (&active.task.key, active.task.number);
            tracing::info!(key, attempt, %error, "an attempt of a job failed");
            if let Some(asked) = self.options.retry.refused_wait(attempt, error) {
                let retry_after = asked.as_secs_f64();
                tracing::warn!(key, retry_after, "job not retried: the model's service asks for too long a wait");
            }
        }
        active.last = Some(report);
        let delay = self.scheduler.handle_outcome(id, outcome, Instant::now(), random());
        if delay.is_none() {
            self.complete(id);
        }
    }

    /// Makes the result of a job, and writes it to the journal.
    fn complete(&mut self, id: JobId) {
        let Some(active) = self.jobs.remove(&id) else { return };
        let hash = active.task.hash;
        let result = Box::new(active.into_result(id));
        let Some(journal) = self.journal.clone() else { return self.deliver(*result) };
        self.recording += 1;
        self.tasks.spawn(async move {
            let copy = result.clone();
            let written = blocking(move || lock(&journal).record(&hash, &copy)).await;
            Ended::Recorded(result, written)
        });
    }

    fn deliver(&mut self, result: JobResult) {
        self.progress.done += 1;
        self.progress.failed += u64::from(result.status == JobStatus::Failed);
        if let Some(error) = &result.error {
            self.control.failed(error);
        }
        // The program may have dropped the batch.
        self.results.try_send(Ok(result)).ok();
    }

    fn exceed_deadline(&mut self) {
        let limit = self.options.timeout.unwrap_or_default();
        let reason = format!("the batch took longer than {limit:?}; jobs without a result did not finish");
        self.error = self.error.take().or(Some(Error::Timeout(reason.into())));
        self.control.stop();
        self.stop();
    }

    /// Starts nothing more. The attempts that run see the cancel themselves.
    fn stop(&mut self) {
        for id in self.scheduler.handle_stop() {
            self.complete(id);
        }
    }

    async fn finish(mut self) {
        if let Some(agent) = self.context.agent.get()
            && let Err(error) = agent.close().await
        {
            tracing::warn!(%error, "the agent of a batch was not closed");
        }
        let context = Arc::clone(&self.context);
        let closed = blocking(move || {
            context.workspaces.close();
            Ok(())
        });
        closed.await.ok();
        self.report_progress();
        // Unlocked before the end of the batch is visible.
        drop(self.journal.take());
        if let Some(error) = self.error.take() {
            self.control.failed(&error);
            self.results.try_send(Err(error)).ok();
        }
    }

    /// Calls the handler of the progress, if something has changed.
    fn report_progress(&mut self) {
        let Some(handler) = &self.options.on_progress else { return };
        let counts = self.scheduler.counts();
        let now = Progress {
            running: counts.running as u64,
            waiting: counts.waiting as u64,
            retried: counts.retried,
            concurrency: counts.concurrency as u64,
            ..self.progress
        };
        if self.reported == Some(now) {
            return;
        }
        self.reported = Some(now);
        let progress = Progress { elapsed: self.began.elapsed(), ..now };
        if catch_unwind(AssertUnwindSafe(|| handler(progress))).is_err() {
            tracing::error!("`on_progress` has panicked; it is not called any more");
            self.options.on_progress = None;
        }
    }
}

impl Active {
    fn into_result(self, index: u64) -> JobResult {
        let report = self.last.unwrap_or_default();
        let status = report.status();
        let (result, error) = match report.outcome {
            Some(Ok(result)) => (Some(result), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        JobResult {
            key: self.task.key,
            index,
            prompt: self.task.job.prompt.clone(),
            data: self.task.job.data.clone(),
            status,
            result,
            error,
            usage: self.usage,
            attempts: self.task.number,
            duration: self.began.elapsed(),
            recording: report.recording,
            diff: report.diff,
            workspace: report.workspace,
            from_journal: false,
        }
    }
}

/// Polls the next job. A panic of the program in it ends the batch as an error does.
fn poll_job(source: &mut Source, cx: &mut std::task::Context<'_>) -> Poll<Option<Result<Job>>> {
    catch_unwind(AssertUnwindSafe(|| source.as_mut().poll_job(cx)))
        .unwrap_or_else(|_| Poll::Ready(Some(Err(Error::Internal("the source of the jobs has panicked".to_owned())))))
}

/// Runs work that waits for the disk or for other programs.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

fn lock(journal: &Mutex<Journal>) -> std::sync::MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Returns a random number from 0 to 1.
fn random() -> f64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    // The first 48 bits of such an id are random.
    (high >> 16) as f64 / (1_u64 << 48) as f64
}
