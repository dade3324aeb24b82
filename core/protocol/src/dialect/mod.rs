//! The protocols of agents. Each has a file or a folder that translates its lines to canonical calls, events, requests
//! and answers, and back. [`Capabilities`] says what an agent can do.

mod acp;
mod agents;
mod capabilities;
mod config;
pub(crate) mod ends;
mod handshake;
mod kimi_web;
mod known;
mod legacy;
mod pending;
#[cfg(test)]
pub mod recorded;
pub(crate) mod shape;
mod terminal;
mod version;
mod wire;

pub use acp::{
    Acp, AuthMethod, Listing, Login, LoginWay, SessionParams, StoredCall, StoredChange, SystemPrompt, login_question,
    login_ways,
};
pub use agents::{AgentKind, Release};
pub use capabilities::{Capabilities, PolicyReach, agent_name, unsupported_option};
pub use config::{ConfigChoice, ConfigOption, ConfigValue};
pub use handshake::{Handshake, HookOffer, InitializeParams, Reported, ToolOffer, ToolsEndpoint};
pub use kimi_web::{KimiWeb, KimiWebListing, KimiWebParams, kimi_web_deleted, kimi_web_deletion};
pub use known::{
    INSTALL_KIMI_CLI, INSTALL_KIMI_CODE, KNOWN_AGENTS, KnownAgent, NeedsAdapter, checks_login, login_command,
};
pub use legacy::Legacy;
pub use terminal::{Services, TerminalAnswer, TerminalCall, TerminalExit};
pub use version::{VersionError, WireVersion};
pub use wire::Wire;

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use self::capabilities::unsupported;
use self::handshake::is_kimi_code;
use crate::answers::{Answers, Approval, HookDecision};
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::jsonrpc::{Message, RpcFailure};
use crate::messages::{
    ApprovalRequest, Content, Event, Json, SlashCommand, TerminalResult, ToolKind, ToolReturnValue, UnknownEvent,
};
use crate::telemetry::TraceContext;

/// A session that an agent has stored.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn show(session: &kimi_agent::SessionInfo) {
///     println!("{} in {}", session.title.as_deref().unwrap_or(&session.id), session.work_dir.display());
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The id of the session. `Agent::resume` continues it.
    pub id: String,
    /// The working directory of the session.
    pub work_dir: PathBuf,
    /// The title for people, if the agent sends one.
    pub title: Option<String>,
    /// When the session was last active, in ISO 8601, if the agent reports it.
    pub updated_at: Option<String>,
    /// Whether the session is archived, if the agent reports it.
    pub archived: Option<bool>,
}

/// A call to the agent, independent of the protocol.
#[derive(Clone, Debug)]
pub enum Call {
    /// Opens the session.
    Initialize(InitializeParams),
    /// Begins a turn.
    Prompt(Content),
    /// Cancels the turn.
    Cancel,
    /// Adds a message of the user to the turn.
    Steer(Content),
    /// Switches plan mode.
    SetPlanMode(bool),
    /// Sets an option of the open session.
    SetConfigOption {
        /// The id of the option.
        option: String,
        /// The new value.
        value: ConfigValue,
    },
    /// Replays the messages of the session.
    Replay,
    /// Removes this many of the last turns.
    Undo(u32),
    /// Stops the work of the subagent with this session. There is no answer.
    CancelSubagent(String),
}

impl Call {
    /// Returns the name of the call in errors and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Initialize(_) => "initialize",
            Self::Prompt(_) => "prompt",
            Self::Cancel => "cancel",
            Self::Steer(_) => "steer",
            Self::SetPlanMode(_) => "set_plan_mode",
            Self::SetConfigOption { .. } => "set_config_option",
            Self::Replay => "replay",
            Self::Undo(_) => "undo",
            Self::CancelSubagent(_) => "cancel_subagent",
        }
    }
}

/// A line of the agent, independent of the protocol.
#[derive(Debug)]
pub enum Incoming {
    /// An event of the running turn, or outside of turns.
    Event(Box<Event>),
    /// An event of the session, outside of the running turn.
    OutOfTurn(Box<Event>),
    /// The commands that a prompt may begin with. They replace the earlier list.
    Commands(Vec<SlashCommand>),
    /// The current options of the session.
    ConfigOptions(Arc<Vec<ConfigOption>>),
    /// A request. `rpc_id` is JSON text that the answer must repeat unchanged.
    Request {
        /// The id, as JSON text.
        rpc_id: String,
        /// The request as an event.
        request: Box<Event>,
    },
    /// A request for the approval of a call of the program's own tool. It needs an approval only if a policy says so.
    OwnToolRequest {
        /// The id, as JSON text.
        rpc_id: String,
        /// The approval request.
        request: Box<Event>,
    },
    /// A request for a permission whose options are a choice. Rules may deny it. Otherwise the program answers the question.
    Choice {
        /// The id, as JSON text.
        rpc_id: String,
        /// The question with the options.
        question: Box<Event>,
        /// The same as a request for an approval, for the rules.
        approval: Box<ApprovalRequest>,
    },
    /// A request with an unknown method. It must be refused.
    UnknownMethod {
        /// The id, as JSON text.
        rpc_id: String,
        /// The name of the method.
        method: String,
        /// The parameters.
        params: Json,
    },
    /// The agent no longer needs an answer to a request.
    Cancelled {
        /// The id, as JSON text.
        rpc_id: String,
    },
    /// A call about a terminal that the agent has created.
    Terminal {
        /// The id, as JSON text.
        rpc_id: String,
        /// The id of the terminal.
        terminal: String,
        /// The call.
        call: TerminalCall,
    },
    /// The answer to a call.
    Response {
        /// The id of the call. `None` if it is null or invalid.
        id: Option<String>,
        /// The result, or the error.
        outcome: std::result::Result<Json, RpcFailure>,
    },
    /// Bytes to write without a decision: the answer to a request, or a call of the dialect's own.
    Answered(Vec<u8>),
    /// A line with several messages, or with none.
    Batch(Vec<Self>),
    /// An invalid line. The reason is for the log.
    InvalidLine(String),
    /// The session cannot continue.
    Fatal(Error),
}

impl Incoming {
    fn event(event: impl Into<Event>) -> Self {
        Self::Event(Box::new(event.into()))
    }

    fn out_of_turn(event: impl Into<Event>) -> Self {
        Self::OutOfTurn(Box::new(event.into()))
    }

    /// Converts any number of messages to one value.
    fn batch(mut all: Vec<Self>) -> Self {
        if all.len() == 1
            && let Some(only) = all.pop()
        {
            return only;
        }
        Self::Batch(all)
    }
}

/// An event of an unknown type; with `error`, an event that cannot be decoded.
fn unknown(kind: &str, payload: &str, error: Option<String>) -> Event {
    match error {
        Some(error) => Event::undecoded(kind, payload, error),
        None => Event::Unknown(UnknownEvent {
            kind: kind.to_owned(),
            payload: Json::from_text(payload),
            error: None,
            extra: Default::default(),
        }),
    }
}

/// An answer to a request of the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The answer to an approval request.
    Approval(Approval),
    /// The answers to questions; `None` dismisses them.
    Question(Option<Answers>),
    /// The result of a tool.
    Tool(ToolReturnValue),
    /// The decision of a hook.
    Hook(HookDecision),
    /// The text of a file; `None` if the file does not exist.
    ReadFile(Option<String>),
    /// The file was written.
    WriteFile,
    /// The result of a command. A terminal keeps it, and calls about the terminal return it.
    Terminal(TerminalResult),
}

/// Makes the error for a program that answers a call with a copy of it.
pub fn echo_error(speaks: &str, method: &str) -> String {
    format!(
        "the executable does not speak {speaks}: its answer to `{method}` is a copy of the request, as `cat` answers; \
         check that `executable` names an agent, with the arguments that it needs"
    )
}

/// The pending call that opens a session, in a process which may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpeningSession {
    /// The answer names the session.
    New,
    /// It resumes the session with this id.
    Resume(String),
}

impl OpeningSession {
    /// Returns the call for a session of these options. A fork is a new session.
    fn of(session_id: Option<&String>, fork_of: Option<&String>) -> Self {
        session_id.filter(|_| fork_of.is_none()).map_or(Self::New, |id| Self::Resume(id.clone()))
    }
}

/// The description of a tool call besides its name and its arguments: the newest, and the earlier ones that differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallDetails {
    /// The newest kind of the tool.
    pub kind: Option<ToolKind>,
    /// The newest paths that the agent names.
    pub locations: Vec<String>,
    /// The files of the newest changes that the agent shows.
    pub diffs: Vec<String>,
    /// Other kinds that the agent named before.
    pub earlier_kinds: Vec<ToolKind>,
    /// Other paths that the agent named before.
    pub earlier_locations: Vec<String>,
    /// Other files whose change the agent showed before.
    pub earlier_diffs: Vec<String>,
    /// The title of a request about a command, if it does not agree with the command.
    pub title: Option<String>,
    /// Hashes of all changes of files that the agent has shown.
    pub shown: Vec<u64>,
    /// How often the agent has replaced what it said about the call, also if it said the same as before in the end.
    pub replacements: u32,
    /// Whether the agent has sent more than is remembered.
    pub is_incomplete: bool,
    /// Whether the call is one of a subagent that works in another directory than the session.
    pub is_elsewhere: bool,
}

impl CallDetails {
    /// Whether the agent described the call differently before.
    pub fn is_changed(&self) -> bool {
        let earlier = [self.earlier_locations.is_empty(), self.earlier_diffs.is_empty(), self.earlier_kinds.is_empty()];
        earlier.contains(&false) || self.title.is_some() || self.is_incomplete
    }
}

/// The options of a permission request, for a program that passes the request on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferedOptions {
    /// The id of each option, and whether it allows something.
    pub options: Vec<(String, bool)>,
    /// Whether each id means one option, and each label says what its option does.
    pub are_clear: bool,
}

/// A protocol, as one session speaks it.
pub trait Dialect: Send + std::fmt::Debug {
    /// The name of the protocol in recordings.
    fn id(&self) -> &'static str {
        "wire"
    }

    /// The protocol's name, and the agents that speak it.
    fn protocol_name(&self) -> &'static str {
        "Wire (kimi-cli does from 0.52 to 1.51)"
    }

    /// The hint if the agent is silent, as the end of a sentence.
    fn silence_hint(&self) -> &'static str {
        "and set `dialect` if it speaks another protocol: \"acp\" for the Agent Client Protocol; \"1.0\" for kimi-cli up \
         to 0.79 and \"legacy\" with `yolo` for kimi-cli up to 0.58, which answer no handshake"
    }

    /// The hint if the program speaks another protocol, as the end of a sentence.
    fn other_protocol_hint(&self) -> &'static str {
        "or set `dialect` to \"acp\" if it speaks the Agent Client Protocol"
    }

    /// Whether the agent reports the begin of a turn.
    fn reports_turn_begin(&self) -> bool {
        true
    }

    /// Whether the agent reports the end of each step. If not, a turn is one step, and text after a tool result begins
    /// the text of the turn's result anew.
    fn reports_steps(&self) -> bool {
        true
    }

    /// Whether the agent writes records of a turn into a file, with more details than its messages.
    fn keeps_turn_records(&self) -> bool {
        false
    }

    /// Returns how long a turn waits for text of the agent after its answer, which ends the turn.
    fn late_text(&self) -> Option<std::time::Duration> {
        None
    }

    /// Whether the agent gets the program's tools only from an MCP server: [`InitializeParams::tools_server`].
    fn takes_tools_from_server(&self) -> bool {
        false
    }

    /// Returns the details of a call that its events do not have. Empty if the agent sends none.
    fn call_details(&self, _call_id: &str) -> CallDetails {
        CallDetails::default()
    }

    /// Returns the working directory of the session, if the agent can use files and terminals of the program.
    fn work_dir(&self) -> Option<&std::path::Path> {
        None
    }

    /// Whether a question can be answered with a text that is not one of its choices.
    fn accepts_free_answers(&self) -> bool {
        true
    }

    /// Returns the ways to log in that the agent offers.
    fn auth_methods(&self) -> Arc<Vec<AuthMethod>> {
        Arc::default()
    }

    /// Returns the way of the login that the agent has not answered yet.
    fn pending_login(&self) -> Option<&str> {
        None
    }

    /// Whether one process can have several sessions, which messages name.
    fn shares_processes(&self) -> bool {
        false
    }

    /// Sets the trace that the next prompts belong to, if the protocol passes it on.
    fn set_trace(&mut self, _trace: Option<&TraceContext>) {}

    /// Sets the first id of calls, if ids are numbers. No other connection of the process uses the ids that follow.
    fn set_first_id(&mut self, _first: u64) {}

    /// Returns the pending call that opens the session, if there is one.
    fn opening_session(&self) -> Option<OpeningSession> {
        None
    }

    /// Whether this is the session with this id, or the session of one of its subagents.
    fn has_session(&self, _session: &str) -> bool {
        false
    }

    /// Returns the options of an open permission request.
    fn offered_options(&self, _rpc_id: &str) -> Option<OfferedOptions> {
        None
    }

    /// Returns the ids of the open requests of the subagent with this session, and of the subagents below it. A call that
    /// cancels the subagent answers them.
    fn requests_of_subagent(&self, _session: &str) -> Vec<String> {
        Vec::new()
    }

    /// Returns the bytes of a message that cancels this call. Empty if the protocol has no such message.
    fn give_up(&mut self, _id: &str) -> Vec<u8> {
        Vec::new()
    }

    /// Ends what is open, because the connection leaves a process that continues. Returns the bytes of a cancel and of
    /// refusals.
    fn leave(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Returns the handshake's result for a protocol without a handshake.
    fn implicit_handshake(&mut self) -> Option<Handshake> {
        None
    }
    /// Returns the error for a call that this agent does not have.
    fn missing(&self, _call: &Call) -> Option<Error> {
        None
    }
    /// Encodes a call. The bytes must be written.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the protocol or the agent has no such call.
    fn call(&mut self, id: &str, call: &Call) -> Result<Vec<u8>>;
    /// Whether a line with a piece of text is at present read without the state of the dialect, and does not change it.
    fn is_text_stateless(&self) -> bool {
        false
    }
    /// Reads a message of the agent.
    fn read(&mut self, message: Message<'_>) -> Incoming;
    /// Reads a line.
    fn read_line(&mut self, line: &[u8]) -> Incoming {
        self.read(crate::jsonrpc::read(line, &mut None))
    }
    /// Encodes an answer. `request_id` is the request's own id, `rpc_id` is the id of its JSON-RPC message.
    fn answer(&mut self, rpc_id: &str, request_id: &str, answer: &Answer) -> Vec<u8>;
    /// Encodes an answer about a terminal.
    fn answer_terminal(&mut self, _rpc_id: &str, _answer: TerminalAnswer<'_>) -> Vec<u8> {
        Vec::new()
    }
    /// Encodes a refusal.
    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8>;
    /// Returns the next request of a handshake of several calls. `None` if [`Dialect::finish_handshake`] ends the
    /// handshake. `id` is the id of the call, which does not change.
    fn next_handshake_request(
        &mut self,
        _id: &str,
        _outcome: &std::result::Result<Json, RpcFailure>,
    ) -> Option<Vec<u8>> {
        None
    }
    /// Returns how much of the past of a session has come since the agent's answer about the session, while more may come. `None` in
    /// any other state.
    fn late_past(&self) -> Option<u64> {
        None
    }
    /// Ends the wait for the past. The pending call of the handshake gets no answer.
    fn end_past(&mut self) {}
    /// Reads the last answer to [`Call::Initialize`]. Then the dialect knows the agent's capabilities.
    ///
    /// # Errors
    /// [`Error::Handshake`] if the agent did not open the session, or the agent's error.
    fn finish_handshake(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake>;
    /// Returns the results of the tool calls that have shown output, but have not ended with the turn, and their sizes.
    /// `is_failure`: the turn has failed or was cancelled.
    fn unfinished_results(&mut self, _is_failure: bool) -> Vec<(Event, usize)> {
        Vec::new()
    }
    /// Forgets the tool calls of the turn, which has ended.
    fn forget_tool_calls(&mut self) {}
    /// Whether the agent has reported the end of the turn's events, but has not answered the prompt.
    fn is_turn_ending(&self) -> bool {
        false
    }
    /// Ends such a turn without the answer, which is overdue.
    fn end_overdue_turn(&mut self) -> Incoming {
        Incoming::Batch(Vec::new())
    }
    /// Returns the meaning of an error code in an answer to a call.
    fn map_error_code(&self, call: &Call, code: i64) -> RpcErrorKind;
    /// Returns the error for a call that the agent has refused.
    fn refused(&self, call: &Call, failure: RpcFailure) -> Error {
        self.failed(call, failure)
    }
    /// Returns the error for a refused call, based on the code alone.
    fn failed(&self, call: &Call, failure: RpcFailure) -> Error {
        Error::Rpc(RpcError::of_answer(self.map_error_code(call, failure.code), failure))
    }
}
