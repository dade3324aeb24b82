//! Budgets of the running turn and of the session: a turn that exceeds one is cancelled.

use std::time::Instant;

use super::Connection;
use super::turn::TurnLimits;
use crate::budget::{Budget, BudgetExceeded, Spent};
use crate::error::Error;

/// The budget of all turns of a session.
#[derive(Debug)]
pub(super) struct SessionBudget {
    budget: Budget,
    /// What the turns that have ended used.
    pub(super) spent: Spent,
}

impl SessionBudget {
    fn exceeded(&self, turn: Option<&Spent>) -> Option<BudgetExceeded> {
        let mut spent = self.spent.clone();
        if let Some(turn) = turn {
            spent.add(turn);
        }
        self.budget.exceeded("session_budget", &spent)
    }
}

impl Connection {
    /// Limits what all turns of the session use together.
    pub fn set_session_budget(&mut self, budget: Budget) {
        self.session_budget = Some(Box::new(SessionBudget { budget, spent: Spent::default() }));
    }

    /// Cancels the running turn if it has exceeded a budget.
    pub(super) fn check_budgets(&mut self, now: Instant) {
        let Some(turn) = self.turn.as_ref().filter(|turn| turn.is_open()) else { return };
        let key = turn.key;
        if let Some(error) = self.exceeded(now) {
            self.cancel_with(key, Some(error), now);
        }
    }

    /// Returns the budget that the running turn has exceeded, as an error.
    pub(super) fn exceeded(&self, now: Instant) -> Option<Error> {
        let turn = self.turn.as_deref()?;
        let budget = turn.limits.budget.as_ref();
        if budget.is_none() && self.session_budget.is_none() {
            return None;
        }
        let spent = turn.spent(now);
        let of_turn = budget.and_then(|budget| budget.exceeded("budget", &spent));
        let of_session = || self.session_budget.as_ref()?.exceeded(Some(&spent));
        of_turn.or_else(of_session).map(Error::from)
    }

    /// Returns the error for a further turn of a session that has used up its budget.
    pub(super) fn session_budget_exceeded(&self) -> Option<Error> {
        self.session_budget.as_ref()?.exceeded(None).map(Error::from)
    }

    /// Returns when a turn that begins now exceeds a budget of seconds.
    pub(super) fn budget_deadline(&self, limits: &TurnLimits, now: Instant) -> Option<Instant> {
        let of_turn = limits.budget.and_then(|budget| budget.time());
        let of_session = self
            .session_budget
            .as_ref()
            .and_then(|session| session.budget.time().map(|time| time.saturating_sub(session.spent.time)));
        of_turn.into_iter().chain(of_session).min().map(|time| now + time)
    }
}
