//! Whole sessions with an agent behind a WebSocket.

use serde_json::{Value, json};

use super::*;
use crate::{Place, SessionOptions};

/// An agent of one connection: it answers a prompt with its working directory, and then ends the connection.
async fn agent(listener: TcpListener) {
    let (mut socket, _) = accept(listener).await;
    let mut work_dir = Value::Null;
    while let Some(Ok(message)) = socket.next().await {
        let Ok(text) = message.to_text() else { continue };
        let call: Value = serde_json::from_str(text).unwrap();
        let answer =
            |result: Value| Message::text(json!({"jsonrpc": "2.0", "id": call["id"], "result": result}).to_string());
        match call["method"].as_str().unwrap_or_default() {
            "initialize" => socket.send(answer(json!({"protocolVersion": 1, "agentCapabilities": {}}))).await.unwrap(),
            "session/new" => {
                work_dir = call["params"]["cwd"].clone();
                socket.send(answer(json!({"sessionId": "s"}))).await.unwrap();
            }
            "session/prompt" if work_dir.is_null() => {
                let frame = CloseFrame { code: 1012.into(), reason: "restart, canary-of-a-header".into() };
                return socket.close(Some(frame)).await.unwrap();
            }
            "session/prompt" => {
                let content = json!({"type": "text", "text": work_dir.take()});
                let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
                let params = json!({"sessionId": "s", "update": update});
                let update = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
                socket.send(Message::text(update.to_string())).await.unwrap();
                socket.send(answer(json!({"stopReason": "end_turn"}))).await.unwrap();
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn session_runs_and_reports_the_lost_connection() {
    let (listener, url) = listen().await;
    let agent = tokio::spawn(agent(listener));
    let dir = tempfile::tempdir().unwrap();
    let place = Place::remote(url).header("Authorization", format!("Bearer {CANARY}")).work_dir("/srv/app");
    assert!(!format!("{place:?}").contains("canary"));
    let recording = dir.path().join("run.jsonl");
    let options = SessionOptions::new().work_dir(dir.path()).record(&recording);
    let session = options.place(place).start().await.unwrap();
    assert_eq!((session.protocol_version(), session.pid()), ("acp-1", None));
    assert_eq!(session.prompt("x").unwrap().result().await.unwrap().text, "/srv/app");
    let error = session.prompt("y").unwrap().result().await.unwrap_err();
    assert_eq!(error.code(), "agent_exited");
    let text = error.to_string();
    assert!(text.starts_with("the connection to the agent at ws://127.0.0.1:"), "{text}");
    assert!(text.ends_with("/acp ended: the server closed it with the code 1012: restart, ***"), "{text}");
    session.close().await.unwrap();
    agent.await.unwrap();
    let recording = std::fs::read_to_string(recording).unwrap();
    assert!(recording.contains("ws://127.0.0.1:") && !recording.contains("canary"), "{recording}");
}
