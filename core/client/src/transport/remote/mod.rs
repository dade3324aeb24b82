//! An agent that is reached over the network: ACP over WebSocket, or over HTTP with server-sent events, as the transport proposal of
//! the protocol says. The driver reads and writes lines; each line is a message.
//!
//! | file | |
//! | --- | --- |
//! | `address` | the URL and the headers |
//! | `client` | requests of HTTP, with cookies |
//! | `connector` | connections: TLS with the roots of the system, and proxies |
//! | `failure` | the texts of errors |
//! | `http` | messages over HTTP |
//! | `message` | the parts of a message that HTTP needs |
//! | `process` | what the driver has instead of a process |
//! | `socket` | messages over a WebSocket |
//! | `stream` | server-sent events |

mod address;
mod client;
mod connector;
mod failure;
mod http;
mod message;
mod process;
mod socket;
mod stream;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::sync::{oneshot, watch};

use super::launch::Target;
use super::outbox::{self, Outbox};
use super::{Transport, poll_read_some};
use crate::error::{Error, Result};
use crate::jsonrpc::framing::LineBuffer;
pub(crate) use address::Address;
use http::HttpLink;
use kimi_agent_protocol::place::PathMap;
use process::RemoteProcess;
use socket::SocketLink;

/// The capacity of the pipe to the connection, in bytes.
const PIPE_BYTES: usize = 64 << 10;
const CHUNK: usize = 16 << 10;

/// The deadlines and limits of a connection.
#[derive(Clone, Debug)]
struct Limits {
    /// The limit of bytes that wait for the driver. The connection is not read while more wait.
    unread: usize,
    /// After this time without a message, the agent is asked whether it is there.
    ping: Duration,
    /// How long the agent may be silent.
    silence: Duration,
    /// How long the server may take to answer the end of a connection.
    close: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unread: 4 << 20,
            ping: Duration::from_secs(15),
            silence: Duration::from_secs(45),
            close: Duration::from_secs(2),
        }
    }
}

/// How a connection ended.
#[derive(Debug)]
enum End {
    /// The driver ended it.
    Closed,
    /// The reason is a part of a sentence.
    Lost(String),
    /// The agent violated the protocol.
    Failed(Error),
}

/// Connects to an agent.
///
/// # Errors
/// [`Error::Spawn`] if there is no connection, [`Error::Timeout`] if it takes too long.
pub(super) async fn connect(target: Target, paths: Option<PathMap>) -> Result<Transport> {
    connect_with(target, paths, Limits::default()).await
}

async fn connect_with(target: Target, paths: Option<PathMap>, limits: Limits) -> Result<Transport> {
    let limit = target.connect_timeout;
    let address = Address::new(&target.url, &target.headers).map_err(Error::Spawn)?;
    let connecting = Link::connect(&address, target.max_message_bytes, limits.clone());
    let link = tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| {
        Err(Error::Timeout(
            format!(
                "can't reach the agent at {address}: no answer within {limit:?}; check the address and the network, or raise \
                 `handshake_timeout`"
            )
            .into(),
        ))
    })?;
    tracing::debug!(address = %address, "agent connected");
    if address.sends_secrets_in_plain_text() {
        tracing::warn!(address = %address, "headers are sent in plain text; use the scheme `wss` or `https`");
    }
    let (input, writer) = tokio::io::duplex(PIPE_BYTES);
    let (outbox, reader) = outbox::channel(limits.unread);
    let (stop, stopped) = watch::channel(false);
    let (ended, cause) = oneshot::channel();
    let run = async move {
        let input = Input { pipe: input, lines: LineBuffer::new(usize::MAX), has_ended: false };
        let (failed, reason) = match link.run(input, &outbox, stopped).await {
            End::Closed => (None, None),
            End::Lost(reason) => (None, Some(reason)),
            End::Failed(error) => (Some(error), None),
        };
        drop(ended.send(reason));
        outbox.end(failed);
    };
    let task = tokio::spawn(run).abort_handle();
    let process = Box::new(RemoteProcess::new(address.to_string(), cause, stop, task));
    Ok(Transport { reader: Box::new(reader), writer: Box::new(writer), process, paths })
}

enum Link {
    Socket(Box<SocketLink>),
    Http(Box<HttpLink>),
}

impl Link {
    async fn connect(address: &Address, max_message_bytes: usize, limits: Limits) -> Result<Self> {
        Ok(match address.is_socket {
            true => Self::Socket(Box::new(SocketLink::connect(address, max_message_bytes, limits).await?)),
            false => Self::Http(Box::new(HttpLink::connect(address, max_message_bytes, limits).await?)),
        })
    }

    async fn run(self, input: Input<impl AsyncRead + Unpin>, outbox: &Outbox, stopped: watch::Receiver<bool>) -> End {
        match self {
            Self::Socket(link) => link.run(input, outbox, stopped).await,
            Self::Http(link) => link.run(input, outbox, stopped).await,
        }
    }
}

/// The lines of the driver.
struct Input<R> {
    pipe: R,
    lines: LineBuffer,
    has_ended: bool,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// Returns the next line that was read, without its end. Blank lines are skipped.
    fn next(&mut self) -> Option<String> {
        while let Ok(Some(line)) = self.lines.next_line() {
            if !line.trim_ascii().is_empty() {
                return Some(String::from_utf8_lossy(line).into_owned());
            }
        }
        self.lines.release();
        None
    }

    /// Reads some bytes. Cancel-safe.
    async fn read(&mut self) {
        let lines = &mut self.lines;
        let read = poll_fn(|cx| poll_read_some::<CHUNK>(&mut self.pipe, |bytes| lines.extend(bytes), cx)).await;
        self.has_ended = !matches!(read, Ok(count) if count > 0);
    }
}

/// Passes a message to the driver as one line. Line ends in JSON are only between its values, where a space has the same meaning.
fn deliver(outbox: &Outbox, message: &str) {
    let mut line = message.as_bytes().to_vec();
    if line.trim_ascii().is_empty() {
        return;
    }
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &line) {
        line[at] = b' ';
    }
    line.push(b'\n');
    outbox.push(&line);
}

/// Makes the error for a message over the limit.
fn too_long(size: usize, limit: usize) -> Error {
    Error::Protocol(
        format!(
            "the agent sent a message of {size} bytes or more, and `max_line_bytes` allows {limit}. The session is closed; raise \
             `max_line_bytes`, and open a new one with the same `session_id` to continue the conversation"
        )
        .into(),
    )
}
