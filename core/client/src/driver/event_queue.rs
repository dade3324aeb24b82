//! The bounded queue of events between a driver and the reader of a turn.
//!
//! The queue is bounded by bytes and by count. A full queue stops the driver from reading: the agent waits, and no event
//! is lost. An event occupies its capacity until the program has got it; fetching it is not enough. The queue grows and
//! discards in three cases only:
//!
//! - A call from inside the loop over the turn waits for its answer: the queue may grow up to a hard bound.
//! - The turn is being cancelled: events that do not fit are discarded, so that the answer to the cancel arrives.
//! - Only `result()` waits: the first events are kept, the others are discarded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{Notify, oneshot};

use crate::connection::{StepTag, TextRun};
use crate::error::Error;
use crate::messages::Event;

/// The limit of events. An event takes some memory even if its line is short.
const MAX_EVENTS: usize = 4096;
/// The memory of an event, without its line, in bytes.
pub(super) const OVERHEAD: usize = 128;
/// The hard limit, as a multiple of the limit, and at least this many bytes. A call from inside the program's own loop
/// may fill the queue up to it.
const HARD_FACTOR: usize = 16;
const HARD_MINIMUM: usize = 4 << 20;

/// Events on their way to the program.
#[derive(Debug)]
pub enum QueuedEvents {
    /// Parts of the answer that have nothing but their texts, as most events are.
    Texts(TextRun),
    /// Any event.
    Event(Box<Event>),
}

impl QueuedEvents {
    /// Returns the number of events.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Event(_) => 1,
        }
    }

    #[cfg(test)]
    pub(super) fn into_events(self) -> Vec<Event> {
        match self {
            Self::Texts(texts) => texts.texts().map(|text| crate::messages::ContentPart::text(text).into()).collect(),
            Self::Event(event) => vec![*event],
        }
    }

    pub(super) fn request_id(&self) -> Option<&str> {
        match self {
            Self::Texts(_) => None,
            Self::Event(event) => event.request_id(),
        }
    }
}

impl From<Box<Event>> for QueuedEvents {
    fn from(event: Box<Event>) -> Self {
        Self::Event(event)
    }
}

/// Events in the queue, with the step that they belong to.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(super) events: QueuedEvents,
    pub(super) step: StepTag,
    /// The capacity that they occupy, in bytes.
    pub(super) size: usize,
    /// Whether the event is a request that got the default answer because it was not read.
    answered: bool,
}

/// The total of what the reader handed out to the program. It is counted without the lock; [`EventQueue::lock`] frees the
/// capacity.
#[derive(Debug, Default)]
struct HandedOut {
    bytes: AtomicUsize,
    events: AtomicUsize,
}

/// The treatment of an event for which the queue has no capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Overflow {
    /// The driver stops reading, and the agent waits.
    #[default]
    Wait,
    /// It is discarded.
    Discard,
    /// The turn was left: every event is discarded.
    DiscardAll,
}

/// The changes that the driver is notified of, once.
#[derive(Debug, Default)]
struct Notice {
    /// The queue is half empty again.
    capacity: bool,
    /// The program has taken this many events, or the reader has stopped.
    delivered: Option<u64>,
}

/// A call of `result()` that waits.
#[derive(Debug)]
struct WaitingResult {
    failed: oneshot::Sender<Error>,
    /// How many events had been delivered when it began.
    since: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Events that the reader has not fetched.
    waiting: VecDeque<Queued>,
    /// The size and the number of undelivered events: those in the queue, and those that a reader has fetched.
    bytes: usize,
    undelivered: usize,
    /// The part of [`HandedOut`] whose capacity is free: bytes and events.
    freed: (usize, usize),
    /// The number of events that the queue ever accepted.
    accepted: u64,
    discarded: u64,
    /// The ids of requests among the discarded events, for the driver.
    discarded_requests: Vec<String>,
    overflow: Overflow,
    /// Set when an event was discarded while only `result()` waited. The following events are discarded too until a
    /// reader starts, so that the kept events are the first ones, without a gap.
    is_dropping: bool,
    /// Whether no more events come.
    is_closed: bool,
    has_reader: bool,
    reader: Option<Waker>,
    results: Vec<WaitingResult>,
    notice: Notice,
}

impl State {
    fn has_waiting_results(&self) -> bool {
        self.results.iter().any(|result| !result.failed.is_closed())
    }

    /// Returns whether `result()` waits and nothing reads. Then the queue must never stop the driver.
    fn is_only_awaited(&self) -> bool {
        !self.has_reader && self.has_waiting_results()
    }

    fn is_full(&self, limit: usize) -> bool {
        self.bytes >= limit || self.undelivered >= MAX_EVENTS
    }

    /// Returns how many accepted events were delivered or discarded.
    fn delivered(&self) -> u64 {
        self.accepted.saturating_sub(self.undelivered as u64)
    }

    /// Frees the capacity of the events that were handed out since the last call.
    fn free_delivered(&mut self, handed_out: &HandedOut) {
        // The events first: the bytes of an event are counted before the event is.
        let events = handed_out.events.load(Ordering::SeqCst);
        let bytes = handed_out.bytes.load(Ordering::SeqCst);
        let (freed_bytes, freed_events) = std::mem::replace(&mut self.freed, (bytes, events));
        self.free(bytes.wrapping_sub(freed_bytes), events.wrapping_sub(freed_events));
    }

    fn free(&mut self, bytes: usize, events: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.undelivered = self.undelivered.saturating_sub(events);
    }

    fn keep(&mut self, queued: Queued) {
        self.bytes += queued.size;
        self.undelivered += queued.events.count();
        self.accepted += queued.events.count() as u64;
        self.waiting.push_back(queued);
    }

    fn discard(&mut self, events: &QueuedEvents) {
        self.discarded += events.count() as u64;
        self.discarded_requests.extend(events.request_id().map(str::to_owned));
    }

    fn discard_waiting(&mut self) {
        for queued in std::mem::take(&mut self.waiting) {
            self.free(queued.size, queued.events.count());
            self.discard(&queued.events);
        }
    }

    /// Returns the requests that were not fetched and have no answer yet.
    fn unfetched_requests(&mut self) -> impl Iterator<Item = &mut Queued> {
        self.waiting.iter_mut().filter(|queued| !queued.answered && queued.events.request_id().is_some())
    }
}

/// The capacity of one queue for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// This much, or one event of any size.
    Free { bytes: usize, events: usize },
    /// Nothing, unless a call waits for its answer.
    Full,
    /// Nothing at all.
    HardFull,
}

/// A bounded queue of events. The module's documentation says when it grows and when it discards.
#[derive(Debug)]
pub(crate) struct EventQueue {
    state: Mutex<State>,
    limit: usize,
    handed_out: HandedOut,
    /// Whether the driver waits until the program has taken events. The reader then checks after each event whether to
    /// notify it.
    is_watched: AtomicBool,
    /// Notifies the driver.
    driver: Arc<Notify>,
}

/// A locked queue, to which many events are added.
pub(crate) struct Intake<'a> {
    state: MutexGuard<'a, State>,
    limit: usize,
    is_only_awaited: bool,
}

impl Intake<'_> {
    pub(crate) fn push(&mut self, event: Box<Event>, step: StepTag, size: usize) {
        self.push_one(event.into(), step, size + OVERHEAD);
    }

    pub(crate) fn push_texts(&mut self, mut texts: TextRun, step: StepTag) {
        if self.state.overflow == Overflow::Wait && !self.is_only_awaited {
            self.state.is_dropping = false;
            let size = texts.sizes().sum::<usize>() + texts.len() * OVERHEAD;
            return self.state.keep(Queued { events: QueuedEvents::Texts(texts), step, size, answered: false });
        }
        while let Some((text, size)) = texts.pop() {
            self.push_one(QueuedEvents::Texts(TextRun::new(text, size)), step, size + OVERHEAD);
        }
    }

    fn push_one(&mut self, events: QueuedEvents, step: StepTag, size: usize) {
        let state = &mut *self.state;
        state.is_dropping = self.is_only_awaited && (state.is_dropping || state.is_full(self.limit));
        let fits = state.bytes + size <= self.limit && state.undelivered < MAX_EVENTS;
        let keep = match state.overflow {
            Overflow::Wait => !state.is_dropping,
            Overflow::Discard => fits && !state.is_dropping,
            Overflow::DiscardAll => false,
        };
        if keep {
            state.keep(Queued { events, step, size, answered: false });
        } else {
            state.discard(&events);
        }
    }
}

/// The driver's side.
impl EventQueue {
    /// Makes a queue for `limit` bytes. `driver` is notified of free capacity.
    pub(crate) fn new(limit: usize, driver: Arc<Notify>) -> Self {
        let is_watched = AtomicBool::new(false);
        Self { state: Mutex::default(), limit, handed_out: HandedOut::default(), is_watched, driver }
    }

    /// Locks the state, and frees the capacity of delivered events.
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock. Even then the state would be consistent.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.free_delivered(&self.handed_out);
        state
    }

    /// Locks the queue to add events. Afterwards call [`EventQueue::wake`] once for all of them.
    pub(crate) fn intake(&self) -> Intake<'_> {
        let state = self.lock();
        let is_only_awaited = state.is_only_awaited();
        Intake { state, limit: self.limit, is_only_awaited }
    }

    /// Adds one event.
    pub(crate) fn push(&self, event: Box<Event>, step: StepTag, size: usize) {
        self.intake().push(event, step, size);
    }

    /// Wakes the reader if it waits and an event is in the queue.
    pub(crate) fn wake(&self) {
        let reader = {
            let mut state = self.lock();
            if state.waiting.is_empty() { None } else { state.reader.take() }
        };
        reader.into_iter().for_each(Waker::wake);
    }

    /// Closes the queue: wakes the reader, and ends the waits of `result()`.
    pub(crate) fn close(&self) {
        let reader = {
            let mut state = self.lock();
            state.is_closed = true;
            state.results.clear();
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }

    /// Returns the capacity for the driver. If it is full, the driver is notified when it is free again. `replies`:
    /// calls wait for answers behind the events.
    pub(crate) fn capacity(&self, replies: bool) -> Capacity {
        let mut state = self.lock();
        // After "full" the driver is notified once, when the queue is half empty. The result stays "full" until then,
        // so that the driver does not try the lines that it already has.
        let full = state.notice.capacity || state.is_full(self.limit);
        let is_watched = full || replies || state.has_waiting_results() || state.notice.delivered.is_some();
        self.is_watched.store(is_watched, Ordering::SeqCst);
        if state.overflow != Overflow::Wait || state.is_closed || state.is_only_awaited() {
            state.notice.capacity = false;
            return Capacity::Free { bytes: usize::MAX, events: usize::MAX };
        }
        if !full {
            return Capacity::Free { bytes: self.limit - state.bytes, events: MAX_EVENTS - state.undelivered };
        }
        state.notice.capacity = true;
        let hard = (self.limit * HARD_FACTOR).max(HARD_MINIMUM);
        if state.bytes < hard { Capacity::Full } else { Capacity::HardFull }
    }

    /// Sets whether events that do not fit are discarded.
    pub(crate) fn set_discards_overflow(&self, discards: bool) {
        let mut state = self.lock();
        if state.overflow != Overflow::DiscardAll {
            state.overflow = if discards { Overflow::Discard } else { Overflow::Wait };
        }
    }

    /// Takes the ids of requests whose events were discarded.
    pub(crate) fn take_discarded_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().discarded_requests)
    }

    /// Returns whether a request waits in the queue while only `result()` waits.
    pub(crate) fn holds_back_request(&self) -> bool {
        let mut state = self.lock();
        state.is_only_awaited() && state.unfetched_requests().next().is_some()
    }

    /// Takes the ids of these requests, each once. Their events stay in the queue.
    pub(crate) fn take_held_back_requests(&self) -> Vec<String> {
        let mut state = self.lock();
        if !state.is_only_awaited() {
            return Vec::new();
        }
        let requests = state.unfetched_requests().filter_map(|queued| {
            queued.answered = true;
            queued.events.request_id().map(str::to_owned)
        });
        requests.collect()
    }

    /// Returns the position of the last event: the number of events before it.
    pub(crate) fn before_last(&self) -> u64 {
        self.lock().accepted.saturating_sub(1)
    }

    /// Returns whether a reader has not taken the first `position` events yet. If so, the driver is notified when it
    /// has, or when it stops reading.
    pub(crate) fn notify_when_delivered(&self, position: u64) -> bool {
        // Set before the lock is taken: an event that is delivered now is either counted below, or the reader notifies
        // the driver.
        self.is_watched.store(true, Ordering::SeqCst);
        let mut state = self.lock();
        let waits =
            state.has_reader && state.overflow == Overflow::Wait && !state.is_closed && state.delivered() < position;
        if waits {
            let first = state.notice.delivered.map_or(position, |first| first.min(position));
            state.notice.delivered = Some(first);
        }
        waits
    }

    /// Returns how many accepted events were delivered or discarded.
    pub(crate) fn delivered(&self) -> u64 {
        self.lock().delivered()
    }

    /// Returns whether a call of `result()` waits.
    pub(crate) fn has_waiting_results(&self) -> bool {
        self.lock().has_waiting_results()
    }

    /// Returns whether such a call waits and no event was delivered since it began.
    pub(crate) fn has_stuck_results(&self) -> bool {
        let state = self.lock();
        let delivered = state.delivered();
        state.results.iter().any(|result| !result.failed.is_closed() && result.since == delivered)
    }

    /// Fails the waiting calls of `result()`: all of them, or those after whose begin no event was delivered.
    pub(crate) fn fail_results(&self, error: &Error, all: bool) {
        let failed: Vec<_> = {
            let mut state = self.lock();
            let delivered = state.delivered();
            state.results.extract_if(.., |result| all || result.since == delivered).collect()
        };
        for result in failed {
            drop(result.failed.send(error.clone()));
        }
    }
}

/// The program's side.
impl EventQueue {
    /// Registers a call of `result()`. The receiver gets an error if the call fails before the end of the turn.
    pub(super) fn await_end(&self) -> oneshot::Receiver<Error> {
        let (failed, failure) = oneshot::channel();
        let mut state = self.lock();
        state.results.retain(|result| !result.failed.is_closed());
        if !state.is_closed {
            let since = state.delivered();
            state.results.push(WaitingResult { failed, since });
            // The driver may have stopped reading. This call allows it to continue.
            self.driver.notify_one();
        }
        failure
    }

    /// Discards events that do not fit from now on, because the turn is being cancelled.
    pub(crate) fn discard_overflow(&self) {
        let mut state = self.lock();
        if state.overflow == Overflow::Wait {
            state.overflow = Overflow::Discard;
        }
        self.driver.notify_one();
    }

    /// Discards all current and later events, because the turn was left.
    pub(crate) fn discard_all(&self) {
        let mut state = self.lock();
        state.overflow = Overflow::DiscardAll;
        state.has_reader = false;
        state.discard_waiting();
        self.notify(&mut state);
        if !state.is_closed {
            self.driver.notify_one();
        }
    }

    /// Returns how many events were discarded.
    pub(crate) fn discarded(&self) -> u64 {
        self.lock().discarded
    }

    /// Notifies the driver if a condition that it waits for is fulfilled.
    fn notify(&self, state: &mut State) {
        if state.notice.delivered.is_some_and(|position| !state.has_reader || state.delivered() >= position) {
            state.notice.delivered = None;
            self.driver.notify_one();
        }
        // Not before it is half empty, so that the driver and the reader do not take turns event by event.
        if state.notice.capacity && state.bytes <= self.limit / 2 && state.undelivered <= MAX_EVENTS / 2 {
            state.notice.capacity = false;
            self.driver.notify_one();
        }
    }
}

/// The reader's side, for [`TurnReader`](super::turn_reader::TurnReader).
impl EventQueue {
    /// Counts events as delivered.
    pub(super) fn hand_out(&self, bytes: usize, events: usize) {
        self.handed_out.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.handed_out.events.fetch_add(events, Ordering::SeqCst);
        if self.is_watched.load(Ordering::SeqCst) {
            self.notify(&mut self.lock());
        }
    }

    /// Registers a reader.
    pub(super) fn start_reading(&self) {
        self.lock().has_reader = true;
    }

    /// Moves all events into `fetched`, which is empty. False: no more events come.
    pub(super) fn poll_fetch(&self, fetched: &mut VecDeque<Queued>, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        self.notify(&mut state);
        if !state.waiting.is_empty() {
            // The queue reuses the buffer of the reader.
            std::mem::swap(&mut state.waiting, fetched);
            return Poll::Ready(true);
        }
        if state.is_closed {
            return Poll::Ready(false);
        }
        if state.reader.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            state.reader = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Wakes the reader even if no event is in the queue.
    pub(super) fn wake_reader(&self) {
        let reader = self.lock().reader.take();
        reader.into_iter().for_each(Waker::wake);
    }

    /// Counts a fetched event that did not reach the program as discarded.
    pub(super) fn lose(&self, size: usize, request: Option<String>) {
        let mut state = self.lock();
        state.free(size, 1);
        state.discarded += 1;
        state.discarded_requests.extend(request);
    }

    /// Ends the reading. Puts back the fetched events that did not reach the program.
    pub(super) fn stop_reading(&self, fetched: &mut VecDeque<Queued>) {
        let mut state = self.lock();
        state.has_reader = false;
        self.notify(&mut state);
        fetched.append(&mut state.waiting);
        std::mem::swap(&mut state.waiting, fetched);
        if state.overflow == Overflow::DiscardAll {
            state.discard_waiting();
            self.notify(&mut state);
        }
        if state.overflow == Overflow::DiscardAll || state.is_only_awaited() {
            // The driver may have stopped reading. It can continue now.
            self.driver.notify_one();
        }
    }
}
