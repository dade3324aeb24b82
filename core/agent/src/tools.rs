//! The program's tools in the handshake: accepted, or rejected with the reason.

use serde_json::Value;

use crate::messages::{ExternalToolsResult, RejectedTool};

/// A tool of the client.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// The names of kimi-cli's own tools. A program's tool cannot have them.
pub(super) const BUILTIN_TOOLS: [&str; 14] = [
    "Agent",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "FetchURL",
    "Glob",
    "Grep",
    "ReadFile",
    "SearchWeb",
    "SetTodoList",
    "Shell",
    "StrReplaceFile",
    "Task",
    "WriteFile",
];

/// Checks tools, and adds the accepted tools to `known`. A tool replaces an earlier one of the same name. `None` if a
/// tool has no name.
pub(super) fn accept(
    offered: &[Value],
    builtin: &[String],
    known: &mut Vec<OfferedTool>,
) -> Option<ExternalToolsResult> {
    let mut result = ExternalToolsResult { accepted: Vec::new(), rejected: Vec::new(), extra: Default::default() };
    let mut passed = Vec::new();
    for tool in offered {
        let name = tool.get("name")?.as_str()?.to_owned();
        let parameters = tool.get("parameters").unwrap_or(&Value::Null);
        let reason = if builtin.contains(&name) {
            Some("conflicts with builtin tool".to_owned())
        } else {
            schema_error(parameters)
        };
        if let Some(reason) = reason {
            result.rejected.push(RejectedTool { name, reason, extra: Default::default() });
            continue;
        }
        result.accepted.push(name.clone());
        let description = tool.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        passed.push(OfferedTool { name, description, parameters: parameters.clone() });
    }
    for tool in passed {
        match known.iter_mut().find(|known| known.name == tool.name) {
            Some(known) => *known = tool,
            None => known.push(tool),
        }
    }
    Some(result)
}

/// Returns the reason why `parameters` is not the JSON Schema of an object.
fn schema_error(parameters: &Value) -> Option<String> {
    let Some(schema) = parameters.as_object() else {
        return Some(format!("parameters: {parameters} is not a JSON Schema"));
    };
    let wrong = |key: &str, right: fn(&Value) -> bool, what: &str| {
        let value = schema.get(key).filter(|value| !right(value))?;
        Some(format!("parameters: \"{key}\" must be {what}, not {value}"))
    };
    let is_names = |value: &Value| value.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    wrong("type", |value| value == "object", "\"object\"")
        .or_else(|| wrong("properties", Value::is_object, "an object"))
        .or_else(|| wrong("required", is_names, "a list of names"))
}
