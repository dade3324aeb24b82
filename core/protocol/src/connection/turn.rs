//! Turns: how a turn begins, what the connection counts during the turn, and how it ends.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::output::{ActiveOutput, TurnOutput};
use super::result::{PromptResult, TurnStatus};
use super::tool_calls::{Record, is_unfinished};
use super::{Connection, Output, Phase, SHOWN, Timing};
use crate::budget::{Budget, Spent};
use crate::dialect::Call;
use crate::dialect::shape::Shapes;
use crate::error::local_error;
use crate::error::{Error, Result, RpcErrorKind};
use crate::json::object;
use crate::messages::{
    Content, ContentPart, Event, Json, MESSAGE_BREAK, Messages, Plan, TokenUsage, TurnBegin, TurnEnd,
};
use crate::recording::{CallKind, Entry, RecordsEntry};
use crate::turn_records::TurnReport;

/// The limit of a step's text in a result, in bytes. No model writes as much in a step.
const MAX_TEXT: usize = 4 << 20;
/// The limit with structured output, whose value can be in the text.
const MAX_OUTPUT_TEXT: usize = 64 << 20;

/// While the session closes: how long the end of a turn may take after the agent has confirmed its cancel. Real agents
/// need milliseconds, or never report the end.
const CONFIRMED: Duration = Duration::from_secs(1);

/// How long the answer to the prompt may take after the agent has reported the turn's end. Real agents need
/// milliseconds.
const ENDING: Duration = Duration::from_secs(5);

/// The key of one of the session's turns.
pub type TurnKey = u64;

/// The deadlines of one turn, which override the session's deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TurnLimits {
    /// The time for the turn. `None`: the session's `turn_timeout`.
    pub turn: Option<Duration>,
    /// The longest time without a message from the agent. `None`: the session's `idle_timeout`.
    pub idle: Option<Duration>,
    /// How much the turn may use.
    pub budget: Option<Budget>,
}

/// The step that an event belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTag {
    /// A number that is unique in the turn. The agent's numbers start again when a `Stop` hook makes it continue.
    pub index: u32,
    /// The agent's number.
    pub n: i64,
}

/// A turn that is being cancelled.
#[derive(Debug)]
pub(super) struct Cancelling {
    since: Instant,
    deadline: Instant,
    /// The agent's error, if it has answered the cancel with one.
    refused: Option<Error>,
    /// The cancel's own call. A late answer to an earlier cancel does not concern this turn.
    call: Option<u64>,
    /// The agent has confirmed the cancel, but may not have answered the prompt.
    acknowledged: bool,
    /// The turn's outcome if a deadline or a budget, and not the program, ended the turn.
    failure: Option<Error>,
}

impl Cancelling {
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }
}

/// The agent's answer to the prompt.
#[derive(Debug)]
struct Answered {
    status: TurnStatus,
    steps: Option<i64>,
    /// How long to wait for the agent's records of the turn, or for late text.
    deadline: Instant,
}

#[derive(Debug)]
pub(super) struct ActiveTurn {
    pub(super) key: TurnKey,
    pub(super) step: StepTag,
    /// All that budgets count but the time, which the method of this name adds.
    pub(super) spent: Spent,
    pub(super) last_activity: Instant,
    /// Whether the log says that the agent has been quiet.
    pub(super) is_quiet_logged: bool,
    pub(super) cancel: Option<Cancelling>,
    pub(super) limits: TurnLimits,
    /// The prompt's call. A late answer to an earlier prompt must not end this turn.
    call: u64,
    pub(super) began: Instant,
    /// When a budget of seconds is exceeded.
    budget_deadline: Option<Instant>,
    steps: i64,
    pub(super) text: String,
    /// The messages of the text.
    messages: Messages,
    /// The last text of an earlier step.
    former_text: String,
    /// The number of bytes of the text that are left out.
    cut: usize,
    /// Whether the agent reports its steps.
    reports_steps: bool,
    /// Why the turn ended, in the agent's word.
    stop_reason: Option<String>,
    ended: bool,
    /// Since when only the answer to the prompt is missing.
    ending: Option<Instant>,
    /// The agent has answered the prompt, and its records of the turn are being read.
    answered: Option<Answered>,
    /// Its tool calls, rejections and failures.
    pub(super) record: Record,
    /// The structured output that the turn must return.
    pub(super) output: Option<Box<ActiveOutput>>,
    /// The steps of the prompts before a follow-up.
    pub(super) prior_steps: i64,
    /// Whether it was cancelled after the agent had ended it.
    is_left: bool,
    /// The last plan of the agent.
    pub(super) plan: Option<Box<Plan>>,
    /// The shapes of the pieces of its texts.
    pub(super) shapes: Shapes,
}

#[derive(Debug)]
pub(super) struct QueuedPrompt {
    pub(super) key: TurnKey,
    input: Content,
    limits: TurnLimits,
    output: Option<TurnOutput>,
}

impl ActiveTurn {
    /// Returns what the turn has used so far.
    pub(super) fn spent(&self, now: Instant) -> Spent {
        Spent { time: now.duration_since(self.began), ..self.spent.clone() }
    }

    /// Counts what the outcome reports.
    pub(super) fn observe(&mut self, event: &Event) {
        self.spent.observe(event);
        match event {
            Event::StepBegin(step) => {
                // Events before the first step's begin belong to that step.
                if self.steps > 0 || self.prior_steps > 0 {
                    self.step.index += 1;
                }
                self.step.n = step.n;
                self.steps += 1;
                self.begin_text();
            }
            Event::ContentPart(ContentPart::Text(part)) => {
                if self.messages.is_next(part) {
                    self.take_text(MESSAGE_BREAK);
                }
                self.take_text(&part.text);
            }
            Event::ToolResult(result) if !self.reports_steps && !is_unfinished(result) => self.begin_text(),
            Event::Plan(plan) => self.take_plan(plan),
            Event::TurnEnd(_) => self.ended = true,
            _ => {}
        }
    }

    /// The text so far is not the result, unless the turn is ended before it says more.
    fn begin_text(&mut self) {
        let text = self.text();
        if !text.is_empty() {
            self.former_text = text;
        }
        self.cut = 0;
        self.messages = Messages::default();
    }

    pub(super) fn take_text(&mut self, text: &str) {
        // Text after a cut is left out, too.
        let limit = if self.output.is_some() { MAX_OUTPUT_TEXT } else { MAX_TEXT };
        let room = if self.cut == 0 { limit - self.text.len() } else { 0 };
        let mut kept = room.min(text.len());
        while !text.is_char_boundary(kept) {
            kept -= 1;
        }
        self.text.push_str(&text[..kept]);
        self.cut += text.len() - kept;
    }

    /// Continues with a further prompt. `steps` is the number of the last prompt's, if the agent reported it.
    pub(super) fn begin_follow_up(&mut self, call: u64, steps: Option<i64>, now: Instant) {
        self.prior_steps = self.prior_steps.saturating_add(steps.unwrap_or(self.steps));
        self.call = call;
        self.steps = 0;
        self.stop_reason = None;
        self.ended = false;
        self.ending = None;
        self.last_activity = now;
        self.begin_text();
    }

    /// Returns the text of the last step.
    fn text(&mut self) -> String {
        let mut text = std::mem::take(&mut self.text);
        if self.cut > 0 {
            text.push_str(&format!("\n[… {} more bytes]", self.cut));
        }
        text
    }

    pub(super) fn next_deadline(&self, timing: &Timing, agent_waits: bool) -> Option<Instant> {
        if let Some(answered) = &self.answered {
            return Some(answered.deadline);
        }
        let ending = self.ending_deadline();
        if let Some(cancel) = &self.cancel {
            return Some(ending.map_or(cancel.deadline, |ending| ending.min(cancel.deadline)));
        }
        let turn = self.limits.turn.or(timing.turn).map(|limit| self.began + limit);
        // An agent that waits for the program is not idle.
        let idle = self.limits.idle.or(timing.idle).filter(|_| !agent_waits).map(|limit| self.last_activity + limit);
        let quiet = self.quiet_deadline(timing, agent_waits);
        turn.into_iter().chain(idle).chain(quiet).chain(ending).chain(self.budget_deadline).min()
    }

    /// Returns when the log says that the agent has been quiet.
    pub(super) fn quiet_deadline(&self, timing: &Timing, agent_waits: bool) -> Option<Instant> {
        let is_due = !agent_waits && !self.is_quiet_logged && self.is_open();
        timing.quiet.filter(|_| is_due).map(|limit| self.last_activity + limit)
    }

    /// Whether it is neither cancelled nor answered.
    pub(super) fn is_open(&self) -> bool {
        self.cancel.is_none() && self.answered.is_none()
    }

    fn ending_deadline(&self) -> Option<Instant> {
        self.ending.map(|since| since + ENDING)
    }
}

/// Calls `found` with the token counts in an event, also in a subagent's.
pub(super) fn for_each_usage(event: &Event, found: &mut dyn FnMut(&TokenUsage)) {
    match event {
        Event::StatusUpdate(update) => {
            if let Some(usage) = &update.token_usage {
                found(usage);
            }
        }
        Event::SubagentEvent(subagent) => for_each_usage(&subagent.event, found),
        _ => {}
    }
}

impl Connection {
    /// Begins a turn, or queues it behind one that is being cancelled.
    #[cfg(any(test, fuzzing))]
    pub fn prompt(&mut self, key: TurnKey, input: Content, now: Instant) {
        self.prompt_within(key, input, TurnLimits::default(), now);
    }

    /// Begins a turn with deadlines of its own, or queues it behind one that is being cancelled.
    #[cfg(any(test, fuzzing))]
    pub fn prompt_within(&mut self, key: TurnKey, input: Content, limits: TurnLimits, now: Instant) {
        self.prompt_for(key, input, limits, None, now);
    }

    /// Begins a turn that has deadlines of its own, and returns structured output, or queues it behind one that is being
    /// cancelled.
    pub fn prompt_for(
        &mut self,
        key: TurnKey,
        input: Content,
        limits: TurnLimits,
        output: Option<TurnOutput>,
        now: Instant,
    ) {
        self.record_prompt(key, &input, &limits, output.as_ref());
        let refusal = match (&self.phase, &self.turn) {
            (Phase::Closed(reason), _) => Some((**reason).clone()),
            (_, Some(turn)) if turn.cancel.is_none() || self.queued.is_some() => Some(local_error(
                RpcErrorKind::TurnInProgress,
                "a turn is running; wait for its result, cancel it, or leave it before you prompt again",
            )),
            _ if self.replay.is_some() => Some(local_error(
                RpcErrorKind::TurnInProgress,
                "a replay is running; read it to its end before you prompt",
            )),
            _ => None,
        };
        if let Some(error) = refusal {
            self.outputs.push_back(Output::TurnEnded { turn: key, outcome: Err(error) });
        } else if let Some(exceeded) = self.session_budget_exceeded() {
            self.outputs.push_back(Output::TurnEnded { turn: key, outcome: Err(exceeded) });
        } else if self.turn.is_some() {
            self.queued = Some(Box::new(QueuedPrompt { key, input, limits, output }));
        } else {
            self.begin(QueuedPrompt { key, input, limits, output }, now);
        }
    }

    fn begin(&mut self, QueuedPrompt { key, input, limits, output }: QueuedPrompt, now: Instant) {
        let output = output.map(|output| Box::new(ActiveOutput::new(output)));
        let input = match &output {
            Some(output) => output.run().instructed(input),
            None => input,
        };
        let budget_deadline = self.budget_deadline(&limits, now);
        let unannounced = Some(&input).filter(|_| !self.dialect.reports_turn_begin()).cloned();
        self.pass_trace(key);
        match self.prepare(Call::Prompt(input)) {
            Ok(call) => {
                let call = self.send(call);
                self.requests.forget_resolved();
                self.approved.iter_mut().for_each(|approved| approved.forget_once());
                self.turn = Some(Box::new(ActiveTurn {
                    key,
                    step: StepTag { index: 0, n: 1 },
                    spent: Spent::default(),
                    last_activity: now,
                    is_quiet_logged: false,
                    cancel: None,
                    limits,
                    call,
                    began: now,
                    budget_deadline,
                    steps: 0,
                    text: String::new(),
                    messages: Messages::default(),
                    former_text: String::new(),
                    cut: 0,
                    reports_steps: self.dialect.reports_steps(),
                    stop_reason: None,
                    ended: false,
                    ending: None,
                    answered: None,
                    record: Record::default(),
                    output,
                    prior_steps: 0,
                    is_left: false,
                    plan: None,
                    shapes: Shapes::default(),
                }));
                if let Some(user_input) = unannounced {
                    let begin = TurnBegin { user_input, synthesized: Some(true), extra: Default::default() };
                    self.emit(begin.into(), 64);
                }
            }
            Err(error) => self.outputs.push_back(Output::TurnEnded { turn: key, outcome: Err(error) }),
        }
    }

    /// Cancels a turn. It ends by the agent's answer, or by a deadline.
    pub fn cancel(&mut self, key: TurnKey, now: Instant) {
        self.record_call(CallKind::Cancel, Some(key), Vec::new);
        self.cancel_with(key, None, now);
    }

    pub(super) fn cancel_with(&mut self, key: TurnKey, failure: Option<Error>, now: Instant) {
        if self.queued.as_ref().is_some_and(|queued| queued.key == key) {
            self.queued = None;
            let result = PromptResult::empty(TurnStatus::Cancelled);
            self.outputs
                .push_back(Output::TurnEnded { turn: key, outcome: failure.map_or_else(|| Ok(Box::new(result)), Err) });
            return;
        }
        if self.turn.as_ref().is_some_and(|turn| turn.key == key && turn.answered.is_some()) {
            // The agent has ended the turn, so nothing is left to cancel.
            if let Some(turn) = &mut self.turn {
                turn.is_left = true;
            }
            return self.handle_records(key, None, now);
        }
        if self.turn.as_ref().is_some_and(|turn| turn.key == key) && self.is_checking_answer() {
            return self.end_checked_turn(failure, now);
        }
        match &mut self.turn {
            Some(turn) if turn.key == key && turn.cancel.is_none() => {
                let deadline = now + self.timing.cancel;
                turn.cancel =
                    Some(Cancelling { since: now, deadline, refused: None, call: None, acknowledged: false, failure });
            }
            _ => return,
        }
        // The agent resolves its own requests.
        self.withdraw_of_turn();
        let sent = self.prepare(Call::Cancel).map(|call| self.send(call));
        let cancel = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut());
        match (sent, cancel) {
            (Ok(call), Some(cancel)) => cancel.call = Some(call),
            (Err(error), _) => tracing::warn!(%error, "the cancel could not be sent"),
            _ => {}
        }
    }

    /// Shortens the time for the end of a cancelled turn, because the session closes.
    pub fn begin_closing(&mut self, limit: Duration, now: Instant) {
        self.record_call(CallKind::Close, None, || vec![("timeout", limit.as_secs_f64().into())]);
        self.is_closing = true;
        self.end_answered_turn();
        let Some(cancel) = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut()) else { return };
        let limit = if cancel.acknowledged { limit.min(CONFIRMED) } else { limit };
        cancel.deadline = cancel.deadline.min(now + limit);
    }

    pub(super) fn cancel_answered(&mut self, call: u64, outcome: Result<Json>, now: Instant) {
        let cancel = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut());
        let Some(cancel) = cancel.filter(|cancel| cancel.call == Some(call)) else { return };
        match outcome {
            Ok(_) => cancel.acknowledged = true,
            // The turn ended before the cancel arrived. The response to its prompt follows.
            Err(Error::Rpc(error)) if error.kind == RpcErrorKind::NoActiveTurn => cancel.acknowledged = true,
            Err(error) => {
                tracing::warn!(%error, "the agent refuses to cancel");
                cancel.deadline = now;
                cancel.refused = Some(error);
            }
        }
        if self.is_closing {
            cancel.deadline = cancel.deadline.min(now + CONFIRMED);
        }
    }

    pub(super) fn prompt_answered(&mut self, call: u64, outcome: Result<Json>, now: Instant) {
        if self.turn.as_ref().is_none_or(|turn| turn.call != call) {
            tracing::debug!("late answer to a prompt ignored");
            return;
        }
        #[derive(Deserialize)]
        #[serde(expecting = "an object with a `status`")]
        struct Answer {
            status: String,
            stop_reason: Option<String>,
            steps: Option<i64>,
        }
        let outcome = outcome.and_then(|result| {
            object::<Answer>(result.get()).map_err(|error| {
                // The reason may quote the unreadable value, whose length is not limited.
                let [reason, answer]: [String; 2] =
                    [&*error.to_string(), result.get()].map(|text| text.chars().take(SHOWN).collect());
                Error::Protocol(format!(
                    "the agent's answer to `prompt` can't be read: {reason}: {answer}; the turn has ended, and the session \
                     can still be used"
                ).into())
            })
        });
        match outcome {
            Ok(Answer { status: word, stop_reason, steps }) => {
                let status = TurnStatus::named(&word).unwrap_or_else(|| {
                    tracing::warn!(reason = self.shown(&word), "the turn ended for a reason that is not known");
                    TurnStatus::Finished
                });
                if let Some(turn) = &mut self.turn {
                    // Empty if the agent gave no reason.
                    turn.stop_reason = Some(stop_reason.unwrap_or(word)).filter(|reason| !reason.is_empty());
                }
                self.answered(status, steps, now);
            }
            // The program has cancelled the turn, and the agent reports that as an error.
            Err(Error::Rpc(error)) if self.is_cancelling() && error.says_cancelled() => {
                self.finish(TurnStatus::Cancelled, None, now);
            }
            Err(error) => {
                self.fail_turn(error, now);
            }
        }
    }

    fn is_cancelling(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.cancel.is_some())
    }

    /// Delivers what tool calls have shown that have not ended with the turn.
    pub(super) fn end_tool_calls(&mut self, is_failure: bool, now: Instant) {
        if self.turn.is_none() {
            return;
        }
        for (event, size) in self.dialect.unfinished_results(is_failure) {
            self.deliver_half();
            let mut event = Box::new(event);
            let added = self.add_tool_call(&mut event, now);
            self.process_event(&event);
            self.push_event(event, size + added);
        }
        self.dialect.forget_tool_calls();
    }

    /// Handles the agent's answer that the turn has ended. Its records may have more details.
    fn answered(&mut self, status: TurnStatus, steps: Option<i64>, now: Instant) {
        let records = self.records_timeout.filter(|_| self.dialect.keeps_turn_records());
        let wait = records.or_else(|| self.dialect.late_text()).filter(|_| !self.is_closing);
        let (Some(wait), Some(turn)) = (wait, &mut self.turn) else { return self.finish(status, steps, now) };
        turn.answered = Some(Answered { status, steps, deadline: now + wait });
        if records.is_some() {
            self.outputs.push_back(Output::ReadRecords { turn: turn.key });
        }
        self.withdraw_of_turn();
    }

    /// Ends the turn if the agent has ended it, without the agent's records.
    pub(super) fn end_answered_turn(&mut self) {
        let answered = self.turn.as_ref().and_then(|turn| Some((turn.key, turn.answered.as_ref()?.deadline)));
        if let Some((key, deadline)) = answered {
            self.handle_records(key, None, deadline);
        }
    }

    /// Handles the agent's records of a turn. `None` if the records say nothing about it.
    pub fn handle_records(&mut self, key: TurnKey, report: Option<TurnReport>, now: Instant) {
        if self.dialect.keeps_turn_records() {
            self.record(|| Entry::Records(RecordsEntry { turn: key, report: report.clone() }));
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.key == key) else { return };
        let Some(Answered { status, steps, .. }) = turn.answered.take() else { return };
        let Some(TurnReport { steps: counted, usage, failure }) = report else {
            return self.finish(status, steps, now);
        };
        turn.spent.usage += &usage;
        let all = counted.saturating_add(turn.prior_steps);
        turn.spent.steps = turn.spent.steps.max(u64::try_from(all).unwrap_or_default());
        self.usage += &usage;
        if let Some(price) = self.price() {
            self.cost_estimated(price.of(&usage));
        }
        self.report_status();
        match failure {
            Some(failure) if status == TurnStatus::Finished && !failure.is_max_steps() => {
                let error = self.advised(failure.into_error());
                self.fail_turn(error, now);
            }
            Some(_) if status == TurnStatus::Finished => self.finish(TurnStatus::MaxStepsReached, Some(counted), now),
            _ => self.finish(status, Some(counted), now),
        }
    }

    /// Ends a turn with an error of the agent, unless the turn was cancelled for another reason.
    fn fail_turn(&mut self, error: Error, now: Instant) {
        self.end_tool_calls(true, now);
        let failure = self.take_failure(now).unwrap_or(error);
        let failure = match self.take_result(TurnStatus::Cancelled, None, true) {
            Some(result) => failure.with_result(result),
            None => failure,
        };
        self.end_turn(Err(failure), now);
    }

    /// Why the turn fails, whatever the agent says: what cancelled the turn, or a budget that its end has exceeded.
    fn take_failure(&mut self, now: Instant) -> Option<Error> {
        match &mut self.turn.as_mut()?.cancel {
            Some(cancel) => cancel.failure.take(),
            None => self.exceeded(now),
        }
    }

    pub(super) fn finish(&mut self, status: TurnStatus, steps: Option<i64>, now: Instant) {
        self.end_tool_calls(status == TurnStatus::Cancelled, now);
        let failure = self.take_failure(now);
        if status != TurnStatus::Finished || failure.is_some() || !self.lacks_output() {
            return self.finish_with(status, steps, failure, now);
        }
        let may_continue = self.turn.as_ref().is_some_and(|turn| turn.cancel.is_none() && !turn.is_left);
        if !may_continue || self.is_closing {
            // A cancelled turn asks for nothing more, and without its value it is not a success.
            return self.finish_with(TurnStatus::Cancelled, steps, None, now);
        }
        self.withdraw_of_turn();
        if !self.continue_for_output(steps, now) {
            self.finish_with(status, steps, None, now);
        }
    }

    /// Ends a turn, with the error that ended it, if one did.
    pub(super) fn finish_with(&mut self, status: TurnStatus, steps: Option<i64>, failure: Option<Error>, now: Instant) {
        self.end_tool_calls(failure.is_some() || status == TurnStatus::Cancelled, now);
        self.deliver_half();
        let Some(turn) = &mut self.turn else { return };
        if !turn.ended {
            turn.ended = true;
            let end = TurnEnd { synthesized: Some(true), extra: Default::default() };
            self.emit(end.into(), 64);
        }
        self.withdraw_of_turn();
        let Some(result) = self.take_result(status, steps, failure.is_some()) else { return };
        let outcome = match failure {
            Some(failure) => Err(failure.with_result(result)),
            None => Ok(result),
        };
        self.end_turn(outcome, now);
    }

    /// Returns what the turn has come to. `is_cut_short`: a budget has ended it, perhaps between two texts.
    pub(super) fn take_result(
        &mut self,
        status: TurnStatus,
        steps: Option<i64>,
        is_cut_short: bool,
    ) -> Option<PromptResult> {
        self.deliver_half();
        let turn = self.turn.as_mut()?;
        self.tool_calls.clear(Some(&mut turn.record));
        let Record { tool_calls, rejected, handler_failures, .. } = std::mem::take(&mut turn.record);
        Some(PromptResult {
            status,
            stop_reason: turn.stop_reason.take(),
            steps: turn.prior_steps.saturating_add(steps.unwrap_or(turn.steps)),
            output: turn.output.as_mut().and_then(|output| output.take_value()),
            text: if is_cut_short && turn.text.is_empty() {
                std::mem::take(&mut turn.former_text)
            } else {
                turn.text()
            },
            usage: turn.spent.usage.clone(),
            tool_calls,
            rejected,
            handler_failures,
            plan: turn.plan.take().map(|plan| *plan),
            cost: turn.spent.cost.cost(),
        })
    }

    fn end_turn(&mut self, outcome: Result<PromptResult>, now: Instant) {
        self.withdraw_of_turn();
        self.push_held_end();
        let Some(turn) = self.turn.take() else { return };
        if outcome.is_ok() {
            self.warn_of_unknown_cost(&turn);
        }
        if let Some(session) = &mut self.session_budget {
            session.spent.add(&turn.spent(now));
        }
        self.tool_calls.clear(None);
        self.outputs.push_back(Output::TurnEnded { turn: turn.key, outcome: outcome.map(Box::new) });
        if let Some(queued) = self.queued.take() {
            self.begin(*queued, now);
        }
    }

    /// Notes since when only the answer to the prompt is missing.
    pub(super) fn note_ending(&mut self, now: Instant) {
        if let Some(turn) = &mut self.turn {
            turn.ending = self.dialect.is_turn_ending().then(|| turn.ending.unwrap_or(now));
        }
    }

    pub(super) fn turn_deadline(&mut self, now: Instant) {
        if self.turn.as_ref().and_then(|turn| turn.ending_deadline()).is_some_and(|deadline| now >= deadline) {
            let incoming = self.dialect.end_overdue_turn();
            self.handle_incoming(incoming, b"", now);
            self.note_ending(now);
        }
        let Some(turn) = &self.turn else { return };
        if turn.next_deadline(&self.timing, self.agent_waits()).is_none_or(|deadline| now < deadline) {
            return;
        }
        let key = turn.key;
        if turn.answered.is_some() {
            return self.handle_records(key, None, now);
        }
        match &turn.cancel {
            Some(cancel) if cancel.acknowledged => {
                // Real agents up to 1.8 never answer a prompt that was cancelled during an approval, but continue to
                // work.
                let call = turn.call;
                self.forget_call(call);
                self.finish(TurnStatus::Cancelled, None, now);
            }
            Some(cancel) => {
                // Less than `cancel_timeout` if the session closes meanwhile.
                let waited = cancel.deadline.duration_since(cancel.since).as_millis().try_into().unwrap_or(u64::MAX);
                let waited = Duration::from_millis(waited);
                // The first sentence alone: the rest says that the session can still be used.
                let told = cancel.failure.as_ref().map(|failure| {
                    let text = failure.to_string();
                    format!("{}; then ", text.split_once("; ").map_or(text.as_str(), |(problem, _)| problem))
                });
                let told = told.unwrap_or_default();
                let what = match &cancel.refused {
                    Some(error) => format!("refused the cancel ({error})"),
                    None => format!("did not answer the cancel within {waited:?}"),
                };
                let error = Error::Timeout(format!(
                    "{told}the agent {what}, and the session is closed; open another one with the same `session_id`, or \
                     raise `cancel_timeout`"
                ).into());
                self.outputs.push_back(Output::FatalError(error.clone()));
                self.close(&error);
            }
            None => {
                if let Some(error) = self.exceeded(now) {
                    return self.cancel_with(key, Some(error), now);
                }
                let idle = turn.limits.idle.or(self.timing.idle).unwrap_or_default();
                let (what, limit) = match (turn.limits.turn, self.timing.turn) {
                    (Some(limit), _) if now >= turn.began + limit => {
                        ("the turn took longer than the prompt's `timeout` allows", limit)
                    }
                    (None, Some(limit)) if now >= turn.began + limit => {
                        ("the turn took longer than `turn_timeout` allows", limit)
                    }
                    _ => ("the agent sent nothing for longer than `idle_timeout` allows", idle),
                };
                let error = format!(
                    "{what} ({limit:?}), and the turn was cancelled; the session can still be used: prompt again, or \
                     raise the option"
                );
                self.cancel_with(key, Some(Error::Timeout(error.into())), now);
            }
        }
    }
}
