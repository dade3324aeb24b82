//! The state of a session's backpressure: the budget of lines, the backlog, and whether its process is read.
//! [`super::backpressure`] has the rules.

use std::collections::VecDeque;
use std::time::Instant;

use super::event_queue::OVERHEAD;

/// The limit of lines that are kept for a session that does not read while other sessions wait for answers, in bytes.
pub(super) const MAX_BACKLOG: usize = 16 << 20;
/// The longest line does not count towards that limit if it is at least this long: the session may be reading it.
const LARGE: usize = 1 << 20;

/// The number of lines and bytes that a session takes at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batch {
    pub(super) lines: usize,
    pub(super) bytes: usize,
}

impl Batch {
    /// Limits it further. A line becomes at least one event.
    pub(super) fn limit(&mut self, bytes: usize, events: usize) {
        self.bytes = self.bytes.min(bytes);
        self.lines = self.lines.min(events);
    }
}

/// Set while a call waits behind more unread events than the limit.
#[derive(Debug)]
pub(super) struct OverLimit {
    /// How many events had been read.
    pub(super) reads: u64,
    pub(super) since: Instant,
}

/// The flow of lines into one session.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The number of bytes to take before the capacity is determined again.
    pub(super) budget: Batch,
    pub(super) is_blocked: bool,
    /// Whether all lines are taken regardless of the queues: the process has ended, and a pipe holds little.
    pub(super) is_draining: bool,
    pub(super) over_limit: Option<OverLimit>,
    /// Since when a request waits unread while only `result()` waits.
    pub(super) held_back: Option<Instant>,
    /// Lines without capacity that were read while other sessions waited for answers.
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    /// The longest large line since the backlog was empty.
    longest: usize,
}

impl Flow {
    /// Counts a taken line of this size.
    pub(super) fn taken(&mut self, size: usize) {
        self.budget.lines = self.budget.lines.saturating_sub(1);
        self.budget.bytes = self.budget.bytes.saturating_sub(size + OVERHEAD);
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    pub(super) fn drain(&mut self) {
        self.is_draining = true;
    }

    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Returns whether the backlog exceeds its limit.
    pub(super) fn is_behind(&self) -> bool {
        self.backlog_bytes.saturating_sub(self.longest) >= MAX_BACKLOG
    }

    pub(super) fn clear_backlog(&mut self) {
        self.backlog = VecDeque::new();
        self.backlog_bytes = 0;
    }

    pub(super) fn push_backlog(&mut self, line: &[u8]) {
        self.backlog_bytes += line.len();
        if line.len() >= LARGE {
            self.longest = self.longest.max(line.len());
        }
        self.backlog.push_back(line.to_owned());
    }

    pub(super) fn pop_backlog(&mut self) -> Option<Vec<u8>> {
        let line = self.backlog.pop_front()?;
        self.backlog_bytes -= line.len();
        if self.backlog.is_empty() {
            self.backlog = VecDeque::new();
            self.longest = 0;
        }
        Some(line)
    }
}

/// The effect of a session on the reading of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// The session has no capacity, because its program does not read.
    Full,
    /// The session has capacity, and waits for an answer of the agent.
    Waiting,
    /// The session has capacity, and waits for nothing.
    Idle,
}

/// Returns whether a process is read. If a session is full, the agent waits, unless another session or a one-off call
/// waits for an answer. Then lines of the full session are kept.
pub(super) fn may_take_lines(has_calls: bool, sessions: impl IntoIterator<Item = Demand>) -> bool {
    let (mut is_full, mut is_awaited) = (false, has_calls);
    for demand in sessions {
        is_full |= demand == Demand::Full;
        is_awaited |= demand == Demand::Waiting;
    }
    !is_full || is_awaited
}

#[cfg(test)]
mod tests {
    use super::Demand::{Full, Idle, Waiting};
    use super::*;

    #[test]
    fn process_with_capacity_everywhere_is_read() {
        for sessions in [&[Idle][..], &[Waiting], &[Idle, Waiting], &[]] {
            assert!(may_take_lines(false, sessions.iter().copied()), "{sessions:?}");
        }
    }

    #[test]
    fn full_session_stops_process_without_other_waiters() {
        for sessions in [&[Full][..], &[Full, Full], &[Full, Idle], &[Idle, Full, Idle]] {
            assert!(!may_take_lines(false, sessions.iter().copied()), "{sessions:?}");
        }
    }

    #[test]
    fn waiting_session_keeps_process_read() {
        for sessions in [[Full, Waiting, Idle], [Waiting, Full, Full], [Idle, Full, Waiting]] {
            assert!(may_take_lines(false, sessions), "{sessions:?}");
        }
    }

    #[test]
    fn waiting_agent_call_keeps_process_read() {
        assert!(may_take_lines(true, [Full]));
        assert!(may_take_lines(true, [Full, Idle]));
    }
}
