//! A turn: its events and its outcome. `turn_streams` has its other forms: text, and steps.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;

use super::link::Link;
use super::turn_streams::{Steps, TextStream};
use crate::answers::{Answers, Approval};
use crate::connection::{ManualAnswer, PromptResult, RequestRef};
use crate::driver::event_channel::EventChannel;
use crate::driver::turn_reader::TurnReader;
use crate::driver::{Command, served_turn};
use crate::error::{Error, Result, RpcErrorKind, local_error};
use crate::messages::{ApprovalRequest, Content, Event, QuestionRequest, TokenUsage};
use crate::options::check_content;

/// The state that all handles of one turn share. Dropping the last handle leaves the turn, which cancels it.
#[derive(Debug)]
pub struct TurnInner {
    /// The events and the outcome.
    pub channel: Arc<EventChannel>,
    pub(crate) link: Arc<Link>,
    /// The id of the turn in the session.
    pub id: String,
}

impl TurnInner {
    pub(crate) fn new(channel: Arc<EventChannel>, link: Arc<Link>, id: String) -> Arc<Self> {
        Arc::new(Self { channel, link, id })
    }

    /// Notes that the program uses the turn.
    pub fn note_used(&self) {
        self.channel.note_used();
    }

    /// Waits for the outcome. Unread events stay in the queue.
    ///
    /// # Errors
    /// Returns the error that ended the turn.
    pub async fn result(&self) -> Result<PromptResult> {
        self.note_used();
        self.channel.result().await
    }

    /// Cancels the turn, and waits for its end.
    pub(crate) async fn cancel(&self) -> Result<()> {
        if self.begin_cancel() { self.cancelled().await } else { Ok(()) }
    }

    /// Starts to cancel the turn, unless it has ended. Returns whether it did.
    pub fn begin_cancel(&self) -> bool {
        let running = !self.channel.is_settled();
        self.note_used();
        if running {
            self.channel.events.discard_overflow();
            self.link.cancel();
        }
        running
    }

    /// Waits for the end of a turn that was running when its cancel began.
    ///
    /// # Errors
    /// Returns the error of the turn, if the turn failed meanwhile.
    pub async fn cancelled(&self) -> Result<()> {
        self.channel.settled().await.map(drop)
    }

    /// Steers the turn.
    ///
    /// # Errors
    /// The errors of [`Turn::steer`].
    pub async fn steer(&self, input: Content) -> Result<()> {
        check_content(&input)?;
        let ended = || local_error(RpcErrorKind::NoActiveTurn, "the turn has ended; call `prompt()` instead");
        let settled = self.channel.is_settled();
        if settled && self.link.target().is_none() {
            return Err(ended());
        }
        let (shared, turn) = self.link.connected(&self.channel).await?;
        let turn = *turn;
        // Checked after the end of the turn, too: "the agent cannot be steered" is the more useful error.
        match shared.ask(|reply| Command::Steer { turn, input, reply }).await {
            Err(error) if settled && !matches!(error, Error::Unsupported(_)) => {
                Err(shared.closed().unwrap_or_else(ended))
            }
            outcome => outcome,
        }
    }

    /// Stops the work of a subagent.
    ///
    /// # Errors
    /// The errors of [`Turn::cancel_subagent`].
    pub async fn cancel_subagent(&self, session: String) -> Result<()> {
        let (shared, _) = self.link.connected(&self.channel).await?;
        shared.ask(|reply| Command::CancelSubagent { session, reply }).await
    }

    /// Answers a request manually.
    ///
    /// # Errors
    /// The errors of [`Turn::respond`].
    pub async fn respond(&self, request: RequestRef, answer: ManualAnswer) -> Result<()> {
        let (shared, _) = self.link.connected(&self.channel).await?;
        shared.respond(request, answer).await
    }

    /// Discards unread events, and cancels the turn in the background, because the turn was left.
    pub fn leave(&self) {
        if !self.channel.note_used() {
            self.warn_of_loss(self.channel.outcome());
        }
        self.channel.events.discard_all();
        if !self.channel.is_settled() {
            self.link.cancel();
        }
    }
}

impl TurnInner {
    /// Logs that the program dropped this turn before it used it.
    fn warn_of_loss(&self, outcome: Option<Result<PromptResult>>) {
        let warn = || match outcome {
            None => tracing::warn!(
                turn = self.id,
                "turn dropped unread, and cancelled; iterate over its events or wait for its result()"
            ),
            // The program itself has closed the session.
            Some(Err(Error::SessionClosed(_))) => {}
            Some(Err(error)) => {
                tracing::warn!(turn = self.id, %error, "failed turn dropped unread; iterate over it or wait for result()");
            }
            Some(Ok(_)) => {}
        };
        match self.link.target() {
            Some((session, _)) => session.in_span(warn),
            None => warn(),
        }
    }
}

impl Drop for TurnInner {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A running turn: a stream of events, and an outcome.
///
/// A turn is read once, by event or by [step](Turn::steps). Reading is optional: [`Turn::result`] alone runs the turn
/// to its end. Dropping the turn cancels it, and the session's next prompt waits for its end.
///
/// ```
/// # use kimi_agent::{Session, testing::scripted_agent};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = scripted_agent(serde_json::json!([[{"text": ["Hel", "lo"]}]]));
/// # let session = Session::builder().executable(&agent).start().await?;
/// let mut turn = session.prompt("Say hello")?;
/// let mut text = String::new();
/// while let Some(event) = turn.next().await {
///     text.push_str(event?.text().unwrap_or_default());
/// }
/// assert_eq!(text, "Hello");
/// assert_eq!(turn.result().await?.text, "Hello");
/// # session.close().await
/// # }
/// ```
#[must_use = "dropping a turn cancels it"]
pub struct Turn {
    /// Dropped before `inner`, so that events which it has not returned count as discarded. Locked by [`TextStream`] only, which
    /// borrows the turn for reading.
    reader: Mutex<Reading>,
    pub(super) inner: Arc<TurnInner>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// The reader of a turn's events.
#[derive(Debug)]
pub(super) struct Reading {
    reader: TurnReader,
    /// Whether the error for a turn that is read by step was returned.
    is_refused: bool,
    /// The number of the last [`TextStream`]. Only that one reads.
    pub(super) text_stream: u32,
}

impl Reading {
    pub(super) fn poll_event(&mut self, inner: &TurnInner, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        match self.start(inner) {
            Ok(()) => self.reader.poll_event(None, cx),
            Err(refusal) => Poll::Ready(refusal.map(Err)),
        }
    }

    /// Returns the number of a new stream. The stream before it is woken to see that it has been replaced.
    pub(super) fn begin_text_stream(&mut self) -> u32 {
        self.text_stream += 1;
        self.reader.wake();
        self.text_stream
    }

    /// Returns the next part of the answer that is not empty.
    pub(super) fn poll_text(&mut self, inner: &TurnInner, cx: &mut Context<'_>) -> Poll<Option<Result<String>>> {
        if let Err(refusal) = self.start(inner) {
            return Poll::Ready(refusal.map(Err));
        }
        loop {
            match std::task::ready!(self.reader.poll_text(cx)) {
                Some(Ok(text)) if text.is_empty() => {}
                other => return Poll::Ready(other),
            }
        }
    }

    /// Starts to read by event. The error is returned once, so that a loop which continues after it ends.
    fn start(&mut self, inner: &TurnInner) -> Result<(), Option<Error>> {
        inner.note_used();
        let is_refused = &mut self.is_refused;
        self.reader.start(false).map_err(|error| (!std::mem::replace(is_refused, true)).then_some(error))
    }
}

impl Turn {
    pub(crate) fn new(inner: Arc<TurnInner>) -> Self {
        let reader = TurnReader::new(Arc::clone(&inner.channel));
        let reading = Reading { reader, is_refused: false, text_stream: 0 };
        Self { reader: Mutex::new(reading), inner }
    }

    pub(super) fn reader(&mut self) -> &mut TurnReader {
        &mut self.reader.get_mut().unwrap_or_else(PoisonError::into_inner).reader
    }

    pub(super) fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_inner(self) -> Arc<TurnInner> {
        self.inner
    }

    /// Returns the name of the turn within the session.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// println!("{}", turn.id()); // for example turn-1
    /// # Ok(()) }
    /// ```
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Returns the tokens that the turn has taken so far.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// println!("{} tokens written", turn.usage().output);
    /// # Ok(()) }
    /// ```
    pub fn usage(&self) -> TokenUsage {
        self.inner.channel.usage()
    }

    /// Returns how many events were dropped because the buffer (`event_buffer_bytes`) was full: while [`Turn::result`]
    /// waited without a reader, or after a [`Turn::cancel`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// turn.result().await?;
    /// if turn.discarded() > 0 {
    ///     eprintln!("{} events were dropped", turn.discarded());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn discarded(&self) -> u64 {
        self.inner.channel.events.discarded()
    }

    /// Returns the next event. `None` after the last event. The future may be dropped while it waits: no event is lost.
    ///
    /// # Errors
    /// The error that ended the turn, once, after the last event: the agent's own error, its exit, a timeout.
    /// [`Error::InvalidOption`] if the turn has been read by step.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// while let Some(event) = turn.next().await {
    ///     println!("{}", event?.type_name());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<Event>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        let reading = self.reader.get_mut().unwrap_or_else(PoisonError::into_inner);
        reading.poll_event(&self.inner, cx)
    }

    /// Reads the turn step by step. Each step is a stream of its events.
    ///
    /// A turn is read by event or by step. If it has been read by event, this gives one step, with
    /// [`Error::InvalidOption`].
    ///
    /// ```
    /// # use kimi_agent::{Session, testing::scripted_agent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kimi_agent::Result<()> {
    /// # let agent = scripted_agent(serde_json::json!([[{"text": "one"}, {"step": 2}, {"text": "two"}]]));
    /// # let session = Session::builder().executable(&agent).start().await?;
    /// # let mut turn = session.prompt("Count")?;
    /// let mut seen = Vec::new();
    /// let mut steps = turn.steps();
    /// while let Some(mut step) = steps.next().await {
    ///     let n = step.n();
    ///     while let Some(event) = step.next().await {
    ///         seen.extend(event?.text().map(|text| (n, text.to_owned())));
    ///     }
    /// }
    /// assert_eq!(seen, [(1, "one".to_owned()), (2, "two".to_owned())]);
    /// # Ok(()) }
    /// ```
    pub fn steps(&mut self) -> Steps<'_> {
        self.reader().begin_steps();
        Steps::of(self)
    }

    /// Reads the answer's text, piece by piece, as plain strings: neither thoughts nor text of subagents. Reads the
    /// turn by event, as [`Turn::next`] does. A turn that fails ends with one error. The stream borrows the turn for reading
    /// only, so the loop can call [`Turn::cancel`], [`Turn::steer`] and [`Turn::usage`]. One stream at a time reads: a newer
    /// one ends the stream before it with [`Error::InvalidOption`].
    ///
    /// ```
    /// # use kimi_agent::{Session, testing::scripted_agent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kimi_agent::Result<()> {
    /// # let agent = scripted_agent(serde_json::json!([[{"think": "Hm."}, {"text": ["Hel", "lo"]}]]));
    /// # let session = Session::builder().executable(&agent).start().await?;
    /// let turn = session.prompt("Say hello")?;
    /// let mut pieces = turn.text_stream();
    /// let mut answer = String::new();
    /// while let Some(piece) = pieces.next().await {
    ///     answer.push_str(&piece?);
    /// }
    /// assert_eq!(answer, "Hello");
    /// # Ok(()) }
    /// ```
    pub fn text_stream(&self) -> TextStream<'_> {
        TextStream::of(self)
    }

    /// Waits for the end of the turn and returns its outcome. May be called again.
    ///
    /// Takes no events away: unread events stay in the buffer, and [`Turn::next`] returns them afterwards. If the
    /// buffer is full, further events are dropped and counted in [`Turn::discarded`], so that the turn always ends. A
    /// request for [`Turn::respond`] that stays unread for one second is then rejected (a question: dismissed).
    ///
    /// ```
    /// # use kimi_agent::{Session, testing::scripted_agent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kimi_agent::Result<()> {
    /// # let agent = scripted_agent(serde_json::json!([[{"text": "Hello"}]]));
    /// # let session = Session::builder().executable(&agent).start().await?;
    /// let mut turn = session.prompt("Say hello")?;
    /// println!("{:?}", turn.result().await?.status);
    /// while let Some(event) = turn.next().await {
    ///     println!("{}", event?.type_name());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The error that ended the turn: the agent's own error, its exit, or a timeout. A cancelled turn is not an error;
    /// see [`PromptResult::raise_for_status`]. `TurnInProgress` in a handler that the turn waits for, because the two
    /// would wait for each other; a task that the handler has spawned may wait.
    pub async fn result(&mut self) -> Result<PromptResult> {
        self.inner.channel.check_not_awaited_by(served_turn().as_ref())?;
        self.reader().leave();
        self.inner.result().await
    }

    /// Cancels the turn and waits until it has ended. Does nothing if it has ended already. Events that arrive
    /// meanwhile are delivered if they fit into the buffer. A loop over [`Turn::text_stream`] can call it.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the agent does not answer within `cancel_timeout`. The session is then closed.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// turn.cancel().await?;
    /// assert_eq!(turn.result().await?.status.as_str(), "cancelled");
    /// # Ok(()) }
    /// ```
    pub async fn cancel(&self) -> Result<()> {
        self.inner.cancel().await
    }

    /// Stops the work of a subagent, while the turn and its other subagents continue. The open requests of the subagent
    /// are answered as cancelled. `session_id` is that of a [`SubagentEvent`](kimi_agent_protocol::messages::SubagentEvent).
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent does not permit it for this subagent, or cannot cancel subagents at all.
    /// [`Error::InvalidOption`] if no subagent has this session.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// use kimi_agent::wire::Event;
    ///
    /// while let Some(event) = turn.next().await {
    ///     if let Event::SubagentEvent(subagent) = &event?
    ///         && let Some(session) = &subagent.session_id
    ///     {
    ///         turn.cancel_subagent(session).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn cancel_subagent(&self, session_id: impl Into<String>) -> Result<()> {
        self.inner.cancel_subagent(session_id.into()).await
    }

    /// Adds a message of the user to the running turn: from Wire 1.4 on, and over ACP if the agent has
    /// `_session/steering`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent cannot be steered, `NoActiveTurn` if the turn has ended, [`Error::Timeout`] if the
    /// agent does not answer within `handshake_timeout`; the turn then continues.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// if session.capabilities().steer {
    ///     turn.steer("Leave the tests as they are").await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn steer(&self, input: impl Into<Content>) -> Result<()> {
        self.inner.steer(input.into()).await
    }

    /// Answers an approval request of this turn. The session has
    /// [`on_approval_manual`](crate::SessionOptions::on_approval_manual).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if no such request awaits an answer, or if it is a request of another session.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// use kimi_agent::{Approval, wire::Event};
    /// while let Some(event) = turn.next().await {
    ///     if let Event::ApprovalRequest(request) = event? {
    ///         turn.respond(&request, Approval::Approve).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn respond(&self, request: &ApprovalRequest, approval: Approval) -> Result<()> {
        self.inner.respond(request.into(), ManualAnswer::Approval(approval)).await
    }

    /// Answers questions of this turn; `None` dismisses them. The session has
    /// [`on_question_manual`](crate::SessionOptions::on_question_manual).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if no such request awaits an answer, or if it is a request of another session.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// use kimi_agent::{Answers, wire::Event};
    /// while let Some(event) = turn.next().await {
    ///     if let Event::QuestionRequest(request) = event? {
    ///         let answers = Answers::new().answer(&request.questions[0].question, "yes");
    ///         turn.respond_question(&request, Some(answers)).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn respond_question(&self, request: &QuestionRequest, answers: Option<Answers>) -> Result<()> {
        self.inner.respond(request.into(), ManualAnswer::Question(answers)).await
    }
}

impl Stream for Turn {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.poll_event(cx)
    }
}
