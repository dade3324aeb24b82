//! Plays the agent of a recording. No I/O: lines of the SDK go in, actions come out.
//!
//! The messages of the agent are sent in the order of the recording. Each waits for the calls and answers of the SDK
//! that the recording has before it. Cancels and steers are an exception, because their place depends on timing: only
//! their answers wait for them, the end of a turn that was cancelled, and the effects of a steer.

use std::collections::{HashMap, VecDeque};

use kimi_agent_protocol::recording::{PROGRAM_DIFFERS, Places, Purpose, Redactor, difference, prompt_nonce};
use serde_json::{Value, json};

use super::mcp::{ToolsServer, recorded_result, shown_result};
use super::places::redactor;
use super::plan::{Call, Exit, Line, Plan, StepKind, id_of, id_text};
use super::stub::Stubs;
use crate::jsonrpc::{self, Message, RpcFailure};

mod comparison;

/// The code of the player's own errors: internal error.
const FAILED: i64 = -32603;
/// How much of a tool's error a difference shows, in characters.
const MAX_SHOWN: usize = 200;

/// The error of calls that wait for something after the end of a recording.
const KILLED: &str =
    "the recording ends here: the recorded program was killed before it closed the session; record the session again";

/// How a recording is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Differences of the program are accepted, as far as possible.
    #[default]
    Replay,
    /// The first difference of the program fails.
    Verify,
    /// As `Replay`, but the agent reports the results that the tools of the program return now.
    Stub,
}

/// Something that the process of the player does.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Writes a line, with its end.
    Write(Vec<u8>),
    /// Calls a tool of the program. [`Player::tool_answered`] takes the result.
    CallTool {
        id: String,
        name: String,
        arguments: Option<Value>,
        server: ToolsServer,
    },
    /// Withdraws the call of a tool.
    WithdrawTool(String),
    /// Writes a text to stderr.
    Complain(String),
    Exit(Exit),
}

/// The answer of the program to the call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ToolAnswer {
    /// The `result` of the call, as MCP has it.
    Result(Value),
    /// The call failed for this reason.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Player {
    plan: Plan,
    mode: Mode,
    places: Places,
    /// For comparisons.
    redactor: Redactor,
    /// Which calls and answers of the SDK have come, by their steps.
    done: Vec<bool>,
    /// The ids of the SDK's calls that have come, by their steps.
    ids: HashMap<usize, String>,
    /// The next step.
    next: usize,
    /// Answers to calls that have not come yet.
    deferred: Vec<usize>,
    /// The calls before this step are not awaited: the program has left them out.
    passed_over: usize,
    /// The ids of the SDK's calls that have no answer yet.
    pending: Vec<String>,
    /// The turn of the last prompt.
    turn: u64,
    /// The last turn that the program cancelled. The SDK answers no request of a cancelled turn.
    cancelled: Option<u64>,
    /// The beginning of the ids that the SDK gives its prompts.
    nonce: Option<String>,
    tools: Option<ToolsServer>,
    tool_answers: HashMap<String, ToolAnswer>,
    /// The results of tools that replace the recorded ones, in the mode `Stub`.
    stubs: Option<Stubs>,
    /// Ends the text of a difference: the file of the recording, and how to record it again.
    origin: String,
    /// The input has ended.
    is_ended: bool,
    /// The process ends.
    is_over: bool,
    actions: VecDeque<Action>,
}

impl Player {
    pub(super) fn new(plan: Plan, mode: Mode, places: Places) -> Self {
        let mut player = Self {
            done: vec![false; plan.steps.len()],
            stubs: (mode == Mode::Stub).then(|| Stubs::new(&plan)),
            plan,
            mode,
            redactor: redactor(&places),
            places,
            ids: HashMap::new(),
            next: 0,
            deferred: Vec::new(),
            passed_over: 0,
            pending: Vec::new(),
            turn: 0,
            cancelled: None,
            nonce: None,
            tools: None,
            tool_answers: HashMap::new(),
            origin: String::new(),
            is_ended: false,
            is_over: false,
            actions: VecDeque::new(),
        };
        player.advance();
        player
    }

    /// Sets the file of the recording, which the text of a difference names.
    pub(super) fn recorded_in(mut self, path: &str) -> Self {
        self.origin = format!(
            "; the recording is {path}. If this is intended, record it again; a test with a cassette does with KIMI_RECORD=rewrite"
        );
        self
    }

    /// Returns the next action.
    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Takes a line of the SDK.
    pub(super) fn receive(&mut self, line: &[u8]) {
        if self.is_over {
            return;
        }
        let line = self.with_recorded_nonce(&String::from_utf8_lossy(line));
        match jsonrpc::parse(line.as_bytes()) {
            Message::Request { id, method, params } => self.called(Some(id), &method, params.get()),
            Message::Notification { method, params } => self.called(None, &method, params.get()),
            Message::Response { id: Some(id), .. } => self.answered(&id, &line),
            Message::Response { id: None, .. } | Message::Invalid(_) => {}
        }
        self.advance();
    }

    /// Takes the answer to a call of a tool.
    pub(super) fn tool_answered(&mut self, id: String, answer: ToolAnswer) {
        if self.is_over {
            return;
        }
        self.tool_answers.insert(id, answer);
        self.advance();
    }

    /// Takes the end of the input.
    pub(super) fn end_of_input(&mut self) {
        if self.is_over {
            return;
        }
        self.is_ended = true;
        self.advance();
        if self.mode == Mode::Verify && !self.is_over {
            self.check_missing();
        }
        if !self.is_over {
            self.exit(Exit::Code(0));
        }
    }

    // --- input ---

    /// Replaces the beginning of the ids of prompts by the recorded one.
    fn with_recorded_nonce(&mut self, line: &str) -> String {
        let Some(recorded) = &self.plan.nonce else { return line.to_owned() };
        if self.nonce.is_none()
            && let Message::Request { params, .. } = jsonrpc::parse(line.as_bytes())
        {
            self.nonce = prompt_nonce(params.get());
        }
        match &self.nonce {
            Some(own) => line.replace(own, recorded),
            None => line.to_owned(),
        }
    }

    fn called(&mut self, id: Option<&str>, method: &str, params: &str) {
        self.learn(method, params);
        let purpose = Purpose::of(method);
        if purpose == Purpose::Cancel {
            self.cancelled = Some(self.turn);
        }
        let Some(at) = self.find_call(method, params, purpose) else { return self.unrecorded(id, method, purpose) };
        if !self.is_as_recorded(at, params) {
            self.pending.extend(id.map(str::to_owned));
            return self.refuse_call(at, method, params);
        }
        self.done[at] = true;
        if let Some(id) = id {
            self.ids.insert(at, id.to_owned());
            self.pending.push(id.to_owned());
        }
        if purpose == Purpose::Prompt && !self.is_timing(at) {
            self.turn = self.plan.steps[at].turn;
            self.passed_over = self.passed_over.max(at);
        }
    }

    /// Learns what the calls that open a session say about this machine.
    fn learn(&mut self, method: &str, params: &str) {
        let opens = method.starts_with("session/") || method == "POST /api/v1/sessions";
        let Some(params) = Some(params).filter(|_| opens).and_then(|text| serde_json::from_str::<Value>(text).ok())
        else {
            return;
        };
        if let Some(work_dir) = params["cwd"].as_str().or_else(|| params["metadata"]["cwd"].as_str()) {
            self.places.set_work_dir(work_dir);
            self.redactor = redactor(&self.places);
        }
        if let Some(tools) = ToolsServer::of(&params["mcpServers"]) {
            self.tools = Some(tools);
        }
    }

    fn answered(&mut self, id: &str, line: &str) {
        let mut steps = self.plan.steps.iter().enumerate();
        let found = steps.find_map(|(at, step)| match &step.kind {
            StepKind::Answer { id: of, name, message } if of == id && !self.done[at] => Some((at, name, message)),
            _ => None,
        });
        // The agent of the recording had withdrawn a request without an answer.
        let Some((at, name, message)) = found else { return };
        // The SDK itself answers the requests of a cancelled turn. Over ACP it also rejects some requests with that answer.
        let turn = self.turn_of(Some(at));
        let is_cancelled = self.cancelled == Some(turn)
            || message.contains(r#""outcome":"cancelled""#) && self.plan.is_cancelled(turn);
        if self.mode == Mode::Verify && !is_cancelled {
            let (expected, got) = (outcome(&value(message)), outcome(&self.redacted(line)));
            if let Some(found) = difference(&expected, &got) {
                let text = format!("answer to {name}: {found}{}", failure_of(&got));
                return self.fail(self.turn_of(Some(at)), &text);
            }
        }
        if let Some(stubs) = &mut self.stubs {
            stubs.take_answer(line);
        }
        self.done[at] = true;
    }

    // --- output ---

    /// Performs the steps of the agent that nothing of the program is missing for.
    fn advance(&mut self) {
        self.send_deferred();
        while !self.is_over {
            let Some(step) = self.plan.steps.get(self.next) else { break };
            let is_done = match &step.kind {
                StepKind::Call(call) => self.done[self.next] || call.is_timing() || self.next < self.passed_over,
                StepKind::Answer { .. } => self.done[self.next] || self.cancelled == Some(step.turn),
                StepKind::Line(line) => {
                    let waits = line.awaits.iter().any(|cause| !self.done[*cause]);
                    if !waits {
                        self.send_or_defer(self.next);
                    }
                    !waits
                }
                StepKind::ToolCall { id, name, arguments } => {
                    let (id, name, arguments) = (id.clone(), name.clone(), arguments.clone());
                    self.call_tool(id, name, arguments);
                    true
                }
                StepKind::ToolResult { .. } => self.takes_tool_result(self.next),
                StepKind::Close => self.is_closing(),
            };
            if !is_done {
                break;
            }
            self.next += 1;
        }
        if self.next < self.plan.steps.len() || self.is_over {
            return;
        }
        if let Some(exit) = self.plan.exit.clone() {
            self.exit(exit);
        } else if self.plan.is_killed {
            self.end_unfinished();
        }
    }

    fn send_deferred(&mut self) {
        let (ready, waiting) = std::mem::take(&mut self.deferred).into_iter().partition(|at| self.has_caller(*at));
        self.deferred = waiting;
        for at in ready {
            self.send(at);
        }
    }

    fn send_or_defer(&mut self, at: usize) {
        if self.has_caller(at) { self.send(at) } else { self.deferred.push(at) }
    }

    /// Returns whether a message is not the answer to a call that has not come.
    fn has_caller(&self, at: usize) -> bool {
        self.line(at).and_then(|line| line.answers).is_none_or(|call| self.done[call])
    }

    fn send(&mut self, at: usize) {
        let Some(line) = self.line(at) else { return };
        let mut text = self.places.fill(&line.text);
        if let Some(stubs) = &self.stubs {
            text = stubs.substitute(at, text, &self.tool_answers, &self.places);
        }
        if let Some(id) = line.answers.and_then(|call| self.ids.get(&call)) {
            text = with_id(&text, id);
            let id = id.clone();
            self.pending.retain(|pending| *pending != id);
        }
        if let (Some(recorded), Some(own)) = (&self.plan.nonce, &self.nonce) {
            text = text.replace(recorded, own);
        }
        text.push('\n');
        self.actions.push_back(Action::Write(text.into_bytes()));
    }

    fn call_tool(&mut self, id: String, name: String, arguments: Option<Value>) {
        let arguments = arguments.map(|arguments| value(&self.places.fill(&arguments.to_string())));
        match self.tools.clone() {
            Some(server) => self.actions.push_back(Action::CallTool { id, name, arguments, server }),
            None => {
                let reason = "the program has no tools now".to_owned();
                self.tool_answers.insert(id, ToolAnswer::Failed(reason));
            }
        }
    }

    /// Takes the result of a tool, if it has come.
    fn takes_tool_result(&mut self, at: usize) -> bool {
        let StepKind::ToolResult { id, name, result } = &self.plan.steps[at].kind else { return true };
        let Some(expected) = result else {
            self.actions.push_back(Action::WithdrawTool(id.clone()));
            return true;
        };
        let Some(answer) = self.tool_answers.get(id) else { return false };
        if self.mode == Mode::Verify {
            let expected = recorded_result(expected);
            let got = match answer {
                ToolAnswer::Result(result) => self.redacted(&shown_result(result).to_string()),
                ToolAnswer::Failed(reason) => json!({"error": reason}),
            };
            if let Some(found) = difference(&expected, &got) {
                let text = format!("result of the tool `{name}`: {found}{}", failure_of(&got));
                self.fail(self.turn_of(Some(at)), &text);
            }
        }
        true
    }

    /// Returns whether the program closes the session: the input has ended, or a later call of the closing has come. To
    /// close in a turn, the SDK cancels the turn first, and awaits its end.
    fn is_closing(&self) -> bool {
        let mut before = (0..self.next).rev().take_while(|at| self.plan.steps[*at].line().is_none());
        let cancels = |at: usize| self.done[at] && self.call(at).is_some_and(|call| call.purpose == Purpose::Cancel);
        self.is_ended || before.any(cancels) || self.done[self.next..].iter().any(|done| *done)
    }

    /// Ends the process, because the program differs from the recording.
    fn fail(&mut self, turn: u64, text: &str) {
        let place = if turn == 0 { "before the first turn".to_owned() } else { format!("turn {turn}") };
        let text = format!("{PROGRAM_DIFFERS}{place}: {text}{}", self.origin);
        self.refuse_pending(&text);
        self.actions.push_back(Action::Complain(text));
        self.exit(Exit::Code(1));
    }

    /// Fails what waits for more than a recording without an end has.
    fn end_unfinished(&mut self) {
        self.refuse_pending(KILLED);
        if self.plan.has_open_turn && !self.is_ended {
            // No call waits for the end of this turn, so no answer can fail it.
            self.actions.push_back(Action::Complain(KILLED.to_owned()));
            self.exit(Exit::Code(1));
        }
    }

    fn refuse_pending(&mut self, text: &str) {
        for id in std::mem::take(&mut self.pending) {
            self.actions.push_back(Action::Write(jsonrpc::refusal(&id, &failure(FAILED, text))));
        }
    }

    fn exit(&mut self, exit: Exit) {
        self.is_over = true;
        self.actions.push_back(Action::Exit(exit));
    }

    // --- the recording ---

    fn call(&self, at: usize) -> Option<&Call> {
        match &self.plan.steps.get(at)?.kind {
            StepKind::Call(call) => Some(call),
            _ => None,
        }
    }

    fn line(&self, at: usize) -> Option<&Line> {
        self.plan.steps.get(at)?.line()
    }

    fn is_timing(&self, at: usize) -> bool {
        self.call(at).is_some_and(Call::is_timing)
    }

    /// Returns whether all calls that open the session have come.
    fn is_open(&self) -> bool {
        self.plan.calls().filter(|(_, call)| call.is_opening).all(|(at, _)| self.done[at])
    }

    /// Returns the first call that the program has not made, of those with a fixed place.
    fn first_awaited_call(&self) -> Option<usize> {
        let mut calls = self.plan.calls();
        calls.find(|(at, call)| !self.done[*at] && !call.is_timing() && !call.is_opening).map(|(at, _)| at)
    }

    fn turn_of(&self, at: Option<usize>) -> u64 {
        at.and_then(|at| self.plan.steps.get(at)).map_or(self.turn, |step| step.turn)
    }

    /// Returns JSON with placeholders, as a recording has it.
    fn redacted(&self, text: &str) -> Value {
        serde_json::from_slice(&self.redactor.redacted(text.as_bytes())).unwrap_or_default()
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn failure(code: i64, message: &str) -> RpcFailure {
    RpcFailure { code, message: message.to_owned(), data: None }
}

/// Returns the error of a tool of the program, if it failed, for the text of a difference.
fn failure_of(answer: &Value) -> String {
    let result = answer.get("return_value").unwrap_or(answer);
    let has_failed = ["is_error", "isError"].iter().any(|key| result[*key] == true);
    let texts = [&result["output"], &result["message"], &result["content"][0]["text"], &answer["error"]];
    let text = texts.into_iter().filter_map(Value::as_str).find(|text| !text.is_empty());
    match text.filter(|_| has_failed || answer["error"].is_string()) {
        Some(text) => format!("; the tool failed: {}", text.chars().take(MAX_SHOWN).collect::<String>()),
        None => String::new(),
    }
}

/// Returns the parameters of a call without the trace that it belongs to, which is another one in each run.
pub(super) fn without_trace(mut params: Value) -> Value {
    let Some(map) = params.as_object_mut() else { return params };
    if let Some(meta) = map.get_mut("_meta").and_then(Value::as_object_mut) {
        let had = meta.len();
        meta.retain(|name, _| !matches!(name.as_str(), "traceparent" | "tracestate"));
        if meta.is_empty() && had > 0 {
            map.remove("_meta");
        }
    }
    params
}

/// Returns the result or the error of an answer.
fn outcome(answer: &Value) -> Value {
    answer.get("result").or_else(|| answer.get("error").filter(|error| !error.is_null())).cloned().unwrap_or_default()
}

/// Returns a message with another id. The rest stays as it is.
fn with_id(message: &str, id: &str) -> String {
    let Some(old) = id_of(message) else { return message.to_owned() };
    if id_text(old) == id_text(id) {
        return message.to_owned();
    }
    // `old` is a slice of the message.
    let start = old.as_ptr() as usize - message.as_ptr() as usize;
    format!("{}{id}{}", &message[..start], &message[start + old.len()..])
}
