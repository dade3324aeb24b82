//! The costs of a session and its turns: the agent's reports, or the prices of its tokens.

use std::sync::Arc;

use super::turn::{ActiveTurn, for_each_usage};
use super::{Connection, Phase};
use crate::cost::{Money, Price, Prices, Spending, USD, money};
use crate::dialect::ConfigOption;
use crate::messages::{Cost, CostSource, Event, StatusUpdate};

/// The cost of a session.
#[derive(Debug, Default)]
pub(super) struct SessionCost {
    prices: Prices,
    /// The price of the session's model.
    price: Option<Price>,
    /// The last report of the agent: what the session has cost so far.
    reported: Option<Money>,
    /// The price of all tokens so far, in US dollars.
    estimated: f64,
}

impl SessionCost {
    /// Returns what the session has cost since the last report. An agent that reports less than before, or another currency,
    /// has begun to count anew.
    fn since_last(&mut self, now: Money) -> Money {
        let last = self.reported.replace(now.clone());
        let before = last.filter(|last| last.currency == now.currency && last.amount <= now.amount);
        Money { amount: now.amount - before.map_or(0.0, |last| last.amount), ..now }
    }
}

impl Connection {
    /// Sets the prices of tokens, for agents that report no costs.
    pub fn set_prices(&mut self, prices: Prices) {
        let price = prices.find(self.model.as_deref(), &[]);
        self.cost = Some(Box::new(SessionCost { prices, price, ..SessionCost::default() }));
    }

    /// Notes the model that the agent uses now.
    pub(super) fn note_model(&mut self, options: &[ConfigOption]) {
        if let Some(cost) = &mut self.cost {
            cost.price = cost.prices.find(self.model.as_deref(), options);
        }
    }

    /// Counts what an event says about costs. Returns whether the cost of the session has changed.
    pub(super) fn observe_cost(&mut self, event: &Event) -> bool {
        if let Event::StatusUpdate(update) = event {
            if let Some(cost) = &update.cost
                && let Some(now) = money(cost.amount, &cost.currency)
            {
                if self.cost_reported(now) {
                    self.set_status_cost(cost.clone());
                    return true;
                }
            } else if update.cost.is_some() || update.extra.has("cost") {
                self.warn_once("the agent reports a cost that is not an amount of a currency");
                self.count_cost(Spending::report_invalid);
            }
        }
        let Some(price) = self.price() else { return false };
        let mut estimated = None;
        for_each_usage(event, &mut |usage| *estimated.get_or_insert(0.0) += price.of(usage));
        estimated.is_some_and(|amount| self.cost_estimated(amount))
    }

    /// Counts what the session has cost so far. Returns false if the agent does not know the price: it has reported nothing but 0,
    /// and the program has set a price.
    fn cost_reported(&mut self, now: Money) -> bool {
        let cost = self.cost.get_or_insert_default();
        if now.amount == 0.0 && cost.reported.is_none() && cost.price.is_some() {
            return false;
        }
        let since = cost.since_last(now);
        if matches!(self.phase, Phase::Opening(_)) {
            // It is the cost of the turns before.
            return true;
        }
        self.count_cost(|spending| spending.report(since));
        true
    }

    /// Counts the price of tokens.
    pub(super) fn cost_estimated(&mut self, amount: f64) -> bool {
        self.count_cost(|spending| spending.estimate(amount));
        let Some(cost) = &mut self.cost else { return false };
        cost.estimated += amount;
        if cost.reported.is_some() {
            return false;
        }
        let total = Money { amount: cost.estimated, currency: USD.to_owned() }.into_cost(CostSource::Estimated);
        self.set_status_cost(total);
        true
    }

    /// Counts a cost of the running turn. Between turns it belongs to the session.
    fn count_cost(&mut self, count: impl FnOnce(&mut Spending)) {
        match (&mut self.turn, &mut self.session_budget) {
            (Some(turn), _) => count(&mut turn.spent.cost),
            (None, Some(session)) => {
                let mut late = Spending::default();
                count(&mut late);
                session.spent.cost.add(&late);
            }
            (None, None) => {}
        }
    }

    /// Logs a warning if a limit of US dollars does not count a turn that has ended.
    pub(super) fn warn_of_unknown_cost(&mut self, turn: &ActiveTurn) {
        if !self.limits_cost(turn.limits.budget.as_ref()) {
            return;
        }
        let reported = self.cost.as_ref().and_then(|cost| cost.reported.as_ref());
        let is_free = reported.is_some_and(|reported| reported.amount == 0.0) && turn.spent.usage.total() > 0;
        if turn.spent.cost.cost().is_none() {
            self.warn_once("the agent reported no cost of a turn; the limit `usd` does not count it");
        } else if is_free {
            self.warn_once("the agent uses tokens and reports a cost of 0; set `prices` if its model is not free");
        }
    }

    /// Returns the price of the session's tokens.
    pub(super) fn price(&self) -> Option<Price> {
        self.cost.as_ref()?.price
    }

    fn set_status_cost(&mut self, cost: Cost) {
        let status = self.status.get_or_insert_with(|| Arc::new(StatusUpdate::unchanged()));
        Arc::make_mut(status).cost = Some(cost);
    }
}
