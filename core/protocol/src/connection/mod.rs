//! The protocol's state machine of one session, without I/O and without a clock.
//!
//! # Contract
//! A driver owns the connection and the pipes:
//! - It passes in what happens with the `handle_*` methods, and what the program wants with the other methods
//!   ([`Connection::open`], [`Connection::prompt_for`], [`Connection::answer`], …). The present time is an argument.
//! - After each of these calls it drains [`Connection::poll_output`] and writes the bytes of
//!   [`Connection::poll_transmit`]. The connection reports in no other way.
//! - It calls [`Connection::handle_timeout`] at the time that [`Connection::poll_timeout`] returns, which each call can
//!   change.
//!
//! # Guarantees
//! - Outputs come in the order of the lines that caused them.
//! - A turn ends exactly once, by [`Output::TurnEnded`]: by the prompt's response, by a deadline, or with the
//!   connection. Nothing of a turn comes after its end.
//! - Every call ends exactly once, by [`Output::CallEnded`]; every request of the agent's is answered at most once.
//! - A call, a turn, a request is registered before the bytes that may be answered are handed out.

mod approvals;
mod budget;
mod calls;
mod cost;
mod displayed;
mod events;
mod granted;
mod halves;
mod held;
mod invalid_lines;
mod observed;
mod opening;
mod output;
mod pieces;
mod plan;
mod policy;
mod recording;
mod replay;
mod requests;
mod result;
mod shown;
mod status;
mod telemetry;
mod terminals;
mod text_run;
mod timers;
mod tool_calls;
mod turn;
mod warnings;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use calls::PendingCall;
use events::decides;
pub use output::{OutputTool, TurnOutput};
pub use policy::{POLICY_HOOK, ToolRules, strictness};
pub use requests::{AnswerSource, AnswerSources, ManualAnswer, RequestKey, RequestRef};
pub use result::{PromptResult, TurnStatus};
pub use status::StatusChange;
pub use text_run::TextRun;
use tool_calls::ToolCalls;
pub(crate) use tool_calls::{EARLIER_TURN, LATE, is_late};
pub use tool_calls::{HandlerFailure, RejectedApproval, RejectedBy, ToolCallRecord};
use turn::{ActiveTurn, QueuedPrompt};
pub use turn::{StepTag, TurnKey, TurnLimits};

use crate::dialect::{Call, ConfigOption, Dialect, Handshake, Incoming};
use crate::error::{Error, Result};
use crate::jsonrpc::relayed::has_repeated_names;
use crate::jsonrpc::{self, Message};
use crate::messages::{Event, Json, SlashCommand, StatusUpdate, TokenUsage, ToolReturnValue};
use crate::printable::printable_line;
use crate::recording::{Recorder, Side};
use crate::repeats::Repeats;
use crate::telemetry::Tracker;

/// The target of the log records that show each message between the SDK and the agent, at the level `trace`.
pub const WIRE: &str = "kimi_agent.wire";

/// The connection's key of one of its calls.
pub type CallKey = u64;

/// Deadlines that the connection keeps.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The time for the handshake.
    pub handshake: Duration,
    /// The time for a cancelled turn to end.
    pub cancel: Duration,
    /// The time for calls that an agent answers without work.
    pub answer: Duration,
    /// The time for a turn. `None` for no limit.
    pub turn: Option<Duration>,
    /// The longest time in a turn without a message from the agent. `None` for no limit.
    pub idle: Option<Duration>,
    /// After this time in a turn without a message from the agent, the log says what the agent is busy with. `None`: never.
    pub quiet: Option<Duration>,
}

/// The scope of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The turn that is running.
    Turn(TurnKey, StepTag),
    /// A replay.
    Replay(CallKey),
    /// Neither: the session's own events.
    Outside,
}

/// An instruction or a report of the connection to its driver.
#[derive(Debug)]
pub enum Output {
    /// The handshake has ended.
    Opened(Result<Box<Handshake>>),
    /// An event.
    Event {
        /// The scope of the event.
        scope: Scope,
        /// The event.
        event: Box<Event>,
        /// The approximate size of the event in memory, in bytes.
        size: usize,
    },
    /// Parts of the answer of a turn that have nothing but their texts: [`Connection::pass_texts`].
    Texts {
        /// The turn.
        turn: TurnKey,
        /// The step of the turn.
        step: StepTag,
        /// The texts.
        texts: TextRun,
    },
    /// The status or the token counts have changed. It comes before the event that changed them.
    StatusChanged(Box<StatusChange>),
    /// The agent has sent a new list of the commands that a prompt may begin with.
    CommandsChanged(Vec<SlashCommand>),
    /// The options of the session that can be set, as they are now.
    ConfigChanged(Arc<Vec<ConfigOption>>),
    /// A handler is to answer this request. The connection continues meanwhile.
    Ask {
        /// The key for [`Connection::answer`].
        key: RequestKey,
        /// The scope of the request.
        scope: Scope,
        /// The request.
        request: Box<Event>,
    },
    /// The program is to check a value of structured output. The connection continues meanwhile.
    CheckOutput {
        /// The key for [`Connection::output_checked`].
        key: RequestKey,
        /// The turn.
        turn: TurnKey,
        /// The value, which matches the schema.
        value: serde_json::Value,
    },
    /// The turn continues with a further prompt, which asks for its structured output.
    PromptSent {
        /// The turn.
        turn: TurnKey,
    },
    /// The request no longer needs an answer.
    Withdrawn(RequestKey),
    /// The agent has ended the turn. The driver passes its records to [`Connection::handle_records`].
    ReadRecords {
        /// The turn.
        turn: TurnKey,
    },
    /// The result of a tool that was called with [`Connection::call_tool`].
    ToolAnswered {
        /// The key that [`Connection::call_tool`] returned.
        key: RequestKey,
        /// The result of the tool.
        result: Box<ToolReturnValue>,
    },
    /// A call has ended.
    CallEnded {
        /// The call.
        call: CallKey,
        /// The result of the call, or its error.
        outcome: Result<Json>,
    },
    /// A turn has ended.
    TurnEnded {
        /// The turn.
        turn: TurnKey,
        /// The result of the turn, or the error that ended it.
        outcome: Result<Box<PromptResult>>,
    },
    /// The session cannot continue: the driver must end the agent.
    FatalError(Error),
}

// Each is moved into a queue and out of it, so a rare variant must not make all of them larger.
const _: () = assert!(size_of::<Output>() <= 112);

#[derive(Debug)]
enum Phase {
    New,
    Opening(Box<Opening>),
    Open,
    Closed(Box<Error>),
}

#[derive(Debug)]
struct Opening {
    deadline: Instant,
    /// How much of the past of a session has come late, and since when no more has come.
    past: Option<(u64, Instant)>,
    /// The first invalid lines, for errors.
    invalid_lines: Vec<String>,
}

/// The state of one connection.
pub struct Connection {
    /// The number of this connection, unique in this process.
    number: u64,
    dialect: Box<dyn Dialect>,
    timing: Timing,
    sources: AnswerSources,
    phase: Phase,
    next_key: u64,
    calls: HashMap<String, PendingCall>,
    requests: requests::Requests,
    tool_calls: ToolCalls,
    approved: Option<Box<policy::ApprovedCalls>>,
    terminals: terminals::Terminals,
    /// The warnings that have been logged; each is logged once.
    warned: Option<Box<Warned>>,
    /// Boxed, as are a queued prompt and the replay, because an idle session has none of them.
    turn: Option<Box<ActiveTurn>>,
    queued: Option<Box<QueuedPrompt>>,
    replay: Option<Box<replay::Replaying>>,
    /// Whether the agent's lines are read at the moment; false while the queues are full.
    is_reading: bool,
    is_closing: bool,
    /// Whether a decision depends on the line that is being handled, and the line has a member twice. Programs differ in which one they
    /// take.
    is_unclear: bool,
    /// Whether parts of the answer can be outputs without an event.
    passes_texts: bool,
    /// Half of a character at the end of the last piece of a text.
    half: Option<Box<halves::Halves>>,
    transmit: Vec<u8>,
    outputs: VecDeque<Output>,
    /// `None` before the first update.
    status: Option<Arc<StatusUpdate>>,
    usage: TokenUsage,
    /// `None` before the first one.
    invalid_lines: Option<Box<invalid_lines::InvalidLines>>,
    repeats: Repeats,
    /// The option `model`, for hints in errors.
    model: Option<Box<str>>,
    /// How long the end of a turn waits for the agent's records of it. `None` if the records are not read.
    records_timeout: Option<Duration>,
    session_budget: Option<Box<budget::SessionBudget>>,
    /// The cost of the session, once the program has set prices or the agent has reported a cost.
    cost: Option<Box<cost::SessionCost>>,
    /// The turn whose attempts at structured output are exhausted, and its error, until it is cancelled.
    exhausted: Option<Box<(TurnKey, Error)>>,
    /// Boxed twice, because most sessions have none.
    recorder: Option<Box<Box<dyn Recorder>>>,
    telemetry: Option<Box<Tracker>>,
}

/// The kinds of warnings, with the names that they are about.
type Warned = BTreeSet<(String, Option<String>)>;

/// The number of bytes of an invalid line that errors and logs show.
const SHOWN: usize = 400;

impl Connection {
    /// Makes a connection that is not open yet.
    pub fn new(dialect: Box<dyn Dialect>, timing: Timing, sources: AnswerSources) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            dialect,
            timing,
            sources,
            phase: Phase::New,
            next_key: 1,
            calls: HashMap::new(),
            requests: requests::Requests::default(),
            tool_calls: ToolCalls::default(),
            approved: None,
            terminals: terminals::Terminals::default(),
            warned: None,
            turn: None,
            queued: None,
            replay: None,
            is_reading: true,
            is_closing: false,
            is_unclear: false,
            passes_texts: false,
            half: None,
            transmit: Vec::new(),
            outputs: VecDeque::new(),
            status: None,
            usage: TokenUsage::default(),
            invalid_lines: None,
            repeats: Repeats::default(),
            model: None,
            records_timeout: None,
            session_budget: None,
            cost: None,
            exhausted: None,
            recorder: None,
            telemetry: None,
        }
    }

    /// Makes each turn's end wait for the agent's records of the turn, if the agent writes records.
    pub fn set_records_timeout(&mut self, timeout: Duration) {
        self.records_timeout = Some(timeout);
    }

    /// Returns whether one process can have several sessions of this protocol.
    pub fn shares_processes(&self) -> bool {
        self.dialect.shares_processes()
    }

    /// Sets the id of the next call, if ids are numbers.
    pub fn set_first_id(&mut self, first: u64) {
        self.dialect.set_first_id(first);
    }

    /// Returns whether a call awaits its answer.
    pub fn awaits_answer(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Ends what the agent has open, because this connection leaves a process that continues.
    pub fn leave(&mut self) {
        let bytes = self.dialect.leave();
        if !bytes.is_empty() {
            self.transmit(bytes);
        }
        self.leave_terminals();
    }

    /// Returns the next output, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        let mut output = self.outputs.pop_front()?;
        if let Output::Opened(Err(error))
        | Output::FatalError(error)
        | Output::CallEnded { outcome: Err(error), .. }
        | Output::TurnEnded { outcome: Err(error), .. } = &mut output
        {
            error.mask(&self.sources.secrets);
        }
        if self.recorder.is_some() {
            self.record_output(&output);
        }
        if self.telemetry.is_some() {
            self.trace_output(&output);
        }
        Some(output)
    }

    /// Takes the bytes to write to the agent; empty if there are none.
    pub fn poll_transmit(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.transmit)
    }

    /// Returns how many bytes [`poll_transmit`](Self::poll_transmit) returns next.
    pub fn unsent(&self) -> usize {
        self.transmit.len()
    }

    /// Queues bytes to write.
    fn transmit(&mut self, bytes: Vec<u8>) {
        if tracing::enabled!(target: WIRE, tracing::Level::TRACE) {
            self.show('>', &bytes);
        }
        self.record_sent(&bytes);
        if self.transmit.is_empty() {
            self.transmit = bytes;
        } else {
            self.transmit.extend_from_slice(&bytes);
        }
    }

    /// Frees the memory that a turn needed, if no turn is running.
    pub fn release(&mut self) {
        if self.turn.is_none() && self.outputs.is_empty() {
            self.outputs = VecDeque::new();
        }
    }

    /// Returns the agent's status, merged from all its updates.
    #[cfg(any(test, fuzzing))]
    pub fn status(&self) -> Option<&StatusUpdate> {
        self.status.as_deref()
    }

    /// Returns all tokens of the session so far.
    #[cfg(any(test, fuzzing))]
    pub fn usage(&self) -> &TokenUsage {
        &self.usage
    }

    fn new_key(&mut self) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        key
    }

    /// Handles a line from the agent.
    pub fn handle_line(&mut self, line: &[u8], now: Instant) {
        if !self.handle_piece(line, now) && !line.iter().all(u8::is_ascii_whitespace) {
            self.handle_message(jsonrpc::read(line, &mut None), line, now);
        }
    }

    /// Handles a message from the agent; `line` is the line that it was read from.
    pub fn handle_message(&mut self, message: Message<'_>, line: &[u8], now: Instant) {
        if self.is_closed() {
            return;
        }
        self.note_line(line, !matches!(message, Message::Invalid(_)), now);
        let is_stateless = self.dialect.is_text_stateless();
        let mut incoming = self.dialect.read(message);
        if self.is_activity(&incoming) {
            self.note_activity(now);
        }
        if let (Incoming::Event(event), Some(turn)) = (&mut incoming, &mut self.turn)
            && is_stateless
        {
            turn.shapes.learn(line, event);
        }
        self.is_unclear = decides(&incoming) && std::str::from_utf8(line).is_ok_and(has_repeated_names);
        self.handle_incoming(incoming, line, now);
        self.is_unclear = false;
        self.note_handled(now);
    }

    /// Notes that a line has come, before it is handled.
    fn note_line(&mut self, line: &[u8], is_message: bool, now: Instant) {
        if tracing::enabled!(target: WIRE, tracing::Level::TRACE) {
            self.show('<', line);
        }
        if let Some(recorder) = &mut self.recorder {
            // A mark of the byte order before the object is not JSON.
            recorder.message(now, Side::Agent, line, is_message && line.starts_with(b"{"));
        }
    }

    /// Does what each line can require, after it was handled.
    fn note_handled(&mut self, now: Instant) {
        self.note_past(now);
        self.note_ending(now);
        self.check_budgets(now);
    }

    /// Logs messages as they are on the wire: `>` to the agent, `<` from it. Values of options that may be secrets are
    /// replaced.
    #[cold]
    fn show(&self, direction: char, lines: &[u8]) {
        const LONGEST: usize = 1 << 20;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let shown = self.sources.secrets.shown(line, LONGEST);
            match line.len().saturating_sub(LONGEST) {
                0 => tracing::trace!(target: WIRE, "{direction} {shown}"),
                more => tracing::trace!(target: WIRE, "{direction} {shown} [… {more} more bytes]"),
            }
        }
    }

    /// Returns the beginning of a text of the agent as logs show it: in one line, without values that may be secrets.
    fn shown(&self, text: &str) -> String {
        printable_line(&self.sources.secrets.shown(text.as_bytes(), SHOWN)).into_owned()
    }

    /// Returns the turn that is being cancelled.
    pub fn cancelling(&self) -> Option<TurnKey> {
        self.turn.as_ref().filter(|turn| turn.cancel.is_some()).map(|turn| turn.key)
    }

    /// Returns whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed(_))
    }

    /// Closes the connection: every pending call, turn and request fails with this reason at once.
    pub fn close(&mut self, reason: &Error) {
        if self.is_closed() {
            return;
        }
        let queued = self.queued.take();
        self.end_answered_turn();
        self.queued = queued;
        if matches!(self.phase, Phase::Opening(_) | Phase::New) {
            self.outputs.push_back(Output::Opened(Err(reason.clone())));
        }
        self.phase = Phase::Closed(Box::new(reason.clone()));
        let unreported = self.invalid_lines.as_mut().map_or(0, |lines| lines.take_unreported());
        if unreported > 0 {
            tracing::warn!(count = unreported, "more invalid lines dropped");
        }
        let mut calls: Vec<_> = std::mem::take(&mut self.calls).into_values().collect();
        calls.sort_by_key(|pending| pending.key);
        for pending in calls {
            if !matches!(pending.call, Call::Prompt(_) | Call::Cancel | Call::Initialize(_)) {
                self.outputs.push_back(Output::CallEnded { call: pending.key, outcome: Err(reason.clone()) });
            }
        }
        self.replay = None;
        for key in self.requests.withdraw_all() {
            self.outputs.push_back(Output::Withdrawn(key));
        }
        self.terminals = terminals::Terminals::default();
        if let Some(began) = self.turn.as_ref().map(|turn| turn.last_activity) {
            self.end_tool_calls(true, began);
        }
        self.deliver_half();
        self.push_held_end();
        let result = self.take_result(TurnStatus::Cancelled, None, true);
        if let Some(turn) = self.turn.take() {
            let error = match result {
                Some(result) => reason.clone().with_result(result),
                None => reason.clone(),
            };
            self.outputs.push_back(Output::TurnEnded { turn: turn.key, outcome: Err(error) });
        }
        if let Some(queued) = self.queued.take() {
            self.outputs.push_back(Output::TurnEnded { turn: queued.key, outcome: Err(reason.clone()) });
        }
    }
}

#[cfg(test)]
mod tests;
