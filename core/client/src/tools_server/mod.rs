//! The program's tools as an MCP server on loopback, for agents that accept tools in no other way. Clients need the
//! session's secret. The connection handles a call like any other request: it asks the handler, withdraws the request,
//! and reports it.

#[cfg(feature = "mcp")]
mod body;
pub(crate) mod calls;
#[cfg(feature = "mcp")]
mod clients;
#[cfg(feature = "mcp")]
mod content;
#[cfg(feature = "mcp")]
mod http;
#[cfg(feature = "mcp")]
mod offer;
#[cfg(feature = "mcp")]
mod progress;
#[cfg(feature = "mcp")]
mod service;
#[cfg(all(test, feature = "mcp"))]
pub(crate) mod tests;

#[cfg(feature = "mcp")]
pub(crate) use http::ToolsServer;

use crate::dialect::ToolsEndpoint;
use crate::messages::ExternalToolsResult;

/// The server's name; the model reads it as part of its tools' names.
pub(crate) const NAME: &str = "program";

/// The server's endpoint and tools, for the session that starts it.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) endpoint: ToolsEndpoint,
    /// The accepted tools, and the rejected ones with reasons.
    pub(crate) tools: ExternalToolsResult,
}

/// Replaces the server in builds without the feature `mcp`.
#[cfg(not(feature = "mcp"))]
pub(crate) enum ToolsServer {}

#[cfg(not(feature = "mcp"))]
impl ToolsServer {
    pub(crate) async fn start(
        _tools: &[crate::handler::ExternalTool],
        _max_request_bytes: usize,
        _calls: calls::CallSender,
    ) -> crate::error::Result<(Self, Offer)> {
        let reason =
            "this agent takes `tools` from an MCP server only, which this build lacks: its feature `mcp` is off";
        Err(crate::error::Error::Unsupported(reason.to_owned()))
    }

    pub(crate) async fn close(self) {
        match self {}
    }
}
