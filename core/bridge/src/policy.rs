//! Policies as the bindings hold them: the mapping that a policy can be made from.

use std::path::Path;

use kimi_agent_policy::Policy;
use serde_json::{Value, json};

use crate::error::{Result, invalid_option};

/// Reads a policy: the path of a file, or a mapping. Returns the mapping as `policy`, and `warnings`.
///
/// # Errors
/// `InvalidOption` names the place and the rule.
pub fn read_policy(given: &Value) -> Result<Value> {
    let policy = match given {
        Value::String(path) => Policy::load(path)?,
        other => Policy::from_value(other)?,
    };
    Ok(json!({"policy": policy.to_value(), "warnings": policy.warnings()}))
}

/// Decides about a tool call by a policy from [`read_policy`]. Returns `decision`, `rule` and `source`.
///
/// # Errors
/// `InvalidOption` says what is wrong with the tool call.
pub fn check_policy(policy: &Value, call: &Value, work_dir: &Path) -> Result<Value> {
    let verdict = Policy::from_value(policy)?.check_json(call, work_dir);
    let verdict = verdict.map_err(|reason| invalid_option("tool_call", reason))?;
    serde_json::to_value(verdict).map_err(|error| invalid_option("tool_call", error.to_string()))
}
