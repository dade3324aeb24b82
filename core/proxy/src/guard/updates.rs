//! The notifications of the agent. Updates tell which calls it makes and what it uses.

use std::time::Instant;

use kimi_agent_client::Result;
use kimi_agent_protocol::jsonrpc::Message;
use kimi_agent_protocol::jsonrpc::relayed::{Relayed, has_ambiguous_names};

use super::Guard;
use super::requests::is_judged;

impl Guard {
    /// Handles a notification of the agent.
    pub(super) fn agent_notifies(&mut self, line: &[u8], read: Relayed<'_>, now: Instant) -> Result<()> {
        let Message::Notification { method, params } = &read.message else { return Ok(()) };
        if method == "$/cancel_request" {
            return self.agent_withdraws(line, read, now);
        }
        if is_judged(method) {
            // An editor could do it nevertheless.
            tracing::warn!(%method, "a request without an ID dropped, because it cannot be decided");
            return Ok(());
        }
        let named = params.text("sessionId").ok().and_then(|session| self.session_of(&session));
        let Some(session) = named else {
            self.to_client.pass(line);
            return Ok(());
        };
        self.record_line(Some(&session), line, now);
        if method != "session/update" {
            self.to_client.pass(line);
            return Ok(());
        }
        let Some(observed) = self.sessions.get_mut(&session) else { return Ok(()) };
        if observed.has_rules() && has_ambiguous_names(params.get()) && !read.is_odd {
            tracing::warn!("an update that two programs could read differently dropped");
            return Ok(());
        }
        match read.is_odd {
            // A lenient parser reads what some agents send, such as half of a character.
            true => observed.connection.handle_line(line, now),
            false => observed.connection.handle_message(read.message, line, now),
        }
        self.to_client.pass(line);
        let reported = observed.report();
        let breach = observed.breach(&reported);
        self.settle(&session, reported, now)?;
        self.count_day(&session, false, now)?;
        if let Some(reason) = breach
            && let Some(observed) = self.sessions.get_mut(&session)
        {
            let reported = observed.cancel(now);
            self.settle(&session, reported, now)?;
            self.note(&session, &format!("the turn is cancelled: {reason}"));
        }
        Ok(())
    }
}
