//! Calls without a request, budgets, files of settings, and recordings.

use kimi_agent_client::SessionOptions;
use kimi_agent_protocol::recording::{Entry, Recording};
use serde_json::{Value, json};

use super::{Play, RULES, note, permission, selected};

/// Rules that also hold for calls without a request.
fn enforced() -> String {
    format!("{RULES}\nenforce = \"calls\"\n")
}

fn call(id: &str, command: &str, status: &str) -> Value {
    json!({"sessionUpdate": "tool_call", "toolCallId": id, "name": "Bash", "title": command, "kind": "execute",
        "status": status, "rawInput": {"command": command}})
}

fn ended(id: &str) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed"})
}

fn cancel() -> Value {
    json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})
}

#[test]
fn call_without_request_cancels_the_turn() {
    for (command, is_cancelled) in [("git status", false), ("make", true), ("rm -rf x", true)] {
        let mut play = Play::prompted(&enforced());
        assert!(play.update(call("c1", command, "in_progress")).is_empty());
        let got = play.update(ended("c1"));
        if is_cancelled {
            assert!(note(&got).contains("without asking") && note(&got).contains(command), "{got:?}");
            assert_eq!(play.agent_got(), [cancel()]);
            // Once is enough.
            assert!(play.update(call("c2", "make", "completed")).is_empty());
            assert!(play.agent_got().is_empty());
        } else {
            assert!(got.is_empty() && play.agent_got().is_empty());
        }
    }
}

#[test]
fn call_that_was_asked_about_does_not_cancel() {
    let mut play = Play::prompted(&enforced());
    play.update(call("c1", "make", "pending"));
    play.agent(&permission(json!(1), "make"));
    play.client(&selected(json!(1), "yes"));
    assert!(play.update(ended("c1")).is_empty());
    assert!(play.agent_got().is_empty());
}

#[test]
fn call_that_differs_from_its_request_cancels() {
    for (status, changed, text) in [("completed", true, "other arguments"), ("completed", false, "rejected")] {
        let mut play = Play::prompted(&enforced());
        play.agent(&permission(json!(1), "make"));
        let choice = if changed { "yes" } else { "no" };
        play.client(&selected(json!(1), choice));
        if changed {
            play.update(
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawInput": {"command": "rm x"}}),
            );
        }
        let got = play.update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": status}));
        assert!(note(&got).contains(text), "{got:?}");
        assert_eq!(play.agent_got(), [cancel()]);
    }
    let mut play = Play::prompted(&enforced());
    play.agent(&permission(json!(1), "rm x"));
    play.agent_got();
    let failed = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed"});
    assert!(play.update(failed).is_empty() && play.agent_got().is_empty());
}

#[test]
fn call_that_cannot_be_read_cancels_the_turn() {
    let call = |id: Value| {
        json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "rm", "kind": "execute", "status": "completed",
            "rawInput": {"command": "rm -rf x"}})
    };
    for id in [Value::Null, json!(true), json!({})] {
        let mut play = Play::prompted(&enforced());
        let got = play.update(call(id.clone()));
        assert!(note(&got).contains("cannot be read"), "{id}: {got:?}");
        assert_eq!(play.agent_got(), [cancel()]);
        let mut play = Play::prompted(RULES);
        assert!(play.update(call(id)).is_empty() && play.agent_got().is_empty());
    }
    // Other updates can be new.
    let mut play = Play::prompted(&enforced());
    assert!(play.update(json!({"sessionUpdate": "future", "toolCallId": 5})).is_empty());
}

#[test]
fn calls_are_not_watched_by_default() {
    let mut play = Play::prompted(RULES);
    assert!(play.update(call("c1", "rm -rf x", "completed")).is_empty());
    assert!(play.agent_got().is_empty());
}

#[test]
fn exceeded_budget_cancels_the_turn() {
    let usage = |tokens: u64| {
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""},
            "_meta": {"usage": {"inputTokens": tokens, "outputTokens": 1}}})
    };
    let mut play = Play::prompted("[proxy]\nbudget = { tokens = 1000 }");
    assert!(play.update(usage(900)).is_empty());
    let got = play.update(usage(900));
    assert!(note(&got).contains("cancelled") && note(&got).contains("1000"), "{got:?}");
    assert_eq!(play.agent_got(), [cancel()]);
    assert!(play.update(usage(900)).is_empty() && play.agent_got().is_empty());
    let answer = json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}});
    assert_eq!(play.agent(&answer), [answer]);
    // The session has used up its budget.
    let params = json!({"sessionId": "s", "prompt": []});
    assert!(play.client(&json!({"id": 3, "method": "session/prompt", "params": params})).is_empty());
    let [refused] = &play.client_got()[..] else { panic!("no answer") };
    assert!(refused["error"]["message"].as_str().unwrap().contains("1000"), "{refused}");
}

#[test]
fn budget_of_a_turn_holds_for_each_turn() {
    let mut play = Play::prompted("[proxy]\nturn_budget = { tool_calls = 1 }");
    assert!(play.update(call("c1", "make", "pending")).is_empty());
    assert!(!play.update(call("c2", "make", "pending")).is_empty());
    assert_eq!(play.agent_got(), [cancel()]);
    play.agent(&json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}}));
    play.prompt("s");
    assert!(play.update(call("c1", "make", "pending")).is_empty());
}

#[test]
fn budget_of_seconds_cancels_in_time() {
    let mut play = Play::prompted("[proxy]\nturn_budget = { seconds = 60 }");
    let at = play.guard.poll_timeout().unwrap();
    play.guard.handle_timeout(at).unwrap();
    assert_eq!(play.agent_got(), [cancel()]);
    assert!(note(&play.client_got()).contains("cancelled"));
}

#[test]
fn unreported_budget_is_refused() {
    let mut play = Play::new("[proxy]\nbudget = { tokens = 1000 }");
    // Without a handshake, the agent is unknown.
    let [refused] = &play.try_open("s")[..] else { panic!("no answer") };
    assert!(refused["error"]["message"].as_str().unwrap().contains("`tokens`"), "{refused}");
    assert!(play.agent_got().is_empty());
}

#[test]
fn project_can_only_be_stricter() {
    let written = |play: &Play, text: &str| std::fs::write(play.work_dir().join(".kimi-agent.toml"), text).unwrap();
    let mut play = Play::new(RULES);
    written(&play, "[proxy]\npolicy = { default = \"allow\", deny = [\"execute(git status)\"] }");
    play.open("s");
    play.prompt("s");
    play.agent(&permission(json!(1), "git status"));
    assert_eq!(play.agent_got(), [selected(json!(1), "no")]);
    play.agent(&permission(json!(2), "rm x"));
    assert_eq!(play.agent_got(), [selected(json!(2), "no")]);
    // The user decides about what only the project would allow.
    assert_eq!(play.agent(&permission(json!(3), "make")).len(), 1);
    let mut play = Play::new("");
    written(&play, "[proxy]\npolicy = { default = \"allow\" }");
    play.open("s");
    assert_eq!(play.agent(&permission(json!(1), "make")).len(), 1);
    let mut play = Play::new("");
    written(&play, "[proxy]\nenforce = \"calls\"\npolicy = { default = \"allow\" }");
    play.open("s");
    play.prompt("s");
    assert!(note(&play.update(call("c1", "make", "completed"))).contains("without asking"));
}

#[test]
fn wrong_file_of_a_project_opens_no_session() {
    let mut play = Play::new(RULES);
    play.handshake();
    std::fs::write(play.work_dir().join(".kimi-agent.toml"), "[proxy]\nrecord = \"/tmp\"").unwrap();
    let [refused] = &play.try_open("s")[..] else { panic!("no answer") };
    assert!(refused["error"]["message"].as_str().unwrap().contains(".kimi-agent.toml"), "{refused}");
    assert!(play.agent_got().is_empty());
}

#[tokio::test]
async fn recording_has_messages_decisions_and_turns() {
    let runs = tempfile::tempdir().unwrap();
    let options = SessionOptions::new().executable(["agent"]).record(runs.path().join(""));
    let mut play = Play::with(options, RULES);
    play.handshake();
    let server = json!({"name": "m", "command": "/m", "args": [], "env": [{"name": "KEY", "value": "zq9-Hidden-77x"}]});
    let params = json!({"cwd": play.work_dir(), "mcpServers": [server]});
    play.client(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}));
    play.agent(&json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}));
    play.prompt("s");
    play.agent(&permission(json!(1), "rm zq9-Hidden-77x"));
    let mut asked = permission(json!(2), "make");
    asked["params"]["toolCall"]["toolCallId"] = json!("c2");
    play.agent(&asked);
    play.client(&selected(json!(2), "yes"));
    play.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hello"}}));
    play.agent(&json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}));
    for file in play.guard.end(&kimi_agent_client::Error::session_closed()) {
        assert_eq!(file.complete().await, None);
    }
    let [file] = &std::fs::read_dir(runs.path()).unwrap().collect::<Vec<_>>()[..] else { panic!("not one file") };
    let text = std::fs::read_to_string(file.as_ref().unwrap().path()).unwrap();
    assert!(!text.contains("zq9-Hidden-77x") && text.contains("***"), "{text}");
    let recording = Recording::read(&text).unwrap();
    let has = |is: fn(&Entry) -> bool| recording.entries.iter().any(|timed| is(&timed.entry));
    assert!(has(|entry| matches!(entry, Entry::Policy(_))) && has(|entry| matches!(entry, Entry::Decision(_))));
    assert!(has(|entry| matches!(entry, Entry::Turn(_))) && has(|entry| matches!(entry, Entry::End(_))));
    assert!(has(|entry| matches!(entry, Entry::Opened(_))) && has(|entry| matches!(entry, Entry::Call(_))));
    let events = recording.events();
    assert!(events.iter().any(|event| event.event.text() == Some("Hello")), "{events:?}");
    assert!(events.iter().any(|event| event.event.type_name() == "ApprovalRequest"), "{events:?}");
}
