//! A session.

use std::sync::Arc;

use kimi_agent::wire::ExternalToolsResult;
use kimi_agent_bridge::{BridgeSession, Callbacks, Mode, Naming, RequestOrigin};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value};

use crate::convert::{event_to_py, json_to_py, message_to_py, py_to_json};
use crate::mailbox::PyMailbox;
use crate::turn::PyTurn;
use crate::{content, leak_if_unusable, raise, runtime, witness};

fn options(value: &Bound<'_, PyAny>) -> PyResult<Map<String, Value>> {
    match py_to_json(value)? {
        Value::Object(map) => Ok(map),
        _ => Err(PyValueError::new_err("options are a dict")),
    }
}

fn mode(callbacks: &Bound<'_, PyDict>, name: &str) -> PyResult<Mode> {
    let Some(value) = callbacks.get_item(name)? else { return Ok(Mode::Unset) };
    if value.extract::<&str>().is_ok_and(|word| word == "manual") {
        return Ok(Mode::Manual);
    }
    Ok(if value.is_truthy()? { Mode::Handler } else { Mode::Unset })
}

fn callbacks(given: &Bound<'_, PyDict>) -> PyResult<Callbacks> {
    Ok(Callbacks {
        on_approval: mode(given, "on_approval")?,
        on_question: mode(given, "on_question")?,
        on_event: mode(given, "on_event")? == Mode::Handler,
        on_stderr: mode(given, "on_stderr")? == Mode::Handler,
        on_read_file: mode(given, "on_read_file")? == Mode::Handler,
        on_write_file: mode(given, "on_write_file")? == Mode::Handler,
        on_terminal: mode(given, "on_terminal")? == Mode::Handler,
    })
}

/// The parameters of an opening.
pub(crate) fn given(
    options: &Bound<'_, PyAny>,
    functions: &Bound<'_, PyDict>,
) -> PyResult<(Map<String, Value>, Callbacks)> {
    Ok((self::options(options)?, callbacks(functions)?))
}

/// The operation that starts the span of a turn.
fn start_to_py<'py>(py: Python<'py>, op: &str) -> PyResult<Bound<'py, PyAny>> {
    json_to_py(py, &serde_json::from_str(op).unwrap_or_default())
}

/// A session. Dropping the last reference closes it in the background.
#[pyclass(frozen, name = "Session", module = "kimi_agent._native")]
pub(crate) struct PySession {
    session: Arc<BridgeSession>,
}

impl Drop for PySession {
    fn drop(&mut self) {
        leak_if_unusable(&self.session);
    }
}

impl PySession {
    pub(crate) fn new(session: BridgeSession) -> Self {
        Self { session: Arc::new(session) }
    }
}

#[pymethods]
impl PySession {
    #[staticmethod]
    #[pyo3(name = "open")]
    fn open_(
        mailbox: &PyMailbox,
        key: u64,
        options: &Bound<'_, PyAny>,
        callbacks: &Bound<'_, PyDict>,
    ) -> PyResult<(Self, u64)> {
        crate::guarded(|| {
            let (map, callbacks) = given(options, callbacks)?;
            let opened = BridgeSession::open(
                key,
                mailbox.mailbox.clone(),
                runtime(options.py())?,
                map,
                Naming::Snake,
                callbacks,
            );
            let (session, ticket) = opened.map_err(|error| raise(options.py(), &error))?;
            Ok((Self::new(session), ticket))
        })
    }

    #[staticmethod]
    fn one_shot(
        content: &Bound<'_, PyAny>,
        prompt_options: &Bound<'_, PyAny>,
        mailbox: &PyMailbox,
        key: u64,
        options: &Bound<'_, PyAny>,
        callbacks: &Bound<'_, PyDict>,
    ) -> PyResult<PyTurn> {
        crate::guarded(|| {
            let content = self::content(content)?;
            let prompt_options = self::options(prompt_options)?;
            let (map, callbacks) = given(options, callbacks)?;
            let mailbox = mailbox.mailbox.clone();
            BridgeSession::one_shot(
                key,
                mailbox,
                runtime(options.py())?,
                (content, prompt_options),
                map,
                Naming::Snake,
                callbacks,
            )
            .map(PyTurn::new)
            .map_err(|error| raise(options.py(), &error))
        })
    }

    #[staticmethod]
    fn begin_one_shot<'py>(
        content: &Bound<'py, PyAny>,
        prompt_options: &Bound<'py, PyAny>,
        options: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        crate::guarded(|| {
            let py = content.py();
            let (given, options) = (self::options(prompt_options)?, self::options(options)?);
            let begun = BridgeSession::begin_one_shot(&self::content(content)?, &given, &options, Naming::Snake);
            begun.map_err(|error| raise(py, &error))?.map(|op| start_to_py(py, &op)).transpose()
        })
    }

    #[getter]
    fn id(&self) -> PyResult<&str> {
        crate::guarded(|| Ok(self.session.id()))
    }

    #[getter]
    fn work_dir(&self) -> PyResult<String> {
        crate::guarded(|| {
            Ok(self.session.work_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default())
        })
    }

    #[getter]
    fn state(&self) -> PyResult<&'static str> {
        crate::guarded(|| Ok(self.session.state()))
    }

    #[getter]
    fn protocol_version(&self) -> PyResult<Option<&str>> {
        crate::guarded(|| Ok(self.session.protocol_version()))
    }

    #[getter]
    fn pid(&self) -> PyResult<Option<u32>> {
        crate::guarded(|| Ok(self.session.pid()))
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        crate::guarded(|| {
            let info = PyDict::new(py);
            info.set_item("server", self.session.server().map(|server| message_to_py(py, server)).transpose()?)?;
            let capabilities = serde_json::to_value(self.session.capabilities()).unwrap_or_default();
            info.set_item("capabilities", json_to_py(py, &capabilities)?)?;
            let commands = PyList::empty(py);
            for command in self.session.slash_commands() {
                commands.append(message_to_py(py, &command)?)?;
            }
            info.set_item("slash_commands", commands)?;
            let options = serde_json::to_value(self.session.config_options()).unwrap_or_default();
            info.set_item("config_options", json_to_py(py, &options)?)?;
            let nothing = ExternalToolsResult::default();
            let tools = self.session.external_tools().unwrap_or(&nothing);
            info.set_item("external_tools", message_to_py(py, tools)?)?;
            Ok(info)
        })
    }

    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::guarded(|| message_to_py(py, &self.session.usage()))
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::guarded(|| event_to_py(py, &self.session.status()))
    }

    fn begin_turn<'py>(
        &self,
        content: &Bound<'py, PyAny>,
        options: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        crate::guarded(|| {
            let begun = self.session.begin_turn(&self::content(content)?, &self::options(options)?);
            begun.map(|op| start_to_py(content.py(), &op)).transpose()
        })
    }

    fn prompt(&self, content: &Bound<'_, PyAny>, options: &Bound<'_, PyAny>) -> PyResult<PyTurn> {
        crate::guarded(|| {
            let turn = self.session.prompt(self::content(content)?, self::options(options)?);
            turn.map(PyTurn::new).map_err(|error| raise(content.py(), &error))
        })
    }

    fn replay(&self, py: Python<'_>) -> PyResult<PyTurn> {
        crate::guarded(|| self.session.replay().map(PyTurn::new).map_err(|error| raise(py, &error)))
    }

    fn set_plan_mode(&self, on: &Bound<'_, PyAny>) -> PyResult<u64> {
        crate::guarded(|| self.session.set_plan_mode(&py_to_json(on)?).map_err(|error| raise(on.py(), &error)))
    }

    fn set_config_option(&self, id: String, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        crate::guarded(|| {
            self.session.set_config_option(id, &py_to_json(value)?).map_err(|error| raise(value.py(), &error))
        })
    }

    fn undo(&self, count: &Bound<'_, PyAny>) -> PyResult<u64> {
        crate::guarded(|| self.session.undo(&py_to_json(count)?).map_err(|error| raise(count.py(), &error)))
    }

    fn respond(&self, request: (String, Option<(u64, u64)>), answer: &Bound<'_, PyAny>) -> PyResult<u64> {
        crate::guarded(|| {
            let json = py_to_json(answer)?;
            let origin = request.1.map(|(session, request)| RequestOrigin { session, request });
            self.session.respond(request.0, origin, json).map_err(|error| raise(answer.py(), &error))
        })
    }

    fn cancel(&self) -> PyResult<u64> {
        crate::guarded(|| Ok(self.session.cancel()))
    }

    fn close(&self, timeout: &Bound<'_, PyAny>) -> PyResult<u64> {
        crate::guarded(|| self.session.close(&py_to_json(timeout)?).map_err(|error| raise(timeout.py(), &error)))
    }

    fn wait_closed(&self) -> PyResult<u64> {
        crate::guarded(|| Ok(self.session.wait_closed()))
    }

    fn abandon(&self) -> PyResult<()> {
        crate::guarded(|| {
            if witness::is_intact() {
                self.session.abandon();
            }
            Ok(())
        })
    }
}
