//! A client that knows nothing but lines of JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything takes; only a hang comes this far.
const HANG: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    dir: TempDir,
    calls: usize,
}

impl Client {
    /// Starts the agent with a script and opens the session, where the script's version can.
    pub(crate) fn open(script: Value) -> Self {
        let mut client = Self::start(script, &[]);
        client.initialize(json!({}));
        client
    }

    pub(crate) fn start(script: Value, args: &[&str]) -> Self {
        Self::start_in(TempDir::new().expect("a directory"), script, args)
    }

    pub(crate) fn start_in(dir: TempDir, script: Value, args: &[&str]) -> Self {
        let path = dir.path().join("script.json");
        std::fs::write(&path, script.to_string()).expect("a script");
        let mut child = Command::new(env!("CARGO_BIN_EXE_kimi-scripted-agent"))
            .arg(path)
            .args(["--wire", "--work-dir"])
            .arg(dir.path())
            .args(args)
            .env("SCRIPTED", "from outside")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("stdout"));
        thread::spawn(move || {
            for line in stdout.split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().expect("stderr");
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, stderr: Some(stderr), dir, calls: 0 }
    }

    pub(crate) fn initialize(&mut self, more: Value) -> Value {
        let mut params = json!({"protocol_version": "1.10", "capabilities": {"supports_question": true}});
        params.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        let id = self.call("initialize", params);
        let answer = self.read();
        assert_eq!(answer["id"], json!(id));
        answer.get("result").or_else(|| answer.get("error")).expect("an answer").clone()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    #[cfg(unix)]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(name)).ok()
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("an open stdin");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the agent listens");
    }

    /// Calls a method; gives the id.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> String {
        self.calls += 1;
        let id = format!("c{}", self.calls);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn prompt(&mut self, text: &str) -> String {
        self.call("prompt", json!({"user_input": text}))
    }

    pub(crate) fn answer(&mut self, id: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line as it is; `None` when stdout is closed.
    pub(crate) fn read_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(HANG) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(timeout) => unreachable!("the agent hangs: {timeout}"),
        }
    }

    pub(crate) fn read(&mut self) -> Value {
        let line = self.read_line().expect("the agent is there");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Reads up to a message of this type.
    pub(crate) fn read_until(&mut self, kind: &str) -> Value {
        loop {
            let message = self.read();
            if message["params"]["type"] == kind {
                return message;
            }
        }
    }

    /// Reads up to the answer to a call, in short.
    pub(crate) fn rest(&mut self, id: &str) -> Vec<String> {
        self.answering(id, |request| unreachable!("not expected: {request}"))
    }

    /// The same, with `answer` giving the results of requests (none: no answer).
    pub(crate) fn answering(&mut self, id: &str, mut answer: impl FnMut(&Value) -> Option<Value>) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let message = self.read();
            told.push(short(&message));
            if message["method"] == "request"
                && let Some(result) = answer(&message["params"])
            {
                self.answer(&message["id"], result);
            }
            if message.get("method").is_none() && message["id"] == id {
                return told;
            }
        }
    }

    /// A whole turn, in short.
    pub(crate) fn turn(&mut self, text: &str) -> Vec<String> {
        let id = self.prompt(text);
        self.rest(&id)
    }

    /// Closes stdin, and gives how the agent ended and what it said on stderr.
    pub(crate) fn close(mut self) -> (ExitStatus, String) {
        self.close_stdin();
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        while self.read_line().is_some() {}
        let stderr = self.stderr.take().expect("waited once").join().expect("stderr");
        (self.child.wait().expect("an exit"), stderr)
    }

    pub(crate) fn into_dir(self) -> TempDir {
        self.ended().1
    }

    /// Closes stdin, and gives how the agent ended and the directory.
    pub(crate) fn ended(mut self) -> (ExitStatus, TempDir) {
        self.close_stdin();
        let status = self.wait().0;
        (status, std::mem::replace(&mut self.dir, TempDir::new().expect("a directory")))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A message in short: an event by its type, and the one field that matters most.
pub(crate) fn short(message: &Value) -> String {
    if message.get("method").is_none() {
        return match message.get("error") {
            Some(error) => format!("error {}", error["code"]),
            None => format!("= {}", message["result"]),
        };
    }
    let params = &message["params"];
    let kind = params["type"].as_str().unwrap_or("?");
    let payload = &params["payload"];
    let detail = match kind {
        "TurnBegin" | "SteerInput" => &payload["user_input"],
        "StepBegin" => &payload["n"],
        "ContentPart" => payload.get("text").unwrap_or(&payload["think"]),
        "ToolCall" => &payload["function"]["name"],
        "ToolCallPart" => &payload["arguments_part"],
        "ToolResult" if payload["return_value"]["is_error"] == true => &payload["return_value"]["message"],
        "ToolResult" => &payload["return_value"]["output"],
        "ApprovalRequest" => &payload["description"],
        "ApprovalResponse" | "ApprovalRequestResolved" => &payload["response"],
        "ToolCallRequest" => &payload["name"],
        "HookTriggered" | "HookRequest" => &payload["event"],
        "HookResolved" => &payload["action"],
        _ => &Value::Null,
    };
    let mark = if message["method"] == "request" { "? " } else { "" };
    match detail {
        Value::Null => format!("{mark}{kind}"),
        Value::String(text) => format!("{mark}{kind} {text}"),
        other => format!("{mark}{kind} {other}"),
    }
}
