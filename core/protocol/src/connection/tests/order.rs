//! What comes out keeps the order of what came in; `fuzzing` has the same with anything in any order.

use super::*;

#[test]
fn outputs_come_in_the_order_of_their_lines() {
    let mut peer = Peer::open_with(timing(), Policy { approval: Who::Handler, ..Policy::default() });
    peer.prompt(1);
    peer.event("StepBegin", &json!({"n": 1}));
    peer.request("r", "ApprovalRequest", &approval("a"));
    peer.connection.set_plan_mode(true, peer.now).expect("sent");
    peer.event("StatusUpdate", &json!({"plan_mode": true}));
    peer.answer("set_plan_mode", &json!({}));
    peer.event("TurnEnd", &json!({}));
    peer.finish();
    assert_eq!(
        peer.trace(),
        [
            "1.0 StepBegin",
            "1.0 ApprovalRequest",
            "ask ApprovalRequest",
            "1.0 StatusUpdate",
            "call {}",
            "1.0 TurnEnd",
            "withdrawn",
            "turn 1 finished",
        ]
    );
}
