//! Sessions: opening one, what it knows, and its end.

mod agent;
mod detect;
mod link;
mod live;
mod open;
mod processes;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use agent::Agent;
pub use open::prompt;
pub use turn::TurnInner;
pub use turn::{Replay, Step, Steps, TextStream, Turn};
pub use {live::LIVE, open::one_shot_on};

use crate::answers::{Answers, Approval};
use crate::connection::ManualAnswer;
use crate::dialect::{Capabilities, Handshake};
use crate::driver::Command;
pub use crate::driver::shared::SessionState;
use crate::driver::shared::Shared;
use crate::error::Result;
use crate::options::{PromptOptions, SessionOptions};
use crate::wire::{
    ApprovalRequest, ExternalToolsResult, QuestionRequest, ServerInfo, SlashCommand, StatusUpdate, TokenUsage,
};
use link::Link;

/// A conversation with an agent, which runs as a child process.
///
/// One turn runs at a time. Dropping the session closes it in the background; [`Session::close`] also waits until the
/// agent is gone. Both need the tokio runtime that it was started on.
///
/// ```
/// # use kimi_agent::testing::scripted_agent;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = scripted_agent(serde_json::json!([[{"text": "Hello"}]]));
/// use kimi_agent::Session;
/// let session = Session::builder().work_dir(".").executable(&agent).start().await?;
/// println!("{:?} speaks Wire {}", session.server(), session.protocol_version());
/// let result = session.prompt("Say hello")?.result().await?;
/// assert_eq!(result.text, "Hello");
/// session.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    id: String,
    work_dir: PathBuf,
    pid: Option<u32>,
    welcome: Arc<Handshake>,
}

impl Session {
    /// Options for a session; [`SessionOptions::start`] opens it.
    pub fn builder() -> SessionOptions {
        SessionOptions::new()
    }

    /// Sends a prompt: content, or [`PromptOptions`] with content and options of this prompt. The turn is under way when
    /// this returns.
    ///
    /// # Errors
    /// `TurnInProgress` while another turn is held and running; [`Error::InvalidOption`](crate::Error::InvalidOption) for a
    /// wrong option; whatever ended the session, if it is over.
    pub fn prompt(&self, prompt: impl Into<PromptOptions>) -> Result<Turn> {
        let prompt = prompt.into();
        let limits = prompt.limits()?;
        let channel = self.shared.new_channel();
        let key = self.shared.prompt(Arc::clone(&channel), prompt.content, limits)?;
        let link = Arc::new(Link::to(Arc::clone(&self.shared), key));
        Ok(Turn::new(TurnInner::new(channel, link, format!("turn-{key}"))))
    }

    /// The session's past: the events of its earlier turns, parts merged (from Wire 1.3 on). Requests among them were
    /// answered long ago. Where an agent in the background asks for something at the same moment, that comes to
    /// `on_event` as well, and is answered, once the replay has ended.
    ///
    /// A replay that falls silent for `handshake_timeout` ends with [`Error::Timeout`](crate::Error::Timeout), and the
    /// session with it.
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
    /// [`Error::Unsupported`](crate::Error::Unsupported) where the agent has none,
    /// [`Error::Timeout`](crate::Error::Timeout) if it does not answer within `handshake_timeout`.
    pub async fn set_plan_mode(&self, on: bool) -> Result<()> {
        self.shared.ask(|reply| Command::SetPlanMode { on, reply }).await
    }

    /// Answers an approval request by hand that came outside a turn, to `on_event`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) if no such request awaits an answer, or if it is a request of
    /// another session.
    pub async fn respond(&self, request: &ApprovalRequest, approval: Approval) -> Result<()> {
        self.shared.respond(request.into(), ManualAnswer::Approval(approval)).await
    }

    /// Answers a question by hand that came outside a turn; `None` dismisses it.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) if no such request awaits an answer, or if it is a request of
    /// another session.
    pub async fn respond_question(&self, request: &QuestionRequest, answers: Option<Answers>) -> Result<()> {
        self.shared.respond(request.into(), ManualAnswer::Question(answers)).await
    }

    /// Cancels the turn that runs, if there is one, and waits until it has ended: also a turn that was dropped and whose
    /// end is still under way. Does nothing without a turn, or if the session is closed.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout) if the agent does not answer within `cancel_timeout`; the session is over
    /// then. What ended the turn, if it failed meanwhile.
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

    /// Cancels what runs, ends the agent and waits until it is gone: politely at first, then firmly. Twice is fine.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout) if the agent still runs 5 seconds after SIGKILL, for example because it runs
    /// as another user. The error names its process id. The session is closed all the same.
    pub async fn close(&self) -> Result<()> {
        self.shared.begin_close();
        self.shared.until_ended().await
    }

    /// Closes the session as [`Session::close`] does, with this time instead of `close_timeout`. [`Duration::ZERO`] kills
    /// the agent at once; a turn that runs then fails with `SessionClosed`. If the session closes already, this can only
    /// shorten the time.
    ///
    /// # Errors
    /// Those of [`Session::close`].
    pub async fn close_with_timeout(&self, timeout: Duration) -> Result<()> {
        self.shared.begin_close_within(Some(timeout));
        self.shared.until_ended().await
    }

    /// The session's id: give it as `session_id` to resume.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The agent's working directory.
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// Where the session is.
    pub fn state(&self) -> SessionState {
        self.shared.state()
    }

    /// The agent's process id.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The version of the protocol that the agent speaks.
    pub fn protocol_version(&self) -> &str {
        &self.welcome.protocol_version
    }

    /// What the agent is; agents without a handshake don't say.
    pub fn server(&self) -> Option<&ServerInfo> {
        self.welcome.server.as_ref()
    }

    /// What the agent can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.welcome.capabilities
    }

    /// Commands that a prompt may begin with. Agents of ACP tell them soon after the session has opened, and again when
    /// they change: until then there are none, and each time `on_event` gets an `available_commands_update`.
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
            None => self.welcome.slash_commands.clone(),
        }
    }

    /// Which of the program's tools the model can call, and why not the others.
    pub fn external_tools(&self) -> &ExternalToolsResult {
        &self.welcome.external_tools
    }

    /// All tokens of the session so far; a turn's own are in [`Turn::usage`].
    pub fn usage(&self) -> TokenUsage {
        self.shared.usage()
    }

    /// How things stand, all updates put together: context, plan mode, MCP servers.
    pub fn status(&self) -> StatusUpdate {
        self.shared.status()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.begin_close();
    }
}
