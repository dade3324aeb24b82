//! Converts the program's tools to MCP, and rejects those that MCP cannot have.

use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::Value;

use crate::handler::ExternalTool;
use crate::messages::{ExternalToolsResult, RejectedTool};

/// The tools in the list of MCP, with the schemas that the program set.
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

/// MCP requires schemas of objects. Some clients refuse the whole list if one schema has no type.
fn schema(parameters: &Value) -> Result<serde_json::Map<String, Value>, String> {
    let Value::Object(schema) = parameters else { return Err("its parameters are no JSON Schema".to_owned()) };
    let mut schema = schema.clone();
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => Ok(schema),
        // Arguments are always objects, so the meaning stays the same.
        None => {
            schema.insert("type".to_owned(), "object".into());
            Ok(schema)
        }
        Some(other) => Err(format!("MCP takes parameters of type \"object\" only, not {other}")),
    }
}
