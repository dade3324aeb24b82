//! Deadlines: when the connection has to be called, and what it does then.

use std::time::Instant;

use super::calls::PendingCall;
use super::{Connection, Output, Phase};
use crate::dialect::Incoming;
use crate::error::Error;

impl Connection {
    /// Sets whether the agent's lines are read at the moment. While they are not, the agent does not count as idle.
    pub fn set_reading(&mut self, is_reading: bool, now: Instant) {
        if is_reading && !self.is_reading {
            self.note_activity(now);
        }
        self.is_reading = is_reading;
    }

    /// Returns whether the agent's next line can begin work on what came before it: a decision of the policy, which looks at files,
    /// the search of a value in the whole answer, or the answer with a large output of a terminal.
    pub fn may_decide(&self) -> bool {
        self.sources.rules.is_some()
            || self.terminals.has_large_output()
            || self.turn.as_ref().is_some_and(|turn| turn.output.is_some())
    }

    /// Returns whether the agent's lines are read at the moment.
    pub fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Returns whether the agent cannot continue before the program or the SDK acts.
    pub(super) fn agent_waits(&self) -> bool {
        self.requests.is_waiting() || self.terminals.is_awaited() || self.is_checking_answer() || !self.is_reading
    }

    /// Restarts the idle timeouts.
    pub(super) fn note_activity(&mut self, now: Instant) {
        if let Some(turn) = &mut self.turn {
            turn.last_activity = now;
        }
        if let Some(replay) = &mut self.replay {
            replay.last_activity = now;
        }
    }

    /// Returns whether the agent shows with a message that it works. Lines that are dropped, and answers to unknown calls, do not.
    pub(super) fn is_activity(&self, incoming: &Incoming) -> bool {
        match incoming {
            Incoming::InvalidLine(_) | Incoming::Response { id: None, .. } => false,
            Incoming::Response { id: Some(id), .. } => self.calls.contains_key(id),
            Incoming::Batch(all) => all.is_empty() || all.iter().any(|one| self.is_activity(one)),
            _ => true,
        }
    }

    /// Returns the time of the next call of [`Connection::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let opening = match &self.phase {
            Phase::Opening(opening) => Some(opening.next_deadline()),
            _ => None,
        };
        let turn = self.turn.as_ref().and_then(|turn| turn.next_deadline(&self.timing, self.agent_waits()));
        let calls = self.calls.values().filter_map(|pending| pending.deadline);
        let unanswered = self.requests.next_report();
        opening.into_iter().chain(turn).chain(self.replay_deadline()).chain(calls).chain(unanswered).min()
    }

    /// A replay has no other deadline: its length depends on the session and on the reader.
    fn replay_deadline(&self) -> Option<Instant> {
        self.replay.as_ref().filter(|_| self.is_reading).map(|replay| replay.last_activity + self.timing.answer)
    }

    /// Ends the calls, turns and replays whose deadline was exceeded.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Phase::Opening(opening) = &self.phase
            && now >= opening.deadline
        {
            let printed = opening.printed();
            return self.handshake_timed_out(&printed);
        }
        if let Phase::Opening(opening) = &self.phase
            && now >= opening.next_deadline()
        {
            self.end_past(now);
        }
        let limit = self.timing.answer;
        if self.replay_deadline().is_some_and(|deadline| now >= deadline) {
            let error = Error::Timeout(format!(
                "the agent sent nothing of the replay for {limit:?}, and the session is closed; open another one with \
                 the same `session_id`, and raise `handshake_timeout`, which limits this call, too"
            ).into());
            // A late event of the replay would look like a live event.
            self.outputs.push_back(Output::FatalError(error.clone()));
            return self.close(&error);
        }
        let late = |pending: &PendingCall| pending.deadline.is_some_and(|deadline| now >= deadline);
        let mut given_up: Vec<_> = self.calls.extract_if(|_, pending| late(pending)).collect();
        given_up.sort_by_key(|(_, pending)| pending.key);
        for (id, PendingCall { key, call, .. }) in given_up {
            let notification = self.dialect.give_up(&id);
            if !notification.is_empty() {
                self.transmit(notification);
            }
            let name = call.name();
            let message = format!(
                "the agent did not answer `{name}` within {limit:?}; the session can still be used: call again, or \
                 raise `handshake_timeout`, which limits this call, too"
            );
            self.outputs.push_back(Output::CallEnded { call: key, outcome: Err(Error::Timeout(message.into())) });
        }
        self.log_unanswered(now);
        self.log_quiet(now);
        self.turn_deadline(now);
    }
}
