//! The agent's output: what was read of it and not yet taken.

use std::future::{Future, poll_fn};
use std::io::Result;
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use tokio::io::AsyncRead;

use crate::error::Error;
use crate::transport::read_some;
use crate::wire::framing::{LineBuffer, has_memory_for, no_memory};

/// How much is read at a time.
pub(super) const CHUNK: usize = 32 * 1024;
/// From this size on, memory is checked before a line is taken.
const LARGE: usize = 1 << 20;
/// How much is read after a deadline has passed, before it counts: the most that Linux lets a pipe hold.
const MAX_READ_LATE: usize = 1 << 20;

/// The pipe from the agent.
pub(super) struct PipeReader {
    pipe: Box<dyn AsyncRead + Send + Unpin>,
    lines: LineBuffer,
    max_line_bytes: usize,
    has_ended: bool,
    /// As much was read as is read at a time: more is there.
    was_full: bool,
    /// A deadline that has passed and does not count yet, and how much was read since.
    late: (Option<Instant>, usize),
}

impl PipeReader {
    pub(super) fn new(pipe: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        let lines = LineBuffer::new(0);
        Self { pipe, lines, max_line_bytes: 0, has_ended: false, was_full: false, late: (None, 0) }
    }

    /// Lines may be at least as long as this.
    pub(super) fn allow_line_bytes(&mut self, max: usize) {
        self.max_line_bytes = self.max_line_bytes.max(max);
        self.lines.set_limit(self.max_line_bytes);
    }

    /// Reads some bytes. Safe to cancel.
    pub(super) async fn read(&mut self) -> Result<usize> {
        let lines = &mut self.lines;
        let read = read_some::<CHUNK>(&mut self.pipe, |bytes| lines.extend(bytes)).await?;
        self.was_full = read == CHUNK;
        Ok(read)
    }

    /// Reads what the agent has written by the time a deadline has passed: the host may have been suspended since. None if
    /// nothing is left to read, or as much was read since as a pipe can hold.
    pub(super) async fn read_before_deadline(&mut self, passed: Option<Instant>) -> Option<Result<usize>> {
        if self.late.0 != passed {
            self.late = (passed, 0);
        }
        if self.has_ended || self.late.1 >= MAX_READ_LATE {
            return None;
        }
        let read = {
            let mut read = pin!(self.read());
            poll_fn(|cx| match read.as_mut().poll(cx) {
                Poll::Ready(read) => Poll::Ready(Some(read)),
                Poll::Pending => Poll::Ready(None),
            })
            .await
        };
        if let Some(Ok(n)) = &read {
            self.late.1 += n;
        }
        read
    }

    /// Nothing more is read.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        self.lines.end();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether more was there than is read at a time; says so once.
    pub(super) fn take_was_full(&mut self) -> bool {
        std::mem::take(&mut self.was_full)
    }

    /// The next line that was read.
    ///
    /// # Errors
    /// A line that is too long, or that there is no memory for.
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

    /// Gives back the memory of lines that were taken.
    pub(super) fn release(&mut self) {
        self.lines.release();
    }

    /// Forgets what was read.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }
}

/// How many bytes reading a large line may take, at the most: a copy of what is in it. Where it has escapes, also the
/// buffer that they are resolved in, which may be twice as large as the text, as it grows by doubling.
fn memory_to_read(line: &[u8]) -> usize {
    line.len().saturating_mul(if line.contains(&b'\\') { 3 } else { 2 })
}
