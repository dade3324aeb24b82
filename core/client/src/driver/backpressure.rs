//! Backpressure of one session: how many lines of the agent it takes, and when it stops waiting for capacity. A program
//! that does not read its events can stop the session, but not without limit if a call waits for an answer behind them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event_channel::EventChannel;
use super::event_queue::Capacity;
use super::flow::{Batch, Demand, MAX_BACKLOG, OverLimit};
use super::io::Io;
use super::now;
use super::process::LONG;
use super::reader::PipeReader;
use super::session::{Caller, SessionDriver};
use crate::connection::CallKey;
use crate::error::Error;
use crate::jsonrpc;

/// The number of lines that are taken at a time. Their outputs are delivered before the next lines.
const BATCH: usize = 64;
/// The limit of a wait for an answer behind a full queue. If the reader has taken nothing since the call began, it may
/// be the caller itself, so the short limit applies.
const STUCK: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_secs(60);
/// How long a request for a manual answer may stay unread while only `result()` waits. A reader that starts within this
/// time can answer it. After that it gets the default answer, so that the turn ends.
const HELD_BACK: Duration = Duration::from_secs(1);

impl SessionDriver {
    pub(super) fn demand(&self) -> Demand {
        if self.flow.is_blocked() {
            Demand::Full
        } else if self.awaits_answer() {
            Demand::Waiting
        } else {
            Demand::Idle
        }
    }

    /// Updates the capacity, and takes as much of the backlog as fits.
    pub(super) fn refill(&mut self, io: &mut Io, now: Instant) {
        loop {
            self.flush(io);
            let capacity = self.capacity();
            self.flow.budget = capacity.unwrap_or_default();
            if capacity.is_none() || !self.flow.has_backlog() {
                break;
            }
            while self.flow.budget.lines > 0
                && self.flow.budget.bytes > 0
                && let Some(line) = self.flow.pop_backlog()
            {
                self.connection.handle_line(&line, now);
                self.flow.taken(line.len());
            }
        }
        self.flow.is_blocked = self.flow.budget.lines == 0;
    }

    /// Takes a line if there is capacity; otherwise adds it to the backlog.
    pub(super) fn take_line(&mut self, message: jsonrpc::Message<'_>, line: &[u8], io: &mut Io, now: Instant) {
        if self.flow.is_blocked || self.flow.has_backlog() {
            return self.flow.push_backlog(line);
        }
        self.handle_message(message, line, now);
        if self.connection.unsent() > LONG {
            // The writer counts the answers, and stops an agent that asks for more than it reads.
            self.flush(io);
        }
        if self.flow.budget.lines == 0 || self.flow.budget.bytes == 0 {
            self.refill(io, now);
        }
    }

    /// Takes the next lines, at most `max`, that differ from an earlier line of the turn only in their texts. Returns whether there
    /// was one.
    pub(super) fn take_pieces(&mut self, reader: &mut PipeReader, max: usize, io: &mut Io, now: Instant) -> bool {
        for count in 0..max {
            if self.flow.is_blocked || self.flow.has_backlog() {
                return count > 0;
            }
            let Some(line) = reader.peek_line().filter(|line| line.len() <= LONG) else { return count > 0 };
            if !self.connection.handle_piece(line, now) {
                return count > 0;
            }
            self.flow.taken(line.len());
            reader.skip_line();
            if self.flow.budget.lines == 0 || self.flow.budget.bytes == 0 {
                self.refill(io, now);
            }
        }
        true
    }

    /// Fails the session because it does not read, while the agent continues.
    pub(super) fn fail_behind(&mut self, agent_waits: bool) {
        self.flow.clear_backlog();
        let text = if agent_waits {
            format!(
                "other sessions of the agent continue, and this one has left {MAX_BACKLOG} bytes unread, so it is closed; read its \
                 events as they come, or give the session an agent of its own"
            )
        } else {
            format!(
                "the agent's server does not wait for a slow reader, and this session has left {MAX_BACKLOG} bytes unread, so it \
                 is closed; read its events as they come"
            )
        };
        self.fail(&Error::EventBufferFull(text.into()));
    }

    /// Returns the free capacity of the queues, if there is any. A call that waits for its answer may extend the queue
    /// of the turn up to a hard limit, because its caller may be the reader.
    fn capacity(&mut self) -> Option<Batch> {
        let is_draining = self.flow.is_draining || self.closing.is_asked || self.connection.is_closed();
        let replies = self.callers.values().any(|caller| matches!(caller, Caller::Reply { .. }));
        // A slow handler of events outside turns must not delay a call or a cancel.
        if let Some(outside) = &self.outside {
            outside.events.set_discards_overflow(is_draining || replies || self.connection.cancelling().is_some());
        }
        let mut batch = Batch { lines: BATCH, bytes: usize::MAX };
        if is_draining {
            return Some(batch);
        }
        if let Some(outside) = &self.outside {
            match outside.events.capacity(replies) {
                Capacity::Free { bytes, events } => batch.limit(bytes, events),
                Capacity::Full | Capacity::HardFull => return None,
            }
        }
        let mut has_capacity = true;
        let mut over_limit = false;
        for turn in self.turns.values().chain(self.replays()) {
            match turn.events.capacity(replies) {
                Capacity::Free { bytes, events } => batch.limit(bytes, events),
                Capacity::Full => {
                    has_capacity &= replies || turn.events.has_waiting_results();
                    batch.limit(usize::MAX, 1);
                }
                Capacity::HardFull => {
                    has_capacity = false;
                    over_limit |= replies || turn.events.has_waiting_results();
                }
            }
        }
        self.flow.over_limit = over_limit.then(|| match (self.reads(), self.flow.over_limit.take()) {
            (reads, Some(same)) if same.reads == reads => same,
            (reads, _) => OverLimit { reads, since: now() },
        });
        has_capacity.then_some(batch)
    }

    pub(super) fn replays(&self) -> impl Iterator<Item = &Arc<EventChannel>> {
        self.callers.values().filter_map(|caller| match caller {
            Caller::Replay(channel) => Some(channel),
            Caller::Reply { .. } => None,
        })
    }

    /// Returns the deadline of a call that waits behind unread events, or of an unread request.
    pub(super) fn backpressure_deadline(&self) -> Option<Instant> {
        let over_limit = self.flow.over_limit.as_ref();
        let over_limit = over_limit.map(|over_limit| over_limit.since + self.patience(over_limit.reads));
        let held_back = self.flow.held_back.map(|since| since + HELD_BACK);
        over_limit.into_iter().chain(held_back).min()
    }

    /// Notes since when a request waits that only a reader can answer, while nothing reads the turn.
    pub(super) fn note_held_back(&mut self) {
        let held_back =
            self.connection.awaits_manual_answer() && self.turns.values().any(|turn| turn.events.holds_back_request());
        self.flow.held_back = if held_back { self.flow.held_back.or_else(|| Some(now())) } else { None };
    }

    /// Gives such requests the default answer after their deadline.
    pub(super) fn answer_held_back(&mut self) {
        if self.flow.held_back.is_none_or(|since| now() < since + HELD_BACK) {
            return;
        }
        self.flow.held_back = None;
        let requests: Vec<_> = self.turns.values().flat_map(|turn| turn.events.take_held_back_requests()).collect();
        for request_id in requests {
            self.connection.answer_undelivered(&request_id, now());
        }
    }

    /// Returns how many events were read. It changes whenever the program takes an event.
    pub(super) fn reads(&self) -> u64 {
        self.turns.values().chain(self.replays()).map(|turn| turn.events.delivered()).sum()
    }

    /// Returns how long the reader may take nothing. The limit is short if nothing was read since a waiting call began.
    fn patience(&self, reads: u64) -> Duration {
        let stuck = |caller: &Caller| matches!(caller, Caller::Reply { reads: at, .. } if *at == reads);
        let stuck = self.callers.values().any(stuck) || self.turns.values().any(|turn| turn.events.has_stuck_results());
        if stuck { STUCK } else { SLOW }
    }

    /// Fails the calls that wait behind a reader who takes nothing. Calls after which something was read wait for
    /// longer.
    pub(super) fn give_up_calls(&mut self) {
        let Some(OverLimit { reads, since }) = self.flow.over_limit else { return };
        if self.reads() != reads {
            // The reader has continued. Nothing notifies the driver of that, so it is checked here.
            self.flow.over_limit = Some(OverLimit { reads: self.reads(), since: now() });
            return;
        }
        let waited = now() - since;
        if waited < self.patience(reads) {
            return;
        }
        let all = waited >= SLOW;
        let error = Error::EventBufferFull(
            "the answer to this call lies behind more unread events than may wait; the session can still be used: read the \
             turn's events at the same time, or raise `event_buffer_bytes`"
                .into(),
        );
        for turn in self.turns.values() {
            turn.events.fail_results(&error, all);
        }
        let failed =
            |_: &CallKey, caller: &mut Caller| matches!(caller, Caller::Reply { reads: at, .. } if all || *at == reads);
        let failed: Vec<_> = self.callers.extract_if(failed).collect();
        for (key, caller) in failed {
            self.connection.forget_call(key);
            if let Caller::Reply { reply, .. } = caller {
                drop(reply.send(Err(error.clone())));
            }
        }
    }
}
