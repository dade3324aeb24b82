use super::*;

fn server(minor: u32) -> Server {
    let mut profile = Profile::new("s", "1");
    profile.version = WireVersion::new(1, minor);
    profile.steer = minor >= 4;
    profile.questions = minor >= 4;
    Server::new(profile)
}

/// The effect of a line: the input of the agent, and the lines to the client.
fn say(server: &mut Server, line: &str) -> (Option<Incoming>, Vec<Value>) {
    let incoming = server.receive(line.as_bytes());
    let output = String::from_utf8(server.take_output()).expect("UTF-8");
    (incoming, output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

fn call(server: &mut Server, method: &str, params: Value) -> (Option<Incoming>, Vec<Value>) {
    say(server, &json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params}).to_string())
}

fn error_code(answer: &(Option<Incoming>, Vec<Value>)) -> (i64, &Value) {
    assert_eq!((&answer.0, answer.1.len()), (&None, 1));
    assert_eq!(answer.1[0]["error"]["data"], Value::Null);
    (answer.1[0]["error"]["code"].as_i64().expect("an error"), &answer.1[0]["id"])
}

fn initialize(server: &mut Server, more: Value) -> Value {
    let mut params = json!({"protocol_version": "1.10"});
    params.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
    let (_, mut answers) = call(server, "initialize", params);
    answers.remove(0)["result"].take()
}

#[test]
fn unreadable_line_is_refused_without_id() {
    for (line, code) in [
        ("{", -32700),
        ("", -32700),
        ("\u{feff}{}", -32700),
        ("[]", -32600),
        ("null", -32600),
        ("7", -32600),
        ("{}", -32600),
        (r#"{"id":7,"method":"prompt","params":{"user_input":"x"}}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":"a","method":"prompt"}"#, -32600),
        (r#"{"id":"a"}"#, -32600),
    ] {
        assert_eq!(error_code(&say(&mut server(10), line)), (code, &Value::Null), "{line}");
    }
    let answer = server(10).receive(b"{\"a\":\"\xff\"}");
    assert_eq!(answer, None);
}

#[test]
fn unknown_or_incomplete_call_is_refused() {
    let server = &mut server(10);
    assert_eq!(error_code(&call(server, "dance", json!({}))), (-32601, &json!("1")));
    for (method, params) in [
        ("prompt", json!({})),
        ("prompt", json!({"user_input": 7})),
        ("steer", json!({})),
        ("set_plan_mode", json!({"enabled": "yes"})),
        ("initialize", json!({})),
        ("initialize", json!({"protocol_version": "1.1", "external_tools": [{}]})),
    ] {
        assert_eq!(error_code(&call(server, method, params)), (-32602, &json!("1")), "{method}");
    }
    assert_eq!(say(server, r#"{"method":"prompt","params":{"user_input":"no id"}}"#), (None, vec![]));
    assert_eq!(say(server, r#"{"id":"nobody","result":{}}"#), (None, vec![]));
}

#[test]
fn methods_unknown_to_version_are_refused() {
    for (method, params, since) in [
        ("initialize", json!({"protocol_version": "1.1"}), 1),
        ("replay", json!({}), 3),
        ("set_plan_mode", json!({"enabled": true}), 4),
    ] {
        for minor in 0..=10 {
            let (_, answers) = call(&mut server(minor), method, params.clone());
            let answer = answers.last().expect("an answer");
            assert_eq!(answer["error"]["code"] == -32601, minor < since, "{method} in 1.{minor}: {answer}");
        }
    }
    assert_eq!(error_code(&call(&mut server(3), "steer", json!({"user_input": "x"}))).0, -32601);
    assert_eq!(error_code(&call(&mut server(4), "steer", json!({"user_input": "x"}))).0, -32000);
}

#[test]
fn turn_accepts_only_steer_and_cancel() {
    let server = &mut server(10);
    assert_eq!(error_code(&call(server, "cancel", json!({}))).0, -32000);
    let (incoming, answers) = call(server, "prompt", json!({"user_input": "hi"}));
    assert_eq!((incoming, answers), (Some(Incoming::Prompt("hi".into())), vec![]));
    for (method, params) in [
        ("prompt", json!({"user_input": "again"})),
        ("initialize", json!({"protocol_version": "1.1"})),
        ("replay", json!({})),
    ] {
        assert_eq!(error_code(&call(server, method, params)).0, -32000, "{method}");
    }
    let (incoming, answers) = call(server, "steer", json!({"user_input": "left"}));
    assert_eq!(incoming, Some(Incoming::Steer("left".into())));
    assert_eq!(answers[0]["result"], json!({"status": "steered"}));
    let (incoming, answers) = call(server, "cancel", Value::Null);
    assert_eq!((incoming, &answers[0]["result"]), (Some(Incoming::Cancel), &json!({})));
    server.finish(Outcome::Cancelled);
    assert_eq!(say(server, "null").1[0], json!({"jsonrpc": "2.0", "id": "1", "result": {"status": "cancelled"}}));
    assert!(!server.is_running());
}

#[test]
fn abandoned_prompt_allows_next_prompt() {
    let server = &mut server(1);
    call(server, "prompt", json!({"user_input": "a"}));
    server.abandon(false);
    let (incoming, answers) = call(server, "cancel", json!({}));
    assert_eq!((incoming, &answers[0]["result"]), (None, &json!({})));
    assert_eq!(error_code(&call(server, "cancel", json!({}))).0, -32000);
    assert!(call(server, "prompt", json!({"user_input": "b"})).0.is_some());
}

#[test]
fn tools_are_accepted_or_rejected_with_reason() {
    let tool = |name: &str, parameters: Value| json!({"name": name, "description": "", "parameters": parameters});
    let tools = json!({"external_tools": [
        tool("good", json!({"type": "object", "properties": {}})),
        tool("bare", json!({})),
        tool("Shell", json!({"type": "object"})),
        tool("text", json!({"type": "string"})),
        tool("none", Value::Null),
        tool("properties", json!({"properties": []})),
        tool("required", json!({"required": [1]})),
    ]});
    let result = initialize(&mut server(10), tools);
    assert_eq!(result["external_tools"]["accepted"], json!(["good", "bare"]));
    let rejected = result["external_tools"]["rejected"].as_array().expect("list");
    let names: Vec<_> = rejected.iter().map(|tool| tool["name"].as_str().expect("name")).collect();
    assert_eq!(names, ["Shell", "text", "none", "properties", "required"]);
    assert_eq!(rejected[0]["reason"], "conflicts with builtin tool");
    assert!(rejected[4]["reason"].as_str().expect("text").contains("\"required\" must be a list of names"));
    assert_eq!(initialize(&mut server(10), json!({"external_tools": []})).get("external_tools"), None);
}

#[test]
fn handshake_names_features_of_version() {
    let hooks = json!({"hooks": [{"id": "a", "event": "Stop"}, {"id": "b", "event": "Stop", "matcher": null},
        {"id": "c", "event": "NoSuchEvent"}], "capabilities": {"supports_question": true}});
    let new = &mut server(8);
    let result = initialize(new, hooks.clone());
    assert_eq!(result["hooks"]["configured"], json!({"Stop": 2}));
    assert_eq!(result["capabilities"], json!({"supports_question": true}));
    assert_eq!((new.client().hooks.len(), new.client().supports_question), (2, true));
    let old = &mut server(3);
    let result = initialize(old, hooks);
    assert_eq!((result.get("hooks"), result.get("capabilities")), (None, None));
    assert_eq!(result["protocol_version"], "1.3");
    assert!(old.client().hooks.is_empty());
}

#[test]
fn answer_to_request_is_delivered_once() {
    let server = &mut server(10);
    server.request_of("q", "Invented", json!({"a": 1}));
    let (_, sent) = say(server, "{");
    assert_eq!(
        sent[0],
        json!({"jsonrpc": "2.0", "method": "request", "id": "q",
        "params": {"type": "Invented", "payload": {"a": 1}}})
    );
    let answer = r#"{"jsonrpc":"2.0","id":"q","result":{"b":2}}"#;
    assert_eq!(say(server, answer).0, Some(Incoming::Answer("q".into(), Ok(json!({"b": 2})))));
    assert_eq!(say(server, answer).0, None);
    server.request_of("r", "Invented", json!({}));
    let refused = say(server, r#"{"id":"r","error":{"code":-32601,"message":"no"}}"#).0;
    assert_eq!(refused, Some(Incoming::Answer("r".into(), Err(Failure::new(-32601, "no")))));
    server.request_of("s", "Invented", json!({}));
    server.withdraw("s");
    assert_eq!(server.unasked_answers(), 1);
    assert_eq!(say(server, r#"{"id":"s","result":{}}"#).0, None);
    assert_eq!(server.unasked_answers(), 2);
}

#[test]
fn past_is_replayed_with_old_ids() {
    let server = &mut server(10);
    server.event_of("ContentPart", json!({"type": "text", "text": "a"}));
    server.event_of("ContentPart", json!({"type": "text", "text": "b"}));
    server.request_of("old", "Invented", json!({}));
    server.take_output();
    let (_, sent) = call(server, "replay", json!({}));
    assert_eq!(sent[0]["params"]["payload"]["text"], "ab");
    assert_eq!((&sent[1]["method"], &sent[1]["id"]), (&json!("request"), &json!("old")));
    assert_eq!(sent[2]["result"], json!({"status": "finished", "events": 1, "requests": 1}));
}

#[test]
fn plan_mode_status_precedes_answer() {
    let (_, sent) = call(&mut server(4), "set_plan_mode", json!({"enabled": true}));
    assert_eq!(sent[0]["params"], json!({"type": "StatusUpdate", "payload": {"plan_mode": true}}));
    assert_eq!(sent[1]["result"], json!({"status": "ok", "plan_mode": true}));
}

#[test]
fn silent_server_answers_no_unknown_calls() {
    let mut server = server(0);
    server.profile.silent = true;
    assert_eq!(call(&mut server, "initialize", json!({"protocol_version": "1.1"})), (None, vec![]));
    assert_eq!(say(&mut server, "{"), (None, vec![]));
}

#[test]
fn tool_of_same_name_takes_its_place() {
    let server = &mut server(10);
    let tool = |description: &str| {
        json!({"external_tools": [
            {"name": "open", "description": description, "parameters": {}},
            {"name": "bad", "description": "", "parameters": 7}]})
    };
    initialize(server, tool("first"));
    initialize(server, json!({"external_tools": [{"name": "other", "parameters": {}}]}));
    assert_eq!(initialize(server, tool("second"))["external_tools"]["accepted"], json!(["open"]));
    let tools: Vec<_> = server.client().tools.iter().map(|tool| (&*tool.name, &*tool.description)).collect();
    assert_eq!(tools, [("open", "second"), ("other", "")]);
    assert!(server.client().has_tool("open") && !server.client().has_tool("bad"));
}

#[test]
fn hang_up_fails_pending_requests() {
    let server = &mut server(10);
    call(server, "prompt", json!({"user_input": "x"}));
    for id in ["b", "a", "c"] {
        server.request_of(id, "ApprovalRequest", json!({"id": id}));
    }
    say(server, r#"{"id":"a","result":{}}"#);
    let ids: Vec<_> = server
        .hang_up()
        .into_iter()
        .map(|incoming| match incoming {
            Incoming::Answer(id, Err(_)) => id,
            other => unreachable!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, ["b", "c"]);
    server.finish(Outcome::Finished);
    assert!(server.take_output().is_empty() && server.hang_up().is_empty());
}

#[test]
fn errors_have_their_codes() {
    let (server, legacy) = (server(10), Server::new(Profile::legacy("s", "1")));
    for (kind, code, legacy_code) in [
        (RpcErrorKind::TurnInProgress, -32000, -32000),
        (RpcErrorKind::LlmNotSet, -32001, -32001),
        (RpcErrorKind::LlmNotSupported, -32002, -32003),
        (RpcErrorKind::LlmServiceError, -32003, -32002),
        (RpcErrorKind::AuthExpired, -32004, -32099),
        (RpcErrorKind::Other, -32603, -32099),
    ] {
        assert_eq!((server.failure(kind, "").code, legacy.failure(kind, "").code), (code, legacy_code), "{kind:?}");
    }
}

#[test]
fn legacy_protocol_has_own_calls() {
    let server = &mut Server::new(Profile::legacy("s", "1"));
    for (method, params) in [("initialize", json!({"protocol_version": "1.1"})), ("prompt", json!({"user_input": "x"}))]
    {
        assert_eq!(call(server, method, params), (None, vec![]), "{method}");
    }
    assert_eq!(say(server, "{"), (None, vec![]));
    assert_eq!(call(server, "interrupt", json!({})).1[0]["result"], json!({"status": "idle"}));
    assert_eq!(error_code(&call(server, "run", json!({"input": 7}))).0, -32602);
    assert_eq!(call(server, "run", json!({"prompt": "hi"})), (Some(Incoming::Prompt("hi".into())), vec![]));
    assert_eq!(error_code(&call(server, "run", json!({"input": "x"}))).0, -32000);
    assert_eq!(say(server, r#"{"jsonrpc":"2.0","method":"interrupt","params":{}}"#), (Some(Incoming::Cancel), vec![]));
    let (incoming, answers) = call(server, "interrupt", json!({}));
    assert_eq!((incoming, &answers[0]["result"]), (Some(Incoming::Cancel), &json!({"status": "ok"})));
    server.event_of("TurnBegin", json!({}));
    server.event_of("StepBegin", json!({"n": 1}));
    server.finish(Outcome::MaxStepsReached(1));
    let (_, sent) = say(server, "{");
    assert_eq!(sent[0]["params"], json!({"type": "step_begin", "payload": {"n": 1}}));
    assert_eq!(sent[1]["result"], json!({"status": "max_steps_reached", "steps": 1}));
}
