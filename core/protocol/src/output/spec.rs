//! The option `output`, as a program sets it.

use serde::Serialize;
use serde_json::{Map, Value};

/// The default name of the tool that takes the result.
pub const DEFAULT_NAME: &str = "final_result";
/// The default number of retries.
pub const DEFAULT_RETRIES: u32 = 2;

/// The fields of the option.
pub const OUTPUT_KEYS: [&str; 5] = ["schema", "name", "description", "mode", "retries"];
/// Set by a binding if the program checks values itself.
const CHECKED: &str = "checked";

/// How the agent returns the value of structured output.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// assert_eq!(kimi_agent::OutputMode::Text.as_str(), "text");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputMode {
    /// The tool if the SDK can offer one before the turn and the agent takes tools, else the text.
    #[default]
    Auto,
    /// The model calls a tool of the SDK with the value.
    Tool,
    /// The value is taken from the text of the answer.
    Text,
}

impl OutputMode {
    const ALL: [Self; 3] = [Self::Auto, Self::Tool, Self::Text];

    /// Returns the word for the mode: `auto`, `tool`, `text`.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert_eq!(kimi_agent::OutputMode::Auto.as_str(), "auto");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tool => "tool",
            Self::Text => "text",
        }
    }
}

/// The value that a turn must return, as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSpec {
    /// The JSON Schema of the value.
    pub schema: Value,
    /// The name of the tool that takes the value.
    pub name: String,
    /// A description of the value, for the model.
    pub description: Option<String>,
    /// How the agent returns the value.
    pub mode: OutputMode,
    /// How many invalid or missing values are answered with a request for another one.
    pub retries: u32,
    /// Whether the program checks values, too. A pattern that the validator cannot read is then left to the program.
    pub is_checked: bool,
}

impl OutputSpec {
    /// Makes the option for a schema, with all defaults.
    pub fn new(schema: Value) -> Self {
        Self {
            schema,
            name: DEFAULT_NAME.to_owned(),
            description: None,
            mode: OutputMode::Auto,
            retries: DEFAULT_RETRIES,
            is_checked: false,
        }
    }
}

/// Reads the option from JSON. Null is the default.
///
/// # Errors
/// Returns the problem of the value. The schema itself is checked by [`OutputPlan::new`](super::OutputPlan::new).
pub fn parse_output(mut given: Map<String, Value>) -> Result<OutputSpec, String> {
    let is_checked = given.remove(CHECKED) == Some(Value::Bool(true));
    if let Some(unknown) = given.keys().find(|key| !OUTPUT_KEYS.contains(&key.as_str())) {
        let keys = OUTPUT_KEYS.map(|key| format!("`{key}`"));
        return Err(format!("it has no {unknown:?}; expected some of {}", keys.join(", ")));
    }
    let mut spec = match given.remove("schema") {
        None | Some(Value::Null) => return Err("it has no `schema`; expected a JSON Schema".to_owned()),
        Some(schema) => OutputSpec { is_checked, ..OutputSpec::new(schema) },
    };
    for (key, value) in given {
        let wrong = |expected: &str| format!("`{key}`: expected {expected}, got {value}");
        match (key.as_str(), &value) {
            (_, Value::Null) => {}
            ("name", Value::String(name)) => spec.name.clone_from(name),
            ("description", Value::String(description)) => spec.description = Some(description.clone()),
            ("mode", value) => {
                let mode = OutputMode::ALL.into_iter().find(|mode| value == mode.as_str());
                spec.mode = mode.ok_or_else(|| wrong("\"auto\", \"tool\" or \"text\""))?;
            }
            ("retries", value) => {
                let whole = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(n));
                spec.retries = whole.ok_or_else(|| wrong("a whole number from 0 to 4294967295"))? as u32;
            }
            _ => return Err(wrong("text")),
        }
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(given: Value) -> Result<OutputSpec, String> {
        parse_output(given.as_object().expect("an object").clone())
    }

    #[test]
    fn option_is_read_with_defaults() {
        let schema = json!({"type": "object"});
        assert_eq!(read(json!({"schema": schema, "name": null})), Ok(OutputSpec::new(schema.clone())));
        let all =
            json!({"schema": schema, "name": "n", "description": "d", "mode": "text", "retries": 0.0, "checked": true});
        let expected = OutputSpec {
            schema,
            name: "n".to_owned(),
            description: Some("d".to_owned()),
            mode: OutputMode::Text,
            retries: 0,
            is_checked: true,
        };
        assert_eq!(read(all), Ok(expected));
    }

    #[test]
    fn wrong_option_names_expected_values() {
        for (given, part) in [
            (json!({}), "it has no `schema`"),
            (json!({"schema": {}, "retry": 1}), "it has no \"retry\"; expected some of `schema`, `name`"),
            (json!({"schema": {}, "name": 1}), "`name`: expected text, got 1"),
            (json!({"schema": {}, "mode": "json"}), "`mode`: expected \"auto\", \"tool\" or \"text\", got \"json\""),
            (json!({"schema": {}, "retries": -1}), "`retries`: expected a whole number from 0 to 4294967295, got -1"),
            (json!({"schema": {}, "retries": 1_u64 << 32}), "to 4294967295, got 4294967296"),
            (json!({"schema": {}, "retries": 1.5}), "`retries`: expected a whole number"),
        ] {
            let problem = read(given).expect_err("a problem");
            assert!(problem.contains(part), "{problem}");
        }
    }
}
