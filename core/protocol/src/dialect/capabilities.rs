//! The capabilities of an agent, and the errors for calls and options that it does not support.

use serde::Serialize;

use super::{Call, Handshake, kimi_web};
use crate::error::Error;
use crate::messages::ServerInfo;

/// Features by the name of the call or option: the version of Wire that added the feature, if one has it, and the field
/// of `capabilities`.
const CAPABILITIES: [(&str, Option<&str>, &str); 8] = [
    ("steer", Some("1.4"), "steer"),
    ("set_plan_mode", Some("1.4"), "plan_mode"),
    ("set_config_option", None, "config_options"),
    ("replay", Some("1.3"), "replay"),
    ("undo", None, "undo"),
    ("fork", None, "fork"),
    ("tools", Some("1.1"), "external_tools"),
    ("hooks", Some("1.8"), "hooks"),
];

/// The agents that have a feature which most agents of ACP lack.
const HAVING: [(&str, &str); 4] = [
    ("steer", "Claude Code, Codex, kimi-cli, and Kimi Code with the dialect \"kimi-web\""),
    ("replay", "kimi-cli, and Kimi Code with the dialect \"kimi-web\""),
    ("undo", "Kimi Code with the dialect \"kimi-web\""),
    ("fork", "Claude Code, Codex, Kimi Code, Mistral Vibe and OpenCode"),
];

/// The agent's capabilities, by its handshake and version. A call without its capability fails with
/// [`Error::Unsupported`], without asking the agent.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(capabilities: &kimi_agent::Capabilities) {
///     println!("steer: {}, undo: {}, hooks: {:?}", capabilities.steer, capabilities.undo, capabilities.hooks);
/// }
/// # report(&kimi_agent::Capabilities::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// The program can offer tools.
    pub external_tools: bool,
    /// The agent can ask questions.
    pub questions: bool,
    /// A reject may carry feedback that the model sees.
    pub approval_feedback: bool,
    /// A running turn can be steered.
    pub steer: bool,
    /// Plan mode can be switched.
    pub plan_mode: bool,
    /// The session has options that can be set while it is open.
    pub config_options: bool,
    /// A session's past can be replayed.
    pub replay: bool,
    /// The last turns of a session can be undone.
    pub undo: bool,
    /// A session can begin with the past of another.
    pub fork: bool,
    /// The events that hooks can be set on. Empty if the agent has no hooks.
    pub hooks: Vec<String>,
    /// The calls that a policy sees: those that the agent asks about, or, for rules that deny, every call.
    pub policy: PolicyReach,
    /// The program can offer to read and write files for the agent. Some agents do not use it.
    pub files: bool,
    /// The program can offer to run commands for the agent. Some agents do not use it.
    pub terminals: bool,
}

/// The tool calls that a session's policy sees.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(capabilities: &kimi_agent::Capabilities) {
///     if capabilities.policy == kimi_agent::PolicyReach::Approvals {
///         println!("calls that the agent does not ask about are not checked");
///     }
/// }
/// # report(&kimi_agent::Capabilities::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PolicyReach {
    /// The calls that the agent asks about.
    #[default]
    Approvals,
    /// Rules that deny see every call, before it runs. Other rules see the calls that the agent asks about.
    ToolCalls,
}

impl PolicyReach {
    /// Returns the word for it: `approvals` or `tool_calls`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert_eq!(kimi_agent::PolicyReach::Approvals.as_str(), "approvals");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::ToolCalls => "tool_calls",
        }
    }

    /// What a policy sees of an agent with hooks on these events.
    pub(crate) fn of_hooks(hooks: &[String]) -> Self {
        if hooks.iter().any(|event| event == "PreToolUse") { Self::ToolCalls } else { Self::Approvals }
    }
}

impl Capabilities {
    /// Returns whether the agent accepts this call.
    pub(super) fn has(&self, call: &Call) -> bool {
        match call {
            Call::Initialize(_) | Call::Prompt(_) | Call::Cancel => true,
            Call::Steer(_) => self.steer,
            Call::SetPlanMode(_) => self.plan_mode,
            Call::SetConfigOption { .. } => self.config_options,
            Call::Replay => self.replay,
            Call::Undo(_) => self.undo,
            Call::CancelSubagent(_) => false,
        }
    }
}

/// Makes the error for a feature that the agent lacks. It names the agent and its protocol, the version that added the
/// feature, and the field of `capabilities` to check.
pub(super) fn unsupported(server: Option<&ServerInfo>, version: &str, feature: &str) -> Error {
    let agent = agent_name(server, version);
    if let Some(field) = service_capability(feature) {
        return Error::Unsupported(format!(
            "{agent} does not support `{feature}`: only agents that speak ACP use files and terminals of a program; check \
             `session.capabilities.{field}` before, or set `dialect` to \"acp\" if the agent speaks it"
        ));
    }
    let known = CAPABILITIES.iter().find(|(name, ..)| *name == feature);
    Error::Unsupported(match known {
        Some(("tools", ..)) if version == kimi_web::NAME => {
            format!("{agent} does not support `tools`: it takes no tools of a program; set `dialect` to \"acp\"")
        }
        Some(("set_config_option", ..)) if !version.starts_with("acp-") => format!(
            "{agent} does not support `set_config_option`: `model` and `thinking` are set when a session opens; close the \
             session and open another one with the same `session_id` and other options"
        ),
        Some((name, Some(since), field)) if !version.starts_with("acp-") && version != kimi_web::NAME => format!(
            "{agent} does not support `{name}`, which came with Wire {since}; check `session.capabilities.{field}` \
             before, or use a newer agent"
        ),
        Some((name, _, field)) => {
            let having = HAVING.iter().find(|(feature, _)| feature == name);
            let having = having.map(|(_, agents)| format!("; it works with {agents}")).unwrap_or_default();
            format!("{agent} does not support `{name}`; check `session.capabilities.{field}` before{having}")
        }
        None => format!("{agent} does not support {feature}"),
    })
}

/// Returns the field of `capabilities` for a handler of files or terminals.
fn service_capability(option: &str) -> Option<&'static str> {
    match option {
        "on_read_file" | "on_write_file" | "onReadFile" | "onWriteFile" => Some("files"),
        "on_terminal" | "onTerminal" => Some("terminals"),
        _ => None,
    }
}

/// Makes the error for an option that this agent would silently ignore.
pub fn unsupported_option(handshake: &Handshake, option: &str) -> Error {
    unsupported(handshake.server.as_ref(), &handshake.protocol_version, option)
}

/// Returns the agent's name in errors, with its protocol.
pub fn agent_name(server: Option<&ServerInfo>, version: &str) -> String {
    let server = server.map_or_else(|| "the agent".to_owned(), |server| format!("{} {}", server.name, server.version));
    match version.strip_prefix("acp-") {
        Some(version) => format!("{server} (ACP {version})"),
        None if version == kimi_web::NAME => format!("{server} (its server)"),
        None => format!("{server} (Wire {version})"),
    }
}
