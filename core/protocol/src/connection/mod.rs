//! The protocol's state machine, without I/O and without a clock: lines, calls, answers and the present time go in;
//! bytes, [`Output`]s and the next deadline come out.
//!
//! Order and ends, as everything above relies on them:
//! - Outputs come in the order of the lines that caused them.
//! - A turn ends exactly once, by [`Output::TurnEnded`]: by the prompt's response, by a deadline, or with the
//!   connection. Nothing of a turn comes after its end.
//! - Every call ends exactly once, by [`Output::CallEnded`]; every request of the agent's is answered at most once.
//! - A call, a turn, a request is registered before the bytes that may be answered are handed out.

mod calls;
mod invalid_lines;
mod replay;
mod requests;
mod tool_calls;
mod turn;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use calls::PendingCall;
use invalid_lines::Report;
pub use requests::{ManualAnswer, Policy, RequestKey, RequestRef, Who};
pub use tool_calls::{HandlerFailure, RejectedApproval, RejectedBy, ToolCallRecord};
use tool_calls::{Present, ToolCalls};
use turn::{ActiveTurn, QueuedPrompt};
pub use turn::{PromptResult, TurnStatus};
pub use turn::{StepTag, TurnKey, TurnLimits};

use crate::dialect::{Call, Dialect, Handshake, Incoming, InitializeParams, OpeningSession, echo_error};
use crate::error::{AgentExit, Error, Result, RpcErrorKind};
use crate::printable::printable_line;
use crate::wire::jsonrpc::{self, Message, RpcFailure};
use crate::wire::{
    Event, HandlerFailed, HandlerKind, Json, SlashCommand, StatusUpdate, TokenUsage, ToolReturnValue, UnknownEvent,
};

/// The target of the log records that show each message between the SDK and the agent, at the level `trace`.
pub const WIRE: &str = "kimi_agent.wire";

/// One of our calls.
pub type CallKey = u64;

/// Deadlines that the connection keeps.
#[derive(Clone, Debug)]
pub struct Timing {
    pub handshake: Duration,
    pub cancel: Duration,
    /// For calls that an agent answers without working for it.
    pub answer: Duration,
    pub turn: Option<Duration>,
    pub idle: Option<Duration>,
}

/// Where an event belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The turn that is running.
    Turn(TurnKey, StepTag),
    /// A replay.
    Replay(CallKey),
    /// Neither: the session's own events.
    Outside,
}

/// What the connection has to say to whoever drives it.
#[derive(Debug)]
pub enum Output {
    /// The handshake has ended.
    Opened(Result<Box<Handshake>>),
    /// Something happened. `size` is about what it takes in memory.
    Event { scope: Scope, event: Box<Event>, size: usize },
    /// A function of the program's is to answer this; nothing waits for it meanwhile.
    Ask { key: RequestKey, scope: Scope, request: Box<Event> },
    /// The request needs no answer any more.
    Withdrawn(RequestKey),
    /// The result of a tool that was called with [`Connection::call_tool`].
    ToolAnswered { key: RequestKey, result: ToolReturnValue },
    /// A call has ended.
    CallEnded { call: CallKey, outcome: Result<Json> },
    /// A turn has ended.
    TurnEnded { turn: TurnKey, outcome: Result<PromptResult> },
    /// The agent does not answer any more; whoever drives must end it.
    Hopeless(Error),
}

#[derive(Debug)]
enum Phase {
    New,
    Opening { deadline: Instant },
    Open,
    Closed(Error),
}

/// The state of one connection.
pub struct Connection {
    /// No other connection of this process has it.
    number: u64,
    dialect: Box<dyn Dialect>,
    timing: Timing,
    policy: Policy,
    phase: Phase,
    next_key: u64,
    calls: HashMap<String, PendingCall>,
    requests: requests::Requests,
    tool_calls: ToolCalls,
    /// What has been logged as a warning; once is enough.
    warned: HashSet<(HandlerKind, Option<String>)>,
    /// Boxed, as the replay is: a session that is idle has neither.
    turn: Option<Box<ActiveTurn>>,
    queued: Option<QueuedPrompt>,
    replay: Option<Box<replay::Replaying>>,
    /// Whether the agent's lines are read at the moment, or it waits for room.
    listening: bool,
    /// The session closes.
    hurried: bool,
    transmit: Vec<u8>,
    outputs: VecDeque<Output>,
    status: StatusUpdate,
    usage: TokenUsage,
    /// The list of commands that came last, until it is taken over.
    commands: Option<Vec<SlashCommand>>,
    /// One of these, or the turn's usage, has changed.
    news: bool,
    /// What the agent said before the handshake that is not of the protocol.
    early_noise: Vec<String>,
    invalid_lines: invalid_lines::InvalidLines,
    /// The option `model`, which hints of errors name.
    model: Option<String>,
}

/// How much of what is not of the protocol is kept for errors and logs.
const SHOWN: usize = 400;

impl Connection {
    pub fn new(dialect: Box<dyn Dialect>, timing: Timing, policy: Policy) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            dialect,
            timing,
            policy,
            phase: Phase::New,
            next_key: 1,
            calls: HashMap::new(),
            requests: requests::Requests::default(),
            tool_calls: ToolCalls::default(),
            warned: HashSet::new(),
            turn: None,
            queued: None,
            replay: None,
            listening: true,
            hurried: false,
            transmit: Vec::new(),
            outputs: VecDeque::new(),
            status: StatusUpdate::unchanged(),
            usage: TokenUsage::default(),
            commands: None,
            news: false,
            early_noise: Vec::new(),
            invalid_lines: invalid_lines::InvalidLines::default(),
            model: None,
        }
    }

    /// Begins the handshake.
    pub fn open(&mut self, hello: InitializeParams, now: Instant) {
        if let Some(call) = self.start_opening(hello, now) {
            self.send(call);
        }
    }

    /// Begins the handshake without a call: another connection of the process has made it, and the answer is handed in here,
    /// too.
    pub fn open_without_asking(&mut self, hello: InitializeParams, now: Instant) {
        if let Some(call) = self.start_opening(hello, now) {
            self.register(call);
        }
    }

    fn start_opening(&mut self, hello: InitializeParams, now: Instant) -> Option<calls::Prepared> {
        self.model.clone_from(&hello.model);
        if let Some(welcome) = self.dialect.implicit_handshake() {
            self.opened(Ok(welcome));
            return None;
        }
        self.phase = Phase::Opening { deadline: now + self.timing.handshake };
        self.prepare(Call::Initialize(hello)).map_err(|error| self.opened(Err(error))).ok()
    }

    /// Whether one process can have several sessions of this protocol.
    pub fn shares_processes(&self) -> bool {
        self.dialect.shares_processes()
    }

    /// Sets the first id that calls get, where ids are numbers.
    pub fn set_first_id(&mut self, first: u64) {
        self.dialect.set_first_id(first);
    }

    /// The call under way that opens the session, if there is one.
    pub fn opening_session(&self) -> Option<OpeningSession> {
        if matches!(self.phase, Phase::Opening { .. }) { self.dialect.opening_session() } else { None }
    }

    /// The call that opens the session must not be made: it is refused without the agent.
    pub fn refuse_opening(&mut self, failure: RpcFailure, now: Instant) {
        let is_opening = |pending: &PendingCall| matches!(pending.call, Call::Initialize(_));
        let id = self.calls.iter().find(|(_, pending)| is_opening(pending)).map(|(id, _)| id.clone());
        if let Some(id) = id {
            self.response(&id, Err(failure), now);
        }
    }

    /// Whether the agent owes an answer.
    pub fn awaits_answer(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Ends what the agent has open, because this connection leaves a process that goes on.
    pub fn leave(&mut self) {
        let bytes = self.dialect.leave();
        if !bytes.is_empty() {
            self.transmit(bytes);
        }
    }

    /// The agent turned out to speak this, which has no handshake.
    pub fn assume(&mut self, mut dialect: Box<dyn Dialect>) {
        let welcome = dialect.implicit_handshake();
        if self.is_closed() {
            return;
        }
        self.dialect = dialect;
        if let (Phase::Opening { .. }, Some(welcome)) = (&self.phase, welcome) {
            self.calls.clear();
            self.opened(Ok(welcome));
        }
    }

    fn opened(&mut self, outcome: Result<Handshake>) {
        match outcome {
            Ok(welcome) => {
                self.phase = Phase::Open;
                self.outputs.push_back(Output::Opened(Ok(Box::new(welcome))));
            }
            // Agents may have asked something by then.
            Err(error) => self.close(&error),
        }
    }

    /// What is to be done, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Takes the bytes that are to be written.
    pub fn take_transmit(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.transmit)
    }

    /// What is to be written next.
    fn transmit(&mut self, bytes: Vec<u8>) {
        if tracing::enabled!(target: WIRE, tracing::Level::TRACE) {
            self.show('>', &bytes);
        }
        if self.transmit.is_empty() {
            self.transmit = bytes;
        } else {
            self.transmit.extend_from_slice(&bytes);
        }
    }

    /// Gives back what a turn needed, where none runs.
    pub fn release(&mut self) {
        if self.turn.is_none() && self.outputs.is_empty() {
            self.outputs = VecDeque::new();
        }
    }

    /// How things stand, as far as the agent told.
    pub fn status(&self) -> &StatusUpdate {
        &self.status
    }

    /// All tokens of the session so far.
    pub fn usage(&self) -> &TokenUsage {
        &self.usage
    }

    /// The commands that a prompt may begin with, where the agent has told them anew.
    pub fn take_commands(&mut self) -> Option<Vec<SlashCommand>> {
        self.commands.take()
    }

    /// Whether status, usage or commands have changed since they were last taken over.
    pub fn has_news(&self) -> bool {
        self.news
    }

    /// The same; they are being taken over.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Tokens of the running turn so far.
    pub fn turn_usage(&self) -> Option<(TurnKey, &TokenUsage)> {
        self.turn.as_ref().map(|turn| (turn.key, &turn.usage))
    }

    fn new_key(&mut self) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        key
    }

    /// Takes in a line of the agent's.
    pub fn handle_line(&mut self, line: &[u8], now: Instant) {
        if !line.iter().all(u8::is_ascii_whitespace) {
            self.handle_message(jsonrpc::parse(line), line, now);
        }
    }

    /// Takes in a message of the agent's; `line` is the line that it was read from.
    pub fn handle_message(&mut self, message: Message<'_>, line: &[u8], now: Instant) {
        if self.is_closed() {
            return;
        }
        self.heard(now);
        if tracing::enabled!(target: WIRE, tracing::Level::TRACE) {
            self.show('<', line);
        }
        let incoming = self.dialect.read(message);
        self.take_in(incoming, line, now);
    }

    /// Logs messages as they are on the wire: `>` to the agent, `<` from it. Values of options that may be secrets are
    /// replaced.
    #[cold]
    fn show(&self, direction: char, lines: &[u8]) {
        const LONGEST: usize = 1 << 20;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let shown = self.policy.secrets.shown(line, LONGEST);
            match line.len().saturating_sub(LONGEST) {
                0 => tracing::trace!(target: WIRE, "{direction} {shown}"),
                more => tracing::trace!(target: WIRE, "{direction} {shown} [… {more} more bytes]"),
            }
        }
    }

    /// Takes in what a line says.
    fn take_in(&mut self, incoming: Incoming, line: &[u8], now: Instant) {
        match incoming {
            Incoming::Event(event) => self.take_in_event(event, line.len(), now),
            Incoming::OutOfTurn(event) => {
                self.observe(&event);
                self.outputs.push_back(Output::Event { scope: Scope::Outside, event, size: line.len() });
            }
            Incoming::Commands(commands) => {
                self.commands = Some(commands);
                self.news = true;
            }
            Incoming::Batch(all) => {
                for incoming in all {
                    self.take_in(incoming, line, now);
                }
            }
            Incoming::Request { rpc_id, request } => self.request(rpc_id, *request, line.len(), now),
            Incoming::Answered(bytes) => self.transmit(bytes),
            Incoming::UnknownMethod { rpc_id, method, .. } if self.is_echo(&rpc_id, &method) => self.echoed(&method),
            Incoming::UnknownMethod { rpc_id, method, params } => {
                tracing::warn!(method, "the agent calls a method that is not known; it is refused");
                let reason = format!("method not found: {method}");
                let refusal = self.dialect.refuse(&rpc_id, requests::METHOD_NOT_FOUND, &reason);
                self.transmit(refusal);
                let event = UnknownEvent { kind: method, payload: params, error: None, extra: Default::default() };
                self.emit(Event::Unknown(event), line.len());
            }
            Incoming::Response { id: Some(id), outcome } => self.response(&id, outcome, now),
            Incoming::Response { id: None, outcome } => {
                tracing::warn!(?outcome, "the agent could not read a line of ours");
            }
            Incoming::InvalidLine(reason) => {
                let shown = self.policy.secrets.shown(line, SHOWN);
                let reason = self.policy.secrets.shown(reason.as_bytes(), SHOWN);
                let (reason, line) = (printable_line(&reason), printable_line(&shown));
                match self.invalid_lines.count(now) {
                    Report::Line => tracing::warn!(%reason, %line, "invalid line dropped"),
                    Report::Summary(others) => {
                        tracing::warn!(others, %reason, %line, "invalid lines dropped; the last is shown");
                    }
                    Report::Nothing => {}
                }
                if matches!(self.phase, Phase::Opening { .. }) && self.early_noise.len() < 3 {
                    self.early_noise.push(shown);
                }
            }
        }
    }

    /// Whether a request of the agent's is a copy of one of ours. Only a client calls these methods.
    fn is_echo(&self, rpc_id: &str, method: &str) -> bool {
        let is_client_method = matches!(method, "initialize" | "session/new" | "session/prompt");
        is_client_method || serde_json::from_str::<String>(rpc_id).is_ok_and(|id| self.calls.contains_key(&id))
    }

    /// The program sends our own requests back. Its refusals would come back, too, and look like answers.
    fn echoed(&mut self, method: &str) {
        let text = echo_error(self.dialect.protocol_name(), method);
        if matches!(self.phase, Phase::Opening { .. }) {
            return self.opened(Err(Error::Handshake(text)));
        }
        let error = Error::Protocol(text);
        self.outputs.push_back(Output::Hopeless(error.clone()));
        self.close(&error);
    }

    fn take_in_event(&mut self, mut event: Box<Event>, size: usize, now: Instant) {
        let added = self.add_tool_call(&mut event, now);
        self.event(&event);
        self.tell(event, size + added);
    }

    /// Adds to an event the tool call that it is about. Returns how much larger it has become.
    fn add_tool_call(&mut self, event: &mut Event, now: Instant) -> usize {
        let dialect = &self.dialect;
        let turn = self.turn.as_mut().filter(|_| self.replay.is_none());
        let record = turn.map(|turn| &mut turn.record);
        self.tool_calls.take_in(event, &mut Present { kind: &|id| dialect.tool_kind(id), record, now })
    }

    fn scope(&self) -> Scope {
        self.replay.as_ref().map_or_else(|| self.present(), |replay| Scope::Replay(replay.call))
    }

    /// Where things belong that are of the present, also where a replay tells of the past.
    fn present(&self) -> Scope {
        self.turn.as_ref().map_or(Scope::Outside, |turn| Scope::Turn(turn.key, turn.step))
    }

    fn emit(&mut self, event: Event, size: usize) {
        self.tell(Box::new(event), size);
    }

    fn tell(&mut self, event: Box<Event>, size: usize) {
        let scope = self.scope();
        self.outputs.push_back(Output::Event { scope, event, size });
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Unknown(UnknownEvent { kind, error: Some(error), .. }) => {
                tracing::warn!(kind, error, "an event's payload can't be read; it is delivered as it came");
            }
            Event::Unknown(UnknownEvent { kind, .. }) => tracing::debug!(kind, "unknown event delivered"),
            _ => {}
        }
        match &mut self.replay {
            Some(replay) => replay.event(event),
            None => self.observe(event),
        }
        if let Event::ApprovalResponse(response) = event {
            self.resolved(response);
        }
    }

    /// What the session learns from an event, whether or not anybody reads it.
    fn observe(&mut self, event: &Event) {
        if let Some(turn) = &mut self.turn {
            turn.observe(event);
        }
        if let Event::StatusUpdate(update) = event {
            self.status.take_in(update);
            self.news = true;
        }
        let news = &mut self.news;
        turn::for_each_usage(event, &mut |usage| {
            *news = true;
            self.usage += usage;
            if let Some(turn) = &mut self.turn {
                turn.usage += usage;
            }
        });
    }

    /// The program is told that one of its functions failed.
    fn tell_failure(
        &mut self,
        handler: HandlerKind,
        name: Option<String>,
        request_id: Option<String>,
        message: String,
    ) {
        let size = message.len();
        let event = HandlerFailed { handler, name, request_id, message, extra: Default::default() };
        let scope = self.present();
        self.outputs.push_back(Output::Event { scope, event: Box::new(event.into()), size });
    }

    /// A function that answers nothing (`on_event`) failed.
    pub fn observer_failed(&mut self, handler: HandlerKind, message: String) {
        self.log_failure(&handler, None, &message);
        if let Some(turn) = &mut self.turn {
            turn.record.failed(handler.clone(), None, &message);
        }
        // Outside a turn it would go to the very function that failed.
        if self.turn.is_some() {
            self.tell_failure(handler, None, None, message);
        }
    }

    /// Tells whether the agent's lines are read at the moment; an agent that must wait for that is not idle.
    pub fn set_listening(&mut self, listening: bool, now: Instant) {
        if listening && !self.listening {
            self.heard(now);
        }
        self.listening = listening;
    }

    /// What was told last.
    pub fn is_listening(&self) -> bool {
        self.listening
    }

    /// Whether the agent can't go on before we do something.
    fn agent_waits(&self) -> bool {
        self.requests.waiting() || !self.listening
    }

    /// From now on the agent may be expected to say something.
    fn heard(&mut self, now: Instant) {
        if let Some(turn) = &mut self.turn {
            turn.last_heard = now;
        }
        if let Some(replay) = &mut self.replay {
            replay.last_heard = now;
        }
    }

    /// The turn that is on its way to a cancelled end.
    pub fn cancelling(&self) -> Option<TurnKey> {
        self.turn.as_ref().filter(|turn| turn.cancel.is_some()).map(|turn| turn.key)
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed(_))
    }

    /// When [`Connection::on_deadline`] wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let opening = match &self.phase {
            Phase::Opening { deadline } => Some(*deadline),
            _ => None,
        };
        let turn = self.turn.as_ref().and_then(|turn| turn.next_deadline(&self.timing, self.agent_waits()));
        let calls = self.calls.values().filter_map(|pending| pending.deadline);
        opening.into_iter().chain(turn).chain(self.replay_deadline()).chain(calls).min()
    }

    /// A replay takes as long as the past is long, and as its reader is slow; only silence ends it.
    fn replay_deadline(&self) -> Option<Instant> {
        self.replay.as_ref().filter(|_| self.listening).map(|replay| replay.last_heard + self.timing.answer)
    }

    /// Does what is due.
    pub fn on_deadline(&mut self, now: Instant) {
        if let Phase::Opening { deadline } = self.phase
            && now >= deadline
        {
            let (limit, hint) = (self.timing.handshake, self.dialect.silence_hint());
            let message = format!(
                "the agent did not answer the handshake within {limit:?}; raise `handshake_timeout` if it needs longer \
                 to start, {hint}{}",
                self.printed()
            );
            self.opened(Err(Error::Timeout(message)));
            return;
        }
        let limit = self.timing.answer;
        if self.replay_deadline().is_some_and(|deadline| now >= deadline) {
            let error = Error::Timeout(format!(
                "the agent sent nothing of the replay for {limit:?}, and the session is closed; open another one with \
                 the same `session_id`, and raise `handshake_timeout`, which limits this call, too"
            ));
            // What comes late could not be told from the present.
            self.outputs.push_back(Output::Hopeless(error.clone()));
            return self.close(&error);
        }
        let late = |pending: &PendingCall| pending.deadline.is_some_and(|deadline| now >= deadline);
        let mut given_up: Vec<_> = self.calls.extract_if(|_, pending| late(pending)).map(|(_, call)| call).collect();
        given_up.sort_by_key(|pending| pending.key);
        for PendingCall { key, call, .. } in given_up {
            let name = call.name();
            let message = format!(
                "the agent did not answer `{name}` within {limit:?}; the session can still be used: call again, or \
                 raise `handshake_timeout`, which limits this call, too"
            );
            self.outputs.push_back(Output::CallEnded { call: key, outcome: Err(Error::Timeout(message)) });
        }
        self.turn_deadline(now);
    }

    /// What to make of the agent's end: one that talks of other things and leaves never spoke the protocol.
    pub fn end_of_agent(&self, exit: AgentExit) -> Error {
        if !matches!(self.phase, Phase::Opening { .. }) {
            return Error::AgentExited(exit);
        }
        let other = self.dialect.other_protocol_hint();
        if self.early_noise.is_empty() {
            let hint = format!(
                "before it answered the handshake; check that `executable` names an agent and run it in a terminal to \
                 see why it exits, {other}"
            );
            return Error::AgentExited(AgentExit { hint: Some(hint), ..exit });
        }
        let stderr = exit.stderr.trim();
        let stderr = if stderr.is_empty() { String::new() } else { format!("\nthe end of its stderr:\n{stderr}") };
        Error::Handshake(format!(
            "the executable does not speak {}, and {}; check that `executable` names an agent, {other}{}{stderr}",
            self.dialect.protocol_name(),
            exit.manner(),
            self.printed()
        ))
    }

    /// What the agent printed before the handshake that is not of the protocol, for the end of an error's text.
    fn printed(&self) -> String {
        match self.early_noise.join("\n").trim() {
            "" => String::new(),
            printed => format!("\nit printed \"{printed}\""),
        }
    }

    /// An error of the agent's, with what to do about it.
    fn advised(&self, error: Error) -> Error {
        let Error::Rpc(mut error) = error else { return error };
        let hint = match error.kind {
            RpcErrorKind::LlmNotSet => Some(match &self.model {
                Some(model) => format!(
                    "check `model`: the agent's configuration must define a model named \"{model}\", or pass one in \
                     `config`"
                ),
                None => "log in with `kimi login` (older releases: `/login` in `kimi`), or set `model` and pass the \
                         model's provider in `config` or `config_file`"
                    .to_owned(),
            }),
            RpcErrorKind::LlmNotSupported => Some("choose another model with `model`".to_owned()),
            RpcErrorKind::AuthExpired => Some("log in again with `kimi login`".to_owned()),
            _ => None,
        };
        if error.hint.is_none() {
            error.hint = hint;
        }
        Error::Rpc(error)
    }

    /// The connection is over, for this reason: everything pending fails with it, at once.
    pub fn close(&mut self, reason: &Error) {
        if self.is_closed() {
            return;
        }
        if matches!(self.phase, Phase::Opening { .. } | Phase::New) {
            self.outputs.push_back(Output::Opened(Err(reason.clone())));
        }
        self.phase = Phase::Closed(reason.clone());
        let unreported = self.invalid_lines.take_unreported();
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
        if let Some(turn) = self.turn.take() {
            self.outputs.push_back(Output::TurnEnded { turn: turn.key, outcome: Err(reason.clone()) });
        }
        if let Some(queued) = self.queued.take() {
            self.outputs.push_back(Output::TurnEnded { turn: queued.key, outcome: Err(reason.clone()) });
        }
    }
}

impl StatusUpdate {
    /// An update that says nothing.
    pub fn unchanged() -> Self {
        Self {
            context_usage: None,
            context_tokens: None,
            max_context_tokens: None,
            token_usage: None,
            message_id: None,
            plan_mode: None,
            mcp_status: None,
            extra: Default::default(),
        }
    }

    /// Takes over what another update says.
    fn take_in(&mut self, other: &Self) {
        fn newer<T: Clone>(mine: &mut Option<T>, other: &Option<T>) {
            if other.is_some() {
                mine.clone_from(other);
            }
        }
        newer(&mut self.context_usage, &other.context_usage);
        newer(&mut self.context_tokens, &other.context_tokens);
        newer(&mut self.max_context_tokens, &other.max_context_tokens);
        newer(&mut self.token_usage, &other.token_usage);
        newer(&mut self.message_id, &other.message_id);
        newer(&mut self.plan_mode, &other.plan_mode);
        newer(&mut self.mcp_status, &other.mcp_status);
    }
}

#[cfg(test)]
mod tests;
