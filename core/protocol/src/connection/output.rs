//! Structured output of the running turn: calls of its tool, checks of the program, and the prompts that ask again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::recording::Decided;
use super::requests::{ReplyTo, RequestKey};
use super::result::TurnStatus;
use super::turn::TurnKey;
use super::{Connection, Output, Scope};
use crate::answers::Approval;
use crate::dialect::{Answer, Call};
use crate::error::Error;
use crate::messages::{
    ApprovalRequest, Event, HandlerKind, SteerInput, ToolCallInfo, ToolCallRequest, ToolReturnValue,
};
use crate::output::{OutputError, OutputPlan, OutputRun};
use crate::recording::Decider;

/// The structured output that a prompt asks for.
#[derive(Clone, Debug)]
pub struct TurnOutput {
    /// The checked option.
    pub plan: Arc<OutputPlan>,
    /// Whether the agent has accepted the tool of the option.
    pub by_tool: bool,
    /// Whether the program checks values, too: [`Output::CheckOutput`].
    pub is_checked: bool,
}

/// The tool of the SDK that takes the value of structured output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputTool {
    /// The name of the tool in the program.
    pub name: String,
    /// The name of the MCP server that offers it, if one does.
    pub server: Option<String>,
    /// The names of its parameters.
    pub parameters: Vec<String>,
}

impl OutputTool {
    /// Makes the tool that a plan offers, over the MCP server with this name, if there is one.
    pub fn new(plan: &OutputPlan, server: Option<String>) -> Self {
        let tool = plan.tool();
        let properties = tool.parameters.get("properties").and_then(Value::as_object);
        let parameters = properties.map_or_else(Vec::new, |properties| properties.keys().cloned().collect());
        Self { name: tool.name, server, parameters }
    }

    /// Returns whether a call can be one of this tool. Some agents send a text of the model as the name of a tool, so that
    /// the name alone proves nothing: the kind and the arguments must fit, too.
    pub(super) fn is_called_by(&self, call: &ToolCallInfo) -> bool {
        if self.server.is_none() {
            return call.name == self.name;
        }
        let is_harmless = call.kind.as_ref().is_none_or(|kind| kind.as_str() == "other");
        let arguments = call.arguments.as_ref().filter(|arguments| !arguments.is_empty());
        let fit = arguments.is_some_and(|arguments| arguments.keys().all(|key| self.parameters.contains(key)));
        self.is_named(&call.name) && is_harmless && fit
    }

    /// Returns whether this is an agent's name for the tool. Agents put the name of the server before it, each in its own
    /// way.
    fn is_named(&self, name: &str) -> bool {
        if name == self.name {
            return true;
        }
        let Some(server) = self.server.as_deref() else { return false };
        let name = name.strip_prefix("mcp__").or_else(|| name.strip_prefix("mcp_")).unwrap_or(name);
        let rest = name.strip_prefix(server).and_then(|rest| rest.strip_suffix(&*self.name));
        rest.is_some_and(|between| matches!(between, "__" | "_" | "." | "/" | ":" | "-"))
            || name.strip_prefix(&*self.name).is_some_and(|rest| rest == format!(" ({server} MCP Server)"))
    }
}

/// The structured output of the running turn.
#[derive(Debug)]
pub(super) struct ActiveOutput {
    run: OutputRun,
    is_checked: bool,
    /// The calls whose values the program checks, with the arguments as text.
    calls: HashMap<RequestKey, (Value, String)>,
    /// The answer whose value the program checks.
    answer: Option<CheckedAnswer>,
    /// The end of the turn, as the agent reports it: it may be the end of one prompt only.
    held_end: Option<(Box<Event>, usize)>,
    /// Whether the agent has not reported the begin of a follow-up yet.
    awaits_begin: bool,
}

/// The answer of a prompt, which has ended.
#[derive(Debug)]
struct CheckedAnswer {
    key: RequestKey,
    value: Value,
    text: String,
    steps: Option<i64>,
}

/// A call of the tool that was read.
enum Taken {
    /// Its value matches the schema, and the program checks it.
    Unchecked(Value),
    /// It needs no check.
    Answered(ToolReturnValue),
}

impl ActiveOutput {
    pub(super) fn new(output: TurnOutput) -> Self {
        Self {
            run: OutputRun::new(output.plan, output.by_tool),
            is_checked: output.is_checked,
            calls: HashMap::new(),
            answer: None,
            held_end: None,
            awaits_begin: false,
        }
    }

    pub(super) fn run(&self) -> &OutputRun {
        &self.run
    }

    /// Returns the value, at the end of the turn.
    pub(super) fn take_value(&mut self) -> Option<Value> {
        self.run.take_value()
    }
}

impl Connection {
    fn output_mut(&mut self) -> Option<&mut ActiveOutput> {
        self.turn.as_mut()?.output.as_deref_mut()
    }

    /// Makes one turn of several prompts: holds back the end of each, drops the begin of all but the first, and numbers the
    /// steps on. Returns the event if it is to be delivered.
    pub(super) fn join_prompts(&mut self, mut event: Box<Event>, size: usize) -> Option<Box<Event>> {
        if self.replay.is_some() {
            return Some(event);
        }
        let Some(turn) = &mut self.turn else { return Some(event) };
        let prior = turn.prior_steps;
        let Some(output) = turn.output.as_deref_mut() else { return Some(event) };
        match &mut *event {
            Event::TurnEnd(_) => {
                turn.observe(&event);
                let output = turn.output.as_deref_mut()?;
                output.held_end = Some((event, size));
                return None;
            }
            Event::TurnBegin(_) if output.awaits_begin => {
                output.awaits_begin = false;
                return None;
            }
            Event::StepBegin(step) => step.n = step.n.saturating_add(prior),
            _ => {}
        }
        Some(event)
    }

    /// Delivers the agent's report of the end, which was held back.
    pub(super) fn push_held_end(&mut self) {
        if let Some((end, size)) = self.output_mut().and_then(|output| output.held_end.take()) {
            self.push_event(end, size);
        }
    }

    /// Returns whether a request is a call of the tool of structured output.
    pub(super) fn is_output_call(&self, call: &ToolCallRequest) -> bool {
        self.sources.output_tool.as_ref().is_some_and(|tool| tool.name == call.name)
    }

    /// Returns the answer to an approval if it is for the tool of structured output, which only returns a value.
    pub(super) fn approve_output(&mut self, request: &ApprovalRequest) -> Option<Answer> {
        let tool = self.sources.output_tool.as_ref()?;
        // Models choose ids: with the id of this tool's call, another one must not be allowed.
        let is_clear = !self.tool_calls.is_ambiguous(&request.tool_call_id);
        let is_meant = match request.tool_call.get() {
            Some(call) => is_clear && tool.is_called_by(call),
            None => is_clear && tool.server.is_none() && request.sender == tool.name,
        };
        if !is_meant {
            return None;
        }
        let answer = Answer::Approval(Approval::Approve);
        let decided = Decided::at_once(&request.id, &HandlerKind::Approval, Decider::Sdk, &answer);
        self.record_decision(Decided { tool_call: Some(&request.tool_call_id), ..decided });
        Some(answer)
    }

    /// Returns whether a hook is called for the tool of structured output.
    pub(super) fn is_output_tool(&self, name: &str) -> bool {
        self.sources.output_tool.as_ref().is_some_and(|tool| tool.is_named(name))
    }

    /// Reads a call of the tool. Returns its value if the program checks it, else the answer.
    fn take_output(&mut self, key: RequestKey, call: &ToolCallRequest, cancelling: bool) -> Taken {
        let refused = |reason: &str| Taken::Answered(ToolReturnValue::error(format!("{}: {reason}", call.name)));
        if cancelling {
            return refused("the turn was cancelled");
        }
        let Some(output) = self.output_mut().filter(|output| output.run.is_by_tool()) else {
            return refused("this turn does not take its result from this tool");
        };
        let text = call.arguments.clone().unwrap_or_default();
        match output.run.read_call(call.arguments.as_deref()) {
            Ok(value) if output.is_checked => {
                output.calls.insert(key, (value.clone(), text));
                Taken::Unchecked(value)
            }
            Ok(value) => {
                output.run.accept(value);
                Taken::Answered(accepted())
            }
            Err(errors) => Taken::Answered(self.reject_call(&text, errors)),
        }
    }

    /// Counts an invalid call, and returns the answer to it. The turn is cancelled if no further call is allowed.
    fn reject_call(&mut self, text: &str, errors: Vec<OutputError>) -> ToolReturnValue {
        let Some(turn) = self.turn.as_deref_mut() else { return ToolReturnValue::error("the turn has ended") };
        let key = turn.key;
        let Some(output) = turn.output.as_deref_mut() else { return ToolReturnValue::error("the turn has ended") };
        let refusal = ToolReturnValue::error(output.run.refusal(&errors));
        if !output.run.reject(text, errors) {
            let error = Error::from(output.run.invalid());
            // The answer to the call is sent first.
            self.exhausted = Some(Box::new((key, error)));
        }
        refusal
    }

    /// Cancels the turn if its attempts are exhausted.
    pub(super) fn end_exhausted(&mut self, now: Instant) {
        if let Some(exhausted) = self.exhausted.take() {
            let (key, error) = *exhausted;
            self.cancel_with(key, Some(error), now);
        }
    }

    /// Returns whether this is the key of a check of the program.
    pub(super) fn is_output_check(&self, key: RequestKey) -> bool {
        let output = self.turn.as_ref().and_then(|turn| turn.output.as_ref());
        output.is_some_and(|output| {
            output.calls.contains_key(&key) || output.answer.as_ref().is_some_and(|answer| answer.key == key)
        })
    }

    /// Handles the outcome of a check of the program: the violations, or the failure of the check. A late outcome is
    /// ignored.
    pub fn output_checked(&mut self, key: RequestKey, outcome: Result<Vec<OutputError>, String>, now: Instant) {
        if !self.is_output_check(key) {
            return;
        }
        let errors = outcome.unwrap_or_else(|message| {
            self.report_failed_check(key, &message);
            vec![OutputError::new("", format!("the check of the value failed: {message}"))]
        });
        let Some(output) = self.output_mut() else { return };
        if let Some((value, text)) = output.calls.remove(&key) {
            let result = if errors.is_empty() {
                output.run.accept(value);
                accepted()
            } else {
                self.reject_call(&text, errors)
            };
            self.answer(key, &Answer::Tool(result), now);
            return self.end_exhausted(now);
        }
        let Some(answer) = output.answer.take() else { return };
        if let Some(turn) = &mut self.turn {
            turn.last_activity = now;
        }
        if errors.is_empty() {
            if let Some(output) = self.output_mut() {
                output.run.accept(answer.value);
            }
            return self.finish(TurnStatus::Finished, answer.steps, now);
        }
        self.ask_again(&answer.text, errors, answer.steps, now);
    }

    fn report_failed_check(&mut self, key: RequestKey, message: &str) {
        let (request_id, tool_call) = self.requests.call_of(key);
        self.log_failure(&HandlerKind::Output, None, message);
        if let Some(turn) = &mut self.turn {
            turn.record.failed(HandlerKind::Output, tool_call, message);
        }
        self.report_failure(HandlerKind::Output, None, request_id, message.to_owned());
    }

    /// Returns whether the turn still needs a value.
    pub(super) fn lacks_output(&self) -> bool {
        let output = self.turn.as_ref().and_then(|turn| turn.output.as_ref());
        output.is_some_and(|output| !output.run.has_value())
    }

    /// Returns whether the end of a prompt is not the end of the turn, because the value is missing or not checked yet.
    pub(super) fn continue_for_output(&mut self, steps: Option<i64>, now: Instant) -> bool {
        let key = self.next_key;
        let Some(turn) = self.turn.as_deref_mut() else { return false };
        let (turn_key, text) = (turn.key, turn.text.as_str());
        let Some(output) = turn.output.as_deref_mut() else { return false };
        match output.run.read_answer(text) {
            Ok(value) if output.is_checked => {
                let text = text.to_owned();
                output.answer = Some(CheckedAnswer { key, value: value.clone(), text, steps });
                self.next_key += 1;
                self.outputs.push_back(Output::CheckOutput { key, turn: turn_key, value });
                true
            }
            Ok(value) => {
                output.run.accept(value);
                false
            }
            Err(errors) => {
                let text = text.to_owned();
                self.ask_again(&text, errors, steps, now);
                true
            }
        }
    }

    /// Sends a prompt that asks for the value again, or ends the turn if its attempts are exhausted.
    fn ask_again(&mut self, text: &str, errors: Vec<OutputError>, steps: Option<i64>, now: Instant) {
        let Some(output) = self.output_mut() else { return };
        if !output.run.reject(text, errors) {
            let error = Error::from(output.run.invalid());
            return self.finish_with(TurnStatus::Finished, steps, Some(error), now);
        }
        let follow_up = output.run.follow_up();
        match self.prepare(Call::Prompt(follow_up.as_str().into())) {
            Ok(call) => {
                let call = self.send(call);
                let reports_begin = self.dialect.reports_turn_begin();
                if let Some(turn) = &mut self.turn {
                    self.tool_calls.clear(Some(&mut turn.record));
                    turn.begin_follow_up(call, steps, now);
                    if let Some(output) = &mut turn.output {
                        output.awaits_begin = reports_begin;
                        output.held_end = None;
                    }
                    self.outputs.push_back(Output::PromptSent { turn: turn.key });
                }
                let size = follow_up.len();
                self.emit(SteerInput { user_input: follow_up.into(), extra: Default::default() }.into(), size);
            }
            Err(error) => self.finish_with(TurnStatus::Finished, steps, Some(error), now),
        }
    }

    /// Returns whether the agent has ended the turn, and the program checks its value.
    pub(super) fn is_checking_answer(&self) -> bool {
        let output = self.turn.as_ref().and_then(|turn| turn.output.as_ref());
        output.is_some_and(|output| output.answer.is_some())
    }

    /// Ends a turn whose answer the program checks, without the value.
    pub(super) fn end_checked_turn(&mut self, failure: Option<Error>, now: Instant) {
        let Some(answer) = self.output_mut().and_then(|output| output.answer.take()) else { return };
        self.outputs.push_back(Output::Withdrawn(answer.key));
        self.finish_with(TurnStatus::Cancelled, answer.steps, failure, now);
    }

    /// Answers a call of the tool in place of a handler. Returns `true` if the program checks the value.
    pub(super) fn dispatch_output(
        &mut self,
        key: RequestKey,
        reply_to: &mut ReplyTo,
        scope: Scope,
        (call, cancelling): (&ToolCallRequest, bool),
        now: Instant,
    ) -> bool {
        match self.take_output(key, call, cancelling) {
            Taken::Unchecked(value) => {
                let turn: TurnKey = match scope {
                    Scope::Turn(turn, _) => turn,
                    _ => 0,
                };
                self.outputs.push_back(Output::CheckOutput { key, turn, value });
                true
            }
            Taken::Answered(result) => {
                let reply_to = std::mem::replace(reply_to, ReplyTo::Answered);
                let answer = Answer::Tool(result);
                let decided = Decided::at_once(&call.id, &HandlerKind::Output, Decider::Sdk, &answer);
                self.record_decision(Decided { tool_call: Some(&call.id), ..decided });
                self.send_answer(reply_to, &call.id, &answer);
                self.end_exhausted(now);
                false
            }
        }
    }
}

fn accepted() -> ToolReturnValue {
    ToolReturnValue::ok("The result is accepted.")
}
