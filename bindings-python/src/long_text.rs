//! Long texts as Python's strings. Made in one go, there would be two of a text for a moment, the core's and Python's. So
//! it goes over in pieces, and the memory of what has gone is given back.

use std::ptr::null_mut;

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// As much goes over at once.
const PIECE: usize = 4 << 20;

/// Raises `MemoryError` if there is no memory for a string of this text: to make one nevertheless would panic.
pub(crate) fn check_memory(text: &str) -> PyResult<()> {
    // Four bytes a character, at the most, of which a text has one a byte, at the most.
    if text.len() > PIECE && Vec::<u8>::new().try_reserve_exact(4 * text.len()).is_err() {
        return Err(PyMemoryError::new_err(format!("there is not enough memory for a text of {} bytes", text.len())));
    }
    Ok(())
}

/// A string of this text.
pub(crate) fn string(py: Python<'_>, text: String) -> PyResult<Bound<'_, PyAny>> {
    // A string that has other characters grows by being made anew.
    if text.len() <= 2 * PIECE || !text.is_ascii() {
        check_memory(&text)?;
        return Ok(PyString::new(py, &text).into_any());
    }
    let mut bytes = text.into_bytes();
    let mut made: *mut ffi::PyObject = null_mut();
    for piece in bytes.chunks_mut(PIECE) {
        // SAFETY: the interpreter is attached, and these are so many bytes of ASCII; it fits, as no vector is longer.
        let next = unsafe {
            let size = piece.len() as ffi::Py_ssize_t;
            Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_FromStringAndSize(piece.as_ptr().cast(), size))
        };
        give_back(piece);
        let before = made;
        match next {
            Ok(next) if before.is_null() => made = next.into_ptr(),
            // SAFETY: both are strings, and the first, which nobody else has seen, is this function's; it grows where it is.
            // If that fails it is gone, and null is left.
            Ok(next) => unsafe { ffi::PyUnicode_Append(&mut made, next.as_ptr()) },
            Err(error) => {
                // SAFETY: it is this function's, or null.
                unsafe { ffi::Py_XDECREF(before) };
                return Err(error);
            }
        }
        if made.is_null() {
            break;
        }
    }
    // SAFETY: it is this function's; null says that an exception is set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

/// Lets the system have whole pages again; what they held is lost.
#[cfg(target_os = "linux")]
fn give_back(bytes: &mut [u8]) {
    // SAFETY: it takes no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0);
    if page == 0 {
        return;
    }
    let before = bytes.as_ptr().align_offset(page).min(bytes.len());
    let whole = (bytes.len() - before) / page * page;
    let pages = &mut bytes[before..before + whole];
    // SAFETY: these pages hold nothing but the given bytes, which are private memory of the allocator's: they read as zeros
    // after. Where the system refuses, they stay as they are.
    unsafe { libc::madvise(pages.as_mut_ptr().cast(), pages.len(), libc::MADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
fn give_back(_: &mut [u8]) {}
