//! Our calls: how one is sent, and what its answer does.

use std::time::Instant;

use super::{CallKey, Connection, Output, Phase, TurnKey, replay};
use crate::dialect::Call;
use crate::error::local_error;
use crate::error::{Result, RpcErrorKind};
use crate::wire::jsonrpc::RpcFailure;
use crate::wire::{Content, Json};

#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) key: CallKey,
    pub(super) call: Call,
    /// Of calls that no other deadline covers.
    pub(super) deadline: Option<Instant>,
}

/// A call that is ready to be sent.
pub(super) struct Prepared {
    id: String,
    bytes: Vec<u8>,
    pending: PendingCall,
}

impl Connection {
    /// Puts a call into the agent's words. What it can't do comes first, whatever the moment.
    pub(super) fn prepare(&mut self, call: Call) -> Result<Prepared> {
        if let Phase::Closed(error) = &self.phase {
            return Err(error.clone());
        }
        let key = self.new_key();
        // Ids must be strings: real agents refuse numbers, without naming them in the answer.
        let id = format!("{}-{key}", call.name());
        let bytes = self.dialect.call(&id, &call)?;
        Ok(Prepared { id, bytes, pending: PendingCall { key, call, deadline: None } })
    }

    /// Registers a call, then hands out its bytes.
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
    pub fn steer(&mut self, turn: TurnKey, input: Content, now: Instant) -> Result<CallKey> {
        let mut call = self.prepare(Call::Steer(input))?;
        call.pending.deadline = Some(now + self.timing.answer);
        match &self.turn {
            Some(active) if active.key == turn && active.cancel.is_none() => Ok(self.send(call)),
            _ => Err(local_error(
                RpcErrorKind::NoActiveTurn,
                "the turn has ended or is being cancelled; call `prompt()` instead",
            )),
        }
    }

    /// Switches plan mode.
    pub fn set_plan_mode(&mut self, on: bool, now: Instant) -> Result<CallKey> {
        let mut call = self.prepare(Call::SetPlanMode(on))?;
        call.pending.deadline = Some(now + self.timing.answer);
        Ok(self.send(call))
    }

    /// Asks for the session's past.
    pub fn start_replay(&mut self, now: Instant) -> Result<CallKey> {
        let call = self.prepare(Call::Replay)?;
        if self.turn.is_some() || self.replay.is_some() {
            return Err(local_error(
                RpcErrorKind::TurnInProgress,
                "a turn or a replay is running; wait for its end, or cancel it, before you begin a replay",
            ));
        }
        let key = self.send(call);
        self.replay = Some(Box::new(replay::Replaying::new(key, now)));
        Ok(key)
    }

    /// Forgets a call whose caller has been told something else.
    pub fn forget_call(&mut self, key: CallKey) {
        self.calls.retain(|_, pending| pending.key != key);
    }

    /// The agent has answered one of our calls.
    pub(super) fn response(&mut self, id: &str, outcome: std::result::Result<Json, RpcFailure>, now: Instant) {
        let Some(PendingCall { key, call, .. }) = self.calls.remove(id) else {
            tracing::warn!(id, "the agent answers a call that nobody waits for");
            return;
        };
        if matches!(call, Call::Initialize(_)) {
            if let Some(bytes) = self.dialect.next_handshake_request(id, &outcome) {
                self.calls.insert(id.to_owned(), PendingCall { key, call, deadline: None });
                return self.transmit(bytes);
            }
            // What the handshake took is a good deal of what a session takes.
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
}
