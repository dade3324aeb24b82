//! The event lane: from the driver to whoever reads a turn, bounded by bytes and by count. A full lane stops the
//! driver from reading; nothing is dropped unless the turn is being left.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::sync::oneshot;

use super::sync::atomic::{AtomicBool, Ordering};
use super::sync::{Mutex, MutexGuard, Notify};
use crate::connection::{PromptResult, StepTag, TurnStatus};
use crate::error::{Error, Result, RpcErrorKind};
use crate::wire::{Event, TokenUsage};

/// Beside the bound in bytes: an event takes some memory however short its line.
const MAX_ITEMS: usize = 4096;
/// What an event takes beside its line.
pub(super) const OVERHEAD: usize = 128;
/// How far beyond its bound a lane may grow for a call from inside the program's own loop.
const HARD_FACTOR: usize = 16;
const HARD_MINIMUM: usize = 4 << 20;
/// How many events a reader may get before it gives their room back, while nobody waits for it.
const PORTION: usize = 32;

/// An event on its way, with the step that it belongs to.
#[derive(Debug)]
pub struct Delivery {
    /// The event.
    pub event: Box<Event>,
    pub(crate) step: StepTag,
    size: usize,
}

/// What becomes of events that nobody has read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They wait, and the agent with them.
    Keep,
    /// They wait as long as there is room; then they are counted only. So a cancel's answer gets through.
    KeepWhatFits,
    /// They are counted only.
    Discard,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Delivery>,
    /// Of events in the queue, and of those that a reader or a binding has taken and not yet given back.
    bytes: usize,
    items: usize,
    mode: Mode,
    discarded: u64,
    end: Option<Result<PromptResult>>,
    end_seen: bool,
    usage: TokenUsage,
    reader: Option<Waker>,
    /// Woken at the end, whether anybody reads or not.
    settled: Option<Waker>,
    /// The program iterates over the events. Set by the bindings, where a reader can run beside `result()`.
    reader_present: bool,
    /// An event was dropped because the buffer was full, `result()` waited and no reader was present. The following
    /// events are dropped too, until a reader is present, so that the kept events are the first ones, without a gap.
    dropping: bool,
    /// The program has begun to read, to wait for the outcome, or to cancel: it has not lost the turn unseen.
    used: bool,
    /// Whether it is read by step, once that has been decided.
    by_step: Option<bool>,
    results: Vec<Awaiting>,
    /// How many events the program has got.
    reads: u64,
    /// Ids of requests that were discarded before anybody saw them.
    unseen: Vec<String>,
    /// How many events were put into the queue so far.
    kept: u64,
    /// The requests among them that the program may not have got yet: their numbers in the turn, and their ids.
    undelivered: VecDeque<(u64, String)>,
    /// The driver waits for room.
    stalled: bool,
    /// Somebody has begun to read, and has not left.
    reading: bool,
    /// A handler waits until the program has got so many events.
    held: Option<u64>,
}

/// Somebody waits for the outcome.
#[derive(Debug)]
struct Awaiting {
    sender: oneshot::Sender<Result<PromptResult>>,
    /// What had been read by then.
    reads: u64,
}

impl State {
    /// Whether somebody waits for the outcome, and has not gone away meanwhile.
    fn awaited(&self) -> bool {
        self.results.iter().any(|result| !result.sender.is_closed())
    }

    /// Whether `result()` waits for the outcome and nobody reads the events: then nothing may make it wait for ever.
    fn only_awaited(&self) -> bool {
        !self.reader_present && self.awaited()
    }

    /// How many events are no longer on their way to the program.
    fn received(&self) -> u64 {
        self.kept.saturating_sub(self.items as u64)
    }

    /// Counts what is unread, and forgets it.
    fn discard(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        let size: usize = queue.iter().map(|delivery| delivery.size).sum();
        self.bytes = self.bytes.saturating_sub(size);
        self.items = self.items.saturating_sub(queue.len());
        self.discarded += queue.len() as u64;
        self.unseen.extend(queue.iter().filter_map(|delivery| delivery.event.request_id().map(str::to_owned)));
    }

    /// Forgets the requests that the program has got.
    fn forget_delivered(&mut self) {
        while self.undelivered.front().is_some_and(|(number, _)| *number <= self.reads) {
            self.undelivered.pop_front();
        }
    }
}

/// One turn's (or replay's, or the session's own) events and outcome, shared by driver and readers.
#[derive(Debug)]
pub struct Lane {
    state: Mutex<State>,
    limit: usize,
    /// Somebody waits for room, or for a sign that the program reads: readers then tell of each event at once.
    watched: AtomicBool,
    /// Tells the driver that there is room again.
    room: Arc<Notify>,
    ended: Notify,
}

/// A lane that is being filled: locked once, however many events come.
pub(crate) struct Intake<'a> {
    state: MutexGuard<'a, State>,
    limit: usize,
    /// Nobody reads, and `result()` must not wait for room.
    only_awaited: bool,
}

impl Intake<'_> {
    pub(crate) fn push(&mut self, event: Box<Event>, step: StepTag, size: usize) {
        let state = &mut *self.state;
        let size = size + OVERHEAD;
        let fits = state.bytes + size <= self.limit && state.items < MAX_ITEMS;
        let full = state.bytes >= self.limit || state.items >= MAX_ITEMS;
        state.dropping = self.only_awaited && (state.dropping || full);
        let keep = match state.mode {
            Mode::Keep => !state.dropping,
            Mode::KeepWhatFits => fits && !state.dropping,
            Mode::Discard => false,
        };
        if keep {
            state.bytes += size;
            state.items += 1;
            state.kept += 1;
            if let Some(id) = event.request_id() {
                let number = state.kept;
                state.forget_delivered();
                state.undelivered.push_back((number, id.to_owned()));
            }
            state.queue.push_back(Delivery { event, step, size });
        } else {
            state.discarded += 1;
            state.unseen.extend(event.request_id().map(str::to_owned));
        }
    }
}

/// What the driver may do with the lane at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Read on: so much fits, or one event however large it is.
    Free { bytes: usize, items: usize },
    /// Only for a pending call's sake.
    Full,
    /// Not even for that.
    HardFull,
}

impl Lane {
    pub(crate) fn new(limit: usize, room: Arc<Notify>) -> Self {
        let state = State {
            queue: VecDeque::new(),
            bytes: 0,
            items: 0,
            mode: Mode::Keep,
            discarded: 0,
            end: None,
            end_seen: false,
            usage: TokenUsage::default(),
            reader: None,
            settled: None,
            reader_present: false,
            dropping: false,
            used: false,
            by_step: None,
            results: Vec::new(),
            reads: 0,
            unseen: Vec::new(),
            kept: 0,
            undelivered: VecDeque::new(),
            stalled: false,
            reading: false,
            held: None,
        };
        Self { state: Mutex::new(state), limit, watched: AtomicBool::new(false), room, ended: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of ours panics while it holds the lock; were it so, the state would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- the driver's side ---

    /// Takes events, one after the other; the reader is woken by [`Lane::wake`], once a batch.
    pub(crate) fn intake(&self) -> Intake<'_> {
        let state = self.lock();
        let only_awaited = state.only_awaited();
        Intake { state, limit: self.limit, only_awaited }
    }

    /// Takes an event.
    pub(crate) fn push(&self, event: Box<Event>, step: StepTag, size: usize) {
        self.intake().push(event, step, size);
    }

    /// Takes the ids of requests that nobody has seen, nor will.
    pub(crate) fn take_unseen(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().unseen)
    }

    /// Whether a request waits in the buffer while `result()` waits and nobody reads.
    pub(crate) fn holds_back_request(&self) -> bool {
        let mut state = self.lock();
        state.forget_delivered();
        !state.undelivered.is_empty() && state.only_awaited()
    }

    /// Takes the ids of those requests. Their events stay in the buffer.
    pub(crate) fn take_held_back(&self) -> Vec<String> {
        let mut state = self.lock();
        state.forget_delivered();
        if !state.only_awaited() {
            return Vec::new();
        }
        state.undelivered.drain(..).map(|(_, id)| id).collect()
    }

    /// Whether what does not fit is counted only, for now.
    pub(crate) fn set_lossy(&self, lossy: bool) {
        let mut state = self.lock();
        if state.mode != Mode::Discard {
            state.mode = if lossy { Mode::KeepWhatFits } else { Mode::Keep };
        }
    }

    /// Whether the driver may read on. Registers it for a notice if not. With `replies`, calls wait for answers that
    /// lie behind the events.
    pub(crate) fn room(&self, replies: bool) -> Room {
        let mut state = self.lock();
        // Who has been told "full" hears of room once, when there is plenty: taking the word back in between, unheard,
        // would leave lines unread that the driver holds already.
        let full = state.stalled || state.bytes >= self.limit || state.items >= MAX_ITEMS;
        self.watched.store(full || replies || state.awaited() || state.held.is_some(), Ordering::Relaxed);
        if state.mode != Mode::Keep || state.end.is_some() || state.only_awaited() {
            state.stalled = false;
            return Room::Free { bytes: usize::MAX, items: usize::MAX };
        }
        if !full {
            return Room::Free { bytes: self.limit - state.bytes, items: MAX_ITEMS - state.items };
        }
        state.stalled = true;
        let hard = (self.limit * HARD_FACTOR).max(HARD_MINIMUM);
        if state.bytes < hard { Room::Full } else { Room::HardFull }
    }

    /// Whether `result()` waits behind somebody who iterates.
    pub(crate) fn has_waiting_results(&self) -> bool {
        self.lock().awaited()
    }

    /// Whether one of them has waited for as long as nothing was read.
    pub(crate) fn has_stuck_results(&self) -> bool {
        let state = self.lock();
        state.results.iter().any(|result| !result.sender.is_closed() && result.reads == state.reads)
    }

    /// How many events the program has got.
    pub(crate) fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Fails the calls of `result()` that wait behind somebody who does not read on: all, or those that have waited
    /// for as long as nothing was read.
    pub(crate) fn fail_results(&self, error: &Error, all: bool) {
        let failed: Vec<_> = {
            let mut state = self.lock();
            let reads = state.reads;
            state.results.extract_if(.., |result| all || result.reads == reads).collect()
        };
        for result in failed {
            drop(result.sender.send(Err(error.clone())));
        }
    }

    /// The event that was put in last is a request: how many events come before it.
    pub(crate) fn before_last(&self) -> u64 {
        self.lock().kept.saturating_sub(1)
    }

    /// Whether somebody reads who has not got the first `position` events yet. If so, the driver is notified when they have,
    /// or read no more.
    pub(crate) fn holds_back(&self, position: u64) -> bool {
        let mut state = self.lock();
        let held = state.reading && state.mode == Mode::Keep && state.end.is_none() && state.received() < position;
        if held {
            state.held = Some(state.held.map_or(position, |first| first.min(position)));
            self.watched.store(true, Ordering::Relaxed);
        }
        held
    }

    /// Whether a handler waits for the reader, who then tells of each event at once.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Has the driver look at handlers that wait for the reader, if they need not wait any more.
    fn release_held(&self, state: &mut State) {
        if state.held.is_some_and(|position| !state.reading || state.received() >= position) {
            state.held = None;
            self.room.notify_one();
        }
    }

    pub(crate) fn set_usage(&self, usage: &TokenUsage) {
        self.lock().usage.clone_from(usage);
    }

    /// The turn is over.
    pub(crate) fn finish(&self, end: Result<PromptResult>) {
        let (results, reader, settled) = {
            let mut state = self.lock();
            if state.end.is_some() {
                return;
            }
            if let Ok(result) = &end {
                state.usage.clone_from(&result.usage);
            }
            state.end = Some(end.clone());
            (std::mem::take(&mut state.results), state.reader.take(), state.settled.take())
        };
        for result in results {
            drop(result.sender.send(end.clone()));
        }
        self.ended.notify_waiters();
        for waker in [reader, settled].into_iter().flatten() {
            waker.wake();
        }
    }

    /// Wakes the reader if it waits, and there is something for it. Says whether.
    pub(crate) fn wake(&self) -> bool {
        let reader = {
            let mut state = self.lock();
            if state.queue.is_empty() { None } else { state.reader.take() }
        };
        reader.map(Waker::wake).is_some()
    }

    // --- the reader's side ---

    /// Somebody reads: by event or by step, once and for all.
    pub(crate) fn read_by(&self, by_step: bool) -> Result<()> {
        let first = {
            let mut state = self.lock();
            let first = *state.by_step.get_or_insert(by_step);
            state.reading |= first == by_step;
            first
        };
        if first == by_step {
            return Ok(());
        }
        let (first, then) = if first { ("step", "event") } else { ("event", "step") };
        Err(Error::option(
            "turn",
            format!(
                "it has been read by {first} and can't be read by {then} any more; prompt again to read a turn by {then}"
            ),
        ))
    }

    /// Takes up to `max` events out, of one step only if `step` (its index) is given; their room is given back by
    /// [`Lane::acknowledge`], when the user has them. Also tells the step of the next unread event, and whether
    /// nothing follows: in all, or in the step.
    pub fn drain(&self, max: usize, step: Option<u32>) -> (Vec<Delivery>, Option<StepTag>, bool) {
        let mut state = self.lock();
        let wanted = |next: &&Delivery| step.is_none_or(|step| next.step.index == step);
        let fitting = state.queue.iter().take(max).take_while(wanted).count();
        let drained: Vec<_> = state.queue.drain(..fitting).collect();
        let next = state.queue.front().map(|delivery| delivery.step);
        let ended = match next {
            Some(next) => step.is_some_and(|step| next.index != step),
            None => state.end.is_some(),
        };
        (drained, next, ended)
    }

    /// Gives back the room of events that were drained.
    pub fn acknowledge(&self, size: usize, items: usize) {
        self.give_back(&mut self.lock(), size, items);
    }

    fn give_back(&self, state: &mut State, size: usize, items: usize) {
        state.bytes = state.bytes.saturating_sub(size);
        state.items = state.items.saturating_sub(items);
        state.reads += items as u64;
        self.release_held(state);
        // Half empty, so that driver and reader do not take turns event by event.
        if state.stalled && state.bytes <= self.limit / 2 && state.items <= MAX_ITEMS / 2 {
            state.stalled = false;
            self.room.notify_one();
        }
    }

    /// Whether [`Lane::drain`] would give something; if not, `waker` is woken when it would.
    pub fn poll_ready(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        if !state.queue.is_empty() || state.end.is_some() {
            return true;
        }
        state.reader = Some(waker.clone());
        false
    }

    /// Has whoever waits for events look again.
    pub fn wake_reader(&self) {
        let reader = self.lock().reader.take();
        reader.into_iter().for_each(Waker::wake);
    }

    /// Has `waker` woken once there is an outcome, after the reader. There is one such waker.
    pub fn wake_when_settled(&self, waker: Waker) {
        {
            let mut state = self.lock();
            if state.end.is_none() {
                state.settled = Some(waker);
                return;
            }
        }
        waker.wake();
    }

    /// The program begins to iterate over the events: by event or by step, and one loop at a time.
    pub fn start_reader(&self, by_step: bool) -> Result<()> {
        self.read_by(by_step)?;
        let mut state = self.lock();
        if state.reader_present {
            return Err(Error::option(
                "turn",
                "another loop reads its events already; read a turn in one loop, and leave that loop before the next",
            ));
        }
        state.reader_present = true;
        state.used = true;
        Ok(())
    }

    /// The program begins to iterate over the events, or stops.
    pub fn set_reader_present(&self, present: bool) {
        let mut state = self.lock();
        state.reader_present = present;
        state.reading = present;
        self.release_held(&mut state);
        if state.only_awaited() {
            // The driver may have stalled; now it may read on.
            self.room.notify_one();
        }
    }

    /// Waits for the outcome. Unread events stay in the buffer for a reader that comes later. If the buffer is full and
    /// no reader is present, further events are counted only, so that the agent reaches the end of the turn.
    pub async fn result(&self) -> Result<PromptResult> {
        let receiver = {
            let mut state = self.lock();
            let (sender, receiver) = oneshot::channel();
            state.results.retain(|result| !result.sender.is_closed());
            state.used = true;
            let reads = state.reads;
            match &state.end {
                Some(end) => drop(sender.send(end.clone())),
                None => {
                    state.results.push(Awaiting { sender, reads });
                    // The driver may have stalled already; now it may read on, for this call's sake.
                    self.room.notify_one();
                }
            }
            receiver
        };
        receiver.await.unwrap_or_else(|_| Err(Error::Internal("a turn was dropped without an end".to_owned())))
    }

    /// Refuses to wait for the outcome in a handler that this turn waits for, as `served` says: each would wait for the
    /// other, for ever.
    pub fn check_not_awaited_by(&self, served: Option<&Arc<Self>>) -> Result<()> {
        if served.is_none_or(|served| !std::ptr::eq(&raw const **served, self)) || self.is_settled() {
            return Ok(());
        }
        Err(Error::local(
            RpcErrorKind::TurnInProgress,
            "the turn waits for this handler, which would wait for the turn; return an answer first, or wait for the turn \
             in a task of its own",
        ))
    }

    /// The outcome, if there is one.
    pub fn outcome(&self) -> Option<Result<PromptResult>> {
        self.lock().end.clone()
    }

    /// Waits for the outcome without touching what is unread.
    pub(crate) async fn settled(&self) {
        let ended = self.ended.notified();
        tokio::pin!(ended);
        // Registered before the look, so that an end in between is not missed.
        ended.as_mut().enable();
        if self.lock().end.is_none() {
            ended.await;
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Nobody reads any more: what is unread goes, what still comes is counted.
    pub fn discard(&self) {
        let mut state = self.lock();
        state.mode = Mode::Discard;
        state.reading = false;
        state.discard();
        self.release_held(&mut state);
        if state.end.is_none() {
            self.room.notify_one();
        }
    }

    /// The program has used the turn: losing it is no mistake.
    pub fn note_used(&self) {
        self.lock().used = true;
    }

    /// The program loses the turn. If it has neither read it nor waited for its outcome, the outcome until now, once.
    pub(crate) fn lost_unread(&self) -> Option<Option<Result<PromptResult>>> {
        let mut state = self.lock();
        (!std::mem::replace(&mut state.used, true)).then(|| state.end.clone())
    }

    /// The turn is being cancelled: what does not fit any more is counted only.
    pub(crate) fn stop_holding_up(&self) {
        let mut state = self.lock();
        if state.mode == Mode::Keep {
            state.mode = Mode::KeepWhatFits;
        }
        self.room.notify_one();
    }

    /// The tokens so far.
    pub fn usage(&self) -> TokenUsage {
        self.lock().usage.clone()
    }

    /// How many events were counted only.
    pub fn discarded(&self) -> u64 {
        self.lock().discarded
    }
}

/// Reads a lane for a program in Rust: takes all that waits there under one lock, and hands it out one by one. What
/// it has taken counts as unread until the program has it.
#[derive(Debug)]
pub(crate) struct Reader {
    lane: Arc<Lane>,
    taken: VecDeque<Delivery>,
    /// What the program got since the last time that room was given back.
    bytes: usize,
    items: usize,
}

impl Reader {
    pub(crate) fn new(lane: Arc<Lane>) -> Self {
        Self { lane, taken: VecDeque::new(), bytes: 0, items: 0 }
    }

    /// The next event. After the last one, an error once if the turn failed, then nothing.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        loop {
            if let Some(delivery) = self.taken.pop_front() {
                self.bytes += delivery.size;
                self.items += 1;
                if self.items >= PORTION || self.lane.watched.load(Ordering::Relaxed) {
                    let (bytes, items) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.items));
                    self.lane.give_back(&mut self.lane.lock(), bytes, items);
                }
                // Unpacked where it is handed out: it is large, and moved no more.
                return Poll::Ready(Some(Ok(*delivery.event)));
            }
            if let Some(end) = ready!(self.poll_take(cx)) {
                return Poll::Ready(end.map(Err));
            }
        }
    }

    /// The step of the next event, which stays where it is. Otherwise as `poll_next`.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<StepTag>>> {
        loop {
            if let Some(next) = self.taken.front() {
                return Poll::Ready(Some(Ok(next.step)));
            }
            if let Some(end) = ready!(self.poll_take(cx)) {
                return Poll::Ready(end.map(Err));
            }
        }
    }

    /// Takes what waits; if nothing ever will again, tells so, with the failure that nobody has been told of yet.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<Option<Error>>> {
        let mut state = self.lane.lock();
        state.used = true;
        self.lane.give_back(&mut state, std::mem::take(&mut self.bytes), std::mem::take(&mut self.items));
        if !state.queue.is_empty() {
            // The lane goes on with the memory that the reader has done with.
            std::mem::swap(&mut state.queue, &mut self.taken);
            return Poll::Ready(None);
        }
        if let Some(end) = &state.end {
            let failure = end.as_ref().err().filter(|_| !state.end_seen).cloned();
            state.end_seen = true;
            return Poll::Ready(Some(failure));
        }
        if state.reader.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            state.reader = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Puts back what the program has not got yet: it reads no further.
    pub(crate) fn leave(&mut self) {
        let mut state = self.lane.lock();
        self.lane.give_back(&mut state, std::mem::take(&mut self.bytes), std::mem::take(&mut self.items));
        state.reading = false;
        self.lane.release_held(&mut state);
        self.taken.append(&mut state.queue);
        std::mem::swap(&mut state.queue, &mut self.taken);
        if state.mode == Mode::Discard {
            state.discard();
            self.lane.room.notify_one();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Delivery {
    /// What it counts for in its lane.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// The outcome of a replay, which has none of its own.
pub(crate) fn replayed() -> PromptResult {
    PromptResult::empty(TurnStatus::Finished)
}
