//! What `__anext__` gives: an awaitable that has its event at once where one is there, without a coroutine, a future or
//! a switch of tasks. Only the C interface lets a type say so (`am_send`), hence this file: about 50 ns an event
//! where a coroutine takes 200. It assumes nothing of the interpreter beyond the stable interface.
//!
//! The interpreter calls these functions past PyO3, which then doesn't know that the thread is attached, and would put
//! off what a dropped `Py` gives back: what may be dropped here is a `Bound`.
//!
//! Python before 3.12 asks `am_send` for the next value. Later ones ask `tp_iternext`, which tells a last value by
//! raising `StopIteration`; there one exception serves for all events.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyStopIteration};
use pyo3::ffi::{self, PyObject, PySendResult};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use crate::reader::PyReader;

/// An awaitable of this type, as `__anext__` returns it.
pub(crate) struct NextEvent(Py<PyAny>);

impl<'py> IntoPyObject<'py> for NextEvent {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(self.0.into_bound(py))
    }
}

/// The object. All pointers are owned or null.
#[repr(C)]
struct Object {
    base: PyObject,
    /// Whose event it is; null before and after.
    reader: *mut PyObject,
    /// The coroutine that waits for it, where it was not there.
    later: *mut PyObject,
    /// The exception that tells of it.
    stop: *mut PyObject,
}

static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An awaitable for the reader's next event: the spare one, if nobody else has it.
pub(crate) fn of(reader: Bound<'_, PyReader>, spare: Option<NextEvent>) -> PyResult<NextEvent> {
    let py = reader.py();
    // SAFETY: the interpreter is attached; what has a count of 1 is ours alone.
    let object = match spare.filter(|spare| unsafe { ffi::Py_REFCNT(spare.0.as_ptr()) } == 1) {
        Some(spare) => spare.0.into_bound(py),
        None => {
            let class = TYPE.get_or_try_init(py, || make_type(py))?;
            // SAFETY: it is a heap type without an allocator of its own; memory comes zeroed, so all pointers are null.
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0)) }?
        }
    };
    let fields = object.as_ptr().cast::<Object>();
    // SAFETY: it is of our type, and a spare one had given its reader back when it had done its work.
    unsafe {
        // The program's last event is not to be kept here; but whoever has kept the exception has it for good.
        if let Some(stop) = take(py, &raw mut (*fields).stop)
            && ffi::Py_REFCNT(stop.as_ptr()) == 1
        {
            set_value(&stop, py.None().bind(py))?;
            (*fields).stop = stop.into_ptr();
        }
        (*fields).reader = reader.into_any().into_ptr();
    }
    Ok(NextEvent(object.unbind()))
}

/// What a step of the awaitable's brought.
enum Sent<'py> {
    Event(Bound<'py, PyAny>),
    /// What the event loop is to wait for.
    Waits(Bound<'py, PyAny>),
}

/// Takes an owned pointer out of the object.
///
/// # Safety
/// The place holds an owned pointer or null.
unsafe fn take(py: Python<'_>, place: *mut *mut PyObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: as the caller says; what is taken is null from now on.
    unsafe { Bound::from_owned_ptr_or_opt(py, ptr::replace(place, ptr::null_mut())) }
}

/// # Safety
/// `this` is of our type.
unsafe fn send(py: Python<'_>, this: *mut PyObject, value: *mut PyObject) -> PyResult<Sent<'_>> {
    let object = this.cast::<Object>();
    // SAFETY: `this` is of our type, its pointers are owned or null, and are copied before other code runs.
    unsafe {
        if (*object).later.is_null() {
            let Some(reader) = take(py, &raw mut (*object).reader) else {
                return Err(PyRuntimeError::new_err("an event was awaited twice"));
            };
            let events = reader.cast_unchecked::<PyReader>();
            if let Some(event) = events.get().next(py)? {
                events.get().keep_spare(py, NextEvent(Bound::from_borrowed_ptr(py, this).unbind()));
                return Ok(Sent::Event(event));
            }
            (*object).later = reader.call_method0(pyo3::intern!(py, "_later"))?.into_ptr();
        }
        let later = Bound::from_borrowed_ptr(py, (*object).later);
        let mut result = ptr::null_mut();
        match ffi::PyIter_Send(later.as_ptr(), value, &raw mut result) {
            PySendResult::PYGEN_NEXT => Ok(Sent::Waits(Bound::from_owned_ptr(py, result))),
            PySendResult::PYGEN_RETURN => {
                drop(take(py, &raw mut (*object).later));
                Ok(Sent::Event(Bound::from_owned_ptr(py, result)))
            }
            PySendResult::PYGEN_ERROR => {
                let error = PyErr::fetch(py);
                drop(take(py, &raw mut (*object).later));
                Err(error)
            }
        }
    }
}

/// Runs what the interpreter asked for; a panic of ours becomes an exception. Null where there is one.
fn answer<'py>(py: Python<'py>, body: impl FnOnce() -> PyResult<Bound<'py, PyAny>>) -> *mut PyObject {
    let answer = catch_unwind(AssertUnwindSafe(body));
    let answer = answer.unwrap_or_else(|_| Err(PyRuntimeError::new_err("a defect in kimi_agent: an event was lost")));
    answer.map_or_else(
        |error| {
            error.restore(py);
            ptr::null_mut()
        },
        Bound::into_ptr,
    )
}

unsafe extern "C" fn am_send(this: *mut PyObject, value: *mut PyObject, result: *mut *mut PyObject) -> PySendResult {
    let mut kind = PySendResult::PYGEN_ERROR;
    // SAFETY: called by the interpreter, which is attached, with an object of our type and a place for the result.
    unsafe {
        let py = Python::assume_attached();
        *result = answer(py, || {
            let (sent, what) = match send(py, this, value)? {
                Sent::Event(event) => (event, PySendResult::PYGEN_RETURN),
                Sent::Waits(future) => (future, PySendResult::PYGEN_NEXT),
            };
            kind = what;
            Ok(sent)
        });
    }
    kind
}

unsafe extern "C" fn iternext(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: as for `am_send`.
    unsafe { method_send(this, ffi::Py_None()) }
}

unsafe extern "C" fn method_send(this: *mut PyObject, value: *mut PyObject) -> *mut PyObject {
    // SAFETY: as for `am_send`.
    unsafe {
        let py = Python::assume_attached();
        answer(py, || match send(py, this, value)? {
            Sent::Waits(future) => Ok(future),
            Sent::Event(event) => Err(stop_with(py, this.cast(), &event)?),
        })
    }
}

unsafe extern "C" fn method_throw(this: *mut PyObject, args: *mut PyObject) -> *mut PyObject {
    let object = this.cast::<Object>();
    // SAFETY: as for `am_send`, with a tuple of arguments.
    unsafe {
        let py = Python::assume_attached();
        answer(py, || {
            let args = Bound::from_borrowed_ptr(py, args).cast_into_unchecked::<PyTuple>();
            drop(take(py, &raw mut (*object).reader));
            if let Some(later) = take(py, &raw mut (*object).later) {
                let thrown = later.call_method1(pyo3::intern!(py, "throw"), args)?;
                // It waits for something else now.
                (*object).later = later.into_ptr();
                return Ok(thrown);
            }
            let given = args.get_item(1).ok().filter(|value| !value.is_none());
            Err(match (args.get_item(0)?, given) {
                (kind, Some(value)) if !value.is_instance_of::<PyBaseException>() => {
                    PyErr::from_value(kind.call1((value,))?)
                }
                (_, Some(error)) | (error, None) => PyErr::from_value(error),
            })
        })
    }
}

unsafe extern "C" fn method_close(this: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    let object = this.cast::<Object>();
    // SAFETY: as for `am_send`.
    unsafe {
        let py = Python::assume_attached();
        answer(py, || {
            drop(take(py, &raw mut (*object).reader));
            match take(py, &raw mut (*object).later) {
                Some(later) => later.call_method0(pyo3::intern!(py, "close")),
                None => Ok(py.None().into_bound(py)),
            }
        })
    }
}

unsafe extern "C" fn itself(this: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter with an object, of which it gets a reference of its own.
    unsafe { ffi::Py_NewRef(this) }
}

unsafe extern "C" fn traverse(this: *mut PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    let object = this.cast::<Object>();
    // SAFETY: called by the collector; what is visited is owned by the object, its type included.
    unsafe {
        for held in [ffi::Py_TYPE(this).cast(), (*object).reader, (*object).later, (*object).stop] {
            if !held.is_null() {
                let stopped = visit(held, arg);
                if stopped != 0 {
                    return stopped;
                }
            }
        }
    }
    0
}

unsafe extern "C" fn clear(this: *mut PyObject) -> c_int {
    let object = this.cast::<Object>();
    // SAFETY: called by the interpreter, which is attached, with an object of our type.
    unsafe {
        let py = Python::assume_attached();
        for place in [&raw mut (*object).reader, &raw mut (*object).later, &raw mut (*object).stop] {
            drop(take(py, place));
        }
    }
    0
}

unsafe extern "C" fn dealloc(this: *mut PyObject) {
    // SAFETY: called by the interpreter when nobody has the object any more; an object of a heap type holds its type.
    unsafe {
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_GC_UnTrack(this.cast());
        clear(this);
        ffi::PyObject_GC_Del(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

fn make_type(py: Python<'_>) -> PyResult<Py<PyType>> {
    let method = |name: &'static CStr, function, flags| ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: function,
        ml_flags: flags,
        ml_doc: ptr::null(),
    };
    let function = |function: unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject| {
        ffi::PyMethodDefPointer { PyCFunction: function }
    };
    // They live as long as the type: for ever.
    let methods = Box::leak(Box::new([
        method(c"send", function(method_send), ffi::METH_O),
        method(c"throw", function(method_throw), ffi::METH_VARARGS),
        method(c"close", function(method_close), ffi::METH_NOARGS),
        ffi::PyMethodDef::zeroed(),
    ]));
    let slot = |slot, function: *mut c_void| ffi::PyType_Slot { slot, pfunc: function };
    let mut slots = [
        slot(ffi::Py_am_await, itself as *mut c_void),
        slot(ffi::Py_am_send, am_send as *mut c_void),
        slot(ffi::Py_tp_iter, itself as *mut c_void),
        slot(ffi::Py_tp_iternext, iternext as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_clear, clear as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(0, ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"kimi_agent._native.NextEvent".as_ptr(),
        basicsize: size_of::<Object>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: size and functions are those of `Object`; the interpreter copies all but the methods.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }?;
    Ok(made.cast_into::<PyType>()?.unbind())
}

/// The `StopIteration` that tells the event.
///
/// # Safety
/// `object` is of our type.
unsafe fn stop_with(py: Python<'_>, object: *mut Object, event: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    // SAFETY: `stop` is owned or null; `of` has seen to it that nobody else has it.
    unsafe {
        if (*object).stop.is_null() {
            (*object).stop = py.get_type::<PyStopIteration>().call0()?.into_ptr();
        }
        let stop = Bound::from_borrowed_ptr(py, (*object).stop);
        set_value(&stop, event)?;
        Ok(PyErr::from_value(stop))
    }
}

fn set_value(stop: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    stop.setattr(pyo3::intern!(stop.py(), "value"), value)
}
