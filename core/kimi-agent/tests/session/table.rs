//! The texts of errors: every row of `tests/errors/table.json`, as a program in Rust meets it.

use kimi_agent::wire::ApprovalRequest;
use kimi_agent::{AgentOptions, Error, Output};
use kimi_agent_client::host::{Naming, session_options};
use kimi_agent_protocol::error::fields;
use serde_json::{Map, json};

use super::*;

/// The expected error of the row.
fn check(row: &Value, error: &Error) {
    let (name, text, fields) = (&row["name"], error.to_string(), fields(error));
    assert_eq!(error.code(), row["code"], "{name}: {text}");
    for field in ["retryable", "option", "rpc_code"] {
        if let Some(expected) = row.get(field) {
            assert_eq!(&fields[field], expected, "{name}: {field} of {text}");
        }
    }
    let words = |key: &str| -> Vec<String> {
        let words = row[key].as_array().map(Vec::as_slice).unwrap_or_default();
        // The names of options, which each language spells in its own way, are in braces.
        words.iter().map(|word| word.as_str().unwrap().replace("`{", "`").replace("}`", "`")).collect()
    };
    for word in words("words") {
        let word = word.replace(['{', '}'], "");
        assert!(text.replace(['{', '}'], "").contains(&word), "{name}: no {word:?} in {text}");
    }
    for word in words("never") {
        assert!(!text.contains(&word), "{name}: {word:?} in {text}");
    }
}

/// Makes the row's mistake.
async fn provoke(row: &Value) -> Error {
    let how = &row["how"];
    let mut plain: Map<String, Value> = how["options"].as_object().cloned().unwrap_or_default();
    if let Some(shell) = how["shell"].as_str() {
        plain.insert("executable".to_owned(), json!(["sh", "-c", shell]));
    }
    let read = session_options(plain, Naming::Snake);
    let agent = how.get("script").map(|script| scripted_agent(script.clone()));
    let output = how.get("output").map(|schema| Output::new(schema.clone()));
    let read = read.map(|options| output.into_iter().fold(options, SessionOptions::output));
    let options = match read {
        Ok(options) => agent.iter().fold(options, |options, agent| options.executable(agent)),
        Err(error) => return error,
    };
    let operation = how["do"].as_str().unwrap();
    match operation {
        "list_sessions" => {
            let agent = AgentOptions::new().executable(agent.as_ref().unwrap()).open().unwrap();
            return agent.list_sessions(None).await.unwrap_err();
        }
        "session_with_env" => {
            let agent = AgentOptions::new().executable(agent.as_ref().unwrap()).open().unwrap();
            return agent.create_session(SessionOptions::new().env([("A", "b")])).await.unwrap_err();
        }
        _ => {}
    }
    let session = match (options.start().await, operation) {
        (Err(error), "open") => return error,
        (session, _) => session.unwrap(),
    };
    match operation {
        "prompt" => session.prompt("go").unwrap().result().await.unwrap_err(),
        "prompt_twice" => {
            let _turn = session.prompt("go").unwrap();
            session.prompt("again").unwrap_err()
        }
        "prompt_after_close" => {
            session.close().await.unwrap();
            session.prompt("go").unwrap_err()
        }
        "steer" => session.prompt("go").unwrap().steer("more").await.unwrap_err(),
        "steer_after_end" => {
            let mut turn = session.prompt("go").unwrap();
            turn.result().await.unwrap();
            turn.steer("more").await.unwrap_err()
        }
        "steer_in_loop" => {
            let mut turn = session.prompt("go").unwrap();
            until(&mut turn, "ContentPart").await;
            turn.steer("more").await.unwrap_err()
        }
        "set_plan_mode" => session.set_plan_mode(true).await.unwrap_err(),
        "raise_for_status" => session.prompt("go").unwrap().result().await.unwrap().raise_for_status().unwrap_err(),
        "respond_unknown" => {
            let request = json!({"id": "nope", "tool_call_id": "t", "sender": "s", "action": "a", "description": "d"});
            let request: ApprovalRequest = serde_json::from_value(request).unwrap();
            session.respond(&request, kimi_agent::Approval::Approve).await.unwrap_err()
        }
        other => panic!("{}: cannot do {other}", row["name"]),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_texts_match_table() {
    let table = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/errors/table.json")).unwrap();
    let table: Value = serde_json::from_str(&table).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let mut played = Vec::new();
    for row in rows.iter().filter(|row| row["skip"]["rust"].is_null()) {
        let row = row.clone();
        assert!(row.get("how").is_some(), "{}: neither played nor skipped with a reason", row["name"]);
        played.push(tokio::spawn(async move { check(&row, &provoke(&row).await) }));
    }
    assert!(played.len() > 30, "{} rows", played.len());
    for row in played {
        row.await.unwrap();
    }
}
