//! A cancel is obeyed wherever the agent waits.

use serde_json::{Value, json};

use super::client::{Client, short};

const CANCELLED: &str = "= {\"status\":\"cancelled\"}";

/// Cancels once an event of this type has come; what follows.
fn cancel_after(script: Value, kind: &str) -> Vec<String> {
    let mut client = Client::start(script, &[]);
    let tool = json!({"name": "open", "description": "", "parameters": {}});
    let hook = json!({"id": "h", "event": "PreToolUse", "matcher": "Hooked"});
    client.initialize(json!({"external_tools": [tool], "hooks": [hook]}));
    let id = client.prompt("go");
    client.read_until(kind);
    client.call("cancel", json!({}));
    let told = client.answering(&id, |_| None);
    // The next turn is clean.
    assert_eq!(client.turn("next").last().map(String::as_str), Some("= {\"status\":\"finished\"}"));
    told
}

#[test]
fn cancel_ends_every_wait() {
    let endless = 1e6;
    for (waiting, seen) in [
        (json!({"delay": endless}), "ContentPart"),
        (json!({"text": "a", "delay": endless}), "ContentPart"),
        (json!({"text": ["a", "b"], "delay_between": endless}), "ContentPart"),
        (json!({"wait_steer": true}), "ContentPart"),
        (json!({"wait_file": "never"}), "ContentPart"),
        (json!({"repeat": {"times": 1, "actions": [{"delay": endless}]}}), "ContentPart"),
        (json!({"request": {"type": "Invented"}}), "Invented"),
        (json!({"external_tool": {"name": "open"}}), "ToolCallRequest"),
        (json!({"question": {"questions": [{"question": "Q", "options": []}]}}), "QuestionRequest"),
        (json!({"tool_call": {"name": "Hooked"}}), "HookRequest"),
        (json!({"hook": {"event": "Stop", "subscription_id": "any"}}), "HookRequest"),
    ] {
        let told = cancel_after(json!([[{"text": "a"}, waiting, {"text": "b"}]]), seen);
        let own: Vec<_> = told.iter().filter(|line| *line != "ContentPart a").collect();
        assert_eq!(own, ["= {}", "TurnEnd", CANCELLED], "{waiting}");
    }
}

#[test]
fn cancel_with_approval_pending_resolves_it() {
    let script = |wire: &str| {
        let call = json!({"tool_call": {"name": "Shell", "approve": true, "effect": {"write_file": "a"}}});
        json!({"wire": wire, "turns": [[call, {"text": "b"}]]})
    };
    let expected = ["= {}", "TurnEnd", "ApprovalResponse reject", CANCELLED];
    assert_eq!(cancel_after(script("1.10"), "ApprovalRequest"), expected);
    assert_eq!(cancel_after(script("1.7"), "ApprovalRequest"), ["= {}", "TurnEnd", CANCELLED]);
    assert_eq!(cancel_after(script("1.6"), "ApprovalRequest"), ["= {}", CANCELLED]);
    assert_eq!(cancel_after(script("1.3"), "ApprovalRequest"), ["= {}", CANCELLED]);
}

#[test]
fn late_answer_is_ignored() {
    let mut client = Client::open(json!([[{"tool_call": {"name": "Shell", "approve": {"id": "ap"}}}]]));
    let id = client.prompt("go");
    client.read_until("ApprovalRequest");
    client.call("cancel", json!({}));
    client.rest(&id);
    client.answer(&json!("ap"), json!({"request_id": "ap", "response": "approve"}));
    assert_eq!(client.turn("next")[0], "TurnBegin next");
}

#[test]
fn prompt_cancelled_during_approval_stays_unanswered() {
    for wire in ["1.0", "1.1", "1.2"] {
        let script = json!({"wire": wire, "turns": [[{"tool_call": {"name": "Shell", "approve": {"id": "ap"}}}]]});
        let mut client = Client::start(script, &[]);
        client.prompt("go");
        client.read_until("ApprovalRequest");
        client.call("cancel", json!({}));
        assert_eq!(short(&client.read()), "= {}");
        assert_eq!(client.turn("next")[0], "TurnBegin next");
    }
}

#[test]
fn events_after_cancel_precede_prompt_answer() {
    let told = cancel_after(
        json!([[{"text": "a"}, {"delay": 1e6}, {"text": "skipped"}, {"wait_cancel": true}, {"text": "in flight"}]]),
        "ContentPart",
    );
    assert_eq!(told, ["= {}", "ContentPart in flight", "TurnEnd", CANCELLED]);
}

#[test]
fn cancel_can_be_left_without_effect() {
    let mut client = Client::open(json!([
        [{"text": "a"}, {"wait_cancel": true}, {"never_answer": true}],
        [{"text": "a"}, {"wait_cancel": true}, {"text": "done anyway"}, {"end": "finished"}],
    ]));
    client.prompt("1");
    client.read_until("ContentPart");
    client.call("cancel", json!({}));
    assert_eq!(short(&client.read()), "= {}");
    let id = client.prompt("2");
    client.read_until("ContentPart");
    client.call("cancel", json!({}));
    let expected = ["= {}", "ContentPart done anyway", "TurnEnd", "= {\"status\":\"finished\"}"];
    assert_eq!(client.rest(&id), expected);
}

#[test]
fn unanswered_turn_can_be_cancelled() {
    let mut client = Client::open(json!([[{"text": "a"}, {"never_answer": true}], [{"text": "b"}]]));
    client.prompt("1");
    client.read_until("ContentPart");
    client.call("cancel", json!({}));
    assert_eq!(short(&client.read()), "= {}");
    client.call("cancel", json!({}));
    assert_eq!(short(&client.read()), "error -32000");
    assert_eq!(client.turn("2")[2], "ContentPart b");
}

#[test]
fn idle_cancel_is_refused() {
    let mut client = Client::open(json!([]));
    let id = client.call("cancel", json!({}));
    assert_eq!(client.rest(&id), ["error -32000"]);
}
