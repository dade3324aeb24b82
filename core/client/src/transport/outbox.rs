//! The pipe to the driver. It accepts lines without waiting, says when it is full, and its end can have a reason.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

use crate::error::Error;

/// The capacity that is kept when everything was read.
const SPARE: usize = 64 << 10;

#[derive(Default)]
struct State {
    lines: BytesMut,
    has_ended: bool,
    reason: Option<Error>,
    waker: Option<Waker>,
}

/// The end for writing.
pub(super) struct Outbox {
    state: Arc<Mutex<State>>,
    limit: usize,
    was_read: Arc<Notify>,
}

/// The end for the driver.
pub(super) struct Reader {
    state: Arc<Mutex<State>>,
    was_read: Arc<Notify>,
}

/// Makes a pipe that is full with more than this number of bytes.
pub(super) fn channel(limit: usize) -> (Outbox, Reader) {
    let (state, was_read): (Arc<Mutex<State>>, Arc<Notify>) = Default::default();
    (Outbox { state: Arc::clone(&state), limit, was_read: Arc::clone(&was_read) }, Reader { state, was_read })
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    /// Writes a line with its end.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = lock(&self.state);
        state.lines.extend_from_slice(line);
        wake(state);
    }

    /// Returns whether more bytes wait than the limit.
    pub(super) fn is_full(&self) -> bool {
        lock(&self.state).lines.len() > self.limit
    }

    /// Waits until it is not full.
    pub(super) async fn has_space(&self) {
        while self.is_full() {
            self.was_read.notified().await;
        }
    }

    /// Returns the error for a pipe that was full for too long.
    #[cfg(feature = "kimi-web")]
    pub(super) fn error(&self) -> Error {
        let waiting = lock(&self.state).lines.len();
        let text = format!(
            "{waiting} bytes from the agent's server wait to be read, and the program does not read them; the session is closed. \
             Open a new one with the same `session_id`, and read its events as they come"
        );
        Error::EventBufferFull(text.into())
    }

    /// Ends the pipe. The driver gets the pending lines, and then the reason.
    pub(super) fn end(&self, reason: Option<Error>) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        state.reason = reason;
        wake(state);
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.state);
        if state.lines.is_empty() {
            return match state.reason.take() {
                Some(reason) => Poll::Ready(Err(io::Error::other(reason))),
                None if state.has_ended => Poll::Ready(Ok(())),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        }
        let count = state.lines.len().min(buffer.remaining());
        buffer.put_slice(&state.lines[..count]);
        state.lines.advance(count);
        if state.lines.is_empty() && state.lines.capacity() > SPARE {
            state.lines = BytesMut::new();
        }
        self.was_read.notify_one();
        Poll::Ready(Ok(()))
    }
}
