//! The mailbox of an event loop of the host.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::oneshot;

use super::{LogLevel, next_id};
use crate::HandlerError;
use crate::answers::HostError;
use crate::connection::PromptResult;
use crate::dialect::SessionInfo;
use crate::error::{Error, Result};
use crate::messages::Event;
use kimi_agent_client::ToolContext;
use kimi_agent_client::batch::JobResult;
use kimi_agent_client::host::{self, EventChannel};
use kimi_agent_protocol::telemetry::Op;

/// The limit of stderr lines that wait for the host. The agent's stderr must be read even if the host is busy.
const MAX_STDERR: usize = 1000;
/// The limit of log records that wait for the host.
const MAX_LOG: usize = 1000;

/// How many deliveries are searched for a progress that still waits.
const MAX_SEARCHED: usize = 64;

/// The handler that a job calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// `on_approval`.
    Approval,
    /// `on_question`.
    Question,
    /// One of `tools`.
    Tool,
    /// One of `hooks`.
    Hook,
    /// `on_event`.
    Event,
    /// `on_stderr`.
    Stderr,
    /// `on_read_file`.
    ReadFile,
    /// `on_write_file`.
    WriteFile,
    /// `on_terminal`.
    Terminal,
    /// The check of a value of `output`. The index is the host's number of the check, and the payload the value. The host
    /// returns null, or a list of violations: `[{pointer, message}]`.
    Output,
    /// The next job of a batch. The host returns a job as JSON, or null after the last one.
    NextJob,
    /// The attempt of a job that the host makes: `{key, attempt, job}`. The host returns the result of the attempt as JSON.
    RunJob,
    /// The progress of a batch. Needs no answer.
    Progress,
}

impl JobKind {
    /// Returns its name for the host.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Tool => "tool",
            Self::Hook => "hook",
            Self::Event => "event",
            Self::Stderr => "stderr",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::Terminal => "terminal",
            Self::Output => "output",
            Self::NextJob => "next_job",
            Self::RunJob => "run_job",
            Self::Progress => "progress",
        }
    }
}

/// The argument of a handler.
#[derive(Debug)]
pub enum Payload {
    /// A request or an event.
    Event(Box<Event>),
    /// A tool's arguments, a value of structured output, or the progress of a batch.
    Arguments(Value),
    /// A line.
    Line(String),
}

/// The outcome of an operation.
#[derive(Debug)]
pub enum Reply {
    /// The operation has no result.
    Nothing,
    /// The outcome of a turn.
    Outcome(Box<PromptResult>),
    /// The sessions that an agent has stored.
    Sessions(Vec<SessionInfo>),
    /// A text.
    Text(String),
    /// The next result of a batch. `None` after the last one.
    JobResult(Option<Box<JobResult>>),
}

/// A delivery to the host.
#[derive(Debug)]
pub enum Delivery {
    /// An operation has ended.
    Done {
        /// Its ticket.
        ticket: u64,
        /// The outcome.
        outcome: Result<Reply>,
    },
    /// A turn whose reader waits has events, or its end.
    Readable {
        /// The turn.
        turn: u64,
    },
    /// A turn has its outcome, which the host has asked to know.
    Settled {
        /// The turn.
        turn: u64,
    },
    /// The host has to call a handler.
    Job {
        /// The id for the answer.
        id: u64,
        /// The key of the session.
        session: u64,
        /// The kind of handler.
        kind: JobKind,
        /// The index in the session's `tools` or `hooks`, or the number of a check.
        index: Option<usize>,
        /// The argument of the handler.
        payload: Payload,
        /// The ID of the call, for a tool.
        call_id: Option<String>,
        /// Whether the running turn of the session waits for the handler.
        in_turn: bool,
        /// The span that the handler runs in.
        span: Option<u64>,
    },
    /// Withdraws a job whose result is not needed any more.
    CancelJob {
        /// The job.
        id: u64,
    },
    /// Operations on spans and metrics, which the host applies in this order. They come before deliveries that they have led to.
    Telemetry {
        /// The key of the session.
        session: u64,
        /// The operations.
        ops: Vec<Op>,
    },
    /// A record for the log.
    Log {
        /// The level.
        level: LogLevel,
        /// The target.
        target: String,
        /// The text.
        message: String,
    },
}

/// A running handler.
struct Job {
    answer: oneshot::Sender<Result<Value, HostError>>,
    /// The turn that waits for it.
    serves: Option<Arc<EventChannel>>,
    /// The context of the call, for a tool.
    context: Option<ToolContext>,
}

/// The deliveries to one event loop of the host.
pub struct Mailbox {
    queue: Mutex<VecDeque<Delivery>>,
    jobs: Mutex<HashMap<u64, Job>>,
    /// Whether the bell was called and the host has not drained the mailbox since.
    rung: AtomicBool,
    closed: AtomicBool,
    stderr_waiting: AtomicUsize,
    log_waiting: AtomicUsize,
    bell: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    /// Makes a mailbox. `bell` is called on any thread, and must not block.
    pub fn new(bell: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            jobs: Mutex::default(),
            rung: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            stderr_waiting: AtomicUsize::new(0),
            log_waiting: AtomicUsize::new(0),
            bell: Box::new(bell),
        })
    }

    /// Adds a delivery for the host.
    pub(crate) fn post(&self, delivery: Delivery) {
        {
            let mut queue = lock(&self.queue);
            // Checked under the lock, so that nothing is added after `close` has cleared the queue.
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            queue.push_back(delivery);
        }
        if !self.rung.swap(true, Ordering::AcqRel) {
            (self.bell)();
        }
    }

    pub(crate) fn post_log(&self, level: LogLevel, target: &str, message: String) {
        if self.log_waiting.fetch_add(1, Ordering::AcqRel) >= MAX_LOG {
            self.log_waiting.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        self.post(Delivery::Log { level, target: target.to_owned(), message });
    }

    /// Takes all deliveries.
    pub fn drain(&self) -> VecDeque<Delivery> {
        // Before the queue is taken, so that a later delivery calls the bell again. A swap instead of a store, so that
        // it is ordered after the call of the bell.
        self.rung.swap(false, Ordering::AcqRel);
        let drained = std::mem::take(&mut *lock(&self.queue));
        for delivery in &drained {
            match delivery {
                Delivery::Job { kind: JobKind::Stderr, .. } => drop(self.stderr_waiting.fetch_sub(1, Ordering::AcqRel)),
                Delivery::Log { .. } => drop(self.log_waiting.fetch_sub(1, Ordering::AcqRel)),
                _ => {}
            }
        }
        drained
    }

    /// Answers a job. A job that was withdrawn is ignored.
    pub fn finish_job(&self, id: u64, outcome: Result<Value, String>) {
        self.end_job(id, outcome.map_err(|text| HostError::new(text, None)));
    }

    /// Fails a job with the text of an exception, and its class unless that says nothing. A job that was withdrawn is ignored.
    pub fn fail_job(&self, id: u64, text: String, class: Option<String>) {
        self.end_job(id, Err(HostError::new(text, class)));
    }

    /// Fails a job whose answer cannot be sent. The model does not read the text. A job that was withdrawn is ignored.
    pub fn refuse_answer(&self, id: u64, reason: String) {
        self.end_job(id, Err(HostError::unsendable(reason)));
    }

    fn end_job(&self, id: u64, outcome: Result<Value, HostError>) {
        let job = lock(&self.jobs).remove(&id);
        if let Some(job) = job {
            drop(job.answer.send(outcome));
        }
    }

    /// Returns the turn that waits for a job, while it waits.
    pub(crate) fn served_by(&self, job: u64) -> Option<Arc<EventChannel>> {
        lock(&self.jobs).get(&job)?.serves.clone()
    }

    /// Reports the progress of a tool's job. A job that was withdrawn is ignored.
    pub fn report_progress(&self, id: u64, fraction: Option<f64>, message: Option<&str>) {
        let context = lock(&self.jobs).get(&id).and_then(|job| job.context.clone());
        if let Some(context) = context {
            context.progress(fraction, message);
        }
    }

    /// Closes the mailbox: later deliveries are dropped, and open jobs fail.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.queue).clear();
        lock(&self.jobs).clear();
    }

    /// Makes the host call a handler, and waits for its answer. If the future is dropped, the host is notified.
    pub(crate) fn call(
        self: &Arc<Self>,
        session: u64,
        kind: JobKind,
        index: Option<usize>,
        payload: Payload,
    ) -> impl Future<Output = Result<Value, HandlerError>> + Send + use<> {
        self.call_with(session, kind, index, payload, None)
    }

    /// Makes the host call a tool, as [`Mailbox::call`] does.
    pub(crate) fn call_tool(
        self: &Arc<Self>,
        session: u64,
        index: usize,
        arguments: Value,
        context: ToolContext,
    ) -> impl Future<Output = Result<Value, HandlerError>> + Send + use<> {
        self.call_with(session, JobKind::Tool, Some(index), Payload::Arguments(arguments), Some(context))
    }

    fn call_with(
        self: &Arc<Self>,
        session: u64,
        kind: JobKind,
        index: Option<usize>,
        payload: Payload,
        context: Option<ToolContext>,
    ) -> impl Future<Output = Result<Value, HandlerError>> + Send + use<> {
        struct Guard {
            mailbox: Arc<Mailbox>,
            id: u64,
        }
        impl Drop for Guard {
            fn drop(&mut self) {
                if lock(&self.mailbox.jobs).remove(&self.id).is_some() {
                    self.mailbox.post(Delivery::CancelJob { id: self.id });
                }
            }
        }
        let id = next_id();
        let serves = host::served_turn();
        let in_turn = serves.is_some();
        let (sender, answer) = oneshot::channel();
        let call_id = context.as_ref().map(|context| context.call_id().to_owned());
        lock(&self.jobs).insert(id, Job { answer: sender, serves, context });
        let guard = Guard { mailbox: Arc::clone(self), id };
        let span = host::served_span();
        self.post(Delivery::Job { id, session, kind, index, payload, call_id, in_turn, span });
        if self.closed.load(Ordering::Acquire) {
            lock(&self.jobs).remove(&id);
        }
        async move {
            let answer = answer.await;
            drop(guard);
            match answer {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err("the event loop of the session is closed".into()),
            }
        }
    }

    /// Makes the host call `on_stderr`, without waiting. Lines above the limit are dropped.
    pub(crate) fn call_stderr(&self, session: u64, line: String) {
        if self.stderr_waiting.fetch_add(1, Ordering::AcqRel) >= MAX_STDERR {
            self.stderr_waiting.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let payload = Payload::Line(line);
        let kind = JobKind::Stderr;
        let (index, call_id, in_turn, span) = (None, None, false, None);
        self.post(Delivery::Job { id: next_id(), session, kind, index, payload, call_id, in_turn, span });
    }

    /// Makes the host report the progress of a batch, without waiting. It replaces a progress that still waits.
    pub(crate) fn call_progress(&self, batch: u64, progress: Value) {
        let mut queue = lock(&self.queue);
        let waiting = queue.iter_mut().rev().take(MAX_SEARCHED).find_map(|delivery| match delivery {
            Delivery::Job { session, kind: JobKind::Progress, payload, .. } if *session == batch => Some(payload),
            _ => None,
        });
        if let Some(waiting) = waiting {
            *waiting = Payload::Arguments(progress);
            return;
        }
        drop(queue);
        let (kind, payload) = (JobKind::Progress, Payload::Arguments(progress));
        self.post(Delivery::Job {
            id: next_id(),
            session: batch,
            kind,
            index: None,
            payload,
            call_id: None,
            in_turn: false,
            span: None,
        });
    }

    /// Runs an operation. Its ticket is reported at its end.
    pub(crate) fn run(
        self: &Arc<Self>,
        runtime: &tokio::runtime::Handle,
        operation: impl Future<Output = Result<Reply>> + Send + 'static,
    ) -> u64 {
        let ticket = next_id();
        let mailbox = Arc::clone(self);
        // Two tasks, so that the ticket ends even if the operation panics.
        let operation = runtime.spawn(operation);
        runtime.spawn(async move {
            let outcome = operation.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())));
            mailbox.post(Delivery::Done { ticket, outcome });
        });
        ticket
    }
}
