//! Clients over WebSocket: each message is one text frame. The end of the WebSocket ends the agent.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kimi_agent_client::proxied;
use kimi_agent_protocol::jsonrpc::framing::LineBuffer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

use super::http::{CONNECTION_ID, empty, plain, too_many};
use super::{Body, Client, Guarded, HEARTBEAT, Host, LAST_WORDS, PIPE, STALL};

/// How long the client may take to open the WebSocket, and to close it.
const HANDSHAKE: Duration = Duration::from_secs(10);
const CLOSE: Duration = Duration::from_secs(2);
/// The limit of the reason in a close frame, in bytes.
const MAX_REASON: usize = 123;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Returns whether a request asks for a WebSocket.
pub(super) fn is_upgrade(request: &Request<Incoming>) -> bool {
    has_word(request, UPGRADE, "websocket")
}

fn has_word(request: &Request<Incoming>, name: hyper::header::HeaderName, word: &str) -> bool {
    let values = request.headers().get_all(name);
    let mut words = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    words.any(|other| other.trim().eq_ignore_ascii_case(word))
}

/// Answers a request for a WebSocket, and starts the client's agent when it is open.
pub(super) fn upgrade(host: &Arc<Host>, mut request: Request<Incoming>) -> Response<Body> {
    if request.headers().get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut refused = plain(StatusCode::UPGRADE_REQUIRED, "expected version 13 of WebSocket");
        refused.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return refused;
    }
    let key = request.headers().get(SEC_WEBSOCKET_KEY).filter(|_| has_word(&request, CONNECTION, "upgrade"));
    let accepted = key.and_then(|key| HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok());
    let Some(accepted) = accepted else {
        return plain(StatusCode::BAD_REQUEST, "the request for a WebSocket is incomplete");
    };
    let Some(client) = host.admit() else { return too_many() };
    let mut response = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    if let Ok(id) = HeaderValue::from_str(&client.id) {
        headers.insert(CONNECTION_ID, id);
    }
    let upgraded = hyper::upgrade::on(&mut request);
    host.tasks.spawn(opened(Arc::clone(host), client, upgraded));
    response
}

async fn opened(host: Arc<Host>, client: Client, upgraded: OnUpgrade) {
    let Ok(Ok(upgraded)) = tokio::time::timeout(HANDSHAKE, upgraded).await else {
        tracing::debug!("a client has not opened its WebSocket");
        return;
    };
    let config =
        WebSocketConfig::default().max_message_size(Some(host.max_message)).max_frame_size(Some(host.max_message));
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
    host.note(&format!("client {} has come over WebSocket", client.number));
    let (reason, problem) = run(&host, socket).await;
    host.note_end(&client, &reason, problem.as_deref());
}

/// Why a client ends.
#[derive(Debug)]
enum End {
    /// The client has closed the WebSocket, or its connection is lost.
    Gone(String),
    /// The client has sent something that is not allowed.
    Refused(CloseCode, String),
    /// The guard has ended: the agent has exited, or a message could not be understood.
    Guard,
    /// The server ends.
    Closing,
}

/// Runs a client until it ends, and its agent has exited. Returns the reason, and the error of the guard.
async fn run(host: &Host, socket: Socket) -> (String, Option<String>) {
    let Guarded { to_guard, mut from_guard, ended } = host.guarded();
    let (mut sink, mut stream) = socket.split();
    let mut lines = LineBuffer::new(proxied::max_line_bytes(&host.session));
    let life = Life::default();
    let end = {
        let outgoing = outgoing(&mut sink, &mut from_guard, &mut lines, &life);
        tokio::pin!(outgoing);
        tokio::select! {
            biased;
            end = incoming(&mut stream, to_guard, &life) => end,
            end = &mut outgoing => end,
            () = host.closing.cancelled() => {
                // The agent has the end of its input. The client gets what it still writes.
                tokio::time::timeout(LAST_WORDS, outgoing).await.ok();
                End::Closing
            }
        }
    };
    drop(from_guard);
    let (code, reason) = match end {
        End::Gone(reason) => return (reason, gone(Guarded::reason(ended).await)),
        End::Refused(code, reason) => {
            close(&mut sink, &mut stream, code, &reason).await;
            return (reason, gone(Guarded::reason(ended).await));
        }
        End::Guard => (CloseCode::Error, "its agent has ended"),
        End::Closing => (CloseCode::Away, "the server ends"),
    };
    let problem = Guarded::reason(ended).await;
    let said = problem.as_deref().filter(|_| code == CloseCode::Error).unwrap_or(reason);
    close(&mut sink, &mut stream, code, said).await;
    (reason.to_owned(), problem)
}

/// Returns the problem of a guard whose client had gone before: a broken pipe is none.
fn gone(problem: Option<String>) -> Option<String> {
    problem.filter(|problem| problem.contains("recording"))
}

/// Whether the client lives.
#[derive(Default)]
struct Life {
    /// The client has sent a frame since the last ping.
    is_heard: AtomicBool,
    /// A message of the client waits for the agent, so that no further frame is read.
    waits: AtomicBool,
}

/// Passes the messages of the client to the guard.
async fn incoming(stream: &mut SplitStream<Socket>, mut to_guard: DuplexStream, life: &Life) -> End {
    loop {
        let message = stream.next().await;
        life.is_heard.store(true, Ordering::Relaxed);
        match message {
            Some(Ok(Message::Text(text))) => {
                life.waits.store(true, Ordering::Relaxed);
                let passed = async {
                    to_guard.write_all(&one_line(text.as_bytes())).await?;
                    to_guard.write_all(b"\n").await
                };
                if passed.await.is_err() {
                    // The other direction reports why the guard has ended.
                    return std::future::pending().await;
                }
                life.waits.store(false, Ordering::Relaxed);
            }
            Some(Ok(Message::Close(_))) | None => return End::Gone("it has closed the WebSocket".to_owned()),
            // The protocol has text frames only. Pings are answered by the library.
            Some(Ok(_)) => {}
            Some(Err(Error::Capacity(error))) => return End::Refused(CloseCode::Size, error.to_string()),
            Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => {
                return End::Gone("its connection is lost".to_owned());
            }
            Some(Err(Error::Protocol(error))) => return End::Refused(CloseCode::Protocol, error.to_string()),
            Some(Err(Error::Utf8(error))) => return End::Refused(CloseCode::Invalid, error),
            Some(Err(error)) => return End::Gone(format!("its connection is lost: {error}")),
        }
    }
}

/// Passes the messages of the guard to the client, with pings between them.
async fn outgoing(
    sink: &mut SplitSink<Socket, Message>,
    from_guard: &mut DuplexStream,
    lines: &mut LineBuffer,
    life: &Life,
) -> End {
    let mut bytes = BytesMut::new();
    let mut beat = tokio::time::interval(HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent = 0;
    let stalled = || End::Gone("it has taken no message for a minute".to_owned());
    let lost = |error: Error| End::Gone(format!("its connection is lost: {error}"));
    loop {
        bytes.reserve(PIPE);
        let count = tokio::select! {
            read = from_guard.read_buf(&mut bytes) => read.unwrap_or(0),
            _ = beat.tick() => {
                let is_alive = life.is_heard.swap(false, Ordering::Relaxed) || life.waits.load(Ordering::Relaxed);
                silent = if is_alive { 0 } else { silent + 1 };
                if HEARTBEAT * silent > STALL {
                    return End::Gone("it does not answer pings".to_owned());
                }
                match tokio::time::timeout(STALL, sink.send(Message::Ping(Bytes::new()))).await {
                    Err(_) => return stalled(),
                    Ok(Err(error)) => return lost(error),
                    Ok(Ok(())) => continue,
                }
            }
        };
        lines.extend(&bytes);
        bytes.clear();
        if count == 0 {
            lines.end();
        }
        let written = async {
            while let Ok(Some(line)) = lines.next_line() {
                // The guard writes texts only.
                let Ok(text) = Utf8Bytes::try_from(Bytes::copy_from_slice(line)) else { continue };
                sink.feed(Message::Text(text)).await?;
            }
            sink.flush().await
        };
        match tokio::time::timeout(STALL, written).await {
            Err(_) => return stalled(),
            Ok(Err(error)) => return lost(error),
            Ok(Ok(())) => {}
        }
        if lines.next_line().is_err() {
            return End::Refused(CloseCode::Size, "a message of the agent is too large for the memory".to_owned());
        }
        lines.release();
        if count == 0 {
            return End::Guard;
        }
    }
}

/// Returns a message as one line. JSON has line ends between values only.
pub(super) fn one_line(text: &[u8]) -> Cow<'_, [u8]> {
    match text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        false => text.into(),
        true => text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect(),
    }
}

/// Closes the WebSocket, and waits a little for the client to close it, too: otherwise it may not get the reason.
async fn close(sink: &mut SplitSink<Socket, Message>, stream: &mut SplitStream<Socket>, code: CloseCode, reason: &str) {
    let mut end = reason.len().min(MAX_REASON);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = CloseFrame { code, reason: reason[..end].into() };
    let closed = async {
        sink.send(Message::Close(Some(frame))).await.ok();
        while let Some(Ok(_)) = stream.next().await {}
    };
    if tokio::time::timeout(CLOSE, closed).await.is_err() {
        tracing::debug!("a client has not closed its WebSocket");
    }
}
