//! What a driver and the program share of one turn, of one replay, or of the events outside turns: a queue of events, and
//! an outcome.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use super::event_queue::EventQueue;
use crate::connection::{PromptResult, TurnStatus};
use crate::error::local_error;
use crate::error::{Error, Result, RpcErrorKind};
use crate::wire::TokenUsage;

/// A queue of events with its outcome.
#[derive(Debug)]
pub struct EventChannel {
    pub(crate) events: EventQueue,
    outcome: watch::Sender<Option<Result<PromptResult>>>,
    /// The tokens so far, while there is no outcome.
    usage: Mutex<TokenUsage>,
}

impl EventChannel {
    /// A channel for `limit` bytes of events. `driver` is notified when the driver may go on.
    pub(crate) fn new(limit: usize, driver: Arc<Notify>) -> Self {
        Self { events: EventQueue::new(limit, driver), outcome: watch::Sender::default(), usage: Mutex::default() }
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

    /// Ends the turn. Only the first call counts.
    pub(crate) fn finish(&self, outcome: Result<PromptResult>) {
        let is_first = self.outcome.send_if_modified(|current| {
            let is_first = current.is_none();
            current.get_or_insert(outcome);
            is_first
        });
        // After the outcome is there: a reader that finds the queue closed asks for it.
        if is_first {
            self.events.close();
        }
    }

    /// Returns the outcome, if there is one.
    pub fn outcome(&self) -> Option<Result<PromptResult>> {
        self.outcome.borrow().clone()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    /// Waits for the outcome, whatever becomes of the events.
    pub async fn settled(&self) -> Result<PromptResult> {
        let mut outcome = self.outcome.subscribe();
        let settled = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        settled.unwrap_or_else(|| Err(Error::Internal("a turn was dropped without an end".to_owned())))
    }

    /// Waits for the outcome. Unread events stay in the queue for a reader that comes later. If the queue is full and
    /// nobody reads, further events are discarded, so that the agent reaches the end of the turn.
    ///
    /// # Errors
    /// Besides what ended the turn: `EventBufferFull` if the end lies behind more events than the queue may hold, and
    /// the reader takes none of them.
    pub async fn result(&self) -> Result<PromptResult> {
        let failure = self.events.await_end();
        tokio::select! {
            biased;
            outcome = self.settled() => outcome,
            Ok(error) = failure => Err(error),
        }
    }

    /// Discards all events that wait or come: the turn was left.
    pub fn discard_all(&self) {
        self.events.discard_all();
    }

    /// Returns how many events were discarded.
    pub fn discarded(&self) -> u64 {
        self.events.discarded()
    }

    /// Refuses to wait for the outcome in a handler of this turn, as `served` says: the two would wait for each other.
    pub fn check_not_awaited_by(&self, served: Option<&Arc<Self>>) -> Result<()> {
        if served.is_none_or(|served| !std::ptr::eq(&raw const **served, self)) || self.is_settled() {
            return Ok(());
        }
        Err(local_error(
            RpcErrorKind::TurnInProgress,
            "the turn waits for this handler, which would wait for the turn; return an answer first, or wait for the turn \
             in a task of its own",
        ))
    }
}

/// The outcome of a replay, which has none of its own.
pub(crate) fn replayed() -> PromptResult {
    PromptResult::empty(TurnStatus::Finished)
}
