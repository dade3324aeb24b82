//! Backpressure: how much of what the agent says is taken in, and when the driver stops waiting for room. Two things can
//! hold it up, a program that does not read its events and an agent that does not read its answers; neither may do so
//! for ever where somebody waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event_channel::EventChannel;
use super::event_queue::Capacity;
use super::{Caller, Driver, now};
use crate::connection::CallKey;
use crate::error::Error;

/// How many lines are taken in at a time; then what comes of them is done.
const BATCH: usize = 64;

/// How much may wait for an agent that does not read, before it is not read either; or twice the largest message.
const MAX_UNREAD: usize = 16 << 20;
/// How long it may then go on reading nothing.
pub(super) const DEAF: Duration = Duration::from_secs(60);
/// How long a call that waits behind more unread events than may wait lets the reader take nothing: one that has taken
/// nothing since the call began may be the caller itself, and never will.
const STUCK: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_secs(60);

/// How long a request that the program answers itself may wait undelivered while `result()` waits and nobody reads. A
/// reader that starts within this time can answer it; then the request gets the safe answer, so that the turn ends.
pub(super) const HELD_BACK: Duration = Duration::from_secs(1);

/// A call waits behind more unread events than may wait.
#[derive(Debug)]
pub(super) struct Overgrown {
    /// How much had been read.
    pub(super) reads: u64,
    pub(super) since: Instant,
}

/// How much may be taken in at a time.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) lines: usize,
    pub(super) bytes: usize,
}

impl Batch {
    /// No more than this, either: a line of an agent's brings an event.
    fn limit(&mut self, bytes: usize, events: usize) {
        self.bytes = self.bytes.min(bytes);
        self.lines = self.lines.min(events);
    }
}

impl Driver {
    /// How much the queues have capacity for, if for anything. A call that waits for its answer may make the active queue
    /// grow, up to a hard bound: the answer lies behind events that its caller may be the one to read.
    pub(super) fn room(&mut self) -> Option<Batch> {
        if self.is_deaf() {
            return None;
        }
        let drains = self.shutdown.drains();
        let replies = self.callers.values().any(|caller| matches!(caller, Caller::Reply { .. }));
        // A function that takes its time over events outside turns must not hold up a call, nor a cancel.
        if let Some(outside) = &self.outside {
            outside.events.set_discards_overflow(drains || replies || self.connection.cancelling().is_some());
        }
        let mut batch = Batch { lines: BATCH, bytes: usize::MAX };
        if drains {
            return Some(batch);
        }
        if let Some(outside) = &self.outside {
            match outside.events.capacity(replies) {
                Capacity::Free { bytes, events } => batch.limit(bytes, events),
                Capacity::Full | Capacity::HardFull => return None,
            }
        }
        let mut free = true;
        let mut overgrown = false;
        for turn in self.turns.values().chain(self.replays()) {
            match turn.events.capacity(replies) {
                Capacity::Free { bytes, events } => batch.limit(bytes, events),
                Capacity::Full => {
                    free &= replies || turn.events.has_waiting_results();
                    batch.limit(usize::MAX, 1);
                }
                Capacity::HardFull => {
                    free = false;
                    overgrown |= replies || turn.events.has_waiting_results();
                }
            }
        }
        self.overgrown = overgrown.then(|| match (self.reads(), self.overgrown.take()) {
            (reads, Some(same)) if same.reads == reads => same,
            (reads, _) => Overgrown { reads, since: now() },
        });
        free.then_some(batch)
    }

    /// Whether more waits for the agent than may wait: then it is not read either, as it might go on asking for ever.
    fn is_deaf(&mut self) -> bool {
        let hears = !self.shutdown.input_closed() && !self.shutdown.has_exited();
        let deaf = hears && self.unwritten.len() > MAX_UNREAD.max(2 * self.largest);
        self.deaf = if deaf { self.deaf.or_else(|| Some(now())) } else { None };
        deaf
    }

    pub(super) fn replays(&self) -> impl Iterator<Item = &Arc<EventChannel>> {
        self.callers.values().filter_map(|caller| match caller {
            Caller::Replay(replay) => Some(replay),
            Caller::Reply { .. } => None,
        })
    }

    /// Notes since when a request waits that only a reader can answer, while there is no reader.
    pub(super) fn note_held_back(&mut self) {
        let held_back =
            self.connection.awaits_manual_answer() && self.turns.values().any(|turn| turn.events.holds_back_request());
        self.held_back = if held_back { self.held_back.or_else(|| Some(now())) } else { None };
    }

    /// Gives such requests the safe answer when they have waited for too long.
    pub(super) fn answer_held_back(&mut self) {
        if self.held_back.is_none_or(|since| now() < since + HELD_BACK) {
            return;
        }
        self.held_back = None;
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
    pub(super) fn patience(&self, reads: u64) -> Duration {
        let stuck = |caller: &Caller| matches!(caller, Caller::Reply { reads: at, .. } if *at == reads);
        let stuck = self.callers.values().any(stuck) || self.turns.values().any(|turn| turn.events.has_stuck_results());
        if stuck { STUCK } else { SLOW }
    }

    /// Fails the calls that wait behind a reader who takes nothing; others go on waiting, as it may yet read.
    pub(super) fn give_up_calls(&mut self) {
        let Some(Overgrown { reads, since }) = self.overgrown else { return };
        if self.reads() != reads {
            // It has read on. That is looked at only now, as it rings no bell.
            self.overgrown = Some(Overgrown { reads: self.reads(), since: now() });
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
