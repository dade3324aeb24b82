//! Agents, whose sessions can share a process.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Session;
use super::processes::Processes;
use crate::dialect::{
    KimiWebListing, Listing, LoginWay, SessionInfo, StoredCall, StoredChange, kimi_web_deleted, kimi_web_deletion,
    login_question, login_ways,
};
use crate::driver::ProcessHandle;
use crate::error::{Error, Result, invalid_option};
use crate::options::{AgentOptions, Dialect, SessionOptions};

/// An agent that has any number of sessions at the same time. [`AgentOptions::open`] opens it.
///
/// The sessions share one process if the protocol allows it: agents that speak ACP take seconds and hundreds of
/// megabytes to start. The process starts with the first session; after it has exited, the next session starts a new
/// one. Agents that speak Wire have a process for each session. In both cases sessions run concurrently. No session
/// waits for another one that does not read its events or leaves a request open.
///
/// If a session of a shared process reads nothing while another one continues, it fails with [`Error::EventBufferFull`]
/// once 16 MiB wait for it. If the process exits, all its sessions fail with [`Error::AgentExited`].
///
/// Dropping the agent closes its sessions in the background. [`Agent::close`] also waits until they are closed.
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
pub struct Agent {
    options: SessionOptions,
    /// The name of its program, without folders, or its address.
    name: String,
    processes: Processes,
    closed: watch::Sender<bool>,
}

/// The ways to log in that an agent offers, and the command that starts it.
#[derive(Debug)]
pub struct LoginOffer {
    /// The program.
    pub program: PathBuf,
    /// The arguments with which it is an agent.
    pub args: Vec<OsString>,
    /// The ways.
    pub ways: Vec<LoginWay>,
}

impl AgentOptions {
    /// Opens the agent. It starts with its first session.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names a wrong option, [`Error::Spawn`] a program that does not exist.
    ///
    /// ```
    /// let error = kimi_agent::Agent::builder().executable("/no/such/kimi").open().unwrap_err();
    /// assert_eq!(error.code(), "spawn_error");
    /// ```
    pub fn open(self) -> Result<Agent> {
        let Self(mut options) = self;
        options.validate()?;
        options.settle_place()?;
        options.recorded = Some(Arc::default());
        let name = match options.remote_address() {
            Some(address) => address.into_owned(),
            None => options.program()?.0.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let processes = Processes::of_agent(options.close_timeout);
        Ok(Agent { options, name, processes, closed: watch::Sender::new(false) })
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, pid) = self.state();
        let mut shown = f.debug_struct("Agent");
        shown.field("agent", &self.name).field("state", &format_args!("{state}"));
        if let Some(pid) = pid {
            shown.field("pid", &pid);
        }
        shown.finish_non_exhaustive()
    }
}

impl Agent {
    /// Returns options for an agent. [`AgentOptions::open`] opens it.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Agent;
    /// let options = Agent::builder().client_name("my-program");
    /// # drop(options);
    /// ```
    pub fn builder() -> AgentOptions {
        AgentOptions::new()
    }

    /// Opens a session. Options of the agent (those of [`AgentOptions`], except the timeouts) cannot be set. If the future is
    /// dropped, the session closes.
    ///
    /// # Errors
    /// The errors of [`SessionOptions::start`]; [`Error::SessionClosed`] once the agent is closed.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent) -> kimi_agent::Result<()> {
    /// use kimi_agent::SessionOptions;
    /// let session = agent.create_session(SessionOptions::new().work_dir(".")).await?;
    /// # Ok(()) }
    /// ```
    pub async fn create_session(&self, options: SessionOptions) -> Result<Session> {
        self.open_as(Box::new(options), uuid::Uuid::new_v4().to_string()).await
    }

    /// Opens a session that continues an earlier one, as [`create_session`](Self::create_session) does with a
    /// `session_id`.
    ///
    /// # Errors
    /// The errors of [`create_session`](Self::create_session); [`Error::Unsupported`] if the agent cannot resume
    /// sessions. A session that is already open in this agent is refused.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent) -> kimi_agent::Result<()> {
    /// use kimi_agent::SessionOptions;
    /// if let Some(latest) = agent.list_sessions(None).await?.into_iter().next() {
    ///     let options = SessionOptions::new().work_dir(latest.work_dir);
    ///     let session = agent.resume(latest.id, options).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn resume(&self, session_id: impl Into<String>, options: SessionOptions) -> Result<Session> {
        self.create_session(options.resuming(session_id.into())?).await
    }

    /// Opens a session that begins with the messages of another session, which stays unchanged.
    ///
    /// # Errors
    /// The errors of [`create_session`](Self::create_session); [`Error::Unsupported`] if the agent cannot fork
    /// sessions. Agents that speak Wire cannot.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent, session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// use kimi_agent::SessionOptions;
    /// let variant = agent.fork(session.id(), SessionOptions::new().work_dir(session.work_dir())).await?;
    /// variant.prompt("Try the other approach")?.result().await?;
    /// # Ok(()) }
    /// ```
    pub async fn fork(&self, session_id: impl Into<String>, options: SessionOptions) -> Result<Session> {
        self.create_session(options.forking(session_id.into())?).await
    }

    /// Lists the sessions that the agent has stored, in its order, including sessions of other processes. With
    /// `work_dir` it lists only sessions of this directory. Archived sessions are left out.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot list sessions (agents that speak Wire cannot), [`Error::Timeout`] if
    /// it takes longer than `handshake_timeout`, or an error of its start.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent) -> kimi_agent::Result<()> {
    /// for session in agent.list_sessions(Some(".".as_ref())).await? {
    ///     println!("{} {}", session.id, session.title.unwrap_or_default());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn list_sessions(&self, work_dir: Option<&Path>) -> Result<Vec<SessionInfo>> {
        self.within_limit("list its sessions", self.listed(work_dir, false)).await
    }

    /// Lists the archived sessions, as [`list_sessions`](Self::list_sessions) lists the others.
    ///
    /// # Errors
    /// Those of [`list_sessions`](Self::list_sessions); [`Error::Unsupported`] if the agent cannot archive sessions.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent) -> kimi_agent::Result<()> {
    /// for session in agent.list_archived_sessions(None).await? {
    ///     agent.unarchive_session(session.id).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn list_archived_sessions(&self, work_dir: Option<&Path>) -> Result<Vec<SessionInfo>> {
        self.within_limit("list its sessions", self.listed(work_dir, true)).await
    }

    /// Deletes a session that the agent has stored, with its messages. If the session is open in this program, close it
    /// first.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot delete sessions (agents that speak Wire cannot), the agent's error
    /// for a session that does not exist, [`Error::Timeout`] if it takes longer than `handshake_timeout`, or an error
    /// of its start.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent, session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// session.close().await?;
    /// agent.delete_session(session.id()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn delete_session(&self, session_id: impl Into<String>) -> Result<()> {
        self.change(session_id.into(), StoredChange::Delete).await.map(drop)
    }

    /// Gives a stored session another title. Returns the title that the agent has stored, which can be shorter. The session can be
    /// open.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot rename sessions, the agent's error for a session that does not exist or a title
    /// that it refuses, [`Error::Timeout`] if it takes longer than `handshake_timeout`, or an error of its start.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent, session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// let title = agent.rename_session(session.id(), "Repair of the parser").await?;
    /// println!("{title}");
    /// # Ok(()) }
    /// ```
    pub async fn rename_session(&self, session_id: impl Into<String>, title: impl Into<String>) -> Result<String> {
        let title = title.into();
        if title.trim().is_empty() {
            return Err(invalid_option("title", "it is empty; expected a title"));
        }
        let stored = self.change(session_id.into(), StoredChange::Rename(title)).await?;
        stored.ok_or_else(|| Error::Internal("a renamed session has no title".to_owned()))
    }

    /// Hides a stored session from [`list_sessions`](Self::list_sessions), with all its messages. An agent closes the session if it
    /// is open.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot archive sessions, the agent's error for a session that does not exist,
    /// [`Error::Timeout`] if it takes longer than `handshake_timeout`, or an error of its start.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent, session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// session.close().await?;
    /// agent.archive_session(session.id()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn archive_session(&self, session_id: impl Into<String>) -> Result<()> {
        self.change(session_id.into(), StoredChange::Archive).await.map(drop)
    }

    /// Shows an archived session in [`list_sessions`](Self::list_sessions) again. It does not open the session.
    ///
    /// # Errors
    /// Those of [`archive_session`](Self::archive_session).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent, id: String) -> kimi_agent::Result<()> {
    /// use kimi_agent::SessionOptions;
    /// agent.unarchive_session(&*id).await?;
    /// let session = agent.resume(id, SessionOptions::new()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn unarchive_session(&self, session_id: impl Into<String>) -> Result<()> {
        self.change(session_id.into(), StoredChange::Unarchive).await.map(drop)
    }

    /// Closes the sessions, ends the processes of the agent and waits until they have exited. Can be called again.
    ///
    /// # Errors
    /// [`Error::Timeout`] if a process of the agent still runs 5 seconds after SIGKILL, for example because it runs as another
    /// user. The error names its process id. The agent is closed all the same.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent) -> kimi_agent::Result<()> {
    /// agent.close().await?;
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) -> Result<()> {
        self.begin_close();
        self.processes.close_within(None).await
    }

    /// Closes the agent as [`Agent::close`] does, with this time instead of `close_timeout`, for its sessions and its
    /// processes. [`Duration::ZERO`] kills the processes at once.
    ///
    /// # Errors
    /// The errors of [`Agent::close`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(agent: kimi_agent::Agent) -> kimi_agent::Result<()> {
    /// use std::time::Duration;
    /// agent.close_with_timeout(Duration::from_secs(2)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn close_with_timeout(&self, timeout: Duration) -> Result<()> {
        self.closed.send_replace(true);
        self.processes.close_within(Some(timeout)).await
    }

    /// Returns the name of its program.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns `open` or `closed`, and the process id if its sessions share a process that runs.
    pub(crate) fn state(&self) -> (&'static str, Option<u32>) {
        if *self.closed.borrow() { ("closed", None) } else { ("open", self.processes.shared_pid()) }
    }

    /// Closes the agent in the background.
    pub(crate) fn begin_close(&self) {
        self.closed.send_replace(true);
        self.processes.begin_close(None);
    }

    /// Opens a session. `id` is its id if the program has not set one.
    pub(crate) async fn open_as(&self, options: Box<SessionOptions>, id: String) -> Result<Session> {
        let options = Box::new(options.within(&self.options)?);
        self.unless_closed(options.start_in(&self.processes, id)).await
    }

    async fn unless_closed<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(Error::agent_closed()),
            outcome = work => outcome,
        }
    }

    /// Limits a call about stored sessions to `handshake_timeout`. `what` is what the agent does.
    async fn within_limit<T>(&self, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.options.handshake_timeout;
        tokio::time::timeout(limit, self.unless_closed(work)).await.unwrap_or_else(|_| {
            Err(Error::Timeout(
                format!(
                    "the agent did not {what} within {limit:?}; call again, or raise `handshake_timeout`, which limits this call, too"
                )
                .into(),
            ))
        })
    }

    async fn listed(&self, work_dir: Option<&Path>, archived: bool) -> Result<Vec<SessionInfo>> {
        let work_dir = work_dir.map(|dir| {
            self.options.inside("work_dir", dir)?;
            self.options.absolute("work_dir", dir)
        });
        let work_dir = work_dir.transpose()?;
        let limit = self.options.max_line_bytes;
        if self.options.dialect == Dialect::KimiWeb {
            if archived {
                return Err(Error::Unsupported("Kimi Code's server does not support archived sessions".to_owned()));
            }
            let process = self.web_process().await?;
            let mut listing = KimiWebListing::new(work_dir);
            let mut question = listing.question();
            loop {
                match listing.answered(process.call(question, Value::Null, limit).await?)? {
                    Some(next) => question = next,
                    None => return Ok(listing.into_sessions()),
                }
            }
        }
        let process = self.acp_process("`list_sessions`; only some agents of ACP can list their sessions").await?;
        let (hello, login) = (self.options.initialize_params(), self.options.login());
        let (mut listing, mut question) = Listing::new(&hello, login, work_dir, archived);
        loop {
            match listing.answered(process.call(question.0, question.1, limit).await?)? {
                Some(next) => question = next,
                None => return Ok(listing.into_sessions()),
            }
        }
    }

    /// Changes a stored session. Returns its title, if the title was changed.
    async fn change(&self, session_id: String, change: StoredChange) -> Result<Option<String>> {
        if session_id.is_empty() {
            return Err(invalid_option("session_id", "it is empty; expected the id of a session"));
        }
        let what = match change {
            StoredChange::Delete => "delete the session",
            StoredChange::Rename(_) => "rename the session",
            StoredChange::Archive => "archive the session",
            StoredChange::Unarchive => "unarchive the session",
        };
        self.within_limit(what, self.changed(session_id, change)).await
    }

    async fn changed(&self, session_id: String, change: StoredChange) -> Result<Option<String>> {
        let limit = self.options.max_line_bytes;
        if self.options.dialect == Dialect::KimiWeb {
            if change != StoredChange::Delete {
                return Err(Error::Unsupported(format!("Kimi Code's server does not support {}", change.feature())));
            }
            let process = self.web_process().await?;
            kimi_web_deleted(process.call(kimi_web_deletion(&session_id), json!({}), limit).await?)?;
            return Ok(None);
        }
        let process = self.acp_process(change.feature()).await?;
        let (hello, login) = (self.options.initialize_params(), self.options.login());
        let (mut call, mut question) = StoredCall::new(&hello, login, &session_id, change);
        while let Some(next) = call.answered(process.call(question.0, question.1, limit).await?)? {
            question = next;
        }
        Ok(call.into_title())
    }

    /// Returns the ways to log in that an agent of ACP offers, with the program and its arguments.
    pub(crate) async fn login_ways(&self) -> Result<LoginOffer> {
        self.within_limit("say how to log in", async {
            let process = self.acp_process("a login that `kimi-agent login` runs; only agents of ACP do").await?;
            let launch = self.options.launch_acp(None, true)?;
            let (method, params) = login_question(&self.options.initialize_params());
            let ways = login_ways(process.call(method, params, self.options.max_line_bytes).await?)?;
            Ok(LoginOffer { program: launch.program, args: launch.args, ways })
        })
        .await
    }

    /// Returns the process of Kimi Code's server, for a one-off call.
    async fn web_process(&self) -> Result<Arc<ProcessHandle>> {
        let launch = self.options.launch_web(true, self.processes.server_secret())?;
        self.processes.shared(launch, self.options.on_stderr.clone()).await
    }

    /// Returns the process of an agent that speaks ACP, for a one-off call. The error for other agents names the
    /// `missing` feature.
    async fn acp_process(&self, missing: &str) -> Result<Arc<ProcessHandle>> {
        if self.options.remote_address().is_some() {
            return self.processes.shared(self.options.launch_remote()?, self.options.on_stderr.clone()).await;
        }
        let command = self.options.command()?;
        let known = match (self.options.dialect, command.recall()) {
            (Dialect::Auto, None) => command.ask().await,
            (Dialect::Auto, known) => known,
            _ => None,
        };
        if !self.options.speaks_acp(known) {
            let agent = known.map_or_else(|| "an agent that speaks Wire".to_owned(), |agent| agent.to_string());
            return Err(Error::Unsupported(format!("{agent} does not support {missing}")));
        }
        let launch = self.options.placed(self.options.launch_acp(known, true)?)?;
        self.processes.shared(launch, self.options.on_stderr.clone()).await
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.begin_close();
    }
}
