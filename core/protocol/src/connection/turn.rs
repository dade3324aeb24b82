//! Turns: how one begins, what is counted of it, and the ways it ends.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::tool_calls::{HandlerFailure, Record, RejectedApproval, ToolCallRecord};
use super::{Connection, Output, Phase, SHOWN, Timing};
use crate::dialect::Call;
use crate::error::local_error;
use crate::error::{Error, Result, RpcErrorKind};
use crate::wire::value::object;
use crate::wire::{Content, ContentPart, Event, Json, TokenUsage, TurnBegin, TurnEnd};

/// How much text of a step a result holds; no model says as much at once.
const MAX_TEXT: usize = 4 << 20;

/// While the session closes: how long the end of a turn may take whose cancel the agent has confirmed. Real agents
/// need milliseconds, or never tell.
const CONFIRMED: Duration = Duration::from_secs(1);

/// One of the session's turns.
pub type TurnKey = u64;

/// The deadlines of one turn, which override the session's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnLimits {
    pub turn: Option<Duration>,
    pub idle: Option<Duration>,
}

/// The step that an event belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTag {
    /// Counts on where the agent's numbers start anew, as they do when a `Stop` hook sends it back to work.
    pub index: u32,
    /// The agent's number.
    pub n: i64,
}

/// How a turn came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnStatus {
    /// The agent has said what it had to say.
    Finished,
    /// It was cancelled.
    Cancelled,
    /// It ran into its limit of steps.
    MaxStepsReached,
}

impl TurnStatus {
    /// The word for it: `finished`, `cancelled`, `max_steps_reached`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::MaxStepsReached => "max_steps_reached",
        }
    }
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptResult {
    /// How it came to its end.
    pub status: TurnStatus,
    /// How many steps it took.
    pub steps: i64,
    /// The text of the last step. Beyond 4 MiB it is cut, and ends with a line that says so: `[… 123 more bytes]`.
    pub text: String,
    /// The tokens that it took, those of subagents included.
    pub usage: TokenUsage,
    /// The tool calls of the turn in order, those of subagents included. At most the first 10,000; their arguments and outputs
    /// together take at most 4 MiB, and what does not fit is left out of the list's entries.
    pub tool_calls: Vec<ToolCallRecord>,
    /// The approvals that were rejected, in order; at most the first 1,000.
    pub rejected: Vec<RejectedApproval>,
    /// The handlers that failed while the turn ran, in order; at most the first 1,000.
    pub handler_failures: Vec<HandlerFailure>,
}

impl PromptResult {
    /// The result of a turn in which nothing happened.
    pub fn empty(status: TurnStatus) -> Self {
        Self {
            status,
            steps: 0,
            text: String::new(),
            usage: TokenUsage::default(),
            tool_calls: Vec::new(),
            rejected: Vec::new(),
            handler_failures: Vec::new(),
        }
    }

    /// Makes an error of a turn that did not finish.
    ///
    /// # Errors
    /// [`Error::TurnCancelled`] or [`Error::MaxStepsReached`].
    ///
    /// ```no_run
    /// # use kimi_agent_protocol as kimi_agent;
    /// # struct Turn;
    /// # impl Turn { async fn result(&mut self) -> kimi_agent::Result<kimi_agent::PromptResult> { unimplemented!() } }
    /// # async fn example(turn: &mut Turn) -> kimi_agent::Result<()> {
    /// let text = turn.result().await?.raise_for_status()?.text;
    /// # Ok(()) }
    /// ```
    pub fn raise_for_status(self) -> Result<Self> {
        match self.status {
            TurnStatus::Finished => Ok(self),
            TurnStatus::Cancelled => Err(Error::TurnCancelled),
            TurnStatus::MaxStepsReached => Err(Error::MaxStepsReached { steps: Some(self.steps) }),
        }
    }
}

/// A turn on its way to a cancelled end.
#[derive(Debug)]
pub(super) struct Cancelling {
    since: Instant,
    deadline: Instant,
    /// The agent's error, if it has answered the cancel with one.
    refused: Option<Error>,
    /// The cancel's own call; a late answer to an older one says nothing of this turn.
    call: Option<u64>,
    /// The agent has answered the cancel, if not yet the prompt.
    acknowledged: bool,
    /// Set where a deadline of ours, and not the program, ended the turn: then that is the outcome.
    because: Option<Error>,
}

#[derive(Debug)]
pub(super) struct ActiveTurn {
    pub(super) key: TurnKey,
    pub(super) step: StepTag,
    pub(super) usage: TokenUsage,
    pub(super) last_heard: Instant,
    pub(super) cancel: Option<Cancelling>,
    limits: TurnLimits,
    /// The prompt's call; a late answer to an older one must not end this turn.
    call: u64,
    began: Instant,
    steps: i64,
    text: String,
    /// How much of it is left out.
    cut: usize,
    /// Whether the agent tells of its steps.
    reports_steps: bool,
    ended: bool,
    /// Its tool calls, rejections and failures.
    pub(super) record: Record,
}

#[derive(Debug)]
pub(super) struct QueuedPrompt {
    pub(super) key: TurnKey,
    input: Content,
    limits: TurnLimits,
}

impl ActiveTurn {
    /// Counts what the outcome will tell.
    pub(super) fn observe(&mut self, event: &Event) {
        match event {
            Event::StepBegin(step) => {
                // What came before the first step's begin belongs to that step.
                if self.steps > 0 {
                    self.step.index += 1;
                }
                self.step.n = step.n;
                self.steps += 1;
                self.text.clear();
                self.cut = 0;
            }
            Event::ContentPart(ContentPart::Text(part)) => self.take_text(&part.text),
            Event::ToolResult(_) if !self.reports_steps => {
                self.text.clear();
                self.cut = 0;
            }
            Event::TurnEnd(_) => self.ended = true,
            _ => {}
        }
    }

    fn take_text(&mut self, text: &str) {
        // What comes after a cut is left out, too.
        let room = if self.cut == 0 { MAX_TEXT - self.text.len() } else { 0 };
        let mut kept = room.min(text.len());
        while !text.is_char_boundary(kept) {
            kept -= 1;
        }
        self.text.push_str(&text[..kept]);
        self.cut += text.len() - kept;
    }

    /// The text of the last step.
    fn text(&mut self) -> String {
        let mut text = std::mem::take(&mut self.text);
        if self.cut > 0 {
            text.push_str(&format!("\n[… {} more bytes]", self.cut));
        }
        text
    }

    pub(super) fn next_deadline(&self, timing: &Timing, agent_waits: bool) -> Option<Instant> {
        if let Some(cancel) = &self.cancel {
            return Some(cancel.deadline);
        }
        let turn = self.limits.turn.or(timing.turn).map(|limit| self.began + limit);
        // An agent that waits for the program is not idle.
        let idle = self.limits.idle.or(timing.idle).filter(|_| !agent_waits).map(|limit| self.last_heard + limit);
        turn.into_iter().chain(idle).min()
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

    /// The same with deadlines of its own.
    pub fn prompt_within(&mut self, key: TurnKey, input: Content, limits: TurnLimits, now: Instant) {
        let refusal = match (&self.phase, &self.turn) {
            (Phase::Closed(reason), _) => Some(reason.clone()),
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
        } else if self.turn.is_some() {
            self.queued = Some(QueuedPrompt { key, input, limits });
        } else {
            self.begin(key, input, limits, now);
        }
    }

    fn begin(&mut self, key: TurnKey, input: Content, limits: TurnLimits, now: Instant) {
        let unannounced = Some(&input).filter(|_| !self.dialect.reports_turn_begin()).cloned();
        match self.prepare(Call::Prompt(input)) {
            Ok(call) => {
                let call = self.send(call);
                self.requests.forget_resolved();
                self.turn = Some(Box::new(ActiveTurn {
                    key,
                    step: StepTag { index: 0, n: 1 },
                    usage: TokenUsage::default(),
                    last_heard: now,
                    cancel: None,
                    limits,
                    call,
                    began: now,
                    steps: 0,
                    text: String::new(),
                    cut: 0,
                    reports_steps: self.dialect.reports_steps(),
                    ended: false,
                    record: Record::default(),
                }));
                if let Some(user_input) = unannounced {
                    let begin = TurnBegin { user_input, synthesized: Some(true), extra: Default::default() };
                    self.emit(begin.into(), 64);
                }
            }
            Err(error) => self.outputs.push_back(Output::TurnEnded { turn: key, outcome: Err(error) }),
        }
    }

    /// Cancels a turn; it ends by the agent's answer, or by a deadline.
    pub fn cancel(&mut self, key: TurnKey, now: Instant) {
        self.cancel_because(key, None, now);
    }

    fn cancel_because(&mut self, key: TurnKey, because: Option<Error>, now: Instant) {
        if self.queued.as_ref().is_some_and(|queued| queued.key == key) {
            self.queued = None;
            let result = PromptResult::empty(TurnStatus::Cancelled);
            self.outputs.push_back(Output::TurnEnded { turn: key, outcome: because.map_or(Ok(result), Err) });
            return;
        }
        match &mut self.turn {
            Some(turn) if turn.key == key && turn.cancel.is_none() => {
                let deadline = now + self.timing.cancel;
                turn.cancel =
                    Some(Cancelling { since: now, deadline, refused: None, call: None, acknowledged: false, because });
            }
            _ => return,
        }
        // People need not answer any more; the agent resolves its requests by itself.
        self.withdraw_of_turn();
        let sent = self.prepare(Call::Cancel).map(|call| self.send(call));
        let cancel = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut());
        match (sent, cancel) {
            (Ok(call), Some(cancel)) => cancel.call = Some(call),
            (Err(error), _) => tracing::warn!(%error, "the cancel could not be sent"),
            _ => {}
        }
    }

    /// The session closes: a cancelled turn has no longer than this for its end.
    pub fn hurry(&mut self, limit: Duration, now: Instant) {
        self.hurried = true;
        let Some(cancel) = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut()) else { return };
        let limit = if cancel.acknowledged { limit.min(CONFIRMED) } else { limit };
        cancel.deadline = cancel.deadline.min(now + limit);
    }

    pub(super) fn cancel_answered(&mut self, call: u64, outcome: Result<Json>, now: Instant) {
        let cancel = self.turn.as_mut().and_then(|turn| turn.cancel.as_mut());
        let Some(cancel) = cancel.filter(|cancel| cancel.call == Some(call)) else { return };
        match outcome {
            Ok(_) => cancel.acknowledged = true,
            // The turn ended while the cancel was on its way: its response is on its way, too.
            Err(Error::Rpc(error)) if error.kind == RpcErrorKind::NoActiveTurn => cancel.acknowledged = true,
            Err(error) => {
                tracing::warn!(%error, "the agent refuses to cancel");
                cancel.deadline = now;
                cancel.refused = Some(error);
            }
        }
        if self.hurried {
            cancel.deadline = cancel.deadline.min(now + CONFIRMED);
        }
    }

    pub(super) fn prompt_answered(&mut self, call: u64, outcome: Result<Json>, now: Instant) {
        if self.turn.as_ref().is_none_or(|turn| turn.call != call) {
            tracing::debug!("a prompt that was given up is answered after all");
            return;
        }
        #[derive(Deserialize)]
        #[serde(expecting = "an object with a `status`")]
        struct Answer {
            status: TurnStatus,
            steps: Option<i64>,
        }
        let outcome = outcome.and_then(|result| {
            object::<Answer>(result.get()).map_err(|error| {
                // The reason may quote what it can't read, which has no limit.
                let [reason, answer]: [String; 2] =
                    [&*error.to_string(), result.get()].map(|text| text.chars().take(SHOWN).collect());
                Error::Protocol(format!("the agent's answer to `prompt` can't be read: {reason}: {answer}"))
            })
        });
        match outcome {
            Ok(answer) => self.finish(answer.status, answer.steps, now),
            Err(error) => {
                let because = self.take_because();
                self.end_turn(Err(because.unwrap_or(error)), now);
            }
        }
    }

    fn take_because(&mut self) -> Option<Error> {
        self.turn.as_mut()?.cancel.as_mut()?.because.take()
    }

    fn finish(&mut self, status: TurnStatus, steps: Option<i64>, now: Instant) {
        let Some(turn) = &mut self.turn else { return };
        if !turn.ended {
            turn.ended = true;
            let end = TurnEnd { synthesized: Some(true), extra: Default::default() };
            self.emit(end.into(), 64);
        }
        self.withdraw_of_turn();
        let Some(turn) = &mut self.turn else { return };
        self.tool_calls.clear(Some(&mut turn.record));
        let Record { tool_calls, rejected, handler_failures, .. } = std::mem::take(&mut turn.record);
        let result = PromptResult {
            status,
            steps: steps.unwrap_or(turn.steps),
            text: turn.text(),
            usage: turn.usage.clone(),
            tool_calls,
            rejected,
            handler_failures,
        };
        let because = self.take_because();
        self.end_turn(because.map_or(Ok(result), Err), now);
    }

    fn end_turn(&mut self, outcome: Result<PromptResult>, now: Instant) {
        self.withdraw_of_turn();
        let Some(turn) = self.turn.take() else { return };
        self.tool_calls.clear(None);
        self.outputs.push_back(Output::TurnEnded { turn: turn.key, outcome });
        if let Some(queued) = self.queued.take() {
            self.begin(queued.key, queued.input, queued.limits, now);
        }
    }

    pub(super) fn turn_deadline(&mut self, now: Instant) {
        let Some(turn) = &self.turn else { return };
        if turn.next_deadline(&self.timing, self.agent_waits()).is_none_or(|deadline| now < deadline) {
            return;
        }
        let key = turn.key;
        match &turn.cancel {
            Some(cancel) if cancel.acknowledged => {
                // Real agents up to 1.8 never answer a prompt that is cancelled with an approval pending, yet go on.
                let call = turn.call;
                self.forget_call(call);
                self.finish(TurnStatus::Cancelled, None, now);
            }
            Some(cancel) => {
                // Less than `cancel_timeout` if the session closes meanwhile.
                let waited = cancel.deadline.duration_since(cancel.since).as_millis().try_into().unwrap_or(u64::MAX);
                let waited = Duration::from_millis(waited);
                let told = cancel.because.as_ref().map(|because| format!("{because}; then ")).unwrap_or_default();
                let what = match &cancel.refused {
                    Some(error) => format!("refused the cancel ({error})"),
                    None => format!("did not answer the cancel within {waited:?}"),
                };
                let error = Error::Timeout(format!(
                    "{told}the agent {what}, and the session is closed; open another one with the same `session_id`, or \
                     raise `cancel_timeout`"
                ));
                self.outputs.push_back(Output::Hopeless(error.clone()));
                self.close(&error);
            }
            None => {
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
                self.cancel_because(key, Some(Error::Timeout(error)), now);
            }
        }
    }
}
