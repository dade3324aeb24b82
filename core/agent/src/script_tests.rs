use super::*;
use crate::dialect::WireVersion;

fn script(value: Value) -> Result<Script, Wrong> {
    Script::from_value(&value)
}

fn error(value: Value) -> Wrong {
    script(value).expect_err("a wrong script")
}

#[test]
fn script_error_names_its_place() {
    for (value, expected) in [
        (json!("text"), "a script is a list of turns or an object, not \"text\""),
        (
            json!({"wire": "2.0"}),
            "\"wire\" must be \"legacy\", \"acp\", \"kimi-web\" or one of \"1.0\" to \"1.10\", not \"2.0\"",
        ),
        (json!({"release": "old"}), "\"release\" must be one as \"0.58\", not \"old\""),
        (json!({"truns": []}), "\"truns\" is not known here (there are"),
        (json!({"server": {"nam": "x"}}), "\"server.nam\" is not known here"),
        (json!([7]), "turn 1: must be a list of actions, or an object"),
        (json!([[], {"status": "finished"}]), "turn 2: \"actions\" is missing"),
        (json!([{"text": "a"}]), "turn 1: is an action: a script is a list of turns, and a turn a list of actions"),
        (
            json!([{"actions": [], "status": "done"}]),
            "turn 1: \"status\" must be \"finished\", \"cancelled\", \"max_steps_reached\"",
        ),
        (json!([[], [{}, 7]]), "turn 2, action 1: has no action in it"),
        (json!([[{"text": "a"}, 7]]), "turn 1, action 2: must be an object, not 7"),
        (json!([[{"txt": "a"}]]), "turn 1, action 1: unknown action \"txt\" (there are text, think,"),
        (json!([[{"text": "a", "think": "b"}]]), "turn 1, action 1: is two actions, \"text\" and \"think\""),
        (json!([[{"text": 7}]]), "turn 1, action 1: \"text\" must be text or a list of texts, not 7"),
        (json!([[{"text": "a", "dely": 1}]]), "turn 1, action 1: \"dely\" is not known here (there are \"delay\","),
        (
            json!([[], [{"text": "a"}, {"text": "b"}, {"text": "c", "delay": "x"}]]),
            "turn 2, action 3: \"delay\" must be a number of seconds, not \"x\"",
        ),
        (json!([[{"delay": -1}]]), "turn 1, action 1: \"delay\" must be a number of seconds, not -1"),
        (json!([[{"tool_call": {}}]]), "turn 1, action 1: \"tool_call.name\" is missing"),
        (
            json!([[{"tool_call": {"name": "n", "kind": "x"}}]]),
            "turn 1, action 1: \"tool_call.kind\" is not known here (there are \"id\", \"name\", \"arguments\", \"split\", \"approve\", \"effect\", ",
        ),
        (
            json!([[{"tool_call": {"name": "n", "approve": {"acton": "x"}}}]]),
            "turn 1, action 1: \"tool_call.approve.acton\" is not known here",
        ),
        (
            json!([[{"tool_call": {"name": "n", "approve": {"action": 1}}}]]),
            "turn 1, action 1: \"tool_call.approve.action\" invalid type",
        ),
        (
            json!([[{"tool_call": {"name": "n", "result": {"is_error": "no"}}}]]),
            "turn 1, action 1: \"tool_call.result.is_error\" invalid type",
        ),
        (
            json!([[{"tool_call": {"name": "n", "effect": {"content": ""}}}]]),
            "turn 1, action 1: \"tool_call.effect.write_file\" is missing",
        ),
        (json!([[{"question": {"questions": [{"options": []}]}}]]), "turn 1, action 1: \"question.questions[0]"),
        (json!([[{"usage": {"output": "many"}}]]), "turn 1, action 1: \"usage.output\" must be a whole number"),
        (json!([[{"usage": {}, "context_usage": "full"}]]), "turn 1, action 1: \"context_usage\" invalid type"),
        (json!([[{"event": {"payload": {}}}]]), "turn 1, action 1: \"event.type\" is missing"),
        (json!([[{"raw": {"repeat": "x"}}]]), "turn 1, action 1: \"raw.times\" is missing"),
        (json!({"cut": {"actions": []}}), "\"cut\" needs one of \"lines\", \"bytes\" and \"call\""),
        (json!({"cut": {"lines": 1, "bytes": 1, "actions": []}}), "\"cut\" needs one of"),
        (json!({"cut": {"lines": -1, "actions": []}}), "\"cut.lines\" must not be negative"),
        (json!({"cut": {"lines": 1}}), "\"cut.actions\" is missing"),
        (json!({"cut": {"lines": 1, "actions": [{"text": "a"}]}}), "cut, action 1: \"text\" is only possible while"),
        (json!({"login": 1}), "\"login\" must be an object, not 1"),
        (json!({"login": {"methods": [{}]}}), "login.methods: \"id\" is missing"),
        (json!({"sessions_per_page": 0}), "\"sessions_per_page\" must be a whole number from 1 on"),
        (json!({"deaf_to": 7}), "\"deaf_to\" must be text or a list of texts, not 7"),
        (json!([[{"raw_base64": "!"}]]), "turn 1, action 1: \"raw_base64\" is not base64"),
        (json!([[{"end": "over"}]]), "turn 1, action 1: \"end\" must be \"finished\""),
        (json!([[{"error": {"message": "x"}}]]), "turn 1, action 1: \"error.code\" is missing"),
        (json!([[{"wait_cancel": false}]]), "turn 1, action 1: \"wait_cancel\" must be true, not false"),
        (
            json!([[{"repeat": {"times": 2, "actions": [{"text": "a"}, {"txt": 1}]}}]]),
            "turn 1, action 1, repeat, action 2: unknown action",
        ),
        (
            json!([[{"repeat": {"times": 2, "actions": [{"end": "finished"}]}}]]),
            "turn 1, action 1: \"repeat\" must not end the turn",
        ),
        (
            json!([[{"parallel": [{"tool_call": {"name": "n"}}, {"text": "x"}]}]]),
            "turn 1, action 1, parallel 2: must be a \"tool_call\"",
        ),
        (
            json!([[{"parallel": [{"tool_call": {"name": "n"}, "x": 1}]}]]),
            "turn 1, action 1, parallel 1: \"x\" is not known here",
        ),
        (
            json!([[{"end": "finished"}, {"text": "late"}]]),
            "turn 1, action 2: \"text\" is only possible while a turn runs",
        ),
        (
            json!({"before_handshake": [{"text": "early"}]}),
            "before_handshake, action 1: \"text\" is only possible while a turn runs",
        ),
    ] {
        let wrong = error(value.clone());
        assert!(wrong.starts_with(expected), "{value}\n  says {wrong}\n  not  {expected}");
    }
    #[cfg(unix)]
    assert!(error(json!([[{"signal": "WINK"}]])).contains("\"signal\" must be one of HUP, INT"));
    let syntax = Script::parse("[\n[}").expect_err("wrong");
    assert!(syntax.contains("line 2 column 2"), "{syntax}");
}

#[test]
fn actions_are_all_parsed() {
    let call = json!({"name": "Shell", "id": "t", "arguments": {"command": "ls"}, "split": 2,
        "approve": {"action": "run", "description": "Run", "display": [{"type": "brief", "text": "b"}], "id": "a",
            "source_kind": "foreground_turn", "source_id": "s"},
        "result": {"output": [{"type": "text", "text": "x"}], "message": "m", "is_error": true, "display": [],
            "extras": {"a": 1}},
        "feedback_result": "then not", "effect": {"write_file": "f", "content": "c"}});
    let question = json!({"questions": [{"question": "Q?", "options": ["A", {"label": "B"}]}], "request_id": "r"});
    let turn = json!([
        {"text": "a", "delay": 0.5, "bulk": true},
        {"text": ["a", "b"], "delay_between": 0},
        {"think": "a"},
        {"step": null}, {"step": true}, {"step": 4},
        {"tool_call": call}, {"tool_call": {"name": "n", "approve": true, "arguments": "not JSON"}},
        {"external_tool": {"name": "n", "force": true}},
        {"question": question},
        {"parallel": [{"tool_call": call}, {"external_tool": {"name": "n"}}, {"question": question}]},
        {"hook": {"event": "Notification", "target": "t", "input_data": {"a": 1}, "subscription_id": "h"}},
        {"usage": {"input_other": 1, "output": 2, "input_cache_read": 3, "input_cache_creation": 4},
            "context_usage": 0.1, "message_id": "m", "context_tokens": 1, "max_context_tokens": 2, "plan_mode": true},
        {"status": {"plan_mode": true}},
        {"event": {"type": "Invented", "payload": {"a": 1}}}, {"event": {"type": "TurnEnd"}, "verbatim": true},
        {"request": {"type": "Invented", "payload": {}}, "id": "x", "wait": false},
        {"raw": "line"}, {"raw_base64": "AAE="},
        {"wait_cancel": true}, {"wait_steer": true}, {"wait_file": "f"},
        {"repeat": {"times": 2, "actions": [{"text": "{{round}}"}]}},
        {"stderr": "e"}, {"close_stdout": true}, {"ignore_eof": true}, {"stall": true}, {"delay": 1},
        {"end": "max_steps_reached", "steps": 4},
        {"event": {"type": "Notification", "payload": {}}}, {"exit": 3},
    ]);
    let script = script(json!({
        "wire": "1.3", "server": {"name": "n", "version": "v"}, "steer": true, "questions": true,
        "silent_errors": true, "session_file": "f",
        "slash_commands": [{"name": "compact", "description": "d", "aliases": []}],
        "before_handshake": [{"raw": "hello"}, {"event": {"type": "Invented"}}],
        "turns": [turn, [{"error": {"code": -32003, "message": "m", "data": {"a": 1}}}], [{"never_answer": true}],
            {"actions": [], "status": "cancelled"}],
    }));
    let script = script.expect("fine");
    assert_eq!(script.turns.len(), 4);
    assert_eq!(script.turns[0].actions.len(), 31);
    assert_eq!(script.turns[0].actions[0].delay, Duration::from_millis(500));
    assert_eq!(script.turns[3].end, End::Cancelled);
    assert_eq!(script.profile.version, WireVersion::new(1, 3));
    assert!(script.profile.steer && script.profile.questions && script.profile.silent);
    let Kind::End(End::Failed(failure)) = &script.turns[1].actions[0].kind else { unreachable!("an error") };
    assert_eq!((failure.code, &*failure.message), (-32003, "m"));
}

#[test]
fn list_is_script_of_newest_version() {
    let script = Script::parse("\u{feff}[[]]").expect("fine");
    assert_eq!(script.profile.version, WireVersion::LATEST);
    assert_eq!(script.profile.server.name, "kimi-scripted-agent");
    assert!(script.profile.steer && script.profile.questions);
    assert!(!Script::parse(r#"{"wire": "1.3"}"#).expect("fine").profile.steer);
}

#[test]
fn release_has_its_own_features() {
    let old = Script::parse(r#"{"release": "0.58"}"#).expect("fine");
    assert!(old.profile.legacy && old.half_duplex);
    assert!(!Script::parse(r#"{"wire": "legacy", "half_duplex": false}"#).expect("fine").half_duplex);
    let newer = Script::parse(r#"{"release": "0.70", "silent_errors": false}"#).expect("fine");
    assert_eq!((newer.profile.version, newer.profile.silent, newer.half_duplex), (WireVersion::V1_0, false, false));
    assert_eq!(newer.profile.server.version, "0.70");
    let kimi_code = Script::parse(r#"{"release": "2.1.0"}"#).expect("fine").profile;
    assert_eq!((kimi_code.acp, &*kimi_code.server.version), (true, "2.1.0"));
    let acp = Script::parse(r#"{"wire": "acp"}"#).expect("fine").profile;
    assert_eq!((acp.acp, &*acp.server.name), (true, "kimi-scripted-agent"));
}
