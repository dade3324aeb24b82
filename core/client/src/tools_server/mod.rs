//! The program's tools as an MCP server on loopback, for agents that take tools in no other way. Only who knows the
//! session's secret is heard, and a call is a request like one that comes over the connection: the connection has it
//! answered, withdraws it and tells of it as of any other.

#[cfg(feature = "mcp")]
mod clients;
#[cfg(feature = "mcp")]
mod content;
#[cfg(feature = "mcp")]
mod http;
#[cfg(feature = "mcp")]
mod offer;
#[cfg(feature = "mcp")]
mod service;
#[cfg(all(test, feature = "mcp"))]
pub(crate) mod tests;

#[cfg(feature = "mcp")]
pub(crate) use http::ToolsServer;

use crate::dialect::ToolsEndpoint;
use crate::wire::ExternalToolsResult;

/// The server's name; the model reads it as part of its tools' names.
pub(crate) const NAME: &str = "program";

/// What a server has to tell whoever opens the session.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) endpoint: ToolsEndpoint,
    /// Which tools it has, and why not the others.
    pub(crate) tools: ExternalToolsResult,
}

/// There is none in this build.
#[cfg(not(feature = "mcp"))]
pub(crate) enum ToolsServer {}

#[cfg(not(feature = "mcp"))]
impl ToolsServer {
    pub(crate) async fn start(
        _tools: &[crate::handler::ExternalTool],
        _max_request_bytes: usize,
        _calls: crate::driver::tool_calls::Caller,
    ) -> crate::error::Result<(Self, Offer)> {
        let reason =
            "this agent takes `tools` from an MCP server only, which this build lacks: its feature `mcp` is off";
        Err(crate::error::Error::Unsupported(reason.to_owned()))
    }

    pub(crate) async fn close(self) {
        match self {}
    }
}
