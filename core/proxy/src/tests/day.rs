//! The budget of a day, which several guards share.

use std::path::Path;

use serde_json::{Value, json};

use super::{Play, note};

const LIMIT: &str = "[proxy]\nday_budget = { tool_calls = 2 }\n";

/// A guard with an open session.
fn sharing(file: &Path) -> Play {
    let mut play = Play::new(LIMIT);
    play.guard.day_file = Some(file.to_owned());
    play.open("s");
    play
}

fn call(id: &str) -> Value {
    json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "ls", "kind": "execute", "status": "completed"})
}

fn end(play: &mut Play) {
    play.agent(&json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}));
}

/// Sends a prompt that is refused. Returns the reason.
fn refused(play: &mut Play) -> String {
    let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]});
    assert!(play.client(&json!({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params})).is_empty());
    let [answer] = &play.client_got()[..] else { panic!("no answer") };
    answer["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn guards_use_up_one_budget() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("day.json");
    let (mut one, mut other) = (sharing(&file), sharing(&file));
    one.prompt("s");
    assert!(one.update(call("c1")).is_empty());
    end(&mut one);
    other.prompt("s");
    assert!(other.update(call("c1")).is_empty());
    assert!(note(&other.update(call("c2"))).contains("`day_budget` allows 2"));
    assert_eq!(other.agent_got()[0]["method"], "session/cancel");
    end(&mut other);
    for play in [&mut one, &mut other] {
        let reason = refused(play);
        assert!(reason.contains("`day_budget` allows 2") && reason.contains("UTC"), "{reason}");
    }
    let mut third = sharing(&file);
    assert!(refused(&mut third).contains("`day_budget` allows 2"));
}

#[test]
fn exceeding_turn_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let mut play = sharing(&dir.path().join("day.json"));
    play.prompt("s");
    for id in ["c1", "c2"] {
        assert!(play.update(call(id)).is_empty());
    }
    assert!(note(&play.update(call("c3"))).contains("`day_budget` allows 2"));
    assert_eq!(play.agent_got()[0]["method"], "session/cancel");
}

#[test]
fn prompt_is_refused_if_the_day_cannot_be_counted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("day.json");
    let mut play = sharing(&file);
    std::fs::write(&file, "broken").unwrap();
    let reason = refused(&mut play);
    assert!(reason.contains("day.json") && reason.contains("delete it"), "{reason}");
    std::fs::remove_file(&file).unwrap();
    play.prompt("s");
}
