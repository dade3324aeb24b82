use std::sync::{Arc, Mutex};

use kimi_agent::wire::{ApprovalRequest, ContentPart, ToolCallInfo, ToolReturnValue};
use kimi_agent::{Answers, Approval, AsJson, ExternalTool, HandlerError, Hook, HookDecision};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

/// A script that asks for approval to write `out`, and says what was answered.
fn asks() -> Value {
    let call = json!({"name": "WriteFile", "approve": {"action": "edit", "description": "Write out"},
        "effect": {"write_file": "out", "content": "written"}});
    json!([[{"tool_call": call}, {"text": "{{last.response}} {{last.feedback}}"}]])
}

/// Runs the turn. Returns its final text, and whether the file exists.
async fn ask(options: impl FnOnce(SessionOptions) -> SessionOptions) -> (String, bool) {
    let dir = tempfile::tempdir().unwrap();
    let (base, _agent) = with(asks());
    let session = options(base.work_dir(dir.path())).start().await.unwrap();
    let text = session.prompt("go").unwrap().result().await.unwrap().text;
    session.close().await.unwrap();
    (text.trim().to_owned(), dir.path().join("out").exists())
}

#[tokio::test]
async fn approval_answers_reach_agent() {
    assert_eq!(ask(|options| options).await, (String::new(), false));
    let answered = |approval: Approval| {
        move |options: SessionOptions| {
            options.on_approval(move |request| {
                assert_eq!((request.action.as_str(), request.description.as_str()), ("edit", "Write out"));
                let approval = approval.clone();
                async move { Ok(approval) }
            })
        }
    };
    assert_eq!(ask(answered(Approval::Approve)).await, ("approve".into(), true));
    assert_eq!(ask(answered(Approval::ApproveForSession)).await, ("approve_for_session".into(), true));
    assert_eq!(ask(answered(Approval::Reject { feedback: None })).await, (String::new(), false));
    assert_eq!(ask(answered(Approval::reject("later"))).await, ("reject later".into(), false));
    let (_, written) = ask(|options| options.yolo(true)).await;
    assert!(written);
    // With yolo no handler is called.
    let (_, written) = ask(|options| options.yolo(true).on_approval(|_| async { Ok(Approval::reject("no")) })).await;
    assert!(written);
}

#[tokio::test]
async fn failed_handler_rejects_and_streams_event() {
    let (options, _agent) = with(asks());
    let session = options.on_approval(|_| async { Err("no idea".into()) }).start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    let Event::HandlerFailed(failed) = until(&mut turn, "HandlerFailed").await else { panic!("another") };
    assert_eq!((failed.handler.as_str(), failed.message.as_str()), ("approval", "no idea"));
    assert_eq!(turn.result().await.unwrap().status.as_str(), "finished");
}

#[tokio::test]
async fn reader_can_answer_manually() {
    let dir = tempfile::tempdir().unwrap();
    let (options, _agent) = with(asks());
    let session = options.work_dir(dir.path()).on_approval_manual().start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    let Event::ApprovalRequest(request) = until(&mut turn, "ApprovalRequest").await else { panic!("another") };
    let mut other = request.clone();
    other.id = "nobody".into();
    assert_eq!(turn.respond(&other, Approval::Approve).await.unwrap_err().code(), "invalid_option");
    turn.respond(&request, Approval::Approve).await.unwrap();
    until(&mut turn, "ApprovalResponse").await;
    // Late is fine; another's is not.
    turn.respond(&request, Approval::Approve).await.unwrap();
    assert_eq!(turn.respond(&other, Approval::Approve).await.unwrap_err().code(), "invalid_option");
    assert_eq!(turn.result().await.unwrap().text, "approve ");
    assert!(dir.path().join("out").exists());
}

#[tokio::test]
async fn cancel_during_manual_approval_settles() {
    let (options, _agent) = with(asks());
    let session = options.on_approval_manual().start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    let Event::ApprovalRequest(request) = until(&mut turn, "ApprovalRequest").await else { panic!("another") };
    turn.cancel().await.unwrap();
    assert_eq!(turn.result().await.unwrap().status.as_str(), "cancelled");
    turn.respond(&request, Approval::Approve).await.unwrap();
}

#[tokio::test]
async fn questions_are_answered_or_dismissed() {
    let script = json!([[
        {"question": {"questions": [{"question": "Which?", "options": ["A", {"label": "B", "description": "b"}]}]}},
        {"text": "{{last.answers}}"},
    ]]);
    for (answers, text) in
        [(Some(Answers::new().answer_all("Which?", ["A", "B"])), r#"{"Which?":"A,B"}"#), (None, "{}")]
    {
        let (options, _agent) = with(script.clone());
        let options = options.on_question(move |request| {
            assert_eq!(request.questions[0].options[1].description.as_deref(), Some("b"));
            let answers = answers.clone();
            async move { Ok(answers) }
        });
        let session = options.start().await.unwrap();
        assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, text);
    }
    let (options, _agent) = with(script);
    let session = options.on_question_manual().start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    let Event::QuestionRequest(request) = until(&mut turn, "QuestionRequest").await else { panic!("another") };
    turn.respond_question(&request, Some(Answers::new().answer("Which?", "B"))).await.unwrap();
    assert_eq!(turn.result().await.unwrap().text, r#"{"Which?":"B"}"#);
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Order {
    /// The thing to buy.
    item: String,
    #[serde(default)]
    count: u32,
}

#[derive(Serialize)]
struct Receipt {
    total: u32,
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"external_tool": {"name": name, "arguments": arguments}})
}

#[tokio::test]
async fn typed_tools_convert_arguments_and_results() {
    let script = json!([
        [call("buy", json!({"item": "tea", "count": 2})), {"text": "{{last.output}}"}],
        [call("buy", json!({"count": "two"})), {"text": "{{last.is_error}} {{last.message}}"}],
        [call("say", json!({"a": 1})), {"text": "{{last.output}}"}],
        [call("fail", json!({})), {"text": "{{last.is_error}} {{last.message}}"}],
        [call("show", json!({})), {"text": "{{last.message}}"}],
        [call("nobody", json!({})), {"text": "goes on"}],
    ]);
    let (options, _agent) = with(script);
    let object = || json!({"type": "object"});
    let session = options
        .tool(ExternalTool::typed("buy", "Buys", |order: Order| async move {
            assert_eq!(order.item, "tea");
            Ok(AsJson(Receipt { total: order.count * 3 }))
        }))
        .tool(ExternalTool::new("say", "Says", object(), |args| async move { Ok(format!("got {args}")) }))
        .tool(ExternalTool::new("fail", "Fails", object(), |_| async { Err::<(), _>("out of tea".into()) }))
        .tool(ExternalTool::new("show", "Shows", object(), |_| async {
            Ok(ToolReturnValue { message: "a note".into(), ..ToolReturnValue::ok(vec![ContentPart::text("shown")]) })
        }))
        .start()
        .await
        .unwrap();
    assert_eq!(session.external_tools().accepted, ["buy", "say", "fail", "show"]);
    let expected = [
        r#"{"total":6}"#,
        "true invalid arguments: missing properties 'item'; count: want integer, but got string",
        r#"got {"a":1}"#,
        "true out of tea",
        "a note",
        "goes on",
    ];
    for text in expected {
        assert_eq!(session.prompt("go").unwrap().result().await.unwrap().text, text);
    }
}

#[tokio::test]
async fn handlers_are_tested_with_requests_of_their_own() {
    async fn decide(request: ApprovalRequest) -> Result<Approval, HandlerError> {
        let command = request.tool_call.get().and_then(|call| call.arguments.as_ref()?.get("command")?.as_str());
        Ok(if command == Some("ls") { Approval::Approve } else { Approval::reject(request.description) })
    }
    let mut request = ApprovalRequest::new("Shell", "run command", "Run `ls`");
    assert_eq!(decide(request.clone()).await.unwrap(), Approval::reject("Run `ls`"));
    request.tool_call = ToolCallInfo::new("Shell", json!({"command": "ls"})).into();
    assert_eq!(decide(request).await.unwrap(), Approval::Approve);
}

#[tokio::test]
async fn refused_tool_is_reported_with_reason() {
    let (options, _agent) = with(json!([]));
    let object = json!({"type": "object"});
    let session = options
        .tool(ExternalTool::new("Shell", "Taken", object.clone(), |_| async { Ok("") }))
        .tool(ExternalTool::new("mine", "Free", object, |_| async { Ok("") }))
        .start()
        .await
        .unwrap();
    let tools = session.external_tools();
    assert_eq!(tools.accepted, ["mine"]);
    assert_eq!(tools.rejected[0].name, "Shell");
    assert!(tools.rejected[0].reason.contains("builtin"), "{}", tools.rejected[0].reason);
}

#[tokio::test]
async fn hooks_allow_and_block() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str| json!({"tool_call": {"name": name, "effect": {"write_file": name, "content": ""}}});
    let (options, _agent) = with(json!([[write("Shell"), write("WriteFile"), {"text": "done"}]]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let hook = Hook::new("PreToolUse", move |request| {
        let target = request.target.unwrap_or_default();
        record.lock().unwrap().push(target.clone());
        async move { Ok(if target == "Shell" { HookDecision::Block("no".into()) } else { HookDecision::Allow }) }
    });
    let never = Hook::new("PreToolUse", |_| async { Ok(HookDecision::Block("never".into())) }).matcher("^Nothing$");
    let session = options.work_dir(dir.path()).hook(hook).hook(never).start().await.unwrap();
    let mut turn = session.prompt("go").unwrap();
    let Event::HookResolved(resolved) = until(&mut turn, "HookResolved").await else { panic!("another") };
    assert_eq!(resolved.reason.as_deref(), Some("no"));
    turn.result().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["Shell", "WriteFile"]);
    assert!(!dir.path().join("Shell").exists() && dir.path().join("WriteFile").exists());
}

#[tokio::test]
async fn events_outside_turns_reach_on_event() {
    let (outside, mut events) = tokio::sync::mpsc::unbounded_channel();
    let notice = |id: &str| {
        json!({"event": {"type": "Notification", "payload": {"id": id, "category": "c", "type": "t", "source_kind": "s",
            "source_id": "i", "title": "", "body": "", "severity": "info", "created_at": 0}}})
    };
    let background = json!({"id": "bg", "tool_call_id": "t", "sender": "Task", "action": "run", "description": "d",
        "source_kind": "background_agent"});
    let (options, _agent) = with(json!([
        [{"text": "a"}, {"end": "finished"}, notice("1"), notice("2"), {"request": {"type": "ApprovalRequest",
            "payload": background}}, notice("{{last.response}}")],
    ]));
    let session = options.on_event(move |event| drop(outside.send(event))).on_approval_manual().start().await.unwrap();
    session.prompt("go").unwrap().result().await.unwrap();
    let mut ids = Vec::new();
    while ids.len() < 3 {
        match events.recv().await.unwrap() {
            Event::Notification(notification) => ids.push(notification.id),
            Event::ApprovalRequest(request) => session.respond(&request, Approval::Approve).await.unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ids, ["1", "2", "approve"]);
}

#[tokio::test]
async fn handler_waiting_for_own_turn_fails() {
    let (helper, _helpers_agent) = with(json!([[{"text": "inner"}]]));
    let helper = Arc::new(helper.start().await.unwrap());
    let turn = Arc::new(tokio::sync::Mutex::new(None::<Turn>));
    let (told, mut tries) = tokio::sync::mpsc::unbounded_channel();
    let (options, _agent) = with(asks());
    let handed = Arc::clone(&turn);
    let options = options.on_approval(move |_| {
        let (turn, helper, told) = (Arc::clone(&handed), Arc::clone(&helper), told.clone());
        async move {
            let mut turn = turn.lock_owned().await;
            let refused = turn.as_mut().unwrap().result().await.unwrap_err();
            // A turn of another session can be awaited, and so can this turn in a task that the handler does not await.
            let inner = helper.prompt("Help")?.result().await?.text;
            let later = tokio::spawn(async move { turn.as_mut().unwrap().result().await.map(|result| result.text) });
            told.send((refused, inner, later)).unwrap();
            Ok(Approval::Reject { feedback: Some("later".to_owned()) })
        }
    });
    let session = {
        let mut turn = turn.lock().await;
        let session = options.start().await.unwrap();
        *turn = Some(session.prompt("go").unwrap());
        session
    };
    let (refused, inner, later) = tries.recv().await.unwrap();
    assert_eq!(refused.code(), "turn_in_progress");
    assert!(refused.to_string().contains("the turn waits for this handler"), "{refused}");
    assert_eq!(inner, "inner");
    assert_eq!(later.await.unwrap().unwrap(), "reject later");
    session.close().await.unwrap();
}

#[tokio::test]
async fn on_stderr_receives_lines() {
    let (line, lines) = std::sync::mpsc::channel();
    let (options, _agent) = with(json!({"before_handshake": [{"stderr": "warming up"}], "turns": []}));
    let session = options.on_stderr(move |text| drop(line.send(text.to_owned()))).start().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(lines.recv().unwrap(), "warming up");
}

#[tokio::test]
async fn unknown_request_is_delivered_and_refused() {
    let (_session, mut turn) = running(json!([
        {"event": {"type": "FromTheFuture", "payload": {"anything": [1, 2]}}},
        {"request": {"type": "UnheardOf", "payload": {"a": 1}}, "id": "r1"},
        {"text": "{{last.error.code}}"},
        {"raw": "this is no JSON"}, {"raw": "null"}, {"raw": "[]"}, {"raw_base64": "/wo="},
        {"event": {"type": "PlanDisplay", "payload": {"content": 7}}, "verbatim": true},
        {"text": "!"},
    ]))
    .await;
    let Event::Unknown(event) = until(&mut turn, "FromTheFuture").await else { panic!("known") };
    assert_eq!(event.payload.get(), r#"{"anything":[1,2]}"#);
    until(&mut turn, "UnheardOf").await;
    let Event::Unknown(event) = until(&mut turn, "PlanDisplay").await else { panic!("readable") };
    assert!(event.error.unwrap().starts_with("content: "));
    assert_eq!(turn.result().await.unwrap().text, "-32601!");
}
