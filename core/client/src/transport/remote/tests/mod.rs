//! Connections against small servers on loopback.

mod http;
mod session;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::{Limits, connect_with};
use crate::error::{AgentExit, Error, Result};
use crate::transport::launch::Target;
use crate::transport::{Exit, Process, Transport};

/// A value of a header, which must not be in any text.
const CANARY: &str = "canary-of-a-header";

fn target(url: String) -> Target {
    Target {
        url,
        headers: vec![("Authorization".to_owned(), format!("Bearer {CANARY}"))],
        connect_timeout: Duration::from_secs(20),
        max_message_bytes: 1 << 20,
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/acp?token=canary-of-a-query", listener.local_addr().unwrap());
    (listener, url)
}

/// Accepts a WebSocket, and returns the request that opened it.
async fn accept(listener: TcpListener) -> (WebSocketStream<TcpStream>, Vec<(String, String)>) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut seen = Vec::new();
    #[expect(clippy::result_large_err, reason = "the library has this type")]
    let callback = |request: &Request, response: Response| {
        seen.push(("path".to_owned(), request.uri().to_string()));
        let shown = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
        seen.extend(request.headers().iter().map(|(name, value)| (name.to_string(), shown(value))));
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(stream, callback).await.unwrap();
    (socket, seen)
}

/// A connection, and the server's side of it.
async fn connected(limits: Limits, max_message_bytes: usize) -> (Transport, WebSocketStream<TcpStream>) {
    let (listener, url) = listen().await;
    let target = Target { max_message_bytes, ..target(url) };
    let (transport, (socket, _)) = tokio::join!(connect_with(target, None, limits), accept(listener));
    (transport.unwrap(), socket)
}

/// Answers the first connection with this text.
async fn answering(answer: &'static str) -> (String, JoinHandle<()>) {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    (url, server)
}

/// Returns the text of the error, which has no secret.
fn text(result: Result<Transport>) -> String {
    let error = result.err().unwrap();
    assert_eq!(error.code(), "spawn_error");
    let text = error.to_string();
    assert!(!text.contains("canary") && !text.contains('\n'), "{text}");
    text
}

async fn reason(process: &mut Box<dyn Process>) -> String {
    assert_eq!(process.wait().await, Exit::default());
    let hint = process.explain(&AgentExit::default());
    let text = Error::AgentExited(AgentExit { hint, ..AgentExit::default() }).to_string();
    assert!(!text.contains("canary"), "{text}");
    text
}

async fn read_to_end(transport: &mut Transport) -> std::io::Result<String> {
    let mut read = String::new();
    transport.reader.read_to_string(&mut read).await.map(|_| read)
}

#[tokio::test]
async fn lines_are_texts_in_both_directions() {
    let (listener, url) = listen().await;
    let connecting = connect_with(target(url), None, Limits::default());
    let (transport, (mut socket, seen)) = tokio::join!(connecting, accept(listener));
    let mut transport = transport.unwrap();
    let header = |name: &str| seen.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
    assert_eq!(header("path"), Some("/acp?token=canary-of-a-query"));
    assert_eq!(header("authorization"), Some("Bearer canary-of-a-header"));
    assert!(header("user-agent").unwrap().starts_with("kimi-agent/"));

    transport.writer.write_all(b"{\"id\":1}\n\n{\"id\":2}\n{\"id\"").await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().to_text().unwrap(), "{\"id\":1}");
    assert_eq!(socket.next().await.unwrap().unwrap().to_text().unwrap(), "{\"id\":2}");
    transport.writer.write_all(b":3}\n").await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().to_text().unwrap(), "{\"id\":3}");

    for message in [Message::binary(vec![1]), Message::text(""), Message::text("{\r\n \"a\": 1\n}"), Message::text("2")]
    {
        socket.send(message).await.unwrap();
    }
    let mut read = [0; 14];
    transport.reader.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"{   \"a\": 1 }\n2");

    // The end of the input closes the connection properly.
    drop(transport.writer);
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(None)))));
    assert!(socket.next().await.is_none());
    assert_eq!(reason(&mut transport.process).await, "the agent closed its pipes");
}

#[tokio::test]
async fn line_after_a_ping_is_sent() {
    let (mut transport, mut socket) = connected(Limits::default(), 1 << 20).await;
    for _ in 0..20 {
        socket.send(Message::Ping("x".into())).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong("x".into()));
        transport.writer.write_all(b"{}\n").await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap().to_text().unwrap(), "{}");
    }
}

#[tokio::test]
async fn end_of_connection_has_its_reason() {
    let (mut transport, mut socket) = connected(Limits::default(), 1 << 20).await;
    socket.send(Message::text("1")).await.unwrap();
    let frame = CloseFrame { code: 1011.into(), reason: "Bearer canary-of-a-header is old".into() };
    socket.close(Some(frame)).await.unwrap();
    assert_eq!(read_to_end(&mut transport).await.unwrap(), "1\n");
    let reason_of_close = reason(&mut transport.process).await;
    let (start, end) = reason_of_close.split_once("ended: ").unwrap();
    assert!(start.starts_with("the connection to the agent at ws://127.0.0.1:") && start.ends_with("/acp "), "{start}");
    assert_eq!(end, "the server closed it with the code 1011: *** is old");

    let (mut transport, socket) = connected(Limits::default(), 1 << 20).await;
    drop(socket);
    assert_eq!(read_to_end(&mut transport).await.unwrap(), "");
    let reason = reason(&mut transport.process).await;
    assert!(reason.ends_with("ended: it ended without a word of the server"), "{reason}");
}

#[tokio::test]
async fn message_over_the_limit_is_an_error() {
    let (mut transport, mut socket) = connected(Limits::default(), 100).await;
    socket.send(Message::text("x".repeat(100))).await.unwrap();
    socket.send(Message::text("x".repeat(101))).await.unwrap();
    let error = read_to_end(&mut transport).await.unwrap_err();
    let error = error.get_ref().unwrap().downcast_ref::<Error>().unwrap();
    assert_eq!(error.code(), "protocol_error");
    assert!(error.to_string().contains("101 bytes or more, and `max_line_bytes` allows 100"), "{error}");
}

#[tokio::test]
async fn silent_agent_is_asked_and_given_up() {
    let limits = Limits { ping: Duration::from_millis(20), silence: Duration::from_millis(60), ..Limits::default() };
    let (mut transport, socket) = connected(limits.clone(), 1 << 20).await;
    // It does not read, so it answers no ping.
    let reason_of_silence = reason(&mut transport.process).await;
    assert!(
        reason_of_silence.ends_with("ended: it was silent for 60ms, and did not answer a ping"),
        "{reason_of_silence}"
    );
    drop(socket);

    let (transport, mut socket) = connected(limits, 1 << 20).await;
    for _ in 0..5 {
        assert!(matches!(socket.next().await, Some(Ok(Message::Ping(_)))));
    }
    drop(transport);
}

#[tokio::test]
async fn unread_output_stops_the_server() {
    let limits = Limits { unread: 1000, ..Limits::default() };
    let (mut transport, mut socket) = connected(limits, 1 << 20).await;
    let text = "x".repeat(1 << 20);
    let sending = tokio::spawn(async move {
        for _ in 0..50 {
            socket.send(Message::text(text.clone())).await.unwrap();
        }
        socket
    });
    transport.writer.write_all(b"{}\n").await.unwrap();
    let mut read = vec![0; 49 * ((1 << 20) + 1)];
    assert!(!sending.is_finished());
    transport.reader.read_exact(&mut read).await.unwrap();
    let mut socket = sending.await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().to_text().unwrap(), "{}");
}

#[tokio::test]
async fn terminate_closes_and_kill_drops_the_connection() {
    let (mut transport, mut socket) = connected(Limits::default(), 1 << 20).await;
    transport.process.terminate();
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(None)))));
    drop(socket);
    assert_eq!(transport.process.wait().await, Exit::default());

    let (mut transport, mut socket) = connected(Limits::default(), 1 << 20).await;
    transport.process.kill();
    assert_eq!(transport.process.wait().await, Exit::default());
    assert!(socket.next().await.unwrap().is_err());
}

#[tokio::test]
async fn refusals_name_the_remedy() {
    let cases = [
        (
            "401 Unauthorized\r\nWWW-Authenticate: Basic realm=x",
            "does not accept the header `Authorization` of the place",
        ),
        ("403 Forbidden", "does not accept the header `Authorization` of the place"),
        (
            "404 Not Found",
            "it has no agent at this path (HTTP status 404 Not Found); check the path, which often is `/acp`",
        ),
        (
            "302 Found\r\nLocation: https://other/acp?token=canary",
            "it redirects to https://other/acp (HTTP status 302 Found)",
        ),
        ("503 Service Unavailable", "it has a problem (HTTP status 503 Service Unavailable); try again later"),
        ("200 OK", "instead of opening a WebSocket; check the address, or use the scheme `https` or `http`"),
        ("101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket", "the server opens no WebSocket"),
    ];
    for (status, expected) in cases {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").leak();
        let (url, server) = answering(answer).await;
        let error = text(connect_with(target(url), None, Limits::default()).await);
        assert!(error.contains(expected), "{error}");
        server.await.unwrap();
    }
    let (url, server) =
        answering("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n").await;
    let error = text(connect_with(Target { headers: Vec::new(), ..target(url) }, None, Limits::default()).await);
    let expected = "set the header `Authorization` in `headers` of the place, with the scheme Bearer";
    assert!(error.contains(expected), "{error}");
    server.await.unwrap();
    let (url, server) = answering("220 mail.example ESMTP\r\n").await;
    let error = text(connect_with(target(url), None, Limits::default()).await);
    assert!(
        error.ends_with(
            ": the answer is not HTTP; check the port, and use the scheme `wss` or `https` if the server speaks TLS"
        ),
        "{error}"
    );
    server.await.unwrap();
}

#[tokio::test]
async fn unreachable_servers_are_explained() {
    let (listener, url) = listen().await;
    drop(listener);
    let error = text(connect_with(target(url), None, Limits::default()).await);
    assert!(
        error.starts_with("can't reach the agent at ws://127.0.0.1:") && error.contains("/acp: nothing listens"),
        "{error}"
    );
    let error = text(connect_with(target("ws://name.invalid/acp".to_owned()), None, Limits::default()).await);
    assert!(error.contains("the name of the host is not known"), "{error}");
    let (_listener, url) = listen().await;
    let target = Target { connect_timeout: Duration::from_millis(10), ..target(url) };
    let error = connect_with(target, None, Limits::default()).await.err().unwrap();
    assert_eq!(error.code(), "timeout");
}

/// A server with a certificate for its address, of which nobody else knows. Returns the certificate, too.
fn certified() -> (Arc<ServerConfig>, rcgen::Certificate) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
    (Arc::new(config), made.cert)
}

#[tokio::test]
async fn unknown_certificates_are_refused() {
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(certified().0).accept(stream).await.err().unwrap()
    });
    let error = text(connect_with(target(url.replace("ws:", "wss:")), None, Limits::default()).await);
    assert!(error.contains("/acp: the certificate of the server is not accepted: "), "{error}");
    assert!(error.contains("SSL_CERT_FILE"), "{error}");
    server.await.unwrap();
    let (url, server) = answering("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = text(connect_with(target(url.replace("ws:", "wss:")), None, Limits::default()).await);
    assert!(error.contains("the server does not speak TLS at this port"), "{error}");
    server.await.unwrap();
}

/// Returns the error of a connection to `url` in a process of its own, which has these variables.
async fn error_with(variables: &[(&str, &str)], url: &str) -> String {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "--ignored", "--nocapture", "transport::remote::tests::child_that_connects"]);
    ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"].iter().for_each(|name| {
        child.env_remove(name).env_remove(name.to_lowercase());
    });
    child.env("REMOTE_URL", url).envs(variables.iter().copied()).kill_on_drop(true);
    let output = String::from_utf8(child.output().await.unwrap().stdout).unwrap();
    output.lines().find_map(|line| line.split_once("error: ")).expect(&output).1.to_owned()
}

#[tokio::test]
#[ignore = "the process that other tests start"]
async fn child_that_connects() {
    let url = std::env::var("REMOTE_URL").unwrap();
    println!("error: {}", text(connect_with(target(url), None, Limits::default()).await));
}

#[tokio::test]
async fn certificate_of_a_file_is_accepted() {
    let (config, certificate) = certified();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("authorities.pem");
    std::fs::write(&file, certificate.pem()).unwrap();
    let (listener, url) = listen().await;
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = TlsAcceptor::from(config).accept(stream).await.unwrap();
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        stream.shutdown().await.ok();
    });
    let variables = [("SSL_CERT_FILE", file.to_str().unwrap())];
    let error = error_with(&variables, &url.replace("ws:", "wss:")).await;
    assert!(error.contains("it has no agent at this path (HTTP status 404 Not Found)"), "{error}");
    server.await.unwrap();
}

/// A proxy that answers one request, and then passes on what comes to `target`. Returns its address, and its task with the request.
async fn proxy(answer: &'static str, target: Option<String>) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let read = stream.read(&mut request).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        if let Some(target) = target {
            let mut server = TcpStream::connect(target).await.unwrap();
            tokio::io::copy_bidirectional(&mut stream, &mut server).await.ok();
        }
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    (address, task)
}

#[tokio::test]
async fn proxies_of_the_environment_are_used() {
    let (url, server) = answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
    let host = url.split(['/', '?']).nth(2).unwrap().to_owned();
    let (address, asked) = proxy("HTTP/1.1 200 OK\r\n\r\n", Some(host.clone())).await;
    let variable = format!("http://ada:canary-of-a-proxy@{address}");
    // The proxy is not asked for this machine.
    let [host, url] = [host, url].map(|text| text.replace("127.0.0.1", "agents.example"));
    let error = error_with(&[("HTTP_PROXY", &variable)], &url).await;
    assert!(error.contains("it has no agent at this path"), "{error}");
    server.await.unwrap();
    let asked = asked.await.unwrap();
    assert!(asked.starts_with(&format!("CONNECT {host} HTTP/1.1\r\n")), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic ") && !asked.contains("canary-of-a-header"), "{asked}");

    for (answer, expected) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "it wants a login; put the user and the password into the URL",
        ),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "it opens no connection to this host and port"),
    ] {
        let (address, asked) = proxy(answer, None).await;
        let variable = format!("http://ada:canary-of-a-proxy@{address}");
        let error = error_with(&[("HTTPS_PROXY", &variable)], "wss://agents.example/acp").await;
        assert!(error.contains(&format!("through the proxy {address} (from the environment): {expected}")), "{error}");
        assert!(asked.await.unwrap().starts_with("CONNECT agents.example:443 HTTP/1.1\r\n"));
    }
    let error = error_with(&[("ALL_PROXY", "https://proxy.example")], "ws://agents.example/acp").await;
    assert!(error.contains("a proxy with the scheme https; use http or socks5"), "{error}");
    let (url, server) = answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
    let error = error_with(&[("HTTP_PROXY", "http://127.0.0.1:9"), ("NO_PROXY", "127.0.0.1")], &url).await;
    assert!(error.contains("it has no agent at this path"), "{error}");
    server.await.unwrap();
}

#[test]
fn wrong_addresses_and_headers_are_refused() {
    let problem = |url: &str| super::Address::new(url, &[]).err().unwrap();
    for (url, expected) in [
        ("", "`url`: "),
        ("agents.example", "`url`: it has no scheme; expected an address such as \"wss://agents.example/acp\""),
        ("/acp", "`url`: it has no scheme"),
        ("ftp://a/acp", "`url`: expected the scheme wss, ws, https or http, got ftp"),
        ("wss://", "`url`: "),
        ("wss:///acp", "`url`: "),
        ("wss://a:99999/acp", "`url`: "),
        ("wss://ada:canary@a/acp", "`url`: it contains a user name; pass `Authorization` in `headers` instead"),
        ("wss://a b/acp", "`url`: "),
    ] {
        let problem = problem(url);
        assert!(problem.starts_with(expected) && !problem.contains("canary"), "{url}: {problem}");
    }
    let problem = |name: &str, value: &str| {
        super::Address::new("wss://a/acp", &[(name.to_owned(), value.to_owned())]).err().unwrap()
    };
    assert!(problem("a b", "canary").starts_with("`headers`: \"a b\" is not the name of a header"));
    assert!(problem("X", "canary\n").starts_with("`headers`: the value of `X` has a character"));
    assert!(problem("Upgrade", "canary").starts_with("`headers`: `Upgrade` is set by the transport"));
    for (url, shown) in
        [("WSS://h/a?b=c#d", "wss://h/a"), ("http://[::1]:80", "http://[::1]:80/"), ("ws://h:1/", "ws://h:1/")]
    {
        assert_eq!(super::Address::new(url, &[]).unwrap().to_string(), shown);
    }
    let header = [("Authorization".to_owned(), "x".to_owned())];
    for (url, expected) in [
        ("ws://agents.example", true),
        ("http://10.0.0.1", true),
        ("wss://agents.example", false),
        ("ws://localhost:80", false),
        ("http://127.0.0.2", false),
        ("http://[::1]:80", false),
    ] {
        assert_eq!(super::Address::new(url, &header).unwrap().sends_secrets_in_plain_text(), expected, "{url}");
        assert!(!super::Address::new(url, &[]).unwrap().sends_secrets_in_plain_text());
    }
}
