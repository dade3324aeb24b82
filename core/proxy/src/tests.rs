//! The guard without processes: lines of a client and of an agent in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod day;
mod decisions;
mod limits;
mod lines;
mod places;
mod properties;
mod relay;
mod services;
mod telemetry;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kimi_agent_client::{SessionOptions, proxied};
use serde_json::{Value, json};

use crate::guard::Guard;
use crate::settings::{Owner, Settings};

/// Rules of the user in most tests.
const RULES: &str = r#"
[proxy]
policy = { deny = ["execute(rm *)", "read(**/.env)"], ask = ["edit(**)"], allow = ["execute(git status)", "read(**)"] }
"#;

/// A guard, and what it has written.
struct Play {
    guard: Guard,
    now: Instant,
    /// The directory of sessions.
    dir: tempfile::TempDir,
}

impl Play {
    /// A guard with these settings of the user.
    fn new(settings: &str) -> Self {
        Self::with(SessionOptions::new(), settings)
    }

    fn with(options: SessionOptions, settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.toml");
        std::fs::write(&path, settings).unwrap();
        let settings = Settings::read(&path, Owner::User).unwrap();
        let paths = proxied::paths(&options).unwrap();
        Self { guard: Guard::new(options, settings, paths), now: Instant::now(), dir }
    }

    /// A guard with an open session `s`, and a prompt that runs.
    fn prompted(settings: &str) -> Self {
        let mut play = Self::new(settings);
        play.open("s");
        play.prompt("s");
        play
    }

    /// Opens a session in its directory.
    fn open(&mut self, session: &str) {
        self.handshake();
        let opened = self.try_open(session);
        assert_eq!(opened, [json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": session}})]);
    }

    fn handshake(&mut self) {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}});
        assert_eq!(self.client(&hello), [hello]);
        let agent = json!({"name": "Claude Agent", "version": "1.0.0"});
        let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentInfo": agent}});
        assert_eq!(self.agent(&answer), [answer]);
    }

    /// Opens a session, and returns what the client gets.
    fn try_open(&mut self, session: &str) -> Vec<Value> {
        let params = json!({"cwd": self.work_dir(), "mcpServers": []});
        self.client(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}));
        let refused = self.client_got();
        if !refused.is_empty() {
            return refused;
        }
        self.agent(&json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": session}}))
    }

    fn prompt(&mut self, session: &str) {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
        let prompt = json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params});
        assert_eq!(self.client(&prompt), [prompt]);
    }

    fn work_dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Passes in a message of the client. Returns what the agent gets.
    fn client(&mut self, message: &Value) -> Vec<Value> {
        self.client_line(&message.to_string());
        self.agent_got()
    }

    fn client_line(&mut self, line: &str) {
        self.now += Duration::from_millis(1);
        self.guard.client_line(line.as_bytes(), self.now).unwrap();
    }

    /// Passes in a message of the agent. Returns what the client gets.
    fn agent(&mut self, message: &Value) -> Vec<Value> {
        self.agent_line(&message.to_string());
        self.client_got()
    }

    fn agent_line(&mut self, line: &str) {
        self.now += Duration::from_millis(1);
        self.guard.agent_line(line.as_bytes(), self.now).unwrap();
    }

    fn client_got(&mut self) -> Vec<Value> {
        values(std::mem::take(&mut self.guard.to_client).bytes.to_vec())
    }

    fn agent_got(&mut self) -> Vec<Value> {
        let bytes = self.guard.to_agent.bytes.to_vec();
        self.guard.to_agent.clear();
        values(bytes)
    }

    /// Sends an update of the agent. Returns what the client gets besides.
    fn update(&mut self, update: Value) -> Vec<Value> {
        let line =
            json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}});
        let mut got = self.agent(&line);
        assert!(!got.is_empty() && got.remove(0) == line, "{line} does not pass");
        got
    }
}

fn values(lines: Vec<u8>) -> Vec<Value> {
    let text = String::from_utf8(lines).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A permission request about a command.
fn permission(id: Value, command: &str) -> Value {
    let call = json!({"toolCallId": "c1", "name": "Bash", "title": command, "kind": "execute", "status": "pending",
        "rawInput": {"command": command}});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
        "params": {"sessionId": "s", "toolCall": call, "options": options()}})
}

fn options() -> Value {
    json!([
        {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ])
}

/// The answer that selects an option.
fn selected(id: Value, option: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}})
}

/// The text of the only note for the user.
fn note(got: &[Value]) -> String {
    let [note] = got else { panic!("not one note: {got:?}") };
    assert_eq!(note["params"]["update"]["sessionUpdate"], "agent_message_chunk", "{note}");
    note["params"]["update"]["content"]["text"].as_str().unwrap().to_owned()
}
