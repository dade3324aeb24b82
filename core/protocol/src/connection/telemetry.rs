//! The telemetry of a connection: which outputs and decisions its tracker gets.

use super::recording::Decided;
use super::turn::TurnKey;
use super::{Connection, Output, Scope};
use crate::answers::Approval;
use crate::dialect::Answer;
use crate::messages::Event;
use crate::telemetry::{Decision, Tracker, TurnSpan};

impl Connection {
    /// Passes the outputs and decisions of this connection to the tracker.
    pub fn set_telemetry(&mut self, mut tracker: Tracker) {
        let output_tool = self.sources.output_tool.as_ref().map(|tool| tool.name.clone());
        tracker.set_tools(self.sources.tools.iter().cloned().chain(output_tool).collect());
        self.telemetry = Some(Box::new(tracker));
    }

    /// Ends all spans that are open, because the connection is not used any more.
    pub fn end_telemetry(&mut self) {
        self.telemetry = None;
    }

    /// Sets the span of a turn, before its prompt.
    pub fn trace_turn(&mut self, turn: TurnKey, span: TurnSpan) {
        if let Some(tracker) = &mut self.telemetry {
            tracker.begin_turn(turn, span);
        }
    }

    /// Returns the span in which the handler of a request runs.
    pub fn span_of(&self, scope: Scope, request: &Event) -> Option<u64> {
        let Scope::Turn(turn, _) = scope else { return None };
        self.telemetry.as_ref()?.span_of(turn, request)
    }

    /// Returns the span of a turn.
    pub fn span_of_turn(&self, turn: TurnKey) -> Option<u64> {
        Some(self.telemetry.as_ref()?.turn(turn)?.span())
    }

    /// Passes the trace of the turn that begins to the dialect.
    pub(super) fn pass_trace(&mut self, turn: TurnKey) {
        if let Some(tracker) = &self.telemetry {
            self.dialect.set_trace(tracker.turn(turn).map(TurnSpan::context));
        }
    }

    #[cold]
    pub(super) fn trace_output(&mut self, output: &Output) {
        if let Some(tracker) = &mut self.telemetry {
            tracker.observe(output);
        }
    }

    pub(super) fn trace_decision(&mut self, decided: &Decided<'_>) {
        let Some(tracker) = &mut self.telemetry else { return };
        let approval = match decided.answer {
            Some(Answer::Approval(Approval::Approve)) => Some("approve"),
            Some(Answer::Approval(Approval::ApproveForSession)) => Some("approve_for_session"),
            Some(Answer::Approval(Approval::Reject { .. })) => Some("reject"),
            _ => None,
        };
        let has_failed = decided.answer.map(|answer| matches!(answer, Answer::Tool(result) if result.is_error));
        let decision = Decision {
            turn: self.turn.as_ref().map(|turn| turn.key),
            request: decided.request.to_owned(),
            kind: decided.kind.clone(),
            by: decided.by,
            approval,
            tool_call: decided.tool_call.map(str::to_owned),
            has_failed,
            seconds: decided.duration.as_secs_f64(),
        };
        tracker.decide(decision, self.outputs.len());
    }
}
