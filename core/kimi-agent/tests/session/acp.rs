//! Agents that speak ACP, as processes: shells that say what Kimi Code would.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kimi_agent::testing::scripted_agent;
use kimi_agent::wire::Event;
use kimi_agent::{Dialect, SessionOptions};
use serde_json::json;

/// Asked for its version it is Kimi Code, and Wire it refuses. Each start leaves a line in `$STARTS`.
const KIMI_CODE: &str = r#"#!/bin/sh
echo "$*" >> "$STARTS"
case "$*" in
    --version) echo 2.1.0; exit;;
    acp) ;;
    *) echo "error: unknown option '--wire'" >&2; exit 1;;
esac
said() { read -r line; case "$line" in *"\"$1\""*) ;; *) echo "not $1: $line" >&2; exit 3;; esac; }
said initialize
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"Kimi Code CLI","version":"2.1.0"}}}'
said session/new
echo '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"session_1"}}'
said session/prompt
echo '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"session_1",
  "toolCall":{"toolCallId":"t","title":"Bash"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},
  {"optionId":"no","name":"No","kind":"reject_once"}]}}' | tr -d '\n'; echo
said no
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session_1",
  "update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"rejected"}}}}' | tr -d '\n'; echo
echo '{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}'
said session/prompt
said session/cancel
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'
while read -r line; do :; done
"#;

struct Fake(tempfile::TempDir);

impl Fake {
    fn new() -> Self {
        let fake = Self(tempfile::tempdir().expect("a directory"));
        std::fs::write(fake.program(), KIMI_CODE).expect("a script");
        std::fs::set_permissions(fake.program(), std::fs::Permissions::from_mode(0o700)).expect("a program");
        fake
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("kimi")
    }

    fn starts(&self) -> Vec<String> {
        let starts = std::fs::read_to_string(self.0.path().join("starts")).unwrap_or_default();
        starts.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    }

    fn options(&self) -> SessionOptions {
        SessionOptions::new().executable(self.program()).env([("STARTS", self.0.path().join("starts"))])
    }
}

/// A turn with an approval without an answer, and a turn that is cancelled.
async fn works(options: SessionOptions) {
    let session = options.start().await.expect("a session");
    assert_eq!((session.id(), session.protocol_version()), ("session_1", "acp-1"));
    assert_eq!(session.server().map(|server| &*server.version), Some("2.1.0"));
    let mut turn = session.prompt("go").expect("a turn");
    assert_eq!(
        super::rest(&mut turn).await.join(" "),
        "TurnBegin StepBegin ToolCall ApprovalRequest ContentPart TurnEnd"
    );
    assert_eq!(turn.result().await.expect("an end").text, "rejected");
    let mut turn = session.prompt("again").expect("a turn");
    assert_eq!(turn.steer("left").await.unwrap_err().code(), "unsupported");
    turn.cancel().await.expect("an answer");
    assert_eq!(turn.result().await.expect("an end").status.as_str(), "cancelled");
    session.close().await.expect("an end");
}

#[tokio::test]
async fn kimi_code_detection_is_cached() {
    let fake = Fake::new();
    works(fake.options()).await;
    assert_eq!(fake.starts(), ["--wire", "--version", "acp"]);
    works(fake.options()).await;
    assert_eq!(fake.starts()[3..], ["acp"]);
}

#[tokio::test]
async fn slash_commands_follow_latest_update() {
    let command = |name: &str| json!({"name": name, "description": name, "aliases": []});
    let update = json!({"type": "available_commands_update", "payload": {"availableCommands": [command("later")]}});
    let agent = scripted_agent(json!({
        "release": "2.1.0",
        "slash_commands": [command("compact"), command("help")],
        "turns": [[{"text": "first"}], [{"event": update}, {"text": "second"}]],
    }));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |event: Event| drop(tell.send(event.type_name().to_owned()));
    let options = SessionOptions::new().executable(&agent).on_event(tell);
    let session = options.start().await.expect("a session");
    let names = || session.slash_commands().into_iter().map(|command| command.name).collect::<Vec<_>>();
    while told.recv().await.expect("an event") != "available_commands_update" {}
    assert_eq!(names(), ["compact", "help"]);
    assert_eq!(session.prompt("go").expect("a turn").result().await.expect("an end").text, "first");
    assert_eq!(names(), ["compact", "help"]);
    // Which lines belong to a turn is known when the turn ends.
    assert_eq!(session.prompt("go").expect("a turn").result().await.expect("an end").text, "second");
    assert_eq!(names(), ["later"]);
    while told.recv().await.expect("an event") != "available_commands_update" {}
    session.close().await.expect("an end");
}

#[tokio::test]
async fn npm_package_is_detected_without_start() {
    let fake = Fake::new();
    let package = r#"{"name": "@moonshot-ai/kimi-code", "version": "2.1.0"}"#;
    std::fs::write(fake.0.path().join("package.json"), package).expect("a file");
    let link = fake.0.path().join("link");
    std::os::unix::fs::symlink(fake.program(), &link).expect("a link");
    works(fake.options().executable(link)).await;
    assert_eq!(fake.starts(), ["acp"]);
}

#[tokio::test]
async fn executable_list_is_started_unchanged() {
    let fake = Fake::new();
    let program = fake.program();
    let words = [Path::new("/bin/sh"), &program, Path::new("acp")];
    works(fake.options().executable(words).dialect(Dialect::Acp)).await;
    works(fake.options().dialect(Dialect::Acp)).await;
    assert_eq!(fake.starts(), ["acp", "acp"]);
}

#[tokio::test]
async fn option_unsupported_by_acp_fails_before_start() {
    let fake = Fake::new();
    let options = fake.options().dialect(Dialect::Acp).config(json!({}));
    let error = options.start().await.unwrap_err();
    let expected = "an agent that speaks ACP does not support `config`, which ACP does not have; leave it out, or configure the agent itself";
    assert_eq!((error.code(), error.to_string()), ("unsupported", expected.to_owned()));
    assert!(fake.starts().is_empty());
}

#[tokio::test]
async fn scripted_agent_session_is_resumed_by_id() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = json!({"release": "2.1.0", "session_file": "sessions.jsonl", "turns": [[{"text": "in {{session}}"}]]});
    let agent = scripted_agent(script);
    let options = || SessionOptions::new().executable(&agent).work_dir(dir.path());
    let session = options().start().await.expect("a session");
    let id = session.id().to_owned();
    assert!(id.starts_with("session_"), "{id}");
    let said = session.prompt("remember").expect("a turn").result().await.expect("an end").text;
    assert_eq!(said, format!("in {id}"));
    session.close().await.expect("closed");

    let session = options().session_id(&id).start().await.expect("the session");
    assert_eq!(session.id(), id);
    let said = session.prompt("again").expect("a turn").result().await.expect("an end").text;
    assert_eq!(said, format!("in {id}"));
    session.close().await.expect("closed");

    let error = options().session_id("session_unknown").start().await.expect_err("there is none");
    assert_eq!(error.code(), "rpc_error", "{error}");
}
