//! Subagents with sessions of their own.

use super::*;

fn of(session: &str, update: Value) -> String {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
        .to_string()
}

/// The announcement of `child`, a subagent of `parent`.
fn announced(parent: &str, child: &str) -> String {
    of(
        parent,
        json!({"sessionUpdate": "subagent_update", "sessionId": child, "title": format!("Title of {child}"),
        "description": "Read the tests", "capabilities": {"cancel": {}}, "state": {"state": "running"}}),
    )
}

fn chunk(session: &str, text: &str) -> String {
    of(session, json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

fn permission(id: u64, session: &str) -> String {
    let options = json!([{"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"}]);
    let params = json!({"sessionId": session, "toolCall": {"toolCallId": "t", "title": "ls"}, "options": options});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}).to_string()
}

fn state(parent: &str, child: &str, state: Value) -> String {
    of(parent, json!({"sessionUpdate": "subagent_update", "sessionId": child, "state": state}))
}

#[test]
fn announced_subagent_is_nested() {
    let mut player = prompted();
    player.hear(&announced("s", "c"));
    player.hear(&chunk("c", "inner"));
    player.hear(&announced("c", "g"));
    player.hear(&chunk("g", "deep"));
    player.hear(&chunk("s", "outer"));
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    let c = "[c Title of c running -]";
    let g = "[g Title of g running -]";
    assert_eq!(
        player.trace,
        [
            "StepBegin".to_owned(),
            format!("{c} TurnBegin"),
            format!("{c} StepBegin"),
            format!("{c} text \"inner\""),
            format!("{c} {g} TurnBegin"),
            format!("{c} {g} StepBegin"),
            format!("{c} {g} text \"deep\""),
            "text \"outer\"".to_owned(),
            "TurnEnd".to_owned(),
            "turn finished 1 \"outer\"".to_owned(),
        ]
    );
}

#[test]
fn subagent_states_begin_and_end_its_turn() {
    let mut player = prompted();
    player.hear(&of("s", json!({"sessionUpdate": "subagent_update", "sessionId": "c"})));
    for word in ["running", "running", "requires_action", "unknown", "_novelty", "idle", "idle"] {
        player.hear(&state("s", "c", json!({"state": word, "stopReason": "end_turn"})));
    }
    player.hear(&state("s", "c", json!(null)));
    let update = "unknown subagent_update";
    assert_eq!(
        player.trace[1..],
        [
            format!("[c - - -] {update}"),
            "[c - running -] TurnBegin".to_owned(),
            format!("[c - running -] {update}"),
            format!("[c - requires_action -] {update}"),
            format!("[c - unknown -] {update}"),
            format!("[c - _novelty -] {update}"),
            "[c - idle -] TurnEnd".to_owned(),
            format!("[c - idle -] {update}"),
            format!("[c - - -] {update}"),
        ]
    );
}

#[test]
fn referring_tool_call_is_parent() {
    let mut player = prompted();
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Task",
        "content": [{"type": "session", "sessionId": "c"}]});
    player.hear(&of("s", call));
    player.hear(&announced("s", "c"));
    assert_eq!(player.trace.last().map(String::as_str), Some("[c Title of c running t1] TurnBegin"));
}

#[test]
fn subagent_approval_names_its_parents() {
    let mut player = prompted();
    player.hear(&announced("s", "c"));
    player.hear(&announced("c", "g"));
    for (id, session, parents) in [
        (7, "c", json!([{"session_id": "s"}])),
        (8, "g", json!([{"session_id": "s"}, {"session_id": "c", "title": "Title of c"}])),
    ] {
        player.hear(&permission(id, session));
        let (key, request) = player.asked.remove(0);
        let Event::ApprovalRequest(request) = request else { panic!("{request:?}") };
        assert_eq!(request.agent_id.as_deref(), Some(session));
        assert_eq!(request.source_description, Some(format!("Title of {session}")));
        assert_eq!(request.extra.get("session_id"), Some(&json!(session)));
        assert_eq!(request.extra.get("parents"), Some(&parents));
        player.connection.answer(key, &Answer::Approval(Approval::Approve), player.now);
        player.look();
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": "yes"}});
        assert_eq!(player.sent(), [json!({"jsonrpc": "2.0", "id": id, "result": outcome})]);
    }
}

#[test]
fn cancelled_turn_answers_requests_of_subagents() {
    let mut player = prompted();
    player.hear(&announced("s", "c"));
    player.hear(&permission(7, "c"));
    player.connection.cancel(1, player.now);
    player.look();
    let sent = player.sent();
    assert_eq!((&sent[0]["method"], &sent[0]["params"]["sessionId"]), (&json!("session/cancel"), &json!("s")));
    assert_eq!((&sent[1]["id"], &sent[1]["result"]["outcome"]["outcome"]), (&json!(7), &json!("cancelled")));
}

#[test]
fn cancelled_subagent_gets_cancel_and_answers() {
    let mut player = prompted();
    player.hear(&announced("s", "c"));
    player.hear(&announced("c", "g"));
    player.hear(&permission(7, "g"));
    player.hear(&permission(8, "s"));
    player.connection.cancel_subagent("g".to_owned()).expect("permitted");
    player.look();
    let sent = player.sent();
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "g"}});
    let cancelled = json!({"jsonrpc": "2.0", "id": 7, "result": {"outcome": {"outcome": "cancelled"}}});
    assert_eq!(sent, [cancel, cancelled]);
    let asked: Vec<_> = player.asked.iter().map(|(_, request)| request.request_id()).collect();
    assert_eq!(asked, [Some("8")], "the request of the subagent is withdrawn");
    let unknown = player.connection.cancel_subagent("other".to_owned()).expect_err("no such subagent");
    assert_eq!(unknown.code(), "invalid_option");
    player.hear(&of("s", json!({"sessionUpdate": "subagent_update", "sessionId": "c", "capabilities": null})));
    let refused = player.connection.cancel_subagent("c".to_owned()).expect_err("not permitted any more");
    assert_eq!(refused.code(), "unsupported");
    player.look();
    assert!(player.sent().is_empty());
}

#[test]
fn background_subagent_is_outside_of_turns() {
    let mut player = prompted();
    player.hear(&announced("s", "c"));
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    player.trace.clear();
    player.hear(&chunk("c", "later"));
    assert_eq!(player.trace[1..], ["outside: [c Title of c running -] text \"later\""]);
}

#[test]
fn malformed_announcements_are_harmless() {
    let mut player = prompted();
    for update in [
        json!({"sessionUpdate": "subagent_update"}),
        json!({"sessionUpdate": "subagent_update", "sessionId": 5}),
        json!({"sessionUpdate": "subagent_update", "sessionId": "s", "state": {"state": "running"}}),
        json!({"sessionUpdate": "subagent_update", "sessionId": "c", "title": 5, "state": 5, "capabilities": 5, "cwd": 5}),
        json!({"sessionUpdate": "subagent_update", "sessionId": "c", "state": {"state": {}}, "cwd": "relative"}),
    ] {
        player.hear(&of("s", update));
    }
    player.hear(&chunk("unannounced", "of an unknown session"));
    player.hear(&chunk("s", "kept"));
    assert_eq!(
        player.trace,
        [
            "StepBegin",
            "unknown subagent_update",
            "unknown subagent_update",
            "unknown subagent_update",
            "[c - - -] unknown subagent_update",
            "[c - - -] unknown subagent_update",
            "outside: unknown session/update",
            "text \"kept\"",
        ]
    );
}

#[test]
fn number_and_depth_of_subagents_are_limited() {
    let mut player = prompted();
    for n in 0..1100 {
        player.hear(&announced("s", &format!("c{n}")));
    }
    let nested = player.trace.iter().filter(|told| told.ends_with("TurnBegin")).count();
    assert_eq!(nested, 1024);
    let mut player = prompted();
    let mut parent = "s".to_owned();
    for n in 0..20 {
        let child = format!("d{n}");
        player.hear(&announced(&parent, &child));
        parent = child;
    }
    let nested = player.trace.iter().filter(|told| told.ends_with("TurnBegin")).count();
    assert_eq!(nested, 8);
}

#[test]
fn subagents_over_limits_are_ignored() {
    let mut player = prompted();
    let long = "c".repeat(4097);
    player.hear(&announced("s", &long));
    player.hear(&chunk(&long, "of no subagent"));
    assert_eq!(player.trace[2..], ["outside: unknown session/update"]);
    // Subagents of subagents count.
    player.hear(&announced("s", "c0"));
    (1..1024).for_each(|child| player.hear(&announced(if child % 2 == 0 { "s" } else { "c0" }, &format!("c{child}"))));
    player.trace.clear();
    player.hear(&announced("c0", "c1024"));
    player.hear(&chunk("c1023", "known"));
    player.hear(&chunk("c1024", "not known"));
    let shown = player.trace.join("\n");
    assert!(shown.contains("text \"known\"") && !shown.contains("not known"), "{shown}");
}
