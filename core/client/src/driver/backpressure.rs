//! Backpressure of one session: how much of what the agent says it takes, and when it stops waiting for capacity. A program
//! that does not read its events can hold the session up, but not for ever if somebody waits for an answer behind them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event_channel::EventChannel;
use super::event_queue::{Capacity, OVERHEAD};
use super::now;
use super::process::Io;
use super::session::{Caller, SessionDriver};
use crate::connection::CallKey;
use crate::error::Error;
use crate::wire::jsonrpc;

/// How many lines are taken at a time; then what comes of them is done.
const BATCH: usize = 64;
/// How long a call that waits behind more unread events than may wait lets the reader take nothing: one that has taken
/// nothing since the call began may be the caller itself, and never will.
const STUCK: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_secs(60);
/// How long a request that the program answers itself may wait undelivered while `result()` waits and nobody reads. A
/// reader that starts within this time can answer it; then the request gets the safe answer, so that the turn ends.
const HELD_BACK: Duration = Duration::from_secs(1);
/// How many bytes of lines are kept for a session that does not read while other sessions wait for answers.
pub(super) const MAX_BACKLOG: usize = 16 << 20;
/// A line of this size does not count there, if it is the longest: the session may be reading it.
const LARGE: usize = 1 << 20;

/// How much may be taken at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    lines: usize,
    bytes: usize,
}

impl Batch {
    /// No more than this, either: a line of an agent's brings an event.
    fn limit(&mut self, bytes: usize, events: usize) {
        self.bytes = self.bytes.min(bytes);
        self.lines = self.lines.min(events);
    }
}

/// A call waits behind more unread events than may wait.
#[derive(Debug)]
struct OverLimit {
    /// How much had been read.
    reads: u64,
    since: Instant,
}

/// How much a session takes.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// How much it takes before it looks for capacity again.
    budget: Batch,
    is_blocked: bool,
    /// Everything is taken whatever the queues hold: the process has ended, and a pipe holds little.
    is_draining: bool,
    over_limit: Option<OverLimit>,
    /// Since when a request waits in a buffer that nobody reads while `result()` waits.
    held_back: Option<Instant>,
    /// Lines that the session had no capacity for while others waited for answers.
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    /// The longest large line since the backlog was empty.
    longest: usize,
}

impl Flow {
    /// A line of this size was taken.
    pub(super) fn taken(&mut self, size: usize) {
        self.budget.lines = self.budget.lines.saturating_sub(1);
        self.budget.bytes = self.budget.bytes.saturating_sub(size + OVERHEAD);
    }

    /// What came of the lines is done before the next one is taken.
    pub(super) fn interrupt(&mut self) {
        self.budget = Batch::default();
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    pub(super) fn drain(&mut self) {
        self.is_draining = true;
    }

    fn push_backlog(&mut self, line: &[u8]) {
        self.backlog_bytes += line.len();
        if line.len() >= LARGE {
            self.longest = self.longest.max(line.len());
        }
        self.backlog.push_back(line.to_owned());
    }

    fn pop_backlog(&mut self) -> Option<Vec<u8>> {
        let line = self.backlog.pop_front()?;
        self.backlog_bytes -= line.len();
        if self.backlog.is_empty() {
            self.backlog = VecDeque::new();
            self.longest = 0;
        }
        Some(line)
    }
}

impl SessionDriver {
    /// Looks for capacity, and takes from the backlog as much as fits.
    pub(super) fn refill(&mut self, io: &mut Io, now: Instant) {
        loop {
            self.flush(io);
            let capacity = self.capacity();
            self.flow.budget = capacity.unwrap_or_default();
            if capacity.is_none() || self.flow.backlog.is_empty() {
                break;
            }
            while self.flow.budget.lines > 0
                && self.flow.budget.bytes > 0
                && let Some(line) = self.flow.pop_backlog()
            {
                self.handle_message(jsonrpc::parse(&line), &line, now);
            }
        }
        self.flow.is_blocked = self.flow.budget.lines == 0;
    }

    /// Takes a line if there is capacity; otherwise keeps it.
    pub(super) fn take_line(&mut self, message: jsonrpc::Message<'_>, line: &[u8], io: &mut Io, now: Instant) {
        if self.flow.is_blocked || !self.flow.backlog.is_empty() {
            return self.flow.push_backlog(line);
        }
        self.handle_message(message, line, now);
        if self.flow.budget.lines == 0 || self.flow.budget.bytes == 0 {
            self.refill(io, now);
        }
    }

    /// Whether more is kept for the session than may be.
    pub(super) fn is_behind(&self) -> bool {
        self.flow.backlog_bytes.saturating_sub(self.flow.longest) >= MAX_BACKLOG
    }

    /// The session fails because it does not read.
    pub(super) fn fail_behind(&mut self) {
        self.flow.backlog = VecDeque::new();
        self.flow.backlog_bytes = 0;
        self.fail(&Error::EventBufferFull(format!(
            "other sessions of the agent go on, and this one has left {MAX_BACKLOG} bytes unread, so it is closed; read its \
             events as they come, or give the session an agent of its own"
        )));
    }

    /// How much the queues have room for, if for anything. A call that waits for its answer may make the queue of the turn
    /// grow, up to a hard bound: the answer lies behind events that its caller may be the one to read.
    fn capacity(&mut self) -> Option<Batch> {
        let is_draining = self.flow.is_draining || self.closing.is_asked || self.connection.is_closed();
        let replies = self.callers.values().any(|caller| matches!(caller, Caller::Reply { .. }));
        // A handler that takes its time over events outside turns must not hold up a call, nor a cancel.
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

    /// When a call that waits behind unread events, or a request in them, is given up.
    pub(super) fn backpressure_deadline(&self) -> Option<Instant> {
        let over_limit = self.flow.over_limit.as_ref();
        let over_limit = over_limit.map(|over_limit| over_limit.since + self.patience(over_limit.reads));
        let held_back = self.flow.held_back.map(|since| since + HELD_BACK);
        over_limit.into_iter().chain(held_back).min()
    }

    /// Notes since when a request waits that only a reader can answer, while there is no reader.
    pub(super) fn note_held_back(&mut self) {
        let held_back =
            self.connection.awaits_manual_answer() && self.turns.values().any(|turn| turn.events.holds_back_request());
        self.flow.held_back = if held_back { self.flow.held_back.or_else(|| Some(now())) } else { None };
    }

    /// Gives such requests the safe answer when they have waited for too long.
    pub(super) fn answer_held_back(&mut self) {
        if self.flow.held_back.is_none_or(|since| now() < since + HELD_BACK) {
            return;
        }
        self.flow.held_back = None;
        let requests: Vec<_> = self.turns.values().flat_map(|turn| turn.events.take_held_back_requests()).collect();
        for request_id in requests {
            self.connection.unseen(&request_id, now());
        }
    }

    /// How much has been read: it changes whenever the program takes an event.
    pub(super) fn reads(&self) -> u64 {
        self.turns.values().chain(self.replays()).map(|turn| turn.events.delivered()).sum()
    }

    /// How long the reader may take nothing. It does so no longer than any call has waited that it has not read since.
    fn patience(&self, reads: u64) -> Duration {
        let stuck = |caller: &Caller| matches!(caller, Caller::Reply { reads: at, .. } if *at == reads);
        let stuck = self.callers.values().any(stuck) || self.turns.values().any(|turn| turn.events.has_stuck_results());
        if stuck { STUCK } else { SLOW }
    }

    /// Fails the calls that wait behind a reader who takes nothing; others go on waiting, as it may yet read.
    pub(super) fn give_up_calls(&mut self) {
        let Some(OverLimit { reads, since }) = self.flow.over_limit else { return };
        if self.reads() != reads {
            // It has read on. That is looked at only now, as it rings no bell.
            self.flow.over_limit = Some(OverLimit { reads: self.reads(), since: now() });
            return;
        }
        let waited = now() - since;
        if waited < self.patience(reads) {
            return;
        }
        let all = waited >= SLOW;
        let error = Error::EventBufferFull(
            "the answer to this call lies behind more unread events than may wait; read the turn's events at the same \
             time, or raise `event_buffer_bytes`"
                .to_owned(),
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
