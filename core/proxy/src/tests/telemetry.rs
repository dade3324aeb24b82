//! Spans of the turns and calls of sessions that pass.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use kimi_agent_client::SessionOptions;
use kimi_agent_client::host::{PostingHost, set_telemetry};
use kimi_agent_protocol::telemetry::{Op, TraceContext};
use serde_json::json;

use super::{Play, RULES};

#[test]
fn turn_and_call_have_spans() {
    let ops = Arc::new(Mutex::new(Vec::new()));
    let posted = Arc::clone(&ops);
    let post = move |more: Vec<Op>| posted.lock().unwrap().extend(more);
    let mut options = SessionOptions::new();
    let host = PostingHost::starting_turns(post, TraceContext::default());
    set_telemetry(&mut options, Arc::new(host), Some(false), TraceContext::default());
    let mut play = Play::with(options, RULES);
    play.open("s");
    play.prompt("s");
    for (kind, status) in [("tool_call", "pending"), ("tool_call_update", "completed")] {
        let update = json!({"sessionUpdate": kind, "toolCallId": "c", "title": "git status", "kind": "execute", "status": status});
        play.agent(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
        );
    }
    play.agent(&json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}));
    let (mut open, mut names) = (HashSet::new(), Vec::new());
    for op in ops.lock().unwrap().iter() {
        match op {
            Op::Start(start) => {
                assert!(start.parent.is_none_or(|parent| open.contains(&parent)));
                open.insert(start.span);
                names.push(start.name.clone());
            }
            Op::End { span, .. } => assert!(open.remove(span)),
            _ => {}
        }
    }
    assert!(open.is_empty() && names.len() == 2, "{open:?} {names:?}");
    assert!(names[0].starts_with("invoke_agent") && names[1].starts_with("execute_tool"), "{names:?}");
}
