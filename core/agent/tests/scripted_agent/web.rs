//! The scripted agent as Kimi Code's server, spoken to over HTTP and a WebSocket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

/// Longer than anything takes; only a hang comes this far.
const HANG: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    port: u16,
    dir: TempDir,
}

struct Socket {
    socket: WebSocket<TcpStream>,
    calls: u64,
}

impl Server {
    fn start(script: Value) -> Self {
        Self::start_in(TempDir::new().expect("a directory"), script)
    }

    fn start_in(dir: TempDir, script: Value) -> Self {
        let path = dir.path().join("script.json");
        std::fs::write(&path, script.to_string()).expect("a script");
        let mut child = Command::new(env!("CARGO_BIN_EXE_kimi-scripted-agent"))
            .arg(path)
            .args(["web", "--no-open", "--port", "0"])
            .current_dir(dir.path())
            .env("KIMI_CODE_PASSWORD", "secret")
            .env("KIMI_LOOP_MAX_STEPS_PER_TURN", "9")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let banner = BufReader::new(child.stdout.take().expect("stdout"));
        let port = banner.lines().map_while(Result::ok).find_map(|line| {
            let rest = line.trim().strip_prefix("Local:")?.trim().strip_prefix("http://127.0.0.1:")?.to_owned();
            rest.split_once('/')?.0.parse().ok()
        });
        Self { child, port: port.expect("a port"), dir }
    }

    /// The HTTP status and the body.
    fn http(&self, call: &str, body: &Value, secret: &str) -> (String, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(HANG)).expect("a timeout");
        let request = format!(
            "{call} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {secret}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        (status.to_owned(), body.to_owned())
    }

    /// The whole body of an answer.
    fn body(&self, call: &str, body: Value) -> Value {
        serde_json::from_str(&self.http(call, &body, "secret").1).expect("JSON")
    }

    /// The data of an answer that is a success.
    fn call(&self, call: &str, body: Value) -> Value {
        let mut answer = self.body(call, body);
        assert_eq!(answer["code"], 0, "{call}: {answer}");
        answer["data"].take()
    }

    /// A session with a model: its path.
    fn session(&self) -> String {
        let id = self.call("POST /api/v1/sessions", json!({"metadata": {"cwd": self.dir.path()}}))["id"].take();
        let session = format!("/api/v1/sessions/{}", id.as_str().expect("an id"));
        self.call(&format!("POST {session}/profile"), json!({"agent_config": {"model": "scripted"}}));
        session
    }

    fn prompt(&self, session: &str, text: &str) -> String {
        let content = json!({"content": [{"type": "text", "text": text}]});
        let answer = self.call(&format!("POST {session}/prompts"), content);
        answer["prompt_id"].as_str().expect("an id").to_owned()
    }

    fn socket(&self) -> Socket {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(HANG)).expect("a timeout");
        let url = format!("ws://127.0.0.1:{}/api/v1/ws", self.port);
        let mut request = url.into_client_request().expect("a request");
        request.headers_mut().insert("Authorization", "Bearer secret".parse().expect("a header"));
        let (socket, _) = client(request, stream).expect("a WebSocket");
        let mut socket = Socket { socket, calls: 0 };
        let hello = socket.next();
        assert_eq!((&hello["type"], &hello["payload"]["protocol_version"]), (&json!("server_hello"), &json!(2)));
        socket
    }

    /// A session, and a socket that has subscribed to it.
    fn subscribed(&self) -> (String, Socket) {
        let session = self.session();
        let mut socket = self.socket();
        socket.subscribe(&session, Value::Null);
        (session, socket)
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill");
        assert!(status.success());
    }

    fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("an end")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Socket {
    fn next(&mut self) -> Value {
        loop {
            match self.socket.read().expect("a frame") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                other => assert!(!other.is_close(), "closed: {other}"),
            }
        }
    }

    fn subscribe(&mut self, session: &str, cursor: Value) -> (Vec<Value>, Value) {
        self.calls += 1;
        let id = session.rsplit('/').next().expect("an id");
        let mut payload = json!({"session_ids": [id]});
        if !cursor.is_null() {
            payload["cursors"] = json!({id: cursor});
        }
        let frame = json!({"type": "subscribe", "id": self.calls.to_string(), "payload": payload});
        self.socket.send(Message::text(frame.to_string())).expect("a socket");
        let mut before = Vec::new();
        loop {
            let mut frame = self.next();
            if frame["type"] == "ack" {
                return (before, frame["payload"].take());
            }
            before.push(frame);
        }
    }

    /// The frames up to the first of this type, as their type and payload.
    fn until(&mut self, last: &str) -> Vec<(String, Value)> {
        let mut frames = Vec::new();
        loop {
            let mut frame = self.next();
            let kind = frame["type"].as_str().expect("a type").to_owned();
            frames.push((kind.clone(), frame["payload"].take()));
            if kind == last {
                return frames;
            }
        }
    }

    /// Only the types, without those that say nothing of the turn.
    fn kinds(&mut self, last: &str) -> Vec<String> {
        let noise = ["event.session.work_changed", "session.meta.updated", "event.session.created", "agent.created"];
        self.until(last).into_iter().map(|(kind, _)| kind).filter(|kind| !noise.contains(&&**kind)).collect()
    }

    fn find(&mut self, kind: &str) -> Value {
        self.until(kind).pop().expect("a frame").1
    }
}

fn ask() -> Value {
    json!({"tool_call": {"id": "c1", "name": "Bash", "arguments": {"command": "ls"}, "result": "a.txt",
        "approve": {"id": "a1", "action": "run command", "description": "Running: ls"}}})
}

#[test]
fn turn_with_approval_matches_recording() {
    let server = Server::start(
        json!([[{"think": "Hm"}, {"text": ["Hel", "lo"]}, ask(), {"usage": {"output": 3}}, {"text": "done"}]]),
    );
    let (session, mut socket) = server.subscribed();
    let prompt = server.prompt(&session, "go");
    let kinds = socket.kinds("event.approval.requested");
    let expected = [
        "prompt.submitted",
        "turn.started",
        "turn.step.started",
        "thinking.delta",
        "assistant.delta",
        "assistant.delta",
        "tool.call.delta",
        "tool.call.delta",
        "event.approval.requested",
    ];
    assert_eq!(kinds, expected);
    let pending = server.call(&format!("GET {session}/approvals?status=pending"), Value::Null);
    assert_eq!(pending["items"][0]["approval_id"], "a1");
    let answer = format!("POST {session}/approvals/a1");
    assert_eq!(server.call(&answer, json!({"decision": "approved"}))["resolved"], true);
    assert_eq!(server.body(&answer, json!({"decision": "approved"}))["code"], 40902);
    let frames = socket.until("prompt.completed");
    let kinds: Vec<&str> =
        frames.iter().map(|(kind, _)| &**kind).filter(|kind| !kind.contains("work_changed")).collect();
    let expected = [
        "event.approval.resolved",
        "tool.call.started",
        "tool.result",
        "turn.step.completed",
        "turn.step.started",
        "assistant.delta",
        "turn.step.completed",
        "turn.ended",
        "prompt.completed",
    ];
    assert_eq!(kinds, expected);
    let of = |kind: &str| &frames.iter().find(|(own, _)| own == kind).expect("a frame").1;
    assert_eq!(of("tool.call.started")["args"], json!({"command": "ls"}));
    assert_eq!(of("tool.result")["output"], "a.txt");
    assert_eq!(of("turn.ended")["reason"], "completed");
    assert_eq!(of("prompt.completed")["promptId"], json!(prompt));
    let transcript = server.call(&format!("GET {session}/transcript?agent_id=main"), Value::Null);
    let steps = transcript["items"][0]["steps"].as_array().expect("steps");
    assert_eq!(steps[0]["frames"][1]["text"], "Hello");
    assert_eq!(steps[0]["frames"][2]["output"], "a.txt");
    assert_eq!(steps[1]["frames"][0]["text"], "done");
}

#[test]
fn question_answers_reach_model() {
    let question = json!({"question": {"id": "c1", "request_id": "q1", "questions": [
        {"question": "Color?", "options": ["Red", "Blue"]}, {"question": "Name?", "options": ["Ann", "Bob"]}]}});
    let server = Server::start(json!([[question], [question]]));
    let (session, mut socket) = server.subscribed();
    server.prompt(&session, "go");
    let asked = socket.find("event.question.requested");
    assert_eq!(asked["questions"][0]["options"][1]["id"], "opt_0_1");
    let answers = json!({"answers": {"q_0": {"kind": "single", "option_id": "opt_0_1"}, "q_1": {"kind": "other", "text": "Zoe"}}});
    server.call(&format!("POST {session}/questions/q1"), answers);
    assert_eq!(socket.find("tool.result")["output"], r#"{"answers":{"Color?":"Blue","Name?":"Zoe"}}"#);
    socket.until("prompt.completed");
    server.prompt(&session, "again");
    socket.until("event.question.requested");
    assert_eq!(server.body(&format!("POST {session}/questions/q1:dismiss"), json!({}))["code"], 40909);
    assert!(socket.find("tool.result")["output"].as_str().expect("text").contains("dismissed"));
}

#[test]
fn steer_joins_turn_and_other_prompt_waits() {
    let server =
        Server::start(json!([[{"text": "a"}, {"wait_steer": true}, {"text": "{{steer}}"}], [{"text": "next"}]]));
    let (session, mut socket) = server.subscribed();
    server.prompt(&session, "go");
    socket.until("assistant.delta");
    let steered = server.prompt(&session, "more");
    let waiting = server.prompt(&session, "later");
    server.call(&format!("POST {session}/prompts:steer"), json!({"prompt_ids": [steered]}));
    socket.until("prompt.steered");
    assert_eq!(socket.find("turn.steer")["input"][0]["text"], "more");
    assert_eq!(socket.find("assistant.delta")["delta"], "more");
    socket.until("prompt.completed");
    assert_eq!(socket.find("turn.started")["promptId"], json!(waiting));
    assert_eq!(socket.find("assistant.delta")["delta"], "next");
    socket.until("prompt.completed");
    let refused = server.body(&format!("POST {session}/prompts:steer"), json!({"prompt_ids": ["nope"]}));
    assert_eq!(refused["code"], 40402);
}

#[test]
fn abort_ends_turn_and_resolves_approval() {
    let server = Server::start(json!([[ask()], [{"text": "next"}]]));
    let (session, mut socket) = server.subscribed();
    let prompt = server.prompt(&session, "go");
    socket.until("event.approval.requested");
    let abort = format!("POST {session}/prompts/{prompt}:abort");
    assert_eq!(server.call(&abort, json!({}))["aborted"], true);
    let expected = ["turn.step.interrupted", "turn.ended", "event.approval.resolved", "prompt.aborted"];
    assert_eq!(socket.kinds("prompt.aborted"), expected);
    assert_eq!(server.body(&abort, json!({}))["code"], 40402);
    server.prompt(&session, "again");
    assert_eq!(socket.find("assistant.delta")["delta"], "next");
}

#[test]
fn failed_turn_has_code() {
    let server = Server::start(json!([[{"text": "a"}, {"error": {"code": -32004, "message": "401 no"}}],
        [{"repeat": {"times": 20, "actions": [{"step": null}]}}]]));
    let (session, mut socket) = server.subscribed();
    server.prompt(&session, "go");
    assert_eq!(socket.find("turn.ended")["error"]["code"], "provider.auth_error");
    assert_eq!(socket.find("prompt.completed")["reason"], "failed");
    server.prompt(&session, "go");
    assert_eq!(socket.find("turn.ended")["interruptReason"], "max_steps");
    let bare = server.call("POST /api/v1/sessions", json!({"metadata": {"cwd": "/"}}))["id"].take();
    let bare = format!("/api/v1/sessions/{}", bare.as_str().expect("an id"));
    socket.subscribe(&bare, Value::Null);
    server.prompt(&bare, "go");
    assert_eq!(socket.find("turn.ended")["error"]["code"], "model.not_configured");
}

#[test]
fn reconnect_replays_durable_frames_once() {
    let tool = json!({"tool_call": {"id": "c1", "name": "Bash", "result": "ok"}});
    let server = Server::start(
        json!([[{"text": "a"}, {"break_socket": true}, {"text": "lost"}, tool, {"wait_socket": true}, {"text": "b"}]]),
    );
    let (session, mut socket) = server.subscribed();
    server.prompt(&session, "go");
    let mut last = 0;
    while let Ok(Message::Text(text)) = socket.socket.read() {
        let frame: Value = serde_json::from_str(&text).expect("JSON");
        last = frame["seq"].as_u64().unwrap_or(last);
    }
    let mut socket = server.socket();
    let (replayed, ack) = socket.subscribe(&session, json!({"seq": last}));
    assert!(replayed.iter().all(|frame| frame["seq"].as_u64() > Some(last)));
    assert!(replayed.iter().any(|frame| frame["type"] == "tool.result"));
    assert!(replayed.iter().all(|frame| frame["type"] != "assistant.delta"));
    assert_eq!(ack["accepted"].as_array().expect("a list").len(), 1);
    assert_eq!(socket.find("assistant.delta")["delta"], "b");
    socket.until("prompt.completed");
    let (_, ack) = socket.subscribe(&session, json!({"seq": 1, "epoch": "another"}));
    assert_eq!(ack["resync_required"].as_array().expect("a list").len(), 1);
}

#[test]
fn stored_session_is_usable_in_another_process() {
    let script = json!({"session_file": "sessions.jsonl", "turns": [[{"text": "one"}], [{"text": "two"}]]});
    let server = Server::start(script.clone());
    let (session, mut socket) = server.subscribed();
    server.prompt(&session, "first");
    socket.until("prompt.completed");
    let listed = server.call("GET /api/v1/sessions", Value::Null);
    assert_eq!(listed["items"][0]["title"], "first");
    let fork = server.call(&format!("POST {session}:fork"), json!({}))["id"].take();
    let fork = format!("/api/v1/sessions/{}", fork.as_str().expect("an id"));
    assert_eq!(socket.subscribe(&fork, Value::Null).1["not_found"].as_array().expect("a list").len(), 1);
    server.call(&format!("GET {fork}/status"), Value::Null);
    assert_eq!(socket.subscribe(&fork, Value::Null).1["accepted"].as_array().expect("a list").len(), 1);
    let turns = |server: &Server, session: &str| {
        let transcript = server.call(&format!("GET {session}/transcript?agent_id=main"), Value::Null);
        transcript["items"].as_array().expect("turns").len()
    };
    assert_eq!(turns(&server, &fork), 1);
    server.call(&format!("POST {fork}:undo"), json!({"count": 1}));
    assert_eq!(turns(&server, &fork), 0);
    assert_eq!(server.body(&format!("POST {fork}:undo"), json!({"count": 1}))["code"], 40911);
    assert_eq!(server.body("GET /api/v1/sessions/nope/status", Value::Null)["code"], 40401);
    server.signal("-KILL");
    let dir = std::mem::replace(&mut { server }.dir, TempDir::new().expect("a directory"));
    let server = Server::start_in(dir, script);
    assert_eq!(server.socket().subscribe(&session, Value::Null).1["not_found"].as_array().expect("a list").len(), 1);
    server.call(&format!("GET {session}/status"), Value::Null);
    assert_eq!(turns(&server, &session), 1);
}

#[test]
fn call_without_secret_is_refused() {
    let server = Server::start(json!([]));
    assert_eq!(server.http("GET /api/v1/meta", &Value::Null, "wrong").0, "401");
    assert_eq!(server.http("GET /api/v1/ws", &Value::Null, "wrong").0, "401");
    assert_eq!(server.http("GET /api/v1/healthz", &Value::Null, "wrong").0, "200");
    assert_eq!(server.http("GET /api/v1/nope", &Value::Null, "secret").0, "404");
    assert_eq!(server.call("GET /api/v1/config", Value::Null)["default_model"], "scripted");
}

#[test]
fn sigterm_ends_server_after_sockets_close() {
    let server = Server::start(json!([]));
    let socket = server.socket();
    server.signal("-TERM");
    // It still answers what is open.
    drop(socket);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn exit_action_delivers_earlier_frames() {
    let server = Server::start(json!([[{"text": "last"}, {"exit": 7}]]));
    let (session, mut socket) = server.subscribed();
    server.prompt(&session, "go");
    assert_eq!(socket.find("assistant.delta")["delta"], "last");
    assert_eq!(server.wait().code(), Some(7));
}

#[test]
fn scripted_server_failures_take_effect() {
    let server = Server::start(json!({"web": {"status": {"prompt": 500}}, "turns": []}));
    let session = server.session();
    assert_eq!(server.http(&format!("POST {session}/prompts"), &json!({}), "secret").0, "500");
    let server = Server::start(json!({"web": {"foreign": true}, "turns": []}));
    assert_eq!(server.http("GET /api/v1/meta", &Value::Null, "secret").0, "404");
    let server = Server::start(json!({"web": {"heartbeat": 0.01}, "turns": []}));
    let mut socket = server.socket();
    assert_eq!(socket.next()["type"], "ping");
    let mut server_closes = false;
    while let Ok(message) = socket.socket.read() {
        server_closes |= message.is_close();
    }
    assert!(server_closes);
}
