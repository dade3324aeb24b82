//! What the iterators over events are made on: events that are there are handed out without a line of Python.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::attached::Attached;
use crate::next_event::{self, NextEvent};
use crate::turn::PyTurn;

/// Reads a turn in coroutines. What is there it gives at once; where it has to wait it awaits its own `_later()`, which
/// gives an event, too, or raises `StopAsyncIteration`.
#[pyclass(frozen, subclass, name = "Reader", module = "kimi_agent._native")]
pub(crate) struct PyReader {
    turn: Py<PyTurn>,
    left: AtomicBool,
    /// What the last event came by; nearly always nobody else has kept it, and the next can come by it, too.
    spare: Attached<Option<NextEvent>>,
}

impl PyReader {
    /// The next event, if it is there.
    pub(crate) fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.left.load(Ordering::Relaxed) { Ok(None) } else { self.turn.get().next(py) }
    }

    pub(crate) fn keep_spare(&self, py: Python<'_>, spare: NextEvent) {
        let before = self.spare.with(py, |kept| kept.replace(spare));
        // Only now: its end may run code of the program's.
        drop(before.map(|before| before.into_pyobject(py)));
    }
}

#[pymethods]
impl PyReader {
    #[new]
    fn new(turn: Py<PyTurn>) -> Self {
        Self { turn, left: AtomicBool::new(false), spare: Attached::default() }
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Bound<'_, Self>) -> PyResult<NextEvent> {
        let spare = slf.get().spare.with(slf.py(), Option::take);
        next_event::of(slf, spare)
    }

    /// From now on `_later()` is asked for everything.
    fn _leave_events(&self) {
        self.left.store(true, Ordering::Relaxed);
    }
}

/// Reads a turn where nothing is awaited. What is there it gives at once; where it has to wait it calls its own
/// `_later()`, which gives an event, too, or raises `StopIteration`.
#[pyclass(frozen, subclass, name = "BlockingReader", module = "kimi_agent._native")]
pub(crate) struct PyBlockingReader {
    turn: Py<PyTurn>,
    left: AtomicBool,
}

#[pymethods]
impl PyBlockingReader {
    #[new]
    fn new(turn: Py<PyTurn>) -> Self {
        Self { turn, left: AtomicBool::new(false) }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if !this.left.load(Ordering::Relaxed)
            && let Some(event) = this.turn.get().next(py)?
        {
            return Ok(event);
        }
        slf.call_method0(pyo3::intern!(py, "_later"))
    }

    /// From now on `_later()` is asked for everything.
    fn _leave_events(&self) {
        self.left.store(true, Ordering::Relaxed);
    }
}
