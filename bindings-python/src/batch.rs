//! A batch.

use std::sync::Arc;

use kimi_agent::batch::JobResult;
use kimi_agent::wire::{Content, Event};
use kimi_agent_bridge::{BridgeBatch, Naming};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::convert::{event_to_py, json_to_py, message_to_py, outcome_to_py};
use crate::mailbox::PyMailbox;
use crate::session::given;
use crate::{error_parts, leak_if_unusable, raise, runtime, witness};

/// A batch. Dropping the last reference cancels it in the background.
#[pyclass(frozen, name = "Batch", module = "kimi_agent._native")]
pub(crate) struct PyBatch {
    batch: Arc<BridgeBatch>,
}

impl Drop for PyBatch {
    fn drop(&mut self) {
        leak_if_unusable(&self.batch);
    }
}

#[pymethods]
impl PyBatch {
    #[staticmethod]
    #[pyo3(name = "open")]
    fn open_(
        mailbox: &PyMailbox,
        key: u64,
        options: &Bound<'_, PyAny>,
        callbacks: &Bound<'_, PyDict>,
        reports_progress: bool,
    ) -> PyResult<Self> {
        crate::guarded(|| {
            let (map, callbacks) = given(options, callbacks)?;
            let (mailbox, runtime) = (mailbox.mailbox.clone(), runtime(options.py())?);
            let opened = BridgeBatch::open(key, mailbox, runtime, map, Naming::Snake, callbacks, reports_progress);
            let batch = opened.map_err(|error| raise(options.py(), &error))?;
            Ok(Self { batch: Arc::new(batch) })
        })
    }

    fn next(&self) -> PyResult<u64> {
        crate::guarded(|| Ok(self.batch.next()))
    }

    fn cancel(&self) -> PyResult<u64> {
        crate::guarded(|| Ok(self.batch.cancel()))
    }

    fn abandon(&self) -> PyResult<()> {
        crate::guarded(|| {
            if witness::is_intact() {
                self.batch.abandon();
            }
            Ok(())
        })
    }
}

/// Converts a result: its JSON, and the parts of it that are objects in Python.
pub(crate) fn job_result_to_py<'py>(py: Python<'py>, result: &JobResult) -> PyResult<Bound<'py, PyAny>> {
    let parts = PyDict::new(py);
    parts.set_item("json", json_to_py(py, &result.to_json())?)?;
    parts.set_item("prompt", content_to_py(py, &result.prompt)?)?;
    parts.set_item("usage", message_to_py(py, &result.usage)?)?;
    let outcome = result.result.as_ref().map(|result| outcome_to_py(py, result)).transpose()?;
    parts.set_item("outcome", outcome)?;
    let error = result.error.as_ref().map(|error| error_parts(py, error)).transpose()?;
    parts.set_item("error", error)?;
    Ok(parts.into_any())
}

fn content_to_py<'py>(py: Python<'py>, content: &Content) -> PyResult<Bound<'py, PyAny>> {
    match content {
        Content::Text(text) => text.into_bound_py_any(py),
        Content::Parts(parts) => {
            let list = PyList::empty(py);
            for part in parts {
                list.append(event_to_py(py, &Event::ContentPart(part.clone()))?)?;
            }
            Ok(list.into_any())
        }
    }
}
