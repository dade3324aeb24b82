//! Replays: replayed requests are delivered and never answered; live requests at the same time are answered.

use super::*;

fn background(id: &str) -> Value {
    let mut request = approval(id);
    request["source_kind"] = json!("background_agent");
    request
}

/// A session in which a replay runs.
fn replaying() -> Peer {
    let mut peer = Peer::open_with(
        timing(),
        AnswerSources { approval: AnswerSource::Yolo, observed: true, ..AnswerSources::default() },
    );
    peer.connection.start_replay(peer.now).expect("sent");
    peer.event("TurnBegin", &json!({"user_input": "hi"}));
    peer.said();
    peer.trace();
    peer
}

fn answered(peer: &mut Peer, requests: u64) {
    peer.answer("replay", &json!({"status": "finished", "events": 3, "requests": requests}));
}

fn approve(id: &str) -> String {
    format!(r#""{id}" {{"request_id":"{id}","response":"approve"}}"#)
}

#[test]
fn request_during_replay_is_answered_after_it() {
    let mut peer = replaying();
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.event("TurnEnd", &json!({}));
    assert_eq!(peer.said(), [""; 0], "before the answer nobody knows");
    answered(&mut peer, 0);
    assert_eq!(
        peer.trace(),
        [
            "replay ApprovalRequest",
            "replay TurnEnd",
            r#"call {"status":"finished","events":3,"requests":0}"#,
            "outside ApprovalRequest",
        ]
    );
    assert_eq!(peer.said(), [approve("a")]);
}

#[test]
fn live_approval_during_replay_asks_handler() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
    peer.connection.start_replay(peer.now).expect("sent");
    peer.request("a", "ApprovalRequest", &background("a"));
    answered(&mut peer, 0);
    let key = peer.asked();
    peer.said();
    peer.connection.answer(key, &crate::dialect::Answer::Approval(crate::Approval::Approve), peer.now);
    assert_eq!(peer.said(), [approve("a")]);
}

#[test]
fn replayed_requests_in_any_order_stay_unanswered() {
    // p: of the past and resolved in it; o: of the past and left open; n: new.
    for order in ["pon", "pno", "npo", "onp", "nop", "opn"] {
        let mut peer = replaying();
        for kind in order.chars() {
            match kind {
                'p' => {
                    peer.request("p", "ApprovalRequest", &background("p"));
                    peer.event("ApprovalResponse", &json!({"request_id": "p", "response": "approve"}));
                }
                'o' => {
                    peer.request("o", "QuestionRequest", &json!({"id": "o", "tool_call_id": "q", "questions": []}));
                }
                _ => peer.request("n", "ApprovalRequest", &background("n")),
            }
        }
        answered(&mut peer, 2);
        assert_eq!(peer.said(), [approve("n")], "{order}");
    }
}

#[test]
fn ambiguous_request_counts_as_past() {
    // Two are open, one of them is new.
    let mut peer = replaying();
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.request("b", "ApprovalRequest", &background("b"));
    answered(&mut peer, 1);
    assert_eq!(peer.said(), [""; 0]);
    // The answer does not say how many.
    let mut peer = replaying();
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.answer("replay", &json!({"status": "finished"}));
    assert_eq!(peer.said(), [""; 0]);
    // More are said to be of the past than came.
    let mut peer = replaying();
    peer.request("a", "ApprovalRequest", &background("a"));
    answered(&mut peer, 9);
    assert_eq!(peer.said(), [""; 0]);
    // It broke off in the middle.
    let mut peer = replaying();
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.refuse("replay", -32603);
    assert_eq!(peer.said(), [""; 0]);
}

#[test]
fn refused_replay_has_no_past() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Yolo, ..AnswerSources::default() });
    peer.connection.start_replay(peer.now).expect("sent");
    peer.said();
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.refuse("replay", -32603);
    assert_eq!(peer.said(), [approve("a")]);
}

#[test]
fn earlier_request_is_resolved_during_replay() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.connection.start_replay(peer.now).expect("sent");
    peer.trace();
    peer.event("ApprovalResponse", &json!({"request_id": "a", "response": "approve"}));
    assert_eq!(peer.trace(), ["withdrawn", "replay ApprovalResponse"]);
}

#[test]
fn held_requests_are_bounded() {
    let mut peer = replaying();
    for n in 0..1000 {
        peer.request(&n.to_string(), "ApprovalRequest", &background(&n.to_string()));
    }
    answered(&mut peer, 0);
    assert_eq!(peer.said().len(), 256);
    let mut peer = replaying();
    let mut large = background("large");
    large["description"] = json!("x".repeat(2 << 20));
    peer.request("large", "ApprovalRequest", &large);
    answered(&mut peer, 0);
    assert_eq!(peer.said(), [""; 0]);
}

#[test]
fn silent_replay_ends_session() {
    let mut peer = replaying();
    for _ in 0..5 {
        peer.wait(59 * SECOND);
        peer.event("TurnEnd", &json!({}));
    }
    // An agent that we do not listen to can't be heard.
    peer.connection.set_reading(false, peer.now);
    assert_eq!(peer.connection.poll_timeout(), None);
    peer.wait(600 * SECOND);
    peer.connection.set_reading(true, peer.now);
    peer.trace();
    let before = peer.now;
    peer.pass();
    assert_eq!(peer.now - before, 60 * SECOND);
    assert_eq!(peer.trace(), ["fatal error timeout", "call timeout"]);
    peer.prompt(1);
    assert_eq!(peer.trace(), ["turn 1 timeout"]);
}
