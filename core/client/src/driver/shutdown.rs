//! The end of a process, with all its waits: close its input, wait, TERM, wait, KILL, reap.

use std::time::{Duration, Instant};

use super::io::Io;
use super::now;
use crate::transport::{END_GRACE, Exit};

/// After its exit: how long descendants that hold the pipe may delay the end of the output.
const DRAIN: Duration = Duration::from_millis(500);
/// After it closed a pipe, or if no session was opened: how long an agent may take to exit by itself.
pub(super) const LINGER: Duration = Duration::from_secs(1);
/// During a cancel for a close: how long an agent may read nothing while input is pending.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(1);
/// After its exit: how long to wait for the end of its stderr.
pub(super) const STDERR_GRACE: Duration = Duration::from_millis(250);

#[derive(Debug, PartialEq)]
enum Stage {
    Running,
    /// The agent's input is closed, or will be when everything is written, or the agent closed a pipe. It should exit
    /// by itself.
    Ending {
        until: Instant,
    },
    /// TERM was sent.
    Terminating {
        until: Instant,
    },
    /// KILL was sent.
    Killed,
}

/// The state of a process's end.
#[derive(Debug)]
pub(super) struct Shutdown {
    stage: Stage,
    /// Whether no more sessions come, so that the process ends with the last one.
    pub(super) is_closing: bool,
    /// How long the process may take to exit by itself.
    pub(super) close_timeout: Duration,
    /// Whether the agent closed a pipe and continued to run. Then the SDK ends it, although the program did not request
    /// that.
    is_forced: bool,
    /// Whether no session was opened in the process, so that it has nothing to finish.
    is_abandoned: bool,
    pub(super) exit: Option<Exit>,
    /// Until when the rest of its output is read after its exit.
    drain_until: Option<Instant>,
}

impl Shutdown {
    pub(super) fn new(close_timeout: Duration, is_closing: bool) -> Self {
        Self {
            stage: Stage::Running,
            is_closing,
            close_timeout,
            is_forced: false,
            is_abandoned: false,
            exit: None,
            drain_until: None,
        }
    }

    pub(super) fn exited(&mut self, exit: Exit) {
        self.exit = Some(exit);
        self.drain_until = Some(now() + DRAIN);
    }

    pub(super) fn has_exited(&self) -> bool {
        self.exit.is_some()
    }

    /// Returns whether the end of the process has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.stage != Stage::Running || self.exit.is_some()
    }

    /// Returns whether the agent has exited and the time for the rest of its output is over.
    pub(super) fn is_drained(&self) -> bool {
        self.drain_until.is_some_and(|until| now() >= until)
    }

    pub(super) fn deadline(&self, output_ended: bool) -> Option<Instant> {
        match self.stage {
            _ if self.exit.is_some() => self.drain_until.filter(|_| !output_ended),
            Stage::Ending { until } | Stage::Terminating { until } => Some(until),
            Stage::Running | Stage::Killed => None,
        }
    }

    /// Handles a pipe that the agent closed. The agent should exit.
    pub(super) fn pipe_closed(&mut self) {
        if self.exit.is_none() && self.stage == Stage::Running {
            self.is_forced = true;
            self.stage = Stage::Ending { until: now() + LINGER };
        }
    }

    /// Closes the agent's input once everything is written. The agent should exit within this time.
    pub(super) fn hang_up(&mut self, timeout: Duration, io: &mut Io) {
        io.writer.finish();
        let limit = now() + timeout;
        match &mut self.stage {
            Stage::Running => self.stage = Stage::Ending { until: limit },
            Stage::Ending { until } => *until = limit.min(*until),
            Stage::Terminating { .. } | Stage::Killed => {}
        }
    }

    /// Shortens the time for the exit to this from now on.
    pub(super) fn shorten(&mut self, timeout: Duration) {
        if let Stage::Ending { until } = &mut self.stage {
            *until = (*until).min(now() + timeout);
        }
    }

    /// Notes that no session was opened in the process, also if its end has begun. A server then has no tools to end.
    pub(super) fn abandon(&mut self) {
        if !std::mem::replace(&mut self.is_abandoned, true)
            && let Stage::Terminating { until } = &mut self.stage
        {
            *until = (*until).min(now() + END_GRACE);
        }
    }

    pub(super) fn terminate(&mut self, io: &mut Io) {
        if self.exit.is_none() && matches!(self.stage, Stage::Running | Stage::Ending { .. }) {
            let grace = io.process.end_grace();
            let grace = if self.is_abandoned { grace.min(END_GRACE) } else { grace };
            self.stage = Stage::Terminating { until: now() + grace };
            io.writer.close();
            io.process.terminate();
        }
    }

    pub(super) fn kill(&mut self, io: &mut Io) {
        if self.exit.is_none() && self.stage != Stage::Killed {
            self.stage = Stage::Killed;
            io.writer.close();
            io.process.kill();
        }
    }

    /// Continues with the next stage if the current one is over.
    pub(super) fn advance(&mut self, io: &mut Io) {
        match self.stage {
            Stage::Ending { until } if now() >= until => {
                tracing::debug!("the agent does not end by itself; it gets TERM");
                self.terminate(io);
            }
            Stage::Ending { .. } if io.writer.is_empty() => io.writer.close(),
            Stage::Terminating { until } if now() >= until => {
                tracing::debug!("the agent does not end on TERM; it gets KILL");
                self.kill(io);
            }
            _ => {}
        }
    }

    /// Returns how the agent exited, for errors. If it closed a pipe and the SDK ended it for that, the exit status is
    /// empty, because it only shows the SDK's signal.
    pub(super) fn reported_exit(&self) -> Exit {
        let was_ended = matches!(self.stage, Stage::Terminating { .. } | Stage::Killed);
        let exit = self.exit.clone().unwrap_or_default();
        if self.is_forced && was_ended && exit.still_running.is_none() { Exit::default() } else { exit }
    }
}
