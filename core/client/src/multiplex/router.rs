//! Which session each line of a shared process belongs to. No I/O and no clock: lines go in, lines come out.
//!
//! Every session numbers its own calls, so they get numbers of the process's on their way out, and their own back with
//! the answer. What the agent sends by itself names its session; what names none is for the eldest.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::error::Error;
use crate::printable::printable_line;
use crate::wire::jsonrpc::{self, Message, RpcFailure};
use crate::wire::value::{Key as Text, object};

/// How much is kept of what names a session that is about to be told its name.
const MAX_STRAYS: usize = 1 << 20;
const INVALID_PARAMS: i64 = -32602;
/// What LSP and ACP call a request that nobody wants to have answered any more.
const CANCELLED: i64 = -32800;

/// A session, as the process's other users know it; younger ones have larger keys.
pub(super) type Key = u64;

/// What comes of a line. Lines are without their end.
#[derive(Debug, PartialEq)]
pub(super) enum Output {
    ToAgent(Vec<u8>),
    ToSession(Key, Vec<u8>),
    /// Nothing comes to this session any more.
    Left(Key),
    /// The agent's answer cannot be used, for this reason. The session has left.
    Failed(Key, Error),
}

#[derive(Debug, Default)]
struct Slot {
    /// The agent's name for it, once it has one.
    name: Option<String>,
    /// The agent's requests that it has not answered: the text of each id, by what it says.
    requests: BTreeMap<String, String>,
    /// How many of its calls await an answer.
    waiting: usize,
    prompting: bool,
    /// It is being closed, and hears nothing any more.
    leaving: bool,
}

/// A call that awaits the agent's answer.
#[derive(Debug)]
struct Call {
    key: Key,
    /// The session's own id for it: JSON text.
    id: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Greeting,
    /// Its answer names a session.
    Opens,
    /// It goes on with this session.
    Resumes(String),
    Prompt,
    Other,
    /// Our own: nobody waits for what it says.
    Close,
}

/// The handshake, which the process has once, whoever asks first.
#[derive(Debug, Default)]
enum Greeting {
    #[default]
    Unsaid,
    /// Who else asked meanwhile, each with its own id.
    Said(Vec<(Key, String)>),
    Answered(Box<RawValue>),
}

#[derive(Debug, Default)]
pub(super) struct Router {
    sessions: BTreeMap<Key, Slot>,
    /// Sessions by the agent's names for them.
    names: HashMap<String, Key>,
    calls: HashMap<u64, Call>,
    next_id: u64,
    greeting: Greeting,
    /// The agent has `session/close`.
    closes: bool,
    /// Lines for sessions whose names are not known yet.
    strays: Vec<(String, Vec<u8>)>,
    outputs: VecDeque<Output>,
}

impl Router {
    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(super) fn attach(&mut self, key: Key) {
        self.sessions.insert(key, Slot::default());
    }

    /// Whether a session waits for an answer of the agent's.
    pub(super) fn waits(&self, key: Key) -> bool {
        self.sessions.get(&key).is_some_and(|slot| slot.waiting > 0)
    }

    /// A line of a session's, for the agent.
    pub(super) fn session_says(&mut self, key: Key, line: &[u8]) {
        let Some(slot) = self.sessions.get_mut(&key).filter(|slot| !slot.leaving) else { return };
        match jsonrpc::parse(line) {
            Message::Request { id, method, params } => {
                let id = id.to_owned();
                match &*method {
                    "initialize" => self.greet(key, id, params.raw()),
                    "session/new" | "session/fork" => self.call(key, id, &method, params.raw(), Kind::Opens),
                    "session/load" | "session/resume" => self.resume(key, id, &method, params.raw()),
                    "session/prompt" => self.call(key, id, &method, params.raw(), Kind::Prompt),
                    _ => self.call(key, id, &method, params.raw(), Kind::Other),
                }
            }
            Message::Response { id, .. } => {
                if let Some(id) = id {
                    slot.requests.remove(&*id);
                }
                self.outputs.push_back(Output::ToAgent(line.to_owned()));
            }
            Message::Notification { .. } => self.outputs.push_back(Output::ToAgent(line.to_owned())),
            Message::Invalid(reason) => tracing::error!(reason, "a session wrote what is no message"),
        }
    }

    /// The agent is asked once what it is.
    fn greet(&mut self, key: Key, id: String, params: &RawValue) {
        match &mut self.greeting {
            Greeting::Unsaid => {
                self.greeting = Greeting::Said(Vec::new());
                self.call(key, id, "initialize", params, Kind::Greeting);
            }
            Greeting::Said(others) => others.push((key, id)),
            Greeting::Answered(answer) => {
                let line = bare(jsonrpc::answer(&id, answer));
                self.outputs.push_back(Output::ToSession(key, line));
            }
        }
    }

    fn resume(&mut self, key: Key, id: String, method: &str, params: &RawValue) {
        let Some(name) = session_of(params) else { return self.call(key, id, method, params, Kind::Other) };
        if self.names.get(&name).is_some_and(|other| *other != key) {
            // Whose the updates were could not be told.
            let message = format!("the session `{name}` is open already");
            let line = bare(jsonrpc::refusal(&id, &RpcFailure { code: INVALID_PARAMS, message, data: None }));
            return self.outputs.push_back(Output::ToSession(key, line));
        }
        // Its past comes before the answer.
        self.name(key, name.clone());
        self.call(key, id, method, params, Kind::Resumes(name));
    }

    fn name(&mut self, key: Key, name: String) {
        if let Some(slot) = self.sessions.get_mut(&key) {
            slot.name = Some(name.clone());
            self.names.insert(name, key);
        }
    }

    fn call(&mut self, key: Key, id: String, method: &str, params: &RawValue, kind: Kind) {
        if let Some(slot) = self.sessions.get_mut(&key) {
            slot.waiting += 1;
            slot.prompting |= kind == Kind::Prompt;
        }
        self.send(Call { key, id, kind }, method, &params);
    }

    fn send(&mut self, call: Call, method: &str, params: &impl Serialize) {
        #[derive(Serialize)]
        struct Request<'a, P> {
            jsonrpc: &'static str,
            id: u64,
            method: &'a str,
            params: &'a P,
        }
        let id = self.next_id;
        self.next_id += 1;
        self.calls.insert(id, call);
        self.tell(&Request { jsonrpc: "2.0", id, method, params });
    }

    fn tell(&mut self, message: &impl Serialize) {
        // Only maps with keys that aren't strings can fail here, and there are none.
        let line = serde_json::to_vec(message).unwrap_or_default();
        self.outputs.push_back(Output::ToAgent(line));
    }

    /// A line of the agent's, for whom it belongs to.
    pub(super) fn agent_says(&mut self, line: &[u8]) {
        let (request, params) = match jsonrpc::parse(line) {
            Message::Response { id: None, .. } => return self.for_eldest(line, None),
            Message::Response { id: Some(id), outcome } => {
                return match id.parse().ok().and_then(|number: u64| self.calls.remove(&number)) {
                    Some(call) => self.answered(call, outcome),
                    // To a session it might look like the answer to a call of its own.
                    None => {
                        tracing::warn!(id = %printable_line(&id), "an answer to what was not asked, or was answered before");
                    }
                };
            }
            Message::Request { id, params, .. } => (Some(id), params),
            Message::Notification { params, .. } => (None, params),
            // It is noted where all noise is.
            Message::Invalid(_) => return self.for_eldest(line, None),
        };
        let request = request.map(str::to_owned);
        let Some(name) = params.text("sessionId").ok() else { return self.for_eldest(line, request) };
        let name = name.into_owned();
        match self.names.get(&name) {
            Some(key) => self.deliver(*key, line, request),
            None if self.opens() && self.strays.iter().map(|(_, line)| line.len()).sum::<usize>() < MAX_STRAYS => {
                self.strays.push((name, line.to_owned()));
            }
            None => self.nobodys(request),
        }
    }

    /// Whether a session is about to be named.
    fn opens(&self) -> bool {
        self.calls.values().any(|call| call.kind == Kind::Opens)
    }

    fn for_eldest(&mut self, line: &[u8], request: Option<String>) {
        match self.sessions.iter().find(|(_, slot)| !slot.leaving).map(|(key, _)| *key) {
            Some(key) => self.deliver(key, line, request),
            None => self.nobodys(request),
        }
    }

    fn deliver(&mut self, key: Key, line: &[u8], request: Option<String>) {
        match self.sessions.get_mut(&key) {
            Some(slot) if !slot.leaving => {
                if let Some(id) = request {
                    slot.requests.insert(said(&id), id);
                }
                self.outputs.push_back(Output::ToSession(key, line.to_owned()));
            }
            _ => self.nobodys(request),
        }
    }

    /// For no session that there is. A request is refused, as the agent may wait for the answer.
    fn nobodys(&mut self, request: Option<String>) {
        tracing::debug!(request, "of a session that is not open here");
        if let Some(id) = request {
            self.refuse(&id);
        }
    }

    fn refuse(&mut self, id: &str) {
        let message = "the session is closed".to_owned();
        let line = bare(jsonrpc::refusal(id, &RpcFailure { code: CANCELLED, message, data: None }));
        self.outputs.push_back(Output::ToAgent(line));
    }

    fn answered(&mut self, call: Call, outcome: Result<&RawValue, RpcFailure>) {
        let Call { key, id, kind } = call;
        let slot = self.sessions.get_mut(&key);
        let here = slot.as_ref().is_some_and(|slot| !slot.leaving);
        if let Some(slot) = slot {
            slot.waiting = slot.waiting.saturating_sub(1);
            slot.prompting &= kind != Kind::Prompt;
        }
        match kind {
            Kind::Greeting => return self.greeted(key, id, outcome),
            Kind::Close => return self.gone(key),
            Kind::Opens => {
                let name = outcome.as_ref().ok().and_then(|answer| session_of(answer));
                match name {
                    Some(name) if self.is_others(key, &name) => self.fail(key, &name),
                    Some(name) if here => {
                        self.name(key, name.clone());
                        // Some tell of a session before they name it.
                        let its: Vec<_> = self.strays.extract_if(.., |(of, _)| *of == name).collect();
                        its.iter().for_each(|(_, line)| self.agent_says(line));
                    }
                    // Nobody waits for it any more.
                    Some(name) => self.close(key, &name),
                    None => {}
                }
                if !self.opens() {
                    std::mem::take(&mut self.strays).iter().for_each(|(_, line)| self.agent_says(line));
                }
            }
            Kind::Resumes(name) if outcome.is_err() => {
                self.names.remove(&name);
                if let Some(slot) = self.sessions.get_mut(&key) {
                    slot.name = None;
                }
            }
            Kind::Resumes(asked) => match outcome.as_ref().ok().and_then(|answer| session_of(answer)) {
                Some(name) if name != asked && self.is_others(key, &name) => self.fail(key, &name),
                // The agent calls the session by another name from now on.
                Some(name) if name != asked && here => {
                    self.names.remove(&asked);
                    self.name(key, name);
                }
                _ => {}
            },
            Kind::Prompt | Kind::Other => {}
        }
        if self.sessions.get(&key).is_some_and(|slot| !slot.leaving) {
            self.answer(key, &id, &outcome);
        }
    }

    /// Whether another session has this name.
    fn is_others(&self, key: Key, name: &str) -> bool {
        self.names.get(name).is_some_and(|other| *other != key)
    }

    /// The agent has given this session the name of another one, which keeps it: whose a message is could not be told.
    fn fail(&mut self, key: Key, name: &str) {
        // The other session must not be closed in its place.
        if let Some(slot) = self.sessions.get_mut(&key)
            && let Some(own) = slot.name.take()
        {
            self.names.remove(&own);
        }
        let error = Error::Protocol(format!(
            "the agent opened a session with the id `{name}`, which another session of this process has; that session \
             goes on, this one cannot be opened"
        ));
        self.outputs.push_back(Output::Failed(key, error));
        self.drop_session(key);
    }

    fn answer(&mut self, key: Key, id: &str, outcome: &Result<&RawValue, RpcFailure>) {
        let line = match outcome {
            Ok(result) => jsonrpc::answer(id, result),
            Err(failure) => jsonrpc::refusal(id, failure),
        };
        self.outputs.push_back(Output::ToSession(key, bare(line)));
    }

    fn greeted(&mut self, key: Key, id: String, outcome: Result<&RawValue, RpcFailure>) {
        let greeting = match &outcome {
            Ok(answer) => {
                self.closes = can_close(answer);
                Greeting::Answered((*answer).to_owned())
            }
            // Whoever comes next asks again.
            Err(_) => Greeting::Unsaid,
        };
        let others = match std::mem::replace(&mut self.greeting, greeting) {
            Greeting::Said(others) => others,
            _ => Vec::new(),
        };
        for (key, id) in std::iter::once((key, id)).chain(others) {
            if self.sessions.get(&key).is_some_and(|slot| !slot.leaving) {
                self.answer(key, &id, &outcome);
            }
        }
    }

    /// A session says nothing any more: what it has open is ended, and nothing is said to it.
    pub(super) fn leave(&mut self, key: Key) {
        let Some(slot) = self.sessions.get_mut(&key).filter(|slot| !slot.leaving) else { return };
        slot.leaving = true;
        let (name, prompting) = (slot.name.clone(), slot.prompting);
        let requests = std::mem::take(&mut slot.requests);
        if let Some(name) = name.as_deref().filter(|_| prompting) {
            self.tell(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": name}}));
        }
        requests.values().for_each(|id| self.refuse(id));
        match name {
            Some(name) if self.closes => self.close(key, &name),
            _ => self.gone(key),
        }
    }

    /// A session that is not to wait for the agent any more.
    pub(super) fn drop_session(&mut self, key: Key) {
        self.leave(key);
        self.gone(key);
    }

    fn close(&mut self, key: Key, name: &str) {
        if self.closes {
            if let Some(slot) = self.sessions.get_mut(&key) {
                slot.waiting += 1;
            }
            let call = Call { key, id: String::new(), kind: Kind::Close };
            self.send(call, "session/close", &json!({"sessionId": name}));
        }
    }

    fn gone(&mut self, key: Key) {
        if let Some(slot) = self.sessions.remove(&key) {
            if let Some(name) = slot.name {
                self.names.remove(&name);
            }
            self.outputs.push_back(Output::Left(key));
        }
    }
}

/// A message without the end of its line.
fn bare(mut line: Vec<u8>) -> Vec<u8> {
    line.pop();
    line
}

/// An id of the agent's, as the answer to it is told by.
fn said(id: &str) -> String {
    serde_json::from_str::<Text<'_>>(id).map_or_else(|_| id.to_owned(), |text| text.0.into_owned())
}

/// The session that a message's parameters or result name.
fn session_of(params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, rename = "sessionId")]
        session: Text<'a>,
    }
    object::<Named<'_>>(params.get()).ok().map(|named| named.session.0.into_owned())
}

/// Whether an agent that answers `initialize` like this lets a session be closed.
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
        close: Option<serde::de::IgnoredAny>,
    }
    object::<Answer>(answer.get()).is_ok_and(|answer| answer.agent_capabilities.session_capabilities.close.is_some())
}
