use super::*;
use crate::Approval;
use crate::answers::{Answers, HookDecision, OnError};
use crate::dialect::Answer;
use crate::messages::ToolReturnValue;

const ALL: AnswerSource = AnswerSource::Handler;

fn handlers() -> AnswerSources {
    let hooks = [("h1", OnError::Allow), ("h2", OnError::Block)];
    AnswerSources {
        approval: ALL,
        question: ALL,
        tools: ["add".to_owned()].into(),
        hooks: hooks.map(|(id, on_error)| (id.to_owned(), (on_error, "PreToolUse".to_owned()))).into(),
        observed: true,
        ..AnswerSources::default()
    }
}

fn by_hand() -> AnswerSources {
    AnswerSources { approval: AnswerSource::Manual, question: AnswerSource::Manual, ..handlers() }
}

fn question(id: &str) -> Value {
    json!({"id": id, "tool_call_id": "tc", "questions": [{"question": "Which?", "options": [{"label": "A"}]}]})
}

fn tool_call(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name, "arguments": "{}"})
}

fn hook(id: &str, subscription: &str) -> Value {
    json!({"id": id, "subscription_id": subscription, "event": "PreToolUse", "target": "Shell", "input_data": {}})
}

fn in_turn(policy: AnswerSources) -> Peer {
    let mut peer = Peer::open_with(timing(), policy);
    peer.prompt(1);
    peer.said();
    peer
}

#[test]
fn request_without_handler_gets_default_answer() {
    let mut peer = in_turn(AnswerSources::default());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.request("r2", "QuestionRequest", &question("q1"));
    peer.request("r3", "ToolCallRequest", &tool_call("t1", "add"));
    peer.request("r4", "HookRequest", &hook("k1", "h1"));
    assert_eq!(
        peer.said(),
        [
            r#""r1" {"request_id":"a1","response":"reject"}"#,
            r#""r2" {"request_id":"q1","answers":{}}"#,
            r#""r3" {"tool_call_id":"t1","return_value":{"is_error":true,"output":"","message":"add: the program has no such tool","display":[]}}"#,
            r#""r4" {"request_id":"k1","action":"allow","reason":""}"#,
        ]
    );
    // They are in the stream all the same.
    assert_eq!(peer.trace(), ["1.0 ApprovalRequest", "1.0 QuestionRequest", "1.0 ToolCallRequest", "1.0 HookRequest"]);
}

#[test]
fn yolo_approves_without_handler() {
    let mut peer = in_turn(AnswerSources { approval: AnswerSource::Yolo, ..AnswerSources::default() });
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.request("r2", "QuestionRequest", &question("q1"));
    assert_eq!(
        peer.said(),
        [r#""r1" {"request_id":"a1","response":"approve"}"#, r#""r2" {"request_id":"q1","answers":{}}"#]
    );
}

#[test]
fn handler_answer_is_sent_once() {
    let cases = [
        (
            "ApprovalRequest",
            approval("x"),
            Answer::Approval(Approval::reject("not now")),
            r#""r" {"request_id":"x","response":"reject","feedback":"not now"}"#,
        ),
        (
            "ApprovalRequest",
            approval("x"),
            Answer::Approval(Approval::ApproveForSession),
            r#""r" {"request_id":"x","response":"approve_for_session"}"#,
        ),
        (
            "QuestionRequest",
            question("x"),
            Answer::Question(Some(Answers::new().answer_all("Which?", ["A", "B"]))),
            r#""r" {"request_id":"x","answers":{"Which?":"A,B"}}"#,
        ),
        (
            "ToolCallRequest",
            tool_call("x", "add"),
            Answer::Tool(ToolReturnValue::ok("3")),
            r#""r" {"tool_call_id":"x","return_value":{"is_error":false,"output":"3","message":"","display":[]}}"#,
        ),
        (
            "HookRequest",
            hook("x", "h1"),
            Answer::Hook(HookDecision::Block("no".into())),
            r#""r" {"request_id":"x","action":"block","reason":"no"}"#,
        ),
    ];
    for (kind, payload, answer, sent) in cases {
        let mut peer = in_turn(handlers());
        peer.request("r", kind, &payload);
        let key = peer.asked();
        assert_eq!(peer.said(), [""; 0], "{kind}");
        for _ in 0..2 {
            peer.connection.answer(key, &answer, peer.now);
        }
        peer.connection.handler_failed(key, "too late".into(), peer.now);
        assert_eq!(peer.said(), [sent]);
        assert_eq!(peer.trace(), [""; 0]);
    }
}

#[test]
fn feedback_is_omitted_for_older_version() {
    let mut peer = Peer::open_at("1.5", timing(), handlers());
    peer.request("r", "ApprovalRequest", &approval("a"));
    let key = peer.asked();
    peer.said();
    peer.connection.answer(key, &Answer::Approval(Approval::reject("why")), peer.now);
    assert_eq!(peer.said(), [r#""r" {"request_id":"a","response":"reject"}"#]);
}

#[test]
fn failed_handler_gives_default_answer_and_event() {
    let cases = [
        ("ApprovalRequest", approval("x"), r#"{"request_id":"x","response":"reject"}"#, "approval", None),
        ("QuestionRequest", question("x"), r#"{"request_id":"x","answers":{}}"#, "question", None),
        (
            "ToolCallRequest",
            tool_call("x", "add"),
            r#"{"tool_call_id":"x","return_value":{"is_error":true,"output":"","message":"boom","display":[]}}"#,
            "tool",
            Some("add"),
        ),
        (
            "HookRequest",
            hook("x", "h1"),
            r#"{"request_id":"x","action":"allow","reason":""}"#,
            "hook",
            Some("PreToolUse"),
        ),
        (
            "HookRequest",
            hook("x", "h2"),
            r#"{"request_id":"x","action":"block","reason":"the hook failed: boom"}"#,
            "hook",
            Some("PreToolUse"),
        ),
    ];
    for (kind, payload, sent, handler, name) in cases {
        let mut peer = in_turn(handlers());
        peer.request("r", kind, &payload);
        let key = peer.asked();
        peer.connection.handler_failed(key, "boom".into(), peer.now);
        peer.connection.answer(key, &Answer::Question(None), peer.now);
        assert_eq!(peer.said(), [format!("\"r\" {sent}")]);
        let Some(Output::Event { scope: Scope::Turn(1, _), event, .. }) = peer.next_output() else {
            panic!("nothing was told of {kind}")
        };
        let Event::HandlerFailed(event) = *event else { panic!("something else was told of {kind}") };
        assert_eq!(event.handler.as_str(), handler);
        assert_eq!(event.name.as_deref(), name);
        assert_eq!((event.request_id.as_deref(), event.message.as_str()), (Some("x"), "boom"));
    }
}

#[test]
fn failed_observer_is_reported_only_inside_turns() {
    let mut peer = Peer::open_with(timing(), handlers());
    peer.connection.observer_failed(HandlerKind::Event, "boom", "boom".into());
    assert_eq!(peer.trace(), [""; 0]);
    peer.prompt(1);
    peer.connection.observer_failed(HandlerKind::Event, "boom", "boom".into());
    assert_eq!(peer.trace(), ["1.0 HandlerFailed"]);
}

#[test]
fn unknown_request_is_refused_and_delivered() {
    let mut peer = in_turn(handlers());
    peer.request("r1", "MindReadRequest", &json!({"id": "m"}));
    peer.request("r2", "ApprovalRequest", &json!({"id": 7}));
    peer.request("r3", "ContentPart", &json!({"type": "text", "text": "hm"}));
    peer.line(&json!({"jsonrpc": "2.0", "id": 4, "method": "tea", "params": {"sugar": 2}}));
    peer.line(&json!({"jsonrpc": "2.0", "id": "r5", "method": "request", "params": 5}));
    assert_eq!(peer.said(), [r#""r1" -32601"#, r#""r2" -32602"#, r#""r3" -32601"#, "4 -32601", r#""r5" -32601"#]);
    assert_eq!(
        peer.trace(),
        ["1.0 MindReadRequest", "1.0 ApprovalRequest", "1.0 ContentPart", "1.0 tea", "1.0 request"]
    );
}

#[test]
fn requests_with_same_id_get_own_answers() {
    let mut peer = in_turn(handlers());
    peer.request("r1", "ToolCallRequest", &tool_call("t", "add"));
    let first = peer.asked();
    peer.request("r1", "ToolCallRequest", &tool_call("t", "add"));
    let second = peer.asked();
    assert_ne!(first, second);
    peer.connection.answer(second, &Answer::Tool(ToolReturnValue::ok("2")), peer.now);
    peer.connection.answer(first, &Answer::Tool(ToolReturnValue::ok("1")), peer.now);
    let said = peer.said();
    assert!(said[0].contains("\"2\"") && said[1].contains("\"1\"") && said.len() == 2, "{said:?}");
}

#[test]
fn resolved_sibling_request_needs_no_answer() {
    let mut peer = in_turn(handlers());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    let asked = peer.asked();
    // Another kind of request may have the very id.
    peer.request("r2", "ToolCallRequest", &tool_call("a1", "add"));
    let tool = peer.asked();
    peer.event("ApprovalResponse", &json!({"request_id": "a1", "response": "approve_for_session"}));
    let withdrawn: Vec<_> = std::iter::from_fn(|| peer.next_output())
        .filter_map(|output| match output {
            Output::Withdrawn(key) => Some(key),
            _ => None,
        })
        .collect();
    assert_eq!(withdrawn, [asked]);
    peer.connection.answer(asked, &Answer::Approval(Approval::Approve), peer.now);
    assert_eq!(peer.said(), [""; 0]);
    peer.connection.answer(tool, &Answer::Tool(ToolReturnValue::ok("3")), peer.now);
    assert_eq!(peer.said().len(), 1);
}

#[test]
fn request_during_cancel_is_rejected() {
    for policy in [handlers(), by_hand(), AnswerSources { approval: AnswerSource::Yolo, ..handlers() }] {
        let mut peer = in_turn(policy);
        peer.cancel(1);
        peer.said();
        peer.request("r1", "ApprovalRequest", &approval("a1"));
        peer.request("r2", "ToolCallRequest", &tool_call("t1", "add"));
        peer.request("r3", "HookRequest", &hook("k1", "h1"));
        peer.request("r4", "HookRequest", &hook("k2", "h2"));
        assert_eq!(peer.trace(), ["1.0 ApprovalRequest", "1.0 ToolCallRequest", "1.0 HookRequest", "1.0 HookRequest"]);
        let said = peer.said();
        assert_eq!(said[0], r#""r1" {"request_id":"a1","response":"reject"}"#);
        assert!(said[1].contains("add: the turn was cancelled"), "{}", said[1]);
        assert_eq!(said[2], r#""r3" {"request_id":"k1","action":"allow","reason":""}"#);
        assert_eq!(said[3], r#""r4" {"request_id":"k2","action":"block","reason":"the turn was cancelled"}"#);
    }
}

#[test]
fn end_of_turn_withdraws_only_its_requests() {
    let mut background = approval("a2");
    background["source_kind"] = json!("background_agent");
    for cancel in [true, false] {
        let mut peer = in_turn(handlers());
        peer.request("r1", "ApprovalRequest", &approval("a1"));
        let own = peer.asked();
        peer.request("r2", "ApprovalRequest", &background);
        let other = peer.asked();
        if cancel {
            peer.cancel(1)
        } else {
            peer.finish()
        }
        assert!(peer.trace().contains(&"withdrawn".to_owned()));
        peer.said();
        peer.connection.answer(own, &Answer::Approval(Approval::Approve), peer.now);
        assert_eq!(peer.said(), [""; 0]);
        peer.connection.answer(other, &Answer::Approval(Approval::Approve), peer.now);
        assert_eq!(peer.said(), [r#""r2" {"request_id":"a2","response":"approve"}"#]);
    }
}

#[test]
fn requests_outside_turns_can_be_answered() {
    let mut peer = Peer::open_with(timing(), handlers());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    assert_eq!(peer.trace(), ["outside ApprovalRequest", "ask ApprovalRequest"]);
    let mut peer = Peer::open_with(timing(), by_hand());
    peer.said();
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    assert_eq!(peer.said(), [""; 0]);
    peer.connection.respond("a1", ManualAnswer::Approval(Approval::Approve), peer.now).expect("answered");
    assert_eq!(peer.said(), [r#""r1" {"request_id":"a1","response":"approve"}"#]);
    // A request that no handler would get is not left open.
    let mut peer = Peer::open_with(timing(), AnswerSources { observed: false, ..by_hand() });
    peer.said();
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    assert_eq!(peer.said(), [r#""r1" {"request_id":"a1","response":"reject"}"#]);
}

#[test]
fn manual_answer_must_fit_its_request() {
    let mut peer = in_turn(by_hand());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.request("r2", "QuestionRequest", &question("q1"));
    peer.request("r3", "ToolCallRequest", &tool_call("t1", "add"));
    assert_eq!(
        peer.trace(),
        ["1.0 ApprovalRequest", "1.0 QuestionRequest", "1.0 ToolCallRequest", "ask ToolCallRequest"]
    );
    let now = peer.now;
    let mut wrong = |id: &str, answer: ManualAnswer, part: &str| {
        let error = peer.connection.respond(id, answer, now).unwrap_err();
        assert_eq!(error.code(), "invalid_option");
        assert!(error.to_string().contains(part), "{error}");
    };
    wrong("nobody", ManualAnswer::Approval(Approval::Approve), "no request `nobody`");
    wrong("t1", ManualAnswer::Approval(Approval::Approve), "answered by a handler of the session");
    wrong(
        "a1",
        ManualAnswer::Question(None),
        "`a1` is a request of the kind approval, and the answer is of another kind",
    );
    wrong("q1", ManualAnswer::Approval(Approval::Approve), "question");
    wrong("a1", ManualAnswer::Json(json!("maybe")), "\"maybe\"");
    wrong("q1", ManualAnswer::Json(json!(7)), "7");
    assert_eq!(peer.said(), [""; 0]);
    peer.connection.respond("a1", ManualAnswer::Json(json!({"reject": "no"})), now).expect("answered");
    peer.connection.respond("q1", ManualAnswer::Json(json!({"Which?": ["A", "B"]})), now).expect("answered");
    // Once more is late, and no mistake.
    peer.connection.respond("a1", ManualAnswer::Approval(Approval::Approve), now).expect("late");
    assert_eq!(
        peer.said(),
        [
            r#""r1" {"request_id":"a1","response":"reject","feedback":"no"}"#,
            r#""r2" {"request_id":"q1","answers":{"Which?":"A,B"}}"#,
        ]
    );
    // An answer to a request that the turn's end has settled is ignored, too.
    peer.request("r4", "QuestionRequest", &question("q2"));
    peer.cancel(1);
    peer.said();
    peer.connection.respond("q2", ManualAnswer::Question(None), now).expect("late");
    assert_eq!(peer.said(), [""; 0]);
}

#[test]
fn undelivered_manual_request_gets_default_answer() {
    let mut peer = in_turn(by_hand());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.request("r2", "QuestionRequest", &question("q1"));
    peer.request("r3", "ToolCallRequest", &tool_call("t1", "add"));
    for id in ["a1", "q1", "t1", "nobody"] {
        peer.connection.answer_undelivered(id, peer.now);
    }
    assert_eq!(
        peer.said(),
        [r#""r1" {"request_id":"a1","response":"reject"}"#, r#""r2" {"request_id":"q1","answers":{}}"#]
    );
}

#[test]
fn requests_over_limit_get_default_answer() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
    peer.prompt(1);
    peer.said();
    for n in 0..1500 {
        peer.request(&n.to_string(), "ApprovalRequest", &approval(&n.to_string()));
    }
    let trace = peer.trace();
    assert_eq!(trace.iter().filter(|line| line.starts_with("ask")).count(), 1024);
    assert_eq!(trace.iter().filter(|line| line.ends_with("HandlerFailed")).count(), 1500 - 1024);
    let said = peer.said();
    assert_eq!(said.len(), 1500 - 1024);
    assert!(said.iter().all(|answer| answer.contains(r#""response":"reject""#)));
}

#[test]
fn large_requests_over_limit_get_default_answer() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
    peer.prompt(1);
    peer.said();
    let mut large = approval("a");
    large["description"] = json!("d".repeat(10 << 20));
    for n in 0..5 {
        peer.request(&n.to_string(), "ApprovalRequest", &large);
    }
    let asked = |output| if let Output::Ask { key, .. } = output { Some(key) } else { None };
    let keys: Vec<_> = std::iter::from_fn(|| peer.next_output()).filter_map(asked).collect();
    assert_eq!(keys.len(), 3);
    let said = peer.said();
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|answer| answer.contains(r#""response":"reject""#)));
    // An answered request frees space for another.
    peer.connection.answer(keys[0], &Answer::Approval(Approval::Approve), peer.now);
    peer.trace();
    peer.request("6", "ApprovalRequest", &large);
    assert_eq!(peer.trace().iter().filter(|line| line.starts_with("ask")).count(), 1);
}

#[test]
fn requests_count_with_the_values_of_their_calls() {
    let sources = || AnswerSources {
        approval: AnswerSource::Handler,
        tools: ["search".to_owned()].into(),
        ..AnswerSources::default()
    };
    let values = |count: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(count));
    let mut peer = Peer::open_with(timing(), sources());
    peer.prompt(1);
    let function = json!({"name": "Shell", "arguments": values(60_000)});
    peer.event("ToolCall", &json!({"type": "function", "id": "tc", "function": function}));
    peer.trace();
    let mut about = approval("a");
    about["tool_call_id"] = json!("tc");
    for n in 0..20 {
        peer.request(&n.to_string(), "ApprovalRequest", &about);
    }
    let asked = |peer: &mut Peer| peer.trace().iter().filter(|line| line.starts_with("ask")).count();
    // Each takes 64 bytes for each value.
    assert_eq!(asked(&mut peer), 8);
    let mut peer = Peer::open_with(timing(), sources());
    peer.prompt(1);
    peer.trace();
    for n in 0..5 {
        let call = json!({"id": format!("t{n}"), "name": "search", "arguments": values(200_000)});
        peer.request(&n.to_string(), "ToolCallRequest", &call);
    }
    assert_eq!(asked(&mut peer), 2);
}

#[test]
fn request_with_long_id_is_refused() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
    peer.prompt(1);
    peer.said();
    let long = "r".repeat((128 << 10) + 1);
    peer.request(&long, "ApprovalRequest", &approval("a"));
    peer.request("r", "ApprovalRequest", &approval(&long));
    assert!(peer.trace().iter().all(|line| !line.starts_with("ask")));
    let said = peer.said();
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|line| line.ends_with(" -32602")), "{said:?}");
}
