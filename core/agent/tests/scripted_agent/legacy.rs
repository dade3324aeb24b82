//! The protocol before Wire 1.0, and releases that play themselves.

use std::process::Command;

use serde_json::{Value, json};

use super::client::Client;

/// Reads up to the answer to a call; gives types, and the answer's result or error code.
fn rest(client: &mut Client, id: &str) -> (Vec<String>, Value) {
    let mut types = Vec::new();
    loop {
        let message = client.read();
        match message["params"]["type"].as_str() {
            Some(kind) => types.push(kind.to_owned()),
            None if message["id"] == id => {
                let error = message.get("error").map(|error| error["code"].clone());
                return (types, error.unwrap_or_else(|| message["result"].clone()));
            }
            None => types.push(message.to_string()),
        }
    }
}

#[test]
fn legacy_run_uses_old_spelling() {
    let mut client = Client::start(
        json!({"wire": "legacy", "turns": [
            [{"think": "hm"}, {"tool_call": {"id": "t", "name": "Shell", "split": 2, "approve": true,
                "result": {"output": "x", "message": "m", "display": [{"type": "brief", "text": "b"}]}}},
                {"usage": {"output": 1}, "context_usage": 0.5}, {"text": "done"}],
            [{"external_tool": {"name": "open"}}, {"error": {"code": -32002, "message": "500"}}],
        ]}),
        &["--yolo"],
    );
    client.call("initialize", json!({"protocol_version": "1.10"}));
    client.send_line("{");
    let id = client.call("run", json!({"input": "go"}));
    let (types, result) = rest(&mut client, &id);
    let expected = "step_begin content_part tool_call tool_call_part tool_call_part tool_result status_update \
                    step_begin content_part";
    assert_eq!((types.join(" "), result), (expected.to_owned(), json!({"status": "finished"})));
    let id = client.call("run", json!({"prompt": "again"}));
    let (types, code) = rest(&mut client, &id);
    assert_eq!((types.join(" "), code), ("step_begin tool_call tool_result".to_owned(), json!(-32002)));
}

#[test]
fn legacy_agent_reads_nothing_during_run() {
    let mut client = Client::start(
        json!({"wire": "legacy", "turns": [[{"text": "a"}, {"wait_file": "go"}, {"text": "{{prompt}}"}]]}),
        &[],
    );
    let run = client.call("run", json!({"input": "x"}));
    let interrupt = client.call("interrupt", json!({}));
    client.read_until("content_part");
    std::fs::write(client.dir().join("go"), "").expect("a file");
    assert_eq!(rest(&mut client, &run).1, json!({"status": "finished"}));
    assert_eq!(rest(&mut client, &interrupt).1, json!({"status": "idle"}));
}

#[test]
fn full_duplex_legacy_agent_can_be_interrupted() {
    let turn = json!([{"tool_call": {"name": "Shell", "approve": {"id": "a"}}}, {"text": "{{last.response}}"}]);
    let mut client = Client::start(json!({"wire": "legacy", "half_duplex": false, "turns": [turn, turn]}), &[]);
    let id = client.call("run", json!({"input": "x"}));
    let request = client.read_until("approval");
    assert_eq!(request["id"], request["params"]["payload"]["id"]);
    assert_eq!(request["params"]["payload"].get("display"), None);
    client.answer(&request["id"], json!({"response": "approve"}));
    assert_eq!(rest(&mut client, &id).1, json!({"status": "finished"}));
    let id = client.call("run", json!({"input": "x"}));
    client.read_until("approval");
    client.send(&json!({"jsonrpc": "2.0", "method": "interrupt"}));
    assert_eq!(rest(&mut client, &id), (vec![], json!({"status": "cancelled"})));
}

#[test]
fn release_has_its_own_command_line() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let script = dir.path().join("script.json");
    std::fs::write(&script, r#"{"release": "0.58"}"#).expect("a script");
    let run = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kimi-scripted-agent"));
        let output = command.arg(&script).arg(argument).stdin(std::process::Stdio::null()).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"), output.stderr)
    };
    assert_eq!(run("--version"), (Some(0), "kimi, version 0.58\n".to_owned(), vec![]));
    let (code, _, stderr) = run("--session=x");
    assert_eq!((code, String::from_utf8_lossy(&stderr).as_ref()), (Some(2), "No such option: --session\n"));
    assert_eq!(run("--wire").0, Some(0));
}
