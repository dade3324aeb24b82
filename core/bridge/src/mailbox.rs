//! The mailbox of one event loop of the host's.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::oneshot;

use super::{LogLevel, next_id};
use crate::HandlerError;
use crate::connection::PromptResult;
use crate::dialect::SessionInfo;
use crate::error::{Error, Result};
use crate::wire::Event;
use kimi_agent_client::host::{self, EventChannel};

/// How many lines of stderr may wait for the host: it may be busy, the agent's stderr must be drained.
const MAX_STDERR: usize = 1000;
/// How many records for the log may wait.
const MAX_LOG: usize = 1000;

/// Which of the program's functions a job is for.
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
}

impl JobKind {
    /// Its name for the host.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Tool => "tool",
            Self::Hook => "hook",
            Self::Event => "event",
            Self::Stderr => "stderr",
        }
    }
}

/// What a function of the program's is called with.
#[derive(Debug)]
pub enum Payload {
    /// A request or an event.
    Event(Box<Event>),
    /// A tool's arguments.
    Arguments(Value),
    /// A line.
    Line(String),
}

/// What an operation ends with.
#[derive(Debug)]
pub enum Reply {
    /// Nothing to tell.
    Nothing,
    /// The outcome of a turn.
    Outcome(Box<PromptResult>),
    /// The sessions that an agent keeps.
    Sessions(Vec<SessionInfo>),
}

/// What the host is to know.
#[derive(Debug)]
pub enum Delivery {
    /// An operation has ended.
    Done {
        /// Its ticket.
        ticket: u64,
        /// With what.
        outcome: Result<Reply>,
    },
    /// A turn whose reader waits has something.
    Readable {
        /// The turn.
        turn: u64,
    },
    /// A turn whose end is to be announced has its outcome.
    Settled {
        /// The turn.
        turn: u64,
    },
    /// A function of the program's is to be called.
    Job {
        /// Under this id it is answered.
        id: u64,
        /// The session that has it.
        session: u64,
        /// Which function.
        kind: JobKind,
        /// Its place among the session's `tools` or `hooks`.
        index: Option<usize>,
        /// What it is called with.
        payload: Payload,
        /// Whether it is called on behalf of the session's running turn.
        in_turn: bool,
    },
    /// Nobody waits for a job any more.
    CancelJob {
        /// The job.
        id: u64,
    },
    /// A record for the log.
    Log {
        /// How grave.
        level: LogLevel,
        /// From where.
        target: String,
        /// What.
        message: String,
    },
}

/// A function of the program's that runs.
struct Job {
    answer: oneshot::Sender<Result<Value, String>>,
    /// The turn that waits for it.
    serves: Option<Arc<EventChannel>>,
}

/// Where the core leaves what an event loop of the host's is to know.
pub struct Mailbox {
    queue: Mutex<VecDeque<Delivery>>,
    jobs: Mutex<HashMap<u64, Job>>,
    /// The host has been rung for and has not drained yet.
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
    /// A mailbox with its bell, which is rung from any thread and must not block.
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

    /// Leaves something for the host.
    pub(crate) fn post(&self, delivery: Delivery) {
        {
            let mut queue = lock(&self.queue);
            // Looked at under the lock: after `close` has cleared the queue nothing gets into it.
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

    /// Takes everything.
    pub fn drain(&self) -> VecDeque<Delivery> {
        // First, so that what comes between the two rings again. Not a mere store: it must follow the ring that it
        // answers whatever the bell is made of.
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

    /// Answers a job. One that nobody waits for any more is ignored.
    pub fn finish_job(&self, id: u64, outcome: Result<Value, String>) {
        let job = lock(&self.jobs).remove(&id);
        if let Some(job) = job {
            drop(job.answer.send(outcome));
        }
    }

    /// The turn that waits for a job, as long as it does.
    pub(crate) fn served_by(&self, job: u64) -> Option<Arc<EventChannel>> {
        lock(&self.jobs).get(&job)?.serves.clone()
    }

    /// Nobody drains it any more: what comes is dropped, and jobs that are open fail.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.queue).clear();
        lock(&self.jobs).clear();
    }

    /// Has the host call a function, and waits for what it returns. Dropped while it waits, it tells the host.
    pub(crate) fn call(
        self: &Arc<Self>,
        session: u64,
        kind: JobKind,
        index: Option<usize>,
        payload: Payload,
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
        lock(&self.jobs).insert(id, Job { answer: sender, serves });
        let guard = Guard { mailbox: Arc::clone(self), id };
        self.post(Delivery::Job { id, session, kind, index, payload, in_turn });
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

    /// Has the host call `on_stderr`; nothing waits for it. Lines beyond what may wait are dropped.
    pub(crate) fn call_stderr(&self, session: u64, line: String) {
        if self.stderr_waiting.fetch_add(1, Ordering::AcqRel) >= MAX_STDERR {
            self.stderr_waiting.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let payload = Payload::Line(line);
        let kind = JobKind::Stderr;
        self.post(Delivery::Job { id: next_id(), session, kind, index: None, payload, in_turn: false });
    }

    /// Runs an operation; its ticket is told of its end.
    pub(crate) fn run(
        self: &Arc<Self>,
        runtime: &tokio::runtime::Handle,
        operation: impl Future<Output = Result<Reply>> + Send + 'static,
    ) -> u64 {
        let ticket = next_id();
        let mailbox = Arc::clone(self);
        // Two tasks, so that a defect of ours that panics still ends the ticket.
        let operation = runtime.spawn(operation);
        runtime.spawn(async move {
            let outcome = operation.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())));
            mailbox.post(Delivery::Done { ticket, outcome });
        });
        ticket
    }
}
