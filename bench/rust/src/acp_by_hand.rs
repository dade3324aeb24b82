//! What one would write by hand for ACP: tokio, its lines, and the types of the protocol's own crate.

use std::process::Stdio;

use agent_client_protocol_schema::v1::SessionNotification;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::measure::Measure;

#[derive(Deserialize)]
struct Line<'a> {
    params: Option<SessionNotification>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

struct Agent {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    text: Vec<u8>,
}

impl Agent {
    async fn call(&mut self, method: &str, params: Value) {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.input.write_all(format!("{call}\n").as_bytes()).await.expect("it listens");
    }

    async fn line(&mut self) -> Line<'_> {
        self.text.clear();
        assert!(self.output.read_until(b'\n', &mut self.text).await.expect("it talks") > 0, "the agent has gone");
        serde_json::from_slice(&self.text).expect("JSON")
    }
}

pub async fn run(agent: &str) {
    let mut command = Command::new(agent);
    let mut child = command.arg("acp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the agent starts");
    let input = child.stdin.take().expect("a pipe");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut agent = Agent { input, output, text: Vec::new() };
    agent.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).await;
    agent.line().await;
    agent.call("session/new", json!({"cwd": "/", "mcpServers": []})).await;
    agent.line().await;
    let mut measure = Measure::begin();
    let prompt = json!({"sessionId": "session-1", "prompt": [{"type": "text", "text": "go"}]});
    agent.call("session/prompt", prompt).await;
    loop {
        let line = agent.line().await;
        if line.result.is_some() {
            break;
        }
        std::hint::black_box(&line.params);
        measure.event();
    }
    measure.end();
    drop(agent);
    child.wait().await.expect("it ends");
}
