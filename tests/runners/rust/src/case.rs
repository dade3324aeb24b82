//! A scenario file, as the orchestrator hands it out.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

/// An error in a scenario, for its author.
pub(crate) type Problem = String;

/// The parts of a scenario that matter to a runner.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) agent: Agent,
    #[serde(default)]
    pub(crate) options: Map<String, Value>,
    pub(crate) program: Vec<Value>,
    #[serde(default)]
    pub(crate) trace_handlers: bool,
}

/// Whom the session talks to: a script for the scripted agent, or else `$SCENARIO_EXECUTABLE`.
#[derive(Debug, Deserialize)]
pub(crate) struct Agent {
    pub(crate) script: Option<Value>,
}

impl Case {
    pub(crate) fn read(path: &Path) -> Result<Self, Problem> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// A text that an operation must have.
pub(crate) fn text<'a>(op: &'a Value, key: &str) -> Result<&'a str, Problem> {
    op[key].as_str().ok_or_else(|| format!("`{key}` must be text"))
}
