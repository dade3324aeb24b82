//! A recording as a list of steps, in its order.

use std::collections::HashMap;

use serde_json::Value;

use crate::jsonrpc::{self, Message};
use kimi_agent_protocol::recording::{CallKind, EndEntry, EndReason, Entry, Purpose, Recording, Side, prompt_nonce};

/// The error code of a session whose agent exited.
const AGENT_EXITED: &str = "agent_exited";

/// The steps of a recording.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The number of prompts.
    pub(super) prompts: usize,
    /// The beginning of the ids that the SDK gave its prompts, over the protocol of Kimi Code's server.
    pub(super) nonce: Option<String>,
    /// How the agent exited, if its exit ended the session.
    pub(super) exit: Option<Exit>,
    /// Whether the recording has no end, because the recorded program was killed.
    pub(super) is_killed: bool,
    /// Whether the last turn has no end, and no call waits for it: over the protocol of Kimi Code's server, a prompt is
    /// answered before its turn ends.
    pub(super) has_open_turn: bool,
}

/// How an agent ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// With this exit code.
    Code(i32),
    /// By the signal with this name.
    Signal(String),
}

/// A step of a recording.
#[derive(Debug)]
pub(super) struct Step {
    /// The number of the turn, from 1 on. 0 before the first.
    pub(super) turn: u64,
    pub(super) kind: StepKind,
}

#[derive(Debug)]
pub(super) enum StepKind {
    /// The SDK calls a method of the agent.
    Call(Call),
    /// The SDK answers a request of the agent.
    Answer {
        /// The id of the request.
        id: String,
        /// The name of the request, for errors.
        name: String,
        message: String,
    },
    /// A message of the agent.
    Line(Line),
    /// The agent calls a tool of the program over MCP.
    ToolCall { id: String, name: String, arguments: Option<Value> },
    /// That call is answered. `result` is `None` if the agent withdrew the call.
    ToolResult { id: String, name: String, result: Option<Value> },
    /// The program closes the session.
    Close,
}

/// A call of the SDK.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: String,
    pub(super) params: String,
    pub(super) purpose: Purpose,
    /// Whether it opens the session. Its parameters depend on the SDK.
    pub(super) is_opening: bool,
}

impl Call {
    /// Returns whether its place in the recording depends on timing only.
    pub(super) fn is_timing(&self) -> bool {
        matches!(self.purpose, Purpose::Cancel | Purpose::Steer | Purpose::Withdraw)
    }
}

/// A message of the agent.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) text: String,
    /// The call that it answers.
    pub(super) answers: Option<usize>,
    /// The cancels and steers that caused it.
    pub(super) awaits: Vec<usize>,
}

impl Plan {
    /// Makes the steps of a recording.
    ///
    /// # Errors
    /// Returns the reason why the recording cannot be played.
    pub(super) fn new(recording: Recording) -> Result<Self, String> {
        let mut builder = Builder { dialect: recording.header.dialect, is_opening: true, ..Builder::default() };
        let is_killed = !recording.entries.iter().any(|timed| matches!(timed.entry, Entry::End(_)));
        for timed in recording.entries {
            builder.add(timed.entry)?;
        }
        let Builder { steps, nonce, exit, .. } = builder;
        let mut plan = Self { steps, prompts: 0, nonce, exit, is_killed, has_open_turn: false };
        // An agent that exits does not wait until the program closes the session.
        while plan.exit.is_some() && plan.steps.last().is_some_and(|step| matches!(step.kind, StepKind::Close)) {
            plan.steps.pop();
        }
        plan.prompts = plan.calls().filter(|(_, call)| call.purpose == Purpose::Prompt).count();
        plan.find_causes();
        plan.has_open_turn = plan.find_open_turn();
        Ok(plan)
    }

    /// Returns the calls of the SDK, with their indexes.
    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, &Call)> {
        self.steps.iter().enumerate().filter_map(|(at, step)| match &step.kind {
            StepKind::Call(call) => Some((at, call)),
            _ => None,
        })
    }

    /// Returns whether the program cancelled this turn, or closed the session in it, for which the SDK cancels it.
    pub(super) fn is_cancelled(&self, turn: u64) -> bool {
        self.calls().any(|(at, call)| self.steps[at].turn == turn && call.purpose == Purpose::Cancel)
    }

    fn find_open_turn(&self) -> bool {
        let Some((prompt, _)) = self.calls().filter(|(_, call)| call.purpose == Purpose::Prompt).last() else {
            return false;
        };
        let mut lines = self.steps[prompt + 1..].iter().filter_map(Step::line);
        let is_answered = lines.clone().any(|line| line.answers == Some(prompt));
        is_answered && !lines.any(|line| turn_end(line, prompt).is_some())
    }

    /// Notes which messages of the agent wait for a cancel or a steer: the end of a turn that was cancelled, and what
    /// follows from a steer.
    fn find_causes(&mut self) {
        let causes = self.calls().filter(|(_, call)| matches!(call.purpose, Purpose::Cancel | Purpose::Steer));
        for (at, is_steer) in causes.map(|(at, call)| (at, call.purpose == Purpose::Steer)).collect::<Vec<_>>() {
            let prompts = || self.calls().filter(|(_, call)| call.purpose == Purpose::Prompt).map(|(prompt, _)| prompt);
            let Some(prompt) = prompts().filter(|prompt| *prompt < at).last() else { continue };
            let end = prompts().find(|prompt| *prompt > at).unwrap_or(self.steps.len());
            let has_effect = |line: &Line| match is_steer {
                true => line.answers == Some(at) && is_success(&line.text),
                false => turn_end(line, prompt) == Some(true),
            };
            let mut lines = self.steps[at + 1..end].iter().filter_map(Step::line);
            if !lines.any(has_effect) {
                continue;
            }
            let waits = |line: &Line| turn_end(line, prompt).is_some() || is_steer && is_steer_input(line);
            for line in self.steps[at + 1..end].iter_mut().filter_map(Step::line_mut).filter(|line| waits(line)) {
                line.awaits.push(at);
            }
        }
    }
}

impl Step {
    pub(super) fn line(&self) -> Option<&Line> {
        if let StepKind::Line(line) = &self.kind { Some(line) } else { None }
    }

    fn line_mut(&mut self) -> Option<&mut Line> {
        if let StepKind::Line(line) = &mut self.kind { Some(line) } else { None }
    }
}

fn is_success(answer: &str) -> bool {
    matches!(jsonrpc::parse(answer.as_bytes()), Message::Response { outcome: Ok(_), .. })
}

/// Returns whether the agent shows the text of a steer.
fn is_steer_input(line: &Line) -> bool {
    line.text.contains("\"SteerInput\"")
        && serde_json::from_str::<Value>(&line.text).is_ok_and(|message| message["params"]["type"] == "SteerInput")
}

/// Returns `None` if a message does not end the turn of this prompt, and otherwise whether it says that the turn was
/// cancelled.
fn turn_end(line: &Line, prompt: usize) -> Option<bool> {
    let is_answer = line.answers == Some(prompt);
    let names = ["TurnEnd", "StepInterrupted", "turn.ended", "turn.step.interrupted", "prompt.aborted"];
    if !is_answer && !names.iter().any(|name| line.text.contains(name)) {
        return None;
    }
    let message: Value = serde_json::from_str(&line.text).ok()?;
    if is_answer {
        let result = &message["result"];
        let status = result.get("status").or_else(|| result.get("stopReason"));
        return (result.get("prompt_id").is_none()).then(|| status.is_some_and(|status| status == "cancelled"));
    }
    let params = &message["params"];
    match message["method"].as_str()? {
        "event" if matches!(params["type"].as_str(), Some("TurnEnd" | "StepInterrupted")) => Some(false),
        "turn.ended" => Some(params["payload"]["reason"] == "cancelled"),
        "turn.step.interrupted" | "prompt.aborted" => Some(false),
        _ => None,
    }
}

#[derive(Default)]
struct Builder {
    dialect: String,
    steps: Vec<Step>,
    turn: u64,
    is_opening: bool,
    /// Whether the last call of the program was a steer.
    is_steering: bool,
    /// The calls of the SDK, by the text of their ids.
    calls: HashMap<String, usize>,
    /// What the requests of the agent are called in a difference, by their ids.
    requests: HashMap<String, String>,
    /// The names of the called tools, by the ids of the calls.
    tools: HashMap<String, String>,
    nonce: Option<String>,
    exit: Option<Exit>,
}

impl Builder {
    fn push(&mut self, kind: StepKind) {
        self.steps.push(Step { turn: self.turn, kind });
    }

    fn add(&mut self, entry: Entry) -> Result<(), String> {
        match entry {
            Entry::Message(message) => {
                let text = message.message.map(|message| String::from(Box::<str>::from(message)));
                // A line with the JSON `null` is read as none.
                let text = text.or(message.line).unwrap_or_else(|| "null".to_owned());
                match message.from {
                    Side::Sdk => self.add_of_sdk(text),
                    Side::Agent => self.add_of_agent(text),
                }
            }
            Entry::Opened(_) => self.is_opening = false,
            Entry::Call(call) => {
                self.is_steering = call.call == CallKind::Steer;
                if call.call == CallKind::Prompt {
                    self.turn = call.turn.unwrap_or(self.turn + 1);
                }
                if call.call == CallKind::Close {
                    self.push(StepKind::Close);
                }
            }
            Entry::ToolCall(call) => {
                self.tools.insert(call.id.clone(), call.name.clone());
                self.push(StepKind::ToolCall { id: call.id, name: call.name, arguments: call.arguments });
            }
            Entry::ToolResult(answer) => {
                let name = self.tools.get(&answer.id).cloned().unwrap_or_default();
                self.push(StepKind::ToolResult { id: answer.id, name, result: answer.result });
            }
            Entry::Gap(gap) => {
                return Err(format!("{} of its entries are missing, because its disk was too slow", gap.entries));
            }
            Entry::End(end) => self.exit = exit(end),
            _ => {}
        }
        Ok(())
    }

    fn add_of_sdk(&mut self, text: String) {
        let call = match jsonrpc::parse(text.as_bytes()) {
            Message::Request { id, method, params } => {
                self.calls.insert(id.to_owned(), self.steps.len());
                self.call(&method, params.get())
            }
            Message::Notification { method, params } => self.call(&method, params.get()),
            Message::Response { id: Some(id), .. } => {
                let id = id.into_owned();
                let name = self.requests.get(&id).cloned().unwrap_or_default();
                return self.push(StepKind::Answer { id, name, message: text });
            }
            Message::Response { id: None, .. } | Message::Invalid(_) => return,
        };
        self.push(StepKind::Call(call));
    }

    fn call(&mut self, method: &str, params: &str) -> Call {
        let purpose = Purpose::of(method);
        let purpose = if self.is_steering && purpose == Purpose::Prompt { Purpose::Steer } else { purpose };
        if self.nonce.is_none() {
            self.nonce = prompt_nonce(params);
        }
        Call { method: method.to_owned(), params: params.to_owned(), purpose, is_opening: self.is_opening }
    }

    fn add_of_agent(&mut self, text: String) {
        let mut answers = None;
        match jsonrpc::parse(text.as_bytes()) {
            Message::Request { id, method, params } => {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                let kind = params["type"].as_str();
                let tool = if kind == Some("ToolCallRequest") { params["payload"]["name"].as_str() } else { None };
                let tool = tool.map_or_else(String::new, |tool| format!(" of the tool `{tool}`"));
                self.requests.insert(id_text(id), format!("`{}`{tool}", kind.unwrap_or(&method)));
            }
            Message::Response { id: Some(_), .. } => {
                let id = id_of(&text).unwrap_or_default().to_owned();
                if self.calls.is_empty() {
                    self.add_shared_handshake(&id);
                }
                answers = self.calls.get(&id).copied();
            }
            _ => {}
        }
        self.push(StepKind::Line(Line { text, answers, awaits: Vec::new() }));
    }

    /// Adds the first call of a session that shared its process: another session had made the call.
    fn add_shared_handshake(&mut self, id: &str) {
        let method = match &*self.dialect {
            "acp" => "initialize",
            "kimi-web" => "GET /api/v1/meta",
            _ => return,
        };
        self.calls.insert(id.to_owned(), self.steps.len());
        let call = self.call(method, "null");
        self.push(StepKind::Call(call));
    }
}

fn exit(end: EndEntry) -> Option<Exit> {
    let is_exit = end.reason == EndReason::Failed && end.error.is_some_and(|error| error.code == AGENT_EXITED);
    let exit = end.signal.map(Exit::Signal).or(end.exit_code.map(Exit::Code));
    is_exit.then(|| exit.unwrap_or(Exit::Code(0)))
}

/// Returns the text of an id as [`Message::Response`] has it: the content of a text, or the JSON of another value.
pub(super) fn id_text(id: &str) -> String {
    serde_json::from_str::<String>(id).unwrap_or_else(|_| id.to_owned())
}

/// Returns the id of a message, as a slice of its JSON.
pub(super) fn id_of(message: &str) -> Option<&str> {
    #[derive(serde::Deserialize)]
    struct Id<'a> {
        #[serde(borrow)]
        id: Option<&'a serde_json::value::RawValue>,
    }
    serde_json::from_str::<Id<'_>>(message).ok()?.id.map(serde_json::value::RawValue::get)
}
