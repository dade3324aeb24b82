//! The sessions of one process. Each is open in one agent, so that turns run concurrently. This is their shared state:
//! which agent has which session, the history of each session, and the numbers of requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::history::Record;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    known: Vec<Known>,
    /// The agent that sent each open request, by the request's number.
    asked: Vec<usize>,
    /// Whether the client has logged in.
    has_login: bool,
}

#[derive(Debug)]
struct Known {
    id: String,
    work_dir: String,
    title: Option<String>,
    is_archived: bool,
    /// The agent in which the session is open.
    agent: Option<usize>,
    past: Vec<Record>,
}

/// The agent that a line of the client is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    To(usize),
    /// The same, and the session is closed after this line.
    LastTo(usize),
    /// The agent has no session yet.
    New,
}

#[derive(Deserialize)]
struct Head {
    method: Option<String>,
    id: Option<Value>,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages that name no session go to the first agent.
    pub(crate) fn way(&self, line: &[u8]) -> Way {
        let Ok(Head { method, id, params }) = serde_json::from_slice(line) else { return Way::To(0) };
        let inner = self.lock();
        let session = params.and_then(|params| params.session);
        let agent = session.and_then(|id| inner.known.iter().find(|known| known.id == id)?.agent);
        match (method.as_deref(), agent) {
            (None, _) => {
                let number = id.and_then(|id| usize::try_from(id.as_u64()?).ok());
                Way::To(number.and_then(|number| inner.asked.get(number).copied()).unwrap_or(0))
            }
            (Some("session/new" | "session/fork"), _) | (Some("session/load" | "session/resume"), None) => Way::New,
            (Some("session/close" | "session/delete" | "session/archive"), Some(agent)) => Way::LastTo(agent),
            (_, agent) => Way::To(agent.unwrap_or(0)),
        }
    }

    pub(super) fn log_in(&self) {
        self.lock().has_login = true;
    }

    pub(super) fn has_login(&self) -> bool {
        self.lock().has_login
    }

    /// Returns a new number for a request of this agent. The process has one sequence of numbers.
    pub(super) fn ask(&self, agent: usize) -> u64 {
        let asked = &mut self.lock().asked;
        asked.push(agent);
        asked.len() as u64 - 1
    }

    pub(super) fn open(&self, id: &str, work_dir: &str, agent: usize) {
        let mut inner = self.lock();
        match inner.known.iter_mut().find(|known| known.id == id) {
            Some(known) => {
                work_dir.clone_into(&mut known.work_dir);
                known.agent = Some(agent);
            }
            None => inner.known.push(Known {
                id: id.to_owned(),
                work_dir: work_dir.to_owned(),
                title: None,
                is_archived: false,
                agent: Some(agent),
                past: Vec::new(),
            }),
        }
    }

    /// Closes a session. Its history stays.
    pub(super) fn close(&self, id: &str) {
        self.with(id, |known| known.agent = None);
    }

    /// Returns whether the session exists.
    pub(super) fn delete(&self, id: &str) -> bool {
        let known = &mut self.lock().known;
        let count = known.len();
        known.retain(|known| known.id != id);
        known.len() < count
    }

    pub(super) fn name(&self, id: &str, title: &str) {
        self.with(id, |known| known.title = Some(title.to_owned()));
    }

    /// Returns whether the session exists.
    pub(super) fn archive(&self, id: &str, is_archived: bool) -> bool {
        self.with(id, |known| known.is_archived = is_archived).is_some()
    }

    pub(super) fn title(&self, id: &str) -> Option<String> {
        self.with(id, |known| known.title.clone()).flatten()
    }

    /// Adds the records that the session does not have yet.
    pub(super) fn keep(&self, id: &str, records: &[Record]) {
        self.with(id, |known| {
            let new = records.get(known.past.len()..).unwrap_or_default();
            known.past.extend_from_slice(new);
        });
    }

    /// Keeps only this many records of the session.
    pub(super) fn truncate(&self, id: &str, records: usize) {
        self.with(id, |known| known.past.truncate(records));
    }

    pub(super) fn work_dir(&self, id: &str) -> Option<String> {
        self.with(id, |known| known.work_dir.clone())
    }

    /// Returns the agent in which the session is open. The outer `None`: the session does not exist.
    #[cfg(feature = "web")]
    pub(crate) fn agent(&self, id: &str) -> Option<Option<usize>> {
        self.with(id, |known| known.agent)
    }

    /// Returns all sessions: id, directory and title.
    #[cfg(feature = "web")]
    pub(crate) fn all(&self) -> Vec<(String, String, Option<String>)> {
        let inner = self.lock();
        inner.known.iter().map(|it| (it.id.clone(), it.work_dir.clone(), it.title.clone())).collect()
    }

    /// Returns the history of the session up to the end of its last turn. `None` if the session does not exist.
    pub(super) fn past(&self, id: &str) -> Option<Vec<Record>> {
        self.with(id, |known| known.past.clone())
    }

    /// Returns the sessions of that directory, or all sessions; those in the archive, or the others.
    pub(super) fn list(&self, work_dir: Option<&str>, is_archived: bool) -> Vec<Value> {
        let inner = self.lock();
        let of_dir =
            |known: &&Known| work_dir.is_none_or(|dir| dir == known.work_dir) && known.is_archived == is_archived;
        let fact = |known: &Known| json!({"sessionId": known.id, "cwd": known.work_dir, "title": known.title, "archived": known.is_archived});
        inner.known.iter().filter(of_dir).map(fact).collect()
    }

    fn with<T>(&self, id: &str, act: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.lock().known.iter_mut().find(|known| known.id == id).map(act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(sessions: &Sessions, message: Value) -> Way {
        sessions.way(message.to_string().as_bytes())
    }

    fn call(method: &str, session: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": {"sessionId": session}})
    }

    #[test]
    fn line_is_routed_by_session_or_request() {
        let sessions = Sessions::default();
        sessions.open("a", "/a", 0);
        sessions.open("b", "/b", 1);
        assert_eq!((sessions.ask(1), sessions.ask(0), sessions.ask(1)), (0, 1, 2));
        assert_eq!(way(&sessions, call("session/prompt", "b")), Way::To(1));
        assert_eq!(way(&sessions, call("session/prompt", "c")), Way::To(0));
        assert_eq!(way(&sessions, json!({"method": "session/cancel", "params": {"sessionId": "b"}})), Way::To(1));
        for (number, agent) in [(0, 1), (1, 0), (2, 1), (9, 0)] {
            assert_eq!(way(&sessions, json!({"id": number, "result": {}})), Way::To(agent), "{number}");
        }
        for line in ["", "[]", r#"{"id": -1}"#, r#"{"method": "session/list", "params": []}"#] {
            assert_eq!(sessions.way(line.as_bytes()), Way::To(0), "{line}");
        }
    }

    #[test]
    fn opening_closed_session_needs_new_agent() {
        let sessions = Sessions::default();
        sessions.open("a", "/a", 1);
        for method in ["session/new", "session/fork", "session/load", "session/resume"] {
            let open = matches!(method, "session/load" | "session/resume");
            assert_eq!(way(&sessions, call(method, "a")), if open { Way::To(1) } else { Way::New }, "{method}");
            assert_eq!(way(&sessions, call(method, "z")), Way::New, "{method}");
        }
        assert_eq!(way(&sessions, call("session/close", "a")), Way::LastTo(1));
        sessions.close("a");
        assert_eq!(way(&sessions, call("session/load", "a")), Way::New);
        assert_eq!(way(&sessions, call("session/delete", "a")), Way::To(0));
        assert_eq!((sessions.delete("a"), sessions.delete("a")), (true, false));
    }

    #[test]
    fn session_records_are_kept_once() {
        let sessions = Sessions::default();
        sessions.open("a", "/a", 0);
        let record = |kind: &str| Record { request_id: None, kind: kind.to_owned(), payload: json!({}) };
        let records = [record("TurnBegin"), record("TurnEnd"), record("TurnBegin")];
        sessions.keep("a", &records[..2]);
        sessions.keep("a", &records);
        sessions.close("a");
        assert_eq!(sessions.past("a").as_deref(), Some(&records[..]));
        assert_eq!(sessions.past("b"), None);
        sessions.name("a", "hi");
        let listed = json!({"sessionId": "a", "cwd": "/a", "title": "hi", "archived": false});
        assert_eq!(sessions.list(Some("/a"), false), [listed]);
        assert_eq!(sessions.list(Some("/b"), false), Vec::<Value>::new());
        assert!(sessions.archive("a", true) && !sessions.archive("b", true));
        assert_eq!((sessions.list(None, false).len(), sessions.list(None, true).len()), (0, 1));
    }
}
