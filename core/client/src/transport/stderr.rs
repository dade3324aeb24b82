//! The agent's stderr. It is always read, so that it never blocks. Its last part is kept for errors.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncRead;
use tokio::sync::Notify;

use super::poll_read_some;
use crate::handler::StderrHandler;

/// The limit of the kept part, and of a line, in bytes.
const LIMIT: usize = 64 << 10;
/// The number of bytes that are read at a time.
const CHUNK: usize = 8 << 10;

/// The last part of stderr, and whether all of it was read.
pub(super) struct Stderr {
    drained: Arc<Drained>,
    /// Whether a handler gets the lines.
    pub(super) has_handler: bool,
}

#[derive(Default)]
struct Drained {
    ring: Mutex<VecDeque<u8>>,
    done: AtomicBool,
    /// Marks that all was read.
    notice: Notify,
}

impl Drained {
    fn lock(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that reads stderr. Dropping it marks the end.
struct Draining(Arc<Drained>);

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Release);
        self.0.notice.notify_waiters();
    }
}

impl Stderr {
    /// Starts to read. Call it within a runtime.
    pub(super) fn drain(source: impl AsyncRead + Send + Unpin + 'static, handler: Option<StderrHandler>) -> Self {
        let drained = Arc::new(Drained::default());
        let draining = Draining(Arc::clone(&drained));
        let has_handler = handler.is_some();
        tokio::spawn(run(source, draining, handler));
        Self { drained, has_handler }
    }

    pub(super) fn tail(&self) -> String {
        let mut ring = self.drained.lock();
        let full = ring.len() >= LIMIT;
        let mut bytes: &[u8] = ring.make_contiguous();
        // A full buffer begins in the middle of a line, possibly of a character.
        if full && let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            bytes = &bytes[end + 1..];
        }
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Waits until all of it was read.
    pub(super) async fn done(&self) {
        let notice = self.drained.notice.notified();
        tokio::pin!(notice);
        notice.as_mut().enable();
        if !self.drained.done.load(Ordering::Acquire) {
            notice.await;
        }
    }
}

async fn run(mut source: impl AsyncRead + Unpin, draining: Draining, handler: Option<StderrHandler>) {
    let mut lines = handler.map(Lines::new);
    let mut take = |chunk: &[u8]| {
        {
            let mut ring = draining.0.lock();
            ring.extend(chunk);
            let over = ring.len().saturating_sub(LIMIT);
            ring.drain(..over);
        }
        if let Some(lines) = &mut lines {
            lines.feed(chunk);
        }
    };
    while poll_fn(|cx| poll_read_some::<CHUNK>(&mut source, &mut take, cx)).await.is_ok_and(|read| read > 0) {}
    if let Some(lines) = &mut lines
        && !lines.partial.is_empty()
    {
        lines.emit();
    }
}

struct Lines {
    handler: StderrHandler,
    partial: Vec<u8>,
}

impl Lines {
    fn new(handler: StderrHandler) -> Self {
        Self { handler, partial: Vec::new() }
    }

    fn feed(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.partial.len() >= LIMIT {
                self.emit();
            }
        }
    }

    fn emit(&mut self) {
        let mut line = self.partial.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line).into_owned();
        self.partial.clear();
        // A panic of the handler must not stop the reading.
        if catch_unwind(AssertUnwindSafe(|| (self.handler)(text))).is_err() {
            tracing::error!("on_stderr panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn drained(pieces: &[&[u8]]) -> (Vec<String>, String) {
        let (mut agent, ours) = tokio::io::duplex(64);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let handler: StderrHandler = Arc::new(move |line| {
            assert_ne!(line, "panic");
            seen.lock().unwrap().push(line);
        });
        let stderr = Stderr::drain(ours, Some(handler));
        for piece in pieces {
            agent.write_all(piece).await.unwrap();
        }
        drop(agent);
        stderr.done().await;
        stderr.done().await;
        let lines = lines.lock().unwrap().clone();
        (lines, stderr.tail())
    }

    #[tokio::test]
    async fn stderr_lines_arrive_complete() {
        let (lines, tail) = drained(&[b"one\ntw", b"o\r\n\nhalf \xff"]).await;
        assert_eq!(lines, ["one", "two", "", "half \u{fffd}"]);
        assert_eq!(tail, "one\ntwo\r\n\nhalf \u{fffd}");
    }

    #[tokio::test]
    async fn on_stderr_panic_does_not_stop_reading() {
        let (lines, _) = drained(&[b"panic\nnext\n"]).await;
        assert_eq!(lines, ["next"]);
    }

    #[tokio::test]
    async fn stderr_tail_keeps_only_end() {
        let flood = "0123456789abcde\n".repeat(1 << 16);
        let (lines, tail) = drained(&[flood.as_bytes(), b"the end"]).await;
        assert_eq!(lines.len(), (1 << 16) + 1);
        assert!(tail.len() <= LIMIT && tail.starts_with("0123") && tail.ends_with("\nthe end"), "{}", tail.len());
    }

    #[tokio::test]
    async fn endless_line_is_cut() {
        let (lines, tail) = drained(&[&vec![b'x'; 3 * LIMIT]]).await;
        assert!(lines.len() >= 3 && lines.iter().all(|line| line.len() <= LIMIT + (8 << 10)));
        assert_eq!(lines.iter().map(String::len).sum::<usize>(), 3 * LIMIT);
        assert_eq!(tail.len(), LIMIT);
    }
}
