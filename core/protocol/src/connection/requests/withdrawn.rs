//! Requests that are withdrawn: their turn ends, the agent cancels them, or it reports another answer.

use std::collections::HashSet;

use super::{Pending, REQUEST_CANCELLED, ReplyTo, RequestKey};
use crate::connection::tool_calls::RejectedBy;
use crate::connection::{Connection, Output};
use crate::messages::{ApprovalKind, ApprovalResponse, HandlerKind};

impl Connection {
    /// Withdraws the requests of the turn, because it has ended or is being cancelled. Requests of background agents
    /// stay open.
    pub(in super::super) fn withdraw_of_turn(&mut self) {
        for (key, mut pending) in self.requests.withdraw(|pending| pending.of_turn) {
            self.withdrawn(key, &pending);
            let has_caller = pending.tool_call().is_some();
            if let ReplyTo::Held(held) = std::mem::replace(&mut pending.reply_to, ReplyTo::Answered)
                && !has_caller
            {
                self.refuse_held(*held, REQUEST_CANCELLED, "the turn was cancelled".to_owned());
            }
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
    }

    /// Withdraws requests that the dialect has answered as cancelled.
    pub(in super::super) fn withdraw_answered(&mut self, rpc_ids: &[String]) {
        let rpc_ids: HashSet<&String> = rpc_ids.iter().collect();
        let is_meant = |pending: &Pending| matches!(&pending.reply_to, ReplyTo::Agent(id) if rpc_ids.contains(id));
        for (key, pending) in self.requests.withdraw(is_meant) {
            self.withdrawn(key, &pending);
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
    }

    /// Handles the agent's report that an approval is resolved: by `approve_for_session` for another request, or by the
    /// end of its turn.
    pub(in super::super) fn resolved(&mut self, response: &ApprovalResponse) {
        let Some((key, pending)) = self.requests.resolved(&response.request_id) else { return };
        self.withdrawn(key, &pending);
        if response.response == ApprovalKind::Reject {
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
    }

    /// Handles the agent's cancellation of its own request. JSON-RPC requires an answer to it.
    pub(in super::super) fn request_cancelled(&mut self, rpc_id: &str) {
        for (key, pending) in self.requests.withdraw(|pending| pending.reply_to.is_agent(rpc_id)) {
            self.withdrawn(key, &pending);
            let bytes = self.dialect.refuse(rpc_id, REQUEST_CANCELLED, "the request was cancelled");
            self.transmit(bytes);
            self.record_rejection(pending, RejectedBy::Cancelled);
        }
        if self.terminals.stop_waiting(rpc_id) {
            self.refuse_with(rpc_id, REQUEST_CANCELLED, "the request was cancelled");
        }
    }

    pub(super) fn withdrawn(&mut self, key: RequestKey, pending: &Pending) {
        self.record_withdrawn(pending);
        self.outputs.push_back(Output::Withdrawn(key));
        if let ReplyTo::Held(held) = &pending.reply_to
            && pending.tool_call().is_some()
        {
            self.outputs.push_back(Output::Withdrawn(held.key));
        }
    }

    pub(super) fn record_rejection(&mut self, pending: Box<Pending>, by: RejectedBy) {
        if pending.kind == HandlerKind::Approval
            && let Some(turn) = &mut self.turn
        {
            turn.record.rejected(pending.about.tool_call, pending.about.description, by);
        }
    }
}
