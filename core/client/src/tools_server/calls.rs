//! The channel that brings calls of the program's tools from the server to the driver.
#![cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "without the server of the tools nobody calls"))]

use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use crate::messages::{ToolCallRequest, ToolReturnValue};
use crate::tool_context::ProgressSender;

/// A call of a tool. If `reply` is dropped, it needs no answer, because its turn or the session has ended.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) request: ToolCallRequest,
    pub(crate) reply: oneshot::Sender<ToolReturnValue>,
    /// Takes the reports of the handler.
    pub(crate) progress: ProgressSender,
}

/// The server's end of the channel.
#[derive(Clone, Debug)]
pub(crate) struct CallSender {
    calls: mpsc::Sender<ToolCall>,
    cancelled: mpsc::UnboundedSender<String>,
}

/// The driver's end of the channel.
#[derive(Debug)]
pub(crate) struct CallReceiver {
    calls: mpsc::Receiver<ToolCall>,
    cancelled: mpsc::UnboundedReceiver<String>,
}

/// An event for the driver.
#[derive(Debug)]
pub(crate) enum CallEvent {
    Call(ToolCall),
    /// The caller of the call with this id no longer waits.
    Cancelled(String),
}

/// Makes the channel. It has capacity for one call, so that callers wait for a slow driver.
pub(crate) fn channel() -> (CallSender, CallReceiver) {
    let (calls, receiver) = mpsc::channel(1);
    let (cancelled, cancelled_receiver) = mpsc::unbounded_channel();
    (CallSender { calls, cancelled }, CallReceiver { calls: receiver, cancelled: cancelled_receiver })
}

impl CallSender {
    /// Calls a tool, whose reports go to `progress`. Returns `None` if the call's turn or the session has ended. Dropping the
    /// future cancels the call.
    pub(crate) async fn call(&self, request: ToolCallRequest, progress: ProgressSender) -> Option<ToolReturnValue> {
        let id = request.id.clone();
        let (reply, answer) = oneshot::channel();
        self.calls.send(ToolCall { request, reply, progress }).await.ok()?;
        let mut waiting = Waiting { answer: Some(answer), id, cancelled: &self.cancelled };
        let outcome = match &mut waiting.answer {
            Some(answer) => answer.await,
            None => return None,
        };
        waiting.answer = None;
        outcome.ok()
    }
}

struct Waiting<'a> {
    answer: Option<oneshot::Receiver<ToolReturnValue>>,
    id: String,
    cancelled: &'a mpsc::UnboundedSender<String>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // The reply is closed first, so that the driver does not start a cancelled call.
        if self.answer.take().is_some() {
            drop(self.cancelled.send(std::mem::take(&mut self.id)));
        }
    }
}

impl CallReceiver {
    /// Returns the next event, cancellations first. Returns calls only if `has_capacity`.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, has_room: bool) -> Poll<CallEvent> {
        if let Poll::Ready(Some(id)) = self.cancelled.poll_recv(cx) {
            return Poll::Ready(CallEvent::Cancelled(id));
        }
        while has_room && let Poll::Ready(Some(call)) = self.calls.poll_recv(cx) {
            if !call.reply.is_closed() {
                return Poll::Ready(CallEvent::Call(call));
            }
        }
        Poll::Pending
    }
}
