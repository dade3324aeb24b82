//! Budgets: what counts, when a turn is cancelled, and what its error holds.

use super::*;
use crate::budget::{Budget, BudgetCounter, BudgetExceeded};

fn begin(peer: &mut Peer, turn: TurnKey, budget: Budget) {
    let limits = TurnLimits { budget: Some(budget), ..TurnLimits::default() };
    peer.connection.prompt_within(turn, "hi".into(), limits, peer.now);
}

fn call(id: &str) -> Value {
    json!({"type": "function", "id": id, "function": {"name": "Shell", "arguments": "{}"}})
}

fn exceeded(peer: &mut Peer) -> BudgetExceeded {
    match std::iter::from_fn(|| peer.next_output()).last() {
        Some(Output::TurnEnded { outcome: Err(Error::BudgetExceeded(exceeded)), .. }) => *exceeded,
        other => panic!("{other:?}"),
    }
}

fn summary(exceeded: &BudgetExceeded) -> (&'static str, BudgetCounter, f64, f64) {
    (exceeded.option, exceeded.counter, exceeded.limit, exceeded.used)
}

#[test]
fn exceeded_steps_cancel_turn() {
    let mut peer = Peer::open();
    begin(&mut peer, 1, Budget::new().steps(1).tokens(100));
    peer.event("StepBegin", &json!({"n": 1}));
    peer.event("ContentPart", &json!({"type": "text", "text": "half"}));
    peer.event("ToolCall", &call("c1"));
    peer.event("StatusUpdate", &json!({"token_usage": usage(9)}));
    assert_eq!(peer.said(), ["prompt"]);
    peer.event("StepBegin", &json!({"n": 2}));
    assert_eq!(peer.said(), ["cancel"]);
    peer.answer("cancel", &json!({}));
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let error = exceeded(&mut peer);
    assert_eq!(summary(&error), ("budget", BudgetCounter::Steps, 1.0, 2.0));
    assert_eq!((error.result.status, error.result.text.as_str()), (TurnStatus::Cancelled, "half"));
    assert_eq!((error.result.usage.output, error.result.tool_calls.len()), (9, 1));
    // The session goes on, and the next turn has a budget of its own.
    begin(&mut peer, 2, Budget::new().steps(1));
    peer.event("StepBegin", &json!({"n": 1}));
    peer.finish();
    assert!(peer.trace().contains(&"turn 2 finished".to_owned()));
}

#[test]
fn nested_turns_of_subagents_count() {
    let nested = |event: Value| json!({"parent_tool_call_id": "a", "event": event});
    let step = json!({"type": "StepBegin", "payload": {"n": 1}});
    let tokens = json!({"type": "StatusUpdate", "payload": {"token_usage": usage(50)}});
    for (budget, event, counter) in [
        (Budget::new().steps(1), step.clone(), BudgetCounter::Steps),
        (Budget::new().output_tokens(40), tokens.clone(), BudgetCounter::OutputTokens),
        (Budget::new().tokens(50), tokens, BudgetCounter::Tokens),
        (Budget::new().tool_calls(0), json!({"type": "ToolCall", "payload": call("c")}), BudgetCounter::ToolCalls),
        (Budget::new().steps(1), json!({"type": "SubagentEvent", "payload": nested(step)}), BudgetCounter::Steps),
    ] {
        let mut peer = Peer::open();
        begin(&mut peer, 1, budget);
        peer.event("StepBegin", &json!({"n": 1}));
        peer.event("SubagentEvent", &nested(event));
        assert_eq!(peer.said(), ["prompt", "cancel"]);
        peer.answer("prompt", &json!({"status": "cancelled"}));
        assert_eq!(exceeded(&mut peer).counter, counter);
    }
}

#[test]
fn call_announced_again_counts_once() {
    let mut peer = Peer::open();
    begin(&mut peer, 1, Budget::new().tool_calls(1));
    peer.event("ToolCall", &call("c1"));
    peer.event("ToolCall", &call("c1"));
    assert_eq!(peer.said(), ["prompt"]);
    peer.event("ToolCall", &call("c2"));
    assert_eq!(peer.said(), ["cancel"]);
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let error = exceeded(&mut peer);
    assert_eq!(summary(&error), ("budget", BudgetCounter::ToolCalls, 1.0, 2.0));
}

#[test]
fn session_budget_sums_tool_calls() {
    let mut peer = Peer::open();
    peer.connection.set_session_budget(Budget::new().tool_calls(1));
    peer.prompt(1);
    peer.event("ToolCall", &call("c1"));
    peer.finish();
    peer.said();
    peer.prompt(2);
    peer.event("ToolCall", &call("c2"));
    assert_eq!(peer.said(), ["prompt", "cancel"]);
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let error = exceeded(&mut peer);
    assert_eq!(summary(&error), ("session_budget", BudgetCounter::ToolCalls, 1.0, 2.0));
}

#[test]
fn seconds_end_turn_awaiting_handler() {
    let sources = AnswerSources { approval: AnswerSource::Manual, ..AnswerSources::default() };
    let mut peer = Peer::open_with(timing(), sources);
    begin(&mut peer, 1, Budget::new().seconds(2.5));
    peer.request("r", "ApprovalRequest", &approval("a"));
    let began = peer.now;
    peer.pass();
    assert_eq!(peer.now - began, Duration::from_millis(2500));
    assert_eq!(peer.said(), ["prompt", "cancel"]);
    peer.answer("prompt", &json!({"status": "cancelled"}));
    assert_eq!(summary(&exceeded(&mut peer)), ("budget", BudgetCounter::Seconds, 2.5, 2.5));
}

#[test]
fn session_budget_sums_turns() {
    let mut peer = Peer::open();
    peer.connection.set_session_budget(Budget::new().tokens(30).seconds(60.0));
    for turn in [1, 2] {
        peer.prompt(turn);
        peer.wait(10 * SECOND);
        peer.event("StatusUpdate", &json!({"token_usage": usage(10)}));
        peer.finish();
    }
    assert!(peer.trace().contains(&"turn 2 finished".to_owned()));
    peer.prompt(3);
    assert_eq!(peer.connection.poll_timeout(), Some(peer.now + 40 * SECOND), "what is left of the seconds");
    peer.event("StatusUpdate", &json!({"token_usage": usage(10)}));
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let error = exceeded(&mut peer);
    assert_eq!(summary(&error), ("session_budget", BudgetCounter::Tokens, 30.0, 33.0));
    assert_eq!(error.result.usage.output, 10, "the result is of this turn");
    peer.said();
    peer.prompt(4);
    assert_eq!(peer.trace(), ["turn 4 budget_exceeded"]);
    assert!(peer.said().is_empty(), "the agent is not asked");
}

#[test]
fn last_event_over_budget_fails_turn() {
    let mut peer = Peer::open();
    begin(&mut peer, 1, Budget::new().output_tokens(5));
    peer.event("ContentPart", &json!({"type": "text", "text": "all"}));
    peer.event("StatusUpdate", &json!({"token_usage": usage(6)}));
    // The agent has finished before it reads the cancel.
    peer.finish();
    let error = exceeded(&mut peer);
    assert_eq!((error.result.status, error.result.text.as_str()), (TurnStatus::Finished, "all"));
}

#[test]
fn cancelled_turn_ignores_budget() {
    let mut peer = Peer::open();
    begin(&mut peer, 1, Budget::new().output_tokens(5));
    peer.cancel(1);
    peer.event("StatusUpdate", &json!({"token_usage": usage(6)}));
    peer.answer("prompt", &json!({"status": "cancelled"}));
    assert!(peer.trace().contains(&"turn 1 cancelled".to_owned()));
}

#[test]
fn refused_cancel_closes_session_naming_budget() {
    let mut peer = Peer::open();
    begin(&mut peer, 1, Budget::new().steps(1));
    peer.event("StepBegin", &json!({"n": 1}));
    peer.event("StepBegin", &json!({"n": 2}));
    peer.pass();
    let outputs: Vec<_> = std::iter::from_fn(|| peer.next_output()).collect();
    let error = outputs.iter().find_map(|output| match output {
        Output::TurnEnded { outcome: Err(error), .. } => Some(error.to_string()),
        _ => None,
    });
    let error = error.expect("an error");
    assert!(error.contains("`budget` allows 1") && error.contains("did not answer the cancel"), "{error}");
}
