//! Steering, with the answers of Claude Code and Codex.

use super::*;
use crate::connection::CallKey;
use crate::error::Error;

/// A player whose turn runs, with an agent that can be steered.
fn steerable() -> Player {
    let mut player = Player::new(params());
    let mut greeting = initialized(json!({}));
    greeting["result"]["_meta"] = json!({"steering": {"supported": true}});
    player.hear(&greeting.to_string());
    player.hear(&answer(1, json!({"sessionId": "s"})));
    player.connection.prompt(1, "hi".into(), player.now);
    player.look();
    player.written.clear();
    player.trace.clear();
    player
}

fn steer(player: &mut Player) -> Result<CallKey> {
    let call = player.connection.steer(1, "tea".into(), player.now);
    player.look();
    call
}

fn chunk(text: &str) -> String {
    update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

#[test]
fn steer_is_sent_as_session_steering() {
    let mut player = steerable();
    steer(&mut player).expect("sent");
    let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "tea"}],
        "_meta": {"steering": {"idleBehavior": "promptRequired"}}});
    assert_eq!(player.sent(), [json!({"jsonrpc": "2.0", "id": 3, "method": "_session/steering", "params": params})]);
}

#[test]
fn injected_steer_begins_step() {
    let mut player = steerable();
    player.hear(&chunk("coffee"));
    steer(&mut player).expect("sent");
    player.hear(&answer(3, json!({"outcome": "injected"})));
    player.hear(&chunk("tea"));
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    assert_eq!(
        player.trace,
        [
            "StepBegin",
            "text \"coffee\"",
            "SteerInput",
            "call ok",
            "StepBegin",
            "text \"tea\"",
            "TurnEnd",
            "turn finished 2 \"tea\""
        ]
    );
}

#[test]
fn agent_without_announcement_cannot_be_steered() {
    for meta in [json!(null), json!({}), json!({"steering": {"supported": false}}), json!({"steering": true})] {
        let mut player = Player::new(params());
        let mut greeting = initialized(json!({}));
        greeting["result"]["_meta"] = meta;
        player.hear(&greeting.to_string());
        player.hear(&answer(1, json!({"sessionId": "s"})));
        player.connection.prompt(1, "hi".into(), player.now);
        player.look();
        player.sent();
        assert!(matches!(steer(&mut player), Err(Error::Unsupported(_))));
        assert_eq!(player.sent(), [json!(null); 0]);
    }
}

#[test]
fn late_steer_has_no_active_turn() {
    let mut player = steerable();
    steer(&mut player).expect("sent");
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    player.trace.clear();
    player.sent();
    player.hear(&answer(3, json!({"outcome": "promptRequired", "reason": "noRunningTurn"})));
    assert!(player.sent().is_empty());
    assert_eq!(player.trace, ["call no_active_turn"]);
}

#[test]
fn turn_that_late_steer_began_is_cancelled() {
    let mut player = steerable();
    steer(&mut player).expect("sent");
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    player.trace.clear();
    player.sent();
    player.hear(&answer(3, json!({"outcome": "startedNewTurn"})));
    assert_eq!(player.trace, ["call no_active_turn"]);
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}});
    assert_eq!(player.sent(), [cancel]);
}

#[test]
fn late_answer_to_steer_does_not_cancel_next_turn() {
    for outcome in ["startedNewTurn", "injected"] {
        let mut player = steerable();
        steer(&mut player).expect("sent");
        player.hear(&answer(2, json!({"stopReason": "end_turn"})));
        player.connection.prompt(2, "next".into(), player.now);
        player.look();
        player.trace.clear();
        player.sent();
        player.hear(&answer(3, json!({"outcome": outcome})));
        let expected = if outcome == "injected" { "call ok" } else { "call rpc_error" };
        assert!(player.sent().is_empty());
        assert_eq!(player.trace, [expected], "{outcome}");
    }
}

#[test]
fn failed_or_malformed_answer_to_steer_is_error() {
    for result in
        [json!({"outcome": "failed"}), json!({"outcome": "novelty"}), json!({}), json!(null), json!({"outcome": 5})]
    {
        let mut player = steerable();
        steer(&mut player).expect("sent");
        player.hear(&answer(3, result.clone()));
        assert_eq!(player.trace, ["call rpc_error"], "{result}");
        player.hear(&answer(2, json!({"stopReason": "end_turn"})));
        assert_eq!(player.trace.last().map(String::as_str), Some("turn finished 1 \"\""), "{result}");
    }
    let mut player = steerable();
    steer(&mut player).expect("sent");
    player.hear(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"Method not found"}}"#);
    assert_eq!(player.trace, ["call unsupported"]);
}

#[test]
fn steer_after_end_is_not_sent() {
    let mut player = steerable();
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    player.sent();
    assert!(steer(&mut player).is_err());
    assert_eq!(player.sent(), [json!(null); 0]);
}
