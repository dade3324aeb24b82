//! The messages for one client over HTTP, until its streams take them: one stream for the connection, and one for each session.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper::body::{Body, Bytes, Frame};
use kimi_agent_protocol::jsonrpc::relayed::{self, id_key};
use kimi_agent_protocol::jsonrpc::{Message, Params};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{HEARTBEAT, STALL};

/// The limit of bytes that wait for streams. One message may exceed it.
const MAX_WAITING: usize = 16 << 20;
/// The limit of sessions that have a stream of their own, and of open calls.
const MAX_SESSIONS: usize = 4096;
const MAX_CALLS: usize = 8192;
/// The limit of streams for sessions that the agent has not named yet, such as the one that a client is about to load.
const MAX_UNKNOWN: usize = 16;

/// The mailboxes of one client.
pub(super) struct Mailboxes {
    state: Mutex<State>,
    /// A stream has taken a message.
    taken: Notify,
}

struct State {
    connection: Mailbox,
    sessions: HashMap<String, Mailbox>,
    /// The open calls, by the keys of their ids.
    calls: HashMap<String, Route>,
    /// The bytes that wait.
    waiting: usize,
    /// The number of streams that the client reads.
    open: usize,
    last_use: Instant,
    has_ended: bool,
}

#[derive(Default)]
struct Mailbox {
    queue: VecDeque<Bytes>,
    is_open: bool,
    reader: Option<Waker>,
    /// Whether the agent has named the session.
    is_known: bool,
    /// Whether the session is closed. The stream ends when it has taken the rest.
    has_ended: bool,
}

impl Mailbox {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The way of an answer to the client.
pub(super) enum Route {
    /// The answer to the first request is the answer of HTTP.
    Direct(oneshot::Sender<Vec<u8>>),
    /// The stream of the connection. The answer can name a session that was opened.
    Connection,
    /// The stream of a session, if the session has one.
    Session { id: String, closes: bool },
}

impl Route {
    /// Returns the way of the answer to this call.
    pub(super) fn of(method: &str, session: Option<&str>) -> Self {
        match session {
            Some(id) if method != "session/fork" => {
                Self::Session { id: id.to_owned(), closes: matches!(method, "session/close" | "session/delete") }
            }
            _ => Self::Connection,
        }
    }
}

/// Why a stream is refused.
#[derive(Debug, PartialEq)]
pub(super) enum NoStream {
    /// The client reads it already.
    IsOpen,
    /// The session is not known, or the client has ended.
    Unknown,
}

/// The client takes no messages.
#[derive(Debug)]
pub(super) struct Stalled;

impl Mailboxes {
    pub(super) fn new() -> Self {
        let state = State {
            connection: Mailbox::default(),
            sessions: HashMap::new(),
            calls: HashMap::new(),
            waiting: 0,
            open: 0,
            last_use: Instant::now(),
            has_ended: false,
        };
        Self { state: Mutex::new(state), taken: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request of the client.
    pub(super) fn touch(&self) {
        self.state().last_use = Instant::now();
    }

    /// Returns since when the client has no stream and sends nothing. `None` if it reads a stream, or waits for its first answer.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        let waits = state.calls.values().any(|route| matches!(route, Route::Direct(_)));
        (state.open == 0 && !waits).then_some(state.last_use)
    }

    /// Notes the way of the answer to a call. Returns false if too many calls are open. The guard answers a second call with the same
    /// id itself, and the first way holds for both.
    pub(super) fn expect(&self, key: String, route: Route) -> bool {
        let mut state = self.state();
        let has_space = state.calls.len() < MAX_CALLS;
        if has_space && !state.has_ended {
            state.calls.entry(key).or_insert(route);
        }
        has_space
    }

    /// Adds a message of the agent, without its end, as soon as the mailboxes have space for it.
    ///
    /// # Errors
    /// The client takes nothing for a long time.
    pub(super) async fn deliver(&self, line: &[u8]) -> Result<(), Stalled> {
        let space = async {
            loop {
                let taken = self.taken.notified();
                if self.state().waiting < MAX_WAITING {
                    return;
                }
                taken.await;
            }
        };
        tokio::time::timeout(STALL, space).await.map_err(|_| Stalled)?;
        self.state().route(line);
        Ok(())
    }

    /// Opens the stream of the connection, or of a session.
    pub(super) fn open(self: &Arc<Self>, session: Option<&str>) -> Result<Stream, NoStream> {
        let mut state = self.state();
        if state.has_ended {
            return Err(NoStream::Unknown);
        }
        if let Some(id) = session
            && !state.sessions.contains_key(id)
        {
            let unknown = state.sessions.values().filter(|mailbox| !mailbox.is_known).count();
            if unknown >= MAX_UNKNOWN || state.sessions.len() >= MAX_SESSIONS {
                return Err(NoStream::Unknown);
            }
            state.sessions.insert(id.to_owned(), Mailbox::default());
        }
        let Some(mailbox) = state.mailbox(session) else { return Err(NoStream::Unknown) };
        if std::mem::replace(&mut mailbox.is_open, true) {
            return Err(NoStream::IsOpen);
        }
        state.open += 1;
        state.last_use = Instant::now();
        let mut beat = tokio::time::interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Stream { mailboxes: Arc::clone(self), session: session.map(str::to_owned), beat })
    }

    /// Ends all streams when they have taken what waits. Further messages are dropped.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.calls.clear();
        state.connection.wake();
        state.sessions.values_mut().for_each(Mailbox::wake);
    }

    /// Waits until all streams are closed, after the end.
    pub(super) async fn emptied(&self) {
        loop {
            let taken = self.taken.notified();
            if self.state().open == 0 {
                return;
            }
            taken.await;
        }
    }
}

impl State {
    fn mailbox(&mut self, session: Option<&str>) -> Option<&mut Mailbox> {
        match session {
            None => Some(&mut self.connection),
            Some(id) => self.sessions.get_mut(id),
        }
    }

    /// Marks a session as one that the agent has named.
    fn know(&mut self, session: &str) {
        if self.sessions.len() < MAX_SESSIONS || self.sessions.contains_key(session) {
            self.sessions.entry(session.to_owned()).or_default().is_known = true;
        }
    }

    fn route(&mut self, line: &[u8]) {
        // The guard has read it before.
        let Ok(read) = relayed::read(line) else {
            tracing::warn!("message for a client dropped: it is not JSON-RPC");
            return;
        };
        let session = match &read.message {
            Message::Request { method, params, .. } | Message::Notification { method, params } => {
                let session = session_of(method, params);
                if let Some(session) = &session {
                    self.know(session);
                }
                session
            }
            Message::Response { outcome, .. } => match read.id.and_then(id_key).and_then(|key| self.calls.remove(&key))
            {
                Some(Route::Direct(waiting)) => {
                    waiting.send(line.to_vec()).ok();
                    self.last_use = Instant::now();
                    return;
                }
                Some(route) => self.answered(route, outcome.as_ref().ok().copied()),
                None => None,
            },
            Message::Invalid(_) => None,
        };
        self.put(session.as_deref(), line);
    }

    /// Returns the session whose stream gets an answer.
    fn answered(&mut self, route: Route, result: Option<&RawValue>) -> Option<String> {
        match (route, result) {
            (Route::Session { id, closes: true }, Some(_)) => {
                let mailbox = self.sessions.get_mut(&id)?;
                mailbox.has_ended = true;
                if mailbox.is_open {
                    return Some(id);
                }
                // The client may not ask for the rest any more.
                self.forget(&id);
                None
            }
            (Route::Session { id, .. }, result) => {
                if result.is_some() {
                    self.know(&id);
                }
                // An answer in the stream of the session comes after the updates before it.
                Some(id)
            }
            (_, Some(result)) => {
                let opened = serde_json::from_str::<Value>(result.get()).ok();
                if let Some(session) = opened.as_ref().and_then(|opened| opened.get("sessionId")?.as_str()) {
                    self.know(session);
                }
                None
            }
            (_, None) => None,
        }
    }

    fn put(&mut self, session: Option<&str>, line: &[u8]) {
        if self.has_ended {
            return;
        }
        let session = session.filter(|id| self.sessions.contains_key(*id));
        let event = event(line);
        self.waiting += event.len();
        if let Some(mailbox) = self.mailbox(session) {
            mailbox.queue.push_back(event);
            mailbox.wake();
        }
    }

    fn forget(&mut self, session: &str) {
        if let Some(mailbox) = self.sessions.remove(session) {
            self.waiting -= mailbox.queue.iter().map(Bytes::len).sum::<usize>();
        }
    }
}

/// Returns the session that a message is about. Messages of JSON-RPC itself belong to the connection.
pub(super) fn session_of(method: &str, params: &Params<'_>) -> Option<String> {
    params.text("sessionId").ok().filter(|_| !method.starts_with("$/")).map(std::borrow::Cow::into_owned)
}

/// Returns a message as an event of a stream. A carriage return, which JSON has between values only, would end the event.
fn event(line: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(line.len() + 8);
    event.extend_from_slice(b"data: ");
    event.extend(line.iter().map(|byte| if *byte == b'\r' { b' ' } else { *byte }));
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// A stream that the client reads: server-sent events, with a comment now and then.
pub(super) struct Stream {
    mailboxes: Arc<Mailboxes>,
    session: Option<String>,
    beat: Interval,
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = self.get_mut();
        {
            let mut state = stream.mailboxes.state();
            let has_ended = state.has_ended;
            let Some(mailbox) = state.mailbox(stream.session.as_deref()) else { return Poll::Ready(None) };
            if let Some(event) = mailbox.queue.pop_front() {
                state.waiting -= event.len();
                drop(state);
                stream.mailboxes.taken.notify_one();
                return Poll::Ready(Some(Ok(Frame::data(event))));
            }
            if has_ended || mailbox.has_ended {
                return Poll::Ready(None);
            }
            mailbox.reader = Some(cx.waker().clone());
        }
        // The first tick is immediate: the client gets the head of the answer.
        stream.beat.poll_tick(cx).map(|_| Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.mailboxes.state();
        state.open -= 1;
        state.last_use = Instant::now();
        let Some(mailbox) = state.mailbox(self.session.as_deref()) else { return };
        mailbox.is_open = false;
        mailbox.reader = None;
        let is_over = mailbox.has_ended || !mailbox.is_known;
        if let Some(session) = self.session.as_deref().filter(|_| is_over) {
            state.forget(session);
        }
        drop(state);
        self.mailboxes.taken.notify_one();
    }
}
