//! How a session ends: cancel what runs, close the agent's input, wait, TERM, wait, KILL, reap. Or the other way
//! round: the agent is gone, and everything pending must hear of it.

use std::time::{Duration, Instant};

use super::{Driver, now};
use crate::connection::TurnKey;
use crate::error::{AgentExit, Error};
use crate::transport::Exit;

/// After its exit: what an agent's descendants that still hold the pipe may delay its end by.
const DRAIN: Duration = Duration::from_millis(500);
/// After the end of its output: how long an agent may take to exit by itself.
const LINGER: Duration = Duration::from_secs(1);
/// While a turn is cancelled for a close: how long an agent may read nothing, where something waits to be read.
const DEAF: Duration = Duration::from_secs(1);
/// After TERM: how long until KILL.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// After its exit: how long the end of its stderr is waited for.
const STDERR_GRACE: Duration = Duration::from_millis(250);

#[derive(Debug)]
enum Stage {
    Running,
    /// A close was asked for while a turn runs: it is cancelled first.
    Cancelling {
        /// Until when the agent must have read more of what waits for it.
        deaf: Instant,
    },
    /// The agent's input is closed, or will be when all is written (or the agent closed a pipe): it should exit by
    /// itself.
    Waiting {
        until: Instant,
    },
    /// TERM was sent.
    Terminating {
        until: Instant,
    },
    /// KILL was sent.
    Killed,
}

#[derive(Debug)]
pub(super) struct Shutdown {
    stage: Stage,
    close_timeout: Duration,
    /// We want it to end.
    asked: bool,
    /// Its end is our doing, though nobody asked for it: it closed a pipe and lived on.
    forced: bool,
    input_ended: bool,
    exit: Option<Exit>,
    /// Until when the rest of its output is read after its exit.
    drain_until: Option<Instant>,
}

impl Shutdown {
    pub(super) fn new(close_timeout: Duration) -> Self {
        Self {
            stage: Stage::Running,
            close_timeout,
            asked: false,
            forced: false,
            input_ended: false,
            exit: None,
            drain_until: None,
        }
    }

    pub(super) fn exited(&mut self, exit: Exit, now: Instant) {
        self.exit = Some(exit);
        self.drain_until = Some(now + DRAIN);
    }

    pub(super) fn input_ended(&mut self, now: Instant) {
        self.input_ended = true;
        self.output_ended(now);
    }

    pub(super) fn output_ended(&mut self, now: Instant) {
        if self.exit.is_none() && matches!(self.stage, Stage::Running | Stage::Cancelling { .. }) {
            self.stage = Stage::Waiting { until: now + LINGER };
        }
    }

    pub(super) fn has_exited(&self) -> bool {
        self.exit.is_some()
    }

    /// Whether what the agent still says is read whatever the queues hold: a pipe's worth at the most, or nobody
    /// wants it.
    pub(super) fn drains(&self) -> bool {
        self.asked || self.exit.is_some()
    }

    /// Whether the agent's input is closed by us, or about to be.
    pub(super) fn input_closed(&self) -> bool {
        !matches!(self.stage, Stage::Running | Stage::Cancelling { .. })
    }

    /// The agent has read something.
    pub(super) fn heard(&mut self, now: Instant) {
        if let Stage::Cancelling { deaf } = &mut self.stage {
            *deaf = now + DEAF;
        }
    }

    /// `unwritten`: something waits to be read by the agent.
    pub(super) fn deadline(&self, unwritten: bool) -> Option<Instant> {
        match self.stage {
            _ if self.exit.is_some() => self.drain_until.filter(|_| !self.input_ended),
            Stage::Waiting { until } | Stage::Terminating { until } => Some(until),
            Stage::Cancelling { deaf } if unwritten => Some(deaf),
            _ => None,
        }
    }

    /// The agent has gone, and whoever still holds its output has held it for long enough.
    pub(super) fn is_drained(&self, now: impl FnOnce() -> Instant) -> bool {
        self.drain_until.is_some_and(|until| now() >= until)
    }

    /// The agent is reaped, and nothing of its output is left to read.
    pub(super) fn is_over(&self) -> bool {
        self.exit.is_some() && self.input_ended
    }
}

impl Driver {
    /// The program closes the session within a time of its own, if one is given. A second call can only shorten the time.
    pub(super) fn begin_close_within(&mut self, timeout: Option<Duration>) {
        let Some(timeout) = timeout else { return self.begin_close() };
        if timeout.is_zero() {
            return self.kill();
        }
        let limit = if self.shutdown.asked { timeout.min(self.shutdown.close_timeout) } else { timeout };
        self.shutdown.close_timeout = limit;
        if !self.shutdown.asked {
            return self.begin_close();
        }
        let now = now();
        self.connection.hurry(limit, now);
        if let Stage::Waiting { until } = &mut self.shutdown.stage {
            *until = (*until).min(now + limit);
        }
    }

    /// The program closes the session, or nobody holds it any more.
    pub(super) fn begin_close(&mut self) {
        if self.shutdown.asked {
            return;
        }
        self.shutdown.asked = true;
        if matches!(self.shutdown.stage, Stage::Running) {
            self.shutdown.stage = Stage::Cancelling { deaf: now() + DEAF };
        }
        let now = now();
        let turns: Vec<TurnKey> = self.turns.keys().copied().collect();
        for turn in turns {
            self.turns[&turn].events.discard_overflow();
            self.connection.cancel(turn, now);
        }
        self.connection.hurry(self.shutdown.close_timeout, now);
    }

    /// The program gives the agent no time to end by itself.
    pub(super) fn kill(&mut self) {
        self.shutdown.asked = true;
        self.shutdown.stage = Stage::Killed;
        self.transport.process.kill();
    }

    /// The connection can't go on: everything fails with this, and the agent is ended.
    pub(super) fn give_up(&mut self, error: &Error) {
        tracing::warn!(%error, "the session is given up");
        self.shared.close(error.clone());
        self.connection.close(error);
        self.shutdown.asked = true;
        if !matches!(self.shutdown.stage, Stage::Terminating { .. } | Stage::Killed) {
            self.terminate();
        }
    }

    fn terminate(&mut self) {
        self.shutdown.stage = Stage::Terminating { until: now() + TERM_GRACE };
        self.stop_writing();
        self.transport.process.terminate();
    }

    /// Goes on to the next stage where the present one is through.
    pub(super) fn shutdown_step(&mut self) {
        if self.shutdown.exit.is_some() || matches!(self.shutdown.stage, Stage::Running) {
            return;
        }
        let now = now();
        match self.shutdown.stage {
            Stage::Cancelling { .. } if self.turns.is_empty() => {
                self.connection.close(&Error::SessionClosed);
                self.outputs();
                self.shutdown.stage = Stage::Waiting { until: now + self.shutdown.close_timeout };
                self.shutdown_step();
            }
            Stage::Cancelling { deaf } if now >= deaf && !self.unwritten.is_empty() => {
                self.give_up(&Error::Timeout(
                    "the agent reads nothing, so its turn can't be cancelled, and it is ended".to_owned(),
                ));
            }
            Stage::Waiting { until } if now >= until => {
                tracing::debug!("the agent does not end by itself; it gets TERM");
                self.shutdown.forced = !self.shutdown.asked;
                self.terminate();
            }
            // An agent that reads nothing must not delay the end: whatever is not written by then never is.
            Stage::Waiting { .. } if self.unwritten.is_empty() => self.stop_writing(),
            Stage::Terminating { until } if now >= until => {
                tracing::debug!("the agent does not end on TERM; it gets KILL");
                self.transport.process.kill();
                self.shutdown.stage = Stage::Killed;
            }
            _ => {}
        }
    }

    /// The agent is gone: whatever still waits hears why.
    pub(super) async fn finish(mut self: Box<Self>) {
        // Its group may have members that outlived it.
        self.transport.process.kill();
        self.transport.process.release();
        let still_running = self.shutdown.exit.as_mut().and_then(|exit| exit.still_running.take());
        if let Some(error) = &still_running {
            self.shared.still_running((**error).clone());
        }
        let error = if self.shutdown.asked {
            Error::SessionClosed
        } else if let Some(error) = still_running {
            *error
        } else {
            let stderr_ended = self.transport.process.stderr_done();
            drop(tokio::time::timeout(STDERR_GRACE, stderr_ended).await);
            // How we ended it is no news; that it closed a pipe is.
            let exit = self.shutdown.exit.take().filter(|_| !self.shutdown.forced).unwrap_or_default();
            let stderr = self.transport.process.stderr_tail();
            self.connection.end_of_agent(AgentExit { exit_code: exit.code, signal: exit.signal, stderr, hint: None })
        };
        self.shared.close(error.clone());
        self.connection.close(&error);
        self.outputs();
        self.refuse_commands(&error);
        if let Some(outside) = &self.outside {
            outside.finish(Err(error));
        }
        if let Some((server, calls)) = self.tools_server.take() {
            // Nobody takes calls any more: those on their way here hear of it.
            drop(calls);
            server.close().await;
        }
        self.shared.ended();
    }

    /// From now on commands do not even arrive.
    pub(super) fn refuse_commands(&mut self, error: &Error) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            command.fail(error);
        }
    }
}
