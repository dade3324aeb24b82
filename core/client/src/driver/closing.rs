//! The end of one session: its turn is cancelled. Then it leaves the process, or ends the process with it
//! ([`super::shutdown`]) if it is the last session.

use std::time::{Duration, Instant};

use super::shutdown::STALL_TIMEOUT;

/// The stage of a session's end.
#[derive(Debug)]
pub(super) enum Stage {
    Open,
    /// A close was requested while a turn runs: the turn is being cancelled.
    Cancelling {
        /// The agent must read some of its pending input by this time.
        stalled_at: Instant,
    },
    /// Nothing is left to cancel. The session leaves with its close timeout.
    Closed,
    /// The session cannot continue. It leaves immediately.
    Failed,
    /// The program has set a timeout of zero.
    Killed,
    /// The agent was asked to close the session, and has to answer by this time.
    Leaving {
        until: Instant,
    },
    /// The session ends with the process.
    WithProcess,
}

#[derive(Debug)]
pub(super) struct Closing {
    pub(super) stage: Stage,
    pub(super) close_timeout: Duration,
    /// Whether the program or the SDK has requested the end.
    pub(super) is_asked: bool,
    /// Whether the session was never opened.
    pub(super) is_abandoned: bool,
    /// The shorter timeout that the program has set since the end began.
    pub(super) shortened: Option<Duration>,
}

impl Closing {
    pub(super) fn new(close_timeout: Duration) -> Self {
        Self { stage: Stage::Open, close_timeout, is_asked: false, is_abandoned: false, shortened: None }
    }

    /// Notes that the agent has read something.
    pub(super) fn written(&mut self, now: Instant) {
        if let Stage::Cancelling { stalled_at } = &mut self.stage {
            *stalled_at = now + STALL_TIMEOUT;
        }
    }

    /// Returns the deadline of the stage. `unwritten`: input of the agent is pending.
    pub(super) fn deadline(&self, unwritten: bool) -> Option<Instant> {
        match self.stage {
            Stage::Leaving { until } => Some(until),
            Stage::Cancelling { stalled_at } if unwritten => Some(stalled_at),
            _ => None,
        }
    }
}
