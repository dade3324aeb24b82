//! The costs of turns: prices of tokens, and reports of an agent.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::dialect::{ConfigOption, ConfigValue};
use crate::messages::{Cost, CostSource, TokenUsage};
use crate::naming::Naming;

/// The name of the price for all models that have no other.
const ANY: &str = "*";

/// The currency of budgets and prices.
pub(crate) const USD: &str = "USD";

/// The limit of the name of a currency, in bytes.
const MAX_CURRENCY: usize = 32;

/// The largest amount that is a cost.
const MAX_AMOUNT: f64 = 1e15;

/// The price of a model, in US dollars for a million tokens.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::Price;
/// let price = Price::new(0.6, 2.5).cache_read(0.15);
/// assert_ne!(price, Price::new(0.6, 2.5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    input: f64,
    output: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write: Option<f64>,
}

impl Price {
    /// Makes the price of the input and the output. Cached input has the price of the input.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let price = kimi_agent::Price::new(0.6, 2.5);
    /// # drop(price);
    /// ```
    pub fn new(input: f64, output: f64) -> Self {
        Self { input, output, cache_read: None, cache_write: None }
    }

    /// Sets the price of input that is read from a cache.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let price = kimi_agent::Price::new(0.6, 2.5).cache_read(0.15);
    /// # drop(price);
    /// ```
    #[must_use]
    pub fn cache_read(mut self, price: f64) -> Self {
        self.cache_read = Some(price);
        self
    }

    /// Sets the price of input that is written to a cache.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let price = kimi_agent::Price::new(3.0, 15.0).cache_write(3.75);
    /// # drop(price);
    /// ```
    #[must_use]
    pub fn cache_write(mut self, price: f64) -> Self {
        self.cache_write = Some(price);
        self
    }

    /// Returns what the tokens cost.
    pub(crate) fn of(&self, usage: &TokenUsage) -> f64 {
        let cost = |tokens: i64, price: f64| tokens.max(0) as f64 * price / 1e6;
        cost(usage.input_other, self.input)
            + cost(usage.output, self.output)
            + cost(usage.input_cache_read, self.cache_read.unwrap_or(self.input))
            + cost(usage.input_cache_creation, self.cache_write.unwrap_or(self.input))
    }

    /// The amounts by their names. An absent one may be left out.
    fn amounts(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("input", Some(self.input)),
            ("output", Some(self.output)),
            ("cache_read", self.cache_read),
            ("cache_write", self.cache_write),
        ]
    }
}

/// Prices of models, for agents that report tokens and no costs.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::{Price, Prices};
/// let prices = Prices::new().model("kimi-k2", Price::new(0.6, 2.5).cache_read(0.15));
/// assert_ne!(prices, Prices::new());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Makes prices of no model.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let prices = kimi_agent::Prices::new();
    /// # drop(prices);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the price of a model, by the name that the agent has for it. `*` is the price of every other model.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::{Price, Prices};
    /// let prices = Prices::new().model("*", Price::new(0.6, 2.5));
    /// # drop(prices);
    /// ```
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, price: Price) -> Self {
        self.0.insert(name.into(), price);
        self
    }

    /// Returns the price of the model that a session uses: the one that the agent names, or else the option `model`.
    #[doc(hidden)]
    pub fn find(&self, model: Option<&str>, options: &[ConfigOption]) -> Option<Price> {
        let is_model = |option: &&ConfigOption| option.category.as_deref().unwrap_or(&option.id) == "model";
        let named = options.iter().find(is_model).and_then(|option| match &option.value {
            ConfigValue::Text(model) => Some(&**model),
            _ => None,
        });
        let mut names = named.into_iter().chain(model).chain([ANY]);
        names.find_map(|name| self.0.get(name)).copied()
    }
}

/// Reads prices from JSON, with names as the caller writes them.
///
/// # Errors
/// Returns the problem of the value.
pub fn parse_prices(models: Map<String, Value>, naming: Naming) -> Result<Prices, String> {
    let mut prices = Prices::new();
    for (model, given) in models {
        let Value::Object(given) = given else {
            return Err(format!("{model:?}: expected an object with `input` and `output`, got {given}"));
        };
        let mut price = Price::new(f64::NAN, f64::NAN);
        for (name, value) in given {
            let amounts = price.amounts().map(|(name, _)| name);
            let Some(known) = amounts.into_iter().find(|known| naming.name(known) == name) else {
                let names = amounts.map(|name| format!("`{}`", naming.name(name)));
                return Err(format!("{model:?}: it has no price {name:?}; expected some of {}", names.join(", ")));
            };
            if value.is_null() {
                continue;
            }
            let amount =
                value.as_f64().ok_or_else(|| format!("{model:?}: `{name}`: expected a number, got {value}"))?;
            match known {
                "input" => price.input = amount,
                "output" => price.output = amount,
                "cache_read" => price.cache_read = Some(amount),
                _ => price.cache_write = Some(amount),
            }
        }
        if let Some(missing) = [("input", price.input), ("output", price.output)].iter().find(|(_, it)| it.is_nan()) {
            return Err(format!("{model:?}: `{}` is missing", missing.0));
        }
        prices = prices.model(model, price);
    }
    prices_problem(&prices, naming).map_or(Ok(prices), Err)
}

/// Returns what is wrong with the prices, if anything is.
pub fn prices_problem(prices: &Prices, naming: Naming) -> Option<String> {
    if prices.0.is_empty() {
        return Some("it has no model; expected prices by the names of models".to_owned());
    }
    prices.0.iter().find_map(|(model, price)| {
        if model.is_empty() {
            return Some("the name of a model is empty".to_owned());
        }
        let is_wrong = |amount: &f64| !(amount.is_finite() && *amount >= 0.0 && *amount <= 1e9);
        let (name, amount) = price.amounts().into_iter().find_map(|(name, it)| Some((name, it.filter(is_wrong)?)))?;
        Some(format!(
            "{model:?}: `{}`: expected US dollars for a million tokens, from 0 on, got {amount}",
            naming.name(name)
        ))
    })
}

/// Returns an amount and a currency if both are valid. The codes of currencies are in capitals.
pub(crate) fn money(amount: f64, currency: &str) -> Option<Money> {
    let currency = currency.trim();
    let is_name = !currency.is_empty() && currency.len() <= MAX_CURRENCY && !currency.chars().any(char::is_control);
    let is_code = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_alphabetic());
    let currency = if is_code { currency.to_ascii_uppercase() } else { currency.to_owned() };
    (is_name && (0.0..=MAX_AMOUNT).contains(&amount)).then_some(Money { amount, currency })
}

/// An amount of a currency.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Money {
    pub(crate) amount: f64,
    pub(crate) currency: String,
}

impl Money {
    pub(crate) fn into_cost(self, source: CostSource) -> Cost {
        Cost { amount: rounded(self.amount), currency: self.currency, source, extra: Default::default() }
    }
}

/// Removes the inexact end of a difference or a sum.
fn rounded(amount: f64) -> f64 {
    if amount < 1e6 { (amount * 1e9).round() / 1e9 } else { amount }
}

/// The cost of one turn, or of all turns of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spending {
    /// The sum of the agent's reports.
    reported: Option<Money>,
    /// A cost that the agent has reported and that a budget cannot count, in words.
    uncounted: Option<String>,
    /// Whether it has reported several currencies.
    is_mixed: bool,
    /// The price of the tokens, in US dollars.
    estimated: Option<f64>,
}

impl Spending {
    /// Counts what the agent reports.
    pub(crate) fn report(&mut self, money: Money) {
        if money.currency != USD {
            self.uncounted = Some(format!("its cost in {}", money.currency));
        }
        match &mut self.reported {
            None => self.reported = Some(money),
            Some(reported) if reported.currency == money.currency => reported.amount += money.amount,
            Some(_) => self.is_mixed = true,
        }
    }

    /// Notes that the agent has reported a cost that cannot be read.
    pub(crate) fn report_invalid(&mut self) {
        self.uncounted.get_or_insert_with(|| "a cost that is not an amount of a currency".to_owned());
    }

    /// Counts the price of tokens.
    pub(crate) fn estimate(&mut self, amount: f64) {
        *self.estimated.get_or_insert(0.0) += amount;
    }

    /// Returns the cost: what the agent has reported, or else the price of the tokens. `None` if neither is known, or if the
    /// agent has reported several currencies.
    pub(crate) fn cost(&self) -> Option<Cost> {
        match (&self.reported, self.estimated) {
            _ if self.is_mixed => None,
            (Some(reported), _) => Some(reported.clone().into_cost(CostSource::Reported)),
            (None, Some(amount)) => Some(Money { amount, currency: USD.to_owned() }.into_cost(CostSource::Estimated)),
            (None, None) => None,
        }
    }

    /// Returns the cost in US dollars, as far as it is known.
    pub(crate) fn usd(&self) -> f64 {
        let reported = self.reported.as_ref().filter(|reported| reported.currency == USD);
        rounded(reported.map(|reported| reported.amount).or(self.estimated).unwrap_or(0.0))
    }

    /// Returns a reported cost that is not in US dollars, in words that follow "the agent reports".
    pub(crate) fn uncounted(&self) -> Option<&str> {
        self.uncounted.as_deref()
    }

    /// Adds the cost of a turn to that of a session.
    pub(crate) fn add(&mut self, turn: &Self) {
        let usd = self.usd() + turn.usd();
        let uncounted = self.uncounted.take().or_else(|| turn.uncounted.clone());
        *self = Self { estimated: Some(usd), uncounted, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(prices: Value, naming: Naming) -> Result<Prices, String> {
        parse_prices(prices.as_object().expect("an object").clone(), naming)
    }

    #[test]
    fn prices_are_read_in_both_namings() {
        let expected = Prices::new().model("k2", Price::new(0.6, 2.5).cache_read(0.15).cache_write(0.0));
        let snake = json!({"k2": {"input": 0.6, "output": 2.5, "cache_read": 0.15, "cache_write": 0}});
        assert_eq!(read(snake, Naming::Snake), Ok(expected.clone()));
        let camel = json!({"k2": {"input": 0.6, "output": 2.5, "cacheRead": 0.15, "cacheWrite": 0}});
        assert_eq!(read(camel, Naming::Camel), Ok(expected));
    }

    #[test]
    fn wrong_prices_name_the_model() {
        for (prices, part) in [
            (json!({}), "it has no model"),
            (json!({"k2": 5}), "\"k2\": expected an object with `input` and `output`, got 5"),
            (json!({"k2": {"input": 1}}), "\"k2\": `output` is missing"),
            (
                json!({"k2": {"input": 1, "output": -1}}),
                "`output`: expected US dollars for a million tokens, from 0 on, got -1",
            ),
            (json!({"k2": {"input": "1", "output": 1}}), "`input`: expected a number, got \"1\""),
            (json!({"k2": {"in": 1, "output": 1}}), "it has no price \"in\"; expected some of `input`"),
            (json!({"": {"input": 1, "output": 1}}), "the name of a model is empty"),
            (json!({"k2": {"input": 1e300, "output": 1}}), "got 1000000"),
        ] {
            let problem = read(prices, Naming::Snake).expect_err("a problem");
            assert!(problem.contains(part), "{problem}");
        }
        for amount in [f64::NAN, f64::INFINITY, -0.1] {
            assert!(prices_problem(&Prices::new().model("a", Price::new(amount, 1.0)), Naming::Snake).is_some());
        }
    }

    #[test]
    fn price_counts_each_kind_of_token() {
        let usage = TokenUsage {
            input_other: 1_000_000,
            output: 2_000_000,
            input_cache_read: 500_000,
            input_cache_creation: 100_000,
            ..TokenUsage::default()
        };
        let price = Price::new(1.0, 10.0);
        assert_eq!(rounded(price.of(&usage)), 21.6);
        assert_eq!(rounded(price.cache_read(0.1).cache_write(2.0).of(&usage)), 21.25);
        assert_eq!(price.of(&TokenUsage { output: -5, ..TokenUsage::default() }), 0.0);
    }

    #[test]
    fn model_of_agent_decides_about_price() {
        let prices = Prices::new().model("a", Price::new(1.0, 1.0)).model("b", Price::new(2.0, 2.0));
        let option = |model: &str| ConfigOption {
            id: "model".to_owned(),
            name: "Model".to_owned(),
            description: None,
            category: None,
            value: ConfigValue::Text(model.to_owned()),
            choices: Vec::new(),
        };
        assert_eq!(prices.find(Some("a"), &[]), Some(Price::new(1.0, 1.0)));
        assert_eq!(prices.find(Some("a"), &[option("b")]), Some(Price::new(2.0, 2.0)));
        assert_eq!(prices.find(Some("a"), &[option("c")]), Some(Price::new(1.0, 1.0)));
        assert_eq!(prices.find(None, &[option("c")]), None);
        assert_eq!(prices.model("*", Price::new(3.0, 3.0)).find(None, &[]), Some(Price::new(3.0, 3.0)));
    }

    #[test]
    fn wrong_money_is_none() {
        assert_eq!(money(0.5, " usd ").map(|money| money.currency).as_deref(), Some(USD));
        assert_eq!(money(1.0, "credits").map(|money| money.currency).as_deref(), Some("credits"));
        for amount in [-0.1, f64::NAN, f64::INFINITY, 1e16] {
            assert_eq!(money(amount, "USD"), None);
        }
        for currency in [" ", "a\nb"] {
            assert_eq!(money(1.0, currency), None);
        }
        assert_eq!(money(1.0, &"x".repeat(MAX_CURRENCY + 1)), None);
    }

    #[test]
    fn spending_prefers_reports_to_estimates() {
        let mut turn = Spending::default();
        assert_eq!(turn.cost(), None);
        turn.estimate(0.1);
        assert_eq!(turn.cost().map(|cost| (cost.amount, cost.source)), Some((0.1, CostSource::Estimated)));
        turn.report(money(0.25, "USD").expect("money"));
        turn.report(money(0.05, "USD").expect("money"));
        assert_eq!(turn.cost().map(|cost| (cost.amount, cost.source)), Some((0.3, CostSource::Reported)));
        assert_eq!((turn.usd(), turn.uncounted()), (0.3, None));
        let mut session = Spending::default();
        session.add(&turn);
        session.add(&turn);
        assert_eq!(session.usd(), 0.6);
        turn.report(money(2.0, "EUR").expect("money"));
        assert_eq!((turn.cost(), turn.uncounted()), (None, Some("its cost in EUR")));
        session.add(&turn);
        assert_eq!((session.usd(), session.uncounted()), (0.9, Some("its cost in EUR")));
        let mut invalid = Spending::default();
        invalid.report_invalid();
        assert_eq!((invalid.cost(), invalid.uncounted()), (None, Some("a cost that is not an amount of a currency")));
    }
}
