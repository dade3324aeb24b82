//! The processes of an agent: one for all its sessions if the protocol allows it, otherwise one for each session.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tracing::Instrument as _;

use super::live::{LIVE, LiveGuard};
use crate::dialect::Services;
use crate::driver::shared::Shared;
use crate::driver::{ProcessHandle, ProcessTask, SessionSetup};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::handler::StderrHandler;
use crate::transport::launch::Launch;
use crate::transport::{self, Transport};

/// The source of a session's process.
pub(super) enum Source {
    /// It is started, with this handler of stderr.
    Start(Box<Launch>, Option<StderrHandler>),
    #[cfg(any(test, feature = "measured"))]
    Running(Transport),
}

impl Source {
    /// Returns the secret of the server that is started, if the agent is a server.
    pub(super) fn server_secret(&self) -> Option<&str> {
        match self {
            Self::Start(launch, _) => launch.server.as_ref().map(|server| &*server.secret),
            #[cfg(any(test, feature = "measured"))]
            Self::Running(_) => None,
        }
    }

    /// Makes the endpoint of a process that can have several sessions.
    fn endpoint(&self) -> Endpoint {
        match self {
            Self::Start(launch, _) if launch.is_gateway => Endpoint::kimi_web(),
            _ => Endpoint::default(),
        }
    }

    async fn transport(self) -> Result<Transport> {
        match self {
            Self::Start(launch, on_stderr) => transport::spawn(*launch, on_stderr).await,
            #[cfg(any(test, feature = "measured"))]
            Self::Running(transport) => Ok(transport),
        }
    }
}

/// A process that sessions share. The handlers of files and terminals were fixed at its start.
#[derive(Debug)]
struct SharedProcess {
    handle: Arc<ProcessHandle>,
    services: Services,
}

/// Returns the newest process for which the condition holds, if it accepts sessions.
fn running(processes: &mut Vec<SharedProcess>, suits: impl Fn(Services) -> bool) -> Option<Arc<ProcessHandle>> {
    processes.retain(|process| !process.handle.is_over());
    let youngest = processes.iter().rev().find(|process| suits(process.services))?;
    Some(&youngest.handle).filter(|handle| !handle.is_spent()).cloned()
}

/// Spawns a process's task, in the span of the calling session if the process is not shared.
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

/// The parts that the sessions of an agent share.
#[derive(Debug)]
pub(crate) struct Processes {
    /// For one session. The process ends with it.
    lone: bool,
    /// The time for a shared process to exit by itself.
    close_timeout: Duration,
    /// The shared processes that have not ended yet, the newest last. Sessions share a process if they have the same
    /// handlers of files and terminals.
    shared: tokio::sync::Mutex<Vec<SharedProcess>>,
    sessions: Mutex<Vec<Weak<Shared>>>,
    server_secret: ServerSecret,
}

/// The secret for Kimi Code's server. All sessions of a process know it, so that their recordings mask it.
#[derive(Default)]
struct ServerSecret(OnceLock<String>);

impl fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSecret")
    }
}

impl Processes {
    pub(super) fn of_agent(close_timeout: Duration) -> Self {
        Self {
            lone: false,
            close_timeout,
            shared: tokio::sync::Mutex::default(),
            sessions: Mutex::default(),
            server_secret: ServerSecret::default(),
        }
    }

    pub(super) fn of_one(close_timeout: Duration) -> Self {
        Self { lone: true, ..Self::of_agent(close_timeout) }
    }

    /// Returns whether sessions can share a process.
    pub(super) fn is_shared(&self) -> bool {
        !self.lone
    }

    /// Returns the secret for Kimi Code's server, which is made at the first call.
    pub(super) fn server_secret(&self) -> &str {
        // Two random UUIDs hold 244 random bits.
        let random = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        self.server_secret.0.get_or_init(random)
    }

    /// Opens a session: in the shared process if the protocol can have several sessions in one, otherwise in a process
    /// of its own. Returns the session and the id of its process.
    pub(super) async fn open_session(
        &self,
        source: Source,
        setup: Box<SessionSetup>,
        event_buffer_bytes: usize,
    ) -> Result<(Arc<Shared>, Option<u32>)> {
        let can_share = setup.connection.shares_processes();
        if can_share && self.is_shared() {
            return self.open_shared(source, setup, event_buffer_bytes).await;
        }
        let endpoint = if can_share { source.endpoint() } else { Endpoint::single() };
        let close_timeout = setup.close_timeout;
        let (handle, task) = ProcessTask::new(source.transport().await?, endpoint, close_timeout, false);
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
        let services = setup.params.services;
        let mut processes = self.shared.lock().await;
        let setup = match running(&mut processes, |known| known == services) {
            None => setup,
            Some(process) => match process.attach(setup, event_buffer_bytes) {
                Ok(shared) => {
                    self.register(&shared);
                    return Ok((shared, process.pid()));
                }
                Err(setup) => setup,
            },
        };
        let process = self.start(&mut processes, source, services).await?;
        let shared = process.attach(setup, event_buffer_bytes).map_err(|_| no_place())?;
        self.register(&shared);
        Ok((shared, process.pid()))
    }

    /// Returns the shared process. Starts one if none accepts sessions.
    pub(super) async fn shared(&self, launch: Launch, on_stderr: Option<StderrHandler>) -> Result<Arc<ProcessHandle>> {
        let mut processes = self.shared.lock().await;
        match running(&mut processes, |_| true) {
            Some(process) => Ok(process),
            None => self.start(&mut processes, Source::Start(Box::new(launch), on_stderr), Services::default()).await,
        }
    }

    /// Returns the id of the newest shared process that runs. Nothing while one is being started.
    pub(super) fn shared_pid(&self) -> Option<u32> {
        let processes = self.shared.try_lock().ok()?;
        processes.iter().rev().find(|process| !process.handle.is_over())?.handle.pid()
    }

    async fn start(
        &self,
        processes: &mut Vec<SharedProcess>,
        mut source: Source,
        services: Services,
    ) -> Result<Arc<ProcessHandle>> {
        if let (Source::Start(launch, _), Ok(dir)) = (&mut source, std::env::current_dir()) {
            // Not the directory of the first session, because the others may have other directories.
            launch.current_dir = dir;
        }
        let endpoint = source.endpoint();
        let (handle, task) = ProcessTask::new(source.transport().await?, endpoint, self.close_timeout, true);
        let handle = Arc::new(handle);
        spawn(&handle, task);
        processes.push(SharedProcess { handle: Arc::clone(&handle), services });
        Ok(handle)
    }

    /// Registers a session that is being opened in one of the processes.
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

    /// Returns the timeout of a close: that of the call, or none if that of the options is to hold.
    fn limit(&self, timeout: Option<Duration>) -> Option<Duration> {
        // Like a call with zero, not a process that gets TERM at once and KILL later.
        timeout.or_else(|| self.close_timeout.is_zero().then_some(Duration::ZERO))
    }

    /// Closes the sessions in the background, with this `close_timeout` if one is given.
    pub(super) fn begin_close(&self, timeout: Option<Duration>) {
        let timeout = self.limit(timeout);
        // If a process is being started, `close` waits for it, or it is dropped.
        if let Ok(shared) = self.shared.try_lock() {
            shared.iter().for_each(|process| process.handle.close(timeout));
        }
        self.sessions().iter().for_each(|session| session.begin_close_within(timeout));
    }

    /// Closes the sessions, and waits until no process is left. The error names a process that could not be ended.
    pub(super) async fn close_within(&self, timeout: Option<Duration>) -> Result<()> {
        let timeout = self.limit(timeout);
        // The sessions first, because a starting agent answers to them.
        for session in self.sessions() {
            session.warn_of_ended_turns();
            session.begin_close_within(timeout);
        }
        let mut shared = self.shared.lock().await;
        shared.iter().for_each(|process| process.handle.close(timeout));
        self.begin_close(timeout);
        let mut closed = Ok(());
        for session in self.sessions() {
            closed = closed.and(session.until_ended().await);
        }
        for process in shared.drain(..) {
            closed = closed.and(process.handle.until_over().await);
        }
        closed
    }
}
