//! Requests of an agent: approvals, the program's tools, questions, hooks, and others.

use serde_json::{Value, json};

use super::client::{Client, short};

const FINISHED: &str = "= {\"status\":\"finished\"}";

fn approving(response: Value) -> impl FnMut(&Value) -> Option<Value> {
    move |params| {
        let mut answer = response.clone();
        answer["request_id"] = params["payload"]["id"].clone();
        Some(answer)
    }
}

fn write_a_file() -> Value {
    json!({"tool_call": {"id": "t", "name": "WriteFile",
        "approve": {"id": "ap", "action": "edit file", "description": "Write a.txt"},
        "effect": {"write_file": "a.txt", "content": "x"}, "result": "written"}})
}

#[test]
fn approved_action_happens() {
    let mut client = Client::open(json!([[write_a_file(), {"text": "{{last.response}}"}]]));
    let id = client.prompt("go");
    let told = client.answering(&id, approving(json!({"response": "approve"})));
    let expected = [
        "TurnBegin go",
        "StepBegin 1",
        "ToolCall WriteFile",
        "? ApprovalRequest Write a.txt",
        "ApprovalResponse approve",
        "ToolResult written",
        "StepBegin 2",
        "ContentPart approve",
        "TurnEnd",
        FINISHED,
    ];
    assert_eq!(told, expected);
    assert_eq!(client.file("a.txt").as_deref(), Some("x"));
}

#[test]
fn approval_request_has_scripted_fields() {
    let mut client = Client::open(json!([[
        {"tool_call": {"id": "t", "name": "Shell", "approve": {"id": "ap", "sender": "s", "source_kind": "foreground_turn",
            "source_id": "1", "display": [{"type": "shell", "language": "bash", "command": "{{prompt}}"}]}}},
        {"tool_call": {"name": "Shell", "approve": true}},
    ]]));
    client.prompt("ls");
    let request = client.read_until("ApprovalRequest");
    assert_eq!(request["id"], "ap");
    let expected = json!({"id": "ap", "tool_call_id": "t", "sender": "s", "action": "use Shell",
        "description": "Use Shell", "source_kind": "foreground_turn", "source_id": "1",
        "display": [{"type": "shell", "language": "bash", "command": "ls"}]});
    assert_eq!(request["params"]["payload"], expected);
    client.answer(&json!("ap"), json!({"request_id": "ap", "response": "approve"}));
    let request = client.read_until("ApprovalRequest");
    assert_eq!(request["params"]["payload"]["sender"], "Shell");
    assert_eq!(request["params"]["payload"]["display"], json!([]));
}

#[test]
fn rejected_action_ends_turn_without_effect() {
    for response in [json!({"response": "reject"}), json!({"response": "perhaps"}), json!({})] {
        let mut client = Client::open(json!([[write_a_file(), {"text": "never"}]]));
        let id = client.prompt("go");
        let told = client.answering(&id, approving(response));
        let expected = ["ApprovalResponse reject", "ToolResult Rejected by the user.", "TurnEnd", FINISHED];
        assert_eq!(told[4..], expected);
        assert_eq!(client.file("a.txt"), None);
    }
}

#[test]
fn error_as_answer_rejects() {
    let mut client = Client::open(json!([[write_a_file()]]));
    let id = client.prompt("go");
    client.read_until("ApprovalRequest");
    client.send(&json!({"jsonrpc": "2.0", "id": "ap", "error": {"code": -32601, "message": "no"}}));
    assert_eq!(client.rest(&id)[0], "ApprovalResponse reject");
}

#[test]
fn rejection_with_feedback_continues_turn() {
    let mut other = write_a_file();
    other["tool_call"]["feedback_result"] = json!({"is_error": true, "message": "told: {{last.feedback}}"});
    let mut client = Client::open(json!([[write_a_file(), {"text": "so: {{last.feedback}}"}, other]]));
    let id = client.prompt("go");
    let told = client.answering(&id, approving(json!({"response": "reject", "feedback": "not this"})));
    let expected = [
        "ApprovalResponse reject",
        "ToolResult Rejected by the user: not this",
        "StepBegin 2",
        "ContentPart so: not this",
        "ToolCall WriteFile",
        "? ApprovalRequest Write a.txt",
        "ApprovalResponse reject",
        "ToolResult told: not this",
        "TurnEnd",
        FINISHED,
    ];
    assert_eq!(told[4..], expected);
    assert_eq!(client.file("a.txt"), None);
}

#[test]
fn approve_for_session_approves_later_actions() {
    let mut client = Client::open(json!([[write_a_file(), write_a_file()], [write_a_file()]]));
    let id = client.prompt("1");
    let told = client.answering(&id, approving(json!({"response": "approve_for_session"})));
    assert_eq!(told.iter().filter(|line| line.starts_with('?')).count(), 1);
    assert_eq!(client.turn("2")[3], "ToolResult written");
}

#[test]
fn approve_for_session_approves_parallel_requests() {
    let call = |id: &str| {
        let mut call = write_a_file();
        call["tool_call"]["approve"]["id"] = json!(id);
        call
    };
    let mut client = Client::open(json!([[{"parallel": [call("one"), call("two")]}]]));
    let id = client.prompt("go");
    let told = client.answering(&id, |params| {
        (params["payload"]["id"] == "two").then(|| json!({"request_id": "two", "response": "approve_for_session"}))
    });
    let expected = [
        "ToolCall WriteFile",
        "ToolCall WriteFile",
        "? ApprovalRequest Write a.txt",
        "? ApprovalRequest Write a.txt",
        "ApprovalResponse approve_for_session",
        "ToolResult written",
        "ApprovalResponse approve",
        "ToolResult written",
        "TurnEnd",
        FINISHED,
    ];
    assert_eq!(told[2..], expected);
}

#[test]
fn yolo_sends_no_approval_request() {
    let mut client = Client::start(json!([[write_a_file()]]), &["--yolo"]);
    client.initialize(json!({}));
    assert_eq!(client.turn("go")[3], "ToolResult written");
}

fn with_tool() -> Value {
    json!({"external_tools": [{"name": "open", "description": "d", "parameters": {"type": "object"}}]})
}

#[test]
fn external_tool_result_is_passed_on() {
    let mut client = Client::start(
        json!([[{"external_tool": {"id": "t", "name": "open", "arguments": {"path": "{{prompt}}"}, "split": 1}},
            {"text": "{{last.output}}"}]]),
        &[],
    );
    assert_eq!(client.initialize(with_tool())["external_tools"]["accepted"], json!(["open"]));
    let id = client.prompt("a.txt");
    let request = client.read_until("ToolCallRequest");
    assert_eq!(request["id"], "t");
    assert_eq!(request["params"]["payload"], json!({"id": "t", "name": "open", "arguments": "{\"path\":\"a.txt\"}"}));
    let result = json!({"is_error": false, "output": "Opened", "message": "m", "display": []});
    client.answer(&json!("t"), json!({"tool_call_id": "t", "return_value": result}));
    assert_eq!(client.read()["params"]["payload"], json!({"tool_call_id": "t", "return_value": result}));
    assert_eq!(client.rest(&id), ["StepBegin 2", "ContentPart Opened", "TurnEnd", FINISHED]);
}

#[test]
fn failed_or_invalid_tool_gives_error_result() {
    let call = json!({"external_tool": {"id": "t", "name": "open"}});
    let mut client = Client::start(
        json!([[call, call, call], [{"external_tool": {"name": "unheard"}},
        {"external_tool": {"id": "f", "name": "unheard", "force": true}}]]),
        &[],
    );
    client.initialize(with_tool());
    client.prompt("go");
    let mut result_of = |message: Value| {
        client.read_until("ToolCallRequest");
        client.send(&message);
        client.read_until("ToolResult")["params"]["payload"]["return_value"].clone()
    };
    let failed = result_of(json!({"jsonrpc": "2.0", "id": "t", "error": {"code": -32000, "message": "boom"}}));
    assert_eq!((&failed["is_error"], &failed["message"]), (&json!(true), &json!("boom")));
    let nonsense = result_of(json!({"jsonrpc": "2.0", "id": "t", "result": {"tool_call_id": "t"}}));
    assert!(nonsense["message"].as_str().expect("text").contains("return_value"), "{nonsense}");
    let other = json!({"tool_call_id": "u", "return_value": {"is_error": false, "output": "", "message": ""}});
    let other = result_of(json!({"jsonrpc": "2.0", "id": "t", "result": other}));
    assert!(other["message"].as_str().expect("text").contains("another call"), "{other}");
    client.read_until("TurnEnd");
    client.read();
    client.prompt("unheard");
    assert_eq!(short(&client.read_until("ToolResult")), "ToolResult There is no tool `unheard`.");
    assert_eq!(client.read_until("ToolCallRequest")["id"], "f");
}

fn question() -> Value {
    json!({"question": {"id": "t", "request_id": "q", "questions": [
        {"question": "Which?", "header": "H", "options": ["A", {"label": "B", "description": "b"}]}]}})
}

#[test]
fn question_is_answered_or_dismissed() {
    let mut client =
        Client::open(json!([[question(), {"text": "{{last.answers.Which?}}"}], [question()], [question()]]));
    let id = client.prompt("ask");
    let request = client.read_until("QuestionRequest");
    let expected = json!([{"question": "Which?", "header": "H",
        "options": [{"label": "A"}, {"label": "B", "description": "b"}]}]);
    assert_eq!(request["params"]["payload"], json!({"id": "q", "tool_call_id": "t", "questions": expected}));
    client.answer(&json!("q"), json!({"request_id": "q", "answers": {"Which?": "A"}}));
    let told = client.rest(&id);
    assert_eq!(told[0], "ToolResult {\"answers\":{\"Which?\":\"A\"}}");
    assert_eq!(told[2], "ContentPart A");
    for answer in [json!({"result": {"request_id": "q", "answers": {}}}), json!({"error": {"code": 1, "message": ""}})]
    {
        let id = client.prompt("ask");
        client.read_until("QuestionRequest");
        let mut message = json!({"jsonrpc": "2.0", "id": "q"});
        message.as_object_mut().expect("object").extend(answer.as_object().expect("object").clone());
        client.send(&message);
        assert!(client.rest(&id)[0].contains("dismissed"));
    }
}

#[test]
fn client_without_questions_gets_none() {
    let mut client = Client::start(json!([[question()]]), &[]);
    client.initialize(json!({"capabilities": {}}));
    assert_eq!(client.turn("ask")[3], "ToolResult The client does not support questions.");
}

#[test]
fn scripted_request_answer_fills_templates() {
    let mut client = Client::open(json!([[
        {"request": {"type": "Invented", "payload": {"a": 1}}, "id": "r"},
        {"text": "{{last.b.0}} {{last}}"},
        {"request": {"type": "Invented"}, "id": "s"},
        {"text": "{{last.error.code}}"},
        {"request": {"type": "Invented"}, "wait": false},
    ]]));
    let id = client.prompt("go");
    let request = client.read_until("Invented");
    assert_eq!((&request["id"], &request["params"]["payload"]), (&json!("r"), &json!({"id": "r", "a": 1})));
    client.answer(&json!("r"), json!({"b": ["x"]}));
    assert_eq!(short(&client.read_until("ContentPart")), "ContentPart x {\"b\":[\"x\"]}");
    client.read_until("Invented");
    client.send(&json!({"jsonrpc": "2.0", "id": "s", "error": {"code": -32601, "message": "no"}}));
    let told = client.answering(&id, |_| None);
    assert_eq!(told, ["ContentPart -32601", "? Invented", "TurnEnd", FINISHED]);
}

fn with_hooks(hooks: Value) -> Value {
    json!({"hooks": hooks})
}

fn hook_answer(params: &Value, block: &str) -> Option<Value> {
    let payload = &params["payload"];
    let action = if payload["event"] == block { "block" } else { "allow" };
    Some(
        json!({"request_id": payload["id"], "action": action, "reason": if action == "block" { "policy" } else { "" }}),
    )
}

fn all_hooks() -> Value {
    with_hooks(json!([
        {"id": "pre", "event": "PreToolUse", "matcher": "^Write"},
        {"id": "other", "event": "PreToolUse", "matcher": "Shell"},
        {"id": "post", "event": "PostToolUse"},
        {"id": "failure", "event": "PostToolUseFailure"},
        {"id": "stop", "event": "Stop", "timeout": 60},
        {"id": "prompt", "event": "UserPromptSubmit"},
    ]))
}

#[test]
fn hooks_run_around_tools_and_turns() {
    let mut client = Client::start(json!([[{"tool_call": {"id": "t", "name": "WriteFile", "result": "ok"}}]]), &[]);
    client.initialize(all_hooks());
    let id = client.prompt("go");
    let mut asked = Vec::new();
    let told = client.answering(&id, |params| {
        asked.push(params["payload"].clone());
        hook_answer(params, "none")
    });
    let expected = [
        "HookTriggered UserPromptSubmit",
        "? HookRequest UserPromptSubmit",
        "HookResolved allow",
        "TurnBegin go",
        "StepBegin 1",
        "ToolCall WriteFile",
        "HookTriggered PreToolUse",
        "? HookRequest PreToolUse",
        "HookResolved allow",
        "HookTriggered PostToolUse",
        "ToolResult ok",
        "? HookRequest PostToolUse",
        "HookResolved allow",
        "HookTriggered Stop",
        "? HookRequest Stop",
        "HookResolved allow",
        "TurnEnd",
        FINISHED,
    ];
    assert_eq!(told, expected);
    assert_eq!(asked[0]["input_data"]["prompt"], "go");
    let data = &asked[1]["input_data"];
    assert_eq!((&asked[1]["subscription_id"], &asked[1]["target"]), (&json!("pre"), &json!("WriteFile")));
    assert_eq!((&data["tool_name"], &data["tool_call_id"]), (&json!("WriteFile"), &json!("t")));
    assert_eq!(asked[2]["input_data"]["tool_output"], "ok");
}

#[test]
fn blocking_hook_prevents_action() {
    let run = |block: &str| {
        let script = json!([[{"tool_call": {"name": "WriteFile", "effect": {"write_file": "a.txt"}, "result": "ok"}}]]);
        let mut client = Client::start(script, &[]);
        client.initialize(all_hooks());
        let id = client.prompt("go");
        let told = client.answering(&id, |params| hook_answer(params, block));
        (told, client.file("a.txt").is_some())
    };
    let (told, done) = run("PreToolUse");
    assert!(!done && told.contains(&"ToolResult policy".to_owned()), "{told:?}");
    let (told, done) = run("UserPromptSubmit");
    assert!(!done, "{told:?}");
    assert_eq!(told[2..6], ["HookResolved block", "TurnBegin go", "StepBegin 1", "ContentPart policy"]);
    let (told, done) = run("Stop");
    assert!(done && told.contains(&"ContentPart policy".to_owned()), "{told:?}");
    assert_eq!(told.iter().filter(|line| *line == "? HookRequest Stop").count(), 1);
}

#[test]
fn silent_or_failed_hook_allows() {
    let hooks = json!([{"id": "a", "event": "Stop", "timeout": 0}, {"id": "b", "event": "Stop"}]);
    let mut client = Client::start(json!([[{"text": "x"}], [{"text": "y"}]]), &[]);
    client.initialize(with_hooks(hooks));
    for _ in 0..2 {
        let id = client.prompt("go");
        client.read_until("HookTriggered");
        let mut request = client.read_until("HookRequest");
        if request["params"]["payload"]["subscription_id"] == "a" {
            request = client.read_until("HookRequest");
        }
        client.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": 1, "message": "broken"}}));
        assert_eq!(client.rest(&id), ["HookResolved allow", "TurnEnd", FINISHED]);
    }
}

#[test]
fn hooks_on_other_occasions_are_scripted() {
    let mut client = Client::start(
        json!([[
            {"hook": {"event": "Notification", "target": "t", "input_data": {"a": "{{prompt}}"}}},
            {"text": "{{last.action}} {{last.reason}}"},
            {"hook": {"event": "PreToolUse", "target": "WriteFile", "subscription_id": "unheard"}},
            {"tool_call": {"name": "WriteFile", "effect": {"write_file": "a.txt"}}},
            {"hook": {"event": "SessionEnd"}},
        ]]),
        &[],
    );
    client.initialize(with_hooks(json!([{"id": "n", "event": "Notification"}])));
    let id = client.prompt("go");
    let mut asked = Vec::new();
    let told = client.answering(&id, |params| {
        asked.push(params["payload"].clone());
        Some(json!({"request_id": params["payload"]["id"], "action": "block", "reason": "no"}))
    });
    assert_eq!(asked[0]["input_data"]["a"], "go");
    assert_eq!(asked[1]["subscription_id"], "unheard");
    assert_eq!(asked.len(), 2);
    assert!(
        told.contains(&"ContentPart block no".to_owned()) && told.contains(&"ToolResult no".to_owned()),
        "{told:?}"
    );
    assert_eq!(client.file("a.txt"), None);
}

#[test]
fn parallel_calls_run_concurrently() {
    let mut client = Client::start(
        json!([[{"parallel": [
            {"external_tool": {"id": "x", "name": "open"}},
            {"tool_call": {"name": "Shell", "approve": {"id": "ap"}, "result": "ran"}},
            {"tool_call": {"name": "Glob", "result": "found"}},
        ]}, {"text": "all"}]]),
        &[],
    );
    client.initialize(with_tool());
    let id = client.prompt("go");
    for _ in 0..8 {
        client.read();
    }
    client.answer(&json!("ap"), json!({"request_id": "ap", "response": "approve"}));
    assert_eq!(short(&client.read_until("ToolResult")), "ToolResult ran");
    let value = json!({"is_error": false, "output": "opened", "message": "", "display": []});
    client.answer(&json!("x"), json!({"tool_call_id": "x", "return_value": value}));
    let expected = ["ToolResult opened", "StepBegin 2", "ContentPart all", "TurnEnd", FINISHED];
    assert_eq!(client.rest(&id), expected);
}
