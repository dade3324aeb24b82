//! A turn, or a replay.

use std::sync::Arc;

use kimi_agent::bridge::BridgeTurn;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::convert::{event_to_py, message_to_py, outcome_to_py, py_to_json};
use crate::session::content;
use crate::{error_parts, let_go, raise};

/// Events, the step of the next unread one as (index, number), and whether nothing follows.
type Drained<'py> = (Vec<Bound<'py, PyAny>>, Option<(u32, i64)>, bool);

/// A turn, or a replay: a stream of events with an outcome.
#[pyclass(frozen, name = "Turn", module = "kimi_agent._native")]
pub(crate) struct PyTurn {
    turn: Arc<BridgeTurn>,
}

impl Drop for PyTurn {
    fn drop(&mut self) {
        let_go(&self.turn);
    }
}

impl PyTurn {
    pub(crate) fn new(turn: BridgeTurn) -> Self {
        Self { turn: Arc::new(turn) }
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

    /// Events; the step of the next unread one as (index, number), if there is one; whether nothing follows.
    fn drain<'py>(&self, py: Python<'py>, max: usize, step: Option<u32>) -> PyResult<Drained<'py>> {
        let batch = self.turn.drain(max, step);
        let events = batch.events.iter().map(|event| event_to_py(py, event)).collect::<PyResult<_>>()?;
        Ok((events, batch.next.map(|tag| (tag.index, tag.n)), batch.ended))
    }

    fn wait(&self) -> bool {
        self.turn.wait()
    }

    fn acknowledge(&self, count: usize) {
        self.turn.acknowledge(count);
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

    fn result(&self) -> u64 {
        self.turn.result()
    }

    fn cancel(&self, py: Python<'_>) -> PyResult<u64> {
        self.turn.cancel().map_err(|error| raise(py, &error))
    }

    fn steer(&self, content: &Bound<'_, PyAny>) -> PyResult<u64> {
        let steered = self.turn.steer(self::content(content)?);
        steered.map_err(|error| raise(content.py(), &error))
    }

    fn respond(&self, request_id: String, answer: &Bound<'_, PyAny>) -> PyResult<u64> {
        let json = py_to_json(answer)?;
        self.turn.respond(request_id, json).map_err(|error| raise(answer.py(), &error))
    }

    fn abandon(&self) {
        self.turn.abandon();
    }
}
