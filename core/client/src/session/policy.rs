//! The policy of a session, as its connection asks it. Without the feature `policy` there is none, and its type has no values.

#[cfg(feature = "policy")]
pub(crate) use kimi_agent_policy::Policy;

use std::path::PathBuf;
use std::sync::Arc;

use crate::connection::ToolRules;
use crate::messages::{PolicyDecision, ToolCallInfo};

#[cfg(not(feature = "policy"))]
#[derive(Debug)]
pub(crate) enum Policy {}

#[cfg(not(feature = "policy"))]
impl Policy {
    pub(crate) fn warnings(&self) -> &[String] {
        match *self {}
    }

    pub(crate) fn denies(&self) -> bool {
        match *self {}
    }
}

/// Rules, and the directory that their paths are relative to.
#[derive(Debug)]
pub(super) struct SessionPolicy {
    pub(super) policy: Arc<Policy>,
    #[cfg_attr(not(feature = "policy"), allow(dead_code, reason = "no rule reads it"))]
    pub(super) work_dir: PathBuf,
}

impl ToolRules for SessionPolicy {
    #[cfg(feature = "policy")]
    fn decide(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision {
        event(call, self.policy.check_described(call, description, &self.work_dir))
    }

    #[cfg(not(feature = "policy"))]
    fn decide(&self, _: &ToolCallInfo, _: &str) -> PolicyDecision {
        match *self.policy {}
    }
}

#[cfg(feature = "policy")]
fn event(call: &ToolCallInfo, verdict: kimi_agent_policy::PolicyVerdict) -> PolicyDecision {
    use kimi_agent_policy::Decision;

    use crate::messages::PolicyOutcome;

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

#[cfg(all(test, feature = "policy"))]
mod tests;
