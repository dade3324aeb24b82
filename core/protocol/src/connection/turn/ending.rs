//! The end of a turn: its result, its failure, and the calls that have not ended with it.

use std::time::Instant;

use crate::connection::result::{PromptResult, TurnStatus};
use crate::connection::tool_calls::Record;
use crate::connection::{Connection, Output};
use crate::error::{Error, Result};
use crate::messages::TurnEnd;

impl Connection {
    /// Delivers what tool calls have shown that have not ended with the turn.
    pub(in super::super) fn end_tool_calls(&mut self, is_failure: bool, now: Instant) {
        if self.turn.is_none() {
            return;
        }
        for (event, size) in self.dialect.unfinished_results(is_failure) {
            self.deliver_half();
            let mut event = Box::new(event);
            let added = self.add_tool_call(&mut event, now);
            self.process_event(&event);
            self.push_event(event, size + added);
        }
        self.dialect.forget_tool_calls();
    }

    /// Ends the turn if the agent has ended it, without the agent's records.
    pub(in super::super) fn end_answered_turn(&mut self) {
        let answered = self.turn.as_ref().and_then(|turn| Some((turn.key, turn.answered.as_ref()?.deadline)));
        if let Some((key, deadline)) = answered {
            self.handle_records(key, None, deadline);
        }
    }

    /// Ends a turn with an error of the agent, unless the turn was cancelled for another reason.
    pub(super) fn fail_turn(&mut self, error: Error, now: Instant) {
        self.end_tool_calls(true, now);
        let failure = self.take_failure(now).unwrap_or(error);
        let failure = match self.take_result(TurnStatus::Cancelled, None, true) {
            Some(result) => failure.with_result(result),
            None => failure,
        };
        self.end_turn(Err(failure), now);
    }

    /// Why the turn fails, whatever the agent says: what cancelled the turn, or a budget that its end has exceeded.
    fn take_failure(&mut self, now: Instant) -> Option<Error> {
        match &mut self.turn.as_mut()?.cancel {
            Some(cancel) => cancel.failure.take(),
            None => self.exceeded(now),
        }
    }

    pub(in super::super) fn finish(&mut self, status: TurnStatus, steps: Option<i64>, now: Instant) {
        self.end_tool_calls(status == TurnStatus::Cancelled, now);
        let failure = self.take_failure(now);
        if status != TurnStatus::Finished || failure.is_some() || !self.lacks_output() {
            return self.finish_with(status, steps, failure, now);
        }
        let may_continue = self.turn.as_ref().is_some_and(|turn| turn.cancel.is_none() && !turn.is_left);
        if !may_continue || self.is_closing {
            // A cancelled turn asks for nothing more, and without its value it is not a success.
            return self.finish_with(TurnStatus::Cancelled, steps, None, now);
        }
        self.withdraw_of_turn();
        if !self.continue_for_output(steps, now) {
            self.finish_with(status, steps, None, now);
        }
    }

    /// Ends a turn, with the error that ended it, if one did.
    pub(in super::super) fn finish_with(
        &mut self,
        status: TurnStatus,
        steps: Option<i64>,
        failure: Option<Error>,
        now: Instant,
    ) {
        self.end_tool_calls(failure.is_some() || status == TurnStatus::Cancelled, now);
        self.deliver_half();
        let Some(turn) = &mut self.turn else { return };
        if !turn.ended {
            turn.ended = true;
            let end = TurnEnd { synthesized: Some(true), extra: Default::default() };
            self.emit(end.into(), 64);
        }
        self.withdraw_of_turn();
        let Some(result) = self.take_result(status, steps, failure.is_some()) else { return };
        let outcome = match failure {
            Some(failure) => Err(failure.with_result(result)),
            None => Ok(result),
        };
        self.end_turn(outcome, now);
    }

    /// Returns what the turn has come to. `is_cut_short`: a budget has ended it, perhaps between two texts.
    pub(in super::super) fn take_result(
        &mut self,
        status: TurnStatus,
        steps: Option<i64>,
        is_cut_short: bool,
    ) -> Option<PromptResult> {
        self.deliver_half();
        let turn = self.turn.as_mut()?;
        self.tool_calls.clear(Some(&mut turn.record));
        let Record { tool_calls, rejected, handler_failures, .. } = std::mem::take(&mut turn.record);
        Some(PromptResult {
            status,
            stop_reason: turn.stop_reason.take(),
            steps: turn.prior_steps.saturating_add(steps.unwrap_or(turn.steps)),
            output: turn.output.as_mut().and_then(|output| output.take_value()),
            text: if is_cut_short && turn.text.is_empty() {
                std::mem::take(&mut turn.former_text)
            } else {
                turn.text()
            },
            usage: turn.spent.usage.clone(),
            tool_calls,
            rejected,
            handler_failures,
            plan: turn.plan.take().map(|plan| *plan),
            cost: turn.spent.cost.cost(),
        })
    }

    fn end_turn(&mut self, outcome: Result<PromptResult>, now: Instant) {
        self.withdraw_of_turn();
        self.push_held_end();
        let Some(turn) = self.turn.take() else { return };
        if outcome.is_ok() {
            self.warn_of_unknown_cost(&turn);
        }
        if let Some(session) = &mut self.session_budget {
            session.spent.add(&turn.spent(now));
        }
        self.tool_calls.clear(None);
        self.outputs.push_back(Output::TurnEnded { turn: turn.key, outcome: outcome.map(Box::new) });
        if let Some(queued) = self.queued.take() {
            self.begin(*queued, now);
        }
    }

    /// Notes since when only the answer to the prompt is missing.
    pub(in super::super) fn note_ending(&mut self, now: Instant) {
        if let Some(turn) = &mut self.turn {
            turn.ending = self.dialect.is_turn_ending().then(|| turn.ending.unwrap_or(now));
        }
    }
}
