//! One session of a process: its connection, the queues of its turns, and everybody who waits for something of it.
//!
//! An event goes from [`SessionDriver::handle_message`] through the connection to [`SessionDriver::deliver`], which puts it into
//! the queue of its turn. A request of the agent's also comes out as [`Output::Ask`], and starts a handler; its answer comes
//! back to [`SessionDriver::handled`], and its bytes leave with [`SessionDriver::flush`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::backpressure::Flow;
use super::closing::{Closing, Stage};
use super::event_channel::{EventChannel, replayed};
use super::event_queue::Intake;
use super::handlers::{Handled, Handlers};
use super::process::Io;
use super::shared::Shared;
use super::tool_calls::{self, ToolCalls};
use super::{Command, now};
use crate::connection::{CallKey, Connection, Output, RequestKey, Scope, StepTag, TurnKey};
use crate::dialect::{Handshake, InitializeParams};
use crate::endpoint::{ConnectionKey, HandshakeRole, first_id};
use crate::error::{Error, Result};
use crate::tools_server::ToolsServer;
use crate::wire::jsonrpc::Message;
use crate::wire::{Json, ToolReturnValue};

/// What a session is made of.
pub(crate) struct SessionSetup {
    pub(crate) connection: Connection,
    pub(crate) handlers: Handlers,
    pub(crate) hello: InitializeParams,
    pub(crate) max_line_bytes: usize,
    pub(crate) close_timeout: Duration,
    pub(crate) opened: oneshot::Sender<Result<Handshake>>,
    /// For agents that call the program's tools in another way than over the connection.
    pub(crate) tools_server: Option<(ToolsServer, ToolCalls)>,
}

/// Who waits for the end of a call.
#[derive(Debug)]
pub(super) enum Caller {
    Reply {
        reply: oneshot::Sender<Result<()>>,
        /// How much had been read when the call began.
        reads: u64,
    },
    Replay(Arc<EventChannel>),
}

pub(super) struct SessionDriver {
    pub(super) key: ConnectionKey,
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) handlers: Handlers,
    pub(super) turns: BTreeMap<TurnKey, Arc<EventChannel>>,
    /// For the events outside turns, if somebody wants them.
    pub(super) outside: Option<Arc<EventChannel>>,
    pub(super) callers: HashMap<CallKey, Caller>,
    /// The callers of tools that wait for a result.
    tool_callers: HashMap<RequestKey, oneshot::Sender<ToolReturnValue>>,
    pub(super) flow: Flow,
    pub(super) closing: Closing,
    opened: Option<oneshot::Sender<Result<Handshake>>>,
    tools_server: Option<(ToolsServer, ToolCalls)>,
    /// It shares its process: its log records are told apart by its span.
    is_shared: bool,
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
            tool_callers: HashMap::new(),
            flow: Flow::default(),
            closing: Closing::new(setup.close_timeout),
            opened: Some(setup.opened),
            tools_server: setup.tools_server,
            is_shared,
        });
        if let Some(outside) = &session.outside {
            session.handlers.observe(outside, Arc::downgrade(&session.shared));
        }
        io.endpoint.attach(key);
        session.in_span(|session| session.open(setup.hello, io));
        session
    }

    fn open(&mut self, hello: InitializeParams, io: &mut Io) {
        let now = now();
        self.connection.set_first_id(first_id(self.key));
        match io.endpoint.join_handshake(self.key) {
            HandshakeRole::Ask => self.connection.open(hello, now),
            HandshakeRole::Wait => self.connection.open_without_asking(hello, now),
            HandshakeRole::Answered(answer) => {
                self.connection.open_without_asking(hello, now);
                self.handle_handshake(&Message::Response { id: None, outcome: Ok(&answer) }, b"", now);
            }
        }
    }

    /// Does something whose log records belong to this session.
    pub(super) fn in_span<R>(&mut self, action: impl FnOnce(&mut Self) -> R) -> R {
        if !self.is_shared {
            // The whole task runs in its span.
            return action(self);
        }
        let shared = Arc::clone(&self.shared);
        shared.in_span(|| action(self))
    }

    // --- what comes in ---

    pub(super) fn handle_message(&mut self, message: Message<'_>, line: &[u8], now: Instant) {
        self.connection.handle_message(message, line, now);
        self.flow.taken(line.len());
        if self.connection.has_news() {
            // Programs may ask for it once they have the event, and no later than the turn's end.
            self.flow.interrupt();
        }
    }

    /// The answer to `initialize`, which may have been asked by another session.
    pub(super) fn handle_handshake(&mut self, answer: &Message<'_>, line: &[u8], now: Instant) {
        if let Message::Response { outcome, .. } = answer {
            let id = Some(first_id(self.key).to_string().into());
            self.handle_message(Message::Response { id, outcome: outcome.clone() }, line, now);
        }
    }

    /// A handler has ended.
    pub(super) fn handled(&mut self, handled: Handled) {
        let now = now();
        match handled.outcome {
            Ok(answer) => self.connection.answer(handled.request, &answer, now),
            Err(error) => self.connection.handler_failed(handled.request, error.to_string(), now),
        }
    }

    pub(super) fn handle_tool_call(&mut self, next: tool_calls::Next) {
        match next {
            tool_calls::Next::Call(call) => {
                let size = call.request.name.len() + call.request.arguments.as_ref().map_or(0, String::len);
                if let Some(key) = self.connection.call_tool(call.request, size, now()) {
                    self.tool_callers.insert(key, call.reply);
                }
            }
            tool_calls::Next::Left(id) => self.connection.tool_call_left(&id, now()),
        }
    }

    /// The next end of a handler.
    pub(super) fn poll_handled(&mut self, cx: &mut Context<'_>) -> Poll<Handled> {
        self.handlers.poll_next(cx)
    }

    /// The next call of a tool that does not come over the connection, if there is capacity for it.
    pub(super) fn poll_tool_call(&mut self, cx: &mut Context<'_>) -> Poll<tool_calls::Next> {
        let has_capacity = !self.flow.is_blocked();
        self.tools_server.as_mut().map_or(Poll::Pending, |(_, calls)| calls.poll_next(cx, has_capacity))
    }

    pub(super) fn handle_command(&mut self, command: Command) {
        let now = now();
        match command {
            Command::Prompt { turn, channel, input, limits } => {
                self.turns.insert(turn, channel);
                self.connection.prompt_within(turn, input, limits, now);
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
            Command::SetPlanMode { on, reply } => {
                let call = self.connection.set_plan_mode(on, now);
                self.await_call(call, reply);
            }
            Command::Replay { channel } => match self.connection.start_replay(now) {
                Ok(call) => drop(self.callers.insert(call, Caller::Replay(channel))),
                Err(error) => channel.finish(Err(error)),
            },
            Command::Respond { request, answer, reply } => {
                drop(reply.send(self.connection.respond(request, *answer, now)));
            }
            Command::Assume { dialect } => self.connection.assume(dialect),
            Command::ObserverFailed { kind, message } => self.connection.observer_failed(kind, message),
            Command::Close(timeout) => self.begin_close_within(timeout),
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

    // --- what comes out ---

    /// Does what came of what was taken in.
    pub(super) fn flush(&mut self, io: &mut Io) {
        self.deliver(io);
        if let Err(refusal) = io.endpoint.set_opening(self.key, self.connection.opening_session().as_ref()) {
            drop(self.connection.take_transmit());
            self.connection.refuse_opening(refusal, now());
            self.deliver(io);
        }
        io.writer.push(self.connection.take_transmit());
    }

    fn deliver(&mut self, io: &Io) {
        if self.connection.take_news() {
            self.shared.update(&mut self.connection);
            if let Some((turn, usage)) = self.connection.turn_usage()
                && let Some(channel) = self.turns.get(&turn)
            {
                channel.set_usage(usage);
            }
        }
        while let Some(output) = self.deliver_events() {
            self.deliver_output(output, io);
        }
    }

    /// Puts the events of a turn into its queue, up to an output that is something else.
    fn deliver_events(&mut self) -> Option<Output> {
        let mut filled: Option<(TurnKey, Intake<'_>)> = None;
        loop {
            match self.connection.poll_output()? {
                Output::Event { scope: Scope::Turn(turn, step), event, size } => {
                    if filled.as_ref().is_none_or(|(of, _)| *of != turn) {
                        // The first must be unlocked before the second is locked.
                        drop(filled.take());
                        filled = self.turns.get(&turn).map(|channel| (turn, channel.events.intake()));
                    }
                    if let Some((_, intake)) = &mut filled {
                        intake.push(event, step, size);
                    }
                }
                other => return Some(other),
            }
        }
    }

    fn deliver_output(&mut self, output: Output, io: &Io) {
        match output {
            Output::Opened(outcome) => {
                let outcome = outcome.map_err(|error| io.with_stderr(error));
                let failed = outcome.is_err();
                let opened = self.opened.take();
                let left = opened.is_none_or(|opened| opened.send(outcome.map(|welcome| *welcome)).is_err());
                if failed || left {
                    self.begin_close();
                }
            }
            Output::Event { scope, event, size } => match scope {
                Scope::Turn(turn, step) => {
                    if let Some(channel) = self.turns.get(&turn) {
                        channel.events.push(event, step, size);
                    }
                }
                Scope::Replay(call) => {
                    if let Some(Caller::Replay(channel)) = self.callers.get(&call) {
                        channel.events.push(event, StepTag::default(), size);
                    }
                }
                Scope::Outside => match &self.outside {
                    Some(outside) => outside.events.push(event, StepTag::default(), size),
                    None => tracing::debug!(kind = event.type_name(), "an event outside a turn"),
                },
            },
            Output::Ask { key, scope, request } => {
                let turn = match scope {
                    Scope::Turn(turn, _) => self.turns.get(&turn).cloned(),
                    _ => None,
                };
                self.handlers.ask_after_reader(key, turn, request);
            }
            Output::Withdrawn(key) => {
                self.handlers.withdraw(key);
                self.tool_callers.remove(&key);
            }
            Output::ToolAnswered { key, result } => {
                if let Some(caller) = self.tool_callers.remove(&key) {
                    // A caller that has left needs no result.
                    drop(caller.send(result));
                }
            }
            Output::CallEnded { call, outcome } => self.call_ended(call, outcome),
            Output::TurnEnded { turn, outcome } => {
                self.shared.turn_ended(turn);
                if let Some(channel) = self.turns.remove(&turn) {
                    channel.finish(outcome);
                }
            }
            Output::Hopeless(error) => self.fail(&error),
        }
    }

    fn call_ended(&mut self, call: CallKey, outcome: Result<Json>) {
        match self.callers.remove(&call) {
            Some(Caller::Reply { reply, .. }) => drop(reply.send(outcome.map(drop))),
            Some(Caller::Replay(channel)) => channel.finish(outcome.map(|_| replayed())),
            None => {}
        }
    }

    /// Wakes the readers of what was put into queues, once for all of it. Returns whether one was woken.
    pub(super) fn wake_readers(&mut self, io: &mut Io) -> bool {
        self.flush(io);
        self.answer_discarded_requests();
        self.flush(io);
        self.handlers.start_due();
        self.connection.release();
        let mut woken = false;
        for channel in self.turns.values().chain(self.replays()).chain(&self.outside) {
            woken |= channel.events.wake();
        }
        woken
    }

    /// Requests that were discarded unread get the default answer.
    fn answer_discarded_requests(&mut self) {
        for channel in self.turns.values().chain(&self.outside) {
            for request_id in channel.events.take_discarded_requests() {
                self.connection.unseen(&request_id, now());
            }
        }
        // Answered long ago.
        self.replays().for_each(|channel| drop(channel.events.take_discarded_requests()));
    }

    // --- deadlines ---

    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        self.note_held_back();
        let deadlines = [self.connection.next_deadline(), self.backpressure_deadline(), self.handlers.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn handle_deadline(&mut self) {
        let cancelling = self.connection.cancelling();
        self.connection.on_deadline(now());
        if cancelling != self.connection.cancelling()
            && let Some(channel) = self.connection.cancelling().and_then(|turn| self.turns.get(&turn))
        {
            // The cancel's answer must get through.
            channel.events.discard_overflow();
        }
        self.give_up_calls();
        self.answer_held_back();
    }

    // --- the end ---

    /// Whether the agent owes this session something, be it that it closes the session.
    pub(super) fn awaits_answer(&self) -> bool {
        self.connection.awaits_answer() || matches!(self.closing.stage, Stage::Leaving { .. })
    }

    /// Leaves a process that goes on: what is open is ended, and the agent is told to close the session.
    pub(super) fn leave(&mut self, io: &mut Io) {
        self.in_span(|session| {
            session.connection.leave();
            session.flush(io);
        });
        io.endpoint.leave(self.key);
        io.writer.push(io.endpoint.take_transmit());
    }

    /// Everything that still waits fails with this.
    pub(super) fn fail_all(&mut self, error: &Error, io: &mut Io) {
        self.shared.close(error.clone());
        self.connection.close(error);
        self.flush(io);
        if let Some(outside) = &self.outside {
            outside.finish(Err(error.clone()));
        }
    }

    /// The session is over once its tools cannot be called any more.
    pub(super) async fn end(mut self: Box<Self>) {
        if let Some((server, calls)) = self.tools_server.take() {
            // Calls on their way here fail.
            drop(calls);
            server.close().await;
        }
    }
}

impl Drop for SessionDriver {
    /// Where the runtime ends before the session, or a defect of ours ends the task, everybody still hears of it.
    fn drop(&mut self) {
        let error = if std::thread::panicking() {
            Error::Internal("the session's task panicked".to_owned())
        } else {
            Error::SessionClosed
        };
        self.shared.close(error.clone());
        for channel in self.turns.values().chain(self.replays()) {
            channel.finish(Err(error.clone()));
        }
        if let Some(outside) = &self.outside {
            outside.finish(Err(error));
        }
        self.shared.ended();
    }
}
