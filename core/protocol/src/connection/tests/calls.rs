use super::*;

#[test]
fn unsupported_call_writes_nothing() {
    let mut peer = Peer::open_at("1.2", timing(), AnswerSources::default());
    peer.prompt(1);
    peer.said();
    let errors = [
        peer.connection.steer(1, "more".into(), peer.now).unwrap_err(),
        peer.connection.set_plan_mode(true, peer.now).unwrap_err(),
        {
            let mut idle = Peer::open_at("1.2", timing(), AnswerSources::default());
            idle.connection.start_replay(idle.now)
        }
        .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), "unsupported");
        assert!(error.to_string().contains("Agent 1.49.0 (Wire 1.2)"), "{error}");
    }
    assert_eq!(peer.said(), [""; 0]);
}

#[test]
fn unsupported_call_is_reported_before_other_refusals() {
    let none = |peer: &mut Peer| {
        let codes = [
            peer.connection.steer(7, "more".into(), peer.now).map_err(|error| error.code()),
            peer.connection.set_plan_mode(true, peer.now).map_err(|error| error.code()),
            peer.connection.start_replay(peer.now).map_err(|error| error.code()),
        ];
        assert_eq!(codes, [Err("unsupported"); 3]);
    };
    let mut peer = Peer::open_at("1.2", timing(), AnswerSources::default());
    none(&mut peer);
    peer.prompt(1);
    none(&mut peer);
    peer.cancel(1);
    none(&mut peer);
    peer.answer("prompt", &json!({"status": "cancelled"}));
    none(&mut peer);
    assert_eq!(peer.said(), ["prompt", "cancel"]);
    let mut legacy = Peer::new(timing(), AnswerSources::default());
    legacy.connection =
        Connection::new(Box::new(crate::dialect::Legacy::new(None)), timing(), AnswerSources::default());
    legacy.connection.open(InitializeParams::default(), legacy.now);
    none(&mut legacy);
    legacy.prompt(1);
    none(&mut legacy);
    assert_eq!(legacy.said(), ["run"]);
}

#[test]
fn newer_release_behind_old_number_keeps_capabilities() {
    let mut peer = Peer::new(timing(), AnswerSources::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    let mut result = welcome("1.3");
    result["server"]["version"] = json!("1.14.0");
    peer.answer("initialize", &result);
    let Some(Output::Opened(Ok(welcome))) = peer.next_output() else { panic!("not open") };
    assert!(welcome.capabilities.steer && welcome.capabilities.questions && !welcome.capabilities.plan_mode);
}

#[test]
fn calls_end_with_their_own_answers() {
    let mut peer = Peer::open();
    peer.prompt(1);
    let steer = peer.connection.steer(1, "more".into(), peer.now).expect("sent");
    let plan = peer.connection.set_plan_mode(true, peer.now).expect("sent");
    assert_eq!(peer.said(), ["prompt", "steer", "set_plan_mode"]);
    peer.event("StatusUpdate", &json!({"plan_mode": true}));
    peer.line(&json!({"id": format!("set_plan_mode-{plan}"), "result": {"status": "ok"}}));
    peer.line(&json!({"id": format!("steer-{steer}"), "error": {"code": -32603, "message": "no"}}));
    // A second answer to a call is ignored.
    peer.line(&json!({"id": format!("steer-{steer}"), "result": {}}));
    assert_eq!(peer.trace(), ["1.0 StatusUpdate", r#"call {"status":"ok"}"#, "call rpc_error"]);
    assert_eq!(peer.connection.status().unwrap().plan_mode, Some(true));
}

#[test]
fn rpc_code_maps_to_error_by_call() {
    let mut peer = Peer::open();
    for (code, meaning) in [
        (-32000, "turn_in_progress"),
        (-32001, "llm_not_set"),
        (-32002, "llm_not_supported"),
        (-32003, "llm_service_error"),
        (-32004, "auth_expired"),
        (-32603, "rpc_error"),
    ] {
        peer.prompt(1);
        peer.refuse("prompt", code);
        assert_eq!(peer.trace(), [format!("turn 1 {meaning}")]);
    }
    peer.prompt(2);
    peer.connection.steer(2, "more".into(), peer.now).expect("sent");
    peer.refuse("steer", -32000);
    assert_eq!(peer.trace(), ["call no_active_turn"]);
}

#[test]
fn steer_without_running_turn_is_refused() {
    let mut peer = Peer::open();
    assert_eq!(peer.connection.steer(1, "more".into(), peer.now).unwrap_err().code(), "no_active_turn");
    peer.prompt(1);
    assert_eq!(peer.connection.steer(2, "more".into(), peer.now).unwrap_err().code(), "no_active_turn");
    peer.cancel(1);
    assert_eq!(peer.connection.steer(1, "more".into(), peer.now).unwrap_err().code(), "no_active_turn");
    assert_eq!(peer.said(), ["prompt", "cancel"]);
}

#[test]
fn replay_delivers_past_without_state_change() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Yolo, ..AnswerSources::default() });
    peer.connection.start_replay(peer.now).expect("sent");
    assert_eq!(peer.connection.start_replay(peer.now).unwrap_err().code(), "turn_in_progress");
    peer.prompt(1);
    assert_eq!(peer.trace(), ["turn 1 turn_in_progress"]);
    peer.said();
    peer.event("TurnBegin", &json!({"user_input": "hi"}));
    peer.event("StatusUpdate", &json!({"plan_mode": true, "token_usage": usage(5)}));
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.request("r2", "Sparkle", &json!({}));
    peer.event("ApprovalResponse", &json!({"request_id": "a1", "response": "approve"}));
    peer.answer("replay", &json!({"status": "finished", "events": 3, "requests": 1}));
    assert_eq!(
        peer.trace(),
        [
            "replay TurnBegin",
            "replay StatusUpdate",
            "replay ApprovalRequest",
            "replay Sparkle",
            "replay ApprovalResponse",
            r#"call {"status":"finished","events":3,"requests":1}"#,
        ]
    );
    assert_eq!(peer.said(), [""; 0]);
    assert_eq!((peer.connection.usage().output, peer.connection.status()), (0, None));
    // The session continues.
    peer.prompt(2);
    peer.finish();
    assert_eq!(peer.trace(), ["2.0 TurnEnd", "turn 2 finished"]);
    peer.prompt(3);
    assert_eq!(peer.connection.start_replay(peer.now).unwrap_err().code(), "turn_in_progress");
}

#[test]
fn forgotten_call_produces_no_output() {
    let mut peer = Peer::open();
    let call = peer.connection.set_plan_mode(true, peer.now).expect("sent");
    peer.connection.forget_call(call);
    peer.answer("set_plan_mode", &json!({"status": "ok"}));
    peer.connection.close(&Error::session_closed());
    assert_eq!(peer.trace(), [""; 0]);
}

#[test]
fn invalid_lines_change_nothing() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.said();
    let nested = format!(r#"{{"method":"event","params":{}"#, "[".repeat(10_000));
    for line in [
        "",
        "   ",
        "null",
        "[]",
        "17",
        "true",
        "\"text\"",
        "{",
        "{}",
        "not JSON",
        "\u{feff}",
        r#"[{"jsonrpc":"2.0","method":"event"}]"#,
        r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?","data":null}}"#,
        r#"{"jsonrpc":"2.0","id":"prompt-1","error":"no object"}"#,
        &nested,
    ] {
        peer.text(line);
        assert_eq!(peer.trace(), [""; 0], "{line:.60}");
        assert_eq!(peer.said(), [""; 0], "{line:.60}");
    }
    peer.connection.handle_line(b"\xff", peer.now);
    assert_eq!(peer.trace(), [""; 0]);
}

#[test]
fn unknown_notification_is_delivered() {
    let mut peer = Peer::open();
    peer.text(r#"{"jsonrpc":"2.0","method":"_vendor/metadata","params":{"a":"b"}}"#);
    let Some(Output::Event { scope: Scope::Outside, event, .. }) = peer.next_output() else { panic!("no event") };
    let Event::Unknown(event) = *event else { panic!("it is known") };
    assert_eq!((&*event.kind, event.payload.get()), ("_vendor/metadata", r#"{"a":"b"}"#));
}

#[test]
fn unknown_event_is_delivered_whole() {
    let mut peer = Peer::open();
    peer.event("Sparkle", &json!({"colour": "gold"}));
    peer.event("StepBegin", &json!({"n": "one"}));
    let unknown: Vec<_> = std::iter::from_fn(|| peer.next_output())
        .map(|output| match output {
            Output::Event { event, .. } => match *event {
                Event::Unknown(event) => event,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((unknown[0].kind.as_str(), unknown[0].payload.get()), ("Sparkle", r#"{"colour":"gold"}"#));
    assert_eq!(unknown[0].error, None);
    assert_eq!((unknown[1].kind.as_str(), unknown[1].payload.get()), ("StepBegin", r#"{"n":"one"}"#));
    assert!(unknown[1].error.as_ref().is_some_and(|error| error.starts_with("n: ")), "{:?}", unknown[1].error);
}

#[test]
fn close_settles_everything_once_and_in_order() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
    peer.prompt(1);
    peer.connection.steer(1, "more".into(), peer.now).expect("sent");
    peer.connection.set_plan_mode(true, peer.now).expect("sent");
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.cancel(1);
    peer.request("r2", "ApprovalRequest", &{
        let mut background = approval("a2");
        background["source_kind"] = json!("background_agent");
        background
    });
    peer.prompt(2);
    peer.trace();
    let reason = Error::AgentExited(AgentExit::default());
    peer.connection.close(&reason);
    assert_eq!(
        peer.trace(),
        ["call agent_exited", "call agent_exited", "withdrawn", "turn 1 agent_exited", "turn 2 agent_exited"]
    );
    peer.connection.close(&Error::session_closed());
    peer.finish();
    assert_eq!(peer.trace(), [""; 0]);
    // The first reason stays.
    peer.prompt(3);
    assert_eq!(peer.trace(), ["turn 3 agent_exited"]);
    assert_eq!(peer.connection.set_plan_mode(true, peer.now).unwrap_err(), reason);
    assert_eq!(peer.connection.start_replay(peer.now).unwrap_err(), reason);
    assert_eq!(peer.connection.poll_timeout(), None);
}

#[test]
fn unanswered_call_times_out_and_session_continues() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.connection.steer(1, "more".into(), peer.now).expect("sent");
    peer.wait(SECOND);
    peer.connection.set_plan_mode(true, peer.now).expect("sent");
    // Events are not an answer.
    peer.event("StepBegin", &json!({"n": 1}));
    peer.trace();
    let before = peer.now;
    peer.pass();
    assert_eq!(peer.now - before, 59 * SECOND);
    let Some(Output::CallEnded { outcome: Err(error), .. }) = peer.next_output() else { panic!("no end") };
    assert!(error.to_string().starts_with("the agent did not answer `steer` within 60s; the session"), "{error}");
    peer.pass();
    assert_eq!(peer.trace(), ["call timeout"]);
    assert_eq!(peer.connection.poll_timeout(), None);
    // Late answers are ignored.
    peer.answer("steer", &json!({"status": "steered"}));
    peer.answer("set_plan_mode", &json!({"status": "ok"}));
    peer.finish();
    assert_eq!(peer.trace(), ["1.0 TurnEnd", "turn 1 finished"]);
}

#[test]
fn unreadable_answer_is_quoted_in_part() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.answer("prompt", &json!(["x".repeat(100_000)]));
    let Some(Output::TurnEnded { outcome: Err(error), .. }) = peer.next_output() else { panic!("no end") };
    let text = error.to_string();
    assert!(text.contains("answer to `prompt` can't be read") && text.len() < 1000, "{text}");
}
