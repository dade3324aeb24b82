//! A session's ends of a shared process: what stands for its two pipes and for the process.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::transport::{Exit, Process, ProcessFuture, Transport};

/// What a pipe would hold: with as much unread, a session does not read; with as much unsent, the process does not.
pub(super) const FULL: usize = 64 << 10;
/// So long is a line that is read for a while.
pub(super) const LARGE: usize = 1 << 20;

/// What a session has from the process, and the process from it.
#[derive(Debug)]
pub(super) struct Port {
    state: Mutex<State>,
    /// Rung when the session has done something.
    bell: Arc<Notify>,
    pid: Option<u32>,
}

#[derive(Debug, Default)]
struct State {
    unread: BytesMut,
    /// Of the large lines that have come since nothing was unread.
    longest: usize,
    reader: Option<Waker>,
    /// Nothing comes after what is unread.
    eof: bool,
    unsent: BytesMut,
    writer: Option<Waker>,
    /// The agent reads nothing any more.
    deaf: bool,
    /// The session writes nothing any more.
    hung_up: bool,
    wish: Option<Wish>,
    exit: Option<Exit>,
    waiter: Option<Waker>,
    stderr: String,
}

/// What a session wants to become of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    Terminate,
    Kill,
}

/// What a session has done.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) sent: BytesMut,
    pub(super) hung_up: bool,
    pub(super) wish: Option<Wish>,
}

impl Port {
    pub(super) fn new(bell: Arc<Notify>, pid: Option<u32>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), bell, pid })
    }

    /// The session's side.
    pub(super) fn transport(self: &Arc<Self>) -> Transport {
        Transport {
            reader: Box::new(Reader(Arc::clone(self))),
            writer: Box::new(Writer(Arc::clone(self))),
            process: Box::new(SharedProcess(Arc::clone(self))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much the session has not read yet.
    pub(super) fn unread(&self) -> usize {
        self.lock().unread.len()
    }

    /// How far the session has fallen behind: a large line, the longest, does not count, as it may be reading that.
    pub(super) fn behind(&self) -> usize {
        let state = self.lock();
        state.unread.len().saturating_sub(state.longest)
    }

    /// Gives the session something to read.
    pub(super) fn push(&self, bytes: &[u8]) {
        self.add(bytes.len(), |unread| unread.extend_from_slice(bytes));
    }

    /// Gives the session a line to read. A large one stays in the memory that it is in, so that there are not two of it.
    pub(super) fn push_line(&self, mut line: Vec<u8>) {
        self.add(line.len() + 1, |unread| {
            if unread.is_empty() && line.len() >= LARGE {
                line.reserve_exact(1);
                line.push(b'\n');
                *unread = Bytes::from(line).into();
            } else {
                unread.extend_from_slice(&line);
                unread.extend_from_slice(b"\n");
            }
        });
    }

    fn add(&self, size: usize, add: impl FnOnce(&mut BytesMut)) {
        let mut state = self.lock();
        if state.eof {
            return;
        }
        add(&mut state.unread);
        if size >= LARGE {
            state.longest = state.longest.max(size);
        }
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Takes what the session has done; what it has sent only where there is room for it.
    pub(super) fn take(&self, room: bool) -> Done {
        let mut state = self.lock();
        let sent = if room { std::mem::take(&mut state.unsent) } else { BytesMut::new() };
        let writer = state.writer.take_if(|_| room);
        let done = Done { sent, hung_up: state.hung_up && state.unsent.is_empty(), wish: state.wish };
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        done
    }

    /// The agent reads nothing any more.
    pub(super) fn close_input(&self) {
        let mut state = self.lock();
        state.deaf = true;
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
    }

    /// The agent says nothing any more.
    pub(super) fn close_output(&self) {
        let mut state = self.lock();
        state.eof = true;
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// The process is gone, as far as this session is concerned. The first reason counts.
    pub(super) fn end(&self, exit: Exit, stderr: &str) {
        let waiter = {
            let mut state = self.lock();
            if state.exit.is_none() {
                if exit.reason.is_some() {
                    // What the session can't have any more is not to be kept for it.
                    state.unread = BytesMut::new();
                }
                state.exit = Some(exit);
                stderr.clone_into(&mut state.stderr);
            }
            state.waiter.take()
        };
        self.close_input();
        self.close_output();
        waiter.into_iter().for_each(Waker::wake);
    }

    /// Does something on the session's side, and lets the process know.
    fn act(&self, action: impl FnOnce(&mut State)) {
        action(&mut self.lock());
        self.bell.notify_one();
    }
}

struct Reader(Arc<Port>);

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.unread.is_empty() {
            if state.eof {
                return Poll::Ready(Ok(()));
            }
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let before = state.unread.len();
        let n = before.min(buffer.remaining());
        buffer.put_slice(&state.unread[..n]);
        state.unread.advance(n);
        if state.unread.is_empty() {
            // What was large once must not stay so.
            state.unread = BytesMut::new();
            state.longest = 0;
        }
        drop(state);
        if before >= FULL && before - n < FULL {
            self.0.bell.notify_one();
        }
        Poll::Ready(Ok(()))
    }
}

struct Writer(Arc<Port>);

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        if state.deaf {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if state.unsent.len() >= FULL {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.unsent.extend_from_slice(bytes);
        drop(state);
        self.0.bell.notify_one();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.act(|state| state.hung_up = true);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.act(|state| state.hung_up = true);
    }
}

/// The process, as far as one session is concerned. Whoever has it is alone with it, or has a share in it: then to end
/// it is to leave it.
struct SharedProcess(Arc<Port>);

impl SharedProcess {
    fn wish(&self, wish: Wish) {
        self.0.act(|state| state.wish = state.wish.max(Some(wish)));
    }
}

impl Process for SharedProcess {
    fn pid(&self) -> Option<u32> {
        self.0.pid
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        let mut state = self.0.lock();
        match &state.exit {
            Some(exit) => Poll::Ready(exit.clone()),
            None => {
                state.waiter = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn terminate(&mut self) {
        self.wish(Wish::Terminate);
    }

    fn kill(&mut self) {
        self.wish(Wish::Kill);
    }

    fn stderr_tail(&self) -> String {
        self.0.lock().stderr.clone()
    }

    fn release(&mut self) {}

    fn stderr_done(&mut self) -> ProcessFuture<'_, ()> {
        // It is told together with the exit.
        Box::pin(async {
            poll_fn(|cx| self.poll_exit(cx)).await;
        })
    }
}

impl Drop for SharedProcess {
    fn drop(&mut self) {
        self.wish(Wish::Kill);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_large_line_stays_in_its_memory_and_in_its_place() {
        let port = Port::new(Arc::default(), None);
        let mut reader = Reader(Arc::clone(&port));
        let line = |size: usize| {
            let mut line = Vec::with_capacity(size + 1);
            line.resize(size, b'x');
            line
        };
        let (first, size) = (line(LARGE), LARGE + 1);
        let place = first.as_ptr();
        port.push_line(first);
        assert_eq!(port.lock().unread.as_ptr(), place, "it was copied");
        assert_eq!((port.unread(), port.behind()), (size, 0));
        let mut chunk = vec![0; LARGE / 2];
        reader.read_exact(&mut chunk).await.expect("half of it");
        // What comes meanwhile comes after it.
        for line in [b"small".to_vec(), line(LARGE)] {
            port.push_line(line);
        }
        port.push(b"rest");
        port.close_output();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.expect("an end");
        let expected = [&line(size - 1 - chunk.len())[..], b"\nsmall\n", &line(LARGE), b"\nrest"].concat();
        assert!(read == expected, "{} bytes instead of {}", read.len(), expected.len());
        assert_eq!(port.unread(), 0);
    }
}
