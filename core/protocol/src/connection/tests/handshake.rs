use super::*;

fn opening() -> Peer {
    let mut peer = Peer::new(timing(), AnswerSources::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    peer
}

#[test]
fn handshake_answer_opens_session_with_capabilities() {
    let mut peer = opening();
    assert!(peer.connection.poll_timeout().is_some());
    peer.answer("initialize", &welcome("1.10"));
    let Some(Output::Opened(Ok(welcome))) = peer.next_output() else { panic!("not open") };
    assert_eq!(welcome.server.expect("a server").name, "Agent");
    assert_eq!(welcome.capabilities.hooks, ["Stop"]);
    assert!(welcome.capabilities.steer && welcome.capabilities.external_tools && welcome.capabilities.replay);
    assert_eq!(peer.connection.poll_timeout(), None);
}

#[test]
fn agent_without_handshake_speaks_1_0() {
    let mut peer = opening();
    peer.refuse("initialize", -32601);
    let Some(Output::Opened(Ok(welcome))) = peer.next_output() else { panic!("not open") };
    assert_eq!(welcome.protocol_version, "1.0");
    assert_eq!(welcome.server, None);
    assert_eq!(welcome.capabilities, crate::Capabilities::default());
    peer.prompt(1);
    peer.cancel(1);
    peer.look();
    // Agents up to kimi-cli 0.72 take no parameters there.
    assert_eq!(peer.sent.last().expect("a cancel").get("params"), None);
}

#[test]
fn dialect_1_0_sends_no_handshake() {
    let mut peer = Peer::speaking(Wire::pinned(WireVersion::V1_0), timing(), AnswerSources::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    assert_eq!(peer.trace(), ["opened 1.0"]);
    assert_eq!(peer.connection.poll_timeout(), None);
    peer.prompt(1);
    assert_eq!(peer.said(), ["prompt"]);
}

#[test]
fn pinned_version_is_kept() {
    let mut peer = Peer::speaking(Wire::pinned(WireVersion::new(1, 2)), timing(), AnswerSources::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    peer.answer("initialize", &welcome("1.10"));
    assert_eq!(peer.trace(), ["opened 1.2"]);
    assert_eq!(peer.connection.set_plan_mode(true, peer.now).unwrap_err().code(), "unsupported");
}

#[test]
fn feature_unknown_to_agent_is_unsupported() {
    let mut peer = Peer::speaking(Wire::pinned(WireVersion::new(1, 10)), timing(), AnswerSources::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    peer.answer("initialize", &welcome("1.2"));
    assert_eq!(peer.trace(), ["opened 1.10"]);
    let refusal = |peer: &mut Peer, code| {
        peer.connection.set_plan_mode(true, peer.now).unwrap();
        peer.look();
        peer.refuse("set_plan_mode", code);
        loop {
            match peer.next_output() {
                Some(Output::CallEnded { outcome, .. }) => break outcome.unwrap_err(),
                Some(_) => {}
                None => panic!("the call has not ended"),
            }
        }
    };
    let error = refusal(&mut peer, -32601);
    assert_eq!(error.code(), "unsupported");
    let expected = "(Wire 1.2) does not support `set_plan_mode`, which came with Wire 1.4; check";
    assert!(error.to_string().contains(expected), "{error}");
    // Another code is the agent's own word.
    assert_eq!(refusal(&mut peer, -32602).code(), "rpc_error");
}

#[test]
fn pinned_version_decides_about_hooks() {
    let hooks = |pinned| {
        let mut peer = Peer::speaking(Wire::pinned(pinned), timing(), AnswerSources::default());
        peer.connection.open(InitializeParams::default(), peer.now);
        let mut answer = welcome("1.10");
        answer["hooks"] = json!({"supported_events": ["Stop"], "configured": {}});
        peer.answer("initialize", &answer);
        let Some(Output::Opened(Ok(welcome))) = peer.next_output() else { panic!("not opened") };
        welcome.capabilities.hooks
    };
    assert_eq!(hooks(WireVersion::new(1, 7)), [""; 0]);
    assert_eq!(hooks(WireVersion::new(1, 8)), ["Stop"]);
}

#[test]
fn refused_handshake_ends_opening_once() {
    let mut peer = opening();
    peer.refuse("initialize", -32602);
    assert_eq!(peer.trace(), ["opened handshake_error"]);
    assert_eq!(peer.connection.poll_timeout(), None);
    peer.connection.close(&Error::session_closed());
    assert_eq!(peer.trace(), [""; 0]);
}

#[test]
fn handshake_refused_without_id_ends_opening() {
    let mut peer = opening();
    peer.line(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "Invalid Request"}}));
    assert_eq!(peer.trace(), ["opened handshake_error"]);
    assert_eq!(peer.connection.poll_timeout(), None);
}

#[test]
fn unreadable_handshake_answer_names_field() {
    for (result, part) in [
        (json!({"server": {"name": "A", "version": "1"}, "slash_commands": []}), "protocol_version"),
        (json!({"protocol_version": "one", "server": {"name": "A", "version": "1"}}), "`one`"),
        (json!({"protocol_version": 7, "server": {"name": "A", "version": "1"}}), "protocol_version"),
    ] {
        let mut peer = opening();
        peer.answer("initialize", &result);
        let Some(Output::Opened(Err(error))) = peer.next_output() else { panic!("open with {result}") };
        assert_eq!(error.code(), "handshake_error");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn handshake_without_agent_name_opens() {
    let named = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
    for (server, expected) in [
        (json!(null), None),
        (json!([]), None),
        (json!({"name": 7, "version": "1"}), named("", "1")),
        (json!({"name": "A"}), named("A", "")),
    ] {
        let mut peer = opening();
        peer.answer("initialize", &json!({"protocol_version": "1.10", "server": server, "slash_commands": 5}));
        let Some(Output::Opened(Ok(handshake))) = peer.next_output() else { panic!("refused: {server}") };
        assert_eq!(handshake.server.map(|server| (server.name, server.version)), expected, "{server}");
    }
}

#[test]
fn silent_handshake_times_out_quoting_output() {
    let mut peer = opening();
    peer.text("Loading the model…");
    peer.wait(59 * SECOND);
    peer.connection.handle_timeout(peer.now);
    assert_eq!(peer.trace(), [""; 0]);
    peer.pass();
    let Some(Output::Opened(Err(error))) = peer.next_output() else { panic!("open") };
    assert!(error.is_timeout() && error.to_string().contains("Loading the model…"), "{error}");
    // A later answer is ignored.
    peer.answer("initialize", &welcome("1.10"));
    peer.connection.handle_timeout(peer.now);
    assert_eq!(peer.trace(), [""; 0]);
    assert_eq!(peer.connection.poll_timeout(), None);
}

#[test]
fn agent_with_only_invalid_lines_fails_handshake() {
    let mut peer = opening();
    peer.text("kimi --wire is gone, use something else");
    let exit = AgentExit { exit_code: Some(0), ..AgentExit::default() };
    let error = peer.connection.end_of_agent(exit.clone());
    assert_eq!(error.code(), "handshake_error");
    let text = error.to_string();
    assert!(text.contains("\"kimi --wire is gone, use something else\"") && text.contains("0.52 to 1.51"), "{text}");
    // An agent that printed nothing has just exited, and would again.
    let error = opening().connection.end_of_agent(exit.clone());
    let text = error.to_string();
    assert!(text.starts_with("the agent exited with code 0 before it answered the handshake; check"), "{text}");
    assert!(error.is_agent_exited() && !error.is_retryable(), "{text}");
    // Invalid lines of an agent that speaks Wire do not fail it.
    let mut peer = Peer::open();
    peer.text("noise");
    assert_eq!(peer.connection.end_of_agent(exit.clone()), Error::AgentExited(exit));
}

#[test]
fn server_banner_fails_handshake_without_its_token() {
    let mut peer = opening();
    for line in ["", "  ▐█▛█▛█▌  Kimi server ready  2.1.0", "  Local:    http://127.0.0.1:41234/#token=T0KEN"]
    {
        peer.text(line);
    }
    let Some(Output::Opened(Err(error))) = peer.next_output() else { panic!("the handshake has not failed") };
    let text = error.to_string();
    assert!(matches!(error, Error::Handshake(_)) && text.contains("set `dialect` to \"kimi-web\""), "{text}");
    assert!(!text.contains("T0KEN"), "{text}");
}

#[test]
fn events_before_answer_are_outside_turns() {
    let mut peer = opening();
    peer.event("MCPLoadingBegin", &json!({}));
    assert_eq!(peer.trace(), ["outside MCPLoadingBegin"]);
}

#[test]
fn request_before_failed_handshake_is_withdrawn() {
    for refused in [true, false] {
        let mut peer =
            Peer::new(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
        peer.connection.open(InitializeParams::default(), peer.now);
        peer.request("r", "ApprovalRequest", &approval("a"));
        if refused {
            peer.refuse("initialize", -32602);
        } else {
            peer.pass();
        }
        let why = if refused { "handshake_error" } else { "timeout" };
        assert_eq!(
            peer.trace(),
            ["outside ApprovalRequest", "ask ApprovalRequest", &format!("opened {why}"), "withdrawn"]
        );
    }
}

#[test]
fn handshake_offers_only_fields_of_version() {
    let mut peer = Peer::new(timing(), AnswerSources::default());
    let hello = InitializeParams {
        client_name: "me".into(),
        client_version: "1".into(),
        tools: vec![crate::dialect::ToolOffer { name: "t".into(), description: "d".into(), parameters: json!({}) }],
        hooks: vec![crate::dialect::HookOffer {
            id: "h".into(),
            event: "Stop".into(),
            matcher: None,
            timeout: Some(2),
        }],
        supports_question: true,
        tools_server: None,
        model: None,
        services: Default::default(),
    };
    peer.connection.open(hello, peer.now);
    peer.look();
    assert_eq!(
        peer.sent[0]["params"],
        json!({
            "protocol_version": "1.10",
            "client": {"name": "me", "version": "1"},
            "capabilities": {"supports_question": true, "supports_plan_mode": true},
            "external_tools": [{"name": "t", "description": "d", "parameters": {}}],
            // Null for the matcher would fail the whole handshake.
            "hooks": [{"id": "h", "event": "Stop", "timeout": 2}],
        })
    );
    assert!(peer.sent[0]["id"].is_string());
}

#[test]
fn echoed_handshake_is_refused() {
    for pinned in [None, Some(WireVersion::new(1, 10))] {
        let dialect = pinned.map_or_else(|| Wire::new(WireVersion::LATEST), Wire::pinned);
        let mut peer = Peer::speaking(dialect, timing(), AnswerSources::default());
        peer.connection.open(InitializeParams::default(), peer.now);
        peer.look();
        let request = peer.sent[0].clone();
        peer.line(&request);
        let Some(Output::Opened(Err(error))) = peer.next_output() else { panic!("not refused") };
        assert_eq!(error.code(), "handshake_error");
        assert!(error.to_string().contains("a copy of the request"), "{error}");
        // Nothing was written that could come back as an answer.
        peer.look();
        assert_eq!(peer.sent.len(), 1);
    }
}

#[test]
fn echoed_prompt_ends_session() {
    let mut peer = Peer::speaking(Wire::pinned(WireVersion::V1_0), timing(), AnswerSources::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    peer.prompt(1);
    peer.look();
    let request = peer.sent[0].clone();
    peer.line(&request);
    let trace = peer.trace();
    assert_eq!(trace[0], "opened 1.0");
    assert!(trace.iter().any(|line| line.contains("protocol_error")), "{trace:?}");
}

#[test]
fn missing_model_is_named_in_hint() {
    for (model, part) in [(Some("nope"), "named \"nope\""), (None, "`kimi login`")] {
        let mut peer = Peer::new(timing(), AnswerSources::default());
        let hello = InitializeParams { model: model.map(str::to_owned), ..InitializeParams::default() };
        peer.connection.open(hello, peer.now);
        peer.answer("initialize", &welcome("1.10"));
        peer.prompt(1);
        peer.refuse("prompt", -32001);
        let error = loop {
            match peer.next_output() {
                Some(Output::TurnEnded { outcome, .. }) => break outcome.unwrap_err(),
                Some(_) => {}
                None => panic!("the turn has not ended"),
            }
        };
        assert_eq!(error.code(), "llm_not_set");
        assert!(error.to_string().starts_with("no (-32001); ") && error.to_string().contains(part), "{error}");
    }
}
