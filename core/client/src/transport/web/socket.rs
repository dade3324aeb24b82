//! The server's WebSocket: connecting, reading, closing, and connecting again after it broke.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Sink as _, Stream as _};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::Upgraded;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message, Utf8Bytes};

use super::lines::Frame;
use super::{Limits, MAX_MESSAGE_BYTES, Target};
use crate::error::{Error, Result};

/// The version of the event stream that this SDK reads.
const PROTOCOL_VERSION: i64 = 2;
/// The limit of pending output, in bytes. The SDK's frames are small, and each awaits an answer.
const MAX_UNWRITTEN: usize = 4 << 20;
/// How long the server may take to answer the closing handshake.
const CLOSE: Duration = Duration::from_millis(500);
/// The time between two pings of a server that does not name it.
const HEARTBEAT: Duration = Duration::from_secs(10);
const MAX_HEARTBEAT: Duration = Duration::from_secs(3600);
/// The pause before the second attempt to connect. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Why the socket cannot be connected.
#[derive(Debug)]
pub(super) enum NoSocket {
    /// It may be possible later.
    Unreachable(String),
    /// The server is incompatible.
    Refused(Error),
}

/// A connected WebSocket.
pub(super) struct Socket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    unsent: VecDeque<Message>,
    is_flushed: bool,
    /// The time between two pings of the server.
    heartbeat: Duration,
}

impl Socket {
    /// Connects to a server that has just started.
    pub(super) async fn first(target: &Target, limits: &Limits) -> Result<Self> {
        match Self::connect(target, limits.connect).await {
            Ok(socket) => Ok(socket),
            Err(NoSocket::Refused(error)) => Err(error),
            Err(NoSocket::Unreachable(reason)) => {
                Err(Error::Handshake(format!("the WebSocket of the agent's server can't be opened: {reason}")))
            }
        }
    }

    /// Connects, and waits for the server's greeting.
    async fn connect(target: &Target, limit: Duration) -> std::result::Result<Self, NoSocket> {
        let connected = tokio::time::timeout(limit, Self::greeted(target)).await;
        connected.unwrap_or_else(|_| Err(NoSocket::Unreachable(format!("the server did not answer within {limit:?}"))))
    }

    async fn greeted(target: &Target) -> std::result::Result<Self, NoSocket> {
        let unreachable = |error: &dyn std::fmt::Display| NoSocket::Unreachable(error.to_string());
        let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, target.port)).await.map_err(|error| unreachable(&error))?;
        tcp.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(tcp)).await.map_err(|error| unreachable(&error))?;
        tokio::spawn(connection.with_upgrades());
        // Written here, because the handshake of the WebSocket library would log the secret.
        let key = generate_key();
        let request = Request::get("/api/v1/ws")
            .header(HOST, format!("127.0.0.1:{}", target.port))
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .header(AUTHORIZATION, target.authorization.clone())
            .body(Empty::<Bytes>::new())
            .map_err(|error| unreachable(&error))?;
        let response = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(format!("it answers with HTTP status {}", response.status())));
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accepted| accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(refused("it opens no WebSocket".to_owned()));
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(|error| unreachable(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES))
            .max_write_buffer_size(MAX_UNWRITTEN);
        let stream = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await;
        let mut socket = Self { stream, unsent: VecDeque::new(), is_flushed: true, heartbeat: HEARTBEAT };
        let text = socket.next().await.map_err(NoSocket::Unreachable)?;
        match Frame::read(&text) {
            Some(Frame::Hello { protocol_version: Some(PROTOCOL_VERSION), heartbeat }) => {
                socket.heartbeat = heartbeat.unwrap_or(HEARTBEAT).min(MAX_HEARTBEAT);
                Ok(socket)
            }
            Some(Frame::Hello { protocol_version: Some(other), .. }) => {
                Err(refused(format!("its events have version {other}, and this SDK reads version {PROTOCOL_VERSION}")))
            }
            _ => Err(refused("its first frame is no `server_hello` with a version".to_owned())),
        }
    }

    /// How long a server that sends heartbeats may be silent on this socket.
    pub(super) fn silence(&self, limits: &Limits) -> Duration {
        (self.heartbeat * 7 / 2).max(limits.silence)
    }

    /// Queues a text. [`Socket::next`] writes it.
    pub(super) fn send(&mut self, text: String) {
        self.unsent.push_back(Message::text(text));
    }

    /// Waits for the next text, and writes meanwhile. The error says how the socket broke. Cancel-safe.
    pub(super) async fn next(&mut self) -> std::result::Result<Utf8Bytes, String> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<Utf8Bytes, String>> {
        loop {
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                return Poll::Ready(Err(error.to_string()));
            }
            let message = ready!(Pin::new(&mut self.stream).poll_next(cx));
            match message {
                Some(Ok(Message::Text(text))) => return Poll::Ready(Ok(text)),
                Some(Ok(Message::Close(Some(reason)))) => {
                    return Poll::Ready(Err(format!("the server closed it: {reason}")));
                }
                Some(Ok(Message::Close(None))) | None => return Poll::Ready(Err("the server closed it".to_owned())),
                // The library answers pings.
                Some(Ok(_)) => self.is_flushed = false,
                Some(Err(error)) => return Poll::Ready(Err(error.to_string())),
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<(), WebSocketError>> {
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

    /// Closes it. When this returns, the connection is closed.
    pub(super) async fn close(mut self) {
        let closed = async {
            drop(poll_fn(|cx| self.poll_send(cx)).await);
            drop(self.stream.close(None).await);
            while self.next().await.is_ok() {}
        };
        drop(tokio::time::timeout(CLOSE, closed).await);
    }
}

fn refused(why: String) -> NoSocket {
    NoSocket::Refused(Error::Handshake(format!(
        "the agent's server can't be used: {why}; `dialect` \"kimi-web\" is for Kimi Code only, whose API is experimental: use \
         `dialect` \"acp\" with this release"
    )))
}

type Attempt = Pin<Box<dyn Future<Output = std::result::Result<Socket, NoSocket>> + Send>>;

/// A socket that broke and is being connected again.
pub(super) struct Reconnecting {
    target: Target,
    limit: Duration,
    until: Instant,
    pause: Duration,
    attempt: Attempt,
    /// The reason why the socket broke.
    reason: String,
}

impl Reconnecting {
    pub(super) fn new(target: &Target, limits: &Limits, reason: String) -> Self {
        tracing::info!(reason, "the connection to the agent's server broke");
        let target = target.clone();
        let attempt = attempt(target.clone(), limits.connect, Duration::ZERO);
        let until = Instant::now() + limits.reconnect;
        Self { target, limit: limits.connect, until, pause: FIRST_PAUSE, attempt, reason }
    }

    /// Waits for the socket. Cancel-safe.
    ///
    /// # Errors
    /// Fails if it cannot be connected in time, or if the server is incompatible.
    pub(super) async fn socket(&mut self) -> Result<Socket> {
        loop {
            let tried = tokio::time::timeout_at(self.until, &mut self.attempt).await;
            let reason = match tried {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(NoSocket::Refused(error))) => return Err(error),
                Ok(Err(NoSocket::Unreachable(reason))) => reason,
                Err(_) => "the server does not answer".to_owned(),
            };
            if Instant::now() + self.pause >= self.until {
                return Err(Error::Protocol(format!(
                    "the connection to the agent's server broke ({}) and can't be had again: {reason}. The session is closed; \
                     open a new one with `session_id` to continue the conversation",
                    self.reason
                ).into()));
            }
            self.attempt = attempt(self.target.clone(), self.limit, self.pause);
            self.pause = (2 * self.pause).min(LAST_PAUSE);
        }
    }
}

fn attempt(target: Target, limit: Duration, pause: Duration) -> Attempt {
    Box::pin(async move {
        tokio::time::sleep(pause).await;
        Socket::connect(&target, limit).await
    })
}
