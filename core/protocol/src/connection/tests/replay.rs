//! Replays: the past is told and never answered; who asks at the same moment is.

use super::*;

fn background(id: &str) -> Value {
    let mut request = approval(id);
    request["source_kind"] = json!("background_agent");
    request
}

/// A session in which a replay runs.
fn replaying() -> Peer {
    let mut peer = Peer::open_with(timing(), Policy { approval: Who::Yolo, observed: true, ..Policy::default() });
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
fn who_asks_during_a_replay_is_answered_after_it() {
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
fn functions_are_asked_for_it_as_ever() {
    let mut peer = Peer::open_with(timing(), Policy { approval: Who::Handler, ..Policy::default() });
    peer.connection.start_replay(peer.now).expect("sent");
    peer.request("a", "ApprovalRequest", &background("a"));
    answered(&mut peer, 0);
    let key = peer.asked();
    peer.said();
    peer.connection.answer(key, &crate::dialect::Answer::Approval(crate::Approval::Approve), peer.now);
    assert_eq!(peer.said(), [approve("a")]);
}

#[test]
fn the_past_is_never_answered_in_whatever_order_it_mixes() {
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
fn a_doubt_is_the_past() {
    // Two are open, one of them is new.
    let mut peer = replaying();
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.request("b", "ApprovalRequest", &background("b"));
    answered(&mut peer, 1);
    assert_eq!(peer.said(), [""; 0]);
    // Nobody says how many.
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
fn a_refused_replay_has_no_past() {
    let mut peer = Peer::open_with(timing(), Policy { approval: Who::Yolo, ..Policy::default() });
    peer.connection.start_replay(peer.now).expect("sent");
    peer.said();
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.refuse("replay", -32603);
    assert_eq!(peer.said(), [approve("a")]);
}

#[test]
fn what_was_asked_before_is_resolved_during_a_replay() {
    let mut peer = Peer::open_with(timing(), Policy { approval: Who::Handler, ..Policy::default() });
    peer.request("a", "ApprovalRequest", &background("a"));
    peer.connection.start_replay(peer.now).expect("sent");
    peer.trace();
    peer.event("ApprovalResponse", &json!({"request_id": "a", "response": "approve"}));
    assert_eq!(peer.trace(), ["withdrawn", "replay ApprovalResponse"]);
}

#[test]
fn what_is_held_is_bounded() {
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
fn only_silence_ends_a_replay_and_with_it_the_session() {
    let mut peer = replaying();
    for _ in 0..5 {
        peer.wait(59 * SECOND);
        peer.event("TurnEnd", &json!({}));
    }
    // An agent that we do not listen to can't be heard.
    peer.connection.set_listening(false, peer.now);
    assert_eq!(peer.connection.next_deadline(), None);
    peer.wait(600 * SECOND);
    peer.connection.set_listening(true, peer.now);
    peer.trace();
    let before = peer.now;
    peer.pass();
    assert_eq!(peer.now - before, 60 * SECOND);
    assert_eq!(peer.trace(), ["hopeless timeout", "call timeout"]);
    peer.prompt(1);
    assert_eq!(peer.trace(), ["turn 1 timeout"]);
}
