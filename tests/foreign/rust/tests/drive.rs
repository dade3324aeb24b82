//! The crate kimi-wire as a client of the scripted agent. It is not part of this project: comments say what it cannot do.
//!
//! `KIMI_SCRIPTED_AGENT` is the agent's program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use kimi_wire::message::WireMessage;
use kimi_wire::protocol::{
    ClientCapabilities, ExternalTool, InitializeParams, InitializeResult, Request, WireHookSubscription,
};
use kimi_wire::transport::{ChildProcessTransport, TransportWireClient};
use kimi_wire::{EventExt, RequestExt, WireClient, WireClientExt, WireError};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything takes; only a hang comes this far.
const HANG: Duration = Duration::from_secs(60);

struct Driven {
    client: TransportWireClient<ChildProcessTransport>,
    dir: TempDir,
}

/// The messages of a turn.
#[derive(Debug, Default)]
struct Told {
    types: Vec<String>,
    text: String,
    result: Value,
}

impl Driven {
    /// It starts a program without arguments of ours: a shell script adds the script.
    async fn start(script: Value) -> Self {
        let agent =
            std::env::var("KIMI_SCRIPTED_AGENT").expect("KIMI_SCRIPTED_AGENT names the scripted agent's program");
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().display();
        fs::write(dir.path().join("script.json"), script.to_string()).expect("a script");
        let program = dir.path().join("agent");
        fs::write(&program, format!("#!/bin/sh\nexec '{agent}' '{path}/script.json' \"$@\"\n")).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        let program = program.to_str().expect("UTF-8");
        let transport =
            ChildProcessTransport::spawn(program, Some(dir.path()), Some("s1"), None).await.expect("it starts");
        Self { client: TransportWireClient::new(transport).with_default_timeout(HANG), dir }
    }

    async fn open(script: Value) -> Self {
        let mut driven = Self::start(script).await;
        driven.initialize(InitializeParams::new("1.10")).await;
        driven
    }

    async fn initialize(&mut self, params: InitializeParams) -> InitializeResult {
        let params = params
            .with_capabilities(ClientCapabilities { supports_question: Some(true), supports_plan_mode: Some(true) });
        self.client.initialize(params).await.expect("a handshake")
    }

    /// Reads up to the answer to the call of this id.
    async fn rest(&mut self, id: &str, answer: impl Fn(&Request) -> Value) -> Told {
        let mut told = Told::default();
        loop {
            match self.client.read_message_timeout(HANG).await.expect("a message") {
                WireMessage::Event(event) => {
                    let payload = event.params.payload();
                    let text = payload.pointer("/payload/text").or_else(|| payload.get("text"));
                    told.text.push_str(text.and_then(Value::as_str).unwrap_or_default());
                    told.types.push(event.params.event_type());
                }
                WireMessage::Request(request) => {
                    told.types.push(request.params.kind());
                    let result = answer(&request.params);
                    self.client.send_response(&request.id, result).await.expect("it listens");
                }
                WireMessage::SuccessResponse(response) if response.id == id => {
                    told.result = response.result;
                    return told;
                }
                WireMessage::ErrorResponse(response) if response.id == id => {
                    told.result = json!({"code": response.error.code});
                    return told;
                }
                _ => {}
            }
        }
    }

    async fn turn(&mut self, answer: impl Fn(&Request) -> Value) -> Told {
        let id = self.client.start_prompt("go").await.expect("a prompt");
        self.rest(&id, answer).await
    }

    /// Reads up to an event of this type.
    async fn until(&mut self, kind: &str) {
        loop {
            if let WireMessage::Event(event) = self.client.read_message_timeout(HANG).await.expect("a message")
                && event.params.event_type() == kind
            {
                return;
            }
        }
    }

    async fn close(self) {
        self.client.shutdown().await.expect("it ends");
    }
}

fn unexpected(request: &Request) -> Value {
    unreachable!("not expected: {request:?}")
}

#[tokio::test]
async fn text_turn_streams_text() {
    let mut driven = Driven::open(json!([[{"think": "Hm."}, {"text": ["Hel", "lo"]}, {"usage": {"output": 3}}]])).await;
    let told = driven.turn(unexpected).await;
    let types = "TurnBegin StepBegin ContentPart ContentPart ContentPart StatusUpdate TurnEnd";
    assert_eq!((told.types.join(" ").as_str(), told.text.as_str()), (types, "Hello"));
    assert_eq!(told.result, json!({"status": "finished"}));
    driven.close().await;
}

#[tokio::test]
async fn approval_is_answered() {
    for (response, written) in [("approve", true), ("reject", false)] {
        let mut driven = Driven::open(json!([[{"tool_call": {"name": "WriteFile", "approve": true, "split": 2,
            "effect": {"write_file": "f", "content": "x"}}}, {"text": "on"}]]))
        .await;
        let told = driven
            .turn(|request| match request {
                Request::ApprovalRequest(request) => json!({"request_id": request.id, "response": response}),
                other => unexpected(other),
            })
            .await;
        assert_eq!(driven.dir.path().join("f").exists(), written);
        assert_eq!(told.text, if written { "on" } else { "" });
        assert!(told.types.contains(&"ApprovalResponse".to_owned()), "{:?}", told.types);
        driven.close().await;
    }
}

#[tokio::test]
async fn external_tool_is_called() {
    let mut driven = Driven::start(json!([[{"external_tool": {"name": "weather", "arguments": {"city": "Oslo"}}},
            {"text": "{{last.output}}"}]]))
    .await;
    let tool =
        |name: &str, parameters: Value| ExternalTool { name: name.to_owned(), description: String::new(), parameters };
    let tools = vec![
        tool("weather", json!({"type": "object"})),
        tool("Shell", json!({"type": "object"})),
        tool("bad", json!({"type": "string"})),
    ];
    let welcome = driven.initialize(InitializeParams::new("1.10").with_external_tools(tools)).await;
    let tools = welcome.external_tools.expect("some");
    assert_eq!(tools.accepted, ["weather"]);
    assert_eq!(tools.rejected.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["Shell", "bad"]);
    let told = driven
        .turn(|request| match request {
            Request::ToolCallRequest(request) => json!({"tool_call_id": request.id, "return_value":
                {"is_error": false, "output": request.arguments, "message": "", "display": []}}),
            other => unexpected(other),
        })
        .await;
    assert_eq!(told.text, r#"{"city":"Oslo"}"#);
    driven.close().await;
}

#[tokio::test]
async fn question_is_answered() {
    let mut driven =
        Driven::open(json!([[{"question": {"questions": [{"question": "Which?", "options": ["A", "B"]}]}},
        {"text": "{{last.answers.Which?}}"}]]))
        .await;
    let told = driven
        .turn(|request| match request {
            Request::QuestionRequest(request) => json!({"request_id": request.id, "answers": {"Which?": "B"}}),
            other => unexpected(other),
        })
        .await;
    assert_eq!(told.text, "B");
    driven.close().await;
}

#[tokio::test]
async fn steer() {
    let mut driven = Driven::open(json!([[{"text": "Working"}, {"wait_steer": true}, {"text": "{{steer}}"}]])).await;
    let id = driven.client.start_prompt("go").await.expect("a prompt");
    driven.until("ContentPart").await;
    driven.client.steer("left").await.expect("it can");
    let told = driven.rest(&id, unexpected).await;
    assert_eq!((told.types[0].as_str(), told.text.as_str()), ("SteerInput", "left"));
    driven.close().await;
}

#[tokio::test]
async fn plan_mode() {
    let mut driven = Driven::open(json!([])).await;
    assert!(driven.client.set_plan_mode(true).await.expect("it can").plan_mode);
    assert!(!driven.client.set_plan_mode(false).await.expect("it can").plan_mode);
    driven.close().await;
}

#[tokio::test]
async fn cancel_then_next_turn_works() {
    let mut driven = Driven::open(json!([[{"text": "Working"}, {"wait_cancel": true}], [{"text": "Next"}]])).await;
    assert!(matches!(driven.client.cancel().await, Err(WireError::RequestFailed { code: -32000, .. })));
    let id = driven.client.start_prompt("go").await.expect("a prompt");
    driven.until("ContentPart").await;
    driven.client.cancel().await.expect("it can");
    assert_eq!(driven.rest(&id, unexpected).await.result, json!({"status": "cancelled"}));
    assert_eq!(driven.turn(unexpected).await.text, "Next");
    driven.close().await;
}

#[tokio::test]
async fn hooks_errors_and_replay_work() {
    let mut driven =
        Driven::start(json!([[{"tool_call": {"name": "Shell"}}, {"error": {"code": -32003, "message": "down"}}]]))
            .await;
    let hook =
        WireHookSubscription { id: "h".to_owned(), event: "PreToolUse".to_owned(), matcher: None, timeout: Some(5) };
    let welcome = driven.initialize(InitializeParams::new("1.10").with_hooks(vec![hook])).await;
    assert_eq!(welcome.hooks.expect("some").configured["PreToolUse"], 1);
    let told = driven
        .turn(|request| match request {
            Request::HookRequest(request) => json!({"request_id": request.id, "action": "allow", "reason": ""}),
            other => unexpected(other),
        })
        .await;
    assert!(told.types.contains(&"HookResolved".to_owned()), "{:?}", told.types);
    assert_eq!(told.result, json!({"code": -32003}));
    let replay = driven.client.replay().await.expect("it can");
    assert_eq!((replay.events > 3, replay.requests), (true, 1));
    driven.close().await;
}

#[tokio::test]
async fn wire_1_0_is_detected_by_refusal() {
    let mut driven = Driven::start(json!({"wire": "1.0", "turns": [[{"text": "Hi"}]]})).await;
    // It calls what has no handshake "legacy"; what was there before 1.0 it does not speak.
    assert_eq!(driven.initialize(InitializeParams::new("1.10")).await.server.name, "unknown");
    assert_eq!(driven.turn(unexpected).await.text, "Hi");
    driven.close().await;
}
