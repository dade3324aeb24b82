//! The parameters and the result of the handshake.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::acp::AuthMethod;
use super::capabilities::Capabilities;
use super::config::ConfigOption;
use super::known;
use super::terminal::Services;
use crate::messages::{ExternalToolsResult, ServerInfo, SlashCommand};

/// The parameters of the handshake.
#[derive(Clone, Debug, Default)]
pub struct InitializeParams {
    /// The name of this program.
    pub client_name: String,
    /// The version of this program.
    pub client_version: String,
    /// The tools of the program.
    pub tools: Vec<ToolOffer>,
    /// The hooks of the program.
    pub hooks: Vec<HookOffer>,
    /// Whether the program answers questions.
    pub supports_question: bool,
    /// The endpoint of the tools, for agents that take them from an MCP server.
    pub tools_server: Option<ToolsEndpoint>,
    /// The option `model`, for errors. It is not sent here.
    pub model: Option<String>,
    /// The handlers that the agent may use for files and commands.
    pub services: Services,
}

/// A tool of the program, as the agent gets it.
#[derive(Clone, Debug, Serialize)]
pub struct ToolOffer {
    /// The name of the tool.
    pub name: String,
    /// The description, for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub parameters: Value,
}

/// A hook of the program, as the agent gets it.
#[derive(Clone, Debug, Serialize)]
pub struct HookOffer {
    /// The id of the hook in this session.
    pub id: String,
    /// The event of the hook.
    pub event: String,
    /// The regular expression for the target. `None` for every target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// In whole seconds, because agents accept no fractions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// The endpoint of the program's tools.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolsEndpoint {
    /// The name of the endpoint, which differs from the names of other servers.
    pub name: String,
    /// The address of the endpoint.
    pub url: String,
    /// Headers of every request, as (name, value). They contain the secret.
    pub headers: Vec<(String, String)>,
}

impl fmt::Debug for ToolsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsEndpoint").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

/// The result of the handshake.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handshake {
    /// The protocol that the agent speaks.
    pub protocol_version: String,
    /// The name and version of the agent. `None` if there is no handshake.
    pub server: Option<ServerInfo>,
    /// The commands that a prompt may begin with.
    pub slash_commands: Vec<SlashCommand>,
    /// The accepted and the rejected tools of the program.
    pub external_tools: ExternalToolsResult,
    /// The agent's capabilities.
    pub capabilities: Capabilities,
    /// The session's id, if the agent makes it.
    pub session_id: Option<String>,
    /// The ways to log in that the agent offers.
    pub auth_methods: Option<Arc<Vec<AuthMethod>>>,
    /// The options of the session that can be set.
    pub config_options: Arc<Vec<ConfigOption>>,
    /// Whether the agent's records of turns are read. The session sets it.
    pub reads_records: bool,
}

impl Handshake {
    /// Returns the counts that the agent reports, those in its records of a turn included.
    pub fn reported(&self) -> Reported {
        if !self.protocol_version.starts_with("acp-") {
            return Reported { tokens: true, steps: true, cost: false };
        }
        let in_records = self.reads_records && is_kimi_code(self.server.as_ref());
        Reported {
            tokens: in_records || known::reports_tokens(self.server.as_ref()),
            steps: in_records,
            cost: known::reports_cost(self.server.as_ref()),
        }
    }

    /// Returns whether the agent accepts limits of a turn, as arguments or in its environment.
    pub fn takes_limits(&self) -> bool {
        !self.protocol_version.starts_with("acp-") || is_kimi_code(self.server.as_ref())
    }
}

/// The counts that an agent reports, for budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The tokens of a turn, at the latest at its end.
    pub tokens: bool,
    /// The steps of a turn, at the latest at its end.
    pub steps: bool,
    /// The cost of a turn, at the latest at its end.
    pub cost: bool,
}

/// Returns whether an agent of ACP is Kimi Code, by its name.
pub(super) fn is_kimi_code(server: Option<&ServerInfo>) -> bool {
    server.is_some_and(|server| server.name.starts_with("Kimi Code"))
}
