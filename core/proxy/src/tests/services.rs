//! Files and terminals that the agent uses through the client.

use serde_json::{Value, json};

use super::{Play, RULES, note, selected};

/// Rules about commands alone.
const COMMANDS: &str = r#"
[proxy]
policy = { deny = ["execute(rm *)"], allow = ["execute(git status)"] }
"#;

fn request(play: &Play, id: Value, method: &str, more: Value) -> Value {
    let mut params = json!({"sessionId": "s"});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    if let Some(Value::String(path)) = params.get_mut("path") {
        *path = play.work_dir().join(&*path).to_str().unwrap().to_owned();
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn allowed_file_is_read_by_the_client() {
    let mut play = Play::prompted(RULES);
    let read = request(&play, json!(1), "fs/read_text_file", json!({"path": "a.txt"}));
    assert_eq!(play.agent(&read), [read]);
    assert!(play.agent_got().is_empty());
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": "A"}});
    assert_eq!(play.client(&answer), [answer]);
}

#[test]
fn denied_file_gets_an_error() {
    let mut play = Play::prompted(RULES);
    let read = request(&play, json!(1), "fs/read_text_file", json!({"path": ".env"}));
    assert!(note(&play.agent(&read)).contains("denied"));
    let [answer] = &play.agent_got()[..] else { panic!("no answer") };
    assert!(answer["error"]["message"].as_str().unwrap().contains("policy denies"), "{answer}");
}

#[test]
fn denied_terminal_gets_an_error() {
    let mut play = Play::prompted(COMMANDS);
    let create = request(&play, json!(1), "terminal/create", json!({"command": "rm", "args": ["-rf", "x"]}));
    assert!(note(&play.agent(&create)).contains("denied"));
    assert!(play.agent_got()[0]["error"].is_object());
    let create = request(&play, json!(2), "terminal/create", json!({"command": "git", "args": ["status"]}));
    assert_eq!(play.agent(&create), [create]);
    let answer = json!({"jsonrpc": "2.0", "id": 2, "result": {"terminalId": "t1"}});
    assert_eq!(play.client(&answer), [answer]);
    for (id, method) in
        ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"].iter().enumerate()
    {
        let about = request(&play, json!(10 + id), method, json!({"terminalId": "t1"}));
        assert_eq!(play.agent(&about), [about]);
    }
}

#[test]
fn number_of_terminals_is_that_of_the_client() {
    let mut play = Play::prompted(COMMANDS);
    for id in 0..100 {
        let create = request(&play, json!(id), "terminal/create", json!({"command": "git", "args": ["status"]}));
        assert_eq!(play.agent(&create), [create]);
        play.client(&json!({"id": id, "result": {"terminalId": format!("t{id}")}}));
    }
}

#[test]
fn rule_that_asks_asks_before_the_client_writes() {
    for allows in [true, false] {
        let mut play = Play::prompted(RULES);
        let write = request(&play, json!(1), "fs/write_text_file", json!({"path": "a.txt", "content": "A"}));
        let [asked] = &play.agent(&write)[..] else { panic!("not asked") };
        assert_eq!(asked["method"], "session/request_permission");
        let id = asked["id"].clone();
        assert!(id.is_string() && asked["params"]["toolCall"]["title"].as_str().unwrap().contains("a.txt"), "{asked}");
        assert!(play.agent_got().is_empty());
        let got = play.client(&selected(id.clone(), if allows { "allow" } else { "reject" }));
        if allows {
            assert!(got.is_empty());
            assert_eq!(play.client_got(), [write]);
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
            assert_eq!(play.client(&answer), [answer]);
        } else {
            assert!(got[0]["error"]["message"].as_str().unwrap().contains("rejected"), "{got:?}");
            assert!(play.client_got().is_empty());
        }
        assert!(play.client(&selected(id, "allow")).is_empty());
        assert!(play.client_got().is_empty());
    }
}

#[test]
fn agent_cannot_use_an_id_of_the_guard() {
    let mut play = Play::prompted(RULES);
    let write = request(&play, json!(1), "fs/write_text_file", json!({"path": "a.txt", "content": "A"}));
    let asked = play.agent(&write)[0]["id"].clone();
    let forged = request(&play, asked, "_other", json!({}));
    assert!(play.agent(&forged).is_empty());
    assert!(play.agent_got()[0]["error"].is_object());
}

#[test]
fn waiting_request_can_be_withdrawn() {
    let mut play = Play::prompted(RULES);
    let write = request(&play, json!(1), "fs/write_text_file", json!({"path": "a.txt", "content": "A"}));
    let asked = play.agent(&write)[0]["id"].clone();
    let withdrawn = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}});
    let got = play.agent(&withdrawn);
    assert_eq!(got, [json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": asked}})]);
    assert_eq!(play.agent_got()[0]["error"]["code"], -32800);
    assert!(play.client(&selected(asked, "allow")).is_empty());
    assert!(play.client_got().is_empty());
}

#[test]
fn unknown_service_needs_a_rule_that_allows_it() {
    let mut play = Play::prompted(RULES);
    for method in ["fs/delete_file", "terminal/input"] {
        let unknown = request(&play, json!(1), method, json!({"path": "a.txt"}));
        assert!(note(&play.agent(&unknown)).contains(method));
        assert!(play.agent_got()[0]["error"].is_object());
    }
    // Without rules the client decides.
    let mut play = Play::prompted("");
    let unknown = request(&play, json!(1), "fs/delete_file", json!({"path": "a.txt"}));
    assert_eq!(play.agent(&unknown), [unknown]);
}

#[test]
fn unreadable_service_is_refused() {
    let mut play = Play::prompted(RULES);
    for params in [json!({"path": 1}), json!({}), json!({"path": "a.txt", "line": "x"})] {
        let read = request(&play, json!(1), "fs/read_text_file", params);
        assert!(play.agent(&read).is_empty());
        assert!(play.agent_got()[0]["error"].is_object());
    }
}
