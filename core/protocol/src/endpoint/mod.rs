//! Finds the connection of a process for each message. No I/O and no clock: the input is parsed messages, the output is
//! routes.
//!
//! Several sessions can share one process. Each has a connection, and each connection has a range of ids for its calls
//! ([`first_id`]). The id of an answer therefore identifies the connection, and no id is rewritten. The agent's own
//! messages name a session, and the endpoint knows its connection. A one-off call, such as `session/list`, has a range
//! of its own and no connection.
//!
//! The endpoint also lets `initialize` be sent once for all connections, and keeps messages for a session whose id is
//! not known yet. It asks the agent to close a session whose connection leaves.

mod kept;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use crate::dialect::OpeningSession;
use crate::error::Error;
use crate::json::{Key as Text, borrowed, object};
use crate::jsonrpc::{self, Message, Params, RpcFailure};
use crate::repeats::Repeats;

/// The limit of closed sessions that are remembered.
const MAX_CLOSED: usize = 64;
/// The number of ids of each connection.
const IDS: u64 = 1 << 32;
/// The limit of sessions of subagents, for each connection.
const MAX_CHILDREN: usize = 1024;
const INVALID_PARAMS: i64 = -32602;
/// The gateway of Kimi Code's server sends this when a lost connection works again.
const CONNECTED: &str = "gateway/connected";
/// The update with which an agent announces the session of a subagent.
const SUBAGENT: &str = "subagent_update";
/// The code of a cancelled request in LSP and ACP.
const CANCELLED: i64 = -32800;

/// The key of a connection of a process, or of a one-off call. Later ones have larger keys.
pub type ConnectionKey = u64;

/// Returns the first id for calls of this connection. The ids of the first connection begin with 0.
pub fn first_id(key: ConnectionKey) -> u64 {
    key * IDS
}

/// Returns the id of the endpoint's own call that closes the session of this connection.
fn close_id(key: ConnectionKey) -> u64 {
    first_id(key) + IDS - 1
}

/// The recipient of a message.
#[derive(Debug, PartialEq)]
pub enum Route {
    /// This connection or one-off call.
    To(ConnectionKey),
    /// The answer to `initialize`: for all of these, in order. Each handles it as the answer to its first call.
    Handshake(Vec<ConnectionKey>),
    /// The answer that names the session of this connection. The lines were kept for the session, and come first.
    Named(ConnectionKey, Vec<Vec<u8>>),
    /// The agent gave this connection the id of another connection's session. The connection was removed.
    Conflict(ConnectionKey, Error),
    /// The agent has closed the session of this connection, which was leaving.
    Left(ConnectionKey),
    /// All of these connections, in order.
    All(Vec<ConnectionKey>),
    /// No connection. The message was kept, refused or dropped.
    Nowhere,
}

/// How a connection gets the answer to `initialize`.
#[derive(Debug)]
pub enum HandshakeRole {
    /// The connection sends the call.
    Ask,
    /// Another connection has sent the call. [`Route::Handshake`] has the answer.
    Wait,
    /// The agent has answered already.
    Answered(Box<RawValue>),
}

/// The agent's answer to `initialize`.
#[derive(Debug, Default)]
enum Asked {
    #[default]
    Not,
    By(ConnectionKey, Vec<ConnectionKey>),
    Answered(Box<RawValue>),
}

#[derive(Debug)]
struct Slot {
    key: ConnectionKey,
    /// The agent's id of the session, if it is known.
    session: Option<String>,
    /// The call that opens the session is pending.
    opening: bool,
    /// The pending call resumes the session with the id in `session`.
    resumes: bool,
    /// The session is being closed.
    leaving: bool,
    /// The number of its subagents that have a session.
    children: usize,
}

/// How the messages of a protocol name a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SessionNames {
    /// They do not: there is only one connection, which gets every message.
    None,
    /// With the members of ACP.
    #[default]
    Acp,
    /// With the members of Kimi Code's server.
    KimiWeb,
}

impl SessionNames {
    /// Returns the member of parameters that names the session.
    fn in_params(self) -> &'static str {
        if self == Self::KimiWeb { "session_id" } else { "sessionId" }
    }

    /// Returns the session that the answer to an opening call names.
    fn in_result(self, result: &RawValue) -> Option<String> {
        #[derive(Deserialize)]
        struct Acp<'a> {
            #[serde(borrow, rename = "sessionId")]
            session: Text<'a>,
        }
        #[derive(Deserialize)]
        struct KimiWeb<'a> {
            #[serde(borrow, rename = "id")]
            session: Text<'a>,
        }
        let session = match self {
            Self::KimiWeb => borrowed::<KimiWeb<'_>>(result.get()).ok().map(|named| named.session),
            _ => borrowed::<Acp<'_>>(result.get()).ok().map(|named| named.session),
        };
        session.map(|session| session.0.into_owned())
    }
}

/// Slots in the order of their keys. Most processes have only one slot, so no capacity is reserved for more.
#[derive(Debug, Default)]
struct Slots(Vec<Slot>);

impl Slots {
    fn insert(&mut self, slot: Slot) {
        let place = self.0.partition_point(|other| other.key < slot.key);
        self.0.reserve_exact(1);
        self.0.insert(place, slot);
    }

    fn get(&self, key: ConnectionKey) -> Option<&Slot> {
        let found = self.0.binary_search_by_key(&key, |slot| slot.key).ok()?;
        self.0.get(found)
    }

    fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut Slot> {
        let found = self.0.binary_search_by_key(&key, |slot| slot.key).ok()?;
        self.0.get_mut(found)
    }
}

/// The connections of one process.
#[derive(Debug, Default)]
pub struct Endpoint {
    connections: Slots,
    /// Connections by the agent's ids of their sessions.
    sessions: BTreeMap<String, ConnectionKey>,
    names: SessionNames,
    asked: Asked,
    /// Whether the agent has `session/close`.
    can_close: bool,
    /// Whether the process has had a connection, and several.
    has_had_one: bool,
    is_shared: bool,
    /// Connections that left while their session was being opened.
    abandoned: BTreeSet<ConnectionKey>,
    /// Boxed, because most processes have none.
    unplaced: Option<Box<Unplaced>>,
    repeats: Repeats,
    transmit: Vec<u8>,
}

/// Messages and ids of sessions without a connection.
#[derive(Debug, Default)]
struct Unplaced {
    /// Lines of sessions whose id is not known yet, with the session's id.
    kept: Vec<(String, Vec<u8>)>,
    /// The last sessions that were open here.
    closed: VecDeque<String>,
}

impl Endpoint {
    /// Makes an endpoint for a protocol with one session in each process.
    pub fn single() -> Self {
        Self { names: SessionNames::None, ..Self::default() }
    }

    /// Makes an endpoint for Kimi Code's server, behind the gateway.
    pub fn kimi_web() -> Self {
        Self { names: SessionNames::KimiWeb, ..Self::default() }
    }

    fn is_single(&self) -> bool {
        self.names == SessionNames::None
    }

    /// Adds a connection.
    pub fn attach(&mut self, key: ConnectionKey) {
        self.is_shared |= self.has_had_one;
        self.has_had_one = true;
        self.connections.insert(Slot {
            key,
            session: None,
            opening: false,
            resumes: false,
            leaving: false,
            children: 0,
        });
    }

    /// Returns how a connection or a one-off call gets the answer to `initialize`.
    pub fn join_handshake(&mut self, key: ConnectionKey) -> HandshakeRole {
        if self.is_single() {
            return HandshakeRole::Ask;
        }
        match &mut self.asked {
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

    /// Notes which call opens a connection's session, before the call is written.
    ///
    /// # Errors
    /// Refuses a call that resumes a session which is open already: its messages could not be assigned to one
    /// connection.
    pub fn set_opening(&mut self, key: ConnectionKey, opening: Option<&OpeningSession>) -> Result<(), RpcFailure> {
        let Some(slot) = self.connections.get_mut(key).filter(|_| self.names != SessionNames::None) else {
            return Ok(());
        };
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
        // The earlier messages of the session come before the answer.
        slot.resumes = true;
        self.name(key, id.clone());
        Ok(())
    }

    fn name(&mut self, key: ConnectionKey, id: String) {
        if let Some(slot) = self.connections.get_mut(key) {
            slot.session = Some(id.clone());
            self.sessions.insert(id, key);
        }
    }

    fn forget_name(&mut self, key: ConnectionKey) {
        if let Some(slot) = self.connections.get_mut(key)
            && let Some(id) = slot.session.take()
        {
            let children = std::mem::take(&mut slot.children);
            self.sessions.remove(&id);
            self.note_closed(id);
            if children > 0 {
                let is_of_it = |(id, owner): (&String, &ConnectionKey)| (*owner == key).then(|| id.clone());
                let children: Vec<_> = self.sessions.iter().filter_map(is_of_it).collect();
                for id in children {
                    self.sessions.remove(&id);
                    self.note_closed(id);
                }
            }
        }
    }

    /// Remembers a session that was open here. Its late requests are expected.
    fn note_closed(&mut self, id: String) {
        let closed = &mut self.unplaced.get_or_insert_default().closed;
        if closed.len() == MAX_CLOSED {
            closed.pop_front();
        }
        closed.push_back(id);
    }

    /// Notes the session of a subagent that an update announces. Its messages belong to the connection of its parent.
    fn adopt(&mut self, key: ConnectionKey, message: &Message<'_>, line: &[u8]) {
        #[derive(Deserialize)]
        struct Update<'a> {
            #[serde(borrow, rename = "sessionUpdate")]
            kind: Text<'a>,
            #[serde(borrow, rename = "sessionId")]
            session: Text<'a>,
        }
        let Message::Notification { params, .. } = message else { return };
        if self.names != SessionNames::Acp || memchr::memmem::find(line, SUBAGENT.as_bytes()).is_none() {
            return;
        }
        let Ok(Some(update)) = params.member("update") else { return };
        let Ok(update) = borrowed::<Update<'_>>(update) else { return };
        let Some(slot) = self.connections.get_mut(key) else { return };
        if update.kind.0 == SUBAGENT && slot.children < MAX_CHILDREN && !self.sessions.contains_key(&*update.session.0)
        {
            slot.children += 1;
            self.sessions.insert(update.session.0.into_owned(), key);
        }
    }

    /// Returns whether the agent is closing the session of this connection.
    pub fn is_leaving(&self, key: ConnectionKey) -> bool {
        self.connections.get(key).is_some_and(|slot| slot.leaving)
    }

    /// Takes the endpoint's own bytes to write.
    pub fn poll_transmit(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.transmit)
    }

    /// Returns the recipient of a message from the agent. `line` is the line of the message.
    pub fn route(&mut self, message: &Message<'_>, line: &[u8]) -> Route {
        if self.is_single() {
            return self.oldest(None);
        }
        let (request, params) = match message {
            Message::Response { id: Some(id), outcome } => return self.route_answer(id, outcome.as_ref()),
            // An agent that speaks another protocol can refuse the handshake in this way.
            Message::Response { id: None, outcome: Err(failure) } if matches!(self.asked, Asked::By(..)) => {
                return self.handshake_answered(Err(failure));
            }
            // Any of the connections may have sent the request.
            Message::Response { id: None, outcome: Err(failure) } if self.connections.0.len() > 1 => {
                if let Some(count) = self.repeats.count("refusal") {
                    tracing::warn!(code = failure.code, count, "the agent could not read a line of this SDK");
                }
                return Route::Nowhere;
            }
            // A connection logs invalid messages.
            Message::Response { id: None, .. } | Message::Invalid(_) => return self.oldest(None),
            Message::Request { id, params, .. } => (Some(*id), *params),
            Message::Notification { method, .. } if self.names == SessionNames::KimiWeb && method == CONNECTED => {
                return self.all();
            }
            // The notification names a request and no session. Connections without that request ignore it.
            Message::Notification { method, .. } if method == "$/cancel_request" => return self.all(),
            Message::Notification { params, .. } => (None, *params),
        };
        let named = params.id(self.names.in_params());
        let named = if self.names == SessionNames::KimiWeb { named.or_else(|_| in_payload(&params)) } else { named };
        let session = match named {
            Ok(session) => session,
            // The message is about the server.
            Err(_) if self.names == SessionNames::KimiWeb => return self.nowhere(request),
            Err(_) => return self.oldest(request),
        };
        match self.sessions.get(&*session).copied() {
            Some(key) if !self.is_leaving(key) => {
                self.adopt(key, message, line);
                Route::To(key)
            }
            Some(_) => self.nowhere(request),
            None => self.keep(session.into_owned(), request, line),
        }
    }

    /// Returns whether a line that is for the session of this connection reaches the connection.
    pub fn delivers_to(&self, key: ConnectionKey) -> bool {
        let slot = self.connections.get(key).filter(|slot| !slot.leaving);
        slot.is_some_and(|slot| self.is_single() || slot.session.is_some())
    }

    fn all(&self) -> Route {
        Route::All(self.connections.0.iter().filter(|slot| !slot.leaving).map(|slot| slot.key).collect())
    }

    /// Routes a message that names no session to the oldest connection.
    fn oldest(&mut self, request: Option<&str>) -> Route {
        let oldest = self.connections.0.iter().find(|slot| !slot.leaving).map(|slot| slot.key);
        oldest.map_or_else(|| self.nowhere(request), Route::To)
    }

    /// Routes a message to no connection. A request is refused, because the agent may wait for the answer.
    fn nowhere(&mut self, request: Option<&str>) -> Route {
        tracing::debug!(request, "message for a session that is not open here");
        if let Some(id) = request {
            self.transmit.extend(refusal(id));
        }
        Route::Nowhere
    }

    fn route_answer(&mut self, id: &str, outcome: Result<&&RawValue, &RpcFailure>) -> Route {
        let repeats = &mut self.repeats;
        let mut unknown = || {
            if let Some(count) = repeats.count("answer") {
                tracing::warn!(count, "the agent answered a call that does not exist, or did so twice");
            }
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
        match self.connections.get(key) {
            Some(slot) if slot.leaving && number == close_id(key) => {
                self.remove(key);
                Route::Left(key)
            }
            Some(slot) if slot.leaving => Route::Nowhere,
            Some(slot) if slot.opening => self.opened(key, outcome),
            Some(_) => Route::To(key),
            // A one-off call, or an unknown call.
            None => Route::To(key),
        }
    }

    fn handshake_answered(&mut self, outcome: Result<&&RawValue, &RpcFailure>) -> Route {
        let asked = match outcome {
            Ok(answer) => {
                self.can_close = can_close(answer);
                Asked::Answered((*answer).to_owned())
            }
            // The next connection sends the call again.
            Err(_) => Asked::Not,
        };
        let Asked::By(key, others) = std::mem::replace(&mut self.asked, asked) else { return Route::Nowhere };
        let is_there = |key: &ConnectionKey| self.connections.get(*key).is_none_or(|slot| !slot.leaving);
        Route::Handshake(std::iter::once(key).chain(others).filter(is_there).collect())
    }

    /// Handles the answer to the call that opens the session of a connection.
    fn opened(&mut self, key: ConnectionKey, outcome: Result<&&RawValue, &RpcFailure>) -> Route {
        let Some(slot) = self.connections.get_mut(key) else { return Route::Nowhere };
        slot.opening = false;
        let resumed = std::mem::take(&mut slot.resumes);
        let named = outcome.ok().and_then(|answer| self.names.in_result(answer));
        match named {
            None if resumed && outcome.is_err() => self.forget_name(key),
            None => {}
            Some(id) => match self.sessions.get(&id) {
                Some(owner) if *owner == key => {}
                Some(_) => return self.conflict(key, &id),
                // The agent may give a resumed session another id.
                None => {
                    self.forget_name(key);
                    self.name(key, id);
                }
            },
        }
        let lines = self.take_kept(key);
        self.drop_kept();
        Route::Named(key, lines)
    }

    fn conflict(&mut self, key: ConnectionKey, id: &str) -> Route {
        self.remove(key);
        self.drop_kept();
        Route::Conflict(
            key,
            Error::Protocol(format!(
                "the agent opened a session with the id `{id}`, which another session of this process has; that session \
                 continues, this one cannot be opened"
            ).into()),
        )
    }

    /// Closes a session that was opened for a connection which has left.
    fn abandoned_opened(&mut self, key: ConnectionKey, outcome: Result<&&RawValue, &RpcFailure>) -> Route {
        if let Some(id) = outcome.ok().and_then(|answer| self.names.in_result(answer))
            && !self.sessions.contains_key(&id)
        {
            self.write_close(key, &id);
        }
        self.drop_kept();
        Route::Nowhere
    }

    /// Ends the reading and writing of a connection. Returns whether the agent now closes its session: [`Route::Left`]
    /// reports the end. Otherwise the connection has been removed.
    pub fn leave(&mut self, key: ConnectionKey) -> bool {
        let Some(slot) = self.connections.get_mut(key) else { return false };
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

    /// Removes a connection. Later messages for it are ignored.
    pub fn remove(&mut self, key: ConnectionKey) {
        self.forget_name(key);
        self.connections.0.retain(|slot| slot.key != key);
    }
}

fn refusal(id: &str) -> Vec<u8> {
    refusal_of(id, "the session is closed")
}

fn refusal_of(id: &str, message: &str) -> Vec<u8> {
    jsonrpc::refusal(id, &RpcFailure { code: CANCELLED, message: message.to_owned(), data: None })
}

/// Returns the session of a frame that names it only in its payload, for example `resync_required`.
fn in_payload<'a>(params: &Params<'a>) -> Result<Cow<'a, str>, String> {
    #[derive(Deserialize)]
    struct Payload<'a> {
        #[serde(borrow)]
        session_id: Option<Text<'a>>,
        #[serde(borrow, rename = "sessionId")]
        session: Option<Text<'a>>,
    }
    let payload = params.member("payload")?.ok_or("missing field `payload`")?;
    let payload: Payload<'_> = borrowed(payload).map_err(|error| error.to_string())?;
    let session = payload.session_id.or(payload.session).map(|session| session.0);
    session.ok_or_else(|| "missing field `session_id`".to_owned())
}

/// Returns whether the agent has `session/close`, according to its answer to `initialize`.
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
