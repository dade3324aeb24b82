//! Which connection of a process each message belongs to. No I/O and no clock: parsed messages go in, routes come out.
//!
//! Several sessions can share one process. Each has a connection, and each connection has a range of ids for its calls
//! ([`first_id`]). So an answer tells by its id which connection it belongs to, and no id is ever rewritten. The agent's own
//! messages name a session, and the endpoint knows which connection has it. A one-off call, such as `session/list`, has a
//! range of its own and no connection.
//!
//! The endpoint also asks `initialize` once for all, keeps messages for a session that is about to be named, and tells the
//! agent to close a session whose connection leaves.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use crate::dialect::OpeningSession;
use crate::error::Error;
use crate::printable::printable_line;
use crate::wire::jsonrpc::{self, Message, RpcFailure};
use crate::wire::value::{Key as Text, object};

/// How many bytes of messages are kept for sessions that are about to be named.
const MAX_KEPT: usize = 1 << 20;
/// How many ids each connection has.
const IDS: u64 = 1 << 32;
const INVALID_PARAMS: i64 = -32602;
/// The code that LSP and ACP give a request which was cancelled.
const CANCELLED: i64 = -32800;

/// A connection of a process, or a one-off call. Later ones have larger keys.
pub type ConnectionKey = u64;

/// The first of the ids that this connection gives its calls. Those of the first connection begin with 0.
pub fn first_id(key: ConnectionKey) -> u64 {
    key * IDS
}

/// The id of the endpoint's own call that closes the session of this connection.
fn close_id(key: ConnectionKey) -> u64 {
    first_id(key) + IDS - 1
}

/// Where a message goes.
#[derive(Debug, PartialEq)]
pub enum Route {
    /// To this connection or one-off call.
    To(ConnectionKey),
    /// It answers `initialize`: to all of these, in order. Each takes it as the answer to the first of its calls.
    Handshake(Vec<ConnectionKey>),
    /// It names the session of this connection. The lines were kept for the session, and come first.
    Named(ConnectionKey, Vec<Vec<u8>>),
    /// The agent gave this connection the id of another one's session. The connection has left.
    Conflict(ConnectionKey, Error),
    /// The agent has closed the session of this connection, which was leaving.
    Left(ConnectionKey),
    /// To no connection: kept, refused or dropped.
    Nowhere,
}

/// How a connection comes by the answer to `initialize`.
#[derive(Debug)]
pub enum HandshakeRole {
    /// It asks.
    Ask,
    /// Another one has asked; [`Route::Handshake`] brings the answer.
    Wait,
    /// The agent has answered before.
    Answered(Box<RawValue>),
}

/// What the agent has said to `initialize`.
#[derive(Debug, Default)]
enum Asked {
    #[default]
    Not,
    By(ConnectionKey, Vec<ConnectionKey>),
    Answered(Box<RawValue>),
}

#[derive(Debug, Default)]
struct Slot {
    /// The agent's id for its session, if it is known.
    session: Option<String>,
    /// Its call that opens a session is under way.
    opening: bool,
    /// The call resumes the session with the id in `session`.
    resumes: bool,
    /// Its session is being closed.
    leaving: bool,
}

/// The connections of one process.
#[derive(Debug, Default)]
pub struct Endpoint {
    connections: BTreeMap<ConnectionKey, Slot>,
    /// Connections by the agent's ids of their sessions.
    sessions: HashMap<String, ConnectionKey>,
    /// There is one connection only, which gets everything: its protocol has no ids of sessions.
    is_single: bool,
    asked: Asked,
    /// The agent has `session/close`.
    can_close: bool,
    /// Connections that left while a session was being opened for them.
    abandoned: HashSet<ConnectionKey>,
    /// Lines of sessions that have no name yet.
    kept: Vec<(String, Vec<u8>)>,
    transmit: Vec<u8>,
}

impl Endpoint {
    /// An endpoint for a protocol that has one session a process.
    pub fn single() -> Self {
        Self { is_single: true, ..Self::default() }
    }

    /// Adds a connection.
    pub fn attach(&mut self, key: ConnectionKey) {
        self.connections.insert(key, Slot::default());
    }

    /// A connection, or a one-off call, begins with the handshake.
    pub fn join_handshake(&mut self, key: ConnectionKey) -> HandshakeRole {
        match &mut self.asked {
            _ if self.is_single => HandshakeRole::Ask,
            Asked::Not => {
                self.asked = Asked::By(key, Vec::new());
                HandshakeRole::Ask
            }
            Asked::By(_, others) => {
                others.push(key);
                HandshakeRole::Wait
            }
            Asked::Answered(answer) => HandshakeRole::Answered(answer.clone()),
        }
    }

    /// Notes how far a connection is with opening its session, before the call that opens it is written.
    ///
    /// # Errors
    /// The refusal of a call that resumes a session which is open here: whose its messages are could not be told.
    pub fn set_opening(&mut self, key: ConnectionKey, opening: Option<&OpeningSession>) -> Result<(), RpcFailure> {
        let Some(slot) = self.connections.get_mut(&key).filter(|_| !self.is_single) else { return Ok(()) };
        slot.opening = opening.is_some();
        let Some(OpeningSession::Resume(id)) = opening else { return Ok(()) };
        if slot.session.as_ref() == Some(id) {
            return Ok(());
        }
        if self.sessions.contains_key(id) {
            slot.opening = false;
            let message = format!("the session `{id}` is open already");
            return Err(RpcFailure { code: INVALID_PARAMS, message, data: None });
        }
        // Its past comes before the answer.
        slot.resumes = true;
        self.name(key, id.clone());
        Ok(())
    }

    fn name(&mut self, key: ConnectionKey, id: String) {
        if let Some(slot) = self.connections.get_mut(&key) {
            slot.session = Some(id.clone());
            self.sessions.insert(id, key);
        }
    }

    fn forget_name(&mut self, key: ConnectionKey) {
        if let Some(slot) = self.connections.get_mut(&key)
            && let Some(id) = slot.session.take()
        {
            self.sessions.remove(&id);
        }
    }

    /// Whether the session of this connection is being closed by the agent.
    pub fn is_leaving(&self, key: ConnectionKey) -> bool {
        self.connections.get(&key).is_some_and(|slot| slot.leaving)
    }

    /// Takes what the endpoint itself has to write.
    pub fn take_transmit(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.transmit)
    }

    /// Tells where a message of the agent's goes. `line` is the line that it was read from.
    pub fn route(&mut self, message: &Message<'_>, line: &[u8]) -> Route {
        if self.is_single {
            return self.oldest(None);
        }
        let (request, params) = match message {
            Message::Response { id: Some(id), outcome } => return self.route_answer(id, outcome.as_ref()),
            // A connection logs what is not of the protocol.
            Message::Response { id: None, .. } | Message::Invalid(_) => return self.oldest(None),
            Message::Request { id, params, .. } => (Some(*id), *params),
            Message::Notification { params, .. } => (None, *params),
        };
        let Ok(session) = params.text("sessionId") else { return self.oldest(request) };
        match self.sessions.get(&*session) {
            Some(key) if !self.is_leaving(*key) => Route::To(*key),
            Some(_) => self.nowhere(request),
            None => self.keep(session.into_owned(), request, line),
        }
    }

    /// For the oldest connection: it names no session.
    fn oldest(&mut self, request: Option<&str>) -> Route {
        let oldest = self.connections.iter().find(|(_, slot)| !slot.leaving).map(|(key, _)| *key);
        oldest.map_or_else(|| self.nowhere(request), Route::To)
    }

    /// For no connection. A request is refused, as the agent may wait for the answer.
    fn nowhere(&mut self, request: Option<&str>) -> Route {
        tracing::debug!(request, "message for a session that is not open here");
        if let Some(id) = request {
            self.transmit.extend(refusal(id));
        }
        Route::Nowhere
    }

    /// For a session that nobody has. It is kept if a session is about to be named: some agents speak of a session before
    /// they name it.
    fn keep(&mut self, session: String, request: Option<&str>, line: &[u8]) -> Route {
        let has_space = self.kept.iter().map(|(_, line)| line.len()).sum::<usize>() < MAX_KEPT;
        if self.is_naming() && has_space {
            self.kept.push((session, line.to_owned()));
            return Route::Nowhere;
        }
        self.nowhere(request)
    }

    /// Whether the agent is about to name a session.
    fn is_naming(&self) -> bool {
        !self.abandoned.is_empty() || self.connections.values().any(|slot| slot.opening && !slot.resumes)
    }

    fn route_answer(&mut self, id: &str, outcome: Result<&&RawValue, &RpcFailure>) -> Route {
        let unknown = || {
            tracing::warn!(id = %printable_line(id), "the agent answered a call that does not exist, or did so twice");
            Route::Nowhere
        };
        let Ok(number) = id.parse::<u64>() else { return unknown() };
        let key = number / IDS;
        if let Asked::By(by, _) = &self.asked
            && *by == key
            && number == first_id(key)
        {
            return self.handshake_answered(outcome);
        }
        if self.abandoned.remove(&key) {
            return self.abandoned_opened(key, outcome);
        }
        match self.connections.get(&key) {
            Some(slot) if slot.leaving && number == close_id(key) => {
                self.remove(key);
                Route::Left(key)
            }
            Some(slot) if slot.leaving => Route::Nowhere,
            Some(slot) if slot.opening => self.opened(key, outcome),
            Some(_) => Route::To(key),
            // A one-off call, or nobody's.
            None => Route::To(key),
        }
    }

    fn handshake_answered(&mut self, outcome: Result<&&RawValue, &RpcFailure>) -> Route {
        let asked = match outcome {
            Ok(answer) => {
                self.can_close = can_close(answer);
                Asked::Answered((*answer).to_owned())
            }
            // The next connection asks again.
            Err(_) => Asked::Not,
        };
        let Asked::By(key, others) = std::mem::replace(&mut self.asked, asked) else { return Route::Nowhere };
        let is_there = |key: &ConnectionKey| self.connections.get(key).is_none_or(|slot| !slot.leaving);
        Route::Handshake(std::iter::once(key).chain(others).filter(is_there).collect())
    }

    /// The agent has answered the call that opens the session of a connection.
    fn opened(&mut self, key: ConnectionKey, outcome: Result<&&RawValue, &RpcFailure>) -> Route {
        let Some(slot) = self.connections.get_mut(&key) else { return Route::Nowhere };
        slot.opening = false;
        let resumed = std::mem::take(&mut slot.resumes);
        let named = outcome.ok().and_then(|answer| session_id(answer));
        match named {
            None if resumed && outcome.is_err() => self.forget_name(key),
            None => {}
            Some(id) => match self.sessions.get(&id) {
                Some(owner) if *owner == key => {}
                Some(_) => return self.conflict(key, &id),
                // The agent may call a resumed session differently from now on.
                None => {
                    self.forget_name(key);
                    self.name(key, id);
                }
            },
        }
        let session = self.connections.get(&key).and_then(|slot| slot.session.as_deref());
        let mut lines = Vec::new();
        if let Some(session) = session {
            lines.extend(self.kept.extract_if(.., |(of, _)| of == session).map(|(_, line)| line));
        }
        self.drop_kept();
        Route::Named(key, lines)
    }

    /// Once no session is about to be named, nobody waits for the lines that were kept.
    fn drop_kept(&mut self) {
        if self.is_naming() {
            return;
        }
        for (_, line) in std::mem::take(&mut self.kept) {
            if let Message::Request { id, .. } = jsonrpc::parse(&line) {
                self.transmit.extend(refusal(id));
            }
        }
    }

    fn conflict(&mut self, key: ConnectionKey, id: &str) -> Route {
        self.remove(key);
        self.drop_kept();
        Route::Conflict(
            key,
            Error::Protocol(format!(
                "the agent opened a session with the id `{id}`, which another session of this process has; that session \
                 goes on, this one cannot be opened"
            )),
        )
    }

    /// A session has been opened for a connection that has left: nobody wants it.
    fn abandoned_opened(&mut self, key: ConnectionKey, outcome: Result<&&RawValue, &RpcFailure>) -> Route {
        if let Some(id) = outcome.ok().and_then(|answer| session_id(answer))
            && !self.sessions.contains_key(&id)
        {
            self.write_close(key, &id);
        }
        self.drop_kept();
        Route::Nowhere
    }

    /// The connection writes and reads nothing more. Returns whether the agent now closes its session:
    /// [`Route::Left`] reports the end. Otherwise the connection has left.
    pub fn leave(&mut self, key: ConnectionKey) -> bool {
        let Some(slot) = self.connections.get_mut(&key) else { return false };
        if slot.leaving {
            return true;
        }
        if slot.opening && !slot.resumes {
            self.abandoned.insert(key);
        }
        match slot.session.clone() {
            Some(id) if self.can_close => {
                slot.leaving = true;
                self.write_close(key, &id);
                true
            }
            _ => {
                self.remove(key);
                false
            }
        }
    }

    fn write_close(&mut self, key: ConnectionKey, session: &str) {
        if self.can_close {
            let params = json!({"sessionId": session});
            self.transmit.extend(jsonrpc::numbered_request(close_id(key), "session/close", &params));
        }
    }

    /// Forgets a connection, whatever the agent still says of it.
    pub fn remove(&mut self, key: ConnectionKey) {
        self.forget_name(key);
        self.connections.remove(&key);
    }
}

fn refusal(id: &str) -> Vec<u8> {
    let failure = RpcFailure { code: CANCELLED, message: "the session is closed".to_owned(), data: None };
    jsonrpc::refusal(id, &failure)
}

/// The session that a result names.
fn session_id(result: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, rename = "sessionId")]
        session: Text<'a>,
    }
    object::<Named<'_>>(result.get()).ok().map(|named| named.session.0.into_owned())
}

/// Whether an agent that answers `initialize` like this has `session/close`.
fn can_close(answer: &RawValue) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Answer {
        agent_capabilities: Capabilities,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Capabilities {
        session_capabilities: Sessions,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Sessions {
        close: Option<IgnoredAny>,
    }
    object::<Answer>(answer.get()).is_ok_and(|answer| answer.agent_capabilities.session_capabilities.close.is_some())
}
