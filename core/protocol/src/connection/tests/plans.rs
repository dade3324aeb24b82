//! Plans: those of to-do lists, and that of the outcome.

use super::*;
use crate::messages::{Plan, PlanStatus};

fn result(display: Value) -> Value {
    json!({"tool_call_id": "t", "return_value": {"is_error": false, "output": "", "message": "", "display": display}})
}

fn todo(statuses: &[&str]) -> Value {
    let items: Vec<_> =
        statuses.iter().map(|status| json!({"title": format!("to {status}"), "status": status})).collect();
    json!({"type": "todo", "items": items})
}

/// Tells the events that came, as `type` or with the plan's entries.
fn told(peer: &mut Peer) -> Vec<String> {
    fn described(event: &Event) -> String {
        match event {
            Event::Plan(plan) => {
                let entries = plan.entries.iter().map(|entry| format!(" {}", entry.status));
                format!("Plan{}", entries.collect::<String>())
            }
            Event::SubagentEvent(subagent) => {
                format!("{} {}", subagent.agent_id.as_deref().unwrap_or("-"), described(&subagent.event))
            }
            other => other.type_name().to_owned(),
        }
    }
    let outputs = std::iter::from_fn(|| peer.next_output());
    let events = outputs.filter_map(|output| match output {
        Output::Event { event, .. } => Some(described(&event)),
        _ => None,
    });
    events.collect()
}

fn planned(peer: &mut Peer) -> Option<Plan> {
    peer.finish();
    let ended = |output| match output {
        Output::TurnEnded { outcome, .. } => Some(outcome.expect("a result").plan),
        _ => None,
    };
    std::iter::from_fn(|| peer.next_output()).find_map(ended).expect("the end of the turn")
}

#[test]
fn todo_list_of_tool_becomes_plan() {
    let mut peer = Peer::open();
    peer.prompt(1);
    let blocks = json!([todo(&["pending"]), {"type": "brief", "text": "x"}, todo(&["done", "in_progress", "blocked"])]);
    peer.event("ToolResult", &result(blocks));
    peer.event("ToolResult", &result(json!([])));
    assert_eq!(told(&mut peer), ["ToolResult", "Plan completed in_progress blocked", "ToolResult"]);
    let plan = planned(&mut peer).expect("a plan");
    let entries: Vec<_> = plan.entries.iter().map(|entry| (&*entry.content, entry.status.clone())).collect();
    let expected = [
        ("to done", PlanStatus::Completed),
        ("to in_progress", PlanStatus::InProgress),
        ("to blocked", PlanStatus::Other("blocked".to_owned())),
    ];
    assert_eq!(entries, expected);
}

#[test]
fn plan_of_subagent_is_not_that_of_turn() {
    let mut peer = Peer::open();
    peer.prompt(1);
    let inner = |agent: &str, event: Value| json!({"parent_tool_call_id": "p", "agent_id": agent, "event": event});
    let deep = inner("b", json!({"type": "ToolResult", "payload": result(json!([todo(&["done"])]))}));
    peer.event("SubagentEvent", &inner("a", json!({"type": "SubagentEvent", "payload": deep})));
    assert_eq!(told(&mut peer), ["a b ToolResult", "a b Plan completed"]);
    assert_eq!(planned(&mut peer), None);
}

#[test]
fn each_plan_replaces_last_until_it_is_removed() {
    let mut peer = Peer::open();
    let entries = |status: &str| json!([{"content": "a", "status": status, "more": 1}]);
    let plan = |peer: &mut Peer, plan: Value| peer.event("Plan", &plan);
    let last = |steps: &[Value]| {
        let mut peer = Peer::open();
        peer.prompt(1);
        steps.iter().for_each(|step| plan(&mut peer, step.clone()));
        planned(&mut peer).map(|plan| json!(plan))
    };
    let expected = json!({"entries": [{"content": "a", "status": "completed"}]});
    assert_eq!(
        last(&[json!({"entries": entries("pending")}), json!({"entries": entries("completed")})]),
        Some(expected)
    );
    let named = |id: &str| json!({"entries": entries("pending"), "plan_id": id});
    let removed = |id: &str| json!({"entries": [], "plan_id": id, "removed": true});
    assert_eq!(last(&[named("p"), removed("p")]), None);
    let kept = json!({"entries": [{"content": "a", "status": "pending"}], "plan_id": "p"});
    assert_eq!(last(&[named("p"), removed("q")]), Some(kept));
    // The next turn has no plan before the agent sends one.
    peer.prompt(1);
    plan(&mut peer, named("p"));
    assert!(planned(&mut peer).is_some());
    peer.prompt(2);
    assert_eq!(planned(&mut peer), None);
}

#[test]
fn outcome_keeps_beginning_of_long_plan() {
    let kept = |entries: usize, length: usize| {
        let mut peer = Peer::open();
        peer.prompt(1);
        let entry = json!({"content": "x".repeat(length), "status": "pending"});
        peer.event("Plan", &json!({"entries": vec![entry; entries], "plan_id": "p".repeat(length)}));
        let plan = planned(&mut peer).expect("a plan");
        (plan.entries.len(), plan.plan_id.is_some())
    };
    assert_eq!(kept(10_000, 1), (1000, true));
    assert_eq!(kept(10, 100_000), (2, false));
    assert_eq!(kept(1, 1 << 20), (0, false));
}
