//! The agent's output: bytes that were read and lines that were not taken yet.

use std::future::{Future, poll_fn};
use std::io::Result;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::AsyncRead;

use crate::error::Error;
use crate::jsonrpc::framing::{LineBuffer, has_memory_for, no_memory};
use crate::transport::poll_read_some;

/// The number of bytes that are read at a time.
pub(super) const CHUNK: usize = 32 * 1024;
/// From this line length on, memory is checked before the line is taken.
const LARGE: usize = 1 << 20;
/// The number of bytes that are read after a deadline was exceeded, before it takes effect: the largest capacity of a
/// pipe on Linux.
const MAX_READ_LATE: usize = 1 << 20;

/// The pipe from the agent.
pub(super) struct PipeReader {
    pipe: Box<dyn AsyncRead + Send + Unpin>,
    lines: LineBuffer,
    max_line_bytes: usize,
    has_ended: bool,
    /// Whether the last read filled its buffer, so that more is available.
    was_full: bool,
    /// A deadline that was exceeded and has not taken effect, and how much was read since.
    late: (Option<Instant>, usize),
}

impl PipeReader {
    pub(super) fn new(pipe: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        let lines = LineBuffer::new(0);
        Self { pipe, lines, max_line_bytes: 0, has_ended: false, was_full: false, late: (None, 0) }
    }

    /// Raises the limit of lines to at least this many bytes.
    pub(super) fn allow_line_bytes(&mut self, max: usize) {
        self.max_line_bytes = self.max_line_bytes.max(max);
        self.lines.set_limit(self.max_line_bytes);
    }

    /// Reads some bytes. Cancel-safe.
    pub(super) fn read(&mut self) -> impl Future<Output = Result<usize>> {
        poll_fn(|cx| self.poll_read(cx))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        let lines = &mut self.lines;
        let read = ready!(poll_read_some::<CHUNK>(&mut self.pipe, |bytes| lines.extend(bytes), cx))?;
        self.was_full = read == CHUNK;
        Poll::Ready(Ok(read))
    }

    /// Reads the output that the agent wrote before a deadline, because the host may have been suspended since. `None`
    /// if nothing is left, or if as much was read as a pipe can hold.
    pub(super) async fn read_before_deadline(&mut self, passed: Instant) -> Option<Result<usize>> {
        if self.late.0 != Some(passed) {
            self.late = (Some(passed), 0);
        }
        if self.has_ended || self.late.1 >= MAX_READ_LATE {
            return None;
        }
        let read = poll_fn(|cx| match self.poll_read(cx) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        if let Some(Ok(n)) = &read {
            self.late.1 += n;
        }
        read
    }

    /// Marks the end of the output.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.lines.end();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes whether the last read filled its buffer.
    pub(super) fn take_was_full(&mut self) -> bool {
        std::mem::take(&mut self.was_full)
    }

    /// Returns the next line.
    ///
    /// # Errors
    /// Fails for a line that is too long, or that the memory cannot hold.
    pub(super) fn next_line(&mut self) -> std::result::Result<Option<&[u8]>, Error> {
        let line = self.lines.next_line()?;
        if let Some(line) = line
            && line.len() >= LARGE
            && !has_memory_for(memory_to_read(line))
        {
            return Err(no_memory(line.len()));
        }
        Ok(line)
    }

    /// Takes the line that [`peek_line`](Self::peek_line) has returned.
    pub(super) fn skip_line(&mut self) {
        self.lines.skip_line();
    }

    /// Returns the next line, which stays.
    pub(super) fn peek_line(&mut self) -> Option<&[u8]> {
        self.lines.peek_line()
    }

    /// Frees the memory of lines that were taken.
    pub(super) fn release(&mut self) {
        self.lines.release();
    }

    /// Removes all bytes.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }
}

/// Returns the maximum memory for decoding a large line: a copy of its content. With escapes it also needs their
/// buffer, which grows by doubling and may be twice as large as the text.
fn memory_to_read(line: &[u8]) -> usize {
    line.len().saturating_mul(if line.contains(&b'\\') { 3 } else { 2 })
}
