//! The server for Kimi Code's web API. It converts the agent's messages to answers and frames of that API. HTTP and the
//! WebSocket are in [`crate::web`].
//!
//! A call has the form `{"id":7,"method":"POST /api/v1/sessions/S/prompts","params":{…}}`. Each line of output is a
//! frame, or the answer `{"jsonrpc":"2.0","id":7,"result":…}`, or the answer with `error`.

mod frames;
mod prompts;
mod route;
mod transcript;
mod words;

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::super::history::History;
use super::super::types::{Failure, Incoming};
use super::acp::text_of;
use super::{Server, Sessions};
use crate::messages::Content;
pub(crate) use route::Route;
pub(crate) use words::{now, timestamp};

const INVALID: i64 = 40001;
const NO_SESSION: i64 = 40401;
const NO_PROMPT: i64 = 40402;
const NO_APPROVAL: i64 = 40404;
const NO_QUESTION: i64 = 40405;
const NO_SKILL: i64 = 40415;
const RESOLVED: i64 = 40902;
/// The code of a successful dismissal. Other successful calls have code 0.
const DISMISSED: i64 = 40909;
const NOTHING_TO_UNDO: i64 = 40911;
const PROMPT_ID_USED: i64 = 40927;

/// The session of an agent.
#[derive(Debug, Default)]
pub(crate) struct Web {
    sessions: Sessions,
    /// The number of this agent in its process.
    agent: usize,
    session: Option<Session>,
    /// The file with earlier sessions.
    stored: String,
    /// The number of the last durable frame.
    seq: u64,
    turns: u64,
    turn: Option<Running>,
    /// Prompts that wait for the end of the turn, or for a steer.
    queue: VecDeque<(String, Value)>,
    /// A queued prompt whose turn begins.
    next: Option<Content>,
    prompt_ids: HashSet<String>,
    asked: Vec<Asked>,
    calls: Vec<Call>,
    /// The number of tokens in the context, and its size.
    context: Option<(i64, i64)>,
    /// Calls that are answered after the turn, with their answers.
    late: Vec<String>,
    held: Vec<Value>,
}

#[derive(Debug)]
struct Session {
    id: String,
    work_dir: String,
    epoch: String,
    created: u64,
    model: Option<String>,
    thinking: String,
    permission: String,
    plan_mode: bool,
}

/// The running turn.
#[derive(Debug)]
struct Running {
    id: u64,
    prompt_id: String,
    origin: Value,
    began: Instant,
    step: i64,
    step_is_open: bool,
    /// Whether the step has called a tool.
    called: bool,
    /// The number of characters of the step's text, and of its thinking.
    offsets: [usize; 2],
    usage: Option<Map<String, Value>>,
    steered: Vec<String>,
}

/// A request from the agent to the client.
#[derive(Debug)]
struct Asked {
    id: String,
    call: String,
    /// The questions. Empty for an approval.
    questions: Option<Value>,
    /// The answer.
    answer: Option<Value>,
}

#[derive(Debug)]
struct Call {
    id: String,
    /// The id that the client gets. The model may use an id twice in a session.
    shown: String,
    name: String,
    arguments: String,
    begun: bool,
}

type Answer = Result<(Value, Option<Incoming>), Failure>;

impl Web {
    /// Makes this agent one of several agents of a process. `late`: calls that are answered after the turn.
    #[cfg(feature = "web")]
    pub(crate) fn join(&mut self, sessions: Sessions, agent: usize, late: Vec<String>) {
        (self.sessions, self.agent, self.late) = (sessions, agent, late);
    }

    /// Sets the stored sessions. The next call reads them.
    pub(crate) fn remember(&mut self, stored: String) {
        self.stored = stored;
    }

    /// Returns the session's id and directory, and whether everything is approved.
    pub(crate) fn session(&self) -> Option<(&str, &str, bool)> {
        self.session.as_ref().map(|it| (&*it.id, &*it.work_dir, matches!(&*it.permission, "yolo" | "auto")))
    }

    /// Returns the number of the last durable frame.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    pub(crate) fn prompt_id(&self) -> Option<&str> {
        self.turn.as_ref().map(|turn| &*turn.prompt_id)
    }

    /// Takes the input of a queued prompt whose turn begins.
    pub(crate) fn take_next(&mut self) -> Option<Content> {
        self.next.take()
    }

    fn open(&mut self, id: String, work_dir: &str) {
        self.sessions.open(&id, work_dir, self.agent);
        self.session = Some(Session {
            epoch: format!("ep_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]),
            id,
            work_dir: work_dir.to_owned(),
            created: now(),
            model: None,
            thinking: "off".to_owned(),
            permission: "manual".to_owned(),
            plan_mode: false,
        });
    }
}

/// Returns a session as lists and answers show it.
pub(crate) fn listed(id: &str, work_dir: &str, title: Option<&str>, model: &str, created: u64) -> Value {
    let at = timestamp(created);
    json!({"id": id, "workspace_id": "wd_project_000000000000", "title": title.unwrap_or_default(), "created_at": at,
        "updated_at": at, "busy": false, "main_turn_active": false, "pending_interaction": "none", "archived": false,
        "metadata": {"cwd": work_dir}, "agent_config": {"model": model},
        "usage": {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_creation_tokens": 0,
            "total_cost_usd": 0, "context_tokens": 0, "context_limit": 0, "turn_count": 0},
        "permission_rules": [], "message_count": 0, "last_seq": 0})
}

/// Returns the tokens that a `StatusUpdate` reports.
fn usage_of(payload: &Value) -> Option<Map<String, Value>> {
    let tokens = payload["token_usage"].as_object()?;
    let names = [
        ("inputOther", "input_other"),
        ("output", "output"),
        ("inputCacheRead", "input_cache_read"),
        ("inputCacheCreation", "input_cache_creation"),
    ];
    Some(names.map(|(name, own)| (name.to_owned(), tokens.get(own).cloned().unwrap_or(json!(0)))).into_iter().collect())
}

fn failure(code: i64, message: impl Into<String>) -> Failure {
    Failure::new(code, message)
}

impl Server {
    /// Reads a call of the client.
    pub(super) fn receive_web(&mut self, message: &Map<String, Value>) -> Option<Incoming> {
        let id = message.get("id")?.to_string();
        let route = Route::parse(message.get("method")?.as_str()?)?;
        let params = message.get("params").unwrap_or(&Value::Null);
        let (answer, incoming) = match self.web_call(route, params) {
            // This success has a code of its own.
            Ok((data, incoming)) if route.name == "dismiss" => {
                let message = format!("question {} dismissed", route.item);
                let error = json!({"code": DISMISSED, "message": message, "data": data});
                (json!({"jsonrpc": "2.0", "id": self.id(&id), "error": error}), incoming)
            }
            Ok((data, incoming)) => (json!({"jsonrpc": "2.0", "id": self.id(&id), "result": data}), incoming),
            Err(failure) => {
                let mut error = json!({"code": failure.code, "message": failure.message});
                if let Some(data) = failure.data {
                    error["data"] = json!(data);
                }
                (json!({"jsonrpc": "2.0", "id": self.id(&id), "error": error}), None)
            }
        };
        if self.web.turn.is_some() && self.web.late.iter().any(|late| late == route.name) {
            self.web.held.push(answer);
        } else {
            super::write_line(&mut self.output, &answer);
        }
        self.after_answer(route, params);
        incoming
    }

    fn web_call(&mut self, route: Route<'_>, params: &Value) -> Answer {
        match route.name {
            "new" => return self.web_new(params),
            "fork" => return self.web_fork(route.session),
            _ if self.web.session.is_none() => self.web_resume(route.session)?,
            _ => {}
        }
        let session = self.web.session.as_ref().filter(|session| session.id == route.session);
        if session.is_none() {
            return Err(failure(NO_SESSION, format!("session {} does not exist", route.session)));
        }
        let records = self.history.records();
        let pending = |questions: bool| -> Value {
            let open = self.web.asked.iter().filter(|it| it.answer.is_none() && it.questions.is_some() == questions);
            open.map(|it| self.request_shown(it)).collect()
        };
        let data = match route.name {
            "session" => self.web_session(),
            "status" => self.web_status(),
            "approvals" => json!({"items": pending(false)}),
            "questions" => json!({"items": pending(true)}),
            "messages" => json!({"items": transcript::messages(route.session, records), "has_more": false}),
            "transcript" => self.web_transcript(route.query),
            "snapshot" => json!({"as_of_seq": self.web.seq, "epoch": session.map(|it| &it.epoch),
                "session": self.web_session(), "messages": {"items": transcript::messages(route.session, records),
                "has_more": false}, "in_flight_turn": self.web_in_flight(), "subagents": [], "pending_approvals": pending(false),
                "pending_questions": pending(true)}),
            "skills" => {
                let skills = self.profile.slash_commands.iter().map(|skill| {
                    json!({"name": skill.name, "description": skill.description, "path": "", "source": "user",
                        "type": "inline"})
                });
                json!({"skills": skills.collect::<Value>()})
            }
            "profile" => self.web_profile(&params["agent_config"]),
            "compact" => json!({}),
            "archive" => json!({"archived": true}),
            "delete" => {
                self.web.sessions.delete(route.session);
                let running = self.is_running();
                return Ok((json!({"deleted": true}), running.then_some(Incoming::Cancel)));
            }
            "undo" => self.web_undo(params)?,
            "prompt" => return self.web_prompt(params),
            "activate" => return self.web_activate(route.item, params),
            "steer" => return self.web_steer(params),
            "cancel" => return self.web_cancel(route.item),
            "approval" => return self.web_approval(route.item, params),
            "question" => return self.web_question(route.item, Some(&params["answers"])),
            "dismiss" => return self.web_question(route.item, None),
            _ => return Err(failure(INVALID, format!("{}: not in this server", route.name))),
        };
        Ok((data, None))
    }

    /// Frames that come after a call's answer.
    fn after_answer(&mut self, route: Route<'_>, params: &Value) {
        match route.name {
            "new" if self.web.session.is_some() => {
                let session = self.web_session();
                self.web_frame("event.session.created", json!({"session": session}));
                self.web_frame("agent.created", json!({}));
            }
            "dismiss" | "question" => {
                let asked = self.web.asked.iter().rev().find(|it| it.id == route.item && it.questions.is_some());
                let Some(Value::Object(answer)) = asked.and_then(|it| it.answer.clone()) else { return };
                let at = timestamp(now());
                match answer.get("answers") {
                    None => self
                        .web_frame("event.question.dismissed", json!({"question_id": route.item, "dismissed_at": at})),
                    Some(answers) => self.web_frame(
                        "event.question.answered",
                        json!({"question_id": route.item, "answers": answers, "resolved_at": at}),
                    ),
                }
            }
            "profile" if params["agent_config"].get("plan_mode").is_some() => {
                let plan_mode = self.web.session.as_ref().is_some_and(|session| session.plan_mode);
                self.web_volatile("agent.status.updated", json!({"planMode": plan_mode}));
            }
            _ => {}
        }
    }

    fn web_new(&mut self, params: &Value) -> Answer {
        let work_dir = params["metadata"]["cwd"].as_str();
        let work_dir = work_dir.ok_or_else(|| failure(INVALID, "metadata: expected an object with `cwd`"))?;
        self.web.open(format!("session_{}", uuid::Uuid::new_v4()), work_dir);
        self.history = History::default();
        Ok((self.web_session(), None))
    }

    fn web_fork(&mut self, of: &str) -> Answer {
        let work_dir = self.web.sessions.work_dir(of).unwrap_or_default();
        self.web_past(of)?;
        let id = format!("session_{}", uuid::Uuid::new_v4());
        self.history.store_again();
        self.web.open(id.clone(), &work_dir);
        if let Some(title) = self.web.sessions.title(of) {
            self.web.sessions.name(&id, &format!("Fork: {title}"));
        }
        self.web.sessions.keep(&id, self.history.records());
        Ok((self.web_session(), None))
    }

    fn web_resume(&mut self, id: &str) -> Result<(), Failure> {
        self.web_past(id)?;
        let work_dir = self.web.sessions.work_dir(id).unwrap_or_default();
        self.web.open(id.to_owned(), &work_dir);
        self.web.sessions.keep(id, self.history.records());
        if let Some(session) = &mut self.web.session {
            // Settings are stored with the session.
            session.model = Some("scripted".to_owned());
        }
        Ok(())
    }

    /// Continues the history of that session.
    fn web_past(&mut self, id: &str) -> Result<(), Failure> {
        let stored = std::mem::take(&mut self.web.stored);
        let mut history = History::default();
        match self.web.sessions.past(id) {
            Some(past) => history.take_over(past),
            None => history.load(id, &stored),
        }
        if history.records().is_empty() && self.web.sessions.past(id).is_none() {
            return Err(failure(NO_SESSION, format!("session {id} does not exist")));
        }
        self.web.turns = history.records().iter().filter(|record| record.kind == "TurnBegin").count() as u64;
        self.history = history;
        Ok(())
    }

    fn web_session(&self) -> Value {
        let Some(session) = &self.web.session else { return Value::Null };
        let title = self.web.sessions.title(&session.id);
        let model = session.model.as_deref().unwrap_or_default();
        let mut shown = listed(&session.id, &session.work_dir, title.as_deref(), model, session.created);
        shown["busy"] = json!(self.web.turn.is_some());
        shown["main_turn_active"] = json!(self.web.turn.is_some());
        shown
    }

    fn web_status(&self) -> Value {
        let Some(session) = &self.web.session else { return Value::Null };
        let (used, size) = self.web.context.unwrap_or((0, 100_000));
        json!({"busy": self.web.turn.is_some(), "model": session.model, "thinking_level": session.thinking,
            "permission": session.permission, "plan_mode": session.plan_mode, "swarm_mode": false, "tower_mode": false,
            "context_tokens": used, "max_context_tokens": size, "context_usage": used as f64 / size.max(1) as f64})
    }

    /// Returns the running turn as a snapshot shows it.
    fn web_in_flight(&self) -> Value {
        let (Some(turn), Some(mut last)) = (&self.web.turn, transcript::turns(self.history.records()).pop()) else {
            return Value::Null;
        };
        let [thinking, text] = transcript::take_running(&mut last);
        json!({"turn_id": turn.id, "assistant_text": text, "thinking_text": thinking, "running_tools": []})
    }

    fn web_transcript(&self, query: &str) -> Value {
        let mut items = transcript::turns(self.history.records());
        if let (Some(turn), Some(last)) = (&self.web.turn, items.last_mut()) {
            last["state"] = json!("running");
            if turn.step_is_open {
                transcript::take_running(last);
            }
        }
        let (items, has_more) = transcript::page(items, query);
        let activity = if self.web.turn.is_some() { "running" } else { "idle" };
        json!({"agent_id": "main", "items": items, "has_more": has_more, "tasks": [], "interactions": [],
            "attachments": [], "todos": [], "prompts": [], "meta": {"activity": activity},
            "agents": [{"agentId": "main", "type": "main"}], "pending_interactions": [], "seq": 1})
    }

    fn web_profile(&mut self, config: &Value) -> Value {
        if let Some(session) = &mut self.web.session {
            let text = |name: &str| config[name].as_str().map(str::to_owned);
            session.model = text("model").or(session.model.take());
            session.permission = text("permission_mode").unwrap_or_else(|| std::mem::take(&mut session.permission));
            session.plan_mode = config["plan_mode"].as_bool().unwrap_or(session.plan_mode);
            if let Some(thinking) = text("thinking") {
                session.thinking = if thinking == "off" { "off" } else { "on" }.to_owned();
            }
        }
        self.web_session()
    }

    fn web_undo(&mut self, params: &Value) -> Result<Value, Failure> {
        let count = params["count"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
        let Some(place) = transcript::before(self.history.records(), count) else {
            let data = json!({"reason": "empty", "requestedCount": count, "undoableCount": 0});
            let message = "Nothing to undo: no user message to undo".to_owned();
            return Err(Failure { code: NOTHING_TO_UNDO, message, data: Some(data.into()) });
        };
        self.history.truncate(place);
        let id = self.web.session.as_ref().map(|session| session.id.clone()).unwrap_or_default();
        self.web.sessions.truncate(&id, place);
        let messages = transcript::messages(&id, self.history.records());
        Ok(json!({"messages": {"items": messages, "has_more": false}, "status": self.web_status()}))
    }

    fn web_approval(&mut self, id: &str, params: &Value) -> Answer {
        let Some(asked) = self.web.asked.iter_mut().rev().find(|it| it.id == id && it.questions.is_none()) else {
            return Err(failure(NO_APPROVAL, format!("approval {id} not found")));
        };
        if asked.answer.is_some() {
            return Err(resolved(format!("approval {id} already resolved")));
        }
        let Some(decision @ ("approved" | "rejected" | "cancelled")) = params["decision"].as_str() else {
            return Err(failure(INVALID, "decision: Invalid option"));
        };
        asked.answer = Some(params.clone());
        let response = match (decision, params["scope"].as_str()) {
            ("approved", Some("session")) => "approve_for_session",
            ("approved", _) => "approve",
            _ => "reject",
        };
        let feedback = params["feedback"].as_str().unwrap_or_default();
        let answer = json!({"request_id": id, "response": response, "feedback": feedback});
        Ok((json!({"resolved": true, "resolved_at": timestamp(now())}), self.web_answered(id, answer)))
    }

    /// Answers a question. Without answers the question is dismissed.
    fn web_question(&mut self, id: &str, given: Option<&Value>) -> Answer {
        let Some(asked) = self.web.asked.iter_mut().rev().find(|it| it.id == id && it.questions.is_some()) else {
            return Err(failure(NO_QUESTION, format!("question {id} not found")));
        };
        if asked.answer.is_some() {
            return Err(resolved(format!("question {id} already resolved")));
        }
        let at = timestamp(now());
        let questions = asked.questions.clone().unwrap_or_default();
        let answers = given.map(|given| words::answers(&questions, given));
        asked.answer = Some(answers.as_ref().map_or_else(|| json!({}), |answers| json!({"answers": answers})));
        let answer = json!({"request_id": id, "answers": answers.unwrap_or_default()});
        let incoming = self.web_answered(id, answer);
        match given {
            Some(_) => Ok((json!({"resolved": true, "resolved_at": at}), incoming)),
            None => Ok((json!({"dismissed": true, "dismissed_at": at}), incoming)),
        }
    }

    fn web_answered(&mut self, id: &str, answer: Value) -> Option<Incoming> {
        if self.take_pending(id) {
            return Some(Incoming::Answer(id.to_owned(), Ok(answer)));
        }
        self.unasked += 1;
        None
    }
}

fn resolved(message: String) -> Failure {
    Failure { code: RESOLVED, message, data: Some(json!({"resolved": false}).into()) }
}
