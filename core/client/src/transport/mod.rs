//! Transports of lines to and from an agent: a child process, a connection over the network, or memory.

pub(crate) mod child;
#[cfg(unix)]
mod cleanup;
mod deadline;
mod failure;
#[cfg(unix)]
mod guard;
pub(crate) mod launch;
#[cfg(any(test, feature = "measured"))]
pub(crate) mod memory;
#[cfg(any(feature = "kimi-web", feature = "remote"))]
mod outbox;
#[cfg(feature = "remote")]
mod remote;
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
#[cfg(feature = "kimi-web")]
mod web;
#[cfg(any(feature = "kimi-web", feature = "remote"))]
mod websocket;

use std::ffi::OsStr;
use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::{AgentExit, Error, Result};
use crate::handler::StderrHandler;
use kimi_agent_protocol::place::PathMap;
use launch::Launch;

/// Checks the address of an agent, and its headers. The error says which setting is wrong.
#[cfg(feature = "remote")]
pub(crate) fn remote_address(url: &str, headers: &[(String, String)]) -> std::result::Result<(), String> {
    remote::Address::new(url, headers).map(drop)
}

/// Makes the command for a helper program, such as git. All programs except agents are started with it. On Windows they get
/// no console window, which would flash in a program without a console.
pub(crate) fn helper(program: impl AsRef<OsStr>) -> Command {
    #[cfg_attr(not(windows), expect(unused_mut, reason = "only Windows has windows"))]
    let mut command = Command::new(program);
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(&mut command, sys::NO_WINDOW);
    command
}

/// A helper program. Its group of processes ends with this program, however it ends. On Windows only the program itself can
/// be ended.
#[cfg(feature = "batch")]
pub(crate) struct Guarded {
    pub(crate) child: std::process::Child,
    #[cfg(unix)]
    guard: Option<guard::Guard>,
}

/// Starts a helper program, which must lead a group of processes.
#[cfg(feature = "batch")]
pub(crate) fn spawn_guarded(command: &mut Command) -> io::Result<Guarded> {
    #[cfg(unix)]
    let mut guard = guard::Guard::new(guard::Kind::Agent)?;
    let child = command.spawn()?;
    #[cfg(unix)]
    if let Some(guard) = &mut guard {
        guard.names(&child);
    }
    Ok(Guarded {
        child,
        #[cfg(unix)]
        guard,
    })
}

#[cfg(feature = "batch")]
impl Guarded {
    /// Kills the program and its group, and waits for the program.
    pub(crate) fn end(&mut self) {
        #[cfg(unix)]
        let killed = rustix::process::kill_process_group(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::KILL,
        )
        .map_err(io::Error::from);
        #[cfg(not(unix))]
        let killed = self.child.kill();
        if let Err(error) = killed.and_then(|()| self.child.wait()) {
            tracing::debug!(%error, "a helper program was not ended");
        }
        #[cfg(unix)]
        drop(self.guard.take());
    }
}

/// Starts the agent. Call it within a runtime that has I/O enabled.
pub(crate) async fn spawn(launch: Launch, on_stderr: Option<StderrHandler>) -> Result<Transport> {
    #[cfg(feature = "remote")]
    if let Some(target) = launch.placed.remote {
        return remote::connect(target, launch.placed.paths).await;
    }
    #[cfg(not(feature = "remote"))]
    if launch.placed.remote.is_some() {
        return Err(Error::Unsupported(
            "this build cannot reach an agent over the network: enable the feature `remote` of the crate".to_owned(),
        ));
    }
    let server = launch.server.clone();
    let started = child::spawn(launch, on_stderr).await?;
    match server {
        None => Ok(started),
        #[cfg(feature = "kimi-web")]
        Some(server) => Ok(web::connect(&server, started)),
        #[cfg(not(feature = "kimi-web"))]
        Some(_) => Err(Error::Unsupported(
            "this build cannot speak with Kimi Code's server: enable the feature `kimi-web` of the crate".to_owned(),
        )),
    }
}

/// A running agent: its output, its input, and the process itself.
pub(crate) struct Transport {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) process: Box<dyn Process>,
    /// How paths differ in the place of the agent.
    pub(crate) paths: Option<PathMap>,
}

/// Reads at most `N` bytes, and passes them to `take`; 0 is the end. The buffer is on the stack, and exists only while
/// something is read, so an idle session holds none.
pub(crate) fn poll_read_some<const N: usize>(
    reader: &mut (impl AsyncRead + Unpin),
    take: impl FnOnce(&[u8]),
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut bytes = [MaybeUninit::uninit(); N];
    let mut buffer = ReadBuf::uninit(&mut bytes);
    ready!(Pin::new(reader).poll_read(cx, &mut buffer))?;
    take(buffer.filled());
    Poll::Ready(Ok(buffer.filled().len()))
}

/// The time between TERM and KILL.
pub(crate) const END_GRACE: Duration = Duration::from_secs(2);
/// The same for a server, which ends its tools first. Kimi Code takes 6 seconds if a command is running.
const SERVER_END_GRACE: Duration = Duration::from_secs(9);

/// How a process ended. Without code and signal, the reason is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    /// The name of the signal, for example `SIGKILL`.
    pub(crate) signal: Option<String>,
    /// KILL did not end it in time, and the SDK no longer waits for it.
    pub(crate) still_running: Option<Box<Error>>,
}

pub(crate) type ProcessFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A process. Dropping it kills it with all its descendants and reaps it, without blocking.
pub(crate) trait Process: Send {
    /// Returns its id, even after it has ended.
    fn pid(&self) -> Option<u32>;

    /// Waits for its end, or for the deadline after `kill`. The rest of its group is killed then. Later calls return
    /// the same.
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit>;

    /// Sends TERM to the whole group.
    fn terminate(&mut self);

    /// Sends INT to the whole group, like Ctrl+C. A TERM does not disturb a server that ends in this way.
    #[cfg_attr(not(feature = "kimi-web"), allow(dead_code, reason = "only servers are ended so"))]
    fn interrupt(&mut self);

    /// Returns how long the process may take to end after TERM, before it is killed.
    fn end_grace(&self) -> Duration {
        END_GRACE
    }

    /// Kills it and the whole group.
    fn kill(&mut self);

    /// Returns the last part of its stderr.
    fn stderr_tail(&self) -> String;

    /// Deletes the files with which it was started.
    fn release(&mut self);

    /// Ends what is left of it in its place, and waits for that. Call it after its end. `has_ended`: it was not killed.
    fn cleaned_up(&mut self, _has_ended: bool) -> ProcessFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns the cause of its exit, if its place knows it: a part of a sentence, such as `because …`.
    fn explain(&self, _exit: &AgentExit) -> Option<String> {
        None
    }

    /// Returns whether it waits while its output is not read. If not, all of its output has to be read as it comes.
    fn waits_for_reader(&self) -> bool {
        true
    }

    /// Returns whether a handler gets the lines of stderr. It gets the last one before the session has ended.
    fn has_stderr_handler(&self) -> bool {
        false
    }

    /// Waits until all of stderr was read. A process that inherited it may hold it open without limit, so set a
    /// deadline. Cancel-safe.
    fn stderr_done(&mut self) -> ProcessFuture<'_, ()>;
}

impl dyn Process {
    /// Waits for its end. Cancel-safe, and can be called again.
    pub(crate) fn wait(&mut self) -> impl Future<Output = Exit> {
        poll_fn(|cx| self.poll_exit(cx))
    }
}
