//! The task that owns an agent's process: its pipes, its endpoint, and its sessions.
//!
//! Each round takes the lines that were read, within the capacity of the sessions, writes the resulting bytes, and
//! waits for the next event. The [`PipeReader`] reads a line, [`Endpoint::route`] finds its session, and
//! [`super::session`] handles it.

use std::future::poll_fn;
use std::io::Result as IoResult;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};

use super::closing::Stage;
use super::io::Io;
use super::process_handle::{Call, ProcessCommand, ProcessHandle};
use super::reader::PipeReader;
use super::session::{SessionDriver, SessionEvent};
use super::sessions::Sessions;
use super::shutdown::{STDERR_GRACE, Shutdown};
use super::writer::PipeWriter;
use super::{now, sleep_until};
use crate::endpoint::{ConnectionKey, Endpoint, HandshakeRole, first_id};
use crate::error::{AgentExit, Error};
use crate::jsonrpc;
use crate::messages::Json;
use crate::transport::{Exit, Transport};

/// Longer lines are taken on a thread of their own, in bytes.
pub(super) const LONG: usize = 64 << 10;
/// The limit of short lines that are taken apart before commands and deadlines are looked at.
const MAX_APART: u8 = 32;

/// The task that owns a process.
pub(crate) struct ProcessTask {
    io: Io,
    reader: PipeReader,
    sessions: Sessions,
    commands: mpsc::UnboundedReceiver<Box<ProcessCommand>>,
    /// Starts another round: a full queue has capacity again, or sessions got commands in the middle of a round.
    bell: Arc<Notify>,
    shutdown: Shutdown,
    /// Whether sessions can be added, or could be added earlier.
    is_shared: bool,
    /// Whether the process accepts no more sessions.
    spent: Arc<std::sync::atomic::AtomicBool>,
    still_running: Arc<OnceLock<Box<Error>>>,
    /// Whether more was there to read than one read takes.
    yield_before_wait: bool,
    /// Lines that were taken apart in this round.
    taken_apart: u8,
    /// An event with a large text, which comes next.
    large: Option<Box<LargeEvent>>,
}

enum Woken {
    Command(Option<Box<ProcessCommand>>),
    Read(IoResult<usize>),
    Written(IoResult<usize>),
    Session(ConnectionKey, SessionEvent),
    Exited(Exit),
    /// This deadline was exceeded.
    Deadline(Option<Instant>),
    Bell,
}

/// Work on a thread of its own. Its result has the task again.
type Apart<T> = Pin<Box<dyn Future<Output = Option<(Box<ProcessTask>, T)>> + Send>>;
/// An event of a session with a large text.
type LargeEvent = (ConnectionKey, SessionEvent);

impl ProcessTask {
    /// Makes the task of a process, which the caller spawns, and the handle that adds sessions to it. `close_timeout`
    /// is how long the process may take to exit by itself.
    pub(crate) fn new(
        transport: Transport,
        endpoint: Endpoint,
        close_timeout: Duration,
        is_shared: bool,
    ) -> (ProcessHandle, Self) {
        let Transport { reader, writer, process, paths } = transport;
        let (sender, commands) = mpsc::unbounded_channel();
        let handle = ProcessHandle::new(sender, process.pid());
        let task = Self {
            io: Io { endpoint, writer: PipeWriter::new(writer, paths.clone()), process, paths },
            reader: PipeReader::new(reader),
            sessions: Sessions::default(),
            commands,
            bell: Arc::clone(&handle.bell),
            shutdown: Shutdown::new(close_timeout, !is_shared),
            is_shared,
            spent: Arc::clone(&handle.spent),
            still_running: Arc::clone(&handle.still_running),
            yield_before_wait: false,
            taken_apart: 0,
            large: None,
        };
        (handle, task)
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Runs until the process has exited and was reaped. Boxed, because a future would hold the task several times.
    pub(crate) async fn run(mut self: Box<Self>) {
        self.obey_waiting();
        loop {
            if !self.reader.has_ended() && self.shutdown.is_drained() {
                // A descendant holds the pipe, so the agent's output ends here, possibly in the middle of a line.
                self.output_ended();
            }
            self.taken_apart = 0;
            while self.take_lines(false) {
                let is_long = self.reader.peek_line().is_some_and(|line| line.len() > LONG);
                match self.apart(|task| task.take_lines(true)).await {
                    Some((task, _)) => self = task,
                    None => return,
                }
                // Commands and deadlines are looked at between two lines that take long, and after some short ones, because a decision
                // about a large call takes long, too; unless the agent has ended.
                self.taken_apart = self.taken_apart.saturating_add(1);
                if (is_long || self.taken_apart >= MAX_APART) && !self.shutdown.has_exited() && !self.reader.has_ended()
                {
                    self.obey_waiting();
                    self.bell.notify_one();
                    break;
                }
            }
            self.advance_ends();
            if self.shutdown.has_exited() && self.reader.has_ended() {
                break;
            }
            if let Some(written) = self.io.writer.write_at_once().await {
                self.written(written);
                if self.shutdown.has_begun() {
                    // The next stage may have waited for this write.
                    continue;
                }
            }
            if std::mem::take(&mut self.yield_before_wait) {
                // An agent that writes without end must not stop the other tasks of the runtime's thread, whether its lines make
                // events or not. The reader then finds its events in the processor's caches, and the memory that it frees is
                // reused for the next events.
                tokio::task::yield_now().await;
            }
            let passed = {
                let woken = self.wait().await;
                self.handle(woken)
            };
            if self.large.is_some() {
                match self.apart(Self::handle_large).await {
                    Some((task, ())) => self = task,
                    None => return,
                }
            } else if let Some(passed) = passed {
                let may_read = self.may_read();
                match if may_read { self.reader.read_before_deadline(passed).await } else { None } {
                    Some(read) => self.has_read(read),
                    None => self.handle_deadline(),
                }
            }
        }
        self.finish().await;
    }

    /// Obeys the commands that have come.
    fn obey_waiting(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.obey(*command);
        }
    }

    /// Handles an event of the process. Returns a deadline that was exceeded: the agent's earlier output is read first. An
    /// event with a large text is kept, because it is handled apart.
    fn handle(&mut self, woken: Woken) -> Option<Instant> {
        match woken {
            Woken::Session(key, event) if event.is_large() => self.large = Some(Box::new((key, event))),
            Woken::Command(Some(command)) => self.obey(*command),
            Woken::Command(None) => self.shutdown.is_closing = true,
            Woken::Read(read) => self.has_read(read),
            Woken::Written(written) => self.written(written),
            Woken::Session(key, event) => self.session(key, |session| session.handle_event(event)),
            Woken::Exited(exit) => self.exited(exit),
            Woken::Deadline(passed) => return passed,
            Woken::Bell => {}
        }
        None
    }

    /// Does work that can take long on a thread of its own, so that it does not stop the sessions of other processes. Returns `None`
    /// after a panic, which is of no session alone, so that it ends the process. Boxed, because the task of an idle process would have
    /// room for it.
    fn apart<T: Send + 'static>(mut self: Box<Self>, work: impl FnOnce(&mut Self) -> T + Send + 'static) -> Apart<T> {
        let work = move || {
            let done = work(&mut self);
            (self, done)
        };
        let working = tokio::task::spawn_blocking(work);
        Box::pin(async move { working.await.ok() })
    }

    /// Handles the event with a large text, and encodes its answer.
    fn handle_large(&mut self) {
        let Some((key, event)) = self.large.take().map(|large| *large) else { return };
        if let Some(session) = self.sessions.get_mut(key) {
            session.in_span(|session| {
                session.handle_event(event);
                session.flush(&mut self.io);
            });
        }
    }

    async fn wait(&mut self) -> Woken {
        let may_read = self.may_read();
        let mut deadline =
            [self.shutdown.deadline(self.reader.has_ended()), self.io.writer.deadline()].into_iter().flatten().min();
        let unwritten = !self.io.writer.is_empty();
        let has_exited = self.shutdown.has_exited();
        for session in self.sessions.drivers.iter_mut() {
            let next = session.contained(|session| {
                let is_listening = may_read && !session.flow.is_blocked();
                if is_listening != session.connection.is_reading() {
                    session.connection.set_reading(is_listening, now());
                }
                session.next_deadline()
            });
            let closing = session.closing.deadline(unwritten).filter(|_| !has_exited);
            deadline = deadline.into_iter().chain(next).chain(closing).min();
        }
        let sessions = &mut self.sessions;
        tokio::select! {
            command = self.commands.recv(), if !self.commands.is_closed() || !self.commands.is_empty() => Woken::Command(command),
            // Before the reading, so that reading is rarely preferred if both are possible. A cancel must not wait for
            // an agent that writes without end.
            written = self.io.writer.write(), if unwritten => Woken::Written(written),
            read = self.reader.read(), if may_read => Woken::Read(read),
            exit = self.io.process.wait(), if !self.shutdown.has_exited() => Woken::Exited(exit),
            () = self.bell.notified() => Woken::Bell,
            () = sleep_until(deadline) => Woken::Deadline(deadline),
            (key, event) = poll_fn(|cx| sessions.poll_event(cx)) => Woken::Session(key, event),
        }
    }

    /// Returns whether the agent's output is read: every session has capacity, or a session with capacity waits for an
    /// answer. So a session that does not read stops the process only while no other session waits.
    fn may_read(&mut self) -> bool {
        !self.reader.has_ended() && !self.io.writer.is_stalled() && self.has_capacity()
    }

    /// Returns whether a line can be taken. A server is always read, because each of its sessions has a backlog of its
    /// own.
    fn has_capacity(&self) -> bool {
        !self.io.process.waits_for_reader() || self.sessions.has_capacity()
    }

    /// Calls `action` for a session, if it still exists.
    fn session(&mut self, key: ConnectionKey, action: impl FnOnce(&mut SessionDriver)) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.in_span(action);
        }
    }

    fn obey(&mut self, command: ProcessCommand) {
        match command {
            ProcessCommand::Attach { key, setup, shared } => {
                self.reader.allow_line_bytes(setup.max_line_bytes);
                let session = SessionDriver::new(key, *setup, shared, self.is_shared, &mut self.io);
                self.sessions.insert(session);
            }
            ProcessCommand::Session(key, command) => match self.sessions.get_mut(key) {
                Some(session) => session.in_span(|session| session.handle_command(command)),
                None => command.fail(&Error::session_closed()),
            },
            ProcessCommand::Call(call) => self.call(call),
            ProcessCommand::Close(timeout) => self.close(timeout),
            ProcessCommand::Kill => self.shutdown.kill(&mut self.io),
        }
    }

    /// Accepts no more sessions. The process ends with the last one.
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
                HandshakeRole::Wait => return self.sessions.calls.push((key, reply)),
                HandshakeRole::Answered(answer) => return drop(reply.send(Ok(Ok(Json::from_raw(&answer))))),
            }
        }
        self.io.writer.push(jsonrpc::numbered_request(first_id(key), &method, &params));
        self.sessions.calls.push((key, reply));
    }

    // --- reading ---

    /// Returns whether the next line can take long. `decides` says whether lines can begin other work.
    fn is_next_long(&mut self, decides: bool) -> bool {
        let process = &self.io.process;
        let may_decide = |line: &[u8]| !process.waits_for_reader() || jsonrpc::may_have_id(line);
        self.reader.peek_line().is_some_and(|line| line.len() > LONG || (decides && may_decide(line)))
    }

    /// Takes the lines that were read, within the capacity of the sessions, and delivers their outputs. It stops before a line that
    /// can take long, and returns true: such a line must not stop the sessions of other processes, so it is taken on a thread of
    /// its own, with `is_apart`.
    fn take_lines(&mut self, mut is_apart: bool) -> bool {
        let mut is_left = false;
        let now = now();
        for session in self.sessions.drivers.iter_mut() {
            session.in_span(|session| session.refill(&mut self.io, now));
        }
        let mut state = self.sessions.state();
        loop {
            if state.is_unused && !self.is_shared {
                // Nothing uses the output any more.
                self.reader.clear();
                break;
            }
            if self.io.writer.is_stalled() || state.has_full && !self.has_capacity() {
                break;
            }
            if self.is_next_long(state.decides) && !std::mem::take(&mut is_apart) {
                is_left = true;
                break;
            }
            // A piece of a text changes nothing but its own session, and decides nothing.
            let max = if state.decides { 1 } else { usize::MAX };
            if let Some(is_full) = self.sessions.take_pieces(&mut self.reader, max, &mut self.io, now) {
                state.has_full |= is_full;
                continue;
            }
            match self.reader.next_line() {
                Ok(Some(line)) => {
                    self.sessions.route(line, &mut self.io, now);
                    state = self.sessions.state();
                }
                Ok(None) => break,
                Err(error) => {
                    self.fail_all(&error);
                    break;
                }
            }
        }
        self.reader.release();
        for session in self.sessions.drivers.iter_mut() {
            session.in_span(|session| session.wake_readers(&mut self.io));
        }
        self.io.writer.push(self.io.endpoint.poll_transmit());
        self.yield_before_wait = self.reader.take_was_full();
        is_left
    }

    fn has_read(&mut self, read: IoResult<usize>) {
        match read {
            Ok(0) => self.output_ended(),
            Ok(_) => {}
            Err(error) => {
                // A gateway reports the reason.
                let reason = error.get_ref().and_then(|reason| reason.downcast_ref::<Error>());
                if reason.is_none() {
                    tracing::warn!(%error, "the agent's output can't be read");
                }
                self.output_ended();
                if let Some(reason) = reason {
                    self.fail_all(reason);
                }
            }
        }
    }

    /// Handles the end of the output.
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
                self.sessions.drivers.iter_mut().for_each(|session| session.closing.written(now));
            }
            failed => {
                tracing::debug!(?failed, "the agent's input can't be written");
                self.pipe_closed();
            }
        }
    }

    /// Handles a closed pipe: an agent without both pipes cannot be used any more.
    fn pipe_closed(&mut self) {
        self.spent.store(true, Ordering::Release);
        self.shutdown.pipe_closed();
        self.io.writer.close();
    }

    // --- ends ---

    fn handle_deadline(&mut self) {
        for session in self.sessions.drivers.iter_mut() {
            session.in_span(SessionDriver::handle_deadline);
        }
        if let Some(unwritten) = self.io.writer.timed_out() {
            self.fail_all(&Error::Protocol(format!(
                "the agent sends requests and does not read the answers: {unwritten} bytes wait for it. The session is closed; open a \
                 new one with the same `session_id` to continue the conversation"
            ).into()));
        }
    }

    /// Fails every session with this error, because the process cannot continue.
    fn fail_all(&mut self, error: &Error) {
        self.spent.store(true, Ordering::Release);
        self.reader.clear();
        for session in self.sessions.drivers.iter_mut() {
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
        // Lines that the agent wrote before its exit are taken even if the queues are full.
        self.sessions.drivers.iter_mut().for_each(|session| session.flow.drain());
    }

    /// Advances the ends of sessions, and then the end of the process.
    fn advance_ends(&mut self) {
        let keys: Vec<ConnectionKey> = self.sessions.drivers.iter().map(|session| session.key).collect();
        for key in keys {
            if let Some(session) = self.sessions.get_mut(key)
                && !self.shutdown.has_exited()
            {
                session.in_span(|session| session.advance_closing(&mut self.io));
                self.advance_leaving(key);
            }
        }
        if self.shutdown.is_closing && self.sessions.drivers.is_empty() {
            self.shutdown.hang_up(self.shutdown.close_timeout, &mut self.io);
        }
        self.io.writer.push(self.io.endpoint.poll_transmit());
        self.shutdown.advance(&mut self.io);
    }

    /// Removes a session that has nothing left to end. If it is the last one and no more can come, it ends the process
    /// instead.
    fn advance_leaving(&mut self, key: ConnectionKey) {
        let is_last = self.shutdown.is_closing && self.sessions.drivers.len() == 1;
        let Some(session) = self.sessions.get_mut(key) else { return };
        let timeout = session.closing.close_timeout.min(self.shutdown.close_timeout);
        if is_last && session.closing.is_abandoned {
            self.shutdown.abandon();
        }
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
            // The process is about to exit, and the session gets its exit status.
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
        if let Some(session) = self.sessions.get_mut(key) {
            session.closing.stage = Stage::WithProcess;
        }
    }

    /// Ends a session while the process continues.
    fn end_session(&mut self, key: ConnectionKey) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.in_span(|session| session.fail_all(&Error::session_closed(), &mut self.io));
        }
        // No command of this session follows these. Other commands may be for sessions that this round has already
        // handled.
        self.obey_all();
        self.bell.notify_one();
        self.io.endpoint.remove(key);
        if let Some(mut session) = self.sessions.remove(key) {
            session.in_span(|session| session.flush(&mut self.io));
            tokio::spawn(session.end());
        }
    }

    /// Reports the exit of the process to all sessions.
    async fn finish(mut self: Box<Self>) {
        // Members of its group may have outlived it.
        self.io.process.kill();
        self.io.process.release();
        let exit = self.shutdown.reported_exit();
        self.io.process.cleaned_up(exit.code.is_some()).await;
        if let Some(error) = &exit.still_running {
            drop(self.still_running.set(error.clone()));
        } else if self.sessions.needs_exit() || self.io.process.has_stderr_handler() {
            drop(tokio::time::timeout(STDERR_GRACE, self.io.process.stderr_done()).await);
        }
        self.obey_all();
        let stderr = self.io.process.stderr_tail();
        let mut exited =
            AgentExit { exit_code: exit.code, signal: exit.signal.clone(), stderr, ..AgentExit::default() };
        exited.hint = self.io.process.explain(&exited);
        let exit_of = || exited.clone();
        self.sessions
            .fail_calls(&exit.still_running.as_deref().cloned().unwrap_or_else(|| Error::AgentExited(exit_of())));
        for session in &mut self.sessions.drivers {
            if let Some(error) = &exit.still_running {
                session.shared.still_running(error.clone());
            }
            let error = match &exit.still_running {
                _ if session.closing.is_asked => Error::session_closed(),
                Some(error) => (**error).clone(),
                None => {
                    let error = session.contained(|session| Some(session.connection.end_of_agent(exit_of())));
                    error.unwrap_or(Error::session_closed())
                }
            };
            session.in_span(|session| session.fail_all(&error, &mut self.io));
        }
        // The sessions know the reason now, and fail later commands with it.
        self.commands.close();
        self.obey_all();
        for mut session in std::mem::take(&mut self.sessions.drivers) {
            session.in_span(|session| session.flush(&mut self.io));
            // Boxed, because a task always has the size of its largest future.
            Box::pin(session.end()).await;
        }
    }

    /// Executes the pending commands.
    fn obey_all(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.obey(*command);
        }
    }
}

impl Drop for ProcessTask {
    /// Fails the remaining commands if the runtime ends first.
    fn drop(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let ProcessCommand::Session(_, command) = *command {
                command.fail(&Error::session_closed());
            }
        }
    }
}
