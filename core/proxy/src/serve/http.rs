//! Clients over HTTP: each message of the client is a POST, and streams of server-sent events have those of the agent. The header
//! `Acp-Connection-Id` says which requests belong together.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use kimi_agent_client::proxied;
use kimi_agent_protocol::jsonrpc::framing::LineBuffer;
use kimi_agent_protocol::jsonrpc::{Message, relayed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::mailboxes::{Mailboxes, NoStream, Route, session_of};
use super::socket::one_line;
use super::{Body, Client, Guarded, Host, LAST_WORDS, PIPE, STALL};
use crate::texts;

pub(super) const CONNECTION_ID: &str = "acp-connection-id";
const SESSION_ID: &str = "acp-session-id";
const NO_CONNECTION: &str = "the header `Acp-Connection-Id` is missing";
const GONE: &str = "the connection of `Acp-Connection-Id` does not exist, or has ended";
/// How long the body of a request may take.
const BODY: Duration = Duration::from_secs(60);
/// How long the agent may take to answer the first request.
const INITIALIZE: Duration = Duration::from_secs(60);
/// How long a client may take to read the last messages.
const REST: Duration = Duration::from_secs(2);
/// The number of messages of a client that wait for its agent.
const MAX_WAITING: usize = 16;

/// A client over HTTP.
pub(super) struct HttpClient {
    mailboxes: Arc<Mailboxes>,
    to_guard: mpsc::Sender<Waiting>,
    /// The client has ended.
    gone: CancellationToken,
}

/// A message of a client, and its part of the memory for bodies.
struct Waiting {
    line: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
}

/// The status and the reason of the answer to a request that is refused.
pub(super) type Refusal = (StatusCode, String);

/// Returns the answer to a request that is refused.
pub(super) fn refused((status, reason): Refusal) -> Response<Body> {
    let mut response = plain(status, &reason);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Returns an answer with a reason.
pub(super) fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = with_body(status, format!("{text}\n"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    with_body(status, Bytes::new())
}

pub(super) fn too_many() -> Response<Body> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "too many clients are connected, or the server ends")
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = with_body(status, body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn with_body(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed());
    *response.status_mut() = status;
    response
}

fn header<'a>(request: &'a Request<Incoming>, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

/// Returns the client that a request belongs to.
fn client_of(host: &Host, request: &Request<Incoming>) -> Result<Arc<HttpClient>, Refusal> {
    let Some(id) = header(request, CONNECTION_ID) else {
        return Err((StatusCode::BAD_REQUEST, NO_CONNECTION.to_owned()));
    };
    let known = host.http().get(id).cloned();
    known.ok_or_else(|| (StatusCode::NOT_FOUND, GONE.to_owned()))
}

/// Opens a stream for a client.
pub(super) fn get(host: &Host, request: &Request<Incoming>) -> Response<Body> {
    if !header(request, ACCEPT.as_str()).is_some_and(|accepted| accepted.contains("text/event-stream")) {
        return plain(StatusCode::NOT_ACCEPTABLE, "the header `Accept` must include text/event-stream");
    }
    let client = match client_of(host, request) {
        Ok(client) => client,
        Err(refusal) => return refused(refusal),
    };
    match client.mailboxes.open(header(request, SESSION_ID)) {
        Ok(stream) => {
            let mut response = Response::new(stream.boxed());
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            for name in [CONNECTION_ID, SESSION_ID] {
                if let Some(value) = request.headers().get(name) {
                    headers.insert(name, value.clone());
                }
            }
            response
        }
        Err(NoStream::IsOpen) => plain(StatusCode::CONFLICT, "this stream is open already"),
        Err(NoStream::Unknown) => plain(StatusCode::NOT_FOUND, "the session of `Acp-Session-Id` does not exist"),
    }
}

/// Ends a client.
pub(super) fn delete(host: &Host, request: &Request<Incoming>) -> Response<Body> {
    match client_of(host, request) {
        Ok(client) => {
            client.gone.cancel();
            if let Some(id) = header(request, CONNECTION_ID) {
                host.http().remove(id);
            }
            empty(StatusCode::ACCEPTED)
        }
        Err(refusal) => refused(refusal),
    }
}

/// Takes a message of a client.
pub(super) async fn post(host: &Arc<Host>, request: Request<Incoming>) -> Response<Body> {
    let is_json =
        |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if !header(&request, CONTENT_TYPE.as_str()).is_some_and(is_json) {
        return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the header `Content-Type` must be application/json");
    }
    let client = match request.headers().contains_key(CONNECTION_ID) {
        true => match client_of(host, &request) {
            Ok(client) => Some(client),
            Err(refusal) => return refused(refusal),
        },
        false => None,
    };
    let session = header(&request, SESSION_ID).map(str::to_owned);
    let waiting = match tokio::time::timeout(BODY, read(host, request)).await {
        Ok(Ok(waiting)) => waiting,
        Ok(Err(refusal)) => return refused(refusal),
        Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the request is incomplete"),
    };
    match client {
        Some(client) => pass(&client, session.as_deref(), waiting).await,
        None => initialize(host, waiting).await,
    }
}

/// Reads the message in a request, as one line.
async fn read(host: &Host, request: Request<Incoming>) -> Result<Waiting, Refusal> {
    let too_large = || {
        let reason = format!("the message is too large; the limit is {} bytes", host.max_message);
        (StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    let is_large = request.body().size_hint().lower() > host.max_message as u64;
    if is_large {
        return Err(too_large());
    }
    let mut body = Limited::new(request.into_body(), host.max_message);
    let (mut whole, mut memory) = (Vec::new(), None::<OwnedSemaphorePermit>);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
            true => too_large(),
            false => (StatusCode::BAD_REQUEST, "the request is incomplete".to_owned()),
        })?;
        let Some(data) = frame.data_ref() else { continue };
        whole.extend_from_slice(data);
        let held = memory.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = (whole.len() >> 10).saturating_sub(held);
        let permit = Arc::clone(&host.bodies).try_acquire_many_owned(more as u32);
        let Ok(permit) = permit else {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "too many large requests at a time".to_owned()));
        };
        match &mut memory {
            Some(memory) => memory.merge(permit),
            None => memory = Some(permit),
        }
    }
    Ok(Waiting { line: one_line(&whole).into_owned(), _memory: memory })
}

/// Returns the answer to a message that is not read.
fn unread(refused: &relayed::Refused, line: &[u8]) -> Response<Body> {
    let is_batch = line.trim_ascii_start().starts_with(b"[");
    let status = if is_batch { StatusCode::NOT_IMPLEMENTED } else { StatusCode::BAD_REQUEST };
    let id = refused.id.as_deref().unwrap_or("null");
    json(status, texts::error(id, texts::INVALID_REQUEST, &format!("the message is refused: {}", refused.reason)))
}

/// Passes a message to the agent of a client.
async fn pass(client: &HttpClient, session: Option<&str>, waiting: Waiting) -> Response<Body> {
    client.mailboxes.touch();
    let read = match relayed::read(&waiting.line) {
        Ok(read) => read,
        Err(problem) => return unread(&problem, &waiting.line),
    };
    if let Message::Request { method, params, .. } | Message::Notification { method, params } = &read.message {
        let named = session_of(method, params);
        if session.is_some() && named.is_some() && session != named.as_deref() {
            return plain(StatusCode::BAD_REQUEST, "`Acp-Session-Id` and `sessionId` in `params` differ");
        }
        if let (Message::Request { .. }, Some(key)) = (&read.message, read.id.and_then(relayed::id_key))
            && !client.mailboxes.expect(key, Route::of(method, named.as_deref()))
        {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too many calls are open");
        }
    }
    // A message is passed whole or not at all, also if the client ends the request.
    match tokio::time::timeout(STALL, client.to_guard.reserve()).await {
        Ok(Ok(space)) => {
            space.send(waiting);
            empty(StatusCode::ACCEPTED)
        }
        Ok(Err(_)) => plain(StatusCode::NOT_FOUND, GONE),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "the agent takes no messages"),
    }
}

/// Makes a client with its first request, and answers with the answer of its agent.
async fn initialize(host: &Arc<Host>, waiting: Waiting) -> Response<Body> {
    let (id, key) = match relayed::read(&waiting.line) {
        Ok(read) => match (&read.message, read.id.and_then(relayed::id_key)) {
            (Message::Request { id, method, .. }, Some(key)) if method == "initialize" => ((*id).to_owned(), key),
            _ => return plain(StatusCode::BAD_REQUEST, NO_CONNECTION),
        },
        Err(problem) => return unread(&problem, &waiting.line),
    };
    let Some(client) = host.admit() else { return too_many() };
    let connection = client.id.clone();
    let (to_guard, messages) = mpsc::channel(MAX_WAITING);
    let (sender, answer) = oneshot::channel();
    let mailboxes = Arc::new(Mailboxes::new());
    mailboxes.expect(key, Route::Direct(sender));
    to_guard.try_send(waiting).ok();
    let gone = CancellationToken::new();
    // If this request ends early, no client knows the connection.
    let undecided: DropGuard = gone.clone().drop_guard();
    let known = Arc::new(HttpClient { mailboxes, to_guard, gone });
    host.http().insert(connection.clone(), Arc::clone(&known));
    let (report, problem) = oneshot::channel();
    host.tasks.spawn(run(Arc::clone(host), client, known, messages, report));
    match tokio::time::timeout(INITIALIZE, answer).await {
        Ok(Ok(answer)) => {
            let is_error = matches!(relayed::read(&answer), Ok(read) if matches!(read.message, Message::Response { outcome: Err(_), .. }));
            let mut response = json(StatusCode::OK, answer);
            if !is_error && let Ok(connection) = HeaderValue::from_str(&connection) {
                response.headers_mut().insert(CONNECTION_ID, connection);
                undecided.disarm();
            }
            response
        }
        Ok(Err(_)) => {
            let reason = problem.await.ok().flatten().unwrap_or_else(|| "the agent has ended".to_owned());
            json(StatusCode::BAD_GATEWAY, texts::error(&id, texts::INTERNAL_ERROR, &reason))
        }
        Err(_) => {
            let reason = "the agent did not answer in time";
            json(StatusCode::GATEWAY_TIMEOUT, texts::error(&id, texts::INTERNAL_ERROR, reason))
        }
    }
}

/// Runs a client until it ends, and its agent has exited.
async fn run(
    host: Arc<Host>,
    client: Client,
    known: Arc<HttpClient>,
    messages: mpsc::Receiver<Waiting>,
    report: oneshot::Sender<Option<String>>,
) {
    host.note(&format!("client {} has come over HTTP", client.number));
    let Guarded { to_guard, mut from_guard, ended } = host.guarded();
    let mut lines = LineBuffer::new(proxied::max_line_bytes(&host.session));
    let reason = {
        let outgoing = outgoing(&mut from_guard, &mut lines, &known.mailboxes);
        tokio::pin!(outgoing);
        tokio::select! {
            () = incoming(messages, to_guard) => "its connection has ended",
            reason = &mut outgoing => reason,
            () = known.gone.cancelled() => "it has deleted the connection",
            () = idle(&known.mailboxes, host.idle_timeout) => "it was idle",
            () = host.closing.cancelled() => {
                // The agent has the end of its input. The client gets what it still writes.
                tokio::time::timeout(LAST_WORDS, outgoing).await.ok();
                "the server ends"
            }
        }
    };
    host.http().remove(&client.id);
    drop(from_guard);
    let problem = Guarded::reason(ended).await;
    known.mailboxes.end();
    report.send(problem.clone()).ok();
    known.gone.cancel();
    host.note_end(&client, reason, problem.as_deref());
    if tokio::time::timeout(REST, known.mailboxes.emptied()).await.is_err() {
        tracing::debug!("a client has not taken the last messages");
    }
}

/// Passes the messages of the client to the guard.
async fn incoming(mut messages: mpsc::Receiver<Waiting>, mut to_guard: DuplexStream) {
    while let Some(Waiting { mut line, _memory }) = messages.recv().await {
        line.push(b'\n');
        if to_guard.write_all(&line).await.is_err() {
            // The other direction reports why the guard has ended.
            break;
        }
    }
    std::future::pending().await
}

/// Passes the messages of the guard to the mailboxes. Returns the reason for the end.
async fn outgoing(from_guard: &mut DuplexStream, lines: &mut LineBuffer, mailboxes: &Mailboxes) -> &'static str {
    let mut bytes = BytesMut::new();
    loop {
        bytes.reserve(PIPE);
        let count = from_guard.read_buf(&mut bytes).await.unwrap_or(0);
        lines.extend(&bytes);
        bytes.clear();
        if count == 0 {
            lines.end();
        }
        while let Ok(Some(line)) = lines.next_line() {
            if mailboxes.deliver(line).await.is_err() {
                return "it has taken no message for a minute";
            }
        }
        if lines.next_line().is_err() {
            return "a message of its agent is too large for the memory";
        }
        lines.release();
        if count == 0 {
            return "its agent has ended";
        }
    }
}

/// Waits until the client has been idle for this long.
async fn idle(mailboxes: &Mailboxes, limit: Duration) {
    loop {
        let until = mailboxes.idle_since().unwrap_or_else(tokio::time::Instant::now) + limit;
        if until <= tokio::time::Instant::now() {
            return;
        }
        tokio::time::sleep_until(until).await;
    }
}
