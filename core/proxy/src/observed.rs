//! A session that the client has opened, as the connection of the SDK follows it. The connection merges tool calls, asks the
//! rules and counts for budgets, as in a session of the SDK. Its own lines for the agent are discarded, unless they are decisions.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kimi_agent_client::proxied::{SessionTrace, rules};
use kimi_agent_client::{Approval, Error};
use kimi_agent_protocol::connection::{
    AnswerSource, AnswerSources, Connection, Output, RequestKey, Timing, TurnKey, TurnLimits,
};
use kimi_agent_protocol::dialect::{Acp, Answer, InitializeParams, Services};
use kimi_agent_protocol::jsonrpc::{self, Message, RpcFailure};
use kimi_agent_protocol::messages::{
    Event, PolicyDecision, PolicyOutcome, ServerInfo, TerminalResult, ToolCallInfo, UnknownEvent,
};
use kimi_agent_protocol::recording::Side;
use serde_json::value::RawValue;

use crate::day::{self, DayShare};
use crate::settings::Limits;
use crate::tape::Tape;

/// No deadline of the connection is reached: the client has its own.
const NEVER: Duration = Duration::from_secs(1 << 30);
/// The limit of calls of a turn that are remembered because the agent has asked about them.
const MAX_ASKED: usize = 10_000;
/// The limit of the id of such a call, in bytes.
const MAX_ID: usize = 4 << 10;

/// A session of the client.
pub(crate) struct Observed {
    pub(crate) connection: Connection,
    limits: Limits,
    last_turn: TurnKey,
    /// The prompts that the agent has not answered: the key of the client's id, and the turn. Prompts during a turn belong to it.
    prompts: Vec<(String, TurnKey)>,
    /// The id of the prompt of the connection, as JSON text.
    number: Option<String>,
    /// The turn whose cancel the user knows.
    announced: Option<TurnKey>,
    /// The calls of the turn that the agent has asked about.
    asked: HashMap<String, AskedCall>,
    /// Random, so that an agent cannot look for two calls with the same hash.
    hasher: RandomState,
    tape: Option<Tape>,
    trace: Option<SessionTrace>,
    day: Option<DayShare>,
}

/// A call that the agent has asked about.
#[derive(Debug)]
struct AskedCall {
    /// The hash of the arguments, because an agent can ask about many large ones.
    arguments: u64,
    is_rejected: bool,
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct EndedCall {
    id: String,
    call: Option<ToolCallInfo>,
    is_error: bool,
}

/// What the connection reports after something has happened.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// Lines for the agent: decisions, and a cancel.
    pub(crate) sent: Vec<u8>,
    /// Requests for the user.
    pub(crate) asks: Vec<(RequestKey, Event)>,
    /// Requests that need no answer any more.
    pub(crate) withdrawn: Vec<RequestKey>,
    /// Decisions of the rules.
    pub(crate) decisions: Vec<PolicyDecision>,
    pub(crate) ended_calls: Vec<EndedCall>,
    /// There was an update about a call that cannot be read.
    pub(crate) has_unreadable_call: bool,
    /// The error with which the last turn has ended.
    pub(crate) failure: Option<Error>,
    /// The session cannot be followed any more.
    pub(crate) fatal: Option<Error>,
}

impl Reported {
    /// Returns the reason for the user if the rules deny.
    pub(crate) fn denial(&self) -> Option<String> {
        let denied = self.decisions.iter().find(|decision| decision.decision == PolicyOutcome::Deny)?;
        Some(reason_of(denied))
    }
}

/// Returns the reason of a decision, for people.
pub(crate) fn reason_of(decision: &PolicyDecision) -> String {
    let reason = decision.reason.as_ref().or(decision.rule.as_ref());
    reason.cloned().unwrap_or_else(|| format!("no rule allows {}", decision.tool_call.name))
}

impl Observed {
    /// Begins to follow a session.
    pub(crate) fn new(
        session: &str,
        work_dir: PathBuf,
        server: Option<ServerInfo>,
        limits: Limits,
        tape: Option<Tape>,
        trace: Option<SessionTrace>,
        now: Instant,
    ) -> Self {
        let sources = AnswerSources {
            approval: AnswerSource::Handler,
            question: AnswerSource::Handler,
            services: Services { read_file: true, write_file: true, terminal: true },
            rules: rules(limits.policies.clone(), work_dir.clone()),
            observed: true,
            ..AnswerSources::default()
        };
        let timing = Timing { handshake: NEVER, cancel: NEVER, answer: NEVER, turn: None, idle: None, quiet: None };
        let mut connection = Connection::new(Box::new(Acp::observing(session, work_dir, server)), timing, sources);
        if let Some(budget) = limits.session_budget {
            connection.set_session_budget(budget);
        }
        if let Some(tape) = &tape {
            connection.set_recorder(tape.of_connection());
        }
        if let Some(trace) = &trace {
            trace.attach(&mut connection);
        }
        connection.open(InitializeParams::default(), now);
        let mut observed = Self {
            connection,
            limits,
            last_turn: 0,
            prompts: Vec::new(),
            number: None,
            announced: None,
            asked: HashMap::new(),
            hasher: RandomState::new(),
            tape,
            trace,
            day: None,
        };
        observed.report();
        observed
    }

    /// Begins to count for the budget of the day, if there is one: in this file, or in the user's.
    ///
    /// # Errors
    /// The user has no folder for the file.
    pub(crate) fn share_day(&mut self, file: Option<&Path>) -> Result<(), Error> {
        let Some(budget) = self.limits.day_budget else { return Ok(()) };
        let path = file.map_or_else(day::user_file, |file| Ok(file.to_owned()));
        let path = path.map_err(|error| Error::Unsupported(format!("the day's budget cannot be counted: {error}")))?;
        self.connection.set_day_budget(budget);
        self.day = Some(DayShare::new(path));
        Ok(())
    }

    /// Counts what the session has used today. While a turn runs, only now and then, unless `always`.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn count_day(&mut self, always: bool, now: Instant) -> Result<Reported, String> {
        let Some(day) = &mut self.day else { return Ok(Reported::default()) };
        let used = self.connection.used(now);
        if !always && !day.is_due(&used, now) {
            return Ok(Reported::default());
        }
        let others = day.count(used, now)?;
        self.connection.set_used_elsewhere(others, now);
        Ok(self.report())
    }

    /// Whether a turn runs.
    pub(crate) fn has_turn(&self) -> bool {
        !self.prompts.is_empty()
    }

    /// Whether rules decide about the calls of the session.
    pub(crate) fn has_rules(&self) -> bool {
        !self.limits.policies.is_empty()
    }

    /// Records lines that were written to the agent.
    pub(crate) fn record_sent(&self, lines: &[u8], now: Instant) {
        if let Some(tape) = &self.tape {
            tape.lines(Side::Sdk, lines, now);
        }
    }

    /// Records a line of the agent.
    pub(crate) fn record_line(&self, line: &[u8], now: Instant) {
        if let Some(tape) = &self.tape {
            tape.lines(Side::Agent, line, now);
        }
    }

    /// Takes what the connection reports.
    pub(crate) fn report(&mut self) -> Reported {
        let mut reported = Reported::default();
        while let Some(output) = self.connection.poll_output() {
            match output {
                Output::Event { event, .. } => take_event(*event, &mut reported),
                Output::Ask { key, request, .. } => reported.asks.push((key, *request)),
                Output::Withdrawn(key) => reported.withdrawn.push(key),
                Output::TurnEnded { outcome, .. } => {
                    reported.failure = outcome.err();
                    self.asked.clear();
                }
                Output::FatalError(error) => reported.fatal = Some(error),
                _ => {}
            }
        }
        if self.connection.is_closed() && reported.fatal.is_none() {
            reported.fatal = Some(Error::session_closed());
        }
        for line in self.connection.poll_transmit().split_inclusive(|byte| *byte == b'\n') {
            match jsonrpc::parse(line.strip_suffix(b"\n").unwrap_or(line)) {
                // The client has sent the prompt itself.
                Message::Request { id, method, .. } if method == "session/prompt" => self.number = Some(id.to_owned()),
                _ => reported.sent.extend_from_slice(line),
            }
        }
        reported
    }

    /// Begins a turn with a prompt of the client.
    ///
    /// # Errors
    /// The reason why the turn must not begin, for example the budget of the session that is used up.
    pub(crate) fn prompt(&mut self, key: String, text: String, now: Instant) -> Result<Reported, Error> {
        if let Some((_, turn)) = self.prompts.last().filter(|_| self.connection.cancelling().is_none()) {
            self.prompts.push((key, *turn));
            return Ok(Reported::default());
        }
        // Without a turn nothing can be cancelled.
        self.count_day(true, now).map_err(Error::Unsupported)?;
        self.last_turn += 1;
        if let Some(trace) = &self.trace {
            trace.begin(&mut self.connection, self.last_turn, &text);
        }
        let limits = TurnLimits { budget: self.limits.turn_budget, ..TurnLimits::default() };
        self.connection.prompt_for(self.last_turn, text.into(), limits, None, now);
        let mut reported = self.report();
        if let Some(error) = reported.failure.take() {
            return Err(error);
        }
        self.prompts.push((key, self.last_turn));
        Ok(reported)
    }

    /// Takes the agent's answer to a prompt of the client. It ends the turn if no other prompt of the turn is open.
    pub(crate) fn prompt_answered(
        &mut self,
        key: &str,
        outcome: &Result<&RawValue, RpcFailure>,
        now: Instant,
    ) -> Reported {
        let Some(place) = self.prompts.iter().position(|(open, _)| open == key) else { return Reported::default() };
        let (_, turn) = self.prompts.remove(place);
        let is_last = self.prompts.iter().all(|(_, other)| *other != turn);
        let Some(id) = self.number.take_if(|_| is_last) else { return Reported::default() };
        let line = match outcome {
            Ok(result) => jsonrpc::answer(&id, result),
            Err(failure) => jsonrpc::refusal(&id, failure),
        };
        self.connection.handle_line(line.strip_suffix(b"\n").unwrap_or(&line), now);
        self.report()
    }

    /// Cancels the turn.
    pub(crate) fn cancel(&mut self, now: Instant) -> Reported {
        if let Some((_, turn)) = self.prompts.last() {
            self.connection.cancel(*turn, now);
            self.announced = Some(*turn);
        }
        self.report()
    }

    /// Returns why the connection has cancelled the turn, once.
    pub(crate) fn new_cancel(&mut self) -> Option<String> {
        let (turn, error) = self.connection.cancel_reason()?;
        (self.announced != Some(turn)).then(|| {
            let text = error.to_string();
            self.announced = Some(turn);
            text
        })
    }

    /// Answers a request, as the client has or as the guard does.
    pub(crate) fn answer(&mut self, key: RequestKey, answer: &Answer, now: Instant) -> Reported {
        self.connection.answer(key, answer, now);
        self.report()
    }

    /// Rejects a request for this reason.
    pub(crate) fn reject(&mut self, key: RequestKey, is_question: bool, now: Instant) -> Reported {
        let answer =
            if is_question { Answer::Question(None) } else { Answer::Approval(Approval::Reject { feedback: None }) };
        self.answer(key, &answer, now)
    }

    /// Ends a request for a file or a terminal, which the client has answered. The content of the answer does not matter here.
    pub(crate) fn served(&mut self, key: RequestKey, service: &Service, now: Instant) {
        if let Some(tape) = &self.tape {
            tape.mute(true);
        }
        let answer = match service {
            Service::ReadFile => Answer::ReadFile(None),
            Service::WriteFile => Answer::WriteFile,
            Service::Terminal(_) => Answer::Terminal(TerminalResult::new("", 0)),
        };
        self.connection.answer(key, &answer, now);
        if let Service::Terminal(id) = service {
            self.connection.release_terminal(id);
        }
        self.report();
        if let Some(tape) = &self.tape {
            tape.mute(false);
        }
    }

    /// Notes that the agent has asked about a call, or that the call was rejected.
    pub(crate) fn note_asked(&mut self, call: &ToolCallInfo, is_rejected: bool) {
        // A call that is not remembered counts as one without a request.
        if call.id.len() <= MAX_ID && (self.asked.len() < MAX_ASKED || self.asked.contains_key(&call.id)) {
            let arguments = self.hasher.hash_one(&call.arguments);
            self.asked.insert(call.id.clone(), AskedCall { arguments, is_rejected });
        }
    }

    /// Notes that a call which the agent has asked about was rejected.
    pub(crate) fn note_rejected(&mut self, call: &str) {
        if let Some(asked) = self.asked.get_mut(call) {
            asked.is_rejected = true;
        }
    }

    /// Whether a call that breaks the rules cancels the turn.
    fn enforces_calls(&self) -> bool {
        self.limits.enforces_calls && self.has_rules() && self.has_turn() && self.connection.cancelling().is_none()
    }

    /// Returns the reason if the agent has reported a call that broke the rules, or one that cannot be judged.
    pub(crate) fn breach(&self, reported: &Reported) -> Option<String> {
        let unreadable = reported.has_unreadable_call && self.enforces_calls();
        let unreadable = unreadable.then(|| "the agent reported a call that cannot be read".to_owned());
        unreadable.or_else(|| reported.ended_calls.iter().find_map(|ended| self.breach_of(ended)))
    }

    /// Returns the reason if an ended call broke the rules: it ran although the agent has not asked about it, or not with these
    /// arguments, or although it was rejected.
    fn breach_of(&self, ended: &EndedCall) -> Option<String> {
        if !self.enforces_calls() {
            return None;
        }
        let Some(call) = &ended.call else {
            return Some(format!("the agent ran a call that it has not described: {}", ended.id));
        };
        match self.asked.get(&ended.id) {
            None => {
                let decision = self.connection.breach_of_ended(call)?;
                Some(format!("the agent ran {} without asking: {}", shown(call), reason_of(&decision)))
            }
            Some(asked) if asked.is_rejected => {
                (!ended.is_error).then(|| format!("the agent ran {} although it was rejected", shown(call)))
            }
            Some(asked) if asked.arguments != self.hasher.hash_one(&call.arguments) => {
                let reason = self.connection.breach_of_approved(call)?;
                Some(format!("the agent ran {} with other arguments than it asked about: {reason}", shown(call)))
            }
            Some(_) => None,
        }
    }

    /// Ends the recording.
    pub(crate) fn close(mut self, reason: &Error) {
        if let Err(problem) = self.count_day(true, Instant::now()) {
            tracing::warn!(problem, "the budget of the day is not counted");
        }
        self.connection.close(reason);
        self.report();
        self.connection.end_recording();
    }
}

/// A service of the client that the agent uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    ReadFile,
    WriteFile,
    /// With the id of the terminal in the connection.
    Terminal(String),
}

impl Service {
    /// Returns the service of a request.
    pub(crate) fn of(request: &Event) -> Option<Self> {
        match request {
            Event::ReadFileRequest(_) => Some(Self::ReadFile),
            Event::WriteFileRequest(_) => Some(Self::WriteFile),
            Event::TerminalRequest(request) => Some(Self::Terminal(request.id.clone())),
            _ => None,
        }
    }
}

/// Returns a call as texts for the user name it.
fn shown(call: &ToolCallInfo) -> String {
    let command = call.arguments.as_ref().and_then(|arguments| arguments.get("command")?.as_str());
    let text = command.unwrap_or(&call.name);
    let short: String = text.chars().take(200).collect();
    format!("`{}`", kimi_agent_protocol::printable::printable_line(&short))
}

fn take_event(event: Event, reported: &mut Reported) {
    match event {
        Event::PolicyDecision(decision) => reported.decisions.push(decision),
        Event::ToolResult(result) => reported.ended_calls.push(EndedCall {
            call: result.tool_call.get().cloned(),
            is_error: result.return_value.is_error,
            id: result.tool_call_id,
        }),
        Event::SubagentEvent(subagent) => take_event(*subagent.event, reported),
        Event::Unknown(UnknownEvent { kind, error: Some(_), .. })
            if kind == "tool_call" || kind == "tool_call_update" =>
        {
            reported.has_unreadable_call = true;
        }
        _ => {}
    }
}
