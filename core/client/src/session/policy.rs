//! The policy of a session, as its connection asks it. Without the feature `policy` there is none, and its type has no values.

#[cfg(feature = "policy")]
pub(crate) use kimi_agent_policy::Policy;

use std::path::PathBuf;
use std::sync::Arc;

use kimi_agent_protocol::place::PathMap;

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
    /// The paths of an agent that has others than the program.
    #[cfg_attr(not(feature = "policy"), allow(dead_code, reason = "no rule reads it"))]
    pub(super) paths: Option<PathMap>,
}

impl SessionPolicy {
    /// Returns whether the default of the policy denies a tool of the program, so that each call of it fails.
    #[cfg(feature = "policy")]
    pub(super) fn forgets(&self, tool: &str) -> bool {
        let mut call = ToolCallInfo::new(tool, serde_json::json!({}));
        call.kind = Some("mcp".into());
        let verdict = self.policy.check(&call, &self.work_dir);
        verdict.decision == kimi_agent_policy::Decision::Deny && verdict.rule.is_none()
    }

    #[cfg(not(feature = "policy"))]
    pub(super) fn forgets(&self, _: &str) -> bool {
        match *self.policy {}
    }
}

/// Returns the rules of several policies for a session in this directory. A call gets the strictest of their decisions.
#[cfg(feature = "policy")]
pub fn rules(policies: Vec<Arc<Policy>>, work_dir: PathBuf) -> Option<Arc<Box<dyn ToolRules>>> {
    let session = |policy| SessionPolicy { policy, work_dir: work_dir.clone(), paths: None };
    let all: Vec<_> = policies.into_iter().map(session).collect();
    if all.is_empty() { None } else { Some(Arc::new(Box::new(Together(all)))) }
}

/// Policies that must all allow a call.
#[cfg(feature = "policy")]
#[derive(Debug)]
struct Together(Vec<SessionPolicy>);

#[cfg(feature = "policy")]
impl ToolRules for Together {
    fn decide(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision {
        use crate::connection::strictness;
        use crate::messages::PolicyOutcome;

        let decisions = self.0.iter().map(|policy| policy.decide(call, description));
        let strictest = decisions.reduce(|one, other| if strictness(&other) > strictness(&one) { other } else { one });
        strictest.unwrap_or_else(|| PolicyDecision {
            tool_call: call.clone(),
            decision: PolicyOutcome::Deny,
            rule: None,
            source: None,
            reason: None,
            part: None,
            extra: Default::default(),
        })
    }
}

impl ToolRules for SessionPolicy {
    #[cfg(feature = "policy")]
    fn decide(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision {
        let Some(paths) = &self.paths else { return self.decide_request(call, description) };
        // These are the program's already, and the arguments are the agent's.
        let told = |shown: &Option<Vec<String>>| {
            shown.as_ref().map(|shown| shown.iter().map(|path| paths.told(path)).collect())
        };
        let (locations, diffs) = (told(&call.locations), told(&call.diffs));
        let placed = ToolCallInfo { locations, diffs, ..call.clone() };
        event(call, self.policy.check_placed(&placed, description, &self.work_dir, paths))
    }

    #[cfg(feature = "policy")]
    fn decide_request(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision {
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
