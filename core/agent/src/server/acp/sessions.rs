//! The sessions of one process. Each is open with one agent, so that their turns run side by side; what they share is
//! here: who has which session, what was said in it, and the numbers of requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::super::history::Record;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    known: Vec<Known>,
    /// Who has asked the client something, by the request's number.
    asked: Vec<usize>,
}

#[derive(Debug)]
struct Known {
    id: String,
    work_dir: String,
    title: Option<String>,
    /// The agent that has it open.
    agent: Option<usize>,
    past: Vec<Record>,
}

/// Which agent a line of the client's is for.
#[derive(Debug, PartialEq)]
pub(crate) enum Way {
    To(usize),
    /// The same, and nothing after it will be: its session is closed.
    LastTo(usize),
    /// One that has no session yet.
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

    /// What belongs to no session is the first agent's.
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
            (Some("session/close" | "session/delete"), Some(agent)) => Way::LastTo(agent),
            (_, agent) => Way::To(agent.unwrap_or(0)),
        }
    }

    /// The number of a request of that agent's: there is one row of them for the process.
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
                agent: Some(agent),
                past: Vec::new(),
            }),
        }
    }

    /// Closes it; what was said in it stays.
    pub(super) fn close(&self, id: &str) {
        self.with(id, |known| known.agent = None);
    }

    /// Whether there was such a session.
    pub(super) fn delete(&self, id: &str) -> bool {
        let known = &mut self.lock().known;
        let count = known.len();
        known.retain(|known| known.id != id);
        known.len() < count
    }

    pub(super) fn name(&self, id: &str, title: &str) {
        self.with(id, |known| known.title = Some(title.to_owned()));
    }

    pub(super) fn title(&self, id: &str) -> Option<String> {
        self.with(id, |known| known.title.clone()).flatten()
    }

    /// Keeps what of these records of the session it doesn't have yet.
    pub(super) fn keep(&self, id: &str, records: &[Record]) {
        self.with(id, |known| {
            let new = records.get(known.past.len()..).unwrap_or_default();
            known.past.extend_from_slice(new);
        });
    }

    /// What was said in that session up to the end of its last turn, if there is such a session.
    pub(super) fn past(&self, id: &str) -> Option<Vec<Record>> {
        self.with(id, |known| known.past.clone())
    }

    /// Those of that directory, or all.
    pub(super) fn list(&self, work_dir: Option<&str>) -> Vec<Value> {
        let inner = self.lock();
        let listed = inner.known.iter().filter(|known| work_dir.is_none_or(|dir| dir == known.work_dir));
        listed.map(|known| json!({"sessionId": known.id, "cwd": known.work_dir, "title": known.title})).collect()
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
    fn a_line_goes_to_whoever_has_its_session_or_has_asked() {
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
    fn a_session_that_is_not_open_needs_an_agent() {
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
    fn what_was_said_is_kept_once() {
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
        assert_eq!(sessions.list(Some("/a")), [json!({"sessionId": "a", "cwd": "/a", "title": "hi"})]);
        assert_eq!(sessions.list(Some("/b")), Vec::<Value>::new());
    }
}
