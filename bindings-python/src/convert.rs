//! Between JSON, the core's messages and Python's objects.

use kimi_agent::PromptResult;
use kimi_agent::wire::{Content, ContentPart, Event, TextPart, ToolCallInfo};
use kimi_agent_bridge as bridge;
use kimi_agent_bridge::{Node, QueuedEvents, Reflect, TextRun};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

use crate::classes::{Classes, once};

static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Events as objects of their classes.
pub(crate) fn events_to_py<'py>(py: Python<'py>, batch: &[QueuedEvents]) -> PyResult<Bound<'py, PyList>> {
    let classes = Classes::get(py)?;
    if let [QueuedEvents::Texts(run)] = batch {
        return classes.text_parts(texts_to_py(py, run)?);
    }
    let objects = PyList::empty(py);
    for events in batch {
        match events {
            QueuedEvents::Texts(run) => {
                for part in classes.text_parts(texts_to_py(py, run)?)? {
                    objects.append(part)?;
                }
            }
            QueuedEvents::Event(event) => objects.append(event_to_py(py, event)?)?,
        }
    }
    Ok(objects)
}

fn texts_to_py<'py>(py: Python<'py>, run: &TextRun) -> PyResult<Bound<'py, PyList>> {
    let texts = run.texts().map(|text| text_to_py(py, text)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, texts)
}

/// An event as an object of its class.
pub(crate) fn event_to_py<'py>(py: Python<'py>, event: &Event) -> PyResult<Bound<'py, PyAny>> {
    if let Event::ContentPart(ContentPart::Text(TextPart { text, message_id: None, extra })) = event
        && extra.is_empty()
    {
        return Classes::get(py)?.text_part(text_to_py(py, text)?);
    }
    let object = node_to_py(py, &event.node())?;
    if let Some(origin) = bridge::origin_of(event) {
        Classes::get(py)?.set_origin(&object, (origin.session, origin.request))?;
    }
    Ok(object)
}

/// A message as an object of its class.
pub(crate) fn message_to_py<'py>(py: Python<'py>, message: &dyn Reflect) -> PyResult<Bound<'py, PyAny>> {
    let classes = Classes::get(py)?;
    let mut fields = Vec::new();
    let mut failure = None;
    message.for_each_field(&mut |_, node| match node_to_py(py, &node) {
        Ok(value) => fields.push(value),
        Err(error) => failure = Some(error),
    });
    if let Some(error) = failure {
        return Err(error);
    }
    fields.push(if message.extra().is_empty() {
        classes.nothing(py)
    } else {
        let extra = PyDict::new(py);
        for (name, value) in message.extra().iter() {
            extra.set_item(name, json_to_py(py, value)?)?;
        }
        for (name, json) in message.extra().raw() {
            extra.set_item(name, node_to_py(py, &Node::Json(json))?)?;
        }
        extra.into_any()
    });
    let class = classes.named(message.type_name())?;
    if class.has_tool_call {
        fields.push(tool_call_to_py(py, message.tool_call())?);
    }
    class.make(py, fields)
}

fn tool_call_to_py<'py>(py: Python<'py>, call: Option<&ToolCallInfo>) -> PyResult<Bound<'py, PyAny>> {
    call.map_or_else(|| Ok(py.None().into_bound(py)), |call| message_to_py(py, call))
}

fn node_to_py<'py>(py: Python<'py>, node: &Node<'_>) -> PyResult<Bound<'py, PyAny>> {
    match node {
        Node::Bool(value) => Ok(PyBool::new(py, *value).to_owned().into_any()),
        Node::Int(value) => Ok(value.into_pyobject(py)?.into_any()),
        Node::Float(value) => Ok(PyFloat::new(py, *value).into_any()),
        Node::Str(value) => text_to_py(py, value),
        Node::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(node_to_py(py, item)?)?;
            }
            Ok(list.into_any())
        }
        Node::Message(message) => message_to_py(py, *message),
        Node::Json(json) => {
            // Python's own parser holds what comes over the pipe in full: huge numbers, lone surrogates.
            let loads = once(py, &LOADS, || py.import("json")?.getattr("loads").map(Bound::unbind))?;
            let loads = loads.bind(py);
            loads.call1((json.get(),)).or_else(|error| {
                if !error.is_instance_of::<pyo3::exceptions::PyValueError>(py) {
                    return Err(error);
                }
                // Python makes no int of thousands of digits; as a float such a number is infinite, as 1e999 is.
                let floats = PyDict::new(py);
                floats.set_item("parse_int", py.get_type::<PyFloat>())?;
                loads.call((json.get(),), Some(&floats))
            })
        }
        Node::Object(map) => object_to_py(py, map),
        _ => Ok(py.None().into_bound(py)),
    }
}

/// A longer text might lack memory for its copy in Python.
const LONG_TEXT: usize = 4 << 20;

/// Raises `MemoryError` if there is no memory for the text; PyO3 would panic.
fn text_to_py<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    // A string takes at most four bytes a character, and a text has at most one character a byte.
    if text.len() > LONG_TEXT && Vec::<u8>::new().try_reserve_exact(4 * text.len()).is_err() {
        return Err(PyMemoryError::new_err(format!("there is not enough memory for a text of {} bytes", text.len())));
    }
    Ok(PyString::new(py, text).into_any())
}

fn object_to_py<'py>(py: Python<'py>, map: &Map<String, Value>) -> PyResult<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    for (key, value) in map {
        dict.set_item(key, json_to_py(py, value)?)?;
    }
    Ok(dict.into_any())
}

/// JSON as plain Python objects.
pub(crate) fn json_to_py<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => Ok(PyBool::new(py, *value).to_owned().into_any()),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Ok(value.into_pyobject(py)?.into_any()),
            (None, Some(value)) => Ok(value.into_pyobject(py)?.into_any()),
            _ => Ok(PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any()),
        },
        Value::String(text) => Ok(PyString::new(py, text).into_any()),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(json_to_py(py, item)?)?;
            }
            Ok(list.into_any())
        }
        Value::Object(map) => object_to_py(py, map),
    }
}

/// Deeper than that, and it is no data but a mistake (or a loop).
const MAX_DEPTH: usize = 200;

/// Plain Python objects as JSON.
pub(crate) fn py_to_json(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    to_json(value, 0)
}

fn to_json(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > MAX_DEPTH {
        return Err(PyTypeError::new_err("the value is nested too deeply for JSON"));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_cow()?.into_owned()));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return match (number.extract::<i64>(), number.extract::<u64>()) {
            (Ok(number), _) => Ok(number.into()),
            (Err(_), Ok(number)) => Ok(number.into()),
            _ => Ok(float_to_json(number.extract()?)),
        };
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(float_to_json(number.value()));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut map = Map::new();
        for (key, item) in dict {
            let key = key
                .cast::<PyString>()
                .map_err(|_| PyTypeError::new_err("a key of an object must be a string in JSON"))?
                .to_cow()?
                .into_owned();
            map.insert(key, to_json(&item, depth + 1)?);
        }
        return Ok(Value::Object(map));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| to_json(&item?, depth + 1));
        return items.collect::<PyResult<Vec<_>>>().map(Value::Array);
    }
    Err(PyTypeError::new_err(format!("{} is not JSON", value.get_type().name()?)))
}

/// Infinite numbers, which JSON has not, become null, as in JavaScript; options refuse null where it matters.
fn float_to_json(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn content_to_py<'py>(py: Python<'py>, content: &Content) -> PyResult<Bound<'py, PyAny>> {
    match content {
        Content::Text(text) => Ok(PyString::new(py, text).into_any()),
        Content::Parts(parts) => {
            let list = PyList::empty(py);
            for part in parts {
                list.append(event_to_py(py, &part.clone().into())?)?;
            }
            Ok(list.into_any())
        }
    }
}

/// The outcome of a turn as a dict.
pub(crate) fn outcome_to_py<'py>(py: Python<'py>, result: &PromptResult) -> PyResult<Bound<'py, PyDict>> {
    let outcome = PyDict::new(py);
    outcome.set_item("status", result.status.as_str())?;
    outcome.set_item("stop_reason", result.stop_reason.as_deref())?;
    outcome.set_item("steps", result.steps)?;
    outcome.set_item("text", &result.text)?;
    outcome.set_item("output", result.output.as_ref().map(|output| json_to_py(py, output)).transpose()?)?;
    outcome.set_item("usage", message_to_py(py, &result.usage)?)?;
    let tool_calls = PyList::empty(py);
    for call in &result.tool_calls {
        let fields = PyDict::new(py);
        fields.set_item("id", &call.id)?;
        fields.set_item("name", &call.name)?;
        let arguments = call.arguments.as_ref().map(|arguments| object_to_py(py, arguments));
        fields.set_item("arguments", arguments.transpose()?)?;
        fields.set_item("output", call.output.as_ref().map(|output| content_to_py(py, output)).transpose()?)?;
        fields.set_item("is_error", call.is_error)?;
        fields.set_item("duration", call.duration.map(|duration| duration.as_secs_f64()))?;
        tool_calls.append(fields)?;
    }
    outcome.set_item("tool_calls", tool_calls)?;
    let rejected = PyList::empty(py);
    for rejection in &result.rejected {
        let fields = PyDict::new(py);
        fields.set_item("tool_call", tool_call_to_py(py, rejection.tool_call.as_ref())?)?;
        fields.set_item("description", &rejection.description)?;
        fields.set_item("by", rejection.by.as_str())?;
        fields.set_item("reason", rejection.reason.as_deref())?;
        fields.set_item("part", rejection.part.as_deref())?;
        rejected.append(fields)?;
    }
    outcome.set_item("rejected", rejected)?;
    let failures = PyList::empty(py);
    for failure in &result.handler_failures {
        let fields = PyDict::new(py);
        fields.set_item("handler", failure.handler.as_str())?;
        fields.set_item("tool_call", tool_call_to_py(py, failure.tool_call.as_ref())?)?;
        fields.set_item("message", &failure.message)?;
        failures.append(fields)?;
    }
    outcome.set_item("handler_failures", failures)?;
    outcome.set_item("plan", result.plan.as_ref().map(|plan| message_to_py(py, plan)).transpose()?)?;
    outcome.set_item("cost", result.cost.as_ref().map(|cost| message_to_py(py, cost)).transpose()?)?;
    Ok(outcome)
}
