//! Several sessions over one process, as agents of ACP can have them: they take seconds and hundreds of megabytes to start.
//! Each session gets a [`Transport`] that looks like a process of its own; a task has the real one, and [routes](router)
//! the lines.
//!
//! Whoever is the last, once nobody can bring another session, is alone with the process: to close it or to end it is
//! then to do so to the process. Until then it is to leave it.

mod caller;
mod port;
mod router;
#[cfg(test)]
mod router_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, error::TryRecvError};

use crate::error::Error;
use crate::transport::{Exit, Transport, read_some};
use crate::wire::framing::{LineBuffer, has_memory_for, no_memory};
pub(crate) use caller::Caller;
use port::{Port, Wish};
use router::{Key, Output, Router};

/// How much is read at a time.
const CHUNK: usize = 32 * 1024;
/// How much may wait for the agent before sessions are not read any more.
const MAX_UNWRITTEN: usize = 1 << 20;
/// How far a session may lag behind another that goes on reading; a large line, the longest, is left out.
const MAX_BEHIND: usize = 16 << 20;
/// After the end of a pipe: how long an agent may take to exit by itself.
const LINGER: Duration = Duration::from_secs(1);
/// After TERM: how long until KILL.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// After its exit: what an agent's descendants that still hold the pipe may delay its end by.
const DRAIN: Duration = Duration::from_millis(500);
/// After its exit: how long the end of its stderr is waited for.
const STDERR_GRACE: Duration = Duration::from_millis(250);

/// What those who hold the process ask of its task.
#[derive(Debug)]
pub(crate) enum Command {
    Attach {
        key: Key,
        port: Attached,
        max_line_bytes: usize,
    },
    /// Nobody comes any more. The agent gets this time to exit by itself, instead of `close_timeout`, if one is given.
    Close(Option<Duration>),
    Kill,
}

/// A port on its way to the task.
#[derive(Debug)]
pub(crate) struct Attached(Arc<Port>);

/// Where sessions get their share of a process. Dropped, the process ends with the last of them.
#[derive(Debug)]
pub(crate) struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    bell: Arc<Notify>,
    next: AtomicU64,
    pid: Option<u32>,
    spent: Arc<AtomicBool>,
    still_running: Arc<OnceLock<Error>>,
}

impl Handle {
    /// A share for one more session; none where the process is gone, or about to be.
    pub(crate) fn attach(&self, max_line_bytes: usize) -> Option<Transport> {
        if self.spent.load(Ordering::Acquire) {
            return None;
        }
        let port = Port::new(Arc::clone(&self.bell), self.pid);
        let transport = port.transport();
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.commands.send(Command::Attach { key, port: Attached(port), max_line_bytes }).ok()?;
        Some(transport)
    }

    /// The process ends with the last session, or at once if there is none; with a `close_timeout` of its own, if one is
    /// given.
    pub(crate) fn close(&self, timeout: Option<Duration>) {
        drop(self.commands.send(Command::Close(timeout)));
    }

    /// Whether the process is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits until the process is gone and reaped. The error says that it could not be ended.
    pub(crate) async fn until_over(&self) -> Result<(), Error> {
        self.commands.closed().await;
        self.still_running.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(crate) fn commands(&self) -> mpsc::WeakUnboundedSender<Command> {
        self.commands.downgrade()
    }
}

#[derive(Debug)]
enum Stage {
    Running,
    /// The agent should exit by itself.
    Ending {
        until: Instant,
    },
    /// TERM was sent.
    Terminating {
        until: Instant,
    },
    /// KILL was sent.
    Killed,
}

/// The task that has the process.
pub(crate) struct Multiplexer {
    transport: Transport,
    router: Router,
    lines: LineBuffer,
    max_line_bytes: usize,
    unwritten: BytesMut,
    ports: BTreeMap<Key, Peer>,
    commands: mpsc::UnboundedReceiver<Command>,
    bell: Arc<Notify>,
    close_timeout: Duration,
    stage: Stage,
    /// Nobody comes any more.
    closing: bool,
    /// Nor does a command.
    unasked: bool,
    /// The agent's input is closed once all is written.
    hangs_up: bool,
    /// The agent's end is our doing, though nobody asked for it.
    forced: bool,
    input_ended: bool,
    exit: Option<Exit>,
    drain_until: Option<Instant>,
    /// It is of no use to a session that has not begun.
    spent: Arc<AtomicBool>,
    /// Why the process could not be ended.
    still_running: Arc<OnceLock<Error>>,
}

struct Peer {
    port: Arc<Port>,
    /// What it has sent of a line.
    lines: LineBuffer,
}

impl Peer {
    /// Whether as much is unread as a pipe would hold.
    fn is_full(&self) -> bool {
        self.port.unread() >= port::FULL
    }
}

enum Woken {
    Command(Option<Command>),
    Bell,
    Read(std::io::Result<usize>),
    Written(std::io::Result<usize>),
    Exited(Exit),
    Deadline,
}

/// Shares a process. The task must be spawned; `close_timeout` is how long the agent may take to exit by itself.
pub(crate) fn share(transport: Transport, close_timeout: Duration) -> (Handle, Multiplexer) {
    let (commands, receiver) = mpsc::unbounded_channel();
    let bell = Arc::new(Notify::new());
    let spent = Arc::new(AtomicBool::new(false));
    let still_running = Arc::new(OnceLock::new());
    let handle = Handle {
        commands,
        bell: Arc::clone(&bell),
        next: AtomicU64::new(1),
        pid: transport.process.pid(),
        spent: Arc::clone(&spent),
        still_running: Arc::clone(&still_running),
    };
    let task = Multiplexer {
        transport,
        router: Router::default(),
        lines: LineBuffer::new(0),
        max_line_bytes: 0,
        unwritten: BytesMut::new(),
        ports: BTreeMap::new(),
        commands: receiver,
        bell,
        close_timeout,
        stage: Stage::Running,
        closing: false,
        unasked: false,
        hangs_up: false,
        forced: false,
        input_ended: false,
        exit: None,
        drain_until: None,
        spent,
        still_running,
    };
    (handle, task)
}

impl Multiplexer {
    /// Runs until the process is gone and reaped.
    pub(crate) async fn run(mut self) {
        loop {
            self.step();
            if self.is_over() {
                break;
            }
            if self.ports.values().any(Peer::is_full) {
                // Whoever has only not come to it reads now.
                tokio::task::yield_now().await;
            }
            match self.wait().await {
                Woken::Command(Some(command)) => self.obey(command),
                Woken::Command(None) => self.nobody_asks(),
                Woken::Bell => {}
                Woken::Read(read) => self.has_read(read),
                Woken::Written(Ok(n)) if n > 0 => self.has_written(n),
                Woken::Written(_) => self.cannot_write(),
                Woken::Exited(exit) => {
                    self.spent.store(true, Ordering::Release);
                    self.exit = Some(exit);
                    self.drain_until = Some(now() + DRAIN);
                    self.stop_writing();
                }
                Woken::Deadline => self.on_deadline(),
            }
        }
        self.finish().await;
    }

    async fn wait(&mut self) -> Woken {
        let readable = !self.input_ended && self.may_read();
        let deadline = match self.stage {
            _ if self.exit.is_some() => self.drain_until,
            Stage::Ending { until } | Stage::Terminating { until } => Some(until),
            Stage::Running | Stage::Killed => None,
        };
        let (transport, lines) = (&mut self.transport, &mut self.lines);
        tokio::select! {
            command = self.commands.recv(), if !self.unasked => Woken::Command(command),
            () = self.bell.notified() => Woken::Bell,
            read = read_some::<CHUNK>(&mut transport.reader, |bytes| lines.extend(bytes)), if readable => Woken::Read(read),
            written = transport.writer.write(&self.unwritten), if !self.unwritten.is_empty() => Woken::Written(written),
            exit = transport.process.wait(), if self.exit.is_none() => Woken::Exited(exit),
            () = crate::driver::sleep_until(deadline) => Woken::Deadline,
        }
    }

    /// Whether there is room for what the agent says. A session that does not read holds up the process only while
    /// nobody else waits for it.
    fn may_read(&self) -> bool {
        self.exit.is_some()
            || !self.ports.values().any(Peer::is_full)
            || self.ports.iter().any(|(key, peer)| self.router.waits(*key) && !peer.is_full())
    }

    /// Whether what the agent says is read for others than this one.
    fn others_wait(&self, than: Key) -> bool {
        self.ports.iter().any(|(key, peer)| *key != than && self.router.waits(*key) && !peer.is_full())
    }

    fn is_over(&self) -> bool {
        let drained = self.input_ended || self.drain_until.is_some_and(|until| now() >= until);
        self.exit.is_some() && drained
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Attach { key, port, max_line_bytes } => {
                self.router.attach(key);
                self.max_line_bytes = self.max_line_bytes.max(max_line_bytes);
                self.lines.set_limit(self.max_line_bytes);
                if self.input_ended {
                    port.0.close_output();
                }
                // A session's own lines are as long as they are.
                self.ports.insert(key, Peer { port: port.0, lines: LineBuffer::new(usize::MAX) });
            }
            Command::Close(timeout) => {
                let again = std::mem::replace(&mut self.closing, true);
                match timeout {
                    Some(Duration::ZERO) => self.kill(),
                    Some(timeout) => {
                        self.close_timeout = if again { self.close_timeout.min(timeout) } else { timeout };
                        if let Stage::Ending { until } = &mut self.stage {
                            *until = (*until).min(now() + timeout);
                        }
                    }
                    None => {}
                }
            }
            Command::Kill => self.kill(),
        }
    }

    fn nobody_asks(&mut self) {
        self.unasked = true;
        self.closing = true;
    }

    /// Does what the sessions want, and what comes of the lines that were read.
    fn step(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Disconnected) => {
                    self.nobody_asks();
                    break;
                }
                Err(TryRecvError::Empty) => break,
            }
        }
        self.route();
        let keys: Vec<Key> = self.ports.keys().copied().collect();
        for key in keys {
            self.serve(key);
        }
        self.outputs();
        if self.closing && self.ports.is_empty() {
            self.hang_up(self.close_timeout);
        }
        if self.hangs_up && self.unwritten.is_empty() {
            self.stop_writing();
        }
    }

    /// Hands on the lines that were read.
    fn route(&mut self) {
        loop {
            match self.lines.next_line() {
                // The session gets a copy, and may need another one to read it.
                Ok(Some(line)) if line.len() >= port::LARGE && !has_memory_for(2 * line.len()) => {
                    let error = no_memory(line.len());
                    self.end_all(&error);
                    break;
                }
                Ok(Some(line)) => {
                    self.router.agent_says(line);
                    self.outputs();
                }
                Ok(None) => break,
                Err(too_long) => {
                    let no_memory = too_long.no_memory;
                    let error = Error::from(too_long);
                    if no_memory {
                        self.end_all(&error)
                    } else {
                        self.too_long(&error)
                    }
                    break;
                }
            }
        }
        self.lines.release();
    }

    fn too_long(&mut self, error: &Error) {
        let rest = self.lines.take_rest();
        if self.ports.len() == 1 {
            // It finds out by itself, and ends the process.
            self.ports.values().for_each(|peer| peer.port.push(rest));
            return;
        }
        self.end_all(error);
    }

    /// Whose line it is nobody can tell. Whoever hears of it may open a next session at once.
    fn end_all(&mut self, error: &Error) {
        self.lines.clear();
        self.spent.store(true, Ordering::Release);
        for peer in self.ports.values() {
            peer.port.end(Exit::because(error.clone()), "");
        }
        self.terminate();
    }

    /// What a session has done meanwhile.
    fn serve(&mut self, key: Key) {
        let room = self.unwritten.len() < MAX_UNWRITTEN;
        let alone = self.closing && self.ports.len() == 1;
        let Some(peer) = self.ports.get_mut(&key) else { return };
        let done = peer.port.take(room);
        peer.lines.extend(&done.sent);
        while let Ok(Some(line)) = peer.lines.next_line() {
            self.router.session_says(key, line);
        }
        peer.lines.release();
        match done.wish {
            Some(Wish::Kill) if alone => self.kill(),
            Some(Wish::Terminate) if alone => self.terminate(),
            Some(_) => self.router.drop_session(key),
            // The process is about to end, and the session has not heard how.
            None if done.hung_up && self.input_ended => {}
            None if done.hung_up && alone => self.hang_up(self.close_timeout),
            None if done.hung_up && self.closing => self.router.drop_session(key),
            None if done.hung_up => self.router.leave(key),
            None => {}
        }
        self.outputs();
    }

    fn outputs(&mut self) {
        while let Some(output) = self.router.poll_output() {
            match output {
                Output::ToAgent(line) if !self.hangs_up => {
                    self.unwritten.extend_from_slice(&line);
                    self.unwritten.extend_from_slice(b"\n");
                }
                Output::ToAgent(_) => {}
                Output::ToSession(key, line) => self.tell(key, line),
                Output::Failed(key, error) => {
                    if let Some(peer) = self.ports.get(&key) {
                        peer.port.end(Exit::because(error), "");
                    }
                }
                Output::Left(key) => {
                    if let Some(peer) = self.ports.remove(&key) {
                        peer.port.end(Exit::default(), "");
                    }
                }
            }
        }
    }

    fn tell(&mut self, key: Key, line: Vec<u8>) {
        let Some(peer) = self.ports.get(&key) else { return };
        // Alone it only has to take what had been read already when it fell behind.
        if peer.port.behind() < MAX_BEHIND || !self.others_wait(key) {
            return peer.port.push_line(line);
        }
        let error = Error::EventBufferFull(format!(
            "other sessions of the agent go on, and this one has left {MAX_BEHIND} bytes unread, so it is closed; read its \
             events as they come, or give the session an agent of its own"
        ));
        tracing::warn!(%error, "a session is given up");
        peer.port.end(Exit::because(error), "");
        self.router.drop_session(key);
    }

    fn has_read(&mut self, read: std::io::Result<usize>) {
        match read {
            Ok(n) if n > 0 => return,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the agent's output can't be read"),
        }
        self.route();
        self.last_line();
        self.input_ended = true;
        self.ports.values().for_each(|peer| peer.port.close_output());
        self.gives_out();
    }

    /// It may lack its end.
    fn last_line(&mut self) {
        if !self.lines.is_empty() {
            self.router.agent_says(self.lines.take_rest());
            self.outputs();
        }
    }

    fn has_written(&mut self, n: usize) {
        self.unwritten.advance(n);
        if self.unwritten.is_empty() {
            // What was large once must not stay so.
            self.unwritten = BytesMut::new();
        }
    }

    /// An agent that hears nothing any more is as good as gone.
    fn cannot_write(&mut self) {
        self.gives_out();
    }

    /// It has closed a pipe: it should exit.
    fn gives_out(&mut self) {
        self.spent.store(true, Ordering::Release);
        self.stop_writing();
        self.ports.values().for_each(|peer| peer.port.close_input());
        if self.exit.is_none() && matches!(self.stage, Stage::Running) {
            self.forced = true;
            self.stage = Stage::Ending { until: now() + LINGER };
        }
    }

    /// Closes the agent's input, once all is written: it sees that it should go.
    fn hang_up(&mut self, patience: Duration) {
        self.hangs_up = true;
        if matches!(self.stage, Stage::Running) {
            self.stage = Stage::Ending { until: now() + patience };
        }
    }

    fn stop_writing(&mut self) {
        self.hangs_up = true;
        self.unwritten = BytesMut::new();
        self.transport.writer = Box::new(tokio::io::sink());
    }

    fn terminate(&mut self) {
        if self.exit.is_none() && matches!(self.stage, Stage::Running | Stage::Ending { .. }) {
            self.stop_writing();
            self.transport.process.terminate();
            self.stage = Stage::Terminating { until: now() + TERM_GRACE };
        }
    }

    fn kill(&mut self) {
        if self.exit.is_none() && !matches!(self.stage, Stage::Killed) {
            self.stop_writing();
            self.transport.process.kill();
            self.stage = Stage::Killed;
        }
    }

    fn on_deadline(&mut self) {
        match self.stage {
            Stage::Ending { until } if now() >= until => self.terminate(),
            Stage::Terminating { until } if now() >= until => self.kill(),
            _ => {}
        }
    }

    /// The process is gone: every session hears how.
    async fn finish(mut self) {
        // Where a descendant holds the pipe, its end has not come.
        self.last_line();
        // Its group may have members that outlived it.
        self.transport.process.kill();
        self.transport.process.release();
        drop(tokio::time::timeout(STDERR_GRACE, self.transport.process.stderr_done()).await);
        let stderr = self.transport.process.stderr_tail();
        // How we ended it is no news; that it closed a pipe is.
        let terminated = matches!(self.stage, Stage::Terminating { .. } | Stage::Killed);
        let mut exit = self.exit.take().unwrap_or_default();
        if let Some(error) = &exit.still_running {
            drop(self.still_running.set((**error).clone()));
        } else if self.forced && terminated {
            exit = Exit::default();
        }
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        for (_, peer) in std::mem::take(&mut self.ports) {
            peer.port.end(exit.clone(), &stderr);
        }
    }
}

impl Drop for Multiplexer {
    /// Where the runtime ends first, or a defect of ours ends this task, every session still hears of it.
    fn drop(&mut self) {
        self.ports.values().for_each(|peer| peer.port.end(Exit::default(), ""));
    }
}

/// The clock of the runtime's timers, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
