//! Policies as the bindings hold them: the mapping that a policy can be made from.

use std::path::Path;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use kimi_agent_policy::Policy;
use serde_json::{Value, json};

use super::Naming;
use crate::error::{Error, Result, invalid_option};

/// The policies that were used last, by their JSON: a program checks many calls by one policy.
static USED: Mutex<VecDeque<(String, Arc<Policy>)>> = Mutex::new(VecDeque::new());
/// How many policies are kept.
const MAX_USED: usize = 4;

/// Reads a policy: the name of a preset, the path of a file, or a mapping. Returns the mapping as `policy`, and `warnings`.
///
/// # Errors
/// `InvalidOption` names the place and the rule.
pub fn read_policy(given: &Value) -> Result<Value> {
    let policy = match given {
        Value::String(name) => Policy::named(name)?,
        other => Policy::from_value(other)?,
    };
    Ok(json!({"policy": policy.to_value(), "warnings": policy.warnings()}))
}

/// Decides about a tool call by a policy, the JSON of the mapping from [`read_policy`]. Returns `decision`, `rule`, `source`,
/// `reason` and `part`.
///
/// # Errors
/// `InvalidOption` says what is wrong with the tool call. It has the name that the host gives the argument.
pub fn check_policy(policy: &str, call: &Value, work_dir: &Path, naming: Naming) -> Result<Value> {
    let verdict = used(policy)?.check_json(call, work_dir).map_err(|error| match error {
        Error::InvalidOption { option, reason } => invalid_option(naming.name(&option), reason),
        other => other,
    })?;
    serde_json::to_value(verdict).map_err(|error| invalid_option("tool_call", error.to_string()))
}

/// The policy with this JSON, read once.
fn used(json: &str) -> Result<Arc<Policy>> {
    let known = |used: &VecDeque<(String, Arc<Policy>)>| {
        used.iter().find(|(known, _)| known == json).map(|(_, policy)| Arc::clone(policy))
    };
    if let Some(policy) = known(&USED.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(policy);
    }
    let policy = Arc::new(Policy::from_json(json)?);
    let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
    used.truncate(MAX_USED - 1);
    used.push_front((json.to_owned(), Arc::clone(&policy)));
    Ok(policy)
}
