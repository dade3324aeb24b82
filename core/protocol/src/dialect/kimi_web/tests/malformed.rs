//! Frames with members that cannot be read, and ends of turns in other words.

use super::super::ends::Ended;
use super::*;

impl Player {
    /// A frame with these members besides the usual ones.
    fn frame_with(&mut self, kind: &str, payload: &Value, members: &Value) {
        self.seq += 1;
        let mut frame = json!({"seq": self.seq, "session_id": SESSION, "epoch": "e", "payload": payload});
        frame.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        self.hear(&json!({"jsonrpc": "2.0", "method": kind, "params": frame}));
    }
}

/// Returns the log of an action.
fn logged(action: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("a log").extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, action);
    let bytes = log.0.lock().expect("a log").clone();
    String::from_utf8(bytes).expect("text")
}

#[test]
fn unreadable_member_of_envelope_is_left_out() {
    for (members, field) in [
        (json!({"offset": "3"}), Some("offset")),
        (json!({"offset": -1}), Some("offset")),
        (json!({"offset": 1e30}), Some("offset")),
        (json!({"offset": 1.5}), Some("offset")),
        (json!({"offset": 3.0}), None),
        (json!({"seq": "7"}), Some("seq")),
        (json!({"seq": -7}), Some("seq")),
        (json!({"epoch": 5}), Some("epoch")),
        (json!({"volatile": "yes"}), Some("volatile")),
        (json!({"session_id": null}), None),
        (json!({"session_id": 7}), Some("session_id")),
    ] {
        let mut player = Player::prompted();
        let text = json!({"turnId": 0, "delta": "text", "sessionId": SESSION});
        let log = logged(|| player.frame_with("assistant.delta", &text, &members));
        assert_eq!(player.trace(), ["text \"text\""], "{members}");
        let records: Vec<_> = log.lines().filter(|line| line.contains("unreadable optional field left out")).collect();
        assert_eq!(records.len(), usize::from(field.is_some()), "{members}: {log}");
        assert!(field.is_none_or(|field| records[0].contains(&format!("field=\"{field}\""))), "{members}: {log}");
        let ended = json!({"turnId": 0, "reason": "completed", "sessionId": SESSION});
        player.frame_with("turn.ended", &ended, &members);
        let ended = json!({"promptId": "p-1", "reason": "completed", "sessionId": SESSION});
        player.frame_with("prompt.completed", &ended, &members);
        assert_eq!(player.trace(), ["TurnEnd", "turn finished 1 \"text\""], "{members}");
    }
}

#[test]
fn number_of_frame_may_be_whole_float() {
    let mut player = Player::prompted();
    for seq in [1e3, 1e3, 1001.0] {
        player.frame_with("assistant.delta", &json!({"turnId": 0, "delta": "x"}), &json!({"seq": seq}));
    }
    assert_eq!(player.trace(), ["text \"x\""; 2], "one frame was received before");
}

#[test]
fn tokens_are_counted_one_by_one() {
    for (usage, counted) in [
        (json!({"inputOther": 1, "output": 2, "inputCacheRead": 3, "inputCacheCreation": 4}), Some("1 + 2")),
        (json!({"inputOther": -1000, "output": 5}), Some("0 + 5")),
        (json!({"inputOther": 1e3, "output": 2.0}), Some("1000 + 2")),
        (json!({"inputOther": "1", "output": 2}), Some("0 + 2")),
        (json!({"inputOther": 1e30, "output": 0}), Some("0 + 0")),
        (json!({"inputOther": null, "output": 1.5}), None),
        (json!({}), None),
        (json!([7, 8]), None),
        (json!(5), None),
        (json!(null), None),
    ] {
        let mut player = Player::prompted();
        player.frame("turn.step.completed", json!({"turnId": 0, "step": 1, "usage": usage}));
        let expected: Vec<_> = counted.map(|counted| format!("status \"{counted}\"")).into_iter().collect();
        assert_eq!(player.trace(), expected, "{usage}");
    }
}

#[test]
fn truth_of_failed_call_has_other_forms() {
    for (is_error, expected) in [
        (json!(true), "failed"),
        (json!("true"), "failed"),
        (json!("yes"), "failed"),
        (json!(1), "failed"),
        (json!({}), "failed"),
        (json!(false), "ok"),
        (json!("False"), "ok"),
        (json!(""), "ok"),
        (json!(0), "ok"),
        (json!(0.0), "ok"),
        (json!(null), "ok"),
    ] {
        let mut player = Player::prompted();
        player.frame("tool.call.started", json!({"turnId": 0, "toolCallId": "c", "name": "N", "args": {}}));
        player.trace();
        player.frame("tool.result", json!({"turnId": 0, "toolCallId": "c", "output": "o", "isError": is_error}));
        assert_eq!(player.trace(), [format!("result c N {expected} \"o\"")], "{is_error}");
    }
}

/// Plays the end of a step, a turn and a prompt. Returns the end of the turn.
fn end_by(step: &Value, turn: &Value) -> String {
    let mut player = Player::prompted();
    let with = |members: &Value| {
        let mut payload = json!({"turnId": 0, "step": 1});
        payload.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        payload
    };
    player.frame("turn.step.completed", with(step));
    player.frame("turn.ended", with(turn));
    player.frame("prompt.completed", json!({"promptId": "p-1", "reason": "completed"}));
    player.trace().pop().expect("an end")
}

#[test]
fn error_of_turn_is_classified_by_its_words() {
    let silent = "the turn failed, and the agent gives no reason";
    for (error, expected) in [
        (json!("429 Too Many Requests"), "llm_service_error: 429 Too Many Requests".to_owned()),
        (json!("401 Unauthorized"), "auth_expired: 401 Unauthorized".to_owned()),
        (json!("prompt is too long"), "context_too_long: prompt is too long".to_owned()),
        (json!("a bug"), "rpc_error: a bug".to_owned()),
        (json!({"message": "429 Too Many Requests"}), "llm_service_error: 429 Too Many Requests".to_owned()),
        (
            json!({"code": "provider.api_error", "message": 5}),
            format!("llm_service_error: {silent}: provider.api_error"),
        ),
        (json!({"code": 7, "message": "a bug"}), "rpc_error: a bug".to_owned()),
        (json!({"code": "provider.auth_expired", "message": "no"}), "auth_expired: no".to_owned()),
        (json!({"code": "context.overflow", "message": "no"}), "context_too_long: no".to_owned()),
        (json!([1]), format!("rpc_error: {silent}")),
        (json!(""), format!("rpc_error: {silent}")),
        (json!(null), format!("rpc_error: {silent}")),
    ] {
        let end = end_by(&json!({}), &json!({"reason": "failed", "error": error}));
        assert!(end.starts_with(&format!("turn {expected}")), "{error}: {end}");
    }
}

#[test]
fn error_beside_end_of_turn_is_a_failure() {
    let error = json!({"code": "provider.rate_limit", "message": "429 Too Many Requests"});
    let expected = "turn llm_service_error: 429 Too Many Requests";
    for turn in [
        json!({"error": error}),
        json!({"reason": null, "error": error}),
        json!({"reason": "completed", "error": error}),
    ] {
        let end = end_by(&json!({}), &turn);
        assert!(end.starts_with(expected), "{turn}: {end}");
    }
    let cut = end_by(&json!({"finishReason": "max_tokens"}), &json!({"reason": "completed", "error": error}));
    assert!(cut.starts_with("turn truncated"), "{cut}");
    assert!(end_by(&json!({}), &json!({"reason": 3})).starts_with("turn finished"));

    let mut player = Player::prompted();
    player.frame("turn.ended", json!({"turnId": 0}));
    player.frame("prompt.completed", json!({"promptId": "p-1", "reason": "failed"}));
    let failed = player.trace().pop().expect("an end");
    assert!(failed.starts_with("turn rpc_error: the turn failed"), "{failed}");
}

#[test]
fn error_of_turn_has_only_sent_data() {
    for (error, data) in
        [(json!("429 Too Many Requests"), None), (json!(null), None), (json!({"code": "x"}), Some(r#"{"code":"x"}"#))]
    {
        let ended: Ended = serde_json::from_value(json!({"reason": "failed", "error": error})).expect("an end");
        let failure = ended.outcome(None).expect_err("a failure");
        assert_eq!(failure.data.as_ref().map(Json::get), data, "{error}");
    }
}

#[test]
fn unknown_end_of_turn_is_finished_with_warning() {
    let mut end = String::new();
    let log = logged(|| end = end_by(&json!({}), &json!({"reason": "weird"})));
    assert_eq!(end, "turn finished 1 \"\"");
    assert!(log.contains("WARN") && log.contains("weird"), "{log}");
    let failed = end_by(&json!({}), &json!({"reason": "weird", "error": {"message": "a bug"}}));
    assert!(failed.starts_with("turn rpc_error: a bug"), "{failed}");
    assert_eq!(end_by(&json!({}), &json!({"reason": "max_tokens"})), "turn truncated 1 \"\"");
}

#[test]
fn cut_and_refused_answers_are_named() {
    let completed = json!({"reason": "completed"});
    for (step, turn, expected) in [
        (json!({"finishReason": "truncated"}), completed.clone(), "truncated"),
        (json!({"finishReason": "length"}), completed.clone(), "truncated"),
        (json!({"finishReason": "max_tokens"}), completed.clone(), "truncated"),
        (json!({"finishReason": "other", "rawFinishReason": "length"}), completed.clone(), "truncated"),
        (json!({"finishReason": "filtered"}), completed.clone(), "refused"),
        (json!({"finishReason": "content_filter"}), completed.clone(), "refused"),
        (json!({"finishReason": "paused"}), completed.clone(), "finished"),
        (json!({"finishReason": "end_turn", "rawFinishReason": 5}), completed.clone(), "finished"),
        (json!({"finishReason": "tool_use"}), completed.clone(), "finished"),
        (json!({}), json!({"reason": "completed", "stopReason": "max_tokens"}), "truncated"),
        (json!({}), json!({"reason": "completed", "stopReason": "refusal"}), "refused"),
        (json!({}), json!({"reason": "completed", "finishReason": "length"}), "truncated"),
        (json!({}), json!({"reason": "completed", "stopReason": "repeat_breaker"}), "finished"),
        (json!({"finishReason": "length"}), json!({"reason": "cancelled"}), "cancelled"),
        (json!({}), json!({"reason": "failed", "error": {"code": "provider.filtered", "message": "m"}}), "refused"),
        (json!({}), json!({"reason": "blocked"}), "refused"),
        (json!({}), json!({"reason": "blocked", "error": {"code": "hook", "message": "m"}}), "refused"),
    ] {
        assert_eq!(end_by(&step, &turn), format!("turn {expected} 1 \"\""), "{step} {turn}");
    }
}

#[test]
fn stop_reason_is_the_word_of_the_server() {
    for (turn, cut, word) in [
        (json!({"reason": "completed"}), Some("length"), json!("length")),
        (json!({"reason": "completed", "stopReason": "repeat_breaker"}), None, json!("repeat_breaker")),
        (json!({"reason": "blocked"}), None, json!("blocked")),
        (json!({"reason": "completed"}), None, Value::Null),
    ] {
        let ended: Ended = serde_json::from_value(turn.clone()).expect("an end");
        assert_eq!(ended.outcome(cut).expect("an end").to_value()["stop_reason"], word, "{turn}");
    }
}

#[test]
fn cut_of_earlier_step_does_not_count() {
    let mut player = Player::prompted();
    player.frame("turn.step.completed", json!({"turnId": 0, "step": 1, "finishReason": "length"}));
    player.frame("turn.step.started", json!({"turnId": 0, "step": 2}));
    player.end();
    assert_eq!(player.trace().pop().expect("an end"), "turn finished 2 \"\"");
}

#[test]
fn cut_counts_without_end_of_turn() {
    for (reason, expected) in [("completed", "truncated"), ("blocked", "refused"), ("weird", "truncated")] {
        let mut player = Player::prompted();
        player.frame("turn.step.completed", json!({"turnId": 0, "step": 1, "finishReason": "length"}));
        player.frame("prompt.completed", json!({"promptId": "p-1", "reason": reason}));
        assert_eq!(player.trace().pop().expect("an end"), format!("turn {expected} 1 \"\""), "{reason}");
    }
}
