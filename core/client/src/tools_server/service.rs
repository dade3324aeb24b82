//! The answers of the MCP server: the list of tools, and the results of calls.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::body::Arguments;
use super::calls::CallSender;
use super::content;
use super::progress::Reporter;
use crate::messages::{ToolCallRequest, ToolReturnValue};
use crate::tool_context::Report;

/// The server for one client. All clients get the same tools.
#[derive(Clone)]
pub(super) struct Tools {
    pub(super) tools: Arc<[Tool]>,
    pub(super) calls: CallSender,
    pub(super) count: Arc<AtomicU64>,
    pub(super) report_interval: Duration,
    /// Held while any part of the server runs.
    pub(super) _alive: mpsc::Sender<Infallible>,
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("kimi-agent", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.into_owned();
        let head = context.extensions.get::<hyper::http::request::Parts>();
        let large = head.and_then(|head| head.extensions.get::<Arguments>()).and_then(Arguments::take);
        // The size of large arguments is counted until the call ends.
        let (large, _counted) = large.unzip();
        let call = ToolCallRequest {
            // MCP does not have the model's id of the call.
            id: format!("mcp-{}", self.count.fetch_add(1, Ordering::Relaxed)),
            name: name.clone(),
            arguments: large.or_else(|| request.arguments.map(|arguments| Value::Object(arguments).to_string())),
            extra: Default::default(),
        };
        let (progress, reports) = watch::channel(Report::default());
        let mut reporter = Reporter::new(&context, reports, self.report_interval);
        let mut running = pin!(self.calls.call(call, progress));
        let result = loop {
            tokio::select! {
                biased;
                result = &mut running => break result,
                // The client has cancelled the call, or the server ends.
                () = context.ct.cancelled() => break None,
                () = reporter.due() => reporter.send().await,
            }
        };
        if result.is_some() {
            reporter.finish().await;
        }
        let result = result.unwrap_or_else(|| ToolReturnValue::error(format!("{name}: its turn has ended")));
        Ok(content::result(result).into())
    }
}
