//! The task that owns an agent's process: its pipes, its endpoint, and its sessions, one or many.
//!
//! Each round takes the lines that were read, as far as the sessions have capacity, writes what comes of them, and then
//! waits for the next thing to happen. A line goes from the [`PipeReader`] by way of [`Endpoint::route`] to the session that it
//! belongs to ([`super::session`]).

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::io::Result as IoResult;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};

use super::closing::Stage;
use super::commands::{Answer, Call, ProcessCommand, ProcessHandle};
use super::handlers::Handled;
use super::reader::PipeReader;
use super::session::SessionDriver;
use super::shutdown::{STDERR_GRACE, Shutdown};
use super::writer::PipeWriter;
use super::{now, sleep_until, tool_calls};
use crate::dialect::echo_error;
use crate::endpoint::{ConnectionKey, Endpoint, HandshakeRole, Route, first_id};
use crate::error::{AgentExit, Error};
use crate::transport::{Exit, Process, Transport};
use crate::wire::Json;
use crate::wire::jsonrpc::{self, Message};

/// What the sessions of a process have in common.
pub(super) struct Io {
    pub(super) endpoint: Endpoint,
    pub(super) writer: PipeWriter,
    pub(super) process: Box<dyn Process>,
}

impl Io {
    /// The reason why there is no session, with the end of the agent's stderr, where the agent may say what it lacks.
    pub(super) fn with_stderr(&self, error: Error) -> Error {
        const SHOWN: usize = 2000;
        let add = |text: String| {
            let stderr = self.process.stderr_tail();
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
}

/// The sessions of a process, and the one-off calls that wait for an answer.
#[derive(Default)]
struct Sessions {
    drivers: BTreeMap<ConnectionKey, Box<SessionDriver>>,
    calls: HashMap<ConnectionKey, oneshot::Sender<Answer>>,
}

/// The task that owns a process.
pub(crate) struct ProcessTask {
    io: Io,
    reader: PipeReader,
    sessions: Sessions,
    commands: mpsc::UnboundedReceiver<ProcessCommand>,
    /// Rung when a queue that was full has room again.
    bell: Arc<Notify>,
    shutdown: Shutdown,
    /// Sessions can be added, or could when the process was younger.
    is_shared: bool,
    /// No session can be opened any more.
    spent: Arc<std::sync::atomic::AtomicBool>,
    still_running: Arc<OnceLock<Error>>,
    /// A reader was woken, which may have what there is before more is read.
    yield_after_wake: bool,
}

enum Woken {
    Command(Option<ProcessCommand>),
    Read(IoResult<usize>),
    Written(IoResult<usize>),
    Handled(ConnectionKey, Handled),
    ToolCall(ConnectionKey, tool_calls::Next),
    Exited(Exit),
    /// This deadline has passed.
    Deadline(Option<Instant>),
    Bell,
}

/// How a process is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// By one session, which its protocol has no ids for.
    Single,
    /// By one session of a protocol that could have several.
    Alone,
    /// By any number of sessions.
    Shared,
}

impl ProcessTask {
    /// A task for a process, which is to be spawned, and the handle by which it gets sessions. `close_timeout` is how long the
    /// process may take to exit by itself.
    pub(crate) fn new(transport: Transport, close_timeout: Duration, sharing: Sharing) -> (ProcessHandle, Self) {
        let Transport { reader, writer, process } = transport;
        let (sender, commands) = mpsc::unbounded_channel();
        let handle = ProcessHandle::new(sender, process.pid());
        let endpoint = if sharing == Sharing::Single { Endpoint::single() } else { Endpoint::default() };
        let is_shared = sharing == Sharing::Shared;
        let task = Self {
            io: Io { endpoint, writer: PipeWriter::new(writer), process },
            reader: PipeReader::new(reader),
            sessions: Sessions::default(),
            commands,
            bell: Arc::clone(&handle.bell),
            shutdown: Shutdown::new(close_timeout, !is_shared),
            is_shared,
            spent: Arc::clone(&handle.spent),
            still_running: Arc::clone(&handle.still_running),
            yield_after_wake: false,
        };
        (handle, task)
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Runs until the process is gone and reaped. Boxed, as a future would hold it several times over.
    pub(crate) async fn run(mut self: Box<Self>) {
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        loop {
            if !self.reader.has_ended() && self.shutdown.is_drained() {
                // A descendant holds the pipe: the agent's output ends here, be it in a line without its end.
                self.output_ended();
            }
            self.take_lines();
            self.advance_ends();
            if self.shutdown.has_exited() && self.reader.has_ended() {
                break;
            }
            if let Some(written) = self.io.writer.write_at_once().await {
                self.written(written);
                if self.shutdown.has_begun() {
                    // Its next stage may have waited for that.
                    continue;
                }
            }
            if std::mem::take(&mut self.yield_after_wake) {
                // In a runtime of one thread the reader then finds its events in the processor's caches, and what it drops
                // is used again, instead of many more being made first.
                tokio::task::yield_now().await;
            }
            match self.wait().await {
                Woken::Command(Some(command)) => self.obey(command),
                Woken::Command(None) => self.shutdown.is_closing = true,
                Woken::Read(read) => self.has_read(read),
                Woken::Written(written) => self.written(written),
                Woken::Handled(key, handled) => self.session(key, |session| session.handled(handled)),
                Woken::ToolCall(key, call) => self.session(key, |session| session.handle_tool_call(call)),
                Woken::Exited(exit) => self.exited(exit),
                Woken::Deadline(passed) => {
                    let may_read = self.may_read();
                    match if may_read { self.reader.read_before_deadline(passed).await } else { None } {
                        Some(read) => self.has_read(read),
                        None => self.handle_deadline(),
                    }
                }
                Woken::Bell => {}
            }
        }
        self.finish().await;
    }

    async fn wait(&mut self) -> Woken {
        let may_read = self.may_read();
        let mut deadline =
            [self.shutdown.deadline(self.reader.has_ended()), self.io.writer.deadline()].into_iter().flatten().min();
        let unwritten = !self.io.writer.is_empty();
        let has_exited = self.shutdown.has_exited();
        for session in self.sessions.drivers.values_mut() {
            let is_listening = may_read && !session.flow.is_blocked();
            if is_listening != session.connection.is_listening() {
                session.connection.set_listening(is_listening, now());
            }
            let closing = session.closing.deadline(unwritten).filter(|_| !has_exited);
            deadline = deadline.into_iter().chain(session.next_deadline()).chain(closing).min();
        }
        let sessions = &mut self.sessions;
        tokio::select! {
            command = self.commands.recv(), if !self.commands.is_closed() || !self.commands.is_empty() => Woken::Command(command),
            // Before the reading, so that it is seldom preferred where both can be done: a cancel must not wait for an agent
            // that writes without end.
            written = self.io.writer.write(), if unwritten => Woken::Written(written),
            read = self.reader.read(), if may_read => Woken::Read(read),
            exit = self.io.process.wait(), if !self.shutdown.has_exited() => Woken::Exited(exit),
            () = self.bell.notified() => Woken::Bell,
            () = sleep_until(deadline) => Woken::Deadline(deadline),
            woken = poll_fn(|cx| sessions.poll(cx)) => woken,
        }
    }

    /// Whether the agent's output is read: every session has capacity, or one that has capacity waits for an answer. So a
    /// session that does not read holds up the process only while nobody else waits for it.
    fn may_read(&mut self) -> bool {
        !self.reader.has_ended() && !self.io.writer.is_stalled() && self.sessions.has_capacity()
    }

    /// Does something with a session, if it is still there.
    fn session(&mut self, key: ConnectionKey, action: impl FnOnce(&mut SessionDriver)) {
        if let Some(session) = self.sessions.drivers.get_mut(&key) {
            session.in_span(action);
        }
    }

    fn obey(&mut self, command: ProcessCommand) {
        match command {
            ProcessCommand::Attach { key, setup, shared } => {
                self.reader.allow_line_bytes(setup.max_line_bytes);
                let session = SessionDriver::new(key, *setup, shared, self.is_shared, &mut self.io);
                self.sessions.drivers.insert(key, session);
            }
            ProcessCommand::Session(key, command) => match self.sessions.drivers.get_mut(&key) {
                Some(session) => session.in_span(|session| session.handle_command(*command)),
                None => command.fail(&Error::SessionClosed),
            },
            ProcessCommand::Call(call) => self.call(*call),
            ProcessCommand::Close(timeout) => self.close(timeout),
            ProcessCommand::Kill => self.shutdown.kill(&mut self.io),
        }
    }

    /// No more sessions come, and the process ends with the last one.
    fn close(&mut self, timeout: Option<Duration>) {
        let again = std::mem::replace(&mut self.shutdown.is_closing, true);
        match timeout {
            Some(Duration::ZERO) => self.shutdown.kill(&mut self.io),
            Some(timeout) => {
                let former = self.shutdown.close_timeout;
                self.shutdown.close_timeout = if again { former.min(timeout) } else { timeout };
                self.shutdown.shorten(timeout);
            }
            None => {}
        }
    }

    fn call(&mut self, call: Call) {
        let Call { key, method, params, max_line_bytes, reply } = call;
        self.reader.allow_line_bytes(max_line_bytes);
        if method == "initialize" {
            match self.io.endpoint.join_handshake(key) {
                HandshakeRole::Ask => {}
                HandshakeRole::Wait => return drop(self.sessions.calls.insert(key, reply)),
                HandshakeRole::Answered(answer) => return drop(reply.send(Ok(Ok(Json::from_raw(&answer))))),
            }
        }
        self.io.writer.push(jsonrpc::numbered_request(first_id(key), method, &params));
        self.sessions.calls.insert(key, reply);
    }

    // --- reading ---

    /// Takes the lines that were read, as far as there is capacity for what they bring; does what comes of them.
    fn take_lines(&mut self) {
        let now = now();
        for session in self.sessions.drivers.values_mut() {
            session.in_span(|session| session.refill(&mut self.io, now));
        }
        loop {
            if self.sessions.drivers.values().all(|session| session.connection.is_closed())
                && self.sessions.calls.is_empty()
                && !self.is_shared
            {
                // Nobody wants it any more.
                self.reader.clear();
                break;
            }
            if self.io.writer.is_stalled() || !self.sessions.has_capacity() {
                break;
            }
            match self.reader.next_line() {
                Ok(Some(line)) => self.sessions.route(line, &mut self.io, now),
                Ok(None) => break,
                Err(error) => {
                    self.fail_all(&error);
                    break;
                }
            }
        }
        self.reader.release();
        let mut woken = false;
        for session in self.sessions.drivers.values_mut() {
            woken |= session.in_span(|session| session.wake_readers(&mut self.io));
        }
        self.io.writer.push(self.io.endpoint.take_transmit());
        self.yield_after_wake = woken && self.reader.take_was_full();
    }

    fn has_read(&mut self, read: IoResult<usize>) {
        match read {
            Ok(0) => self.output_ended(),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "the agent's output can't be read");
                self.output_ended();
            }
        }
    }

    /// What was read and not yet taken still is, as far as there is capacity.
    fn output_ended(&mut self) {
        self.reader.end();
        self.pipe_closed();
    }

    // --- writing ---

    fn written(&mut self, written: IoResult<usize>) {
        match written {
            Ok(count) if count > 0 => {
                self.io.writer.written(count);
                let now = now();
                self.sessions.drivers.values_mut().for_each(|session| session.closing.written(now));
            }
            failed => {
                tracing::debug!(?failed, "the agent's input can't be written");
                self.pipe_closed();
            }
        }
    }

    /// An agent that has closed one of its pipes is of no use any more.
    fn pipe_closed(&mut self) {
        self.spent.store(true, Ordering::Release);
        self.shutdown.pipe_closed();
        self.io.writer.close();
    }

    // --- ends ---

    fn handle_deadline(&mut self) {
        for session in self.sessions.drivers.values_mut() {
            session.in_span(SessionDriver::handle_deadline);
        }
        if let Some(unwritten) = self.io.writer.timed_out() {
            self.fail_all(&Error::Protocol(format!(
                "the agent asks and does not read the answers: {unwritten} bytes wait for it"
            )));
        }
    }

    /// The process can't go on: every session fails with this.
    fn fail_all(&mut self, error: &Error) {
        self.spent.store(true, Ordering::Release);
        self.reader.clear();
        for session in self.sessions.drivers.values_mut() {
            session.in_span(|session| {
                session.fail(error);
                session.flush(&mut self.io);
                session.closing.stage = Stage::WithProcess;
            });
        }
        self.sessions.fail_calls(error);
        self.shutdown.terminate(&mut self.io);
    }

    fn exited(&mut self, exit: Exit) {
        self.spent.store(true, Ordering::Release);
        self.shutdown.exited(exit);
        self.io.writer.close();
        // What the agent wrote before its end is taken whatever the queues hold.
        self.sessions.drivers.values_mut().for_each(|session| session.flow.drain());
    }

    /// Takes sessions, and then the process, further to their end.
    fn advance_ends(&mut self) {
        let keys: Vec<ConnectionKey> = self.sessions.drivers.keys().copied().collect();
        for key in keys {
            if let Some(session) = self.sessions.drivers.get_mut(&key)
                && !self.shutdown.has_exited()
            {
                session.in_span(|session| session.advance_closing(&mut self.io));
                self.advance_leaving(key);
            }
        }
        if self.shutdown.is_closing && self.sessions.drivers.is_empty() {
            self.shutdown.hang_up(self.shutdown.close_timeout, &mut self.io);
        }
        self.io.writer.push(self.io.endpoint.take_transmit());
        self.shutdown.advance(&mut self.io);
    }

    /// A session that has nothing left to end leaves the process. The last one, if no more can come, ends it instead.
    fn advance_leaving(&mut self, key: ConnectionKey) {
        let is_last = self.shutdown.is_closing && self.sessions.drivers.len() == 1;
        let Some(session) = self.sessions.drivers.get_mut(&key) else { return };
        let timeout = session.closing.close_timeout.min(self.shutdown.close_timeout);
        match session.closing.stage {
            Stage::Open | Stage::Cancelling { .. } => return,
            Stage::WithProcess => {
                if let Some(timeout) = session.closing.shortened.take().filter(|_| is_last) {
                    self.shutdown.shorten(timeout);
                }
                return;
            }
            Stage::Killed if is_last => self.shutdown.kill(&mut self.io),
            Stage::Failed if is_last => self.shutdown.terminate(&mut self.io),
            Stage::Closed | Stage::Leaving { .. } if is_last => self.shutdown.hang_up(timeout, &mut self.io),
            // The process is about to end, and the session is to hear how.
            Stage::Closed if self.reader.has_ended() => {}
            Stage::Closed if !self.shutdown.is_closing => {
                session.leave(&mut self.io);
                if self.io.endpoint.is_leaving(key) {
                    session.closing.stage = Stage::Leaving { until: now() + session.closing.close_timeout };
                    return;
                }
                return self.end_session(key);
            }
            Stage::Leaving { until }
                if !self.shutdown.is_closing && self.io.endpoint.is_leaving(key) && now() < until =>
            {
                return;
            }
            Stage::Leaving { .. } => return self.end_session(key),
            Stage::Closed | Stage::Failed | Stage::Killed => {
                session.leave(&mut self.io);
                return self.end_session(key);
            }
        }
        if let Some(session) = self.sessions.drivers.get_mut(&key) {
            session.closing.stage = Stage::WithProcess;
        }
    }

    /// A session ends while the process goes on.
    fn end_session(&mut self, key: ConnectionKey) {
        if let Some(session) = self.sessions.drivers.get_mut(&key) {
            session.in_span(|session| session.fail_all(&Error::SessionClosed, &mut self.io));
        }
        // None of its commands comes after these.
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        self.io.endpoint.remove(key);
        if let Some(mut session) = self.sessions.drivers.remove(&key) {
            session.in_span(|session| session.flush(&mut self.io));
            tokio::spawn(session.end());
        }
    }

    /// The process is gone: everybody hears how.
    async fn finish(mut self: Box<Self>) {
        // Its group may have members that outlived it.
        self.io.process.kill();
        self.io.process.release();
        let exit = self.shutdown.reported_exit();
        if let Some(error) = &exit.still_running {
            drop(self.still_running.set((**error).clone()));
        } else if self.sessions.needs_exit() {
            drop(tokio::time::timeout(STDERR_GRACE, self.io.process.stderr_done()).await);
        }
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        let stderr = self.io.process.stderr_tail();
        let exit_of =
            || AgentExit { exit_code: exit.code, signal: exit.signal.clone(), stderr: stderr.clone(), hint: None };
        self.sessions
            .fail_calls(&exit.still_running.as_deref().cloned().unwrap_or_else(|| Error::AgentExited(exit_of())));
        for (_, mut session) in std::mem::take(&mut self.sessions.drivers) {
            if let Some(error) = &exit.still_running {
                session.shared.still_running((**error).clone());
            }
            let error = match &exit.still_running {
                _ if session.closing.is_asked => Error::SessionClosed,
                Some(error) => (**error).clone(),
                None => session.connection.end_of_agent(exit_of()),
            };
            session.in_span(|session| session.fail_all(&error, &mut self.io));
            session.end().await;
        }
    }
}

impl Drop for ProcessTask {
    /// Where the runtime ends first, commands that were not obeyed fail.
    fn drop(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let ProcessCommand::Session(_, command) = command {
                command.fail(&Error::SessionClosed);
            }
        }
    }
}

impl Sessions {
    /// Whether a line can be taken, whosever it is.
    fn has_capacity(&self) -> bool {
        let mut is_blocked = false;
        let mut waits = !self.calls.is_empty();
        for session in self.drivers.values() {
            if session.flow.is_blocked() {
                is_blocked = true;
            } else {
                waits |= session.awaits_answer();
            }
        }
        !is_blocked || waits
    }

    /// Whether a session other than this one waits for an answer.
    fn others_wait(&self, than: ConnectionKey) -> bool {
        let waits = |session: &SessionDriver| session.awaits_answer() && !session.flow.is_blocked();
        !self.calls.is_empty() || self.drivers.values().any(|session| session.key != than && waits(session))
    }

    /// Gives a line to the session that it belongs to.
    fn route(&mut self, line: &[u8], io: &mut Io, now: Instant) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let message = jsonrpc::parse(line);
        if self.fails_echoed_call(&message) {
            return;
        }
        match io.endpoint.route(&message, line) {
            Route::To(key) => self.deliver(key, message, line, io, now),
            Route::Named(key, kept) => {
                for line in kept {
                    self.deliver(key, jsonrpc::parse(&line), &line, io, now);
                }
                self.deliver(key, message, line, io, now);
            }
            Route::Handshake(keys) => {
                for key in keys {
                    match self.drivers.get_mut(&key) {
                        Some(session) => session.in_span(|session| session.handle_handshake(&message, line, now)),
                        None => self.answer_call(key, &message),
                    }
                }
            }
            Route::Conflict(key, error) => {
                if let Some(session) = self.drivers.get_mut(&key) {
                    session.in_span(|session| session.fail(&error));
                }
            }
            // What the session waits for has come: see `advance_leaving`.
            Route::Left(_) | Route::Nowhere => {}
        }
    }

    fn deliver(&mut self, key: ConnectionKey, message: Message<'_>, line: &[u8], io: &mut Io, now: Instant) {
        let others_wait = self.drivers.len() > 1 && self.others_wait(key);
        let Some(session) = self.drivers.get_mut(&key) else { return self.answer_call(key, &message) };
        session.in_span(|session| {
            session.take_line(message, line, io, now);
            if others_wait && session.is_behind() {
                session.fail_behind();
            }
        });
    }

    fn answer_call(&mut self, key: ConnectionKey, message: &Message<'_>) {
        match (self.calls.remove(&key), message) {
            (Some(reply), Message::Response { outcome, .. }) => {
                drop(reply.send(Ok(outcome.clone().map(Json::from_raw))));
            }
            _ => tracing::debug!("message for a session that has ended"),
        }
    }

    /// The program sends our own calls back, as `cat` does: then those who called hear so.
    fn fails_echoed_call(&mut self, message: &Message<'_>) -> bool {
        let Message::Request { method, .. } = message else { return false };
        let is_echo = self.drivers.is_empty() && !self.calls.is_empty() && method == "initialize";
        if is_echo {
            self.fail_calls(&Error::Handshake(echo_error("the Agent Client Protocol", method)));
        }
        is_echo
    }

    fn fail_calls(&mut self, error: &Error) {
        self.calls.drain().for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
    }

    /// Whether somebody is to hear how the process ended.
    fn needs_exit(&self) -> bool {
        !self.calls.is_empty() || self.drivers.values().any(|session| !session.closing.is_asked)
    }

    /// What handlers and tools' callers have for a session.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Woken> {
        for (key, session) in &mut self.drivers {
            if let Poll::Ready(handled) = session.poll_handled(cx) {
                return Poll::Ready(Woken::Handled(*key, handled));
            }
            if let Poll::Ready(call) = session.poll_tool_call(cx) {
                return Poll::Ready(Woken::ToolCall(*key, call));
            }
        }
        Poll::Pending
    }
}
