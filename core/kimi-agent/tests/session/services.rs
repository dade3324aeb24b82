//! Handlers of files and terminals are stopped as soon as their requests need no answer any more.

use std::path::Path;
use std::sync::Arc;

use kimi_agent::testing::scripted_agent;
use kimi_agent::{Dialect, HandlerError, Session, SessionOptions};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Tells when the future that owns it is dropped.
struct Guard(Arc<Notify>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A handler that writes this file and never returns.
async fn hang<T>(begun: std::path::PathBuf, stopped: Arc<Notify>) -> Result<T, HandlerError> {
    let _guard = Guard(stopped);
    std::fs::write(begun, "")?;
    std::future::pending().await
}

/// A session whose handlers hang, and whose agent runs these actions; and a channel that reports a stopped handler.
async fn hanging(actions: Value, begun: &Path) -> (Session, Arc<Notify>) {
    let stopped = Arc::new(Notify::new());
    let agent = scripted_agent(json!({"wire": "acp", "turns": [actions]}));
    let all = || (begun.to_owned(), Arc::clone(&stopped));
    let (read, write, run) = (all(), all(), all());
    let options = SessionOptions::new()
        .executable(&agent)
        .dialect(Dialect::Acp)
        .on_read_file(move |_| hang::<String>(read.0.clone(), Arc::clone(&read.1)))
        .on_write_file(move |_| hang(write.0.clone(), Arc::clone(&write.1)))
        .on_terminal(move |_| hang(run.0.clone(), Arc::clone(&run.1)));
    (options.start().await.expect("a session"), stopped)
}

fn requests() -> [(Value, Value); 3] {
    let cancel = json!({"raw": r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}"#});
    let kill = json!({"request": {"type": "terminal/kill", "payload": {"terminalId": "terminal-1"}}});
    [
        (json!({"type": "fs/read_text_file", "payload": {"path": "/a"}}), cancel.clone()),
        (json!({"type": "fs/write_text_file", "payload": {"path": "/a", "content": ""}}), cancel),
        (json!({"type": "terminal/create", "payload": {"command": "serve"}}), kill),
    ]
}

#[tokio::test]
async fn agent_cancel_stops_service_handler() {
    let folder = tempfile::tempdir().expect("a directory");
    for (number, (request, cancel)) in requests().into_iter().enumerate() {
        let begun = folder.path().join(number.to_string());
        let actions = json!([{"request": request, "wait": false}, {"wait_file": begun}, cancel, {"text": "on"}]);
        let (session, stopped) = hanging(actions, &begun).await;
        let result = session.prompt("go").expect("a turn").result().await.expect("an end");
        assert_eq!((&*result.text, result.handler_failures.len()), ("on", 0));
        stopped.notified().await;
        session.close().await.expect("an end");
    }
}

#[tokio::test]
async fn cancel_or_close_stops_service_handler() {
    let folder = tempfile::tempdir().expect("a directory");
    let actions = [
        json!({"read_file": {"path": "/a"}}),
        json!({"write_file": {"path": "/a", "content": ""}}),
        json!({"terminal": {"command": "serve"}}),
    ];
    let kinds = ["ReadFileRequest", "WriteFileRequest", "TerminalRequest"];
    for (number, (action, kind)) in actions.into_iter().zip(kinds).enumerate() {
        for closes in [false, true] {
            let begun = folder.path().join(format!("{number} {closes}"));
            let (session, stopped) = hanging(json!([action]), &begun).await;
            let mut turn = session.prompt("go").expect("a turn");
            super::until(&mut turn, kind).await;
            if closes {
                session.close().await.expect("an end");
            } else {
                turn.cancel().await.expect("an answer");
            }
            assert_eq!(turn.result().await.expect("an end").status.as_str(), "cancelled");
            // A handler that never began needs no end.
            if begun.exists() {
                stopped.notified().await;
            }
        }
    }
}
