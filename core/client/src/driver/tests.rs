//! The driver over pipes in memory. The clock is paused, and jumps to the next deadline when all tasks wait. So an
//! operation that takes no time did not wait for a deadline.

mod ambiguity;
mod chaos;
mod deadlines;
mod death;
mod event_queue;
mod flow;
mod handlers;
#[cfg(feature = "mcp")]
mod long_life;
mod services;
mod shutdown;
#[cfg(feature = "mcp")]
mod tools;
mod truncation;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::Instant;

use crate::messages::Event;
use crate::transport::memory::{self, ExitHandle};
use crate::{Session, SessionOptions, Turn};

const SECOND: Duration = Duration::from_secs(1);

/// The agent's side, in the test's hands.
struct Agent {
    reader: BufReader<DuplexStream>,
    writer: DuplexStream,
    exit: ExitHandle,
    /// The ids of calls that came, by method.
    ids: std::collections::HashMap<String, Value>,
}

impl Agent {
    /// The next line of ours; null at the end.
    async fn read(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.expect("a line");
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).expect("JSON") }
    }

    /// Waits for a call of this name, which must come next.
    async fn expect(&mut self, method: &str) -> Value {
        let call = self.read().await;
        assert_eq!(call["method"], method, "{call:.200}");
        self.ids.insert(method.to_owned(), call["id"].clone());
        call
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.expect("written");
    }

    async fn send(&mut self, message: Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    async fn answer(&mut self, method: &str, result: Value) {
        let id = self.ids[method].clone();
        self.send(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    async fn finish(&mut self) {
        self.answer("prompt", json!({"status": "finished"})).await;
    }

    async fn event(&mut self, kind: &str, payload: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "payload": payload}})).await;
    }

    async fn text(&mut self, text: &str) {
        self.event("ContentPart", json!({"type": "text", "text": text})).await;
    }

    async fn request(&mut self, id: &str, kind: &str, payload: Value) {
        let params = json!({"type": kind, "payload": payload});
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "request", "params": params})).await;
    }

    async fn ask_approval(&mut self, id: &str) {
        let payload = json!({"id": id, "tool_call_id": "t", "sender": "Shell", "action": "run", "description": "ls"});
        self.request(id, "ApprovalRequest", payload).await;
    }

    async fn welcome(&mut self) {
        self.expect("initialize").await;
        let hooks = json!({"supported_events": ["PreToolUse"]});
        let server = json!({"name": "Agent", "version": "1"});
        self.answer("initialize", json!({"protocol_version": "1.10", "server": server, "hooks": hooks})).await;
    }

    /// Follows the protocol to the end: answers cancels, and exits when its input ends.
    async fn obey(mut self) {
        self.exit.obey();
        loop {
            let call = self.read().await;
            match call["method"].as_str() {
                None if call.is_null() => break,
                Some("prompt") => drop(self.ids.insert("prompt".into(), call["id"].clone())),
                Some("cancel") => {
                    self.send(json!({"jsonrpc": "2.0", "id": call["id"], "result": {}})).await;
                    self.answer("prompt", json!({"status": "cancelled"})).await;
                }
                _ => {}
            }
        }
        self.exit.code(0);
    }
}

/// A session that is about to be opened, and its agent.
fn opening(options: SessionOptions, pipe: usize) -> (impl Future<Output = crate::Result<Session>>, Agent) {
    let (transport, end) = memory::pair(pipe);
    let agent =
        Agent { reader: BufReader::new(end.reader), writer: end.writer, exit: end.exit, ids: Default::default() };
    (options.open(transport, "id".to_owned(), PathBuf::from(".")), agent)
}

async fn open(options: SessionOptions) -> (Session, Agent) {
    let (session, mut agent) = opening(options, 4096);
    let (session, ()) = tokio::join!(session, agent.welcome());
    (session.expect("open"), agent)
}

/// A session with a turn under way.
async fn in_turn(options: SessionOptions) -> (Session, Agent, Turn) {
    let (session, mut agent) = open(options).await;
    let turn = session.prompt("hi").expect("a turn");
    agent.expect("prompt").await;
    (session, agent, turn)
}

/// Waits until all tasks wait.
async fn idle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// The rest of a turn, by type; an error by its code.
async fn rest(turn: &mut Turn) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(next) = turn.next().await {
        seen.push(next.map_or_else(|error| error.code().to_owned(), |event| event.type_name().to_owned()));
    }
    seen
}

/// Tells when a function's future is dropped.
struct Dropped(Option<tokio::sync::oneshot::Sender<()>>);

impl Dropped {
    fn new() -> (Self, tokio::sync::oneshot::Receiver<()>) {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        (Self(Some(sender)), receiver)
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(());
        }
    }
}

fn text_of(event: &Event) -> Option<String> {
    event.text().map(str::to_owned)
}
