//! The gateway against a small server, over real connections on loopback.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server;

use super::{Limits, connect_with};
use crate::error::Error;
use crate::transport::launch::Server;
use crate::transport::memory::{self, AgentEnd};
use crate::transport::{Exit, Process, Transport};

const SECRET: &str = "canary-of-the-gateway";

/// A call of HTTP that the server has received.
struct Received {
    line: String,
    authorization: String,
    media_type: String,
    body: Vec<u8>,
    /// On which connection it came.
    connection: usize,
    answer: oneshot::Sender<(u16, String)>,
}

impl Received {
    fn answer(self, body: &Value) {
        self.answer.send((200, body.to_string())).unwrap();
    }
}

/// A server that hands all that it receives to the test.
struct Fake {
    port: u16,
    calls: mpsc::UnboundedReceiver<Received>,
    sockets: mpsc::UnboundedReceiver<WebSocketStream<TcpStream>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Fake {
    /// A server that greets with this frame.
    async fn start(hello: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (calls, received) = mpsc::unbounded_channel();
        let (opened, sockets) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            for connection in 0.. {
                let (tcp, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(tcp, connection, hello.clone(), calls.clone(), opened.clone()));
            }
        });
        Self { port, calls: received, sockets, accepting }
    }
}

async fn serve(
    tcp: TcpStream,
    connection: usize,
    hello: Value,
    calls: mpsc::UnboundedSender<Received>,
    opened: mpsc::UnboundedSender<WebSocketStream<TcpStream>>,
) {
    const UPGRADE: &[u8] = b"GET /api/v1/ws ";
    let mut head = [0; UPGRADE.len()];
    if tcp.peek(&mut head).await.unwrap() >= UPGRADE.len() && head == UPGRADE {
        #[allow(clippy::result_large_err, reason = "the library's own type")]
        let check = |request: &server::Request, response| match request.headers().get("authorization") {
            Some(value) if *value == format!("Bearer {SECRET}") => Ok(response),
            _ => Err(hyper::Response::builder().status(401).body(None).unwrap()),
        };
        let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(tcp, check).await else { return };
        socket.send(Message::text(hello.to_string())).await.unwrap();
        drop(opened.send(socket));
        return;
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let calls = calls.clone();
        async move {
            let header =
                |name: &str| request.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
            let (authorization, media_type) = (header("authorization"), header("content-type"));
            let line = format!("{} {}", request.method(), request.uri());
            let body = request.into_body().collect().await.unwrap().to_bytes().to_vec();
            let (answer, answered) = oneshot::channel();
            drop(calls.send(Received { line, authorization, media_type, body, connection, answer }));
            let (status, text) = answered.await.unwrap_or((500, String::new()));
            let status = StatusCode::from_u16(status).unwrap();
            Ok::<_, hyper::Error>(Response::builder().status(status).body(Full::new(Bytes::from(text))).unwrap())
        }
    });
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service).await);
}

fn hello() -> Value {
    json!({"type": "server_hello", "payload": {"protocol_version": 2, "heartbeat_ms": 10000}})
}

fn limits() -> Limits {
    Limits { reconnect: Duration::from_secs(20), ..Limits::default() }
}

/// The driver's end of a gateway, and the process behind it.
struct Driver {
    lines: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    process: Box<dyn Process>,
    agent: AgentEnd,
}

impl Driver {
    fn start(limits: Limits) -> Self {
        let (started, agent) = memory::pair(1 << 16);
        let server = Server { secret: SECRET.to_owned() };
        let Transport { reader, writer, process, .. } = connect_with(&server, started, limits);
        Self { lines: BufReader::new(reader), writer: Some(writer), process, agent }
    }

    async fn print_banner(&mut self, port: u16) {
        let banner = format!("\n  Local:    http://127.0.0.1:{port}/#token=T\n");
        self.agent.writer.write_all(banner.as_bytes()).await.unwrap();
    }

    async fn write(&mut self, id: u64, method: &str, params: Option<Value>) {
        let mut call = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if let Some(params) = params {
            call["params"] = params;
        }
        self.writer.as_mut().unwrap().write_all(format!("{call}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).await.unwrap();
        assert!(!line.contains(SECRET), "{line}");
        serde_json::from_str(&line).unwrap()
    }

    /// Waits until the process has got INT.
    async fn until_interrupted(&mut self) {
        self.agent.exit.obey();
        assert_eq!(self.process.wait().await.signal.as_deref(), Some("SIGINT"));
    }

    /// The reason with which the gateway ends.
    async fn reason(&mut self) -> Error {
        let mut rest = Vec::new();
        let error = self.lines.read_to_end(&mut rest).await.unwrap_err();
        let reason = error.get_ref().and_then(|reason| reason.downcast_ref::<Error>()).unwrap().clone();
        assert!(!reason.to_string().contains(SECRET), "{reason}");
        reason
    }
}

/// A gateway to a server, with its socket.
async fn connected(limits: Limits) -> (Driver, Fake, WebSocketStream<TcpStream>) {
    greeted(hello(), limits).await
}

/// A gateway to a server with this greeting, with its socket.
async fn greeted(hello: Value, limits: Limits) -> (Driver, Fake, WebSocketStream<TcpStream>) {
    let mut fake = Fake::start(hello).await;
    let mut driver = Driver::start(limits);
    driver.print_banner(fake.port).await;
    let socket = fake.sockets.recv().await.unwrap();
    (driver, fake, socket)
}

async fn next_json(socket: &mut WebSocketStream<TcpStream>) -> Value {
    serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap()
}

async fn send(socket: &mut WebSocketStream<TcpStream>, frame: &Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

#[tokio::test]
async fn call_waits_until_server_is_ready() {
    let mut fake = Fake::start(hello()).await;
    let mut driver = Driver::start(limits());
    driver.write(7, "POST /api/v1/sessions", Some(json!({"metadata": {"cwd": "/p"}}))).await;
    driver.print_banner(fake.port).await;
    let call = fake.calls.recv().await.unwrap();
    assert_eq!(call.line, "POST /api/v1/sessions");
    assert_eq!((&*call.authorization, &*call.media_type), (&*format!("Bearer {SECRET}"), "application/json"));
    assert_eq!(call.body, br#"{"metadata":{"cwd":"/p"}}"#);
    call.answer(&json!({"code": 0, "msg": "success", "data": {"id": "s"}}));
    assert_eq!(driver.read().await, json!({"jsonrpc": "2.0", "id": 7, "result": {"id": "s"}}));
}

#[tokio::test]
async fn connection_is_kept_between_calls() {
    let (mut driver, mut fake, _socket) = connected(limits()).await;
    let mut connections = Vec::new();
    for id in 0..3 {
        driver.write(id, "GET /api/v1/meta", None).await;
        let call = fake.calls.recv().await.unwrap();
        connections.push(call.connection);
        call.answer(&json!({"code": 0, "data": id}));
        assert_eq!(driver.read().await["result"], id);
    }
    assert_eq!(connections, [connections[0]; 3]);
}

#[tokio::test]
async fn calls_are_answered_in_any_order() {
    let (mut driver, mut fake, _socket) = connected(limits()).await;
    driver.write(1, "GET /api/v1/a", None).await;
    driver.write(2, "GET /api/v1/b", None).await;
    let (first, second) = (fake.calls.recv().await.unwrap(), fake.calls.recv().await.unwrap());
    let (a, b) = if first.line.ends_with('a') { (first, second) } else { (second, first) };
    b.answer(&json!({"code": 40401, "msg": "no session", "data": null, "stack": "at /opt/x.js"}));
    let error = json!({"code": 40401, "message": "no session"});
    assert_eq!(driver.read().await, json!({"jsonrpc": "2.0", "id": 2, "error": error}));
    a.answer.send((404, "{\"error\":\"Not Found\"}".to_owned())).unwrap();
    let error = driver.read().await;
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(1), &json!(-32010)));
}

#[tokio::test]
async fn file_is_uploaded_as_form() {
    let (mut driver, mut fake, _socket) = connected(limits()).await;
    let file = json!({"media_type": "image/png", "name": "a.png", "data": "AAEC"});
    driver.write(1, "UPLOAD /api/v1/files", Some(file)).await;
    let call = fake.calls.recv().await.unwrap();
    let boundary = call.media_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n"
    );
    assert_eq!(call.body, [head.as_bytes(), &[0, 1, 2], format!("\r\n--{boundary}--\r\n").as_bytes()].concat());
    call.answer(&json!({"code": 0, "data": {"id": "f_1"}}));
    assert_eq!(driver.read().await["result"]["id"], "f_1");
    // Nothing in it can end the part's head.
    let file = json!({"media_type": "image/png", "name": "a\"\r\nX: y", "data": "AAEC"});
    driver.write(2, "UPLOAD /api/v1/files", Some(file)).await;
    assert_eq!(driver.read().await["error"]["code"], -32010);
}

#[tokio::test]
async fn frames_pass_in_both_directions() {
    let (mut driver, _fake, mut socket) = connected(limits()).await;
    driver.write(7, "WS subscribe", Some(json!({"session_ids": ["s"]}))).await;
    let frame = json!({"type": "subscribe", "id": "7", "payload": {"session_ids": ["s"]}});
    assert_eq!(next_json(&mut socket).await, frame);
    socket.send(Message::text("no JSON")).await.unwrap();
    socket.send(Message::binary(vec![0, 159])).await.unwrap();
    let event = json!({"type": "turn.started", "seq": 1, "session_id": "s", "payload": {"turnId": 0}});
    send(&mut socket, &event).await;
    send(&mut socket, &json!({"type": "ack", "id": "7", "code": 0, "msg": "", "payload": {"accepted": ["s"]}})).await;
    assert_eq!(driver.read().await, json!({"jsonrpc": "2.0", "method": "turn.started", "params": event}));
    assert_eq!(driver.read().await, json!({"jsonrpc": "2.0", "id": 7, "result": {"accepted": ["s"]}}));
}

#[tokio::test]
async fn pings_are_answered_without_driver_reads() {
    let (mut driver, _fake, mut socket) = connected(limits()).await;
    let text = "x".repeat(1 << 20);
    for n in 0..8 {
        send(&mut socket, &json!({"type": "assistant.delta", "payload": {"n": n, "text": text}})).await;
    }
    send(&mut socket, &json!({"type": "ping", "payload": {"nonce": "n"}})).await;
    assert_eq!(next_json(&mut socket).await, json!({"type": "pong", "payload": {"nonce": "n"}}));
    for n in 0..8 {
        assert_eq!(driver.read().await["params"]["payload"]["n"], n);
    }
}

#[tokio::test]
async fn late_driver_gets_more_than_the_limit() {
    let (mut driver, _fake, mut socket) = connected(Limits { unread: 1 << 10, ..limits() }).await;
    let text = "x".repeat(1 << 20);
    let flood = tokio::spawn(async move {
        for n in 0..40 {
            send(&mut socket, &json!({"type": "assistant.delta", "payload": {"n": n, "text": text}})).await;
        }
        socket
    });
    for n in 0..40 {
        assert_eq!(driver.read().await["params"]["payload"]["n"], n);
    }
    drop(flood.await);
}

#[tokio::test]
async fn gateway_ends_if_too_much_is_unread() {
    let limits = Limits { stalled: Duration::from_millis(100), ..limits() };
    let (mut driver, _fake, mut socket) = connected(limits).await;
    let text = "x".repeat(1 << 20);
    let flood = tokio::spawn(async move {
        let frame = json!({"type": "assistant.delta", "payload": {"text": text}}).to_string();
        while socket.send(Message::text(frame.clone())).await.is_ok() {}
    });
    flood.await.unwrap();
    assert_eq!(driver.reason().await.code(), "event_buffer_full");
    driver.until_interrupted().await;
}

#[tokio::test]
async fn broken_socket_is_connected_again() {
    let (mut driver, mut fake, mut socket) = connected(limits()).await;
    driver.write(1, "WS subscribe", Some(json!({}))).await;
    next_json(&mut socket).await;
    drop(socket);
    let lost = driver.read().await;
    assert_eq!((&lost["id"], &lost["error"]["code"]), (&json!(1), &json!(-32010)));
    let mut socket = fake.sockets.recv().await.unwrap();
    assert_eq!(driver.read().await, json!({"jsonrpc": "2.0", "method": "gateway/connected", "params": {"count": 1}}));
    driver.write(2, "WS subscribe", Some(json!({"cursors": {}}))).await;
    assert_eq!(next_json(&mut socket).await["id"], "2");
    // Half a frame, then nothing more.
    socket.get_mut().write_all(&[0x81, 0x7e, 0x10, 0x00, b'{']).await.unwrap();
    drop(socket);
    fake.sockets.recv().await.unwrap();
    assert_eq!(driver.read().await["error"]["code"], -32010);
    assert_eq!(driver.read().await["params"]["count"], 2);
}

#[tokio::test]
async fn failed_reconnect_ends_gateway() {
    let (mut driver, fake, socket) = connected(Limits { reconnect: Duration::from_millis(300), ..limits() }).await;
    fake.accepting.abort();
    drop(socket);
    let reason = driver.reason().await;
    assert_eq!(reason.code(), "protocol_error");
    assert!(reason.to_string().contains("can't be had again"), "{reason}");
    driver.until_interrupted().await;
}

#[tokio::test]
async fn silent_server_with_heartbeats_is_connected_again() {
    let hello = json!({"type": "server_hello", "payload": {"protocol_version": 2, "heartbeat_ms": 20}});
    let (mut driver, mut fake, mut socket) =
        greeted(hello, Limits { silence: Duration::from_millis(100), ..limits() }).await;
    send(&mut socket, &json!({"type": "ping", "payload": {"nonce": "n"}})).await;
    assert_eq!(next_json(&mut socket).await["type"], "pong");
    let _again = fake.sockets.recv().await.unwrap();
    assert_eq!(driver.read().await["method"], "gateway/connected");
}

#[tokio::test]
async fn server_of_another_version_is_refused() {
    for greeting in [
        json!({"type": "server_hello", "payload": {"protocol_version": 3}}),
        json!({"type": "server_hello", "payload": {}}),
        json!({"type": "welcome"}),
    ] {
        let fake = Fake::start(greeting).await;
        let mut driver = Driver::start(limits());
        driver.print_banner(fake.port).await;
        assert_eq!(driver.reason().await.code(), "handshake_error");
    }
}

#[tokio::test]
async fn rejected_secret_fails_connect() {
    let fake = Fake::start(hello()).await;
    let (started, mut agent) = memory::pair(1 << 16);
    let server = Server { secret: "other".to_owned() };
    let Transport { mut reader, writer: _writer, process: _process, .. } = connect_with(&server, started, limits());
    agent.writer.write_all(format!("http://127.0.0.1:{}/\n", fake.port).as_bytes()).await.unwrap();
    let error = reader.read_to_end(&mut Vec::new()).await.unwrap_err().to_string();
    assert!(error.contains("HTTP status 401") && !error.contains("other"), "{error}");
}

#[tokio::test]
async fn process_exit_before_port_ends_gateway() {
    let driver = Driver::start(limits());
    let Driver { mut lines, mut process, agent, writer } = driver;
    drop(agent.writer);
    agent.exit.code(1);
    assert_eq!(process.wait().await, Exit { code: Some(1), ..Exit::default() });
    assert_eq!(lines.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    drop(writer);
}

#[tokio::test]
async fn gateway_end_finishes_calls_before_interrupt() {
    let (mut driver, mut fake, mut socket) = connected(limits()).await;
    driver.write(1, "POST /api/v1/sessions/s:abort", Some(json!({}))).await;
    driver.writer = None;
    let call = fake.calls.recv().await.unwrap();
    assert!(!driver.agent.exit.was_interrupted());
    call.answer(&json!({"code": 0, "data": {"aborted": true}}));
    assert_eq!(driver.read().await["result"]["aborted"], true);
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
    driver.until_interrupted().await;
    assert_eq!(driver.lines.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn terminate_closes_socket_first() {
    let (mut driver, _fake, mut socket) = connected(limits()).await;
    send(&mut socket, &json!({"type": "turn.started"})).await;
    driver.read().await;
    driver.agent.exit.obey();
    driver.process.terminate();
    assert!(!driver.agent.exit.was_interrupted());
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
    assert_eq!(driver.process.wait().await.signal.as_deref(), Some("SIGINT"));
}

#[tokio::test]
async fn frames_before_process_exit_are_delivered() {
    let (mut driver, _fake, mut socket) = connected(limits()).await;
    send(&mut socket, &json!({"type": "turn.started"})).await;
    driver.read().await;
    for n in 0..100 {
        send(&mut socket, &json!({"type": "assistant.delta", "n": n})).await;
    }
    drop(socket);
    driver.agent.exit.signal("SIGKILL");
    assert_eq!(driver.process.wait().await.signal.as_deref(), Some("SIGKILL"));
    for n in 0..100 {
        assert_eq!(driver.read().await["params"]["n"], n);
    }
}

#[tokio::test]
async fn secret_sent_by_server_is_replaced() {
    let (mut driver, mut fake, mut socket) = connected(limits()).await;
    send(&mut socket, &json!({"type": "tool.result", "output": format!("A={SECRET} B={SECRET}")})).await;
    assert_eq!(driver.read().await["params"]["output"], "A=*** B=***");
    driver.write(1, "GET /api/v1/config", None).await;
    fake.calls.recv().await.unwrap().answer(&json!({"code": 50001, "msg": format!("bad {SECRET}")}));
    assert_eq!(driver.read().await["error"]["message"], "bad ***");
}
