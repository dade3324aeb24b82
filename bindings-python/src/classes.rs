//! The generated Python classes of messages, and how their objects are made.

use std::collections::HashMap;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple, PyType};

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

/// The value of `cell`. `make` runs before the cell is taken: Python may collect garbage in it, and `__del__` of a session may ask for
/// the same value.
pub(crate) fn once<'a, T: Send + Sync>(
    py: Python<'_>,
    cell: &'a PyOnceLock<T>,
    make: impl FnOnce() -> PyResult<T>,
) -> PyResult<&'a T> {
    if let Some(value) = cell.get(py) {
        return Ok(value);
    }
    let made = make()?;
    Ok(cell.get_or_init(py, || made))
}

/// The classes of `kimi_agent._wire`.
pub(crate) struct Classes {
    by_name: HashMap<String, Class>,
    /// Makes a `TextPart`, which most events are, of its text.
    make_text_part: Py<PyAny>,
    /// Makes several of a list of texts.
    make_text_parts: Py<PyAny>,
    /// The value of `extra` if a message has no unknown fields.
    nothing: Py<PyAny>,
    /// Sets `_origin`: which request of which session a message is.
    set_origin: Py<PyAny>,
}

/// A class of messages.
pub(crate) struct Class {
    /// Makes an object of its fields in order, then `extra`, then the fields that the SDK adds. It bypasses `__init__`,
    /// which costs several times as much.
    make: Py<PyAny>,
    /// Whether the SDK adds a tool call.
    pub(crate) has_tool_call: bool,
}

impl Classes {
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Self> {
        once(py, &CLASSES, || {
            let wire = py.import("kimi_agent._wire")?;
            let messages = py.import("kimi_agent._message")?;
            let base = messages.getattr("Message")?;
            let maker = messages.getattr("maker")?;
            let mut by_name = HashMap::new();
            for (name, value) in wire.dict() {
                if let Ok(class) = value.cast_into::<PyType>()
                    && class.is_subclass(&base)?
                {
                    let make = maker.call1((&class,))?.unbind();
                    let has_tool_call = class.getattr("_added")?.is_truthy()?;
                    by_name.insert(name.extract::<String>()?, Class { make, has_tool_call });
                }
            }
            let text_part = wire.getattr("TextPart")?;
            Ok(Self {
                by_name,
                make_text_part: messages.getattr("text_part_maker")?.call1((&text_part,))?.unbind(),
                make_text_parts: messages.getattr("text_parts_maker")?.call1((&text_part,))?.unbind(),
                nothing: messages.getattr("_NOTHING")?.unbind(),
                set_origin: base.getattr("_origin")?.getattr("__set__")?.unbind(),
            })
        })
    }

    pub(crate) fn named(&self, name: &str) -> PyResult<&Class> {
        let found = self.by_name.get(name);
        found.ok_or_else(|| PyTypeError::new_err(format!("kimi_agent._wire has no class {name}")))
    }

    /// Makes a piece of the answer's text.
    pub(crate) fn text_part<'py>(&self, text: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.make_text_part.bind(text.py()).call1((text,))
    }

    /// Makes pieces of the answer's text, in the order of the texts.
    pub(crate) fn text_parts<'py>(&self, texts: Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        Ok(self.make_text_parts.bind(texts.py()).call1((texts,))?.cast_into()?)
    }

    /// Sets which request of which session a message is. Neither equality nor a pickle includes it.
    pub(crate) fn set_origin(&self, object: &Bound<'_, PyAny>, origin: (u64, u64)) -> PyResult<()> {
        self.set_origin.bind(object.py()).call1((object, origin)).map(drop)
    }

    /// Returns the value of `extra` if a message has no unknown fields.
    pub(crate) fn nothing<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.nothing.bind(py).clone()
    }
}

impl Class {
    /// Makes an object of its fields in order, then `extra`, then the fields that the SDK adds.
    pub(crate) fn make<'py>(&self, py: Python<'py>, values: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        self.make.bind(py).call1(PyTuple::new(py, values)?)
    }
}
