//! Turns: how a turn begins, what the connection counts during the turn, and how it ends.

use std::time::{Duration, Instant};

use serde::Deserialize;

pub(super) use self::cancel::Cancelling;
use super::output::{ActiveOutput, TurnOutput};
use super::result::TurnStatus;
use super::tool_calls::{EARLIER_TURN, Record, is_unfinished};
use super::{Connection, Output, Phase, SHOWN};
use crate::budget::{Budget, Spent};
use crate::dialect::Call;
use crate::dialect::ends::status_of;
use crate::dialect::shape::Shapes;
use crate::error::{Error, Result, RpcErrorKind, local_error};
use crate::json::object;
use crate::messages::{Content, ContentPart, Event, Json, MESSAGE_BREAK, Messages, Plan, TokenUsage, TurnBegin};
use crate::recording::{Entry, RecordsEntry};
use crate::turn_records::TurnReport;

mod cancel;
mod deadlines;
mod ending;

/// The limit of a step's text in a result, in bytes. No model writes as much in a step.
const MAX_TEXT: usize = 4 << 20;
/// The limit with structured output, whose value can be in the text.
const MAX_OUTPUT_TEXT: usize = 64 << 20;

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
    /// Whether the next text begins the text anew, because a tool call has ended.
    has_call_ended: bool,
    /// Whether a tool call has begun since the text began. Text after its result belongs to another message.
    has_call_begun: bool,
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
                self.continue_text(&part.text, part.message_id.as_deref());
                if self.messages.is_next(part) {
                    self.take_text(MESSAGE_BREAK);
                }
                self.take_text(&part.text);
            }
            Event::ToolCall(call) if !self.reports_steps && call.extra.get("synthesized").is_none() => {
                self.has_call_begun |= !self.text.is_empty();
            }
            Event::ToolResult(result) if !self.reports_steps && !is_unfinished(result) => {
                // The text so far is not about the result of another turn's call.
                let is_of_this_turn = result.tool_call.get().is_some() && result.extra.get(EARLIER_TURN).is_none();
                self.has_call_ended |= is_of_this_turn;
            }
            Event::Plan(plan) => self.take_plan(plan),
            Event::TurnEnd(_) => self.ended = true,
            _ => {}
        }
    }

    /// Begins the text anew if a tool call has ended since the text so far, and this piece is not part of the same message.
    pub(super) fn continue_text(&mut self, piece: &str, message: Option<&str>) {
        if let Some(cancel) = self.cancel.as_mut().filter(|_| !piece.is_empty()) {
            cancel.note_text();
        }
        let is_other = self.has_call_begun || !self.messages.continues(message);
        if !piece.is_empty() && std::mem::take(&mut self.has_call_ended) && is_other {
            self.begin_text();
        }
    }

    /// The text so far is not the result, unless the turn is ended before it says more.
    fn begin_text(&mut self) {
        (self.has_call_ended, self.has_call_begun) = (false, false);
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

    /// Whether it is neither cancelled nor answered.
    pub(super) fn is_open(&self) -> bool {
        self.cancel.is_none() && self.answered.is_none()
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
                    has_call_ended: false,
                    has_call_begun: false,
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

    pub(super) fn prompt_answered(&mut self, call: u64, outcome: Result<Json>, now: Instant) {
        if self.turn.as_ref().is_none_or(|turn| turn.call != call) {
            tracing::debug!("late answer to a prompt ignored");
            return;
        }
        #[derive(Deserialize)]
        #[serde(expecting = "an object with a `status`")]
        struct Answer {
            status: Option<String>,
            stop_reason: Option<String>,
            steps: Option<i64>,
        }
        let outcome = outcome.and_then(|result| {
            let answer = if result.get() == "null" { "{}" } else { result.get() };
            // Some agents answer with the word alone.
            if let Ok(word) = result.decode::<String>() {
                return Ok(Answer { status: Some(word), stop_reason: None, steps: None });
            }
            object::<Answer>(answer).map_err(|error| {
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
                let status = word.as_deref().and_then(status_of).unwrap_or_else(|| match &word {
                    // A program that has cancelled the turn expects no other end.
                    _ if self.is_cancelling() => TurnStatus::Cancelled,
                    Some(word) => {
                        tracing::warn!(reason = self.shown(word), "the turn ended for a reason that is not known");
                        TurnStatus::Finished
                    }
                    None => {
                        tracing::warn!("the agent ended the turn without a status");
                        TurnStatus::Finished
                    }
                });
                // Some agents end a turn that they have stopped as if it were complete.
                let cancel = self.turn.as_ref().and_then(|turn| turn.cancel.as_ref());
                let is_stopped = cancel.is_some_and(Cancelling::has_ended_turn);
                let status = if status == TurnStatus::Finished && is_stopped { TurnStatus::Cancelled } else { status };
                if let Some(turn) = &mut self.turn {
                    // Empty if the agent gave no reason.
                    turn.stop_reason = stop_reason.or(word).filter(|reason| !reason.is_empty());
                }
                self.answered(status, steps.filter(|steps| *steps >= 0), now);
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
}
