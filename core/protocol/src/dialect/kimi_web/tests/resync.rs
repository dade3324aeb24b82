//! A connection that is lost and restored: no event is missing, and none is emitted twice.

use super::*;

fn subscribed(lists: Value, seq: u64) -> Value {
    let mut answer = json!({"accepted": [], "not_found": [], "resync_required": [],
        "cursors": {SESSION: {"seq": seq, "epoch": "e"}}});
    for (name, value) in lists.as_object().expect("lists") {
        answer[name] = value.clone();
    }
    answer
}

fn accepted(seq: u64) -> Value {
    subscribed(json!({"accepted": [SESSION]}), seq)
}

fn turn(steps: Value, state: &str) -> Value {
    json!({"items": [{"kind": "turn", "turnId": "t0", "ordinal": 0, "state": state, "triggerPromptId": "p-1",
        "prompt": "go", "steps": steps}], "has_more": false})
}

fn text(text: &str) -> Value {
    json!({"kind": "text", "role": "assistant", "text": text})
}

fn tool(state: &str) -> Value {
    json!({"kind": "tool", "toolCallId": "c1", "name": "Bash", "state": state, "input": {"command": "ls"}, "output": "x"})
}

fn usage() -> Value {
    json!({"inputOther": 3, "output": 1, "inputCacheRead": 0, "inputCacheCreation": 0})
}

impl Player {
    fn connected(&mut self) -> Value {
        self.hear(&json!({"jsonrpc": "2.0", "method": "gateway/connected", "params": {"count": 2}}));
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// Answers the calls for what was lost.
    fn recall(&mut self, transcript: Value, snapshot: Value) {
        let sent = self.sent();
        let path = "/api/v1/sessions/session_0001";
        assert_eq!(sent[0]["method"], format!("GET {path}/snapshot"));
        self.answer(&sent[0], snapshot);
        let sent = self.sent();
        assert_eq!(sent[0]["method"], format!("GET {path}/transcript?agent_id=main&page_size=3"));
        self.answer(&sent[0], transcript);
    }

    /// The same if events are lost: the last call asks how far the journal is.
    fn recall_lost(&mut self, transcript: Value, snapshot: Value, seq: u64) {
        self.recall(transcript, snapshot);
        let sent = self.sent();
        assert_eq!(sent[0]["method"], "GET /api/v1/sessions/session_0001/snapshot");
        self.answer(&sent[0], json!({"as_of_seq": seq}));
    }
}

#[test]
fn lost_text_precedes_later_events() {
    let mut player = Player::prompted();
    player.delta("thinking.delta", 0, "Hm");
    player.delta("assistant.delta", 0, "ab🎉");
    assert_eq!(player.trace(), ["think \"Hm\"", "text \"ab🎉\""]);
    // Lost: "m", "cd", the arguments, and the call itself.
    let call = player.connected();
    assert_eq!(call["params"], json!({"session_ids": [SESSION], "cursors": {SESSION: {"seq": 2, "epoch": "e"}}}));
    player.frame(
        "tool.call.started",
        json!({"turnId": 0, "toolCallId": "c1", "name": "Bash", "args": {"command": "ls"}}),
    );
    player.frame("tool.result", json!({"turnId": 0, "toolCallId": "c1", "output": "x"}));
    player.frame("turn.step.completed", json!({"turnId": 0, "step": 1, "usage": usage()}));
    player.frame("turn.step.started", json!({"turnId": 0, "step": 2}));
    player.answer(&call, accepted(6));
    // Live again: it comes before the transcript does, and continues what was lost.
    player.delta("assistant.delta", 4, "yz");
    assert_eq!(player.trace(), [""; 0]);
    let first = json!({"ordinal": 1, "state": "completed", "frames": [
        {"kind": "thinking", "text": "Hmm"}, text("ab🎉cd"), tool("done")]});
    let second = json!({"ordinal": 2, "state": "completed", "frames": []});
    let running = json!({"turn_id": 0, "assistant_text": "wvxxyz", "thinking_text": ""});
    player.recall(turn(json!([first, second]), "running"), json!({"in_flight_turn": running}));
    assert_eq!(
        player.trace(),
        [
            "think \"m\"",
            "text \"cd\"",
            r#"call c1 Bash "{\"command\":\"ls\"}""#,
            "result c1 Bash ok \"x\"",
            "status \"3 + 1\"",
            "StepBegin 2",
            "text \"wvxx\"",
            "text \"yz\"",
        ]
    );
    player.delta("assistant.delta", 4, "yz!");
    player.end();
    assert_eq!(player.trace(), ["text \"!\"", "TurnEnd", "turn finished 2 \"wvxxyz!\""]);
}

#[test]
fn repeated_frame_is_dropped() {
    let mut player = Player::prompted();
    let call = player.connected();
    player.seq = 0;
    player.frame("turn.started", json!({"turnId": 0, "promptId": "p-1"}));
    player.frame("turn.step.started", json!({"turnId": 0, "step": 1}));
    player.frame("turn.step.completed", json!({"turnId": 0, "step": 1, "usage": usage()}));
    player.answer(&call, accepted(3));
    player.recall(turn(json!([]), "running"), json!({}));
    player.end();
    assert_eq!(player.trace(), ["status \"3 + 1\"", "TurnEnd", "turn finished 1 \"\""]);
}

#[test]
fn partial_arguments_are_completed_once_known() {
    let mut player = Player::prompted();
    player.frame("tool.call.delta", json!({"turnId": 0, "toolCallId": "c1", "name": "Bash", "argumentsPart": "{\"co"}));
    let call = player.connected();
    player.answer(&call, accepted(3));
    player.recall(turn(json!([]), "running"), json!({}));
    player.frame("tool.call.delta", json!({"turnId": 0, "toolCallId": "c1", "name": "Bash", "argumentsPart": "\"}"}));
    player.frame(
        "tool.call.started",
        json!({"turnId": 0, "toolCallId": "c1", "name": "Bash", "args": {"command": "ls"}}),
    );
    player.frame("tool.result", json!({"turnId": 0, "toolCallId": "c1", "output": "x"}));
    assert_eq!(
        player.trace(),
        [r#"call c1 Bash "{\"co""#, r#"call c1 Bash "{\"command\":\"ls\"}""#, "result c1 Bash ok \"x\""]
    );
}

#[test]
fn lost_events_come_from_transcript() {
    let mut player = Player::prompted();
    player.delta("assistant.delta", 0, "a");
    let call = player.connected();
    player.answer(&call, subscribed(json!({"resync_required": [SESSION]}), 90));
    player.seq = 90;
    player.delta("assistant.delta", 2, "cd");
    let first = json!({"ordinal": 1, "state": "completed", "usage": usage(), "frames": [text("ab"), tool("done")]});
    let second = json!({"ordinal": 2, "state": "completed", "frames": []});
    let approval =
        json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": "c2", "tool_name": "Bash", "action": "Running"});
    let snapshot = json!({"in_flight_turn": {"turn_id": 0, "assistant_text": "xycd"}, "pending_approvals": [approval]});
    player.recall_lost(turn(json!([first, second]), "running"), snapshot, 90);
    assert_eq!(
        player.trace(),
        [
            "text \"a\"",
            "text \"b\"",
            r#"call c1 Bash "{\"command\":\"ls\"}""#,
            "result c1 Bash ok \"x\"",
            "status \"3 + 1\"",
            "StepBegin 2",
            "call c2 Bash \"\"",
            "may Bash a1: Running (Running) {}",
            "text \"xy\"",
            "text \"cd\"",
        ]
    );
    player.end();
    assert_eq!(player.trace(), ["TurnEnd", "turn finished 2 \"xycd\""]);
}

#[test]
fn lost_turn_end_comes_from_transcript() {
    let ends = [
        ("completed", Value::Null, "turn finished 1 \"ab\""),
        ("cancelled", Value::Null, "turn cancelled 1 \"ab\""),
        (
            "failed",
            json!("[provider.api_error] 500 no"),
            "turn llm_service_error: 500 no (provider.api_error) (-32003)",
        ),
    ];
    for (state, error, expected) in ends {
        let mut player = Player::prompted();
        let call = player.connected();
        player.answer(&call, subscribed(json!({"resync_required": [SESSION]}), 90));
        let mut page = turn(json!([{"ordinal": 1, "state": "completed", "frames": [text("ab")]}]), state);
        page["items"][0]["error"] = error;
        player.recall_lost(page, json!({}), 90);
        assert_eq!(player.trace(), ["text \"ab\"", "TurnEnd", expected]);
    }
}

#[test]
fn prompt_unknown_to_server_fails() {
    let mut player = Player::open();
    player.prompt("go");
    let sent = player.sent();
    player.answer(&sent[0], json!({"prompt_id": "p-1", "status": "running"}));
    let call = player.connected();
    player.answer(&call, subscribed(json!({"resync_required": [SESSION]}), 90));
    player.recall_lost(json!({"items": [], "has_more": false, "prompts": []}), json!({}), 90);
    assert_eq!(
        player.trace(),
        ["turn rpc_error: the server knows nothing of the prompt after a lost connection; prompt again"]
    );
}

#[test]
fn resync_required_fetches_lost_events() {
    let mut player = Player::prompted();
    let behind = |session: &str| {
        json!({"jsonrpc": "2.0", "method": "resync_required",
            "params": {"payload": {"session_id": session, "reason": "buffer_overflow", "current_seq": 90}}})
    };
    player.hear(&behind("other"));
    assert!(player.sent().is_empty());
    player.hear(&behind(SESSION));
    let sent = player.sent();
    assert_eq!(sent[0]["params"], json!({"session_ids": [SESSION]}));
    player.answer(&sent[0], accepted(90));
    player.recall_lost(
        turn(json!([{"ordinal": 1, "state": "completed", "frames": [text("ab")]}]), "completed"),
        json!({}),
        90,
    );
    assert_eq!(player.trace(), ["text \"ab\"", "TurnEnd", "turn finished 1 \"ab\""]);
}

#[test]
fn session_unknown_after_reconnect_ends() {
    let mut player = Player::prompted();
    let call = player.connected();
    let not_found = || json!({"accepted": [], "not_found": [SESSION]});
    player.answer(&call, not_found());
    let sent = player.sent();
    assert_eq!(sent[0]["method"], "GET /api/v1/sessions/session_0001/status");
    player.answer(&sent[0], json!({}));
    let sent = player.sent();
    assert_eq!(sent[0]["method"], "WS subscribe");
    player.answer(&sent[0], not_found());
    let trace = player.trace();
    let reason = "the server tells no more events of the session after a lost connection: it does not know the session";
    assert!(trace[0].starts_with(&format!("fatal error: {reason}")), "{trace:?}");
    assert!(trace[1].starts_with(&format!("turn protocol_error: {reason}")), "{trace:?}");
}

#[test]
fn connection_lost_during_resync_restarts_it() {
    let mut player = Player::prompted();
    let first = player.connected();
    player.frame("turn.step.completed", json!({"turnId": 0, "step": 1, "usage": usage()}));
    let second = player.connected();
    // An answer to the first attempt means nothing any more.
    player.answer(&first, accepted(3));
    assert!(player.sent().is_empty());
    player.refuse(&second, -32010, "the connection was lost");
    let third = player.connected();
    player.answer(&third, accepted(3));
    player.recall(turn(json!([]), "running"), json!({}));
    player.end();
    assert_eq!(player.trace(), ["status \"3 + 1\"", "TurnEnd", "turn finished 1 \"\""]);
}

#[test]
fn frames_over_limit_end_resync() {
    let mut player = Player::prompted();
    player.connected();
    let large = "x".repeat(6 << 20);
    for n in 0..3 {
        assert_eq!(player.trace.len(), 0);
        player.delta("assistant.delta", n * (6 << 20), &large);
    }
    assert_eq!(player.trace.len(), 3);
    player.trace.clear();
    player.end();
    assert_eq!(player.trace.len(), 2);
}

#[test]
fn text_before_resync_stays_in_its_step() {
    let mut player = Player::prompted();
    let first = player.connected();
    player.answer(&first, accepted(2));
    player.sent();
    player.delta("assistant.delta", 0, "ab");
    let second = player.connected();
    player.answer(&second, subscribed(json!({"resync_required": [SESSION]}), 90));
    player.delta("assistant.delta", 2, "ef");
    let steps =
        json!([{"ordinal": 1, "state": "completed", "frames": [text("ab")]}, {"ordinal": 2, "state": "running"}]);
    let running = json!({"turn_id": 0, "assistant_text": "cd", "thinking_text": ""});
    player.recall_lost(turn(steps, "running"), json!({"as_of_seq": 90, "in_flight_turn": running}), 90);
    assert_eq!(player.trace(), ["text \"ab\"", "StepBegin 2", "text \"cd\"", "text \"ef\""]);
}

#[test]
fn tool_call_delta_in_transcript_is_dropped() {
    let mut player = Player::prompted();
    let call = player.connected();
    player.answer(&call, subscribed(json!({"resync_required": [SESSION]}), 90));
    player.seq = 90;
    player.frame("tool.call.delta", json!({"turnId": 0, "toolCallId": "c1", "name": "Bash", "argumentsPart": "{\"co"}));
    let steps = json!([{"ordinal": 1, "state": "completed", "frames": [tool("done")]}]);
    player.recall_lost(turn(steps, "running"), json!({}), 90);
    assert_eq!(player.trace(), [r#"call c1 Bash "{\"command\":\"ls\"}""#, "result c1 Bash ok \"x\""]);
}

#[test]
fn transcript_ahead_of_frames_waits_for_them() {
    let mut player = Player::prompted();
    let call = player.connected();
    player.answer(&call, subscribed(json!({"resync_required": [SESSION]}), 90));
    player.seq = 90;
    player.delta("assistant.delta", 0, "ab");
    let steps = json!([{"ordinal": 1, "state": "completed", "frames": [text("ab")], "usage": usage()},
        {"ordinal": 2, "state": "running"}]);
    let running = json!({"turn_id": 0, "assistant_text": "", "thinking_text": ""});
    player.recall_lost(turn(steps, "running"), json!({"as_of_seq": 92, "in_flight_turn": running}), 92);
    assert_eq!(player.trace(), [""; 0]);
    player.frame("turn.step.completed", json!({"turnId": 0, "step": 1, "usage": usage()}));
    assert_eq!(player.trace(), [""; 0]);
    player.frame("turn.step.started", json!({"turnId": 0, "step": 2}));
    assert_eq!(player.trace(), ["text \"ab\"", "status \"3 + 1\"", "StepBegin 2"]);
    player.delta("assistant.delta", 0, "ab");
    assert_eq!(player.trace(), ["text \"ab\""]);
}

#[test]
fn late_frame_of_known_step_has_its_cut() {
    let mut player = Player::prompted();
    let call = player.connected();
    player.answer(&call, subscribed(json!({"resync_required": [SESSION]}), 90));
    player.seq = 90;
    player.frame("turn.step.completed", json!({"turnId": 0, "step": 1, "usage": usage(), "finishReason": "length"}));
    let steps = json!([{"ordinal": 1, "state": "completed", "frames": [text("ab")], "usage": usage()}]);
    player.recall_lost(turn(steps, "running"), json!({}), 90);
    assert_eq!(player.trace(), ["text \"ab\"", "status \"3 + 1\""]);
    player.end();
    assert_eq!(player.trace(), ["TurnEnd", "turn truncated 1 \"ab\""]);
}
