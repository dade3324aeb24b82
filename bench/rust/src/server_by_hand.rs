//! A client by hand for Kimi Code's server: hyper, tokio-tungstenite, and serde with a type for frames.

use std::process::Stdio;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use futures_util::{SinkExt, StreamExt};

use crate::measure::Measure;

const SECRET: &str = "bench-secret";

#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    payload: Payload,
}

/// The fields that are used.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    nonce: Option<String>,
    delta: Option<String>,
    approval_id: Option<String>,
    #[serde(rename = "promptId")]
    prompt_id: Option<String>,
}

struct Server {
    child: Child,
    port: u16,
    http: SendRequest<Full<Bytes>>,
    socket: WebSocketStream<TcpStream>,
    prompts: usize,
}

impl Server {
    async fn start(agent: &str) -> Self {
        let mut command = Command::new(agent);
        command.args(["web", "--no-open", "--port", "0"]).env("KIMI_CODE_PASSWORD", SECRET);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the agent starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let port = loop {
            let line = lines.next_line().await.expect("it talks").expect("it prints its port");
            if let Some((_, rest)) = line.split_once("http://127.0.0.1:") {
                break rest.split('/').next().expect("a port").parse().expect("a number");
            }
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        stream.set_nodelay(true).expect("an option");
        let (http, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        stream.set_nodelay(true).expect("an option");
        let mut request = format!("ws://127.0.0.1:{port}/api/v1/ws").into_client_request().expect("a request");
        request.headers_mut().insert("Authorization", format!("Bearer {SECRET}").parse().expect("a header"));
        let (socket, _) = client_async(request, stream).await.expect("a WebSocket");
        let mut server = Self { child, port, http, socket, prompts: 0 };
        server.frame().await;
        server
    }

    async fn call(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header("Host", format!("127.0.0.1:{}", self.port))
            .header("Authorization", format!("Bearer {SECRET}"))
            .header("Content-Type", "application/json")
            .body(Full::new(if body.is_null() { Bytes::new() } else { body.to_string().into() }))
            .expect("a request");
        self.http.ready().await.expect("a connection");
        let response = self.http.send_request(request).await.expect("an answer");
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let mut answer: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(answer["code"], 0, "{answer}");
        answer["data"].take()
    }

    /// Returns the next frame that is not a ping.
    async fn frame(&mut self) -> Frame {
        loop {
            let message = self.socket.next().await.expect("it is open").expect("a message");
            let Message::Text(text) = message else { continue };
            let frame: Frame = serde_json::from_str(&text).expect("JSON");
            if frame.kind != "ping" {
                return frame;
            }
            self.send(&json!({"type": "pong", "payload": {"nonce": frame.payload.nonce}})).await;
        }
    }

    async fn send(&mut self, frame: &Value) {
        self.socket.send(Message::text(frame.to_string())).await.expect("it listens");
    }

    async fn session(&mut self) -> String {
        let cwd = std::env::current_dir().expect("a directory");
        let created = self.call("POST", "/sessions", &json!({"metadata": {"cwd": cwd}})).await;
        let id = created["id"].as_str().expect("an id").to_owned();
        let model = self.call("GET", "/config", &Value::Null).await["default_model"].take();
        let config = json!({"agent_config": {"model": model, "permission_mode": "manual"}});
        self.call("POST", &format!("/sessions/{id}/profile"), &config).await;
        self.send(&json!({"type": "subscribe", "id": id, "payload": {"session_ids": [id]}})).await;
        while self.frame().await.kind != "ack" {}
        id
    }

    async fn turn(&mut self, session: &str, mut event: impl FnMut()) {
        self.prompts += 1;
        let prompt = format!("prompt_{}", self.prompts);
        let body = json!({"prompt_id": prompt, "content": [{"type": "text", "text": "go"}]});
        self.call("POST", &format!("/sessions/{session}/prompts"), &body).await;
        loop {
            let Frame { kind, payload } = self.frame().await;
            event();
            std::hint::black_box(&payload.delta);
            if kind == "prompt.completed" && payload.prompt_id.as_ref() == Some(&prompt) {
                return;
            }
            if let ("event.approval.requested", Some(id)) = (&*kind, payload.approval_id) {
                let path = format!("/sessions/{session}/approvals/{id}");
                self.call("POST", &path, &json!({"decision": "approved"})).await;
            }
        }
    }

    async fn end(mut self) {
        self.socket.close(None).await.expect("it closes");
        while let Some(Ok(_)) = self.socket.next().await {}
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("it runs");
        kill_process(pid, Signal::TERM).expect("it runs");
        self.child.wait().await.expect("it ends");
    }
}

pub async fn run(agent: &str) {
    let mut server = Server::start(agent).await;
    if std::env::var("BENCH_TASK").as_deref() == Ok("server sessions") {
        let count: usize = std::env::var("BENCH_SESSIONS").expect("how many").parse().expect("a number");
        let measure = Measure::begin();
        for _ in 0..count {
            let session = server.session().await;
            server.turn(&session, || ()).await;
        }
        measure.end_sessions(count);
    } else {
        let session = server.session().await;
        let mut measure = Measure::begin();
        server.turn(&session, || measure.event()).await;
        measure.end();
    }
    server.end().await;
}
