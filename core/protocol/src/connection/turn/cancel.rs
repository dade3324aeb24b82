//! The cancellation of a turn.

use std::time::{Duration, Instant};

use super::TurnKey;
use crate::connection::result::{PromptResult, TurnStatus};
use crate::connection::{Connection, Output};
use crate::dialect::Call;
use crate::error::{Error, Result, RpcErrorKind};
use crate::messages::Json;
use crate::recording::CallKind;

/// While the session closes: how long the end of a turn may take after the agent has confirmed its cancel. Real agents
/// need milliseconds, or never report the end.
const CONFIRMED: Duration = Duration::from_secs(1);

/// A turn that is being cancelled.
#[derive(Debug)]
pub(in super::super) struct Cancelling {
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    /// The agent's error, if it has answered the cancel with one.
    pub(super) refused: Option<Error>,
    /// The cancel's own call. A late answer to an earlier cancel does not concern this turn.
    call: Option<u64>,
    /// The agent has confirmed the cancel, but may not have answered the prompt.
    pub(super) acknowledged: bool,
    /// The agent has accepted the cancel.
    accepted: bool,
    /// The agent has sent text since the cancel, so it was not at the end of the turn.
    has_text: bool,
    /// The turn's outcome if a deadline or a budget, and not the program, ended the turn.
    pub(super) failure: Option<Error>,
}

impl Cancelling {
    pub(in super::super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    pub(super) fn note_text(&mut self) {
        self.has_text = true;
    }

    /// Returns whether the cancel has ended the turn, whatever the agent calls the end.
    pub(super) fn has_ended_turn(&self) -> bool {
        self.accepted && self.has_text
    }
}

impl Connection {
    /// Cancels a turn. It ends by the agent's answer, or by a deadline.
    pub fn cancel(&mut self, key: TurnKey, now: Instant) {
        self.record_call(CallKind::Cancel, Some(key), Vec::new);
        self.cancel_with(key, None, now);
    }

    pub(in super::super) fn cancel_with(&mut self, key: TurnKey, failure: Option<Error>, now: Instant) {
        if self.queued.as_ref().is_some_and(|queued| queued.key == key) {
            self.queued = None;
            let result = PromptResult::empty(TurnStatus::Cancelled);
            self.outputs
                .push_back(Output::TurnEnded { turn: key, outcome: failure.map_or_else(|| Ok(Box::new(result)), Err) });
            return;
        }
        if self.turn.as_ref().is_some_and(|turn| turn.key == key && turn.answered.is_some()) {
            // The agent has ended the turn, so nothing is left to cancel.
            if let Some(turn) = &mut self.turn {
                turn.is_left = true;
            }
            return self.handle_records(key, None, now);
        }
        if self.turn.as_ref().is_some_and(|turn| turn.key == key) && self.is_checking_answer() {
            return self.end_checked_turn(failure, now);
        }
        match &mut self.turn {
            Some(turn) if turn.key == key && turn.cancel.is_none() => {
                let deadline = now + self.timing.cancel;
                turn.cancel = Some(Cancelling {
                    since: now,
                    deadline,
                    refused: None,
                    call: None,
                    acknowledged: false,
                    accepted: false,
                    has_text: false,
                    failure,
                });
            }
            _ => return,
        }
        // The agent resolves its own requests.
        self.withdraw_of_turn();
        let sent = self.prepare(Call::Cancel).map(|call| self.send(call));
        let cancel = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut());
        match (sent, cancel) {
            (Ok(call), Some(cancel)) => cancel.call = Some(call),
            (Err(error), _) => tracing::warn!(%error, "the cancel could not be sent"),
            _ => {}
        }
    }

    /// Shortens the time for the end of a cancelled turn, because the session closes.
    pub fn begin_closing(&mut self, limit: Duration, now: Instant) {
        self.record_call(CallKind::Close, None, || vec![("timeout", limit.as_secs_f64().into())]);
        self.is_closing = true;
        self.end_answered_turn();
        let Some(cancel) = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut()) else { return };
        let limit = if cancel.acknowledged { limit.min(CONFIRMED) } else { limit };
        cancel.deadline = cancel.deadline.min(now + limit);
    }

    pub(in super::super) fn cancel_answered(&mut self, call: u64, outcome: Result<Json>, now: Instant) {
        let cancel = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut());
        let Some(cancel) = cancel.filter(|cancel| cancel.call == Some(call)) else { return };
        match outcome {
            Ok(_) => (cancel.acknowledged, cancel.accepted) = (true, true),
            // The turn ended before the cancel arrived. The response to its prompt follows.
            Err(Error::Rpc(error)) if error.kind == RpcErrorKind::NoActiveTurn => cancel.acknowledged = true,
            Err(error) => {
                tracing::warn!(%error, "the agent refuses to cancel");
                cancel.deadline = now;
                cancel.refused = Some(error);
            }
        }
        if self.is_closing {
            cancel.deadline = cancel.deadline.min(now + CONFIRMED);
        }
    }

    pub(super) fn is_cancelling(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.cancel.is_some())
    }
}
