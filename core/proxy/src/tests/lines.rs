//! Lines that pass, and lines that are refused.

use serde_json::json;

use super::{Play, RULES, note, permission, selected};

#[test]
fn other_lines_pass_byte_for_byte() {
    let mut play = Play::prompted(RULES);
    for line in [
        r#"{ "method":"_zed/new_thing",  "params": {"sessionId":"s"} , "jsonrpc":"2.0" }"#,
        "{\"id\":\"\\u0061\",\"method\":\"x\"}\r",
        r#"{"id":7,"result":{"n":1e2,"big":123456789012345678901234567890}}"#,
        r#"{"method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"future"}}}"#,
        r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}}}"#,
        r#"{"id":null,"error":{"code":-32700,"message":"?"}}"#,
        r#"{"id":8,"method":"elicitation/create","params":{"sessionId":"s","mode":"form"}}"#,
    ] {
        play.agent_line(line);
        let got = std::mem::take(&mut play.guard.to_client).bytes;
        assert_eq!(got, format!("{line}\n"));
        assert!(play.agent_got().is_empty());
    }
    for line in [
        r#"{"id":9, "method":"session/set_mode","params":{"sessionId":"s","modeId":"plan"}}"#,
        r#"{"method":"$/cancel_request","params":{"requestId":9}}"#,
        r#"{"method":"future/notification"}"#,
        r#"{"id":8,"result":{"action":"decline"}}"#,
    ] {
        play.client_line(line);
        assert_eq!(std::mem::take(&mut play.guard.to_agent).bytes, format!("{line}\n"));
        assert!(play.client_got().is_empty());
    }
    play.agent_line("  ");
    play.client_line("");
    assert!(play.client_got().is_empty() && play.agent_got().is_empty());
}

#[test]
fn ambiguous_requests_of_the_agent_are_refused() {
    let mut play = Play::prompted(RULES);
    let plain = permission(json!(5), "git status").to_string();
    let twice = plain.replacen("\"rawInput\":", "\"rawInput\":{\"command\":\"rm -rf x\"},\"rawInput\":", 1);
    let lines = [
        plain.replacen("\"method\":", "\"method\":\"x\",\"method\":", 1),
        plain.replacen("\"method\":", "\"Method\":\"x\",\"method\":", 1),
        twice,
        plain.replacen("\"sessionId\":", "\"\\u0073essionId\":\"t\",\"sessionId\":", 1),
        plain.replacen("\"kind\":\"execute\"", "\"Kind\":\"read\",\"kind\":\"execute\"", 1),
        plain.replacen("git status\"}", "git status\",\"x\":\"\\ud800\"}", 1),
        plain.replacen("\"s\"", "\"unknown\"", 1),
        plain.replacen("\"s\"", "1", 1),
        r#"{"id":5,"method":"session/request_permission","params":[]}"#.to_owned(),
        r#"{"id":5,"method":"session/request_permission"}"#.to_owned(),
    ];
    for line in &lines {
        play.agent_line(line);
        assert!(play.client_got().is_empty(), "{line}");
        let [answer] = &play.agent_got()[..] else { panic!("{line}") };
        assert!(answer["error"]["message"].is_string() && answer["id"] == 5, "{answer}");
    }
    for line in [
        format!("[{plain}]"),
        plain.replacen("\"id\":5", "\"id\":null", 1),
        plain.replacen("\"id\":5,", "", 1),
        json!({"jsonrpc": "2.0", "method": "terminal/create", "params": {"sessionId": "s", "command": "ls"}})
            .to_string(),
        "{".to_owned(),
        "text".to_owned(),
    ] {
        play.agent_line(&line);
        assert!(play.client_got().is_empty() && play.agent_got().is_empty(), "{line}");
    }
    // The plain request is allowed.
    play.agent_line(&plain);
    assert_eq!(play.agent_got(), [selected(json!(5), "yes")]);
}

#[test]
fn ambiguous_lines_of_the_client_are_refused() {
    let mut play = Play::prompted(RULES);
    for (line, id) in [
        (r#"{"id":5,"method":"a","method":"b"}"#, json!(5)),
        (r#"[{"id":5,"method":"a"}]"#, json!(null)),
        ("text", json!(null)),
        (r#"{"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#, json!(2)),
        (r#"{"id":2.0,"method":"other"}"#, json!(2.0)),
        (r#"{"id":5,"method":"session/prompt","params":{"sessionId":"s","sessionId":"s","prompt":[]}}"#, json!(5)),
        (r#"{"id":5,"method":"session/new","params":{"cwd":"relative"}}"#, json!(5)),
    ] {
        play.client_line(line);
        assert!(play.agent_got().is_empty(), "{line}");
        let [answer] = &play.client_got()[..] else { panic!("{line}") };
        assert!(answer["error"]["message"].is_string() && answer["id"] == id, "{answer}");
    }
}

#[test]
fn id_that_is_used_twice_gets_no_approval() {
    let mut play = Play::prompted(RULES);
    assert_eq!(play.agent(&permission(json!(1), "make")).len(), 1);
    assert!(play.agent(&permission(json!(1.0), "git status")).is_empty());
    let [refused] = &play.agent_got()[..] else { panic!("no refusal") };
    assert!(refused["error"]["message"].as_str().unwrap().contains("this id"));
    // The late answer of the user is about the first one.
    assert!(play.client(&selected(json!(1), "yes")).is_empty());
    // The id is free again.
    assert_eq!(play.agent(&permission(json!(1), "make")).len(), 1);
    assert_eq!(play.client(&selected(json!(1), "yes")), [selected(json!(1), "yes")]);
    assert!(play.client(&selected(json!(1), "yes")).is_empty());
}

#[test]
fn spelling_of_an_id_does_not_matter() {
    let mut play = Play::prompted(RULES);
    play.agent_line(&permission(json!("a"), "make").to_string().replacen("\"a\"", "\"\\u0061\"", 1));
    assert_eq!(play.client_got().len(), 1);
    assert_eq!(play.client(&selected(json!("a"), "no")), [selected(json!("a"), "no")]);
    play.agent_line(&permission(json!(1), "make").to_string().replacen("\"id\":1", "\"id\":1e0", 1));
    assert_eq!(play.client_got().len(), 1);
    assert_eq!(play.client(&selected(json!(1), "yes")).len(), 1);
}

#[test]
fn agent_cannot_move_a_session_to_other_rules() {
    let mut play = Play::prompted(RULES);
    let other = tempfile::tempdir().unwrap();
    let call = json!({"id": 9, "method": "session/new", "params": {"cwd": other.path(), "mcpServers": []}});
    assert_eq!(play.client(&call), [call]);
    let [refused] = &play.agent(&json!({"id": 9, "result": {"sessionId": "s"}}))[..] else { panic!("no answer") };
    assert!(refused["error"]["message"].as_str().unwrap().contains("the same id"));
}

#[test]
fn open_calls_get_an_error_at_the_end() {
    let mut play = Play::prompted(RULES);
    drop(play.guard.end(&kimi_agent_client::Error::session_closed()));
    let [answer] = &play.client_got()[..] else { panic!("no answer") };
    assert!(answer["id"] == 2 && answer["error"]["message"].is_string(), "{answer}");
}

#[test]
fn client_with_notices_gets_notices() {
    let mut play = Play::new(RULES);
    let capabilities = json!({"session": {"notices": {}}});
    play.client(&json!({"id": 0, "method": "initialize", "params": {"clientCapabilities": capabilities}}));
    play.agent(&json!({"id": 0, "result": {"protocolVersion": 1}}));
    play.try_open("s");
    play.prompt("s");
    let [notice] = &play.agent(&permission(json!(1), "rm -rf x"))[..] else { panic!("no notice") };
    let update = &notice["params"]["update"];
    assert_eq!((&update["sessionUpdate"], &update["severity"]), (&json!("notice"), &json!("warning")));
    assert!(update["description"].as_str().unwrap().contains("denied"), "{update}");
}

#[test]
fn control_characters_do_not_reach_the_note() {
    let mut play = Play::prompted(RULES);
    let got = play.agent(&permission(json!(1), "rm \u{1b}[2J x"));
    assert!(!note(&got).contains('\u{1b}'));
}

#[test]
fn answer_that_is_refused_becomes_an_error() {
    let mut play = Play::new(RULES);
    play.handshake();
    let params = json!({"cwd": play.work_dir(), "mcpServers": []});
    play.client(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}));
    let both = json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}, "error": {"code": 1, "message": "x"}});
    let got = play.agent(&both);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!(got[0]["id"], 1);
    assert!(got[0]["error"]["message"].as_str().unwrap().contains("the answer is refused"), "{got:?}");
    // It answers no call any more.
    assert!(play.agent(&both).is_empty());
    // An answer of the client approves nothing.
    let mut play = Play::prompted(RULES);
    play.agent(&permission(json!(5), "make"));
    let mut answer = selected(json!(5), "yes");
    answer["error"] = json!({"code": 1, "message": "x"});
    let got = play.client(&answer);
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(got[0]["id"] == 5 && got[0]["error"].is_object(), "{got:?}");
    assert!(play.client(&selected(json!(5), "yes")).is_empty());
}

#[test]
fn prompt_of_an_unknown_session_is_refused() {
    let mut play = Play::prompted(RULES);
    // The directory of the project is not known, so its rules are not either.
    let open = json!({"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {"cwd": 5}});
    assert_eq!(play.client(&open), [open]);
    let opened = json!({"jsonrpc": "2.0", "id": 7, "result": {"sessionId": "other"}});
    assert_eq!(play.agent(&opened), [opened]);
    for params in [json!({"sessionId": "other", "prompt": []}), json!({"sessionId": 5}), json!([])] {
        let prompt = json!({"jsonrpc": "2.0", "id": 8, "method": "session/prompt", "params": params});
        assert!(play.client(&prompt).is_empty(), "{prompt}");
        let got = play.client_got();
        assert!(got[0]["error"]["message"].as_str().unwrap().contains("cannot be guarded"), "{got:?}");
    }
}
