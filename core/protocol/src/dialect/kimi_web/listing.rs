//! The list of sessions that the server has stored, which the server sends in pages.

use std::path::PathBuf;

use serde::Deserialize;

use super::segment;
use crate::dialect::SessionInfo;
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::jsonrpc::RpcFailure;
use crate::messages::{Json, decode_body};

/// The number of sessions in a page.
const PAGE: usize = 100;

/// The call that deletes a session, which has no parameters.
pub fn deletion(session: &str) -> String {
    format!("POST /api/v1/sessions/{}:delete", segment(session))
}

/// Reads the answer to that call.
///
/// # Errors
/// Returns the agent's error.
pub fn deleted(outcome: std::result::Result<Json, RpcFailure>) -> Result<()> {
    outcome.map(drop).map_err(refused)
}

fn refused(failure: RpcFailure) -> Error {
    Error::Rpc(RpcError::of_answer(RpcErrorKind::Other, failure))
}

/// The sessions of the pages so far.
#[derive(Debug)]
pub struct KimiWebListing {
    work_dir: Option<PathBuf>,
    last: Option<String>,
    sessions: Vec<SessionInfo>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    items: Vec<Item>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Deserialize)]
struct Item {
    id: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    updated_at: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    cwd: PathBuf,
}

impl KimiWebListing {
    /// Starts the list; [`Self::question`] returns the first call. `work_dir` is an absolute path.
    pub fn new(work_dir: Option<PathBuf>) -> Self {
        Self { work_dir, last: None, sessions: Vec::new() }
    }

    /// Returns the method of the next call, which has no parameters.
    pub fn question(&self) -> String {
        let mut path = format!("GET /api/v1/sessions?page_size={PAGE}");
        if let Some(last) = &self.last {
            path += &format!("&before_id={}", segment(last));
        }
        path
    }

    /// Reads an answer. Returns the next call; `None` if the list is complete.
    ///
    /// # Errors
    /// Returns the agent's error, or [`Error::Protocol`] for an answer that cannot be read.
    pub fn answered(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Option<String>> {
        let answer = outcome.map_err(refused)?;
        let page: Answer = decode_body(answer.get()).map_err(|reason| {
            Error::Protocol(format!("the server's list of sessions can't be read: {reason}").into())
        })?;
        let last = page.items.last().map(|item| item.id.clone());
        let is_wanted =
            |session: &SessionInfo| self.work_dir.as_ref().is_none_or(|work_dir| *work_dir == session.work_dir);
        let sessions = page.items.into_iter().map(|item| SessionInfo {
            id: item.id,
            work_dir: item.metadata.cwd,
            title: item.title.filter(|title| !title.is_empty()),
            updated_at: item.updated_at,
            archived: None,
        });
        let wanted: Vec<_> = sessions.filter(is_wanted).collect();
        self.sessions.extend(wanted);
        if !page.has_more {
            return Ok(None);
        }
        if last.is_none() || last == self.last {
            return Err(Error::Protocol(
                "the server's list of sessions never ends: a page brings nothing new; report it to the agent's authors"
                    .into(),
            ));
        }
        self.last = last;
        Ok(Some(self.question()))
    }

    /// Returns the listed sessions.
    pub fn into_sessions(self) -> Vec<SessionInfo> {
        self.sessions
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn page(ids: &[&str], has_more: bool) -> std::result::Result<Json, RpcFailure> {
        let items: Vec<Value> =
            ids.iter().map(|id| json!({"id": id, "title": "", "metadata": {"cwd": "/w"}})).collect();
        Ok(Json::from(json!({"items": items, "has_more": has_more})))
    }

    #[test]
    fn listing_asks_for_all_pages() {
        let mut listing = KimiWebListing::new(Some("/w".into()));
        assert_eq!(listing.question(), "GET /api/v1/sessions?page_size=100");
        let next = listing.answered(page(&["a", "b/.."], true)).unwrap();
        assert_eq!(next.as_deref(), Some("GET /api/v1/sessions?page_size=100&before_id=b%2F.."));
        let other = json!({"items": [
            {"id": "c", "title": "T", "updated_at": "2026-01-01T00:00:00Z", "metadata": {"cwd": "/w"}},
            {"id": "d", "metadata": {"cwd": "/other"}},
        ]});
        assert_eq!(listing.answered(Ok(Json::from(other))).unwrap(), None);
        let sessions = listing.into_sessions();
        assert_eq!(sessions.iter().map(|session| &*session.id).collect::<Vec<_>>(), ["a", "b/..", "c"]);
        assert_eq!((sessions[0].title.as_deref(), sessions[2].title.as_deref()), (None, Some("T")));
        assert_eq!(sessions[2].updated_at.as_deref(), Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn endless_listing_is_error() {
        let mut listing = KimiWebListing::new(None);
        listing.answered(page(&["a"], true)).unwrap();
        assert_eq!(listing.answered(page(&["a"], true)).unwrap_err().code(), "protocol_error");
        assert_eq!(listing.answered(page(&[], true)).unwrap_err().code(), "protocol_error");
        assert_eq!(listing.answered(Ok(Json::from(json!([1])))).unwrap_err().code(), "protocol_error");
        let refused = RpcFailure { code: 50001, message: "no".to_owned(), data: None };
        assert_eq!(listing.answered(Err(refused)).unwrap_err().to_string(), "no (50001)");
    }
}
