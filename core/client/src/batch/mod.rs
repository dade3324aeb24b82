//! Batches: many prompts, each in a session of its own, with limits, retries and a journal.
//!
//! - `job`, `result`, `options`, `json`: the public types.
//! - `driver`: the task of a batch. Its decisions are those of [`kimi_agent_protocol::batch`].
//! - `attempt`: one attempt of a job.
//! - `journal`: the file that makes a batch resumable; `redaction`: secrets are not in it.
//! - `runner`: attempts that another program makes.
//! - `workspace`: the directories in which jobs work.

mod attempt;
mod driver;
mod job;
mod journal;
mod json;
mod options;
mod redaction;
mod result;
mod runner;
mod workspace;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tracing::Instrument as _;

pub use job::{Job, JobValue};
pub use journal::{UnreadLines, read_journal};
pub use json::{check_batch_names, take_batch_options};
pub use kimi_agent_protocol::batch::Retry;
pub use options::{BatchOptions, Progress, Workspace};
pub use result::{JobResult, JobStatus};
pub use runner::set_runner;

use crate::{Error, Result};

kimi_agent_protocol::display_words!(JobStatus, Workspace);

/// The source of the jobs of a batch.
pub trait Jobs {
    /// Returns the next job, `None` after the last one. An error ends the batch.
    fn poll_job(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Job>>>;

    /// Returns how many jobs are left, if that is known.
    fn total(&self) -> Option<u64>;
}

/// The source of the jobs.
pub(crate) type Source = Pin<Box<dyn Jobs + Send>>;

/// A running batch: a stream of results, in the order in which the jobs end.
///
/// If twice as many results wait as jobs run at once, the batch starts no more jobs until the program reads one. Dropping the
/// batch cancels it in the background: running jobs are cancelled, and the journal gets their results. Before a program
/// exits, for example after Ctrl-C, [`cancel`](Self::cancel) waits for that.
///
/// # Examples
/// ```
/// # use kimi_agent::{SessionOptions, testing::scripted_agent};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = scripted_agent(serde_json::json!([[{"text": "Done: {{prompt}}"}]]));
/// use kimi_agent::batch::BatchOptions;
/// use kimi_agent::run_batch;
/// let options = BatchOptions::new().concurrency(8).session(SessionOptions::new().executable(&agent));
/// let mut batch = run_batch(["Summarize a.md", "Summarize b.md"], options);
/// while let Some(result) = batch.next().await {
///     let result = result?;
///     println!("{}: {}", result.index, result.status.as_str());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "dropping a batch cancels it"]
pub struct Batch {
    results: mpsc::Receiver<Result<JobResult>>,
    control: Arc<Control>,
}

/// The part of a batch that the program and the task of the batch share.
#[derive(Debug)]
pub struct Control {
    /// Whether the batch is cancelled.
    cancelled: watch::Sender<bool>,
    /// Whether the task has ended.
    ended: watch::Sender<bool>,
    /// The program has taken a result.
    taken: Notify,
    /// Whether the program has read the batch, or cancelled it.
    is_used: AtomicBool,
    /// The first error of a job, or of the batch.
    error: OnceLock<Error>,
    /// The span in which the batch was started. Its log records belong to this batch.
    span: tracing::Span,
}

/// The batches of this process, which are cancelled at its end. Starting a batch removes the entries of ended batches.
static BATCHES: Mutex<Vec<Weak<Control>>> = Mutex::new(Vec::new());

/// Returns the batches of this process that have not ended.
pub fn running_batches() -> Vec<Arc<Control>> {
    let batches = BATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    batches.iter().filter_map(Weak::upgrade).filter(|control| !*control.ended.borrow()).collect()
}

impl Control {
    /// Adds a batch to those of this process.
    fn register(self: &Arc<Self>) {
        let mut batches = BATCHES.lock().unwrap_or_else(PoisonError::into_inner);
        batches.retain(|batch| batch.strong_count() > 0);
        batches.push(Arc::downgrade(self));
    }

    /// Cancels the batch in the background, because the program asks for it.
    pub fn begin_cancel(&self) {
        self.is_used.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Cancels the batch in the background, because the program has left it. If the program has not begun to read it, that is
    /// logged.
    pub fn leave(&self) {
        if !self.is_used.swap(true, Ordering::Relaxed) {
            self.span.in_scope(|| self.warn_of_loss());
        }
        self.stop();
    }

    /// Cancels the batch in the background.
    fn stop(&self) {
        self.cancelled.send_replace(true);
    }

    fn warn_of_loss(&self) {
        match self.error.get() {
            Some(error) => tracing::warn!(%error, "failed batch dropped unread; iterate over its results"),
            None if *self.ended.borrow() => {
                tracing::warn!("batch dropped unread after its end; iterate over its results");
            }
            None => tracing::warn!("batch dropped unread, and cancelled; iterate over its results"),
        }
    }

    /// Notes an error, which is lost if the program does not read the batch.
    fn failed(&self, error: &Error) {
        self.error.get_or_init(|| error.clone());
    }

    /// Waits until all jobs have ended.
    pub async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender is a field of this value.
        ended.wait_for(|ended| *ended).await.ok();
    }
}

impl Batch {
    /// Returns the next result. `None` after the last one. The future may be dropped while it waits: no result is lost.
    ///
    /// A failed job is a result with an [`error`](JobResult::error). Results that wait for the program take memory, so at most
    /// twice as many wait as jobs run at once.
    ///
    /// # Errors
    /// The error that ended the whole batch, once, after all results: [`Error::InvalidOption`] for a wrong option, for two jobs
    /// with the same key, or for a journal that cannot be written; [`Error::Spawn`] if the program of the option `executable`
    /// does not exist or cannot be executed; [`Error::Timeout`] if the batch took longer than its limit.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(mut batch: kimi_agent::batch::Batch) -> kimi_agent::Result<()> {
    /// while let Some(result) = batch.next().await {
    ///     println!("{}", result?.key);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<JobResult>> {
        std::future::poll_fn(|cx| self.poll_result(cx)).await
    }

    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<JobResult>>> {
        self.control.is_used.store(true, Ordering::Relaxed);
        let result = ready!(self.results.poll_recv(cx));
        self.control.taken.notify_one();
        Poll::Ready(result)
    }

    /// Cancels the batch, and waits until all jobs have ended: no job starts any more, and running jobs are cancelled. Their
    /// results have the status `cancelled`, and [`next`](Self::next) still returns them. The journal is then complete.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(mut batch: kimi_agent::batch::Batch) -> kimi_agent::Result<()> {
    /// batch.cancel().await;
    /// while let Some(result) = batch.next().await {
    ///     println!("{}", result?.status.as_str());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn cancel(&self) {
        self.control.begin_cancel();
        self.control.ended().await;
    }

    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }
}

impl Stream for Batch {
    type Item = Result<JobResult>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_result(cx)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.control.leave();
    }
}

/// Runs many prompts, each in a session of its own, several at once. Returns immediately; the batch returns all errors.
///
/// `jobs` is anything that gives jobs: texts, or [`Job`]s with options. They are taken one by one when they can start, so an
/// endless or a large iterator needs little memory. It must not block for long. All sessions share one [`Agent`](crate::Agent).
///
/// Needs a tokio runtime, like a session. The batch keeps 16 bytes and a counter for each job, to find equal keys.
///
/// # Examples
/// ```
/// # use kimi_agent::{SessionOptions, testing::scripted_agent};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = scripted_agent(serde_json::json!([[{"text": "Done: {{prompt}}"}]]));
/// use kimi_agent::batch::{BatchOptions, Job};
/// use kimi_agent::run_batch;
/// let jobs = (1..=3).map(|issue| Job::new(format!("Fix issue {issue}")).key(format!("issue-{issue}")));
/// let options = BatchOptions::new().session(SessionOptions::new().executable(&agent));
/// let mut batch = run_batch(jobs, options);
/// while let Some(result) = batch.next().await {
///     let result = result?;
///     println!("{}: {}", result.key, result.result.map(|done| done.text).unwrap_or_default());
/// }
/// # Ok(()) }
/// ```
pub fn run_batch<I>(jobs: I, options: BatchOptions) -> Batch
where
    I: IntoIterator,
    I::Item: Into<Job>,
    I::IntoIter: Send + 'static,
{
    start(Box::pin(JobIterator(jobs.into_iter())), options, Handle::try_current().ok())
}

/// Runs the prompts of a stream, as [`run_batch`] does those of an iterator. The stream is polled only when a job can start.
///
/// # Examples
/// ```no_run
/// # async fn example(jobs: impl futures_core::Stream<Item = kimi_agent::batch::Job> + Send + 'static) -> kimi_agent::Result<()> {
/// use kimi_agent::batch::{BatchOptions, run_batch_stream};
/// let mut batch = run_batch_stream(jobs, BatchOptions::new());
/// while let Some(result) = batch.next().await {
///     println!("{}", result?.key);
/// }
/// # Ok(()) }
/// ```
pub fn run_batch_stream<S>(jobs: S, options: BatchOptions) -> Batch
where
    S: Stream + Send + 'static,
    S::Item: Into<Job>,
{
    start(Box::pin(JobStream(Box::pin(jobs))), options, Handle::try_current().ok())
}

/// Starts a batch on this runtime.
pub(crate) fn start(source: Source, mut options: BatchOptions, runtime: Option<Handle>) -> Batch {
    // Jobs start in tasks of their own, which have another context.
    let telemetry = options.session.telemetry.take();
    options.session.telemetry = telemetry.map(|telemetry| Box::new(telemetry.in_current()));
    // More results than that never wait: see `Scheduler::poll`. The last one is the error of the batch.
    let (results, receiver) = mpsc::channel(5 * options.concurrency.clamp(1, 10_000) + 2);
    let control = Arc::new(Control {
        cancelled: watch::Sender::new(false),
        ended: watch::Sender::new(false),
        taken: Notify::new(),
        is_used: AtomicBool::new(false),
        error: OnceLock::new(),
        span: tracing::Span::current(),
    });
    match runtime {
        Some(runtime) => {
            control.register();
            let task = driver::run(source, options, results, Arc::clone(&control));
            drop(runtime.spawn(task.in_current_span()));
        }
        None => {
            let reason = "can't start the agent: `run_batch` must be called inside a tokio runtime";
            let error = Error::Spawn(reason.to_owned());
            control.failed(&error);
            results.try_send(Err(error)).ok();
            control.ended.send_replace(true);
        }
    }
    Batch { results: receiver, control }
}

/// The jobs of an iterator.
struct JobIterator<I>(I);

// The iterator is never pinned.
impl<I> Unpin for JobIterator<I> {}

impl<I: Iterator<Item: Into<Job>>> Jobs for JobIterator<I> {
    fn poll_job(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Job>>> {
        Poll::Ready(self.0.next().map(|job| Ok(job.into())))
    }

    fn total(&self) -> Option<u64> {
        exact(self.0.size_hint())
    }
}

/// The jobs of a stream.
struct JobStream<S>(Pin<Box<S>>);

impl<S: Stream<Item: Into<Job>>> Jobs for JobStream<S> {
    fn poll_job(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Job>>> {
        self.0.as_mut().poll_next(cx).map(|job| job.map(|job| Ok(job.into())))
    }

    fn total(&self) -> Option<u64> {
        exact(self.0.size_hint())
    }
}

/// Returns the number of items, if both limits are equal.
fn exact((least, most): (usize, Option<usize>)) -> Option<u64> {
    most.filter(|most| *most == least).map(|most| most as u64)
}
