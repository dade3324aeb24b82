//! The policy of a session, as its connection asks it.

use std::path::PathBuf;
use std::sync::Arc;

use kimi_agent_policy::{Decision, Policy, PolicyVerdict};

use crate::connection::ToolRules;
use crate::messages::{PolicyDecision, PolicyOutcome, ToolCallInfo};

/// Rules, and the directory that their paths are relative to.
#[derive(Debug)]
pub(super) struct SessionPolicy {
    pub(super) policy: Arc<Policy>,
    pub(super) work_dir: PathBuf,
}

impl ToolRules for SessionPolicy {
    fn decide(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision {
        event(call, self.policy.check_described(call, description, &self.work_dir))
    }
}

fn event(call: &ToolCallInfo, verdict: PolicyVerdict) -> PolicyDecision {
    PolicyDecision {
        tool_call: call.clone(),
        decision: match verdict.decision {
            Decision::Allow => PolicyOutcome::Allow,
            Decision::Ask => PolicyOutcome::Ask,
            Decision::Deny => PolicyOutcome::Deny,
        },
        rule: verdict.rule,
        source: verdict.source,
        reason: Some(verdict.reason),
        part: verdict.part,
        extra: Default::default(),
    }
}
