//! The streams of a turn's events other than the turn itself: the pieces of its text, its steps, and a replay.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::turn::Turn;
use crate::connection::StepTag;
use crate::driver::event_channel::EventChannel;
use crate::driver::turn_reader::TurnReader;
use crate::error::{Error, Result, invalid_option};
use crate::messages::Event;

/// The pieces of the answer's text; see [`Turn::text_stream`].
///
/// # Examples
/// ```no_run
/// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
/// let mut pieces = turn.text_stream();
/// while let Some(piece) = pieces.next().await {
///     print!("{}", piece?);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TextStream<'a> {
    turn: &'a Turn,
    number: u32,
    is_refused: bool,
}

impl<'a> TextStream<'a> {
    pub(super) fn of(turn: &'a Turn) -> Self {
        let number = turn.reading().begin_text_stream();
        Self { turn, number, is_refused: false }
    }

    /// Returns the next piece, which is never empty. `None` after the last piece.
    ///
    /// # Errors
    /// The errors of [`Turn::next`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// let mut pieces = turn.text_stream();
    /// while let Some(piece) = pieces.next().await {
    ///     print!("{}", piece?);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<String>> {
        std::future::poll_fn(|cx| self.poll_piece(cx)).await
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<String>>> {
        let mut reading = self.turn.reading();
        if reading.text_stream == self.number {
            return reading.poll_text(&self.turn.inner, cx);
        }
        // The error is returned once, so that a loop which continues after it ends.
        let is_first = !std::mem::replace(&mut self.is_refused, true);
        let reason = "a newer text stream reads its text; read a turn in one loop";
        Poll::Ready(is_first.then(|| Err(invalid_option("turn", reason))))
    }
}

impl Stream for TextStream<'_> {
    type Item = Result<String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<String>>> {
        self.poll_piece(cx)
    }
}

/// The steps of a turn; see [`Turn::steps`].
///
/// # Examples
/// ```no_run
/// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
/// let mut steps = turn.steps();
/// while let Some(mut step) = steps.next().await {
///     println!("step {}", step.n());
///     while let Some(event) = step.next().await {
///         println!("{}", event?.type_name());
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Steps<'a> {
    turn: &'a mut Turn,
    is_refused: bool,
}

impl<'a> Steps<'a> {
    pub(super) fn of(turn: &'a mut Turn) -> Self {
        Self { turn, is_refused: false }
    }

    /// Returns the next step, and skips the unread events of the step before it. `None` after the last step.
    ///
    /// A failed turn ends with a step whose only event is the error.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// let mut steps = turn.steps();
    /// let mut count = 0;
    /// while steps.next().await.is_some() {
    ///     count += 1;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Step<'_>> {
        if self.is_refused {
            return None;
        }
        self.turn.inner.note_used();
        let reader = self.turn.reader();
        let step = match reader.start(true) {
            Ok(()) => std::future::poll_fn(|cx| reader.poll_step(cx)).await?,
            Err(error) => {
                self.is_refused = true;
                Err(error)
            }
        };
        Some(match step {
            Ok(tag) => Step { turn: self.turn, tag, failure: None },
            Err(error) => {
                let tag = self.turn.reader().step().unwrap_or_default();
                Step { turn: self.turn, tag, failure: Some(error) }
            }
        })
    }
}

/// One step of a turn: a call of the model, and the tools that the model called. It is a stream of the step's events.
///
/// # Examples
/// ```no_run
/// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
/// let mut steps = turn.steps();
/// while let Some(mut step) = steps.next().await {
///     println!("step {}", step.n());
///     while let Some(event) = step.next().await {
///         println!("{}", event?.type_name());
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Step<'a> {
    turn: &'a mut Turn,
    tag: StepTag,
    failure: Option<Error>,
}

impl Step<'_> {
    /// Returns the agent's number for the step, from 1.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// if let Some(step) = turn.steps().next().await {
    ///     println!("step {}", step.n());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn n(&self) -> i64 {
        self.tag.n
    }

    /// Returns the next event of the step. `None` after the last event.
    ///
    /// # Errors
    /// The errors of [`Turn::next`].
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session, mut turn: kimi_agent::Turn) -> kimi_agent::Result<()> {
    /// let mut steps = turn.steps();
    /// while let Some(mut step) = steps.next().await {
    ///     println!("step {}", step.n());
    ///     while let Some(event) = step.next().await {
    ///         println!("{}", event?.type_name());
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<Event>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Some(Err(error)));
        }
        self.turn.reader().poll_event(Some(self.tag.index), cx)
    }
}

impl Stream for Step<'_> {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.poll_event(cx)
    }
}

/// The earlier events of a session; see [`Session::replay`](crate::Session::replay).
///
/// # Examples
/// ```no_run
/// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
/// let mut replay = session.replay();
/// while let Some(event) = replay.next().await {
///     println!("{}", event?.type_name());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Replay {
    reader: TurnReader,
    pub(crate) channel: Arc<EventChannel>,
}

impl Replay {
    pub(crate) fn new(channel: Arc<EventChannel>) -> Self {
        Self { reader: TurnReader::new(Arc::clone(&channel)), channel }
    }

    /// Returns the next event. `None` after the last event.
    ///
    /// # Errors
    /// Once, at the end: [`Error::Unsupported`] if the agent cannot replay messages, `TurnInProgress` while a turn runs,
    /// [`Error::Timeout`] if the agent sends nothing for `handshake_timeout`, or the error that ended the session.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(session: kimi_agent::Session) -> kimi_agent::Result<()> {
    /// let mut replay = session.replay();
    /// while let Some(event) = replay.next().await {
    ///     println!("{}", event?.type_name());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<Event>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.reader.poll_event(None, cx)
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
