//! The end of the interpreter. Python before 3.14 unwinds a daemon thread that wants its lock too late, which no frame of
//! Rust survives. So once the end has begun, daemon threads stay in their next call, as they do from Python 3.14 on.

use std::sync::OnceLock;
use std::thread::ThreadId;

use pyo3::prelude::*;

/// The thread that ends the interpreter.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

/// Says that this thread ends the interpreter.
pub(crate) fn begin() {
    ENDING.get_or_init(|| std::thread::current().id());
}

fn is_over() -> bool {
    ENDING.get().is_some_and(|ending| *ending != std::thread::current().id())
}

/// Returns unless another thread ends the interpreter. For a thread that does not hold Python's lock.
pub(crate) fn stay_detached() {
    while is_over() {
        std::thread::park();
    }
}

/// The same for a thread that holds it.
pub(crate) fn stay() {
    if is_over() {
        Python::attach(|py| py.detach(stay_detached));
    }
}
