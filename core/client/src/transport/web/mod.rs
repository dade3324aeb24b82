//! The gateway to Kimi Code's own server, `kimi web`: the driver reads and writes lines of JSON-RPC, the server uses
//! HTTP and one WebSocket on loopback. The gateway does not know sessions or turns.
//!
//! | file | |
//! | --- | --- |
//! | `banner` | the port that the server prints |
//! | `http` | calls and uploads |
//! | `lines` | the lines: calls of the driver, answers and frames for it |
//! | `process` | the server's process, whose end begins with the socket |
//! | `relay` | the task between the lines and the server |
//! | `socket` | the WebSocket, and how it is had again |

mod banner;
mod http;
mod lines;
mod process;
mod relay;
mod socket;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};

use super::{Transport, outbox, poll_read_some};
use crate::error::{Error, Result};
use crate::transport::launch::Server;
use crate::transport::outbox::Outbox;
use process::{ServerProcess, Stage};
use relay::Relay;

/// The limit of an answer, and of a frame, in bytes. The driver has a limit of its own, `max_line_bytes`.
const MAX_MESSAGE_BYTES: usize = 256 << 20;
/// The capacity of the pipe to the gateway, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// The deadlines and limits for a server.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// How long an attempt to connect the WebSocket may take.
    pub(super) connect: Duration,
    /// How long a broken WebSocket may stay disconnected.
    pub(super) reconnect: Duration,
    /// How long a server that sends heartbeats may be silent at least, even if its heartbeat is shorter.
    pub(super) silence: Duration,
    /// How long a call may take.
    pub(super) call: Duration,
    /// How long pending calls may take when the gateway ends.
    pub(super) finish: Duration,
    /// The limit of bytes that wait for the driver. The socket is not read while more wait.
    pub(super) unread: usize,
    /// How long more may wait. The driver always reads a server, but late if the machine is busy.
    pub(super) stalled: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            reconnect: Duration::from_secs(30),
            silence: Duration::from_secs(3),
            call: Duration::from_secs(120),
            finish: Duration::from_secs(1),
            unread: 16 << 20,
            stalled: Duration::from_secs(30),
        }
    }
}

/// The address of the server, and its secret.
#[derive(Clone)]
pub(super) struct Target {
    port: u16,
    authorization: HeaderValue,
}

impl Target {
    fn new(port: u16, secret: &str) -> Result<Self> {
        let mut authorization = HeaderValue::try_from(format!("Bearer {secret}"))
            .map_err(|_| Error::Internal("the server's secret is no value of a header".to_owned()))?;
        authorization.set_sensitive(true);
        Ok(Self { port, authorization })
    }
}

/// Puts the gateway between the driver and a server that was started. The driver may write before the server is ready.
pub(super) fn connect(server: &Server, started: Transport) -> Transport {
    connect_with(server, started, Limits::default())
}

fn connect_with(server: &Server, started: Transport, limits: Limits) -> Transport {
    let Transport { reader: stdout, writer: stdin, process, .. } = started;
    let (lines, writer) = tokio::io::duplex(PIPE_BYTES);
    let (outbox, reader) = outbox::channel(limits.unread);
    let (stage, watched) = watch::channel(Stage::Running);
    let (closed, socket_closed) = oneshot::channel();
    let gateway = Gateway { secret: server.secret.clone(), limits, stdout, stdin, stage: watched };
    tokio::spawn(async move {
        let outcome = gateway.run(lines, &outbox).await;
        if let Err(error) = &outcome {
            tracing::warn!(%error, "the gateway to the agent's server failed");
        }
        let _ = closed.send(());
        outbox.end(outcome.err());
    });
    Transport {
        reader: Box::new(reader),
        writer: Box::new(writer),
        process: Box::new(ServerProcess::new(process, stage, socket_closed)),
        paths: Default::default(),
    }
}

struct Gateway {
    secret: String,
    limits: Limits,
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Kept open, because the server might react to the end of its input.
    stdin: Box<dyn AsyncWrite + Send + Unpin>,
    stage: watch::Receiver<Stage>,
}

impl Gateway {
    /// Runs until the driver, the server or the connection to it ends.
    async fn run(self, lines: impl AsyncRead + Unpin, outbox: &Outbox) -> Result<()> {
        let Self { secret, limits, mut stdout, stdin, mut stage } = self;
        let start = async {
            let port = banner::port(&mut stdout).await?;
            let Some(port) = port else { return Ok(None) };
            let target = Target::new(port, &secret)?;
            let socket = socket::Socket::first(&target, &limits).await?;
            Ok::<_, Error>(Some((target, socket)))
        };
        // Without a limit of its own: the handshake of each session has one, and the last of them ends the process.
        let started = tokio::select! {
            started = start => started,
            () = process::ended(&mut stage) => return Ok(()),
        };
        let Some((target, socket)) = started? else {
            // The server's output has ended, so the process is about to exit. Its exit status is the reason.
            process::ended(&mut stage).await;
            return Ok(());
        };
        // Read and dropped, so that the server does not block on its further output.
        let drain = tokio::spawn(async move { tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await });
        let ended = {
            let relay = Relay::new(&target, secret, socket, limits, lines, outbox, stage.clone());
            relay.run(&mut stage).await
        };
        drain.abort();
        drop(stdin);
        ended
    }
}

/// Reads at most this many bytes; 0 is the end. Cancel-safe.
async fn read_some<const N: usize>(
    reader: &mut (impl AsyncRead + Unpin),
    mut take: impl FnMut(&[u8]),
) -> io::Result<usize> {
    poll_fn(|cx| poll_read_some::<N>(reader, &mut take, cx)).await
}
