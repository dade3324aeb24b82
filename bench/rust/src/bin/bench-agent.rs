//! An agent that does nothing but talk fast: what a client costs is not hidden behind what its agent costs.
//!
//! Its messages are spelled as kimi-cli 1.49 spells them; started with the argument `acp`, as Kimi Code 2.1 does. It heeds
//! no other argument; `BENCH_PLAN` says what a turn is, as JSON:
//! `{"events": n, "writes": "bulk" | "single", "asks": "approval" | "tool", "ask_count": m, "line": bytes}`.
//! Over ACP there are events in bulk only. `BENCH_REPORT` names a file that gets the round trips' times, in nanoseconds, as JSON.

use std::io::{BufRead, Write};
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

/// Over ACP, the one session.
const SESSION: &str = "session-1";

#[derive(Deserialize)]
#[serde(default)]
struct Plan {
    events: usize,
    writes: Writes,
    asks: Ask,
    ask_count: usize,
    line: usize,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Writes {
    Bulk,
    Single,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ask {
    Approval,
    Tool,
}

impl Default for Plan {
    fn default() -> Self {
        Self { events: 0, writes: Writes::Bulk, asks: Ask::Approval, ask_count: 0, line: 0 }
    }
}

fn message(method: &str, id: Option<&str>, kind: &str, payload: &Value) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let Some(id) = id {
        message["id"] = json!(id);
    }
    message["params"] = json!({"type": kind, "payload": payload});
    message.to_string() + "\n"
}

fn event(kind: &str, payload: &Value) -> String {
    message("event", None, kind, payload)
}

/// One of a turn's events: of twenty, seventeen are short texts, as a model's answer streams.
fn nth(n: usize) -> String {
    let id = format!("call_{:08}", n / 20);
    match n % 20 {
        5 => event(
            "ToolCall",
            &json!({"type": "function", "id": id, "function": {"name": "Shell", "arguments": "{\"command\":"},
                "extras": null}),
        ),
        6 => event("ToolCallPart", &json!({"arguments_part": "\"ls -la\"}"})),
        12 if n % 40 < 20 => event(
            "ToolResult",
            &json!({"tool_call_id": id, "return_value": {
                "is_error": false, "output": "total 12\ndrwxr-xr-x 2 user user 4096 src\n", "message": "done", "display": [],
                "extras": null,
            }}),
        ),
        12 => event(
            "StatusUpdate",
            &json!({"context_usage": 0.25, "context_tokens": 25000, "max_context_tokens": 100_000, "token_usage": {
                "input_other": 10, "output": 20, "input_cache_read": 30, "input_cache_creation": 0,
            }, "message_id": format!("chatcmpl-{n}"), "plan_mode": false, "mcp_status": null}),
        ),
        _ => event("ContentPart", &json!({"type": "text", "text": format!(" word{}", n % 1000)})),
    }
}

fn response(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string() + "\n"
}

fn ask(plan: &Plan, n: usize) -> String {
    let id = format!("00000000-0000-4000-8000-{n:012}");
    match plan.asks {
        Ask::Approval => message(
            "request",
            Some(&id),
            "ApprovalRequest",
            &json!({"id": id, "tool_call_id": format!("call_{n}"), "sender": "Shell", "action": "run command",
                "description": "Run command `ls -la`", "source_kind": "foreground_turn",
                "source_id": "00000000000000000000000000000003", "agent_id": null, "subagent_type": null,
                "source_description": null,
                "display": [{"type": "shell", "language": "bash", "command": "ls -la"}]}),
        ),
        Ask::Tool => message(
            "request",
            Some(&id),
            "ToolCallRequest",
            &json!({"id": id, "name": "look_up", "arguments": "{\"item\":\"tea\"}"}),
        ),
    }
}

fn update(update: &Value) -> String {
    let params = json!({"sessionId": SESSION, "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string() + "\n"
}

/// The same mixture in the words of ACP.
fn nth_update(n: usize) -> String {
    let id = format!("0:call_{:08}", n / 20);
    let shown = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    match n % 20 {
        5 => update(&json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Bash", "kind": "execute",
            "status": "pending", "content": shown("{\"command\":")})),
        6 => update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "title": "Running: ls -la",
            "kind": "execute", "status": "in_progress", "rawInput": {"command": "ls -la"},
            "content": shown("{\"command\":\"ls -la\"}")})),
        12 if n % 40 < 20 => {
            update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed",
            "content": shown("total 12\ndrwxr-xr-x 2 user user 4096 src\n")}))
        }
        12 => update(&json!({"sessionUpdate": "usage_update", "used": 25000, "size": 100_000})),
        _ => update(&json!({"sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": format!(" word{}", n % 1000)}})),
    }
}

fn speak_acp(plan: &Plan, input: &mut impl BufRead, output: &mut impl Write) -> std::io::Result<()> {
    let updates: String = (0..plan.events).map(nth_update).collect();
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let call: Value = serde_json::from_str(&line)?;
        line.clear();
        let result = match call["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [],
                "agentInfo": {"name": "bench-agent", "version": "1.0"}}),
            Some("session/new") => json!({"sessionId": SESSION}),
            Some("session/prompt") => {
                output.write_all(updates.as_bytes())?;
                json!({"stopReason": "end_turn"})
            }
            _ => continue,
        };
        output.write_all(response(&call["id"], &result).as_bytes())?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let plan: Plan = match std::env::var("BENCH_PLAN") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Plan::default(),
    };
    let mut input = std::io::BufReader::with_capacity(1 << 16, std::io::stdin().lock());
    // Unbuffered: how the bytes are cut is what is measured.
    let mut output = std::fs::File::from(std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?);
    if std::env::args().nth(1).as_deref() == Some("acp") {
        return speak_acp(&plan, &mut input, &mut output);
    }
    // Made ahead: the turn itself is writing only.
    let begin = event("TurnBegin", &json!({"user_input": "go"})) + &event("StepBegin", &json!({"n": 1}));
    let lines: Vec<String> = (0..plan.events).map(nth).collect();
    let large = (plan.line > 0).then(|| event("ContentPart", &json!({"type": "text", "text": "x".repeat(plan.line)})));
    let asks: Vec<String> = (0..plan.ask_count).map(|n| ask(&plan, n)).collect();
    let bulk = (plan.writes == Writes::Bulk).then(|| lines.concat());

    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let call: Value = serde_json::from_str(&line)?;
        line.clear();
        let id = &call["id"];
        match call["method"].as_str() {
            Some("initialize") => {
                let tools = call["params"]["external_tools"].as_array().cloned().unwrap_or_default();
                let accepted: Vec<_> = tools.iter().map(|tool| tool["name"].clone()).collect();
                let mut result = json!({
                    "protocol_version": "1.10", "server": {"name": "bench-agent", "version": "1.0"},
                    "slash_commands": [], "capabilities": {"supports_question": true},
                    "hooks": {"supported_events": [], "configured": {}},
                });
                if !accepted.is_empty() {
                    result["external_tools"] = json!({"accepted": accepted, "rejected": []});
                }
                output.write_all(response(id, &result).as_bytes())?;
            }
            // A turn without anything, for a client that has to start its agent with one.
            Some("prompt") if call["params"]["user_input"] == "warm up" => {
                let end = event("TurnEnd", &json!({})) + &response(id, &json!({"status": "finished"}));
                output.write_all((begin.clone() + &end).as_bytes())?;
            }
            Some("prompt") => {
                let id = id.clone();
                output.write_all(begin.as_bytes())?;
                match &bulk {
                    Some(bulk) => output.write_all(bulk.as_bytes())?,
                    None => lines.iter().try_for_each(|line| output.write_all(line.as_bytes()))?,
                }
                if let Some(large) = &large {
                    output.write_all(large.as_bytes())?;
                }
                let mut times = Vec::with_capacity(asks.len());
                for ask in &asks {
                    let began = Instant::now();
                    output.write_all(ask.as_bytes())?;
                    line.clear();
                    if input.read_line(&mut line)? == 0 {
                        return Ok(());
                    }
                    times.push(began.elapsed().as_nanos() as u64);
                }
                line.clear();
                if let Ok(report) = std::env::var("BENCH_REPORT") {
                    std::fs::write(report, json!(times).to_string())?;
                }
                let end = event("TurnEnd", &json!({})) + &response(&id, &json!({"status": "finished"}));
                output.write_all(end.as_bytes())?;
            }
            Some("cancel") => output.write_all(response(id, &json!({})).as_bytes())?,
            _ => {}
        }
    }
    Ok(())
}
