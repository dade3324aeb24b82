//! What the interpreter's lock guards: as a mutex would, for a tenth of what one costs an event.

use std::cell::UnsafeCell;

use pyo3::Python;

/// A value that only the thread that is attached to the interpreter accesses. The interpreter's lock (GIL) allows one such
/// thread at a time: the module declares `gil_used`, and refuses to be imported by an interpreter that runs without the lock.
///
/// A look takes the value out and puts it back after, so that code of the program's which it may run, and threads to which
/// that hands the lock, find an empty value, never one that is being changed. What they leave there is lost.
#[derive(Default)]
pub(crate) struct Attached<T>(UnsafeCell<T>);

// SAFETY: `with` wants a token, which only the attached thread has.
unsafe impl<T: Send> Sync for Attached<T> {}

impl<T: Default> Attached<T> {
    pub(crate) fn with<R>(&self, _: Python<'_>, look: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: nobody else is attached, and no reference into the cell outlives a statement.
        let mut value = unsafe { std::mem::take(&mut *self.0.get()) };
        let result = look(&mut value);
        // SAFETY: as above.
        drop(unsafe { std::mem::replace(&mut *self.0.get(), value) });
        result
    }
}
