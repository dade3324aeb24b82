//! The state that a session's handles and its driver share.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::commands::Command;
use super::event_channel::EventChannel;
use crate::connection::{ManualAnswer, RequestRef, TurnKey, TurnLimits};
use crate::dialect::ConfigOption;
use crate::error::local_error;
use crate::error::{Error, Result, RpcErrorKind};
use crate::messages::{Content, SlashCommand, StatusUpdate, TokenUsage};
use crate::output::PromptOutput;
use kimi_agent_protocol::telemetry::TurnSpan;

/// Returns the last value if it is equal; otherwise stores the new one. So sessions of one release share the
/// handshake's result and the list of commands, which are a large part of a session's memory.
pub(crate) fn intern<T: PartialEq>(last: &Mutex<Weak<T>>, value: T) -> Arc<T> {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    match last.upgrade() {
        Some(same) if *same == value => same,
        _ => {
            let value = Arc::new(value);
            *last = Arc::downgrade(&value);
            value
        }
    }
}

/// The state of a session.
///
/// # Examples
/// ```no_run
/// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
/// use kimi_agent::SessionState;
/// match session.state() {
///     SessionState::Closed => println!("a new session is needed"),
///     state => println!("{}", state.as_str()),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// The session is ready for a prompt.
    Idle,
    /// A turn runs.
    Active,
    /// The session is closed.
    Closed,
}

impl SessionState {
    /// Returns the word for the state: `idle`, `active`, `closed`.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(kimi_agent::SessionState::Idle.as_str(), "idle");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Closed => "closed",
        }
    }
}

kimi_agent_protocol::display_words!(SessionState);

#[derive(Debug)]
struct Active {
    key: TurnKey,
    channel: Arc<EventChannel>,
    /// Whether the program has left it. The next prompt then waits for its end instead of being refused.
    leaving: bool,
}

#[derive(Debug)]
struct State {
    active: Option<Active>,
    /// The earlier turn, which was left and has not ended yet.
    settling: Option<(TurnKey, Arc<EventChannel>)>,
    closed: Option<Box<Error>>,
    usage: TokenUsage,
    status: Option<Arc<StatusUpdate>>,
    /// Set if the agent sends the list after the session has opened.
    commands: Option<Arc<Vec<SlashCommand>>>,
    config_options: Arc<Vec<ConfigOption>>,
    next_turn: TurnKey,
    /// Allocated with the first turn, because most sessions of a large program are idle.
    unread: Option<Box<Unread>>,
}

/// Turns that the program may have left, or may not read.
#[derive(Debug, Default)]
struct Unread {
    /// The turn that ran when the program dropped the session, unless it has cancelled that turn.
    orphan: Option<TurnKey>,
    /// The turns that may end with an error which the program does not read.
    turns: Vec<(TurnKey, Weak<EventChannel>)>,
}

impl State {
    /// Returns the reason why a prompt is refused.
    fn refusal(&self) -> Option<Error> {
        if let Some(reason) = &self.closed {
            return Some((**reason).clone());
        }
        let runs = self.active.as_ref().is_some_and(|active| !active.leaving);
        runs.then(|| {
            local_error(
                RpcErrorKind::TurnInProgress,
                "a turn is running; wait for its result, cancel it, or leave it before you prompt again",
            )
        })
    }
}

/// Sends a command to the driver of the session. Returns whether the driver will receive it.
pub(super) type SendCommand = Box<dyn Fn(Command) -> bool + Send + Sync>;

/// Shared by a session's handles and its driver.
pub struct Shared {
    send: SendCommand,
    /// Wakes the task of the process, which then determines the capacity of the queues.
    pub(crate) capacity: Arc<Notify>,
    pub(crate) event_buffer_bytes: usize,
    state: Mutex<State>,
    over: AtomicBool,
    over_notice: Notify,
    /// The reason if the agent still runs although the session has ended.
    still_running: OnceLock<Box<Error>>,
    /// The span in which the session was opened. Its log records belong to this session.
    span: tracing::Span,
}

impl Shared {
    pub(super) fn new(event_buffer_bytes: usize, send: SendCommand, capacity: Arc<Notify>) -> Self {
        let state = State {
            active: None,
            settling: None,
            closed: None,
            usage: TokenUsage::default(),
            status: None,
            commands: None,
            config_options: Arc::default(),
            next_turn: 1,
            unread: None,
        };
        Self {
            send,
            capacity,
            event_buffer_bytes,
            state: Mutex::new(state),
            over: AtomicBool::new(false),
            over_notice: Notify::new(),
            still_running: OnceLock::new(),
            span: tracing::Span::current(),
        }
    }

    /// Runs `log` on any thread, in the span of this session.
    pub(crate) fn in_span<R>(&self, log: impl FnOnce() -> R) -> R {
        self.span.in_scope(log)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- the driver's side ---

    pub(crate) fn set_status(&self, status: Option<Arc<StatusUpdate>>, usage: TokenUsage) {
        let mut state = self.lock();
        (state.status, state.usage) = (status, usage);
    }

    pub(crate) fn set_commands(&self, commands: Vec<SlashCommand>) {
        static LAST: Mutex<Weak<Vec<SlashCommand>>> = Mutex::new(Weak::new());
        self.lock().commands = Some(intern(&LAST, commands));
    }

    pub(crate) fn set_config_options(&self, options: Arc<Vec<ConfigOption>>) {
        self.lock().config_options = options;
    }

    /// Notes the end of a turn. Returns whether it was cancelled only because the program dropped the session.
    pub(crate) fn turn_ended(&self, key: TurnKey) -> bool {
        let mut state = self.lock();
        if state.active.as_ref().is_some_and(|active| active.key == key) {
            state.active = None;
        }
        if state.settling.as_ref().is_some_and(|(settling, _)| *settling == key) {
            state.settling = None;
        }
        state.unread.as_ref().is_some_and(|unread| unread.orphan == Some(key))
    }

    /// Fails every later call with this error. Only the first error counts.
    pub(crate) fn close(&self, reason: Error) {
        self.lock().closed.get_or_insert_with(|| Box::new(reason));
    }

    /// Stores the reason why the agent could not be ended.
    pub(crate) fn still_running(&self, error: Box<Error>) {
        drop(self.still_running.set(error));
    }

    /// Marks that the agent has exited and was reaped, or could not be ended.
    pub(crate) fn ended(&self) {
        self.over.store(true, Ordering::Release);
        self.over_notice.notify_waiters();
    }

    // --- the handles' side ---

    /// Waits until the agent has exited and was reaped. The error says that it could not be ended.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the process of the agent cannot be ended.
    pub async fn until_ended(&self) -> Result<()> {
        let notice = self.over_notice.notified();
        tokio::pin!(notice);
        notice.as_mut().enable();
        if !self.over.load(Ordering::Acquire) {
            notice.await;
        }
        self.still_running.get().map_or(Ok(()), |error| Err((**error).clone()))
    }

    pub(crate) fn new_channel(&self) -> Arc<EventChannel> {
        Arc::new(EventChannel::new(self.event_buffer_bytes, Arc::clone(&self.capacity)))
    }

    /// Returns the reason why calls fail. `None` if they do not.
    pub(crate) fn closed(&self) -> Option<Error> {
        self.lock().closed.as_deref().cloned()
    }

    /// Returns the reason why calls fail.
    pub(crate) fn closed_reason(&self) -> Error {
        self.closed().unwrap_or(Error::session_closed())
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
        self.lock().status.as_deref().map_or_else(StatusUpdate::unchanged, Clone::clone)
    }

    /// Returns the last list of commands that the agent sent after the session had opened, if it sent one.
    pub(crate) fn commands(&self) -> Option<Arc<Vec<SlashCommand>>> {
        self.lock().commands.clone()
    }

    /// Returns the options that can be set, as the agent sent them last.
    pub(crate) fn config_options(&self) -> Arc<Vec<ConfigOption>> {
        Arc::clone(&self.lock().config_options)
    }

    /// Sends a command. Returns whether the driver will receive it.
    pub(crate) fn send(&self, command: Command) -> bool {
        (self.send)(command)
    }

    /// Registers a turn, and sends its prompt. Does not wait.
    pub(crate) fn prompt(
        &self,
        channel: Arc<EventChannel>,
        input: Content,
        limits: TurnLimits,
        output: Option<Box<PromptOutput>>,
        span: Option<Box<TurnSpan>>,
    ) -> Result<TurnKey> {
        let mut state = self.lock();
        if let Some(error) = state.refusal() {
            drop(state);
            if let Some(span) = span {
                span.fail(&error);
            }
            return Err(error);
        }
        let key = state.next_turn;
        if !self.send(Command::Prompt { turn: key, channel: Arc::clone(&channel), input, limits, output, span }) {
            return Err(Error::session_closed());
        }
        // The driver needs the lock that is held here before it handles the prompt.
        state.next_turn += 1;
        let turns = &mut state.unread.get_or_insert_default().turns;
        turns.retain(|(_, turn)| turn.upgrade().is_some_and(|turn| !turn.is_used()));
        turns.push((key, Arc::downgrade(&channel)));
        if let Some(former) = state.active.replace(Active { key, channel, leaving: false }) {
            state.settling = Some((former.key, former.channel));
        }
        Ok(key)
    }

    /// Cancels the running turn, if there is one, and waits until no turn runs.
    pub(crate) async fn cancel_running(&self) -> Result<()> {
        let (active, settling) = {
            let state = self.lock();
            let active = state.active.as_ref().map(|active| (active.key, Arc::clone(&active.channel)));
            (active, state.settling.as_ref().map(|(_, channel)| Arc::clone(channel)))
        };
        if let Some((key, channel)) = &active {
            channel.note_used();
            channel.events.discard_overflow();
            self.cancel(*key);
        }
        if let Some(channel) = settling {
            drop(channel.settled().await);
        }
        match active {
            Some((_, channel)) => channel.settled().await.map(drop),
            None => self.closed().map_or(Ok(()), Err),
        }
    }

    /// Begins to cancel a turn.
    pub(crate) fn cancel(&self, key: TurnKey) {
        {
            let mut state = self.lock();
            if let Some(unread) = &mut state.unread {
                unread.orphan.take_if(|orphan| *orphan == key);
            }
            match &mut state.active {
                Some(active) if active.key == key => active.leaving = true,
                _ => return,
            }
        }
        // A driver that has stopped has already ended the turn.
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
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if no such request awaits an answer, or the error that closed the session.
    pub async fn respond(&self, request: RequestRef, answer: ManualAnswer) -> Result<()> {
        let answer = Box::new(answer);
        self.ask(|reply| Command::Respond { request, answer, reply }).await
    }

    /// Kills the agent.
    pub(crate) fn kill(&self) {
        self.close(Error::session_closed());
        self.send(Command::Kill);
    }

    /// Closes the session in the background, because the program has dropped it. A turn that the program still has fails.
    pub(crate) fn dropped(&self) {
        {
            let mut state = self.lock();
            if state.closed.is_none() {
                let orphan = state.active.as_ref().filter(|active| !active.leaving).map(|active| active.key);
                state.unread.iter_mut().for_each(|unread| unread.orphan = orphan);
            }
        }
        self.begin_close();
    }

    /// Closes the session in the background.
    pub fn begin_close(&self) {
        self.begin_close_within(None);
    }

    /// Closes the session in the background, because it was never opened. An agent of its own does not get all of `close_timeout`.
    pub(crate) fn abandon(&self) {
        self.close(Error::session_closed());
        self.send(Command::Abandon);
    }

    /// Closes the session in the background, with this `close_timeout` if one is given.
    pub fn begin_close_within(&self, timeout: Option<Duration>) {
        self.close(Error::session_closed());
        self.send(Command::Close(timeout));
    }

    /// Logs the turns that have ended and that the program has not read, because it closes the session.
    pub fn warn_of_ended_turns(&self) {
        let turns = self.lock().unread.as_mut().map(|unread| std::mem::take(&mut unread.turns)).unwrap_or_default();
        for (key, channel) in turns {
            let Some(channel) = channel.upgrade() else { continue };
            // A turn that runs is logged when it is cancelled.
            let Some(outcome) = channel.outcome() else { continue };
            if matches!(outcome, Err(Error::SessionClosed(_))) || channel.note_used() {
                continue;
            }
            let turn = format!("turn-{key}");
            self.in_span(|| match outcome {
                Ok(_) => tracing::warn!(
                    turn,
                    "the session is closed, and a turn that has ended was not read; iterate over its events or wait for its \
                     result()"
                ),
                Err(error) => tracing::warn!(
                    turn,
                    %error,
                    "the session is closed, and the error of a turn was not read; iterate over its events or wait for its result()"
                ),
            });
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}
