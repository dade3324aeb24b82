//! The Agent Client Protocol (ACP), version 1, as Kimi Code and others speak it: JSON-RPC 2.0 with numbers as ids, and
//! a session that is opened after the handshake. The types of its messages are those of the crate of the protocol; this
//! module converts them to canonical messages.
//!
//! Features that ACP lacks are visible: their calls fail with `Unsupported`. The begin and the end of a turn and its
//! only step are made here, and marked `synthesized`.

mod config;
mod content;
mod failure;
mod form;
mod late;
mod left_out;
mod listing;
mod login;
mod meta;
mod one_off;
mod opening;
mod params;
mod permission;
mod pieces;
mod plan;
mod program;
mod requests;
mod responses;
mod services;
mod steering;
mod stored;
mod subagents;
#[cfg(test)]
mod tests;
mod tools;
mod unreadable;
mod updates;
mod usage;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::v1 as acp;
use serde::Serialize;
use serde_json::json;

use super::pending::PendingCalls;
use super::{
    Answer, Call, CallDetails, Capabilities, Dialect, Handshake, Incoming, OfferedOptions, OpeningSession, Services,
    TerminalAnswer, unknown,
};
use crate::error::{Error, Result, RpcError, RpcErrorKind, local_error};
use crate::jsonrpc::{self, Message, RpcFailure};
use crate::messages::{Event, Json, ServerInfo, StepBegin};
use crate::telemetry::TraceContext;
use config::Config;
pub use listing::Listing;
pub use login::{AuthMethod, Login, LoginWay, login_question, login_ways};
use opening::{Offers, Stage, UNAUTHORISED};
pub use params::{SessionParams, SystemPrompt};
use pieces::Pieces;
use program::Program;
use requests::{Asks, OpenRequest, request_id};
use responses::Asked;
pub use stored::{StoredCall, StoredChange};
use subagents::Children;
use tools::Tools;

/// The code of a cancelled request in ACP.
const CANCELLED: i64 = -32800;
const METHOD_NOT_FOUND: i64 = -32601;
/// The approximate size of a piece of text in memory, in bytes.
const PIECE: usize = 256;

/// The Agent Client Protocol, as one session of an agent speaks it.
#[derive(Debug)]
pub struct Acp {
    params: SessionParams,
    stage: Stage,
    /// Whether the session is opened by `session/load`.
    loads: bool,
    /// Whether a part of the past has come before the answer to `session/load`.
    has_past: bool,
    /// The number of the probe for the end of the past, if its answer is not awaited any more.
    given_up: Option<u64>,
    /// The mode that the agent has entered before its answer about the session.
    early_mode: Option<Box<str>>,
    server: Option<ServerInfo>,
    offers: Offers,
    /// The ways to log in that the agent offers.
    auth_methods: Arc<Vec<AuthMethod>>,
    /// The login for when the agent asks for it, until the session is open.
    login: Option<Box<login::PreparedLogin>>,
    /// What the program can change if the agent asks for a login and gets none.
    login_advice: Option<Box<str>>,
    capabilities: Capabilities,
    session: Option<acp::SessionId>,
    config: Config,
    calls: PendingCalls<Asked>,
    /// The agent's open requests, by the text of their ids. An equal number in one of our calls has another meaning.
    open: HashMap<String, OpenRequest>,
    tools: Tools,
    pieces: Box<Pieces>,
    /// The program's own tools.
    program: Option<Program>,
    /// The handlers of files and terminals that were offered.
    services: Services,
    prompting: bool,
    /// The number of turns so far.
    turns: u64,
    /// The number of steps of the turn. A turn has one step, and one more after each steer.
    steps: i64,
    /// Whether the current step has begun.
    stepped: bool,
    /// The fields that the log names as left out.
    left_out: Option<Box<left_out::LeftOut>>,
    /// Whether the turn's tokens were reported while it ran.
    counted: bool,
    /// The tokens of the turns so far, if the agent counts those of the session.
    counted_before: usage::Counts,
    /// The trace of the turn, for the metadata of prompts.
    trace: Option<Box<TraceContext>>,
    /// The subagents, once there is one.
    children: Option<Box<Children>>,
    /// The agent's id of the running compaction.
    compaction: Option<String>,
    /// The text of the failure that the agent has reported during the turn.
    failure: Option<String>,
    /// The error that an update has reported, until the agent continues.
    agent_error: Option<Box<RpcFailure>>,
    /// The pending cancel, which the answer to the prompt completes.
    cancelling: Option<String>,
    /// Whether the log says that a request has no id.
    has_warned_of_id: bool,
    /// Whether another program has opened the session, and speaks with the agent.
    is_observed: bool,
}

impl Acp {
    /// Makes the dialect of one session.
    pub fn new(params: SessionParams) -> Self {
        Self {
            params,
            stage: Stage::Greeting,
            loads: false,
            has_past: false,
            given_up: None,
            early_mode: None,
            server: None,
            offers: Offers::default(),
            auth_methods: Arc::default(),
            login: None,
            login_advice: None,
            capabilities: Capabilities::default(),
            session: None,
            config: Config::default(),
            calls: PendingCalls::default(),
            open: HashMap::new(),
            tools: Tools::default(),
            pieces: Box::default(),
            program: None,
            services: Services::default(),
            prompting: false,
            turns: 0,
            steps: 0,
            stepped: false,
            left_out: None,
            counted: false,
            counted_before: usage::Counts::default(),
            trace: None,
            children: None,
            compaction: None,
            failure: None,
            agent_error: None,
            cancelling: None,
            has_warned_of_id: false,
            is_observed: false,
        }
    }

    /// Makes the dialect of a session that another program has opened, in this directory.
    pub fn observing(session: &str, work_dir: PathBuf, server: Option<ServerInfo>) -> Self {
        let params = SessionParams { work_dir, ..SessionParams::default() };
        Self {
            stage: Stage::Setting("", Default::default()),
            session: Some(acp::SessionId::new(session)),
            services: Services { read_file: true, write_file: true, terminal: true },
            server,
            is_observed: true,
            ..Self::new(params)
        }
    }

    /// Makes a dialect whose session is open.
    #[cfg(any(test, fuzzing, feature = "measured"))]
    pub fn open(session: &str) -> Self {
        let params = SessionParams::default();
        Self {
            stage: Stage::Setting("", Default::default()),
            session: Some(acp::SessionId::new(session)),
            services: Services { read_file: true, write_file: true, terminal: true },
            ..Self::new(params)
        }
    }

    fn unsupported(&self, feature: &str) -> Error {
        super::unsupported(self.server.as_ref(), opening::NAME, feature)
    }

    /// Returns the bytes of a request, whose answer is reported under the connection's `id`.
    fn request(&mut self, id: &str, method: &str, params: &impl Serialize) -> Vec<u8> {
        let prompt = method == "session/prompt";
        self.send_call(method, params, Asked { prompt, ..Asked::of(id) })
    }

    fn send_call(&mut self, method: &str, params: &impl Serialize, asked: Asked) -> Vec<u8> {
        let number = self.calls.add(asked);
        jsonrpc::numbered_request(number, method, params)
    }

    fn session(&self) -> Result<acp::SessionId> {
        self.session.clone().ok_or_else(|| Error::Internal("the agent has opened no session yet".to_owned()))
    }

    fn cancel(&mut self, id: &str) -> Result<Vec<u8>> {
        let params = acp::CancelNotification::new(self.session()?);
        let mut bytes = jsonrpc::notification("session/cancel", &params);
        // The agent may wait for these answers before it ends the turn.
        let mut open: Vec<_> = self.open.extract_if(|_, request| request.of_turn).collect();
        open.sort_by_key(|(_, request)| request.order);
        for (rpc_id, request) in open {
            bytes.extend(request.cancelled(&rpc_id));
        }
        self.cancelling = Some(id.to_owned());
        Ok(bytes)
    }

    fn begin_turn(&mut self) {
        self.prompting = true;
        self.turns += 1;
        self.steps = 0;
        self.stepped = false;
        self.counted = false;
        self.failure = None;
        self.agent_error = None;
        self.begin_pieces();
        self.tools.clear();
        self.tools.set_aside();
        if !self.is_subagent() {
            self.tools.begin_turn();
        }
    }

    /// The connection asks for the results of open tool calls afterwards.
    fn end_turn(&mut self) {
        self.prompting = false;
        self.open.retain(|_, request| !request.of_turn);
    }

    /// Begins the turn's next step, since the agent does not report where a step ends.
    fn begin_step(&mut self, events: &mut Vec<Incoming>) {
        if self.prompting && !self.stepped {
            self.stepped = true;
            self.steps += 1;
            let mut step = StepBegin { n: self.steps, extra: Default::default() };
            step.extra.insert("synthesized", json!(true));
            events.push(Incoming::event(step));
        }
    }

    fn is_ours(&self, session: &str) -> bool {
        // Before the agent has sent its id, no other session exists.
        self.session.as_ref().is_none_or(|ours| &*ours.0 == session)
    }
}

/// The metadata of a prompt with the trace that it belongs to, in the fields that ACP reserves for it.
fn trace_meta(trace: &TraceContext) -> acp::Meta {
    trace.headers().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

impl Dialect for Acp {
    fn id(&self) -> &'static str {
        "acp"
    }

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

    fn unfinished_results(&mut self, is_failure: bool) -> Vec<(Event, usize)> {
        let waiting = self.take_waiting().into_iter().map(|piece| (piece, PIECE));
        waiting.chain(self.tools.unfinished(is_failure)).collect()
    }

    fn forget_tool_calls(&mut self) {
        self.tools.clear();
    }

    fn keeps_turn_records(&self) -> bool {
        super::is_kimi_code(self.server.as_ref())
    }

    fn late_text(&self) -> Option<Duration> {
        late::grace(self.server.as_ref().filter(|_| !self.is_observed)?)
    }

    fn implicit_handshake(&mut self) -> Option<Handshake> {
        let session = self.session.as_ref().filter(|_| self.is_observed)?;
        Some(Handshake {
            protocol_version: opening::NAME.to_owned(),
            server: self.server.clone(),
            session_id: Some(session.0.to_string()),
            ..Handshake::default()
        })
    }

    fn has_session(&self, session: &str) -> bool {
        self.session.as_ref().is_some_and(|ours| &*ours.0 == session) || self.child_with(session).is_some()
    }

    fn offered_options(&self, rpc_id: &str) -> Option<OfferedOptions> {
        match &self.open.get(rpc_id)?.asks {
            Asks::Permission(permission) => Some(permission.offered()),
            _ => None,
        }
    }

    fn takes_tools_from_server(&self) -> bool {
        true
    }

    fn call_details(&self, call_id: &str) -> CallDetails {
        self.details_in_children(call_id).unwrap_or_else(|| self.tools.details(call_id))
    }

    fn work_dir(&self) -> Option<&std::path::Path> {
        Some(&self.params.work_dir)
    }

    fn shares_processes(&self) -> bool {
        true
    }

    fn set_trace(&mut self, trace: Option<&TraceContext>) {
        self.trace = trace.filter(|trace| trace.traceparent.is_some()).cloned().map(Box::new);
    }

    fn set_first_id(&mut self, first: u64) {
        self.calls.set_next(first);
    }

    fn opening_session(&self) -> Option<OpeningSession> {
        let SessionParams { session_id, fork_of, .. } = &self.params;
        matches!(self.stage, Stage::Session).then(|| OpeningSession::of(session_id.as_ref(), fork_of.as_ref()))
    }

    fn requests_of_subagent(&self, session: &str) -> Vec<String> {
        let asked = self.child(session).into_iter().flat_map(|child| &child.asked);
        asked.filter(|rpc_id| self.open.contains_key(*rpc_id)).cloned().collect()
    }

    fn give_up(&mut self, id: &str) -> Vec<u8> {
        let number = self.calls.number(|asked| asked.id == id);
        let bytes = number.map(|number| jsonrpc::notification("$/cancel_request", &json!({"requestId": number})));
        bytes.unwrap_or_default()
    }

    fn leave(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Stage::Login(_) = self.stage
            && let Some(number) = self.calls.number(|_| true)
        {
            bytes.extend(jsonrpc::notification("$/cancel_request", &json!({"requestId": number})));
        }
        if let Some(session) = self.session.as_ref().filter(|_| self.prompting) {
            bytes.extend(jsonrpc::notification("session/cancel", &json!({"sessionId": session})));
        }
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_by_key(|(_, request)| request.order);
        for (rpc_id, _) in open {
            let failure = RpcFailure { code: CANCELLED, message: "the session is closed".to_owned(), data: None };
            bytes.extend(jsonrpc::refusal(&rpc_id, &failure));
        }
        bytes
    }

    /// A question is a list of options, from which one can be selected.
    fn accepts_free_answers(&self) -> bool {
        false
    }

    fn auth_methods(&self) -> Arc<Vec<AuthMethod>> {
        Arc::clone(&self.auth_methods)
    }

    fn pending_login(&self) -> Option<&str> {
        match &self.stage {
            Stage::Login(login) => Some(&login.way),
            _ => None,
        }
    }

    fn missing(&self, call: &Call) -> Option<Error> {
        let has = match call {
            Call::SetPlanMode(on) => self.config.for_plan(*on).is_some(),
            Call::SetConfigOption { .. } => !self.config.options().is_empty(),
            _ => self.capabilities.has(call),
        };
        (!has).then(|| self.unsupported(call.name()))
    }

    fn call(&mut self, id: &str, call: &Call) -> Result<Vec<u8>> {
        match call {
            Call::Initialize(hello) => {
                self.program = hello.tools_server.clone().map(|server| Program::new(server, &hello.tools));
                self.services = hello.services;
                let params = opening::initialize_request(hello);
                Ok(self.request(id, "initialize", &params))
            }
            Call::Prompt(input) => {
                let blocks = content::prompt(input, &self.offers.prompt)
                    .map_err(|what| self.unsupported(&format!("prompts with {what}")))?;
                let meta = self.trace.as_deref().map(trace_meta);
                let params = acp::PromptRequest::new(self.session()?, blocks).meta(meta);
                self.begin_turn();
                Ok(self.request(id, "session/prompt", &params))
            }
            Call::Cancel => self.cancel(id),
            Call::SetPlanMode(on) => {
                let Some((option, mode)) = self.config.for_plan(*on) else {
                    return Err(self.unsupported(call.name()));
                };
                self.set_option(id, &option, &mode)
            }
            Call::SetConfigOption { option, value } => {
                if self.config.options().is_empty() {
                    return Err(self.unsupported(call.name()));
                }
                self.config.check(option, value)?;
                self.set_option(id, option, value)
            }
            Call::Steer(input) => self.steer(id, call, input),
            Call::CancelSubagent(session) => self.cancel_subagent(session),
            Call::Replay | Call::Undo(_) => Err(self.unsupported(call.name())),
        }
    }

    fn is_text_stateless(&self) -> bool {
        // The first message of a turn begins its step.
        matches!(self.stage, Stage::Setting(..))
            && self.session.is_some()
            && (self.stepped || !self.prompting)
            && self.agent_error.is_none()
    }

    fn read(&mut self, message: Message<'_>) -> Incoming {
        if let Some(child) = self.child_of(&message) {
            return self.read_of_child(&child, message);
        }
        match message {
            Message::Notification { method, params } if method == "session/update" => self.read_update(&params),
            Message::Notification { method, params } if method == "$/cancel_request" => {
                match params.member("requestId") {
                    Ok(Some(id)) => Incoming::Cancelled { rpc_id: id.to_owned() },
                    _ => Incoming::InvalidLine("`$/cancel_request` without `requestId`".to_owned()),
                }
            }
            // The notification belongs to forms of the mode `url`, which are declined.
            Message::Notification { method, params } if method == "elicitation/complete" => {
                Incoming::out_of_turn(unknown(&method, params.to_json().get(), None))
            }
            Message::Notification { method, params } => self.read_unknown(&method, &params),
            Message::Request { id, method, params } if method == "session/request_permission" => {
                self.read_permission(id, &params)
            }
            Message::Request { id, method, params } if method == form::METHOD => self.read_form(id, &params),
            Message::Request { id, method, params } => match services::Method::named(&method, self.services) {
                Some(service) => self.read_service(id, &method, service, &params),
                None => Incoming::UnknownMethod {
                    rpc_id: id.to_owned(),
                    method: method.into_owned(),
                    params: params.to_json(),
                },
            },
            Message::Response { id, outcome } => self.read_response(id.as_deref(), outcome.map(Json::from_raw)),
            Message::Invalid(reason) => Incoming::InvalidLine(reason),
        }
    }

    fn answer(&mut self, rpc_id: &str, _request_id: &str, answer: &Answer) -> Vec<u8> {
        // A request that is no longer open must not be granted.
        match self.open.remove(rpc_id) {
            Some(request) if self.cancelling.is_none() || !request.of_turn => request.answer(rpc_id, answer),
            Some(request) => request.cancelled(rpc_id),
            None => jsonrpc::answer(rpc_id, &json!(permission::cancelled())),
        }
    }

    fn answer_terminal(&mut self, rpc_id: &str, answer: TerminalAnswer<'_>) -> Vec<u8> {
        services::terminal_answer(rpc_id, answer)
    }

    fn refuse(&mut self, rpc_id: &str, code: i64, message: &str) -> Vec<u8> {
        self.open.remove(rpc_id);
        jsonrpc::refusal(rpc_id, &RpcFailure { code, message: message.to_owned(), data: None })
    }

    fn next_handshake_request(&mut self, id: &str, outcome: &std::result::Result<Json, RpcFailure>) -> Option<Vec<u8>> {
        self.next_of_opening(id, outcome)
    }

    fn late_past(&self) -> Option<u64> {
        match self.stage {
            Stage::Past { count, .. } => Some(count),
            _ => None,
        }
    }

    fn end_past(&mut self) {
        if let Stage::Past { received, .. } = &mut self.stage {
            *received = false;
            self.given_up = self.calls.number(|_| true);
            if let Some(number) = self.given_up {
                self.calls.take(&number.to_string());
            }
        }
    }

    fn finish_handshake(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Handshake> {
        self.opened(outcome)
    }

    fn map_error_code(&self, _call: &Call, code: i64) -> RpcErrorKind {
        match code {
            UNAUTHORISED => RpcErrorKind::AuthExpired,
            _ => RpcErrorKind::Other,
        }
    }

    fn refused(&self, call: &Call, failure: RpcFailure) -> Error {
        let failure = failure::with_details(failure);
        match (failure.code, call) {
            (-32600 | UNAUTHORISED, Call::Prompt(_)) if failure::is_busy(&failure) => {
                Error::Rpc(RpcError::of_answer(RpcErrorKind::TurnInProgress, failure))
            }
            (steering::NOT_RUNNING, Call::Steer(_)) => local_error(RpcErrorKind::NoActiveTurn, &failure.message),
            (METHOD_NOT_FOUND, Call::Steer(_)) => self.unsupported(call.name()),
            (UNAUTHORISED, _) if failure::is_login_missing(&failure) => {
                let mut error = self.failed(call, failure);
                if let Error::Rpc(error) = &mut error {
                    error.hint = self.login_of_another().map(Into::into);
                }
                error
            }
            (UNAUTHORISED, _) => self.of_service(Error::Rpc(RpcError::of_answer(RpcErrorKind::Other, failure))),
            (_, Call::Prompt(_)) => self.of_service(self.failed(call, failure)),
            _ => self.failed(call, failure),
        }
    }
}

impl Acp {
    /// Returns the error with its kind if it is an error of the model's service. ACP has no codes for them.
    fn of_service(&self, error: Error) -> Error {
        let Error::Rpc(mut error) = error else { return error };
        if error.kind == RpcErrorKind::Other && failure::is_model_missing(error.data.as_ref()) {
            error.kind = RpcErrorKind::LlmNotSet;
        } else if error.kind == RpcErrorKind::Other
            && let Some(kind) = error.kind_of_service()
        {
            error.kind = kind;
            if kind == RpcErrorKind::AuthExpired {
                error.hint = self.login_of_another().map(Into::into);
            }
        }
        Error::Rpc(error)
    }
}
