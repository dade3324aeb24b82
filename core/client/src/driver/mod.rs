//! The task that drives one connection: reads while there is room, writes, runs the program's functions, keeps the
//! deadlines, and sees the agent to its end.

mod backpressure;
pub(crate) mod event_channel;
pub(crate) mod event_queue;
mod handlers;
mod shutdown;
pub(crate) mod tool_calls;
pub(crate) mod turn_reader;
mod writing;

use std::collections::{BTreeMap, HashMap};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, mpsc, oneshot};

use backpressure::{Batch, DEAF, HELD_BACK, Overgrown};
use event_channel::{EventChannel, replayed};
use event_queue::{Intake, OVERHEAD};
pub(crate) use handlers::Handlers;
pub use handlers::served_turn;
use shutdown::Shutdown;
use tool_calls::ToolCalls;

use crate::connection::{
    CallKey, Connection, ManualAnswer, Output, RequestKey, RequestRef, Scope, StepTag, TurnKey, TurnLimits,
};
use crate::dialect::{Handshake, InitializeParams};
use crate::error::{Error, Result};
use crate::session::shared::Shared;
use crate::tools_server::ToolsServer;
use crate::transport::{Transport, read_some};
use crate::wire::framing::{LineBuffer, has_memory_for, no_memory};
use crate::wire::{Content, Event, HandlerKind, Json, ToolReturnValue};

/// How much is read at a time.
const CHUNK: usize = 32 * 1024;
/// A line of this size is taken in with the memory that it is in, so that there are not two of it.
const LARGE: usize = 1 << 20;

/// How much is read after a deadline has passed, before it counts: the most that Linux lets a pipe hold.
const MAX_READ_LATE: usize = 1 << 20;

/// What a session's handles ask of its driver.
#[derive(Debug)]
pub(crate) enum Command {
    Prompt {
        turn: TurnKey,
        channel: Arc<EventChannel>,
        input: Content,
        limits: TurnLimits,
    },
    Cancel {
        turn: TurnKey,
    },
    Steer {
        turn: TurnKey,
        input: Content,
        reply: oneshot::Sender<Result<()>>,
    },
    SetPlanMode {
        on: bool,
        reply: oneshot::Sender<Result<()>>,
    },
    Replay {
        channel: Arc<EventChannel>,
    },
    Respond {
        request: RequestRef,
        answer: Box<ManualAnswer>,
        reply: oneshot::Sender<Result<()>>,
    },
    /// The agent turned out to speak this.
    Assume {
        dialect: Box<dyn crate::dialect::Dialect>,
    },
    ObserverFailed {
        kind: HandlerKind,
        message: String,
    },
    /// Closes the session; with a `close_timeout` of its own, if one is given.
    Close(Option<Duration>),
    Kill,
}

/// Who waits for the end of a call.
#[derive(Debug)]
enum Caller {
    Reply {
        reply: oneshot::Sender<Result<()>>,
        /// How much had been read when the call began.
        reads: u64,
    },
    Replay(Arc<EventChannel>),
}

/// How long a handler waits at most for the reader of its turn.
const READER_FIRST: Duration = Duration::from_secs(1);

/// A handler that waits until the reader of its turn has got as many events.
struct Held {
    key: RequestKey,
    channel: Arc<EventChannel>,
    position: u64,
    deadline: Instant,
    request: Box<Event>,
}

/// What a driver is made of.
pub(crate) struct Setup {
    pub(crate) connection: Connection,
    pub(crate) transport: Transport,
    pub(crate) handlers: Handlers,
    pub(crate) hello: InitializeParams,
    pub(crate) max_line_bytes: usize,
    pub(crate) close_timeout: Duration,
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) opened: oneshot::Sender<Result<Handshake>>,
    /// For agents that call the program's tools in another way than over the connection.
    pub(crate) tools_server: Option<(ToolsServer, ToolCalls)>,
}

pub(crate) struct Driver {
    connection: Connection,
    transport: Transport,
    handlers: Handlers,
    /// Handlers that wait until the reader of their turn has got what came before their requests.
    held: Vec<Held>,
    lines: LineBuffer,
    unwritten: BytesMut,
    /// The largest message in it.
    largest: usize,
    /// Since when too much waits there, and nothing of it is read.
    deaf: Option<Instant>,
    overgrown: Option<Overgrown>,
    /// Since when a request waits in a buffer that nobody reads while `result()` waits.
    held_back: Option<Instant>,
    shared: Arc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    opened: Option<oneshot::Sender<Result<Handshake>>>,
    turns: BTreeMap<TurnKey, Arc<EventChannel>>,
    callers: HashMap<CallKey, Caller>,
    /// Where somebody wants the events outside turns.
    outside: Option<Arc<EventChannel>>,
    /// Rung when a channel that was full has room again.
    room: Arc<Notify>,
    shutdown: Shutdown,
    input_ended: bool,
    tools_server: Option<(ToolsServer, ToolCalls)>,
    /// The callers of tools that wait for a result.
    tool_callers: HashMap<RequestKey, oneshot::Sender<ToolReturnValue>>,
    /// As much was read as is read at a time: more is there.
    full_read: bool,
    /// A deadline that has passed and does not count yet, and how much was read since.
    read_late: (Option<Instant>, usize),
    /// A reader was woken, which may have what there is before more is read.
    gives_way: bool,
}

enum Woken {
    Command(Command),
    Read(std::io::Result<usize>),
    Written(std::io::Result<usize>),
    Handled(handlers::Handled),
    Exited(crate::transport::Exit),
    /// This deadline has passed.
    Deadline(Option<Instant>),
    Room,
    OpenerLeft,
    ToolCall(tool_calls::Next),
}

impl Driver {
    pub(crate) fn new(setup: Setup) -> Box<Self> {
        let room = Arc::clone(&setup.shared.room);
        let outside = setup.handlers.observes().then(|| setup.shared.new_channel());
        let mut driver = Box::new(Self {
            connection: setup.connection,
            transport: setup.transport,
            handlers: setup.handlers,
            held: Vec::new(),
            lines: LineBuffer::new(setup.max_line_bytes),
            unwritten: BytesMut::new(),
            largest: 0,
            deaf: None,
            overgrown: None,
            held_back: None,
            shared: setup.shared,
            commands: setup.commands,
            opened: Some(setup.opened),
            turns: BTreeMap::new(),
            callers: HashMap::new(),
            outside,
            room,
            shutdown: Shutdown::new(setup.close_timeout),
            input_ended: false,
            tools_server: setup.tools_server,
            tool_callers: HashMap::new(),
            full_read: false,
            read_late: (None, 0),
            gives_way: false,
        });
        if let Some(outside) = &driver.outside {
            driver.handlers.observe(outside, Arc::downgrade(&driver.shared));
        }
        driver.connection.open(setup.hello, now());
        driver
    }

    /// Runs until the agent is gone and reaped. Boxed, as a future would hold it several times over.
    pub(crate) async fn run(mut self: Box<Self>) {
        loop {
            if !self.input_ended && self.shutdown.is_drained(now) {
                // A descendant holds the pipe: the agent's output ends here, be it in a line without its end.
                self.end_of_input();
            }
            self.pump();
            if self.shutdown.is_over() {
                break;
            }
            if let Some(written) = self.write_at_once().await {
                self.written(written);
                if self.shutdown.input_closed() {
                    // Its next stage may have waited for that.
                    continue;
                }
            }
            if std::mem::take(&mut self.gives_way) {
                // In a runtime of one thread the reader then finds its events in the processor's caches, and what it drops
                // is used again, instead of many more being made first.
                tokio::task::yield_now().await;
            }
            match self.wait().await {
                Woken::Command(command) => self.obey(command),
                Woken::Read(read) => self.has_read(read),
                Woken::Written(written) => self.written(written),
                Woken::Handled(handled) => handled.report(&mut self.connection, now()),
                Woken::Exited(exit) => {
                    if let Some(reason) = &exit.reason {
                        self.give_up(reason);
                    }
                    self.shutdown.exited(exit, now());
                }
                Woken::Deadline(passed) => match self.read_before_deadline(passed).await {
                    Some(read) => self.has_read(read),
                    None => self.on_deadline(),
                },
                Woken::Room => {}
                Woken::OpenerLeft => {
                    self.opened = None;
                    self.begin_close();
                }
                Woken::ToolCall(tool_calls::Next::Call(call)) => {
                    let size = call.request.name.len() + call.request.arguments.as_ref().map_or(0, String::len);
                    if let Some(key) = self.connection.call_tool(call.request, size, now()) {
                        self.tool_callers.insert(key, call.reply);
                    }
                }
                Woken::ToolCall(tool_calls::Next::Left(id)) => self.connection.tool_call_left(&id, now()),
            }
        }
        self.finish().await;
    }

    async fn wait(&mut self) -> Woken {
        let room = self.room().is_some();
        let readable = !self.input_ended && room;
        if readable != self.connection.is_listening() {
            self.connection.set_listening(readable, now());
        }
        self.note_held_back();
        let deadline = [
            self.held_back.map(|since| since + HELD_BACK),
            self.connection.next_deadline(),
            self.shutdown.deadline(!self.unwritten.is_empty()),
            self.deaf.map(|since| since + DEAF),
            self.overgrown.as_ref().map(|overgrown| overgrown.since + self.patience(overgrown.reads)),
            self.held.iter().map(|held| held.deadline).min(),
        ];
        let deadline = deadline.into_iter().flatten().min();
        let (transport, lines) = (&mut self.transport, &mut self.lines);
        let opened = &mut self.opened;
        let mut tool_calls = self.tools_server.as_mut().map(|(_, calls)| calls);
        tokio::select! {
            Some(command) = self.commands.recv() => Woken::Command(command),
            handled = self.handlers.next(), if !self.handlers.is_idle() => Woken::Handled(handled),
            // Before the reading, so that it is seldom preferred where both can be done: a cancel must not wait for an agent
            // that writes without end.
            written = transport.writer.write(&self.unwritten), if !self.unwritten.is_empty() => Woken::Written(written),
            read = read_some::<CHUNK>(&mut transport.reader, |bytes| lines.extend(bytes)), if readable => Woken::Read(read),
            exit = transport.process.wait(), if !self.shutdown.has_exited() => Woken::Exited(exit),
            () = self.room.notified() => Woken::Room,
            () = sleep_until(deadline) => Woken::Deadline(deadline),
            // Whoever opens the session does not wait for it any more.
            () = poll_fn(|cx| opened.as_mut().map_or(Poll::Pending, |opened| opened.poll_closed(cx))) => Woken::OpenerLeft,
            call = poll_fn(|cx| tool_calls.as_mut().map_or(Poll::Pending, |calls| calls.poll_next(cx, room))) => {
                Woken::ToolCall(call)
            }
        }
    }

    /// Reads what the agent has written by the time a deadline has passed: the host may have been suspended since. None if
    /// nothing is left to read, or as much was read since as a pipe can hold.
    async fn read_before_deadline(&mut self, passed: Option<Instant>) -> Option<std::io::Result<usize>> {
        if self.read_late.0 != passed {
            self.read_late = (passed, 0);
        }
        if self.input_ended || self.read_late.1 >= MAX_READ_LATE || self.room().is_none() {
            return None;
        }
        let mut read = self.read_at_once().await;
        if read.is_none() {
            // The task that has the process of several sessions may have something for this one.
            tokio::task::yield_now().await;
            read = self.read_at_once().await;
        }
        if let Some(Ok(n)) = &read {
            self.read_late.1 += n;
        }
        read
    }

    /// Reads what is there without waiting.
    async fn read_at_once(&mut self) -> Option<std::io::Result<usize>> {
        let (reader, lines) = (&mut self.transport.reader, &mut self.lines);
        let mut read = std::pin::pin!(read_some::<CHUNK>(reader, |bytes| lines.extend(bytes)));
        poll_fn(|cx| match read.as_mut().poll(cx) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn has_read(&mut self, read: std::io::Result<usize>) {
        match read {
            Ok(0) => self.end_of_input(),
            Ok(n) => self.full_read = n == CHUNK,
            Err(error) => {
                tracing::warn!(%error, "the agent's output can't be read");
                self.end_of_input();
            }
        }
    }

    /// What was read and not yet taken in still is, as far as there is room.
    fn end_of_input(&mut self) {
        self.input_ended = true;
        self.shutdown.input_ended(now());
        self.stop_writing();
    }

    fn on_deadline(&mut self) {
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
        if self.deaf.is_some_and(|since| now() >= since + DEAF) {
            self.give_up(&Error::Protocol(format!(
                "the agent asks and does not read the answers: {} bytes wait for it",
                self.unwritten.len()
            )));
        }
    }

    /// Takes in the lines that were read, as far as there is room for what they bring; does what comes of them.
    fn pump(&mut self) {
        let now = now();
        let mut more = !self.lines.is_empty();
        loop {
            self.outputs();
            if self.connection.is_closed() {
                // Nobody wants it any more.
                self.lines.clear();
                break;
            }
            let Some(batch) = more.then(|| self.room()).flatten() else { break };
            more = self.take_lines(batch, now);
        }
        self.answer_discarded_requests();
        self.outputs();
        self.start_held();
        self.lines.release();
        self.connection.release();
        let mut woken = false;
        for channel in self.turns.values().chain(self.replays()).chain(&self.outside) {
            woken |= channel.events.wake();
        }
        self.gives_way = woken && std::mem::take(&mut self.full_read);
        self.shutdown_step();
    }

    /// Takes in as many lines as there is room for. Whether more may be there.
    fn take_lines(&mut self, mut batch: Batch, now: Instant) -> bool {
        while batch.lines > 0 && batch.bytes > 0 {
            let line = match self.lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => {
                    // A last line may lack its end.
                    if !self.input_ended || self.lines.is_empty() {
                        return false;
                    }
                    self.lines.take_rest()
                }
                Err(too_long) => {
                    self.give_up(&too_long.into());
                    return false;
                }
            };
            let size = line.len();
            batch.lines -= 1;
            batch.bytes = batch.bytes.saturating_sub(size + OVERHEAD);
            if size >= LARGE && !has_memory_for(memory_to_read(line)) {
                self.give_up(&no_memory(size));
                return false;
            }
            self.connection.handle_line(line, now);
            if self.connection.has_news() {
                // Programs may ask for it once they have the event, and no later than the turn's end.
                break;
            }
        }
        true
    }

    fn answer_discarded_requests(&mut self) {
        for channel in self.turns.values().chain(&self.outside) {
            for request_id in channel.events.take_discarded_requests() {
                self.connection.unseen(&request_id, now());
            }
        }
        // Answered long ago.
        self.replays().for_each(|replay| drop(replay.events.take_discarded_requests()));
    }

    /// Does what came of what was taken in.
    fn outputs(&mut self) {
        if self.connection.take_news() {
            self.shared.update(&mut self.connection);
            if let Some((turn, usage)) = self.connection.turn_usage()
                && let Some(channel) = self.turns.get(&turn)
            {
                channel.set_usage(usage);
            }
        }
        while let Some(output) = self.deliver() {
            self.output(output);
        }
        let bytes = self.connection.take_transmit();
        if bytes.is_empty() || self.shutdown.input_closed() {
            return;
        }
        self.largest = self.largest.max(bytes.len());
        if self.unwritten.is_empty() {
            self.unwritten = Bytes::from(bytes).into();
        } else {
            self.unwritten.extend_from_slice(&bytes);
        }
    }

    /// Puts the events of a turn into its queue, up to an output that is something else.
    fn deliver(&mut self) -> Option<Output> {
        let mut filled: Option<(TurnKey, Intake<'_>)> = None;
        loop {
            match self.connection.poll_output()? {
                Output::Event { scope: Scope::Turn(turn, step), event, size } => {
                    if filled.as_ref().is_none_or(|(of, _)| *of != turn) {
                        // The first queue must be unlocked before the second is locked.
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

    fn output(&mut self, output: Output) {
        match output {
            Output::Opened(outcome) => {
                let outcome = outcome.map_err(|error| self.with_stderr(error));
                let failed = outcome.is_err();
                let unheard =
                    self.opened.take().is_none_or(|opened| opened.send(outcome.map(|welcome| *welcome)).is_err());
                if failed || unheard {
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
                match turn {
                    Some(channel) => self.ask_in_turn(key, channel, request),
                    None => self.handlers.ask(key, None, *request),
                }
            }
            Output::Withdrawn(key) => {
                self.held.retain(|held| held.key != key);
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
            Output::Hopeless(error) => self.give_up(&error),
        }
    }

    /// The reason why there is no session, with the end of the agent's stderr, where the agent may say what it lacks.
    fn with_stderr(&self, error: Error) -> Error {
        const SHOWN: usize = 2000;
        let add = |text: String| {
            let stderr = self.transport.process.stderr_tail();
            let stderr = stderr.trim();
            if stderr.is_empty() || text.contains("the end of its stderr:") {
                return text;
            }
            let start = (stderr.len().saturating_sub(SHOWN)..).find(|at| stderr.is_char_boundary(*at)).unwrap_or(0);
            format!("{text}\nthe end of its stderr:\n{}", &stderr[start..])
        };
        match error {
            Error::Timeout(text) => Error::Timeout(add(text)),
            Error::Handshake(text) => Error::Handshake(add(text)),
            other => other,
        }
    }

    /// Starts a handler of a turn: if somebody reads the turn, once they have got what came before the request.
    fn ask_in_turn(&mut self, key: RequestKey, channel: Arc<EventChannel>, request: Box<Event>) {
        let position = channel.events.before_last();
        if channel.events.notify_when_delivered(position) {
            self.held.push(Held { key, channel, position, deadline: now() + READER_FIRST, request });
        } else {
            self.handlers.ask(key, Some(channel), *request);
        }
    }

    /// Starts the handlers that need not wait for a reader any more.
    fn start_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let now = now();
        for held in self
            .held
            .extract_if(.., |held| now >= held.deadline || !held.channel.events.notify_when_delivered(held.position))
        {
            self.handlers.ask(held.key, Some(held.channel), *held.request);
        }
    }

    fn call_ended(&mut self, call: CallKey, outcome: Result<Json>) {
        match self.callers.remove(&call) {
            Some(Caller::Reply { reply, .. }) => drop(reply.send(outcome.map(drop))),
            Some(Caller::Replay(channel)) => channel.finish(outcome.map(|_| replayed())),
            None => {}
        }
    }

    fn obey(&mut self, command: Command) {
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
}

/// How many bytes reading a large line may take, at the most: a copy of what is in it. Where it has escapes, also the
/// buffer that they are resolved in, which may be twice as large as the text, as it grows by doubling.
fn memory_to_read(line: &[u8]) -> usize {
    line.len().saturating_mul(if line.contains(&b'\\') { 3 } else { 2 })
}

/// The clock of the runtime's timers, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

impl Drop for Driver {
    /// Where the runtime ends before the session, or a defect of ours ends this task, everybody still hears of it.
    fn drop(&mut self) {
        let error = if std::thread::panicking() {
            Error::Internal("the session's driver panicked".to_owned())
        } else {
            Error::SessionClosed
        };
        self.shared.close(error.clone());
        for channel in self.turns.values().chain(self.replays()) {
            channel.finish(Err(error.clone()));
        }
        self.refuse_commands(&error);
        if let Some(outside) = &self.outside {
            outside.finish(Err(error));
        }
        self.shared.ended();
    }
}

impl Command {
    /// The session is over: whoever asked hears why.
    fn fail(self, error: &Error) {
        match self {
            Self::Prompt { channel, .. } | Self::Replay { channel } => channel.finish(Err(error.clone())),
            Self::Steer { reply, .. } | Self::SetPlanMode { reply, .. } | Self::Respond { reply, .. } => {
                drop(reply.send(Err(error.clone())));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
