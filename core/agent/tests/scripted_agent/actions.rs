//! Each action of an agent that needs no request.

use serde_json::{Value, json};

use super::client::{Client, short};

const FINISHED: &str = "= {\"status\":\"finished\"}";

#[test]
fn text_and_thinking_come_in_pieces() {
    let mut client = Client::open(json!([[
        {"think": ["Let me ", "think."], "delay_between": 0.001},
        {"text": "Hello"},
        {"text": [", ", "{{prompt}}!"], "bulk": true, "delay": 0.001},
    ]]));
    let told = client.turn("world");
    let expected = [
        "TurnBegin world",
        "StepBegin 1",
        "ContentPart Let me ",
        "ContentPart think.",
        "ContentPart Hello",
        "ContentPart , ",
        "ContentPart world!",
        "TurnEnd",
        FINISHED,
    ];
    assert_eq!(told, expected);
}

#[test]
fn prompt_parts_come_back_unchanged() {
    let mut client = Client::open(json!([[{"text": "{{prompt}}"}]]));
    let parts = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "text", "text": "b"}]);
    let id = client.call("prompt", json!({"user_input": parts}));
    assert_eq!(client.read()["params"]["payload"]["user_input"], parts);
    assert_eq!(client.rest(&id)[1], "ContentPart ab");
}

#[test]
fn steps_begin_after_tool_results_or_explicitly() {
    let mut client = Client::open(json!([[
        {"text": "a"},
        {"tool_call": {"name": "Shell", "arguments": {"command": "ls"}, "split": 2, "result": "a.txt"}},
        {"usage": {"input_other": 1, "output": 2}},
        {"text": "b"},
        {"step": null},
        {"text": "c"},
        {"step": 7},
        {"text": "d"},
    ]]));
    let expected = [
        "TurnBegin go",
        "StepBegin 1",
        "ContentPart a",
        "ToolCall Shell",
        "ToolCallPart {\"comman",
        "ToolCallPart d\":\"ls\"}",
        "ToolResult a.txt",
        "StatusUpdate",
        "StepBegin 2",
        "ContentPart b",
        "StepBegin 3",
        "ContentPart c",
        "StepBegin 7",
        "ContentPart d",
        "TurnEnd",
        FINISHED,
    ];
    assert_eq!(client.turn("go"), expected);
}

#[test]
fn tool_call_is_sent_unchanged() {
    let display = json!([{"type": "brief", "text": "b"}]);
    let mut client = Client::open(json!([[
        {"tool_call": {"id": "x", "name": "Shell", "arguments": "not JSON",
            "result": {"is_error": true, "output": [{"type": "text", "text": "o"}], "message": "m", "display": display}}},
        {"tool_call": {"name": "Glob"}},
    ]]));
    client.prompt("go");
    let call = client.read_until("ToolCall");
    assert_eq!(
        call["params"]["payload"],
        json!({"type": "function", "id": "x", "function": {"name": "Shell", "arguments": "not JSON"}})
    );
    let result = client.read_until("ToolResult");
    assert_eq!(
        result["params"]["payload"],
        json!({"tool_call_id": "x", "return_value": {"is_error": true, "output": [{"type": "text", "text": "o"}],
            "message": "m", "display": display}})
    );
    let call = client.read_until("ToolCall");
    assert_eq!(call["params"]["payload"]["id"], "tc_2");
    assert_eq!(call["params"]["payload"]["function"]["arguments"], "{}");
}

#[test]
fn effects_happen_in_working_directory() {
    let mut client = Client::open(json!([[
        {"tool_call": {"name": "WriteFile", "effect": {"write_file": "a.txt", "content": "<{{prompt}}>"}, "result": "ok"}},
        {"tool_call": {"name": "WriteFile", "effect": {"write_file": "no/such/dir"}, "result": "ok"}},
    ]]));
    let told = client.turn("hi");
    assert_eq!(client.file("a.txt").as_deref(), Some("<hi>"));
    assert_eq!(told[3], "ToolResult ok");
    assert!(told[6].contains("no/such/dir"), "{told:?}");
}

#[test]
fn usage_and_status_are_status_updates() {
    let mut client = Client::open(json!([[
        {"usage": {"input_other": 1, "output": 2, "input_cache_read": 3}, "context_usage": 0.5, "message_id": "m",
            "plan_mode": true},
        {"status": {"context_tokens": 9}},
    ]]));
    let id = client.prompt("go");
    client.read_until("StepBegin");
    let usage = json!({"input_other": 1, "output": 2, "input_cache_read": 3, "input_cache_creation": 0});
    assert_eq!(
        client.read()["params"]["payload"],
        json!({"context_usage": 0.5, "message_id": "m", "plan_mode": true, "token_usage": usage})
    );
    assert_eq!(client.read()["params"]["payload"], json!({"context_tokens": 9}));
    assert_eq!(client.rest(&id), ["TurnEnd", FINISHED]);
}

#[test]
fn script_can_send_any_event_and_bytes() {
    let mut client = Client::open(json!([[
        {"event": {"type": "Invented", "payload": {"a": null, "said": "{{prompt}}"}}},
        {"raw": "[1, 2"},
        {"raw_base64": "/wAKeCI="},
        {"raw": ""},
    ]]));
    let id = client.prompt("hi");
    client.read_until("TurnBegin");
    assert_eq!(client.read()["params"], json!({"type": "Invented", "payload": {"a": null, "said": "hi"}}));
    assert_eq!(client.read_line().as_deref(), Some("[1, 2"));
    assert_eq!(client.read_line().as_deref(), Some("\u{fffd}\0"));
    assert_eq!(client.read_line().as_deref(), Some("x\""));
    assert_eq!(client.rest(&id), ["TurnEnd", FINISHED]);
}

#[test]
fn turn_ends_with_scripted_status() {
    let mut client = Client::open(json!([
        [{"text": "a"}, {"end": "cancelled"}],
        {"actions": [{"text": "a"}], "status": "max_steps_reached"},
        [{"end": "max_steps_reached", "steps": 9}],
        [{"text": "a"}, {"error": {"code": -32003, "message": "down", "data": {"why": "x"}}}],
        [{"text": "a"}, {"end": "finished"}, {"event": {"type": "Notification", "payload": {"id": "n"}}}],
    ]));
    assert_eq!(client.turn("1")[3..], ["TurnEnd", "= {\"status\":\"cancelled\"}"]);
    assert_eq!(client.turn("2")[3..], ["TurnEnd", "= {\"status\":\"max_steps_reached\",\"steps\":1}"]);
    assert_eq!(client.turn("3")[1..], ["TurnEnd", "= {\"status\":\"max_steps_reached\",\"steps\":9}"]);
    let id = client.prompt("4");
    let error = std::iter::repeat_with(|| client.read()).find(|message| message["id"] == *id).expect("an answer");
    assert_eq!(error["error"], json!({"code": -32003, "message": "down", "data": {"why": "x"}}));
    assert_eq!(client.turn("5").last().map(String::as_str), Some(FINISHED));
    assert_eq!(short(&client.read()), "Notification");
    assert_eq!(client.turn("6")[2], "ContentPart (script exhausted)");
}

#[test]
fn early_prompt_runs_after_previous_turn() {
    let mut client = Client::open(json!([
        [{"end": "finished"}, {"wait_file": "go"}, {"event": {"type": "Notification", "payload": {}}}],
        [{"text": "second"}],
    ]));
    client.turn("1");
    let id = client.prompt("2");
    std::fs::write(client.dir().join("go"), "").expect("a file");
    assert_eq!(client.rest(&id)[..2], ["Notification", "TurnBegin 2"]);
}

#[test]
fn repeat_action_counts_rounds() {
    let mut client = Client::open(json!([[
        {"repeat": {"times": 2, "actions": [{"text": "{{round}}"},
            {"repeat": {"times": 2, "actions": [{"text": "in {{round}}"}]}}]}},
        {"repeat": {"times": 5000, "actions": [{"text": "x"}]}, "bulk": true},
    ]]));
    let told = client.turn("go");
    let text: Vec<_> = told[2..8].iter().map(|line| line.trim_start_matches("ContentPart ")).collect();
    assert_eq!(text, ["1", "in 1", "in 2", "2", "in 1", "in 2"]);
    assert_eq!(told.len(), 2 + 6 + 5000 + 2);
}

#[test]
fn templates_fill_arguments_environment_and_prompt() {
    let mut client = Client::start(
        json!([[{"text": "{{argv.0}} {{env.SCRIPTED}} {{session}} {{prompt}} [{{steer}}{{last.x}}{{env.NO_SUCH}}] {{y}}"}]]),
        &["--session", "s1"],
    );
    assert_eq!(client.turn("p")[2], "ContentPart --wire from outside s1 p [] {{y}}");
}

#[test]
fn number_of_steps_has_limit() {
    let script = json!([[
        {"tool_call": {"name": "Glob"}}, {"tool_call": {"name": "Glob"}}, {"tool_call": {"name": "Glob"}},
    ]]);
    let mut client = Client::start(script, &["--max-steps-per-turn=2"]);
    let told = client.turn("go");
    assert_eq!(told.iter().filter(|line| line.starts_with("StepBegin")).count(), 2);
    assert_eq!(told.last().map(String::as_str), Some("= {\"status\":\"max_steps_reached\",\"steps\":2}"));
}

#[test]
fn steer_reaches_model_with_next_step() {
    let mut client = Client::open(json!([
        [{"text": "a"}, {"wait_steer": true}, {"text": "you said {{steer}}"}],
        [{"text": "b"}, {"wait_file": "go"}],
    ]));
    assert_eq!(client.call("steer", json!({"user_input": "idle"})), "c2");
    assert_eq!(short(&client.read()), "error -32000");
    let id = client.prompt("1");
    client.read_until("ContentPart");
    client.call("steer", json!({"user_input": "left"}));
    let expected = [
        "= {\"status\":\"steered\"}",
        "SteerInput left",
        "StepBegin 2",
        "ContentPart you said left",
        "TurnEnd",
        FINISHED,
    ];
    assert_eq!(client.rest(&id), expected);
    let id = client.prompt("2");
    client.read_until("ContentPart");
    client.call("steer", json!({"user_input": "wait"}));
    assert_eq!(short(&client.read()), "= {\"status\":\"steered\"}");
    std::fs::write(client.dir().join("go"), "").expect("a file");
    let expected = ["SteerInput wait", "StepBegin 2", "ContentPart (steered: wait)", "TurnEnd", FINISHED];
    assert_eq!(client.rest(&id), expected);
}

#[test]
fn second_prompt_is_refused_while_turn_runs() {
    let mut client = Client::open(json!([[{"wait_file": "go"}]]));
    let id = client.prompt("1");
    client.read_until("TurnBegin");
    client.prompt("2");
    assert_eq!(short(&client.read()), "error -32000");
    std::fs::write(client.dir().join("go"), "").expect("a file");
    assert_eq!(client.rest(&id), ["TurnEnd", FINISHED]);
}

#[test]
fn session_is_replayed_also_after_resume() {
    let script = json!({"session_file": "history", "turns": [[
        {"text": ["a", "b"]},
        {"tool_call": {"name": "Shell", "approve": {"id": "ap"}, "result": "done"}},
    ]]});
    let mut client = Client::start(script.clone(), &["--session=s1"]);
    client.initialize(json!({}));
    let id = client.prompt("1");
    client.answering(&id, |_| Some(json!({"request_id": "ap", "response": "approve"})));
    let replayed = |client: &mut Client| {
        let id = client.call("replay", json!({}));
        client.answering(&id, |_| None)
    };
    let expected = [
        "TurnBegin 1",
        "StepBegin 1",
        "ContentPart ab",
        "ToolCall Shell",
        "? ApprovalRequest Use Shell",
        "ApprovalResponse approve",
        "ToolResult done",
        "TurnEnd",
        "= {\"status\":\"finished\",\"events\":7,\"requests\":1}",
    ];
    assert_eq!(replayed(&mut client), expected);
    let dir = client.into_dir();
    let mut client = Client::start_in(dir, script.clone(), &["--session", "s1"]);
    assert_eq!(replayed(&mut client), expected);
    let dir = client.into_dir();
    let mut client = Client::start_in(dir, script.clone(), &["--continue"]);
    assert_eq!(replayed(&mut client), expected);
    let dir = client.into_dir();
    let mut client = Client::start_in(dir, script, &["--session", "other"]);
    assert_eq!(replayed(&mut client), ["= {\"status\":\"finished\",\"events\":0,\"requests\":0}"]);
}

#[test]
fn plan_mode_is_switched() {
    let mut client = Client::open(json!([]));
    let id = client.call("set_plan_mode", json!({"enabled": true}));
    assert_eq!(client.rest(&id), ["StatusUpdate", "= {\"status\":\"ok\",\"plan_mode\":true}"]);
}

#[test]
fn handshake_reports_server_and_commands() {
    let mut client = Client::start(
        json!({"server": {"name": "n", "version": "9"}, "slash_commands": [{"name": "compact", "description": "d"}],
            "before_handshake": [{"stderr": "note"}, {"raw": "noise"}]}),
        &[],
    );
    assert_eq!(client.read_line().as_deref(), Some("noise"));
    let told = client.initialize(json!({}));
    assert_eq!(told["protocol_version"], "1.10");
    assert_eq!(told["server"], json!({"name": "n", "version": "9"}));
    assert_eq!(told["slash_commands"], json!([{"name": "compact", "description": "d", "aliases": []}]));
    assert_eq!(told.get("external_tools"), None::<&Value>);
    assert_eq!(client.close().1, "note\n");
}
