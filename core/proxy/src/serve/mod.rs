//! An agent on an address, as the transport proposal of ACP says: one endpoint, `/acp`, with WebSocket and HTTP. Each client has an
//! agent of its own, behind the guard.
//!
//! - `door`: the check of each request
//! - `socket`: clients over WebSocket
//! - `http`: clients over HTTP, whose requests belong together by an id
//! - `mailboxes`: messages for clients over HTTP, until a stream takes them
//!
//! The server of the crate `agent-client-protocol-http` is not used: its queues have no limits, and it writes messages anew.

mod door;
mod http;
mod mailboxes;
mod socket;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use kimi_agent_client::proxied::{self, Crowd, Visitor};
use kimi_agent_client::{Error, Result, SessionOptions};
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::options::ProxyOptions;
use crate::settings::Settings;
use door::Door;
use http::HttpClient;

/// The path of the endpoint.
pub const PATH: &str = "/acp";
/// The variable with the token, which the agent does not get.
pub const TOKEN_VARIABLE: &str = "KIMI_AGENT_TOKEN";
/// The shortest token, in characters.
const MIN_TOKEN: usize = 16;
/// The limits of TCP connections. A client over HTTP/1.1 has one for each of its streams.
const CROWD: Crowd = Crowd { trusted: 512, strangers: 64 };
/// How long a connection has to send a request that may use the server.
const STRANGER: Duration = Duration::from_secs(10);
/// How long the head of a request may take, including the wait for the request.
const HEAD: Duration = Duration::from_secs(30);
/// The limit of a head, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// The limit of a message of a client, in bytes.
const MAX_MESSAGE: usize = 64 << 20;
/// The limit of all bodies of requests that are read or wait, in units of 1 KiB.
const MAX_BODIES: usize = 256 << 10;
/// The bytes between a client and the guard, for each direction.
const PIPE: usize = 64 << 10;
/// How long a client or an agent may take nothing of what waits for it.
const STALL: Duration = Duration::from_secs(60);
/// When the server ends: how long the last messages of an agent may take.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// The time between two signs of life to a client.
const HEARTBEAT: Duration = Duration::from_secs(15);

type Body = BoxBody<Bytes, Infallible>;

/// The options of a [`Server`].
#[derive(Clone)]
#[must_use]
pub struct ServeOptions {
    proxy: ProxyOptions,
    listen: String,
    token: Option<String>,
    max_clients: usize,
    idle_timeout: Duration,
    on_note: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a secret.
        f.debug_struct("ServeOptions").field("listen", &self.listen).field("proxy", &self.proxy).finish_non_exhaustive()
    }
}

impl ServeOptions {
    /// Makes options for the agent of these options, on an address such as `127.0.0.1:8421`.
    pub fn new(proxy: ProxyOptions, listen: impl Into<String>) -> Self {
        Self {
            proxy,
            listen: listen.into(),
            token: None,
            max_clients: 16,
            idle_timeout: Duration::from_secs(300),
            on_note: Arc::new(|_| {}),
        }
    }

    /// Sets the token that each request must have, as `Authorization: Bearer …`. Needed for addresses that other machines reach.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the limit of clients, each of which has an agent. Default: 16.
    pub fn max_clients(mut self, max_clients: usize) -> Self {
        self.max_clients = max_clients;
        self
    }

    /// Sets how long a client over HTTP may be silent without an open stream. Then its agent ends. Default: 5 minutes.
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.idle_timeout = idle_timeout;
        self
    }

    /// Passes each note about clients to a handler: that a client has come, or the reason for its end. Default: the notes are discarded.
    pub fn on_note(mut self, handler: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_note = Arc::new(handler);
        self
    }
}

/// The reason why a server cannot be started.
#[derive(Clone, Debug, PartialEq)]
pub enum ServeError {
    /// The address is wrong.
    Address(String),
    /// The token is wrong.
    Token(String),
    /// The address cannot be used now.
    Unavailable(String),
    /// The options of the proxy are wrong, or the agent cannot be started.
    Agent(Error),
}

impl From<Error> for ServeError {
    fn from(error: Error) -> Self {
        Self::Agent(error)
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    host: Arc<Host>,
}

impl Server {
    /// Checks the options, and listens on the address.
    ///
    /// # Errors
    /// The first problem of the options, or of the address.
    pub async fn bind(options: ServeOptions) -> std::result::Result<Self, ServeError> {
        if let Some(token) = &options.token
            && (token.len() < MIN_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            let reason = format!("expected at least {MIN_TOKEN} visible characters of ASCII, without spaces");
            return Err(ServeError::Token(reason));
        }
        let (session, settings) = options.proxy.without_variable(TOKEN_VARIABLE).resolved()?;
        proxied::check(&session)?;
        let listen = &options.listen;
        let addresses = resolved(listen).await?;
        let is_reachable = addresses.iter().any(|address| !address.ip().to_canonical().is_loopback());
        if is_reachable && options.token.is_none() {
            return Err(ServeError::Address(format!(
                "other machines can reach {listen}, so each client needs a token; set one with --token-file or {TOKEN_VARIABLE}, \
                 or listen on 127.0.0.1"
            )));
        }
        let listener = TcpListener::bind(&*addresses).await.map_err(|error| unbound(listen, &error))?;
        let address = listener.local_addr().map_err(|error| unbound(listen, &error))?;
        let max_message = proxied::max_line_bytes(&session).min(MAX_MESSAGE);
        let host = Host {
            session,
            settings,
            door: Door::new(options.token),
            max_message,
            idle_timeout: options.idle_timeout,
            on_note: options.on_note,
            places: Arc::new(Semaphore::new(options.max_clients)),
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            numbers: AtomicU64::new(0),
            http: Mutex::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        };
        Ok(Self { listener, address, host: Arc::new(host) })
    }

    /// The address that the server listens on, with the port that the system has chosen if the option has port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients until `shutdown` ends. Then each agent gets the end of its input, and this returns when all have exited.
    /// Dropping the future ends the agents, when the runtime ends.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, host, .. } = self;
        let stop = CancellationToken::new();
        let converse = |stream, visitor| converse(stream, visitor, Arc::clone(&host));
        let accepting = proxied::accept(listener, CROWD, &stop, converse);
        let ending = async {
            shutdown.await;
            host.closing.cancel();
            host.tasks.close();
            host.tasks.wait().await;
            stop.cancel();
        };
        tokio::join!(accepting, ending);
    }
}

/// Returns the addresses of a host and port.
async fn resolved(listen: &str) -> std::result::Result<Vec<SocketAddr>, ServeError> {
    let is_complete =
        listen.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if !is_complete {
        let reason = format!("expected HOST:PORT, such as 127.0.0.1:8421 or [::1]:8421, got {listen:?}");
        return Err(ServeError::Address(reason));
    }
    let found = tokio::net::lookup_host(listen).await.map(Vec::from_iter);
    found.ok().filter(|addresses| !addresses.is_empty()).ok_or_else(|| {
        ServeError::Address(format!(
            "the host of {listen} is not known; use an address of this machine, such as 127.0.0.1"
        ))
    })
}

fn unbound(listen: &str, error: &io::Error) -> ServeError {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ServeError::Unavailable(format!("{listen} is in use; choose another port, or 0 for any port that is free"))
        }
        io::ErrorKind::AddrNotAvailable => {
            ServeError::Address(format!("{listen} is not an address of this machine; use one, such as 127.0.0.1"))
        }
        io::ErrorKind::PermissionDenied => {
            ServeError::Unavailable(format!("{listen} may not be used by this user; choose a port above 1023"))
        }
        _ => ServeError::Unavailable(format!("{listen} cannot be listened on: {error}")),
    }
}

/// The server without its port: the agent that clients get, and the clients.
struct Host {
    session: SessionOptions,
    settings: Settings,
    door: Door,
    max_message: usize,
    idle_timeout: Duration,
    on_note: Arc<dyn Fn(&str) + Send + Sync>,
    /// A permit for each further client.
    places: Arc<Semaphore>,
    /// A permit for each KiB of the bodies of requests.
    bodies: Arc<Semaphore>,
    numbers: AtomicU64,
    /// The clients over HTTP, by their ids.
    http: Mutex<HashMap<String, Arc<HttpClient>>>,
    /// One for each client.
    tasks: TaskTracker,
    /// Cancelled when the server ends: clients end, too.
    closing: CancellationToken,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

/// A client that has come.
struct Client {
    /// The id of the connection in the transport. It cannot be guessed.
    id: String,
    number: u64,
    _place: OwnedSemaphorePermit,
}

/// A guard that runs, and the two ends of the pipes to it.
struct Guarded {
    to_guard: DuplexStream,
    from_guard: DuplexStream,
    ended: JoinHandle<Result<()>>,
}

impl Guarded {
    /// Waits until the agent has exited, or kills it after a minute. Returns the error, as a text.
    async fn reason(mut ended: JoinHandle<Result<()>>) -> Option<String> {
        let Ok(outcome) = tokio::time::timeout(STALL, &mut ended).await else {
            // Without the guard, its agent is killed.
            ended.abort();
            ended.await.ok();
            return Some("the agent did not end, and was killed".to_owned());
        };
        match outcome {
            Ok(outcome) => outcome.err().map(|error| error.to_string()),
            Err(error) => Some(format!("the guard has failed: {error}")),
        }
    }
}

impl Host {
    fn http(&self) -> MutexGuard<'_, HashMap<String, Arc<HttpClient>>> {
        self.http.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes space for a client. `None` if there are too many, or if the server ends.
    fn admit(&self) -> Option<Client> {
        if self.closing.is_cancelled() {
            return None;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Client { id: uuid::Uuid::new_v4().to_string(), number, _place: place })
    }

    /// Starts the agent of a client, behind a guard.
    fn guarded(&self) -> Guarded {
        let (to_guard, reader) = tokio::io::duplex(PIPE);
        let (writer, from_guard) = tokio::io::duplex(PIPE);
        let guarded = crate::guarded(reader, writer, self.session.clone(), self.settings.clone());
        Guarded { to_guard, from_guard, ended: tokio::spawn(guarded) }
    }

    fn note(&self, text: &str) {
        tracing::info!(text, "client of the server");
        (self.on_note)(text);
    }

    /// Notes the end of a client.
    fn note_end(&self, client: &Client, reason: &str, problem: Option<&str>) {
        let problem = problem.map(|problem| format!(": {problem}")).unwrap_or_default();
        self.note(&format!("client {} has ended, because {reason}{problem}", client.number));
    }
}

/// Serves a TCP connection.
async fn converse(stream: TcpStream, visitor: Arc<Visitor>, host: Arc<Host>) {
    prepare(&stream);
    let answer = service_fn(|request| {
        let (host, visitor) = (Arc::clone(&host), Arc::clone(&visitor));
        async move { Ok::<_, Infallible>(answer(&host, &visitor, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD as u32)
        .keep_alive_interval(HEARTBEAT)
        .keep_alive_timeout(STALL);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), answer);
    match visitor.attended(connection, STRANGER).await {
        None => tracing::debug!("a connection has sent no request that may use the server; it is closed"),
        Some(Err(error)) => tracing::debug!(%error, "a connection has failed"),
        Some(Ok(())) => {}
    }
}

/// Sets the options of a connection: messages are sent at once, and a client that has vanished is noticed.
fn prepare(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new().with_time(HEARTBEAT).with_interval(HEARTBEAT);
    let set = stream.set_nodelay(true).and_then(|()| socket.set_tcp_keepalive(&keepalive));
    #[cfg(target_os = "linux")]
    let set = set.and_then(|()| socket.set_tcp_user_timeout(Some(STALL)));
    if let Err(error) = set {
        tracing::debug!(%error, "an option of a connection cannot be set");
    }
}

/// Answers a request.
async fn answer(host: &Arc<Host>, visitor: &Visitor, request: Request<Incoming>) -> Response<Body> {
    if let Err(refusal) = host.door.check(&request) {
        return http::refused(refusal);
    }
    visitor.trust();
    if request.uri().path() != PATH {
        return http::plain(hyper::StatusCode::NOT_FOUND, &format!("the endpoint is {PATH}"));
    }
    match *request.method() {
        Method::GET if socket::is_upgrade(&request) => socket::upgrade(host, request),
        Method::GET => http::get(host, &request),
        Method::POST => http::post(host, request).await,
        Method::DELETE => http::delete(host, &request),
        _ => http::plain(hyper::StatusCode::METHOD_NOT_ALLOWED, "expected GET, POST or DELETE"),
    }
}
