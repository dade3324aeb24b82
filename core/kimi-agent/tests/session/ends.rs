//! How sessions end; no process is left over.

use std::time::Duration;

use kimi_agent::prompt;
use serde_json::json;

use super::*;

/// How many processes run with this agent's script, by their command lines.
#[cfg(target_os = "linux")]
fn count(agent: &ScriptedAgent) -> usize {
    use std::os::unix::ffi::OsStrExt;
    let script = agent.last().unwrap().as_bytes().to_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|word| word == script)).count()
}

#[cfg(not(target_os = "linux"))]
fn count(_: &ScriptedAgent) -> usize {
    0
}

/// Waits until none is left, which the test's own limit bounds.
async fn gone(agent: &ScriptedAgent) {
    while count(agent) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn repeated_close_waits_for_agent_exit() {
    let (options, agent) = with(json!([[{"text": "a"}, {"wait_cancel": true}]]));
    let session = options.start().await.unwrap();
    assert!(count(&agent) > 0 || !cfg!(target_os = "linux"));
    let mut turn = session.prompt("go").unwrap();
    let (one, other) = tokio::join!(session.close(), session.close());
    one.and(other).unwrap();
    assert_eq!(count(&agent), 0);
    session.close().await.unwrap();
    assert_eq!(turn.result().await.unwrap().status.as_str(), "cancelled");
    assert_eq!(session.prompt("again").unwrap_err().code(), "session_closed");
    assert_eq!(session.replay().next().await.unwrap().unwrap_err().code(), "session_closed");
}

#[cfg(unix)]
#[tokio::test]
async fn lingering_agent_is_killed() {
    let stay =
        json!([{"text": "a"}, {"ignore_eof": true}, {"ignore_signal": "TERM"}, {"end": "finished"}, {"stall": true}]);
    let (options, agent) = with(json!([stay]));
    let session = options.close_timeout(Duration::from_millis(100)).start().await.unwrap();
    session.prompt("go").unwrap().result().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(count(&agent), 0);
}

#[tokio::test]
async fn unanswered_cancel_closes_session() {
    let (options, agent) = with(json!([[{"text": "a"}, {"stderr": "deaf from here on"}, {"stall": true}]]));
    let (line, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let options = options.on_stderr(move |text| drop(line.send(text.to_owned())));
    let session = options.cancel_timeout(Duration::from_millis(100)).start().await.unwrap();
    let turn = session.prompt("go").unwrap();
    assert_eq!(lines.recv().await.unwrap(), "deaf from here on");
    assert!(turn.cancel().await.unwrap_err().is_timeout());
    assert!(session.prompt("again").unwrap_err().is_timeout());
    session.close().await.unwrap();
    assert_eq!(count(&agent), 0);
}

#[tokio::test]
async fn unanswered_cancelled_prompt_allows_next_prompt() {
    let (options, _agent) = with(json!([[{"text": "a"}, {"never_answer": true}], [{"text": "b"}]]));
    // Within which it has to answer the cancel, however busy the machine is.
    let session = options.cancel_timeout(Duration::from_secs(2)).start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    until(&mut turn, "ContentPart").await;
    turn.cancel().await.unwrap();
    assert_eq!(turn.result().await.unwrap().status.as_str(), "cancelled");
    assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, "b");
}

#[tokio::test]
async fn dropped_session_leaves_nothing() {
    let (options, agent) = with(json!([[{"text": "a"}, {"wait_cancel": true}]]));
    let session = options.start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    until(&mut turn, "ContentPart").await;
    drop(session);
    assert_eq!(turn.result().await.unwrap_err().code(), "session_closed");
    gone(&agent).await;
}

#[tokio::test]
async fn turn_cancelled_by_program_stays_cancelled_without_session() {
    let (options, agent) = with(json!([[{"text": "a"}, {"wait_cancel": true}]]));
    let session = options.start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    until(&mut turn, "ContentPart").await;
    turn.cancel().await.unwrap();
    drop(session);
    assert_eq!(turn.result().await.unwrap().status.as_str(), "cancelled");
    gone(&agent).await;
}

#[tokio::test]
async fn dropped_start_leaves_nothing() {
    let (options, agent) = with(json!({"before_handshake": [{"stall": true}], "turns": []}));
    let starting = options.close_timeout(Duration::from_millis(100)).start();
    let started = tokio::time::timeout(Duration::from_millis(300), starting).await;
    assert!(started.is_err());
    gone(&agent).await;
}

#[tokio::test]
async fn one_shot_leaves_nothing() {
    let (options, agent) = with(json!([[{"text": ["4", "2"]}], [{"text": "never"}]]));
    let mut turn = prompt("6 * 7?", options.clone());
    let mut text = String::new();
    while let Some(event) = turn.next().await {
        text.push_str(event.unwrap().text().unwrap_or_default());
    }
    assert_eq!(text, "42");
    assert_eq!(turn.result().await.unwrap().text, "42");
    gone(&agent).await;

    // Cancelled before there is a session.
    let mut turn = prompt("never mind", options.clone());
    turn.cancel().await.unwrap();
    assert_eq!(turn.result().await.unwrap().status.as_str(), "cancelled");
    assert!(turn.next().await.is_none());
    drop(prompt("never mind", options));
    gone(&agent).await;
}

#[tokio::test]
async fn one_shot_accepts_steer_before_session_opens() {
    let (options, agent) = with(json!([[{"wait_steer": true}, {"text": "{{steer}}"}, {"wait_cancel": true}]]));
    let mut turn = prompt("go", options);
    turn.steer("left").await.unwrap();
    until(&mut turn, "ContentPart").await;
    turn.cancel().await.unwrap();
    assert_eq!(turn.result().await.unwrap().text, "left");
    gone(&agent).await;
}

#[test]
fn end_of_runtime_ends_agent() {
    let (options, agent) = with(json!([[{"text": "a"}, {"wait_cancel": true}]]));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (session, mut turn) = runtime.block_on(async {
        let session = options.clone().start().await.unwrap();
        let mut turn = session.prompt("go").unwrap();
        until(&mut turn, "ContentPart").await;
        (session, turn)
    });
    let shot = runtime.block_on(async { prompt("go", options) });
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert_eq!(turn.result().await.unwrap_err().code(), "session_closed");
        session.close().await.unwrap();
        let mut shot = shot;
        assert!(shot.result().await.is_err());
        gone(&agent).await;
    });
}

/// An agent without a handshake, whose executable never prints its version.
#[cfg(unix)]
#[tokio::test]
async fn start_dropped_during_detection_leaves_no_agent() {
    const SCRIPT: &str = r#"
        case "$*" in *--version*) echo asked > "$PIPES/asked"; exec tail -f /dev/null;; esac
        # TERM comes first if the machine is busy.
        trap 'echo closed > "$PIPES/closed"' EXIT
        trap exit TERM
        read -r line
        echo '{"jsonrpc":"2.0","id":"initialize-1","error":{"code":-32601,"message":"method not found"}}'
        while read -r line; do :; done
    "#;
    let pipes = tempfile::tempdir().unwrap();
    for name in ["asked", "closed"] {
        let made = std::process::Command::new("mkfifo").arg(pipes.path().join(name)).status().unwrap();
        assert!(made.success());
    }
    // Opening a pipe waits for its writer.
    let heard = |name: &str| tokio::fs::read_to_string(pipes.path().join(name));

    let options = SessionOptions::new().executable(["/bin/sh", "-c", SCRIPT, "agent"]).env([("PIPES", pipes.path())]);
    tokio::select! {
        started = options.start() => panic!("it tells no version: {started:?}"),
        asked = heard("asked") => assert_eq!(asked.unwrap(), "asked\n"),
    }
    assert_eq!(heard("closed").await.unwrap(), "closed\n");
}
