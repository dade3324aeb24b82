//! Messages over HTTP, against a server that hands all requests to the test.

use std::convert::Infallible;

use futures_util::stream::unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncBufReadExt as _;
use tokio::io::BufReader;
use tokio::sync::{mpsc, oneshot};

use super::super::Address;
use super::super::client::{Client, Ids};
use super::super::connector::with_roots;
use super::*;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A request, and the way to answer it.
struct Received {
    line: String,
    headers: hyper::HeaderMap,
    body: String,
    answer: oneshot::Sender<Response<Body>>,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn answer(self, status: u16, headers: &[(&str, &str)], body: &str) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let body = Full::new(Bytes::from(body.to_owned())).boxed_unsync();
        self.answer.send(response.body(body).unwrap()).unwrap();
    }

    fn accept(self) {
        self.answer(202, &[], "");
    }

    /// Answers with a stream of events.
    fn stream(self) -> mpsc::UnboundedSender<String> {
        let (sender, receiver) = mpsc::unbounded_channel::<String>();
        let frames = unfold(receiver, async |mut receiver| {
            let text = receiver.recv().await?;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), receiver))
        });
        let response = Response::builder().header("content-type", "text/event-stream");
        self.answer.send(response.body(StreamBody::new(frames).boxed_unsync()).unwrap()).unwrap();
        sender
    }
}

/// A server whose requests come to the test.
struct Server {
    url: String,
    requests: mpsc::UnboundedReceiver<Received>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/acp", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let sender = sender.clone();
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let (answer, answered) = oneshot::channel();
                        let line = format!("{} {}", parts.method, parts.uri);
                        let body = String::from_utf8(body.to_vec()).unwrap();
                        drop(sender.send(Received { line, headers: parts.headers, body, answer }));
                        answered.await
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { url, requests }
    }

    async fn next(&mut self, line: &str) -> Received {
        let received = tokio::time::timeout(Duration::from_secs(20), self.requests.recv()).await;
        let received = received.unwrap_or_else(|_| panic!("no {line}")).unwrap();
        assert_eq!(received.line, line);
        received
    }
}

/// The driver's side.
struct Driver {
    writer: Box<dyn tokio::io::AsyncWrite + Send + Unpin>,
    reader: BufReader<Box<dyn tokio::io::AsyncRead + Send + Unpin>>,
    process: Box<dyn Process>,
}

impl Driver {
    async fn write(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the error at the end of the output.
    async fn error(&mut self) -> Error {
        let error = self.reader.read_line(&mut String::new()).await.unwrap_err();
        error.get_ref().unwrap().downcast_ref::<Error>().unwrap().clone()
    }
}

async fn driver(server: &Server) -> Driver {
    let target = Target { max_message_bytes: 1000, ..target(server.url.clone()) };
    let transport = connect_with(target, None, Limits::default()).await.unwrap();
    Driver { writer: transport.writer, reader: BufReader::new(transport.reader), process: transport.process }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const NEW: &str = r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/"}}"#;
const PROMPT: &str = r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s"}}"#;

type Stream = mpsc::UnboundedSender<String>;

/// A connection that is initialized. Returns its stream, too.
async fn initialized(server: &mut Server) -> (Driver, Stream) {
    let mut driver = driver(server).await;
    driver.write(INITIALIZE).await;
    let headers = [("acp-connection-id", "c"), ("set-cookie", "affinity=canary-1; Path=/acp"), ("set-cookie", "b=c")];
    server.next("POST /acp").await.answer(200, &headers, INITIALIZED);
    assert_eq!(driver.line().await, INITIALIZED);
    let request = server.next("GET /acp").await;
    assert_eq!((request.header("acp-connection-id"), request.header("acp-session-id")), ("c", ""));
    assert_eq!(request.header("accept"), "text/event-stream");
    (driver, request.stream())
}

/// A connection with the session `s`, and its streams.
async fn opened(server: &mut Server) -> (Driver, Stream, Stream) {
    let (mut driver, stream) = initialized(server).await;
    driver.write(NEW).await;
    server.next("POST /acp").await.accept();
    stream.send(event(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#)).unwrap();
    assert!(driver.line().await.ends_with(r#"{"sessionId":"s"}}"#));
    let request = server.next("GET /acp").await;
    assert_eq!((request.header("acp-connection-id"), request.header("acp-session-id")), ("c", "s"));
    (driver, stream, request.stream())
}

fn event(message: &str) -> String {
    format!("data: {message}\n\n")
}

#[tokio::test]
async fn messages_have_their_streams_and_headers() {
    let mut server = Server::start().await;
    let (mut driver, _stream, session) = opened(&mut server).await;
    driver.write(PROMPT).await;
    let posted = server.next("POST /acp").await;
    assert_eq!((posted.header("acp-connection-id"), posted.header("acp-session-id")), ("c", "s"));
    assert_eq!((posted.header("content-type"), &*posted.body), ("application/json", PROMPT));
    let mut cookies: Vec<_> = posted.header("cookie").split("; ").collect();
    cookies.sort_unstable();
    assert_eq!(
        (cookies, posted.header("authorization")),
        (vec!["affinity=canary-1", "b=c"], "Bearer canary-of-a-header")
    );

    // The agent's request and its answer do not wait for the message that is being sent.
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s"}}"#;
    session.send(event(question)).unwrap();
    assert_eq!(driver.line().await, question);
    driver.write(r#"{"jsonrpc":"2.0","id":"q","result":{}}"#).await;
    let answer = server.next("POST /acp").await;
    assert_eq!((answer.header("acp-session-id"), &*answer.body), ("s", r#"{"jsonrpc":"2.0","id":"q","result":{}}"#));
    answer.accept();
    posted.accept();

    session.send(": keep-alive\n\ndata: {\"a\":\ndata: 1}\n\nda".to_owned()).unwrap();
    assert_eq!(driver.line().await, "{\"a\": 1}");
    session.send(format!("ta: {}\n\n", r#"{"id":3,"result":{}}"#)).unwrap();
    assert_eq!(driver.line().await, r#"{"id":3,"result":{}}"#);

    driver.writer = Box::new(tokio::io::sink());
    let deleted = server.next("DELETE /acp").await;
    assert_eq!(deleted.header("acp-connection-id"), "c");
    deleted.accept();
    assert_eq!(reason(&mut driver.process).await, "the agent closed its pipes");
}

#[tokio::test]
async fn refused_message_is_an_answer_or_the_end() {
    let mut server = Server::start().await;
    let (mut driver, _stream, _session) = opened(&mut server).await;
    driver.write(PROMPT).await;
    server.next("POST /acp").await.answer(502, &[], "canary-of-a-header: bad gateway\nmore");
    let expected = "the server answered with HTTP status 502 Bad Gateway: ***: bad gateway";
    assert!(driver.line().await.contains(expected));
    driver.write(PROMPT).await;
    server.next("POST /acp").await.answer(404, &[], "");
    server.next("DELETE /acp").await.accept();
    let reason = reason(&mut driver.process).await;
    assert!(reason.ends_with("/acp ended: the server answered with HTTP status 404 Not Found"), "{reason}");
}

#[tokio::test]
async fn stream_that_ends_between_turns_is_opened_again() {
    let mut server = Server::start().await;
    let (mut driver, stream, session) = opened(&mut server).await;
    drop((stream, session));
    let (one, other) = (server.next("GET /acp").await, server.next("GET /acp").await);
    let (stream, session) = if one.header("acp-session-id").is_empty() { (one, other) } else { (other, one) };
    let (_stream, session) = (stream.stream(), session.stream());
    session.send(event("{\"b\":2}")).unwrap();
    assert_eq!(driver.line().await, "{\"b\":2}");

    driver.write(PROMPT).await;
    server.next("POST /acp").await.accept();
    drop(session);
    server.next("DELETE /acp").await.accept();
    let reason = reason(&mut driver.process).await;
    assert!(reason.ends_with("ended: the server ended the stream of its messages"), "{reason}");
}

#[tokio::test]
async fn unknown_session_gets_its_stream_later() {
    let mut server = Server::start().await;
    let (mut driver, _stream) = initialized(&mut server).await;
    let load = r#"{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"s"}}"#;
    driver.write(load).await;
    server.next("GET /acp").await.answer(404, &[], "unknown Acp-Session-Id");
    // Both come at the same time, in any order.
    for _ in 0..2 {
        let received = server.requests.recv().await.unwrap();
        match &*received.line {
            "POST /acp" => received.accept(),
            _ => drop(received.stream().send(event("{\"replayed\":1}"))),
        }
    }
    assert_eq!(driver.line().await, "{\"replayed\":1}");
}

#[tokio::test]
async fn message_over_the_limit_is_an_error_over_http() {
    let mut server = Server::start().await;
    let (mut driver, stream) = initialized(&mut server).await;
    stream.send(event(&"x".repeat(1000))).unwrap();
    assert_eq!(driver.line().await.len(), 1000);
    stream.send("data: ".to_owned() + &"x".repeat(900) + "\ndata: " + &"x".repeat(900)).unwrap();
    stream.send("\n".repeat(2)).unwrap();
    server.next("DELETE /acp").await.accept();
    let error = driver.error().await;
    assert!(error.code() == "protocol_error" && error.to_string().contains("`max_line_bytes` allows 1000"), "{error}");
}

#[tokio::test]
async fn server_without_acp_is_refused() {
    let cases = [
        (200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", "its answer to `initialize` names no connection"),
        (200, "<html>", "does not speak ACP over HTTP"),
        (405, "", "HTTP status 405 Method Not Allowed instead of answering over ACP"),
        (401, "", "does not accept the header `Authorization`"),
        (404, "", "has no agent at this path"),
    ];
    for (status, body, expected) in cases {
        let mut server = Server::start().await;
        let mut driver = driver(&server).await;
        driver.write(INITIALIZE).await;
        server.next("POST /acp").await.answer(status, &[], body);
        let error = driver.error().await;
        assert_eq!(error.code(), "spawn_error");
        assert!(error.to_string().contains(expected) && !error.to_string().contains("canary"), "{error}");
    }
    let server = Server::start().await;
    let mut lost = driver(&server).await;
    drop(server);
    lost.write(INITIALIZE).await;
    let error = lost.error().await;
    assert!(error.to_string().starts_with("can't reach the agent at http://127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn https_uses_http_2() {
    let (config, certificate) = certified();
    let mut config = Arc::into_inner(config).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/acp", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let service = service_fn(async |request: Request<Incoming>| {
            let status = if request.version() == Version::HTTP_2 { 202 } else { 505 };
            Response::builder().status(status).body(Full::new(Bytes::new()))
        });
        drop(
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await,
        );
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let client = Client::new(with_roots(roots, false).unwrap(), Address::new(&url, &[]).unwrap());
    let answers = [1, 2, 3].map(|_| client.post(Ids { connection: None, session: None }, "{}".to_owned()));
    for answer in answers {
        assert_eq!(answer.await.unwrap().status(), 202);
    }
    server.abort();
}
