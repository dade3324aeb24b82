//! An agent, which opens sessions.

use std::path::PathBuf;
use std::sync::Arc;

use kimi_agent_bridge::{BridgeAgent, Naming, Start};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::py_to_json;
use crate::mailbox::PyMailbox;
use crate::session::{PySession, given};
use crate::{leak_if_unusable, raise, runtime, witness};

/// An agent. Dropping the last reference closes it in the background.
#[pyclass(frozen, name = "Agent", module = "kimi_agent._native")]
pub(crate) struct PyAgent {
    agent: Arc<BridgeAgent>,
}

impl Drop for PyAgent {
    fn drop(&mut self) {
        leak_if_unusable(&self.agent);
    }
}

#[pymethods]
impl PyAgent {
    #[staticmethod]
    #[pyo3(name = "open")]
    fn open_(
        mailbox: &PyMailbox,
        key: u64,
        options: &Bound<'_, PyAny>,
        callbacks: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        crate::guarded(|| {
            let (map, callbacks) = given(options, callbacks)?;
            let agent =
                BridgeAgent::open(key, mailbox.mailbox.clone(), runtime(options.py())?, map, Naming::Snake, callbacks)
                    .map_err(|error| raise(options.py(), &error))?;
            Ok(Self { agent: Arc::new(agent) })
        })
    }

    #[pyo3(signature = (key, resume, fork, options, callbacks))]
    fn create_session(
        &self,
        key: u64,
        resume: Option<String>,
        fork: Option<String>,
        options: &Bound<'_, PyAny>,
        callbacks: &Bound<'_, PyDict>,
    ) -> PyResult<(PySession, u64)> {
        crate::guarded(|| {
            let start = resume.map(Start::Resume).or_else(|| fork.map(Start::Fork)).unwrap_or(Start::New);
            let (map, callbacks) = given(options, callbacks)?;
            let opened = self.agent.create_session(key, start, map, Naming::Snake, callbacks);
            let (session, ticket) = opened.map_err(|error| raise(options.py(), &error))?;
            Ok((PySession::new(session), ticket))
        })
    }

    #[pyo3(signature = (work_dir, archived))]
    fn list_sessions(&self, work_dir: Option<PathBuf>, archived: bool) -> PyResult<u64> {
        crate::guarded(|| Ok(self.agent.list_sessions(work_dir, archived)))
    }

    fn rename_session(&self, session_id: String, title: String) -> PyResult<u64> {
        crate::guarded(|| Ok(self.agent.rename_session(session_id, title)))
    }

    fn archive_session(&self, session_id: String, archived: bool) -> PyResult<u64> {
        crate::guarded(|| Ok(self.agent.archive_session(session_id, archived)))
    }

    fn delete_session(&self, session_id: String) -> PyResult<u64> {
        crate::guarded(|| Ok(self.agent.delete_session(session_id)))
    }

    fn close(&self, timeout: &Bound<'_, PyAny>) -> PyResult<u64> {
        crate::guarded(|| self.agent.close(&py_to_json(timeout)?).map_err(|error| raise(timeout.py(), &error)))
    }

    fn described(&self) -> PyResult<(&str, &'static str, Option<u32>)> {
        crate::guarded(|| Ok(self.agent.described()))
    }

    fn abandon(&self) -> PyResult<()> {
        crate::guarded(|| {
            if witness::is_intact() {
                self.agent.abandon();
            }
            Ok(())
        })
    }
}
