//! The agent's input: what waits to be written, and for how long the agent has read none of it.

use std::future::poll_fn;
use std::io::Result;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::now;

/// How much may wait for an agent that does not read, before it is not read either; or twice the largest message.
const MAX_UNWRITTEN: usize = 16 << 20;
/// How long the agent may then go on reading nothing.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The pipe to the agent.
pub(super) struct PipeWriter {
    pipe: Box<dyn AsyncWrite + Send + Unpin>,
    unwritten: BytesMut,
    /// The largest message in it.
    largest: usize,
    /// Since when too much waits, and the agent reads nothing of it.
    stalled_since: Option<Instant>,
    /// Takes no more bytes.
    is_finished: bool,
    is_closed: bool,
}

impl PipeWriter {
    pub(super) fn new(pipe: Box<dyn AsyncWrite + Send + Unpin>) -> Self {
        Self { pipe, unwritten: BytesMut::new(), largest: 0, stalled_since: None, is_finished: false, is_closed: false }
    }

    /// Queues bytes, unless the pipe is closed.
    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() || self.is_finished {
            return;
        }
        self.largest = self.largest.max(bytes.len());
        if self.unwritten.is_empty() {
            self.unwritten = Bytes::from(bytes).into();
        } else {
            self.unwritten.extend_from_slice(&bytes);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unwritten.is_empty()
    }

    /// Writes what the pipe takes without waiting. Nothing is lost if it takes nothing.
    pub(super) async fn write_at_once(&mut self) -> Option<Result<usize>> {
        if self.unwritten.is_empty() {
            return None;
        }
        poll_fn(|cx| match Pin::new(&mut *self.pipe).poll_write(cx, &self.unwritten) {
            Poll::Ready(written) => Poll::Ready(Some(written)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Writes some of what waits. Safe to cancel.
    pub(super) async fn write(&mut self) -> Result<usize> {
        self.pipe.write(&self.unwritten).await
    }

    /// So many bytes were written.
    pub(super) fn written(&mut self, count: usize) {
        self.unwritten.advance(count);
        self.stalled_since = None;
        if self.unwritten.is_empty() {
            self.largest = 0;
            // One large message must not pin memory.
            self.unwritten = BytesMut::new();
        }
    }

    /// Closes the pipe: the agent sees the end of its input. What is not written by now never is.
    pub(super) fn close(&mut self) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        self.is_finished = true;
        self.unwritten = BytesMut::new();
        self.largest = 0;
        self.stalled_since = None;
        self.pipe = Box::new(tokio::io::sink());
    }

    /// Takes no more bytes; those that wait are still written.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Whether more waits for the agent than may wait: then it is not read either, as it might go on asking for ever.
    pub(super) fn is_stalled(&mut self) -> bool {
        let stalled = self.unwritten.len() > MAX_UNWRITTEN.max(2 * self.largest);
        self.stalled_since = if stalled { self.stalled_since.or_else(|| Some(now())) } else { None };
        stalled
    }

    /// When an agent that reads nothing is given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.stalled_since.map(|since| since + STALL_TIMEOUT)
    }

    /// How much waits, if the agent has read none of it for too long.
    pub(super) fn timed_out(&self) -> Option<usize> {
        self.deadline().filter(|deadline| now() >= *deadline).map(|_| self.unwritten.len())
    }
}
