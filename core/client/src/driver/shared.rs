//! What a session's handles and its driver share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};

use super::commands::{Command, ProcessCommand};
use super::event_channel::EventChannel;
use crate::connection::{Connection, ManualAnswer, RequestRef, TurnKey, TurnLimits};
use crate::endpoint::ConnectionKey;
use crate::error::local_error;
use crate::error::{Error, Result, RpcErrorKind};
use crate::wire::{Content, SlashCommand, StatusUpdate, TokenUsage};

/// What an agent says, shared by all sessions whose agent says the same, as those of one release do: names and
/// descriptions of commands are much of what they hold. `said` is what was said last.
pub(crate) fn in_common<T: PartialEq>(said: &Mutex<Weak<T>>, told: T) -> Arc<T> {
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    match said.upgrade() {
        Some(same) if *same == told => same,
        _ => {
            let told = Arc::new(told);
            *said = Arc::downgrade(&told);
            told
        }
    }
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// It waits for a prompt.
    Idle,
    /// A turn runs.
    Active,
    /// It is over.
    Closed,
}

impl SessionState {
    /// The word for it: `idle`, `active`, `closed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Closed => "closed",
        }
    }
}

#[derive(Debug)]
struct Active {
    key: TurnKey,
    channel: Arc<EventChannel>,
    /// The program has left it: the next prompt waits for its end instead of being refused.
    leaving: bool,
}

#[derive(Debug)]
struct State {
    active: Option<Active>,
    /// The turn before it, which has been left and has not ended yet.
    settling: Option<(TurnKey, Arc<EventChannel>)>,
    closed: Option<Error>,
    usage: TokenUsage,
    status: StatusUpdate,
    /// Where the agent tells them once the session is open.
    commands: Option<Arc<Vec<SlashCommand>>>,
    next_turn: TurnKey,
}

/// Shared by a session's handles and its driver.
#[derive(Debug)]
pub struct Shared {
    key: ConnectionKey,
    process: mpsc::UnboundedSender<ProcessCommand>,
    /// Has the process's task look for room in its queues.
    pub(crate) room: Arc<Notify>,
    pub(crate) event_buffer_bytes: usize,
    state: Mutex<State>,
    over: AtomicBool,
    over_notice: Notify,
    /// Why the agent still runs although the session is over.
    still_running: OnceLock<Error>,
    /// The span in which the session was opened: log records in it belong to this session.
    span: tracing::Span,
}

impl Shared {
    pub(super) fn new(
        event_buffer_bytes: usize,
        key: ConnectionKey,
        process: mpsc::UnboundedSender<ProcessCommand>,
        room: Arc<Notify>,
    ) -> Self {
        let state = State {
            active: None,
            settling: None,
            closed: None,
            usage: TokenUsage::default(),
            status: StatusUpdate::unchanged(),
            commands: None,
            next_turn: 1,
        };
        Self {
            key,
            process,
            room,
            event_buffer_bytes,
            state: Mutex::new(state),
            over: AtomicBool::new(false),
            over_notice: Notify::new(),
            still_running: OnceLock::new(),
            span: tracing::Span::current(),
        }
    }

    /// Runs `log`, whose records are this session's, on whatever thread this is.
    pub(crate) fn in_span<R>(&self, log: impl FnOnce() -> R) -> R {
        self.span.in_scope(log)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- the driver's side ---

    /// Takes over what the connection has learnt.
    pub(crate) fn update(&self, connection: &mut Connection) {
        static TOLD: Mutex<Weak<Vec<SlashCommand>>> = Mutex::new(Weak::new());
        let commands = connection.take_commands().map(|commands| in_common(&TOLD, commands));
        let mut state = self.lock();
        if state.usage != *connection.usage() {
            state.usage.clone_from(connection.usage());
        }
        if state.status != *connection.status() {
            state.status.clone_from(connection.status());
        }
        if commands.is_some() {
            state.commands = commands;
        }
    }

    pub(crate) fn turn_ended(&self, key: TurnKey) {
        let mut state = self.lock();
        if state.active.as_ref().is_some_and(|active| active.key == key) {
            state.active = None;
        }
        if state.settling.as_ref().is_some_and(|(settling, _)| *settling == key) {
            state.settling = None;
        }
    }

    /// From now on every call fails with this. The first reason counts.
    pub(crate) fn close(&self, reason: Error) {
        self.lock().closed.get_or_insert(reason);
    }

    /// The agent could not be ended.
    pub(crate) fn still_running(&self, error: Error) {
        drop(self.still_running.set(error));
    }

    /// The agent is gone and reaped, or could not be ended.
    pub(crate) fn ended(&self) {
        self.over.store(true, Ordering::Release);
        self.over_notice.notify_waiters();
    }

    // --- the handles' side ---

    /// Waits until the agent is gone and reaped. The error says that it could not be ended.
    pub async fn until_ended(&self) -> Result<()> {
        let notice = self.over_notice.notified();
        tokio::pin!(notice);
        notice.as_mut().enable();
        if !self.over.load(Ordering::Acquire) {
            notice.await;
        }
        self.still_running.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(crate) fn new_channel(&self) -> Arc<EventChannel> {
        Arc::new(EventChannel::new(self.event_buffer_bytes, Arc::clone(&self.room)))
    }

    /// Why calls fail, if they do.
    pub(crate) fn closed(&self) -> Option<Error> {
        self.lock().closed.clone()
    }

    /// Why calls fail now.
    pub(crate) fn closed_reason(&self) -> Error {
        self.closed().unwrap_or(Error::SessionClosed)
    }

    pub(crate) fn state(&self) -> SessionState {
        let state = self.lock();
        match (&state.closed, &state.active) {
            (Some(_), _) => SessionState::Closed,
            (None, Some(_)) => SessionState::Active,
            (None, None) => SessionState::Idle,
        }
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        self.lock().usage.clone()
    }

    pub(crate) fn status(&self) -> StatusUpdate {
        self.lock().status.clone()
    }

    /// The commands that were told last, if they were since the session opened.
    pub(crate) fn commands(&self) -> Option<Arc<Vec<SlashCommand>>> {
        self.lock().commands.clone()
    }

    /// Sends a command. Returns whether the driver will receive it.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.process.send(ProcessCommand::Session(self.key, Box::new(command))).is_ok()
    }

    /// Registers a turn, then sends its prompt. Returns at once.
    pub(crate) fn prompt(&self, channel: Arc<EventChannel>, input: Content, limits: TurnLimits) -> Result<TurnKey> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Err(reason.clone());
        }
        if state.active.as_ref().is_some_and(|active| !active.leaving) {
            return Err(local_error(
                RpcErrorKind::TurnInProgress,
                "a turn is running; wait for its result, cancel it, or let go of it",
            ));
        }
        let key = state.next_turn;
        if !self.send(Command::Prompt { turn: key, channel: Arc::clone(&channel), input, limits }) {
            return Err(Error::SessionClosed);
        }
        // The driver looks at it only with the lock that is held here.
        state.next_turn += 1;
        if let Some(former) = state.active.replace(Active { key, channel, leaving: false }) {
            state.settling = Some((former.key, former.channel));
        }
        Ok(key)
    }

    /// Cancels the turn that runs, if there is one, and waits until the session has none.
    pub(crate) async fn cancel_running(&self) -> Result<()> {
        let (active, settling) = {
            let state = self.lock();
            let active = state.active.as_ref().map(|active| (active.key, Arc::clone(&active.channel)));
            (active, state.settling.as_ref().map(|(_, channel)| Arc::clone(channel)))
        };
        if let Some((key, channel)) = &active {
            channel.events.discard_overflow();
            self.cancel(*key);
        }
        if let Some(channel) = settling {
            drop(channel.settled().await);
        }
        let Some((_, channel)) = active else { return Ok(()) };
        channel.settled().await.map(drop)
    }

    /// Begins to cancel a turn.
    pub(crate) fn cancel(&self, key: TurnKey) {
        {
            let mut state = self.lock();
            match &mut state.active {
                Some(active) if active.key == key => active.leaving = true,
                _ => return,
            }
        }
        // A driver that is gone has ended the turn already.
        self.send(Command::Cancel { turn: key });
    }

    /// Sends a command and waits for its reply.
    pub(crate) async fn ask(&self, command: impl FnOnce(oneshot::Sender<Result<()>>) -> Command) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        if self.lock().closed.is_some() || !self.send(command(reply)) {
            return Err(self.closed_reason());
        }
        answer.await.unwrap_or_else(|_| Err(self.closed_reason()))
    }

    /// Answers a request manually.
    pub async fn respond(&self, request: RequestRef, answer: ManualAnswer) -> Result<()> {
        let answer = Box::new(answer);
        self.ask(|reply| Command::Respond { request, answer, reply }).await
    }

    /// Ends the agent without asking it.
    pub(crate) fn kill(&self) {
        self.close(Error::SessionClosed);
        self.send(Command::Kill);
    }

    /// Closes the session in the background.
    pub fn begin_close(&self) {
        self.begin_close_within(None);
    }

    /// The same with a `close_timeout` of its own, if one is given.
    pub fn begin_close_within(&self, timeout: Option<Duration>) {
        self.close(Error::SessionClosed);
        self.send(Command::Close(timeout));
    }
}
