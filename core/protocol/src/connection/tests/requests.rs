use super::*;
use crate::Approval;
use crate::answers::{Answers, HookDecision, OnError};
use crate::dialect::Answer;
use crate::wire::ToolReturnValue;

const ALL: Who = Who::Handler;

fn handlers() -> Policy {
    let hooks = [("h1", OnError::Allow), ("h2", OnError::Block)];
    Policy {
        approval: ALL,
        question: ALL,
        tools: ["add".to_owned()].into(),
        hooks: hooks.map(|(id, on_error)| (id.to_owned(), (on_error, "PreToolUse".to_owned()))).into(),
        observed: true,
        ..Policy::default()
    }
}

fn by_hand() -> Policy {
    Policy { approval: Who::Manual, question: Who::Manual, ..handlers() }
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

fn in_turn(policy: Policy) -> Peer {
    let mut peer = Peer::open_with(timing(), policy);
    peer.prompt(1);
    peer.said();
    peer
}

#[test]
fn where_nobody_is_to_answer_the_safe_answer_is_given_at_once() {
    let mut peer = in_turn(Policy::default());
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
fn yolo_approves_and_asks_nobody() {
    let mut peer = in_turn(Policy { approval: Who::Yolo, ..Policy::default() });
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.request("r2", "QuestionRequest", &question("q1"));
    assert_eq!(
        peer.said(),
        [r#""r1" {"request_id":"a1","response":"approve"}"#, r#""r2" {"request_id":"q1","answers":{}}"#]
    );
}

#[test]
fn functions_are_asked_and_their_answers_sent_once() {
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
fn feedback_goes_only_to_agents_that_know_it() {
    let mut peer = Peer::open_at("1.5", timing(), handlers());
    peer.request("r", "ApprovalRequest", &approval("a"));
    let key = peer.asked();
    peer.said();
    peer.connection.answer(key, &Answer::Approval(Approval::reject("why")), peer.now);
    assert_eq!(peer.said(), [r#""r" {"request_id":"a","response":"reject"}"#]);
}

#[test]
fn a_function_that_fails_gives_the_safe_answer_and_the_program_is_told() {
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
        let Some(Output::Event { scope: Scope::Turn(1, _), event, .. }) = peer.connection.poll_output() else {
            panic!("nothing was told of {kind}")
        };
        let Event::HandlerFailed(event) = *event else { panic!("something else was told of {kind}") };
        assert_eq!(event.handler.as_str(), handler);
        assert_eq!(event.name.as_deref(), name);
        assert_eq!((event.request_id.as_deref(), event.message.as_str()), (Some("x"), "boom"));
    }
}

#[test]
fn an_observer_that_fails_is_told_of_only_where_it_is_not_the_listener() {
    let mut peer = Peer::open_with(timing(), handlers());
    peer.connection.observer_failed(HandlerKind::Event, "boom".into());
    assert_eq!(peer.trace(), [""; 0]);
    peer.prompt(1);
    peer.connection.observer_failed(HandlerKind::Event, "boom".into());
    assert_eq!(peer.trace(), ["1.0 HandlerFailed"]);
}

#[test]
fn what_cannot_be_understood_is_refused_and_delivered() {
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
fn ids_may_repeat_and_each_request_gets_its_own_answer() {
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
fn a_sibling_that_is_resolved_need_not_be_answered() {
    let mut peer = in_turn(handlers());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    let asked = peer.asked();
    // Another kind of request may have the very id.
    peer.request("r2", "ToolCallRequest", &tool_call("a1", "add"));
    let tool = peer.asked();
    peer.event("ApprovalResponse", &json!({"request_id": "a1", "response": "approve_for_session"}));
    let withdrawn: Vec<_> = std::iter::from_fn(|| peer.connection.poll_output())
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
fn while_a_turn_is_cancelled_nobody_is_asked() {
    for policy in [handlers(), by_hand(), Policy { approval: Who::Yolo, ..handlers() }] {
        let mut peer = in_turn(policy);
        peer.cancel(1);
        peer.said();
        peer.request("r1", "ApprovalRequest", &approval("a1"));
        peer.request("r2", "ToolCallRequest", &tool_call("t1", "add"));
        assert_eq!(peer.trace(), ["1.0 ApprovalRequest", "1.0 ToolCallRequest"]);
        let said = peer.said();
        assert_eq!(said[0], r#""r1" {"request_id":"a1","response":"reject"}"#);
        assert!(said[1].contains("add: the turn was cancelled"), "{}", said[1]);
    }
}

#[test]
fn the_end_of_a_turn_withdraws_its_requests_but_not_those_from_the_background() {
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
fn requests_outside_turns_reach_functions_and_hands() {
    let mut peer = Peer::open_with(timing(), handlers());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    assert_eq!(peer.trace(), ["outside ApprovalRequest", "ask ApprovalRequest"]);
    let mut peer = Peer::open_with(timing(), by_hand());
    peer.said();
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    assert_eq!(peer.said(), [""; 0]);
    peer.connection.respond("a1", ManualAnswer::Approval(Approval::Approve), peer.now).expect("answered");
    assert_eq!(peer.said(), [r#""r1" {"request_id":"a1","response":"approve"}"#]);
    // Where nobody would see it, it is not left open.
    let mut peer = Peer::open_with(timing(), Policy { observed: false, ..by_hand() });
    peer.said();
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    assert_eq!(peer.said(), [r#""r1" {"request_id":"a1","response":"reject"}"#]);
}

#[test]
fn hands_answer_what_is_theirs_with_what_fits() {
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
    wrong("a1", ManualAnswer::Question(None), "`a1` asks for the answer to a approval");
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
    // So is one to a request that the turn's end has settled.
    peer.request("r4", "QuestionRequest", &question("q2"));
    peer.cancel(1);
    peer.said();
    peer.connection.respond("q2", ManualAnswer::Question(None), now).expect("late");
    assert_eq!(peer.said(), [""; 0]);
}

#[test]
fn a_request_by_hand_that_nobody_sees_gets_the_safe_answer() {
    let mut peer = in_turn(by_hand());
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.request("r2", "QuestionRequest", &question("q1"));
    peer.request("r3", "ToolCallRequest", &tool_call("t1", "add"));
    for id in ["a1", "q1", "t1", "nobody"] {
        peer.connection.unseen(id, peer.now);
    }
    assert_eq!(
        peer.said(),
        [r#""r1" {"request_id":"a1","response":"reject"}"#, r#""r2" {"request_id":"q1","answers":{}}"#]
    );
}

#[test]
fn more_requests_than_anybody_could_answer_get_the_safe_answer() {
    let mut peer = Peer::open_with(timing(), Policy { approval: Who::Handler, ..Policy::default() });
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
