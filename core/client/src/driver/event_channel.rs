//! The channel between a driver and the program for one turn, one replay, or the events outside turns: a queue of events, and
//! an outcome.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use super::event_queue::EventQueue;
use crate::connection::{PromptResult, TurnStatus};
use crate::error::local_error;
use crate::error::{Error, Result, RpcErrorKind};
use crate::messages::TokenUsage;

/// A queue of events with its outcome.
#[derive(Debug)]
pub struct EventChannel {
    pub(crate) events: EventQueue,
    outcome: watch::Sender<Option<Result<PromptResult>>>,
    /// The tokens so far. Absent once the outcome is set.
    usage: Mutex<TokenUsage>,
    /// Whether the program has used the turn: read it, waited for it, or left it on purpose. The loss of any other turn is
    /// logged.
    is_used: AtomicBool,
}

impl EventChannel {
    /// Makes a channel for `limit` bytes of events. `driver` is notified of free capacity.
    pub(crate) fn new(limit: usize, driver: Arc<Notify>) -> Self {
        Self {
            events: EventQueue::new(limit, driver),
            outcome: watch::Sender::default(),
            usage: Mutex::default(),
            is_used: AtomicBool::new(false),
        }
    }

    /// Notes that the program uses the turn. Returns whether it had used the turn before.
    pub(crate) fn note_used(&self) -> bool {
        self.is_used.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the program has used the turn.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    pub(crate) fn set_usage(&self, usage: &TokenUsage) {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).clone_from(usage);
    }

    /// Returns the tokens so far.
    pub fn usage(&self) -> TokenUsage {
        match &*self.outcome.borrow() {
            Some(Ok(result)) => result.usage.clone(),
            _ => self.usage.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Ends the turn. Only the first call has an effect.
    pub(crate) fn finish(&self, outcome: Result<PromptResult>) {
        let is_first = self.outcome.send_if_modified(|current| {
            let is_first = current.is_none();
            current.get_or_insert(outcome);
            is_first
        });
        // The outcome is set first, because a reader asks for it when the queue is closed.
        if is_first {
            self.events.close();
        }
    }

    /// Returns the outcome, if there is one.
    pub fn outcome(&self) -> Option<Result<PromptResult>> {
        self.outcome.borrow().clone()
    }

    /// Returns the error that ended the turn, if one did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.outcome.borrow().as_ref()?.as_ref().err().cloned()
    }

    /// Returns whether there is an outcome.
    pub fn is_settled(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    /// Waits for the outcome, independently of the events.
    ///
    /// # Errors
    /// Returns the error that ended the turn.
    pub async fn settled(&self) -> Result<PromptResult> {
        let mut outcome = self.outcome.subscribe();
        let settled = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        settled.unwrap_or_else(|| Err(Error::Internal("a turn was dropped without an end".to_owned())))
    }

    /// Waits for the outcome. Unread events stay in the queue for a later reader. If the queue is full and nothing
    /// reads it, further events are discarded, so that the agent reaches the end of the turn.
    ///
    /// # Errors
    /// Returns the error that ended the turn, or `EventBufferFull` if the end lies behind more events than the queue
    /// can hold, and the reader takes none of them.
    pub async fn result(&self) -> Result<PromptResult> {
        let failure = self.events.await_end();
        tokio::select! {
            biased;
            outcome = self.settled() => outcome,
            Ok(error) = failure => Err(error),
        }
    }

    /// Discards all current and later events, because the turn was left.
    pub fn discard_all(&self) {
        self.events.discard_all();
    }

    /// Returns how many events were discarded.
    pub fn discarded(&self) -> u64 {
        self.events.discarded()
    }

    /// Fails in a handler for which this turn waits (`served`), because the two would wait for each other.
    ///
    /// # Errors
    /// `TurnInProgress` if the turn waits for the calling handler.
    pub fn check_not_awaited_by(&self, served: Option<&Arc<Self>>) -> Result<()> {
        if served.is_none_or(|served| !std::ptr::eq(&raw const **served, self)) || self.is_settled() {
            return Ok(());
        }
        Err(local_error(
            RpcErrorKind::TurnInProgress,
            "the turn waits for this handler, which would wait for the turn; return an answer first, or wait for the turn \
             outside of this handler",
        ))
    }
}

/// Returns the outcome of a replay, which has no values.
pub(crate) fn replayed() -> PromptResult {
    PromptResult::empty(TurnStatus::Finished)
}
