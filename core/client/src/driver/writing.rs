//! What is written to the agent, and what becomes of the pipe.

use std::future::poll_fn;
use std::io::{ErrorKind, Result};
use std::pin::Pin;
use std::task::Poll;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;

use super::{Driver, now};

impl Driver {
    /// Writes what the pipe takes without waiting, before anything else is looked at. Nothing is lost if it takes none.
    pub(super) async fn write_at_once(&mut self) -> Option<Result<usize>> {
        let (writer, bytes) = (&mut self.transport.writer, &self.unwritten);
        if bytes.is_empty() {
            return None;
        }
        poll_fn(|cx| match Pin::new(&mut *writer).poll_write(cx, bytes) {
            Poll::Ready(written) => Poll::Ready(Some(written)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Some of it was written, or that failed.
    pub(super) fn written(&mut self, written: Result<usize>) {
        match written {
            Ok(0) => self.cannot_write(&ErrorKind::WriteZero.into()),
            Ok(n) => self.has_written(n),
            Err(error) => self.cannot_write(&error),
        }
    }

    fn has_written(&mut self, n: usize) {
        self.unwritten.advance(n);
        self.deaf = None;
        self.shutdown.heard(now());
        if self.unwritten.is_empty() {
            self.largest = 0;
            // What was large once must not stay so.
            self.unwritten = BytesMut::new();
        }
    }

    /// An agent that hears nothing any more is as good as gone.
    fn cannot_write(&mut self, error: &std::io::Error) {
        tracing::debug!(%error, "the agent's input can't be written");
        self.shutdown.output_ended(now());
        self.stop_writing();
    }

    /// Closes the pipe: the agent sees the end of its input.
    pub(super) fn stop_writing(&mut self) {
        self.unwritten.clear();
        self.largest = 0;
        self.transport.writer = Box::new(tokio::io::sink());
    }
}
