//! A turn, or a replay, as the bindings hold it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use serde_json::Value;
use tokio::runtime::Handle;

use super::mailbox::{Delivery, Mailbox, Reply};
use super::{RequestOrigin, next_id};
use crate::connection::{ManualAnswer, PromptResult, RequestRef, StepTag};
use crate::error::{Error, Result, RpcErrorKind};
use crate::wire::{Content, ContentPart, Event, TextPart, TokenUsage};
use kimi_agent_client::Replay;
use kimi_agent_client::host::{self, TurnInner, lane::Lane};

/// A step, told apart from all others of its turn by `index`; `n` is the agent's number for it.
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

/// An event that was there to read, packed small: a piece of the answer's text, as most are, comes by itself.
#[derive(Debug)]
pub enum Drained {
    /// A text part that has nothing but its text.
    Text(String),
    /// Any other event.
    Other(Box<Event>),
}

impl From<Box<Event>> for Drained {
    fn from(mut event: Box<Event>) -> Self {
        match &mut *event {
            Event::ContentPart(ContentPart::Text(TextPart { text, extra })) if extra.is_empty() => {
                Self::Text(std::mem::take(text))
            }
            _ => Self::Other(event),
        }
    }
}

/// What was there to read.
#[derive(Debug)]
pub struct Batch {
    /// The events.
    pub events: Vec<Drained>,
    /// The step of the next unread event, if there is one.
    pub next: Option<Tag>,
    /// Nothing follows: in the turn, or in the step that was asked for.
    pub ended: bool,
}

#[derive(Debug)]
enum Source {
    Turn(Arc<TurnInner>),
    Replay(Replay),
}

/// Leaves word for the host when it is woken, without a task that waits.
struct Notice {
    mailbox: Arc<Mailbox>,
    turn: u64,
    delivery: fn(u64) -> Delivery,
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.mailbox.post((self.delivery)(self.turn));
    }
}

fn notice(mailbox: &Arc<Mailbox>, turn: u64, delivery: fn(u64) -> Delivery) -> Waker {
    Waker::from(Arc::new(Notice { mailbox: Arc::clone(mailbox), turn, delivery }))
}

/// A turn, or a replay.
#[derive(Debug)]
pub struct BridgeTurn {
    /// By this deliveries name it.
    pub key: u64,
    source: Source,
    mailbox: Arc<Mailbox>,
    runtime: Handle,
    /// What the drained events count for that the user has not got yet.
    owed: Mutex<VecDeque<usize>>,
    waker: Waker,
}

impl BridgeTurn {
    pub(crate) fn new(inner: Arc<TurnInner>, mailbox: Arc<Mailbox>, runtime: Handle) -> Self {
        Self::of(Source::Turn(inner), mailbox, runtime)
    }

    pub(crate) fn of_replay(replay: Replay, mailbox: Arc<Mailbox>, runtime: Handle) -> Self {
        Self::of(Source::Replay(replay), mailbox, runtime)
    }

    fn of(source: Source, mailbox: Arc<Mailbox>, runtime: Handle) -> Self {
        let key = next_id();
        let waker = notice(&mailbox, key, |turn| Delivery::Readable { turn });
        Self { key, source, mailbox, runtime, owed: Mutex::default(), waker }
    }

    fn lane(&self) -> &Arc<Lane> {
        match &self.source {
            Source::Turn(turn) => &turn.lane,
            Source::Replay(replay) => host::replay_lane(replay),
        }
    }

    fn turn(&self) -> Result<&Arc<TurnInner>> {
        match &self.source {
            Source::Turn(turn) => Ok(turn),
            Source::Replay(_) => Err(Error::local(RpcErrorKind::NoActiveTurn, "a replay is no turn")),
        }
    }

    /// Has [`Delivery::Settled`] posted once there is an outcome.
    pub fn announce_end(&self) {
        self.lane().wake_when_settled(notice(&self.mailbox, self.key, |turn| Delivery::Settled { turn }));
    }

    /// Its name within the session.
    pub fn id(&self) -> &str {
        match &self.source {
            Source::Turn(turn) => &turn.id,
            Source::Replay(_) => "replay",
        }
    }

    /// Up to `max` events that are there now; with `step`, only those of that step.
    pub fn drain(&self, max: usize, step: Option<u32>) -> Batch {
        let (deliveries, next, ended) = self.lane().drain(max, step);
        self.owed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(deliveries.iter().map(|delivery| delivery.size()));
        let events = deliveries.into_iter().map(|delivery| delivery.event.into()).collect();
        Batch { events, next: next.map(Tag::from), ended }
    }

    /// The user has got so many of the drained events: the agent may go on.
    pub fn acknowledge(&self, count: usize) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        let count = count.min(owed.len());
        let size = owed.drain(..count).sum();
        self.lane().acknowledge(size, count);
    }

    /// Whether the core waits for the program to get events: then it is told of each at once.
    pub fn is_watched(&self) -> bool {
        self.lane().is_watched()
    }

    /// Whether there is something to drain. If not, [`Delivery::Readable`] follows when there is.
    pub fn wait(&self) -> bool {
        self.lane().poll_ready(&self.waker)
    }

    /// The same for a thread that waits by itself: it gets its own waker woken.
    pub fn wait_with(&self, waker: &Waker) -> bool {
        self.lane().poll_ready(waker)
    }

    /// Has a thread that waits by [`wait_with`](Self::wait_with) look again.
    pub fn wake_reader(&self) {
        self.lane().wake_reader();
    }

    /// Somebody reads, by event or by step.
    ///
    /// # Errors
    /// It has been read the other way, or another loop reads it.
    pub fn reader_started(&self, by_step: bool) -> Result<()> {
        self.lane().start_reader(by_step)
    }

    /// Nobody reads any more; the turn goes on.
    pub fn reader_left(&self) {
        self.lane().set_reader_present(false);
    }

    /// The outcome, if there is one.
    pub fn outcome(&self) -> Option<Result<PromptResult>> {
        self.lane().outcome()
    }

    /// The tokens so far.
    pub fn usage(&self) -> TokenUsage {
        self.lane().usage()
    }

    /// How many events nobody got.
    pub fn discarded(&self) -> u64 {
        self.lane().discarded()
    }

    /// The outcome as a ticket. Takes no events away; if the buffer is full and nobody reads, further events are counted
    /// only. `within` is the job that the caller runs in, if it does in one.
    ///
    /// # Errors
    /// The turn waits for that job.
    pub fn result(&self, within: Option<u64>) -> Result<u64> {
        let lane = Arc::clone(self.lane());
        lane.check_not_awaited_by(within.and_then(|job| self.mailbox.served_by(job)).as_ref())?;
        Ok(self
            .mailbox
            .run(&self.runtime, async move { lane.result().await.map(|result| Reply::Outcome(Box::new(result))) }))
    }

    /// Cancels; the ticket ends with the turn.
    ///
    /// # Errors
    /// A replay can't be cancelled.
    pub fn cancel(&self) -> Result<u64> {
        let turn = Arc::clone(self.turn()?);
        // At once, so that a prompt right after it waits for its end.
        let running = turn.begin_cancel();
        Ok(self.mailbox.run(&self.runtime, async move {
            if running {
                turn.cancelled().await?;
            }
            Ok(Reply::Nothing)
        }))
    }

    /// Steers.
    ///
    /// # Errors
    /// A replay can't be steered.
    pub fn steer(&self, content: Content) -> Result<u64> {
        let turn = Arc::clone(self.turn()?);
        Ok(self.mailbox.run(&self.runtime, async move { turn.steer(content).await.map(|()| Reply::Nothing) }))
    }

    /// Answers a request manually. `origin` is what [`origin_of`](super::origin_of) said of its event, unless only the id is known.
    ///
    /// # Errors
    /// A replay has nothing to answer.
    pub fn respond(&self, request_id: String, origin: Option<RequestOrigin>, answer: Value) -> Result<u64> {
        let request = RequestRef { id: request_id, origin };
        let turn = Arc::clone(self.turn()?);
        Ok(self.mailbox.run(&self.runtime, async move {
            turn.respond(request, ManualAnswer::Json(answer)).await.map(|()| Reply::Nothing)
        }))
    }

    /// The program knows that it loses the turn, for example by an exception: that is not worth a warning.
    pub fn note_used(&self) {
        if let Source::Turn(turn) = &self.source {
            turn.lane.note_used();
        }
    }

    /// The program has left it: what is unread goes, and the turn is cancelled in the background.
    pub fn abandon(&self) {
        match &self.source {
            Source::Turn(turn) => turn.leave(),
            Source::Replay(replay) => host::replay_lane(replay).discard(),
        }
    }
}

impl Drop for BridgeTurn {
    fn drop(&mut self) {
        // Operations under way hold the turn's insides: without this they would keep it running.
        self.abandon();
    }
}
