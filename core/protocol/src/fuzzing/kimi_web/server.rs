//! Kimi Code's server as a model: a journal of the frames that it keeps, and a transcript, which has the texts.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::SESSION;

#[derive(Clone, Debug, Default)]
pub(super) struct Tool {
    pub(super) id: String,
    pub(super) is_done: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    pub(super) thinking: String,
    pub(super) text: String,
    /// The model has said all that it has to say.
    pub(super) is_said: bool,
    pub(super) is_over: bool,
    pub(super) tools: Vec<Tool>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    pub(super) prompt: Option<String>,
    pub(super) state: &'static str,
    pub(super) steps: Vec<Step>,
}

/// The server.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) is_connected: bool,
    pub(super) is_subscribed: bool,
    pub(super) is_behind: bool,
    pub(super) seq: u64,
    pub(super) journal: Vec<(u64, Value)>,
    pub(super) turns: Vec<Turn>,
    pub(super) is_running: bool,
    pub(super) queue: VecDeque<String>,
    pub(super) approval: Option<(String, String)>,
    pub(super) names: u64,
    /// Lines on their way to us.
    pub(super) lines: VecDeque<Value>,
}

impl Server {
    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    fn turn(&mut self) -> &mut Turn {
        self.turns.last_mut().expect("a turn")
    }

    fn step(&mut self) -> Option<&mut Step> {
        self.turns.last_mut()?.steps.last_mut()
    }

    pub(super) fn ordinal(&self) -> usize {
        self.turns.len() - 1
    }

    /// A frame that is kept.
    pub(super) fn keep(&mut self, kind: &str, payload: Value) {
        self.seq += 1;
        let params = json!({"seq": self.seq, "session_id": SESSION, "epoch": "e", "payload": payload});
        let line = json!({"jsonrpc": "2.0", "method": kind, "params": params});
        self.journal.push((self.seq, line.clone()));
        self.send(line);
    }

    /// A frame that is not kept.
    fn pass(&mut self, kind: &str, offset: Option<u64>, payload: Value) {
        let mut params =
            json!({"seq": self.seq, "session_id": SESSION, "epoch": "e", "volatile": true, "payload": payload});
        if let Some(offset) = offset {
            params["offset"] = json!(offset);
        }
        self.send(json!({"jsonrpc": "2.0", "method": kind, "params": params}));
    }

    fn send(&mut self, line: Value) {
        if self.is_connected && self.is_subscribed {
            self.lines.push_back(line);
        }
    }

    pub(super) fn begin(&mut self, prompt: Option<String>) {
        self.turns.push(Turn { prompt: prompt.clone(), state: "running", steps: Vec::new() });
        self.is_running = true;
        let turn = self.ordinal();
        self.keep("turn.started", json!({"turnId": turn, "promptId": prompt, "prompt": "go"}));
    }

    fn end(&mut self, reason: &'static str) {
        let turn = self.ordinal();
        self.turn().state = reason;
        self.is_running = false;
        self.keep("turn.ended", json!({"turnId": turn, "reason": reason}));
        if let Some((approval, _)) = self.approval.take() {
            self.keep("event.approval.resolved", json!({"approval_id": approval}));
        }
        if let Some(prompt) = self.turn().prompt.clone() {
            let kind = if reason == "completed" { "prompt.completed" } else { "prompt.aborted" };
            self.keep(kind, json!({"promptId": prompt, "reason": reason}));
        }
        if let Some(next) = self.queue.pop_front() {
            self.begin(Some(next));
        }
    }

    pub(super) fn work(&mut self, what: u8) {
        if !self.is_running || self.approval.is_some() {
            return;
        }
        let turn = self.ordinal();
        let Some(step) = self.step().filter(|step| !step.is_over).cloned() else {
            if what.is_multiple_of(3) && !self.turn().steps.is_empty() {
                return self.end("completed");
            }
            self.turn().steps.push(Step::default());
            let n = self.turn().steps.len();
            return self.keep("turn.step.started", json!({"turnId": turn, "step": n}));
        };
        let n = self.turn().steps.len();
        let piece = format!("{}🎉", self.name("t"));
        match what % 8 {
            0 if !step.is_said && step.text.is_empty() => {
                self.pass("thinking.delta", Some(units(&step.thinking)), json!({"turnId": turn, "delta": piece}));
                self.step().expect("a step").thinking += &piece;
            }
            1..=3 if !step.is_said => {
                self.pass("assistant.delta", Some(units(&step.text)), json!({"turnId": turn, "delta": piece}));
                self.step().expect("a step").text += &piece;
            }
            4 | 5 => {
                let id = self.name("c");
                for part in ["{\"a\":", "1}"] {
                    let payload = json!({"turnId": turn, "toolCallId": id, "name": "T", "argumentsPart": part});
                    self.pass("tool.call.delta", None, payload);
                }
                self.step().expect("a step").is_said = true;
                if what % 8 == 4 {
                    let approval = self.name("a");
                    let payload =
                        json!({"approval_id": approval, "turn_id": turn, "tool_call_id": id, "tool_name": "T"});
                    self.keep("event.approval.requested", payload);
                    self.approval = Some((approval, id));
                } else {
                    self.started(&id);
                }
            }
            6 => {
                if let Some(tool) = step.tools.iter().find(|tool| !tool.is_done) {
                    self.result(&tool.id.clone());
                }
            }
            _ if step.tools.iter().all(|tool| tool.is_done) => {
                let step = self.step().expect("a step");
                (step.is_said, step.is_over) = (true, true);
                let usage = json!({"inputOther": 1, "output": 1});
                self.keep("turn.step.completed", json!({"turnId": turn, "step": n, "usage": usage}));
            }
            _ => {}
        }
    }

    pub(super) fn started(&mut self, id: &str) {
        let turn = self.ordinal();
        self.step().expect("a step").tools.push(Tool { id: id.to_owned(), is_done: false });
        self.keep("tool.call.started", json!({"turnId": turn, "toolCallId": id, "name": "T", "args": {"a": 1}}));
    }

    pub(super) fn result(&mut self, id: &str) {
        let turn = self.ordinal();
        let tools = &mut self.step().expect("a step").tools;
        tools.iter_mut().find(|tool| tool.id == id).expect("a call").is_done = true;
        self.keep("tool.result", json!({"turnId": turn, "toolCallId": id, "output": id}));
    }

    pub(super) fn abort(&mut self, prompt: Option<&str>) -> bool {
        let running = self.is_running.then(|| self.turn().prompt.clone()).flatten();
        match prompt {
            Some(prompt) if running.as_deref() != Some(prompt) => {
                let before = self.queue.len();
                self.queue.retain(|queued| queued != prompt);
                if self.queue.len() == before {
                    return false;
                }
                self.keep("prompt.aborted", json!({"promptId": prompt}));
                return true;
            }
            _ if !self.is_running => return prompt.is_none(),
            _ => {}
        }
        let turn = self.ordinal();
        if self.step().is_some_and(|step| !step.is_over) {
            let n = self.turn().steps.len();
            self.step().expect("a step").is_over = true;
            self.keep("turn.step.interrupted", json!({"turnId": turn, "step": n}));
        }
        self.end("cancelled");
        true
    }

    /// The transcript, with the texts of what the model has said whole.
    pub(super) fn transcript(&self) -> Value {
        let step = |(n, step): (usize, &Step)| {
            let mut frames = Vec::new();
            if step.is_said || step.is_over {
                frames.push(json!({"kind": "thinking", "text": step.thinking}));
                frames.push(json!({"kind": "text", "role": "assistant", "text": step.text}));
                frames.extend(step.tools.iter().map(|tool| {
                    let state = if tool.is_done { "done" } else { "running" };
                    json!({"kind": "tool", "toolCallId": tool.id, "name": "T", "state": state, "input": {"a": 1}, "output": tool.id})
                }));
            }
            let usage = step.is_over.then(|| json!({"inputOther": 1, "output": 1}));
            json!({"ordinal": n + 1, "state": "completed", "frames": frames, "usage": usage})
        };
        let turn = |(n, turn): (usize, &Turn)| {
            let steps: Vec<_> = turn.steps.iter().enumerate().map(step).collect();
            json!({"kind": "turn", "ordinal": n, "state": turn.state, "triggerPromptId": turn.prompt, "steps": steps})
        };
        let skipped = self.turns.len().saturating_sub(50);
        let prompts: Vec<_> = self.queue.iter().map(|prompt| json!({"promptId": prompt, "status": "queued"})).collect();
        let items: Vec<_> = self.turns.iter().enumerate().skip(skipped).map(turn).collect();
        json!({"items": items, "has_more": false, "prompts": prompts})
    }

    pub(super) fn snapshot(&self) -> Value {
        let running = self.is_running.then(|| {
            let step =
                self.turns.last().and_then(|turn| turn.steps.last()).filter(|step| !step.is_said && !step.is_over);
            let (text, thinking) = step.map_or(("", ""), |step| (&*step.text, &*step.thinking));
            json!({"turn_id": self.turns.len() - 1, "assistant_text": text, "thinking_text": thinking})
        });
        let approvals = self.approval.iter().map(|(approval, call)| {
            json!({"approval_id": approval, "turn_id": self.turns.len() - 1, "tool_call_id": call, "tool_name": "T"})
        });
        json!({"as_of_seq": self.seq, "in_flight_turn": running, "pending_approvals": approvals.collect::<Vec<_>>(), "pending_questions": []})
    }
}

fn units(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}
