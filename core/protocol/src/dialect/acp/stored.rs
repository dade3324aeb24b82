//! Calls about a session that an agent has stored: its deletion, its title, and its archive.

use serde_json::json;

use super::login::Login;
use super::one_off::{Needed, Next, OneOff, Question};
use crate::dialect::InitializeParams;
use crate::error::{Error, Result};
use crate::jsonrpc::RpcFailure;
use crate::messages::{Json, decode_body};

/// A change of a stored session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredChange {
    /// Deletes it.
    Delete,
    /// Gives it this title.
    Rename(String),
    /// Hides it from the list of sessions.
    Archive,
    /// Shows it in the list of sessions again.
    Unarchive,
}

impl StoredChange {
    /// Returns the name of the function, and the agents that have it, for errors.
    pub fn feature(&self) -> &'static str {
        match self {
            Self::Delete => "`delete_session`; only some agents of ACP can delete their sessions",
            Self::Rename(_) => "`rename_session`; it needs the capability `title` of ACP, as Codex has it",
            Self::Archive => "`archive_session`; it needs the capability `archive` of ACP",
            Self::Unarchive => "`unarchive_session`; it needs the capability `archive` of ACP",
        }
    }

    fn needed(&self) -> Needed {
        let feature = self.feature();
        match self {
            Self::Delete => Needed { feature, is_offered: |can| can.delete.is_some() },
            Self::Rename(_) => Needed { feature, is_offered: |can| can.title.is_some() },
            Self::Archive | Self::Unarchive => Needed { feature, is_offered: |can| can.archive.is_some() },
        }
    }

    fn question(&self, session: &str) -> Question {
        let mut params = json!({"sessionId": session});
        let method = match self {
            Self::Delete => "session/delete",
            Self::Rename(title) => {
                params["title"] = json!(title);
                "session/set_title"
            }
            Self::Archive => "session/archive",
            Self::Unarchive => "session/unarchive",
        };
        (method, params)
    }
}

/// The change of a session: the handshake, then the call.
#[derive(Debug)]
pub struct StoredCall {
    change: StoredChange,
    call: OneOff,
    title: Option<String>,
}

impl StoredCall {
    /// Starts the change. Returns the first call.
    pub fn new(hello: &InitializeParams, login: Login, session: &str, change: StoredChange) -> (Self, Question) {
        let (call, first) = OneOff::new(hello, login, change.needed(), change.question(session));
        (Self { change, call, title: None }, first)
    }

    /// Reads an answer. Returns the next call; `None` if the session is changed.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot do it, [`Error::Protocol`] for a title that cannot be read, or the agent's error.
    pub fn answered(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Option<Question>> {
        #[derive(serde::Deserialize)]
        struct Renamed {
            title: String,
        }
        let answer = match self.call.answered(outcome)? {
            Next::Ask(question) => return Ok(Some(question)),
            Next::Answered(answer) => answer,
        };
        if let StoredChange::Rename(_) = self.change {
            let renamed: Renamed = decode_body(answer.get()).map_err(|reason| {
                Error::Protocol(format!("the agent's answer about the title can't be read: {reason}").into())
            })?;
            self.title = Some(renamed.title);
        }
        Ok(None)
    }

    /// Returns the title that the agent has stored.
    pub fn into_title(self) -> Option<String> {
        self.title
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn begun(change: StoredChange, capabilities: Value) -> (StoredCall, Result<Option<Question>>) {
        let (mut call, (method, _)) = StoredCall::new(&InitializeParams::default(), Login::default(), "s", change);
        assert_eq!(method, "initialize");
        let able = json!({"protocolVersion": 1, "agentInfo": {"name": "x", "version": "1"},
            "agentCapabilities": {"sessionCapabilities": capabilities}, "authMethods": [{"id": "a", "name": "A"}]});
        let next = call.answered(Ok(Json::from(able)));
        (call, next)
    }

    #[test]
    fn session_delete_needs_capability() {
        let (mut deletion, next) = begun(StoredChange::Delete, json!({"delete": {}}));
        assert_eq!(next.unwrap(), Some(("session/delete", json!({"sessionId": "s"}))));
        assert_eq!(deletion.answered(Ok(Json::from(json!({})))).unwrap(), None);

        let (mut deletion, _) = begun(StoredChange::Delete, json!({"delete": {}}));
        let refused = RpcFailure { code: -32602, message: "Unknown sessionId".to_owned(), data: None };
        assert_eq!(deletion.answered(Err(refused)).unwrap_err().to_string(), "Unknown sessionId (-32602)");

        let (_, next) = begun(StoredChange::Delete, json!({"list": {}}));
        let expected =
            "x 1 (ACP 1) does not support `delete_session`; only some agents of ACP can delete their sessions";
        assert_eq!(next.unwrap_err().to_string(), expected);
    }

    #[test]
    fn title_and_archive_need_capability() {
        let (mut call, next) = begun(StoredChange::Rename("T".to_owned()), json!({"title": {}}));
        assert_eq!(next.unwrap(), Some(("session/set_title", json!({"sessionId": "s", "title": "T"}))));
        assert_eq!(call.answered(Ok(Json::from(json!({"title": "t"})))).unwrap(), None);
        assert_eq!(call.into_title().as_deref(), Some("t"));
        let (mut call, _) = begun(StoredChange::Rename("T".to_owned()), json!({"title": {}}));
        assert_eq!(call.answered(Ok(Json::from(json!({})))).unwrap_err().code(), "protocol_error");

        for (change, method) in
            [(StoredChange::Archive, "session/archive"), (StoredChange::Unarchive, "session/unarchive")]
        {
            let (mut call, next) = begun(change.clone(), json!({"archive": {}, "title": {}}));
            assert_eq!(next.unwrap(), Some((method, json!({"sessionId": "s"}))));
            assert_eq!(call.answered(Ok(Json::from(json!({})))).unwrap(), None);
            let error = begun(change, json!({"list": {}})).1.unwrap_err().to_string();
            assert!(error.ends_with("it needs the capability `archive` of ACP"), "{error}");
        }
        let error = begun(StoredChange::Rename("T".to_owned()), json!({})).1.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("x 1 (ACP 1) does not support `rename_session`; it needs the capability `title`")
        );
    }

    #[test]
    fn call_without_session_logs_in() {
        let hello = InitializeParams::default();
        let login = |auth: &str| Login { auth: Some(auth.to_owned()), variables: Vec::new() };
        let able = || {
            let capabilities = json!({"sessionCapabilities": {"delete": {}}});
            Ok(Json::from(
                json!({"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": [{"id": "a"}]}),
            ))
        };
        let refused = || Err(RpcFailure { code: -32000, message: "log in".to_owned(), data: None });
        let (mut call, _) = StoredCall::new(&hello, login("a"), "s", StoredChange::Delete);
        let question = call.answered(able()).unwrap();
        assert_eq!(call.answered(refused()).unwrap(), Some(("authenticate", json!({"methodId": "a"}))));
        assert_eq!(call.answered(Ok(Json::from(json!({})))).unwrap(), question);
        let Error::Rpc(error) = call.answered(refused()).unwrap_err() else { panic!("another error") };
        assert_eq!((error.kind, &*error.methods[0].id), (crate::RpcErrorKind::AuthExpired, "a"));
        let (mut call, _) = StoredCall::new(&hello, login("b"), "s", StoredChange::Delete);
        assert_eq!(call.answered(able()).unwrap_err().code(), "invalid_option");
    }
}
