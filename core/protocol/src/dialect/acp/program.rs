//! The program's own tools. The agent gets them from an MCP server, and knows them by longer names.

use std::collections::BTreeSet;

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Map, Value};

use super::Acp;
use crate::dialect::ToolOffer;
use crate::dialect::ToolsEndpoint;

#[derive(Debug)]
pub(super) struct Program {
    server: ToolsEndpoint,
    tools: Vec<Own>,
}

/// A tool of the program.
#[derive(Debug)]
struct Own {
    name: String,
    /// The names of its parameters.
    parameters: BTreeSet<String>,
    /// The names of the parameters that a call must have.
    required: Vec<String>,
}

impl Own {
    fn new(tool: &ToolOffer) -> Self {
        let parameters = tool.parameters.get("properties").and_then(Value::as_object);
        let required = tool.parameters.get("required").and_then(Value::as_array);
        Self {
            name: tool.name.clone(),
            parameters: parameters.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
            required: required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}

impl Program {
    pub(super) fn new(server: ToolsEndpoint, tools: &[ToolOffer]) -> Self {
        Self { server, tools: tools.iter().map(Own::new).collect() }
    }

    pub(super) fn server(&self) -> acp::McpServer {
        let headers = self.server.headers.iter().map(|(name, value)| acp::HttpHeader::new(name, value)).collect();
        acp::McpServer::Http(
            acp::McpServerHttp::new(self.server.name.as_str(), self.server.url.as_str()).headers(headers),
        )
    }

    /// Returns the tool's own name if the agent's name for it is that of a program's tool: `mcp__<server>__<tool>` in
    /// Kimi Code and other agents.
    fn tool(&self, name: &str) -> Option<&Own> {
        let own = name.strip_prefix("mcp__")?.strip_prefix(&*self.server.name)?.strip_prefix("__")?;
        self.tools.iter().find(|tool| tool.name == own)
    }
}

impl Acp {
    /// Returns the program's name for its tool, by the agent's name.
    pub(super) fn own_tool(&self, name: &str) -> Option<&str> {
        Some(&self.program.as_ref()?.tool(name)?.name)
    }

    /// Returns whether a call of the program's tool with this name can have these arguments.
    pub(super) fn is_own_arguments(&self, name: &str, arguments: &Map<String, Value>) -> bool {
        self.program.as_ref().and_then(|program| program.tool(name)).is_some_and(|tool| {
            tool.required.iter().all(|name| arguments.contains_key(name))
                && arguments.keys().all(|name| tool.parameters.contains(name))
        })
    }
}
