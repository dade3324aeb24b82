//! The door and the words; calls through a session are with the driver's tests.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use rmcp::model::{CallToolRequestParams, ContentBlock, ProgressNotificationParam};
use rmcp::service::{NotificationContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::calls::{self, CallEvent, CallReceiver};
use super::http::Limits;
use super::{Offer, ToolsEndpoint, ToolsServer, content};
use crate::ExternalTool;
use crate::messages::{Content, ContentPart, ToolReturnValue};

const LIMIT: usize = 64 << 10;

/// A client that knows the secret, of the protocol's versions with sessions or without.
pub(crate) async fn client(endpoint: &ToolsEndpoint, sessions: bool) -> RunningService<RoleClient, ()> {
    client_with((), endpoint, sessions).await
}

/// A client whose notifications this handler receives.
pub(crate) async fn client_with<H: ClientHandler>(
    handler: H,
    endpoint: &ToolsEndpoint,
    sessions: bool,
) -> RunningService<RoleClient, H> {
    let secret = endpoint.headers[0].1.strip_prefix("Bearer ").expect("a secret");
    let config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
        .auth_header(secret)
        .max_concurrent_requests(64);
    let transport = StreamableHttpClientTransport::from_config(config);
    let lifecycle = if sessions {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Discover { preferred_versions: vec![rmcp::model::ProtocolVersion::V_2026_07_28] }
    };
    handler.serve_with_lifecycle(transport, lifecycle).await.expect("a client")
}

/// Calls a tool: whether it failed, and the texts of its result.
pub(crate) async fn call<H: ClientHandler>(
    client: &RunningService<RoleClient, H>,
    name: &'static str,
    args: Value,
) -> (bool, String) {
    let arguments = args.as_object().cloned().expect("an object");
    let params = CallToolRequestParams::new(name).with_arguments(arguments);
    let result = client.call_tool(params).await.expect("a result");
    let texts = result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    (result.is_error == Some(true), texts)
}

fn tool(name: &str, parameters: Value) -> ExternalTool {
    ExternalTool::new(name, "what it does", parameters, |_| async { Ok("never called") })
}

async fn start(tools: &[ExternalTool]) -> (ToolsServer, Offer, CallReceiver) {
    let (caller, calls) = calls::channel();
    let (server, offer) = ToolsServer::start(tools, LIMIT, caller).await.expect("a server");
    (server, offer, calls)
}

/// Answers every call with what comes out of its name and arguments.
fn serve(mut calls: CallReceiver, answer: impl Fn(String, String) -> ToolReturnValue + Send + 'static) {
    tokio::spawn(async move {
        loop {
            if let CallEvent::Call(call) = poll_fn(|cx| calls.poll_next(cx, true)).await {
                let _ = call.reply.send(answer(call.request.name, call.request.arguments.unwrap_or_default()));
            }
        }
    });
}

/// Sends a request as it is; the status and the rest of what comes back until the server closes.
async fn raw(endpoint: &ToolsEndpoint, head: &str, body: &str) -> (u16, String) {
    let address = endpoint.url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).expect("an address");
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let length = body.len();
    let request = format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    // A server that refuses closes before it has read all.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    (status, answer)
}

fn head(endpoint: &ToolsEndpoint, secret: &str, more: &str) -> String {
    let host = endpoint.url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).expect("a host");
    let host = if more.contains("Host:") { String::new() } else { format!("\r\nHost: {host}") };
    let secret = if secret.is_empty() { String::new() } else { format!("\r\nAuthorization: {secret}") };
    let accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json";
    format!("POST /mcp HTTP/1.1\r\n{accept}{host}{secret}{more}")
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

#[tokio::test]
async fn caller_without_secret_is_refused() {
    let (server, offer, _calls) = start(&[tool("add", json!({"type": "object"}))]).await;
    let (other, others, _) = start(&[tool("add", json!({"type": "object"}))]).await;
    let endpoint = &offer.endpoint;
    let secret = endpoint.headers[0].1.as_str();
    let (status, answer) = raw(endpoint, &head(endpoint, secret, ""), LIST).await;
    assert_eq!(status, 200, "{answer}");
    let without_last = &secret[..secret.len() - 1];
    let longer = format!("{secret}0");
    for wrong in ["", "Bearer ", "Bearer x", without_last, &longer, &secret[7..], &others.endpoint.headers[0].1] {
        // Neither the body nor the path is read.
        for body in [LIST, "{"] {
            let (status, answer) = raw(endpoint, &head(endpoint, wrong, ""), body).await;
            assert_eq!(status, 401, "{wrong}: {answer}");
        }
    }
    let twice = format!("\r\nAuthorization: {secret}");
    assert_eq!(raw(endpoint, &head(endpoint, secret, &twice), LIST).await.0, 401);
    let get = format!("GET /elsewhere HTTP/1.1\r\nHost: {}", &endpoint.url[7..endpoint.url.len() - 4]);
    assert_eq!(raw(endpoint, &get, "").await.0, 401);
    assert_eq!(raw(endpoint, &format!("{get}\r\nAuthorization: {secret}"), "").await.0, 404);
    assert!(!format!("{endpoint:?}").contains(&secret[7..]), "{endpoint:?}");
    server.close().await;
    other.close().await;
}

#[tokio::test]
async fn requests_from_web_pages_are_refused() {
    let (server, offer, _calls) = start(&[tool("add", json!({"type": "object"}))]).await;
    let endpoint = &offer.endpoint;
    let secret = endpoint.headers[0].1.as_str();
    let port = &endpoint.url["http://127.0.0.1:".len()..endpoint.url.len() - "/mcp".len()];
    assert!(endpoint.url.starts_with("http://127.0.0.1:"), "{}", endpoint.url);
    for host in ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1:1".to_owned()] {
        let (status, answer) = raw(endpoint, &head(endpoint, secret, &format!("\r\nHost: {host}")), LIST).await;
        assert_eq!(status, 403, "{host}: {answer}");
    }
    for origin in ["https://evil.example", "null", &endpoint.url[..endpoint.url.len() - 4]] {
        let (status, answer) = raw(endpoint, &head(endpoint, secret, &format!("\r\nOrigin: {origin}")), LIST).await;
        assert_eq!(status, 403, "{origin}: {answer}");
    }
    let padded = |size: usize| format!("{LIST}{}", " ".repeat(size - LIST.len()));
    assert_eq!(raw(endpoint, &head(endpoint, secret, ""), &padded(LIMIT)).await.0, 200);
    let (status, answer) = raw(endpoint, &head(endpoint, secret, ""), &padded(LIMIT + 1)).await;
    assert_eq!(status, 413, "{answer}");
    assert!(answer.contains(&LIMIT.to_string()), "{answer}");
    let long = format!("\r\nX-Long: {}", "x".repeat(128 << 10));
    assert_eq!(raw(endpoint, &head(endpoint, secret, &long), LIST).await.0, 431);
    server.close().await;
}

#[tokio::test]
async fn tools_are_listed_as_registered() {
    let odd = json!({
        "type": "object",
        "properties": {"z": {"type": "integer", "minimum": 1, "x-unit": "mm"}, "a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^ü+$"}]}},
        "required": ["z"],
        "additionalProperties": false,
    });
    let tools = [tool("odd", odd.clone()), tool("any", json!({})), tool("list", json!({"type": "array"}))];
    let (server, offer, _calls) = start(&tools).await;
    for sessions in [true, false] {
        let client = client(&offer.endpoint, sessions).await;
        let listed = client.list_all_tools().await.expect("a list");
        let names: Vec<_> = listed.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["odd", "any"]);
        // Not only equal: in the same order, too.
        assert_eq!(serde_json::to_string(&listed[0].input_schema).unwrap(), odd.to_string());
        assert_eq!(listed[0].description.as_deref(), Some("what it does"));
        // Clients refuse a whole list for a schema that does not say so.
        assert_eq!(serde_json::to_value(&listed[1].input_schema).unwrap(), json!({"type": "object"}));
        client.cancel().await.expect("gone");
    }
    assert_eq!(offer.tools.accepted, ["odd", "any"]);
    assert_eq!(offer.tools.rejected.len(), 1);
    assert_eq!(offer.tools.rejected[0].name, "list");
    assert!(offer.tools.rejected[0].reason.contains("\"array\""), "{:?}", offer.tools.rejected);
    server.close().await;
}

#[tokio::test]
async fn tool_result_reaches_client() {
    let (server, offer, calls) = start(&[tool("say", json!({"type": "object"}))]).await;
    serve(calls, |name, arguments| {
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
        let text = arguments["text"].as_str().unwrap_or_default();
        ToolReturnValue::ok(format!("{name}: {}", text.repeat(arguments["times"].as_u64().unwrap_or(1) as usize)))
    });
    for sessions in [true, false] {
        let client = client(&offer.endpoint, sessions).await;
        let text = "ünïcode \u{1F980} \u{0} \\u0000 \r\n\ndata: x\n\nevent: y\n";
        let got = call(&client, "say", json!({"text": text})).await;
        assert_eq!(got, (false, format!("say: {text}")));
        assert_eq!(call(&client, "say", json!({})).await, (false, "say: ".to_owned()));
        let (failed, long) = call(&client, "say", json!({"text": "ab\n", "times": 350_000})).await;
        assert!(!failed);
        assert!(long.len() > 1 << 20 && long[5..] == "ab\n".repeat(350_000), "{} bytes", long.len());
        client.cancel().await.expect("gone");
    }
    server.close().await;
}

fn texts(value: ToolReturnValue) -> (bool, Vec<String>) {
    let result = content::result(value);
    let texts = result.content.iter().map(|block| block.as_text().expect("text").text.clone()).collect();
    (result.is_error == Some(true), texts)
}

#[test]
fn tool_results_convert_to_mcp_content() {
    assert_eq!(texts(ToolReturnValue::ok("")), (false, vec![String::new()]));
    assert_eq!(texts(ToolReturnValue::error("no such table")), (true, vec!["no such table".to_owned()]));
    let mut both = ToolReturnValue::ok("42");
    both.message = "all of it".to_owned();
    assert_eq!(texts(both), (false, vec!["all of it".to_owned(), "42".to_owned()]));

    let part = |kind: &str, url: &str| -> ContentPart {
        serde_json::from_value(json!({"type": kind, kind: {"url": url}})).expect("a part")
    };
    let parts = vec![
        ContentPart::text("see"),
        part("image_url", "data:image/png;charset=x;base64,AAEC"),
        part("audio_url", "data:audio/wav;base64,AAEC"),
        part("video_url", "data:video/mp4;base64,AAEC"),
        part("image_url", "https://example.org/a/cat.JPG?x=.gif"),
        part("image_url", "https://example.org/a/cat/"),
        serde_json::from_value(json!({"type": "smell", "of": "cat"})).expect("a part"),
    ];
    let content = content::result(ToolReturnValue::ok(Content::Parts(parts))).content;
    let told: Vec<Value> = content.iter().map(|block| serde_json::to_value(block).unwrap()).collect();
    assert_eq!(
        told,
        [
            json!({"type": "text", "text": "see"}),
            json!({"type": "image", "data": "AAEC", "mimeType": "image/png"}),
            json!({"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}),
            json!({"type": "resource", "resource": {"uri": "tool:video", "mimeType": "video/mp4", "blob": "AAEC"}}),
            json!({
                "type": "resource_link",
                "uri": "https://example.org/a/cat.JPG?x=.gif",
                "name": "cat.JPG?x=.gif",
                "mimeType": "image/jpeg",
            }),
            json!({"type": "resource_link", "uri": "https://example.org/a/cat/", "name": "cat"}),
            json!({"type": "text", "text": r#"{"type":"smell","of":"cat"}"#}),
        ]
    );
}

proptest! {
    #[test]
    fn any_text_passes_unchanged(message in any::<String>(), parts in proptest::collection::vec(any::<String>(), 0..4), failed: bool) {
        let mut value = ToolReturnValue::ok(Content::Parts(parts.iter().map(ContentPart::text).collect()));
        value.is_error = failed;
        value.message.clone_from(&message);
        let result = content::result(value);
        // The form on the wire.
        let json = serde_json::to_string(&result).expect("JSON");
        let back: rmcp::model::CallToolResult = serde_json::from_str(&json).expect("a result");
        let told: Vec<String> = back.content.iter().filter_map(ContentBlock::as_text).map(|text| text.text.clone()).collect();
        let expected: Vec<String> = Some(message).filter(|text| !text.is_empty()).into_iter().chain(parts).collect();
        prop_assert_eq!(told, expected);
        prop_assert_eq!(back.is_error, Some(failed));
    }
}

/// How many descriptors this process holds of sockets, and of a listener on this port.
#[cfg(target_os = "linux")]
fn is_listening(port: &str) -> bool {
    let port = format!(":{:04X} 00000000:0000 0A", port.parse::<u16>().expect("a port"));
    std::fs::read_to_string("/proc/net/tcp").expect("a table").contains(&port)
}

fn address(endpoint: &ToolsEndpoint) -> &str {
    endpoint.url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).expect("an address")
}

/// A connection that sends this, and waits.
async fn stranger(endpoint: &ToolsEndpoint, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(endpoint)).await.expect("connected");
    stream.write_all(sent.as_bytes()).await.expect("written");
    stream
}

async fn start_with(limits: Limits) -> (ToolsServer, Offer, CallReceiver) {
    let (caller, calls) = calls::channel();
    let tools = [tool("add", json!({"type": "object"}))];
    let (server, offer) = ToolsServer::start_with(&tools, LIMIT, caller, limits).await.expect("a server");
    (server, offer, calls)
}

#[tokio::test(start_paused = true)]
async fn unauthenticated_connection_closes_after_timeout() {
    let (server, offer, _calls) = start_with(Limits::default()).await;
    let begin = tokio::time::Instant::now();
    let half = head(&offer.endpoint, "", "");
    for sent in ["", "POST /mcp HT", &half] {
        let mut stream = stranger(&offer.endpoint, sent).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }
    // The paused clock of the runtime advances only when all tasks wait.
    assert_eq!(begin.elapsed().as_secs(), 3);
    server.close().await;
}

#[tokio::test]
async fn oldest_unauthenticated_connection_is_closed_first() {
    let forever = Duration::from_secs(3600);
    let (server, offer, calls) =
        start_with(Limits { strangers: 8, patience: forever, sessions: 8, ..Limits::default() }).await;
    serve(calls, |_, _| ToolReturnValue::ok("done"));
    let endpoint = &offer.endpoint;
    let half = head(endpoint, "", "");
    let mut strangers = Vec::new();
    for n in 0..8 {
        strangers.push(stranger(endpoint, ["", "POST /mcp HT", &half][n % 3]).await);
    }
    // No client waits for a place, and a client that has shown the secret keeps its place.
    let client = client(endpoint, true).await;
    for n in 0..40 {
        strangers.push(stranger(endpoint, ["", "POST /mcp HT", &half][n % 3]).await);
        if n % 10 == 0 {
            assert_eq!(call(&client, "add", json!({})).await, (false, "done".to_owned()));
            let secret = endpoint.headers[0].1.as_str();
            assert_eq!(raw(endpoint, &head(endpoint, secret, ""), LIST).await.0, 200);
        }
    }
    for mut stream in strangers.drain(..40) {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.is_empty());
    }
    // The newest are still there.
    for stream in strangers {
        let mut byte = [0];
        let read = stream.try_read(&mut byte);
        assert!(read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "{read:?}");
    }
    drop(client.cancel().await);
    server.close().await;
}

#[tokio::test]
async fn idle_mcp_sessions_make_room_for_others() {
    let (server, offer, mut calls) = start_with(Limits { sessions: 4, ..Limits::default() }).await;
    let endpoint = &offer.endpoint;
    let secret = endpoint.headers[0].1.as_str();
    let busy = Arc::new(client(endpoint, true).await);
    let calling = Arc::clone(&busy);
    let waiting = tokio::spawn(async move { call(&calling, "add", json!({})).await });
    let CallEvent::Call(held) = poll_fn(|cx| calls.poll_next(cx, true)).await else { panic!("no call") };
    // Clients that open a session and leave it, such as one for each call.
    for n in 0..40 {
        let (status, answer) = raw(endpoint, &head(endpoint, secret, ""), LIST).await;
        assert_eq!(status, 200, "{n}: {answer}");
    }
    // The session with a call under way is not closed.
    held.reply.send(ToolReturnValue::ok("done")).expect("awaited");
    assert_eq!(waiting.await.expect("an end"), (false, "done".to_owned()));
    drop(Arc::into_inner(busy).expect("the only one").cancel().await);
    server.close().await;
}

/// A client that passes on the reports of its calls.
pub(crate) struct Reports(pub(crate) mpsc::UnboundedSender<ProgressNotificationParam>);

impl ClientHandler for Reports {
    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.0.send(report);
    }
}

#[tokio::test]
async fn running_call_reports_progress_to_its_client() {
    for sessions in [true, false] {
        let limits = Limits { report_interval: Duration::from_millis(1), ..Limits::default() };
        let (server, offer, mut calls) = start_with(limits).await;
        let (reporter, mut reports) = mpsc::unbounded_channel();
        let client = Arc::new(client_with(Reports(reporter), &offer.endpoint, sessions).await);
        let calling = Arc::clone(&client);
        let waiting = tokio::spawn(async move { call(&calling, "add", json!({})).await });
        let CallEvent::Call(held) = poll_fn(|cx| calls.poll_next(cx, true)).await else { panic!("no call") };
        let (first, second) = (reports.recv().await.expect("a report"), reports.recv().await.expect("a report"));
        assert!(0.0 < first.progress && first.progress < second.progress, "{first:?} and {second:?}");
        assert_eq!((first.total, first.message.as_deref()), (None, Some("running for 0 s")));
        held.reply.send(ToolReturnValue::ok("done")).expect("awaited");
        assert_eq!(waiting.await.expect("an end"), (false, "done".to_owned()));
        drop(Arc::into_inner(client).expect("the only one").cancel().await);
        server.close().await;
    }
}

#[tokio::test]
async fn closed_server_leaves_nothing() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for close in [true, false] {
        let (server, offer, calls) = start(&[tool("wait", json!({"type": "object"}))]).await;
        let endpoint = offer.endpoint;
        let port = &endpoint.url["http://127.0.0.1:".len()..endpoint.url.len() - "/mcp".len()];
        #[cfg(target_os = "linux")]
        assert!(is_listening(port));
        let first = Arc::new(client(&endpoint, true).await);
        let idle = client(&endpoint, true).await;
        let half = TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap())).await.expect("connected");
        let waiting = {
            let first = Arc::clone(&first);
            tokio::spawn(async move { first.call_tool(CallToolRequestParams::new("wait")).await.is_ok() })
        };
        let mut calls = calls;
        let CallEvent::Call(held) = poll_fn(|cx| calls.poll_next(cx, true)).await else { panic!("no call") };
        if close {
            server.close().await;
            assert!(held.reply.is_closed());
            // The port is free at once, not some time later.
            assert!(TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap())).await.is_err());
        } else {
            drop(server);
        }
        let _ = waiting.await;
        drop((held, calls, half));
        drop(idle.cancel().await);
        drop(Arc::into_inner(first).expect("the only one").cancel().await);
        // A cancelled task ends when it is next polled.
        while tasks() > before {
            tokio::task::yield_now().await;
        }
        #[cfg(target_os = "linux")]
        assert!(!is_listening(port));
    }
}

#[tokio::test]
async fn body_that_is_nearly_json_is_read() {
    let (server, offer, _calls) = start(&[]).await;
    let endpoint = &offer.endpoint;
    let host = endpoint.url.trim_start_matches("http://").trim_end_matches("/mcp");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: {}\r\nContent-Type: application/json\r\nAccept: \
         application/json, text/event-stream",
        endpoint.headers[0].1
    );
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"half \ud83d","version":"1"}}}"#;
    let (status, answer) = raw(endpoint, &head, body).await;
    assert_eq!(status, 200, "{answer}");
    server.close().await;
}

#[tokio::test]
async fn unfinished_bodies_are_limited_together() {
    let (server, offer, _calls) = start_with(Limits { bodies: 40_000, ..Limits::default() }).await;
    let endpoint = &offer.endpoint;
    let head = head(endpoint, endpoint.headers[0].1.as_str(), "");
    let body = format!("{LIST}{}", " ".repeat(20_000));
    assert_eq!(raw(endpoint, &head, &body).await.0, 200);
    let unfinished =
        stranger(endpoint, &format!("{head}\r\nContent-Length: 50000\r\n\r\n{}", " ".repeat(30_000))).await;
    while raw(endpoint, &head, &body).await.0 != 503 {}
    drop(unfinished);
    while raw(endpoint, &head, &body).await.0 != 200 {}
    server.close().await;
}

#[tokio::test(start_paused = true)]
async fn unfinished_body_is_refused_in_the_end() {
    let (server, offer, _calls) = start_with(Limits::default()).await;
    let head = head(&offer.endpoint, offer.endpoint.headers[0].1.as_str(), "");
    let mut stream = stranger(&offer.endpoint, &format!("{head}\r\nContent-Length: 10\r\n\r\n{{")).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    server.close().await;
}

#[tokio::test]
async fn values_of_bodies_are_limited() {
    let (server, offer, _calls) = start_with(Limits { bodies: 400_000, ..Limits::default() }).await;
    let endpoint = &offer.endpoint;
    let head = head(endpoint, endpoint.headers[0].1.as_str(), "");
    let capabilities = |commas: usize| {
        let values = "0,".repeat(commas);
        format!(r#""capabilities":{{"experimental":{{"x":{{"a":[{values}0]}}}}}}"#)
    };
    let body = |commas: usize| LIST.replacen(r#""capabilities":{}"#, &capabilities(commas), 1);
    assert_eq!(raw(endpoint, &head, &body(5000)).await.0, 200);
    // Decoded, these take more than their text.
    assert_eq!(raw(endpoint, &head, &body(10_000)).await.0, 503);
    server.close().await;
    let (server, offer, _calls) = start_with(Limits::default()).await;
    let endpoint = &offer.endpoint;
    let head = self::head(endpoint, endpoint.headers[0].1.as_str(), "");
    assert_eq!(raw(endpoint, &head, &body(1 << 20)).await.0, 413);
    server.close().await;
}

/// Counts the requests that are refused on the thread of the test.
#[derive(Clone, Default)]
struct RefusedHere(Arc<AtomicUsize>);

impl tracing::field::Visit for RefusedHere {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.fetch_add(usize::from(format!("{value:?}").contains("refused")), Ordering::Relaxed);
    }
}

impl tracing::Subscriber for RefusedHere {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn large_requests_are_read_on_another_thread() {
    let refused = RefusedHere::default();
    let _subscriber = tracing::subscriber::set_default(refused.clone());
    let (caller, _calls) = calls::channel();
    let (server, offer) = ToolsServer::start(&[], 16 << 20, caller).await.expect("a server");
    let endpoint = &offer.endpoint;
    assert_eq!(raw(endpoint, &head(endpoint, "", ""), LIST).await.0, 401);
    assert_eq!(refused.0.load(Ordering::Relaxed), 1);
    let head = head(endpoint, endpoint.headers[0].1.as_str(), "");
    let name = LIST.replacen(r#""name":"c""#, &format!(r#""name":"{}""#, "c".repeat(100_000)), 1);
    let values = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(1 << 20));
    for (body, status, reason) in [
        (name, 413, "without the arguments of a tool call"),
        (values, 413, "values"),
        ("[".repeat(100_000), 400, "not JSON"),
        (format!("{LIST}{}", " ".repeat(100_000)), 200, ""),
    ] {
        let (got, answer) = raw(endpoint, &head, &body).await;
        assert_eq!((got, answer.contains(reason)), (status, true), "{answer:.300}");
    }
    assert_eq!(refused.0.load(Ordering::Relaxed), 1);
    server.close().await;
}

#[tokio::test]
async fn large_arguments_count_until_their_call_ends() {
    let (caller, mut calls) = calls::channel();
    let tools = [tool("add", json!({"type": "object"}))];
    let limits = Limits { bodies: 500_000, ..Limits::default() };
    let (server, offer) = ToolsServer::start_with(&tools, 16 << 20, caller, limits).await.expect("a server");
    for sessions in [true, false] {
        let client = Arc::new(client(&offer.endpoint, sessions).await);
        let text = json!({"text": "\n\u{1F980}".repeat(50_000), "more": [1, {"a": null}]});
        let start = || {
            let (client, text) = (Arc::clone(&client), text.clone());
            tokio::spawn(async move { call(&client, "add", text).await })
        };
        let first = start();
        let CallEvent::Call(held) = poll_fn(|cx| calls.poll_next(cx, true)).await else { panic!("no call") };
        let arguments: Value =
            serde_json::from_str(held.request.arguments.as_deref().expect("arguments")).expect("JSON");
        assert!(arguments == text);
        let params = CallToolRequestParams::new("add").with_arguments(text.as_object().cloned().expect("an object"));
        let second = client.call_tool(params).await.expect_err("an error");
        assert!(second.to_string().contains("503"), "{second}");
        held.reply.send(ToolReturnValue::ok("done")).expect("awaited");
        assert_eq!(first.await.expect("an end"), (false, "done".to_owned()));
        let third = start();
        let CallEvent::Call(held) = poll_fn(|cx| calls.poll_next(cx, true)).await else { panic!("no call") };
        held.reply.send(ToolReturnValue::ok("done")).expect("awaited");
        assert_eq!(third.await.expect("an end"), (false, "done".to_owned()));
        drop(Arc::into_inner(client).expect("the only one").cancel().await);
    }
    server.close().await;
}
