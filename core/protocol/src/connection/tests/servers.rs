//! Unspecified behaviour of real servers, one test each; `docs/evidence/real-servers.md` has the list.

use super::*;
use crate::Approval;
use crate::dialect::Answer;
use crate::messages::ToolReturnValue;

fn asking() -> AnswerSources {
    let hooks = [("h".to_owned(), (crate::OnError::Allow, "UserPromptSubmit".to_owned()))];
    AnswerSources {
        approval: AnswerSource::Handler,
        question: AnswerSource::Handler,
        tools: ["add".to_owned()].into(),
        hooks: hooks.into(),
        observed: true,
        ..AnswerSources::default()
    }
}

fn asked_open() -> Peer {
    Peer::open_with(timing(), asking())
}

/// The requests that functions were asked, oldest first.
fn keys(peer: &mut Peer) -> Vec<RequestKey> {
    let outputs = std::iter::from_fn(|| peer.next_output());
    outputs.filter_map(|output| if let Output::Ask { key, .. } = output { Some(key) } else { None }).collect()
}

#[test]
fn call_ids_are_unique_strings() {
    let mut peer = Peer::open();
    peer.connection.set_plan_mode(true, peer.now).expect("sent");
    let replay = peer.connection.start_replay(peer.now).expect("sent");
    peer.line(&json!({"id": format!("replay-{replay}"), "result": {"status": "finished"}}));
    for turn in [1, 2] {
        peer.prompt(turn);
        peer.connection.steer(turn, "more".into(), peer.now).expect("sent");
        peer.cancel(turn);
        peer.answer("prompt", &json!({"status": "cancelled"}));
    }
    peer.look();
    let ids: Vec<_> = peer.sent.iter().map(|sent| sent["id"].as_str().expect("text").to_owned()).collect();
    assert_eq!(ids.len(), 9, "{ids:?}");
    let different: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
}

#[test]
fn error_without_id_ends_no_call() {
    let mut peer = asked_open();
    peer.prompt(1);
    peer.connection.set_plan_mode(true, peer.now).expect("sent");
    peer.request("r", "ApprovalRequest", &approval("a"));
    peer.trace();
    peer.said();
    for code in [-32700, -32600, -32601, -32602] {
        peer.line(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "what?", "data": null}}));
    }
    assert_eq!((peer.trace(), peer.said()), (vec![], vec![]));
    peer.answer("set_plan_mode", &json!({"status": "ok"}));
    peer.finish();
    assert_eq!(peer.trace(), [r#"call {"status":"ok"}"#, "1.0 TurnEnd", "withdrawn", "turn 1 finished"]);
}

#[test]
fn null_error_data_is_absent() {
    let mut peer = Peer::open();
    peer.prompt(1);
    let id = peer.id_of("prompt");
    peer.line(&json!({"id": id, "error": {"code": -32003, "message": "Error code: 401", "data": null}}));
    let Some(Output::TurnEnded { outcome: Err(Error::Rpc(error)), .. }) = peer.next_output() else { panic!("no end") };
    assert_eq!((error.rpc_code, error.message.as_str(), error.data), (Some(-32003), "Error code: 401", None));
}

#[test]
fn repeated_tool_call_id_keeps_answers_apart() {
    let mut peer = asked_open();
    let call = json!({"id": "t", "name": "add", "arguments": "{}"});
    let mut asked = Vec::new();
    for turn in [1, 2] {
        peer.prompt(turn);
        peer.said();
        peer.request("t", "ToolCallRequest", &call);
        asked.extend(keys(&mut peer));
        if turn == 1 {
            peer.finish();
            peer.trace();
        }
    }
    // The first one's function is late: its answer must not be taken for the second's.
    peer.connection.answer(asked[0], &Answer::Tool(ToolReturnValue::ok("1")), peer.now);
    assert_eq!(peer.said(), [""; 0]);
    peer.connection.answer(asked[1], &Answer::Tool(ToolReturnValue::ok("2")), peer.now);
    let said = peer.said();
    assert!(said.len() == 1 && said[0].contains(r#""output":"2""#), "{said:?}");
}

#[test]
fn ids_of_requests_have_any_form() {
    let mut peer = asked_open();
    peer.prompt(1);
    peer.said();
    let uuid = "6f1c0f5e-0b5c-4d0e-9a36-3f2b8a1d7c11";
    peer.request(uuid, "ApprovalRequest", &approval(uuid));
    let payload = json!({"id": "0123456789ab", "subscription_id": "h", "event": "UserPromptSubmit"});
    peer.request("0123456789ab", "HookRequest", &payload);
    let asked = keys(&mut peer);
    peer.connection.answer(asked[1], &Answer::Hook(crate::HookDecision::Allow), peer.now);
    peer.connection.answer(asked[0], &Answer::Approval(Approval::Approve), peer.now);
    assert_eq!(
        peer.said(),
        [
            r#""0123456789ab" {"request_id":"0123456789ab","action":"allow","reason":""}"#.to_owned(),
            format!(r#""{uuid}" {{"request_id":"{uuid}","response":"approve"}}"#),
        ]
    );
}

#[test]
fn agent_sends_nothing_before_handshake_ends() {
    // From 1.25 on an agent that wasn't greeted asks for no approval, and its turn hangs.
    let mut peer = Peer::new(timing(), AnswerSources::default());
    peer.connection.open(InitializeParams::default(), peer.now);
    assert_eq!(peer.said(), ["initialize"]);
    peer.answer("initialize", &welcome("1.6"));
    assert_eq!(peer.trace(), ["opened 1.6"]);
    peer.prompt(1);
    peer.finish();
    peer.prompt(2);
    // Once: in a turn it would be refused, and between two the hooks would add up.
    assert_eq!(peer.said(), ["prompt", "prompt"]);
}

#[test]
fn external_tools_in_handshake_are_optional() {
    let tools = |result: Value| {
        let mut peer = Peer::new(timing(), AnswerSources::default());
        peer.connection.open(InitializeParams::default(), peer.now);
        peer.answer("initialize", &result);
        match peer.next_output() {
            Some(Output::Opened(Ok(welcome))) => welcome.external_tools,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(tools(welcome("1.10")), Default::default());
    let reason = "'strange' is not valid under any of the given schemas\n\nFailed validating 'anyOf'";
    let mut result = welcome("1.10");
    result["external_tools"] = json!({"accepted": [], "rejected": [{"name": "t", "reason": reason}]});
    assert_eq!(tools(result).rejected[0].reason, reason);
}

#[test]
fn cancelled_turn_continues_after_its_end() {
    // From 1.30 on. Up to 1.26 such a turn has no end.
    let mut peer = asked_open();
    peer.prompt(1);
    peer.event("TurnBegin", &json!({"user_input": "hi"}));
    peer.request("r", "ApprovalRequest", &approval("a"));
    peer.cancel(1);
    peer.answer("cancel", &json!({}));
    peer.event("TurnEnd", &json!({}));
    peer.event("ApprovalResponse", &json!({"request_id": "a", "response": "reject", "feedback": ""}));
    peer.event(
        "ToolResult",
        &json!({"tool_call_id": "tc", "return_value": {"is_error": true, "output": "", "message": "", "display": []}}),
    );
    peer.answer("prompt", &json!({"status": "cancelled"}));
    assert_eq!(
        peer.trace(),
        [
            "1.0 TurnBegin",
            "1.0 ApprovalRequest",
            "ask ApprovalRequest",
            "withdrawn",
            "1.0 TurnEnd",
            "1.0 ApprovalResponse",
            "1.0 ToolResult",
            "turn 1 cancelled",
        ]
    );
}

#[test]
fn approval_is_resolved_after_its_turn() {
    for next_has_begun in [false, true] {
        let mut peer = asked_open();
        peer.prompt(1);
        peer.request("r1", "ApprovalRequest", &approval("a1"));
        peer.cancel(1);
        peer.answer("prompt", &json!({"status": "cancelled"}));
        peer.trace();
        if next_has_begun {
            peer.prompt(2);
            peer.request("r2", "ApprovalRequest", &approval("a2"));
            assert_eq!(peer.trace(), ["2.0 ApprovalRequest", "ask ApprovalRequest"]);
        }
        peer.event("ApprovalResponse", &json!({"request_id": "a1", "response": "reject"}));
        // It resolves nothing of another turn's.
        assert_eq!(peer.trace(), [if next_has_begun { "2.0 ApprovalResponse" } else { "outside ApprovalResponse" }]);
    }
}

#[test]
fn cancelled_tool_call_has_no_result() {
    let mut peer = Peer::open_at("1.5", timing(), AnswerSources::default());
    peer.prompt(1);
    peer.event("StepBegin", &json!({"n": 1}));
    peer.event("ToolCall", &json!({"type": "function", "id": "t", "function": {"name": "Shell", "arguments": null}}));
    peer.cancel(1);
    peer.answer("cancel", &json!({}));
    peer.answer("prompt", &json!({"status": "cancelled"}));
    assert_eq!(peer.trace(), ["1.0 StepBegin", "1.0 ToolCall", "1.0 TurnEnd", "turn 1 cancelled"]);
    // Nothing of it is left behind.
    peer.prompt(2);
    peer.finish();
    assert_eq!(peer.trace(), ["2.0 TurnEnd", "turn 2 finished"]);
}

#[test]
fn cancel_with_pending_approval_ends_by_deadline() {
    // 0.59 to 1.8; the agent works on all the same.
    let mut peer = asked_open();
    peer.prompt(1);
    let forgotten = peer.id_of("prompt");
    peer.request("r", "ApprovalRequest", &approval("a"));
    let asked = keys(&mut peer)[0];
    peer.cancel(1);
    peer.answer("cancel", &json!({}));
    assert_eq!(peer.trace(), ["withdrawn"]);
    peer.connection.answer(asked, &Answer::Approval(Approval::Approve), peer.now);
    assert_eq!(peer.said(), ["prompt", "cancel"], "an approval got through");
    peer.pass();
    assert_eq!(peer.trace(), ["1.0 TurnEnd", "turn 1 cancelled"]);
    assert!(!peer.connection.is_closed());
    peer.prompt(2);
    peer.line(&json!({"id": forgotten, "result": {"status": "cancelled"}}));
    assert_eq!(peer.trace(), [""; 0]);
    peer.finish();
    assert_eq!(peer.trace(), ["2.0 TurnEnd", "turn 2 finished"]);
}

#[test]
fn refused_cancel_of_ended_turn_times_out() {
    // 1.13: the turn is over for the agent, which refuses to cancel it.
    let mut peer = Peer::open_with(Timing { idle: Some(90 * SECOND), ..timing() }, AnswerSources::default());
    for by_hand in [true, false] {
        peer.prompt(1);
        peer.event("TurnBegin", &json!({"user_input": "hi"}));
        if by_hand {
            peer.cancel(1);
        } else {
            peer.pass();
        }
        peer.refuse("cancel", -32000);
        assert_eq!(peer.trace(), ["1.0 TurnBegin"]);
        peer.pass();
        let end = if by_hand { "cancelled" } else { "timeout" };
        assert_eq!(peer.trace(), ["1.0 TurnEnd".to_owned(), format!("turn 1 {end}")]);
        peer.prompt(2);
        peer.finish();
        assert_eq!(peer.trace(), ["2.0 TurnEnd", "turn 2 finished"]);
    }
}

#[test]
fn plan_mode_status_precedes_call_result() {
    let mut peer = Peer::open();
    peer.connection.set_plan_mode(true, peer.now).expect("sent");
    peer.event("StatusUpdate", &json!({"plan_mode": true, "context_usage": null}));
    peer.answer("set_plan_mode", &json!({"status": "ok", "plan_mode": true}));
    assert_eq!(peer.trace(), ["outside StatusUpdate", r#"call {"status":"ok","plan_mode":true}"#]);
}

#[test]
fn prompt_hooks_precede_turn_begin() {
    let mut peer = asked_open();
    peer.prompt(1);
    peer.said();
    peer.event("HookTriggered", &json!({"event": "UserPromptSubmit", "target": "", "hook_count": 1}));
    peer.request("k", "HookRequest", &json!({"id": "k", "subscription_id": "h", "event": "UserPromptSubmit"}));
    let outputs: Vec<_> = std::iter::from_fn(|| peer.next_output()).collect();
    let trace: Vec<_> = outputs.iter().map(short).collect();
    assert_eq!(trace, ["1.0 HookTriggered", "1.0 HookRequest", "ask HookRequest"]);
    let Some(Output::Ask { key, .. }) = outputs.last() else { panic!("not asked") };
    peer.connection.answer(*key, &Answer::Hook(crate::HookDecision::Allow), peer.now);
    assert_eq!(peer.said(), [r#""k" {"request_id":"k","action":"allow","reason":""}"#]);
    peer.event("TurnBegin", &json!({"user_input": "hi"}));
    peer.finish();
    assert_eq!(peer.trace(), ["1.0 TurnBegin", "1.0 TurnEnd", "turn 1 finished"]);
}

#[test]
fn parallel_calls_are_reported_in_arrival_order() {
    let mut peer = asked_open();
    peer.prompt(1);
    let result = |id: &str| json!({"tool_call_id": id, "return_value": {"is_error": false, "output": "", "message": "", "display": []}});
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.event("ToolResult", &result("t2"));
    peer.event("StatusUpdate", &json!({"context_usage": 0.5}));
    peer.request("r2", "ApprovalRequest", &approval("a2"));
    peer.event("ApprovalResponse", &json!({"request_id": "a1", "response": "approve"}));
    peer.event("ToolResult", &result("t1"));
    peer.finish();
    assert_eq!(
        peer.trace(),
        [
            "1.0 ApprovalRequest",
            "ask ApprovalRequest",
            "1.0 ToolResult",
            "1.0 StatusUpdate",
            "1.0 ApprovalRequest",
            "ask ApprovalRequest",
            "withdrawn",
            "1.0 ApprovalResponse",
            "1.0 ToolResult",
            "1.0 TurnEnd",
            "withdrawn",
            "turn 1 finished",
        ]
    );
}

#[test]
fn null_status_fields_keep_previous_values() {
    let mut peer = Peer::open();
    peer.event("StatusUpdate", &json!({"context_usage": 0.5, "plan_mode": true, "token_usage": usage(5)}));
    peer.event(
        "StatusUpdate",
        &json!({"context_usage": null, "context_tokens": 7, "plan_mode": null, "token_usage": null, "message_id": null}),
    );
    let status = peer.connection.status().unwrap();
    assert_eq!((status.context_usage, status.context_tokens, status.plan_mode), (Some(0.5), Some(7), Some(true)));
    assert_eq!(status.token_usage.as_ref().map(|usage| usage.output), Some(5));
    assert_eq!(peer.connection.usage().output, 5);
}

#[test]
fn approval_of_subagent_is_normal_request() {
    let mut peer = asked_open();
    peer.prompt(1);
    peer.said();
    let inner = json!({"type": "ToolCall", "payload": {"type": "function", "id": "c", "function": {"name": "Shell"}}});
    let nested = json!({"type": "SubagentEvent", "payload": {"parent_tool_call_id": "b", "event": inner}});
    peer.event("SubagentEvent", &json!({"parent_tool_call_id": "a", "event": nested}));
    let mut request = approval("x");
    request["agent_id"] = json!("a1b2c3d4e");
    request["subagent_type"] = json!("coder");
    request["source_kind"] = json!("foreground_turn");
    peer.request("x", "ApprovalRequest", &request);
    let outputs: Vec<_> = std::iter::from_fn(|| peer.next_output()).collect();
    let Output::Event { event, .. } = &outputs[0] else { panic!("{outputs:?}") };
    let Event::SubagentEvent(outer) = *event.clone() else { panic!("{event:?}") };
    let Event::SubagentEvent(middle) = &*outer.event else { panic!("{outer:?}") };
    assert_eq!((outer.parent_tool_call_id.as_deref(), middle.event.type_name()), (Some("a"), "ToolCall"));
    let Some(Output::Ask { key, request, .. }) = outputs.last() else { panic!("{outputs:?}") };
    let Event::ApprovalRequest(asked) = &**request else { panic!("{request:?}") };
    assert_eq!(asked.subagent_type.as_deref(), Some("coder"));
    peer.connection.answer(*key, &Answer::Approval(Approval::Approve), peer.now);
    assert_eq!(peer.said(), [r#""x" {"request_id":"x","response":"approve"}"#]);
}

#[test]
fn approval_for_session_resolves_parallel_requests() {
    let mut peer = asked_open();
    peer.prompt(1);
    peer.said();
    peer.request("r1", "ApprovalRequest", &approval("a1"));
    peer.request("r2", "ApprovalRequest", &approval("a2"));
    let asked = keys(&mut peer);
    peer.connection.answer(asked[0], &Answer::Approval(Approval::ApproveForSession), peer.now);
    for id in ["a1", "a2"] {
        peer.event("ApprovalResponse", &json!({"request_id": id, "response": "approve_for_session"}));
    }
    assert_eq!(peer.trace(), ["1.0 ApprovalResponse", "withdrawn", "1.0 ApprovalResponse"]);
    // Its function's own answer comes too late to be sent.
    peer.connection.answer(asked[1], &Answer::Approval(Approval::Reject { feedback: None }), peer.now);
    assert_eq!(peer.said(), [r#""r1" {"request_id":"a1","response":"approve_for_session"}"#]);
}

#[test]
fn steer_in_last_step_adds_step() {
    let mut peer = Peer::open();
    peer.prompt(1);
    peer.event("StepBegin", &json!({"n": 1}));
    peer.event("ContentPart", &json!({"type": "text", "text": "One"}));
    peer.connection.steer(1, "go on".into(), peer.now).expect("sent");
    peer.answer("steer", &json!({"status": "steered"}));
    peer.event("SteerInput", &json!({"user_input": "go on"}));
    peer.event("StepBegin", &json!({"n": 2}));
    peer.event("ContentPart", &json!({"type": "text", "text": "Two"}));
    peer.finish();
    let outputs: Vec<_> = std::iter::from_fn(|| peer.next_output()).collect();
    let Some(Output::TurnEnded { outcome: Ok(result), .. }) = outputs.last() else { panic!("{outputs:?}") };
    assert_eq!((result.steps, result.text.as_str()), (2, "Two"));
}

#[test]
fn replayed_tool_call_is_not_answered() {
    let mut peer = asked_open();
    let call = json!({"id": "t", "name": "add", "arguments": "{}"});
    peer.prompt(1);
    peer.request("t", "ToolCallRequest", &call);
    let asked = keys(&mut peer)[0];
    peer.connection.answer(asked, &Answer::Tool(ToolReturnValue::ok("1")), peer.now);
    peer.finish();
    peer.connection.start_replay(peer.now).expect("sent");
    peer.trace();
    peer.said();
    peer.event("ContentPart", &json!({"type": "text", "text": "all in one"}));
    peer.request("t", "ToolCallRequest", &call);
    peer.answer("replay", &json!({"status": "finished", "events": 1, "requests": 1}));
    let call = r#"call {"status":"finished","events":1,"requests":1}"#;
    assert_eq!(peer.trace(), ["replay ContentPart", "replay ToolCallRequest", call]);
    assert_eq!(peer.said(), [""; 0]);
    assert!(!peer.connection.requests.is_waiting());
}

#[test]
fn unicode_separator_does_not_end_line() {
    let mut peer = Peer::open();
    peer.prompt(1);
    let mut buffer = crate::jsonrpc::framing::LineBuffer::new(1 << 20);
    let text = "one\u{2028}two\u{2029}three\u{85}four\u{feff}🎈";
    let line = event("ContentPart", &json!({"type": "text", "text": text}));
    buffer.extend(format!("{line}\n").as_bytes());
    while let Some(line) = buffer.next_line().expect("a short line") {
        peer.connection.handle_line(line, peer.now);
    }
    let Some(Output::Event { event, .. }) = peer.next_output() else { panic!("nothing") };
    assert_eq!(event.text(), Some(text));
    assert_eq!(peer.trace(), [""; 0]);
}
