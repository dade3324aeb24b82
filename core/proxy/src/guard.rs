//! What happens to each line between the client and the agent, without I/O. A line that needs no judgement passes as it is.
//!
//! - `calls`: what the client asks the agent, and the sessions that it opens
//! - `requests`: what the agent asks the client, and the answers
//! - `updates`: what the agent reports

mod calls;
mod requests;
mod updates;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kimi_agent_client::proxied::RecordedFile;
use kimi_agent_client::{Error, Result, SessionOptions};
use kimi_agent_protocol::jsonrpc::Message;
use kimi_agent_protocol::jsonrpc::relayed::{self, Refused, Relayed};
use kimi_agent_protocol::messages::ServerInfo;
use kimi_agent_protocol::place::PathMap;

use crate::observed::{Observed, Reported};
use crate::settings::Settings;
use crate::texts;
use calls::Call;
use requests::Asked;

/// The limit of open requests of each side, and of sessions.
const MAX_OPEN: usize = 4096;
/// The limit of bytes of a call that are kept, for the recording.
const MAX_KEPT: usize = 1 << 20;

/// What waits to be written to one side.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) bytes: bytes::BytesMut,
    /// How many of the bytes are not lines of the other side, at most.
    pub(crate) own: usize,
    /// The paths of the reader, if it has others than this program.
    paths: Option<PathMap>,
}

impl Outbox {
    /// Adds a line that passes.
    fn pass(&mut self, line: &[u8]) {
        if self.paths.is_some() {
            return self.add_translated([line, b"\n"].concat());
        }
        self.bytes.extend_from_slice(line);
        self.bytes.extend_from_slice(b"\n");
    }

    /// Adds lines of the guard.
    fn say(&mut self, lines: &[u8]) {
        self.own += lines.len();
        if self.paths.is_some() {
            return self.add_translated(lines.to_vec());
        }
        self.bytes.extend_from_slice(lines);
    }

    fn add_translated(&mut self, lines: Vec<u8>) {
        let translated = self.paths.as_ref().map(|paths| paths.lines_to_agent(lines));
        self.bytes.extend_from_slice(&translated.unwrap_or_default());
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        // One large line must not pin memory.
        self.bytes = bytes::BytesMut::new();
        self.own = 0;
    }

    /// Removes bytes that were written.
    pub(crate) fn written(&mut self, count: usize) {
        bytes::Buf::advance(&mut self.bytes, count);
        if self.bytes.is_empty() {
            self.clear();
        }
    }
}

/// The guard between one client and one agent.
pub(crate) struct Guard {
    options: SessionOptions,
    settings: Settings,
    /// The paths of an agent that has others than this program.
    paths: Option<PathMap>,
    pub(crate) to_client: Outbox,
    pub(crate) to_agent: Outbox,
    /// The open calls of the client, by the keys of their ids.
    calls: HashMap<String, Call>,
    /// The open requests of the agent, by the keys of their ids, and those of the guard.
    asked: HashMap<String, Asked>,
    sessions: HashMap<String, Observed>,
    recordings: Vec<RecordedFile>,
    /// The lines of the handshake, for recordings.
    handshake: Vec<(bool, Vec<u8>)>,
    server: Option<ServerInfo>,
    shows_notices: bool,
    /// The beginning of the ids of the guard's requests.
    prefix: String,
    requests: u64,
    /// The file of the day, in place of the user's.
    pub(crate) day_file: Option<PathBuf>,
}

impl Guard {
    /// Makes a guard. `paths`: those of the agent, if it has others than this program.
    pub(crate) fn new(options: SessionOptions, settings: Settings, paths: Option<PathMap>) -> Self {
        Self {
            options,
            settings,
            to_client: Outbox::default(),
            to_agent: Outbox { paths: paths.clone(), ..Outbox::default() },
            paths,
            calls: HashMap::new(),
            asked: HashMap::new(),
            sessions: HashMap::new(),
            recordings: Vec::new(),
            handshake: Vec::new(),
            server: None,
            shows_notices: false,
            prefix: format!("kimi-agent-proxy-{}-", uuid::Uuid::new_v4().simple()),
            requests: 0,
            day_file: None,
        }
    }

    /// Handles a line of the client, without its end.
    ///
    /// # Errors
    /// A session cannot be followed any more.
    pub(crate) fn client_line(&mut self, line: &[u8], now: Instant) -> Result<()> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let read = match relayed::read(line) {
            Ok(read) => read,
            Err(Refused { reason, id: Some(id), is_answer: true }) => {
                tracing::warn!(reason, "invalid answer of the client replaced by an error");
                return self.client_line(texts::refused_answer(&id, &reason).trim_ascii_end(), now);
            }
            Err(Refused { reason, id, .. }) => {
                tracing::warn!(reason, "invalid line of the client dropped");
                let id = id.as_deref().unwrap_or("null");
                self.to_client.say(&texts::error(
                    id,
                    texts::INVALID_REQUEST,
                    &format!("the message is refused: {reason}"),
                ));
                return Ok(());
            }
        };
        match &read.message {
            Message::Request { .. } => self.client_calls(line, read, now),
            Message::Response { .. } => self.client_answers(line, &read, now),
            _ => self.client_notifies(line, &read, now),
        }
    }

    /// Handles a line of the agent, without its end.
    ///
    /// # Errors
    /// A session cannot be followed any more.
    pub(crate) fn agent_line(&mut self, line: &[u8], now: Instant) -> Result<()> {
        let translated = self.paths.as_ref().and_then(|paths| paths.line_from_agent(line));
        self.own_line_of_agent(translated.as_deref().unwrap_or(line), now)
    }

    /// Handles a line of the agent with the paths of this program.
    fn own_line_of_agent(&mut self, line: &[u8], now: Instant) -> Result<()> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let read = match relayed::read(line) {
            Ok(read) => read,
            Err(Refused { reason, id: Some(id), is_answer: true }) => {
                tracing::warn!(reason, "invalid answer of the agent replaced by an error");
                return match relayed::id_key(&id).is_some_and(|key| self.calls.contains_key(&key)) {
                    true => self.own_line_of_agent(texts::refused_answer(&id, &reason).trim_ascii_end(), now),
                    false => Ok(()),
                };
            }
            Err(Refused { reason, id, .. }) => {
                tracing::warn!(reason, "invalid line of the agent dropped");
                if let Some(id) = id {
                    let reason = format!("the request is refused: {reason}");
                    self.to_agent.say(&texts::error(&id, texts::INVALID_REQUEST, &reason));
                }
                return Ok(());
            }
        };
        match &read.message {
            Message::Request { .. } => self.agent_asks(line, read, now),
            Message::Response { .. } => self.agent_answers(line, &read, now),
            _ => self.agent_notifies(line, read, now),
        }
    }

    /// Returns the time of the next call of [`Guard::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|session| session.connection.poll_timeout()).min()
    }

    /// Cancels the turns whose time is over.
    ///
    /// # Errors
    /// A session cannot be followed any more.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Result<()> {
        let is_due = |session: &Observed| session.connection.poll_timeout().is_some_and(|at| at <= now);
        let due: Vec<_> =
            self.sessions.iter().filter(|(_, session)| is_due(session)).map(|(id, _)| id.clone()).collect();
        for id in due {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.connection.handle_timeout(now);
            let reported = session.report();
            self.settle(&id, reported, now)?;
        }
        Ok(())
    }

    /// Answers what the client waits for, because the proxy ends. Returns the files of recordings.
    pub(crate) fn end(&mut self, reason: &Error) -> Vec<RecordedFile> {
        let mut open: Vec<_> = self.calls.drain().map(|(_, call)| call.id).collect();
        open.sort_unstable();
        for id in open {
            self.to_client.say(&texts::error(&id, texts::INTERNAL_ERROR, &reason.to_string()));
        }
        for (_, session) in self.sessions.drain() {
            session.close(reason);
        }
        std::mem::take(&mut self.recordings)
    }

    /// Returns the id of the session that is meant: the session itself, or the one above a subagent's.
    fn session_of(&self, named: &str) -> Option<String> {
        if self.sessions.contains_key(named) {
            return Some(named.to_owned());
        }
        let above = self.sessions.iter().find(|(_, session)| session.connection.has_session(named));
        above.map(|(id, _)| id.clone())
    }

    /// Does what each report can require: writes decisions to the agent, withdraws requests, and tells the user about a cancel.
    fn settle(&mut self, id: &str, reported: Reported, now: Instant) -> Result<()> {
        if let Some(error) = reported.fatal {
            return Err(error);
        }
        self.withdraw(id, &reported.withdrawn);
        self.say_to_agent(id, &reported.sent, now);
        let cancelled = self.sessions.get_mut(id).and_then(Observed::new_cancel);
        if let Some(reason) = cancelled {
            self.note(id, &format!("the turn is cancelled: {reason}"));
        }
        Ok(())
    }

    /// Counts what a session has used today. While a turn runs, only now and then, unless `always`.
    fn count_day(&mut self, id: &str, always: bool, now: Instant) -> Result<()> {
        let Some(session) = self.sessions.get_mut(id) else { return Ok(()) };
        match session.count_day(always, now) {
            Ok(reported) => self.settle(id, reported, now),
            Err(problem) => {
                // The next prompt is refused if it cannot be counted then.
                tracing::warn!(problem, "the budget of the day is not counted");
                Ok(())
            }
        }
    }

    /// Writes lines of the guard to the agent.
    fn say_to_agent(&mut self, id: &str, lines: &[u8], now: Instant) {
        if lines.is_empty() {
            return;
        }
        self.to_agent.say(lines);
        if let Some(session) = self.sessions.get(id) {
            session.record_sent(lines, now);
        }
    }

    /// Tells the user something.
    fn note(&mut self, session: &str, text: &str) {
        tracing::info!(session, text, "the user is told");
        self.to_client.say(&texts::note(session, text, self.shows_notices));
    }

    /// Makes the id of a request of the guard, as text.
    fn new_id(&mut self) -> String {
        self.requests += 1;
        format!("{}{}", self.prefix, self.requests)
    }

    /// The beginning of the ids of the guard's requests.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether an id of the agent looks like one of the guard's.
    fn is_own(&self, key: &str) -> bool {
        key.strip_prefix('"').is_some_and(|text| text.starts_with(&self.prefix))
    }
}

/// Returns the key of the id of a line.
fn key_of(read: &Relayed<'_>) -> Option<String> {
    read.id.and_then(relayed::id_key)
}

/// Returns whether a path is absolute, for this system.
fn is_absolute(path: &str) -> bool {
    Path::new(path).is_absolute()
}
