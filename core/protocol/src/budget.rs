//! Budgets: how much a turn or all turns of a session may use, counted from what the agent reports.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::connection::{PromptResult, TurnStatus};
use crate::cost::Spending;
use crate::dialect::Reported;
use crate::error::Error;
use crate::messages::{Event, TokenUsage};
use crate::naming::Naming;
use crate::options::LONGEST;

/// Limits for one turn ([`PromptOptions::budget`]) or for all turns of a session ([`SessionOptions::session_budget`]). A turn
/// that exceeds one is cancelled and fails with [`Error::BudgetExceeded`].
///
/// [`PromptOptions::budget`]: https://docs.rs/kimi-agent/latest/kimi_agent/struct.PromptOptions.html#method.budget
/// [`SessionOptions::session_budget`]: https://docs.rs/kimi-agent/latest/kimi_agent/struct.SessionOptions.html#method.session_budget
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::Budget;
/// let budget = Budget::new().tokens(200_000).steps(30).seconds(600.0);
/// assert_ne!(budget, Budget::new());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Budget {
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usd: Option<f64>,
}

/// The quantity that a budget limits.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// assert_eq!(kimi_agent::BudgetCounter::ToolCalls.as_str(), "tool_calls");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetCounter {
    /// Tokens of the input and the output, those from a cache included.
    Tokens,
    /// Tokens of the output.
    OutputTokens,
    /// Steps: calls of the model.
    Steps,
    /// Tool calls.
    ToolCalls,
    /// Seconds since the turn began.
    Seconds,
    /// US dollars: what the agent reports, or the price of the tokens.
    Usd,
}

impl BudgetCounter {
    const ALL: [Self; 6] = [Self::Tokens, Self::OutputTokens, Self::Steps, Self::ToolCalls, Self::Seconds, Self::Usd];

    /// Returns the limit of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counter| counter.as_str() == name)
    }

    /// Returns the name of the limit: `tokens`, `output_tokens`, `steps`, `tool_calls`, `seconds`, `usd`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert_eq!(kimi_agent::BudgetCounter::OutputTokens.as_str(), "output_tokens");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::OutputTokens => "output_tokens",
            Self::Steps => "steps",
            Self::ToolCalls => "tool_calls",
            Self::Seconds => "seconds",
            Self::Usd => "usd",
        }
    }

    /// An amount as JSON: only seconds and money have a fraction.
    fn number(self, amount: f64) -> Number {
        match self {
            Self::Seconds | Self::Usd => Number::from_f64(amount).unwrap_or_else(|| 0.into()),
            _ => (amount as u64).into(),
        }
    }
}

impl Budget {
    /// Makes a budget without a limit.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let budget = kimi_agent::Budget::new().steps(30);
    /// # drop(budget);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the tokens of the input and the output together, those from a cache included. At least 1.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let budget = kimi_agent::Budget::new().tokens(200_000);
    /// # drop(budget);
    /// ```
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Limits the tokens of the output. At least 1.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let budget = kimi_agent::Budget::new().output_tokens(20_000);
    /// # drop(budget);
    /// ```
    #[must_use]
    pub fn output_tokens(mut self, output_tokens: u64) -> Self {
        self.output_tokens = Some(output_tokens);
        self
    }

    /// Limits the steps, those of subagents included. At least 1.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let budget = kimi_agent::Budget::new().steps(30);
    /// # drop(budget);
    /// ```
    #[must_use]
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Limits the tool calls, those of subagents included. With 0 the first call exceeds the budget.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let budget = kimi_agent::Budget::new().tool_calls(50);
    /// # drop(budget);
    /// ```
    #[must_use]
    pub fn tool_calls(mut self, tool_calls: u64) -> Self {
        self.tool_calls = Some(tool_calls);
        self
    }

    /// Limits the seconds that a turn takes, waits for handlers included.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let budget = kimi_agent::Budget::new().seconds(600.0);
    /// # drop(budget);
    /// ```
    #[must_use]
    pub fn seconds(mut self, seconds: f64) -> Self {
        self.seconds = Some(seconds);
        self
    }

    /// Limits the cost in US dollars, as the agent reports it, or as the option `prices` estimates it.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let budget = kimi_agent::Budget::new().usd(2.0);
    /// # drop(budget);
    /// ```
    #[must_use]
    pub fn usd(mut self, usd: f64) -> Self {
        self.usd = Some(usd);
        self
    }

    /// Returns whether the cost is limited.
    pub(crate) fn limits_cost(&self) -> bool {
        self.usd.is_some()
    }

    /// Returns the lower one of each limit of two budgets.
    #[doc(hidden)]
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        let lower = |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::min);
        Self {
            tokens: least(self.tokens, other.tokens),
            output_tokens: least(self.output_tokens, other.output_tokens),
            steps: least(self.steps, other.steps),
            tool_calls: least(self.tool_calls, other.tool_calls),
            seconds: lower(self.seconds, other.seconds),
            usd: lower(self.usd, other.usd),
        }
    }

    /// The time after which it is exceeded.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    fn limit(&self, counter: BudgetCounter) -> Option<f64> {
        match counter {
            BudgetCounter::Tokens => self.tokens.map(|limit| limit as f64),
            BudgetCounter::OutputTokens => self.output_tokens.map(|limit| limit as f64),
            BudgetCounter::Steps => self.steps.map(|limit| limit as f64),
            BudgetCounter::ToolCalls => self.tool_calls.map(|limit| limit as f64),
            BudgetCounter::Seconds => self.seconds,
            BudgetCounter::Usd => self.usd,
        }
    }

    /// Returns the first limit that is exceeded, as an error of this option.
    pub(crate) fn exceeded(&self, option: &'static str, spent: &Spent) -> Option<BudgetExceeded> {
        self.exceeded_by(option, |counter| spent.amount(counter))
    }

    /// Returns the first limit that these amounts exceed, as an error of this option.
    pub(crate) fn exceeded_by(
        &self,
        option: &'static str,
        amount: impl Fn(BudgetCounter) -> f64,
    ) -> Option<BudgetExceeded> {
        BudgetCounter::ALL.into_iter().find_map(|counter| {
            let (limit, used) = (self.limit(counter)?, amount(counter));
            // The deadline of seconds is reached, never passed by much; all others may be used up.
            let is_exceeded = if counter == BudgetCounter::Seconds { used >= limit } else { used > limit };
            is_exceeded.then(|| BudgetExceeded {
                option,
                counter,
                limit,
                used,
                result: PromptResult::empty(TurnStatus::Cancelled),
            })
        })
    }
}

/// Reads a budget from JSON, with names as the caller writes them. Null is no limit.
///
/// # Errors
/// Returns the problem of the value.
pub fn parse_budget(limits: Map<String, Value>, naming: Naming) -> Result<Budget, String> {
    let mut budget = Budget::default();
    for (given, value) in limits {
        let Some(counter) = BudgetCounter::ALL.into_iter().find(|one| naming.name(one.as_str()) == given) else {
            let names = BudgetCounter::ALL.map(|counter| format!("`{}`", naming.name(counter.as_str())));
            // In backticks the wrong name would be spelled as the language spells it.
            return Err(format!("it has no limit {given:?}; expected some of {}", names.join(", ")));
        };
        if value.is_null() {
            continue;
        }
        let wrong = |expected: &str| format!("`{given}`: expected {expected}, got {value}");
        let count =
            value.as_u64().or_else(|| value.as_f64().filter(|n| *n >= 0.0 && n.fract() == 0.0).map(|n| n as u64));
        match (counter, count) {
            (BudgetCounter::Seconds, _) => budget.seconds = Some(value.as_f64().ok_or_else(|| wrong("a number"))?),
            (BudgetCounter::Usd, _) => budget.usd = Some(value.as_f64().ok_or_else(|| wrong("a number"))?),
            (_, None) => return Err(wrong("a whole number")),
            (BudgetCounter::Tokens, count) => budget.tokens = count,
            (BudgetCounter::OutputTokens, count) => budget.output_tokens = count,
            (BudgetCounter::Steps, count) => budget.steps = count,
            (BudgetCounter::ToolCalls, count) => budget.tool_calls = count,
        }
    }
    budget_problem(&budget, naming).map_or(Ok(budget), Err)
}

/// Returns what is wrong with the budget, if anything is.
pub fn budget_problem(budget: &Budget, naming: Naming) -> Option<String> {
    if *budget == Budget::default() {
        let names = BudgetCounter::ALL.map(|counter| format!("`{}`", naming.name(counter.as_str())));
        return Some(format!("it has no limit; set at least one of {}", names.join(", ")));
    }
    let zero = [
        (BudgetCounter::Tokens, budget.tokens),
        (BudgetCounter::OutputTokens, budget.output_tokens),
        (BudgetCounter::Steps, budget.steps),
    ];
    if let Some((counter, _)) = zero.into_iter().find(|(_, limit)| *limit == Some(0)) {
        return Some(format!("`{}`: expected at least 1, got 0", naming.name(counter.as_str())));
    }
    if let Some(usd) = budget.usd.filter(|usd| !(usd.is_finite() && *usd > 0.0)) {
        return Some(format!("`usd`: expected more than 0 US dollars, got {usd}"));
    }
    if let Some(seconds) = budget.seconds.filter(|seconds| !seconds.is_finite()) {
        return Some(format!("`seconds`: {seconds} is not a finite number"));
    }
    let seconds = budget.seconds.filter(|seconds| !(*seconds > 0.0 && *seconds <= LONGEST.as_secs_f64()));
    seconds.map(|seconds| format!("`seconds`: expected more than 0 and at most ten years, got {seconds}"))
}

/// Returns the first limit that an agent never reports: it would never be exceeded.
pub fn uncounted(budget: &Budget, reported: Reported) -> Option<BudgetCounter> {
    let counted = |counter: &BudgetCounter| match counter {
        BudgetCounter::Tokens | BudgetCounter::OutputTokens => reported.tokens,
        BudgetCounter::Steps => reported.steps,
        BudgetCounter::Usd => reported.cost,
        _ => true,
    };
    BudgetCounter::ALL.into_iter().find(|counter| budget.limit(*counter).is_some() && !counted(counter))
}

/// What turns have used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) usage: TokenUsage,
    pub(crate) steps: u64,
    pub(crate) tool_calls: u64,
    pub(crate) time: Duration,
    pub(crate) cost: Spending,
}

impl Spent {
    /// Counts the steps of an event, also of a subagent.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::StepBegin(_) => self.steps += 1,
            Event::SubagentEvent(subagent) => self.observe(&subagent.event),
            _ => {}
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.usage += &other.usage;
        self.steps += other.steps;
        self.tool_calls += other.tool_calls;
        self.time += other.time;
        self.cost.add(&other.cost);
    }

    fn amount(&self, counter: BudgetCounter) -> f64 {
        match counter {
            BudgetCounter::Tokens => self.usage.total() as f64,
            BudgetCounter::OutputTokens => self.usage.output as f64,
            BudgetCounter::Steps => self.steps as f64,
            BudgetCounter::ToolCalls => self.tool_calls as f64,
            BudgetCounter::Seconds => self.time.as_secs_f64(),
            BudgetCounter::Usd => self.cost.usd(),
        }
    }
}

/// Amounts of all that budgets limit, for guards that count several sessions together.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts([f64; BudgetCounter::ALL.len()]);

impl Amounts {
    pub(crate) fn of(spent: &Spent) -> Self {
        Self(BudgetCounter::ALL.map(|counter| spent.amount(counter)))
    }

    pub(crate) fn get(&self, counter: BudgetCounter) -> f64 {
        BudgetCounter::ALL
            .iter()
            .zip(self.0)
            .find_map(|(other, amount)| (*other == counter).then_some(amount))
            .unwrap_or(0.0)
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|n| self.0[n] + other.0[n]))
    }

    /// Returns the difference.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(std::array::from_fn(|n| self.0[n] - other.0[n]))
    }

    /// Returns the amounts by their names.
    pub fn to_json(&self) -> Map<String, Value> {
        let amounts = BudgetCounter::ALL.into_iter().zip(self.0);
        amounts.map(|(counter, amount)| (counter.as_str().to_owned(), Value::Number(counter.number(amount)))).collect()
    }

    /// Reads what [`to_json`](Self::to_json) returns. A missing amount is 0. `None` if an amount is not one.
    pub fn from_json(amounts: &Map<String, Value>) -> Option<Self> {
        let mut read = Self::default();
        for (counter, amount) in BudgetCounter::ALL.into_iter().zip(&mut read.0) {
            if let Some(value) = amounts.get(counter.as_str()) {
                *amount = value.as_f64().filter(|amount| *amount >= 0.0)?;
            }
        }
        Some(read)
    }
}

/// A turn was ended because it, or its session, used more than a budget allows.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(error: &kimi_agent::Error) {
///     if let kimi_agent::Error::BudgetExceeded(exceeded) = error {
///         println!("{} {} of {}", exceeded.counter.as_str(), exceeded.used, exceeded.limit);
///     }
/// }
/// # report(&kimi_agent::Error::session_closed());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BudgetExceeded {
    /// The option with the limit: `budget` or `session_budget`.
    pub option: &'static str,
    /// The quantity that was limited.
    pub counter: BudgetCounter,
    /// The limit.
    pub limit: f64,
    /// The amount that was used.
    pub used: f64,
    /// The result of the turn up to its end: its tool calls, its tokens, and the last text that it said.
    pub result: PromptResult,
}

impl std::error::Error for BudgetExceeded {}

impl std::fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { option, counter, limit, used, .. } = self;
        let [used, limit] = [used, limit].map(|amount| match counter {
            BudgetCounter::Seconds => format!("{amount:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
            _ => amount.to_string(),
        });
        let mut things = match counter {
            BudgetCounter::Usd => "US dollars".to_owned(),
            _ => counter.as_str().replace('_', " "),
        };
        let verb = if used == "1" { "was" } else { "were" };
        if used == "1" {
            things.pop();
        }
        let remedy = match *option {
            "budget" => "the session can still be used: prompt again, or raise the limit",
            "day_budget" => "every further prompt fails until the day has ended, in UTC; or raise the limit",
            _ => "every further prompt of this session fails in the same way: open another one, or raise the limit",
        };
        write!(f, "the turn was ended: {used} {things} {verb} used, and `{option}` allows {limit}; {remedy}")
    }
}

impl BudgetExceeded {
    /// Returns the attributes of the error in the bindings, without the result.
    pub(crate) fn fields(&self) -> Value {
        let amount = |amount| Value::Number(self.counter.number(amount));
        serde_json::json!({
            "option": self.option,
            "counter": self.counter,
            "limit": amount(self.limit),
            "used": amount(self.used),
        })
    }
}

impl From<BudgetExceeded> for Error {
    fn from(exceeded: BudgetExceeded) -> Self {
        Self::BudgetExceeded(Box::new(exceeded))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(limits: Value, naming: Naming) -> Result<Budget, String> {
        parse_budget(limits.as_object().expect("an object").clone(), naming)
    }

    #[test]
    fn budget_is_read_in_both_namings() {
        let expected = Budget::new().tokens(5).output_tokens(4).steps(3).tool_calls(0).seconds(1.5).usd(0.5);
        let snake = json!({"tokens": 5, "output_tokens": 4, "steps": 3.0, "tool_calls": 0, "seconds": 1.5, "usd": 0.5});
        assert_eq!(read(snake, Naming::Snake), Ok(expected));
        let camel = json!({"tokens": 5, "outputTokens": 4, "steps": 3, "toolCalls": 0, "seconds": 1.5, "usd": 0.5});
        assert_eq!(read(camel, Naming::Camel), Ok(expected));
        assert_eq!(read(json!({"steps": 3, "tokens": null}), Naming::Snake), Ok(Budget::new().steps(3)));
    }

    #[test]
    fn wrong_budget_names_expected_values() {
        for (limits, part) in [
            (json!({}), "it has no limit; set at least one of `tokens`"),
            (json!({"token": 1}), "it has no limit \"token\"; expected some of `tokens`, `output_tokens`"),
            (json!({"tokens": 0}), "`tokens`: expected at least 1, got 0"),
            (json!({"tokens": -1}), "`tokens`: expected a whole number, got -1"),
            (json!({"steps": 1.5}), "`steps`: expected a whole number, got 1.5"),
            (json!({"steps": "3"}), "`steps`: expected a whole number, got \"3\""),
            (json!({"seconds": "3"}), "`seconds`: expected a number"),
            (json!({"seconds": 0}), "`seconds`: expected more than 0"),
            (json!({"seconds": 1e12}), "at most ten years"),
            (json!({"usd": 0}), "`usd`: expected more than 0 US dollars, got 0"),
            (json!({"usd": -1}), "`usd`: expected more than 0 US dollars, got -1"),
            (json!({"usd": "2"}), "`usd`: expected a number, got \"2\""),
        ] {
            let problem = read(limits, Naming::Snake).expect_err("a problem");
            assert!(problem.contains(part), "{problem}");
        }
        assert!(read(json!({"output_tokens": 1}), Naming::Camel).expect_err("a problem").contains("`outputTokens`"));
        let problem = read(json!({"tool_calls": 1}), Naming::Camel).expect_err("a problem");
        assert_eq!(Naming::Camel.spell(&problem).matches("tool_calls").count(), 1, "{problem}");
        for seconds in [f64::NAN, f64::INFINITY] {
            let problem = budget_problem(&Budget::new().seconds(seconds), Naming::Snake);
            assert_eq!(problem, Some(format!("`seconds`: {seconds} is not a finite number")));
            let problem = budget_problem(&Budget::new().usd(seconds), Naming::Snake);
            assert_eq!(problem, Some(format!("`usd`: expected more than 0 US dollars, got {seconds}")));
        }
    }

    #[test]
    fn unreported_limit_is_found() {
        let budget = Budget::new().output_tokens(1).steps(1).tool_calls(1).seconds(1.0);
        let all = Reported { tokens: true, steps: true, cost: true };
        assert_eq!(uncounted(&budget, Reported { cost: false, ..all }), None);
        assert_eq!(uncounted(&budget, Reported { tokens: false, ..all }), Some(BudgetCounter::OutputTokens));
        assert_eq!(uncounted(&budget, Reported { steps: false, ..all }), Some(BudgetCounter::Steps));
        assert_eq!(uncounted(&budget.usd(1.0), Reported { cost: false, ..all }), Some(BudgetCounter::Usd));
        let none = Reported { tokens: false, steps: false, cost: false };
        assert_eq!(uncounted(&Budget::new().tool_calls(1).seconds(1.0), none), None);
    }

    #[test]
    fn error_names_usage_and_remedy() {
        let mut spent = Spent { steps: 4, ..Spent::default() };
        let budget = Budget::new().steps(3);
        let error: Error = budget.exceeded("budget", &spent).expect("exceeded").into();
        assert_eq!(
            error.to_string(),
            "the turn was ended: 4 steps were used, and `budget` allows 3; the session can still be used: prompt again, or \
             raise the limit"
        );
        assert_eq!(error.code(), "budget_exceeded");
        assert!(!error.is_retryable());
        spent.steps = 3;
        assert_eq!(budget.exceeded("budget", &spent), None);
        spent.tool_calls = 1;
        let error = Budget::new().tool_calls(0).exceeded("budget", &spent).expect("exceeded").to_string();
        assert!(error.contains("1 tool call was used, and `budget` allows 0"), "{error}");
        spent.cost.estimate(0.25);
        let error = Budget::new().usd(0.2).exceeded("budget", &spent).expect("exceeded").to_string();
        assert!(error.contains("0.25 US dollars were used, and `budget` allows 0.2;"), "{error}");
        assert_eq!(Budget::new().usd(0.25).exceeded("budget", &spent), None);
        spent.time = Duration::from_millis(1500);
        let error = Budget::new().seconds(1.5).exceeded("session_budget", &spent).expect("exceeded").to_string();
        assert!(error.contains("1.5 seconds were used, and `session_budget` allows 1.5; every further"), "{error}");
    }
}
