//! The deadlines of a turn.

use std::time::{Duration, Instant};

use super::ActiveTurn;
use crate::connection::result::TurnStatus;
use crate::connection::{Connection, Output, Timing};
use crate::error::Error;

/// How long the answer to the prompt may take after the agent has reported the turn's end. Real agents need
/// milliseconds.
const ENDING: Duration = Duration::from_secs(5);

impl ActiveTurn {
    pub(in super::super) fn next_deadline(&self, timing: &Timing, agent_waits: bool) -> Option<Instant> {
        if let Some(answered) = &self.answered {
            return Some(answered.deadline);
        }
        let ending = self.ending_deadline();
        if let Some(cancel) = &self.cancel {
            return Some(ending.map_or(cancel.deadline, |ending| ending.min(cancel.deadline)));
        }
        let turn = self.limits.turn.or(timing.turn).map(|limit| self.began + limit);
        // An agent that waits for the program is not idle.
        let idle = self.limits.idle.or(timing.idle).filter(|_| !agent_waits).map(|limit| self.last_activity + limit);
        let quiet = self.quiet_deadline(timing, agent_waits);
        turn.into_iter().chain(idle).chain(quiet).chain(ending).chain(self.budget_deadline).min()
    }

    /// Returns when the log says that the agent has been quiet.
    pub(in super::super) fn quiet_deadline(&self, timing: &Timing, agent_waits: bool) -> Option<Instant> {
        let is_due = !agent_waits && !self.is_quiet_logged && self.is_open();
        timing.quiet.filter(|_| is_due).map(|limit| self.last_activity + limit)
    }

    fn ending_deadline(&self) -> Option<Instant> {
        self.ending.map(|since| since + ENDING)
    }
}

impl Connection {
    pub(in super::super) fn turn_deadline(&mut self, now: Instant) {
        if self.turn.as_ref().and_then(|turn| turn.ending_deadline()).is_some_and(|deadline| now >= deadline) {
            let incoming = self.dialect.end_overdue_turn();
            self.handle_incoming(incoming, b"", now);
            self.note_ending(now);
        }
        let Some(turn) = &self.turn else { return };
        if turn.next_deadline(&self.timing, self.agent_waits()).is_none_or(|deadline| now < deadline) {
            return;
        }
        let key = turn.key;
        if turn.answered.is_some() {
            return self.handle_records(key, None, now);
        }
        match &turn.cancel {
            Some(cancel) if cancel.acknowledged => {
                // Real agents up to 1.8 never answer a prompt that was cancelled during an approval, but continue to
                // work.
                let call = turn.call;
                self.forget_call(call);
                self.finish(TurnStatus::Cancelled, None, now);
            }
            Some(cancel) => {
                // Less than `cancel_timeout` if the session closes meanwhile.
                let waited = cancel.deadline.duration_since(cancel.since).as_millis().try_into().unwrap_or(u64::MAX);
                let waited = Duration::from_millis(waited);
                // The first sentence alone: the rest says that the session can still be used.
                let told = cancel.failure.as_ref().map(|failure| {
                    let text = failure.to_string();
                    format!("{}; then ", text.split_once("; ").map_or(text.as_str(), |(problem, _)| problem))
                });
                let told = told.unwrap_or_default();
                let what = match &cancel.refused {
                    Some(error) => format!("refused the cancel ({error})"),
                    None => format!("did not answer the cancel within {waited:?}"),
                };
                let error = Error::Timeout(format!(
                    "{told}the agent {what}, and the session is closed; open another one with the same `session_id`, or \
                     raise `cancel_timeout`"
                ).into());
                self.outputs.push_back(Output::FatalError(error.clone()));
                self.close(&error);
            }
            None => {
                if let Some(error) = self.exceeded(now) {
                    return self.cancel_with(key, Some(error), now);
                }
                let idle = turn.limits.idle.or(self.timing.idle).unwrap_or_default();
                let (what, limit) = match (turn.limits.turn, self.timing.turn) {
                    (Some(limit), _) if now >= turn.began + limit => {
                        ("the turn took longer than the prompt's `timeout` allows", limit)
                    }
                    (None, Some(limit)) if now >= turn.began + limit => {
                        ("the turn took longer than `turn_timeout` allows", limit)
                    }
                    _ => ("the agent sent nothing for longer than `idle_timeout` allows", idle),
                };
                let error = format!(
                    "{what} ({limit:?}), and the turn was cancelled; the session can still be used: prompt again, or \
                     raise the option"
                );
                self.cancel_with(key, Some(Error::Timeout(error.into())), now);
            }
        }
    }
}
