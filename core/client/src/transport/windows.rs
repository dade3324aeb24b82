//! Processes as Windows has them: a job object stands in for the group.

use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::task::{Context, Poll, ready};

use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject, KillOnDrop};
use tokio::io::AsyncWrite;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::Exit;
use crate::options::Launch;

pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// A child in a job. Dropping it ends the job.
pub(super) struct Running {
    pid: u32,
    child: Box<dyn ChildWrapper>,
    exit: Option<Exit>,
}

/// Starts the program, within the runtime's context.
pub(super) fn start(launch: &Launch) -> io::Result<(Running, Pipes)> {
    let mut command = CommandWrap::with_new(&launch.program, |command| {
        command
            .args(&launch.args)
            .envs(launch.env.iter().cloned())
            .current_dir(&launch.current_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    let mut child = command.wrap(KillOnDrop).wrap(JobObject).spawn()?;
    let pipes = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let (Some(pid), (Some(stdin), Some(stdout), Some(stderr))) = (child.id(), pipes) else {
        return Err(io::Error::other("the child has no pipes"));
    };
    Ok((Running { pid, child, exit: None }, Pipes { stdin, stdout, stderr }))
}

/// Writes to the agent.
pub(super) fn writer(stdin: ChildStdin) -> Box<dyn AsyncWrite + Send + Unpin> {
    Box::new(stdin)
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        if self.exit.is_none() {
            // Of the child alone: the job's own wait is for all its descendants. Who waits is known to the child, not to this
            // future.
            let status = ready!(pin!(self.child.inner_mut().wait()).poll(cx));
            self.exit = Some(status.map(exit_of).unwrap_or_default());
            drop(self.child.start_kill());
        }
        Poll::Ready(self.exit.clone().unwrap_or_default())
    }

    /// There is no asking here; the end of stdin has been that.
    pub(super) fn terminate(&mut self) {
        self.kill();
    }

    pub(super) fn kill(&mut self) {
        if self.exit.is_none() {
            drop(self.child.start_kill());
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), ..Exit::default() }
}
