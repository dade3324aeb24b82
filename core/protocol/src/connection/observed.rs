//! A session between two other programs: the connection follows it, and says what the rules decide. The driver passes in the
//! agent's lines and the calls of the client, and discards bytes that the client writes itself.

use crate::dialect::OfferedOptions;
use crate::error::Error;
use crate::messages::{PolicyDecision, PolicyOutcome, ToolCallInfo};

use super::policy::stated_kind;
use super::{Connection, RequestKey, TurnKey};

impl Connection {
    /// Returns whether this is the session with this id, or the session of one of its subagents.
    pub fn has_session(&self, session: &str) -> bool {
        self.dialect.has_session(session)
    }

    /// Returns the options of an open permission request, whose id is JSON text.
    pub fn offered_options(&self, rpc_id: &str) -> Option<OfferedOptions> {
        self.dialect.offered_options(rpc_id)
    }

    /// Returns why an approval of this request comes too late: the agent has described the call in another way since it asked.
    pub fn stale_approval(&mut self, key: RequestKey) -> Option<String> {
        self.change_of_call(key)
    }

    /// Returns the reason if the rules deny the call that a request with other options than those of an approval is about.
    pub fn denial_of_question(&mut self, key: RequestKey) -> Option<String> {
        let (_, known) = self.requests.call_of(key);
        let call = ToolCallInfo::clone(&known?.call);
        let decision = self.decision_of(&call)?;
        (decision.decision == PolicyOutcome::Deny).then(|| self.deny(decision, &call.name))
    }

    /// Returns the decision about a call that the agent makes without a request that is known here.
    pub fn decision_about(&mut self, call: &ToolCallInfo) -> Option<PolicyDecision> {
        self.decision_of(call)
    }

    /// Returns the decision about a call that has ended without a request, if the rules do not allow it. A call that the agent
    /// described in several ways is not known well enough to be allowed.
    pub fn breach_of_ended(&self, call: &ToolCallInfo) -> Option<PolicyDecision> {
        let rules = self.sources.rules.as_ref()?;
        let call = ToolCallInfo { kind: stated_kind(call), ..call.clone() };
        let mut decision = rules.decide(&call, "");
        let reason = if call.changed == Some(true) {
            Some("the agent described this call in several ways")
        } else if self.dialect.call_details(&call.id).is_elsewhere {
            Some("the subagent of this call works in another directory")
        } else {
            None
        };
        if let Some(reason) = reason.filter(|_| decision.decision == PolicyOutcome::Allow) {
            decision.decision = PolicyOutcome::Ask;
            decision.reason = Some(reason.to_owned());
        }
        (decision.decision != PolicyOutcome::Allow).then_some(decision)
    }

    /// Returns the reason if the rules deny or ask about a call that was approved with other arguments.
    pub fn breach_of_approved(&self, call: &ToolCallInfo) -> Option<String> {
        self.refusal_of_newer(call)
    }

    /// Forgets a terminal, which the client has.
    pub fn release_terminal(&mut self, id: &str) {
        self.terminals.forget(id);
    }

    /// Returns why the connection cancels its turn by itself, for example the budget that is exceeded.
    pub fn cancel_reason(&self) -> Option<(TurnKey, &Error)> {
        let turn = self.turn.as_ref()?;
        Some((turn.key, turn.cancel.as_ref()?.failure()?))
    }
}
