//! Turns whose end waits for the agent's records.

use super::*;
use crate::messages::TokenUsage;
use crate::turn_records::{TurnRecords, TurnReport};

const TIMEOUT: Duration = Duration::from_secs(1);

/// A turn of Kimi Code that the agent has answered with `stop`.
fn answered(stop: &str) -> Player {
    let mut player = Player::new(params());
    player.connection.set_records_timeout(TIMEOUT);
    player.hear(&initialized(json!({})).to_string().replace("fake", "Kimi Code CLI"));
    player.hear(&answer(1, json!({"sessionId": "s"})));
    player.connection.prompt(1, "hi".into(), player.now);
    player.hear(&update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hi"}})));
    player.trace.clear();
    player.hear(&answer(2, json!({"stopReason": stop})));
    assert_eq!(player.trace, ["read records 1"]);
    player.trace.clear();
    player.written.clear();
    player
}

fn report(failure: Option<&str>) -> TurnReport {
    let failure = failure.map(|code| format!(r#","reason":"failed","error":{{"code":"{code}","message":"500"}}"#));
    let failure = failure.unwrap_or_else(|| r#","reason":"completed""#.to_owned());
    let ended = format!(r#"{{"type":"turn.ended","turnId":0{failure}}}"#);
    let lines = [
        r#"{"type":"turn.prompt","origin":{"kind":"user"},"promptId":"p","turnId":0,"time":1}"#,
        r#"{"type":"context.append_loop_event","event":{"type":"step.begin"}}"#,
        r#"{"type":"usage.record","usage":{"inputOther":100,"output":10}}"#,
        r#"{"type":"context.append_loop_event","event":{"type":"step.begin"}}"#,
        &ended,
        r#"{"type":"prompt.completed","promptId":"p"}"#,
    ];
    let mut records = TurnRecords::since(0);
    lines.iter().find_map(|line| records.take_line(line.as_bytes())).expect("a report")
}

fn read(player: &mut Player, report: Option<TurnReport>) -> Vec<String> {
    player.connection.handle_records(1, report, player.now);
    player.look();
    std::mem::take(&mut player.trace)
}

#[test]
fn records_give_steps_and_tokens_of_turn() {
    let mut player = answered("end_turn");
    assert_eq!(read(&mut player, Some(report(None))), ["TurnEnd", "turn finished 2 \"Hi\""]);
    let usage = TokenUsage { input_other: 100, output: 10, ..TokenUsage::default() };
    assert_eq!(*player.connection.usage(), usage);
    // A second report is of no turn.
    assert!(read(&mut player, Some(report(None))).is_empty());
}

#[test]
fn failed_turn_in_records_fails_turn() {
    let mut player = answered("end_turn");
    let trace = read(&mut player, Some(report(Some("provider.api_error"))));
    assert_eq!(trace, ["turn llm_service_error: 500 [provider.api_error]"]);
    let trace = read(&mut answered("end_turn"), Some(report(Some("loop.max_steps_exceeded"))));
    assert_eq!(trace, ["TurnEnd", "turn max_steps_reached 2 \"Hi\""]);
    // The agent's own word counts if it says more than that the turn ended.
    let trace = read(&mut answered("cancelled"), Some(report(Some("provider.api_error"))));
    assert_eq!(trace, ["TurnEnd", "turn cancelled 2 \"Hi\""]);
}

#[test]
fn turn_without_records_ends_as_reported() {
    let expected = ["TurnEnd", "turn finished 1 \"Hi\""];
    assert_eq!(read(&mut answered("end_turn"), None), expected);
    let mut player = answered("end_turn");
    assert_eq!(player.connection.poll_timeout(), Some(player.now + TIMEOUT));
    player.connection.handle_timeout(player.now + TIMEOUT);
    player.look();
    assert_eq!(player.trace, expected);
}

#[test]
fn cancel_and_close_skip_records() {
    let expected = ["TurnEnd", "turn finished 1 \"Hi\""];
    let mut player = answered("end_turn");
    player.connection.cancel(1, player.now);
    player.look();
    assert_eq!(player.trace, expected);
    assert!(player.sent().is_empty(), "there is nothing to cancel");
    let mut player = answered("end_turn");
    player.connection.close(&Error::session_closed());
    player.look();
    assert_eq!(player.trace, expected);
    let mut player = answered("end_turn");
    player.connection.begin_closing(TIMEOUT, player.now);
    player.look();
    assert_eq!(player.trace, expected);
}

#[test]
fn records_are_read_for_kimi_code_only() {
    let mut player = prompted();
    player.connection.set_records_timeout(TIMEOUT);
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    assert_eq!(player.trace, ["StepBegin", "TurnEnd", "turn finished 1 \"\""]);
}

/// A turn of OpenCode in this release that is answered before its last text.
fn late(version: &str) -> Player {
    let mut player = Player::new(params());
    let hello = initialized(json!({})).to_string();
    player.hear(&hello.replace("fake", "OpenCode").replace(r#""version":"1""#, &format!(r#""version":"{version}""#)));
    player.hear(&answer(1, json!({"sessionId": "s"})));
    player.connection.prompt(1, "hi".into(), player.now);
    let text = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    player.hear(&update(text("Hi, the")));
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    player.hear(&update(text("re")));
    player
}

#[test]
fn late_text_of_known_agent_belongs_to_its_turn() {
    let mut player = late("1.17.1");
    assert!(!player.trace.iter().any(|line| line.starts_with("turn ")), "{:?}", player.trace);
    let deadline = player.connection.poll_timeout().expect("a deadline");
    player.connection.handle_timeout(deadline);
    player.look();
    assert!(player.trace.ends_with(&["TurnEnd".into(), "turn finished 1 \"Hi, there\"".into()]), "{:?}", player.trace);
    let player = late("1.18.33");
    assert!(player.trace.iter().any(|line| line == "turn finished 1 \"Hi, the\""), "{:?}", player.trace);
}
