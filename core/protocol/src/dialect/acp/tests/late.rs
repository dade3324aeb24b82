//! Texts and results that come late: after the text of an answer, or after their turn.

use super::*;

fn said(text: &str, message: Option<&str>) -> Value {
    let mut said = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, "messageId": message});
    if message.is_none() {
        said.as_object_mut().expect("an object").remove("messageId");
    }
    said
}

fn begun(id: &str) -> Value {
    json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "test", "status": "in_progress",
        "rawInput": {"command": "npm test"}})
}

fn ended(id: &str) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "rawOutput": "out"})
}

/// Plays a turn, and returns what it tells without its begin and end.
fn play(player: &mut Player, number: u64, lines: &[Value]) -> Vec<String> {
    player.connection.prompt(number, "hi".into(), player.now);
    player.look();
    player.trace.clear();
    lines.iter().for_each(|line| player.hear(&update(line.clone())));
    let prompt = player.sent().into_iter().rfind(|line| line["method"] == "session/prompt").expect("a prompt");
    player.hear(&answer(prompt["id"].as_u64().expect("a number"), json!({"stopReason": "end_turn"})));
    let trace = std::mem::take(&mut player.trace);
    trace.into_iter().filter(|told| told != "StepBegin" && told != "TurnEnd").collect()
}

#[test]
fn text_after_result_replaces_text() {
    let begin = begun("t");
    let end = ended("t");
    let text = |text| said(text, None);
    let of_message = |text| said(text, Some("m"));
    for (lines, expected) in [
        (vec![text("first"), begin.clone(), end.clone(), text("la"), text("st")], "last"),
        // The result comes after the text, or within it.
        (vec![begin.clone(), text("answer"), end.clone()], "answer"),
        (vec![begin.clone(), of_message("answer"), end.clone(), text("")], "answer"),
        (vec![begin.clone(), of_message("the "), end.clone(), of_message("answer")], "the answer"),
        (vec![begin.clone(), of_message("old"), end.clone(), said("new", Some("n"))], "new"),
        // The text after a result is another message, whatever its id.
        (vec![of_message("old"), begin.clone(), end.clone(), of_message("new")], "new"),
        (vec![begin.clone(), of_message("a"), end.clone(), of_message("b"), said("c", Some("n"))], "ab\n\nc"),
        // This call is not of the turn.
        (vec![text("a"), ended("other"), text("b")], "b"),
    ] {
        let trace = play(&mut open(json!({"sessionId": "s"})), 1, &lines);
        assert_eq!(trace.last(), Some(&format!("turn finished 1 {expected:?}")), "{lines:?}");
    }
}

#[test]
fn late_call_of_earlier_turn_described() {
    let mut player = open(json!({"sessionId": "s"}));
    play(&mut player, 1, &[begun("t"), said("started", None)]);
    let progress = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress",
        "content": [{"type": "content", "content": {"type": "text", "text": "running"}}]});
    let trace = play(&mut player, 2, &[said("an", None), ended("t"), said("swer", None)]);
    let call = r#"call t test "{\"command\":\"npm test\"}" (made here)"#;
    let result = r#"result t ok "out""#;
    assert_eq!(trace, ["text \"an\"", call, result, "text \"swer\"", "turn finished 1 \"answer\""]);
    // It has ended.
    play(&mut player, 3, &[begun("u"), progress.clone(), said("a", None)]);
    // A new call with the same id is another one.
    let mut new = begun("u");
    new["rawInput"] = json!({"command": "ls"});
    let trace = play(&mut player, 4, &[new, ended("u")]);
    assert_eq!(trace[..2], [r#"call u test "{\"command\":\"ls\"}""#, r#"result u ok "out""#]);
}

#[test]
fn call_that_showed_output_ends_in_third_turn() {
    let mut player = open(json!({"sessionId": "s"}));
    let shown = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress",
        "content": [{"type": "content", "content": {"type": "text", "text": "running"}}]});
    let trace = play(&mut player, 1, &[begun("t"), shown]);
    assert!(trace.contains(&"result t ok \"running\"".to_owned()), "{trace:?}");
    play(&mut player, 2, &[said("a", None)]);
    let trace = play(&mut player, 3, &[ended("t"), said("b", None)]);
    assert_eq!(trace[..2], [r#"call t test "{\"command\":\"npm test\"}" (made here)"#, r#"result t ok "out""#]);
}

#[test]
fn piece_of_earlier_message_is_outside_of_turn() {
    let mut player = open(json!({"sessionId": "s"}));
    play(&mut player, 1, &[said("one", Some("m1"))]);
    let lines = [said(" tail", Some("m1")), said("two", Some("m2")), said(" more", Some("m1"))];
    let trace = play(&mut player, 2, &lines);
    assert_eq!(
        trace,
        ["outside: text \" tail\"", "text \"two\"", "outside: text \" more\"", "turn finished 1 \"two\""]
    );
    // A message without an id is of the turn.
    let trace = play(&mut player, 3, &[said(" tail", Some("m2")), said("three", None)]);
    assert_eq!(trace, ["outside: text \" tail\"", "text \"three\"", "turn finished 1 \"three\""]);
}

#[test]
fn message_with_id_of_earlier_turn_is_not_lost() {
    let mut player = open(json!({"sessionId": "s"}));
    let expected = |text: &str| [format!("text {text:?}"), format!("turn finished 1 {text:?}")];
    for (turn, text) in ["one", "two", "three"].into_iter().enumerate() {
        assert_eq!(play(&mut player, turn as u64 + 1, &[said(text, Some("0"))]), expected(text));
    }
    // A long text does not wait for the end of the turn.
    let mut player = open(json!({"sessionId": "s"}));
    play(&mut player, 1, &[said("one", Some("0"))]);
    player.connection.prompt(2, "hi".into(), player.now);
    player.hear(&update(said(&"x".repeat(1 << 20), Some("0"))));
    assert!(player.trace.last().is_some_and(|told| told.starts_with("text \"xxx")));
    // A text before a call stays before it.
    let mut player = open(json!({"sessionId": "s"}));
    play(&mut player, 1, &[said("one", Some("0"))]);
    let trace = play(&mut player, 2, &[said("two", Some("0")), begun("t"), ended("t"), said("three", Some("0"))]);
    assert_eq!((&*trace[0], trace.last().map(String::as_str)), ("text \"two\"", Some("turn finished 1 \"three\"")));
    // The text is in the error if the agent exits.
    let mut player = open(json!({"sessionId": "s"}));
    play(&mut player, 1, &[said("one", Some("0"))]);
    player.connection.prompt(2, "hi".into(), player.now);
    player.hear(&update(said("two", Some("0"))));
    player.connection.close(&Error::session_closed());
    player.look();
    assert_eq!(player.failed.expect("an error").result().map(|result| &*result.text), Some("two"));
}

#[test]
fn late_piece_in_cancelled_turn_outside() {
    let mut player = open(json!({"sessionId": "s"}));
    play(&mut player, 1, &[said("one", Some("m1"))]);
    player.connection.prompt(2, "hi".into(), player.now);
    player.look();
    player.trace.clear();
    player.hear(&update(said(" tail", Some("m1"))));
    player.connection.cancel(2, player.now);
    player.look();
    player.hear(&answer(3, json!({"stopReason": "cancelled"})));
    assert!(player.trace.contains(&"outside: text \" tail\"".to_owned()), "{:?}", player.trace);
    assert_eq!(player.trace.last().map(String::as_str), Some("turn cancelled 0 \"\""));
}
