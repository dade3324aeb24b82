//! Starts the agent as a child process.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::runtime::Handle;

#[cfg(unix)]
use super::cleanup::Cleanup;
use super::stderr::Stderr;
use super::{Exit, Process, ProcessFuture, Transport, failure, spawner, sys};
use crate::error::AgentExit;
use crate::handler::StderrHandler;
use crate::private;
use crate::transport::launch::{Explain, Launch, Placed, PrivateFiles};
use crate::{Error, Result};

/// Starts the agent. Call it within a runtime that has I/O enabled.
pub(crate) async fn spawn(launch: Launch, on_stderr: Option<StderrHandler>) -> Result<Transport> {
    let runtime = Handle::try_current().map_err(|_| no_runtime())?;
    let started = spawner::run(move || {
        let _context = runtime.enter();
        // Panics, without starting anything, if the runtime refuses to register the pipes.
        let started = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(unix)]
            let cleanup = start_cleanup(&launch)?;
            let (running, pipes) = sys::start(&launch).map_err(|error| failure::describe(&launch, &error))?;
            Ok::<_, Error>(Started {
                running,
                pipes,
                #[cfg(unix)]
                cleanup,
            })
        }));
        // If the caller no longer waits, this is dropped in order: the process is killed before its files are deleted.
        Ok::<_, Error>((started.map_err(|_| no_runtime())??, launch))
    });
    let (started, mut launch) = match started.await {
        Ok(Some(started)) => started?,
        Ok(None) => return Err(Error::Internal("the thread that starts agents panicked".to_owned())),
        Err(error) => return Err(Error::Spawn(format!("can't start the agent: no thread for it: {error}"))),
    };
    let Started {
        running,
        pipes,
        #[cfg(unix)]
        cleanup,
    } = started;
    tracing::debug!(pid = running.pid(), program = %launch.program.display(), "agent started");
    if private::is_sweep_due() {
        spawner::submit_if_running(Box::new(private::sweep));
    }
    let stderr = Stderr::drain(pipes.stderr, on_stderr);
    let Placed { paths, input, explain, .. } = *std::mem::take(&mut launch.placed);
    let process = Box::new(ChildProcess {
        running,
        stderr,
        private: launch.private,
        explain,
        #[cfg(unix)]
        cleanup,
    });
    let mut writer = sys::writer(pipes.stdin);
    if let Err(error) = writer.write_all(&input).await {
        // Its exit has the cause.
        tracing::debug!(%error, "the process of the place takes no input");
    }
    Ok(Transport { reader: Box::new(pipes.stdout), writer, process, paths })
}

/// An agent that was just started.
struct Started {
    running: sys::Running,
    pipes: sys::Pipes,
    #[cfg(unix)]
    cleanup: Option<Box<Cleanup>>,
}

/// Starts the helper that cleans the place up. Without it, something may be left there if this program is killed.
#[cfg(unix)]
fn start_cleanup(launch: &Launch) -> Result<Option<Box<Cleanup>>> {
    let started = launch.placed.cleanup.as_deref().map(|args| Cleanup::start(args).map(Box::new)).transpose();
    started.map_err(|error| {
        Error::Spawn(format!(
            "can't start the agent in its place: /bin/sh, which ends it there with this program, could not be started: {error}"
        ))
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
    let needed =
        "it takes a tokio runtime with I/O and time enabled: `#[tokio::main]`, or a `Builder` with `enable_all()`";
    Error::Spawn(format!("can't start the agent: {needed}"))
}

/// Fields are dropped in order: the process is killed before its files are deleted.
struct ChildProcess {
    running: sys::Running,
    stderr: Stderr,
    private: PrivateFiles,
    explain: Option<Explain>,
    #[cfg(unix)]
    cleanup: Option<Box<Cleanup>>,
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

    #[cfg(unix)]
    fn cleaned_up(&mut self, has_ended: bool) -> ProcessFuture<'_, ()> {
        let cleanup = self.cleanup.take();
        Box::pin(async move {
            if let Some(mut cleanup) = cleanup {
                cleanup.run(has_ended).await;
            }
        })
    }

    fn explain(&self, exit: &AgentExit) -> Option<String> {
        self.explain.as_ref()?(exit)
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
