//! A turn, or a replay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use kimi_agent_bridge::{BridgeTurn, RequestOrigin};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::bell;
use crate::convert::{event_to_py, events_to_py, message_to_py, outcome_to_py, py_to_json};
use crate::{content, error_parts, leak_if_unusable, raise, witness};

/// The most events of a batch.
const BATCH: usize = 64;

/// A turn, or a replay: a stream of events with an outcome.
#[pyclass(frozen, name = "Turn", module = "kimi_agent._native")]
pub(crate) struct PyTurn {
    turn: Arc<BridgeTurn>,
    /// Counts the calls of `interrupt`.
    interrupts: AtomicU64,
}

impl Drop for PyTurn {
    fn drop(&mut self) {
        leak_if_unusable(&self.turn);
    }
}

impl PyTurn {
    pub(crate) fn new(turn: BridgeTurn) -> Self {
        Self { turn: Arc::new(turn), interrupts: AtomicU64::new(0) }
    }
}

/// Converts the result of a poll for Python: None to wait, `StopAsyncIteration` at the end.
fn found<T>(py: Python<'_>, polled: Poll<Option<kimi_agent::Result<T>>>) -> PyResult<Option<T>> {
    match polled {
        Poll::Pending => Ok(None),
        Poll::Ready(Some(Ok(found))) => Ok(Some(found)),
        Poll::Ready(Some(Err(error))) => Err(raise(py, &error)),
        Poll::Ready(None) => Err(PyStopAsyncIteration::new_err(())),
    }
}

#[pymethods]
impl PyTurn {
    #[getter]
    fn key(&self) -> PyResult<u64> {
        crate::guarded(|| Ok(self.turn.key))
    }

    #[getter]
    fn id(&self) -> PyResult<&str> {
        crate::guarded(|| Ok(self.turn.id()))
    }

    fn start_loop(&self, py: Python<'_>, by_step: bool) -> PyResult<()> {
        crate::guarded(|| self.turn.start_loop(by_step).map_err(|error| raise(py, &error)))
    }

    fn leave(&self) -> PyResult<()> {
        crate::guarded(|| {
            self.turn.leave();
            Ok(())
        })
    }

    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        crate::guarded(|| found(py, self.turn.poll_event(None))?.map(|event| event_to_py(py, &event)).transpose())
    }

    /// The next events, at least one. The program has got the batch before it.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        crate::guarded(|| {
            let Some(events) = found(py, self.turn.poll_batch(BATCH, None))? else { return Ok(None) };
            // There is not enough memory for an event.
            events_to_py(py, &events).inspect_err(|_| self.turn.discard_batch()).map(Some)
        })
    }

    /// The program has got the first `count` events of the batch.
    fn take_batch(&self, count: usize) -> PyResult<()> {
        crate::guarded(|| {
            self.turn.take_batch(count);
            Ok(())
        })
    }

    fn next_of<'py>(&self, py: Python<'py>, step: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        crate::guarded(|| found(py, self.turn.poll_event(Some(step)))?.map(|event| event_to_py(py, &event)).transpose())
    }

    fn next_step(&self, py: Python<'_>) -> PyResult<Option<(u32, i64)>> {
        crate::guarded(|| Ok(found(py, self.turn.poll_step())?.map(|step| (step.index, step.n))))
    }

    /// Waits on this thread until there is something to read, or until an interrupt that the caller has not `seen`.
    fn block(&self, py: Python<'_>, seen: u64) -> PyResult<()> {
        crate::guarded(|| {
            bell::wait(py, |waker| {
                let is_readable = self.turn.is_readable(waker);
                // Looked at only after the waker is in its place.
                is_readable || self.interrupts.load(Ordering::Acquire) != seen
            })
        })
    }

    #[getter]
    fn interrupts(&self) -> PyResult<u64> {
        crate::guarded(|| Ok(self.interrupts.load(Ordering::Acquire)))
    }

    /// Ends a wait on another thread, if there is one.
    fn interrupt(&self) -> PyResult<()> {
        crate::guarded(|| {
            self.interrupts.fetch_add(1, Ordering::AcqRel);
            self.turn.wake_reader();
            Ok(())
        })
    }

    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        crate::guarded(|| match self.turn.outcome() {
            None => Ok(None),
            Some(Ok(result)) => outcome_to_py(py, &result).map(|outcome| Some(outcome.into_any())),
            Some(Err(error)) => error_parts(py, &error)?.into_bound_py_any(py).map(Some),
        })
    }

    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::guarded(|| message_to_py(py, &self.turn.usage()))
    }

    #[getter]
    fn discarded(&self) -> PyResult<u64> {
        crate::guarded(|| Ok(self.turn.discarded()))
    }

    #[pyo3(signature = (within=None))]
    fn result(&self, py: Python<'_>, within: Option<u64>) -> PyResult<u64> {
        crate::guarded(|| self.turn.result(within).map_err(|error| raise(py, &error)))
    }

    /// Raises if the turn waits for the handler `within`, which wants to wait for the next event.
    fn check_wait(&self, py: Python<'_>, within: u64) -> PyResult<()> {
        crate::guarded(|| self.turn.check_wait(within).map_err(|error| raise(py, &error)))
    }

    fn cancel(&self, py: Python<'_>) -> PyResult<u64> {
        crate::guarded(|| self.turn.cancel().map_err(|error| raise(py, &error)))
    }

    fn steer(&self, content: &Bound<'_, PyAny>) -> PyResult<u64> {
        crate::guarded(|| {
            let steered = self.turn.steer(self::content(content)?);
            steered.map_err(|error| raise(content.py(), &error))
        })
    }

    fn cancel_subagent(&self, py: Python<'_>, session_id: String) -> PyResult<u64> {
        crate::guarded(|| self.turn.cancel_subagent(session_id).map_err(|error| raise(py, &error)))
    }

    fn respond(&self, request: (String, Option<(u64, u64)>), answer: &Bound<'_, PyAny>) -> PyResult<u64> {
        crate::guarded(|| {
            let json = py_to_json(answer)?;
            let origin = request.1.map(|(session, request)| RequestOrigin { session, request });
            self.turn.respond(request.0, origin, json).map_err(|error| raise(answer.py(), &error))
        })
    }

    fn note_used(&self) -> PyResult<()> {
        crate::guarded(|| {
            self.turn.note_used();
            Ok(())
        })
    }

    fn abandon(&self) -> PyResult<()> {
        crate::guarded(|| {
            if witness::is_intact() {
                self.turn.abandon();
            }
            Ok(())
        })
    }
}
