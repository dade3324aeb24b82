//! Sessions: their calls, their state, and their end.

mod agent;
mod checks;
mod detect;
mod link;
mod live;
mod one_shot;
mod open;
mod output;
pub(crate) mod policy;
mod processes;
mod turn;
mod turn_streams;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use agent::{Agent, LoginOffer};
pub(crate) use checks::check_budget;
pub use one_shot::prompt;
pub use turn::{Turn, TurnInner};
pub use turn_streams::{Replay, Step, Steps, TextStream};
pub use {live::LIVE, one_shot::one_shot_on};

use crate::answers::{Answers, Approval};
use crate::connection::{ManualAnswer, TurnKey, TurnLimits};
use crate::dialect::{AuthMethod, Capabilities, ConfigOption, ConfigValue, Handshake};
use crate::driver::Command;
use crate::driver::event_channel::EventChannel;
pub use crate::driver::shared::SessionState;
use crate::driver::shared::Shared;
use crate::error::{Error, Result, invalid_option};
use crate::messages::{
    ApprovalRequest, Content, ExternalToolsResult, QuestionRequest, ServerInfo, SlashCommand, StatusUpdate, TokenUsage,
};
use crate::options::{PromptOptions, SessionOptions};
use crate::output::SessionOutput;
use crate::recording::Replayed;
use crate::telemetry::SessionTelemetry;
use kimi_agent_protocol::telemetry::{SpanStart, TurnSpan};
use link::Link;

/// A conversation with an agent, which runs as a child process.
///
/// One turn runs at a time. Dropping the session closes it in the background: a turn that runs is cancelled, and its [`Turn`]
/// fails with [`Error::SessionClosed`](crate::Error::SessionClosed). [`Session::close`] also waits until the agent has exited.
/// Both need the tokio runtime on which the session was started.
///
/// ```
/// # use kimi_agent::testing::scripted_agent;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = scripted_agent(serde_json::json!([[{"text": "Hello"}]]));
/// use kimi_agent::Session;
/// let session = Session::builder()
///     .work_dir(".")
/// #   .executable(&agent)
///     .start()
///     .await?;
/// println!("{:?} speaks Wire {}", session.server(), session.protocol_version());
/// let result = session.prompt("Say hello")?.result().await?;
/// assert_eq!(result.text, "Hello");
/// session.close().await?;
/// # Ok(()) }
/// ```
pub struct Session {
    shared: Arc<Shared>,
    id: String,
    work_dir: PathBuf,
    pid: Option<u32>,
    handshake: Arc<Handshake>,
    /// The structured output of its turns.
    output: Option<Arc<SessionOutput>>,
    telemetry: Option<Box<SessionTelemetry>>,
    /// The recording that its agent plays.
    replayed: Option<Arc<Replayed>>,
    /// The option `prices`, if the program has set it.
    pricing: Option<Box<checks::Pricing>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("id", &self.id());
        if let Some(server) = self.server() {
            shown.field("agent", &server.name);
        }
        shown.field("state", &self.state());
        if let Some(pid) = self.pid {
            shown.field("pid", &pid);
        }
        shown.finish_non_exhaustive()
    }
}

impl Session {
    /// Options for a session; [`SessionOptions::start`] opens it.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Session;
    /// let options = Session::builder().work_dir(".").model("kimi");
    /// # drop(options);
    /// ```
    pub fn builder() -> SessionOptions {
        SessionOptions::new()
    }

    /// Sends a prompt: content, or [`PromptOptions`] with content and options of this prompt. The turn starts
    /// immediately.
    ///
    /// # Errors
    /// `TurnInProgress` while another turn is held and running, [`Error::InvalidOption`](crate::Error::InvalidOption)
    /// for a wrong option, or the error that ended the session.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// use std::time::Duration;
    ///
    /// use kimi_agent::PromptOptions;
    /// let answer = session.prompt("What is in this directory?")?.result().await?.text;
    /// let prompt = PromptOptions::new("Fix the failing test").timeout(Duration::from_secs(600));
    /// let fixed = session.prompt(prompt)?.result().await?;
    /// # Ok(()) }
    /// ```
    pub fn prompt(&self, prompt: impl Into<PromptOptions>) -> Result<Turn> {
        let mut prompt = prompt.into();
        let span = self.begin_span(&mut prompt);
        let channel = self.shared.new_channel();
        let key = self.send_prompt(Arc::clone(&channel), prompt, span)?;
        let link = Arc::new(Link::to(Arc::clone(&self.shared), key));
        Ok(Turn::new(TurnInner::new(channel, link, format!("turn-{key}"))))
    }

    /// Returns the span of the turn that the prompt begins, with telemetry.
    fn begin_span(&self, prompt: &mut PromptOptions) -> Option<Box<TurnSpan>> {
        self.telemetry.as_ref()?.begin(prompt, self.output.is_some())
    }

    /// Returns the operation that starts the span of the next turn, with telemetry.
    pub(crate) fn start_of_turn(&self, content: &Content, has_output: bool) -> Option<SpanStart> {
        Some(self.telemetry.as_ref()?.start(content, has_output || self.output.is_some()))
    }

    /// Begins a turn. A wrong option also ends its span.
    fn send_prompt(
        &self,
        channel: Arc<EventChannel>,
        prompt: PromptOptions,
        span: Option<Box<TurnSpan>>,
    ) -> Result<TurnKey> {
        let checked = self.limits(&prompt).and_then(|limits| {
            let output = output::of_turn(self.output.as_deref(), &prompt)?;
            Ok((limits, output))
        });
        match checked {
            Ok((limits, output)) => self.shared.prompt(channel, prompt.content, limits, output, span),
            Err(error) => {
                if let Some(span) = span {
                    span.fail(&error);
                }
                Err(error)
            }
        }
    }

    /// The limits of a prompt.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for a wrong limit, [`Error::Unsupported`](crate::Error::Unsupported)
    /// for a budget of something that the agent does not report.
    fn limits(&self, prompt: &PromptOptions) -> Result<TurnLimits> {
        let limits = prompt.limits()?;
        let has_price = self.pricing.as_ref().is_some_and(|pricing| pricing.has_price(&self.shared));
        check_budget(&self.handshake, has_price, "budget", limits.budget, prompt.naming)?;
        if let Some(pricing) = &self.pricing {
            // The model may be another one since the session was opened.
            check_budget(&self.handshake, has_price, "session_budget", pricing.session_budget, prompt.naming)?;
        }
        Ok(limits)
    }

    /// Replays the events of the session's earlier turns, with merged parts (from Wire 1.3 on). The requests among them
    /// were answered before. If a background agent sends a request at the same time, it reaches `on_event` as well, and
    /// is answered after the replay.
    ///
    /// If the agent sends nothing for `handshake_timeout`, the replay ends with
    /// [`Error::Timeout`](crate::Error::Timeout), and the session closes.
    ///
    /// ```
    /// # use kimi_agent::{Session, testing::scripted_agent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kimi_agent::Result<()> {
    /// # let agent = scripted_agent(serde_json::json!([[{"text": "Hello"}]]));
    /// # let session = Session::builder().executable(&agent).start().await?;
    /// # session.prompt("Say hello")?.result().await?;
    /// let mut past = session.replay();
    /// while let Some(event) = past.next().await {
    ///     println!("{}", event?.type_name());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn replay(&self) -> Replay {
        let channel = self.shared.new_channel();
        let closed = self.shared.closed().is_some();
        if closed || !self.shared.send(Command::Replay { channel: Arc::clone(&channel) }) {
            channel.finish(Err(self.shared.closed_reason()));
        }
        Replay::new(channel)
    }

    /// Switches plan mode, in which the agent only reads and plans (from Wire 1.4 on).
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the agent has no plan mode,
    /// [`Error::Timeout`](crate::Error::Timeout) if it does not answer within `handshake_timeout`.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// if session.capabilities().plan_mode {
    ///     session.set_plan_mode(true).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn set_plan_mode(&self, on: bool) -> Result<()> {
        self.shared.ask(|reply| Command::SetPlanMode { on, reply }).await
    }

    /// Sets an option of [`config_options`](Self::config_options), for example the model. A running turn may continue
    /// with the earlier value.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for an option or a value that the agent does not list; the
    /// error names those that it lists. [`Error::Unsupported`](crate::Error::Unsupported) if the agent lists no
    /// options, as with Wire. [`Error::Timeout`](crate::Error::Timeout) if it does not answer within
    /// `handshake_timeout`.
    ///
    /// ```no_run
    /// # async fn of(session: kimi_agent_client::Session) -> kimi_agent_client::Result<()> {
    /// for option in session.config_options() {
    ///     println!("{} is {:?}", option.id, option.value);
    /// }
    /// session.set_config_option("model", "kimi-k2").await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_config_option(&self, id: impl Into<String>, value: impl Into<ConfigValue>) -> Result<()> {
        let (option, value) = (id.into(), value.into());
        self.shared.ask(|reply| Command::SetConfigOption { option, value, reply }).await
    }

    /// Removes the last `count` turns from the conversation. Their changes to files stay.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the agent cannot undo turns (only Kimi Code's server can:
    /// [`Dialect::KimiWeb`](crate::Dialect::KimiWeb)), [`Error::InvalidOption`](crate::Error::InvalidOption) if `count`
    /// is 0, `TurnInProgress` while a turn runs.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// if session.capabilities().undo {
    ///     session.undo(1).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn undo(&self, count: u32) -> Result<()> {
        if count == 0 {
            return Err(invalid_option("count", "expected at least 1, got 0"));
        }
        self.shared.ask(|reply| Command::Undo { turns: count, reply }).await
    }

    /// Answers an approval request outside turns, which `on_event` got. Needs
    /// [`on_approval_manual`](crate::SessionOptions::on_approval_manual). For a request of a turn, use
    /// [`Turn::respond`].
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) if no such request awaits an answer, or if it is a request of
    /// another session.
    ///
    /// # Examples
    /// ```no_run
    /// # use kimi_agent::{Session, wire::ApprovalRequest};
    /// # async fn example(session: Session, request: ApprovalRequest) -> kimi_agent::Result<()> {
    /// use kimi_agent::Approval;
    /// session.respond(&request, Approval::reject("not now")).await?;
    /// # Ok(()) }
    /// ```
    pub async fn respond(&self, request: &ApprovalRequest, approval: Approval) -> Result<()> {
        self.shared.respond(request.into(), ManualAnswer::Approval(approval)).await
    }

    /// Answers questions outside turns, which `on_event` got. `None` dismisses them. Needs
    /// [`on_question_manual`](crate::SessionOptions::on_question_manual). For questions of a turn, use
    /// [`Turn::respond_question`].
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) if no such request awaits an answer, or if it is a request of
    /// another session.
    ///
    /// # Examples
    /// ```no_run
    /// # use kimi_agent::{Session, wire::QuestionRequest};
    /// # async fn example(session: Session, request: QuestionRequest) -> kimi_agent::Result<()> {
    /// use kimi_agent::Answers;
    /// let answers = request.questions.iter().fold(Answers::new(), |answers, each| answers.answer(&each.question, "yes"));
    /// session.respond_question(&request, Some(answers)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn respond_question(&self, request: &QuestionRequest, answers: Option<Answers>) -> Result<()> {
        self.shared.respond(request.into(), ManualAnswer::Question(answers)).await
    }

    /// Cancels the running turn, if there is one, and waits until it has ended. A turn that was dropped and has not
    /// ended yet is included. Does nothing if no turn runs.
    ///
    /// # Errors
    /// [`Error::SessionClosed`](crate::Error::SessionClosed) or the error that closed the session, if it is closed.
    ///
    /// [`Error::Timeout`](crate::Error::Timeout) if the agent does not answer within `cancel_timeout`; the session is
    /// then closed. If the turn failed meanwhile, the error of the turn.
    ///
    /// ```
    /// # use kimi_agent::{Session, testing::scripted_agent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kimi_agent::Result<()> {
    /// # let agent = scripted_agent(serde_json::json!([[{"text": "1, 2, "}, {"wait_cancel": true}]]));
    /// # let session = Session::builder().executable(&agent).start().await?;
    /// let mut turn = session.prompt("Count to a million")?;
    /// session.cancel().await?;
    /// assert_eq!(turn.result().await?.status.as_str(), "cancelled");
    /// # Ok(()) }
    /// ```
    pub async fn cancel(&self) -> Result<()> {
        self.shared.cancel_running().await
    }

    /// Cancels a running turn, ends the agent, and waits until its process has exited. Can be called again.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout) if the agent still runs 5 seconds after SIGKILL, for example because it runs
    /// as another user. The error names its process id. The session is closed all the same.
    ///
    /// [`Error::Rpc`](crate::Error::Rpc) if the agent compares the program with a recording, and the program has left out
    /// something of it. Only the first call returns it.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// session.close().await?;
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) -> Result<()> {
        self.shared.warn_of_ended_turns();
        self.shared.begin_close();
        self.until_closed().await
    }

    async fn until_closed(&self) -> Result<()> {
        self.shared.until_ended().await?;
        self.replayed.as_ref().map_or(Ok(()), |replayed| replayed.check_complete())
    }

    /// Closes the session as [`Session::close`] does, with this time instead of `close_timeout`. [`Duration::ZERO`] kills
    /// the agent at once; a turn that runs then fails with `SessionClosed`. If the session closes already, this can only
    /// shorten the time.
    ///
    /// # Errors
    /// The errors of [`Session::close`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// use std::time::Duration;
    /// session.close_with_timeout(Duration::from_secs(2)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn close_with_timeout(&self, timeout: Duration) -> Result<()> {
        self.shared.warn_of_ended_turns();
        self.shared.begin_close_within(Some(timeout));
        self.until_closed().await
    }

    /// Returns a future that ends when the session is closed and its agent has exited, also if an idle agent exits. Its
    /// value is the error that closed the session, `None` after [`close`](Self::close). It does not keep the session open.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent::{Session, testing::scripted_agent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kimi_agent::Result<()> {
    /// # let agent = scripted_agent(serde_json::json!([[{"text": "Hello"}]]));
    /// # let session = Session::builder().executable(&agent).start().await?;
    /// let closed = session.closed();
    /// let watch = tokio::spawn(async move {
    ///     if let Some(error) = closed.await {
    ///         eprintln!("the agent is gone: {error}");
    ///     }
    /// });
    /// # session.close().await?;
    /// # watch.await.unwrap();
    /// # Ok(()) }
    /// ```
    pub fn closed(&self) -> impl Future<Output = Option<Error>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            let ended = shared.until_ended().await;
            let reason = shared.closed_reason();
            ended.err().or_else(|| (!matches!(reason, Error::SessionClosed(_))).then_some(reason))
        }
    }

    /// Returns the session's id. The option `session_id` resumes the session.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// let id = session.id().to_owned();
    /// session.close().await?;
    /// let session = kimi_agent::Session::builder().session_id(id).start().await?;
    /// # Ok(()) }
    /// ```
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the directory that the agent works in.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// println!("{}", session.work_dir().display());
    /// # Ok(()) }
    /// ```
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// Returns the state of the session.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// use kimi_agent::SessionState;
    /// if session.state() == SessionState::Active {
    ///     session.cancel().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn state(&self) -> SessionState {
        self.shared.state()
    }

    /// Returns the process id of the agent. `None` if the SDK did not start the agent's process.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// println!("{:?}", session.pid());
    /// # Ok(()) }
    /// ```
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Returns the protocol that the agent speaks: a version of Wire such as `1.10`, `legacy`, `acp-1` or `kimi-web-2`.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// println!("{}", session.protocol_version()); // for example 1.10, or acp-1
    /// # Ok(()) }
    /// ```
    pub fn protocol_version(&self) -> &str {
        &self.handshake.protocol_version
    }

    /// Returns the agent's name and version. `None` if the agent has no handshake.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// if let Some(server) = session.server() {
    ///     println!("{} {}", server.name, server.version);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn server(&self) -> Option<&ServerInfo> {
        self.handshake.server.as_ref()
    }

    /// Returns the ways to log in that the agent offers.
    pub(crate) fn auth_methods(&self) -> &[AuthMethod] {
        self.handshake.auth_methods.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Returns the agent's capabilities.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// let steerable = session.capabilities().steer;
    /// # Ok(()) }
    /// ```
    pub fn capabilities(&self) -> &Capabilities {
        &self.handshake.capabilities
    }

    /// Returns the commands that a prompt may begin with. Agents of ACP send them shortly after the session has opened,
    /// and again after changes. Before that the list is empty. Each time `on_event` gets an
    /// `available_commands_update`.
    ///
    /// ```
    /// # use kimi_agent::{Session, testing::scripted_agent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kimi_agent::Result<()> {
    /// # let agent = scripted_agent(serde_json::json!({
    /// #     "slash_commands": [{"name": "compact", "description": "Shorten", "aliases": []}], "turns": []}));
    /// # let session = Session::builder().executable(&agent).start().await?;
    /// for command in session.slash_commands() {
    ///     println!("/{}: {}", command.name, command.description);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn slash_commands(&self) -> Vec<SlashCommand> {
        match self.shared.commands() {
            Some(commands) => commands.to_vec(),
            None => self.handshake.slash_commands.clone(),
        }
    }

    /// Returns the tools of the program that the agent accepted, and the reasons for the rejected ones.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// for tool in &session.external_tools().rejected {
    ///     eprintln!("{}: {}", tool.name, tool.reason);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn external_tools(&self) -> &ExternalToolsResult {
        &self.handshake.external_tools
    }

    /// Returns all tokens of the session so far. [`Turn::usage`] returns those of a turn.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// println!("{} tokens written", session.usage().output);
    /// # Ok(()) }
    /// ```
    pub fn usage(&self) -> TokenUsage {
        self.shared.usage()
    }

    /// Returns the options of the session that can be set while it is open, with their current values. Empty if the agent has
    /// none.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// for option in session.config_options() {
    ///     println!("{} is {:?}", option.name, option.value);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn config_options(&self) -> Vec<ConfigOption> {
        self.shared.config_options().to_vec()
    }

    /// Returns the latest value of each field of all status updates: context, plan mode, MCP servers.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// if let Some(used) = session.status().context_usage {
    ///     println!("{:.0} % of the context is in use", used * 100.0);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn status(&self) -> StatusUpdate {
        self.shared.status()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.dropped();
    }
}
