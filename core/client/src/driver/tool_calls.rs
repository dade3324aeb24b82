//! Calls of the program's tools that do not come over the connection, on their way to the driver.
#![cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "without the server of the tools nobody calls"))]

use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use crate::wire::{ToolCallRequest, ToolReturnValue};

/// A call of a tool. Dropping `reply` says that it needs no answer: its turn or the session is over.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) request: ToolCallRequest,
    pub(crate) reply: oneshot::Sender<ToolReturnValue>,
}

/// The caller's end.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    calls: mpsc::Sender<ToolCall>,
    left: mpsc::UnboundedSender<String>,
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct ToolCalls {
    calls: mpsc::Receiver<ToolCall>,
    left: mpsc::UnboundedReceiver<String>,
}

/// What comes out of it.
#[derive(Debug)]
pub(crate) enum Next {
    Call(ToolCall),
    /// Nobody waits for the answer to this call any more.
    Left(String),
}

/// One call waits for the driver; the others wait for that one. So they hold up the agent as its own requests do.
pub(crate) fn channel() -> (Caller, ToolCalls) {
    let (calls, receiver) = mpsc::channel(1);
    let (left, left_receiver) = mpsc::unbounded_channel();
    (Caller { calls, left }, ToolCalls { calls: receiver, left: left_receiver })
}

impl Caller {
    /// Calls a tool. `None` where the call's turn or the session came to its end; dropped, it stops the tool.
    pub(crate) async fn call(&self, request: ToolCallRequest) -> Option<ToolReturnValue> {
        let id = request.id.clone();
        let (reply, answer) = oneshot::channel();
        self.calls.send(ToolCall { request, reply }).await.ok()?;
        let mut waiting = Waiting { answer: Some(answer), id, left: &self.left };
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
    left: &'a mpsc::UnboundedSender<String>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Closed first: whoever takes the call after it was left sees so.
        if self.answer.take().is_some() {
            drop(self.left.send(std::mem::take(&mut self.id)));
        }
    }
}

impl ToolCalls {
    /// The next one; calls only where there is room for what they bring. Who has left is heard of first.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, room: bool) -> Poll<Next> {
        if let Poll::Ready(Some(id)) = self.left.poll_recv(cx) {
            return Poll::Ready(Next::Left(id));
        }
        while room && let Poll::Ready(Some(call)) = self.calls.poll_recv(cx) {
            if !call.reply.is_closed() {
                return Poll::Ready(Next::Call(call));
            }
        }
        Poll::Pending
    }
}
