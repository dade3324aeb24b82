//! Child processes on Windows: each has a job of its own, as it has a process group of its own on Unix.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::task::{Context, Poll, ready};

use process_wrap::tokio::{ChildWrapper, CommandWrap, CreationFlags, JobObject, KillOnDrop};
use tokio::io::AsyncWrite;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use windows::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW};

use super::Exit;
use super::deadline::{KILL_DEADLINE, Killed};
use crate::error::Error;
use crate::transport::launch::Launch;

/// If this variable is set, `cmd` searches programs on PATH only, and not in the working directory first.
const NO_WORK_DIR_IN_PATH: &str = "NoDefaultCurrentDirectoryInExePath";

/// Gives a process a console of its own without a window.
pub(super) const NO_WINDOW: u32 = CREATE_NO_WINDOW.0;

/// This process's ends of the child's pipes.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// A child process in a job that no process can leave. If this process ends, Windows closes the job and so kills all
/// processes in it. Dropping it does the same.
pub(super) struct Running {
    pid: u32,
    child: Box<dyn ChildWrapper>,
    exit: Option<Exit>,
    killed: Option<Killed>,
}

/// Starts the program. Call it in the context of a runtime.
pub(super) fn start(launch: &Launch) -> io::Result<(Running, Pipes)> {
    let mut command = CommandWrap::with_new(&launch.program, |command| {
        command
            .args(&launch.args)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| launch.inherited.has(name)))
            .envs(no_work_dir_in_path(launch))
            .envs(launch.env.iter().cloned())
            .current_dir(&launch.current_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    // A console of its own without a window: tools cannot read from the program's console, and Ctrl+C there does not
    // reach them.
    let flags = CreationFlags(CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP);
    let mut child = command.wrap(flags).wrap(KillOnDrop).wrap(JobObject).spawn()?;
    let pipes = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let (Some(pid), (Some(stdin), Some(stdout), Some(stderr))) = (child.id(), pipes) else {
        return Err(io::Error::other("the child has no pipes"));
    };
    Ok((Running { pid, child, exit: None, killed: None }, Pipes { stdin, stdout, stderr }))
}

/// npm's batch files start `node` by its name only. The working directory may be a repository of strangers that
/// contains a program of that name.
fn no_work_dir_in_path(launch: &Launch) -> Option<(OsString, OsString)> {
    is_batch_file(&launch.program).then(|| (NO_WORK_DIR_IN_PATH.into(), "1".into()))
}

/// `cmd` runs batch files, and the standard library escapes their arguments for it.
pub(super) fn is_batch_file(program: &Path) -> bool {
    let extension = program.extension();
    extension.is_some_and(|extension| ["bat", "cmd"].iter().any(|batch| extension.eq_ignore_ascii_case(batch)))
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
            // Waits for the child only, because the job waits for all its descendants. The child keeps the waker, not
            // this future.
            let exit = match pin!(self.child.inner_mut().wait()).poll(cx) {
                Poll::Ready(status) => status.map(exit_of).unwrap_or_default(),
                Poll::Pending => {
                    let Some(killed) = &mut self.killed else { return Poll::Pending };
                    ready!(killed.poll_deadline(cx));
                    let error = still_running(self.pid, killed.refused.as_ref());
                    tracing::warn!(%error, "the agent is left running");
                    Exit { still_running: Some(Box::new(error)), ..Exit::default() }
                }
            };
            self.exit = Some(exit);
            // Ends the processes that the agent left.
            drop(self.child.start_kill());
        }
        Poll::Ready(self.exit.clone().unwrap_or_default())
    }

    /// The closed stdin has asked it to exit. Windows can only ask with console events, which do not reach other
    /// consoles.
    pub(super) fn terminate(&mut self) {
        self.kill();
    }

    #[cfg_attr(not(feature = "kimi-web"), allow(dead_code, reason = "only servers are ended so"))]
    pub(super) fn interrupt(&mut self) {
        self.kill();
    }

    pub(super) fn kill(&mut self) {
        if self.exit.is_none() {
            let refused = self.child.start_kill().err();
            self.killed.get_or_insert_with(Killed::new).refused = refused;
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), ..Exit::default() }
}

fn still_running(pid: u32, refused: Option<&io::Error>) -> Error {
    let why = match refused {
        Some(error) => format!("Windows refused to end it ({error})"),
        None => "Windows has not ended it yet; it may wait for a device or a network file system".to_owned(),
    };
    Error::Timeout(format!(
        "the agent could not be ended: process {pid} still runs {KILL_DEADLINE:?} after its job was terminated: {why}. The \
         session is closed; end the process with `taskkill /F /T /PID {pid}`"
    ).into())
}
