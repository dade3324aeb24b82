//! A turn or a replay, for the bindings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use serde_json::Value;
use tokio::runtime::Handle;

use super::log::Route;
use super::mailbox::{Delivery, Mailbox, Reply};
use super::{RequestOrigin, next_id};
use crate::connection::{ManualAnswer, PromptResult, RequestRef, StepTag};
use crate::error::local_error;
use crate::error::{Result, RpcErrorKind};
use crate::messages::{Content, Event, TokenUsage};
use kimi_agent_client::Replay;
use kimi_agent_client::host::{self, EventChannel, QueuedEvents, TurnInner, TurnReader};

/// A step. `index` identifies it in its turn; `n` is the agent's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Counts from 0 without gaps.
    pub index: u32,
    /// The agent's number, from 1.
    pub n: i64,
}

impl From<StepTag> for Tag {
    fn from(tag: StepTag) -> Self {
        Self { index: tag.index, n: tag.n }
    }
}

#[derive(Debug)]
enum Source {
    Turn(Arc<TurnInner>),
    Replay(Replay),
}

/// Posts [`Delivery::Readable`] when the reader is woken.
struct ReaderWaker {
    mailbox: Arc<Mailbox>,
    turn: u64,
}

impl Wake for ReaderWaker {
    fn wake(self: Arc<Self>) {
        self.mailbox.post(Delivery::Readable { turn: self.turn });
    }
}

/// A turn, or a replay.
///
/// # Reading
///
/// [`start_loop`](Self::start_loop) starts a loop over the turn, and [`leave`](Self::leave) or the end of the turn ends
/// it. In a loop, events are taken in one of two ways. If the turn is read by step, [`poll_step`](Self::poll_step)
/// returns the steps, and the index of a step limits the other calls to its events:
///
/// - [`poll_event`](Self::poll_event) returns one event, which the program has then taken.
/// - [`poll_batch`](Self::poll_batch) returns several events. The next call means that the program has taken all of
///   them. [`take_batch`](Self::take_batch) reports earlier how many it has taken: a host calls it when the program takes
///   the last event of a batch, and before it abandons the turn. Events of the batch that were not taken then count as
///   discarded. A host that leaves the loop keeps them for the next loop.
///
/// All of them return `Pending` if there is no event yet; then [`Delivery::Readable`] follows, once. They return `None`
/// at the end of the turn or of the step, and one error if the turn failed. The host only has to count its position in
/// the batch.
#[derive(Debug)]
pub struct BridgeTurn {
    /// The key of the turn in deliveries.
    pub key: u64,
    source: Source,
    mailbox: Arc<Mailbox>,
    runtime: Handle,
    reader: Mutex<TurnReader>,
    waker: Waker,
    /// The route of the log records, if the turn has a session of its own. It is dropped after `source`, which can log.
    _route: Option<Arc<Route>>,
}

impl BridgeTurn {
    /// A turn in a session of its own.
    pub(crate) fn of_one_shot(
        inner: Arc<TurnInner>,
        mailbox: Arc<Mailbox>,
        runtime: Handle,
        route: Arc<Route>,
    ) -> Self {
        let channel = Arc::clone(&inner.channel);
        Self::of(Source::Turn(inner), channel, mailbox, runtime, Some(route))
    }

    pub(crate) fn new(inner: Arc<TurnInner>, mailbox: Arc<Mailbox>, runtime: Handle) -> Self {
        let channel = Arc::clone(&inner.channel);
        Self::of(Source::Turn(inner), channel, mailbox, runtime, None)
    }

    pub(crate) fn of_replay(replay: Replay, mailbox: Arc<Mailbox>, runtime: Handle) -> Self {
        let channel = Arc::clone(host::replay_channel(&replay));
        Self::of(Source::Replay(replay), channel, mailbox, runtime, None)
    }

    fn of(
        source: Source,
        channel: Arc<EventChannel>,
        mailbox: Arc<Mailbox>,
        runtime: Handle,
        route: Option<Arc<Route>>,
    ) -> Self {
        let key = next_id();
        let waker = Waker::from(Arc::new(ReaderWaker { mailbox: Arc::clone(&mailbox), turn: key }));
        Self { key, source, mailbox, runtime, reader: Mutex::new(TurnReader::new(channel)), waker, _route: route }
    }

    fn channel(&self) -> &Arc<EventChannel> {
        match &self.source {
            Source::Turn(turn) => &turn.channel,
            Source::Replay(replay) => host::replay_channel(replay),
        }
    }

    /// Code under this lock never calls the host.
    fn reader(&self) -> MutexGuard<'_, TurnReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a loop over the turn, by event or by step.
    ///
    /// # Errors
    /// `InvalidOption` if the turn has been read in the other way, or if another loop reads it.
    pub fn start_loop(&self, by_step: bool) -> Result<()> {
        self.note_used();
        self.reader().start_loop(by_step)
    }

    /// Ends the loop. The turn goes on, and the next loop gets the unread events.
    pub fn leave(&self) {
        self.reader().leave();
    }

    /// Returns the next event; with `step`, the next event of that step.
    pub fn poll_event(&self, step: Option<u32>) -> Poll<Option<Result<Event>>> {
        self.reader().poll_event(step, &Context::from_waker(&self.waker))
    }

    /// Returns the next events, at least one and at most `max`; with `step`, events of that step. A request is a batch
    /// of its own.
    pub fn poll_batch(&self, max: usize, step: Option<u32>) -> Poll<Option<Result<Vec<QueuedEvents>>>> {
        self.reader().poll_batch(max, step, &Context::from_waker(&self.waker))
    }

    /// The program has taken the first `count` events of the batch.
    pub fn take_batch(&self, count: usize) {
        self.reader().take_batch(count);
    }

    /// Counts the events of the batch that the program did not take as discarded.
    pub fn discard_batch(&self) {
        self.reader().discard_batch();
    }

    /// Skips the rest of the current step, and returns the next step.
    pub fn poll_step(&self) -> Poll<Option<Result<Tag>>> {
        self.reader().poll_step(&Context::from_waker(&self.waker)).map_ok(Tag::from)
    }

    /// Returns whether an event or the end can be read. If not, `waker` is woken later. For a thread that waits by
    /// itself.
    pub fn is_readable(&self, waker: &Waker) -> bool {
        self.reader().poll_ready(&Context::from_waker(waker)).is_ready()
    }

    /// Wakes a thread that waits after [`is_readable`](Self::is_readable).
    pub fn wake_reader(&self) {
        self.reader().wake();
    }

    fn turn(&self) -> Result<&Arc<TurnInner>> {
        match &self.source {
            Source::Turn(turn) => Ok(turn),
            Source::Replay(_) => {
                Err(local_error(RpcErrorKind::NoActiveTurn, "a replay is not a turn: it can only be read"))
            }
        }
    }

    /// Posts [`Delivery::Settled`] once the turn has its outcome.
    pub fn announce_end(&self) {
        let (channel, mailbox, turn) = (Arc::clone(self.channel()), Arc::clone(&self.mailbox), self.key);
        drop(self.runtime.spawn(async move {
            drop(channel.settled().await);
            mailbox.post(Delivery::Settled { turn });
        }));
    }

    /// Returns the id of the turn in the session.
    pub fn id(&self) -> &str {
        match &self.source {
            Source::Turn(turn) => &turn.id,
            Source::Replay(_) => "replay",
        }
    }

    /// Returns whether the turn has an outcome.
    pub fn is_settled(&self) -> bool {
        self.channel().is_settled()
    }

    /// Returns the outcome, if there is one.
    pub fn outcome(&self) -> Option<Result<PromptResult>> {
        self.channel().outcome()
    }

    /// Returns the tokens so far.
    pub fn usage(&self) -> TokenUsage {
        self.channel().usage()
    }

    /// Returns how many events were discarded.
    pub fn discarded(&self) -> u64 {
        self.channel().discarded()
    }

    /// Waits for the outcome. The ticket ends with it. Takes no events; if the buffer is full and nothing reads it,
    /// further events are only counted. `within` is the job of the calling handler, if a handler calls this.
    ///
    /// # Errors
    /// Fails if the turn waits for that job.
    pub fn result(&self, within: Option<u64>) -> Result<u64> {
        let channel = Arc::clone(self.channel());
        channel.check_not_awaited_by(within.and_then(|job| self.mailbox.served_by(job)).as_ref())?;
        self.note_used();
        Ok(self
            .mailbox
            .run(&self.runtime, async move { channel.result().await.map(|result| Reply::Outcome(Box::new(result))) }))
    }

    /// Checks that the handler of the job `within` may wait for the next event.
    ///
    /// # Errors
    /// Fails if the turn waits for that job: the two would wait for each other.
    pub fn check_wait(&self, within: u64) -> Result<()> {
        self.channel().check_not_awaited_by(self.mailbox.served_by(within).as_ref())
    }

    /// Cancels the turn. The ticket ends with the turn.
    ///
    /// # Errors
    /// Fails for a replay, which cannot be cancelled.
    pub fn cancel(&self) -> Result<u64> {
        let turn = Arc::clone(self.turn()?);
        // Started here, so that a prompt right after this call waits for the end of the turn.
        let running = turn.begin_cancel();
        Ok(self.mailbox.run(&self.runtime, async move {
            if running {
                turn.cancelled().await?;
            }
            Ok(Reply::Nothing)
        }))
    }

    /// Steers the turn.
    ///
    /// # Errors
    /// Fails for a replay, which cannot be steered.
    pub fn steer(&self, content: Content) -> Result<u64> {
        let turn = Arc::clone(self.turn()?);
        Ok(self.mailbox.run(&self.runtime, async move { turn.steer(content).await.map(|()| Reply::Nothing) }))
    }

    /// Stops the work of a subagent.
    ///
    /// # Errors
    /// Fails for a replay, whose subagents have ended.
    pub fn cancel_subagent(&self, session: String) -> Result<u64> {
        let turn = Arc::clone(self.turn()?);
        Ok(self.mailbox.run(&self.runtime, async move { turn.cancel_subagent(session).await.map(|()| Reply::Nothing) }))
    }

    /// Answers a request manually. `origin` is the result of [`origin_of`](super::origin_of) for its event. `None`:
    /// only the id is known.
    ///
    /// # Errors
    /// Fails for a replay, whose requests need no answer.
    pub fn respond(&self, request_id: String, origin: Option<RequestOrigin>, answer: Value) -> Result<u64> {
        let request = RequestRef { id: request_id, origin };
        let turn = Arc::clone(self.turn()?);
        Ok(self.mailbox.run(&self.runtime, async move {
            turn.respond(request, ManualAnswer::Json(answer)).await.map(|()| Reply::Nothing)
        }))
    }

    /// The program knows that it drops the turn, for example because of an exception. No warning is logged then.
    pub fn note_used(&self) {
        if let Source::Turn(turn) = &self.source {
            turn.note_used();
        }
    }

    /// The program has left the turn: unread events are discarded, and the turn is cancelled in the background.
    pub fn abandon(&self) {
        // First, so that events which the program did not take are counted.
        self.discard_batch();
        self.leave();
        match &self.source {
            Source::Turn(turn) => turn.leave(),
            Source::Replay(replay) => host::replay_channel(replay).discard_all(),
        }
    }
}

impl Drop for BridgeTurn {
    fn drop(&mut self) {
        // Pending operations hold the inner state of the turn, which would keep it running.
        self.abandon();
    }
}
