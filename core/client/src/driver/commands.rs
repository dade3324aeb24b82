//! What the program asks of a process and of its sessions, and the handle by which it does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};

use super::event_channel::EventChannel;
use super::session::SessionSetup;
use super::shared::Shared;
use crate::connection::{ManualAnswer, RequestRef, TurnKey, TurnLimits};
use crate::endpoint::ConnectionKey;
use crate::error::{Error, Result};
use crate::wire::jsonrpc::RpcFailure;
use crate::wire::{Content, HandlerKind, Json};

/// The agent's answer to a one-off call, or why there is none.
pub(crate) type Answer = Result<std::result::Result<Json, RpcFailure>>;

/// What the handles of a process ask of its task. Small, because the channel has room for 32 of them in each process.
pub(crate) enum ProcessCommand {
    /// Opens a session.
    Attach {
        key: ConnectionKey,
        setup: Box<SessionSetup>,
        shared: Arc<Shared>,
    },
    Session(ConnectionKey, Box<Command>),
    Call(Box<Call>),
    /// Closes the process with its last session; with a `close_timeout` of its own, if one is given.
    Close(Option<Duration>),
    Kill,
}

/// A call of no session.
pub(crate) struct Call {
    pub(super) key: ConnectionKey,
    pub(super) method: &'static str,
    pub(super) params: Value,
    pub(super) max_line_bytes: usize,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// What the handles of a session ask of its driver.
#[derive(Debug)]
pub(crate) enum Command {
    Prompt {
        turn: TurnKey,
        channel: Arc<EventChannel>,
        input: Content,
        limits: TurnLimits,
    },
    Cancel {
        turn: TurnKey,
    },
    Steer {
        turn: TurnKey,
        input: Content,
        reply: oneshot::Sender<Result<()>>,
    },
    SetPlanMode {
        on: bool,
        reply: oneshot::Sender<Result<()>>,
    },
    Replay {
        channel: Arc<EventChannel>,
    },
    Respond {
        request: RequestRef,
        answer: Box<ManualAnswer>,
        reply: oneshot::Sender<Result<()>>,
    },
    /// The agent turned out to speak this.
    Assume {
        dialect: Box<dyn crate::dialect::Dialect>,
    },
    ObserverFailed {
        kind: HandlerKind,
        message: String,
    },
    /// Closes the session; with a `close_timeout` of its own, if one is given.
    Close(Option<Duration>),
    Kill,
}

impl Command {
    /// The session is over: the caller hears why.
    pub(super) fn fail(self, error: &Error) {
        match self {
            Self::Prompt { channel, .. } | Self::Replay { channel } => channel.finish(Err(error.clone())),
            Self::Steer { reply, .. } | Self::SetPlanMode { reply, .. } | Self::Respond { reply, .. } => {
                drop(reply.send(Err(error.clone())));
            }
            _ => {}
        }
    }
}

/// The way to the task of a process. Dropped with all of its sessions, it ends the process.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    commands: mpsc::UnboundedSender<ProcessCommand>,
    pub(super) bell: Arc<Notify>,
    next_key: AtomicU64,
    pid: Option<u32>,
    pub(super) spent: Arc<AtomicBool>,
    pub(super) still_running: Arc<OnceLock<Error>>,
}

impl ProcessHandle {
    pub(super) fn new(commands: mpsc::UnboundedSender<ProcessCommand>, pid: Option<u32>) -> Self {
        Self {
            commands,
            bell: Arc::default(),
            next_key: AtomicU64::new(0),
            pid,
            spent: Arc::default(),
            still_running: Arc::default(),
        }
    }

    /// Opens a session in the process. Gives the setup back if the process is gone, or about to be.
    pub(crate) fn attach(
        &self,
        setup: Box<SessionSetup>,
        event_buffer_bytes: usize,
    ) -> std::result::Result<Arc<Shared>, Box<SessionSetup>> {
        if self.is_spent() {
            return Err(setup);
        }
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared::new(event_buffer_bytes, key, self.commands.clone(), Arc::clone(&self.bell)));
        match self.commands.send(ProcessCommand::Attach { key, setup, shared: Arc::clone(&shared) }) {
            Ok(()) => Ok(shared),
            Err(mpsc::error::SendError(ProcessCommand::Attach { setup, .. })) => Err(setup),
            Err(_) => Ok(shared),
        }
    }

    /// Calls the agent, for no session.
    pub(crate) async fn call(&self, method: &'static str, params: Value, max_line_bytes: usize) -> Answer {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let call = Call { key, method, params, max_line_bytes, reply };
        if self.commands.send(ProcessCommand::Call(Box::new(call))).is_err() {
            return Err(Error::SessionClosed);
        }
        answer.await.unwrap_or(Err(Error::SessionClosed))
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Whether no session can be opened in it any more.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Acquire) || self.is_over()
    }

    /// The process ends with the last session, or at once if there is none; with a `close_timeout` of its own, if one is
    /// given.
    pub(crate) fn close(&self, timeout: Option<Duration>) {
        drop(self.commands.send(ProcessCommand::Close(timeout)));
    }

    /// Whether the process is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits until the process is gone and reaped. The error says that it could not be ended.
    pub(crate) async fn until_over(&self) -> Result<()> {
        self.commands.closed().await;
        self.still_running.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(crate) fn commands(&self) -> mpsc::WeakUnboundedSender<ProcessCommand> {
        self.commands.downgrade()
    }
}

impl Drop for ProcessHandle {
    /// No more sessions come.
    fn drop(&mut self) {
        self.close(None);
    }
}
