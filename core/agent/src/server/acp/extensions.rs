//! What Claude Code and others serve and Kimi Code does not: steering, and sessions of subagents.

use serde_json::{Value, json};

use super::super::super::types::{Failure, Incoming};
use super::super::Server;
use super::words::content;
use super::{Acp, INVALID_PARAMS, INVALID_REQUEST};

/// The request that adds a message to the running turn.
pub(super) const STEERING: &str = "_session/steering";

impl Acp {
    /// Returns whether a subagent with this session was announced to a client that reads such sessions.
    pub(super) fn has_subagent(&self, session: &str) -> bool {
        self.has_subagents && self.subagents.iter().any(|known| known == session)
    }
}

impl Server {
    pub(super) fn steer_acp(&mut self, id: &str, params: &Value) -> Result<Option<Incoming>, Failure> {
        let blocks = params.get("prompt").and_then(Value::as_array).filter(|blocks| !blocks.is_empty());
        let blocks =
            blocks.ok_or_else(|| Failure::new(INVALID_PARAMS, "steer params require a non-empty prompt array"))?;
        if self.is_running() {
            self.respond(id, json!({"outcome": "injected"}));
            return Ok(Some(Incoming::Steer(content(blocks))));
        }
        if params["_meta"]["steering"]["idleBehavior"] != "promptRequired" {
            return Err(Failure::new(INVALID_REQUEST, "the scripted agent begins no turn without a prompt"));
        }
        self.respond(id, json!({"outcome": "promptRequired", "reason": "noRunningTurn"}));
        Ok(None)
    }

    /// Sends the event of a subagent in the session of the subagent, which the payload names.
    pub(super) fn tell_of_subagent(&mut self, payload: &Value) {
        let session = payload["session_id"].as_str().filter(|_| self.acp.has_subagents && self.acp.session.is_some());
        let Some(session) = session else { return };
        let event = &payload["event"];
        let updates = self.acp.updates(event["type"].as_str().unwrap_or_default(), &event["payload"]);
        self.tell_in(session, updates);
    }
}
