//! A turn, or a replay.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kimi_agent_bridge::{BridgeTurn, Drained, RequestOrigin};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::attached::Attached;
use crate::bell;
use crate::classes::TextParts;
use crate::convert::{event_to_py, message_to_py, outcome_to_py, py_to_json};
use crate::session::content;
use crate::{error_parts, let_go, raise};

/// As many events are taken from the core at once; measured, more bring nothing.
const BATCH: usize = 64;

/// How many events were fetched, the step of the next one as (index, number), and whether nothing follows.
type Fetched = (usize, Option<(u32, i64)>, bool);

/// Events that were fetched from the core. They become Python's objects one by one, when the program takes them: the
/// memory of the last one is then still warm for the next.
#[derive(Default)]
struct Fetch {
    events: VecDeque<Drained>,
    /// How many the program has got that the core has not been told of.
    got: usize,
}

/// A turn, or a replay: a stream of events with an outcome.
#[pyclass(frozen, name = "Turn", module = "kimi_agent._native")]
pub(crate) struct PyTurn {
    turn: Arc<BridgeTurn>,
    fetch: Attached<Fetch>,
    texts: Attached<TextParts>,
    /// Counts the calls of `interrupt`.
    interrupts: AtomicU64,
}

impl Drop for PyTurn {
    fn drop(&mut self) {
        let_go(&self.turn);
    }
}

impl PyTurn {
    pub(crate) fn new(turn: BridgeTurn) -> Self {
        Self {
            turn: Arc::new(turn),
            fetch: Attached::default(),
            texts: Attached::default(),
            interrupts: AtomicU64::new(0),
        }
    }

    /// The next of all events, if it is there.
    pub(crate) fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(event) = self.pop(py)? {
            return Ok(Some(event));
        }
        self.fetch(py, BATCH, None);
        self.pop(py)
    }
}

#[pymethods]
impl PyTurn {
    #[getter]
    fn key(&self) -> u64 {
        self.turn.key
    }

    #[getter]
    fn id(&self) -> &str {
        self.turn.id()
    }

    /// Fetches up to `max` events, with `step` only of that step.
    #[pyo3(signature = (max, step))]
    pub(crate) fn fetch(&self, py: Python<'_>, max: usize, step: Option<u32>) -> Fetched {
        self.acknowledge(py);
        let batch = self.turn.drain(max, step);
        let count = batch.events.len();
        self.fetch.with(py, |fetched| {
            if fetched.events.is_empty() {
                fetched.events = batch.events.into();
            } else {
                fetched.events.extend(batch.events);
            }
        });
        (count, batch.next.map(|tag| (tag.index, tag.n)), batch.ended)
    }

    /// The next event that was fetched.
    pub(crate) fn pop<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let event = self.fetch.with(py, |fetched| {
            let event = fetched.events.pop_front();
            fetched.got += usize::from(event.is_some());
            event
        });
        if event.is_some() && self.turn.is_watched() {
            self.acknowledge(py);
        }
        match event {
            None => Ok(None),
            Some(Drained::Text(text)) => self.texts.with(py, |texts| texts.make(py, text)).map(Some),
            Some(Drained::Other(event)) => event_to_py(py, &event).map(Some),
        }
    }

    #[getter]
    fn fetched_count(&self, py: Python<'_>) -> usize {
        self.fetch.with(py, |fetched| fetched.events.len())
    }

    /// Drops what was fetched and not taken; how many events it was.
    fn drop_fetched(&self, py: Python<'_>) -> usize {
        let dropped = self.fetch.with(py, |fetched| {
            let dropped = std::mem::take(&mut fetched.events);
            fetched.got += dropped.len();
            dropped
        });
        self.acknowledge(py);
        dropped.len()
    }

    fn wait(&self) -> bool {
        self.turn.wait()
    }

    /// Waits on this thread until there is something to fetch, or until an interrupt that the caller has not `seen`.
    fn block(&self, py: Python<'_>, seen: u64) -> PyResult<()> {
        bell::wait(py, |waker| {
            let ready = self.turn.wait_with(waker);
            // Looked at only after the waker is in its place.
            ready || self.interrupts.load(Ordering::Acquire) != seen
        })
    }

    #[getter]
    fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::Acquire)
    }

    /// Ends a wait on another thread, if there is one.
    fn interrupt(&self) {
        self.interrupts.fetch_add(1, Ordering::AcqRel);
        self.turn.wake_reader();
    }

    fn acknowledge(&self, py: Python<'_>) {
        let got = self.fetch.with(py, |fetched| std::mem::take(&mut fetched.got));
        if got > 0 {
            self.turn.acknowledge(got);
        }
    }

    fn reader_started(&self, py: Python<'_>, by_step: bool) -> PyResult<()> {
        self.turn.reader_started(by_step).map_err(|error| raise(py, &error))
    }

    fn reader_left(&self) {
        self.turn.reader_left();
    }

    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.turn.outcome() {
            None => Ok(None),
            Some(Ok(result)) => outcome_to_py(py, &result).map(|outcome| Some(outcome.into_any())),
            Some(Err(error)) => error_parts(py, &error)?.into_bound_py_any(py).map(Some),
        }
    }

    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        message_to_py(py, &self.turn.usage())
    }

    #[getter]
    fn discarded(&self) -> u64 {
        self.turn.discarded()
    }

    #[pyo3(signature = (within=None))]
    fn result(&self, py: Python<'_>, within: Option<u64>) -> PyResult<u64> {
        self.turn.result(within).map_err(|error| raise(py, &error))
    }

    fn cancel(&self, py: Python<'_>) -> PyResult<u64> {
        self.turn.cancel().map_err(|error| raise(py, &error))
    }

    fn steer(&self, content: &Bound<'_, PyAny>) -> PyResult<u64> {
        let steered = self.turn.steer(self::content(content)?);
        steered.map_err(|error| raise(content.py(), &error))
    }

    fn respond(&self, request: (String, Option<(u64, u64)>), answer: &Bound<'_, PyAny>) -> PyResult<u64> {
        let json = py_to_json(answer)?;
        let origin = request.1.map(|(session, request)| RequestOrigin { session, request });
        self.turn.respond(request.0, origin, json).map_err(|error| raise(answer.py(), &error))
    }

    fn note_used(&self) {
        self.turn.note_used();
    }

    fn abandon(&self) {
        self.turn.abandon();
    }
}
