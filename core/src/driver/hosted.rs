//! Functions of a host's that run. They send a message and wait for one, so the driver polls them itself: none blocks it,
//! and their answers need no task of their own, nor its switches.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::answers::HandlerError;
use crate::connection::RequestKey;
use crate::dialect::Answer;

/// Those that run, with what they answer. There are few, so all are polled; at most as many as requests may be open.
#[derive(Default)]
pub(super) struct Hosted(Vec<(RequestKey, Running)>);

type Running = Pin<Box<dyn Future<Output = Result<Answer, HandlerError>> + Send>>;

impl Hosted {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn start(
        &mut self,
        key: RequestKey,
        function: impl Future<Output = Result<Answer, HandlerError>> + Send + 'static,
    ) {
        self.0.push((key, Box::pin(function)));
    }

    /// Lets go of one, if it runs.
    pub(super) fn stop(&mut self, key: RequestKey) {
        if let Some(at) = self.0.iter().position(|(of, _)| *of == key) {
            drop(self.0.remove(at));
        }
    }

    /// The first that has come to its end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(RequestKey, Result<Answer, HandlerError>)> {
        for at in 0..self.0.len() {
            let (key, running) = &mut self.0[at];
            let key = *key;
            let outcome = match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
                Ok(Poll::Pending) => continue,
                Ok(Poll::Ready(outcome)) => outcome,
                Err(panic) => Err(super::handlers::panicked(&*panic).into()),
            };
            drop(self.0.remove(at));
            if self.0.is_empty() {
                // An idle session keeps no memory for them.
                self.0 = Vec::new();
            }
            return Poll::Ready((key, outcome));
        }
        Poll::Pending
    }
}
