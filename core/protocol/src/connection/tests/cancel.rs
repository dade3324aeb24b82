use super::*;

#[test]
fn cancelled_turn_ends_with_prompt_answer() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.cancel(1);
    assert_eq!(peer.connection.cancelling(), Some(1));
    assert_eq!(peer.said(), ["prompt", "cancel"]);
    peer.answer("cancel", &json!({}));
    peer.event(
        "ToolResult",
        &json!({"tool_call_id": "t", "return_value": {"is_error": true, "output": "", "message": ""}}),
    );
    peer.answer("prompt", &json!({"status": "cancelled"}));
    assert_eq!(peer.trace(), ["1.0 ToolResult", "1.0 TurnEnd", "turn 1 cancelled"]);
    assert_eq!((peer.connection.cancelling(), peer.connection.poll_timeout()), (None, None));
}

#[test]
fn turn_finishing_despite_cancel_is_finished() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.finish();
    peer.refuse("cancel", -32000);
    assert_eq!(peer.trace(), ["1.0 TurnEnd", "turn 1 finished"]);
}

#[test]
fn turn_finished_after_cancel_and_text_cancelled() {
    for (text, is_accepted, expected) in
        [("more", true, "turn 1 cancelled"), ("", true, "turn 1 finished"), ("more", false, "turn 1 finished")]
    {
        let mut peer = Peer::open();
        peer.prompt(1);
        peer.cancel(1);
        if is_accepted {
            peer.answer("cancel", &json!({}));
        }
        peer.event("ContentPart", &json!({"type": "text", "text": text}));
        peer.finish();
        assert_eq!(peer.trace().last().map(String::as_str), Some(expected), "{text:?} {is_accepted}");
    }
}

#[test]
fn prompt_unanswered_after_cancel_ends_cancelled() {
    let mut peer = Peer::open();
    peer.prompt(1);
    let old = peer.id_of("prompt");
    peer.cancel(1);
    peer.answer("cancel", &json!({}));
    peer.prompt(2);
    assert_eq!(peer.trace(), [""; 0]);
    peer.pass();
    assert_eq!(peer.trace(), ["1.0 TurnEnd", "turn 1 cancelled"]);
    assert_eq!(peer.said(), ["prompt", "cancel", "prompt"]);
    // Its late answer must not end the next turn.
    peer.line(&json!({"id": old, "result": {"status": "cancelled"}}));
    peer.event("TurnBegin", &json!({"user_input": "hi"}));
    assert_eq!(peer.trace(), ["2.0 TurnBegin"]);
    peer.finish();
    assert_eq!(peer.trace(), ["2.0 TurnEnd", "turn 2 finished"]);
}

#[test]
fn unanswered_cancel_ends_session_with_timeout() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.prompt(2);
    peer.event("StepBegin", &json!({"n": 1}));
    peer.pass();
    assert_eq!(peer.trace(), ["1.0 StepBegin", "fatal error timeout", "turn 1 timeout", "turn 2 timeout"]);
    peer.connection.handle_timeout(peer.now);
    peer.finish();
    assert_eq!(peer.trace(), [""; 0]);
    assert!(peer.connection.is_closed());
}

#[test]
fn refused_cancel_counts_as_unanswered() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.refuse("cancel", -32603);
    peer.pass();
    assert_eq!(peer.trace(), ["fatal error timeout", "turn 1 timeout"]);
}

#[test]
fn late_cancel_answer_does_not_affect_next() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    let old = peer.id_of("cancel");
    peer.finish();
    peer.prompt(2);
    peer.cancel(2);
    peer.trace();
    peer.line(&json!({"id": old, "result": {}}));
    peer.pass();
    assert_eq!(peer.trace(), ["fatal error timeout", "turn 2 timeout"]);
}

#[test]
fn prompt_waits_for_end_of_left_turn() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.prompt(2);
    peer.prompt(3);
    assert_eq!(peer.trace(), ["turn 3 turn_in_progress"]);
    // A queued prompt is cancelled without a message to the agent.
    peer.cancel(2);
    assert_eq!(peer.trace(), ["turn 2 cancelled"]);
    peer.prompt(4);
    assert_eq!(peer.said(), ["prompt", "cancel"]);
    peer.answer("prompt", &json!({"status": "cancelled"}));
    assert_eq!(peer.trace(), ["1.0 TurnEnd", "turn 1 cancelled"]);
    peer.finish();
    assert_eq!(peer.trace(), ["4.0 TurnEnd", "turn 4 finished"]);
}

#[test]
fn cancel_without_turn_does_nothing() {
    let mut peer = Peer::open();
    peer.cancel(1);
    peer.prompt(1);
    peer.cancel(2);
    peer.finish();
    peer.cancel(1);
    assert_eq!(peer.said(), ["prompt"]);
}

#[test]
fn abort_error_after_cancel_is_cancelled_turn() {
    for (code, message, ended) in [
        (-32603, "CancelledError()", "turn 1 cancelled"),
        (-32003, "Request was aborted", "turn 1 cancelled"),
        (-32003, "overloaded", "turn 1 llm_service_error"),
    ] {
        let mut peer = Peer::open();
        peer.prompt(1);
        peer.cancel(1);
        peer.answer("cancel", &json!({}));
        let id = peer.id_of("prompt");
        peer.line(&json!({"id": id, "error": {"code": code, "message": message}}));
        assert_eq!(peer.trace().last().map(String::as_str), Some(ended), "{message}");
    }
}
