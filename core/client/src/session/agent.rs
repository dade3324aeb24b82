//! Agents: what opens sessions that have a process in common.

use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use super::Session;
use super::processes::Processes;
use crate::dialect::{Listing, SessionInfo};
use crate::error::{Error, Result};
use crate::options::{AgentOptions, Dialect, SessionOptions};

/// An agent that has any number of sessions at once. [`AgentOptions::open`] opens it.
///
/// Where the protocol can, they share one process: agents that speak the Agent Client Protocol take seconds and hundreds
/// of megabytes to start. It is started with the first session, and anew for the next one after it has died. Agents that
/// speak Wire get a process for each session. Nothing else depends on which it is: sessions run beside each other, and
/// none waits for another that does not read its events or leaves a request open.
///
/// A session of a shared process that reads nothing, while another goes on, is given up with
/// [`Error::EventBufferFull`] once 16 MiB wait for it. If the process dies, all its sessions fail with
/// [`Error::AgentExited`].
///
/// Dropping the agent closes its sessions in the background; [`Agent::close`] also waits for their ends.
///
/// ```
/// # use kimi_agent::testing::scripted_agent;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let executable = scripted_agent(serde_json::json!([[{"text": "Hello"}]]));
/// use kimi_agent::{Agent, SessionOptions};
/// let agent = Agent::builder().executable(&executable).open()?;
/// let first = agent.create_session(SessionOptions::new().work_dir(".")).await?;
/// let second = agent.create_session(SessionOptions::new().work_dir(".")).await?;
/// let (mut one, mut other) = (first.prompt("Say hello")?, second.prompt("And you")?);
/// assert_eq!((one.result().await?.text, other.result().await?.text), ("Hello".into(), "Hello".into()));
/// agent.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Agent {
    options: SessionOptions,
    processes: Processes,
    closed: watch::Sender<bool>,
}

impl AgentOptions {
    /// Opens the agent. Nothing is started before its first session.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names a wrong option, [`Error::Spawn`] a program that is not there.
    ///
    /// ```
    /// let error = kimi_agent::Agent::builder().executable("/no/such/kimi").open().unwrap_err();
    /// assert_eq!(error.code(), "spawn_error");
    /// ```
    pub fn open(self) -> Result<Agent> {
        let Self(options) = self;
        options.validate()?;
        options.program()?;
        let processes = Processes::of_agent(options.close_timeout);
        Ok(Agent { options, processes, closed: watch::Sender::new(false) })
    }
}

impl Agent {
    /// Options for an agent; [`AgentOptions::open`] opens it.
    pub fn builder() -> AgentOptions {
        AgentOptions::new()
    }

    /// Opens a session. Options that are the agent's (those of [`AgentOptions`], but for the timeouts) are not to be set.
    /// Dropping the future closes it again.
    ///
    /// # Errors
    /// Those of [`SessionOptions::start`]; [`Error::SessionClosed`] once the agent is closed.
    pub async fn create_session(&self, options: SessionOptions) -> Result<Session> {
        self.open_as(Box::new(options), uuid::Uuid::new_v4().to_string()).await
    }

    /// Goes on with a session: [`create_session`](Self::create_session) with a `session_id`.
    ///
    /// # Errors
    /// As there; [`Error::Unsupported`] where the agent can't resume sessions. One that is open in this agent already is
    /// refused.
    pub async fn resume(&self, session_id: impl Into<String>, options: SessionOptions) -> Result<Session> {
        self.create_session(options.resuming(session_id.into())?).await
    }

    /// Opens a session that begins with the past of another, which stays as it is.
    ///
    /// # Errors
    /// As with [`create_session`](Self::create_session); [`Error::Unsupported`] where the agent can't fork sessions, as
    /// none that speaks Wire can.
    pub async fn fork(&self, session_id: impl Into<String>, options: SessionOptions) -> Result<Session> {
        self.create_session(options.forking(session_id.into())?).await
    }

    /// The sessions that the agent keeps, in its own order, those of other processes included; with `work_dir` only those
    /// of this directory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the agent can't list sessions, as none that speaks Wire can; [`Error::Timeout`] if it
    /// takes longer than `handshake_timeout`; what starting it may end with.
    pub async fn list_sessions(&self, work_dir: Option<&Path>) -> Result<Vec<SessionInfo>> {
        let limit = self.options.handshake_timeout;
        let listed = tokio::time::timeout(limit, self.unless_closed(self.listed(work_dir))).await;
        listed.unwrap_or_else(|_| Err(Error::Timeout(format!("the agent did not list its sessions within {limit:?}"))))
    }

    /// Closes the sessions, ends the agent's processes and waits until they are gone. Twice is fine.
    ///
    /// # Errors
    /// [`Error::Timeout`] if a process of the agent still runs 5 seconds after SIGKILL, for example because it runs as another
    /// user. The error names its process id. The agent is closed all the same.
    pub async fn close(&self) -> Result<()> {
        self.begin_close();
        self.processes.close_within(None).await
    }

    /// Closes the agent as [`Agent::close`] does, with this time instead of `close_timeout`, for its sessions and its
    /// processes. [`Duration::ZERO`] kills the processes at once.
    ///
    /// # Errors
    /// Those of [`Agent::close`].
    pub async fn close_with_timeout(&self, timeout: Duration) -> Result<()> {
        self.closed.send_replace(true);
        self.processes.close_within(Some(timeout)).await
    }

    /// Closes it in the background.
    pub(crate) fn begin_close(&self) {
        self.closed.send_replace(true);
        self.processes.begin_close(None);
    }

    /// Opens a session, with the id that it has where the program gives none.
    pub(crate) async fn open_as(&self, options: Box<SessionOptions>, id: String) -> Result<Session> {
        let options = Box::new(options.within(&self.options)?);
        self.unless_closed(options.start_in(&self.processes, id)).await
    }

    async fn unless_closed<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(Error::SessionClosed),
            outcome = work => outcome,
        }
    }

    async fn listed(&self, work_dir: Option<&Path>) -> Result<Vec<SessionInfo>> {
        let subject = self.options.subject()?;
        let known = match (self.options.dialect, subject.recall()) {
            (Dialect::Auto, None) => subject.ask().await,
            (Dialect::Auto, known) => known,
            _ => None,
        };
        if !self.options.speaks_acp(known) {
            let agent = known.map_or_else(|| "an agent that speaks Wire".to_owned(), |agent| agent.to_string());
            return Err(Error::Unsupported(format!(
                "{agent} does not support `list_sessions`; only some agents of ACP can list their sessions"
            )));
        }
        let work_dir = work_dir.map(|dir| self.options.absolute("work_dir", dir)).transpose()?;
        let launch = self.options.launch_acp(known.is_some())?;
        let process = self.processes.shared(launch, self.options.on_stderr.clone()).await?;
        let (mut listing, mut question) = Listing::new(&self.options.hello(), work_dir);
        loop {
            let answer = process.call(question.0, question.1, self.options.max_line_bytes).await?;
            match listing.answered(answer)? {
                Some(next) => question = next,
                None => return Ok(listing.into_sessions()),
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.begin_close();
    }
}
