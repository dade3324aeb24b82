//! The updates that the agent sends about a turn.

use serde_json::{Value, json};

use super::permissions::{Asked, Choice};
use super::words::{chunk, ended, form, kind_of, plan, plan_of, plan_text, text_block, text_of};
use super::{Acp, Call, UNAUTHORISED};
use crate::history::Record;
use crate::messages::Event;
use crate::server::{Server, write_line};
use crate::types::{Failure, Outcome};

impl Acp {
    /// Converts an event to any number of updates.
    pub(super) fn updates(&mut self, kind: &str, payload: &Value) -> Vec<Value> {
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
}

impl Server {
    /// Writes an event or a request.
    pub(in super::super) fn record_acp(&mut self, record: &Record) {
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
    pub(super) fn tell(&mut self, updates: Vec<Value>) {
        let Some(session) = self.acp.session().map(|(id, ..)| id.to_owned()) else { return };
        self.tell_in(&session, updates);
    }

    pub(super) fn tell_in(&mut self, session: &str, updates: Vec<Value>) {
        for update in updates {
            let params = json!({"sessionId": session, "update": update});
            write_line(&mut self.output, &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
        }
    }

    /// Answers the prompt, and then reports the size of the context.
    pub(in super::super) fn finish_acp(&mut self, id: &str, outcome: Outcome) {
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
