//! The process of a server. It does not exit while a WebSocket is open, so the gateway closes the WebSocket first. Then
//! the process gets INT: a later TERM, such as the one at the end of this program, has no effect then. A second TERM
//! would end the server without its tools.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::transport::{Exit, Process, ProcessFuture, SERVER_END_GRACE};

/// The state of the process's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    /// The gateway has to close the socket, because the process must end.
    Stopping,
    Exited,
}

/// Waits until the process must end, or has ended.
pub(super) async fn ended(stage: &mut watch::Receiver<Stage>) {
    drop(stage.wait_for(|stage| *stage != Stage::Running).await);
}

pub(super) struct ServerProcess {
    child: Box<dyn Process>,
    stage: watch::Sender<Stage>,
    socket_closed: oneshot::Receiver<()>,
    /// The signal was sent.
    is_ending: bool,
}

impl ServerProcess {
    pub(super) fn new(
        child: Box<dyn Process>,
        stage: watch::Sender<Stage>,
        socket_closed: oneshot::Receiver<()>,
    ) -> Self {
        Self { child, stage, socket_closed, is_ending: false }
    }
}

impl Process for ServerProcess {
    fn pid(&self) -> Option<u32> {
        self.child.pid()
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        if !self.is_ending && Pin::new(&mut self.socket_closed).poll(cx).is_ready() {
            self.is_ending = true;
            self.child.interrupt();
        }
        let exit = ready!(self.child.poll_exit(cx));
        self.is_ending = true;
        self.stage.send_replace(Stage::Exited);
        Poll::Ready(exit)
    }

    /// Makes the gateway close the socket. Then [`Process::poll_exit`] sends the signal.
    fn terminate(&mut self) {
        self.stage.send_if_modified(|stage| {
            let is_running = *stage == Stage::Running;
            if is_running {
                *stage = Stage::Stopping;
            }
            is_running
        });
    }

    fn interrupt(&mut self) {
        self.terminate();
    }

    fn end_grace(&self) -> Duration {
        if self.is_ending { self.child.end_grace() } else { SERVER_END_GRACE }
    }

    fn kill(&mut self) {
        self.is_ending = true;
        self.child.kill();
    }

    fn stderr_tail(&self) -> String {
        self.child.stderr_tail()
    }

    fn release(&mut self) {
        self.child.release();
    }

    fn has_stderr_handler(&self) -> bool {
        self.child.has_stderr_handler()
    }

    fn stderr_done(&mut self) -> ProcessFuture<'_, ()> {
        self.child.stderr_done()
    }

    fn waits_for_reader(&self) -> bool {
        false
    }
}
