//! The server for ACP, as Kimi Code 2.1 speaks it. It converts the agent's messages to ACP. Messages without a
//! counterpart are not sent.
//!
//! The messages are written without the crate that the client reads them with, so that both sides do not share a
//! mistake. Tests compare the messages with recordings of the real agent.

mod extensions;
mod login;
mod records;
mod stored;
mod words;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::super::history::{History, Record};
use super::super::types::{Failure, Incoming, Outcome};
use super::{Server, Sessions, Turn, write_line};
use crate::messages::Event;
use extensions::STEERING;
use records::Records;
pub(super) use words::text_of;
use words::{chunk, content, diff, ended, form, kind_of, past, plan, plan_of, plan_text, text_block};

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

/// A request without an answer.
#[derive(Debug)]
struct Asked {
    number: u64,
    /// The server's own id of the request.
    rpc_id: String,
    call: String,
    choice: Choice,
}

#[derive(Debug)]
enum Choice {
    Approval,
    /// The question, and the choices.
    Question(String, Vec<String>),
    /// A form: the questions, by property.
    Form(Vec<(String, String)>),
    /// A request that the protocol does not have.
    Unknown,
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

    /// Converts an event to any number of updates.
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
                updates.extend(plan_of(&payload["return_value"]));
                updates
            }
            "Plan" => plan(payload, self.has_plans).into_iter().collect(),
            "PlanDisplay" if self.has_plans => vec![plan_text(payload)],
            "StatusUpdate" => {
                if let Some(tokens) = payload["context_tokens"].as_i64() {
                    self.context = Some((tokens, payload["max_context_tokens"].as_i64().unwrap_or(0)));
                }
                let mut updates = match payload["plan_mode"].as_bool() {
                    Some(on) => self.enter(if on { "plan" } else { "default" }),
                    None => Vec::new(),
                };
                if payload["cost"].is_object() {
                    let (used, size) = self.context.unwrap_or_default();
                    let cost = json!({"amount": payload["cost"]["amount"], "currency": payload["cost"]["currency"]});
                    updates.push(json!({"sessionUpdate": "usage_update", "used": used, "size": size, "cost": cost}));
                }
                updates
            }
            _ if Event::EVENT_TYPES.contains(&kind) => Vec::new(),
            _ => {
                if kind == "subagent_update" {
                    self.subagents.extend(payload["sessionId"].as_str().map(str::to_owned));
                }
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

    /// Returns the permission request. `None` if ACP has no such request.
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
                if let (Some(about), Some(given)) = (about.as_object_mut(), payload["tool_call"].as_object()) {
                    about.extend(given.clone());
                }
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
                // The real agent sends only the first of several questions.
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

    /// Reads an answer.
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
                    Choice::Form(questions) => {
                        let answer = |(property, question): (String, String)| {
                            let chosen = result["content"].get(&property)?;
                            let label = |value: &Value| value.as_str().map(str::to_owned);
                            let all = chosen.as_array().map(|all| all.iter().filter_map(label).collect::<Vec<_>>());
                            Some((question, json!(all.map(|all| all.join(",")).or_else(|| label(chosen))?)))
                        };
                        let given = questions.into_iter().filter(|_| result["action"] == "accept");
                        let answers: Map<String, Value> = given.filter_map(answer).collect();
                        json!({"request_id": asked.rpc_id, "answers": answers})
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

    /// Writes an event or a request.
    pub(super) fn record_acp(&mut self, record: &Record) {
        self.acp.records.event(&record.kind, &record.payload);
        let Some(rpc_id) = &record.request_id else {
            if record.kind == "SubagentEvent" {
                return self.tell_of_subagent(&record.payload);
            }
            let updates = self.acp.updates(&record.kind, &record.payload);
            return self.tell(updates);
        };
        let call = record.payload["tool_call_id"].as_str().unwrap_or_default().to_owned();
        if record.kind == "QuestionRequest" {
            let begun = self.acp.begin(&call);
            self.tell(begun.into_iter().collect());
        }
        let of_subagent = record.payload["agent_id"].as_str().filter(|id| self.acp.has_subagent(id));
        let session = of_subagent.or_else(|| self.acp.session().map(|(id, ..)| id)).map(str::to_owned);
        let form = (self.acp.has_forms && record.kind == "QuestionRequest").then(|| form(&record.payload["questions"]));
        let permission = if form.is_some() { None } else { self.acp.permission(&record.kind, &record.payload) };
        let (choice, method, params) = match (form, permission) {
            (Some((questions, message, schema)), _) => {
                let params = json!({"sessionId": session, "toolCallId": self.acp.shown(&call), "mode": "form",
                    "message": message, "requestedSchema": schema});
                (Choice::Form(questions), "elicitation/create", params)
            }
            (None, Some((choice, options, about))) => {
                let params = json!({"sessionId": session, "options": options, "toolCall": about});
                (choice, "session/request_permission", params)
            }
            (None, None) if record.kind.starts_with("fs/") || record.kind.starts_with("terminal/") => {
                let mut params = record.payload.clone();
                if let Some(fields) = params.as_object_mut() {
                    fields.shift_remove("id");
                    fields.shift_insert(0, "sessionId".to_owned(), json!(session));
                }
                (Choice::Unknown, &*record.kind, params)
            }
            (None, None) => (Choice::Unknown, &*record.kind, record.payload.clone()),
        };
        let number = self.acp.sessions.ask(self.acp.agent);
        self.acp.asked.push(Asked { number, rpc_id: rpc_id.clone(), call, choice });
        write_line(&mut self.output, &json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}));
    }

    /// Sends nothing for a closed session.
    fn tell(&mut self, updates: Vec<Value>) {
        let Some(session) = self.acp.session().map(|(id, ..)| id.to_owned()) else { return };
        self.tell_in(&session, updates);
    }

    fn tell_in(&mut self, session: &str, updates: Vec<Value>) {
        for update in updates {
            let params = json!({"sessionId": session, "update": update});
            write_line(&mut self.output, &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
        }
    }

    /// Answers the prompt, and then reports the size of the context.
    pub(super) fn finish_acp(&mut self, id: &str, outcome: Outcome) {
        self.acp.asked.clear();
        if let Some((session, ..)) = self.acp.session() {
            self.acp.sessions.keep(session, self.history.records());
        }
        self.acp.records.end(&outcome);
        let reason = match &outcome {
            Outcome::Finished => "end_turn",
            Outcome::Other(word) if word == "truncated" => "max_tokens",
            Outcome::Other(word) if word == "refused" => "refusal",
            Outcome::Other(word) => word,
            // Kimi Code reports it in the session's files only.
            Outcome::MaxStepsReached(_) if self.acp.records.is_open() => "end_turn",
            Outcome::MaxStepsReached(_) => "max_turn_requests",
            Outcome::Cancelled => {
                self.tell_not_run();
                "cancelled"
            }
            // A failed request for a file or terminal is not an error of the turn.
            Outcome::Failed(failure) if failure.code == -32003 => "end_turn",
            Outcome::Failed(failure) => {
                let mut failure = failure.clone();
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

    /// Calls whose turn was cancelled before they were allowed.
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
