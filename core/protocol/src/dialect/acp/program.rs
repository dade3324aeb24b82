//! The program's own tools. The agent gets them from an MCP server, and knows them by longer names.

use agent_client_protocol_schema::v1 as acp;

use super::Acp;
use crate::dialect::ToolOffer;
use crate::dialect::ToolsEndpoint;

#[derive(Debug)]
pub(super) struct Program {
    server: ToolsEndpoint,
    tools: Vec<String>,
}

impl Program {
    pub(super) fn new(server: ToolsEndpoint, tools: &[ToolOffer]) -> Self {
        Self { server, tools: tools.iter().map(|tool| tool.name.clone()).collect() }
    }

    pub(super) fn server(&self) -> acp::McpServer {
        let headers = self.server.headers.iter().map(|(name, value)| acp::HttpHeader::new(name, value)).collect();
        acp::McpServer::Http(
            acp::McpServerHttp::new(self.server.name.as_str(), self.server.url.as_str()).headers(headers),
        )
    }

    /// Returns the tool's own name if the agent's name for it is that of a program's tool: `mcp__<server>__<tool>` in
    /// Kimi Code and other agents.
    fn tool(&self, name: &str) -> Option<&str> {
        let own = name.strip_prefix("mcp__")?.strip_prefix(&*self.server.name)?.strip_prefix("__")?;
        self.tools.iter().find(|tool| *tool == own).map(String::as_str)
    }
}

impl Acp {
    /// Returns the program's name for its tool, by the agent's name.
    pub(super) fn own_tool(&self, name: &str) -> Option<&str> {
        self.program.as_ref()?.tool(name)
    }
}
