//! The list of sessions that an agent has stored, which the agent sends in pages.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::login::Login;
use super::one_off::{Needed, Next, OneOff, Question};
use crate::dialect::{InitializeParams, SessionInfo};
use crate::error::{Error, Result};
use crate::jsonrpc::RpcFailure;
use crate::messages::{Json, decode_body};

/// The list of the sessions.
const LIST: Needed = Needed {
    feature: "`list_sessions`; only some agents of ACP can list their sessions",
    is_offered: |can| can.list.is_some(),
};
/// The list of the archived sessions.
const ARCHIVED: Needed = Needed {
    feature: "`list_sessions` of archived sessions; it needs the capability `archive` of ACP",
    is_offered: |can| can.list.is_some() && can.archive.is_some(),
};

/// An answer with some of the sessions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    sessions: Vec<Value>,
    #[serde(default)]
    next_cursor: Value,
}

/// The sessions listed so far.
#[derive(Debug)]
pub struct Listing {
    call: OneOff,
    work_dir: Option<PathBuf>,
    archived: bool,
    /// The cursors of the requested pages.
    cursors: HashSet<String>,
    sessions: Vec<SessionInfo>,
}

impl Listing {
    /// Makes the parameters of the first request. `work_dir` is an absolute path. `archived`: only archived sessions.
    pub fn new(hello: &InitializeParams, login: Login, work_dir: Option<PathBuf>, archived: bool) -> (Self, Question) {
        let needed = if archived { ARCHIVED } else { LIST };
        let (call, first) = OneOff::new(hello, login, needed, question(work_dir.as_ref(), archived, None));
        (Self { call, work_dir, archived, cursors: HashSet::new(), sessions: Vec::new() }, first)
    }

    /// Reads an answer. Returns the next request; `None` if the list is complete.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot list sessions, [`Error::Protocol`] for an answer that cannot be read, or the
    /// agent's error.
    pub fn answered(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Option<Question>> {
        let answer = match self.call.answered(outcome)? {
            Next::Ask(question) => return Ok(Some(question)),
            Next::Answered(answer) => answer,
        };
        let page: Page = decode_body(answer.get()).map_err(|reason| {
            Error::Protocol(format!("the agent's list of sessions can't be read: {reason}").into())
        })?;
        let work_dir = self.work_dir.as_deref();
        self.sessions.extend(page.sessions.iter().filter_map(|session| listed(session, work_dir)));
        let Value::String(cursor) = page.next_cursor else { return Ok(None) };
        let next = question(self.work_dir.as_ref(), self.archived, Some(&cursor));
        if !self.cursors.insert(cursor) {
            return Err(Error::Protocol(
                "the agent's list of sessions never ends: a page names an earlier one as the next; report it to the agent's \
                 authors"
                    .into(),
            ));
        }
        Ok(Some(self.call.ask(next)))
    }

    /// Returns the listed sessions.
    pub fn into_sessions(self) -> Vec<SessionInfo> {
        self.sessions
    }
}

/// Reads a session. Only its id is needed: a member that cannot be read is left out.
fn listed(session: &Value, work_dir: Option<&Path>) -> Option<SessionInfo> {
    let text = |name: &str| match session.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let Some(id) = text("sessionId") else {
        tracing::debug!(field = "sessions", "a session without an id is left out");
        return None;
    };
    Some(SessionInfo {
        id,
        work_dir: text("cwd").map(PathBuf::from).or_else(|| work_dir.map(Path::to_owned)).unwrap_or_default(),
        title: text("title"),
        updated_at: session.get("updatedAt").and_then(Value::as_str).map(str::to_owned),
        archived: session.get("archived").and_then(Value::as_bool),
    })
}

fn question(work_dir: Option<&PathBuf>, archived: bool, cursor: Option<&str>) -> Question {
    let mut params = json!({});
    if let Some(work_dir) = work_dir {
        params["cwd"] = json!(work_dir);
    }
    if archived {
        params["archived"] = json!("only");
    }
    if let Some(cursor) = cursor {
        params["cursor"] = json!(cursor);
    }
    ("session/list", params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(work_dir: Option<&str>, archived: bool) -> (Listing, Question) {
        Listing::new(&InitializeParams::default(), Login::default(), work_dir.map(Into::into), archived)
    }

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
        let (mut listing, (method, _)) = begin(Some("/w"), false);
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
            let (mut listing, _) = begin(None, false);
            assert_eq!(listing.answered(answer(able())).unwrap(), Some(("session/list", json!({}))));
            listing
        };
        assert_eq!(begun().answered(answer(json!([]))).unwrap_err().code(), "protocol_error");
        let mut listing = begun();
        listing.answered(answer(page(&["a"], Some("x")))).unwrap();
        assert_eq!(listing.answered(answer(page(&["a"], Some("x")))).unwrap_err().code(), "protocol_error");
        let refused = RpcFailure { code: -32603, message: "no".to_owned(), data: None };
        assert_eq!(begun().answered(Err(refused)).unwrap_err().to_string(), "no (-32603)");
        let (mut listing, _) = begin(None, false);
        let error = listing.answered(answer(json!({"protocolVersion": 1, "agentInfo": {"name": "x", "version": "1"}})));
        let expected = "x 1 (ACP 1) does not support `list_sessions`; only some agents of ACP can list their sessions";
        assert_eq!(error.unwrap_err().to_string(), expected);
    }

    #[test]
    fn session_needs_only_its_id() {
        let (mut listing, _) = begin(None, false);
        listing.answered(answer(able())).unwrap();
        let sessions = json!([{"sessionId": "a"}, {"sessionId": "b", "cwd": null, "updatedAt": 1_700_000_000}, {"sessionId": 5,
            "cwd": "/w", "archived": "yes"}, {"sessionId": "c", "cwd": "/w", "title": 5}, {"cwd": "/w"}, "d"]);
        listing.answered(answer(json!({"sessions": sessions, "nextCursor": 7}))).unwrap();
        let sessions = listing.into_sessions();
        let read = |session: &SessionInfo| (session.id.clone(), session.work_dir.display().to_string());
        let expected =
            [("a", ""), ("b", ""), ("5", "/w"), ("c", "/w")].map(|(id, dir)| (id.to_owned(), dir.to_owned()));
        assert_eq!(sessions.iter().map(read).collect::<Vec<_>>(), expected);
        assert_eq!((sessions[1].updated_at.as_deref(), sessions[3].title.as_deref()), (None, Some("5")));
    }

    #[test]
    fn repeated_cursor_ends_list() {
        let (mut listing, _) = begin(None, false);
        listing.answered(answer(able())).unwrap();
        listing.answered(answer(page(&["a"], Some("x")))).unwrap();
        listing.answered(answer(page(&["b"], Some("y")))).unwrap();
        let error = listing.answered(answer(page(&["a"], Some("x")))).unwrap_err();
        assert!(error.to_string().contains("never ends"), "{error}");
    }

    #[test]
    fn archived_sessions_need_capability() {
        let (mut missing, _) = begin(None, true);
        let error = missing.answered(answer(able())).unwrap_err().to_string();
        assert!(error.ends_with("it needs the capability `archive` of ACP"), "{error}");
        let (mut listing, _) = begin(None, true);
        let mut able = able();
        able["agentCapabilities"]["sessionCapabilities"]["archive"] = json!({});
        assert_eq!(listing.answered(answer(able)).unwrap(), Some(("session/list", json!({"archived": "only"}))));
        let listed = json!({"sessions": [{"sessionId": "a", "cwd": "/w", "archived": true}]});
        assert_eq!(listing.answered(answer(listed)).unwrap(), None);
        assert_eq!(listing.into_sessions()[0].archived, Some(true));
    }
}
