//! Scripts over the Agent Client Protocol.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::client::Client;

fn opened(turns: Value) -> (Client, Value) {
    let script = json!({"wire": "acp", "session_file": "sessions.jsonl", "turns": turns});
    let mut client = Client::start(script, &[]);
    client.call("initialize", json!({"protocolVersion": 1}));
    assert_eq!(client.read()["result"]["protocolVersion"], 1);
    let session = another(&mut client, "");
    (client, session)
}

/// A session in a directory below the client's.
fn another(client: &mut Client, dir: &str) -> Value {
    let dir = client.dir().join(dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    client.call("session/new", json!({"cwd": dir, "mcpServers": []}));
    client.read()["result"]["sessionId"].clone()
}

fn prompt(client: &mut Client, session: &Value) -> String {
    client.call("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}))
}

/// Reads on to the request for a permission: its id, and the call that it is about.
fn asked(client: &mut Client) -> (Value, Value) {
    loop {
        let message = client.read();
        assert!(message["result"]["stopReason"].is_null(), "the turn is over: {message}");
        if message["method"] == "session/request_permission" {
            return (message["id"].clone(), message["params"]["toolCall"]["toolCallId"].clone());
        }
    }
}

/// Reads on to the prompt's answer: what was said in text until then, and why the turn stopped.
fn rest(client: &mut Client, id: &str) -> (String, Value) {
    let mut text = String::new();
    loop {
        let message = client.read();
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            text.push_str(update["content"]["text"].as_str().expect("text"));
        }
        if message["id"] == id {
            return (text, message["result"]["stopReason"].clone());
        }
    }
}

/// Reads on to a message with this method.
fn read_method(client: &mut Client, method: &str) -> Value {
    loop {
        let message = client.read();
        assert!(message["result"]["stopReason"].is_null(), "the turn is over: {message}");
        if message["method"] == method {
            return message;
        }
    }
}

fn chosen(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

fn ask(id: &str, file: &str) -> Value {
    json!({"tool_call": {"id": id, "name": "Write", "approve": {"action": "edit"},
        "effect": {"write_file": file, "content": "x"}}})
}

#[test]
fn parallel_calls_ask_permission_one_by_one() {
    let (mut client, session) = opened(json!([[{"parallel": [ask("a", "a"), ask("b", "b")]}, {"text": "done"}]]));
    let id = prompt(&mut client, &session);
    let (first, call) = asked(&mut client);
    assert_eq!(call, "a");
    assert_eq!((client.file("a"), client.file("b")), (None, None));
    client.answer(&first, chosen("reject"));
    let (second, call) = asked(&mut client);
    assert_eq!((call, &second), (json!("b"), &json!(1)));
    client.answer(&second, chosen("approve_once"));
    assert_eq!(rest(&mut client, &id), ("done".to_owned(), json!("end_turn")));
    assert_eq!((client.file("a"), client.file("b").as_deref()), (None, Some("x")));
}

#[test]
fn allow_always_approves_later_calls() {
    let turn = json!([{"parallel": [ask("a", "a"), ask("b", "b")]}, ask("c", "c"), {"text": "done"}]);
    let (mut client, session) = opened(json!([turn]));
    let id = prompt(&mut client, &session);
    let (first, _) = asked(&mut client);
    client.answer(&first, chosen("approve_always"));
    assert_eq!(rest(&mut client, &id), ("done".to_owned(), json!("end_turn")));
    assert!(["a", "b", "c"].iter().all(|file| client.file(file).is_some()));
}

#[test]
fn invalid_permission_answer_rejects() {
    for answer in [chosen("invented"), json!({"outcome": {"outcome": "cancelled"}}), json!({}), Value::Null] {
        let (mut client, session) = opened(json!([[ask("a", "a"), {"text": "on"}]]));
        let id = prompt(&mut client, &session);
        let (request, _) = asked(&mut client);
        client.answer(&request, answer.clone());
        assert_eq!(rest(&mut client, &id), ("on".to_owned(), json!("end_turn")), "{answer}");
        assert_eq!(client.file("a"), None, "{answer}");
    }
}

#[test]
fn yolo_mode_asks_no_permission() {
    let (mut client, session) = opened(json!([[ask("a", "a"), {"text": "done"}], [ask("b", "b")]]));
    let set = |mode: &str| json!({"sessionId": session, "configId": "mode", "value": mode});
    client.call("session/set_config_option", set("yolo"));
    let id = prompt(&mut client, &session);
    assert_eq!(rest(&mut client, &id), ("done".to_owned(), json!("end_turn")));
    assert!(client.file("a").is_some());
    client.call("session/set_config_option", set("default"));
    prompt(&mut client, &session);
    assert_eq!(asked(&mut client).1, "b");
}

#[test]
fn cancel_then_next_turn_works() {
    let (mut client, session) = opened(json!([[ask("a", "a"), {"text": "on"}], [{"text": "fresh"}]]));
    let id = prompt(&mut client, &session);
    let (request, _) = asked(&mut client);
    client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    client.answer(&request, json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(rest(&mut client, &id), (String::new(), json!("cancelled")));
    let id = prompt(&mut client, &session);
    assert_eq!(rest(&mut client, &id), ("fresh".to_owned(), json!("end_turn")));
    assert_eq!(client.file("a"), None);
}

#[test]
fn concurrent_sessions_each_run_whole_script() {
    let turns = json!([[ask("a", "a"), {"text": "done in {{session}}"}], [{"text": "again"}]]);
    let (mut client, first) = opened(turns);
    let second = another(&mut client, "other");
    let one = prompt(&mut client, &first);
    let (request, _) = asked(&mut client);
    let two = prompt(&mut client, &second);
    let (other, _) = asked(&mut client);
    assert_eq!((&request, &other), (&json!(0), &json!(1)));
    client.answer(&other, chosen("approve_once"));
    let said = |session: &Value| (format!("done in {}", session.as_str().expect("an id")), json!("end_turn"));
    assert_eq!(rest(&mut client, &two), said(&second));
    assert_eq!((client.file("a"), client.file("other/a").as_deref()), (None, Some("x")));
    let two = prompt(&mut client, &second);
    assert_eq!(rest(&mut client, &two), ("again".to_owned(), json!("end_turn")));
    client.answer(&request, chosen("approve_once"));
    assert_eq!(rest(&mut client, &one), said(&first));
    assert!(client.file("a").is_some());
}

#[test]
fn closed_session_can_be_loaded_and_forked() {
    let (mut client, session) = opened(json!([[{"text": "one"}], [{"text": "two"}]]));
    let id = prompt(&mut client, &session);
    assert_eq!(rest(&mut client, &id), ("one".to_owned(), json!("end_turn")));
    client.call("session/close", json!({"sessionId": session}));
    assert_eq!(client.read()["result"], json!({}));
    prompt(&mut client, &session);
    assert_eq!(client.read()["error"]["code"], -32602);

    let dir = client.dir().to_owned();
    let call = |client: &mut Client, method: &str| {
        client.call(method, json!({"sessionId": session, "cwd": dir, "mcpServers": []}))
    };
    let id = call(&mut client, "session/load");
    let text = |message: &Value| message["params"]["update"]["content"]["text"].clone();
    assert_eq!([text(&client.read()), text(&client.read())], ["go", "one"]);
    let loaded = client.read();
    assert_eq!((&loaded["id"], loaded["result"].get("sessionId")), (&json!(id), None));
    let id = prompt(&mut client, &session);
    assert_eq!(rest(&mut client, &id), ("one".to_owned(), json!("end_turn")));

    call(&mut client, "session/fork");
    let fork = client.read()["result"]["sessionId"].clone();
    client.call("session/list", json!({}));
    let listed = client.read();
    let about = |id: &Value, title: &str| json!({"sessionId": id, "cwd": dir, "title": title, "archived": false});
    assert_eq!(listed["result"]["sessions"], json!([about(&session, "go"), about(&fork, "Fork: go")]));
    let id = prompt(&mut client, &fork);
    assert_eq!(rest(&mut client, &id), ("one".to_owned(), json!("end_turn")));
    let (status, dir) = client.ended();
    assert_eq!(status.code(), Some(0));
    // Each turn is stored once, a fork's past with the fork.
    let stored = std::fs::read_to_string(dir.path().join("sessions.jsonl")).expect("a file");
    let lines = stored.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let begun: Vec<Value> =
        lines.filter(|it| it["params"]["type"] == "TurnBegin").map(|it| it["session"].clone()).collect();
    let count = |session: &Value| begun.iter().filter(|it| *it == session).count();
    assert_eq!((count(&session), count(&fork)), (2, 3));
}

#[test]
fn exit_action_ends_all_sessions() {
    let (mut client, _) = opened(json!([[{"exit": 3}]]));
    let second = another(&mut client, "");
    prompt(&mut client, &second);
    assert_eq!(client.wait().0.code(), Some(3));
}

#[test]
fn kimi_code_has_its_own_command_line() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let script = dir.path().join("script.json");
    std::fs::write(&script, r#"{"release": "2.1.0"}"#).expect("a script");
    let run = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kimi-scripted-agent"));
        let output = command.arg(&script).arg(argument).stdin(Stdio::null()).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"), output.stderr)
    };
    assert_eq!(run("--version"), (Some(0), "2.1.0\n".to_owned(), vec![]));
    let (code, _, stderr) = run("--wire");
    assert_eq!((code, String::from_utf8_lossy(&stderr).as_ref()), (Some(1), "error: unknown option '--wire'\n"));
    assert_eq!(run("acp").0, Some(0));
}

#[test]
fn terminal_created_after_cancel_is_released() {
    let (mut client, session) = opened(json!([[{"terminal": {"command": "serve"}}]]));
    let id = prompt(&mut client, &session);
    let create = read_method(&mut client, "terminal/create");
    client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    client.answer(&create["id"], json!({"terminalId": "t"}));
    let release = read_method(&mut client, "terminal/release");
    assert_eq!(release["params"]["terminalId"], "t");
    assert_eq!(rest(&mut client, &id).1, "cancelled");
}
