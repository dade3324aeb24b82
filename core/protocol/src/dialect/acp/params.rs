//! The parameters of a session, and the text for the system prompt of its agent.

use std::path::PathBuf;

use agent_client_protocol_schema::v1 as acp;

use super::login::Login;

/// The parameters of the session, which ACP sends after the handshake. `Debug` leaves out the servers, because their
/// headers and variables may be secrets.
#[derive(Clone, Default)]
pub struct SessionParams {
    /// An absolute path.
    pub work_dir: PathBuf,
    /// The session to continue. `None`: a new session, whose id the agent makes.
    pub session_id: Option<String>,
    /// The session that is forked.
    pub fork_of: Option<String>,
    /// The option `model`.
    pub model: Option<String>,
    /// The option `thinking`.
    pub thinking: Option<bool>,
    /// The MCP servers of the session.
    pub mcp_servers: Vec<acp::McpServer>,
    /// Further roots of the session, as absolute paths.
    pub additional_directories: Vec<PathBuf>,
    /// The text for the system prompt of the agent.
    pub system_prompt: Option<SystemPrompt>,
    /// Members of `_meta` of the request that opens the session.
    pub meta: Option<acp::Meta>,
    /// How the session logs in, if the agent asks for it.
    pub login: Login,
}

/// A text for the system prompt of an agent. Text becomes one that follows the agent's own system prompt.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::SystemPrompt;
/// assert!(!SystemPrompt::from("Answer in one sentence.").overrides);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SystemPrompt {
    /// The text.
    pub content: String,
    /// Whether the text replaces the agent's own system prompt, instead of following it.
    pub overrides: bool,
}

impl SystemPrompt {
    /// Makes a text that replaces the agent's own system prompt.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::SystemPrompt;
    /// assert!(SystemPrompt::overriding("You are a parser.").overrides);
    /// ```
    pub fn overriding(content: impl Into<String>) -> Self {
        Self { content: content.into(), overrides: true }
    }
}

impl From<&str> for SystemPrompt {
    fn from(content: &str) -> Self {
        Self { content: content.to_owned(), overrides: false }
    }
}

impl From<String> for SystemPrompt {
    fn from(content: String) -> Self {
        Self { content, overrides: false }
    }
}

impl std::fmt::Debug for SessionParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionParams")
            .field("work_dir", &self.work_dir)
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}
