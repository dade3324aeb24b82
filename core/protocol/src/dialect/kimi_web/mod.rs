//! Kimi Code's own server (`kimi web`), behind the gateway, which converts calls of REST and frames of the WebSocket to
//! JSON-RPC messages. The dialect opens the session, subscribes to its events with a cursor, and converts frames to
//! canonical messages.
//!
//! - `opening`: from the first call to the session's first event.
//! - `calls`: prompts, steering, cancelling, settings, undo, uploads.
//! - `frames`: the envelope of a frame. `events`: the meaning of a frame. `ends`: the end of a turn. `tools`: tool calls. `usage`: tokens. `requests`: approvals and questions. `questions`: the
//!   texts and choices of questions. `members`: ids and texts in several forms.
//! - `agents`: how far each agent is, and the events of subagents. `content`: the contents of prompts and outputs.
//! - `cursors`: which frames have been seen, and what to do once a lost connection is there again.
//! - `transcript`: the past, for a `replay` and for what was lost. `pages`: the server's answers as types.
//! - `listing`: the sessions that the server keeps.

mod agents;
mod calls;
mod content;
mod cursors;
mod ends;
mod events;
mod frames;
mod listing;
mod members;
mod opening;
mod pages;
mod questions;
mod replay;
mod requests;
#[cfg(test)]
mod tests;
mod tools;
mod transcript;
mod usage;

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;

use super::pending::PendingCalls;
use super::{Answer, Call, Dialect, Handshake, Incoming, OpeningSession, unknown};
use crate::error::{Error, Result, RpcErrorKind};
use crate::jsonrpc::{self, Message, RpcFailure};
use crate::messages::{Json, ServerInfo, SlashCommand};
use agents::Agents;
use calls::{Outgoing, Prompt};
use cursors::{Cursor, Fill, Resync};
pub use listing::{KimiWebListing, deleted as kimi_web_deleted, deletion as kimi_web_deletion};
use opening::Stage;
use replay::Replay;
use requests::Pending;
use usage::Told;

/// The name of the protocol for `protocol_version`. The number is the version of the WebSocket's protocol.
pub(super) const NAME: &str = "kimi-web-2";
/// The name of the main agent. Subagents have other names.
const MAIN: &str = "main";

/// The options of a session with Kimi Code's server.
#[derive(Clone, Debug, Default)]
pub struct KimiWebParams {
    /// An absolute path.
    pub work_dir: PathBuf,
    /// The session to continue. `None`: a new session, whose id the server makes.
    pub session_id: Option<String>,
    /// The session that is forked.
    pub fork_of: Option<String>,
    /// The model. `None`: the model of the session, or the default of the configuration.
    pub model: Option<String>,
    /// The option `thinking`.
    pub thinking: Option<bool>,
    /// A text that is unique among all sessions of all processes. The ids of prompts begin with it.
    pub nonce: String,
}

/// Kimi Code's server, as one session uses it.
#[derive(Debug)]
pub struct KimiWeb {
    params: KimiWebParams,
    stage: Stage,
    server: Option<ServerInfo>,
    session: Option<String>,
    /// The commands in the handshake's result.
    commands: Vec<SlashCommand>,
    /// The names of the skills, which can follow a slash at the beginning of a prompt.
    skills: Vec<String>,
    calls: PendingCalls<Asked>,
    /// The number of prompts that have an id.
    prompts: u64,
    prompt: Option<Box<Prompt>>,
    /// Steers that are being sent.
    steers: Vec<Outgoing>,
    /// The session's prompts whose turns must be stopped.
    orphans: Vec<String>,
    agents: Agents,
    requests: HashMap<String, Pending>,
    told: Told,
    cursor: Cursor,
    resync: Option<Box<Resync>>,
    /// The texts of steps that are recovered.
    fill: Option<Box<Fill>>,
    replay: Option<Replay>,
}

/// The purpose of a pending call.
#[derive(Debug)]
enum Asked {
    /// A call of the opening, under the connection's id.
    Opening(String),
    /// The connection's own call, with this id.
    Plain(String),
    /// The prompt, or the activation of the skill.
    Prompt,
    /// An upload of a file for the prompt or for a steer: its position, and the id of the message.
    Upload { of: String, at: usize },
    /// A steer, sent as a waiting prompt with this id.
    Queued(String),
    /// The call that moves this prompt to the running turn.
    Steered(String),
    /// A cancel of the prompt, under the connection's id.
    Cancel(String),
    /// A page of the replay.
    Replay,
    /// A call of the recovery from a lost connection.
    Resync(u32),
    /// No caller waits for it: it answers a request of the agent, or ends something.
    Aside(&'static str),
}

impl KimiWeb {
    /// Makes the dialect of one session.
    pub fn new(params: KimiWebParams) -> Self {
        Self {
            params,
            stage: Stage::Greeting,
            server: None,
            session: None,
            commands: Vec::new(),
            skills: Vec::new(),
            calls: PendingCalls::default(),
            prompts: 0,
            prompt: None,
            steers: Vec::new(),
            orphans: Vec::new(),
            agents: Agents::default(),
            requests: HashMap::new(),
            told: Told::default(),
            cursor: Cursor::default(),
            resync: None,
            fill: None,
            replay: None,
        }
    }

    /// Makes a dialect whose session is open.
    #[cfg(any(test, fuzzing, feature = "measured"))]
    pub fn open(session: &str) -> Self {
        let params = KimiWebParams { nonce: "p".to_owned(), ..KimiWebParams::default() };
        Self { stage: Stage::Open, session: Some(session.to_owned()), ..Self::new(params) }
    }

    fn unsupported(&self, feature: &str) -> Error {
        super::unsupported(self.server.as_ref(), NAME, feature)
    }

    /// Returns the bytes of a call with parameters.
    fn request(&mut self, asked: Asked, method: &str, params: &impl Serialize) -> Vec<u8> {
        let number = self.calls.add(asked);
        jsonrpc::numbered_request(number, method, params)
    }

    /// Returns the bytes of a call without parameters.
    fn get(&mut self, asked: Asked, path: &str) -> Vec<u8> {
        let number = self.calls.add(asked);
        jsonrpc::bare_request(number, &format!("GET /api/v1{path}"))
    }

    /// Returns the bytes of a POST call.
    fn post(&mut self, asked: Asked, path: &str, body: &impl Serialize) -> Vec<u8> {
        self.request(asked, &format!("POST /api/v1{path}"), body)
    }

    /// Returns the path of the session, or of a resource in it.
    fn path(&self, rest: &str) -> Result<String> {
        let session =
            self.session.as_ref().ok_or_else(|| Error::Internal("the server has no session yet".to_owned()))?;
        Ok(format!("/sessions/{}{rest}", segment(session)))
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    fn is_ours(&self, session: &str) -> bool {
        self.session.as_ref().is_some_and(|ours| ours == session)
    }

    fn read_response(&mut self, id: Option<&str>, outcome: std::result::Result<Json, RpcFailure>) -> Incoming {
        let Some(id) = id else { return Incoming::Response { id: None, outcome } };
        let Some(asked) = self.calls.take(id) else {
            // Without the original id, which may equal an id of the connection's calls.
            return Incoming::InvalidLine("an answer to no call".to_owned());
        };
        let mut all = Vec::new();
        match asked {
            Asked::Opening(id) | Asked::Plain(id) => return Incoming::Response { id: Some(id), outcome },
            Asked::Prompt => self.prompt_accepted(outcome, &mut all),
            Asked::Upload { of, at } => self.uploaded(&of, at, outcome, &mut all),
            Asked::Queued(prompt) => self.steer_queued(&prompt, outcome, &mut all),
            Asked::Steered(prompt) => self.steered(&prompt, outcome, &mut all),
            Asked::Cancel(id) => self.cancel_answered(id, outcome, &mut all),
            Asked::Replay => self.replayed_page(outcome, &mut all),
            Asked::Resync(attempt) => self.resync_answered(attempt, outcome, &mut all),
            Asked::Aside(what) => {
                if let Err(failure) = outcome {
                    tracing::debug!(what, code = failure.code, message = failure.message, "a call was refused");
                }
            }
        }
        Incoming::batch(all)
    }
}

/// Escapes a part of a path.
fn segment(text: &str) -> String {
    use std::fmt::Write as _;
    let is_dots = text.bytes().all(|byte| byte == b'.');
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => written.push(char::from(byte)),
            b'.' if !is_dots => written.push('.'),
            // Writing to a string cannot fail.
            _ => drop(write!(written, "%{byte:02X}")),
        }
    }
    written
}

/// Makes a failure without a code of the server.
fn failure(code: i64, message: impl Into<String>) -> RpcFailure {
    RpcFailure { code, message: message.into(), data: None }
}

impl Dialect for KimiWeb {
    fn id(&self) -> &'static str {
        "kimi-web"
    }

    fn protocol_name(&self) -> &'static str {
        "the API of Kimi Code's server (Kimi Code does as `kimi web`)"
    }

    fn silence_hint(&self) -> &'static str {
        "check that `executable` names Kimi Code, and that it starts with `kimi web --no-open`"
    }

    fn other_protocol_hint(&self) -> &'static str {
        "or set `dialect` to \"auto\", as only Kimi Code has this server"
    }

    fn shares_processes(&self) -> bool {
        true
    }

    fn set_first_id(&mut self, first: u64) {
        self.calls.set_next(first);
    }

    fn opening_session(&self) -> Option<OpeningSession> {
        self.opening()
    }

    fn leave(&mut self) -> Vec<u8> {
        self.end_all()
    }

    fn call(&mut self, id: &str, call: &Call) -> Result<Vec<u8>> {
        match call {
            Call::Initialize(_) => Ok(self.get(Asked::Opening(id.to_owned()), "/meta")),
            Call::Prompt(input) => self.send_prompt(id, input),
            Call::Cancel => self.cancel(id),
            Call::Steer(input) => self.steer(id, input),
            Call::SetPlanMode(on) => {
                let (path, asked) = (self.path("/profile")?, Asked::Plain(id.to_owned()));
                Ok(self.post(asked, &path, &json!({"agent_config": {"plan_mode": on}})))
            }
            Call::SetConfigOption { .. } | Call::CancelSubagent(_) => {
                Err(super::unsupported(self.server.as_ref(), NAME, call.name()))
            }
            Call::Replay => self.begin_replay(id),
            Call::Undo(count) => {
                let (path, asked) = (self.path(":undo")?, Asked::Plain(id.to_owned()));
                Ok(self.post(asked, &path, &json!({"count": count})))
            }
        }
    }

    fn read(&mut self, message: Message<'_>) -> Incoming {
        match message {
            Message::Notification { method, .. } if method == cursors::CONNECTED => self.connected(),
            Message::Notification { method, params } => self.read_frame(&method, &params),
            Message::Request { id, method, params } => {
                Incoming::UnknownMethod { rpc_id: id.to_owned(), method: method.into_owned(), params: params.to_json() }
            }
            Message::Response { id, outcome } => self.read_response(id.as_deref(), outcome.map(Json::from_raw)),
            Message::Invalid(reason) => Incoming::InvalidLine(reason),
        }
    }

    fn answer(&mut self, rpc_id: &str, _request_id: &str, answer: &Answer) -> Vec<u8> {
        self.answer_request(rpc_id, answer)
    }

    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8> {
        if self.requests.contains_key(rpc_id) {
            return self.answer_request(rpc_id, &Answer::Question(None));
        }
        jsonrpc::refusal(rpc_id, &failure(code, message))
    }

    fn next_handshake_request(&mut self, id: &str, outcome: &std::result::Result<Json, RpcFailure>) -> Option<Vec<u8>> {
        self.next_of_opening(id, outcome)
    }

    fn finish_handshake(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake> {
        self.opened(outcome)
    }

    fn is_turn_ending(&self) -> bool {
        self.is_prompt_ending()
    }

    fn end_overdue_turn(&mut self) -> Incoming {
        let mut all = Vec::new();
        self.end_overdue_prompt(&mut all);
        Incoming::batch(all)
    }

    fn refused(&self, call: &Call, failure: RpcFailure) -> Error {
        let is_without_model = failure.code == calls::MODEL_NOT_SET;
        let mut error = self.failed(call, failure);
        if let Error::Rpc(error) = &mut error {
            if is_without_model {
                error.hint = Some(opening::NO_MODEL.into());
            }
            // The server gives no code that says it.
            if matches!(call, Call::Prompt(_))
                && error.rpc_code.is_none()
                && let Some(kind) = error.kind_of_service()
            {
                error.kind = kind;
            }
        }
        error
    }

    fn map_error_code(&self, call: &Call, code: i64) -> RpcErrorKind {
        match (code, call) {
            (calls::MODEL_NOT_SET, _) => RpcErrorKind::LlmNotSet,
            (calls::MODEL_FAILED, _) => RpcErrorKind::LlmServiceError,
            (calls::NOT_LOGGED_IN, _) => RpcErrorKind::AuthExpired,
            (calls::NO_PROMPT | calls::PROMPT_DONE, Call::Cancel | Call::Steer(_)) => RpcErrorKind::NoActiveTurn,
            _ => RpcErrorKind::Other,
        }
    }
}

#[cfg(test)]
mod path_tests {
    use super::segment;

    #[test]
    fn path_segments_are_percent_encoded() {
        assert_eq!(segment("session_6cf9-ab.c~"), "session_6cf9-ab.c~");
        assert_eq!(segment("a/../b?c#d%2F:e é"), "a%2F..%2Fb%3Fc%23d%252F%3Ae%20%C3%A9");
        assert_eq!((segment("."), segment("..")), ("%2E".to_owned(), "%2E%2E".to_owned()));
    }
}
