//! Approvals: their ids, their texts, and members that occur twice.

use super::*;
use crate::messages::{PolicyDecision, PolicyOutcome, ToolCallInfo};

/// Allows `make`, denies `rm`, and asks about the rest.
#[derive(Debug)]
struct Rules;

impl ToolRules for Rules {
    fn decide(&self, call: &ToolCallInfo, _: &str) -> PolicyDecision {
        let command = call.arguments.as_ref().and_then(|arguments| arguments.get("command")?.as_str());
        let decision = match command {
            Some("make") if !call.name.starts_with("rm ") => PolicyOutcome::Allow,
            Some(command) if command.starts_with("rm ") => PolicyOutcome::Deny,
            _ => PolicyOutcome::Ask,
        };
        let (tool_call, extra) = (call.clone(), Default::default());
        PolicyDecision { tool_call, decision, rule: None, source: None, reason: None, part: None, extra }
    }
}

fn with_rules() -> Player {
    Player::prompted_with(Some(Arc::new(Box::new(Rules))))
}

fn bash(call: &str, action: &str, command: &str) -> Value {
    json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": call, "tool_name": "Bash", "action": action,
        "tool_input_display": {"kind": "command", "command": command}})
}

/// Returns the decisions that were sent.
fn decisions(player: &mut Player) -> Vec<Value> {
    player.sent().iter().map(|line| line["params"]["decision"].clone()).collect()
}

#[test]
fn repeated_request_is_asked_once() {
    let mut player = Player::prompted();
    for _ in 0..2 {
        player.frame("event.approval.requested", json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": "c1"}));
    }
    assert_eq!(player.asked.len(), 1);
    answered(&mut player, &Answer::Approval(Approval::Approve));
    player.frame("event.approval.requested", json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": "c1"}));
    assert!(player.asked.is_empty() && player.sent().is_empty());
}

#[test]
fn second_approval_with_answered_id() {
    let mut player = Player::prompted();
    player.frame("event.approval.requested", bash("c1", "x", "make"));
    answered(&mut player, &Answer::Approval(Approval::Approve));
    player.frame("event.approval.requested", bash("c2", "x", "rm x"));
    // The end of the first one says nothing about the second one.
    player.frame("event.approval.resolved", json!({"approval_id": "a1", "decision": "approved"}));
    assert_eq!(player.asked.len(), 1);
    let sent = answered(&mut player, &Answer::Approval(Approval::Reject { feedback: None }));
    assert_eq!(sent["params"], json!({"decision": "rejected"}));
    player.frame("event.approval.resolved", json!({"approval_id": "a1", "decision": "rejected"}));
    assert!(player.trace().contains(&"resolved a1 reject".to_owned()));
    let mut player = with_rules();
    player.frame("event.approval.requested", bash("c1", "x", "make"));
    player.frame("event.approval.requested", bash("c2", "x", "rm x"));
    assert_eq!(decisions(&mut player), ["approved", "rejected"]);
}

#[test]
fn command_of_action_must_be_allowed_too() {
    for (action, sent) in [
        ("Running: make", vec![json!("approved")]),
        ("Build", vec![json!("approved")]),
        ("Running: rm x", vec![json!("rejected")]),
        ("Running: git push", vec![]),
    ] {
        let mut player = with_rules();
        player.frame("event.approval.requested", bash("c1", action, "make"));
        assert_eq!(decisions(&mut player), sent, "{action}");
    }
}

#[test]
fn repeated_members_are_not_allowed_by_a_rule() {
    for (from, to) in [
        (r#""command":"make""#, r#""command":"rm x","command":"make""#),
        (r#""tool_name":"#, r#""tool_name":"Delete","tool_name":"#),
        (r#""payload":"#, r#""payload":{},"payload":"#),
    ] {
        let mut player = with_rules();
        player.seq += 1;
        let payload = bash("c1", "x", "make");
        let frame = json!({"seq": player.seq, "session_id": SESSION, "epoch": "e", "payload": payload});
        let line = json!({"jsonrpc": "2.0", "method": "event.approval.requested", "params": frame}).to_string();
        assert!(line.contains(from), "{line}");
        player.connection.handle_line(line.replacen(from, to, 1).as_bytes(), player.now);
        player.look();
        assert!(player.sent().is_empty(), "{to}");
        assert_eq!(player.asked.len(), 1, "{to}");
    }
}

#[test]
fn approval_of_call_started_otherwise() {
    for (has_rules, started, sent) in [
        (true, json!({"path": "/tmp/b", "content": "x"}), "rejected"),
        (false, json!({"path": "/tmp/b", "content": "x"}), "rejected"),
        (false, json!({"path": "/tmp/a", "content": "y"}), "rejected"),
        (false, json!({"path": "/tmp/a", "content": "x"}), "approved"),
    ] {
        let mut player = if has_rules { with_rules() } else { Player::prompted() };
        let display = json!({"kind": "file_io", "operation": "write", "path": "/tmp/a", "content": "x"});
        let asked = json!({"approval_id": "a1", "turn_id": 0, "tool_call_id": "c1", "tool_name": "Write", "action": "x",
            "tool_input_display": display});
        player.frame("event.approval.requested", asked);
        player.frame("tool.call.started", json!({"turnId": 0, "toolCallId": "c1", "name": "Write", "args": started}));
        let (key, _) = player.asked.remove(0);
        player.connection.answer(key, &Answer::Approval(Approval::Approve), player.now);
        player.look();
        assert_eq!(decisions(&mut player), [sent], "{started}");
    }
}
