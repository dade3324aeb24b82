//! The differences of older versions.

use super::*;

fn events(peer: &mut Peer) -> Vec<Event> {
    std::iter::from_fn(|| peer.next_output())
        .map(|output| match output {
            Output::Event { event, .. } => *event,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn former_names_are_read_at_every_level() {
    let mut peer = Peer::open();
    let resolved = json!({"type": "ApprovalRequestResolved", "payload": {"request_id": "a", "response": "approve"}});
    let inner = json!({"type": "SubagentEvent", "payload": {"task_tool_call_id": "inner", "event": resolved}});
    peer.event("SubagentEvent", &json!({"task_tool_call_id": "outer", "event": inner}));
    peer.event("ApprovalRequestResolved", &json!({"request_id": "b", "response": "reject"}));
    peer.event("ApprovalRequestResolved", &json!({"request_id": 7}));
    let events = events(&mut peer);
    let Event::SubagentEvent(outer) = &events[0] else { panic!("{events:?}") };
    assert_eq!(outer.parent_tool_call_id.as_deref(), Some("outer"));
    assert!(outer.extra.is_empty());
    let Event::SubagentEvent(inner) = &*outer.event else { panic!("{outer:?}") };
    assert_eq!(inner.parent_tool_call_id.as_deref(), Some("inner"));
    assert_eq!(inner.event.type_name(), "ApprovalResponse");
    assert!(matches!(&*inner.event, Event::ApprovalResponse(response) if response.request_id == "a"));
    assert!(matches!(&events[1], Event::ApprovalResponse(response) if response.request_id == "b"));
    assert!(matches!(&events[2], Event::Unknown(event) if event.error.is_some()));
}

#[test]
fn newer_field_name_wins_over_older() {
    let mut peer = Peer::open();
    let event = json!({"type": "TurnEnd", "payload": {}});
    peer.event("SubagentEvent", &json!({"parent_tool_call_id": "new", "task_tool_call_id": "old", "event": event}));
    let Event::SubagentEvent(event) = events(&mut peer).remove(0) else { panic!("another event") };
    assert_eq!(event.parent_tool_call_id.as_deref(), Some("new"));
    assert_eq!(event.extra.get("task_tool_call_id"), Some(&json!("old")));
}

#[test]
fn resolution_event_with_old_name_resolves_approval() {
    let mut peer =
        Peer::open_with(timing(), AnswerSources { approval: AnswerSource::Handler, ..AnswerSources::default() });
    peer.prompt(1);
    peer.request("r", "ApprovalRequest", &approval("a"));
    peer.event("ApprovalRequestResolved", &json!({"request_id": "a", "response": "approve"}));
    assert_eq!(peer.trace(), ["1.0 ApprovalRequest", "ask ApprovalRequest", "withdrawn", "1.0 ApprovalResponse"]);
}

#[test]
fn null_status_fields_are_absent() {
    let mut peer = Peer::open();
    peer.event("StatusUpdate", &json!({"context_usage": null, "plan_mode": true, "token_usage": null}));
    peer.event("StatusUpdate", &json!({"context_usage": 0.5, "plan_mode": null}));
    let events = events(&mut peer);
    assert_eq!(
        serde_json::to_value(&events[0]).expect("JSON"),
        json!({"type": "StatusUpdate", "payload": {"plan_mode": true}})
    );
    let status = peer.connection.status().unwrap();
    assert_eq!((status.context_usage, status.plan_mode), (Some(0.5), Some(true)));
}

#[test]
fn versions_compare_as_numbers() {
    let can = |version: &str| {
        let mut peer = Peer::new(timing(), AnswerSources::default());
        peer.connection.open(InitializeParams::default(), peer.now);
        let mut result = welcome(version);
        result.as_object_mut().expect("an object").shift_remove("hooks");
        peer.answer("initialize", &result);
        let Some(Output::Opened(Ok(welcome))) = peer.next_output() else { panic!("not open") };
        welcome.capabilities
    };
    assert!(can("1.10").approval_feedback && can("1.10").replay && can("1.10").plan_mode);
    assert!(can("2.0").approval_feedback);
    assert_eq!((can("1.2").replay, can("1.3").replay), (false, true));
    assert_eq!((can("1.3").plan_mode, can("1.4").plan_mode), (false, true));
    assert_eq!((can("1.5").approval_feedback, can("1.6").approval_feedback), (false, true));
    // The answer decides about hooks, not the version.
    assert!(can("1.10").hooks.is_empty());
}

#[test]
fn results_of_tools_need_no_optional_parts() {
    for (value, output, is_error) in [
        (json!({"is_error": false, "output": "a"}), "a", false),
        (json!({"output": "a", "message": ""}), "a", false),
        (json!({"is_error": true, "output": null, "message": "no"}), "", true),
        (json!({"is_error": false, "output": {"a": 1}, "message": null}), "{\"a\":1}", false),
        (json!({"is_error": "true", "output": "a", "message": 5}), "a", true),
    ] {
        let mut peer = Peer::open();
        let result = json!({"tool_call_id": "t", "return_value": value});
        peer.event("ToolResult", &result);
        peer.event("SubagentEvent", &json!({"event": {"type": "ToolResult", "payload": result}}));
        for event in events(&mut peer) {
            let event = if let Event::SubagentEvent(subagent) = event { *subagent.event } else { event };
            let Event::ToolResult(result) = event else { panic!("{event:?}") };
            assert_eq!((&*result.return_value.output.text(), result.return_value.is_error), (output, is_error));
        }
    }
    let mut peer = Peer::open();
    peer.event("ToolResult", &json!({"tool_call_id": "t", "return_value": 5}));
    assert!(matches!(&events(&mut peer)[0], Event::Unknown(_)));
}
