//! One session of a process: its connection, the queues of its turns, its handlers and its pending calls.
//!
//! An event passes from [`SessionDriver::handle_message`] through the connection to [`SessionDriver::deliver`], which
//! adds it to the queue of its turn. A request of the agent also produces [`Output::Ask`], which starts a handler. The
//! handler's answer returns to [`SessionDriver::handled`], and [`SessionDriver::flush`] writes its bytes.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::closing::{Closing, Stage};
use super::commands::Command;
use super::event_channel::{EventChannel, replayed};
use super::event_queue::Intake;
use super::flow::Flow;
use super::handlers::{Handled, Handlers, Handling, Served};
use super::io::Io;
use super::now;
use super::process::LONG;
use super::records::{Records, RecordsRead, RecordsSource};
use super::shared::Shared;
use super::shutdown::{LINGER, STALL_TIMEOUT};
use crate::answers::HostError;
use crate::connection::{CallKey, Connection, Output, RequestKey, Scope, StatusChange, StepTag, TurnKey, TurnStatus};
use crate::dialect::{Answer, Handshake, InitializeParams};
use crate::endpoint::{ConnectionKey, HandshakeRole, first_id};
use crate::error::{Error, Result};
use crate::host::panic_text;
use crate::jsonrpc::{self, Message};
use crate::messages::{Content, ContentPart, HandlerKind, Json, ToolReturnValue};
use crate::output::OutputCheck;
use crate::recording::RecordingFile;
use crate::tool_context::ProgressSender;
use crate::tools_server::ToolsServer;
use crate::tools_server::calls::{CallEvent, CallReceiver};

/// The parts of a session that is being opened.
pub(crate) struct SessionSetup {
    pub(crate) connection: Connection,
    pub(crate) handlers: Handlers,
    pub(crate) params: InitializeParams,
    pub(crate) max_line_bytes: usize,
    pub(crate) close_timeout: Duration,
    pub(crate) opened: oneshot::Sender<Result<Handshake>>,
    /// The MCP server that offers the tools of the program, for agents that get tools in this way.
    pub(crate) tools_server: Option<(ToolsServer, CallReceiver)>,
    /// The files with the agent's records of turns, if they are read.
    pub(crate) records: Option<RecordsSource>,
    /// The file of the recording, which the end of the session completes.
    pub(crate) recording: Option<Arc<RecordingFile>>,
}

/// The caller that waits for the end of a call.
#[derive(Debug)]
pub(super) enum Caller {
    Reply {
        reply: oneshot::Sender<Result<()>>,
        /// How many events had been read when the call began.
        reads: u64,
    },
    Replay(Arc<EventChannel>),
}

/// The caller that waits for the result of a tool, and takes its progress.
struct ToolCaller {
    reply: oneshot::Sender<ToolReturnValue>,
    progress: ProgressSender,
}

/// An event of a session that does not come as a line of the agent.
pub(super) enum SessionEvent {
    /// A handler has ended.
    Handled(Handled),
    /// The records of a turn were read.
    Records(RecordsRead),
    /// The agent calls a tool, or cancels a call, over the MCP server of the program.
    ToolCall(CallEvent),
    /// The code of the session has panicked.
    Panicked,
}

impl SessionEvent {
    /// Returns whether it has a text that takes long to read or to encode.
    pub(super) fn is_large(&self) -> bool {
        let size = match self {
            Self::Handled(Handled { outcome: Ok(Handling::Answered(answer)), .. }) => match answer {
                Answer::ReadFile(text) => text.as_ref().map_or(0, String::len),
                Answer::Terminal(result) => result.output.len(),
                Answer::Tool(result) => size_of(&result.output),
                _ => 0,
            },
            Self::ToolCall(CallEvent::Call(call)) => call.request.arguments.as_ref().map_or(0, String::len),
            _ => 0,
        };
        size > LONG
    }
}

/// Returns the size of the texts and addresses of a tool's output.
fn size_of(output: &Content) -> usize {
    let part = |part: &ContentPart| match part {
        ContentPart::Text(part) => part.text.len(),
        ContentPart::ImageUrl(part) => part.image_url.url.len(),
        ContentPart::AudioUrl(part) => part.audio_url.url.len(),
        ContentPart::VideoUrl(part) => part.video_url.url.len(),
        _ => 0,
    };
    match output {
        Content::Text(text) => text.len(),
        Content::Parts(parts) => parts.iter().map(part).sum(),
    }
}

pub(super) struct SessionDriver {
    pub(super) key: ConnectionKey,
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) handlers: Handlers,
    pub(super) turns: BTreeMap<TurnKey, Arc<EventChannel>>,
    /// For the events outside turns, if `on_event` is set.
    pub(super) outside: Option<Arc<EventChannel>>,
    pub(super) callers: HashMap<CallKey, Caller>,
    tool_callers: BTreeMap<RequestKey, ToolCaller>,
    /// The program's checks of structured output.
    checks: BTreeMap<TurnKey, OutputCheck>,
    pub(super) flow: Flow,
    pub(super) closing: Closing,
    opened: Option<oneshot::Sender<Result<Handshake>>>,
    tools_server: Option<(ToolsServer, CallReceiver)>,
    /// Reads the agent's records of turns. `None` if they are not needed.
    records: Option<Box<Records>>,
    recording: Option<Arc<RecordingFile>>,
    /// Whether the process is shared. If so, log records need the session's span.
    is_shared: bool,
    /// Set by a panic. The state may be inconsistent, so the session is only removed.
    has_panicked: bool,
}

impl SessionDriver {
    /// Adds a session to a process, and begins its handshake.
    pub(super) fn new(
        key: ConnectionKey,
        setup: SessionSetup,
        shared: Arc<Shared>,
        is_shared: bool,
        io: &mut Io,
    ) -> Box<Self> {
        let outside = setup.handlers.observes().then(|| shared.new_channel());
        let mut session = Box::new(Self {
            key,
            connection: setup.connection,
            shared,
            handlers: setup.handlers,
            turns: BTreeMap::new(),
            outside,
            callers: HashMap::new(),
            tool_callers: BTreeMap::new(),
            checks: BTreeMap::new(),
            flow: Flow::default(),
            closing: Closing::new(setup.close_timeout),
            opened: Some(setup.opened),
            tools_server: setup.tools_server,
            records: setup.records.map(|source| Box::new(Records::new(source))),
            recording: setup.recording,
            is_shared,
            has_panicked: false,
        });
        if let Some(outside) = &session.outside {
            let shared = Arc::downgrade(&session.shared);
            session.handlers.observe(outside, move |message, reported| {
                if let Some(shared) = shared.upgrade() {
                    shared.send(Command::ObserverFailed { kind: HandlerKind::Event, message, reported });
                }
            });
        }
        session.connection.pass_texts();
        io.endpoint.attach(key);
        session.in_span(|session| session.open(setup.params, io));
        session
    }

    fn open(&mut self, params: InitializeParams, io: &mut Io) {
        let now = now();
        self.connection.set_first_id(first_id(self.key));
        match io.endpoint.join_handshake(self.key) {
            HandshakeRole::Ask => self.connection.open(params, now),
            HandshakeRole::Wait => self.connection.open_shared(params, now),
            HandshakeRole::Answered(answer) => {
                self.connection.open_shared(params, now);
                self.handle_handshake(&Message::Response { id: None, outcome: Ok(&answer) }, b"", now);
            }
        }
    }

    /// Calls `action` in the span of this session. A panic ends this session only: see [`Self::contained`].
    pub(super) fn in_span<R: Default>(&mut self, action: impl FnOnce(&mut Self) -> R) -> R {
        self.contained(|session| {
            if !session.is_shared {
                // The whole task runs in the session's span.
                return action(session);
            }
            let shared = Arc::clone(&session.shared);
            shared.in_span(|| action(session))
        })
    }

    /// Calls `action`. If it panics, this session fails; the other sessions of the process continue. After a panic, nothing
    /// is called.
    pub(super) fn contained<R: Default>(&mut self, action: impl FnOnce(&mut Self) -> R) -> R {
        if self.has_panicked {
            return R::default();
        }
        match catch_unwind(AssertUnwindSafe(|| action(self))) {
            Ok(done) => done,
            Err(panic) => {
                self.panicked(&panic_text(&*panic));
                R::default()
            }
        }
    }

    fn panicked(&mut self, text: &str) {
        self.has_panicked = true;
        let error = Error::Internal(format!("the session's task panicked: {text}"));
        // The subscriber of the program may be the one that panics.
        drop(catch_unwind(AssertUnwindSafe(|| tracing::error!(%error, "the session is closed"))));
        drop(catch_unwind(AssertUnwindSafe(|| self.connection.close(&error))));
        drop(catch_unwind(AssertUnwindSafe(|| self.fail_waits(&error))));
        self.flow = Flow::default();
        self.closing.is_asked = true;
        if !matches!(self.closing.stage, Stage::WithProcess) {
            self.closing.stage = Stage::Killed;
        }
    }

    /// Fails all turns and calls that still wait.
    fn fail_waits(&mut self, error: &Error) {
        self.shared.close(error.clone());
        if let Some(opened) = self.opened.take() {
            drop(opened.send(Err(error.clone())));
        }
        for channel in self.turns.values().chain(self.replays()).chain(&self.outside) {
            channel.finish(Err(error.clone()));
        }
        for (_, caller) in self.callers.drain() {
            if let Caller::Reply { reply, .. } = caller {
                drop(reply.send(Err(error.clone())));
            }
        }
        self.turns.clear();
        self.tool_callers.clear();
        self.checks.clear();
        self.connection.end_telemetry();
    }

    // --- input ---

    pub(super) fn handle_message(&mut self, message: Message<'_>, line: &[u8], now: Instant) {
        self.connection.handle_message(message, line, now);
        self.flow.taken(line.len());
    }

    /// Handles the answer to `initialize`, which another session may have sent.
    pub(super) fn handle_handshake(&mut self, answer: &Message<'_>, line: &[u8], now: Instant) {
        if let Message::Response { outcome, .. } = answer {
            let id = first_id(self.key).to_string();
            // A recording shows the answer with the id that this session would have used.
            let own = self.connection.is_recorded().then(|| match outcome {
                Ok(result) => jsonrpc::answer(&id, result),
                Err(failure) => jsonrpc::refusal(&id, failure),
            });
            let message = Message::Response { id: Some(id.into()), outcome: outcome.clone() };
            self.handle_message(message, own.as_deref().unwrap_or(line), now);
        }
    }

    /// Returns the next event that did not come as a line.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<SessionEvent> {
        if self.has_panicked {
            return Poll::Pending;
        }
        let polled = self.contained(|session| Some(session.poll_parts(cx)));
        polled.unwrap_or(Poll::Ready(SessionEvent::Panicked))
    }

    fn poll_parts(&mut self, cx: &mut Context<'_>) -> Poll<SessionEvent> {
        if let Poll::Ready(handled) = self.handlers.poll_next(cx) {
            return Poll::Ready(SessionEvent::Handled(handled));
        }
        if let Some(records) = &mut self.records
            && let Poll::Ready(read) = records.poll(cx)
        {
            return Poll::Ready(SessionEvent::Records(read));
        }
        let has_capacity = !self.flow.is_blocked();
        match &mut self.tools_server {
            Some((_, calls)) => calls.poll_next(cx, has_capacity).map(SessionEvent::ToolCall),
            None => Poll::Pending,
        }
    }

    pub(super) fn handle_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Handled(handled) => self.handled(handled),
            SessionEvent::Records(read) => self.handle_records(read),
            SessionEvent::ToolCall(call) => self.handle_tool_call(call),
            SessionEvent::Panicked => {}
        }
    }

    fn handled(&mut self, handled: Handled) {
        let now = now();
        match handled.outcome {
            Ok(Handling::Answered(answer)) => self.connection.answer(handled.request, &answer, now),
            Ok(Handling::Checked(errors)) => self.connection.output_checked(handled.request, Ok(errors), now),
            Err(error) => {
                let reported = HostError::reported(&error);
                self.connection.handler_failed_as(handled.request, &error.to_string(), reported, now);
            }
        }
    }

    fn handle_tool_call(&mut self, next: CallEvent) {
        match next {
            CallEvent::Call(call) => {
                let size = call.request.name.len() + call.request.arguments.as_ref().map_or(0, String::len);
                if let Some(key) = self.connection.call_tool(call.request, size, now()) {
                    self.tool_callers.insert(key, ToolCaller { reply: call.reply, progress: call.progress });
                }
            }
            CallEvent::Cancelled(id) => self.connection.cancel_tool_call(&id, now()),
        }
    }

    fn handle_records(&mut self, read: RecordsRead) {
        self.connection.handle_records(read.turn, read.report, now());
    }

    pub(super) fn handle_command(&mut self, command: Command) {
        let now = now();
        match command {
            Command::Prompt { turn, channel, input, limits, output, span } => {
                self.turns.insert(turn, channel);
                if let Some(span) = span {
                    self.connection.trace_turn(turn, *span);
                }
                self.turn_begins();
                let output = output.map(|output| {
                    if let Some(check) = output.check {
                        self.checks.insert(turn, check);
                    }
                    output.turn
                });
                self.connection.prompt_for(turn, input, limits, output, now);
            }
            Command::Cancel { turn } => {
                if let Some(channel) = self.turns.get(&turn) {
                    channel.events.discard_overflow();
                }
                self.connection.cancel(turn, now);
            }
            Command::Steer { turn, input, reply } => {
                let call = self.connection.steer(turn, input, now);
                self.await_call(call, reply);
            }
            Command::CancelSubagent { session, reply } => {
                drop(reply.send(self.connection.cancel_subagent(session)));
            }
            Command::SetPlanMode { on, reply } => {
                let call = self.connection.set_plan_mode(on, now);
                self.await_call(call, reply);
            }
            Command::SetConfigOption { option, value, reply } => {
                let call = self.connection.set_config_option(option, value, now);
                self.await_call(call, reply);
            }
            Command::Undo { turns, reply } => {
                let call = self.connection.undo(turns, now);
                self.await_call(call, reply);
            }
            Command::Replay { channel } => match self.connection.start_replay(now) {
                Ok(call) => drop(self.callers.insert(call, Caller::Replay(channel))),
                Err(error) => channel.finish(Err(error)),
            },
            Command::Respond { request, answer, reply } => {
                drop(reply.send(self.connection.respond(request, *answer, now)));
            }
            Command::SwitchDialect { dialect } => self.connection.switch_dialect(dialect),
            Command::ObserverFailed { kind, message, reported } => {
                self.connection.observer_failed(kind, &message, reported);
            }
            Command::Close(timeout) => self.begin_close_within(timeout),
            Command::Abandon => self.abandon(),
            Command::Kill => self.kill(),
        }
    }

    fn await_call(&mut self, call: Result<CallKey>, reply: oneshot::Sender<Result<()>>) {
        match call {
            Ok(call) => {
                let reads = self.reads();
                self.callers.insert(call, Caller::Reply { reply, reads });
            }
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    // --- output ---

    /// Delivers the connection's outputs, and writes its bytes.
    pub(super) fn flush(&mut self, io: &mut Io) {
        self.deliver(io);
        if let Err(refusal) = io.endpoint.set_opening(self.key, self.connection.opening_session().as_ref()) {
            drop(self.connection.poll_transmit());
            self.connection.refuse_opening(refusal, now());
            self.deliver(io);
        }
        io.writer.push(self.connection.poll_transmit());
    }

    fn deliver(&mut self, io: &Io) {
        while let Some(output) = self.deliver_events() {
            self.deliver_output(output, io);
        }
    }

    /// Adds the events of a turn to its queue, up to the first output that is not such an event, which it returns.
    fn deliver_events(&mut self) -> Option<Output> {
        let mut filled: Option<(TurnKey, Intake<'_>)> = None;
        loop {
            let output = self.connection.poll_output()?;
            let (Output::Texts { turn, .. } | Output::Event { scope: Scope::Turn(turn, _), .. }) = output else {
                return Some(output);
            };
            if filled.as_ref().is_none_or(|(of, _)| *of != turn) {
                // The first queue must be unlocked before the second is locked.
                drop(filled.take());
                filled = self.turns.get(&turn).map(|channel| (turn, channel.events.intake()));
            }
            let Some((_, intake)) = &mut filled else { continue };
            match output {
                Output::Texts { step, texts, .. } => intake.push_texts(texts, step),
                Output::Event { scope: Scope::Turn(_, step), event, size } => intake.push(event, step, size),
                _ => {}
            }
        }
    }

    fn turn_begins(&mut self) {
        if let Some(records) = &mut self.records {
            records.turn_begins();
        }
    }

    fn deliver_output(&mut self, output: Output, io: &Io) {
        match output {
            Output::Opened(outcome) => {
                let outcome = outcome.map_err(|error| io.with_stderr(error));
                let failed = outcome.is_err();
                if let (Some(records), Ok(handshake)) = (&mut self.records, &outcome) {
                    records.session.clone_from(&handshake.session_id);
                }
                let opened = self.opened.take();
                let left = opened.is_none_or(|opened| opened.send(outcome.map(|handshake| *handshake)).is_err());
                if failed || left {
                    self.begin_close();
                }
            }
            // `deliver_events` has taken those of turns.
            Output::Texts { .. } => {}
            Output::Event { scope, event, size } => match scope {
                Scope::Turn(..) => {}
                Scope::Replay(call) => {
                    if let Some(Caller::Replay(channel)) = self.callers.get(&call) {
                        channel.events.push(event, StepTag::default(), size);
                    }
                }
                Scope::Outside => match &self.outside {
                    Some(outside) => outside.events.push(event, StepTag::default(), size),
                    None => tracing::debug!(kind = event.type_name(), "event outside a turn dropped"),
                },
            },
            Output::StatusChanged(change) => {
                let StatusChange { status, usage, turn } = *change;
                if let Some((turn, usage)) = turn
                    && let Some(channel) = self.turns.get(&turn)
                {
                    channel.set_usage(&usage);
                }
                self.shared.set_status(status, usage);
            }
            Output::ConfigChanged(options) => self.shared.set_config_options(options),
            Output::CommandsChanged(commands) => self.shared.set_commands(commands),
            Output::Ask { key, scope, request } => {
                let turn = match scope {
                    Scope::Turn(turn, _) => self.turns.get(&turn).cloned(),
                    _ => None,
                };
                let progress = self.tool_callers.get(&key).map(|caller| caller.progress.clone());
                let served = Served { turn, span: self.connection.span_of(scope, &request), progress };
                self.handlers.ask_after_reader(key, served, request);
            }
            Output::CheckOutput { key, turn, value } => {
                if let Some(check) = self.checks.get(&turn).cloned() {
                    let span = self.connection.span_of_turn(turn);
                    let served = Served { turn: self.turns.get(&turn).cloned(), span, progress: None };
                    // Called within the task of the handler, where a panic is a violation.
                    self.handlers.check(key, served, Box::pin(async move { check(value).await }));
                }
            }
            Output::PromptSent { .. } => self.turn_begins(),
            Output::Withdrawn(key) => {
                self.handlers.withdraw(key);
                self.tool_callers.remove(&key);
            }
            Output::ReadRecords { turn } => {
                if !self.records.as_mut().is_some_and(|records| records.begin(turn)) {
                    self.connection.handle_records(turn, None, now());
                }
            }
            Output::ToolAnswered { key, result } => {
                if let Some(caller) = self.tool_callers.remove(&key) {
                    // A caller that has left needs no result.
                    drop(caller.reply.send(*result));
                }
            }
            Output::CallEnded { call, outcome } => self.call_ended(call, outcome),
            Output::TurnEnded { turn, outcome } => {
                let is_orphan = self.shared.turn_ended(turn);
                self.checks.remove(&turn);
                if let Some(channel) = self.turns.remove(&turn) {
                    channel.finish(match outcome {
                        Ok(result) if is_orphan && result.status == TurnStatus::Cancelled => {
                            Err(Error::session_closed().with_result(*result))
                        }
                        outcome => outcome.map(|result| *result),
                    });
                }
            }
            Output::FatalError(error) => self.fail(&error),
        }
    }

    fn call_ended(&mut self, call: CallKey, outcome: Result<Json>) {
        match self.callers.remove(&call) {
            Some(Caller::Reply { reply, .. }) => drop(reply.send(outcome.map(drop))),
            Some(Caller::Replay(channel)) => channel.finish(outcome.map(|_| replayed())),
            None => {}
        }
    }

    /// Wakes the readers of the queues, once for all new events.
    pub(super) fn wake_readers(&mut self, io: &mut Io) {
        self.flush(io);
        self.answer_discarded_requests();
        self.flush(io);
        self.handlers.start_due(io.writer.is_behind());
        self.connection.release();
        for channel in self.turns.values().chain(self.replays()).chain(&self.outside) {
            channel.events.wake();
        }
    }

    /// Gives the default answer to requests that were discarded unread.
    fn answer_discarded_requests(&mut self) {
        for channel in self.turns.values().chain(&self.outside) {
            for request_id in channel.events.take_discarded_requests() {
                self.connection.answer_undelivered(&request_id, now());
            }
        }
        // These were answered before the replay.
        self.replays().for_each(|channel| drop(channel.events.take_discarded_requests()));
    }

    // --- deadlines ---

    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        self.note_held_back();
        let deadlines = [self.connection.poll_timeout(), self.backpressure_deadline(), self.handlers.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn handle_deadline(&mut self) {
        let cancelling = self.connection.cancelling();
        self.connection.handle_timeout(now());
        if cancelling != self.connection.cancelling()
            && let Some(channel) = self.connection.cancelling().and_then(|turn| self.turns.get(&turn))
        {
            // The answer to the cancel must not wait behind events.
            channel.events.discard_overflow();
        }
        self.give_up_calls();
        self.answer_held_back();
    }

    // --- the end ---

    /// Closes the session with a timeout of the program, if one is given. A second call can only shorten the time.
    pub(super) fn begin_close_within(&mut self, timeout: Option<Duration>) {
        let Some(timeout) = timeout else { return self.begin_close() };
        if timeout.is_zero() {
            self.warn_of_unread_turns();
            return self.kill();
        }
        let limit = if self.closing.is_asked { timeout.min(self.closing.close_timeout) } else { timeout };
        self.closing.close_timeout = limit;
        if !self.closing.is_asked {
            return self.begin_close();
        }
        let now = now();
        self.connection.begin_closing(limit, now);
        self.closing.shortened = Some(limit);
        if let Stage::Leaving { until } = &mut self.closing.stage {
            *until = (*until).min(now + limit);
        }
    }

    /// Closes the session: the program has called `close()`, or dropped the session.
    pub(super) fn begin_close(&mut self) {
        if self.closing.is_asked {
            return;
        }
        self.closing.is_asked = true;
        self.warn_of_unread_turns();
        if self.closing.close_timeout.is_zero() {
            return self.kill();
        }
        let now = now();
        if matches!(self.closing.stage, Stage::Open) {
            self.closing.stage = Stage::Cancelling { stalled_at: now + STALL_TIMEOUT };
        }
        let turns: Vec<TurnKey> = self.turns.keys().copied().collect();
        for turn in turns {
            self.turns[&turn].events.discard_overflow();
            self.connection.cancel(turn, now);
        }
        self.connection.begin_closing(self.closing.close_timeout, now);
    }

    /// Logs the turns that the close cancels and that the program has not used: it may have forgotten to wait for them.
    fn warn_of_unread_turns(&self) {
        for (key, channel) in &self.turns {
            if !channel.note_used() {
                tracing::warn!(
                    turn = format!("turn-{key}"),
                    "the session is closed during a turn that was not read, and the turn is cancelled; iterate over its events \
                     or wait for its result() first"
                );
            }
        }
    }

    /// Kills the agent, because the program has set a timeout of zero.
    pub(super) fn kill(&mut self) {
        self.closing.is_asked = true;
        self.closing.stage = Stage::Killed;
    }

    /// Ends a session that was never opened. It has nothing to finish, so an agent of its own gets little time.
    pub(super) fn abandon(&mut self) {
        self.closing.is_abandoned = true;
        self.begin_close_within(Some(self.closing.close_timeout.min(LINGER)));
    }

    /// Fails the session with this error. It leaves immediately.
    pub(super) fn fail(&mut self, error: &Error) {
        tracing::warn!(%error, "the session failed and is closed");
        self.shared.close(error.clone());
        self.connection.close(error);
        self.closing.is_asked = true;
        if !matches!(self.closing.stage, Stage::Killed | Stage::WithProcess) {
            self.closing.stage = Stage::Failed;
        }
    }

    /// Continues after the cancel, if the turn has ended or the agent does not read the cancel.
    pub(super) fn advance_closing(&mut self, io: &mut Io) {
        let Stage::Cancelling { stalled_at } = self.closing.stage else { return };
        if self.turns.is_empty() {
            self.connection.close(&Error::session_closed());
            self.flush(io);
            self.closing.stage = Stage::Closed;
        } else if now() >= stalled_at && !io.writer.is_empty() {
            self.fail(&Error::Timeout(
                "the agent reads nothing, so its turn can't be cancelled. The agent is ended and the session is closed; open a \
                 new one with the same `session_id` to continue the conversation"
                    .into(),
            ));
            self.flush(io);
        }
    }

    /// Returns whether the session waits for an answer of the agent, including the answer to `session/close`.
    pub(super) fn awaits_answer(&self) -> bool {
        self.connection.awaits_answer() || matches!(self.closing.stage, Stage::Leaving { .. })
    }

    /// Leaves a process that continues: ends what is open, and asks the agent to close the session.
    pub(super) fn leave(&mut self, io: &mut Io) {
        self.in_span(|session| {
            session.connection.leave();
            session.flush(io);
        });
        io.endpoint.leave(self.key);
        io.writer.push(io.endpoint.poll_transmit());
    }

    /// Fails everything that still waits.
    pub(super) fn fail_all(&mut self, error: &Error, io: &mut Io) {
        self.shared.close(error.clone());
        self.connection.close(error);
        self.flush(io);
        if let Some(outside) = &self.outside {
            outside.finish(Err(error.clone()));
        }
    }

    /// Ends the server of the tools, and with it the session.
    pub(super) async fn end(mut self: Box<Self>) {
        if let Some((server, calls)) = self.tools_server.take() {
            // Calls that are still arriving fail.
            drop(calls);
            server.close().await;
        }
        if let Some(recording) = self.recording.take() {
            self.connection.end_recording();
            recording.complete().await;
        }
    }
}

impl Drop for SessionDriver {
    /// Fails all calls and turns if the runtime ends before the session, or a defect ends the task.
    fn drop(&mut self) {
        let error = if std::thread::panicking() {
            Error::Internal("the session's task panicked".to_owned())
        } else {
            Error::session_closed()
        };
        drop(catch_unwind(AssertUnwindSafe(|| self.fail_waits(&error))));
        self.shared.ended();
    }
}
