//! The agent's output: bytes that were read and lines that were not taken yet.

use std::future::{Future, poll_fn};
use std::io::Result;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::AsyncRead;

use super::now;
use crate::error::Error;
use crate::jsonrpc::framing::{
    LineBuffer, MAX_VALUES, has_memory_for, has_too_many_values, no_memory, too_many_values,
};
use crate::transport::poll_read_some;

/// The number of bytes that are read at a time.
pub(super) const CHUNK: usize = 32 * 1024;
/// From this line length on, memory is checked before the line is taken.
const LARGE: usize = 1 << 20;
/// The number of bytes that are read after a deadline was exceeded, before it takes effect: the largest capacity of a
/// pipe on Linux.
const MAX_READ_LATE: usize = 1 << 20;
/// The time for that. Lines of a few bytes take longer than the pipe is worth.
const MAX_TIME_LATE: Duration = Duration::from_millis(500);

/// A deadline that was exceeded and has not taken effect.
struct Late {
    deadline: Instant,
    /// The number of bytes that were read since.
    read: usize,
    /// When this reading began.
    begun: Instant,
}

/// The pipe from the agent.
pub(super) struct PipeReader {
    pipe: Box<dyn AsyncRead + Send + Unpin>,
    lines: LineBuffer,
    max_line_bytes: usize,
    has_ended: bool,
    /// Whether the last read filled its buffer, so that more is available.
    was_full: bool,
    late: Option<Box<Late>>,
}

impl PipeReader {
    pub(super) fn new(pipe: Box<dyn AsyncRead + Send + Unpin>) -> Self {
        let lines = LineBuffer::new(0);
        Self { pipe, lines, max_line_bytes: 0, has_ended: false, was_full: false, late: None }
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
        let late = match &mut self.late {
            Some(late) if late.deadline == passed => late,
            late => late.insert(Box::new(Late { deadline: passed, read: 0, begun: now() })),
        };
        let is_over = late.read >= MAX_READ_LATE || now().duration_since(late.begun) >= MAX_TIME_LATE;
        if self.has_ended || is_over {
            return None;
        }
        let mut read = self.read_at_once().await;
        if read.is_none() {
            // A system call that the suspension interrupts reports no pipes, so the runtime looks at them once more.
            tokio::task::yield_now().await;
            read = self.read_at_once().await;
        }
        if let (Some(Ok(n)), Some(late)) = (&read, &mut self.late) {
            late.read += n;
        }
        read
    }

    /// Reads some bytes, if the runtime knows that the pipe has some.
    async fn read_at_once(&mut self) -> Option<Result<usize>> {
        poll_fn(|cx| match self.poll_read(cx) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
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
            && has_too_many_values(line)
        {
            return Err(too_many_values(MAX_VALUES));
        }
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// A pipe with bytes of which the runtime does not know before it looks.
    struct Unnoticed(bool);

    impl AsyncRead for Unnoticed {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<Result<()>> {
            if !std::mem::replace(&mut self.0, true) {
                return Poll::Pending;
            }
            buffer.put_slice(b"{}\n");
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn late_reading_looks_at_pipe_once_more() {
        let mut reader = PipeReader::new(Box::new(Unnoticed(false)));
        reader.allow_line_bytes(1 << 10);
        assert_eq!(reader.read_before_deadline(now()).await.unwrap().unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn late_reading_has_time_limit() {
        let (mut agent, pipe) = tokio::io::duplex(1 << 10);
        let mut reader = PipeReader::new(Box::new(pipe));
        reader.allow_line_bytes(1 << 10);
        let deadline = now();
        let moment = Duration::from_millis(1);
        for (passes, is_read) in
            [(Duration::ZERO, true), (MAX_TIME_LATE - moment, true), (moment, false), (Duration::ZERO, false)]
        {
            agent.write_all(b"{}\n").await.unwrap();
            tokio::time::advance(passes).await;
            assert_eq!(reader.read_before_deadline(deadline).await.is_some(), is_read);
        }
        // Another deadline has time of its own.
        assert!(reader.read_before_deadline(now()).await.is_some());
    }
}
