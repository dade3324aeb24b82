//! The server where it speaks the Agent Client Protocol instead, as Kimi Code 2.1 does: its agent says and asks the
//! same, and it is told here in that protocol's words. What those have no word for is not said.
//!
//! The messages are written by hand and not by the crate that the client reads them with, so that a mistake of one
//! side is not made by the other; the recordings of the real agent are what they are held against.

mod sessions;
mod words;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::super::history::{History, Record};
use super::super::types::{Failure, Incoming, Outcome};
use super::{Server, Turn, write_line};
use crate::wire::Event;
pub(crate) use sessions::Sessions;
pub(crate) use sessions::Way;
use words::{chunk, content, diff, ended, kind_of, past, text_block, text_of};

const MODES: [(&str, &str); 4] = [("default", "Default"), ("plan", "Plan"), ("auto", "Auto"), ("yolo", "YOLO")];
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNAUTHORISED: i64 = -32000;

/// What belongs to the protocol's session: an agent has one at a time.
#[derive(Debug, Default)]
pub(crate) struct Acp {
    sessions: Sessions,
    /// Which of the process's agents this is.
    agent: usize,
    session: Option<Session>,
    /// The file with former sessions, as the agent found it.
    stored: String,
    asked: Vec<Asked>,
    calls: Vec<Call>,
    /// How many tokens there are in the context, and how many there is room for.
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

/// A request without an answer.
#[derive(Debug)]
struct Asked {
    number: u64,
    /// The server's own id for it.
    rpc_id: String,
    call: String,
    choice: Choice,
}

#[derive(Debug)]
enum Choice {
    Approval,
    /// The question, and its answers.
    Question(String, Vec<String>),
    /// A request that the protocol does not have.
    Unknown,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// The id that the client is told: an agent's own, where the model gives one twice.
    shown: String,
    name: String,
    arguments: String,
    title: String,
    /// Whether it was said that it begins.
    begun: bool,
    /// Whether it waits for a permission that nobody has given.
    waits: bool,
}

impl Acp {
    /// Makes it one of several agents, which share a client.
    pub(crate) fn join(&mut self, sessions: Sessions, agent: usize) {
        (self.sessions, self.agent) = (sessions, agent);
    }

    /// Where sessions were kept; looked at by the next call.
    pub(crate) fn remember(&mut self, stored: String) {
        self.stored = stored;
    }

    /// The session's id and directory, and whether all is allowed there.
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

    /// The update that tells of how a call's arguments are so far.
    fn arguments(call: &Call) -> Value {
        json!({"sessionUpdate": "tool_call_update", "toolCallId": call.shown, "status": "in_progress",
            "content": [text_block(&call.arguments)]})
    }

    /// The update that tells that a call begins, unless it was told.
    fn begin(&mut self, id: &str) -> Option<Value> {
        let call = self.calls.iter_mut().rev().find(|call| call.id == id).filter(|call| !call.begun)?;
        call.begun = true;
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": call.shown, "title": call.title,
            "kind": kind_of(&call.name), "status": "in_progress"});
        let mut text = call.arguments.clone();
        // Text that is no JSON has no form that this field could have.
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

    /// What an event is in the protocol's words: none, one or several updates.
    fn updates(&mut self, kind: &str, payload: &Value) -> Vec<Value> {
        match kind {
            "TurnBegin" => {
                self.calls.clear();
                let input = text_of(&payload["user_input"]);
                let Some(session) = self.session.as_ref().filter(|it| self.sessions.title(&it.id).is_none()) else {
                    return Vec::new();
                };
                self.sessions.name(&session.id, &input);
                vec![json!({"sessionUpdate": "session_info_update", "title": input})]
            }
            "ContentPart" => chunk(payload).into_iter().collect(),
            "ToolCall" => {
                let name = payload["function"]["name"].as_str().unwrap_or_default().to_owned();
                let id = payload["id"].as_str().unwrap_or_default().to_owned();
                let arguments = payload["function"]["arguments"].as_str().unwrap_or_default().to_owned();
                let before = self.calls.iter().filter(|call| call.id == id).count();
                let shown = if before == 0 { id.clone() } else { format!("{id}__{}", before + 1) };
                let title = if name == "AskUserQuestion" { "Asking user questions".to_owned() } else { name.clone() };
                let call = Call { title, id, shown, name, arguments, begun: false, waits: false };
                let mut updates =
                    vec![json!({"sessionUpdate": "tool_call", "toolCallId": call.shown, "title": call.name,
                    "kind": kind_of(&call.name), "status": "pending", "content": [text_block("")]})];
                if !call.arguments.is_empty() {
                    updates.push(Self::arguments(&call));
                }
                self.calls.push(call);
                updates
            }
            "ToolCallPart" => {
                let Some(call) = self.calls.last_mut() else { return Vec::new() };
                call.arguments.push_str(payload["arguments_part"].as_str().unwrap_or_default());
                vec![Self::arguments(call)]
            }
            "ToolResult" => {
                let id = payload["tool_call_id"].as_str().unwrap_or_default();
                self.waits(id, false);
                let mut updates: Vec<Value> = self.begin(id).into_iter().collect();
                updates.push(ended(&self.shown(id), &payload["return_value"]));
                updates
            }
            "StatusUpdate" => {
                if let Some(tokens) = payload["context_tokens"].as_i64() {
                    self.context = Some((tokens, payload["max_context_tokens"].as_i64().unwrap_or(0)));
                }
                match payload["plan_mode"].as_bool() {
                    Some(on) => self.enter(if on { "plan" } else { "default" }),
                    None => Vec::new(),
                }
            }
            _ if Event::EVENT_TYPES.contains(&kind) => Vec::new(),
            _ => {
                let mut update = json!({"sessionUpdate": kind});
                if let (Some(update), Some(payload)) = (update.as_object_mut(), payload.as_object()) {
                    update.extend(payload.clone());
                }
                vec![update]
            }
        }
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

    /// The request for a permission; `None` if the protocol has no such request.
    fn permission(&mut self, kind: &str, payload: &Value) -> Option<(Choice, Vec<Value>, Value)> {
        let call = payload["tool_call_id"].as_str().unwrap_or_default();
        let shown = self.shown(call);
        let found = self.calls.iter_mut().rev().find(|known| known.id == call);
        let name = found.as_ref().map_or_else(|| payload["sender"].as_str().unwrap_or_default(), |call| &*call.name);
        let mut about = json!({"toolCallId": shown, "title": name});
        match kind {
            "ApprovalRequest" => {
                let description = payload["description"].as_str().unwrap_or_default();
                let mut content: Vec<Value> =
                    payload["display"].as_array().into_iter().flatten().filter_map(diff).collect();
                content.push(text_block(&format!("Requesting approval to {description}")));
                about["content"] = json!(content);
                if let Some(call) = found {
                    description.clone_into(&mut call.title);
                    call.waits = true;
                }
                let option = |id, name, kind| json!({"optionId": id, "name": name, "kind": kind});
                let options = vec![
                    option("approve_once", "Approve once", "allow_once"),
                    option("approve_always", "Approve for this session", "allow_always"),
                    option("reject", "Reject", "reject_once"),
                ];
                Some((Choice::Approval, options, about))
            }
            "QuestionRequest" => {
                // Of several questions the real agent asks the first.
                let question = payload["questions"].get(0)?;
                let text = question["question"].as_str().unwrap_or_default();
                about["content"] = json!([text_block(text)]);
                let label = |option: &Value| option["label"].as_str().unwrap_or_default().to_owned();
                let labels: Vec<String> = question["options"].as_array().into_iter().flatten().map(label).collect();
                let numbered = labels.iter().enumerate();
                let mut options: Vec<Value> = numbered
                    .map(|(i, name)| json!({"optionId": format!("q0_opt_{i}"), "name": name, "kind": "allow_once"}))
                    .collect();
                options.push(json!({"optionId": "q0_skip", "name": "Skip", "kind": "reject_once"}));
                Some((Choice::Question(text.to_owned(), labels), options, about))
            }
            _ => None,
        }
    }
}

fn unknown_session() -> Failure {
    Failure::new(INVALID_PARAMS, "Unknown sessionId")
}

impl Server {
    /// Reads a message of the client's. What is no call is ignored, as the real agent notes it on stderr only.
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
        if matches!(method, "session/prompt" | "session/close" | "session/set_mode" | "session/set_config_option")
            && !self.acp.has(session)
        {
            return Err(unknown_session());
        }
        match method {
            "initialize" => {
                let server = &self.profile.server;
                let answer = json!({
                    "protocolVersion": 1,
                    "agentCapabilities": {
                        "loadSession": true,
                        "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                        "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}},
                        // It has no client for MCP, so the program's tools don't reach it.
                        "mcpCapabilities": {"http": false, "sse": false},
                    },
                    "authMethods": [],
                    "agentInfo": {"name": server.name, "version": server.version},
                });
                self.respond(id, answer);
            }
            "session/new" => {
                let work_dir = text("cwd").ok_or_else(|| missing("cwd"))?;
                params.get("mcpServers").and_then(Value::as_array).ok_or_else(|| missing("mcpServers"))?;
                self.acp.open(format!("session_{}", uuid::Uuid::new_v4()), work_dir);
                self.history = Default::default();
                self.respond(id, self.acp.opened(true));
                self.tell_commands();
            }
            "session/resume" | "session/load" | "session/fork" => {
                self.reopen(session, text("cwd").unwrap_or_default(), method)?;
                self.respond(id, self.acp.opened(method == "session/fork"));
                self.tell_commands();
            }
            "session/list" => {
                self.respond(id, json!({"sessions": self.acp.sessions.list(text("cwd"))}));
            }
            "session/close" | "session/delete" => {
                let is_own = self.acp.has(session);
                self.acp.sessions.close(session);
                if method == "session/delete" && !self.acp.sessions.delete(session) {
                    return Err(unknown_session());
                }
                self.respond(id, json!({}));
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
            _ => return Err(Failure::new(METHOD_NOT_FOUND, format!("\"Method not found\": {method}"))),
        }
        Ok(None)
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
            |command: &crate::wire::SlashCommand| json!({"name": command.name, "description": command.description});
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

    /// An answer, as the server's own dialect has it.
    fn acp_answer(&mut self, number: u64, message: &Map<String, Value>) -> Option<Incoming> {
        let place = self.acp.asked.iter().position(|asked| asked.number == number);
        let Some(asked) = place.map(|place| self.acp.asked.remove(place)).filter(|it| self.take_pending(&it.rpc_id))
        else {
            self.unasked += 1;
            return None;
        };
        let outcome = match message.get("error").filter(|error| !error.is_null()) {
            Some(error) => {
                let text = error["message"].as_str().unwrap_or_default();
                Err(Failure { code: error["code"].as_i64().unwrap_or(0), message: text.to_owned(), data: None })
            }
            None => {
                let result = message.get("result").cloned().unwrap_or_default();
                let chosen = result["outcome"]["optionId"].as_str().unwrap_or_default();
                Ok(match asked.choice {
                    Choice::Approval => {
                        self.acp.waits(&asked.call, !chosen.starts_with("approve"));
                        let response = match chosen {
                            "approve_once" => "approve",
                            "approve_always" => "approve_for_session",
                            _ => "reject",
                        };
                        json!({"request_id": asked.rpc_id, "response": response})
                    }
                    Choice::Question(question, labels) => {
                        let number = chosen.strip_prefix("q0_opt_").and_then(|number| number.parse::<usize>().ok());
                        let answer = number.and_then(|number| labels.get(number));
                        let answers = answer.map(|label| (question, json!(label)));
                        json!({"request_id": asked.rpc_id, "answers": Map::from_iter(answers)})
                    }
                    Choice::Unknown => result,
                })
            }
        };
        if !asked.call.is_empty() && self.turn.is_some() && outcome.is_ok() {
            let begun = self.acp.begin(&asked.call);
            self.tell(begun.into_iter().collect());
        }
        Some(Incoming::Answer(asked.rpc_id, outcome))
    }

    /// Writes an event or a request in the protocol's words.
    pub(super) fn record_acp(&mut self, record: &Record) {
        let Some(rpc_id) = &record.request_id else {
            let updates = self.acp.updates(&record.kind, &record.payload);
            return self.tell(updates);
        };
        let call = record.payload["tool_call_id"].as_str().unwrap_or_default().to_owned();
        if record.kind == "QuestionRequest" {
            let begun = self.acp.begin(&call);
            self.tell(begun.into_iter().collect());
        }
        let session = self.acp.session().map(|(id, ..)| id.to_owned());
        let (choice, method, params) = match self.acp.permission(&record.kind, &record.payload) {
            Some((choice, options, about)) => {
                let params = json!({"sessionId": session, "options": options, "toolCall": about});
                (choice, "session/request_permission", params)
            }
            None => (Choice::Unknown, &*record.kind, record.payload.clone()),
        };
        let number = self.acp.sessions.ask(self.acp.agent);
        self.acp.asked.push(Asked { number, rpc_id: rpc_id.clone(), call, choice });
        write_line(&mut self.output, &json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}));
    }

    /// Of a session that is closed nothing is told.
    fn tell(&mut self, updates: Vec<Value>) {
        let Some(session) = self.acp.session().map(|(id, ..)| id.to_owned()) else { return };
        for update in updates {
            let params = json!({"sessionId": session, "update": update});
            write_line(&mut self.output, &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
        }
    }

    /// Answers the prompt; how full the context is comes after it.
    pub(super) fn finish_acp(&mut self, id: &str, outcome: Outcome) {
        self.acp.asked.clear();
        if let Some((session, ..)) = self.acp.session() {
            self.acp.sessions.keep(session, self.history.records());
        }
        let reason = match outcome {
            Outcome::Finished => "end_turn",
            Outcome::MaxStepsReached(_) => "max_turn_requests",
            Outcome::Cancelled => {
                self.tell_not_run();
                "cancelled"
            }
            // A service that fails is no error there.
            Outcome::Failed(failure) if failure.code == -32003 => "end_turn",
            Outcome::Failed(mut failure) => {
                if matches!(failure.code, -32001 | -32004) {
                    let message = format!("Authentication required: {}", failure.message);
                    failure = Failure { code: UNAUTHORISED, message, data: failure.data };
                }
                self.respond_failure(Some(id), &failure);
                return self.tell_context();
            }
        };
        self.respond(id, json!({"stopReason": reason}));
        self.tell_context();
    }

    fn tell_context(&mut self) {
        if let Some((used, size)) = self.acp.context {
            self.tell(vec![json!({"sessionUpdate": "usage_update", "used": used, "size": size})]);
        }
    }

    /// Calls whose turn was cancelled while nobody had allowed them.
    fn tell_not_run(&mut self) {
        let waiting: Vec<_> = self.acp.calls.iter().filter(|call| call.waits).map(|call| call.id.clone()).collect();
        for id in waiting {
            let begun = self.acp.begin(&id);
            let name = self.acp.calls.iter().rev().find(|call| call.id == id).map_or("", |call| &*call.name);
            let text = format!("Tool \"{name}\" was not run because the approval request was cancelled.");
            let result = ended(&self.acp.shown(&id), &json!({"is_error": true, "output": text}));
            self.tell(begun.into_iter().chain([result]).collect());
        }
    }
}
