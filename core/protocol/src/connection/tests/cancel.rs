use super::*;

#[test]
fn a_cancel_is_answered_then_the_prompt_is() {
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
    assert_eq!((peer.connection.cancelling(), peer.connection.next_deadline()), (None, None));
}

#[test]
fn a_turn_that_finishes_all_the_same_has_finished() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.finish();
    peer.refuse("cancel", -32000);
    assert_eq!(peer.trace(), ["1.0 TurnEnd", "turn 1 finished"]);
}

#[test]
fn an_agent_that_forgets_the_prompt_is_not_waited_for() {
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
fn an_agent_that_does_not_even_answer_the_cancel_is_given_up() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.prompt(2);
    peer.event("StepBegin", &json!({"n": 1}));
    peer.pass();
    assert_eq!(peer.trace(), ["1.0 StepBegin", "hopeless timeout", "turn 1 timeout", "turn 2 timeout"]);
    peer.connection.on_deadline(peer.now);
    peer.finish();
    assert_eq!(peer.trace(), [""; 0]);
    assert!(peer.connection.is_closed());
}

#[test]
fn a_refused_cancel_is_as_bad_as_none() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.refuse("cancel", -32603);
    peer.pass();
    assert_eq!(peer.trace(), ["hopeless timeout", "turn 1 timeout"]);
}

#[test]
fn a_late_answer_to_an_old_cancel_says_nothing_of_the_next() {
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
    assert_eq!(peer.trace(), ["hopeless timeout", "turn 2 timeout"]);
}

#[test]
fn a_prompt_waits_for_the_end_of_the_one_that_is_left() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.cancel(1);
    peer.prompt(2);
    peer.prompt(3);
    assert_eq!(peer.trace(), ["turn 3 turn_in_progress"]);
    // One that waits can be cancelled without a word to the agent.
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
fn nothing_is_cancelled_that_is_not_there() {
    let mut peer = Peer::open();
    peer.cancel(1);
    peer.prompt(1);
    peer.cancel(2);
    peer.finish();
    peer.cancel(1);
    assert_eq!(peer.said(), ["prompt"]);
}
