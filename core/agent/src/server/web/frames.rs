//! Events and requests as frames, and the end of a turn.

use serde_json::{Value, json};

use super::super::super::history::Record;
use super::super::super::types::Outcome;
use super::super::{Server, write_line};
use super::transcript::TURN_OVER;
use super::words::{self, blocks, now, timestamp};
use super::{Asked, Call, text_of, usage_of};
use crate::messages::Event;

impl Server {
    /// Writes a durable frame.
    pub(super) fn web_frame(&mut self, kind: &str, payload: Value) {
        self.web.seq += 1;
        self.web_write(kind, payload, false, None);
    }

    /// Writes a frame that is not replayed.
    pub(super) fn web_volatile(&mut self, kind: &str, payload: Value) {
        self.web_write(kind, payload, true, None);
    }

    fn web_write(&mut self, kind: &str, payload: Value, volatile: bool, offset: Option<usize>) {
        let Some(session) = &self.web.session else { return };
        let time = now();
        let mut told = json!({"type": kind});
        if let (Some(told), Value::Object(payload)) = (told.as_object_mut(), payload) {
            if !kind.starts_with("event.") {
                told.insert("time".to_owned(), json!(time));
            }
            told.insert("agentId".to_owned(), json!("main"));
            told.extend(payload);
            told.insert("sessionId".to_owned(), json!(session.id));
        }
        let mut frame = json!({"type": kind, "seq": self.web.seq, "session_id": session.id,
            "timestamp": timestamp(time), "payload": told, "epoch": session.epoch});
        if volatile {
            frame["volatile"] = json!(true);
        }
        if let Some(offset) = offset {
            frame["offset"] = json!(offset);
        }
        write_line(&mut self.output, &frame);
    }

    /// Writes an event or a request as frames of the web API.
    pub(in super::super) fn record_web(&mut self, record: &mut Record) {
        if let ("TurnBegin", Some(turn)) = (&*record.kind, &self.web.turn) {
            record.payload["prompt_id"] = json!(turn.prompt_id);
        }
        match &record.request_id {
            Some(id) => self.web_request(id, &record.kind, &record.payload),
            None => self.web_event(&record.kind, &record.payload),
        }
    }

    fn web_event(&mut self, kind: &str, payload: &Value) {
        let turn = self.web.turn.as_ref().map(|turn| turn.id);
        match kind {
            "TurnBegin" => self.web_turn_started(&text_of(&payload["user_input"])),
            "StepBegin" => self.web_step(payload["n"].as_i64().unwrap_or_default()),
            "ContentPart" => self.web_part(payload),
            "ToolCall" => {
                let function = &payload["function"];
                let id = payload["id"].as_str().unwrap_or_default().to_owned();
                let before = self.web.calls.iter().filter(|call| call.id == id).count();
                let shown = if before == 0 { id.clone() } else { format!("{id}__{}", before + 1) };
                let name = function["name"].as_str().unwrap_or_default().to_owned();
                if let Some(turn) = &mut self.web.turn {
                    turn.called = true;
                }
                self.web.calls.push(Call { id, shown, name, arguments: String::new(), begun: false });
                self.web_arguments("");
                if let Some(arguments) = function["arguments"].as_str().filter(|text| !text.is_empty()) {
                    self.web_arguments(arguments);
                }
            }
            "ToolCallPart" => self.web_arguments(payload["arguments_part"].as_str().unwrap_or_default()),
            "ToolResult" => {
                let id = payload["tool_call_id"].as_str().unwrap_or_default();
                let shown = self.web_call_begins(id);
                let result = &payload["return_value"];
                let mut told = json!({"turnId": turn, "toolCallId": shown, "output": words::output(result)});
                if result["is_error"] == true {
                    told["isError"] = json!(true);
                }
                self.web_frame("tool.result", told);
            }
            "StatusUpdate" => self.web_status_update(payload),
            "SteerInput" => {
                let steered = self.web.turn.as_mut().filter(|turn| !turn.steered.is_empty());
                let prompt_id = steered.map(|turn| turn.steered.remove(0)).unwrap_or_default();
                self.web_step_completed();
                self.web_frame(
                    "turn.steer",
                    json!({"input": blocks(&payload["user_input"]), "origin": {"kind": "user", "inTurn": true},
                        "messageId": prompt_id, "promptIds": [prompt_id], "turnId": turn}),
                );
            }
            "ApprovalResponse" => self.web_resolved(payload["request_id"].as_str().unwrap_or_default()),
            "StepRetry" => {
                let step = self.web.turn.as_ref().map(|turn| turn.step);
                let delay = payload["wait_s"].as_f64().unwrap_or_default() * 1000.0;
                let next = payload["next_attempt"].as_i64().unwrap_or_default();
                self.web_frame(
                    "turn.step.retrying",
                    json!({"turnId": turn, "step": step, "stepId": "", "failedAttempt": next - 1, "nextAttempt": next,
                        "maxAttempts": payload["max_attempts"], "delayMs": delay, "errorName": payload["error_type"],
                        "statusCode": payload["status_code"]}),
                );
            }
            _ if Event::EVENT_TYPES.contains(&kind) => {}
            _ => self.web_frame(kind, payload.clone()),
        }
    }

    fn web_request(&mut self, id: &str, kind: &str, payload: &Value) {
        let call = payload["tool_call_id"].as_str().unwrap_or_default().to_owned();
        let questions = (kind == "QuestionRequest").then(|| words::questions(&payload["questions"]));
        if questions.is_some() {
            self.web_call_begins(&call);
        }
        self.web.asked.push(Asked { id: id.to_owned(), call, questions, answer: None });
        let Some(asked) = self.web.asked.last() else { return };
        let mut shown = self.request_shown(asked);
        if asked.questions.is_some() {
            return self.web_frame("event.question.requested", shown);
        }
        shown["action"] = payload["description"].clone();
        shown["tool_input_display"] = words::display(&payload["display"]);
        if shown["tool_name"].is_null() {
            shown["tool_name"] = payload["sender"].clone();
        }
        self.web_frame("event.approval.requested", shown);
    }

    /// Returns a request as its frame and the lists of pending requests show it.
    pub(super) fn request_shown(&self, asked: &Asked) -> Value {
        let session = self.web.session.as_ref().map(|session| &*session.id);
        let turn = self.web.turn.as_ref().map(|turn| turn.id);
        let call = self.web.calls.iter().rev().find(|call| call.id == asked.call);
        let shown = call.map_or(&*asked.call, |call| &*call.shown);
        let at = now();
        match &asked.questions {
            Some(questions) => json!({"question_id": asked.id, "session_id": session, "questions": questions,
                "created_at": timestamp(at), "agent_id": "main", "turn_id": turn, "tool_call_id": shown}),
            None => json!({"approval_id": asked.id, "session_id": session, "agent_id": "main", "turn_id": turn,
                "tool_call_id": shown, "tool_name": call.map(|call| &*call.name), "action": "",
                "tool_input_display": {}, "created_at": timestamp(at), "expires_at": timestamp(at + 86_400_000)}),
        }
    }

    pub(super) fn web_turn_started(&mut self, prompt: &str) {
        let Some(turn) = &self.web.turn else { return };
        let told = json!({"turnId": turn.id, "promptId": turn.prompt_id, "origin": turn.origin, "prompt": prompt});
        self.web_frame("turn.started", told);
        self.web_busy(true, None);
    }

    fn web_busy(&mut self, busy: bool, reason: Option<&str>) {
        let mut told = json!({"busy": busy, "main_turn_active": busy, "pending_interaction": "none"});
        if let Some(reason) = reason {
            told["last_turn_reason"] = json!(reason);
        }
        self.web_frame("event.session.work_changed", told);
    }

    fn web_step(&mut self, number: i64) {
        self.web_step_completed();
        let Some(turn) = &mut self.web.turn else { return };
        (turn.step, turn.step_is_open, turn.offsets) = (number, true, [0, 0]);
        let told = json!({"turnId": turn.id, "step": number, "stepId": format!("step_{}_{number}", turn.id)});
        self.web_frame("turn.step.started", told);
    }

    fn web_step_completed(&mut self) {
        let Some(turn) = self.web.turn.as_mut().filter(|turn| turn.step_is_open) else { return };
        turn.step_is_open = false;
        let reason = if std::mem::take(&mut turn.called) { "tool_use" } else { "end_turn" };
        let usage = turn.usage.take().map_or_else(
            || json!({"inputOther": 0, "output": 0, "inputCacheRead": 0, "inputCacheCreation": 0}),
            Value::Object,
        );
        let told = json!({"turnId": turn.id, "step": turn.step, "stepId": format!("step_{}_{}", turn.id, turn.step),
            "usage": usage, "finishReason": reason});
        self.web_frame("turn.step.completed", told);
    }

    fn web_part(&mut self, part: &Value) {
        let (kind, text, at) = match (part["text"].as_str(), part["think"].as_str()) {
            (Some(text), _) => ("assistant.delta", text, 0),
            (None, Some(text)) => ("thinking.delta", text, 1),
            // Other parts have no counterpart.
            (None, None) => return,
        };
        let Some(turn) = &mut self.web.turn else { return };
        let offset = turn.offsets[at];
        turn.offsets[at] += text.encode_utf16().count();
        let told = json!({"turnId": turn.id, "delta": text});
        self.web_write(kind, told, true, Some(offset));
    }

    fn web_arguments(&mut self, part: &str) {
        let turn = self.web.turn.as_ref().map(|turn| turn.id);
        let Some(call) = self.web.calls.last_mut() else { return };
        call.arguments.push_str(part);
        let told = json!({"turnId": turn, "toolCallId": call.shown, "name": call.name, "argumentsPart": part});
        self.web_volatile("tool.call.delta", told);
    }

    /// Announces a call, unless that was done. Returns the id that the client knows.
    pub(super) fn web_call_begins(&mut self, id: &str) -> String {
        let turn = self.web.turn.as_ref().map(|turn| turn.id);
        let Some(call) = self.web.calls.iter_mut().rev().find(|call| call.id == id) else { return id.to_owned() };
        let shown = call.shown.clone();
        if !std::mem::replace(&mut call.begun, true) {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
            let description = if call.name == "AskUserQuestion" { "Asking user questions" } else { &*call.name };
            let told = json!({"turnId": turn, "toolCallId": shown, "name": call.name, "args": arguments,
                "description": description});
            self.web_frame("tool.call.started", told);
        }
        shown
    }

    fn web_status_update(&mut self, payload: &Value) {
        if let Some(new) = usage_of(payload) {
            let turn = self.web.turn.as_mut().filter(|turn| turn.step_is_open);
            if let Some(turn) = turn {
                let sum = turn.usage.get_or_insert_default();
                for (name, tokens) in new {
                    let before = sum.get(&name).and_then(Value::as_i64).unwrap_or(0);
                    let tokens = tokens.as_i64().map_or(tokens, |tokens| json!(before.saturating_add(tokens)));
                    sum.insert(name, tokens);
                }
            }
        }
        let mut told = json!({});
        if let Some(tokens) = payload["context_tokens"].as_i64() {
            let size = payload["max_context_tokens"].as_i64().unwrap_or(0);
            self.web.context = Some((tokens, size));
            told = json!({"contextTokens": tokens, "maxContextTokens": size});
        }
        if let (Some(on), Some(session)) = (payload["plan_mode"].as_bool(), &mut self.web.session) {
            session.plan_mode = on;
            told["planMode"] = json!(on);
        }
        if told != json!({}) {
            self.web_volatile("agent.status.updated", told);
        }
    }

    /// Reports that an approval was answered.
    fn web_resolved(&mut self, id: &str) {
        let Some(asked) = self.web.asked.iter().rev().find(|it| it.id == id) else { return };
        let Some(answer) = asked.answer.clone() else { return };
        let call = asked.call.clone();
        let mut told = json!({"approval_id": id});
        for name in ["decision", "feedback", "scope", "selected_label"] {
            if let Some(value) = answer.get(name).filter(|value| !value.is_null()) {
                told[name] = value.clone();
            }
        }
        told["resolved_at"] = json!(timestamp(now()));
        self.web_frame("event.approval.resolved", told);
        self.web_call_begins(&call);
    }

    /// Ends the turn. If a prompt is queued, it begins the next turn.
    pub(in super::super) fn finish_web(&mut self, prompt_id: &str, outcome: Outcome) {
        let (reason, error, interrupt) = match outcome {
            Outcome::Finished | Outcome::Other(_) => ("completed", None, None),
            Outcome::Cancelled => ("cancelled", None, Some("user_cancelled")),
            Outcome::MaxStepsReached(steps) => ("failed", Some(max_steps(steps)), Some("max_steps")),
            Outcome::Failed(failure) => ("failed", Some(words::error(&failure)), Some("error")),
        };
        let Some(turn) = &self.web.turn else { return };
        let (id, step, open) = (turn.id, turn.step, turn.step_is_open);
        let duration = turn.began.elapsed().as_millis() as u64;
        match interrupt {
            Some("user_cancelled") if open => {
                self.web_frame("turn.step.interrupted", json!({"turnId": id, "step": step, "reason": "aborted"}));
            }
            Some("error") => {
                let error = error.as_ref().unwrap_or(&Value::Null);
                let [code, text] = ["code", "message"].map(|name| error[name].as_str().unwrap_or_default());
                let told = json!({"turnId": id, "step": step.max(1), "reason": "error", "message": format!("[{code}] {text}")});
                self.web_frame("turn.step.interrupted", told);
            }
            _ => self.web_step_completed(),
        }
        self.web.turn = None;
        let over = json!({"reason": reason, "error": error, "is_interrupted": open && interrupt.is_some()});
        self.history.push(Record { request_id: None, kind: TURN_OVER.to_owned(), payload: over });
        let mut told = json!({"turnId": id, "reason": reason});
        if let Some(error) = &error {
            told["error"] = error.clone();
        }
        told["durationMs"] = json!(duration);
        if let Some(interrupt) = interrupt {
            told["interruptReason"] = json!(interrupt);
        }
        self.web_frame("turn.ended", told);
        self.web_withdraw();
        if let Some(error) = error {
            self.web_frame("error", error);
        }
        self.web_busy(false, Some(reason));
        let at = timestamp(now());
        if reason == "cancelled" {
            self.web_frame("prompt.aborted", json!({"promptId": prompt_id, "abortedAt": at}));
        } else {
            self.web_frame("prompt.completed", json!({"promptId": prompt_id, "finishedAt": at, "reason": reason}));
        }
        if let Some(session) = &self.web.session {
            self.web.sessions.keep(&session.id, self.history.records());
        }
        for answer in std::mem::take(&mut self.web.held) {
            write_line(&mut self.output, &answer);
        }
        if let Some((prompt_id, content)) = self.web.queue.pop_front() {
            self.web.next = self.web_begin(prompt_id, &content, json!({"kind": "user"}));
        }
    }

    /// Resolves the open requests without a decision.
    fn web_withdraw(&mut self) {
        let open: Vec<usize> = (0..self.web.asked.len()).filter(|at| self.web.asked[*at].answer.is_none()).collect();
        for at in open {
            let asked = &mut self.web.asked[at];
            asked.answer = Some(json!({}));
            let (id, is_question) = (asked.id.clone(), asked.questions.is_some());
            let time = timestamp(now());
            if is_question {
                self.web_frame("event.question.dismissed", json!({"question_id": id, "dismissed_at": time}));
            } else {
                self.web_frame("event.approval.resolved", json!({"approval_id": id, "resolved_at": time}));
            }
        }
    }
}

fn max_steps(steps: i64) -> Value {
    json!({"code": "loop.max_steps_exceeded", "message": format!("Turn exceeded maxSteps={steps}."), "name": "LoopError",
        "details": {"maxSteps": steps}, "retryable": false})
}
