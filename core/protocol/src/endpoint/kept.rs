//! Messages of sessions that are not known, or not known yet.

use super::{ConnectionKey, Endpoint, Route, SessionNames, refusal_of};
use crate::jsonrpc::{self, Message};
use crate::printable::printable_line;

/// The limit of bytes of messages that are kept for sessions without an id.
const MAX_KEPT: usize = 1 << 20;

impl Endpoint {
    /// Routes a message of an unknown session. It is kept while a session's id is awaited, because some agents send
    /// messages before the answer with the id.
    pub(super) fn keep(&mut self, session: String, request: Option<&str>, line: &[u8]) -> Route {
        let has_space =
            self.unplaced.iter().flat_map(|unplaced| &unplaced.kept).map(|(_, line)| line.len()).sum::<usize>()
                < MAX_KEPT;
        if request.is_some()
            && let Some(key) = self.only_naming()
        {
            // The agent may wait for the answer to this request before it answers the call that opens the session.
            if let Some(slot) = self.connections.get_mut(key) {
                slot.resumes = true;
            }
            self.name(key, session);
            return Route::Named(key, self.take_kept(key));
        }
        if self.is_naming() && has_space {
            self.unplaced.get_or_insert_default().kept.push((session, line.to_owned()));
            return Route::Nowhere;
        }
        // With one session in the process, it is a session that the agent has made for it.
        if self.names == SessionNames::Acp && !self.is_shared && request.is_none() {
            return self.oldest(None);
        }
        if let Some(id) =
            request.filter(|_| !self.unplaced.as_ref().is_some_and(|unplaced| unplaced.closed.contains(&session)))
        {
            if let Some(count) = self.repeats.count("session") {
                let session = printable_line(&session);
                tracing::warn!(session = &*session, count, "a request of a session that is not known is refused");
            }
            self.transmit.extend(refusal_of(id, &not_open(&session)));
            return Route::Nowhere;
        }
        self.nowhere(request)
    }

    /// Returns the connection whose session has no id yet, if the process has no other.
    fn only_naming(&self) -> Option<ConnectionKey> {
        let slot = self.connections.0.iter().find(|slot| slot.opening && !slot.resumes && !slot.leaving)?;
        (self.names == SessionNames::Acp && !self.is_shared && self.abandoned.is_empty()).then_some(slot.key)
    }

    /// Takes the lines that were kept for the session of a connection.
    pub(super) fn take_kept(&mut self, key: ConnectionKey) -> Vec<Vec<u8>> {
        let session = self.connections.get(key).and_then(|slot| slot.session.as_deref());
        let Some(session) = session else { return Vec::new() };
        let Some(unplaced) = &mut self.unplaced else { return Vec::new() };
        let lines: Vec<_> = unplaced.kept.extract_if(.., |(of, _)| of == session).map(|(_, line)| line).collect();
        for line in &lines {
            self.adopt(key, &jsonrpc::parse(line), line);
        }
        lines
    }

    /// Returns whether the id of a new session is awaited.
    pub(super) fn is_naming(&self) -> bool {
        !self.abandoned.is_empty() || self.connections.0.iter().any(|slot| slot.opening && !slot.resumes)
    }

    /// Drops the kept lines if no session's id is awaited any more.
    pub(super) fn drop_kept(&mut self) {
        if self.is_naming() {
            return;
        }
        for (session, line) in
            self.unplaced.as_mut().map(|unplaced| std::mem::take(&mut unplaced.kept)).unwrap_or_default()
        {
            if let Message::Request { id, .. } = jsonrpc::parse(&line) {
                self.transmit.extend(refusal_of(id, &not_open(&session)));
            }
        }
    }
}

fn not_open(session: &str) -> String {
    format!("no session `{session}` is open here")
}
