//! Starts a program without a copy of this one: the child shares its memory until it has become the program, as with
//! `vfork`. `fork` would have to copy the tables of all that memory, a millisecond and more for what Python has in use.
//! The standard library does it like this, too, but not for a child that is to do something of its own before.

use std::cell::RefCell;
use std::ffi::{CString, c_int, c_ulong, c_void};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::{Context, Poll, ready};

use syscalls::{Errno, Sysno, syscall};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::shared::{Mapping, SignalSet, set_signal_mask, with_all_signals_blocked, within_valgrind};
use super::sys::{self, Exec};
use super::watcher::Place;

/// How many signals there are; they count from 1.
const SIGNALS: c_int = 64;

/// A child that runs.
pub(super) struct Started {
    pub(super) pid: u32,
    pub(super) pidfd: Pidfd,
    pub(super) pipes: Pipes,
}

/// Our ends.
pub(super) struct Pipes {
    stdin: PipeWriter,
    stdout: PipeReader,
    stderr: PipeReader,
}

impl Pipes {
    /// Makes them known to the runtime.
    pub(super) fn register(self) -> io::Result<sys::Pipes> {
        Ok(sys::Pipes {
            stdin: ChildStdin::from_std(OwnedFd::from(self.stdin).into())?,
            stdout: ChildStdout::from_std(OwnedFd::from(self.stdout).into())?,
            stderr: ChildStderr::from_std(OwnedFd::from(self.stderr).into())?,
        })
    }
}

/// Tells of a child's end: it is readable then.
pub(super) enum Pidfd {
    /// To nobody yet.
    Alone(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
    /// Between the two.
    None,
}

impl Pidfd {
    /// Makes it known to the runtime.
    pub(super) fn register(&mut self) -> io::Result<()> {
        if let Self::Alone(fd) = std::mem::replace(self, Self::None) {
            // SAFETY: the descriptor is owned by what is registered, and never exchanged.
            *self = Self::Registered(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?);
        }
        Ok(())
    }

    /// Waits for the child's end, and reaps it.
    pub(super) fn poll_exit(&self, pid: u32, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        let Self::Registered(fd) = self else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
        loop {
            let mut ready = ready!(fd.poll_read_ready(cx))?;
            let mut status = 0;
            // SAFETY: writes to `status`.
            match unsafe { libc::waitpid(pid as libc::pid_t, &mut status, libc::WNOHANG) } {
                -1 => return Poll::Ready(Err(io::Error::last_os_error())),
                0 => ready.clear_ready(),
                _ => return Poll::Ready(Ok(ExitStatus::from_raw(status))),
            }
        }
    }
}

/// What the child reads, and its one answer.
struct Birth<'a> {
    exec: &'a Exec,
    dir: CString,
    stdio: [RawFd; 3],
    place: Option<&'a Place>,
    host: usize,
    /// Why it has not become the program; zero, if it has.
    error: AtomicI32,
}

thread_local! {
    /// Where children begin. This thread waits for one before it starts another.
    static STACK: RefCell<Option<Mapping>> = const { RefCell::new(None) };
}

/// Whether children can be started like this, and be waited for.
pub(super) fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    // A kernel that has it can also poll what it gives, and give it at the child's start.
    // SAFETY: no pointers; a descriptor that this gives is nobody else's.
    let can_wait = || unsafe {
        let pidfd = syscall!(Sysno::pidfd_open, std::process::id(), 0);
        // Also where no descriptor is left now.
        pidfd.map(|fd| drop(OwnedFd::from_raw_fd(fd as RawFd))).map_or_else(|error| error == Errno::EMFILE, |()| true)
    };
    #[cfg(test)]
    let unwanted = std::env::var_os(tests::FORK).is_some();
    #[cfg(not(test))]
    let unwanted = false;
    *POSSIBLE.get_or_init(|| can_wait() && !within_valgrind() && !unwanted)
}

/// Whether it is the way that is refused, so that another one may do.
pub(super) fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EINVAL))
}

/// Starts the program, in a process group of its own. It dies with the thread that calls this.
pub(super) fn start(exec: &Exec, dir: CString, place: Option<&Place>) -> io::Result<Started> {
    let ((stdin, ours_in), (ours_out, stdout), (ours_err, stderr)) = (io::pipe()?, io::pipe()?, io::pipe()?);
    let theirs = [above_stdio(stdin)?, above_stdio(stdout)?, above_stdio(stderr)?];
    let birth = Birth {
        exec,
        dir,
        stdio: theirs.each_ref().map(AsRawFd::as_raw_fd),
        place,
        host: std::process::id() as usize,
        error: AtomicI32::new(0),
    };
    let (pid, pidfd) = clone(&birth)?;
    if let error @ 1.. = birth.error.load(Ordering::Acquire) {
        // SAFETY: the status may be null; a child that has ended, and that nobody else knows.
        while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } == -1
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        return Err(io::Error::from_raw_os_error(error));
    }
    Ok(Started {
        pid: u32::try_from(pid).map_err(io::Error::other)?,
        pidfd: Pidfd::Alone(pidfd),
        pipes: Pipes { stdin: ours_in, stdout: ours_out, stderr: ours_err },
    })
}

/// The same pipe by a number that is none of the three which the child replaces: a host may have closed its own.
fn above_stdio(end: impl Into<OwnedFd>) -> io::Result<OwnedFd> {
    let end = end.into();
    if end.as_raw_fd() > libc::STDERR_FILENO { Ok(end) } else { end.try_clone() }
}

fn clone(birth: &Birth<'_>) -> io::Result<(libc::pid_t, OwnedFd)> {
    STACK.with_borrow_mut(|kept| {
        let stack = match kept {
            Some(stack) => stack,
            None => kept.insert(Mapping::stack()?),
        };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let argument = ptr::from_ref(birth).cast_mut().cast::<c_void>();
        let mut pidfd: RawFd = -1;
        let pid = with_all_signals_blocked(|| {
            // SAFETY: this thread waits until the child has ended or become the program; so long all that it uses stays,
            // and nobody else has the stack. With signals blocked no handler of the host runs in it.
            match unsafe { libc::clone(be_born, stack.end(), flags, argument, &raw mut pidfd) } {
                -1 => Err(io::Error::last_os_error()),
                pid => Ok(pid),
            }
        })??;
        // SAFETY: the kernel gives it with the child; `is_possible` has seen that it can.
        Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
    })
}

/// What the child does, in this process's memory: see `shared.rs` for what it must not.
extern "C" fn be_born(birth: *mut c_void) -> c_int {
    // SAFETY: it is what `clone` passes, and outlives this.
    let birth: &Birth<'_> = unsafe { &*birth.cast() };
    let Err(error) = become_program(birth);
    birth.error.store(error.into_raw(), Ordering::Release);
    1
}

fn become_program(birth: &Birth<'_>) -> Result<std::convert::Infallible, Errno> {
    // SAFETY: system calls by their numbers; all pointers are to what `birth` keeps. Descriptors, the directory, the group
    // and what becomes of signals are this process's own: nothing is shared with the host but the memory.
    unsafe {
        for (theirs, number) in birth.stdio.iter().zip(0..) {
            // Without the flag that closes it.
            syscall!(Sysno::dup3, *theirs, number, 0)?;
        }
        syscall!(Sysno::chdir, birth.dir.as_ptr())?;
        syscall!(Sysno::setpgid, 0, 0)?;
        syscall!(Sysno::prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL)?;
        // The host may have died before the signal was set.
        if syscall!(Sysno::getppid)? != birth.host {
            return Err(Errno::ESRCH);
        }
    }
    forget_handlers()?;
    if let Some(place) = birth.place {
        place.enter();
    }
    set_signal_mask(0)?;
    let (program, argv, envp) = birth.exec.pointers();
    // SAFETY: all of it lives in `birth`, and both lists end with a null pointer. Returns only if it fails.
    let error = unsafe { syscall!(Sysno::execve, program, argv, envp) }.err().unwrap_or(Errno::ENOEXEC);
    if let Some(place) = birth.place {
        place.leave();
    }
    Err(error)
}

/// What the kernel takes for a signal's action. Zeros are the default.
#[repr(C)]
struct Action {
    handler: usize,
    flags: c_ulong,
    restorer: usize,
    mask: SignalSet,
}

/// A handler of the host's would run in its memory. What is ignored stays so, but for what Rust and Python ignore on
/// their own account.
fn forget_handlers() -> Result<(), Errno> {
    let default = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    for signal in (1..=SIGNALS).filter(|&signal| signal != libc::SIGKILL && signal != libc::SIGSTOP) {
        let mut now = Action { ..default };
        // SAFETY: both pointers are to local variables.
        unsafe {
            syscall!(Sysno::rt_sigaction, signal, 0, &raw mut now, size_of::<SignalSet>())?;
            if now.handler != libc::SIG_DFL && (now.handler != libc::SIG_IGN || signal == libc::SIGPIPE) {
                syscall!(Sysno::rt_sigaction, signal, &raw const default, 0, size_of::<SignalSet>())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "vfork_tests.rs"]
mod tests;
