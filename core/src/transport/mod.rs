//! What carries the lines: a child process, or memory.

pub(crate) mod child;
mod failure;
#[cfg(test)]
pub(crate) mod memory;
mod spawner;
mod stderr;
#[cfg(unix)]
#[path = "unix.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;

use std::future::Future;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// An agent that runs: its output, its input, and the process itself.
pub(crate) struct Transport {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) process: Box<dyn Process>,
}

/// How a process ended. Neither code nor signal: nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    /// As `SIGKILL`.
    pub(crate) signal: Option<String>,
}

pub(crate) type ProcessFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A process. Dropped, it is killed with all its descendants and reaped, without blocking.
pub(crate) trait Process: Send {
    /// Its id, also after it has ended.
    fn pid(&self) -> Option<u32>;

    /// Waits for its end; what is left of its group is killed then. Safe to cancel, and to ask again.
    fn wait(&mut self) -> ProcessFuture<'_, Exit>;

    /// Asks the whole group to end.
    fn terminate(&mut self);

    /// Ends the whole group.
    fn kill(&mut self);

    /// The end of what it wrote to stderr.
    fn stderr_tail(&self) -> String;

    /// Waits until all of stderr has been read. Whoever inherited it may hold it open for ever: set a deadline.
    /// Safe to cancel.
    fn stderr_done(&mut self) -> ProcessFuture<'_, ()>;
}
