//! The handle of a process, and the commands that it sends to the task of the process.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};

use super::commands::Command;
use super::session::SessionSetup;
use super::shared::Shared;
use crate::endpoint::ConnectionKey;
use crate::error::{Error, Result};
use crate::jsonrpc::RpcFailure;
use crate::messages::Json;

/// The answer to a one-off call, or the error of the call.
pub(crate) type Answer = Result<std::result::Result<Json, RpcFailure>>;

/// A command to the task of a process. Boxed in the channel, which allocates space for 32 commands in each process.
pub(crate) enum ProcessCommand {
    /// Opens a session.
    Attach {
        key: ConnectionKey,
        setup: Box<SessionSetup>,
        shared: Arc<Shared>,
    },
    Session(ConnectionKey, Command),
    Call(Call),
    /// Closes the process with its last session, with this `close_timeout` if one is given.
    Close(Option<Duration>),
    Kill,
}

/// A call that belongs to no session.
pub(crate) struct Call {
    pub(super) key: ConnectionKey,
    pub(super) method: Cow<'static, str>,
    pub(super) params: Value,
    pub(super) max_line_bytes: usize,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// The handle of a process. When it and all sessions of the process are dropped, the process ends.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    commands: mpsc::UnboundedSender<Box<ProcessCommand>>,
    pub(super) bell: Arc<Notify>,
    next_key: AtomicU64,
    pid: Option<u32>,
    pub(super) spent: Arc<AtomicBool>,
    pub(super) still_running: Arc<OnceLock<Box<Error>>>,
}

impl ProcessHandle {
    pub(super) fn new(commands: mpsc::UnboundedSender<Box<ProcessCommand>>, pid: Option<u32>) -> Self {
        Self {
            commands,
            bell: Arc::default(),
            next_key: AtomicU64::new(0),
            pid,
            spent: Arc::default(),
            still_running: Arc::default(),
        }
    }

    /// Opens a session in the process. Returns the setup if the process has exited, or is about to.
    pub(crate) fn attach(
        &self,
        setup: Box<SessionSetup>,
        event_buffer_bytes: usize,
    ) -> std::result::Result<Arc<Shared>, Box<SessionSetup>> {
        if self.is_spent() {
            return Err(setup);
        }
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let process = self.commands.clone();
        let send = move |command| process.send(Box::new(ProcessCommand::Session(key, command))).is_ok();
        let shared = Arc::new(Shared::new(event_buffer_bytes, Box::new(send), Arc::clone(&self.bell)));
        let attach = ProcessCommand::Attach { key, setup, shared: Arc::clone(&shared) };
        match self.commands.send(Box::new(attach)).map_err(|mpsc::error::SendError(attach)| *attach) {
            Err(ProcessCommand::Attach { setup, .. }) => Err(setup),
            _ => Ok(shared),
        }
    }

    /// Sends a call that belongs to no session.
    pub(crate) async fn call(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: Value,
        max_line_bytes: usize,
    ) -> Answer {
        let method = method.into();
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let call = Call { key, method, params, max_line_bytes, reply };
        if self.commands.send(Box::new(ProcessCommand::Call(call))).is_err() {
            return Err(Error::session_closed());
        }
        answer.await.unwrap_or(Err(Error::session_closed()))
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Returns whether the process accepts no more sessions.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Acquire) || self.is_over()
    }

    /// Ends the process with the last session, or immediately without a session; with this `close_timeout` if one is
    /// given.
    pub(crate) fn close(&self, timeout: Option<Duration>) {
        drop(self.commands.send(Box::new(ProcessCommand::Close(timeout))));
    }

    /// Returns whether the process has exited.
    pub(crate) fn is_over(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits until the process has exited and was reaped. The error says that it could not be ended.
    pub(crate) async fn until_over(&self) -> Result<()> {
        self.commands.closed().await;
        self.still_running.get().map_or(Ok(()), |error| Err((**error).clone()))
    }

    pub(crate) fn commands(&self) -> mpsc::WeakUnboundedSender<Box<ProcessCommand>> {
        self.commands.downgrade()
    }
}

impl Drop for ProcessHandle {
    /// Marks that no more sessions come.
    fn drop(&mut self) {
        self.close(None);
    }
}
