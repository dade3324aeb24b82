//! The server's WebSocket: connecting, reading, closing, and connecting again after it broke.

use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::lines::Frame;
use super::{Limits, MAX_MESSAGE_BYTES, Target};
use crate::error::{Error, Result};
use crate::transport::websocket::{Event, Opening, READ_BUFFER, WebSocket};

/// The version of the event stream that this SDK reads.
const PROTOCOL_VERSION: i64 = 2;
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
    socket: WebSocket,
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
        let client = http1::Builder::new().read_buf_exact_size(Some(READ_BUFFER)).handshake(TokioIo::new(tcp));
        let (mut sender, connection) = client.await.map_err(|error| unreachable(&error))?;
        tokio::spawn(connection.with_upgrades());
        let opening = Opening::new();
        let request = Request::get("/api/v1/ws")
            .header(HOST, format!("127.0.0.1:{}", target.port))
            .header(AUTHORIZATION, target.authorization.clone());
        let request = opening.headers(request).body(Empty::<Bytes>::new()).map_err(|error| unreachable(&error))?;
        let response = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(format!("it answers with HTTP status {}", response.status())));
        }
        if !opening.is_accepted(&response) {
            return Err(refused("it opens no WebSocket".to_owned()));
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(|error| unreachable(&error))?;
        let socket = WebSocket::new(upgraded, MAX_MESSAGE_BYTES).await;
        let mut socket = Self { socket, heartbeat: HEARTBEAT };
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
        self.socket.send(text);
    }

    /// Waits for the next text, and writes meanwhile. The error says how the socket broke. Cancel-safe.
    pub(super) async fn next(&mut self) -> std::result::Result<Utf8Bytes, String> {
        loop {
            match self.socket.next(true).await {
                Ok(Event::Text(text)) => return Ok(text),
                Ok(Event::Other | Event::Sent) => {}
                Err(ended) => return Err(ended.to_string()),
            }
        }
    }

    /// Closes it. When this returns, the connection is closed.
    pub(super) async fn close(self) {
        self.socket.close(CLOSE).await;
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
