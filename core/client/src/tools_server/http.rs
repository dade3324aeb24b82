//! The HTTP of the server: a port on loopback, authentication by a secret, and limits.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use subtle::ConstantTimeEq as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::body::{Bodies, Counted, Prepared, Refusal, prepared};
use super::calls::CallSender;
use super::clients::Clients;
use super::offer::offer;
use super::service::Tools;
use super::{NAME, Offer, ToolsEndpoint};
use crate::error::{Error, Result};
use crate::handler::ExternalTool;
use crate::visitors::{self, Crowd, Visitor};

/// Further connections of authenticated clients wait in the listener's queue. Each connection has one call at a time.
const MAX_CONNECTIONS: usize = 256;
/// The limit of concurrent calls by clients without an MCP session.
const MAX_SESSIONLESS: usize = 1024;
/// How long the head of a request may take on an authenticated connection, including the wait for the request.
const HEAD: Duration = Duration::from_secs(30);
/// The limit of a head, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The limit of the body of a request, in bytes, if `max_line_bytes` is not less. No model writes longer arguments.
const MAX_BODY_BYTES: usize = 16 << 20;
/// How long a body may take.
const BODY: Duration = Duration::from_secs(60);

const PATH: &str = "/mcp";

type Body = BoxBody<Bytes, Infallible>;

/// Limits for clients that are not authenticated, or that do not close what they open.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The limit of connections that are not authenticated. At the limit the oldest is closed.
    pub(super) strangers: usize,
    /// How long such a connection has to authenticate.
    pub(super) patience: Duration,
    /// The limit of MCP sessions. At the limit the one that has been idle for longest is closed.
    pub(super) sessions: usize,
    /// The limit of all bodies that are read or handled at a time, in bytes.
    pub(super) bodies: usize,
    /// How often a call that runs reports to its client. Some clients give up calls that report nothing for a minute.
    pub(super) report_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            strangers: 128,
            patience: Duration::from_secs(1),
            sessions: 1024,
            bodies: 64 << 20,
            report_interval: Duration::from_secs(10),
        }
    }
}

/// A running server. Dropping it ends it in the background.
pub(crate) struct ToolsServer {
    stop: CancellationToken,
    main: Option<JoinHandle<()>>,
}

impl ToolsServer {
    /// Serves these tools on a port of its own. Calls are passed to `calls`.
    ///
    /// # Errors
    /// Fails if no port is free.
    pub(crate) async fn start(
        tools: &[ExternalTool],
        max_request_bytes: usize,
        calls: CallSender,
    ) -> Result<(Self, Offer)> {
        Self::start_with(tools, max_request_bytes, calls, Limits::default()).await
    }

    pub(super) async fn start_with(
        tools: &[ExternalTool],
        max_request_bytes: usize,
        calls: CallSender,
        limits: Limits,
    ) -> Result<(Self, Offer)> {
        let max_request_bytes = max_request_bytes.min(MAX_BODY_BYTES);
        let failed = |error: io::Error| {
            Error::Spawn(format!(
                "can't start the agent: the server of the program's tools can't listen on 127.0.0.1: {error}; allow that, or \
                 leave out `tools`"
            ))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // Two random UUIDs hold 244 random bits.
        let secret = format!("Bearer {}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let (tools, told) = offer(tools);
        let stop = CancellationToken::new();
        let (alive, ended) = mpsc::channel(1);
        let tools = Tools {
            tools: tools.into(),
            calls,
            count: Arc::new(AtomicU64::new(1)),
            report_interval: limits.report_interval,
            _alive: alive,
        };
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts([address.to_string()])
            // Agents are not web pages.
            .enforce_origin_validation()
            .with_max_request_body_bytes(max_request_bytes)
            .with_cancellation_token(stop.clone());
        // On loopback no stream is interrupted, so resumption is not needed.
        config.sse_retry = None;
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.sse_retry = None;
        // A tool may take any time. Clients end with the session.
        sessions.session_config.keep_alive = None;
        let new_client = move || {
            if tools._alive.strong_count() > limits.sessions + MAX_SESSIONLESS {
                return Err(io::Error::other(format!(
                    "{MAX_SESSIONLESS} calls without a session are under way already"
                )));
            }
            Ok(tools.clone())
        };
        let sessions = Clients::new(sessions, limits.sessions);
        let mcp = StreamableHttpService::new(new_client, Arc::new(sessions), config);
        let headers = vec![("Authorization".to_owned(), secret.clone())];
        let bodies = Arc::new(Bodies { size: AtomicUsize::new(0), limit: limits.bodies });
        let door = Arc::new(Door { secret, mcp, max_request_bytes, bodies });
        let main = tokio::spawn(run(listener, door, limits, stop.clone(), ended));
        let endpoint = ToolsEndpoint { name: NAME.to_owned(), url: format!("http://{address}{PATH}"), headers };
        Ok((Self { stop, main: Some(main) }, Offer { endpoint, tools: told }))
    }

    /// Ends the server. When this returns, its port, connections and tasks are closed.
    pub(crate) async fn close(mut self) {
        self.stop.cancel();
        if let Some(main) = self.main.take()
            && let Err(error) = main.await
        {
            tracing::warn!(%error, "the server of the tools has failed");
        }
    }
}

impl Drop for ToolsServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run(
    listener: TcpListener,
    door: Arc<Door>,
    limits: Limits,
    stop: CancellationToken,
    mut ended: mpsc::Receiver<Infallible>,
) {
    let crowd = Crowd { trusted: MAX_CONNECTIONS, strangers: limits.strangers };
    let converse = |stream, visitor| converse(stream, Arc::clone(&door), visitor, limits.patience);
    visitors::accept(listener, crowd, &stop, converse).await;
    drop(door);
    // Tasks of clients hold the other ends.
    while ended.recv().await.is_some() {}
}

async fn converse(stream: TcpStream, door: Arc<Door>, visitor: Arc<Visitor>, patience: Duration) {
    // Answers are short, and the client waits for them.
    drop(stream.set_nodelay(true));
    let answer = service_fn(|request| {
        let (door, visitor) = (Arc::clone(&door), Arc::clone(&visitor));
        async move { Ok::<_, Infallible>(door.answer(request, &visitor).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), answer);
    match visitor.attended(connection, patience).await {
        None => tracing::debug!("a connection to the tools has not shown the secret in time; it is closed"),
        Some(Err(error)) => tracing::debug!(%error, "a connection to the tools has failed"),
        Some(Ok(())) => {}
    }
}

struct Door {
    secret: String,
    mcp: StreamableHttpService<Tools, Clients>,
    max_request_bytes: usize,
    bodies: Arc<Bodies>,
}

impl Door {
    async fn answer(&self, mut request: Request<Incoming>, visitor: &Visitor) -> Response<Body> {
        if !self.knows_secret(&request) {
            tracing::warn!("request to the tools server without the secret refused");
            let mut refusal = plain(StatusCode::UNAUTHORIZED, "the secret is missing or wrong");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refusal;
        }
        visitor.trust();
        if request.uri().path() != PATH {
            return plain(StatusCode::NOT_FOUND, "there is nothing here");
        }
        // The later layers do not need the secret, and so cannot log it.
        request.headers_mut().remove(AUTHORIZATION);
        // Also checks `Host` and `Origin`: web pages must not reach the server by names that resolve to loopback.
        let (head, body) = request.into_parts();
        let counted = Counted::new(&self.bodies);
        let prepared = match tokio::time::timeout(BODY, self.read(body, counted)).await {
            Ok(Ok((whole, counted))) => prepared(whole, counted).await,
            Ok(Err(refusal)) => Err(refusal),
            Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the request is incomplete".to_owned())),
        };
        match prepared {
            Ok(prepared) => self.handle(head, prepared).await,
            Err((status, text)) => plain(status, text),
        }
    }

    async fn handle(&self, mut head: Parts, prepared: Prepared) -> Response<Body> {
        let Prepared { body, is_changed, arguments, counted: _counted } = prepared;
        if is_changed {
            head.headers.remove(CONTENT_LENGTH);
        }
        // The server of MCP passes the head to the call.
        if let Some(arguments) = arguments {
            head.extensions.insert(arguments);
        }
        self.mcp.handle(Request::from_parts(head, Full::new(body))).await
    }
    /// Reads the body, up to its limits.
    async fn read(&self, body: Incoming, mut counted: Counted) -> Result<(Vec<u8>, Counted), Refusal> {
        let mut body = Limited::new(body, self.max_request_bytes);
        let mut whole = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                tracing::debug!(%error, "the body of a request to the tools can't be read");
                let reason = format!("the request is incomplete, or exceeds {} bytes", self.max_request_bytes);
                (StatusCode::PAYLOAD_TOO_LARGE, reason)
            })?;
            let Some(data) = frame.data_ref() else { continue };
            counted.add(data.len())?;
            whole.extend_from_slice(data);
        }
        Ok((whole, counted))
    }

    /// Compares in constant time.
    fn knows_secret(&self, request: &Request<Incoming>) -> bool {
        let mut given = request.headers().get_all(AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (Some(given), None) => given.as_bytes().ct_eq(self.secret.as_bytes()).into(),
            _ => false,
        }
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed());
    *response.status_mut() = status;
    // The rest of the connection is not read.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
