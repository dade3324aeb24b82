//! An agent in a place where it has other paths.

use std::path::Path;

use kimi_agent_client::{Place, SessionOptions};
use serde_json::{Value, json};

use super::{Play, RULES, note};

/// A guard whose agent has the directory as `/work`.
fn placed(dir: &Path) -> Play {
    let place = Place::prefix(["true"]).path(dir, "/work");
    let mut play = Play::with(SessionOptions::new().work_dir(dir).place(place), RULES);
    play.handshake();
    play
}

fn new(id: u64, cwd: &Path, further: &[&Path]) -> Value {
    let params = json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": further});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/new", "params": params})
}

/// A guard with an open session, and a prompt that runs.
fn prompted(dir: &Path) -> Play {
    let mut play = placed(dir);
    let params = json!({"cwd": "/work", "mcpServers": [], "additionalDirectories": ["/work/b"]});
    assert_eq!(play.client(&new(1, dir, &[&dir.join("b")]))[0]["params"], params);
    play.agent(&json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}));
    play.prompt("s");
    play
}

#[test]
fn both_sides_have_their_own_paths() {
    let dir = tempfile::tempdir().unwrap();
    let mut play = prompted(dir.path());
    let update = |path: &str| {
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read /work/a", "kind": "read", "locations": [{"path": path}]});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
    };
    let here = |path: &str| dir.path().join(path).to_str().unwrap().to_owned();
    assert_eq!(play.agent(&update("/work/a.txt")), [update(&here("a.txt"))]);
    assert_eq!(play.agent(&update("/etc/hosts")), [update("place:/etc/hosts")]);
    let read = |id: u64, path: &str| json!({"jsonrpc": "2.0", "id": id, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": path}});
    assert_eq!(play.agent(&read(1, "/work/a.txt")), [read(1, &here("a.txt"))]);
    assert!(note(&play.agent(&read(2, "/work/.env"))).contains("denied"));
    assert!(play.agent_got()[0]["error"].is_object());
    // No rule allows a path that only the agent has.
    let passed = play.agent(&read(3, "/etc/hosts"));
    assert!(passed.iter().all(|message| message["method"] != "fs/read_text_file"), "{passed:?}");
}

#[test]
fn directory_that_the_agent_does_not_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut play = placed(dir.path());
    let outside = Path::new(if cfg!(windows) { "C:\\outside" } else { "/outside" });
    for (id, (cwd, further)) in [(outside, &[][..]), (dir.path(), &[outside])].into_iter().enumerate() {
        assert!(play.client(&new(10 + id as u64, cwd, further)).is_empty());
        let [answer] = &play.client_got()[..] else { panic!("no answer") };
        assert!(answer["error"]["message"].as_str().unwrap().contains("outside of the directories"), "{answer}");
    }
}
