//! Which of the program's tools can be offered over MCP, and how.

use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::Value;

use crate::handler::ExternalTool;
use crate::wire::{ExternalToolsResult, RejectedTool};

/// The tools as MCP lists them, with the schemas that the program registered.
pub(super) fn offer(tools: &[ExternalTool]) -> (Vec<Tool>, ExternalToolsResult) {
    let mut offered = Vec::new();
    let mut told = ExternalToolsResult::default();
    for tool in tools {
        match schema(&tool.parameters) {
            Ok(schema) => {
                offered.push(Tool::new(tool.name.clone(), tool.description.clone(), Arc::new(schema)));
                told.accepted.push(tool.name.clone());
            }
            Err(reason) => {
                told.rejected.push(RejectedTool { name: tool.name.clone(), reason, extra: Default::default() });
            }
        }
    }
    (offered, told)
}

/// MCP wants schemas of objects; clients refuse a whole list for one that does not say so.
fn schema(parameters: &Value) -> Result<serde_json::Map<String, Value>, String> {
    let Value::Object(schema) = parameters else { return Err("its parameters are no JSON Schema".to_owned()) };
    let mut schema = schema.clone();
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => Ok(schema),
        // Arguments are objects anyway, so it means the same.
        None => {
            schema.insert("type".to_owned(), "object".into());
            Ok(schema)
        }
        Some(other) => Err(format!("MCP takes parameters of type \"object\" only, not {other}")),
    }
}
