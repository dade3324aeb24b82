//! Starts the agent as a child process.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use tokio::process::{ChildStderr, ChildStdout};
use tokio::runtime::Handle;

use super::stderr::Stderr;
use super::{Exit, Process, ProcessFuture, Transport, failure, spawner, sys};
use crate::handler::StderrHandler;
use crate::private;
use crate::transport::launch::{Launch, PrivateFiles};
use crate::{Error, Result};

/// Starts the agent. Call it within a runtime that has I/O enabled.
pub(crate) async fn spawn(launch: Launch, on_stderr: Option<StderrHandler>) -> Result<Transport> {
    let runtime = Handle::try_current().map_err(|_| no_runtime())?;
    let started = spawner::run(move || {
        let _context = runtime.enter();
        // Panics, without starting anything, if the runtime refuses to register the pipes.
        let started = catch_unwind(AssertUnwindSafe(|| sys::start(&launch))).map_err(|_| no_runtime())?;
        let (running, pipes) = started.map_err(|error| failure::describe(&launch, &error))?;
        // If the caller no longer waits, this is dropped in order: the process is killed before its files are deleted.
        Ok::<_, Error>((running, pipes, launch))
    });
    let (running, pipes, launch) = match started.await {
        Ok(Some(started)) => started?,
        Ok(None) => return Err(Error::Internal("the thread that starts agents panicked".to_owned())),
        Err(error) => return Err(Error::Spawn(format!("can't start the agent: no thread for it: {error}"))),
    };
    tracing::debug!(pid = running.pid(), program = %launch.program.display(), "agent started");
    if private::is_sweep_due() {
        spawner::submit_if_running(Box::new(private::sweep));
    }
    let stderr = Stderr::drain(pipes.stderr, on_stderr);
    Ok(Transport {
        reader: Box::new(pipes.stdout),
        writer: sys::writer(pipes.stdin),
        process: Box::new(ChildProcess { running, stderr, private: launch.private }),
    })
}

/// A command of a terminal. Dropped, it is killed with its group, as an agent is. It also ends with this program.
pub(crate) struct CommandProcess(sys::Running);

impl CommandProcess {
    /// Starts a command, whose stdin is at its end. Returns its stdout and stderr, too. Call it within a runtime that has I/O
    /// enabled.
    pub(crate) async fn start(launch: Launch) -> io::Result<(Self, ChildStdout, ChildStderr)> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let started = spawner::run(move || {
            let _context = runtime.enter();
            sys::start(&launch)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", launch.program.display())))
        });
        let panicked = || io::Error::other("the runtime refuses the pipes of a command");
        let (running, pipes) = started.await?.ok_or_else(panicked)??;
        Ok((Self(running), pipes.stdout, pipes.stderr))
    }

    /// Is ready if the command has ended. The rest of its group is killed then.
    pub(crate) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        self.0.poll_exit(cx)
    }
}

fn no_runtime() -> Error {
    Error::Spawn("can't start the agent: it takes a tokio runtime with I/O and time enabled".to_owned())
}

/// Fields are dropped in order: the process is killed before its files are deleted.
struct ChildProcess {
    running: sys::Running,
    stderr: Stderr,
    private: PrivateFiles,
}

impl Process for ChildProcess {
    fn pid(&self) -> Option<u32> {
        Some(self.running.pid())
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        self.running.poll_exit(cx)
    }

    fn terminate(&mut self) {
        self.running.terminate();
    }

    fn interrupt(&mut self) {
        self.running.interrupt();
    }

    fn kill(&mut self) {
        self.running.kill();
    }

    fn stderr_tail(&self) -> String {
        self.stderr.tail()
    }

    fn release(&mut self) {
        self.private = PrivateFiles::default();
    }

    fn has_stderr_handler(&self) -> bool {
        self.stderr.has_handler
    }

    fn stderr_done(&mut self) -> ProcessFuture<'_, ()> {
        Box::pin(self.stderr.done())
    }
}

#[cfg(test)]
#[cfg(unix)]
#[path = "child_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(windows)]
#[path = "child_windows_tests.rs"]
mod tests;
