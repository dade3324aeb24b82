//! Reads the events of a turn: one by one, by step, or in batches. All languages read through it, so it has these rules
//! once: which event ends a step, when an event counts as delivered, and who may read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::event_channel::EventChannel;
use super::event_queue::{OVERHEAD, Queued, QueuedEvents};
use crate::connection::StepTag;
use crate::error::invalid_option;
use crate::error::{Error, Result};
use crate::messages::{ContentPart, Event, MESSAGE_BREAK, Messages};

/// The reader of a turn, of a replay, or of the events outside turns.
///
/// It takes all waiting events under one lock, and returns them one by one. An event counts as delivered when it is
/// returned; an event of a batch, when the program has taken it. When the reader is dropped, events that it did not
/// return go back into the queue. Events of a batch that the program did not take count as discarded.
#[derive(Debug)]
pub struct TurnReader {
    channel: Arc<EventChannel>,
    fetched: VecDeque<Queued>,
    /// Whether the turn is read by step. The first reader decides.
    by_step: Option<bool>,
    /// The current step.
    step: Option<StepTag>,
    is_reading: bool,
    /// Whether the failure of the turn was returned.
    is_failure_reported: bool,
    /// The messages of the texts that were returned.
    messages: Messages,
    batch: Batch,
}

/// One event on its way to the program.
enum OneEvent {
    /// A part of the answer that has nothing but its text.
    Text(String),
    Event(Box<Event>),
}

/// The sizes of the events in the batch that the program has not taken yet.
#[derive(Debug, Default)]
struct Batch {
    sizes: VecDeque<usize>,
    /// How many events of the batch the program has taken.
    taken: usize,
    /// The id of the request in the batch. A request is the only event of its batch.
    request: Option<String>,
}

impl TurnReader {
    /// Makes a reader of the channel's events.
    pub fn new(channel: Arc<EventChannel>) -> Self {
        Self {
            channel,
            fetched: VecDeque::new(),
            by_step: None,
            step: None,
            is_reading: false,
            is_failure_reported: false,
            messages: Messages::default(),
            batch: Batch::default(),
        }
    }

    /// Starts to read by step or by event, unless it was started before.
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
        // Each loop over a failed turn ends with the failure.
        self.is_failure_reported = false;
        Ok(())
    }

    /// Returns the next event. With `step`, returns an event only if it belongs to that step, which must be the current
    /// one. `None` after the last event. A failed turn ends with one error.
    pub fn poll_event(&mut self, step: Option<u32>, cx: &Context<'_>) -> Poll<Option<Result<Event>>> {
        match ready!(self.poll_next(step, cx)) {
            Some(Ok((event, size))) => {
                self.channel.events.hand_out(size, 1);
                Poll::Ready(Some(Ok(match event {
                    OneEvent::Text(text) => ContentPart::text(text).into(),
                    OneEvent::Event(event) => *event,
                })))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => Poll::Ready(None),
        }
    }

    /// Returns the next event that is a text: a part of the answer, which may be empty.
    pub(crate) fn poll_text(&mut self, cx: &Context<'_>) -> Poll<Option<Result<String>>> {
        loop {
            let (event, size) = match ready!(self.poll_next(None, cx)) {
                Some(Ok(next)) => next,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            self.channel.events.hand_out(size, 1);
            match event {
                OneEvent::Text(text) => return Poll::Ready(Some(Ok(text))),
                OneEvent::Event(event) => match *event {
                    Event::ContentPart(ContentPart::Text(part)) if self.messages.is_next(&part) => {
                        return Poll::Ready(Some(Ok(format!("{MESSAGE_BREAK}{}", part.text))));
                    }
                    Event::ContentPart(ContentPart::Text(part)) => return Poll::Ready(Some(Ok(part.text))),
                    Event::StepBegin(_) => self.messages = Messages::default(),
                    _ => {}
                },
            }
        }
    }

    /// Skips the rest of the current step, and returns the next step. `None` after the last step. A failed turn ends
    /// with one error.
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
                // The agent's number is known only after the step has begun.
                self.step = Some(next);
                return Poll::Ready(Some(Ok(next)));
            }
            if let Some(passed) = self.fetched.pop_front() {
                self.channel.events.hand_out(passed.size, passed.events.count());
            }
        }
    }

    /// Starts a loop over the steps. Its first step is that of the next event, even if an earlier loop had begun that
    /// step.
    pub fn begin_steps(&mut self) {
        self.step = None;
    }

    /// Returns the current step.
    pub fn step(&self) -> Option<StepTag> {
        self.step
    }

    /// Stops reading. A later reader gets the events that were not returned. The program keeps the rest of a batch for
    /// that reader.
    pub fn leave(&mut self) {
        self.is_reading = false;
        self.channel.events.stop_reading(&mut self.fetched);
    }

    /// Returns the next event, and the capacity that it occupies.
    fn poll_next(&mut self, step: Option<u32>, cx: &Context<'_>) -> Poll<Option<Result<(OneEvent, usize)>>> {
        let Some(next) = ready!(self.poll_front(step, cx)) else { return Poll::Ready(None) };
        if let Err(error) = next {
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(self.take_one().map(Ok))
    }

    /// Takes the first event.
    fn take_one(&mut self) -> Option<(OneEvent, usize)> {
        if let Some(Queued { events: QueuedEvents::Texts(texts), size: total, .. }) = self.fetched.front_mut()
            && let Some((text, size)) = texts.pop()
        {
            let size = size + OVERHEAD;
            *total = total.saturating_sub(size);
            if texts.is_empty() {
                self.fetched.pop_front();
            }
            return Some((OneEvent::Text(text), size));
        }
        match self.fetched.pop_front()? {
            Queued { events: QueuedEvents::Event(event), size, .. } => Some((OneEvent::Event(event), size)),
            // A run has at least one part.
            Queued { events: QueuedEvents::Texts(_), .. } => None,
        }
    }

    /// Waits until the first of `fetched` is what can be read next. `None` if nothing more belongs to the step.
    fn poll_front(&mut self, step: Option<u32>, cx: &Context<'_>) -> Poll<Option<Result<()>>> {
        if step.is_some() && step != self.step.map(|current| current.index) {
            return Poll::Ready(None);
        }
        if self.fetched.is_empty() && !ready!(self.poll_fetch(cx)) {
            return Poll::Ready(self.end().map(Err));
        }
        // An event of another step waits until that step is read.
        let belongs = |next: &Queued| step.is_none_or(|step| step == next.step.index);
        Poll::Ready(self.fetched.front().is_some_and(belongs).then_some(Ok(())))
    }

    fn poll_fetch(&mut self, cx: &Context<'_>) -> Poll<bool> {
        self.channel.events.poll_fetch(&mut self.fetched, cx)
    }

    /// Ends the loop after the last event. Returns the failure of the turn, once.
    fn end(&mut self) -> Option<Error> {
        self.is_reading = false;
        if std::mem::replace(&mut self.is_failure_reported, true) {
            return None;
        }
        self.channel.failure()
    }
}

/// Batches, for languages in which each call costs more than an event.
impl TurnReader {
    /// Returns the next events, at least one and at most `max`; for the rest see [`TurnReader::poll_event`]. The
    /// program has taken the batch before it.
    ///
    /// A request has a batch of its own. So a handler that waits for the events before the request can start as soon as
    /// the program has taken the last event of the batch.
    pub fn poll_batch(
        &mut self,
        max: usize,
        step: Option<u32>,
        cx: &Context<'_>,
    ) -> Poll<Option<Result<Vec<QueuedEvents>>>> {
        self.take_batch(usize::MAX);
        self.batch = Batch::default();
        let Some(next) = ready!(self.poll_front(step, cx)) else { return Poll::Ready(None) };
        if let Err(error) = next {
            return Poll::Ready(Some(Err(error)));
        }
        let mut events = Vec::from_iter(self.take_some(max));
        self.batch.request = events.first().and_then(QueuedEvents::request_id).map(str::to_owned);
        let belongs =
            |next: &Queued| next.events.request_id().is_none() && step.is_none_or(|step| step == next.step.index);
        while self.batch.request.is_none() && self.batch.sizes.len() < max && self.fetched.front().is_some_and(belongs)
        {
            events.extend(self.take_some(max));
        }
        Poll::Ready(Some(Ok(events)))
    }

    /// Adds the first events to the batch, which has at most `max`.
    fn take_some(&mut self, max: usize) -> Option<QueuedEvents> {
        let sizes = &mut self.batch.sizes;
        if let Some(Queued { events: QueuedEvents::Texts(texts), size: total, .. }) = self.fetched.front_mut() {
            let space = max.max(1) - sizes.len();
            if space < texts.len() {
                let part = texts.split_front(space);
                sizes.extend(part.sizes().map(|size| size + OVERHEAD));
                *total = total.saturating_sub(part.sizes().sum::<usize>() + part.len() * OVERHEAD);
                return Some(QueuedEvents::Texts(part));
            }
        }
        let Queued { events, size, .. } = self.fetched.pop_front()?;
        match &events {
            QueuedEvents::Texts(texts) => sizes.extend(texts.sizes().map(|size| size + OVERHEAD)),
            QueuedEvents::Event(_) => sizes.push_back(size),
        }
        Some(events)
    }

    /// The program has taken the first `count` events of the batch.
    pub fn take_batch(&mut self, count: usize) {
        let more = count.saturating_sub(self.batch.taken).min(self.batch.sizes.len());
        if more == 0 {
            return;
        }
        self.batch.taken += more;
        self.batch.request = None;
        self.channel.events.hand_out(self.batch.sizes.drain(..more).sum(), more);
    }

    /// Counts the events of the batch that the program did not take as discarded.
    pub fn discard_batch(&mut self) {
        for size in std::mem::take(&mut self.batch.sizes) {
            self.channel.events.lose(size, self.batch.request.take());
        }
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
        self.discard_batch();
        self.leave();
    }
}
