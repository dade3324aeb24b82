//! The pipe to the driver. It accepts lines without waiting, up to a limit, and its end can have a reason.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

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
}

/// The end for the driver.
pub(super) struct Reader(Arc<Mutex<State>>);

/// Makes a pipe with this capacity in bytes, and one line more.
pub(super) fn channel(limit: usize) -> (Outbox, Reader) {
    let state = Arc::default();
    (Outbox { state: Arc::clone(&state), limit }, Reader(state))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    /// Writes a line with its end.
    ///
    /// # Errors
    /// Returns [`Error::EventBufferFull`] if the limit is exceeded.
    pub(super) fn push(&self, line: &[u8]) -> Result<(), Error> {
        let mut state = lock(&self.state);
        if state.lines.len() > self.limit {
            let text = format!(
                "{} bytes from the agent's server wait to be read, and the server does not wait for a slow reader; the session is \
                 closed. Open a new one with the same `session_id`, and read its events as they come",
                state.lines.len()
            );
            return Err(Error::EventBufferFull(text.into()));
        }
        state.lines.extend_from_slice(line);
        wake(state);
        Ok(())
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
        let mut state = lock(&self.0);
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
        Poll::Ready(Ok(()))
    }
}
