//! The mailbox of an event loop, with the descriptor that the loop watches.

use std::io::Read;
use std::sync::Arc;

use kimi_agent_bridge::{Delivery, JobKind, LogLevel, Mailbox, Payload, Reply};
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::batch::job_result_to_py;
use crate::bell::{End, Reading, descriptor, ends, ring};
use crate::convert::{event_to_py, json_to_py, outcome_to_py, py_to_json};
use crate::{error_parts, lacking};

/// The core's deliveries to an event loop.
#[pyclass(frozen, name = "Mailbox", module = "kimi_agent._native")]
pub(crate) struct PyMailbox {
    pub(crate) mailbox: Arc<Mailbox>,
    reader: End,
}

#[pymethods]
impl PyMailbox {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        crate::guarded(|| {
            let (reader, writer) = ends(Reading::IsAtOnce).map_err(|error| lacking(py, "descriptor", &error))?;
            let mailbox = Mailbox::new(move || ring(&writer));
            Ok(Self { mailbox, reader })
        })
    }

    fn fileno(&self) -> PyResult<i64> {
        crate::guarded(|| Ok(descriptor(&self.reader)))
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        crate::guarded(|| {
            let mut bytes = [0; 64];
            // Before the look into the mailbox: what comes later makes it readable again.
            while matches!((&*self.reader).read(&mut bytes), Ok(n) if n == bytes.len()) {}
            let mut deliveries = Vec::new();
            for delivery in self.mailbox.drain() {
                if let Some(delivery) = delivery_to_py(py, delivery)? {
                    deliveries.push(delivery);
                }
            }
            Ok(deliveries)
        })
    }

    /// The answer of a job cannot be sent.
    fn refuse_answer(&self, job_id: u64, reason: String) -> PyResult<()> {
        crate::guarded(|| {
            self.mailbox.refuse_answer(job_id, reason);
            Ok(())
        })
    }

    /// `kind` is the class of an exception.
    fn finish_job(
        &self,
        job_id: u64,
        value: &Bound<'_, PyAny>,
        error: Option<String>,
        kind: Option<String>,
    ) -> PyResult<()> {
        crate::guarded(|| {
            match error {
                Some(error) => self.mailbox.fail_job(job_id, error, kind),
                None => {
                    let answer = py_to_json(value);
                    match answer {
                        Ok(answer) => self.mailbox.finish_job(job_id, Ok(answer)),
                        Err(error) => {
                            let reason = format!("the handler's result cannot be serialized to JSON: {error}");
                            self.mailbox.refuse_answer(job_id, reason);
                        }
                    }
                }
            }
            Ok(())
        })
    }

    fn report_progress(&self, job_id: u64, fraction: Option<f64>, message: Option<String>) -> PyResult<()> {
        crate::guarded(|| {
            self.mailbox.report_progress(job_id, fraction, message.as_deref());
            Ok(())
        })
    }

    fn close(&self) -> PyResult<()> {
        crate::guarded(|| {
            self.mailbox.close();
            Ok(())
        })
    }
}

/// Python's numbers for levels.
fn level_number(level: LogLevel) -> u8 {
    match level {
        LogLevel::Error => 40,
        LogLevel::Warn => 30,
        LogLevel::Info => 20,
        LogLevel::Debug => 10,
        LogLevel::Trace => 5,
    }
}

fn kind_to_py(py: Python<'_>, kind: JobKind) -> Bound<'_, PyString> {
    match kind {
        // The kinds that come often have interned names.
        JobKind::Approval => intern!(py, "approval").clone(),
        JobKind::Tool => intern!(py, "tool").clone(),
        other => PyString::new(py, other.as_str()),
    }
}

fn delivery_to_py(py: Python<'_>, delivery: Delivery) -> PyResult<Option<Bound<'_, PyAny>>> {
    let delivery = match delivery {
        Delivery::Done { ticket, outcome: Ok(Reply::Nothing) } => {
            (intern!(py, "done"), ticket, py.None(), py.None()).into_bound_py_any(py)?
        }
        Delivery::Done { ticket, outcome: Ok(Reply::Outcome(result)) } => {
            ("done", ticket, outcome_to_py(py, &result)?, py.None()).into_bound_py_any(py)?
        }
        Delivery::Done { ticket, outcome: Ok(Reply::Sessions(sessions)) } => {
            let sessions = serde_json::to_value(sessions).unwrap_or_default();
            ("done", ticket, json_to_py(py, &sessions)?, py.None()).into_bound_py_any(py)?
        }
        Delivery::Done { ticket, outcome: Ok(Reply::Text(text)) } => {
            ("done", ticket, text, py.None()).into_bound_py_any(py)?
        }
        Delivery::Done { ticket, outcome: Ok(Reply::JobResult(result)) } => {
            let result = result.map(|result| job_result_to_py(py, &result)).transpose()?;
            ("done", ticket, result, py.None()).into_bound_py_any(py)?
        }
        Delivery::Done { ticket, outcome: Err(error) } => {
            ("done", ticket, py.None(), error_parts(py, &error)?).into_bound_py_any(py)?
        }
        Delivery::Readable { turn } => (intern!(py, "readable"), turn).into_bound_py_any(py)?,
        // Python asks for the outcome where it needs it.
        Delivery::Settled { .. } => return Ok(None),
        Delivery::Job { id, session, kind, index, payload, call_id, in_turn, span } => {
            let payload = match payload {
                Payload::Event(event) => event_to_py(py, &event)?,
                Payload::Arguments(arguments) => json_to_py(py, &arguments)?,
                Payload::Line(line) => line.into_bound_py_any(py)?,
            };
            let kind = kind_to_py(py, kind);
            (intern!(py, "job"), id, session, kind, index, payload, call_id, in_turn, span).into_bound_py_any(py)?
        }
        Delivery::Telemetry { session, ops } => {
            let ops = serde_json::to_value(ops).unwrap_or_default();
            (intern!(py, "telemetry"), session, json_to_py(py, &ops)?).into_bound_py_any(py)?
        }
        Delivery::CancelJob { id } => ("cancel_job", id).into_bound_py_any(py)?,
        Delivery::Log { level, target, message } => {
            ("log", level_number(level), target, message).into_bound_py_any(py)?
        }
    };
    Ok(Some(delivery))
}
