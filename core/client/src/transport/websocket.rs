//! A WebSocket of a client: the opening handshake, and messages in both directions.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Sink as _, Stream as _};
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::http::request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message, Utf8Bytes};

/// The limit of output that the library holds, in bytes. A larger message is written in full.
const MAX_UNWRITTEN: usize = 4 << 20;
/// How much of HTTP is read at once, in bytes, and the limit of the head of an answer. A connection reads at most 128 times before other
/// tasks run (tokio's cooperative budget), and works through all interim answers (1xx) of what it has read.
pub(super) const READ_BUFFER: usize = 16 << 10;

/// A request that opens a WebSocket. Written here, because the handshake of the WebSocket library would log secret headers.
pub(super) struct Opening {
    key: String,
}

impl Opening {
    pub(super) fn new() -> Self {
        Self { key: generate_key() }
    }

    /// Adds the headers of the handshake.
    pub(super) fn headers(&self, request: request::Builder) -> request::Builder {
        request
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &self.key)
    }

    /// Returns whether the answer accepts the handshake.
    pub(super) fn is_accepted(&self, response: &Response<Incoming>) -> bool {
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        accepted.is_some_and(|accepted| accepted.as_bytes() == derive_accept_key(self.key.as_bytes()).as_bytes())
    }
}

/// A connected WebSocket.
pub(super) struct WebSocket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    unsent: VecDeque<Message>,
    is_flushed: bool,
}

/// The next event of a WebSocket.
pub(super) enum Event {
    Text(Utf8Bytes),
    /// A ping, a pong, or a binary message.
    Other,
    /// All messages were sent.
    Sent,
}

/// Why a WebSocket ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The peer closed it, with this code and reason.
    Closed(Option<(u16, String)>),
    /// A message of this size, in bytes, was longer than the limit.
    TooLong(usize),
    Broken(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(None) => f.write_str("the server closed it"),
            Self::Closed(Some((code, reason))) if reason.is_empty() => {
                write!(f, "the server closed it with the code {code}")
            }
            Self::Closed(Some((code, reason))) => write!(f, "the server closed it with the code {code}: {reason}"),
            Self::TooLong(size) => write!(f, "the server sent a message of {size} bytes, which is too long"),
            Self::Broken(reason) => f.write_str(reason),
        }
    }
}

impl From<WebSocketError> for Ended {
    fn from(error: WebSocketError) -> Self {
        use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
        match error {
            WebSocketError::Capacity(CapacityError::MessageTooLong { size, .. }) => Self::TooLong(size),
            WebSocketError::ConnectionClosed | WebSocketError::AlreadyClosed => Self::Closed(None),
            WebSocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                Self::Broken("it ended without a word of the server".to_owned())
            }
            other => Self::Broken(other.to_string()),
        }
    }
}

impl WebSocket {
    /// Takes over a connection whose handshake was accepted. Messages of the peer have at most this many bytes.
    pub(super) async fn new(connection: Upgraded, max_message_bytes: usize) -> Self {
        let config = WebSocketConfig::default()
            .max_message_size(Some(max_message_bytes))
            .max_frame_size(Some(max_message_bytes))
            .max_write_buffer_size(MAX_UNWRITTEN);
        let stream = WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Client, Some(config)).await;
        Self { stream, unsent: VecDeque::new(), is_flushed: true }
    }

    /// Queues a text. [`WebSocket::next`] sends it.
    pub(super) fn send(&mut self, text: impl Into<Utf8Bytes>) {
        self.unsent.push_back(Message::Text(text.into()));
    }

    /// Queues a ping, which the peer answers.
    #[cfg(feature = "remote")]
    pub(super) fn ping(&mut self) {
        self.unsent.push_back(Message::Ping(Default::default()));
    }

    /// Returns whether something waits to be sent, such as the answer to a ping.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || !self.is_flushed
    }

    /// Waits for the next event. Reads nothing unless `may_read`. Cancel-safe.
    ///
    /// # Errors
    /// Returns why the WebSocket ended.
    pub(super) async fn next(&mut self, may_read: bool) -> Result<Event, Ended> {
        poll_fn(|cx| self.poll_next(may_read, cx)).await
    }

    fn poll_next(&mut self, may_read: bool, cx: &mut Context<'_>) -> Poll<Result<Event, Ended>> {
        let had_unsent = self.has_unsent();
        let sent = self.poll_send(cx);
        if let Poll::Ready(sent) = sent {
            sent?;
            if had_unsent {
                return Poll::Ready(Ok(Event::Sent));
            }
        }
        if !may_read {
            return Poll::Pending;
        }
        let message = ready!(Pin::new(&mut self.stream).poll_next(cx));
        Poll::Ready(match message {
            Some(Ok(Message::Text(text))) => Ok(Event::Text(text)),
            Some(Ok(Message::Close(frame))) => {
                Err(Ended::Closed(frame.map(|frame| (frame.code.into(), frame.reason.to_string()))))
            }
            None => Err(Ended::Closed(None)),
            Some(Ok(_)) => {
                // The library answers pings.
                self.is_flushed = false;
                Ok(Event::Other)
            }
            Some(Err(error)) => Err(error.into()),
        })
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WebSocketError>> {
        let mut stream = Pin::new(&mut self.stream);
        while !self.unsent.is_empty() {
            ready!(stream.as_mut().poll_ready(cx))?;
            if let Some(message) = self.unsent.pop_front() {
                stream.as_mut().start_send(message)?;
                self.is_flushed = false;
            }
        }
        if !self.is_flushed {
            ready!(stream.poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Closes it. When this returns, the connection is closed. The peer may take so long to answer.
    pub(super) async fn close(mut self, limit: Duration) {
        let closed = async {
            drop(poll_fn(|cx| self.poll_send(cx)).await);
            drop(self.stream.close(None).await);
            while self.next(true).await.is_ok() {}
        };
        drop(tokio::time::timeout(limit, closed).await);
    }
}
