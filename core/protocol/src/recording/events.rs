//! The events of a recorded session, as the program got them.
//!
//! The messages are passed to a [`Connection`] again, whose calls are repeated when the recording has them. So the events
//! come from the code that made them first, in every dialect.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::entry::{
    CallEntry, CallKind, Decider, DecisionEntry, Entry, HeaderEntry, MessageEntry, PolicyEntry, Side, ToolCallEntry,
};
use super::purpose::{Purpose, prompt_nonce};
use super::read::Recording;
use crate::answers::{Answers, Approval, HookDecision};
use crate::connection::{
    AnswerSource, AnswerSources, Connection, Output, POLICY_HOOK, RequestKey, Scope, Timing, TurnKey, TurnLimits,
};
use crate::dialect::{
    Acp, Answer, Dialect, InitializeParams, KimiWeb, KimiWebParams, Legacy, Services, SessionParams, ToolOffer,
    ToolsEndpoint, Wire, WireVersion,
};
use crate::messages::{Content, Event, PolicyDecision, SteerInput, ToolCallRequest};

/// No deadline of the connection is reached.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// An event of a recorded session.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// The index of the entry that caused it.
    pub entry: usize,
    /// The number of its turn. `None` outside turns.
    pub turn: Option<u64>,
    /// The step of the prompt, from 0 on.
    pub step: u32,
    /// The event.
    pub event: Event,
}

impl Recording {
    /// Returns the events, in order.
    pub fn events(&self) -> Vec<RecordedEvent> {
        let mut player = Player::new(self);
        for (at, timed) in self.entries.iter().enumerate() {
            player.entry = at;
            let time = Duration::try_from_secs_f64(timed.time).unwrap_or_default();
            player.now = player.began.checked_add(time).unwrap_or(player.began);
            player.play(&timed.entry);
        }
        player.joined()
    }
}

struct Player {
    connection: Connection,
    began: Instant,
    now: Instant,
    /// The index of the entry that is played.
    entry: usize,
    /// The requests of the connection that are not in the recording yet: method and id.
    sent: Vec<(String, String)>,
    /// Ids of the connection, by those of the recording.
    ids: HashMap<String, String>,
    /// The turn that the program began last, with its input.
    called: Option<(u64, Content)>,
    /// Whether the recording has calls. A recording that was converted from other logs lacks them.
    has_calls: bool,
    key: TurnKey,
    /// The recorded numbers of turns, by their keys in the connection.
    turns: HashMap<TurnKey, u64>,
    /// The requests that await an answer.
    asked: HashMap<String, RequestKey>,
    events: Vec<RecordedEvent>,
}

impl Player {
    fn new(recording: &Recording) -> Self {
        let header = &recording.header;
        let messages: Vec<Value> = recording.entries.iter().filter_map(|timed| sent_by_sdk(&timed.entry)).collect();
        let dialect = dialect(header, &messages);
        let timing = Timing { handshake: NEVER, cancel: NEVER, answer: NEVER, turn: None, idle: None, quiet: None };
        let sources = AnswerSources {
            approval: AnswerSource::Handler,
            question: AnswerSource::Handler,
            tools: header.tools.iter().map(|tool| tool.name.clone()).collect(),
            services: Services { read_file: true, write_file: true, terminal: true },
            observed: true,
            ..AnswerSources::default()
        };
        let mut connection = Connection::new(dialect, timing, sources);
        if recording.entries.iter().any(|timed| matches!(timed.entry, Entry::Records(_))) {
            connection.set_records_timeout(NEVER);
        }
        let now = Instant::now();
        connection.open(initialize_params(header, &messages), now);
        let has_calls = recording.entries.iter().any(|timed| matches!(timed.entry, Entry::Call(_)));
        let mut player = Self {
            connection,
            began: now,
            now,
            entry: 0,
            sent: Vec::new(),
            ids: HashMap::new(),
            called: None,
            has_calls,
            key: 0,
            turns: HashMap::new(),
            asked: HashMap::new(),
            events: Vec::new(),
        };
        player.take_outputs();
        player
    }

    fn play(&mut self, entry: &Entry) {
        match entry {
            Entry::Message(message) => self.message(message),
            Entry::Call(call) if call.call == CallKind::Prompt => {
                self.called = Some((call.turn.unwrap_or(self.last_turn() + 1), input_of_call(call)));
            }
            Entry::Call(call) if call.call == CallKind::Steer => self.steer(input_of_call(call)),
            Entry::Decision(decision) => self.decide(decision),
            Entry::Policy(policy) => self.policy(policy),
            Entry::ToolCall(call) => self.call_tool(call),
            Entry::Turn(turn) if turn.turn == self.last_turn() => self.give_up_cancelled_turn(),
            Entry::Records(records) => self.connection.handle_records(self.key, records.report.clone(), self.now),
            _ => {}
        }
        self.take_outputs();
    }

    fn message(&mut self, message: &MessageEntry) {
        let json = message.message.as_deref().map(RawValue::get);
        match (message.from, json) {
            (Side::Sdk, Some(json)) => self.sdk_said(json),
            (Side::Sdk, None) => {}
            (Side::Agent, json) => {
                let line = json.or(message.line.as_deref()).unwrap_or_default();
                let line = self.with_own_id(line).unwrap_or_else(|| line.to_owned());
                self.connection.handle_line(line.as_bytes(), self.now);
            }
        }
    }

    /// Repeats a call of the SDK, and assigns its recorded id to that of the connection.
    fn sdk_said(&mut self, json: &str) {
        #[derive(Deserialize)]
        struct Request<'a> {
            method: String,
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            params: Option<Value>,
        }
        let Ok(Request { method, id, params }) = serde_json::from_str(json) else { return };
        if !self.sent.iter().any(|(sent, _)| *sent == method) {
            self.repeat(Purpose::of(&method), params.as_ref());
            self.take_outputs();
        }
        let own = self.sent.iter().position(|(sent, _)| *sent == method).map(|at| self.sent.remove(at));
        if let (Some(id), Some((_, own))) = (id, own) {
            self.ids.insert(id.get().to_owned(), own);
        }
    }

    /// Makes the connection send a call that it has not sent by itself.
    fn repeat(&mut self, purpose: Purpose, params: Option<&Value>) {
        match purpose {
            Purpose::Prompt => self.prompt(params),
            Purpose::Cancel => self.connection.cancel(self.key, self.now),
            Purpose::Steer => self.steer(params.map_or_else(|| "".into(), input_of)),
            Purpose::Replay => drop(self.connection.start_replay(self.now)),
            Purpose::Withdraw | Purpose::Close | Purpose::Other => {}
        }
    }

    fn steer(&mut self, input: Content) {
        // A turn that has ended cannot be steered, as in the recorded session.
        self.connection.steer(self.key, input, self.now).ok();
    }

    /// Ends a turn that was cancelled and whose end the agent never reported: its deadline had passed.
    fn give_up_cancelled_turn(&mut self) {
        while self.connection.cancelling().is_some()
            && let Some(deadline) = self.connection.poll_timeout()
        {
            self.connection.handle_timeout(deadline);
            self.take_outputs();
        }
    }

    fn prompt(&mut self, params: Option<&Value>) {
        self.give_up_cancelled_turn();
        let called = self.called.take();
        let is_follow_up = called.is_none() && self.has_calls;
        let asked = params.map_or_else(|| "".into(), input_of);
        let (turn, input) = match called {
            Some((turn, input)) => (turn, as_sent(input, &asked)),
            // The SDK asks with a text, which some protocols send as a part.
            None if is_follow_up => (self.last_turn(), asked.text().into()),
            None => (self.last_turn() + 1, asked),
        };
        if is_follow_up {
            let event = SteerInput { user_input: input.clone(), extra: Default::default() }.into();
            self.events.push(RecordedEvent { entry: self.entry, turn: Some(turn), step: 0, event });
        }
        self.key += 1;
        self.turns.insert(self.key, turn);
        self.connection.prompt_for(self.key, input, TurnLimits::default(), None, self.now);
    }

    fn last_turn(&self) -> u64 {
        self.turns.get(&self.key).copied().unwrap_or_default()
    }

    /// Returns an answer of the agent with the id of the connection.
    fn with_own_id(&self, line: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Response<'a> {
            #[serde(borrow)]
            id: &'a RawValue,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            #[serde(borrow)]
            error: Option<&'a RawValue>,
            method: Option<String>,
        }
        let response: Response<'_> = serde_json::from_str(line).ok().filter(|of: &Response<'_>| of.method.is_none())?;
        let own = self.ids.get(response.id.get())?;
        let (name, outcome) =
            response.result.map(|result| ("result", result)).or(response.error.map(|e| ("error", e)))?;
        Some(format!(r#"{{"jsonrpc":"2.0","id":{own},"{name}":{}}}"#, outcome.get()))
    }

    fn decide(&mut self, decision: &DecisionEntry) {
        let Some(key) = self.asked.remove(&decision.request) else { return };
        if decision.by == Decider::HandlerFailed {
            let reason = decision.error.clone().unwrap_or_default();
            return self.connection.handler_failed(key, reason, self.now);
        }
        if let Some(answer) = decision.answer.as_ref().and_then(|answer| read_answer(&decision.kind, answer)) {
            self.connection.answer(key, &answer, self.now);
        }
    }

    fn policy(&mut self, entry: &PolicyEntry) {
        let PolicyEntry { turn, tool_call, decision, rule, source, reason, part } = entry.clone();
        let step = self.events.last().filter(|last| last.turn == turn).map_or(0, |last| last.step);
        let event =
            PolicyDecision { tool_call, decision, rule, source, reason, part, extra: Default::default() }.into();
        self.events.push(RecordedEvent { entry: self.entry, turn, step, event });
    }

    fn call_tool(&mut self, call: &ToolCallEntry) {
        let arguments = call.arguments.as_ref().map(Value::to_string);
        let (id, name) = (call.id.clone(), call.name.clone());
        let request = ToolCallRequest { id, name, arguments, extra: Default::default() };
        self.connection.call_tool(request, 0, self.now);
    }

    fn take_outputs(&mut self) {
        #[derive(Deserialize)]
        struct Request<'a> {
            method: String,
            #[serde(borrow)]
            id: &'a RawValue,
        }
        while let Some(output) = self.connection.poll_output() {
            match output {
                // The program does not see the hook of its policy.
                Output::Event { event, .. } if is_of_policy(&event) => {}
                Output::Event { scope, event, .. } => {
                    let (turn, step) = match scope {
                        Scope::Turn(key, step) => (self.turns.get(&key).copied(), step.index),
                        _ => (None, 0),
                    };
                    self.events.push(RecordedEvent { entry: self.entry, turn, step, event: *event });
                }
                Output::Ask { key, request, .. } => {
                    self.asked.insert(request.request_id().unwrap_or_default().to_owned(), key);
                }
                _ => {}
            }
        }
        let bytes = self.connection.poll_transmit();
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(request) = serde_json::from_slice::<Request<'_>>(line) {
                self.sent.push((request.method, request.id.get().to_owned()));
            }
        }
    }

    /// Makes one turn of the prompts of a turn: it begins and ends once, and its steps are numbered in one row.
    fn joined(self) -> Vec<RecordedEvent> {
        let mut last_ends = HashMap::new();
        for (at, recorded) in self.events.iter().enumerate() {
            if matches!(recorded.event, Event::TurnEnd(_)) {
                last_ends.insert(recorded.turn, at);
            }
        }
        let mut steps: HashMap<u64, Steps> = HashMap::new();
        let joined = |(at, mut recorded): (usize, RecordedEvent)| {
            let Some(turn) = recorded.turn else { return Some(recorded) };
            let is_kept = match &mut recorded.event {
                Event::TurnBegin(_) => match steps.get_mut(&turn) {
                    None => steps.insert(turn, Steps::default()).is_none(),
                    Some(steps) => {
                        steps.before = steps.last;
                        false
                    }
                },
                Event::TurnEnd(_) => last_ends.get(&recorded.turn) == Some(&at),
                Event::StepBegin(begin) => {
                    let steps = steps.entry(turn).or_default();
                    begin.n = begin.n.saturating_add(steps.before);
                    steps.last = begin.n;
                    true
                }
                _ => true,
            };
            is_kept.then_some(recorded)
        };
        self.events.into_iter().enumerate().filter_map(joined).collect()
    }
}

fn is_of_policy(event: &Event) -> bool {
    matches!(event, Event::HookRequest(hook) if hook.subscription_id == POLICY_HOOK)
}

/// The numbers of steps of a turn.
#[derive(Default)]
struct Steps {
    last: i64,
    /// The last one of the prompts before.
    before: i64,
}

/// Returns the message of an entry if the SDK sent it.
fn sent_by_sdk(entry: &Entry) -> Option<Value> {
    match entry {
        Entry::Message(MessageEntry { from: Side::Sdk, message: Some(message), .. }) => {
            serde_json::from_str(message.get()).ok()
        }
        _ => None,
    }
}

/// Returns the message of the user, as the program passed it.
fn input_of_call(call: &CallEntry) -> Content {
    let input = call.arguments.get("input").and_then(|input| Content::deserialize(input).ok());
    input.unwrap_or_else(|| "".into())
}

/// Returns the message of the program as the agent got it: structured output can add an instruction at its end.
fn as_sent(input: Content, sent: &Content) -> Content {
    match (input, sent) {
        (Content::Text(text), sent) => Some(sent.text()).filter(|sent| sent.starts_with(&text)).unwrap_or(text).into(),
        (Content::Parts(mut parts), Content::Parts(sent)) => {
            parts.extend(sent.iter().skip(parts.len()).cloned());
            Content::Parts(parts)
        }
        (input, _) => input,
    }
}

/// Returns the message of the user, from the parameters of a prompt.
fn input_of(params: &Value) -> Content {
    let known = ["user_input", "input", "prompt", "content"].iter().find_map(|name| params.get(name));
    known.and_then(|input| Content::deserialize(input).ok()).unwrap_or_else(|| "".into())
}

/// Makes the dialect of a recording, with the parameters that its first messages show.
fn dialect(header: &HeaderEntry, messages: &[Value]) -> Box<dyn Dialect> {
    let of = |methods: &[&str], name: &str| {
        let is_meant = |message: &&Value| message["method"].as_str().is_some_and(|method| methods.contains(&method));
        messages.iter().find(is_meant).and_then(|message| Some(message["params"][name].as_str()?.to_owned()))
    };
    let text = |name: &str| header.options.get(name).and_then(Value::as_str).map(str::to_owned);
    match header.dialect.as_str() {
        "legacy" => Box::new(Legacy::new(None)),
        "acp" => Box::new(Acp::new(SessionParams {
            work_dir: "/".into(),
            session_id: of(&["session/load", "session/resume"], "sessionId"),
            fork_of: of(&["session/fork"], "sessionId"),
            model: text("model"),
            thinking: header.options.get("thinking").and_then(Value::as_bool),
            mcp_servers: Vec::new(),
            ..SessionParams::default()
        })),
        "kimi-web" => {
            let nonce = messages.iter().find_map(|message| prompt_nonce(&message["params"].to_string()));
            Box::new(KimiWeb::new(KimiWebParams {
                work_dir: "/".into(),
                session_id: text("session_id"),
                model: text("model"),
                thinking: header.options.get("thinking").and_then(Value::as_bool),
                nonce: nonce.unwrap_or_default(),
                ..KimiWebParams::default()
            }))
        }
        _ => {
            let pinned = text("dialect").and_then(|version| version.parse().ok());
            let has_handshake = messages.iter().any(|message| message["method"] == "initialize");
            match pinned.or((!has_handshake).then_some(WireVersion::V1_0)) {
                Some(version) => Box::new(Wire::pinned(version)),
                None => Box::new(Wire::new(WireVersion::LATEST)),
            }
        }
    }
}

fn initialize_params(header: &HeaderEntry, messages: &[Value]) -> InitializeParams {
    let tools = header.tools.iter().map(|tool| ToolOffer {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    });
    let servers = messages.iter().filter_map(|message| message["params"]["mcpServers"].as_array()).flatten();
    let tools_server = servers.filter_map(|server| server["name"].as_str()).next_back().map(|name| ToolsEndpoint {
        name: name.to_owned(),
        url: String::new(),
        headers: Vec::new(),
    });
    InitializeParams {
        tools_server: tools_server.filter(|_| !header.tools.is_empty()),
        tools: tools.collect(),
        supports_question: true,
        services: Services { read_file: true, write_file: true, terminal: true },
        ..InitializeParams::default()
    }
}

/// Reads the answer of a decision.
fn read_answer(kind: &str, answer: &Value) -> Option<Answer> {
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(match kind {
        "approval" => Answer::Approval(match answer["response"].as_str()? {
            "approve" => Approval::Approve,
            "approve_for_session" => Approval::ApproveForSession,
            _ => Approval::Reject { feedback: text("feedback") },
        }),
        "question" => Answer::Question(answer.get("answers").and_then(Value::as_object).map(|answers| {
            let pairs = answers.iter().filter_map(|(question, answer)| Some((question, answer.as_str()?)));
            pairs.fold(Answers::new(), |all, (question, answer)| all.answer(question, answer))
        })),
        "tool" | "output" => Answer::Tool(serde_json::from_value(answer.clone()).ok()?),
        "hook" => Answer::Hook(match text("reason").filter(|_| answer["action"] == "block") {
            Some(reason) => HookDecision::Block(reason),
            None => HookDecision::Allow,
        }),
        "read_file" => Answer::ReadFile(text("text")),
        "write_file" => Answer::WriteFile,
        _ => return None,
    })
}
