//! The Agent Client Protocol, version 1, as Kimi Code and others speak it: JSON-RPC 2.0, numbers for ids, and a session
//! that is opened after the handshake. Its messages' types come from the protocol's own crate; what is here says what
//! each of them means in canonical terms.
//!
//! What it lacks is not made up in silence: calls that it has not fail with `Unsupported`, the one step of a turn and the
//! turn's own ends are made here and marked `synthesized`.

mod content;
mod listing;
mod opening;
mod permission;
mod program;
#[cfg(test)]
mod tests;
mod tools;
mod updates;

use std::collections::HashMap;
use std::path::PathBuf;

use agent_client_protocol_schema::v1::{self as acp, StopReason};
use serde::Serialize;
use serde_json::json;

use super::{Answer, Call, Capabilities, Dialect, Handshake, Incoming, OpeningSession};
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::wire::jsonrpc::{self, Message, RpcFailure};
use crate::wire::value::object;
use crate::wire::{Event, Json, ServerInfo, StepBegin, ToolKind};
pub use listing::Listing;
use opening::{Modes, Stage};
use permission::Permission;
use program::Program;
use tools::Tools;

/// The code that ACP gives a request which was cancelled.
const CANCELLED: i64 = -32800;

/// What the session is to be, which ACP says after the handshake. Its `Debug` has no servers: their headers and
/// variables may be secrets.
#[derive(Clone, Default)]
pub struct SessionParams {
    /// An absolute path.
    pub work_dir: PathBuf,
    /// The session to go on with; a new one otherwise, whose name the agent makes.
    pub session_id: Option<String>,
    /// The session whose past a new one begins with.
    pub fork_of: Option<String>,
    pub model: Option<String>,
    pub thinking: Option<bool>,
    pub mcp_servers: Vec<acp::McpServer>,
}

impl std::fmt::Debug for SessionParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionParams")
            .field("work_dir", &self.work_dir)
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}

/// The Agent Client Protocol, as one session of an agent speaks it.
#[derive(Debug)]
pub struct Acp {
    params: SessionParams,
    stage: Stage,
    server: Option<ServerInfo>,
    agent: acp::AgentCapabilities,
    /// The names of the ways to log in that the agent knows.
    logins: Vec<String>,
    capabilities: Capabilities,
    session: Option<acp::SessionId>,
    modes: Modes,
    /// Our calls that await an answer, by the number that they were sent under.
    calls: HashMap<u64, Asked>,
    next_id: u64,
    /// The agent's open requests, by the text of their ids: the same numbers as ours, yet others.
    permissions: HashMap<String, Permission>,
    tools: Tools,
    /// The program's own tools.
    program: Option<Program>,
    prompting: bool,
    /// The turn's one step has begun.
    stepped: bool,
    /// The cancel that the prompt's answer will settle.
    cancelling: Option<String>,
}

/// A call of ours, as the connection and as we know it.
#[derive(Debug)]
struct Asked {
    /// The connection's id for it.
    id: String,
    prompt: bool,
}

impl Acp {
    pub fn new(params: SessionParams) -> Self {
        Self {
            params,
            stage: Stage::Greeting,
            server: None,
            agent: acp::AgentCapabilities::new(),
            logins: Vec::new(),
            capabilities: Capabilities::default(),
            session: None,
            modes: Modes::default(),
            calls: HashMap::new(),
            next_id: 0,
            permissions: HashMap::new(),
            tools: Tools::default(),
            program: None,
            prompting: false,
            stepped: false,
            cancelling: None,
        }
    }

    /// One whose session is open.
    #[cfg(any(test, fuzzing, feature = "measured"))]
    pub fn open(session: &str) -> Self {
        let params = SessionParams::default();
        Self {
            stage: Stage::Setting("", Default::default()),
            session: Some(acp::SessionId::new(session)),
            ..Self::new(params)
        }
    }

    fn unsupported(&self, feature: &str) -> Error {
        super::unsupported(self.server.as_ref(), opening::NAME, feature)
    }

    /// The bytes of a request of ours, whose answer will be told under the connection's `id`.
    fn request(&mut self, id: &str, method: &str, params: &impl Serialize) -> Vec<u8> {
        let number = self.next_id;
        self.next_id += 1;
        let prompt = method == "session/prompt";
        self.calls.insert(number, Asked { id: id.to_owned(), prompt });
        line(&json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
    }

    fn session(&self) -> Result<acp::SessionId> {
        self.session.clone().ok_or_else(|| Error::Internal("the agent has opened no session yet".to_owned()))
    }

    fn cancel(&mut self, id: &str) -> Result<Vec<u8>> {
        let params = acp::CancelNotification::new(self.session()?);
        let mut bytes = line(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
        // The agent may wait for these before it ends the turn.
        let mut open: Vec<_> = self.permissions.extract_if(|_, permission| permission.of_turn).collect();
        open.sort_by_key(|(_, permission)| permission.order);
        for (rpc_id, _) in open {
            bytes.extend(jsonrpc::answer(&rpc_id, &permission::cancelled()));
        }
        self.cancelling = Some(id.to_owned());
        Ok(bytes)
    }

    fn read_response(&mut self, id: Option<&str>, outcome: std::result::Result<Json, RpcFailure>) -> Incoming {
        let Some(id) = id else { return Incoming::Response { id: None, outcome } };
        let Some(asked) = id.parse().ok().and_then(|number: u64| self.calls.remove(&number)) else {
            // Not under its own id, which may be what the connection calls one of its calls.
            return Incoming::InvalidLine("an answer to no call".to_owned());
        };
        if !asked.prompt {
            return Incoming::Response { id: Some(asked.id), outcome };
        }
        let outcome = outcome.and_then(|answer| stopped(&answer));
        let mut all = Vec::new();
        if outcome.is_ok() && self.cancelling.is_none() {
            self.begin_step(&mut all);
        }
        self.end_turn();
        if let Some(cancel) = self.cancelling.take() {
            all.push(Incoming::Response { id: Some(cancel), outcome: Ok(Json::from(json!({}))) });
        }
        all.push(Incoming::Response { id: Some(asked.id), outcome });
        Incoming::batch(all)
    }

    fn begin_turn(&mut self) {
        self.prompting = true;
        self.stepped = false;
        self.tools.clear();
    }

    fn end_turn(&mut self) {
        self.prompting = false;
        self.permissions.retain(|_, permission| !permission.of_turn);
        self.tools.clear();
    }

    /// A turn has one step here, since the agent does not tell where one ends.
    fn begin_step(&mut self, events: &mut Vec<Incoming>) {
        if self.prompting && !self.stepped {
            self.stepped = true;
            let mut step = StepBegin { n: 1, extra: Default::default() };
            step.extra.insert("synthesized", json!(true));
            events.push(Incoming::event(step));
        }
    }

    fn is_ours(&self, session: &str) -> bool {
        // Until the agent has named it, there is no other.
        self.session.as_ref().is_none_or(|ours| &*ours.0 == session)
    }
}

/// One line with its end.
fn line(message: &serde_json::Value) -> Vec<u8> {
    let mut bytes = message.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// How a turn ended, in canonical words.
fn stopped(answer: &Json) -> std::result::Result<Json, RpcFailure> {
    let status = match object::<acp::PromptResponse>(answer.get()).map(|answer| answer.stop_reason) {
        // What the model could not finish for want of room is all that there is.
        Ok(StopReason::EndTurn | StopReason::MaxTokens) => "finished",
        Ok(StopReason::MaxTurnRequests) => "max_steps_reached",
        Ok(StopReason::Cancelled) => "cancelled",
        Ok(StopReason::Refusal) => {
            let message = "the turn was refused: by the model's provider, or by a hook of the agent's".to_owned();
            return Err(RpcFailure { code: 0, message, data: Some(answer.clone()) });
        }
        // The connection says what is wrong with it.
        _ => return Ok(answer.clone()),
    };
    Ok(Json::from(json!({"status": status})))
}

impl Incoming {
    /// One or none or many.
    fn batch(mut all: Vec<Self>) -> Self {
        if all.len() == 1
            && let Some(only) = all.pop()
        {
            return only;
        }
        Self::Batch(all)
    }
}

impl Dialect for Acp {
    fn protocol_name(&self) -> &'static str {
        "the Agent Client Protocol (Kimi Code does as `kimi acp`)"
    }

    fn silence_hint(&self) -> &'static str {
        "check that it is logged in, and that `executable` has the arguments that it needs to speak the protocol"
    }

    fn other_protocol_hint(&self) -> &'static str {
        "with the arguments that it needs to speak the protocol, or set `dialect` to \"auto\" if it speaks Wire"
    }

    fn reports_turn_begin(&self) -> bool {
        false
    }

    fn reports_steps(&self) -> bool {
        false
    }

    fn takes_tools_from_server(&self) -> bool {
        true
    }

    fn tool_kind(&self, call_id: &str) -> Option<ToolKind> {
        self.tools.kind(call_id)
    }

    fn shares_processes(&self) -> bool {
        true
    }

    fn set_first_id(&mut self, first: u64) {
        self.next_id = first;
    }

    fn opening_session(&self) -> Option<OpeningSession> {
        if !matches!(self.stage, Stage::Session) {
            return None;
        }
        let resumed = self.params.session_id.as_ref().filter(|_| self.params.fork_of.is_none());
        Some(resumed.map_or(OpeningSession::New, |id| OpeningSession::Resume(id.clone())))
    }

    fn leave(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(session) = self.session.as_ref().filter(|_| self.prompting) {
            bytes
                .extend(line(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})));
        }
        let mut open: Vec<_> = self.permissions.drain().collect();
        open.sort_by_key(|(_, permission)| permission.order);
        for (rpc_id, _) in open {
            let failure = RpcFailure { code: CANCELLED, message: "the session is closed".to_owned(), data: None };
            bytes.extend(jsonrpc::refusal(&rpc_id, &failure));
        }
        bytes
    }

    /// A question is a list of options, of which one can be selected.
    fn accepts_free_answers(&self) -> bool {
        false
    }

    fn call(&mut self, id: &str, call: &Call) -> Result<Vec<u8>> {
        match call {
            Call::Initialize(hello) => {
                self.program = hello.tools_server.clone().map(|server| Program::new(server, &hello.tools));
                let params = opening::initialize_request(hello);
                Ok(self.request(id, "initialize", &params))
            }
            Call::Prompt(input) => {
                let blocks = content::prompt(input, &self.agent.prompt_capabilities)
                    .map_err(|what| self.unsupported(&format!("prompts with {what}")))?;
                let params = acp::PromptRequest::new(self.session()?, blocks);
                self.begin_turn();
                Ok(self.request(id, "session/prompt", &params))
            }
            Call::Cancel => self.cancel(id),
            Call::SetPlanMode(on) => {
                let Some(mode) = self.modes.for_plan(*on) else { return Err(self.unsupported(call.name())) };
                let (method, params) = self.modes.switch(&self.session()?, mode);
                Ok(self.request(id, method, &params))
            }
            Call::Steer(_) | Call::Replay => Err(self.unsupported(call.name())),
        }
    }

    fn read(&mut self, message: Message<'_>) -> Incoming {
        match message {
            Message::Notification { method, params } if method == "session/update" => self.read_update(&params),
            Message::Notification { method, .. } => {
                Incoming::InvalidLine(format!("an unknown notification `{method}`"))
            }
            Message::Request { id, method, params } if method == "session/request_permission" => {
                self.read_permission(id, &params)
            }
            Message::Request { id, method, params } => {
                Incoming::UnknownMethod { rpc_id: id.to_owned(), method: method.into_owned(), params: params.to_json() }
            }
            Message::Response { id, outcome } => self.read_response(id.as_deref(), outcome.map(Json::from_raw)),
            Message::Invalid(reason) => Incoming::InvalidLine(reason),
        }
    }

    fn answer(&mut self, rpc_id: &str, _request_id: &str, answer: &Answer) -> Vec<u8> {
        // A request that is not open any more must not be granted.
        let outcome = match self.permissions.remove(rpc_id) {
            Some(permission) if self.cancelling.is_none() || !permission.of_turn => permission.outcome(answer),
            _ => permission::cancelled(),
        };
        jsonrpc::answer(rpc_id, &outcome)
    }

    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8> {
        self.permissions.remove(rpc_id);
        jsonrpc::refusal(rpc_id, &RpcFailure { code, message: message.to_owned(), data: None })
    }

    fn next_handshake_request(&mut self, id: &str, outcome: &std::result::Result<Json, RpcFailure>) -> Option<Vec<u8>> {
        self.next_of_opening(id, outcome)
    }

    fn finish_handshake(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake> {
        self.opened(outcome)
    }

    fn map_error_code(&self, _call: &Call, code: i64) -> RpcErrorKind {
        match code {
            -32000 => RpcErrorKind::AuthExpired,
            _ => RpcErrorKind::Other,
        }
    }

    fn refused(&self, call: &Call, failure: RpcFailure) -> Error {
        match (failure.code, call) {
            (-32600, Call::Prompt(_)) if busy(&failure) => Error::Rpc(RpcError {
                kind: RpcErrorKind::TurnInProgress,
                rpc_code: Some(failure.code),
                message: failure.message,
                data: failure.data,
                hint: None,
            }),
            _ => self.failed(call, failure),
        }
    }
}

fn busy(failure: &RpcFailure) -> bool {
    #[derive(serde::Deserialize)]
    struct Data {
        code: String,
    }
    let data = failure.data.as_ref().and_then(|data| data.decode::<Data>().ok());
    data.is_some_and(|data| data.code == "turn.agent_busy")
}

fn unknown(kind: &str, payload: &str, error: Option<String>) -> Event {
    match error {
        Some(error) => Event::undecoded(kind, payload, error),
        None => Event::Unknown(crate::wire::UnknownEvent {
            kind: kind.to_owned(),
            payload: Json::from_text(payload),
            error: None,
            extra: Default::default(),
        }),
    }
}
