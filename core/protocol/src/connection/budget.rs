//! Budgets of the running turn and of the session: a turn that exceeds one is cancelled.

use std::time::{Duration, Instant};

use super::Connection;
use super::turn::TurnLimits;
use crate::budget::{Amounts, Budget, BudgetCounter, BudgetExceeded, Spent};
use crate::cost::Spending;
use crate::error::Error;

/// The budget of all turns of a session.
#[derive(Debug, Default)]
pub(super) struct SessionBudget {
    budget: Budget,
    /// What the turns that have ended used.
    pub(super) spent: Spent,
    /// The budget of a day, and what it counts besides this session.
    day: Option<(Budget, Amounts)>,
}

impl SessionBudget {
    fn exceeded(&self, turn: Option<&Spent>) -> Option<BudgetExceeded> {
        let mut spent = self.spent.clone();
        if let Some(turn) = turn {
            spent.add(turn);
        }
        let of_session = self.budget.exceeded("session_budget", &spent);
        of_session.or_else(|| {
            let (budget, elsewhere) = self.day.as_ref()?;
            let total = Amounts::of(&spent).plus(*elsewhere);
            budget.exceeded_by("day_budget", |counter| total.get(counter))
        })
    }
}

impl Connection {
    /// Limits what all turns of the session use together.
    pub fn set_session_budget(&mut self, budget: Budget) {
        self.session_budget.get_or_insert_default().budget = budget;
    }

    /// Limits what all turns of a day use together, those of other sessions included.
    #[doc(hidden)]
    pub fn set_day_budget(&mut self, budget: Budget) {
        self.session_budget.get_or_insert_default().day = Some((budget, Amounts::default()));
    }

    /// Returns what the turns of the session have used, if a budget of the session or of the day is set.
    #[doc(hidden)]
    pub fn used(&self, now: Instant) -> Amounts {
        let mut spent = self.session_budget.as_ref().map(|session| session.spent.clone()).unwrap_or_default();
        if let Some(turn) = &self.turn {
            spent.add(&turn.spent(now));
        }
        Amounts::of(&spent)
    }

    /// Sets what the budget of the day counts besides the turns of this session. The running turn is cancelled if that exceeds it.
    #[doc(hidden)]
    pub fn set_used_elsewhere(&mut self, amounts: Amounts, now: Instant) {
        if let Some((_, elsewhere)) = self.session_budget.as_mut().and_then(|session| session.day.as_mut()) {
            *elsewhere = amounts;
            self.check_budgets(now);
        }
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
        if let Some(problem) = self.cost_problem(&spent.cost, budget) {
            return Some(problem);
        }
        let of_turn = budget.and_then(|budget| budget.exceeded("budget", &spent));
        let of_session = || self.session_budget.as_ref()?.exceeded(Some(&spent));
        of_turn.or_else(of_session).map(Error::from)
    }

    /// Returns whether a budget limits the cost of a turn.
    pub(super) fn limits_cost(&self, of_turn: Option<&Budget>) -> bool {
        let of_session = self.session_budget.as_ref().map(|session| &session.budget);
        let of_day = self.session_budget.as_ref().and_then(|session| Some(&session.day.as_ref()?.0));
        of_turn.into_iter().chain(of_session).chain(of_day).any(Budget::limits_cost)
    }

    /// Returns the error for a cost that a limit of US dollars cannot count.
    fn cost_problem(&self, cost: &Spending, of_turn: Option<&Budget>) -> Option<Error> {
        let uncounted = cost.uncounted().filter(|_| self.limits_cost(of_turn))?;
        let remedy = if self.limits_cost(None) {
            "every prompt of the session fails; open a session with a `session_budget` of `tokens` instead"
        } else {
            "the session can still be used; limit `tokens` instead"
        };
        Some(Error::Unsupported(format!(
            "the limit `usd` counts US dollars, but the agent reports {uncounted}: {remedy}"
        )))
    }

    /// Returns the error for a further turn of a session that has used up its budget.
    pub(super) fn session_budget_exceeded(&self) -> Option<Error> {
        let session = self.session_budget.as_ref()?;
        let problem = self.cost_problem(&session.spent.cost, None);
        problem.or_else(|| session.exceeded(None).map(Error::from))
    }

    /// Returns when a turn that begins now exceeds a budget of seconds.
    pub(super) fn budget_deadline(&self, limits: &TurnLimits, now: Instant) -> Option<Instant> {
        let of_turn = limits.budget.and_then(|budget| budget.time());
        let of_session = self
            .session_budget
            .as_ref()
            .and_then(|session| session.budget.time().map(|time| time.saturating_sub(session.spent.time)));
        let of_day = self.session_budget.as_ref().and_then(|session| {
            let (budget, elsewhere) = session.day.as_ref()?;
            // After midnight, `elsewhere` is less than nothing by what the session has used before.
            let used = (session.spent.time.as_secs_f64() + elsewhere.get(BudgetCounter::Seconds)).max(0.0);
            Some(budget.time()?.saturating_sub(Duration::try_from_secs_f64(used).unwrap_or(Duration::MAX)))
        });
        of_turn.into_iter().chain(of_session).chain(of_day).min().map(|time| now + time)
    }
}
