//! What carries the lines: a child process, or memory.

pub(crate) mod child;
mod failure;
#[cfg(any(test, feature = "measured"))]
pub(crate) mod memory;
#[cfg(all(unix, not(target_vendor = "apple")))]
mod sigpipe;
mod spawner;
mod stderr;
#[cfg(unix)]
#[path = "unix.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;

use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::Error;

/// An agent that runs: its output, its input, and the process itself.
pub(crate) struct Transport {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) process: Box<dyn Process>,
}

/// Reads what is there, `N` bytes at the most, and hands it to `take`; 0 is the end. The buffer is on the stack, and only
/// while something is read: a session in which nothing happens holds none. Safe to cancel.
pub(crate) async fn read_some<const N: usize>(
    reader: &mut (impl AsyncRead + Unpin),
    mut take: impl FnMut(&[u8]),
) -> io::Result<usize> {
    poll_fn(|cx| {
        let mut bytes = [MaybeUninit::uninit(); N];
        let mut buffer = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut *reader).poll_read(cx, &mut buffer))?;
        take(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    })
    .await
}

/// How a process ended. Neither code nor signal: nobody knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    /// As `SIGKILL`.
    pub(crate) signal: Option<String>,
    /// It has not ended: KILL did not end it in time, and nobody waits for it any more.
    pub(crate) still_running: Option<Box<Error>>,
}

pub(crate) type ProcessFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A process. Dropped, it is killed with all its descendants and reaped, without blocking.
pub(crate) trait Process: Send {
    /// Its id, also after it has ended.
    fn pid(&self) -> Option<u32>;

    /// Waits for its end, or for the deadline after `kill`; what is left of its group is killed then. Goes on telling it.
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit>;

    /// Asks the whole group to end.
    fn terminate(&mut self);

    /// Ends it, and the whole group.
    fn kill(&mut self);

    /// The end of what it wrote to stderr.
    fn stderr_tail(&self) -> String;

    /// The files that it was started with are not needed any more.
    fn release(&mut self);

    /// Waits until all of stderr has been read. Whoever inherited it may hold it open for ever: set a deadline.
    /// Safe to cancel.
    fn stderr_done(&mut self) -> ProcessFuture<'_, ()>;
}

impl dyn Process {
    /// Waits for its end. Safe to cancel, and to ask again.
    pub(crate) async fn wait(&mut self) -> Exit {
        poll_fn(|cx| self.poll_exit(cx)).await
    }
}
