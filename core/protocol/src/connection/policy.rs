//! The session's policy: its rules decide about approvals before any handler, and before each call if the agent has hooks.

use std::fmt;

use super::recording::Decided;
use super::requests::ReplyTo;
use super::tool_calls::Known;
use super::{Connection, Output, Scope};
use crate::answers::{Approval, HookDecision};
use crate::dialect::Answer;
use crate::messages::{ApprovalRequest, Event, HandlerKind, HookRequest, PolicyDecision, PolicyOutcome, ToolCallInfo};
use crate::recording::{Decider, Entry, PolicyEntry};

/// The id of the hook with which rules see calls that the agent does not ask about.
pub const POLICY_HOOK: &str = "policy";

/// Rules that decide about tool calls.
pub trait ToolRules: fmt::Debug + Send + Sync {
    /// Decides about a call that the agent asks about, and describes like this.
    fn decide(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision;
    /// Returns the decision if a rule denies the call.
    fn denied(&self, call: &ToolCallInfo) -> Option<PolicyDecision>;
}

impl Connection {
    /// Whether this is the call of the hook that belongs to the policy, which the program does not see.
    pub(super) fn is_of_policy(&self, request: &Event) -> bool {
        self.replay.is_none()
            && self.sources.rules.is_some()
            && matches!(request, Event::HookRequest(hook) if hook.subscription_id == POLICY_HOOK)
    }

    /// Answers the hook of the policy.
    pub(super) fn decide_before_call(&mut self, rpc_id: String, request: &Event) {
        let Event::HookRequest(hook) = request else { return };
        let Some(rules) = self.sources.rules.clone() else { return };
        let Some(call) = called(hook) else {
            // Rules that deny cannot decide about a call without a tool.
            let block = HookDecision::Block("the call names no tool, so the user's policy cannot check it".to_owned());
            let answer = Answer::Hook(block);
            self.record_decision(Decided::at_once(&hook.id, &HandlerKind::Hook, Decider::Policy, &answer));
            return self.send_answer(ReplyTo::Agent(rpc_id), &hook.id, &answer);
        };
        let (mut rule, call_id) = (None, call.id.clone());
        let answer = match rules.denied(&call).filter(|_| !self.is_output_tool(&call.name)) {
            None => HookDecision::Allow,
            Some(decision) => {
                let reason = denial(&decision);
                rule = decision.rule.clone();
                let known = Known::of_call(call);
                self.record_denial(known, hook.target.as_deref().unwrap_or_default(), &decision);
                let scope = self.live_scope();
                self.report_decision(decision, scope);
                HookDecision::Block(reason)
            }
        };
        let answer = Answer::Hook(answer);
        let decided = Decided::at_once(&hook.id, &HandlerKind::Hook, Decider::Policy, &answer);
        self.record_decision(Decided { tool_call: Some(&call_id), rule: rule.as_deref(), ..decided });
        self.send_answer(ReplyTo::Agent(rpc_id), &hook.id, &answer);
    }

    /// Returns the answer to an approval if a rule has one.
    pub(super) fn decide_approval(&mut self, request: &ApprovalRequest, scope: Scope) -> Option<Answer> {
        let rules = self.sources.rules.clone()?;
        let mut call = request.tool_call.get().cloned().unwrap_or_else(|| ToolCallInfo {
            id: request.tool_call_id.clone(),
            name: request.sender.clone(),
            ..ToolCallInfo::default()
        });
        if self.tool_calls.is_ambiguous(&request.tool_call_id) {
            // Models choose ids: with the id of a harmless call, another one must not be allowed.
            call.arguments = None;
            call.name.clone_from(&request.sender);
        }
        let decision = rules.decide(&call, &request.description);
        let answer = match decision.decision {
            PolicyOutcome::Allow => Some(Approval::Approve),
            PolicyOutcome::Deny => {
                self.record_denial(Known::of_call(call), &request.description, &decision);
                Some(Approval::reject(denial(&decision)))
            }
            _ => None,
        };
        let answer = answer.map(Answer::Approval);
        if let Some(answer) = &answer {
            let decided = Decided::at_once(&request.id, &HandlerKind::Approval, Decider::Policy, answer);
            let (tool_call, rule) = (Some(&*request.tool_call_id), decision.rule.as_deref());
            self.record_decision(Decided { tool_call, rule, ..decided });
        }
        self.report_decision(decision, scope);
        answer
    }

    fn record_denial(&mut self, call: Known, description: &str, decision: &PolicyDecision) {
        if let Some(turn) = &mut self.turn {
            turn.record.denied(call, description, decision);
        }
    }

    fn report_decision(&mut self, decision: PolicyDecision, scope: Scope) {
        self.record(|| {
            let PolicyDecision { tool_call, decision, rule, source, reason, part, .. } = decision.clone();
            let turn = if let Scope::Turn(turn, _) = scope { Some(turn) } else { None };
            Entry::Policy(Box::new(PolicyEntry { turn, tool_call, decision, rule, source, reason, part }))
        });
        let size = serde_json::to_string(&decision).map_or(0, |json| json.len());
        self.outputs.push_back(Output::Event { scope, event: Box::new(decision.into()), size });
    }
}

/// The call that a hook is about.
fn called(hook: &HookRequest) -> Option<ToolCallInfo> {
    let data = hook.input_data.as_ref()?;
    let text = |key: &str| data.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
    Some(ToolCallInfo {
        id: text("tool_call_id").unwrap_or_default(),
        name: text("tool_name").or_else(|| hook.target.clone())?,
        arguments: data.get("tool_input").and_then(|input| input.as_object()).cloned(),
        ..ToolCallInfo::default()
    })
}

/// The reason, for the model.
fn denial(decision: &PolicyDecision) -> String {
    match decision.reason.as_ref().or(decision.rule.as_ref()) {
        Some(reason) => format!("the user's policy denies this: {reason}"),
        None => "the user's policy denies this".to_owned(),
    }
}
