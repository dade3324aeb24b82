//! The sessions of a process: routes each line to its session, and answers calls that belong to no session.

use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;

use super::flow::{Demand, may_take_lines};
use super::io::Io;
use super::process_handle::Answer;
use super::reader::PipeReader;
use super::session::{SessionDriver, SessionEvent};
use crate::dialect::echo_error;
use crate::endpoint::{ConnectionKey, Route};
use crate::error::Error;
use crate::jsonrpc::{self, Message};
use crate::messages::Json;

/// The sessions of a process, and the one-off calls that wait for an answer.
#[derive(Default)]
pub(super) struct Sessions {
    /// In the order of their keys.
    #[allow(clippy::vec_box, reason = "the first element of a vector gets space for four")]
    pub(super) drivers: Vec<Box<SessionDriver>>,
    pub(super) calls: Vec<(ConnectionKey, oneshot::Sender<Answer>)>,
    /// The sessions that got the last lines, the newest first.
    recent: [ConnectionKey; 4],
}

/// What lines depend on, beside their own session.
#[derive(Clone, Copy)]
pub(super) struct State {
    /// Whether a session has no capacity.
    pub(super) has_full: bool,
    /// Whether a line can begin other work: [`Connection::may_decide`](crate::connection::Connection::may_decide).
    pub(super) decides: bool,
    /// Whether no session and no call uses lines any more.
    pub(super) is_unused: bool,
}

impl Sessions {
    pub(super) fn insert(&mut self, session: Box<SessionDriver>) {
        let place = self.drivers.partition_point(|other| other.key < session.key);
        self.drivers.insert(place, session);
    }

    pub(super) fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut SessionDriver> {
        let found = self.drivers.binary_search_by_key(&key, |session| session.key).ok()?;
        Some(&mut self.drivers[found])
    }

    pub(super) fn remove(&mut self, key: ConnectionKey) -> Option<Box<SessionDriver>> {
        let found = self.drivers.binary_search_by_key(&key, |session| session.key).ok()?;
        Some(self.drivers.remove(found))
    }

    /// Returns whether a line of any session can be taken.
    pub(super) fn has_capacity(&self) -> bool {
        may_take_lines(!self.calls.is_empty(), self.drivers.iter().map(|session| session.demand()))
    }

    /// Looks at all sessions, for the lines that follow.
    pub(super) fn state(&self) -> State {
        State {
            has_full: self.drivers.iter().any(|session| session.flow.is_blocked()),
            decides: self.drivers.iter().any(|session| session.connection.may_decide()),
            is_unused: self.calls.is_empty() && self.drivers.iter().all(|session| session.connection.is_closed()),
        }
    }

    /// Returns whether a session other than this one waits for an answer.
    fn others_wait(&self, than: ConnectionKey) -> bool {
        let waits = |session: &SessionDriver| session.demand() == Demand::Waiting;
        !self.calls.is_empty() || self.drivers.iter().any(|session| session.key != than && waits(session))
    }

    /// Passes a line to its session.
    pub(super) fn route(&mut self, line: &[u8], io: &mut Io, now: Instant) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let translated = io.paths.as_ref().and_then(|paths| paths.line_from_agent(line));
        let line = translated.as_deref().unwrap_or(line);
        let mut rewritten = None;
        let message = jsonrpc::read(line, &mut rewritten);
        if matches!(message, Message::Invalid(_))
            && let Some((first, mut rest)) = jsonrpc::split(line)
        {
            self.route(first, io, now);
            while let Some((next, others)) = jsonrpc::split(rest) {
                self.route(next, io, now);
                rest = others;
            }
            return self.route(rest, io, now);
        }
        if matches!(message, Message::Invalid(_))
            && jsonrpc::for_each_of_batch(line, |message| self.route(message, io, now))
        {
            return;
        }
        if self.fails_echoed_call(&message) {
            return;
        }
        match io.endpoint.route(&message, line) {
            Route::To(key) => self.deliver(key, message, line, io, now),
            Route::Named(key, kept) => {
                for line in kept {
                    self.deliver(key, jsonrpc::read(&line, &mut None), &line, io, now);
                }
                self.deliver(key, message, line, io, now);
            }
            Route::Handshake(keys) => {
                for key in keys {
                    match self.get_mut(key) {
                        Some(session) => session.in_span(|session| session.handle_handshake(&message, line, now)),
                        None => self.answer_call(key, &message),
                    }
                }
            }
            Route::Conflict(key, error) => {
                if let Some(session) = self.get_mut(key) {
                    session.in_span(|session| session.fail(&error));
                }
            }
            Route::All(keys) => {
                for key in keys {
                    self.deliver(key, message.clone(), line, io, now);
                }
            }
            // `advance_leaving` finishes the end of the session.
            Route::Left(_) | Route::Nowhere => {}
        }
    }

    /// Passes lines on, at most `max`, that differ from earlier ones of a session only in their texts. Returns whether that session
    /// is full now; `None` if the next line is another one.
    pub(super) fn take_pieces(
        &mut self,
        reader: &mut PipeReader,
        max: usize,
        io: &mut Io,
        now: Instant,
    ) -> Option<bool> {
        for (place, key) in self.recent.into_iter().enumerate() {
            // At first, the places are alike.
            if place > 0 && key == self.recent[place - 1] {
                break;
            }
            let Some(session) = self.get_mut(key).filter(|_| io.endpoint.delivers_to(key)) else { continue };
            if session.in_span(|session| session.take_pieces(reader, max, io, now)) {
                let is_full = session.flow.is_blocked();
                self.recent.swap(0, place);
                return Some(is_full);
            }
        }
        None
    }

    fn deliver(&mut self, key: ConnectionKey, message: Message<'_>, line: &[u8], io: &mut Io, now: Instant) {
        let waits = io.process.waits_for_reader();
        let Some(session) = self.get_mut(key) else { return self.answer_call(key, &message) };
        session.in_span(|session| session.take_line(message, line, io, now));
        if session.flow.is_behind() && (!waits || self.others_wait(key)) {
            self.get_mut(key).into_iter().for_each(|session| session.in_span(|session| session.fail_behind(waits)));
        }
        let last = self.recent.len() - 1;
        let place = self.recent.iter().position(|recent| *recent == key).unwrap_or(last);
        self.recent[..=place].rotate_right(1);
        self.recent[0] = key;
    }

    fn answer_call(&mut self, key: ConnectionKey, message: &Message<'_>) {
        let call = self.calls.extract_if(.., |(called, _)| *called == key).next();
        match (call, message) {
            (Some((_, reply)), Message::Response { outcome, .. }) => {
                drop(reply.send(Ok(outcome.clone().map(Json::from_raw))));
            }
            _ => tracing::debug!("message for a session that has ended"),
        }
    }

    /// The program sends the SDK's own calls back, as `cat` does. Their callers get an error that says so.
    fn fails_echoed_call(&mut self, message: &Message<'_>) -> bool {
        let Message::Request { method, .. } = message else { return false };
        let is_echo = self.drivers.is_empty() && !self.calls.is_empty() && method == "initialize";
        if is_echo {
            self.fail_calls(&Error::Handshake(echo_error("the Agent Client Protocol", method)));
        }
        is_echo
    }

    pub(super) fn fail_calls(&mut self, error: &Error) {
        self.calls.drain(..).for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
    }

    /// Returns whether any caller needs the exit status of the process.
    pub(super) fn needs_exit(&self) -> bool {
        !self.calls.is_empty() || self.drivers.iter().any(|session| !session.closing.is_asked)
    }

    /// Returns the next event of a session that did not come as a line, with the key of the session.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<(ConnectionKey, SessionEvent)> {
        for session in &mut self.drivers {
            if let Poll::Ready(event) = session.poll_event(cx) {
                return Poll::Ready((session.key, event));
            }
        }
        Poll::Pending
    }
}
