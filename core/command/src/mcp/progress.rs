//! The progress of a running turn for its client: one report for each tool call.

use kimi_agent_protocol::messages::Event;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;

use crate::run::tools::named;

/// The reports about one call, if its client asks for reports.
pub(super) struct Progress<'a> {
    context: &'a RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    count: u32,
}

impl<'a> Progress<'a> {
    pub(super) fn new(context: &'a RequestContext<RoleServer>) -> Self {
        Self { context, token: context.meta.get_progress_token(), count: 0 }
    }

    /// Reports a tool call of the agent.
    pub(super) async fn event(&mut self, event: &Event) {
        let Some(token) = self.token.clone() else { return };
        let Event::ToolCall(call) = event else { return };
        self.count += 1;
        let mut report = ProgressNotificationParam::new(token, f64::from(self.count));
        let arguments = call.function.arguments.as_deref().and_then(|text| serde_json::from_str(text).ok());
        report.message = Some(named(&call.function.name, arguments.as_ref()));
        tokio::select! {
            // A client that cannot be reached gets no result, either.
            sent = self.context.peer.notify_progress(report) => if sent.is_err() { self.token = None },
            () = self.context.ct.cancelled() => {}
        }
    }
}
