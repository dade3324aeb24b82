//! Objects of the generated classes, made without their `__init__`: called from here it would cost several times what
//! the object does, most of it for `object.__setattr__`.

use std::collections::HashMap;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

use crate::long_text;

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

/// The classes of `kimi_agent._wire`.
pub(crate) struct Classes {
    by_name: HashMap<String, Class>,
    /// Of most events.
    pub(crate) text_part: Class,
    /// What `extra` is where nothing unknown came.
    nothing: Py<PyAny>,
    /// Which request of which session a message is; empty for any other.
    origin: Slot,
}

/// A class, and the descriptors of its slots.
pub(crate) struct Class {
    class: Py<PyType>,
    /// In the order of the fields; then `extra`, then what the SDK adds.
    slots: Vec<Slot>,
    /// Whether the SDK adds a tool call.
    pub(crate) has_tool_call: bool,
}

struct Slot {
    descriptor: Py<PyAny>,
    set: ffi::descrsetfunc,
}

impl Classes {
    pub(crate) fn get(py: Python<'_>) -> PyResult<&Self> {
        CLASSES.get_or_try_init(py, || {
            let module = py.import("kimi_agent._wire")?;
            let base = py.import("kimi_agent._message")?.getattr("Message")?;
            let mut by_name = HashMap::new();
            for (name, value) in module.dict() {
                if let Ok(class) = value.cast_into::<PyType>()
                    && class.is_subclass(&base)?
                {
                    by_name.insert(name.extract::<String>()?, Class::new(&class)?);
                }
            }
            let text_part = Class::new(module.getattr("TextPart")?.cast::<PyType>()?)?;
            let origin = Slot::new(&base.getattr("_origin")?)?;
            Ok(Self { by_name, text_part, nothing: module.getattr("_NOTHING")?.unbind(), origin })
        })
    }

    pub(crate) fn named(&self, name: &str) -> PyResult<&Class> {
        let found = self.by_name.get(name);
        found.ok_or_else(|| PyTypeError::new_err(format!("kimi_agent._wire has no class {name}")))
    }

    /// Says of a message which request of which session it is. Neither equality nor a pickle has it.
    pub(crate) fn set_origin(&self, object: &Bound<'_, PyAny>, origin: (u64, u64)) -> PyResult<()> {
        self.origin.set(object, origin.into_pyobject(object.py())?.as_any())
    }

    /// What `extra` is where nothing unknown came.
    pub(crate) fn nothing<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.nothing.bind(py).clone()
    }
}

impl Class {
    fn new(class: &Bound<'_, PyType>) -> PyResult<Self> {
        let mut slots = Vec::new();
        for name in class.getattr("__match_args__")?.extract::<Vec<String>>()? {
            slots.push(Slot::new(&class.getattr(name)?)?);
        }
        slots.push(Slot::new(&class.getattr("extra")?)?);
        let added = class.getattr("_added")?.extract::<Vec<String>>()?;
        for name in &added {
            slots.push(Slot::new(&class.getattr(name.as_str())?)?);
        }
        Ok(Self { class: class.clone().unbind(), slots, has_tool_call: !added.is_empty() })
    }

    /// An object with its fields in order, then `extra` and what the SDK adds.
    pub(crate) fn make<'py>(
        &self,
        py: Python<'py>,
        fields: impl IntoIterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the class is an ordinary heap type, made by a `class` statement whose bases are too, so that this is
        // what its `tp_alloc` does; all its slots are empty at first, which Python itself allows.
        let object =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(self.class.as_ptr().cast(), 0)) }?;
        let mut slots = self.slots.iter();
        for (slot, value) in slots.by_ref().zip(fields) {
            slot.set(&object, &value)?;
        }
        debug_assert!(slots.next().is_none(), "as many values as slots");
        Ok(object)
    }
}

/// Pieces of text, made of an object again that the program has let go of: to make one anew and to free it is a third of
/// what an event costs. A loop over events holds the last one while it asks for the next, so there are two in turn.
#[derive(Default)]
pub(crate) struct TextParts {
    made: [Option<Py<PyAny>>; 2],
    turn: usize,
}

impl TextParts {
    /// A longer text is not kept for the next event's sake.
    const LONGEST: usize = 4096;

    pub(crate) fn make<'py>(&mut self, py: Python<'py>, text: String) -> PyResult<Bound<'py, PyAny>> {
        let classes = Classes::get(py)?;
        if text.len() > Self::LONGEST {
            let value = long_text::string(py, text)?;
            return classes.text_part.make(py, [value, classes.nothing(py)]);
        }
        let value = PyString::new(py, &text).into_any();
        self.turn ^= 1;
        let place = &mut self.made[self.turn];
        // SAFETY: the interpreter is attached, and what has a count of 1 is ours alone: nobody sees it change. These
        // objects take no weak references.
        if let Some(made) = place.as_ref().filter(|made| unsafe { ffi::Py_REFCNT(made.as_ptr()) } == 1) {
            let object = made.bind(py);
            // What it told last is a string, whose end runs no code.
            classes.text_part.slots[0].set(object, &value)?;
            return Ok(object.clone());
        }
        let object = classes.text_part.make(py, [value, classes.nothing(py)])?;
        // Whoever has the former keeps it; so nothing ends here that could run code.
        drop(place.replace(object.clone().unbind()).map(|former| former.into_bound(py)));
        Ok(object)
    }
}

impl Slot {
    fn new(descriptor: &Bound<'_, PyAny>) -> PyResult<Self> {
        // SAFETY: any type may be asked for the functions in its slots; this one has the given type, or is null.
        let set = unsafe {
            let found = ffi::PyType_GetSlot(ffi::Py_TYPE(descriptor.as_ptr()), ffi::Py_tp_descr_set);
            std::mem::transmute::<*mut std::ffi::c_void, Option<ffi::descrsetfunc>>(found)
        };
        let set = set.ok_or_else(|| PyTypeError::new_err("a field of a message is a slot"))?;
        Ok(Self { descriptor: descriptor.clone().unbind(), set })
    }

    fn set(&self, object: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        // SAFETY: it is the function of this very descriptor's type; it checks the object's type by itself.
        let failed = unsafe { (self.set)(self.descriptor.as_ptr(), object.as_ptr(), value.as_ptr()) };
        if failed == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
    }
}
