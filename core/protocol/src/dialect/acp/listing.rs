//! The sessions that an agent keeps, which it tells page by page.

use std::path::PathBuf;

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Value, json};

use super::opening;
use crate::dialect::{InitializeParams, SessionInfo, agent_name};
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::wire::jsonrpc::RpcFailure;
use crate::wire::{Json, ServerInfo, decode_body};

/// A method, and its parameters.
type Question = (&'static str, Value);

/// What has been told of them.
#[derive(Debug)]
pub struct Listing {
    work_dir: Option<PathBuf>,
    greeted: bool,
    server: Option<ServerInfo>,
    /// Where the page that was asked for begins.
    cursor: Option<String>,
    sessions: Vec<SessionInfo>,
}

impl Listing {
    /// What to ask the agent first. `work_dir` is an absolute path.
    pub fn new(hello: &InitializeParams, work_dir: Option<PathBuf>) -> (Self, Question) {
        let listing = Self { work_dir, greeted: false, server: None, cursor: None, sessions: Vec::new() };
        (listing, ("initialize", json!(opening::initialize_request(hello))))
    }

    /// Takes in an answer; gives what to ask next, if anything.
    pub fn answered(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Option<Question>> {
        let answer = outcome.map_err(|failure| {
            let RpcFailure { code, message, data } = failure;
            Error::Rpc(RpcError { kind: RpcErrorKind::Other, rpc_code: Some(code), message, data, hint: None })
        })?;
        if !self.greeted {
            self.greeted(&answer)?;
            return Ok(Some(self.question()));
        }
        let page: acp::ListSessionsResponse = decode_body(answer.get())
            .map_err(|reason| Error::Protocol(format!("the agent's list of sessions can't be read: {reason}")))?;
        self.sessions.extend(page.sessions.into_iter().map(|session| SessionInfo {
            id: session.session_id.0.to_string(),
            work_dir: session.cwd,
            title: session.title,
            updated_at: session.updated_at,
        }));
        match page.next_cursor {
            None => Ok(None),
            same if same == self.cursor => Err(Error::Protocol(
                "the agent's list of sessions never ends: a page names itself as the next one; report it to the \
                               agent's authors"
                    .to_owned(),
            )),
            next => {
                self.cursor = next;
                Ok(Some(self.question()))
            }
        }
    }

    fn greeted(&mut self, answer: &Json) -> Result<()> {
        let answer: acp::InitializeResponse = decode_body(answer.get()).map_err(|reason| {
            Error::Handshake(format!("the agent's answer to `initialize` can't be read: {reason}"))
        })?;
        self.greeted = true;
        self.server = opening::server(answer.agent_info);
        if answer.agent_capabilities.session_capabilities.list.is_none() {
            let agent = agent_name(self.server.as_ref(), opening::NAME);
            return Err(Error::Unsupported(format!(
                "{agent} does not support `list_sessions`; only some agents of ACP can list their sessions"
            )));
        }
        Ok(())
    }

    fn question(&self) -> Question {
        let mut params = json!({});
        if let Some(work_dir) = &self.work_dir {
            params["cwd"] = json!(work_dir);
        }
        if let Some(cursor) = &self.cursor {
            params["cursor"] = json!(cursor);
        }
        ("session/list", params)
    }

    pub fn into_sessions(self) -> Vec<SessionInfo> {
        self.sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: Value) -> std::result::Result<Json, RpcFailure> {
        Ok(Json::from(value))
    }

    fn able() -> Value {
        json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"list": {}}}})
    }

    fn page(names: &[&str], next: Option<&str>) -> Value {
        let sessions: Vec<_> = names.iter().map(|name| json!({"sessionId": name, "cwd": "/w"})).collect();
        json!({"sessions": sessions, "nextCursor": next})
    }

    #[test]
    fn all_pages_are_asked_for() {
        let (mut listing, (method, _)) = Listing::new(&InitializeParams::default(), Some("/w".into()));
        assert_eq!(method, "initialize");
        let first = listing.answered(answer(able())).unwrap();
        assert_eq!(first, Some(("session/list", json!({"cwd": "/w"}))));
        let second = listing.answered(answer(page(&["a", "b"], Some("x")))).unwrap();
        assert_eq!(second, Some(("session/list", json!({"cwd": "/w", "cursor": "x"}))));
        let mut last = page(&[], None);
        last["sessions"] = json!([{"sessionId": "c", "cwd": "/w", "title": "T", "updatedAt": "2026-01-01T00:00:00Z"}]);
        assert_eq!(listing.answered(answer(last)).unwrap(), None);
        let sessions = listing.into_sessions();
        assert_eq!(sessions.iter().map(|session| &*session.id).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!((sessions[0].title.as_deref(), sessions[2].title.as_deref()), (None, Some("T")));
        assert_eq!(sessions[2].updated_at.as_deref(), Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        let begun = || {
            let (mut listing, _) = Listing::new(&InitializeParams::default(), None);
            assert_eq!(listing.answered(answer(able())).unwrap(), Some(("session/list", json!({}))));
            listing
        };
        assert_eq!(begun().answered(answer(json!([]))).unwrap_err().code(), "protocol_error");
        let mut listing = begun();
        listing.answered(answer(page(&["a"], Some("x")))).unwrap();
        assert_eq!(listing.answered(answer(page(&["a"], Some("x")))).unwrap_err().code(), "protocol_error");
        let refused = RpcFailure { code: -32603, message: "no".to_owned(), data: None };
        assert_eq!(begun().answered(Err(refused)).unwrap_err().to_string(), "no (-32603)");
        let (mut listing, _) = Listing::new(&InitializeParams::default(), None);
        let error = listing.answered(answer(json!({"protocolVersion": 1, "agentInfo": {"name": "x", "version": "1"}})));
        let expected = "x 1 (ACP 1) does not support `list_sessions`; only some agents of ACP can list their sessions";
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}
