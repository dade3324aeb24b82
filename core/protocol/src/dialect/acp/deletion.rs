//! The deletion of a session that an agent has stored.

use serde_json::json;

use super::listing::{Question, offering, refused};
use super::opening;
use crate::dialect::InitializeParams;
use crate::error::Result;
use crate::jsonrpc::RpcFailure;
use crate::messages::Json;

/// The deletion of a session: the handshake, then the call.
#[derive(Debug)]
pub struct Deletion {
    session: String,
    greeted: bool,
}

impl Deletion {
    /// Starts the deletion. Returns the first call.
    pub fn new(hello: &InitializeParams, session: String) -> (Self, Question) {
        (Self { session, greeted: false }, ("initialize", json!(opening::initialize_request(hello))))
    }

    /// Reads an answer. Returns the next call; `None` if the session is deleted.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the agent cannot delete sessions, or the agent's error.
    pub fn answered(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Option<Question>> {
        let answer = outcome.map_err(refused)?;
        if self.greeted {
            return Ok(None);
        }
        self.greeted = true;
        let missing = "`delete_session`; only some agents of ACP can delete their sessions";
        offering(&answer, missing, |can| can.delete.is_some())?;
        Ok(Some(("session/delete", json!({"sessionId": self.session}))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn begun(capabilities: Value) -> (Deletion, Result<Option<Question>>) {
        let (mut deletion, (method, _)) = Deletion::new(&InitializeParams::default(), "s".into());
        assert_eq!(method, "initialize");
        let able = json!({"protocolVersion": 1, "agentInfo": {"name": "x", "version": "1"},
            "agentCapabilities": {"sessionCapabilities": capabilities}});
        let next = deletion.answered(Ok(Json::from(able)));
        (deletion, next)
    }

    #[test]
    fn session_delete_needs_capability() {
        let (mut deletion, next) = begun(json!({"delete": {}}));
        assert_eq!(next.unwrap(), Some(("session/delete", json!({"sessionId": "s"}))));
        assert_eq!(deletion.answered(Ok(Json::from(json!({})))).unwrap(), None);

        let (mut deletion, _) = begun(json!({"delete": {}}));
        let refused = RpcFailure { code: -32602, message: "Unknown sessionId".to_owned(), data: None };
        assert_eq!(deletion.answered(Err(refused)).unwrap_err().to_string(), "Unknown sessionId (-32602)");

        let (_, next) = begun(json!({"list": {}}));
        let expected =
            "x 1 (ACP 1) does not support `delete_session`; only some agents of ACP can delete their sessions";
        assert_eq!(next.unwrap_err().to_string(), expected);
    }
}
