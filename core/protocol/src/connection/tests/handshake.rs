use super::*;

fn opening() -> Peer {
    let mut peer = Peer::new(timing(), Policy::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    peer
}

#[test]
fn an_answer_opens_the_session_and_tells_what_the_agent_can_do() {
    let mut peer = opening();
    assert!(peer.connection.next_deadline().is_some());
    peer.answer("initialize", &welcome("1.10"));
    let Some(Output::Opened(Ok(welcome))) = peer.connection.poll_output() else { panic!("not open") };
    assert_eq!(welcome.server.expect("a server").name, "Agent");
    assert_eq!(welcome.capabilities.hooks, ["Stop"]);
    assert!(welcome.capabilities.steer && welcome.capabilities.external_tools && welcome.capabilities.replay);
    assert_eq!(peer.connection.next_deadline(), None);
}

#[test]
fn an_agent_that_knows_no_handshake_speaks_1_0() {
    let mut peer = opening();
    peer.refuse("initialize", -32601);
    let Some(Output::Opened(Ok(welcome))) = peer.connection.poll_output() else { panic!("not open") };
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
fn one_that_must_speak_1_0_is_not_asked() {
    let mut peer = Peer::speaking(Wire::pinned(WireVersion::V1_0), timing(), Policy::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    assert_eq!(peer.trace(), ["opened 1.0"]);
    assert_eq!(peer.connection.next_deadline(), None);
    peer.prompt(1);
    assert_eq!(peer.said(), ["prompt"]);
}

#[test]
fn a_version_that_was_asked_for_stays() {
    let mut peer = Peer::speaking(Wire::pinned(WireVersion::new(1, 2)), timing(), Policy::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    peer.answer("initialize", &welcome("1.10"));
    assert_eq!(peer.trace(), ["opened 1.2"]);
    assert_eq!(peer.connection.set_plan_mode(true, peer.now).unwrap_err().code(), "unsupported");
}

#[test]
fn what_a_named_version_has_and_the_agent_does_not_know_is_unsupported() {
    let mut peer = Peer::speaking(Wire::pinned(WireVersion::new(1, 10)), timing(), Policy::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    peer.answer("initialize", &welcome("1.2"));
    assert_eq!(peer.trace(), ["opened 1.10"]);
    let refusal = |peer: &mut Peer, code| {
        peer.connection.set_plan_mode(true, peer.now).unwrap();
        peer.look();
        peer.refuse("set_plan_mode", code);
        loop {
            match peer.connection.poll_output() {
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
fn a_version_that_was_asked_for_has_its_own_hooks() {
    let hooks = |pinned| {
        let mut peer = Peer::speaking(Wire::pinned(pinned), timing(), Policy::default());
        peer.connection.open(InitializeParams::default(), peer.now);
        let mut answer = welcome("1.10");
        answer["hooks"] = json!({"supported_events": ["Stop"], "configured": {}});
        peer.answer("initialize", &answer);
        let Some(Output::Opened(Ok(welcome))) = peer.connection.poll_output() else { panic!("not opened") };
        welcome.capabilities.hooks
    };
    assert_eq!(hooks(WireVersion::new(1, 7)), [""; 0]);
    assert_eq!(hooks(WireVersion::new(1, 8)), ["Stop"]);
}

#[test]
fn a_refusal_ends_it_once() {
    let mut peer = opening();
    peer.refuse("initialize", -32602);
    assert_eq!(peer.trace(), ["opened handshake_error"]);
    assert_eq!(peer.connection.next_deadline(), None);
    peer.connection.close(&Error::SessionClosed);
    assert_eq!(peer.trace(), [""; 0]);
}

#[test]
fn an_answer_that_cannot_be_read_is_told_with_its_place() {
    for (result, part) in [
        (json!({"server": {"name": "A", "version": "1"}, "slash_commands": []}), "protocol_version"),
        (json!({"protocol_version": "one", "server": {"name": "A", "version": "1"}}), "`one`"),
        (json!({"protocol_version": "1.10", "server": {"name": 7, "version": "1"}}), "server.name"),
    ] {
        let mut peer = opening();
        peer.answer("initialize", &result);
        let Some(Output::Opened(Err(error))) = peer.connection.poll_output() else { panic!("open with {result}") };
        assert_eq!(error.code(), "handshake_error");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn silence_has_a_deadline_and_noise_is_quoted() {
    let mut peer = opening();
    peer.text("Loading the model…");
    peer.wait(59 * SECOND);
    peer.connection.on_deadline(peer.now);
    assert_eq!(peer.trace(), [""; 0]);
    peer.pass();
    let Some(Output::Opened(Err(error))) = peer.connection.poll_output() else { panic!("open") };
    assert!(error.is_timeout() && error.to_string().contains("Loading the model…"), "{error}");
    // What comes after is nobody's.
    peer.answer("initialize", &welcome("1.10"));
    peer.connection.on_deadline(peer.now);
    assert_eq!(peer.trace(), [""; 0]);
    assert_eq!(peer.connection.next_deadline(), None);
}

#[test]
fn an_agent_that_talks_of_other_things_and_leaves_never_spoke_wire() {
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
    // And noise of one that speaks Wire is no reason.
    let mut peer = Peer::open();
    peer.text("noise");
    assert_eq!(peer.connection.end_of_agent(exit.clone()), Error::AgentExited(exit));
}

#[test]
fn events_before_the_answer_are_outside_turns() {
    let mut peer = opening();
    peer.event("MCPLoadingBegin", &json!({}));
    assert_eq!(peer.trace(), ["outside MCPLoadingBegin"]);
}

#[test]
fn what_was_asked_before_a_handshake_that_fails_is_withdrawn() {
    for refused in [true, false] {
        let mut peer = Peer::new(timing(), Policy { approval: Who::Handler, ..Policy::default() });
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
fn the_offer_holds_what_the_agent_reads_and_no_more() {
    let mut peer = Peer::new(timing(), Policy::default());
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
fn program_that_echoes_the_handshake_is_refused() {
    for pinned in [None, Some(WireVersion::new(1, 10))] {
        let dialect = pinned.map_or_else(|| Wire::new(WireVersion::LATEST), Wire::pinned);
        let mut peer = Peer::speaking(dialect, timing(), Policy::default());
        peer.connection.open(InitializeParams::default(), peer.now);
        peer.look();
        let request = peer.sent[0].clone();
        peer.line(&request);
        let Some(Output::Opened(Err(error))) = peer.connection.poll_output() else { panic!("not refused") };
        assert_eq!(error.code(), "handshake_error");
        assert!(error.to_string().contains("a copy of the request"), "{error}");
        // Nothing was written that could come back as an answer.
        peer.look();
        assert_eq!(peer.sent.len(), 1);
    }
}

#[test]
fn program_that_echoes_a_prompt_ends_the_session() {
    let mut peer = Peer::speaking(Wire::pinned(WireVersion::V1_0), timing(), Policy::default());
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
fn missing_model_is_named_in_the_hint() {
    for (model, part) in [(Some("nope"), "named \"nope\""), (None, "`kimi login`")] {
        let mut peer = Peer::new(timing(), Policy::default());
        let hello = InitializeParams { model: model.map(str::to_owned), ..InitializeParams::default() };
        peer.connection.open(hello, peer.now);
        peer.answer("initialize", &welcome("1.10"));
        peer.prompt(1);
        peer.refuse("prompt", -32001);
        let error = loop {
            match peer.connection.poll_output() {
                Some(Output::TurnEnded { outcome, .. }) => break outcome.unwrap_err(),
                Some(_) => {}
                None => panic!("the turn has not ended"),
            }
        };
        assert_eq!(error.code(), "llm_not_set");
        assert!(error.to_string().starts_with("no (-32001); ") && error.to_string().contains(part), "{error}");
    }
}
