//! The agent's input: the pending bytes, and how long the agent has read none of them.

use std::future::poll_fn;
use std::io::Result;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use kimi_agent_protocol::place::PathMap;
use tokio::io::AsyncWrite;

use super::now;

/// The limit of pending bytes, above which the agent's output is not read. Twice the largest message if that is more.
const MAX_UNWRITTEN: usize = 16 << 20;
/// How long the agent may then read nothing before the session fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The pipe to the agent.
pub(super) struct PipeWriter {
    pipe: Box<dyn AsyncWrite + Send + Unpin>,
    unwritten: BytesMut,
    /// The size of the largest pending message.
    largest: usize,
    /// Since when the limit is exceeded and the agent reads nothing.
    stalled_since: Option<Instant>,
    /// Translates the paths of messages.
    paths: Option<PathMap>,
    /// Whether no more bytes are accepted.
    is_finished: bool,
    is_closed: bool,
}

impl PipeWriter {
    pub(super) fn new(pipe: Box<dyn AsyncWrite + Send + Unpin>, paths: Option<PathMap>) -> Self {
        Self {
            pipe,
            unwritten: BytesMut::new(),
            largest: 0,
            stalled_since: None,
            paths,
            is_finished: false,
            is_closed: false,
        }
    }

    /// Queues whole lines, unless the pipe is closed.
    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() || self.is_finished {
            return;
        }
        let bytes = match &self.paths {
            Some(paths) => paths.lines_to_agent(bytes),
            None => bytes,
        };
        self.largest = self.largest.max(bytes.len());
        if self.unwritten.is_empty() {
            self.unwritten = Bytes::from(bytes).into();
        } else {
            self.unwritten.extend_from_slice(&bytes);
        }
    }

    /// Returns whether so much waits that no further file is read for the agent.
    pub(super) fn is_behind(&self) -> bool {
        self.unwritten.len() > MAX_UNWRITTEN
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unwritten.is_empty()
    }

    /// Writes what the pipe accepts without waiting.
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

    /// Writes some of the pending bytes. Cancel-safe.
    pub(super) fn write(&mut self) -> impl Future<Output = Result<usize>> {
        poll_fn(|cx| Pin::new(&mut *self.pipe).poll_write(cx, &self.unwritten))
    }

    /// Removes written bytes.
    pub(super) fn written(&mut self, count: usize) {
        self.unwritten.advance(count);
        self.stalled_since = None;
        if self.unwritten.is_empty() {
            self.largest = 0;
            // One large message must not pin memory.
            self.unwritten = BytesMut::new();
        }
    }

    /// Closes the pipe, which ends the agent's input. Pending bytes are lost.
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

    /// Accepts no more bytes. Pending bytes are still written.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Returns whether the limit is exceeded. Then the agent's output is not read, because it might send requests
    /// without end.
    pub(super) fn is_stalled(&mut self) -> bool {
        let stalled = self.unwritten.len() > MAX_UNWRITTEN.max(2 * self.largest);
        self.stalled_since = if stalled { self.stalled_since.or_else(|| Some(now())) } else { None };
        stalled
    }

    /// Returns the deadline of an agent that reads nothing.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.stalled_since.map(|since| since + STALL_TIMEOUT)
    }

    /// Returns the number of pending bytes if the deadline was exceeded.
    pub(super) fn timed_out(&self) -> Option<usize> {
        self.deadline().filter(|deadline| now() >= *deadline).map(|_| self.unwritten.len())
    }
}
