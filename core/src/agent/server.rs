//! The server's side of Wire, versions 1.0 to 1.10, without I/O: a client's lines go in, what the agent has to act on
//! comes out, and what is to be written collects until [`Server::take_output`].
//!
//! The server keeps to the protocol by itself: it answers the handshake, refuses what it must, spells messages as its
//! version does, and replays. The agent behind it sends events and requests and ends turns.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::history::{History, Record};
use super::spelling::spell;
use crate::dialect::WireVersion;
use crate::wire::envelope::RpcFailure;
use crate::wire::{
    Content, Event, ExternalToolsResult, HooksInfo, InitializeResult, RejectedTool, ServerInfo, SlashCommand,
    StatusUpdate,
};

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

const BUILTIN_TOOLS: [&str; 14] = [
    "Agent",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "FetchURL",
    "Glob",
    "Grep",
    "ReadFile",
    "SearchWeb",
    "SetTodoList",
    "Shell",
    "StrReplaceFile",
    "Task",
    "WriteFile",
];

/// What the server says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) version: WireVersion,
    pub(crate) server: ServerInfo,
    pub(crate) slash_commands: Vec<SlashCommand>,
    /// Whether a turn can be steered.
    pub(crate) steer: bool,
    /// Whether it can ask questions.
    pub(crate) questions: bool,
    /// Whether it ignores what it does not understand, as the first releases did.
    pub(crate) silent: bool,
}

/// What the client told when it opened the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    pub(crate) supports_question: bool,
    /// The names of its tools that were accepted.
    pub(crate) tools: Vec<String>,
    pub(crate) hooks: Vec<HookSubscription>,
}

/// A hook that the client set.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HookSubscription {
    pub(crate) id: String,
    pub(crate) event: String,
    /// A regular expression; none, or an empty one: on anything.
    #[serde(default)]
    pub(crate) matcher: Option<String>,
    /// In seconds.
    #[serde(default)]
    pub(crate) timeout: Option<f64>,
}

/// What the agent has to act on.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// A turn begins.
    Prompt(Content),
    /// The turn is to stop; the client has been told that it will.
    Cancel,
    /// The user says something more while the turn runs.
    Steer(Content),
    /// The answer to a request, by the request's id.
    Answer(String, Result<Value, RpcFailure>),
}

/// How a turn ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Finished,
    Cancelled,
    MaxStepsReached(i64),
    Failed(RpcFailure),
}

#[derive(Debug)]
enum Turn {
    /// The prompt with this id awaits its answer.
    Running(String),
    /// The prompt will never be answered; the next one may come, and a cancel is answered.
    Abandoned,
}

#[derive(Debug)]
pub(crate) struct Server {
    profile: Profile,
    client: Client,
    turn: Option<Turn>,
    pending: HashSet<String>,
    plan_mode: bool,
    pub(crate) history: History,
    output: Vec<u8>,
}

type Refusal = (i64, &'static str);
const PARSE_ERROR: Refusal = (-32700, "Invalid JSON format");
const INVALID_REQUEST: Refusal = (-32600, "Invalid request");
const METHOD_NOT_FOUND: Refusal = (-32601, "Method not found");
const INVALID_PARAMS: Refusal = (-32602, "Invalid params");
const TURN_IN_PROGRESS: Refusal = (-32000, "An agent turn is already in progress");
const NO_TURN: Refusal = (-32000, "No agent turn is in progress");

impl Server {
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            profile,
            client: Client::default(),
            turn: None,
            pending: HashSet::new(),
            plan_mode: false,
            history: History::default(),
            output: Vec::new(),
        }
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether this server speaks at least version 1.`minor`.
    pub(crate) fn speaks(&self, minor: u32) -> bool {
        self.profile.version >= WireVersion::new(1, minor)
    }

    /// Whether a prompt awaits its answer.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.turn, Some(Turn::Running(_)))
    }

    /// What is to be written, taken.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// How many bytes are to be written.
    pub(crate) fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Reads a line of the client's.
    pub(crate) fn receive(&mut self, line: &[u8]) -> Option<Incoming> {
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return self.refuse(None, PARSE_ERROR) };
        let Value::Object(mut message) = message else { return self.refuse(None, INVALID_REQUEST) };
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
            (Some(Value::String(_)), None) => None,
            (None, Some(id)) => {
                let outcome = match (message.remove("error"), message.remove("result")) {
                    (Some(error), _) if !error.is_null() => {
                        Err(serde_json::from_value(error).unwrap_or_else(|_| failure(0, "an error object of no form")))
                    }
                    (_, Some(result)) => Ok(result),
                    _ => return self.refuse(None, INVALID_REQUEST),
                };
                self.pending.remove(&id).then_some(Incoming::Answer(id, outcome))
            }
            _ => self.refuse(None, INVALID_REQUEST),
        }
    }

    /// Sends an event in the version's spelling; one that the version does not have is not sent.
    pub(crate) fn event(&mut self, event: impl Into<Event>) {
        if let Ok(Value::Object(mut event)) = serde_json::to_value(event.into()) {
            let payload = event.remove("payload").unwrap_or_default();
            self.event_of(event.get("type").and_then(Value::as_str).unwrap_or_default(), payload);
        }
    }

    /// The same for an event of any type and shape.
    pub(crate) fn event_of(&mut self, kind: &str, payload: Value) {
        if let Some((kind, payload)) = spell(self.profile.version, kind, payload) {
            self.event_verbatim(kind, payload);
        }
    }

    /// Sends an event as it is.
    pub(crate) fn event_verbatim(&mut self, kind: String, payload: Value) {
        self.record(Record { request_id: None, kind, payload });
    }

    /// Asks the client something, under `rpc_id`; the answer comes as [`Incoming::Answer`].
    pub(crate) fn request(&mut self, rpc_id: &str, request: impl Into<Event>) {
        if let Ok(Value::Object(mut request)) = serde_json::to_value(request.into()) {
            let payload = request.remove("payload").unwrap_or_default();
            self.request_of(rpc_id, request.get("type").and_then(Value::as_str).unwrap_or_default(), payload);
        }
    }

    /// The same for a request of any type and shape.
    pub(crate) fn request_of(&mut self, rpc_id: &str, kind: &str, payload: Value) {
        let (kind, payload) =
            spell(self.profile.version, kind, payload.clone()).unwrap_or_else(|| (kind.to_owned(), payload));
        self.pending.insert(rpc_id.to_owned());
        self.record(Record { request_id: Some(rpc_id.to_owned()), kind, payload });
    }

    /// Stops waiting for an answer; one that comes is ignored.
    pub(crate) fn withdraw(&mut self, rpc_id: &str) {
        self.pending.remove(rpc_id);
    }

    /// Stops waiting for any answer.
    pub(crate) fn withdraw_all(&mut self) {
        self.pending.clear();
    }

    /// Answers the prompt.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        let Some(Turn::Running(id)) = self.turn.take() else { return };
        match outcome {
            Outcome::Finished => self.respond(&id, json!({"status": "finished"})),
            Outcome::Cancelled => self.respond(&id, json!({"status": "cancelled"})),
            Outcome::MaxStepsReached(steps) => {
                self.respond(&id, json!({"status": "max_steps_reached", "steps": steps}));
            }
            Outcome::Failed(failure) => self.respond_failure(Some(&id), &failure),
        }
    }

    /// Leaves the prompt without an answer. A client that has not cancelled it yet may still do so.
    pub(crate) fn abandon(&mut self, cancelled: bool) {
        self.turn = (!cancelled).then_some(Turn::Abandoned);
    }

    /// Puts bytes between the messages, as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    fn call(&mut self, id: &str, method: &str, params: Value) -> Result<Option<Incoming>, Refusal> {
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
        let tools = accept_tools(&params.external_tools.unwrap_or_default())?;
        let hooks = (self.profile.version >= HOOKS).then(|| params.hooks.unwrap_or_default());
        self.client = Client {
            supports_question: params
                .capabilities
                .is_some_and(|all| all.get("supports_question") == Some(&json!(true))),
            tools: tools.accepted.clone(),
            hooks: hooks.iter().flatten().filter(|hook| HOOK_EVENTS.contains(&&*hook.event)).cloned().collect(),
        };
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

    /// A replayed request has its old id and is not to be answered.
    fn replay(&mut self, id: &str) {
        for record in self.history.records() {
            write_record(&mut self.output, record);
        }
        let requests = self.history.records().iter().filter(|record| record.request_id.is_some()).count();
        let events = self.history.records().len() - requests;
        self.respond(id, json!({"status": "finished", "events": events, "requests": requests}));
    }

    fn record(&mut self, record: Record) {
        write_record(&mut self.output, &record);
        self.history.push(record);
    }

    fn respond(&mut self, id: &str, result: Value) {
        write_line(&mut self.output, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn respond_failure(&mut self, id: Option<&str>, failure: &RpcFailure) {
        let error = json!({"code": failure.code, "message": failure.message, "data": failure.data});
        write_line(&mut self.output, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    fn refuse<T>(&mut self, id: Option<&str>, (code, message): Refusal) -> Option<T> {
        if !self.profile.silent {
            self.respond_failure(id, &failure(code, message));
        }
        None
    }
}

pub(crate) fn failure(code: i64, message: &str) -> RpcFailure {
    RpcFailure { code, message: message.to_owned(), data: None }
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

fn accept_tools(tools: &[Value]) -> Result<ExternalToolsResult, Refusal> {
    let mut result = ExternalToolsResult { accepted: Vec::new(), rejected: Vec::new(), extra: Default::default() };
    for tool in tools {
        let name = tool.get("name").and_then(Value::as_str).ok_or(INVALID_PARAMS)?.to_owned();
        let reason = if BUILTIN_TOOLS.contains(&&*name) {
            Some("conflicts with builtin tool".to_owned())
        } else {
            schema_error(tool.get("parameters").unwrap_or(&Value::Null))
        };
        match reason {
            None => result.accepted.push(name),
            Some(reason) => result.rejected.push(RejectedTool { name, reason, extra: Default::default() }),
        }
    }
    Ok(result)
}

/// What keeps `parameters` from being the JSON Schema of an object.
fn schema_error(parameters: &Value) -> Option<String> {
    let Some(schema) = parameters.as_object() else {
        return Some(format!("parameters: {parameters} is not a JSON Schema"));
    };
    let wrong = |key: &str, right: fn(&Value) -> bool, what: &str| {
        let value = schema.get(key).filter(|value| !right(value))?;
        Some(format!("parameters: \"{key}\" must be {what}, not {value}"))
    };
    let is_names = |value: &Value| value.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    wrong("type", |value| value == "object", "\"object\"")
        .or_else(|| wrong("properties", Value::is_object, "an object"))
        .or_else(|| wrong("required", is_names, "a list of names"))
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
