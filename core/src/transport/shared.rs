//! What it takes to run a process in this one's memory: for as long as `vfork` would, or longer.
//!
//! Such a process also has the thread-local storage of the thread that started it. Hence what it runs calls the system
//! directly, never the C library, which would write that thread's `errno`; and it allocates nothing and can't panic.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr::{self, NonNull};

use memchr::memmem;
use syscalls::{Errno, Sysno, syscall};

const STACK: usize = 64 << 10;
/// The kernel's set of signals, which is smaller than the C library's.
pub(super) type SignalSet = u64;

/// Memory of the system's. Dropped, it is given back.
pub(super) struct Mapping {
    pub(super) start: NonNull<c_void>,
    size: usize,
}

impl Mapping {
    pub(super) fn new(size: usize, kind: c_int) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, at a place of the system's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, access, kind | libc::MAP_ANONYMOUS, -1, 0) };
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(Self { start, size }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A stack that grows down to a page which nobody can touch.
    pub(super) fn stack() -> io::Result<Self> {
        // SAFETY: no pointers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        let stack = Self::new(STACK + page, libc::MAP_PRIVATE | libc::MAP_STACK | libc::MAP_NORESERVE)?;
        // SAFETY: the lowest page of memory that is ours, and that nobody uses yet.
        if unsafe { libc::mprotect(stack.start.as_ptr(), page, libc::PROT_NONE) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// Where it ends, which is where a stack begins.
    pub(super) fn end(&self) -> *mut c_void {
        // SAFETY: one past the end.
        unsafe { self.start.as_ptr().byte_add(self.size) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what `new` got; whoever uses it keeps `self`.
        unsafe { libc::munmap(self.start.as_ptr(), self.size) };
    }
}

/// Runs `job` while nothing interrupts this thread, nor what it starts: no handler of the host's may run there. Also
/// those of the C library's own signals, which it would leave out.
pub(super) fn with_all_signals_blocked<T>(job: impl FnOnce() -> T) -> io::Result<T> {
    let set = |mask| set_signal_mask(mask).map_err(|error| io::Error::from_raw_os_error(error.into_raw()));
    let before = set(SignalSet::MAX)?;
    let done = job();
    set(before)?;
    Ok(done)
}

/// Sets which signals this thread does not get, and tells which these were.
pub(super) fn set_signal_mask(mask: SignalSet) -> Result<SignalSet, Errno> {
    let mut before: SignalSet = 0;
    // SAFETY: both pointers are to local variables.
    unsafe {
        syscall!(Sysno::rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut before, size_of::<SignalSet>())?;
    }
    Ok(before)
}

/// Valgrind ends a program that makes such a process.
pub(super) fn within_valgrind() -> bool {
    std::env::var_os("LD_PRELOAD").is_some_and(|libraries| memmem::find(libraries.as_bytes(), b"/vgpreload_").is_some())
}
