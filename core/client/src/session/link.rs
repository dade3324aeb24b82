//! The connection from a turn to its session.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use crate::connection::TurnKey;
use crate::driver::event_channel::EventChannel;
use crate::driver::shared::Shared;
use crate::error::local_error;
use crate::error::{Result, RpcErrorKind};

/// The connection from a turn to its session. A one-shot turn has no session when it begins.
#[derive(Debug, Default)]
pub(crate) struct Link {
    target: OnceLock<(Arc<Shared>, TurnKey)>,
    cancelled: AtomicBool,
    changed: Notify,
}

impl Link {
    pub(crate) fn to(shared: Arc<Shared>, key: TurnKey) -> Self {
        let link = Self::default();
        link.connect(shared, key);
        link
    }

    /// Sets the session of the turn.
    pub(crate) fn connect(&self, shared: Arc<Shared>, key: TurnKey) {
        drop(self.target.set((shared, key)));
        // Together with the check in `cancel`: one of the two sees the value of the other.
        fence(Ordering::SeqCst);
        self.changed.notify_waiters();
        if self.is_cancelled() {
            self.cancel();
        }
    }

    pub(crate) fn target(&self) -> Option<&(Arc<Shared>, TurnKey)> {
        self.target.get()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        match self.target() {
            Some((shared, key)) => shared.cancel(*key),
            None => self.changed.notify_waiters(),
        }
    }

    /// Waits until the turn is cancelled before it has a session.
    pub(crate) async fn until_cancelled(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            changed.await;
        }
    }

    /// Waits for the session, or for the end of a turn that never gets one.
    pub(crate) async fn connected(&self, channel: &EventChannel) -> Result<&(Arc<Shared>, TurnKey)> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(target) = self.target() {
                return Ok(target);
            }
            tokio::select! {
                () = changed => {}
                outcome = channel.settled() => {
                    return match (self.target(), outcome) {
                        (Some(target), _) => Ok(target),
                        (None, Err(error)) => Err(error),
                        (None, Ok(_)) => Err(local_error(RpcErrorKind::NoActiveTurn, "the turn has ended; call `prompt()` instead")),
                    };
                }
            }
        }
    }
}
