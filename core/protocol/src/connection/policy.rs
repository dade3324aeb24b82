//! The session's policy: its rules decide about approvals before any handler, and before each call if the agent has hooks.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;

use serde_json::{Map, Value};

use super::granted::{Granted, is_effect};
use super::held::approval_of;
use super::recording::Decided;
use super::requests::ReplyTo;
use super::shown::{shown_commands, shown_files};
use super::tool_calls::{Known, Present};
use super::{Connection, Output, Scope};
use crate::answers::{Approval, HookDecision};
use crate::dialect::Answer;
use crate::json::parsed_object;
use crate::messages::{
    ApprovalRequest, DisplayBlock, Event, FunctionCall, HandlerKind, HookRequest, PolicyDecision, PolicyOutcome,
    TerminalRequest, ToolCall, ToolCallInfo, ToolKind,
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
    fn add(&mut self, call: &ToolCallInfo, asked: AskedAbout) {
        if is_said(call) && self.always.len() < MAX_APPROVED {
            self.always.insert(self.hash(call, Some(asked)));
        }
    }

    /// Remembers a call of an own tool, until it comes.
    fn add_once(&mut self, call: &ToolCallInfo) {
        if call.arguments.is_some() && self.once.len() < MAX_APPROVED {
            self.once.push(self.hash(call, None));
        }
    }

    /// Whether exactly this call was approved, as it is asked about now. Its id does not matter.
    fn contains(&self, call: &ToolCallInfo, asked: AskedAbout) -> bool {
        !self.always.is_empty() && self.always.contains(&self.hash(call, Some(asked)))
    }

    /// Whether exactly this call of an own tool was approved for the session, as it is asked about now.
    fn covers(&self, request: &ApprovalRequest, decision: &PolicyDecision) -> bool {
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

    /// Takes in a call as an approval request describes it, if that differs from what the agent said before. The event stream
    /// gets the call anew.
    pub(super) fn restate_call(&mut self, request: &ApprovalRequest, now: Instant) {
        let dialect = &self.dialect;
        let details = |id: &str| dialect.call_details(id);
        let agent = request.agent_id.clone().filter(|agent| !agent.is_empty());
        // A request that names no subagent can be about the call of one.
        let agent = agent.or_else(|| self.tool_calls.only_agent(&request.tool_call_id));
        let agent = agent.as_deref();
        let Some(known) = self.tool_calls.find(agent, &request.tool_call_id, &details) else { return };
        let name = if request.sender.is_empty() { &known.call.name } else { &request.sender };
        let is_known = |command: &str| {
            known.call.arguments.as_ref().is_none_or(|arguments| arguments.values().any(|value| value == command))
        };
        let newest = shown_commands(request).filter(|command| !is_known(command)).last();
        if *name == known.call.name && newest.is_none() {
            return;
        }
        // A copy only now: the agent can ask often about a call with many arguments.
        let mut arguments = known.call.arguments.clone();
        if let (Some(arguments), Some(command)) = (&mut arguments, newest) {
            arguments.insert("command".to_owned(), command.into());
        }
        let arguments = arguments.map(|arguments| Value::Object(arguments).to_string());
        let function = FunctionCall { name: name.clone(), arguments, extra: Default::default() };
        let mut call = ToolCall { id: request.tool_call_id.clone(), function, extras: None, extra: Default::default() };
        call.extra.insert("synthesized", true.into());
        let mut present = Present { details: &details, record: None, begun: None, now };
        if agent.is_some_and(|agent| self.tool_calls.restate(agent, &call, &mut present)) {
            return;
        }
        if let Some(last) = self.tool_calls.last_beside(&call.id) {
            let mut event = Box::new(Event::from(call));
            let added = self.add_tool_call(&mut event, now);
            self.process_event(&event);
            self.push_event(event, known.size + added);
            self.tool_calls.continue_with("", last);
        }
    }

    /// Returns the call as rules see it: a tool of the program has the kind `mcp`.
    fn as_own(&self, call: &ToolCallInfo) -> ToolCallInfo {
        let is_own = self.sources.tools.contains(&call.name);
        let kind = if is_own { Some(OWN_TOOL.into()) } else { stated_kind(call) };
        ToolCallInfo { kind, ..call.clone() }
    }

    /// Returns what the rules say about a request for an approval, and what the program would be asked. `None` without rules.
    fn judge(&mut self, request: &ApprovalRequest) -> Option<(PolicyDecision, AskedAbout)> {
        let rules = self.sources.rules.clone()?;
        let dialect = &self.dialect;
        let (agent, id) = (request.agent_id.as_deref(), &request.tool_call_id);
        let statements = self.tool_calls.statements(agent, id, &|id| dialect.call_details(id));
        let mut newest = request.tool_call.get().cloned().unwrap_or_else(|| ToolCallInfo {
            id: request.tool_call_id.clone(),
            name: request.sender.clone(),
            ..ToolCallInfo::default()
        });
        let shown = newest.clone();
        // What the agent shows with the request is a part of the call, too.
        let mut known: HashSet<String> = newest.diffs.iter().flatten().cloned().collect();
        for path in shown_files(request) {
            if known.insert(path.to_owned()) {
                newest.diffs.get_or_insert_default().push(path.to_owned());
            }
        }
        let mut earlier = statements.earlier;
        let is_unknown = statements.is_incomplete || statements.is_of_other;
        if is_unknown {
            // What is known may still be denied.
            earlier.push(newest.clone());
            newest.arguments = None;
        }
        // The agent shows a command that the known arguments do not have, or it did not name the call or all of its arguments.
        let is_said = |command: &&str| {
            let arguments = newest.arguments.as_ref();
            arguments.is_some_and(|arguments| arguments.values().any(|value| value.as_str() == Some(*command)))
        };
        let unsaid = shown_commands(request).filter(|command| !is_said(command)).map(|command| {
            let arguments = Map::from_iter([("command".to_owned(), command.into())]);
            ToolCallInfo { arguments: Some(arguments), ..newest.clone() }
        });
        // The directory or the variables that the agent shows with a command are parts of it.
        let with_more = request.display.iter().filter_map(|block| match block {
            DisplayBlock::Shell(shell) if !shell.extra.is_empty() => {
                let mut arguments = Map::from_iter([("command".to_owned(), shell.command.clone().into())]);
                arguments.extend(shell.extra.iter().map(|(name, value)| (name.clone(), value.clone())));
                Some(ToolCallInfo { arguments: Some(arguments), ..newest.clone() })
            }
            _ => None,
        });
        earlier.extend(unsaid.chain(with_more).collect::<Vec<_>>());
        for call in std::iter::once(&mut newest).chain(&mut earlier) {
            call.kind = stated_kind(call);
        }
        if self.sources.tools.contains(&newest.name) {
            // The name says that it is a tool of the program, which the agent may be wrong about.
            earlier.push(self.as_own(&newest));
        }
        if !request.sender.is_empty() && request.sender != newest.name {
            earlier.push(ToolCallInfo { name: request.sender.clone(), ..newest.clone() });
        }
        let is_plain = earlier.is_empty() && !is_unknown && newest.changed.is_none();
        let decision = rules.decide(&newest, &request.description);
        let mut decision = strictest(&**rules, newest, decision, earlier.into_iter());
        let own = self.as_own(&shown);
        let changes = self.dialect.call_details(id).shown;
        let approved = self.approved_calls();
        let asked = approved.asked(request, &decision, &changes);
        if decision.decision == PolicyOutcome::Ask && is_plain && approved.contains(&own, asked) {
            decision.decision = PolicyOutcome::Allow;
            decision.reason = Some("the program approved this call for the session".to_owned());
            (decision.rule, decision.source) = (None, None);
        }
        decision.tool_call = shown;
        Some((decision, asked))
    }

    /// Returns the answer to an approval if a rule has one, or else what the program is asked.
    pub(super) fn decide_approval(
        &mut self,
        request: &ApprovalRequest,
        scope: Scope,
    ) -> Result<Answer, Option<AskedAbout>> {
        let Some((decision, asked)) = self.judge(request) else { return Err(None) };
        match decision.decision {
            PolicyOutcome::Allow => {
                let rule = decision.rule.clone();
                self.report_decision(decision, scope);
                let subjects = self.subjects_of(request);
                self.grant(subjects);
                Ok(self.answer_by_rule(request, rule.as_deref(), Approval::Approve))
            }
            PolicyOutcome::Deny => Ok(self.reject_by_rule(request, decision, scope)),
            _ => {
                self.report_decision(decision, scope);
                Err(Some(asked))
            }
        }
    }

    fn reject_by_rule(&mut self, request: &ApprovalRequest, decision: PolicyDecision, scope: Scope) -> Answer {
        let rule = decision.rule.clone();
        let subjects = self.subjects_of(request);
        self.withdraw(&subjects);
        let rejection = Approval::reject(self.deny_in(decision, &request.description, scope));
        self.answer_by_rule(request, rule.as_deref(), rejection)
    }

    fn answer_by_rule(&mut self, request: &ApprovalRequest, rule: Option<&str>, approval: Approval) -> Answer {
        let answer = Answer::Approval(approval);
        let decided = Decided::at_once(&request.id, &HandlerKind::Approval, Decider::Policy, &answer);
        let tool_call = Some(&*request.tool_call_id);
        self.record_decision(Decided { tool_call, rule, ..decided });
        answer
    }

    /// Handles a request for a permission that offers a choice. The rules may deny it. Otherwise the program answers the question.
    pub(super) fn choice_request(
        &mut self,
        rpc_id: String,
        approval: ApprovalRequest,
        question: Event,
        size: usize,
        now: Instant,
    ) {
        let mut asked = Event::from(approval);
        if self.replay.is_none() {
            if let Event::ApprovalRequest(asked) = &asked {
                self.restate_call(asked, now);
            }
            self.add_tool_call(&mut asked, now);
        }
        if self.sources.rules.is_some() && self.replay.is_none() {
            let scope = self.live_scope();
            if let Event::ApprovalRequest(asked) = &asked
                && let Some((decision, _)) = self.judge(asked)
            {
                match decision.decision {
                    PolicyOutcome::Deny => {
                        let answer = self.reject_by_rule(asked, decision, scope);
                        return self.send_answer(ReplyTo::Agent(rpc_id), &asked.id, &answer);
                    }
                    PolicyOutcome::Ask => self.report_decision(decision, scope),
                    // The program chooses an option.
                    _ => {}
                }
            }
        }
        if let Some(key) = self.keyed_request(rpc_id.clone(), question, size, now) {
            self.note_choice(key, rpc_id, &asked);
        }
    }

    /// Handles the request for an approval of a call of the program's own tool. It is approved unless the policy denies it
    /// or asks about it.
    pub(super) fn own_tool_request(&mut self, rpc_id: String, mut request: Event, size: usize, now: Instant) {
        self.add_tool_call(&mut request, now);
        let Event::ApprovalRequest(asked) = &request else { return };
        let rules = self.sources.rules.clone();
        let call = asked.tool_call.get().map(|call| self.as_own(call));
        let verdict = rules.zip(call).map(|(rules, call)| rules.decide(&call, &asked.description));
        match verdict {
            Some(decision)
                if decision.decision == PolicyOutcome::Ask
                    && decision.rule.is_some()
                    && !self.approved_calls().covers(asked, &decision) =>
            {
                self.request(rpc_id, request, size, now);
            }
            Some(decision) if decision.decision == PolicyOutcome::Deny => {
                let rule = decision.rule.clone();
                let answer = Answer::Approval(Approval::reject(self.deny(decision, &asked.description)));
                let decided = Decided::at_once(&asked.id, &HandlerKind::Approval, Decider::Policy, &answer);
                let tool_call = Some(&*asked.tool_call_id);
                self.record_decision(Decided { tool_call, rule: rule.as_deref(), ..decided });
                self.send_answer(ReplyTo::Agent(rpc_id), &asked.id, &answer);
            }
            _ => self.send_answer(ReplyTo::Agent(rpc_id), &asked.id, &Answer::Approval(Approval::Approve)),
        }
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

    fn deny_in(&mut self, decision: PolicyDecision, description: &str, scope: Scope) -> String {
        let reason = denial(&decision);
        self.record_denial(Known::of_call(decision.tool_call.clone()), description, &decision);
        self.report_decision(decision, scope);
        reason
    }

    /// Returns the answer to send for the program's one. With rules, the agent must ask about each further call, because it
    /// may mean another one by an approval for the session: the SDK remembers exactly this call. `is_of_agent`: the agent has asked.
    pub(super) fn approve_once(
        &mut self,
        answer: &Answer,
        (call, asked): (Option<&Known>, Option<AskedAbout>),
        is_of_agent: bool,
    ) -> Option<Answer> {
        self.sources.rules.as_ref()?;
        let call = call.map(|known| self.as_own(&known.call));
        match answer {
            Answer::Approval(Approval::ApproveForSession) => {
                if let (Some(call), Some(asked)) = (&call, asked) {
                    self.approved_calls().add(call, asked);
                }
                Some(Answer::Approval(Approval::Approve))
            }
            Answer::Approval(Approval::Approve) => {
                let is_own = |call: &ToolCallInfo| is_of_agent && self.sources.tools.contains(&call.name);
                let call = call.filter(is_own);
                call.iter().for_each(|call| self.approved_calls().add_once(call));
                None
            }
            _ => None,
        }
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
fn strictest(
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
fn reason_of_earlier(decision: &PolicyDecision) -> String {
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
