//! Protocols behind one seam: above it there are only canonical calls, events, requests and answers, and a set of
//! [`Capabilities`]. One file a protocol; each translates lines to the canonical model and back.

mod acp;
mod agents;
mod legacy;
#[cfg(test)]
pub mod recorded;
mod version;
mod wire;

pub use acp::{Acp, Listing, SessionParams};
pub use agents::{AgentKind, Release};
pub use legacy::Legacy;
pub use version::{VersionError, WireVersion};
pub use wire::Wire;

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::answers::{Answers, Approval, HookDecision};
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::wire::jsonrpc::{Message, RpcFailure};
use crate::wire::{Content, Event, ExternalToolsResult, Json, ServerInfo, SlashCommand, ToolKind, ToolReturnValue};

/// What the agent can do, as its handshake and version tell. A call for something that is not there fails with
/// [`Error::Unsupported`], without asking the agent.
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
    /// A session's past can be replayed.
    pub replay: bool,
    /// The events that hooks can be set on; empty where there are none.
    pub hooks: Vec<String>,
}

/// A session that an agent keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id: `Agent::resume` goes on with it.
    pub id: String,
    /// The directory that it works in.
    pub work_dir: PathBuf,
    /// What the agent calls it for people, if it does.
    pub title: Option<String>,
    /// When something last happened in it, in the words of ISO 8601, if the agent says.
    pub updated_at: Option<String>,
}

/// What we tell the agent when the session opens.
#[derive(Clone, Debug, Default)]
pub struct InitializeParams {
    pub client_name: String,
    pub client_version: String,
    pub tools: Vec<ToolOffer>,
    pub hooks: Vec<HookOffer>,
    pub supports_question: bool,
    /// Where the tools are, for agents that take them from an MCP server.
    pub tools_server: Option<ToolsEndpoint>,
    /// The option `model`, for errors. It is not sent here.
    pub model: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ToolOffer {
    pub name: String,
    pub description: String,
    pub parameters: Value,
}

#[derive(Clone, Debug, Serialize)]
pub struct HookOffer {
    pub id: String,
    pub event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// Whole seconds: the agent takes no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// Where the agent finds the program's tools.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolsEndpoint {
    /// By this the agent tells it from other servers.
    pub name: String,
    pub url: String,
    /// Headers of every request, as (name, value). They hold the secret.
    pub headers: Vec<(String, String)>,
}

impl fmt::Debug for ToolsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsEndpoint").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

/// What the agent says of itself when the session opens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handshake {
    pub protocol_version: String,
    pub server: Option<ServerInfo>,
    pub slash_commands: Vec<SlashCommand>,
    pub external_tools: ExternalToolsResult,
    pub capabilities: Capabilities,
    /// The session's name, where the agent makes it.
    pub session_id: Option<String>,
}

/// A call of ours, in no protocol's words.
#[derive(Clone, Debug)]
pub enum Call {
    Initialize(InitializeParams),
    Prompt(Content),
    Cancel,
    Steer(Content),
    SetPlanMode(bool),
    Replay,
}

impl Call {
    /// The name by which errors and logs speak of it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Initialize(_) => "initialize",
            Self::Prompt(_) => "prompt",
            Self::Cancel => "cancel",
            Self::Steer(_) => "steer",
            Self::SetPlanMode(_) => "set_plan_mode",
            Self::Replay => "replay",
        }
    }
}

/// A line of the agent's, in no protocol's words.
#[derive(Debug)]
pub enum Incoming {
    Event(Box<Event>),
    /// An event of the session's own, whatever turn is running.
    OutOfTurn(Box<Event>),
    /// The commands that a prompt may begin with now, in place of those that were told before.
    Commands(Vec<SlashCommand>),
    /// `rpc_id` is JSON text and must go back as it came.
    Request {
        rpc_id: String,
        request: Box<Event>,
    },
    /// A method that we do not know, with an id: it awaits a refusal.
    UnknownMethod {
        rpc_id: String,
        method: String,
        params: Json,
    },
    Response {
        id: Option<String>,
        outcome: std::result::Result<Json, RpcFailure>,
    },
    /// A request that nobody need be asked about; the bytes of its answer.
    Answered(Vec<u8>),
    /// A line that says several things, or nothing.
    Batch(Vec<Self>),
    /// Not of the protocol; the reason is for the log.
    InvalidLine(String),
}

impl Incoming {
    fn event(event: impl Into<Event>) -> Self {
        Self::Event(Box::new(event.into()))
    }

    fn out_of_turn(event: impl Into<Event>) -> Self {
        Self::OutOfTurn(Box::new(event.into()))
    }
}

/// Our answer to a request of the agent's.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Approval(Approval),
    Question(Option<Answers>),
    Tool(ToolReturnValue),
    Hook(HookDecision),
}

/// The error for a feature that the agent lacks. It names the agent and what it speaks, the version that brought the
/// feature, and the field of `capabilities` that tells beforehand.
fn unsupported(server: Option<&ServerInfo>, version: &str, feature: &str) -> Error {
    let agent = agent_name(server, version);
    let known = CAPABILITIES.iter().find(|(name, ..)| *name == feature);
    Error::Unsupported(match known {
        Some((name, since, field)) if !version.starts_with("acp-") => format!(
            "{agent} does not support `{name}`, which came with Wire {since}; check `session.capabilities.{field}` \
             before, or use a newer agent"
        ),
        Some((name, _, field)) => {
            format!("{agent} does not support `{name}`; check `session.capabilities.{field}` before")
        }
        None => format!("{agent} does not support {feature}"),
    })
}

/// The error for a program that answers a call with a copy of it.
pub fn echo_error(speaks: &str, method: &str) -> String {
    format!(
        "the executable does not speak {speaks}: its answer to `{method}` is a copy of the request, as `cat` answers; \
         check that `executable` names an agent, with the arguments that it needs"
    )
}

/// Features by the name of the call or option: the version of Wire that brought them, and the field of `capabilities`.
const CAPABILITIES: [(&str, &str, &str); 5] = [
    ("steer", "1.4", "steer"),
    ("set_plan_mode", "1.4", "plan_mode"),
    ("replay", "1.3", "replay"),
    ("tools", "1.1", "external_tools"),
    ("hooks", "1.8", "hooks"),
];

/// The error for an option that this agent would silently ignore.
pub fn unsupported_option(handshake: &Handshake, option: &str) -> Error {
    unsupported(handshake.server.as_ref(), &handshake.protocol_version, option)
}

/// What errors call the agent: what it is, and what it speaks.
pub fn agent_name(server: Option<&ServerInfo>, version: &str) -> String {
    let server = server.map_or_else(|| "the agent".to_owned(), |server| format!("{} {}", server.name, server.version));
    match version.strip_prefix("acp-") {
        Some(version) => format!("{server} (ACP {version})"),
        None => format!("{server} (Wire {version})"),
    }
}

/// The call under way that opens a session of a process which may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpeningSession {
    /// The answer names the session.
    New,
    /// It resumes the session with this id.
    Resume(String),
}

/// A protocol.
pub trait Dialect: Send + std::fmt::Debug {
    /// The protocol, and who speaks it.
    fn protocol_name(&self) -> &'static str {
        "Wire (kimi-cli does from 0.52 to 1.51)"
    }

    /// What to check if the agent is silent: the end of a sentence.
    fn silence_hint(&self) -> &'static str {
        "and set `dialect` if it speaks another protocol: \"acp\" for the Agent Client Protocol; \"1.0\" for kimi-cli up \
         to 0.79 and \"legacy\" with `yolo` for kimi-cli up to 0.58, which answer no handshake"
    }

    /// What to do if the program speaks another protocol: the end of a sentence.
    fn other_protocol_hint(&self) -> &'static str {
        "or set `dialect` to \"acp\" if it speaks the Agent Client Protocol"
    }

    /// Whether the agent tells that a turn has begun.
    fn reports_turn_begin(&self) -> bool {
        true
    }

    /// Whether the agent tells where a step of a turn ends. Otherwise a turn is one step, and what was said before the
    /// last tool's result is not what it comes to.
    fn reports_steps(&self) -> bool {
        true
    }

    /// Whether the agent takes the program's tools from an MCP server: [`InitializeParams::tools_server`], and in no other way.
    fn takes_tools_from_server(&self) -> bool {
        false
    }

    /// What the tool of a call does, if the agent has said it.
    fn tool_kind(&self, _call_id: &str) -> Option<ToolKind> {
        None
    }

    /// Whether a question may be answered with a text that is none of its choices.
    fn accepts_free_answers(&self) -> bool {
        true
    }

    /// Whether one process can have several sessions, which messages name.
    fn shares_processes(&self) -> bool {
        false
    }

    /// Sets the first id that calls get, where ids are numbers. No other connection of the process uses those that follow.
    fn set_first_id(&mut self, _first: u64) {}

    /// The call under way that opens the session, if there is one.
    fn opening_session(&self) -> Option<OpeningSession> {
        None
    }

    /// Ends what is open, because the connection leaves a process that goes on: the bytes of a cancel and of refusals.
    fn leave(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The handshake of a protocol that has no handshake.
    fn implicit_handshake(&mut self) -> Option<Handshake> {
        None
    }
    /// The bytes of a call, or `Unsupported` where this agent has no such thing.
    fn call(&mut self, id: &str, call: &Call) -> Result<Vec<u8>>;
    /// Reads a message of the agent's.
    fn read(&mut self, message: Message<'_>) -> Incoming;
    /// Reads a line.
    fn read_line(&mut self, line: &[u8]) -> Incoming {
        self.read(crate::wire::jsonrpc::parse(line))
    }
    /// The bytes of an answer. `request_id` is the request's own, `rpc_id` the envelope's.
    fn answer(&mut self, rpc_id: &str, request_id: &str, answer: &Answer) -> Vec<u8>;
    /// The bytes of a refusal.
    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8>;
    /// What a handshake of several calls asks next, after this answer; none where [`Dialect::finish_handshake`] has the last word.
    /// `id` is the call's, and stays so.
    fn next_handshake_request(
        &mut self,
        _id: &str,
        _outcome: &std::result::Result<Json, RpcFailure>,
    ) -> Option<Vec<u8>> {
        None
    }
    /// Takes in the last answer to [`Call::Initialize`]; from then on the dialect knows what the agent can do.
    fn finish_handshake(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake>;
    /// What an error code means in answer to a call.
    fn map_error_code(&self, call: &Call, code: i64) -> RpcErrorKind;
    /// The error for a call that the agent has refused.
    fn refused(&self, call: &Call, failure: RpcFailure) -> Error {
        self.failed(call, failure)
    }
    /// That error, where only the code counts.
    fn failed(&self, call: &Call, failure: RpcFailure) -> Error {
        Error::Rpc(RpcError {
            kind: self.map_error_code(call, failure.code),
            // 0 is no code of the agent's: a dialect reports so what the agent tells in another way than by an error.
            rpc_code: Some(failure.code).filter(|code| *code != 0),
            message: failure.message,
            data: failure.data,
            hint: None,
        })
    }
}
