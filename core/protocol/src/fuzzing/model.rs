//! Counts the outputs of a connection, and checks that they agree for any input.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde_json::Value;
use serde_json::value::RawValue;

use super::scenario::Spoken;
use crate::connection::{CallKey, Connection, Output, PromptResult, RequestKey, Scope, TurnKey, TurnStatus};
use crate::dialect::Capabilities;
use crate::error::Result;
use crate::messages::{ContentPart, Event, MESSAGE_BREAK, Messages, TokenUsage};

/// The expected effect of a line.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) event: Event,
    /// The envelope's id, where the line is a request.
    pub(super) rpc_id: Option<String>,
    pub(super) size: usize,
}

/// A request that a function was asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Event,
    pub(super) rpc_id: String,
    /// Whether it still needs an answer.
    pub(super) open: bool,
}

/// The expected outcome of a turn.
#[derive(Debug, Default)]
struct TurnBooks {
    events: usize,
    text: String,
    messages: Messages,
    usage: TokenUsage,
    step: u32,
    said_end: bool,
    ended: bool,
}

/// One of our calls, as it was written.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) method: String,
}

pub(super) struct Books {
    spoken: Spoken,
    turns: BTreeMap<TurnKey, TurnBooks>,
    /// Calls whose end is to be told, and whether it was.
    calls: BTreeMap<CallKey, bool>,
    replays: BTreeSet<CallKey>,
    pub(super) asked: Vec<(RequestKey, Asked)>,
    withdrawn: BTreeSet<RequestKey>,
    pub(super) expected: VecDeque<Expected>,
    /// Requests that came in a replay: they may turn out to be of the present, once it has ended.
    held: VecDeque<Expected>,
    of_present: VecDeque<Expected>,
    pub(super) sent: Vec<Sent>,
    ids: BTreeSet<String>,
    /// By the text of the envelope's id: how many answers there may be, and how many there were.
    answers: HashMap<String, (usize, usize)>,
    pub(super) may_approve: bool,
    pub(super) opened: Option<bool>,
    capabilities: Capabilities,
    usage: TokenUsage,
    fatal_errors: usize,
    /// The outputs, for comparisons.
    pub(super) trace: Option<Vec<String>>,
}

impl Books {
    pub(super) fn new(spoken: Spoken) -> Self {
        Self {
            spoken,
            turns: BTreeMap::new(),
            calls: BTreeMap::new(),
            replays: BTreeSet::new(),
            asked: Vec::new(),
            withdrawn: BTreeSet::new(),
            expected: VecDeque::new(),
            held: VecDeque::new(),
            of_present: VecDeque::new(),
            sent: Vec::new(),
            ids: BTreeSet::new(),
            answers: HashMap::new(),
            may_approve: false,
            opened: None,
            capabilities: Capabilities::default(),
            usage: TokenUsage::default(),
            fatal_errors: 0,
            trace: None,
        }
    }

    pub(super) fn begin_turn(&mut self) -> TurnKey {
        let turn = self.turns.len() as TurnKey + 1;
        self.turns.insert(turn, TurnBooks::default());
        turn
    }

    /// The `which`-th newest turn; 0 where there is none.
    pub(super) fn turn(&self, which: u8) -> TurnKey {
        let begun = self.turns.len() as TurnKey;
        if begun == 0 { 0 } else { begun - TurnKey::from(which) % begun }
    }

    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn made(&mut self, call: Result<CallKey>, sent: usize, is_replay: bool) {
        assert_eq!(sent, usize::from(call.is_ok()), "{call:?}");
        if let Ok(call) = call {
            assert!(self.calls.insert(call, false).is_none(), "two calls have one key");
            if is_replay {
                self.replays.insert(call);
            }
        }
    }

    /// Removes a call, because no caller waits for it.
    pub(super) fn forget(&mut self, which: u8) -> Option<CallKey> {
        let open: Vec<_> = self
            .calls
            .iter()
            .filter(|(call, ended)| !**ended && !self.replays.contains(*call))
            .map(|(call, _)| *call)
            .collect();
        let call = *open.get(usize::from(which) % open.len().max(1))?;
        self.calls.remove(&call);
        Some(call)
    }

    /// A request of this id may be answered once (more).
    fn may_answer(&mut self, rpc_id: &str) {
        self.answers.entry(rpc_id.to_owned()).or_default().0 += 1;
    }

    /// Looks at everything that came out.
    pub(super) fn look(&mut self, connection: &mut Connection) {
        let mut last_request = None;
        while let Some(output) = connection.poll_output() {
            if let Some(trace) = &mut self.trace {
                trace.push(format!("{output:?}"));
            }
            match output {
                Output::Opened(outcome) => {
                    assert!(self.opened.replace(outcome.is_ok()).is_none(), "opened twice");
                    self.capabilities = outcome.map(|welcome| welcome.capabilities).unwrap_or_default();
                }
                Output::Event { scope, event, size } => {
                    last_request = self.event(scope, *event, size).or(last_request);
                }
                Output::Texts { turn, step, mut texts } => {
                    while let Some((text, size)) = texts.pop() {
                        let event = ContentPart::text(text).into();
                        last_request = self.event(Scope::Turn(turn, step), event, size).or(last_request);
                    }
                }
                Output::Ask { key, request, .. } => {
                    let rpc_id = last_request.take().expect("it was shown before it is asked");
                    assert!(self.asked.last().is_none_or(|(older, _)| *older < key), "asked twice");
                    self.asked.push((key, Asked { request: *request, rpc_id, open: true }));
                }
                Output::ReadRecords { .. } => unreachable!("no records are read"),
                Output::ToolAnswered { .. } => unreachable!("tools are called over the connection only"),
                Output::Withdrawn(key) => {
                    assert!(self.withdrawn.insert(key), "withdrawn twice");
                    if let Some(asked) = self.asked(key) {
                        assert!(asked.open, "withdrawn after it was answered");
                        asked.open = false;
                    }
                }
                Output::CallEnded { call, .. } => {
                    let ended = self.calls.get_mut(&call).expect("a call of ours that somebody waits for");
                    assert!(!std::mem::replace(ended, true), "call {call} ended twice");
                    if self.replays.contains(&call) {
                        self.of_present = std::mem::take(&mut self.held);
                    }
                }
                Output::TurnEnded { turn, outcome } => self.turn_ended(turn, outcome),
                Output::StatusChanged(_) | Output::CommandsChanged(_) | Output::ConfigChanged(_) => {}
                Output::CheckOutput { .. } | Output::PromptSent { .. } => {}
                Output::FatalError(_) => self.fatal_errors += 1,
            }
        }
        self.of_present.clear();
        assert!(self.fatal_errors <= 1);
        assert_eq!(connection.usage(), &self.usage);
    }

    pub(super) fn asked(&mut self, key: RequestKey) -> Option<&mut Asked> {
        let at = self.asked.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(&mut self.asked[at].1)
    }

    /// Gives the id of a request that may be answered.
    fn event(&mut self, scope: Scope, event: Event, size: usize) -> Option<String> {
        let mut rpc_id = None;
        if self.expected.front().is_some_and(|expected| expected.event == event) {
            let expected = self.expected.pop_front().expect("it is there");
            // The arguments of a tool call may have been added.
            assert!(size == expected.size || size > expected.size && adds(&event), "what it takes in memory");
            rpc_id = expected.rpc_id;
        } else if let Some(at) = self.of_present.iter().position(|held| held.event == event && held.size <= size) {
            rpc_id = self.of_present.drain(..=at).next_back().and_then(|held| held.rpc_id);
        } else {
            assert!(is_ours(&event), "{event:?} comes out of order, {:?} should", self.expected.front());
        }
        let mut usage = TokenUsage::default();
        let mut seen = &event;
        while let Event::SubagentEvent(outer) = seen {
            seen = &outer.event;
        }
        if let Event::StatusUpdate(update) = seen
            && let Some(tokens) = &update.token_usage
        {
            usage += tokens;
        }
        match scope {
            Scope::Turn(turn, step) => {
                assert!(self.turns.range(..turn).all(|(_, before)| before.ended), "turn {turn} runs beside another");
                let books = self.turns.get_mut(&turn).expect("a turn that was begun");
                assert!(!books.ended, "an event after the end of turn {turn}");
                assert!(books.step <= step.index, "steps go back");
                books.step = step.index;
                books.events += 1;
                books.usage += &usage;
                match &event {
                    Event::StepBegin(_) => {
                        books.text.clear();
                        books.messages = Messages::default();
                    }
                    Event::ContentPart(ContentPart::Text(part)) => {
                        books.text.push_str(if books.messages.is_next(part) { MESSAGE_BREAK } else { "" });
                        books.text.push_str(&part.text);
                    }
                    Event::TurnEnd(_) => books.said_end = true,
                    _ => {}
                }
                self.usage += &usage;
            }
            Scope::Replay(call) => {
                assert!(self.replays.contains(&call) && self.calls.get(&call) == Some(&false), "no such replay runs");
                // Of the past, as it seems.
                if rpc_id.is_some() {
                    self.held.push_back(Expected { event, rpc_id: rpc_id.take(), size });
                }
                return None;
            }
            Scope::Outside => self.usage += &usage,
        }
        if let Some(rpc_id) = &rpc_id {
            self.may_answer(rpc_id);
        }
        rpc_id
    }

    /// A method that is not known is refused whenever it comes.
    pub(super) fn expect_refusal(&mut self, rpc_id: &str) {
        self.may_answer(rpc_id);
    }

    fn turn_ended(&mut self, turn: TurnKey, outcome: Result<Box<PromptResult>>) {
        let books = self.turns.get_mut(&turn).expect("a turn that was begun");
        assert!(!std::mem::replace(&mut books.ended, true), "turn {turn} ended twice");
        let Ok(result) = outcome else { return };
        assert_eq!(result.text, books.text);
        assert_eq!(result.usage, books.usage);
        let never_sent = books.events == 0 && result.status == TurnStatus::Cancelled;
        assert!(books.said_end || never_sent, "turn {turn} lacks its TurnEnd");
    }

    /// Reads what was written; gives how many calls and answers.
    pub(super) fn read_sent(&mut self, bytes: &[u8]) -> usize {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| self.read_line(line.strip_suffix(b"\n").expect("whole lines"))).count()
    }

    fn read_line(&mut self, line: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Line<'a> {
            jsonrpc: &'a str,
            #[serde(borrow)]
            id: &'a RawValue,
            method: Option<String>,
            result: Option<Value>,
            error: Option<Value>,
        }
        let line: Line<'_> = serde_json::from_slice(line).expect("a line of JSON-RPC");
        assert_eq!(line.jsonrpc, "2.0");
        let Some(method) = line.method else {
            assert!(line.result.is_some() != line.error.is_some(), "either a result or an error");
            let (may, were) = self.answers.get_mut(line.id.get()).expect("an answer to what was asked");
            *were += 1;
            assert!(were <= may, "{} is answered twice", line.id);
            let said = line.result.as_ref().and_then(|result| result["response"].as_str());
            let approves = said.is_some_and(|said| said.starts_with("approve"));
            return assert!(!approves || self.may_approve, "approved, though nobody said so");
        };
        let id: String = serde_json::from_str(line.id.get()).expect("our ids are text");
        assert!(self.ids.insert(id.clone()), "two calls have one id");
        let can = &self.capabilities;
        let known = match method.as_str() {
            "run" | "interrupt" => self.spoken == Spoken::Legacy,
            "initialize" => !self.spoken.has_no_handshake(),
            "prompt" | "cancel" => !self.spoken.is_legacy(),
            "steer" => can.steer,
            "set_plan_mode" => can.plan_mode,
            "replay" => can.replay,
            _ => false,
        };
        assert!(known, "{:?} does not know `{method}`", self.spoken);
        self.sent.push(Sent { id, method });
    }

    /// From now on it is legacy that is spoken.
    pub(super) fn assume_legacy(&mut self) {
        self.spoken = Spoken::Legacy;
    }

    /// Everything is over: the sums must come out even.
    pub(super) fn close(&self) {
        assert!(self.opened.is_some(), "nobody heard whether the session is open");
        for (turn, books) in &self.turns {
            assert!(books.ended, "turn {turn} did not end");
        }
        for (call, ended) in &self.calls {
            assert!(ended, "call {call} did not end");
        }
        for (key, asked) in &self.asked {
            assert!(!asked.open, "request {key} is open for ever");
        }
        assert!(self.expected.is_empty(), "{:?} was lost", self.expected);
        let (may, were) = self.answers.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert_eq!(may, were + self.withdrawn.len(), "a request was neither answered nor withdrawn");
    }
}

/// Whether the connection may have added a tool call to an event.
fn adds(event: &Event) -> bool {
    match event {
        Event::ApprovalRequest(request) => request.tool_call.get().is_some(),
        Event::ToolResult(result) => result.tool_call.get().is_some(),
        Event::SubagentEvent(subagent) => adds(&subagent.event),
        _ => false,
    }
}

/// Returns whether the SDK makes such events, of nothing or of another event.
fn is_ours(event: &Event) -> bool {
    match event {
        Event::TurnBegin(begin) => begin.synthesized == Some(true),
        Event::TurnEnd(end) => end.synthesized == Some(true),
        Event::HandlerFailed(_) | Event::PolicyDecision(_) | Event::Plan(_) => true,
        Event::SubagentEvent(subagent) => {
            matches!(*subagent.event, Event::Plan(_) | Event::SubagentEvent(_)) && is_ours(&subagent.event)
        }
        _ => false,
    }
}
