//! A turn: its events, one by one or by step, and its outcome.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;

use super::link::Link;
use crate::answers::{Answers, Approval};
use crate::connection::{ManualAnswer, PromptResult, RequestRef, StepTag};
use crate::driver::event_channel::EventChannel;
use crate::driver::turn_reader::TurnReader;
use crate::driver::{Command, served_turn};
use crate::error::local_error;
use crate::error::{Error, Result, RpcErrorKind};
use crate::wire::{ApprovalRequest, Content, ContentPart, Event, QuestionRequest, TokenUsage};

/// What all handles of one turn share. Dropping the last one leaves the turn, which cancels it.
#[derive(Debug)]
pub struct TurnInner {
    /// Its events, with its outcome.
    pub channel: Arc<EventChannel>,
    pub(crate) link: Arc<Link>,
    /// Its name within the session.
    pub id: String,
    /// The program has read from the turn, waited for its outcome, or cancelled it. Losing the turn is then no mistake.
    is_used: AtomicBool,
}

impl TurnInner {
    pub(crate) fn new(channel: Arc<EventChannel>, link: Arc<Link>, id: String) -> Arc<Self> {
        Arc::new(Self { channel, link, id, is_used: AtomicBool::new(false) })
    }

    /// The program knows the turn.
    pub fn note_used(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Waits for the outcome, and leaves unread events in the queue.
    pub async fn result(&self) -> Result<PromptResult> {
        self.note_used();
        self.channel.result().await
    }

    /// Cancels, and waits for the end.
    pub(crate) async fn cancel(&self) -> Result<()> {
        if self.begin_cancel() { self.cancelled().await } else { Ok(()) }
    }

    /// Begins to cancel, unless the turn has ended already; says which.
    pub fn begin_cancel(&self) -> bool {
        let running = !self.channel.is_settled();
        self.note_used();
        if running {
            self.channel.events.discard_overflow();
            self.link.cancel();
        }
        running
    }

    /// Waits for the end of a turn that ran when its cancel began.
    ///
    /// # Errors
    /// The failure of the turn, if it failed meanwhile.
    pub async fn cancelled(&self) -> Result<()> {
        self.channel.settled().await.map(drop)
    }

    /// Steers the turn.
    pub async fn steer(&self, input: Content) -> Result<()> {
        let ended = || local_error(RpcErrorKind::NoActiveTurn, "the turn has ended; call `prompt()` instead");
        let settled = self.channel.is_settled();
        if settled && self.link.target().is_none() {
            return Err(ended());
        }
        let (shared, turn) = self.link.connected(&self.channel).await?;
        let turn = *turn;
        // Asked also after the turn: that the agent can't steer at all is the better answer.
        match shared.ask(|reply| Command::Steer { turn, input, reply }).await {
            Err(error) if settled && !matches!(error, Error::Unsupported(_)) => {
                // Where the agent is gone, that is why.
                let closed = shared.closed().filter(|reason| *reason != Error::SessionClosed);
                Err(closed.unwrap_or_else(ended))
            }
            outcome => outcome,
        }
    }

    /// Answers a request manually.
    pub async fn respond(&self, request: RequestRef, answer: ManualAnswer) -> Result<()> {
        let (shared, _) = self.link.connected(&self.channel).await?;
        shared.respond(request, answer).await
    }

    /// Discards unread events, and cancels the turn in the background: nobody reads it any more.
    pub fn leave(&self) {
        if !self.is_used.swap(true, Ordering::Relaxed) {
            self.warn_of_loss(self.channel.outcome());
        }
        self.channel.events.discard_all();
        if !self.channel.is_settled() {
            self.link.cancel();
        }
    }
}

impl TurnInner {
    /// Logs that the program lost this turn before it used it.
    fn warn_of_loss(&self, outcome: Option<Result<PromptResult>>) {
        let warn = || match outcome {
            None => tracing::warn!(
                turn = self.id,
                "turn dropped unread, and cancelled; iterate over its events or wait for its result()"
            ),
            // The program has closed the session itself.
            Some(Err(Error::SessionClosed)) => {}
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

/// A turn under way: a stream of events, and an outcome.
///
/// It is read by event or by [step](Turn::steps), once. Not reading is fine: [`Turn::result`] alone runs it to its
/// end. Dropping it cancels it; the session's next prompt waits for that and starts clean.
///
/// ```
/// # use kimi_agent::{Session, testing::scripted_agent};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> kimi_agent::Result<()> {
/// # let agent = scripted_agent(serde_json::json!([[{"text": ["Hel", "lo"]}]]));
/// let session = Session::builder().executable(&agent).start().await?;
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
#[derive(Debug)]
#[must_use = "dropping a turn cancels it"]
pub struct Turn {
    /// Dropped before `inner`, so that events which it has not handed out are counted as discarded.
    reader: TurnReader,
    inner: Arc<TurnInner>,
    /// The error for a turn that is read by step has been handed out.
    is_refused: bool,
}

impl Turn {
    pub(crate) fn new(inner: Arc<TurnInner>) -> Self {
        Self { reader: TurnReader::new(Arc::clone(&inner.channel)), inner, is_refused: false }
    }

    pub(crate) fn into_inner(self) -> Arc<TurnInner> {
        self.inner
    }

    /// Its name within the session.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The tokens that it took so far.
    pub fn usage(&self) -> TokenUsage {
        self.inner.channel.usage()
    }

    /// How many events were dropped because the buffer (`event_buffer_bytes`) was full: while [`Turn::result`] waited and
    /// nobody read, or after a [`Turn::cancel`].
    pub fn discarded(&self) -> u64 {
        self.inner.channel.events.discarded()
    }

    /// The next event; nothing after the last. A turn that fails ends with one error.
    ///
    /// A turn is read by event or by step: one that has been read by step gives [`Error::InvalidOption`] here.
    ///
    /// May be dropped while it waits, without losing anything.
    pub async fn next(&mut self) -> Option<Result<Event>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.inner.note_used();
        if let Err(error) = self.reader.start(false) {
            // Once, so that a loop which goes on after an error ends.
            return Poll::Ready(if std::mem::replace(&mut self.is_refused, true) { None } else { Some(Err(error)) });
        }
        self.reader.poll_event(None, cx).map_ok(|event| *event)
    }

    /// The turn step by step; each step is a stream of its events.
    ///
    /// A turn is read by event or by step: one that has been read by event gives one step, with
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
        self.reader.begin_steps();
        Steps { turn: self, is_refused: false }
    }

    /// The answer's text, piece by piece, as plain strings: neither thoughts nor text of subagents. Reads the turn by
    /// event, as [`Turn::next`] does; a turn that fails ends with one error.
    ///
    /// ```
    /// # use kimi_agent::{Session, testing::scripted_agent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kimi_agent::Result<()> {
    /// # let agent = scripted_agent(serde_json::json!([[{"think": "Hm."}, {"text": ["Hel", "lo"]}]]));
    /// # let session = Session::builder().executable(&agent).start().await?;
    /// let mut turn = session.prompt("Say hello")?;
    /// let mut pieces = turn.text_stream();
    /// let mut answer = String::new();
    /// while let Some(piece) = pieces.next().await {
    ///     answer.push_str(&piece?);
    /// }
    /// assert_eq!(answer, "Hello");
    /// # Ok(()) }
    /// ```
    pub fn text_stream(&mut self) -> TextStream<'_> {
        TextStream { turn: self }
    }

    /// Waits for the end of the turn and returns its outcome. May be called again.
    ///
    /// Takes no events away: unread events stay in the buffer, and [`Turn::next`] returns them afterwards. If the buffer
    /// is full, further events are dropped and counted in [`Turn::discarded`], so that the turn always ends. A request
    /// that waits for [`Turn::respond`] undelivered for one second is then rejected (a question: dismissed).
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
    /// What ended the turn: the agent's own error, its death, a deadline. A cancelled turn is no error; see
    /// [`PromptResult::raise_for_status`]. `TurnInProgress` in a handler that the turn waits for, which would wait for
    /// ever; a task that it has spawned may wait.
    pub async fn result(&mut self) -> Result<PromptResult> {
        self.inner.channel.check_not_awaited_by(served_turn().as_ref())?;
        self.reader.leave();
        self.inner.result().await
    }

    /// Stops the turn, and waits for its end. Events that are under way are still delivered, as far as they fit.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the agent does not answer within `cancel_timeout`; the session is over then.
    pub async fn cancel(&self) -> Result<()> {
        self.inner.cancel().await
    }

    /// Tells the model something while the turn runs (from Wire 1.4 on).
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the agent can't, `NoActiveTurn` once the turn has ended, [`Error::Timeout`] if the
    /// agent does not answer within `handshake_timeout`; the turn goes on then.
    pub async fn steer(&self, input: impl Into<Content>) -> Result<()> {
        self.inner.steer(input.into()).await
    }

    /// Answers an approval request by hand, where [`on_approval_manual`](crate::SessionOptions::on_approval_manual)
    /// is set.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if no such request awaits an answer, or if it is a request of another session.
    pub async fn respond(&self, request: &ApprovalRequest, approval: Approval) -> Result<()> {
        self.inner.respond(request.into(), ManualAnswer::Approval(approval)).await
    }

    /// Answers a question by hand, where [`on_question_manual`](crate::SessionOptions::on_question_manual) is set;
    /// `None` dismisses it.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if no such request awaits an answer, or if it is a request of another session.
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

/// The answer's text, piece by piece; see [`Turn::text_stream`].
#[derive(Debug)]
pub struct TextStream<'a> {
    turn: &'a mut Turn,
}

impl TextStream<'_> {
    /// The next piece, which is not empty; nothing after the last.
    pub async fn next(&mut self) -> Option<Result<String>> {
        std::future::poll_fn(|cx| self.poll_piece(cx)).await
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<String>>> {
        loop {
            match std::task::ready!(self.turn.poll_event(cx)) {
                Some(Ok(Event::ContentPart(ContentPart::Text(part)))) if !part.text.is_empty() => {
                    return Poll::Ready(Some(Ok(part.text)));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for TextStream<'_> {
    type Item = Result<String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<String>>> {
        self.poll_piece(cx)
    }
}

/// A turn step by step; see [`Turn::steps`].
#[derive(Debug)]
pub struct Steps<'a> {
    turn: &'a mut Turn,
    is_refused: bool,
}

impl Steps<'_> {
    /// Returns the next step, and passes over the unread events of the step before it. None after the last step.
    ///
    /// A turn that fails ends with a step whose only event is the error.
    pub async fn next(&mut self) -> Option<Step<'_>> {
        if self.is_refused {
            return None;
        }
        self.turn.inner.note_used();
        let step = match self.turn.reader.start(true) {
            Ok(()) => std::future::poll_fn(|cx| self.turn.reader.poll_step(cx)).await?,
            Err(error) => {
                self.is_refused = true;
                Err(error)
            }
        };
        Some(match step {
            Ok(tag) => Step { turn: self.turn, tag, failure: None },
            Err(error) => {
                let tag = self.turn.reader.step().unwrap_or_default();
                Step { turn: self.turn, tag, failure: Some(error) }
            }
        })
    }
}

/// One step of a turn.
#[derive(Debug)]
pub struct Step<'a> {
    turn: &'a mut Turn,
    tag: StepTag,
    failure: Option<Error>,
}

impl Step<'_> {
    /// Returns the agent's number for the step, from 1.
    pub fn n(&self) -> i64 {
        self.tag.n
    }

    /// Returns the next event of the step. None after the last event. A turn that fails ends with one error.
    pub async fn next(&mut self) -> Option<Result<Event>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Some(Err(error)));
        }
        self.turn.reader.poll_event(Some(self.tag.index), cx).map_ok(|event| *event)
    }
}

impl Stream for Step<'_> {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.poll_event(cx)
    }
}

/// A session's past, event by event; see [`Session::replay`](crate::Session::replay).
#[derive(Debug)]
pub struct Replay {
    reader: TurnReader,
    pub(crate) channel: Arc<EventChannel>,
}

impl Replay {
    pub(crate) fn new(channel: Arc<EventChannel>) -> Self {
        Self { reader: TurnReader::new(Arc::clone(&channel)), channel }
    }

    /// Returns the next event. None after the last event. A replay that fails ends with one error.
    pub async fn next(&mut self) -> Option<Result<Event>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.reader.poll_event(None, cx).map_ok(|event| *event)
    }
}

impl Stream for Replay {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.poll_event(cx)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.channel.events.discard_all();
    }
}
