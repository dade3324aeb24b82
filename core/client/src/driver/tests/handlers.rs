//! The program's handlers: each ends as an answer.

use std::sync::{Arc, Mutex};

use super::*;
use crate::messages::{ApprovalRequest, QuestionRequest};
use crate::{Answers, Approval, ExternalTool, Hook, HookDecision, OnError};

fn tool<F, R>(handler: F) -> ExternalTool
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, crate::HandlerError>> + Send + 'static,
{
    ExternalTool::new("add", "Adds", json!({"type": "object"}), handler)
}

async fn call_tool(agent: &mut Agent, id: &str, arguments: &str) -> Value {
    agent.request(id, "ToolCallRequest", json!({"id": id, "name": "add", "arguments": arguments})).await;
    agent.read().await["result"]["return_value"].clone()
}

/// The failures in the remaining events of a turn, as (handler, message).
async fn failures(turn: &mut Turn) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    while let Some(event) = turn.next().await {
        if let Event::HandlerFailed(failed) = event.expect("an event") {
            seen.push((failed.handler.to_string(), failed.message));
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn handler_panic_gives_default_answer() {
    fn boom<T>() -> T {
        panic!("boom")
    }
    let options = SessionOptions::new()
        .on_approval(|_| async { boom() })
        // In the function itself, before there is a future.
        .on_question(|_: QuestionRequest| boom::<std::future::Ready<_>>())
        .tool(tool(|_| async { std::panic::panic_any(7) }))
        .hook(Hook::new("PreToolUse", |_| async { boom() }).on_error(OnError::Block));
    let (_session, mut agent, mut turn) = in_turn(options).await;
    agent.ask_approval("a").await;
    assert_eq!(agent.read().await["result"], json!({"request_id": "a", "response": "reject"}));
    agent.request("q", "QuestionRequest", json!({"id": "q", "tool_call_id": "t", "questions": []})).await;
    assert_eq!(agent.read().await["result"], json!({"request_id": "q", "answers": {}}));
    let value = call_tool(&mut agent, "t", "{}").await;
    assert_eq!(
        (&value["is_error"], &value["message"]),
        (&json!(true), &json!("the handler panicked: without a message"))
    );
    agent.request("h", "HookRequest", json!({"id": "h", "subscription_id": "hook-1", "event": "PreToolUse"})).await;
    assert_eq!(agent.read().await["result"]["action"], "block");
    agent.finish().await;
    let told = failures(&mut turn).await;
    let kinds: Vec<_> = told.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["approval", "question", "tool", "hook"]);
    assert!(told[0].1.contains("boom") && told[1].1.contains("boom"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn handler_errors_reach_model_and_program() {
    let options = SessionOptions::new()
        .on_approval(|_| async { Err("no idea".into()) })
        .tool(tool(|args| async move { args["a"].as_str().map(str::to_owned).ok_or_else(|| "no a".into()) }));
    let (_session, mut agent, mut turn) = in_turn(options).await;
    agent.ask_approval("a").await;
    assert_eq!(agent.read().await["result"]["response"], "reject");
    assert_eq!(call_tool(&mut agent, "t1", "{}").await["message"], "no a");
    assert_eq!(call_tool(&mut agent, "t2", r#"{"a":"b"}"#).await["output"], "b");
    assert_eq!(call_tool(&mut agent, "t3", "").await["message"], "no a");
    let message = call_tool(&mut agent, "t4", "{").await["message"].clone();
    assert!(message.as_str().is_some_and(|text| text.starts_with("the arguments are not valid JSON")), "{message}");
    agent.finish().await;
    let told: Vec<_> = failures(&mut turn).await.into_iter().map(|(_, message)| message).collect();
    assert_eq!(told[..3], ["no idea", "no a", "no a"]);
    assert_eq!(told.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn handler_over_its_timeout_fails() {
    let options = SessionOptions::new()
        .tool(tool(|_| std::future::pending()).timeout(5 * SECOND))
        .hook(Hook::new("PreToolUse", |_| std::future::pending()).timeout(3 * SECOND).on_error(OnError::Block))
        .hook(Hook::new("PreToolUse", |_| std::future::pending()));
    let (_session, mut agent, turn) = in_turn(options).await;
    let before = Instant::now();
    let value = call_tool(&mut agent, "t", "{}").await;
    assert!(value["message"].as_str().is_some_and(|text| text.contains("5s")), "{value}");
    for (hook, action) in [("hook-1", "block"), ("hook-2", "allow")] {
        agent.request("h", "HookRequest", json!({"id": "h", "subscription_id": hook, "event": "PreToolUse"})).await;
        assert_eq!(agent.read().await["result"]["action"], action);
    }
    assert_eq!(Instant::now() - before, 38 * SECOND);
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn end_of_turn_stops_its_handlers() {
    stopped_at_the_end(SessionOptions::new()).await;
}

/// Sees that the function that answers an approval is stopped at the end of its turn.
pub(super) async fn stopped_at_the_end(options: SessionOptions) {
    let (gone, was_gone) = Dropped::new();
    let gone = Arc::new(Mutex::new(Some(gone)));
    let options = options.on_approval(move |_: ApprovalRequest| {
        let gone = gone.lock().unwrap().take();
        async move {
            std::future::pending::<()>().await;
            drop(gone);
            Ok(Approval::Approve)
        }
    });
    let (_session, mut agent, mut turn) = in_turn(options).await;
    agent.ask_approval("a").await;
    idle().await;
    agent.finish().await;
    turn.result().await.expect("an outcome");
    was_gone.await.expect("the handler is stopped");
}

#[tokio::test(start_paused = true)]
async fn slow_handler_blocks_nothing_else() {
    let first = Arc::new(tokio::sync::Notify::new());
    let wait = Arc::clone(&first);
    let options = SessionOptions::new()
        .on_approval(move |_| {
            let wait = Arc::clone(&wait);
            async move {
                wait.notified().await;
                Ok(Approval::ApproveForSession)
            }
        })
        .tool(tool(|_| async { Ok("3".to_owned()) }));
    let (_session, mut agent, mut turn) = in_turn(options).await;
    agent.ask_approval("a").await;
    assert_eq!(call_tool(&mut agent, "t", "{}").await["output"], "3");
    agent.text("meanwhile").await;
    while turn.next().await.expect("an event").expect("fine").text().is_none() {}
    first.notify_one();
    assert_eq!(agent.read().await["result"]["response"], "approve_for_session");
}

#[tokio::test(start_paused = true)]
async fn failed_on_event_continues_and_is_reported() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let options = SessionOptions::new().on_event(move |event| {
        record.lock().unwrap().push(event.type_name().to_owned());
        assert_ne!(event.type_name(), "CompactionBegin", "on purpose");
    });
    let (session, mut agent) = open(options).await;
    agent.event("CompactionBegin", json!({})).await;
    agent.event("CompactionEnd", json!({})).await;
    idle().await;
    assert_eq!(*seen.lock().unwrap(), ["CompactionBegin", "CompactionEnd"]);
    agent.event("CompactionBegin", json!({})).await;
    let mut turn = session.prompt("hi").expect("a turn");
    agent.expect("prompt").await;
    idle().await;
    agent.finish().await;
    let told = failures(&mut turn).await;
    assert!(told.is_empty() || told.iter().all(|(kind, _)| kind == "event"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn manual_requests_wait_for_respond() {
    let options = SessionOptions::new().on_approval_manual().on_question_manual();
    let (session, mut agent, mut turn) = in_turn(options).await;
    agent.ask_approval("a").await;
    let Some(Ok(Event::ApprovalRequest(request))) = turn.next().await else { panic!("no request") };
    tokio::time::sleep(3600 * SECOND).await;
    let error = turn.respond_question(&QuestionRequest { id: "a".into(), ..question() }, None).await.unwrap_err();
    assert_eq!(error.code(), "invalid_option");
    turn.respond(&request, Approval::Approve).await.expect("answered");
    session.respond(&request, Approval::Approve).await.expect("late");
    assert_eq!(agent.read().await["result"]["response"], "approve");
    let questions = json!([{"question": "Which?", "options": [{"label": "A"}]}]);
    agent.request("q", "QuestionRequest", json!({"id": "q", "tool_call_id": "t", "questions": questions})).await;
    let Some(Ok(Event::QuestionRequest(request))) = turn.next().await else { panic!("no request") };
    turn.respond_question(&request, Some(Answers::new().answer("Which?", "A"))).await.expect("answered");
    assert_eq!(agent.read().await["result"]["answers"], json!({"Which?": "A"}));
    let error = turn.respond_question(&question(), None).await.unwrap_err();
    assert_eq!(error.code(), "invalid_option");
}

async fn asked(turn: &mut Turn) -> ApprovalRequest {
    let Some(Ok(Event::ApprovalRequest(request))) = turn.next().await else { panic!("no request") };
    request
}

#[tokio::test(start_paused = true)]
async fn answer_to_foreign_request_is_refused() {
    let (first, mut agent, mut turn) = in_turn(SessionOptions::new().on_approval_manual()).await;
    let (second, mut other_agent, mut other) = in_turn(SessionOptions::new().on_approval_manual()).await;
    agent.ask_approval("same").await;
    other_agent.ask_approval("same").await;
    let (request, others) = (asked(&mut turn).await, asked(&mut other).await);
    // The binding is invisible.
    assert_eq!((&request, format!("{request:?}")), (&others, format!("{others:?}")));
    assert!(request.extra.is_empty());
    for error in [
        other.respond(&request, Approval::Approve).await.unwrap_err(),
        second.respond(&request, Approval::Approve).await.unwrap_err(),
        other.respond(&request.clone(), Approval::Approve).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), "invalid_option");
        assert!(error.to_string().contains("`same` is a request of another session"), "{error}");
    }
    // Nothing was sent: the first answer to come is the one of its own session.
    other.respond(&others, Approval::reject("no")).await.expect("answered");
    assert_eq!(other_agent.read().await["result"]["response"], "reject");
    first.respond(&request, Approval::Approve).await.expect("answered");
    assert_eq!(agent.read().await["result"]["response"], "approve");
}

#[tokio::test(start_paused = true)]
async fn deserialized_request_is_answered_by_id() {
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new().on_approval_manual()).await;
    agent.ask_approval("a").await;
    let request = asked(&mut turn).await;
    let copy: ApprovalRequest =
        serde_json::from_str(&serde_json::to_string(&request).expect("JSON")).expect("a request");
    turn.respond(&copy, Approval::Approve).await.expect("answered");
    assert_eq!(agent.read().await["result"]["response"], "approve");
}

#[tokio::test(start_paused = true)]
async fn late_answer_does_not_reach_later_request() {
    let (session, mut agent, mut turn) = in_turn(SessionOptions::new().on_approval_manual()).await;
    agent.ask_approval("a").await;
    let old = asked(&mut turn).await;
    agent.event("ApprovalResponse", json!({"request_id": "a", "response": "reject"})).await;
    agent.finish().await;
    drop(rest(&mut turn).await);
    let mut turn = session.prompt("again").expect("a turn");
    agent.expect("prompt").await;
    agent.ask_approval("a").await;
    let new = asked(&mut turn).await;
    let error = turn.respond(&old, Approval::Approve).await.unwrap_err();
    assert_eq!(error.code(), "invalid_option");
    turn.respond(&new, Approval::reject("no")).await.expect("answered");
    assert_eq!(agent.read().await["result"]["response"], "reject");
}

#[tokio::test(start_paused = true)]
async fn ambiguous_request_id_is_refused() {
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new().on_question_manual()).await;
    let question = json!({"question": "Which?", "options": []});
    let payload = json!({"id": "q", "tool_call_id": "t", "questions": [question]});
    agent.request("1", "QuestionRequest", payload.clone()).await;
    agent.request("2", "QuestionRequest", payload).await;
    let mut requests = Vec::new();
    while requests.len() < 2 {
        if let Some(Ok(Event::QuestionRequest(request))) = turn.next().await {
            requests.push(request);
        }
    }
    let copy: QuestionRequest = serde_json::from_value(json!(requests[0])).expect("a request");
    let error = turn.respond_question(&copy, None).await.unwrap_err();
    assert!(error.to_string().contains("several requests with the id `q`"), "{error}");
    for (request, answer) in [(&requests[1], "second"), (&requests[0], "first")] {
        turn.respond_question(request, Some(Answers::new().answer("Which?", answer))).await.expect("answered");
        assert_eq!(agent.read().await["result"]["answers"]["Which?"], answer);
    }
}

fn question() -> QuestionRequest {
    serde_json::from_value(json!({"id": "nobody", "tool_call_id": "t", "questions": []})).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn manual_requests_are_rejected_during_result() {
    let (_session, mut agent, mut turn) = in_turn(SessionOptions::new().on_approval_manual()).await;
    // One is unread when `result` begins to wait, one comes after.
    agent.ask_approval("a").await;
    idle().await;
    let agent = tokio::spawn(async move {
        assert_eq!(agent.read().await["result"], json!({"request_id": "a", "response": "reject"}));
        agent.ask_approval("b").await;
        assert_eq!(agent.read().await["result"], json!({"request_id": "b", "response": "reject"}));
        agent.finish().await;
        agent
    });
    let before = Instant::now();
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
    // Each might have been read within a second.
    assert_eq!(Instant::now() - before, 2 * SECOND);
    assert_eq!(rest(&mut turn).await, ["ApprovalRequest", "ApprovalRequest", "TurnEnd"]);
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn manual_request_over_buffer_is_rejected() {
    let options = SessionOptions::new().on_approval_manual().event_buffer_bytes(1024);
    let (_session, mut agent, mut turn) = in_turn(options).await;
    let agent = tokio::spawn(async move {
        for _ in 0..100 {
            agent.text("some words").await;
        }
        agent.ask_approval("a").await;
        assert_eq!(agent.read().await["result"], json!({"request_id": "a", "response": "reject"}));
        agent.finish().await;
        agent
    });
    let before = Instant::now();
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "finished");
    assert_eq!(Instant::now(), before);
    agent.await.expect("an agent");
}

#[tokio::test(start_paused = true)]
async fn handler_can_close_its_own_session() {
    let slot: Arc<Mutex<Option<Arc<Session>>>> = Arc::default();
    let its = Arc::clone(&slot);
    let options = SessionOptions::new().on_approval(move |_| {
        let session = its.lock().unwrap().clone();
        async move {
            session.expect("a session").close().await?;
            Ok(Approval::Approve)
        }
    });
    let (session, mut agent, mut turn) = in_turn(options).await;
    *slot.lock().unwrap() = Some(Arc::new(session));
    agent.ask_approval("a").await;
    tokio::spawn(agent.obey());
    assert_eq!(turn.result().await.expect("an outcome").status.as_str(), "cancelled");
    let session = slot.lock().unwrap().take().expect("a session");
    session.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn hook_decision_is_sent() {
    let options = SessionOptions::new().hook(Hook::new("PreToolUse", |request| async move {
        Ok(match request.target.as_deref() {
            Some("Shell") => HookDecision::Block("no shell".into()),
            _ => HookDecision::Allow,
        })
    }));
    let (_session, mut agent, _turn) = in_turn(options).await;
    for (target, action) in [("Shell", "block"), ("ReadFile", "allow")] {
        let payload = json!({"id": "h", "subscription_id": "hook-1", "event": "PreToolUse", "target": target});
        agent.request("h", "HookRequest", payload).await;
        assert_eq!(agent.read().await["result"]["action"], action);
    }
}

/// A session whose approval handler notes that it was started.
async fn noting() -> (Session, Agent, Turn, Arc<Mutex<u32>>) {
    let started = Arc::new(Mutex::new(0));
    let noted = Arc::clone(&started);
    let options = SessionOptions::new().on_approval(move |_| {
        *noted.lock().unwrap() += 1;
        std::future::ready(Ok(Approval::Approve))
    });
    let (session, agent, turn) = in_turn(options).await;
    (session, agent, turn, started)
}

#[tokio::test(start_paused = true)]
async fn handler_starts_after_earlier_events_are_read() {
    let (_session, mut agent, mut turn, started) = noting().await;
    agent.text("a").await;
    assert!(turn.next().await.is_some());
    agent.text("b").await;
    agent.text("c").await;
    agent.ask_approval("r").await;
    idle().await;
    assert_eq!(*started.lock().unwrap(), 0, "two texts are unread");
    assert!(turn.next().await.is_some());
    idle().await;
    assert_eq!(*started.lock().unwrap(), 0, "one text is unread");
    assert!(turn.next().await.is_some());
    assert_eq!(agent.read().await["result"]["response"], "approve", "the request itself is unread");
}

#[tokio::test(start_paused = true)]
async fn handler_starts_immediately_if_reader_waits() {
    let (_session, mut agent, mut turn, started) = noting().await;
    agent.text("a").await;
    assert!(turn.next().await.is_some());
    let reading = tokio::spawn(async move {
        assert_eq!(turn.next().await.unwrap().unwrap().type_name(), "ApprovalRequest");
        turn
    });
    idle().await;
    let before = tokio::time::Instant::now();
    agent.ask_approval("r").await;
    assert_eq!(agent.read().await["result"]["response"], "approve");
    assert_eq!((*started.lock().unwrap(), before.elapsed()), (1, Duration::ZERO));
    drop(reading.await);
}

#[tokio::test(start_paused = true)]
async fn handler_starts_after_delay_without_reads() {
    let (_session, mut agent, mut turn, started) = noting().await;
    agent.text("a").await;
    assert!(turn.next().await.is_some());
    agent.text("b").await;
    agent.ask_approval("r").await;
    tokio::time::sleep(Duration::from_millis(999)).await;
    assert_eq!(*started.lock().unwrap(), 0);
    // The reader waits for something that the handler does.
    assert_eq!(agent.read().await["result"]["response"], "approve");
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn handler_of_unread_turn_starts_immediately() {
    let (_session, mut agent, turn, started) = noting().await;
    let before = tokio::time::Instant::now();
    agent.text("a").await;
    agent.ask_approval("r").await;
    assert_eq!(agent.read().await["result"]["response"], "approve");
    assert_eq!((*started.lock().unwrap(), before.elapsed()), (1, Duration::ZERO));
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn handler_starts_immediately_when_reader_leaves() {
    let (_session, mut agent, mut turn, started) = noting().await;
    agent.text("a").await;
    assert!(turn.next().await.is_some());
    agent.text("b").await;
    agent.ask_approval("r").await;
    idle().await;
    assert_eq!(*started.lock().unwrap(), 0);
    let before = tokio::time::Instant::now();
    let result = tokio::spawn(async move { turn.result().await });
    assert_eq!(agent.read().await["result"]["response"], "approve");
    assert_eq!(before.elapsed(), Duration::ZERO);
    agent.finish().await;
    assert!(result.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn cancel_prevents_start_of_waiting_handler() {
    let (_session, mut agent, mut turn, started) = noting().await;
    agent.text("a").await;
    assert!(turn.next().await.is_some());
    agent.text("b").await;
    agent.ask_approval("r").await;
    idle().await;
    let cancelling = tokio::spawn(async move { turn.cancel().await });
    agent.expect("cancel").await;
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(*started.lock().unwrap(), 0);
    cancelling.abort();
}
