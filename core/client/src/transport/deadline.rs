//! How long a killed process may take to end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// A killed process ends within moments, unless the system delays it, or this user is not allowed to kill it.
pub(super) const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// The state of a process after KILL.
pub(super) struct Killed {
    until: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    /// The reason why the system refused to kill it.
    pub(super) refused: Option<io::Error>,
}

impl Killed {
    /// Starts the deadline.
    pub(super) fn new() -> Self {
        let until = tokio::time::Instant::now().into_std() + KILL_DEADLINE;
        Self { until, timer: None, refused: None }
    }

    /// Is ready at the deadline.
    pub(super) fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.until;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until.into())));
        timer.as_mut().poll(cx)
    }
}
