//! The entries of a recording that the connection makes: messages, calls of the program, decisions, ends of turns.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::requests::Pending;
use super::tool_calls::{Known, RejectedBy};
use super::turn::{TurnKey, TurnLimits};
use super::{Connection, Output, Phase, TurnOutput};
use crate::answers::{Approval, HookDecision};
use crate::dialect::Answer;
use crate::error::Error;
use crate::json::{held_value, of_text};
use crate::messages::{Content, HandlerKind, ToolCallRequest, ToolReturnValue};
use crate::recording::{
    AgentName, CallEntry, CallKind, Decider, DecisionEntry, EndEntry, EndReason, Entry, ErrorText, OpenedEntry,
    Recorder, Side, ToolCallEntry, ToolResultEntry, TurnEntry,
};

/// An answer to a request of the agent, and who gave it.
#[derive(Debug)]
pub(super) struct Decided<'a> {
    pub(super) request: &'a str,
    pub(super) kind: &'a HandlerKind,
    pub(super) by: Decider,
    pub(super) answer: Option<&'a Answer>,
    pub(super) tool_call: Option<&'a str>,
    pub(super) rule: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    pub(super) duration: Duration,
}

impl<'a> Decided<'a> {
    /// An answer that the SDK gave when the request came.
    pub(super) fn at_once(request: &'a str, kind: &'a HandlerKind, by: Decider, answer: &'a Answer) -> Self {
        let (tool_call, rule, error) = (None, None, None);
        Self { request, kind, by, answer: Some(answer), tool_call, rule, error, duration: Duration::ZERO }
    }
}

impl Connection {
    /// Passes every message, call and decision of this connection to the recorder.
    pub fn set_recorder(&mut self, recorder: Box<dyn Recorder>) {
        self.recorder = Some(Box::new(recorder));
    }

    /// Returns whether the connection is recorded.
    pub fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    pub(super) fn record(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(recorder) = &mut self.recorder {
            recorder.entry(entry());
        }
    }

    pub(super) fn record_sent(&mut self, lines: &[u8]) {
        if let Some(recorder) = &mut self.recorder {
            let now = Instant::now();
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                recorder.message(now, Side::Sdk, line, true);
            }
        }
    }

    pub(super) fn record_call(
        &mut self,
        call: CallKind,
        turn: Option<TurnKey>,
        arguments: impl FnOnce() -> Vec<(&'static str, Value)>,
    ) {
        self.record(|| {
            let arguments = arguments().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            Entry::Call(CallEntry { call, turn, arguments })
        });
    }

    pub(super) fn record_prompt(
        &mut self,
        turn: TurnKey,
        input: &Content,
        limits: &TurnLimits,
        output: Option<&TurnOutput>,
    ) {
        self.record_call(CallKind::Prompt, Some(turn), || {
            let mut arguments = vec![("input", json!(input))];
            let seconds = |limit: Duration| Value::from(limit.as_secs_f64());
            arguments.extend(limits.turn.map(|limit| ("timeout", seconds(limit))));
            arguments.extend(limits.idle.map(|limit| ("idle_timeout", seconds(limit))));
            arguments.extend(limits.budget.map(|budget| ("budget", json!(budget))));
            arguments.extend(output.map(|output| ("output", described(output))));
            arguments
        });
    }

    pub(super) fn record_decision(&mut self, decided: Decided<'_>) {
        self.trace_decision(&decided);
        self.record(|| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            Entry::Decision(Box::new(DecisionEntry {
                request: decided.request.to_owned(),
                kind: decided.kind.to_string(),
                by: decided.by,
                answer: decided.answer.map(answer_json),
                tool_call: owned(decided.tool_call),
                rule: owned(decided.rule),
                error: owned(decided.error),
                duration: decided.duration.as_secs_f64(),
            }))
        });
    }

    /// Records an answer to a request that waited for it.
    pub(super) fn record_answer(
        &mut self,
        pending: &Pending,
        by: RejectedBy,
        answer: Option<&Answer>,
        failure: Option<&str>,
        now: Instant,
    ) {
        let by = match by {
            RejectedBy::HandlerFailed => Decider::HandlerFailed,
            RejectedBy::NoHandler => Decider::Default,
            _ if pending.kind == HandlerKind::Output => Decider::Sdk,
            _ if pending.manual => Decider::Manual,
            _ => Decider::Handler,
        };
        self.record_decision(Decided {
            request: &pending.request_id,
            kind: &pending.kind,
            by,
            answer,
            tool_call: pending.about.tool_call.as_ref().map(Known::id),
            rule: None,
            error: failure,
            duration: now.saturating_duration_since(pending.asked_at),
        });
    }

    /// Records that a request was withdrawn.
    pub(super) fn record_withdrawn(&mut self, pending: &Pending) {
        if let Some(call) = pending.tool_call() {
            self.record(|| no_tool_result(call));
        }
        self.record_decision(Decided {
            request: &pending.request_id,
            kind: &pending.kind,
            by: Decider::Cancelled,
            answer: None,
            tool_call: pending.about.tool_call.as_ref().map(Known::id),
            rule: None,
            error: None,
            duration: Duration::ZERO,
        });
    }

    /// Records what an output says about the session and its turns.
    #[cold]
    pub(super) fn record_output(&mut self, output: &Output) {
        match output {
            Output::Opened(Ok(handshake)) => self.record(|| {
                let agent = handshake.server.as_ref();
                Entry::Opened(OpenedEntry {
                    agent: agent.map(|agent| AgentName { name: agent.name.clone(), version: agent.version.clone() }),
                    protocol_version: handshake.protocol_version.clone(),
                    session_id: handshake.session_id.clone(),
                })
            }),
            Output::TurnEnded { turn, outcome } => self.record(|| {
                let (result, error) = match outcome {
                    Ok(result) => (serde_json::value::to_raw_value(result).ok(), None),
                    Err(error) => (None, Some(error_text(error))),
                };
                Entry::Turn(Box::new(TurnEntry { turn: *turn, result, error }))
            }),
            _ => {}
        }
    }

    /// Ends the recording, after the last output of a connection that is closed.
    pub fn end_recording(&mut self) {
        let (Some(mut recorder), Phase::Closed(reason)) = (self.recorder.take(), &self.phase) else { return };
        let (exit_code, signal) = match &**reason {
            Error::AgentExited(exit) => (exit.exit_code, exit.signal.clone()),
            _ => (None, None),
        };
        let (reason, error) = match &**reason {
            Error::SessionClosed(_) => (EndReason::Closed, None),
            error => (EndReason::Failed, Some(error_text(error))),
        };
        recorder.entry(Entry::End(EndEntry { reason, error, exit_code, signal }));
    }
}

fn error_text(error: &Error) -> ErrorText {
    ErrorText { code: error.code().to_owned(), message: error.to_string() }
}

/// Returns the option `output` of a prompt.
fn described(output: &TurnOutput) -> Value {
    let spec = output.plan.spec();
    json!({
        "name": spec.name,
        "schema": spec.schema,
        "mode": if output.by_tool { "tool" } else { "text" },
        "retries": spec.retries,
    })
}

/// The entry for a call over the MCP server of the SDK.
pub(super) fn tool_call(call: &ToolCallRequest) -> Entry {
    let text = call.arguments.as_deref();
    let arguments = text.map(|text| of_text(text).unwrap_or_else(|| Value::from(text)));
    Entry::ToolCall(ToolCallEntry { id: call.id.clone(), name: call.name.clone(), arguments })
}

pub(super) fn tool_result(id: &str, result: &ToolReturnValue) -> Entry {
    Entry::ToolResult(ToolResultEntry { id: id.to_owned(), result: Some(held_value(result)) })
}

/// The entry for a call that was withdrawn.
pub(super) fn no_tool_result(id: &str) -> Entry {
    Entry::ToolResult(ToolResultEntry { id: id.to_owned(), result: None })
}

fn answer_json(answer: &Answer) -> Value {
    match answer {
        Answer::Approval(Approval::Approve) => json!({"response": "approve"}),
        Answer::Approval(Approval::ApproveForSession) => json!({"response": "approve_for_session"}),
        Answer::Approval(Approval::Reject { feedback: None }) => json!({"response": "reject"}),
        Answer::Approval(Approval::Reject { feedback }) => json!({"response": "reject", "feedback": feedback}),
        Answer::Question(None) => Value::Null,
        Answer::Question(Some(answers)) => json!({"answers": answers}),
        Answer::Tool(result) => held_value(result),
        Answer::Hook(HookDecision::Allow) => json!({"action": "allow"}),
        Answer::Hook(HookDecision::Block(reason)) => json!({"action": "block", "reason": reason}),
        Answer::ReadFile(text) => json!({"text": text}),
        Answer::WriteFile => Value::Object(Map::new()),
        Answer::Terminal(result) => json!({
            "output": result.output,
            "exit_code": result.exit_code,
            "signal": result.signal,
        }),
    }
}
