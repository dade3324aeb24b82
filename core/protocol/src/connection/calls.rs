//! The connection's calls to the agent: how they are sent, and the effects of their answers.

use std::time::Instant;

use serde_json::json;

use super::{CallKey, Connection, Output, Phase, TurnKey, replay};
use crate::dialect::{Call, ConfigValue};
use crate::error::local_error;
use crate::error::{Error, Result, RpcErrorKind};
use crate::jsonrpc::RpcFailure;
use crate::messages::{Content, Json};
use crate::recording::CallKind;

#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) key: CallKey,
    pub(super) call: Call,
    /// For calls without a deadline of another kind.
    pub(super) deadline: Option<Instant>,
}

/// A call that is ready to be sent.
pub(super) struct Prepared {
    id: String,
    bytes: Vec<u8>,
    pending: PendingCall,
}

impl Connection {
    /// Encodes a call. It must be sent then.
    pub(super) fn prepare(&mut self, call: Call) -> Result<Prepared> {
        if let Phase::Closed(error) = &self.phase {
            return Err((**error).clone());
        }
        let key = self.new_key();
        // Ids must be strings: real agents refuse numbers, without naming them in the answer.
        let id = format!("{}-{key}", call.name());
        let bytes = self.dialect.call(&id, &call)?;
        Ok(Prepared { id, bytes, pending: PendingCall { key, call, deadline: None } })
    }

    /// Registers a call, and queues its bytes.
    pub(super) fn send(&mut self, call: Prepared) -> CallKey {
        let key = call.pending.key;
        let bytes = self.register(call);
        self.transmit(bytes);
        key
    }

    /// Registers a call. Returns its bytes.
    pub(super) fn register(&mut self, call: Prepared) -> Vec<u8> {
        self.calls.insert(call.id, call.pending);
        call.bytes
    }

    /// Steers the running turn. Its end comes as [`Output::CallEnded`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot be steered, `NoActiveTurn` if the turn does not run, or the error that closed the
    /// connection.
    pub fn steer(&mut self, turn: TurnKey, input: Content, now: Instant) -> Result<CallKey> {
        self.record_call(CallKind::Steer, Some(turn), || vec![("input", json!(input))]);
        let call = Call::Steer(input);
        let runs = self.turn.as_ref().is_some_and(|active| active.key == turn && active.cancel.is_none());
        self.check(&call, || {
            let reason = "the turn has ended or is being cancelled; call `prompt()` instead";
            (!runs).then(|| local_error(RpcErrorKind::NoActiveTurn, reason))
        })?;
        let mut call = self.prepare(call)?;
        call.pending.deadline = Some(now + self.timing.answer);
        Ok(self.send(call))
    }

    /// Switches plan mode.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent has no plan mode, or the error that closed the connection.
    pub fn set_plan_mode(&mut self, on: bool, now: Instant) -> Result<CallKey> {
        self.record_call(CallKind::SetPlanMode, None, || vec![("on", on.into())]);
        let mut call = self.prepare(Call::SetPlanMode(on))?;
        call.pending.deadline = Some(now + self.timing.answer);
        Ok(self.send(call))
    }

    /// Sets an option of the session. Its end comes as [`Output::CallEnded`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent has no such options, [`Error::InvalidOption`] for an unknown option or value, or the
    /// error that closed the connection.
    pub fn set_config_option(&mut self, option: String, value: ConfigValue, now: Instant) -> Result<CallKey> {
        self.record_call(CallKind::SetConfigOption, None, || vec![("option", json!(option)), ("value", json!(value))]);
        let mut call = self.prepare(Call::SetConfigOption { option, value })?;
        call.pending.deadline = Some(now + self.timing.answer);
        Ok(self.send(call))
    }

    /// Stops the work of a subagent. No answer follows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent does not permit it for this subagent, [`Error::InvalidOption`] for an unknown session, or
    /// the error that closed the connection.
    pub fn cancel_subagent(&mut self, session: String) -> Result<()> {
        self.record_call(CallKind::CancelSubagent, None, || vec![("session_id", json!(session))]);
        let asked = self.dialect.requests_of_subagent(&session);
        let call = self.prepare(Call::CancelSubagent(session))?;
        self.transmit(call.bytes);
        self.withdraw_answered(&asked);
        Ok(())
    }

    /// Removes the last turns. Its end comes as [`Output::CallEnded`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot undo turns, `TurnInProgress` while a turn runs, or the error that closed the
    /// connection.
    pub fn undo(&mut self, turns: u32, now: Instant) -> Result<CallKey> {
        self.record_call(CallKind::Undo, None, || vec![("turns", turns.into())]);
        self.check(&Call::Undo(turns), || {
            self.in_progress("a turn or a replay is running; wait for its end, or cancel it, before you undo a turn")
        })?;
        let mut call = self.prepare(Call::Undo(turns))?;
        call.pending.deadline = Some(now + self.timing.answer);
        Ok(self.send(call))
    }

    /// Requests the earlier messages of the session.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot replay, `TurnInProgress` while a turn runs, or the error that closed the
    /// connection.
    pub fn start_replay(&mut self, now: Instant) -> Result<CallKey> {
        self.record_call(CallKind::Replay, None, Vec::new);
        self.check(&Call::Replay, || {
            self.in_progress("a turn or a replay is running; wait for its end, or cancel it, before you begin a replay")
        })?;
        let call = self.prepare(Call::Replay)?;
        let key = self.send(call);
        self.replay = Some(Box::new(replay::Replaying::new(key, now)));
        Ok(key)
    }

    fn in_progress(&self, reason: &str) -> Option<Error> {
        (self.turn.is_some() || self.replay.is_some()).then(|| local_error(RpcErrorKind::TurnInProgress, reason))
    }

    /// Fails if the call cannot be made: first if the agent lacks it, then for the reason that `now` returns.
    fn check(&self, call: &Call, now: impl FnOnce() -> Option<Error>) -> Result<()> {
        if let Phase::Closed(error) = &self.phase {
            return Err((**error).clone());
        }
        self.dialect.missing(call).or_else(now).map_or(Ok(()), Err)
    }

    /// Removes a call whose caller has got another error.
    pub fn forget_call(&mut self, key: CallKey) {
        self.calls.retain(|_, pending| pending.key != key);
    }

    /// The agent has answered one of our calls.
    pub(super) fn response(&mut self, id: &str, outcome: std::result::Result<Json, RpcFailure>, now: Instant) {
        let Some(PendingCall { key, call, .. }) = self.calls.remove(id) else {
            if let Some(count) = self.repeats.count("answer") {
                let id = self.shown(id);
                tracing::warn!(id, count, "late answer, or answer to an unknown call, ignored");
            }
            return;
        };
        if matches!(call, Call::Initialize(_)) {
            if let Some(bytes) = self.dialect.next_handshake_request(id, &outcome) {
                self.calls.insert(id.to_owned(), PendingCall { key, call, deadline: None });
                return self.transmit(bytes);
            }
            // The handshake's calls take much of the memory of an idle session.
            self.calls.shrink_to_fit();
            let opened = self.dialect.finish_handshake(outcome).map_err(|error| self.advised(error));
            self.opened(opened);
            return;
        }
        let outcome = outcome.map_err(|failure| self.advised(self.dialect.refused(&call, failure)));
        match call {
            Call::Prompt(_) => self.prompt_answered(key, outcome, now),
            Call::Cancel => self.cancel_answered(key, outcome, now),
            Call::Replay => self.replay_answered(key, outcome, now),
            _ => self.outputs.push_back(Output::CallEnded { call: key, outcome }),
        }
    }

    /// Handles an answer without an id: an agent that speaks another protocol can refuse the handshake in this way. Later it can be
    /// about any line, also about an answer or a notification, so it ends no call.
    pub(super) fn unassigned(&mut self, outcome: std::result::Result<Json, RpcFailure>, now: Instant) {
        let is_handshake = |(_, pending): &(&String, &PendingCall)| matches!(pending.call, Call::Initialize(_));
        let handshake = self.calls.iter().find(is_handshake).map(|(id, _)| id.clone());
        match (handshake, outcome) {
            (Some(id), Err(failure)) => self.response(&id, Err(failure), now),
            (_, Err(RpcFailure { code, message, .. })) => {
                if let Some(count) = self.repeats.count("refusal") {
                    let message = self.shown(&message);
                    tracing::warn!(code, message, count, "the agent could not read a line of this SDK");
                }
            }
            (_, Ok(_)) => {
                if let Some(count) = self.repeats.count("answer without id") {
                    tracing::warn!(count, "an answer of the agent has no id; it is ignored");
                }
            }
        }
    }

    /// Adds a hint to an error of the agent.
    pub(super) fn advised(&self, error: Error) -> Error {
        let Error::Rpc(mut error) = error else { return error };
        if error.kind == RpcErrorKind::LlmServiceError && error.kind_of_service() == Some(RpcErrorKind::ContextTooLong)
        {
            error.kind = RpcErrorKind::ContextTooLong;
        }
        if error.kind == RpcErrorKind::AuthExpired {
            error.methods = self.dialect.auth_methods();
        }
        let hint = match error.kind {
            RpcErrorKind::LlmNotSet => Some(match &self.model {
                Some(model) => format!(
                    "check `model`: the agent's configuration must define a model named \"{model}\", or pass one in \
                     `config`"
                ),
                None => "log in with `kimi login` (older releases: `/login` in `kimi`), or set `model` and pass the \
                         model's provider in `config` or `config_file`"
                    .to_owned(),
            }),
            RpcErrorKind::LlmNotSupported => Some("choose another model with `model`".to_owned()),
            RpcErrorKind::AuthExpired => Some("log in again with `kimi login`".to_owned()),
            RpcErrorKind::ContextTooLong => {
                Some("shorten the prompt, compact the session, or continue in a new one".to_owned())
            }
            _ => None,
        };
        if error.hint.is_none() {
            error.hint = hint.map(Into::into);
        }
        Error::Rpc(error)
    }
}
