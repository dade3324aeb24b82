//! The processes of an agent: one that all of its sessions share where the protocol can, and else one for each.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tracing::Instrument as _;

use super::live::{LIVE, LiveGuard};
use crate::driver::shared::Shared;
use crate::driver::{ProcessHandle, ProcessTask, SessionSetup, Sharing};
use crate::error::{Error, Result};
use crate::handler::StderrHandler;
use crate::options::Launch;
use crate::transport::{Transport, child};

/// Where the process of a session comes from.
pub(super) enum Source {
    /// It is started, with the handler of its stderr.
    Start(Launch, Option<StderrHandler>),
    #[cfg(any(test, feature = "measured"))]
    Running(Transport),
}

impl Source {
    async fn transport(self) -> Result<Transport> {
        match self {
            Self::Start(launch, on_stderr) => child::spawn(launch, on_stderr).await,
            #[cfg(any(test, feature = "measured"))]
            Self::Running(transport) => Ok(transport),
        }
    }
}

/// The youngest process, if sessions can be opened in it.
fn running(processes: &mut Vec<Arc<ProcessHandle>>) -> Option<Arc<ProcessHandle>> {
    processes.retain(|process| !process.is_over());
    processes.last().filter(|process| !process.is_spent()).cloned()
}

/// Has a process's task run, in the span of the calling session if the process is that session's alone.
fn spawn(handle: &ProcessHandle, task: ProcessTask) {
    let live = LiveGuard::new(handle);
    let span = if task.is_shared() { tracing::Span::none() } else { tracing::Span::current() };
    let task = Box::new(task);
    let run = async move {
        task.run().await;
        drop(live);
    };
    tokio::spawn(run.instrument(span));
}

fn no_place() -> Error {
    Error::Internal("the agent's process ended before its session began".to_owned())
}

/// What the sessions of an agent have in common.
#[derive(Debug)]
pub(crate) struct Processes {
    /// For one session, with which its process ends.
    lone: bool,
    /// How long a process that is shared may take to exit by itself.
    close_timeout: Duration,
    /// The process that they share, once there is one, behind those that have not come to their end yet.
    shared: tokio::sync::Mutex<Vec<Arc<ProcessHandle>>>,
    sessions: Mutex<Vec<Weak<Shared>>>,
}

impl Processes {
    pub(super) fn of_agent(close_timeout: Duration) -> Self {
        Self { lone: false, close_timeout, shared: tokio::sync::Mutex::default(), sessions: Mutex::default() }
    }

    pub(super) fn of_one(close_timeout: Duration) -> Self {
        Self { lone: true, ..Self::of_agent(close_timeout) }
    }

    /// Opens a session: in the process that all share, if its protocol can have several in one, otherwise in a process of its
    /// own. Returns it with the id of its process.
    pub(super) async fn open_session(
        &self,
        source: Source,
        setup: Box<SessionSetup>,
        event_buffer_bytes: usize,
    ) -> Result<(Arc<Shared>, Option<u32>)> {
        let sharing = match setup.connection.shares_processes() {
            false => Sharing::Single,
            true if self.lone => Sharing::Alone,
            true => Sharing::Shared,
        };
        if sharing == Sharing::Shared {
            return self.open_shared(source, setup, event_buffer_bytes).await;
        }
        let close_timeout = setup.close_timeout;
        let (handle, task) = ProcessTask::new(source.transport().await?, close_timeout, sharing);
        let shared = handle.attach(setup, event_buffer_bytes).map_err(|_| no_place())?;
        self.register(&shared);
        spawn(&handle, task);
        Ok((shared, handle.pid()))
    }

    async fn open_shared(
        &self,
        source: Source,
        setup: Box<SessionSetup>,
        event_buffer_bytes: usize,
    ) -> Result<(Arc<Shared>, Option<u32>)> {
        let mut processes = self.shared.lock().await;
        let setup = match running(&mut processes) {
            None => setup,
            Some(process) => match process.attach(setup, event_buffer_bytes) {
                Ok(shared) => {
                    self.register(&shared);
                    return Ok((shared, process.pid()));
                }
                Err(setup) => setup,
            },
        };
        let process = self.start(&mut processes, source).await?;
        let shared = process.attach(setup, event_buffer_bytes).map_err(|_| no_place())?;
        self.register(&shared);
        Ok((shared, process.pid()))
    }

    /// The process that all share, started if there is none, or not any more.
    pub(super) async fn shared(&self, launch: Launch, on_stderr: Option<StderrHandler>) -> Result<Arc<ProcessHandle>> {
        let mut processes = self.shared.lock().await;
        match running(&mut processes) {
            Some(process) => Ok(process),
            None => self.start(&mut processes, Source::Start(launch, on_stderr)).await,
        }
    }

    async fn start(&self, processes: &mut Vec<Arc<ProcessHandle>>, mut source: Source) -> Result<Arc<ProcessHandle>> {
        if let (Source::Start(launch, _), Ok(dir)) = (&mut source, std::env::current_dir()) {
            // The directory of the session that happens to be the first is no better than any other.
            launch.current_dir = dir;
        }
        let (handle, task) = ProcessTask::new(source.transport().await?, self.close_timeout, Sharing::Shared);
        let handle = Arc::new(handle);
        spawn(&handle, task);
        processes.push(Arc::clone(&handle));
        Ok(handle)
    }

    /// A session that is opened in one of them.
    pub(super) fn register(&self, session: &Arc<Shared>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
        LIVE.register(session);
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
