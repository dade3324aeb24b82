//! Ends what an agent leaves in another place, when the agent ends and when this program does, however it ends.
//!
//! A helper process reads a pipe, which the system closes with this program. Then it runs its script.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;

use super::sys::pipe;

/// How long the end of a session waits for the script.
const DEADLINE: Duration = Duration::from_secs(20);

/// A helper process that waits. Dropped, it runs its script in the background.
pub(super) struct Cleanup {
    child: Option<Child>,
    /// This program keeps the reading end, too, so that writing never raises SIGPIPE.
    _reader: OwnedFd,
    writer: Option<OwnedFd>,
    stdout: ChildStdout,
}

impl Cleanup {
    /// Starts a shell with these arguments. It reads a line: `ended` if the agent's process has exited by itself, and nothing
    /// otherwise. Call it within the context of a runtime.
    pub(super) fn start(args: &[OsString]) -> io::Result<Self> {
        let (reader, writer) = pipe()?;
        let (our_stdout, stdout) = pipe()?;
        let our_stdout = ChildStdout::from_std(our_stdout.into())?;
        let mut command = super::helper("/bin/sh");
        // Ctrl-C at a terminal is for the program.
        command.args(args).current_dir("/").process_group(0);
        let child = command.stdin(reader.try_clone()?).stdout(stdout).stderr(Stdio::null()).spawn()?;
        Ok(Self { child: Some(child), _reader: reader, writer: Some(writer), stdout: our_stdout })
    }

    /// Runs the script, and waits for its answer.
    pub(super) async fn run(&mut self, has_ended: bool) {
        // A line, because the pipe may be open in a fork of this program.
        if let Some(writer) = self.writer.take() {
            let line: &[u8] = if has_ended { b"ended\n" } else { b"\n" };
            if let Err(error) = rustix::io::write(&writer, line) {
                tracing::debug!(%error, "the helper that cleans a place up is not told that the agent has ended");
            }
        }
        let mut left = String::new();
        let mut stdout = (&mut self.stdout).take(4096);
        let answer = stdout.read_to_string(&mut left);
        match tokio::time::timeout(DEADLINE, answer).await {
            Ok(_) if left.is_empty() => {}
            Ok(_) => tracing::warn!(left = left.trim(), "a part of the agent is left in its place"),
            Err(_) => tracing::warn!("the place of an agent is not cleaned up yet: its runtime does not answer"),
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            let _ = rustix::io::write(&writer, b"\n");
        }
        let Some(mut child) = self.child.take() else { return };
        let reap = move || drop(child.wait());
        if let Err(error) = std::thread::Builder::new().name("kimi-agent-reap".to_owned()).spawn(reap) {
            tracing::debug!(%error, "the helper that cleans a place up is not reaped: no thread for it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(script: &str) -> Cleanup {
        Cleanup::start(&["-c".into(), script.into()]).unwrap()
    }

    #[tokio::test]
    async fn script_runs_at_the_end_of_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("line");
        let mut cleanup = started(&format!("read -r line; echo \"[$line]\" > '{}'", file.display()));
        assert!(!file.exists());
        cleanup.run(true).await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "[ended]\n");
    }

    #[tokio::test]
    async fn dropped_helper_runs_its_script() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        drop(started(&format!("read -r line; echo \"[$line]\" > '{}'", fifo.display())));
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(&fifo).unwrap());
        assert_eq!(read.await.unwrap(), "[]\n");
    }
}
