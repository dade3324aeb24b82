//! The requests that await an answer, and the ids of those that had one.

use std::time::Instant;

use super::{Pending, ReplyTo, RequestKey, Requests};
use crate::connection::tool_calls::{Known, MAX_ID};
use crate::error::{Result, invalid_option};
use crate::messages::HandlerKind;

/// The limit of the size of all open requests, in bytes. One request alone may be larger.
const MAX_PENDING_BYTES: usize = 32 << 20;

/// The limit of open requests, and of resolved ids that are remembered. Further requests get the default answer.
const MAX_PENDING: usize = 1024;

impl Requests {
    /// Returns whether the agent waits for the program. It waits for a terminal only after a call that asks for the
    /// terminal's end.
    pub(in super::super) fn is_waiting(&self) -> bool {
        self.pending.values().any(|pending| !matches!(pending.reply_to, ReplyTo::Terminal(_)))
    }

    /// Returns the agent's id of a request, and its tool call.
    pub(in super::super) fn call_of(&self, key: RequestKey) -> (Option<String>, Option<Known>) {
        let pending = self.pending.get(&key);
        (pending.map(|pending| pending.request_id.clone()), pending.and_then(|pending| pending.about.tool_call.clone()))
    }

    /// Returns when the log reports the next request without an answer.
    pub(in super::super) fn next_report(&self) -> Option<Instant> {
        self.pending.values().filter_map(|pending| pending.report_at).min()
    }

    /// Removes a request that no longer needs an answer.
    pub(in super::super) fn forget(&mut self, key: RequestKey) {
        self.take(key);
    }

    /// Returns the newest request with this id. Ids may repeat, also across kinds.
    pub(super) fn find(&self, request_id: &str, which: impl Fn(&Pending) -> bool) -> Option<RequestKey> {
        let matches = |pending: &Pending| pending.request_id == request_id && which(pending);
        self.pending.iter().filter(|(_, pending)| matches(pending)).map(|(key, _)| *key).max()
    }

    /// Returns the request for a manual answer that names only an id.
    pub(super) fn named(&self, request_id: &str) -> Result<Option<RequestKey>> {
        let is_manual = |pending: &Pending| pending.manual && pending.request_id == request_id;
        if self.pending.values().filter(|pending| is_manual(pending)).count() > 1 {
            let reason =
                format!("several requests with the id `{request_id}` await an answer; pass the request itself");
            return Err(invalid_option("request", reason));
        }
        Ok(self.find(request_id, |pending| pending.manual).or_else(|| self.find(request_id, |_| true)))
    }

    /// Returns `Some` if a manual answer to an approval of this id could be meant for another approval: an open one, which is
    /// returned, or a resolved one of the same turn.
    pub(super) fn ambiguity(&self, request_id: &str) -> Option<Option<RequestKey>> {
        let twin = self.find(request_id, |pending| pending.manual && pending.kind == HandlerKind::Approval);
        (twin.is_some() || self.resolved.contains(request_id)).then_some(twin)
    }

    /// Adds a request. Returns the reason if there are too many.
    pub(super) fn add(&mut self, key: RequestKey, pending: Box<Pending>) -> Option<String> {
        let is_too_large = self.kept > 0 && self.kept + pending.size > MAX_PENDING_BYTES;
        let is_full = self.pending.len() >= MAX_PENDING;
        self.kept += pending.size;
        self.pending.insert(key, pending);
        if is_full {
            return Some(format!("{MAX_PENDING} other requests await an answer"));
        }
        is_too_large.then(|| format!("the requests that await an answer exceed {MAX_PENDING_BYTES} bytes"))
    }

    pub(super) fn take(&mut self, key: RequestKey) -> Option<Box<Pending>> {
        let pending = self.pending.remove(&key)?;
        self.kept -= pending.size;
        if pending.manual {
            self.remember(&pending.request_id);
        }
        Some(pending)
    }

    /// Remembers a resolved id: a manual answer to it is late, which is not an error.
    pub(super) fn remember(&mut self, request_id: &str) {
        if self.resolved.len() >= MAX_PENDING {
            self.resolved.clear();
        }
        // Nobody types a longer one.
        if request_id.len() <= MAX_ID {
            self.resolved.insert(request_id.to_owned());
        }
    }

    /// Takes the approval that the agent reports as resolved.
    pub(super) fn resolved(&mut self, request_id: &str) -> Option<(RequestKey, Box<Pending>)> {
        let is_asked = |pending: &Pending| matches!(pending.reply_to, ReplyTo::Agent(_));
        let key = self.find(request_id, |pending| pending.kind == HandlerKind::Approval && is_asked(pending))?;
        Some((key, self.take(key)?))
    }

    /// Returns the call of a tool over the tools server with this id.
    pub(super) fn tool_call(&self, id: &str) -> Option<RequestKey> {
        let is_meant = |pending: &Pending| pending.tool_call() == Some(id);
        self.pending.iter().filter(|(_, pending)| is_meant(pending)).map(|(key, _)| *key).max()
    }

    pub(super) fn withdraw(&mut self, which: impl Fn(&Pending) -> bool) -> Vec<(RequestKey, Box<Pending>)> {
        let mut keys: Vec<_> = self.pending.iter().filter(|(_, pending)| which(pending)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| Some((key, self.take(key)?))).collect()
    }

    /// Removes the resolved ids of earlier turns, when a turn begins.
    pub(in super::super) fn forget_resolved(&mut self) {
        self.resolved.clear();
    }

    pub(in super::super) fn withdraw_all(&mut self) -> Vec<RequestKey> {
        self.withdraw(|_| true).into_iter().map(|(key, _)| key).collect()
    }
}

impl Pending {
    /// Returns the id of the call of a tool over the tools server.
    pub(in super::super) fn tool_call(&self) -> Option<&str> {
        match &self.reply_to {
            ReplyTo::ToolCaller(_) => Some(&self.request_id),
            ReplyTo::Held(held) if matches!(held.reply_to, ReplyTo::ToolCaller(_)) => held.request.request_id(),
            _ => None,
        }
    }
}
