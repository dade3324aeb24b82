//! Functions for the crate `kimi-agent-proxy` only: the agent's process, recordings and rules of sessions that another program
//! has opened. The crate `kimi-agent` does not re-export this module.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kimi_agent_protocol::place::PathMap;
use kimi_agent_protocol::recording::Recorder;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::{Connection, TurnKey};
use crate::dialect::{Handshake, InitializeParams, KnownAgent};
use crate::error::AgentExit;
use crate::messages::ServerInfo;
use crate::options::{Naming, PromptOptions};
use crate::recording::RecordingFile;
use crate::telemetry::SessionTelemetry;
use crate::transport::launch::{Launch, PrivateFiles};
use crate::transport::{self, Exit, Process, Transport};
use crate::{Budget, Result, SessionOptions};

/// After its output has ended, or after TERM: how long an agent may take to exit.
const GRACE: Duration = Duration::from_secs(2);

/// A running agent: its output, its input, and the process.
pub struct RunningAgent {
    /// The output of the agent.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// The input of the agent.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// The process.
    pub process: AgentProcess,
}

impl fmt::Debug for RunningAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningAgent").field("process", &self.process).finish_non_exhaustive()
    }
}

/// The process of an agent. Dropping it kills the process with all its descendants.
pub struct AgentProcess(Box<dyn Process>);

impl fmt::Debug for AgentProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentProcess").field(&self.0.pid()).finish()
    }
}

impl AgentProcess {
    /// Waits until the process has exited. The rest of its group is killed then. Cancel-safe.
    pub async fn wait(&mut self) -> AgentExit {
        let exit = self.0.wait().await;
        self.described(exit)
    }

    /// Waits until the process has exited. After `patience` it gets TERM, and then KILL.
    pub async fn end(&mut self, patience: Duration) -> AgentExit {
        let grace = self.0.end_grace().max(GRACE);
        if let Ok(exit) = tokio::time::timeout(patience, self.0.wait()).await {
            return self.described(exit);
        }
        tracing::debug!("the agent does not end by itself; it gets TERM");
        self.0.terminate();
        if let Ok(exit) = tokio::time::timeout(grace, self.0.wait()).await {
            return self.described(exit);
        }
        tracing::debug!("the agent does not end on TERM; it gets KILL");
        self.0.kill();
        let exit = self.0.wait().await;
        self.described(exit)
    }

    fn described(&self, exit: Exit) -> AgentExit {
        let mut exit = AgentExit {
            exit_code: exit.code,
            signal: exit.signal,
            stderr: self.0.stderr_tail(),
            ..AgentExit::default()
        };
        exit.hint = self.0.explain(&exit);
        exit
    }
}

/// Starts the agent that the options name. The command line is exactly the one of the options, but an agent that is known by its
/// name and has no arguments gets those with which it speaks ACP.
///
/// # Errors
/// [`Error::Spawn`](crate::Error::Spawn) if the program cannot be started.
/// [`Error::InvalidOption`](crate::Error::InvalidOption) if its place cannot be used.
pub async fn start(options: &SessionOptions) -> Result<RunningAgent> {
    let launch = launch(options)?;
    let Transport { reader, writer, process, .. } = transport::spawn(launch, options.on_stderr.clone()).await?;
    Ok(RunningAgent { reader, writer, process: AgentProcess(process) })
}

/// Checks that the agent can be started: its options, its directory, and its program.
///
/// # Errors
/// Those of [`start`].
pub fn check(options: &SessionOptions) -> Result<()> {
    launch(options).map(drop)
}

fn launch(options: &SessionOptions) -> Result<Launch> {
    let mut options = options.clone();
    options.settle_place()?;
    options.check_placed()?;
    if options.remote_address().is_some() {
        return options.launch_remote();
    }
    let (program, mut args) = options.program()?;
    if args.is_empty() {
        let known = KnownAgent::of_program(&program).map(|known| known.args);
        let is_kimi = program.file_stem().is_some_and(|name| name == "kimi");
        args.extend(known.unwrap_or(if is_kimi { &["acp"] } else { &[] }).iter().map(Into::into));
    }
    let launch = Launch {
        program,
        args,
        env: options.env.clone(),
        inherited: options.inherited.clone(),
        current_dir: options.absolute("work_dir", options.work_dir.as_deref().unwrap_or(Path::new(".")))?,
        private: PrivateFiles::default(),
        server: None,
        is_gateway: false,
        placed: Default::default(),
    };
    options.placed(launch)
}

/// Returns the paths of an agent that has others than this program.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error::InvalidOption) if the place of the agent cannot be used.
pub fn paths(options: &SessionOptions) -> Result<Option<PathMap>> {
    let mut options = options.clone();
    options.settle_place()?;
    Ok(options.paths)
}

/// Fails if the agent does not have a directory in its place. The place is the one for `options`.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error::InvalidOption) names the directories that the agent has.
pub fn check_directory(options: &SessionOptions, directory: &Path) -> Result<()> {
    let mut options = options.clone();
    options.settle_place()?;
    options.work_dir(directory).check_placed()
}

/// Returns the telemetry of one session, if the options ask for it.
pub fn trace(options: &SessionOptions, session: &str, server: Option<&ServerInfo>) -> Option<SessionTrace> {
    let mut telemetry = SessionTelemetry::of(options, Some(session))?;
    telemetry.learn(&handshake_of(server));
    Some(SessionTrace(telemetry))
}

/// The telemetry of a session that another program has opened.
#[derive(Debug)]
pub struct SessionTrace(SessionTelemetry);

impl SessionTrace {
    /// Passes what happens in the session to the host of telemetry.
    pub fn attach(&self, connection: &mut Connection) {
        connection.set_telemetry(self.0.tracker());
    }

    /// Starts the span of a turn, before its prompt.
    pub fn begin(&self, connection: &mut Connection, turn: TurnKey, text: &str) {
        if let Some(span) = self.0.begin(&mut PromptOptions::new(text), false) {
            connection.trace_turn(turn, *span);
        }
    }
}

fn handshake_of(server: Option<&ServerInfo>) -> Handshake {
    Handshake { protocol_version: "acp-1".to_owned(), server: server.cloned(), ..Handshake::default() }
}

/// Returns the limit of a line, in bytes.
pub fn max_line_bytes(options: &SessionOptions) -> usize {
    options.max_line_bytes
}

/// The file of a recording.
#[derive(Clone, Debug)]
pub struct RecordedFile(Arc<RecordingFile>);

impl RecordedFile {
    /// Waits until everything is written, at most a few seconds. Returns why the file is not complete.
    pub async fn complete(&self) -> Option<String> {
        self.0.complete().await;
        self.0.problem().map(str::to_owned)
    }
}

/// Begins the recording of a session, if the options ask for recordings. `secrets` are texts that must not be in it.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error::InvalidOption) if the file cannot be created.
pub fn record(
    options: &SessionOptions,
    session: &str,
    work_dir: &Path,
    secrets: Vec<String>,
) -> Result<Option<(Box<dyn Recorder>, RecordedFile)>> {
    let Some(file) = options.recording_file(session)? else { return Ok(None) };
    let recorder = options.recorder(Arc::clone(&file), "acp", work_dir, &InitializeParams::default(), secrets)?;
    Ok(Some((Box::new(recorder), RecordedFile(file))))
}

/// Fails if a budget counts something that the agent does not report: it would never be exceeded.
///
/// # Errors
/// [`Error::Unsupported`](crate::Error::Unsupported) names the limit.
pub fn check_budget(server: Option<&ServerInfo>, option: &str, budget: Option<Budget>) -> Result<()> {
    crate::session::check_budget(&handshake_of(server), false, option, budget, Naming::Snake)
}

#[cfg(feature = "policy")]
pub use crate::session::policy::rules;
#[cfg(feature = "mcp")]
pub use crate::visitors::{Crowd, Visitor, accept};
