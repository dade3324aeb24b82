//! The handshake: how a connection opens, and the errors of an agent that does not open it.

use std::time::{Duration, Instant};

use super::calls::{PendingCall, Prepared};
use super::{Connection, Opening, Output, Phase};
use crate::dialect::{Call, Dialect, Handshake, InitializeParams, OpeningSession, echo_error};
use crate::error::{AgentExit, Error, Result, STDERR};
use crate::jsonrpc::RpcFailure;

/// The longest wait for more of the past of a session. An agent that refuses unknown methods ends the wait at once.
const PAST: Duration = Duration::from_secs(1);

impl Opening {
    /// Returns when the handshake fails, or continues without more of the past.
    pub(super) fn next_deadline(&self) -> Instant {
        self.past.map_or(self.deadline, |(_, since)| self.deadline.min(since + PAST))
    }

    /// Returns the invalid lines, for the end of an error's text.
    pub(super) fn printed(&self) -> String {
        match self.invalid_lines.join("\n").trim() {
            "" => String::new(),
            printed => format!("\nit printed \"{printed}\""),
        }
    }
}

impl Connection {
    /// Begins the handshake.
    pub fn open(&mut self, params: InitializeParams, now: Instant) {
        if let Some(call) = self.start_opening(params, now) {
            self.send(call);
        }
    }

    /// Begins the handshake without a call. Another connection of the process has sent the call, and its answer is
    /// passed to this connection, too.
    pub fn open_shared(&mut self, params: InitializeParams, now: Instant) {
        if let Some(call) = self.start_opening(params, now) {
            let bytes = self.register(call);
            self.record_sent(&bytes);
        }
    }

    fn start_opening(&mut self, params: InitializeParams, now: Instant) -> Option<Prepared> {
        self.model = params.model.as_deref().map(Box::from);
        self.note_model(&[]);
        if let Some(handshake) = self.dialect.implicit_handshake() {
            self.opened(Ok(handshake));
            return None;
        }
        self.phase = Phase::Opening(Box::new(Opening {
            deadline: now + self.timing.handshake,
            past: None,
            invalid_lines: Vec::new(),
        }));
        self.prepare(Call::Initialize(params)).map_err(|error| self.opened(Err(error))).ok()
    }

    /// Returns the pending call that opens the session, if there is one.
    pub fn opening_session(&self) -> Option<OpeningSession> {
        if matches!(self.phase, Phase::Opening(_)) { self.dialect.opening_session() } else { None }
    }

    /// Notes since when no more of the past of a session has come.
    pub(super) fn note_past(&mut self, now: Instant) {
        if let Phase::Opening(opening) = &mut self.phase {
            let count = self.dialect.late_past();
            if opening.past.map(|(known, _)| known) != count {
                opening.past = count.map(|count| (count, now));
            }
        }
    }

    /// Continues with the handshake, because the agent does not say where the past of a session ends.
    pub(super) fn end_past(&mut self, now: Instant) {
        tracing::debug!(
            "the agent does not answer a request with an unknown method; the session opens without the answer"
        );
        self.dialect.end_past();
        let failure = RpcFailure { code: super::requests::METHOD_NOT_FOUND, message: String::new(), data: None };
        self.refuse_opening(failure, now);
        self.note_past(now);
    }

    /// Fails the call that opens the session without asking the agent.
    pub fn refuse_opening(&mut self, failure: RpcFailure, now: Instant) {
        let is_opening = |pending: &PendingCall| matches!(pending.call, Call::Initialize(_));
        let id = self.calls.iter().find(|(_, pending)| is_opening(pending)).map(|(id, _)| id.clone());
        if let Some(id) = id {
            self.response(&id, Err(failure), now);
        }
    }

    /// Continues with a dialect that has no handshake, because the agent turned out to speak it.
    pub fn switch_dialect(&mut self, mut dialect: Box<dyn Dialect>) {
        let handshake = dialect.implicit_handshake();
        if self.is_closed() {
            return;
        }
        self.dialect = dialect;
        if let (Phase::Opening(_), Some(handshake)) = (&self.phase, handshake) {
            self.calls.clear();
            self.opened(Ok(handshake));
        }
    }

    pub(super) fn opened(&mut self, outcome: Result<Handshake>) {
        match outcome {
            Ok(mut handshake) => {
                self.phase = Phase::Open;
                let options = std::mem::take(&mut handshake.config_options);
                if !options.is_empty() {
                    self.note_model(&options);
                    self.outputs.push_back(Output::ConfigChanged(options));
                }
                self.outputs.push_back(Output::Opened(Ok(Box::new(handshake))));
            }
            // The agent may have sent requests before.
            Err(error) => self.close(&error),
        }
    }

    /// Ends the opening: the agent did not answer in time.
    pub(super) fn handshake_timed_out(&mut self, printed: &str) {
        let limit = self.timing.handshake;
        if let Some(way) = self.dialect.pending_login() {
            let message = format!(
                "the agent did not answer `authenticate` with the way {way:?} within {limit:?}; it may wait for a person: log in \
                 with the agent itself, set `auth` to another way, or raise `handshake_timeout`{printed}"
            );
            return self.opened(Err(Error::Timeout(message.into())));
        }
        let hint = self.dialect.silence_hint();
        let message = format!(
            "the agent did not answer the handshake within {limit:?}; raise `handshake_timeout` if it needs longer \
             to start, {hint}{printed}"
        );
        self.opened(Err(Error::Timeout(message.into())));
    }

    /// Returns whether a request is a copy of one of the connection's own. Only clients call these methods.
    pub(super) fn is_echo(&self, rpc_id: &str, method: &str) -> bool {
        let is_client_method = matches!(method, "initialize" | "session/new" | "session/prompt");
        is_client_method || serde_json::from_str::<String>(rpc_id).is_ok_and(|id| self.calls.contains_key(&id))
    }

    /// Fails the connection to a program that sends the requests back. It would send a refusal back as well, which
    /// would look like an answer.
    pub(super) fn handle_echo(&mut self, method: &str) {
        let text = echo_error(self.dialect.protocol_name(), method);
        if matches!(self.phase, Phase::Opening(_)) {
            return self.opened(Err(Error::Handshake(text)));
        }
        let error = Error::Protocol(text.into());
        self.outputs.push_back(Output::FatalError(error.clone()));
        self.close(&error);
    }

    /// Fails the handshake with an executable that is Kimi Code's server. The error does not show the server's lines,
    /// because one of them contains its token.
    pub(super) fn handle_server_banner(&mut self) {
        let text = format!(
            "the executable does not speak {}: it has started Kimi Code's server; set `dialect` to \"kimi-web\" and pass the \
             program alone as `executable`, or leave out the arguments that start the server",
            self.dialect.protocol_name()
        );
        self.opened(Err(Error::Handshake(text)));
    }

    /// Returns the error for the agent's exit. If all its lines were invalid, the program does not speak the protocol. A hint means
    /// that its place knows the cause.
    pub fn end_of_agent(&self, exit: AgentExit) -> Error {
        let Phase::Opening(opening) = &self.phase else { return Error::AgentExited(exit) };
        if exit.hint.is_some() {
            return Error::AgentExited(exit);
        }
        let other = self.dialect.other_protocol_hint();
        if opening.invalid_lines.is_empty() {
            let hint = format!(
                "before it answered the handshake; check that `executable` names an agent and run it in a terminal to \
                 see why it exits, {other}"
            );
            return Error::AgentExited(AgentExit { hint: Some(hint), ..exit });
        }
        let stderr = exit.stderr.trim();
        let stderr = if stderr.is_empty() { String::new() } else { format!("\n{STDERR}\n{stderr}") };
        Error::Handshake(format!(
            "the executable does not speak {}, and {}; check that `executable` names an agent, {other}{}{stderr}",
            self.dialect.protocol_name(),
            exit.manner(),
            opening.printed()
        ))
    }
}
