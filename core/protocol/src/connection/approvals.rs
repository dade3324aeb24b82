//! Approvals and choices: what a request for a permission says about its call, and what the rules say about that.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::{Map, Value};

use super::displayed::displayed_calls;
use super::policy::{AskedAbout, reason_of_earlier, stated_kind, strictest, strictness};
use super::recording::Decided;
use super::requests::ReplyTo;
use super::shown::{shown_commands, shown_files, shown_texts};
use super::tool_calls::{Known, Present, Statements};
use super::{Connection, Scope};
use crate::answers::Approval;
use crate::dialect::Answer;
use crate::messages::{
    ApprovalRequest, DisplayBlock, Event, FunctionCall, HandlerKind, PolicyDecision, PolicyOutcome, ToolCall,
    ToolCallInfo,
};
use crate::recording::Decider;

impl Connection {
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
        let mut present = Present { details: &details, record: None, begun: None, now, is_unclear: self.is_unclear };
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
        // Files that the agent shows with the request are a part of the call, too.
        let mut known: HashSet<String> = newest.diffs.iter().flatten().cloned().collect();
        for path in shown_files(request) {
            if known.insert(path.to_owned()) {
                newest.diffs.get_or_insert_default().push(path.to_owned());
            }
        }
        let doubt = doubt_of(&statements, self.is_unclear);
        let mut earlier = statements.earlier;
        earlier.extend(displayed_calls(request, &newest));
        if doubt.is_some() {
            // The known arguments may still be denied.
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
        let (commands, titles) = shown_texts(request, &newest);
        earlier.extend(unsaid.chain(with_more).chain(commands).collect::<Vec<_>>());
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
        let is_plain = earlier.is_empty() && doubt.is_none() && newest.changed.is_none();
        let mut decision = rules.decide(&newest, &request.description);
        if let (Some(doubt), Some(reason)) = (doubt, &mut decision.reason) {
            // They were withheld from the rules.
            *reason = reason.replace(NO_ARGUMENTS, doubt);
        }
        let mut decision = strictest(&**rules, newest, decision, earlier.into_iter());
        for title in titles {
            // A title is not the name of a tool, and no rule has to allow it.
            let said = rules.decide(&title, "");
            if said.rule.is_some() && strictness(&said) > strictness(&decision) {
                let reason = Some(reason_of_earlier(&said));
                decision = PolicyDecision { tool_call: decision.tool_call, reason, ..said };
            }
        }
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
        question: Box<Event>,
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
    pub(super) fn own_tool_request(&mut self, rpc_id: String, mut request: Box<Event>, size: usize, now: Instant) {
        self.add_tool_call(&mut request, now);
        let Event::ApprovalRequest(asked) = &*request else { return };
        let rules = self.sources.rules.clone();
        let call = asked.tool_call.get().map(|call| self.as_own(call));
        if self.is_unclear {
            return self.request(rpc_id, request, size, now);
        }
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
}

/// The words of rules about a call whose arguments they do not get.
const NO_ARGUMENTS: &str = "the agent did not send the arguments";

/// Returns why rules do not get the arguments of a call: they can be about something else than what runs.
fn doubt_of(statements: &Statements, is_unclear: bool) -> Option<&'static str> {
    if is_unclear {
        Some("a message about the call has a member twice")
    } else if statements.is_incomplete {
        Some("the agent described the call in ways that are not all clear")
    } else if statements.is_of_other {
        Some("the subagent that asks has not made the call")
    } else if statements.is_elsewhere {
        Some(
            "the subagent works in another directory, and the patterns of rules are about the directory of the session",
        )
    } else {
        None
    }
}
