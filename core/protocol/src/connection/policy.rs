//! The session's policy: its rules decide about approvals before any handler, and before each call if the agent has hooks.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use serde_json::{Map, Value};

use super::granted::{Granted, is_effect};
use super::held::approval_of;
use super::recording::Decided;
use super::requests::ReplyTo;
use super::tool_calls::Known;
use super::{Connection, Output, Scope};
use crate::answers::HookDecision;
use crate::dialect::Answer;
use crate::json::parsed_object;
use crate::messages::{
    ApprovalRequest, Event, HandlerKind, HookRequest, PolicyDecision, PolicyOutcome, TerminalRequest, ToolCallInfo,
    ToolKind,
};
use crate::recording::{Decider, Entry, PolicyEntry};

/// The id of the hook with which rules see calls that the agent does not ask about.
pub const POLICY_HOOK: &str = "policy";

/// Rules that decide about tool calls.
pub trait ToolRules: fmt::Debug + Send + Sync {
    /// Decides about a call that the agent describes like this.
    fn decide(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision;

    /// Decides about a request for a file or a terminal of the program. Its paths are the program's.
    fn decide_request(&self, call: &ToolCallInfo, description: &str) -> PolicyDecision {
        self.decide(call, description)
    }
}

/// The limit of calls that are approved for the session.
const MAX_APPROVED: usize = 1024;

/// The verdict about a request for a tool, a file or a terminal of the program.
pub(super) enum Verdict {
    /// The policy denies it. The reason is for the model.
    Denied(String),
    /// A rule asks about it.
    Asked(Box<PolicyDecision>),
}

/// The calls that the program approved.
#[derive(Debug, Default)]
pub(super) struct ApprovedCalls {
    /// For the session, the hashes of each call and of what was asked about it.
    always: HashSet<[u64; 2]>,
    /// The hashes of calls of the program's own tools that the agent has asked about, once each. They come next, and are not asked
    /// about again.
    once: Vec<[u64; 2]>,
    /// Commands and changes that the agent has asked about, and may do through the program.
    pub(super) granted: Granted,
    /// Hashes, so that an agent cannot look for two requests with the same one.
    hasher: RandomState,
    second: RandomState,
}

/// What the program was asked about a call: what the agent has shown with it, such as a diff, and which rule asked about which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskedAbout(u64);

impl ApprovedCalls {
    pub(super) fn asked(&self, request: &ApprovalRequest, decision: &PolicyDecision, shown: &[u64]) -> AskedAbout {
        let display = serde_json::to_string(&request.display).unwrap_or_default();
        AskedAbout(self.hasher.hash_one((display, shown, &decision.rule, &decision.source, &decision.part)))
    }

    /// Remembers a call for the session. A call without arguments says too little.
    pub(super) fn add(&mut self, call: &ToolCallInfo, asked: AskedAbout) {
        if is_said(call) && self.always.len() < MAX_APPROVED {
            self.always.insert(self.hash(call, Some(asked)));
        }
    }

    /// Remembers a call of an own tool, until it comes.
    pub(super) fn add_once(&mut self, call: &ToolCallInfo) {
        if call.arguments.is_some() && self.once.len() < MAX_APPROVED {
            self.once.push(self.hash(call, None));
        }
    }

    /// Whether exactly this call was approved, as it is asked about now. Its id does not matter.
    pub(super) fn contains(&self, call: &ToolCallInfo, asked: AskedAbout) -> bool {
        !self.always.is_empty() && self.always.contains(&self.hash(call, Some(asked)))
    }

    /// Whether exactly this call of an own tool was approved for the session, as it is asked about now.
    pub(super) fn covers(&self, request: &ApprovalRequest, decision: &PolicyDecision) -> bool {
        self.contains(&decision.tool_call, self.asked(request, decision, &[]))
    }

    /// Whether exactly this call of an own tool was approved once. The approval is used up.
    fn take_once(&mut self, call: &ToolCallInfo) -> bool {
        let call = self.hash(call, None);
        let once = self.once.iter().position(|approved| *approved == call).map(|place| self.once.remove(place));
        once.is_some()
    }

    /// Forgets calls of a turn that has ended.
    pub(super) fn forget_once(&mut self) {
        self.once.clear();
        self.granted.clear();
    }

    /// Returns hashes of a call without its id.
    fn hash(&self, call: &ToolCallInfo, asked: Option<AskedAbout>) -> [u64; 2] {
        let ToolCallInfo { id: _, name, arguments, kind, locations, diffs, changed, extra } = call;
        // Some agents say nothing by this kind, others leave it out.
        let kind = kind.as_ref().map(ToolKind::as_str).filter(|kind| *kind != "other");
        // An own tool gets its arguments and nothing else.
        let is_own = kind == Some(OWN_TOOL);
        let beside = (!is_own).then_some((locations, diffs, changed));
        let extra = serde_json::to_string(extra).unwrap_or_default();
        let all = (name, arguments, kind, beside, extra, asked.map(|asked| asked.0));
        [self.hasher.hash_one(&all), self.second.hash_one(&all)]
    }
}

/// Whether the agent has said what the call is about.
pub(super) fn is_said(call: &ToolCallInfo) -> bool {
    call.arguments.as_ref().is_some_and(|arguments| arguments.values().any(is_filled))
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => items.iter().any(is_filled),
        Value::Object(members) => members.values().any(is_filled),
    }
}

impl Connection {
    /// The calls that the program approved. A session without rules has none, and no memory for them.
    pub(super) fn approved_calls(&mut self) -> &mut ApprovedCalls {
        self.approved.get_or_insert_default()
    }

    /// Whether this is the call of the hook that belongs to the policy, which the program does not see.
    pub(super) fn is_of_policy(&self, request: &Event) -> bool {
        self.replay.is_none()
            && self.sources.rules.is_some()
            && matches!(request, Event::HookRequest(hook) if hook.subscription_id == POLICY_HOOK)
    }

    /// Answers the hook of the policy.
    pub(super) fn decide_before_call(&mut self, rpc_id: String, request: &Event) {
        let Event::HookRequest(hook) = request else { return };
        let Some(call) = called(hook) else {
            // Rules that deny cannot decide about a call without a tool.
            return self.block_call(rpc_id, hook, "the call names no tool, so the user's policy cannot check it");
        };
        let (mut rule, call_id) = (None, call.id.clone());
        let is_output = self.is_output_tool(&call.name);
        let decision = if is_output { None } else { self.denial_of(&call) };
        let answer = match decision {
            None => HookDecision::Allow,
            Some(decision) => {
                rule = decision.rule.clone();
                let description = described(&call).or(hook.target.as_deref()).unwrap_or_default();
                HookDecision::Block(self.deny(decision, description))
            }
        };
        let answer = Answer::Hook(answer);
        let decided = Decided::at_once(&hook.id, &HandlerKind::Hook, Decider::Policy, &answer);
        self.record_decision(Decided { tool_call: Some(&call_id), rule: rule.as_deref(), ..decided });
        self.send_answer(ReplyTo::Agent(rpc_id), &hook.id, &answer);
    }

    /// Blocks the call of a hook that has a member twice: programs differ in which one they take.
    pub(super) fn block_unclear_call(&mut self, rpc_id: String, request: &Event) {
        let Event::HookRequest(hook) = request else { return };
        self.block_call(rpc_id, hook, "the call has a member twice, so the user's policy cannot check it");
    }

    fn block_call(&mut self, rpc_id: String, hook: &HookRequest, reason: &str) {
        let answer = Answer::Hook(HookDecision::Block(reason.to_owned()));
        self.record_decision(Decided::at_once(&hook.id, &HandlerKind::Hook, Decider::Policy, &answer));
        self.send_answer(ReplyTo::Agent(rpc_id), &hook.id, &answer);
    }

    /// Returns the decision about a call that runs without an approval, if the policy denies it.
    fn denial_of(&mut self, call: &ToolCallInfo) -> Option<PolicyDecision> {
        self.decision_of(call).filter(|decision| decision.decision == PolicyOutcome::Deny)
    }

    /// Returns the decision about a call that runs without an approval. `call` is newer than the agent's events about it; if they
    /// differ, both must be permitted.
    pub(super) fn decision_of(&mut self, call: &ToolCallInfo) -> Option<PolicyDecision> {
        self.decision_by(call, |rules, call| rules.decide(call, ""))
    }

    fn decision_by(
        &mut self,
        call: &ToolCallInfo,
        decide: impl Fn(&dyn ToolRules, &ToolCallInfo) -> PolicyDecision,
    ) -> Option<PolicyDecision> {
        let rules = self.sources.rules.clone()?;
        let dialect = &self.dialect;
        let mut statements = self.tool_calls.statements(None, &call.id, &|id| dialect.call_details(id));
        statements.earlier.extend(statements.newest.take().map(|known| ToolCallInfo::clone(&known.call)));
        let newest = self.as_own(call);
        let is_other = |earlier: &&ToolCallInfo| earlier.name != call.name || earlier.arguments != call.arguments;
        let earlier = statements.earlier.iter().filter(is_other).map(|earlier| self.as_own(earlier));
        let decision = decide(&**rules, &newest);
        Some(strictest(&**rules, newest, decision, earlier))
    }

    /// Returns the reason if the rules deny or ask about a call that the agent has described further since it asked.
    pub(super) fn refusal_of_newer(&self, call: &ToolCallInfo) -> Option<String> {
        let rules = self.sources.rules.as_ref()?;
        let call = ToolCallInfo { kind: stated_kind(call), ..call.clone() };
        let decision = rules.decide(&call, "");
        let is_refused = decision.decision != PolicyOutcome::Allow && decision.rule.is_some()
            || decision.decision == PolicyOutcome::Deny;
        is_refused.then(|| denial(&decision))
    }

    /// Returns whether the rules allow a call that the agent has described in another way since it asked.
    pub(super) fn allows(&self, call: &ToolCallInfo) -> bool {
        let call = ToolCallInfo { kind: stated_kind(call), ..call.clone() };
        let rules = self.sources.rules.as_ref();
        rules.is_some_and(|rules| rules.decide(&call, "").decision == PolicyOutcome::Allow)
    }

    /// Returns the call as rules see it: a tool of the program has the kind `mcp`.
    pub(super) fn as_own(&self, call: &ToolCallInfo) -> ToolCallInfo {
        let is_own = self.sources.tools.contains(&call.name);
        let kind = if is_own { Some(OWN_TOOL.into()) } else { stated_kind(call) };
        ToolCallInfo { kind, ..call.clone() }
    }

    /// Returns the verdict about a request for a tool, a file or a terminal of the program, if it may not be handled at once: the
    /// policy denies it, or a rule asks about it.
    pub(super) fn verdict_of_request(&mut self, request: &Event) -> Option<Verdict> {
        let (call, description) = match request {
            Event::ToolCallRequest(request) => (ToolCallInfo::clone(&Known::of(request).call), request.name.clone()),
            Event::ReadFileRequest(request) => file_call(&request.id, "read_text_file", ToolKind::Read, &request.path),
            Event::WriteFileRequest(request) => {
                file_call(&request.id, "write_text_file", ToolKind::Edit, &request.path)
            }
            Event::TerminalRequest(request) => terminal_call(request),
            _ => return None,
        };
        let is_of_program = !matches!(request, Event::ToolCallRequest(_));
        let decision = self.decision_by(&call, |rules, call| {
            if is_of_program { rules.decide_request(call, "") } else { rules.decide(call, "") }
        })?;
        match decision.decision {
            PolicyOutcome::Deny => Some(Verdict::Denied(self.deny(decision, &description))),
            // The default asks about what the agent does. The program's own tools are the program's, and agents read without a
            // permission.
            PolicyOutcome::Ask if decision.rule.is_some() || is_effect(request) => {
                let own = self.as_own(&call);
                let asked = approval_of(request, &decision.tool_call);
                // The approvals of a turn end with it.
                let has_turn = self.turn.is_some();
                let approved = self.approved_calls();
                let is_approved = approved.contains(&own, approved.asked(&asked, &decision, &[]))
                    || approved.take_once(&own)
                    || has_turn && decision.rule.is_none() && approved.granted.take(request);
                (!is_approved).then(|| Verdict::Asked(Box::new(decision)))
            }
            _ => None,
        }
    }

    /// Reports a denial. Returns its reason, for the model.
    pub(super) fn deny(&mut self, decision: PolicyDecision, description: &str) -> String {
        let scope = self.live_scope();
        self.deny_in(decision, description, scope)
    }

    pub(super) fn deny_in(&mut self, decision: PolicyDecision, description: &str, scope: Scope) -> String {
        let reason = denial(&decision);
        self.record_denial(Known::of_call(decision.tool_call.clone()), description, &decision);
        self.report_decision(decision, scope);
        reason
    }

    fn record_denial(&mut self, call: Known, description: &str, decision: &PolicyDecision) {
        if let Some(turn) = &mut self.turn {
            turn.record.denied(call, description, decision);
        }
    }

    pub(super) fn report_decision(&mut self, decision: PolicyDecision, scope: Scope) {
        self.record(|| {
            let PolicyDecision { tool_call, decision, rule, source, reason, part, .. } = decision.clone();
            let turn = if let Scope::Turn(turn, _) = scope { Some(turn) } else { None };
            Entry::Policy(Box::new(PolicyEntry { turn, tool_call, decision, rule, source, reason, part }))
        });
        let size = serde_json::to_string(&decision).map_or(0, |json| json.len());
        self.outputs.push_back(Output::Event { scope, event: Box::new(decision.into()), size });
    }
}

/// The kind of the program's own tools, for rules.
const OWN_TOOL: &str = "mcp";

/// The kind that an agent states. Only the SDK knows which tools are the program's.
pub(super) fn stated_kind(call: &ToolCallInfo) -> Option<ToolKind> {
    call.kind.clone().filter(|kind| kind.as_str() != OWN_TOOL)
}

/// Returns how strict a decision is: a larger number is stricter.
pub fn strictness(decision: &PolicyDecision) -> u8 {
    match decision.decision {
        PolicyOutcome::Allow => 0,
        PolicyOutcome::Deny => 3,
        // A rule that asks says more than the default.
        _ if decision.rule.is_some() => 2,
        _ => 1,
    }
}

/// Decides about a call as the agent describes it, which is decided already, and as it did before: all of it must be allowed.
pub(super) fn strictest(
    rules: &dyn ToolRules,
    newest: ToolCallInfo,
    mut strictest: PolicyDecision,
    earlier: impl Iterator<Item = ToolCallInfo>,
) -> PolicyDecision {
    for call in earlier {
        let decision = rules.decide(&call, "");
        if strictness(&decision) > strictness(&strictest) {
            strictest = PolicyDecision { reason: Some(reason_of_earlier(&decision)), ..decision };
        }
    }
    strictest.tool_call = newest;
    strictest
}

/// The reason if another description of the call decided than the newest.
pub(super) fn reason_of_earlier(decision: &PolicyDecision) -> String {
    let reason = decision.reason.as_ref().or(decision.rule.as_ref());
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("the agent described this call in several ways, which must all be allowed{reason}")
}

fn file_call(id: &str, name: &str, kind: ToolKind, path: &str) -> (ToolCallInfo, String) {
    let arguments = Map::from_iter([("path".to_owned(), path.into())]);
    let (arguments, kind) = (Some(arguments), Some(kind));
    let call =
        ToolCallInfo { id: format!("request {id}"), name: name.to_owned(), arguments, kind, ..Default::default() };
    (call, path.to_owned())
}

fn terminal_call(request: &TerminalRequest) -> (ToolCallInfo, String) {
    let mut arguments = Map::from_iter([("command".to_owned(), request.command.clone().into())]);
    if !request.args.is_empty() {
        arguments.insert("args".to_owned(), request.args.clone().into());
    }
    if !request.env.is_empty() {
        arguments.insert("env".to_owned(), request.env.clone().into());
    }
    arguments.insert("cwd".to_owned(), request.cwd.clone().into());
    let (arguments, kind) = (Some(arguments), Some(ToolKind::Execute));
    let id = format!("request {}", request.id);
    let call = ToolCallInfo { id, name: "terminal".to_owned(), arguments, kind, ..Default::default() };
    let words = std::iter::once(&request.command).chain(&request.args);
    (call, words.map(String::as_str).collect::<Vec<_>>().join(" "))
}

/// The call that a hook is about.
fn called(hook: &HookRequest) -> Option<ToolCallInfo> {
    let data = hook.input_data.as_ref()?;
    let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(ToolCallInfo {
        id: text("tool_call_id").unwrap_or_default(),
        name: text("tool_name").or_else(|| hook.target.clone())?,
        arguments: data.get("tool_input").and_then(input_of_hook),
        ..ToolCallInfo::default()
    })
}

/// The arguments in a hook. Text is JSON, or the whole input of the tool.
fn input_of_hook(input: &Value) -> Option<Map<String, Value>> {
    match input {
        Value::Object(members) => Some(members.clone()),
        Value::String(text) => {
            let whole = || Map::from_iter([("input".to_owned(), input.clone())]);
            Some(parsed_object(text).unwrap_or_else(whole))
        }
        _ => None,
    }
}

/// The description of a command that the agent has not asked about: the model's own one, or else the command.
fn described(call: &ToolCallInfo) -> Option<&str> {
    let text = |key: &str| call.arguments.as_ref()?.get(key)?.as_str().filter(|text| !text.is_empty());
    let command = text("command")?;
    Some(text("description").unwrap_or(command))
}

/// The reason, for the model.
fn denial(decision: &PolicyDecision) -> String {
    match decision.reason.as_ref().or(decision.rule.as_ref()) {
        Some(reason) => format!("the user's policy denies this: {reason}"),
        None => "the user's policy denies this".to_owned(),
    }
}
