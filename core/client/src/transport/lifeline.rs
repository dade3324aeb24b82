//! Ends a server when this program ends, also by SIGKILL.
//!
//! The parent-death signal of Linux does not serve for servers: it comes again for each thread of the program that ends, and
//! the second TERM kills a server that is just ending its tools. So a helper holds one end of a pipe, and sends TERM once
//! when the other end is gone.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use rustix::process::Pid;

/// Waits for the end of the pipe; nothing is ever written to it.
const HELPER: &str = r#"read -r line; kill -TERM "$1""#;

/// A helper that waits for the end of this program. Dropped, it is gone, and the server is left alone.
pub(super) struct Lifeline {
    helper: Child,
    /// The helper reads the other end. The system closes this one with the program.
    _pipe: OwnedFd,
}

impl Lifeline {
    /// `ends` are those of a pipe, the reading one first.
    pub(super) fn attach(server: Pid, ends: (OwnedFd, OwnedFd)) -> io::Result<Self> {
        let helper = super::helper("/bin/sh")
            .args(["-c", HELPER, "kimi-agent-lifeline", &server.to_string()])
            .env_clear()
            .current_dir("/")
            // Ctrl-C at a terminal is for the program.
            .process_group(0)
            .stdin(ends.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { helper, _pipe: ends.1 })
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        // Before the pipe ends: the server's id may belong to another process by now.
        if let Err(error) = self.helper.kill().and_then(|()| self.helper.wait()) {
            tracing::debug!(%error, "the helper that waits for the end of this program was not ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::super::sys::pipe;
    use super::*;

    fn server() -> Child {
        Command::new("/bin/sh").args(["-c", "read -r line"]).stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn ended_pipe_terminates_server() {
        let mut server = server();
        let _stdin = server.stdin.take();
        let mut lifeline = Lifeline::attach(Pid::from_child(&server), pipe().unwrap()).unwrap();
        lifeline._pipe = std::fs::File::open("/dev/null").unwrap().into();

        assert_eq!(server.wait().unwrap().signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn dropped_lifeline_leaves_server() {
        let mut server = server();
        drop(Lifeline::attach(Pid::from_child(&server), pipe().unwrap()).unwrap());

        drop(server.stdin.take());
        assert_eq!(server.wait().unwrap().code(), Some(1), "its own end");
    }
}
