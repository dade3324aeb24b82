//! Outputs keep the order of the inputs; `fuzzing` checks the same with random inputs.

use super::*;

#[test]
fn outputs_keep_order_of_lines() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
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

#[test]
fn line_end_of_windows_changes_nothing() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
    peer.prompt(1);
    for message in [
        event("StepBegin", &json!({"n": 1})),
        event("ContentPart", &json!({"type": "text", "text": "one\r\ntwo"})),
        event("TurnEnd", &json!({})),
        json!({"jsonrpc": "2.0", "id": peer.id_of("prompt"), "result": {"status": "finished"}}),
    ] {
        peer.text(&format!("{message}\r"));
        peer.text("\r");
    }
    assert_eq!(peer.trace(), ["1.0 StepBegin", "1.0 ContentPart", "1.0 TurnEnd", "turn 1 finished"]);
}
