//! The bounded queue of events between a driver and the reader of a turn.
//!
//! The queue is bounded by bytes and by count. A full queue stops the driver from reading: the agent waits, and no event
//! is lost. An event occupies its capacity until the program has got it; fetching it is not enough. The queue grows and
//! discards in three cases only:
//!
//! - A call from inside the loop over the turn waits for its answer: the queue may grow up to a hard bound.
//! - The turn is being cancelled: events that do not fit are discarded, so that the answer to the cancel arrives.
//! - Only `result()` waits, and nobody reads: the first events are kept, the others are discarded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{Notify, oneshot};

use crate::connection::StepTag;
use crate::error::Error;
use crate::wire::Event;

/// The bound by count: an event takes some memory however short its line.
const MAX_EVENTS: usize = 4096;
/// The memory that an event takes beside its line.
pub(super) const OVERHEAD: usize = 128;
/// How far beyond its bound a queue may grow for a call from inside the program's own loop.
const HARD_FACTOR: usize = 16;
const HARD_MINIMUM: usize = 4 << 20;

/// An event in the queue, with the step that it belongs to.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(super) event: Box<Event>,
    pub(super) step: StepTag,
    pub(super) size: usize,
    /// The event is a request that got the default answer, because nobody read the turn.
    answered: bool,
}

/// How much the program got since this was reported last.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    pub(super) bytes: usize,
    pub(super) events: usize,
}

/// What happens to an event for which the queue has no capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Overflow {
    /// It waits, and the agent with it.
    #[default]
    Wait,
    /// It is discarded.
    Discard,
    /// The turn was left: every event is discarded.
    DiscardAll,
}

/// What the driver is notified of, once.
#[derive(Debug, Default)]
struct Notice {
    /// The queue is half empty again.
    capacity: bool,
    /// The program has got so many events, or nobody reads.
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
    /// Events that no reader has fetched.
    waiting: VecDeque<Queued>,
    /// The size and the number of undelivered events: those that wait, and those that a reader has fetched.
    bytes: usize,
    undelivered: usize,
    /// How many events the queue ever took.
    accepted: u64,
    discarded: u64,
    /// The ids of requests among the discarded events, for the driver.
    discarded_requests: Vec<String>,
    overflow: Overflow,
    /// An event was discarded while only `result()` waited. The following events are discarded too, until somebody
    /// reads, so that the kept events are the first ones, without a gap.
    is_dropping: bool,
    /// No event comes any more.
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

    /// Whether `result()` waits and nobody reads. Then nothing may make it wait for ever.
    fn is_only_awaited(&self) -> bool {
        !self.has_reader && self.has_waiting_results()
    }

    fn is_full(&self, limit: usize) -> bool {
        self.bytes >= limit || self.undelivered >= MAX_EVENTS
    }

    /// How many events are no longer on their way to the program.
    fn delivered(&self) -> u64 {
        self.accepted.saturating_sub(self.undelivered as u64)
    }

    fn free(&mut self, bytes: usize, events: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.undelivered = self.undelivered.saturating_sub(events);
    }

    fn discard(&mut self, event: &Event) {
        self.discarded += 1;
        self.discarded_requests.extend(event.request_id().map(str::to_owned));
    }

    fn discard_waiting(&mut self) {
        for queued in std::mem::take(&mut self.waiting) {
            self.free(queued.size, 1);
            self.discard(&queued.event);
        }
    }

    /// The requests that nobody has fetched and that have no answer yet.
    fn unfetched_requests(&mut self) -> impl Iterator<Item = &mut Queued> {
        self.waiting.iter_mut().filter(|queued| !queued.answered && queued.event.request_id().is_some())
    }
}

/// What the driver may read, as far as one queue is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// So much, or one event however large it is.
    Free { bytes: usize, events: usize },
    /// Nothing, unless a call waits for its answer.
    Full,
    /// Nothing at all.
    HardFull,
}

/// A bounded queue of events; the head of this file says when it grows and when it discards.
#[derive(Debug)]
pub(crate) struct EventQueue {
    state: Mutex<State>,
    limit: usize,
    /// The driver waits for a sign that the program reads: readers then report each event at once.
    reports_each: AtomicBool,
    /// Notifies the driver.
    driver: Arc<Notify>,
}

/// A queue that is being filled. It is locked once for many events.
pub(crate) struct Intake<'a> {
    state: MutexGuard<'a, State>,
    limit: usize,
    is_only_awaited: bool,
}

impl Intake<'_> {
    pub(crate) fn push(&mut self, event: Box<Event>, step: StepTag, size: usize) {
        let state = &mut *self.state;
        let size = size + OVERHEAD;
        state.is_dropping = self.is_only_awaited && (state.is_dropping || state.is_full(self.limit));
        let fits = state.bytes + size <= self.limit && state.undelivered < MAX_EVENTS;
        let keep = match state.overflow {
            Overflow::Wait => !state.is_dropping,
            Overflow::Discard => fits && !state.is_dropping,
            Overflow::DiscardAll => false,
        };
        if keep {
            state.bytes += size;
            state.undelivered += 1;
            state.accepted += 1;
            state.waiting.push_back(Queued { event, step, size, answered: false });
        } else {
            state.discard(&event);
        }
    }
}

/// The driver's side.
impl EventQueue {
    /// A queue for `limit` bytes. `driver` is notified when the driver may go on.
    pub(crate) fn new(limit: usize, driver: Arc<Notify>) -> Self {
        Self { state: Mutex::new(State::default()), limit, reports_each: AtomicBool::new(false), driver }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock. Even if it did, the state would be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the queue to put events in. [`EventQueue::wake`] wakes the reader, once for all of them.
    pub(crate) fn intake(&self) -> Intake<'_> {
        let state = self.lock();
        let is_only_awaited = state.is_only_awaited();
        Intake { state, limit: self.limit, is_only_awaited }
    }

    /// Puts one event in.
    pub(crate) fn push(&self, event: Box<Event>, step: StepTag, size: usize) {
        self.intake().push(event, step, size);
    }

    /// Wakes the reader if it waits and there is an event for it. Returns whether it did.
    pub(crate) fn wake(&self) -> bool {
        let reader = {
            let mut state = self.lock();
            if state.waiting.is_empty() { None } else { state.reader.take() }
        };
        reader.map(Waker::wake).is_some()
    }

    /// No event comes any more: wakes the reader, and lets go of the calls of `result()`.
    pub(crate) fn close(&self) {
        let reader = {
            let mut state = self.lock();
            state.is_closed = true;
            state.results.clear();
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }

    /// Returns what the driver may read, and has it notified later if that is nothing. With `replies`, calls wait for
    /// answers that lie behind the events.
    pub(crate) fn capacity(&self, replies: bool) -> Capacity {
        let mut state = self.lock();
        // A driver that was told "full" is notified once, when the queue is half empty. Until then the answer stays
        // "full": the driver would not look again at lines that it holds already.
        let full = state.notice.capacity || state.is_full(self.limit);
        let reports_each = full || replies || state.has_waiting_results() || state.notice.delivered.is_some();
        self.reports_each.store(reports_each, Ordering::Relaxed);
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

    /// Sets whether events that do not fit are discarded for now.
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

    /// Returns whether a request waits in the queue while `result()` waits and nobody reads.
    pub(crate) fn holds_back_request(&self) -> bool {
        let mut state = self.lock();
        state.is_only_awaited() && state.unfetched_requests().next().is_some()
    }

    /// Takes the ids of such requests, each once. Their events stay in the queue.
    pub(crate) fn take_held_back_requests(&self) -> Vec<String> {
        let mut state = self.lock();
        if !state.is_only_awaited() {
            return Vec::new();
        }
        let requests = state.unfetched_requests().filter_map(|queued| {
            queued.answered = true;
            queued.event.request_id().map(str::to_owned)
        });
        requests.collect()
    }

    /// Returns how many events come before the last one.
    pub(crate) fn before_last(&self) -> u64 {
        self.lock().accepted.saturating_sub(1)
    }

    /// Returns whether somebody reads who has not got the first `position` events yet. If so, the driver is notified
    /// when they have, or when nobody reads any more.
    pub(crate) fn notify_when_delivered(&self, position: u64) -> bool {
        let mut state = self.lock();
        let waits =
            state.has_reader && state.overflow == Overflow::Wait && !state.is_closed && state.delivered() < position;
        if waits {
            let first = state.notice.delivered.map_or(position, |first| first.min(position));
            state.notice.delivered = Some(first);
            self.reports_each.store(true, Ordering::Relaxed);
        }
        waits
    }

    /// Returns how many events are no longer on their way to the program.
    pub(crate) fn delivered(&self) -> u64 {
        self.lock().delivered()
    }

    /// Returns whether a call of `result()` waits.
    pub(crate) fn has_waiting_results(&self) -> bool {
        self.lock().has_waiting_results()
    }

    /// Returns whether such a call waits and nothing was delivered since it began.
    pub(crate) fn has_stuck_results(&self) -> bool {
        let state = self.lock();
        let delivered = state.delivered();
        state.results.iter().any(|result| !result.failed.is_closed() && result.since == delivered)
    }

    /// Fails the calls of `result()` that wait: all of them, or those since whose beginning nothing was delivered.
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
    /// Registers a call of `result()`. What this returns brings an error if the call is given up before the end.
    pub(super) fn await_end(&self) -> oneshot::Receiver<Error> {
        let (failed, failure) = oneshot::channel();
        let mut state = self.lock();
        state.results.retain(|result| !result.failed.is_closed());
        if !state.is_closed {
            let since = state.delivered();
            state.results.push(WaitingResult { failed, since });
            // The driver may have stopped already. Now it may read on, for this call.
            self.driver.notify_one();
        }
        failure
    }

    /// Discards what does not fit from now on: the turn is being cancelled.
    pub(crate) fn discard_overflow(&self) {
        let mut state = self.lock();
        if state.overflow == Overflow::Wait {
            state.overflow = Overflow::Discard;
        }
        self.driver.notify_one();
    }

    /// Discards all events that wait or come: the turn was left.
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

    /// Notifies the driver of what it waits for, if that is the case now.
    fn notify(&self, state: &mut State) {
        if state.notice.delivered.is_some_and(|position| !state.has_reader || state.delivered() >= position) {
            state.notice.delivered = None;
            self.driver.notify_one();
        }
        // Not earlier than half empty, so that the driver and the reader do not take turns event by event.
        if state.notice.capacity && state.bytes <= self.limit / 2 && state.undelivered <= MAX_EVENTS / 2 {
            state.notice.capacity = false;
            self.driver.notify_one();
        }
    }
}

/// The reader's side: [`TurnReader`](super::turn_reader::TurnReader) calls it.
impl EventQueue {
    /// Whether a reader has to report each event at once.
    pub(super) fn reports_each(&self) -> bool {
        self.reports_each.load(Ordering::Relaxed)
    }

    fn deliver(&self, state: &mut State, delivered: &mut Delivered) {
        let Delivered { bytes, events } = std::mem::take(delivered);
        state.free(bytes, events);
        self.notify(state);
    }

    /// Frees the capacity of events that the program got.
    pub(super) fn report(&self, delivered: &mut Delivered) {
        self.deliver(&mut self.lock(), delivered);
    }

    /// Somebody begins to read.
    pub(super) fn start_reading(&self) {
        self.lock().has_reader = true;
    }

    /// Moves all waiting events into `fetched`, which is empty. False: none comes any more.
    pub(super) fn poll_fetch(
        &self,
        delivered: &mut Delivered,
        fetched: &mut VecDeque<Queued>,
        cx: &Context<'_>,
    ) -> Poll<bool> {
        let mut state = self.lock();
        self.deliver(&mut state, delivered);
        if !state.waiting.is_empty() {
            // The queue goes on with the memory that the reader no longer needs.
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

    /// Wakes the reader although there may be no event for it.
    pub(super) fn wake_reader(&self) {
        let reader = self.lock().reader.take();
        reader.into_iter().for_each(Waker::wake);
    }

    /// Counts an event as discarded that left the queue and did not reach the program.
    pub(super) fn lose(&self, size: usize, request: Option<String>) {
        let mut state = self.lock();
        state.free(size, 1);
        state.discarded += 1;
        state.discarded_requests.extend(request);
    }

    /// Nobody reads any more. Puts back what was fetched and did not reach the program.
    pub(super) fn stop_reading(&self, delivered: &mut Delivered, fetched: &mut VecDeque<Queued>) {
        let mut state = self.lock();
        state.has_reader = false;
        self.deliver(&mut state, delivered);
        fetched.append(&mut state.waiting);
        std::mem::swap(&mut state.waiting, fetched);
        if state.overflow == Overflow::DiscardAll {
            state.discard_waiting();
            self.notify(&mut state);
        }
        if state.overflow == Overflow::DiscardAll || state.is_only_awaited() {
            // The driver may have stopped. Now it may read on.
            self.driver.notify_one();
        }
    }
}
