//! What one would write by hand: tokio, its lines, serde with a type for each message.

use std::process::Stdio;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::measure::Measure;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    method: Option<&'a str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    params: Option<Message>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// As serde's documentation proposes it.
#[derive(Deserialize)]
#[serde(tag = "type", content = "payload")]
#[allow(dead_code, reason = "decoding is what is measured")]
enum Message {
    TurnBegin { user_input: String },
    TurnEnd {},
    StepBegin { n: i64 },
    ContentPart(Part),
    ToolCall { id: String, function: Function },
    ToolCallPart { arguments_part: Option<String> },
    ToolResult { tool_call_id: String, return_value: Returned },
    StatusUpdate { context_usage: Option<f64>, token_usage: Option<Usage>, message_id: Option<String> },
    ApprovalRequest { id: String, tool_call_id: String, sender: String, action: String, description: String },
    ToolCallRequest { id: String, name: String, arguments: Option<String> },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(dead_code, reason = "decoding is what is measured")]
enum Part {
    Text { text: String },
    Think { think: String },
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "decoding is what is measured")]
struct Function {
    name: String,
    arguments: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "decoding is what is measured")]
struct Returned {
    is_error: bool,
    output: String,
    message: String,
    display: Vec<Value>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "decoding is what is measured")]
struct Usage {
    input_other: u64,
    output: u64,
    input_cache_read: u64,
    input_cache_creation: u64,
}

pub async fn run(agent: &str) {
    let mut child = Command::new(agent).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the agent starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = Vec::new();
    let hello = json!({"jsonrpc": "2.0", "id": "1", "method": "initialize", "params": {"protocol_version": "1.10"}});
    input.write_all(format!("{hello}\n").as_bytes()).await.expect("it listens");
    output.read_until(b'\n', &mut text).await.expect("it answers");
    let mut measure = Measure::begin();
    let prompt = json!({"jsonrpc": "2.0", "id": "2", "method": "prompt", "params": {"user_input": "go"}});
    input.write_all(format!("{prompt}\n").as_bytes()).await.expect("it listens");
    loop {
        text.clear();
        assert!(output.read_until(b'\n', &mut text).await.expect("it talks") > 0, "the agent has gone");
        let line: Line<'_> = serde_json::from_slice(&text).expect("JSON");
        if line.result.is_some() {
            break;
        }
        measure.event();
        if line.method == Some("request") {
            let result = match line.params.as_ref().expect("a message") {
                Message::ApprovalRequest { id, .. } => json!({"request_id": id, "response": "approve"}),
                Message::ToolCallRequest { id, .. } => json!({"tool_call_id": id, "return_value": {
                    "is_error": false, "output": "12", "message": "", "display": [],
                }}),
                _ => continue,
            };
            let answer = json!({"jsonrpc": "2.0", "id": line.id, "result": result});
            input.write_all(format!("{answer}\n").as_bytes()).await.expect("it listens");
        }
        std::hint::black_box(&line.params);
    }
    measure.end();
    drop(input);
    child.wait().await.expect("it ends");
}
