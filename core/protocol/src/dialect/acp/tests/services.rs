//! Files and terminals of the program.

use super::*;
use crate::connection::RequestKey;
use crate::dialect::Services;
use crate::messages::TerminalResult;

const ALL: Services = Services { read_file: true, write_file: true, terminal: true };

/// A player whose program offers these, in a turn.
fn offering(services: Services) -> Player {
    let mut player = Player::with(params(), InitializeParams { services, ..InitializeParams::default() });
    let offered = player.sent()[0]["params"]["clientCapabilities"].clone();
    let Services { read_file, write_file, terminal } = services;
    assert_eq!(offered["fs"], json!({"readTextFile": read_file, "writeTextFile": write_file}));
    assert_eq!(offered["terminal"], json!(terminal));
    player.hear(&initialized(json!({})).to_string());
    player.hear(&answer(1, json!({"sessionId": "s"})));
    player.connection.prompt(1, "hi".into(), player.now);
    player.look();
    player.written.clear();
    player.trace.clear();
    player
}

fn call(id: u64, method: &str, params: Value) -> String {
    let mut params = params;
    params["sessionId"] = json!("s");
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// A player that has been asked to run a command, and the handler's request.
fn running(limit: Option<u64>) -> (Player, RequestKey) {
    let mut player = offering(ALL);
    let params =
        json!({"command": "sh", "args": ["-c", "x"], "env": [{"name": "A", "value": "b"}], "outputByteLimit": limit});
    player.hear(&call(0, "terminal/create", params));
    assert_eq!(player.sent()[0]["result"], json!({"terminalId": "terminal-1"}));
    let Some((key, Event::TerminalRequest(request))) = player.asked.first() else { panic!("{:?}", player.trace) };
    assert_eq!((&*request.id, &*request.cwd), ("terminal-1", "/project"));
    assert_eq!(request.env["A"], "b");
    let key = *key;
    (player, key)
}

fn about(player: &mut Player, id: u64, method: &str) -> Vec<Value> {
    player.hear(&call(id, method, json!({"terminalId": "terminal-1"})));
    player.sent()
}

fn end(player: &mut Player, key: RequestKey, result: TerminalResult) -> Vec<Value> {
    player.connection.answer(key, &Answer::Terminal(result), player.now);
    player.look();
    player.sent()
}

#[test]
fn read_file_selects_lines_of_handler_text() {
    let mut player = offering(ALL);
    player.hear(&call(0, "fs/read_text_file", json!({"path": "/a", "line": 2, "limit": 1})));
    let Some((key, Event::ReadFileRequest(request))) = player.asked.pop() else { panic!("{:?}", player.trace) };
    assert_eq!((&*request.path, request.line, request.limit), ("/a", Some(2), Some(1)));
    player.connection.answer(key, &Answer::ReadFile(Some("1\n2\n3\n".into())), player.now);
    player.look();
    assert_eq!(player.sent()[0]["result"], json!({"content": "2\n"}));
}

#[test]
fn read_file_clamps_line_range() {
    let mut player = offering(ALL);
    for (about, expected) in [
        (json!({"path": "/a", "line": 0, "limit": 1}), "1\n"),
        (json!({"path": "/a", "line": 1, "limit": 0}), ""),
        (json!({"path": "/a", "line": 9}), ""),
        (json!({"path": "/a", "line": u32::MAX, "limit": u32::MAX}), ""),
        (json!({"path": "/a", "line": null, "limit": null}), "1\n2\n"),
    ] {
        player.hear(&call(0, "fs/read_text_file", about.clone()));
        let (key, _) = player.asked.pop().expect("the handler is asked");
        player.connection.answer(key, &Answer::ReadFile(Some("1\n2\n".into())), player.now);
        player.look();
        assert_eq!(player.sent()[0]["result"], json!({"content": expected}), "{about}");
    }
}

#[test]
fn invalid_line_or_limit_is_refused() {
    let mut player = offering(ALL);
    for field in ["line", "limit"] {
        for wrong in [json!(-1), json!(1.5), json!("1"), json!(1_u64 << 32), json!([1])] {
            player.hear(&call(0, "fs/read_text_file", json!({"path": "/a", field: wrong})));
            assert_eq!(player.sent()[0]["error"]["code"], -32602, "{field} {wrong}");
            assert!(player.asked.is_empty());
        }
    }
    for wrong in [json!(-1), json!("1"), json!(1.5)] {
        player.hear(&call(0, "terminal/create", json!({"command": "x", "outputByteLimit": wrong})));
        assert_eq!(player.sent()[0]["error"]["code"], -32602, "{wrong}");
        assert!(player.asked.is_empty());
    }
}

#[test]
fn oversized_file_text_is_error() {
    let mut player = offering(ALL);
    let text = "0123456789abcde\n".repeat((16 << 20) / 16 + 1);
    for (params, error) in [(json!({"path": "/a"}), true), (json!({"path": "/a", "line": 2}), false)] {
        player.hear(&call(0, "fs/read_text_file", params));
        let (key, _) = player.asked.pop().expect("the handler is asked");
        player.connection.answer(key, &Answer::ReadFile(Some(text.clone())), player.now);
        player.look();
        let sent = player.sent();
        assert_eq!(sent[0].get("error").is_some(), error);
        if error {
            let message = "/a: these lines have 16777232 bytes, and at most 16777216 are sent; ask for fewer lines with `line` and `limit`";
            assert_eq!(sent[0]["error"], json!({"code": -32603, "message": message}));
        }
    }
}

#[test]
fn file_request_cancelled_by_agent_is_withdrawn() {
    for (method, params) in
        [("fs/read_text_file", json!({"path": "/a"})), ("fs/write_text_file", json!({"path": "/a", "content": "x"}))]
    {
        let mut player = offering(ALL);
        player.hear(&call(7, method, params));
        let (key, _) = player.asked[0].clone();
        player.hear(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#);
        assert_eq!(player.sent()[0]["error"], json!({"code": -32800, "message": "the request was cancelled"}));
        assert!(player.asked.is_empty(), "{method}");
        player.connection.answer(key, &Answer::WriteFile, player.now);
        player.connection.cancel(1, player.now);
        player.look();
        assert!(player.sent().iter().all(|line| line["id"] != 7), "{method} is answered once");
    }
}

#[test]
fn duplicate_id_does_not_grant_permission() {
    let mut player = offering(ALL);
    player.hear(&call(7, "fs/write_text_file", json!({"path": "/a", "content": "x"})));
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    let about = json!({"toolCallId": "c1", "title": "Bash"});
    player.hear(&call(7, "session/request_permission", json!({"options": options, "toolCall": about})));
    let (file, _) = player.asked.remove(0);
    player.connection.answer(file, &Answer::WriteFile, player.now);
    player.look();
    let sent = player.sent();
    assert_eq!(sent[0]["result"], json!({"outcome": {"outcome": "cancelled"}}));
    let (permission, _) = player.asked.remove(0);
    player.connection.answer(permission, &Answer::Approval(Approval::Approve), player.now);
    player.look();
    let granted = player.sent().iter().any(|line| line["result"]["outcome"]["outcome"] == "selected");
    assert!(!granted);
}

#[test]
fn missing_file_is_acp_error() {
    let mut player = offering(ALL);
    player.hear(&call(0, "fs/read_text_file", json!({"path": "/a"})));
    let (key, _) = player.asked.remove(0);
    player.connection.answer(key, &Answer::ReadFile(None), player.now);
    player.look();
    assert_eq!(
        player.sent()[0]["error"],
        json!({"code": -32002, "message": "Resource not found: /a does not exist", "data": {"uri": "/a"}})
    );
    assert!(!player.trace.iter().any(|line| line == "HandlerFailed"));
}

#[test]
fn failed_file_handler_is_error_with_text() {
    for (method, params) in
        [("fs/read_text_file", json!({"path": "/a"})), ("fs/write_text_file", json!({"path": "/a", "content": "x"}))]
    {
        let mut player = offering(ALL);
        player.hear(&call(0, method, params));
        let (key, _) = player.asked.remove(0);
        player.connection.handler_failed(key, "no".to_owned(), player.now);
        player.look();
        assert_eq!(player.sent()[0]["error"], json!({"code": -32603, "message": "no"}), "{method}");
        assert_eq!(player.trace.last().map(String::as_str), Some("HandlerFailed"));
    }
}

#[test]
fn request_without_capability_is_unknown_method() {
    let mut player = offering(Services { read_file: true, ..Services::default() });
    for (method, params) in [
        ("fs/write_text_file", json!({"path": "/a", "content": "x"})),
        ("terminal/create", json!({"command": "x"})),
        ("terminal/output", json!({"terminalId": "terminal-1"})),
    ] {
        player.hear(&call(0, method, params));
        assert_eq!(player.sent()[0]["error"]["code"], -32601, "{method}");
        assert!(player.asked.is_empty());
    }
}

#[test]
fn malformed_service_request_is_refused() {
    let mut player = offering(ALL);
    for (method, params) in [
        ("fs/read_text_file", json!({"path": "a"})),
        ("fs/read_text_file", json!({})),
        ("fs/write_text_file", json!({"path": "../a", "content": ""})),
        ("fs/write_text_file", json!({"path": "/a"})),
        ("terminal/create", json!({"command": "x", "cwd": "here"})),
        ("terminal/create", json!({"args": []})),
        ("terminal/create", json!({"command": "x", "args": ["a", 1]})),
        ("terminal/create", json!({"command": "x", "env": [{"name": "A"}]})),
        ("terminal/output", json!({})),
    ] {
        player.hear(&call(0, method, params));
        assert_eq!(player.sent()[0]["error"]["code"], -32602, "{method}");
        assert!(player.asked.is_empty());
    }
}

#[test]
fn request_for_another_session_reaches_no_handler() {
    let mut player = offering(ALL);
    player.hear(r#"{"jsonrpc":"2.0","id":0,"method":"fs/read_text_file","params":{"sessionId":"other","path":"/a"}}"#);
    assert_eq!(player.sent()[0]["error"]["code"], -32602);
    assert!(player.asked.is_empty());
}

#[test]
fn cancel_refuses_open_and_later_file_requests() {
    let mut player = offering(ALL);
    player.hear(&call(0, "fs/read_text_file", json!({"path": "/a"})));
    player.hear(&call(1, "fs/write_text_file", json!({"path": "/a", "content": ""})));
    let (key, _) = player.asked.remove(0);
    player.asked.clear();
    player.connection.cancel(1, player.now);
    player.look();
    let codes: Vec<_> = player.sent().iter().skip(1).map(|line| line["error"]["code"].clone()).collect();
    assert_eq!(codes, [-32800, -32800]);
    player.connection.answer(key, &Answer::ReadFile(Some("late".into())), player.now);
    player.hear(&call(2, "fs/read_text_file", json!({"path": "/a"})));
    player.hear(&call(3, "terminal/create", json!({"command": "x"})));
    let codes: Vec<_> = player.sent().iter().map(|line| line["error"]["code"].clone()).collect();
    assert_eq!(codes, [-32800, -32800]);
    assert!(player.asked.is_empty());
}

#[test]
fn terminal_reports_output_and_exit() {
    let (mut player, key) = running(Some(3));
    let output = about(&mut player, 1, "terminal/output");
    assert_eq!(output[0]["result"], json!({"output": "", "truncated": false}));
    assert!(about(&mut player, 2, "terminal/wait_for_exit").is_empty());
    let waited = end(&mut player, key, TerminalResult::new("aäb", 3));
    assert_eq!((&waited[0]["id"], &waited[0]["result"]), (&json!(2), &json!({"exitCode": 3, "signal": null})));
    let output = about(&mut player, 3, "terminal/output");
    let status = json!({"exitCode": 3, "signal": null});
    assert_eq!(output[0]["result"], json!({"output": "äb", "truncated": true, "exitStatus": status}));
    assert_eq!(about(&mut player, 4, "terminal/wait_for_exit")[0]["result"], status);
    assert_eq!(about(&mut player, 5, "terminal/release")[0]["result"], json!({}));
    assert_eq!(about(&mut player, 6, "terminal/output")[0]["error"]["code"], -32602);
}

#[test]
fn terminal_kill_or_release_ends_wait() {
    for method in ["terminal/kill", "terminal/release"] {
        let (mut player, key) = running(None);
        about(&mut player, 1, "terminal/wait_for_exit");
        let sent = about(&mut player, 2, method);
        assert_eq!(sent[0]["result"], json!({"exitCode": null, "signal": "SIGKILL"}));
        assert_eq!((&sent[1]["id"], &sent[1]["result"]), (&json!(2), &json!({})));
        assert!(player.asked.is_empty(), "{method}");
        assert!(end(&mut player, key, TerminalResult::new("late", 0)).is_empty());
    }
}

#[test]
fn unknown_or_released_terminal_is_error() {
    let missing = json!({"code": -32602, "message": "there is no terminal `terminal-1`"});
    let methods = ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"];
    let mut player = offering(ALL);
    for method in methods {
        assert_eq!(about(&mut player, 1, method)[0]["error"], missing, "{method}");
    }
    let (mut player, _) = running(None);
    assert_eq!(about(&mut player, 1, "terminal/release")[0]["result"], json!({}));
    for method in methods {
        assert_eq!(about(&mut player, 2, method)[0]["error"], missing, "{method}");
    }
}

#[test]
fn kill_after_command_end_keeps_outcome() {
    let (mut player, key) = running(None);
    end(&mut player, key, TerminalResult::new("x", 3));
    let expected = json!({"output": "x", "truncated": false, "exitStatus": {"exitCode": 3, "signal": null}});
    for _ in 0..2 {
        assert_eq!(about(&mut player, 1, "terminal/kill")[0]["result"], json!({}));
        assert_eq!(about(&mut player, 2, "terminal/output")[0]["result"], expected);
    }
}

#[test]
fn failed_terminal_handler_is_error_with_text() {
    let (mut player, key) = running(None);
    about(&mut player, 1, "terminal/wait_for_exit");
    player.connection.handler_failed(key, "no container".to_owned(), player.now);
    player.look();
    let failure = json!({"code": -32603, "message": "no container"});
    assert_eq!(player.sent()[0]["error"], failure);
    assert_eq!(about(&mut player, 2, "terminal/output")[0]["error"], failure);
    assert_eq!(about(&mut player, 3, "terminal/release")[0]["result"], json!({}));
}

#[test]
fn terminal_outlives_its_turn() {
    let (mut player, key) = running(None);
    player.hear(&answer(2, json!({"stopReason": "end_turn"})));
    assert_eq!(player.trace.last().map(String::as_str), Some("turn finished 1 \"\""));
    assert_eq!(player.asked.len(), 1);
    end(&mut player, key, TerminalResult::new("x", 0));
    assert_eq!(about(&mut player, 9, "terminal/output")[0]["result"]["output"], "x");
}

#[test]
fn cancelled_wait_is_refused_and_command_continues() {
    let (mut player, key) = running(None);
    about(&mut player, 5, "terminal/wait_for_exit");
    player.hear(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}"#);
    assert_eq!(player.sent()[0]["error"]["code"], -32800);
    assert!(end(&mut player, key, TerminalResult::new("x", 0)).is_empty());
    assert_eq!(about(&mut player, 6, "terminal/output")[0]["result"]["output"], "x");
}

#[test]
fn terminals_have_limit_until_one_is_released() {
    let mut player = offering(ALL);
    let mut created = 0;
    while created < 100 {
        player.hear(&call(created, "terminal/create", json!({"command": "x"})));
        let sent = player.sent();
        if sent[0].get("error").is_some() {
            assert_eq!(sent[0]["error"]["code"], -32603);
            break;
        }
        created += 1;
    }
    assert_eq!(created, 32);
    about(&mut player, 200, "terminal/release");
    player.hear(&call(201, "terminal/create", json!({"command": "x"})));
    assert_eq!(player.sent()[0]["result"], json!({"terminalId": "terminal-34"}));
}

#[test]
fn leaving_process_refuses_waits_and_withdraws_commands() {
    let (mut player, _) = running(None);
    about(&mut player, 5, "terminal/wait_for_exit");
    player.connection.leave();
    player.look();
    let refused = player.sent().iter().any(|line| line["id"] == 5 && line["error"]["code"] == -32800);
    assert!(refused);
    player.connection.close(&Error::session_closed());
    player.look();
    assert!(player.asked.is_empty());
}

#[test]
fn idle_timeout_pauses_during_terminal_wait() {
    let timing =
        Timing { handshake: MINUTE, cancel: MINUTE, answer: MINUTE, turn: None, idle: Some(MINUTE), quiet: None };
    let policy = AnswerSources { services: ALL, ..AnswerSources::default() };
    let mut connection = Connection::new(Box::new(Acp::new(params())), timing, policy);
    let now = Instant::now();
    connection.open(InitializeParams { services: ALL, ..InitializeParams::default() }, now);
    connection.handle_line(initialized(json!({})).to_string().as_bytes(), now);
    connection.handle_line(answer(1, json!({"sessionId": "s"})).as_bytes(), now);
    connection.prompt(1, "hi".into(), now);
    connection.handle_line(call(0, "terminal/create", json!({"command": "x"})).as_bytes(), now);
    assert_eq!(connection.poll_timeout(), Some(now + MINUTE));
    connection.handle_line(call(1, "terminal/wait_for_exit", json!({"terminalId": "terminal-1"})).as_bytes(), now);
    assert_eq!(connection.poll_timeout(), None);
}

#[test]
fn text_with_half_of_surrogate_pair_is_not_written() {
    for (params, refused) in [
        (r#"{"sessionId":"s","path":"/a","content":"a\ud800b"}"#, true),
        (r#"{"sessionId":"s","path":"/\udc00","content":"a"}"#, true),
        (r#"{"sessionId":"s","path":"/a","content":"a\ufffdb"}"#, false),
        ("{\"sessionId\":\"s\",\"path\":\"/a\",\"content\":\"a\tb\"}", false),
    ] {
        let mut player = offering(ALL);
        player.hear(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"fs/write_text_file","params":{params}}}"#));
        assert_eq!(player.asked.is_empty(), refused, "{params}");
        if refused {
            let sent = player.sent();
            assert_eq!(sent[0]["error"]["code"], -32602, "{sent:?}");
            assert!(sent[0]["error"]["message"].as_str().unwrap().contains("half of a surrogate pair"), "{sent:?}");
        }
    }
    let mut player = offering(ALL);
    let params = r#"{"sessionId":"s","command":"sh","args":["-c","echo \ud800"]}"#;
    player.hear(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"terminal/create","params":{params}}}"#));
    assert!(player.asked.is_empty());
}
