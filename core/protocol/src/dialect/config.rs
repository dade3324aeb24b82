//! The settings of a session that its agent offers.

use serde::Serialize;

/// An option of a session that can be set while the session is open, for example the model.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn show(option: &kimi_agent::ConfigOption) {
///     println!("{}: {:?} of {} choices", option.name, option.value, option.choices.len());
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConfigOption {
    /// The id, by which the option is set.
    pub id: String,
    /// The name, for people.
    pub name: String,
    /// The description, if the agent sends one.
    pub description: Option<String>,
    /// The category, if the agent names one: `model`, `thought_level`, `mode` or another.
    pub category: Option<String>,
    /// The current value.
    pub value: ConfigValue,
    /// The values to choose from. Empty if the option is a boolean.
    pub choices: Vec<ConfigChoice>,
}

/// A value to choose for a [`ConfigOption`].
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn names(option: &kimi_agent::ConfigOption) -> Vec<&str> {
///     option.choices.iter().map(|choice| &*choice.name).collect()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConfigChoice {
    /// The value.
    pub value: String,
    /// The name, for people.
    pub name: String,
    /// The description, if the agent sends one.
    pub description: Option<String>,
}

/// The value of a [`ConfigOption`].
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::ConfigValue;
/// assert_eq!(ConfigValue::from(true), ConfigValue::Bool(true));
/// assert_eq!(ConfigValue::from("kimi-k2"), ConfigValue::Text("kimi-k2".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ConfigValue {
    /// A boolean.
    Bool(bool),
    /// One of the option's choices.
    Text(String),
}

impl From<bool> for ConfigValue {
    fn from(on: bool) -> Self {
        Self::Bool(on)
    }
}

impl From<&str> for ConfigValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for ConfigValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}
