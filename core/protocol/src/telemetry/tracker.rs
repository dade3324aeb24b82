//! The spans of a session. The connection passes its outputs in order; each turn has a span, with spans for its steps and tool
//! calls below it. Every span that is started is ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::trace::{Scribe, TurnTrace};
use super::{Attributes, Identity, Op, Sink, TurnSpan, Value, names};
use crate::connection::{Output, PromptResult, Scope, TurnKey};
use crate::error::{Error, Result};
use crate::messages::{Event, HandlerKind};
use crate::recording::Decider;

/// An answer to a request of the agent.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) turn: Option<TurnKey>,
    pub(crate) request: String,
    pub(crate) kind: HandlerKind,
    pub(crate) by: Decider,
    /// The word for the answer to an approval. `None` if the request was withdrawn.
    pub(crate) approval: Option<&'static str>,
    pub(crate) tool_call: Option<String>,
    /// Whether the tool failed. `None` if the request was withdrawn.
    pub(crate) has_failed: Option<bool>,
    pub(crate) seconds: f64,
}

/// Makes the operations of one session.
#[derive(Debug)]
pub struct Tracker {
    scribe: Scribe,
    turns: BTreeMap<TurnKey, TurnTrace>,
    /// Decisions about requests that the tracker has not seen yet, each with the number of outputs before it.
    decisions: VecDeque<(u64, Decision)>,
    /// The number of outputs so far.
    observed: u64,
}

impl Tracker {
    /// Makes the tracker of a session that has not been opened yet.
    pub fn new(identity: Identity, captures_content: bool, sink: Arc<dyn Sink>) -> Self {
        Self {
            scribe: Scribe { sink, identity, captures_content, tools: BTreeSet::new(), ops: Vec::new() },
            turns: BTreeMap::new(),
            decisions: VecDeque::new(),
            observed: 0,
        }
    }

    /// Sets the names of the tools that the program or the SDK executes.
    pub(crate) fn set_tools(&mut self, tools: BTreeSet<String>) {
        self.scribe.tools = tools;
    }

    /// Takes the span of a turn that begins.
    pub fn begin_turn(&mut self, turn: TurnKey, mut span: TurnSpan) {
        self.scribe.ops.extend(span.identify(&self.scribe.identity));
        self.turns.insert(turn, TurnTrace::new(span));
        self.flush();
    }

    /// Returns the span of a turn.
    pub(crate) fn turn(&self, turn: TurnKey) -> Option<&TurnSpan> {
        self.turns.get(&turn).map(|trace| &trace.span)
    }

    /// Returns the span in which the handler of a request runs: that of the tool call for a tool of the program, otherwise that
    /// of the turn.
    pub(crate) fn span_of(&self, turn: TurnKey, request: &Event) -> Option<u64> {
        let trace = self.turns.get(&turn)?;
        let of_tool = match request {
            Event::ToolCallRequest(call) => trace.program_tool(call).map(|tool| tool.span),
            _ => None,
        };
        Some(of_tool.unwrap_or(trace.span.span))
    }

    /// Takes a decision. `queued` is the number of outputs that were made before it and not observed yet.
    pub(crate) fn decide(&mut self, decision: Decision, queued: usize) {
        self.decisions.push_back((self.observed + queued as u64, decision));
        self.apply_decisions();
        self.flush();
    }

    /// Takes the next output of the connection.
    pub(crate) fn observe(&mut self, output: &Output) {
        match output {
            Output::Opened(Ok(handshake)) => self.scribe.identity.learn(handshake),
            Output::Event { scope: Scope::Turn(turn, _), event, .. } => self.observe_event(*turn, event),
            Output::StatusChanged(change) => {
                if let Some((turn, usage)) = &change.turn
                    && let Some(trace) = self.turns.get_mut(turn)
                {
                    trace.usage.clone_from(usage);
                }
            }
            Output::TurnEnded { turn, outcome } => self.end_turn(*turn, outcome),
            _ => {}
        }
        self.observed += 1;
        self.apply_decisions();
        self.flush();
    }

    fn flush(&mut self) {
        if !self.scribe.ops.is_empty() {
            self.scribe.sink.apply(std::mem::take(&mut self.scribe.ops));
        }
    }

    fn observe_event(&mut self, turn: TurnKey, event: &Event) {
        let Some(trace) = self.turns.get_mut(&turn) else { return };
        trace.observe("", event, &mut self.scribe);
    }

    fn apply_decisions(&mut self) {
        while self.decisions.front().is_some_and(|(at, _)| *at <= self.observed) {
            if let Some((_, decision)) = self.decisions.pop_front() {
                self.apply_decision(&decision);
            }
        }
    }

    fn apply_decision(&mut self, decision: &Decision) {
        let trace = decision.turn.and_then(|turn| self.turns.get_mut(&turn));
        let time = self.scribe.sink.now();
        if decision.kind == HandlerKind::Approval {
            let by = decision.by.as_str();
            if decision.approval == Some("reject") {
                let attributes = Attributes::default().with(names::DECIDED_BY, by);
                self.scribe.ops.push(Op::Record { metric: names::REJECTED, value: Value::Int(1), attributes });
            }
            let Some(trace) = trace else { return };
            let attributes = Attributes::default()
                .with(names::APPROVAL, decision.approval.unwrap_or("withdrawn"))
                .with(names::DECIDED_BY, by)
                .with(names::APPROVAL_WAIT, decision.seconds)
                .maybe(names::TOOL_CALL_ID, decision.tool_call.as_deref());
            let span = trace.span_of_call(decision.tool_call.as_deref());
            self.scribe.ops.push(Op::Event { span, name: names::APPROVAL_EVENT, time, attributes });
            return;
        }
        if let Some(trace) = trace {
            match decision.has_failed {
                Some(has_failed) => trace.end_request(&decision.request, has_failed, time, &mut self.scribe),
                None => trace.withdraw_request(&decision.request, time),
            }
        }
    }

    fn end_turn(&mut self, turn: TurnKey, outcome: &Result<Box<PromptResult>>) {
        let Some(mut trace) = self.turns.remove(&turn) else { return };
        let time = self.scribe.sink.now();
        trace.end(outcome, time, &mut self.scribe);
    }
}

impl Drop for Tracker {
    /// Ends the spans of turns without an outcome, for example because the runtime of the session has ended.
    fn drop(&mut self) {
        while let Some(turn) = self.turns.keys().next().copied() {
            self.end_turn(turn, &Err(Error::session_closed()));
        }
        self.flush();
    }
}
