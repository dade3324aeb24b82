//! The list of sessions that an agent has stored, which the agent sends in pages.

use std::path::PathBuf;

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Value, json};

use super::{failure, opening};
use crate::dialect::{InitializeParams, SessionInfo, agent_name};
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::jsonrpc::RpcFailure;
use crate::messages::{Json, decode_body};

/// A method with its parameters.
pub(super) type Question = (&'static str, Value);

/// Makes the error for a refused call that belongs to no session.
pub(super) fn refused(failure: RpcFailure) -> Error {
    let RpcFailure { code, message, data } = failure::with_details(failure);
    Error::Rpc(RpcError { kind: RpcErrorKind::Other, rpc_code: Some(code), message, data, hint: None, result: None })
}

/// Checks in the answer to `initialize` that the agent offers a call. `missing` names the feature for the error.
pub(super) fn offering(answer: &Json, missing: &str, offers: impl Fn(&acp::SessionCapabilities) -> bool) -> Result<()> {
    let answer: acp::InitializeResponse = decode_body(answer.get())
        .map_err(|reason| Error::Handshake(format!("the agent's answer to `initialize` can't be read: {reason}")))?;
    if offers(&answer.agent_capabilities.session_capabilities) {
        return Ok(());
    }
    let agent = agent_name(opening::server(answer.agent_info).as_ref(), opening::NAME);
    Err(Error::Unsupported(format!("{agent} does not support {missing}")))
}

/// The sessions listed so far.
#[derive(Debug)]
pub struct Listing {
    work_dir: Option<PathBuf>,
    greeted: bool,
    /// The cursor of the requested page.
    cursor: Option<String>,
    sessions: Vec<SessionInfo>,
}

impl Listing {
    /// Makes the parameters of the first request. `work_dir` is an absolute path.
    pub fn new(hello: &InitializeParams, work_dir: Option<PathBuf>) -> (Self, Question) {
        let listing = Self { work_dir, greeted: false, cursor: None, sessions: Vec::new() };
        (listing, ("initialize", json!(opening::initialize_request(hello))))
    }

    /// Reads an answer. Returns the next request; `None` if the list is complete.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot list sessions, [`Error::Protocol`] for an answer that cannot be read, or the
    /// agent's error.
    pub fn answered(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Option<Question>> {
        let answer = outcome.map_err(refused)?;
        if !self.greeted {
            self.greeted(&answer)?;
            return Ok(Some(self.question()));
        }
        let page: acp::ListSessionsResponse = decode_body(answer.get()).map_err(|reason| {
            Error::Protocol(format!("the agent's list of sessions can't be read: {reason}").into())
        })?;
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
                    .into(),
            )),
            next => {
                self.cursor = next;
                Ok(Some(self.question()))
            }
        }
    }

    fn greeted(&mut self, answer: &Json) -> Result<()> {
        self.greeted = true;
        let missing = "`list_sessions`; only some agents of ACP can list their sessions";
        offering(answer, missing, |can| can.list.is_some())
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

    /// Returns the listed sessions.
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
    fn invalid_session_list_is_error() {
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
