//! The agent as a server of the protocol, without I/O.

mod acp;
mod sessions;
pub(crate) mod web;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::history::{History, Record};
use super::types::{Client, Failure, HookSubscription, Incoming, Outcome, Profile};
use super::{legacy, spelling, tools};
use crate::dialect::WireVersion;
use crate::error::RpcErrorKind;
use crate::jsonrpc::RpcFailure;
use crate::messages::{Content, Event, HooksInfo, InitializeResult, StatusUpdate};
pub(crate) use sessions::{Sessions, Way};

const INITIALIZE: WireVersion = WireVersion::new(1, 1);
const REPLAY: WireVersion = WireVersion::new(1, 3);
const PLAN_MODE: WireVersion = WireVersion::new(1, 4);
const HOOKS: WireVersion = WireVersion::new(1, 8);

const HOOK_EVENTS: [&str; 13] = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "StopFailure",
    "SessionStart",
    "SessionEnd",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Notification",
];

#[derive(Debug)]
enum Turn {
    /// The prompt with this id awaits its answer.
    Running(String),
    /// The prompt is never answered. The next one may come, and a cancel is answered.
    Abandoned,
}

/// The server's side of a connection, without I/O. [`receive`](Self::receive) takes the client's lines, and returns
/// what the agent has to handle. The agent sends events and requests, and finishes turns.
/// [`take_output`](Self::take_output) returns the pending output in order.
///
/// ```
/// use kimi_agent_testing::{Incoming, Outcome, Profile, Server};
/// use serde_json::json;
///
/// let mut server = Server::new(Profile::new("echo", "1.0"));
/// let incoming = server.receive(br#"{"jsonrpc":"2.0","id":"1","method":"prompt","params":{"user_input":"hi"}}"#);
/// assert_eq!(incoming, Some(Incoming::Prompt("hi".into())));
/// server.event_of("ContentPart", json!({"type": "text", "text": "hi yourself"}));
/// server.finish(Outcome::Finished);
/// let output = String::from_utf8(server.take_output()).unwrap();
/// assert_eq!(
///     output.lines().last(),
///     Some(r#"{"jsonrpc":"2.0","id":"1","result":{"status":"finished"}}"#),
/// );
/// ```
#[derive(Debug)]
pub struct Server {
    profile: Profile,
    client: Client,
    turn: Option<Turn>,
    /// The ids of requests without an answer, in order.
    pending: Vec<String>,
    unasked: u64,
    plan_mode: bool,
    pub(crate) history: History,
    /// The state for ACP only.
    pub(crate) acp: acp::Acp,
    /// The state for the web API only.
    pub(crate) web: web::Web,
    output: Vec<u8>,
}

type Refusal = (i64, &'static str);
const INTERNAL_ERROR: i64 = -32603;
const PARSE_ERROR: Refusal = (-32700, "Invalid JSON format");
const INVALID_REQUEST: Refusal = (-32600, "Invalid request");
const METHOD_NOT_FOUND: Refusal = (-32601, "Method not found");
const INVALID_PARAMS: Refusal = (-32602, "Invalid params");
const TURN_IN_PROGRESS: Refusal = (-32000, "An agent turn is already in progress");
const NO_TURN: Refusal = (-32000, "No agent turn is in progress");

impl Server {
    /// Makes a server for one client.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            client: Client::default(),
            turn: None,
            pending: Vec::new(),
            unasked: 0,
            plan_mode: false,
            history: History::default(),
            acp: acp::Acp::default(),
            web: web::Web::default(),
            output: Vec::new(),
        }
    }

    /// Returns the handshake and the behaviour of the server.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the client's parameters in the handshake.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns whether it speaks Wire 1.`minor` or later.
    pub fn speaks(&self, minor: u32) -> bool {
        !self.profile.legacy && self.profile.version >= WireVersion::new(1, minor)
    }

    /// Returns whether a prompt awaits its answer.
    pub fn is_running(&self) -> bool {
        matches!(self.turn, Some(Turn::Running(_)))
    }

    /// Takes the pending output: whole lines of compact JSON, each with its line end.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Returns the session's id and directory, and whether everything is approved, if the client sends these in calls.
    pub(crate) fn session(&self) -> Option<(&str, &str, bool)> {
        if self.profile.web { self.web.session() } else { self.acp.session() }
    }

    /// Returns the size of the pending output in bytes.
    pub(crate) fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Returns the number of answers without an open request: second answers, and answers to withdrawn requests.
    pub fn unasked_answers(&self) -> u64 {
        self.unasked
    }

    /// Reads a line of the client, with or without its line end. It answers by itself whatever needs no decision of the
    /// agent, for example the handshake, plan mode, a replay, and calls that have to be refused.
    pub fn receive(&mut self, line: &[u8]) -> Option<Incoming> {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return self.refuse(None, PARSE_ERROR) };
        let Value::Object(mut message) = message else { return self.refuse(None, INVALID_REQUEST) };
        if self.profile.acp {
            return self.receive_acp(message);
        }
        if self.profile.web {
            return self.receive_web(&message);
        }
        let id = match message.remove("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id),
            Some(_) => return self.refuse(None, INVALID_REQUEST),
        };
        if message.get("jsonrpc").is_some_and(|version| version != "2.0") {
            return self.refuse(None, INVALID_REQUEST);
        }
        match (message.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => {
                let params = message.remove("params").unwrap_or_default();
                let outcome = self.call(&id, &method, params);
                outcome.unwrap_or_else(|refusal| self.refuse(Some(&id), refusal))
            }
            // A notification: a client has none to send.
            (Some(Value::String(method)), None) => self.notified(&method),
            (None, Some(id)) => {
                let outcome = match (message.remove("error"), message.remove("result")) {
                    (Some(error), _) if !error.is_null() => {
                        let error = serde_json::from_value::<RpcFailure>(error).map(Failure::from);
                        Err(error.unwrap_or_else(|_| Failure::new(0, "an error object of no form")))
                    }
                    (_, Some(result)) => Ok(result),
                    _ => return self.refuse(None, INVALID_REQUEST),
                };
                if !self.take_pending(&id) {
                    self.unasked += 1;
                    return None;
                }
                Some(Incoming::Answer(id, outcome))
            }
            _ => self.refuse(None, INVALID_REQUEST),
        }
    }

    /// Sends an event in the form of this version. Does nothing if the version does not have the event.
    pub fn event(&mut self, event: impl Into<Event>) {
        if let Ok(Value::Object(mut event)) = serde_json::to_value(event.into()) {
            let payload = event.remove("payload").unwrap_or_default();
            self.event_of(event.get("type").and_then(Value::as_str).unwrap_or_default(), payload);
        }
    }

    /// Sends an event of any type and form, as [`event`](Self::event) does.
    pub fn event_of(&mut self, kind: &str, payload: Value) {
        if let Some((kind, payload)) = self.spell(kind, payload) {
            self.event_verbatim(kind, payload);
        }
    }

    /// Sends an event unchanged, in every version.
    pub(crate) fn event_verbatim(&mut self, kind: String, payload: Value) {
        self.record(Record { request_id: None, kind, payload });
    }

    /// Sends a request to the client under `rpc_id`. The answer arrives as [`Incoming::Answer`]. Do not finish a turn
    /// that waits for an answer, unless the request is [withdrawn](Self::withdraw).
    pub fn request(&mut self, rpc_id: &str, request: impl Into<Event>) {
        if let Ok(Value::Object(mut request)) = serde_json::to_value(request.into()) {
            let payload = request.remove("payload").unwrap_or_default();
            self.request_of(rpc_id, request.get("type").and_then(Value::as_str).unwrap_or_default(), payload);
        }
    }

    /// Sends a request of any type and form.
    pub fn request_of(&mut self, rpc_id: &str, kind: &str, payload: Value) {
        let (kind, payload) = self.spell(kind, payload.clone()).unwrap_or_else(|| (kind.to_owned(), payload));
        self.pending.push(rpc_id.to_owned());
        self.record(Record { request_id: Some(rpc_id.to_owned()), kind, payload });
    }

    /// Stops waiting for an answer. A later answer is ignored.
    pub fn withdraw(&mut self, rpc_id: &str) {
        self.take_pending(rpc_id);
    }

    /// Stops waiting for all answers.
    pub fn withdraw_all(&mut self) {
        self.pending.clear();
    }

    /// Ends the turn: answers its prompt. Does nothing if no prompt awaits an answer.
    pub fn finish(&mut self, outcome: Outcome) {
        let Some(Turn::Running(id)) = self.turn.take() else { return };
        if self.profile.acp {
            return self.finish_acp(&id, outcome);
        }
        if self.profile.web {
            return self.finish_web(&id, outcome);
        }
        match outcome {
            Outcome::Finished => self.respond(&id, json!({"status": "finished"})),
            Outcome::Cancelled => self.respond(&id, json!({"status": "cancelled"})),
            Outcome::MaxStepsReached(steps) => {
                self.respond(&id, json!({"status": "max_steps_reached", "steps": steps}));
            }
            Outcome::Other(word) => self.respond(&id, json!({"status": word})),
            Outcome::Failed(failure) => self.respond_failure(Some(&id), &failure),
        }
    }

    /// Call this at the end of input. A running turn gets no more answers: every open request is answered with an
    /// error, which the agent treats as a rejection.
    pub fn hang_up(&mut self) -> Vec<Incoming> {
        self.turn = None;
        let gone = || Err(Failure::new(INTERNAL_ERROR, "the client is gone"));
        std::mem::take(&mut self.pending).into_iter().map(|id| Incoming::Answer(id, gone())).collect()
    }

    /// Makes an error with the code of this server's dialect.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::RpcErrorKind::LlmServiceError;
    /// use kimi_agent_testing::{Profile, Server};
    /// assert_eq!(Server::new(Profile::new("a", "1")).failure(LlmServiceError, "500").code, -32003);
    /// assert_eq!(Server::new(Profile::legacy("a", "1")).failure(LlmServiceError, "500").code, -32002);
    /// ```
    pub fn failure(&self, kind: RpcErrorKind, message: impl Into<String>) -> Failure {
        let code = match (kind, self.profile.legacy) {
            (RpcErrorKind::TurnInProgress | RpcErrorKind::NoActiveTurn, _) => -32000,
            (RpcErrorKind::LlmNotSet, _) => -32001,
            (RpcErrorKind::LlmNotSupported, false) | (RpcErrorKind::LlmServiceError, true) => -32002,
            (RpcErrorKind::LlmServiceError, false) | (RpcErrorKind::LlmNotSupported, true) => -32003,
            (RpcErrorKind::AuthExpired, false) => -32004,
            (_, true) => -32099,
            _ => INTERNAL_ERROR,
        };
        Failure::new(code, message)
    }

    /// Leaves the prompt without an answer. The client can still cancel it.
    pub(crate) fn abandon(&mut self, cancelled: bool) {
        self.turn = (!cancelled).then_some(Turn::Abandoned);
    }

    /// Writes bytes unchanged between the messages.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    fn spell(&self, kind: &str, payload: Value) -> Option<(String, Value)> {
        match self.profile.legacy {
            _ if self.profile.is_kimi_code() => Some((kind.to_owned(), payload)),
            true => legacy::spell(kind, payload),
            false => spelling::spell(self.profile.version, kind, payload),
        }
    }

    fn take_pending(&mut self, id: &str) -> bool {
        let place = self.pending.iter().position(|pending| pending == id);
        place.map(|place| self.pending.remove(place)).is_some()
    }

    /// Reads a notification. Only the legacy protocol has one for the agent.
    fn notified(&self, method: &str) -> Option<Incoming> {
        (self.profile.legacy && method == "interrupt" && self.is_running()).then_some(Incoming::Cancel)
    }

    /// Reads a call of the legacy protocol. Unknown calls are ignored.
    fn legacy_call(&mut self, id: &str, method: &str, params: &Value) -> Result<Option<Incoming>, Refusal> {
        match method {
            "run" => {
                let input = params.get("input").or_else(|| params.get("prompt")).and_then(Value::as_str);
                let refusal = match input {
                    None => INVALID_PARAMS,
                    Some(_) if self.is_running() => TURN_IN_PROGRESS,
                    Some(input) => {
                        self.turn = Some(Turn::Running(id.to_owned()));
                        return Ok(Some(Incoming::Prompt(input.into())));
                    }
                };
                // Sent even by a server that ignores other invalid calls.
                self.respond_failure(Some(id), &Failure::new(refusal.0, refusal.1));
            }
            "interrupt" => {
                let running = self.is_running();
                self.respond(id, json!({"status": if running { "ok" } else { "idle" }}));
                if !running {
                    self.turn = None;
                }
                return Ok(running.then_some(Incoming::Cancel));
            }
            _ => {}
        }
        Ok(None)
    }

    fn call(&mut self, id: &str, method: &str, params: Value) -> Result<Option<Incoming>, Refusal> {
        if self.profile.legacy {
            return self.legacy_call(id, method, &params);
        }
        let version = self.profile.version;
        match method {
            "initialize" if version >= INITIALIZE => {
                self.must_be_idle()?;
                let result = self.initialize(params)?;
                self.respond(id, result);
            }
            "prompt" => {
                let content = user_input(&params)?;
                self.must_be_idle()?;
                self.turn = Some(Turn::Running(id.to_owned()));
                return Ok(Some(Incoming::Prompt(content)));
            }
            "cancel" => {
                let running = self.is_running();
                if !running && self.turn.take().is_none() {
                    return Err(NO_TURN);
                }
                self.respond(id, json!({}));
                return Ok(running.then_some(Incoming::Cancel));
            }
            "steer" if self.profile.steer => {
                let content = user_input(&params)?;
                if self.turn.is_none() {
                    return Err(NO_TURN);
                }
                self.respond(id, json!({"status": "steered"}));
                return Ok(self.is_running().then_some(Incoming::Steer(content)));
            }
            "set_plan_mode" if version >= PLAN_MODE => {
                self.plan_mode = params.get("enabled").and_then(Value::as_bool).ok_or(INVALID_PARAMS)?;
                self.event(StatusUpdate {
                    context_usage: None,
                    context_tokens: None,
                    max_context_tokens: None,
                    token_usage: None,
                    message_id: None,
                    plan_mode: Some(self.plan_mode),
                    mcp_status: None,
                    cost: None,
                    extra: Default::default(),
                });
                self.respond(id, json!({"status": "ok", "plan_mode": self.plan_mode}));
            }
            "replay" if version >= REPLAY => {
                self.must_be_idle()?;
                self.replay(id);
            }
            _ => return Err(METHOD_NOT_FOUND),
        }
        Ok(None)
    }

    fn must_be_idle(&self) -> Result<(), Refusal> {
        if self.is_running() { Err(TURN_IN_PROGRESS) } else { Ok(()) }
    }

    fn initialize(&mut self, params: Value) -> Result<Value, Refusal> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "protocol_version")]
            _protocol_version: String,
            #[serde(default)]
            external_tools: Option<Vec<Value>>,
            #[serde(default)]
            hooks: Option<Vec<HookSubscription>>,
            #[serde(default)]
            capabilities: Option<Map<String, Value>>,
        }
        let params: Params = serde_json::from_value(params).map_err(|_| INVALID_PARAMS)?;
        let offered = params.external_tools.unwrap_or_default();
        let tools = tools::accept(&offered, &self.profile.builtin_tools, &mut self.client.tools);
        let tools = tools.ok_or(INVALID_PARAMS)?;
        let hooks = (self.profile.version >= HOOKS).then(|| params.hooks.unwrap_or_default());
        self.client.supports_question =
            params.capabilities.is_some_and(|all| all.get("supports_question") == Some(&json!(true)));
        self.client.hooks =
            hooks.iter().flatten().filter(|hook| HOOK_EVENTS.contains(&&*hook.event)).cloned().collect();
        let result = InitializeResult {
            protocol_version: self.profile.version.to_string(),
            server: self.profile.server.clone(),
            slash_commands: self.profile.slash_commands.clone(),
            external_tools: Some(tools).filter(|tools| !tools.accepted.is_empty() || !tools.rejected.is_empty()),
            hooks: hooks.map(|_| HooksInfo {
                supported_events: HOOK_EVENTS.map(str::to_owned).to_vec(),
                configured: Some(count(self.client.hooks.iter().map(|hook| &*hook.event))),
                extra: Default::default(),
            }),
            capabilities: self.profile.questions.then(|| Map::from_iter([("supports_question".into(), json!(true))])),
            extra: Default::default(),
        };
        Ok(serde_json::to_value(result).unwrap_or_default())
    }

    /// A replayed request has its old id. It must not be answered.
    fn replay(&mut self, id: &str) {
        for record in self.history.records() {
            write_record(&mut self.output, record);
        }
        let requests = self.history.records().iter().filter(|record| record.request_id.is_some()).count();
        let events = self.history.records().len() - requests;
        self.respond(id, json!({"status": "finished", "events": events, "requests": requests}));
    }

    fn record(&mut self, mut record: Record) {
        match (self.profile.acp, self.profile.web) {
            (true, _) => self.record_acp(&record),
            (_, true) => self.record_web(&mut record),
            _ => write_record(&mut self.output, &record),
        }
        self.history.push(record);
    }

    fn respond(&mut self, id: &str, result: Value) {
        let id = self.id(id);
        write_line(&mut self.output, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn respond_failure(&mut self, id: Option<&str>, failure: &Failure) {
        let mut error = json!({"code": failure.code, "message": failure.message, "data": failure.data});
        if let (true, None, Some(fields)) = (self.profile.acp, &failure.data, error.as_object_mut()) {
            fields.shift_remove("data");
        }
        let id = id.map(|id| self.id(id));
        write_line(&mut self.output, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    /// A call's id as the client wrote it: text in Wire, any JSON text in ACP.
    fn id(&self, id: &str) -> Value {
        match self.profile.is_kimi_code() {
            true => serde_json::from_str(id).unwrap_or_default(),
            false => json!(id),
        }
    }

    fn refuse<T>(&mut self, id: Option<&str>, (code, message): Refusal) -> Option<T> {
        if !self.profile.silent {
            self.respond_failure(id, &Failure::new(code, message));
        }
        None
    }
}

fn user_input(params: &Value) -> Result<Content, Refusal> {
    params.get("user_input").and_then(|input| Content::deserialize(input).ok()).ok_or(INVALID_PARAMS)
}

fn write_record(output: &mut Vec<u8>, record: &Record) {
    #[derive(Serialize)]
    struct Message<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        params: Params<'a>,
    }
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        payload: &'a Value,
    }
    let id = record.request_id.as_deref();
    let method = if id.is_some() { "request" } else { "event" };
    let params = Params { kind: &record.kind, payload: &record.payload };
    write_line(output, &Message { jsonrpc: "2.0", method, id, params });
}

fn write_line(output: &mut Vec<u8>, message: &impl Serialize) {
    // Writing JSON with text keys to memory does not fail.
    if serde_json::to_writer(&mut *output, message).is_ok() {
        output.push(b'\n');
    }
}

fn count<'a>(events: impl Iterator<Item = &'a str>) -> Map<String, Value> {
    let mut counts = Map::new();
    for event in events {
        let count = counts.entry(event).or_insert(json!(0));
        *count = json!(count.as_i64().unwrap_or(0) + 1);
    }
    counts
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
