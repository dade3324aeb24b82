//! Reads the events of a turn, one by one, by step, or in batches. Every language reads through it, so that the rules are
//! here once: which event ends a step, when an event counts as delivered, and who may read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::event_channel::EventChannel;
use super::event_queue::{Delivered, Queued};
use crate::connection::StepTag;
use crate::error::invalid_option;
use crate::error::{Error, Result};
use crate::wire::Event;

/// How many events a reader hands out before it reports them, while the driver does not wait for that.
const PORTION: usize = 32;

/// The reader of a turn, of a replay, or of the events outside turns.
///
/// It takes all events that wait under one lock, and hands them out one by one. An event counts as delivered when it was
/// handed out; an event of a batch when the program says so. Dropped, the reader puts the others back into the queue.
#[derive(Debug)]
pub struct TurnReader {
    channel: Arc<EventChannel>,
    fetched: VecDeque<Queued>,
    /// What was handed out and not reported yet.
    delivered: Delivered,
    /// Whether the turn is read by step. Decided by the first who reads.
    by_step: Option<bool>,
    /// The step that is being read.
    step: Option<StepTag>,
    is_reading: bool,
    /// The failure of the turn was handed out.
    is_failure_reported: bool,
    batch: Batch,
}

/// The events of a batch that the program has not got yet.
#[derive(Debug, Default)]
struct Batch {
    sizes: VecDeque<usize>,
    /// How many of the batch the program got.
    taken: usize,
    /// The id of the request that the batch begins with. There is no other request in it.
    request: Option<String>,
}

impl TurnReader {
    /// A reader of the channel's events.
    pub fn new(channel: Arc<EventChannel>) -> Self {
        Self {
            channel,
            fetched: VecDeque::new(),
            delivered: Delivered::default(),
            by_step: None,
            step: None,
            is_reading: false,
            is_failure_reported: false,
            batch: Batch::default(),
        }
    }

    /// Begins to read by step or by event, unless that has begun already.
    ///
    /// # Errors
    /// `InvalidOption` if the turn has been read in the other way.
    pub fn start(&mut self, by_step: bool) -> Result<()> {
        let first = *self.by_step.get_or_insert(by_step);
        if first != by_step {
            let (first, then) = if first { ("step", "event") } else { ("event", "step") };
            return Err(invalid_option(
                "turn",
                format!(
                    "it has been read by {first} and can't be read by {then} any more; prompt again to read a turn by {then}"
                ),
            ));
        }
        if !self.is_reading {
            self.is_reading = true;
            self.channel.events.start_reading();
        }
        Ok(())
    }

    /// Begins a loop over the turn. There is one at a time.
    ///
    /// # Errors
    /// `InvalidOption` if the turn has been read in the other way, or if another loop reads it.
    pub fn start_loop(&mut self, by_step: bool) -> Result<()> {
        if self.is_reading && self.by_step == Some(by_step) {
            return Err(invalid_option(
                "turn",
                "another loop reads its events already; read a turn in one loop, and leave that loop before the next",
            ));
        }
        self.start(by_step)?;
        if by_step {
            self.begin_steps();
        }
        // Each loop over a turn that failed ends with the failure.
        self.is_failure_reported = false;
        Ok(())
    }

    /// Returns the next event; with `step`, only if it is of that step, and that step is being read. None after the
    /// last event. A turn that failed ends with one error.
    pub fn poll_event(&mut self, step: Option<u32>, cx: &Context<'_>) -> Poll<Option<Result<Box<Event>>>> {
        match ready!(self.poll_next(step, cx)) {
            Some(Ok(queued)) => {
                self.deliver(queued.size);
                Poll::Ready(Some(Ok(queued.event)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => Poll::Ready(None),
        }
    }

    /// Passes over the rest of the step that is being read, and returns the next step. None after the last step. A turn
    /// that failed ends with one error.
    pub fn poll_step(&mut self, cx: &Context<'_>) -> Poll<Option<Result<StepTag>>> {
        self.take_batch(usize::MAX);
        loop {
            let current = self.step.map(|step| step.index);
            let Some(next) = self.fetched.front().map(|queued| queued.step) else {
                if ready!(self.poll_fetch(cx)) {
                    continue;
                }
                return Poll::Ready(self.end().map(Err));
            };
            if current != Some(next.index) {
                // The agent's number is known only once the step has begun.
                self.step = Some(next);
                return Poll::Ready(Some(Ok(next)));
            }
            if let Some(passed) = self.fetched.pop_front() {
                self.deliver(passed.size);
            }
        }
    }

    /// Begins a loop over the steps: its first step is that of the next event, even if an earlier loop had begun that step.
    pub fn begin_steps(&mut self) {
        self.step = None;
    }

    /// The step that is being read.
    pub fn step(&self) -> Option<StepTag> {
        self.step
    }

    /// Stops reading. A later reader gets the events that were not handed out; those of a batch that the program did
    /// not take are counted as discarded.
    pub fn leave(&mut self) {
        self.is_reading = false;
        for size in std::mem::take(&mut self.batch.sizes) {
            self.channel.events.lose(size, self.batch.request.take());
        }
        self.channel.events.stop_reading(&mut self.delivered, &mut self.fetched);
    }

    fn poll_next(&mut self, step: Option<u32>, cx: &Context<'_>) -> Poll<Option<Result<Queued>>> {
        if step.is_some() && step != self.step.map(|current| current.index) {
            return Poll::Ready(None);
        }
        if self.fetched.is_empty() && !ready!(self.poll_fetch(cx)) {
            return Poll::Ready(self.end().map(Err));
        }
        // An event of another step waits until that step is read.
        let belongs = |next: &Queued| step.is_none_or(|step| step == next.step.index);
        Poll::Ready(if self.fetched.front().is_some_and(belongs) { self.fetched.pop_front().map(Ok) } else { None })
    }

    fn poll_fetch(&mut self, cx: &Context<'_>) -> Poll<bool> {
        self.channel.events.poll_fetch(&mut self.delivered, &mut self.fetched, cx)
    }

    /// Ends the loop: no event follows. Returns the failure of the turn, once.
    fn end(&mut self) -> Option<Error> {
        self.is_reading = false;
        if std::mem::replace(&mut self.is_failure_reported, true) {
            return None;
        }
        self.channel.outcome().and_then(Result::err)
    }

    fn deliver(&mut self, size: usize) {
        self.delivered.bytes += size;
        self.delivered.events += 1;
        if self.delivered.events >= PORTION || self.channel.events.reports_each() {
            self.channel.events.report(&mut self.delivered);
        }
    }
}

/// Batches, for a host language to which each call costs more than an event.
impl TurnReader {
    /// Returns the next events, at most `max` and at least one; otherwise as [`TurnReader::poll_event`]. The program has
    /// got the batch before it.
    ///
    /// A request is a batch of its own. So a handler that waits until the program has got the events before a request
    /// can start as soon as the program says that it took the last event of a batch.
    pub fn poll_batch(
        &mut self,
        max: usize,
        step: Option<u32>,
        cx: &Context<'_>,
    ) -> Poll<Option<Result<Vec<Box<Event>>>>> {
        self.take_batch(usize::MAX);
        let first = match ready!(self.poll_next(step, cx)) {
            Some(Ok(first)) => first,
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        };
        self.batch = Batch { request: first.event.request_id().map(str::to_owned), ..Batch::default() };
        let belongs =
            |next: &Queued| next.event.request_id().is_none() && step.is_none_or(|step| step == next.step.index);
        let more = match self.batch.request {
            None => self.fetched.iter().take(max.saturating_sub(1)).take_while(|next| belongs(next)).count(),
            Some(_) => 0,
        };
        let sizes = &mut self.batch.sizes;
        let events = std::iter::once(first).chain(self.fetched.drain(..more)).map(|queued| {
            sizes.push_back(queued.size);
            queued.event
        });
        Poll::Ready(Some(Ok(events.collect())))
    }

    /// The program has got the first `count` events of the batch.
    pub fn take_batch(&mut self, count: usize) {
        let more = count.saturating_sub(self.batch.taken).min(self.batch.sizes.len());
        if more == 0 {
            return;
        }
        self.batch.taken += more;
        self.delivered.events += more;
        self.delivered.bytes += self.batch.sizes.drain(..more).sum::<usize>();
        self.batch.request = None;
        self.channel.events.report(&mut self.delivered);
    }

    /// Waits until there is an event to read, or the end.
    pub fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.fetched.is_empty() { self.poll_fetch(cx).map(drop) } else { Poll::Ready(()) }
    }

    /// Wakes the task or thread that waits for an event.
    pub fn wake(&self) {
        self.channel.events.wake_reader();
    }
}

impl Drop for TurnReader {
    fn drop(&mut self) {
        self.leave();
    }
}
