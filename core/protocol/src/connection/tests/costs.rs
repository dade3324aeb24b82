//! The costs of turns: reports of the agent, prices, and budgets of US dollars.

use super::*;
use crate::budget::{Budget, BudgetCounter};
use crate::cost::{Price, Prices};
use crate::messages::{Cost, CostSource};

fn reports(peer: &mut Peer, amount: f64, currency: &str) {
    peer.event("StatusUpdate", &json!({"cost": {"amount": amount, "currency": currency, "source": "reported"}}));
}

fn ended(peer: &mut Peer) -> Result<Box<PromptResult>> {
    match std::iter::from_fn(|| peer.next_output()).last() {
        Some(Output::TurnEnded { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    }
}

fn uncounted(outcome: Result<Box<PromptResult>>) -> String {
    match outcome {
        Err(error @ Error::Unsupported(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn cost(cost: Option<&Cost>) -> Option<(f64, &str, &str)> {
    cost.map(|cost| (cost.amount, &*cost.currency, cost.source.as_str()))
}

/// Ends a turn in which the agent has reported these amounts, and returns its cost.
fn turn(peer: &mut Peer, key: TurnKey, reported: &[(f64, &str)]) -> Option<(f64, String, String)> {
    peer.prompt(key);
    reported.iter().for_each(|(amount, currency)| reports(peer, *amount, currency));
    peer.finish();
    let result = ended(peer).expect("a result");
    cost(result.cost.as_ref()).map(|(amount, currency, source)| (amount, currency.to_owned(), source.to_owned()))
}

fn reported(amount: f64, currency: &str) -> Option<(f64, String, String)> {
    Some((amount, currency.to_owned(), "reported".to_owned()))
}

#[test]
fn cost_of_turn_from_totals_of_session() {
    let mut peer = Peer::open();
    assert_eq!(turn(&mut peer, 1, &[(0.1, "USD"), (0.25, "usd")]), reported(0.25, "USD"));
    assert_eq!(turn(&mut peer, 2, &[(0.3, "USD")]), reported(0.05, "USD"));
    assert_eq!(turn(&mut peer, 3, &[]), None);
    assert_eq!(turn(&mut peer, 4, &[(0.3, "USD")]), reported(0.0, "USD"));
    // The agent has begun to count anew.
    assert_eq!(turn(&mut peer, 5, &[(0.2, "USD"), (0.21, "USD")]), reported(0.21, "USD"));
    assert_eq!(turn(&mut peer, 6, &[(0.22, "USD"), (1.0, "EUR")]), None);
    assert_eq!(turn(&mut peer, 7, &[(1.5, "EUR")]), reported(0.5, "EUR"));
    let status = peer.connection.status().expect("a status");
    assert_eq!(cost(status.cost.as_ref()), Some((1.5, "EUR", "reported")));
}

#[test]
fn report_between_turns_belongs_to_session() {
    let mut peer = Peer::open();
    peer.connection.set_session_budget(Budget::new().usd(1.0));
    reports(&mut peer, 0.75, "USD");
    assert_eq!(turn(&mut peer, 1, &[(0.8, "USD")]), reported(0.05, "USD"));
    peer.prompt(2);
    reports(&mut peer, 1.25, "USD");
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let Err(Error::BudgetExceeded(error)) = ended(&mut peer) else { panic!("within the budget") };
    assert_eq!((error.counter, error.limit, error.used), (BudgetCounter::Usd, 1.0, 1.25));
    assert_eq!(cost(error.result.cost.as_ref()), Some((0.45, "USD", "reported")));
}

#[test]
fn prices_estimate_cost_until_agent_reports_it() {
    let mut peer = Peer::open();
    peer.connection.set_prices(Prices::new().model("*", Price::new(0.0, 1000.0)));
    peer.prompt(1);
    peer.event("StatusUpdate", &json!({"token_usage": usage(500)}));
    peer.event(
        "SubagentEvent",
        &json!({"parent_tool_call_id": "a", "event": {"type": "StatusUpdate", "payload": {"token_usage": usage(250)}}}),
    );
    peer.finish();
    let result = ended(&mut peer).expect("a result");
    assert_eq!(cost(result.cost.as_ref()), Some((0.75, "USD", "estimated")));
    let status = peer.connection.status().expect("a status");
    assert_eq!(cost(status.cost.as_ref()), Some((0.75, "USD", "estimated")));
    peer.prompt(2);
    peer.event("StatusUpdate", &json!({"token_usage": usage(500)}));
    reports(&mut peer, 0.5, "USD");
    peer.finish();
    assert_eq!(ended(&mut peer).expect("a result").cost.map(|cost| cost.source), Some(CostSource::Reported));
}

#[test]
fn estimate_beyond_budget_cancels_turn() {
    let mut peer = Peer::open();
    peer.connection.set_prices(Prices::new().model("*", Price::new(0.0, 1000.0)));
    let limits = TurnLimits { budget: Some(Budget::new().usd(0.5)), ..TurnLimits::default() };
    peer.connection.prompt_within(1, "hi".into(), limits, peer.now);
    peer.event("StatusUpdate", &json!({"token_usage": usage(500)}));
    assert_eq!(peer.said(), ["prompt"]);
    peer.event("StatusUpdate", &json!({"token_usage": usage(1)}));
    assert_eq!(peer.said(), ["cancel"]);
    peer.answer("prompt", &json!({"status": "cancelled"}));
    let Err(Error::BudgetExceeded(error)) = ended(&mut peer) else { panic!("within the budget") };
    assert_eq!((error.counter, error.used), (BudgetCounter::Usd, 0.501));
}

#[test]
fn turn_with_other_currency_and_limit() {
    let mut peer = Peer::open();
    let limits = TurnLimits { budget: Some(Budget::new().usd(5.0)), ..TurnLimits::default() };
    peer.connection.prompt_within(1, "hi".into(), limits, peer.now);
    reports(&mut peer, 0.1, "EUR");
    assert_eq!(peer.said(), ["prompt", "cancel"]);
    peer.answer("prompt", &json!({"status": "cancelled"}));
    assert!(uncounted(ended(&mut peer)).contains("reports its cost in EUR: the session can still be used"));
    // Without the limit the session goes on.
    assert_eq!(turn(&mut peer, 2, &[(0.3, "EUR")]), reported(0.2, "EUR"));
}

#[test]
fn invalid_cost_ends_turn_with_limit_of_dollars() {
    for cost in ["-0.5", "1e16", "1e999", "null", "\"0.5\""] {
        let mut peer = Peer::open();
        let limits = TurnLimits { budget: Some(Budget::new().usd(5.0)), ..TurnLimits::default() };
        peer.connection.prompt_within(1, "hi".into(), limits, peer.now);
        peer.text(&format!(
            r#"{{"jsonrpc":"2.0","method":"event","params":{{"type":"StatusUpdate","payload":{{"cost":{{"amount":{cost},"currency":"USD","source":"reported"}}}}}}}}"#
        ));
        assert_eq!(peer.said(), ["prompt", "cancel"], "{cost}");
        peer.answer("prompt", &json!({"status": "cancelled"}));
        assert!(uncounted(ended(&mut peer)).contains("reports a cost that is not an amount of a currency"), "{cost}");
        assert!(peer.connection.status().is_none_or(|status| status.cost.is_none()), "{cost}");
    }
}

#[test]
fn session_with_other_currency_and_limit() {
    let mut peer = Peer::open();
    peer.connection.set_session_budget(Budget::new().usd(5.0));
    reports(&mut peer, 0.1, "EUR");
    peer.prompt(1);
    assert!(peer.said().is_empty());
    assert!(uncounted(ended(&mut peer)).contains("every prompt of the session fails"));
}

#[test]
fn price_beside_reports_of_zero() {
    let mut peer = Peer::open();
    peer.connection.set_prices(Prices::new().model("*", Price::new(0.0, 1000.0)));
    peer.prompt(1);
    reports(&mut peer, 0.0, "USD");
    peer.event("StatusUpdate", &json!({"token_usage": usage(500)}));
    reports(&mut peer, 0.0, "USD");
    peer.finish();
    let result = ended(&mut peer).expect("a result");
    assert_eq!(cost(result.cost.as_ref()), Some((0.5, "USD", "estimated")));
    let status = peer.connection.status().expect("a status");
    assert_eq!(cost(status.cost.as_ref()), Some((0.5, "USD", "estimated")));
    assert_eq!(turn(&mut peer, 2, &[(0.75, "USD")]), reported(0.75, "USD"));
}
