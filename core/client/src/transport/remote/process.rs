//! What the driver has instead of a process: the task of the connection. Its end is the agent's exit.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::error::{AgentExit, CONNECTION};
use crate::transport::{Exit, Process, ProcessFuture};

pub(super) struct RemoteProcess {
    address: String,
    /// Resolves at the end of the connection, with the reason if it was lost.
    ended: Option<oneshot::Receiver<Option<String>>>,
    reason: Option<String>,
    stop: watch::Sender<bool>,
    task: AbortHandle,
}

impl RemoteProcess {
    pub(super) fn new(
        address: String,
        ended: oneshot::Receiver<Option<String>>,
        stop: watch::Sender<bool>,
        task: AbortHandle,
    ) -> Self {
        Self { address, ended: Some(ended), reason: None, stop, task }
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        // The task ends the connection, so that the server ends the agent at once.
        self.stop.send_replace(true);
    }
}

impl Process for RemoteProcess {
    fn pid(&self) -> Option<u32> {
        None
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        if let Some(ended) = &mut self.ended {
            // The task that was aborted has no reason.
            self.reason = ready!(Pin::new(ended).poll(cx)).unwrap_or_default();
            self.ended = None;
        }
        Poll::Ready(Exit::default())
    }

    /// Closes the connection. The server ends the agent.
    fn terminate(&mut self) {
        self.stop.send_replace(true);
    }

    fn interrupt(&mut self) {
        self.terminate();
    }

    fn kill(&mut self) {
        self.task.abort();
    }

    fn stderr_tail(&self) -> String {
        String::new()
    }

    fn release(&mut self) {}

    fn explain(&self, _exit: &AgentExit) -> Option<String> {
        self.reason.as_ref().map(|reason| format!("{CONNECTION}at {} ended: {reason}", self.address))
    }

    fn stderr_done(&mut self) -> ProcessFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
