//! The processes of an agent: one that all of its sessions share where the protocol can, and else one for each.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tracing::Instrument as _;

use super::open::LiveGuard;
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::multiplex::{self, Handle};
use crate::options::{Launch, SessionOptions};
use crate::transport::{Transport, child};

/// What the sessions of an agent have in common.
#[derive(Debug)]
pub(crate) struct Processes {
    /// For one session, with which its process ends.
    lone: bool,
    /// How long a process that is shared may take to exit by itself.
    close_timeout: Duration,
    /// The process that they share, once there is one, behind those that have not come to their end yet.
    shared: tokio::sync::Mutex<Vec<Handle>>,
    sessions: Mutex<Vec<Weak<Shared>>>,
}

impl Processes {
    pub(super) fn of_agent(close_timeout: Duration) -> Self {
        Self { lone: false, close_timeout, shared: tokio::sync::Mutex::default(), sessions: Mutex::default() }
    }

    pub(super) fn of_one(close_timeout: Duration) -> Self {
        Self { lone: true, ..Self::of_agent(close_timeout) }
    }

    /// A share in the process; it is started if there is none, or not any more.
    pub(super) async fn share(&self, mut launch: Launch, options: &SessionOptions) -> Result<Transport> {
        let mut shared = self.shared.lock().await;
        shared.retain(|process| !process.is_over());
        if let Some(transport) = shared.last().and_then(|process| process.attach(options.max_line_bytes)) {
            return Ok(transport);
        }
        if !self.lone
            && let Ok(dir) = std::env::current_dir()
        {
            // That of the session that happens to be the first is no better than any other.
            launch.current_dir = dir;
        }
        let process = child::spawn(launch, options.on_stderr.clone()).await?;
        let (handle, task) = multiplex::share(process, self.close_timeout);
        let transport = handle.attach(options.max_line_bytes);
        let live = LiveGuard::of_process(&handle);
        // What is said of a process that is one session's alone is that session's.
        let span = if self.lone { tracing::Span::current() } else { tracing::Span::none() };
        let run = async move {
            task.run().await;
            drop(live);
        };
        tokio::spawn(run.instrument(span));
        if !self.lone {
            shared.push(handle);
        }
        // Its task has not begun.
        transport.ok_or_else(|| Error::Internal("the agent's process has no place for a session".to_owned()))
    }

    /// A session that is opened in one of them.
    pub(super) fn register(&self, session: &Arc<Shared>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    fn sessions(&self) -> Vec<Arc<Shared>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().filter_map(Weak::upgrade).collect()
    }

    /// Closes the sessions in the background, with a `close_timeout` of its own if one is given.
    pub(super) fn begin_close(&self, timeout: Option<Duration>) {
        // Where one is being started, `close` waits for it, or it is dropped.
        if let Ok(shared) = self.shared.try_lock() {
            shared.iter().for_each(|process| process.close(timeout));
        }
        self.sessions().iter().for_each(|session| session.begin_close_within(timeout));
    }

    /// Closes the sessions, and waits until no process is left. The error names a process that could not be ended.
    pub(super) async fn close_within(&self, timeout: Option<Duration>) -> Result<()> {
        // The sessions first: an agent that is being started answers to them.
        self.sessions().iter().for_each(|session| session.begin_close_within(timeout));
        let mut shared = self.shared.lock().await;
        shared.iter().for_each(|process| process.close(timeout));
        self.begin_close(timeout);
        let mut closed = Ok(());
        for session in self.sessions() {
            closed = closed.and(session.until_ended().await);
        }
        for process in shared.drain(..) {
            closed = closed.and(process.until_over().await);
        }
        closed
    }
}
