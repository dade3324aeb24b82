//! How one session comes to its end: its turn is cancelled, then it leaves the process, or ends the process with it
//! ([`super::shutdown`]) if it is the last.

use std::time::{Duration, Instant};

use super::now;
use super::process::Io;
use super::session::SessionDriver;
use super::shutdown::STALL_TIMEOUT;
use crate::connection::TurnKey;
use crate::error::Error;

/// How far the end of a session is.
#[derive(Debug)]
pub(super) enum Stage {
    Open,
    /// A close was asked for while a turn runs: it is cancelled first.
    Cancelling {
        /// Until when the agent must have read more of what waits for it.
        stalled_at: Instant,
    },
    /// Nothing of it is left to end. It leaves politely.
    Closed,
    /// It cannot go on. It leaves at once.
    Failed,
    /// The program gives it no time.
    Killed,
    /// The agent was told to close it, and has until then to answer.
    Leaving {
        until: Instant,
    },
    /// It ends with the process.
    WithProcess,
}

#[derive(Debug)]
pub(super) struct Closing {
    pub(super) stage: Stage,
    pub(super) close_timeout: Duration,
    /// The program wants it to end, or we do.
    pub(super) is_asked: bool,
    /// The program has given less time since the end began.
    pub(super) shortened: Option<Duration>,
}

impl Closing {
    pub(super) fn new(close_timeout: Duration) -> Self {
        Self { stage: Stage::Open, close_timeout, is_asked: false, shortened: None }
    }

    /// The agent has read something.
    pub(super) fn written(&mut self, now: Instant) {
        if let Stage::Cancelling { stalled_at } = &mut self.stage {
            *stalled_at = now + STALL_TIMEOUT;
        }
    }

    /// `unwritten`: something waits to be read by the agent.
    pub(super) fn deadline(&self, unwritten: bool) -> Option<Instant> {
        match self.stage {
            Stage::Leaving { until } => Some(until),
            Stage::Cancelling { stalled_at } if unwritten => Some(stalled_at),
            _ => None,
        }
    }
}

impl SessionDriver {
    /// The program closes the session within a time of its own, if one is given. A second call can only shorten the time.
    pub(super) fn begin_close_within(&mut self, timeout: Option<Duration>) {
        let Some(timeout) = timeout else { return self.begin_close() };
        if timeout.is_zero() {
            return self.kill();
        }
        let limit = if self.closing.is_asked { timeout.min(self.closing.close_timeout) } else { timeout };
        self.closing.close_timeout = limit;
        if !self.closing.is_asked {
            return self.begin_close();
        }
        let now = now();
        self.connection.hurry(limit, now);
        self.closing.shortened = Some(limit);
        if let Stage::Leaving { until } = &mut self.closing.stage {
            *until = (*until).min(now + limit);
        }
    }

    /// The program closes the session, or nobody holds it any more.
    pub(super) fn begin_close(&mut self) {
        if self.closing.is_asked {
            return;
        }
        self.closing.is_asked = true;
        let now = now();
        if matches!(self.closing.stage, Stage::Open) {
            self.closing.stage = Stage::Cancelling { stalled_at: now + STALL_TIMEOUT };
        }
        let turns: Vec<TurnKey> = self.turns.keys().copied().collect();
        for turn in turns {
            self.turns[&turn].events.discard_overflow();
            self.connection.cancel(turn, now);
        }
        self.connection.hurry(self.closing.close_timeout, now);
    }

    /// The program gives the session no time to end.
    pub(super) fn kill(&mut self) {
        self.closing.is_asked = true;
        self.closing.stage = Stage::Killed;
    }

    /// The connection can't go on: everything fails with this, and the session leaves at once.
    pub(super) fn fail(&mut self, error: &Error) {
        tracing::warn!(%error, "the session is given up");
        self.shared.close(error.clone());
        self.connection.close(error);
        self.closing.is_asked = true;
        if !matches!(self.closing.stage, Stage::Killed | Stage::WithProcess) {
            self.closing.stage = Stage::Failed;
        }
    }

    /// Goes on from cancelling, if the turn has ended or the agent does not read the cancel.
    pub(super) fn advance_closing(&mut self, io: &mut Io) {
        let Stage::Cancelling { stalled_at } = self.closing.stage else { return };
        if self.turns.is_empty() {
            self.connection.close(&Error::SessionClosed);
            self.flush(io);
            self.closing.stage = Stage::Closed;
        } else if now() >= stalled_at && !io.writer.is_empty() {
            self.fail(&Error::Timeout(
                "the agent reads nothing, so its turn can't be cancelled, and it is ended".to_owned(),
            ));
            self.flush(io);
        }
    }
}
