//! The server for ACP, as Kimi Code 2.1 speaks it. It converts the agent's messages to ACP. Messages without a
//! counterpart are not sent.
//!
//! The messages are written without the crate that the client reads them with, so that both sides do not share a
//! mistake. Tests compare the messages with recordings of the real agent.

mod extensions;
mod login;
mod permissions;
mod records;
mod stored;
mod updates;
mod words;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::super::history::History;
use super::super::types::{Failure, Incoming};
use super::{Server, Sessions, Turn};
use extensions::STEERING;
use permissions::Asked;
use records::Records;
pub(super) use words::text_of;
use words::{content, kind_of, past, text_block};

const MODES: [(&str, &str); 4] = [("default", "Default"), ("plan", "Plan"), ("auto", "Auto"), ("yolo", "YOLO")];
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNAUTHORISED: i64 = -32000;

/// The state of the session. An agent has one session at a time.
#[derive(Debug, Default)]
pub(crate) struct Acp {
    sessions: Sessions,
    /// The number of this agent in its process.
    agent: usize,
    session: Option<Session>,
    /// The file with earlier sessions.
    stored: String,
    /// The parameters of the request that opened the session.
    pub(crate) opened_with: Value,
    /// Whether the client answers forms.
    has_forms: bool,
    /// Whether the client reads the sessions of subagents.
    has_subagents: bool,
    /// Whether the client reads several plans.
    has_plans: bool,
    /// The sessions of subagents that were announced.
    subagents: Vec<String>,
    /// The session's files, if the agent writes them.
    records: Records,
    asked: Vec<Asked>,
    calls: Vec<Call>,
    /// The number of tokens in the context, and its size.
    context: Option<(i64, i64)>,
}

#[derive(Debug)]
struct Session {
    id: String,
    work_dir: String,
    mode: String,
    model: String,
    thinking: String,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// The id that the client gets. If the model uses an id twice, the server makes a new id.
    shown: String,
    name: String,
    arguments: String,
    title: String,
    /// Whether the client knows that the call has begun.
    begun: bool,
    /// Whether it waits for a permission.
    waits: bool,
}

impl Acp {
    /// Makes this agent one of several agents that share a client.
    pub(crate) fn join(&mut self, sessions: Sessions, agent: usize) {
        (self.sessions, self.agent) = (sessions, agent);
    }

    /// Sets the folder of the stored sessions. The next call reads it.
    pub(crate) fn remember(&mut self, stored: String) {
        self.stored = stored;
    }

    /// Returns the session's id and directory, and whether everything is approved.
    pub(crate) fn session(&self) -> Option<(&str, &str, bool)> {
        self.session.as_ref().map(|it| (&*it.id, &*it.work_dir, it.mode == "yolo"))
    }

    fn has(&self, id: &str) -> bool {
        self.session.as_ref().is_some_and(|session| session.id == id)
    }

    fn open(&mut self, id: String, work_dir: &str) {
        self.sessions.open(&id, work_dir, self.agent);
        if !self.has(&id) {
            let [mode, model, thinking] = ["default", "scripted", "off"].map(str::to_owned);
            self.session = Some(Session { id, work_dir: work_dir.to_owned(), mode, model, thinking });
        }
    }

    fn options(&self) -> Value {
        let Some(session) = &self.session else { return json!([]) };
        let modes: Vec<Value> = MODES.iter().map(|(value, name)| json!({"value": value, "name": name})).collect();
        let model = &session.model;
        json!([
            {"type": "select", "id": "model", "name": "Model", "category": "model", "currentValue": model,
                "options": [{"value": model, "name": model}]},
            {"type": "select", "id": "thinking", "name": "Thinking", "category": "thought_level",
                "currentValue": session.thinking,
                "options": [{"value": "off", "name": "Off"}, {"value": "on", "name": "On"}]},
            {"type": "select", "id": "mode", "name": "Mode", "category": "mode", "currentValue": session.mode,
                "options": modes},
        ])
    }

    fn opened(&self, with_id: bool) -> Value {
        let Some(session) = &self.session else { return json!({}) };
        let modes: Vec<Value> = MODES.iter().map(|(id, name)| json!({"id": id, "name": name})).collect();
        let mut answer = json!({"sessionId": session.id, "configOptions": self.options(),
            "modes": {"currentModeId": session.mode, "availableModes": modes}});
        if !with_id && let Some(fields) = answer.as_object_mut() {
            fields.shift_remove("sessionId");
        }
        answer
    }

    /// Returns the update with the call's arguments so far.
    fn arguments(call: &Call) -> Value {
        json!({"sessionUpdate": "tool_call_update", "toolCallId": call.shown, "status": "in_progress",
            "content": [text_block(&call.arguments)]})
    }

    /// Returns the update for the begin of a call, unless it was sent.
    fn begin(&mut self, id: &str) -> Option<Value> {
        let call = self.calls.iter_mut().rev().find(|call| call.id == id).filter(|call| !call.begun)?;
        call.begun = true;
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": call.shown, "title": call.title,
            "kind": kind_of(&call.name), "status": "in_progress"});
        let mut text = call.arguments.clone();
        // Text that is not JSON is omitted from this field.
        if let Ok(input) = serde_json::from_str::<Value>(&call.arguments) {
            text = input.to_string();
            update["rawInput"] = input;
        }
        update["content"] = json!([text_block(&text)]);
        Some(update)
    }

    fn waits(&mut self, id: &str, waits: bool) {
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.id == id) {
            call.waits = waits;
        }
    }

    fn shown(&self, id: &str) -> String {
        self.calls.iter().rev().find(|call| call.id == id).map_or(id, |call| &*call.shown).to_owned()
    }

    fn enter(&mut self, mode: &str) -> Vec<Value> {
        if let Some(session) = &mut self.session {
            mode.clone_into(&mut session.mode);
        }
        vec![
            json!({"sessionUpdate": "current_mode_update", "currentModeId": mode}),
            json!({"sessionUpdate": "config_option_update", "configOptions": self.options()}),
        ]
    }
}

fn unknown_session() -> Failure {
    Failure::new(INVALID_PARAMS, "Unknown sessionId")
}

impl Server {
    /// Reads a message of the client. Messages that are not calls are ignored, as the real agent only logs them on
    /// stderr.
    pub(super) fn receive_acp(&mut self, mut message: Map<String, Value>) -> Option<Incoming> {
        let id = message.remove("id").filter(|id| !id.is_null());
        let method = message.remove("method");
        let params = message.remove("params").unwrap_or_default();
        match (method, id) {
            (Some(Value::String(method)), Some(id)) => {
                let id = id.to_string();
                match self.acp_call(&id, &method, &params) {
                    Ok(incoming) => incoming,
                    Err(failure) => {
                        self.respond_failure(Some(&id), &failure);
                        None
                    }
                }
            }
            (Some(Value::String(method)), None) if method == "session/cancel" => {
                if !params["sessionId"].as_str().is_some_and(|id| self.acp.has(id)) {
                    return None;
                }
                let running = self.is_running();
                if !running {
                    self.turn = None;
                }
                running.then_some(Incoming::Cancel)
            }
            (None, Some(id)) => self.acp_answer(id.as_u64()?, &message),
            _ => None,
        }
    }

    fn acp_call(&mut self, id: &str, method: &str, params: &Value) -> Result<Option<Incoming>, Failure> {
        let text = |name: &str| params.get(name).and_then(Value::as_str);
        let missing = |name: &str| Failure::new(INVALID_PARAMS, format!("Invalid params: {name}"));
        let session = text("sessionId").unwrap_or_default();
        if matches!(
            method,
            "session/prompt" | "session/close" | "session/set_mode" | "session/set_config_option" | STEERING
        ) && !self.acp.has(session)
        {
            return Err(unknown_session());
        }
        self.check_login(method)?;
        match method {
            "initialize" => {
                self.acp.has_forms =
                    self.profile.forms && params["clientCapabilities"]["elicitation"]["form"].is_object();
                let server = &self.profile.server;
                let mut answer = json!({
                    "protocolVersion": 1,
                    "agentCapabilities": {
                        "loadSession": true,
                        "promptCapabilities": {"image": true, "audio": false, "embeddedContext": self.profile.embedded_context},
                        "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {},
                            "title": {}, "archive": {}, "additionalDirectories": {}, "systemPrompt": {"mode": {"override": {}}}},
                        // The scripted agent has no MCP client, so it does not get the program's tools.
                        "mcpCapabilities": {"http": false, "sse": false},
                    },
                    "authMethods": self.login_methods(params),
                    "agentInfo": {"name": server.name, "version": server.version},
                });
                if self.profile.steer {
                    answer["_meta"] = json!({"steering": {"supported": true}});
                }
                self.acp.has_subagents = params["clientCapabilities"]["subagents"].is_object();
                self.acp.has_plans = params["clientCapabilities"]["plan"].is_object();
                self.respond(id, answer);
            }
            "authenticate" => self.authenticate(id, text("methodId").unwrap_or_default())?,
            "session/new" => {
                let work_dir = text("cwd").ok_or_else(|| missing("cwd"))?;
                params.get("mcpServers").and_then(Value::as_array).ok_or_else(|| missing("mcpServers"))?;
                self.acp.open(format!("session_{}", uuid::Uuid::new_v4()), work_dir);
                self.acp.opened_with = params.clone();
                self.history = Default::default();
                self.open_records();
                self.respond(id, self.acp.opened(true));
                self.tell_commands();
            }
            "session/resume" | "session/load" | "session/fork" => {
                self.reopen(session, text("cwd").unwrap_or_default(), method)?;
                self.acp.opened_with = params.clone();
                self.open_records();
                self.respond(id, self.acp.opened(method == "session/fork"));
                self.tell_commands();
            }
            "session/list" => self.list_acp(id, params)?,
            "session/set_title" => self.rename_acp(id, session, text("title").unwrap_or_default())?,
            "session/unarchive" => self.archive_acp(id, session, false)?,
            "session/close" | "session/delete" | "session/archive" => {
                let is_own = self.acp.has(session);
                self.acp.sessions.close(session);
                if method == "session/archive" {
                    self.archive_acp(id, session, true)?;
                } else if method == "session/delete" && !self.acp.sessions.delete(session) {
                    return Err(unknown_session());
                } else {
                    self.respond(id, json!({}));
                }
                if is_own {
                    self.acp.session = None;
                    return Ok(self.is_running().then_some(Incoming::Cancel));
                }
            }
            "session/set_mode" => {
                self.set_mode(text("modeId").unwrap_or_default())?;
                self.respond(id, json!({}));
            }
            "session/set_config_option" => {
                let value = text("value").ok_or_else(|| missing("value"))?.to_owned();
                match (text("configId"), self.acp.session.as_mut()) {
                    (Some("mode"), _) => self.set_mode(&value)?,
                    (Some("model"), Some(session)) => session.model = value,
                    (Some("thinking"), Some(session)) => session.thinking = value,
                    _ => return Err(missing("configId")),
                }
                self.respond(id, json!({"configOptions": self.acp.options()}));
            }
            "session/prompt" => {
                if self.is_running() {
                    let data = json!({"code": "turn.agent_busy"});
                    let message = "Cannot launch a new turn while another turn is active".to_owned();
                    return Err(Failure { code: INVALID_REQUEST, message, data: Some(data.into()) });
                }
                let blocks = params.get("prompt").and_then(Value::as_array).ok_or_else(|| missing("prompt"))?;
                self.turn = Some(Turn::Running(id.to_owned()));
                return Ok(Some(Incoming::Prompt(content(blocks))));
            }
            STEERING if self.profile.steer => return self.steer_acp(id, params),
            _ => return Err(Failure::new(METHOD_NOT_FOUND, format!("\"Method not found\": {method}"))),
        }
        Ok(None)
    }

    fn open_records(&mut self) {
        let home = std::env::var_os("KIMI_CODE_HOME").filter(|_| self.profile.session_files);
        if let (Some(home), Some(session)) = (home, &self.acp.session)
            && let Err(error) = self.acp.records.open(home.as_ref(), &session.id, &session.work_dir)
        {
            let _ = writeln!(io::stderr(), "kimi-scripted-agent: the session's files cannot be written: {error}");
        }
    }

    fn reopen(&mut self, session: &str, work_dir: &str, method: &str) -> Result<(), Failure> {
        let stored = std::mem::take(&mut self.acp.stored);
        let fork = method == "session/fork";
        if fork || !self.acp.has(session) {
            let mut history = History::default();
            if let Some(past) = self.acp.sessions.past(session) {
                history.take_over(past);
            } else {
                history.load(session, &stored);
                if history.records().is_empty() {
                    return Err(unknown_session());
                }
            }
            self.history = history;
        }
        if fork {
            let id = format!("session_{}", uuid::Uuid::new_v4());
            self.history.store_again();
            self.acp.open(id.clone(), work_dir);
            if let Some(title) = self.acp.sessions.title(session) {
                self.acp.sessions.name(&id, &format!("Fork: {title}"));
            }
            self.acp.sessions.keep(&id, self.history.records());
        } else {
            self.acp.open(session.to_owned(), work_dir);
            self.acp.sessions.keep(session, self.history.records());
        }
        if method == "session/load" {
            let past = past(self.history.records());
            self.tell(past);
        }
        Ok(())
    }

    fn tell_commands(&mut self) {
        let commands = &self.profile.slash_commands;
        if commands.is_empty() {
            return;
        }
        let about =
            |command: &crate::messages::SlashCommand| json!({"name": command.name, "description": command.description});
        let commands: Vec<Value> = commands.iter().map(about).collect();
        self.tell(vec![json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})]);
    }

    fn set_mode(&mut self, mode: &str) -> Result<(), Failure> {
        if !MODES.iter().any(|(known, _)| *known == mode) {
            return Err(Failure::new(INVALID_PARAMS, format!("Invalid params: unknown mode {mode}")));
        }
        let updates = self.acp.enter(mode);
        self.tell(updates);
        Ok(())
    }
}
