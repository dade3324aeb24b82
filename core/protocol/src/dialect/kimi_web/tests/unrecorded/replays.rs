//! Replays of transcripts.

use super::*;

fn turn(ordinal: i64, text: &str) -> Value {
    json!({"kind": "turn", "turnId": format!("t{ordinal}"), "ordinal": ordinal, "state": "completed", "prompt": "go",
    "steps": [{"ordinal": 1, "state": "completed", "usage": {"inputOther": 3, "output": 1}, "frames": [
        {"kind": "thinking", "text": "Hm"},
        {"kind": "text", "role": "assistant", "text": text},
        {"kind": "tool", "toolCallId": "c1", "name": "Bash", "state": "error", "input": {"a": 1}, "error": "no"},
        {"kind": "text", "role": "user", "text": "more"},
        {"kind": "notice", "level": "error", "message": "x"},
    ]}]})
}

#[test]
fn replay_converts_transcript_to_events() {
    let mut player = Player::open();
    player.connection.start_replay(player.now).expect("a replay");
    player.look();
    let call = player.sent().remove(0);
    assert_eq!(call["method"], format!("GET {PATH}/transcript?agent_id=main&page_size=50"));
    // An approval that is of the present waits for the end of the replay.
    player.frame("event.approval.requested", json!({"approval_id": "a1", "turn_id": 7, "tool_call_id": "c9"}));
    let marker = json!({"kind": "marker", "markerId": "m1", "marker": "skill"});
    player.answer(&call, json!({"items": [marker, turn(0, "a"), {"kind": "turn", "ordinal": "x"}], "has_more": false}));
    assert_eq!(
        player.trace(),
        [
            "outside: call c9  \"\"",
            "replay: TurnBegin",
            "replay: StepBegin 1",
            "replay: think \"Hm\"",
            "replay: text \"a\"",
            r#"replay: call c1 Bash "{\"a\":1}""#,
            "replay: result c1 Bash failed \"no\"",
            "replay: SteerInput \"more\"",
            "replay: status \"3 + 1\"",
            "replay: TurnEnd",
            "replay: unreadable transcript: invalid type: string \"x\", expected i64 at line 1 column 28",
            "call ok",
            "outside: may  a1:  () ?",
        ]
    );
    assert_eq!(player.asked.len(), 1);
    assert_eq!(player.connection.usage().total(), 0);
}

#[test]
fn long_transcript_is_replayed_from_first_page() {
    let mut player = Player::open();
    player.connection.start_replay(player.now).expect("a replay");
    player.look();
    let turns = |range: std::ops::Range<i64>| range.map(|n| turn(n, &n.to_string())).collect::<Vec<_>>();
    for (path, page, has_more) in [
        ("", 70..120, true),
        ("&after_turn=t-1", 0..50, true),
        ("&after_turn=t49", 50..100, true),
        ("&after_turn=t99", 99..120, false),
    ] {
        let call = player.sent().remove(0);
        assert_eq!(call["method"], format!("GET {PATH}/transcript?agent_id=main&page_size=50{path}"));
        player.answer(&call, json!({"items": turns(page), "has_more": has_more}));
    }
    let texts: Vec<_> = player.trace().into_iter().filter(|told| told.starts_with("replay: text")).collect();
    assert_eq!(texts, (0..120).map(|n| format!("replay: text \"{n}\"")).collect::<Vec<_>>());
}

/// A turn of a subagent: as a call has started it, or as it began by itself.
fn turn_of_subagent(ordinal: i64, text: &str, is_called: bool) -> Value {
    let origin =
        if is_called { json!({"kind": "system_trigger", "name": "subagent"}) } else { json!({"kind": "task"}) };
    json!({"kind": "turn", "ordinal": ordinal, "state": "completed", "prompt": "sub",
    "origin": {"kind": "other", "payload": origin},
    "steps": [{"ordinal": 1, "state": "completed", "usage": {"inputOther": 5, "output": 2}, "frames": [
        {"kind": "text", "role": "assistant", "text": text},
    ]}]})
}

/// A turn whose calls have started these subagents.
fn delegating(ordinal: i64, calls: &[(&str, &str)]) -> Value {
    let frames = calls.iter().map(|(call, agent)| {
        json!({"kind": "tool", "toolCallId": call, "name": "Agent", "state": "done", "output": "ok",
            "input": {"subagent_type": "coder"}, "agentRefs": [{"agentId": agent, "role": "child"}]})
    });
    let frames: Vec<_> = frames.collect();
    json!({"kind": "turn", "ordinal": ordinal, "state": "completed", "prompt": "go",
        "steps": [{"ordinal": 1, "state": "completed", "frames": frames}]})
}

#[test]
fn replay_nests_subagent_turns_in_calls() {
    let mut player = Player::open();
    player.connection.start_replay(player.now).expect("a replay");
    player.look();
    let main = json!({"items": [delegating(0, &[("c1", "agent-0"), ("c2", "agent/1")]), delegating(1, &[("c3", "agent-0")])],
        "has_more": false});
    let first = [turn_of_subagent(0, "a", true), turn_of_subagent(1, "b", false), turn_of_subagent(2, "c", true)];
    let mut nested = delegating(0, &[("n1", "agent-2"), ("n2", "agent/1"), ("n3", "main")]);
    nested["origin"] = json!({"kind": "other", "payload": {"kind": "system_trigger", "name": "subagent"}});
    for (agent, page) in [
        ("main", main),
        ("agent-0", json!({"items": first, "has_more": false})),
        ("agent%2F1", json!({"items": [nested], "has_more": false})),
        ("agent-2", json!([1])),
    ] {
        assert_eq!(player.trace(), [""; 0]);
        let call = player.sent().remove(0);
        assert_eq!(call["method"], format!("GET {PATH}/transcript?agent_id={agent}&page_size=50"));
        player.answer(&call, page);
    }
    let of_first = |call: &str, text: &str| {
        ["TurnBegin \"sub\"", "StepBegin 1", text, "status \"5 + 2\"", "TurnEnd"]
            .map(|told| format!("replay: [agent-0 {call} coder] {told}"))
    };
    let call = |id: &str| format!(r#"replay: call {id} Agent "{{\"subagent_type\":\"coder\"}}""#);
    let result = |id: &str| format!("replay: result {id} Agent ok \"ok\"");
    let mut wanted = vec!["replay: TurnBegin".to_owned(), "replay: StepBegin 1".to_owned(), call("c1")];
    wanted.extend(of_first("c1", "text \"a\""));
    wanted.extend(of_first("c1", "text \"b\""));
    wanted.extend([result("c1"), call("c2")]);
    let of_second = ["TurnBegin", "StepBegin 1"].into_iter().map(str::to_owned);
    let calls =
        ["n1", "n2", "n3"].into_iter().flat_map(|id| [call(id), result(id)].map(|told| told.replace("replay: ", "")));
    let of_second = of_second.chain(calls).chain(["TurnEnd".to_owned()]);
    wanted.extend(of_second.map(|told| format!("replay: [agent/1 c2 coder] {}", told)));
    wanted.extend([result("c2"), "replay: TurnEnd".to_owned()]);
    wanted.extend(["replay: TurnBegin".to_owned(), "replay: StepBegin 1".to_owned(), call("c3")]);
    wanted.extend(of_first("c3", "text \"c\""));
    wanted.extend([result("c3"), "replay: TurnEnd".to_owned(), "call ok".to_owned()]);
    assert_eq!(player.trace(), wanted);
    assert_eq!(player.connection.usage().total(), 0);
}

#[test]
fn long_subagent_transcript_replays_from_first_page() {
    let mut player = Player::open();
    player.connection.start_replay(player.now).expect("a replay");
    player.look();
    let turns =
        |range: std::ops::Range<i64>| range.map(|n| turn_of_subagent(n, &n.to_string(), n == 0)).collect::<Vec<_>>();
    for (query, page, has_more) in [
        ("main&page_size=50", vec![delegating(0, &[("c1", "agent-0")])], false),
        ("agent-0&page_size=50", turns(30..80), true),
        ("agent-0&page_size=50&after_turn=t-1", turns(0..50), true),
        ("agent-0&page_size=50&after_turn=t49", turns(50..80), false),
    ] {
        let call = player.sent().remove(0);
        assert_eq!(call["method"], format!("GET {PATH}/transcript?agent_id={query}"));
        player.answer(&call, json!({"items": page, "has_more": has_more}));
    }
    let texts: Vec<_> = player.trace().into_iter().filter(|told| told.contains("] text")).collect();
    assert_eq!(texts, (0..80).map(|n| format!("replay: [agent-0 c1 coder] text \"{n}\"")).collect::<Vec<_>>());
}

#[test]
fn replay_without_end_fails() {
    for (pages, reason) in [
        (vec![json!({"items": [turn(0, "a")], "has_more": true}); 3], "a page brings nothing new"),
        (vec![json!([1])], "a list, not an object"),
    ] {
        let mut player = Player::open();
        player.connection.start_replay(player.now).expect("a replay");
        player.look();
        for page in pages {
            let call = player.sent().remove(0);
            player.answer(&call, page);
        }
        let last = player.trace().pop().expect("an end");
        assert!(last.starts_with("call rpc_error: the session's transcript can't be read"), "{last}");
        assert!(last.contains(reason), "{last}");
        assert!(player.sent().is_empty());
    }
}
