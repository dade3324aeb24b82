//! The watcher: ends what agents have started themselves when this process is killed. The parent-death signal reaches
//! the agents alone, and after KILL nobody is left here to signal their process groups.
//!
//! It is a process that shares this one's memory, as between `vfork` and `execve`, but for longer: while an agent runs.
//! So it costs a stack of its own and nothing else. It holds no descriptor, blocks all signals, is in a session of its
//! own, and has no exit signal, which hides it from every `wait` that does not ask for such children. It sleeps until
//! the system tells it that the host is gone, kills the groups in its table, and exits.
//!
//! Where the system refuses it, nothing of this happens. Nor does it outlive the host where the host's memory as a whole
//! is killed: by the kernel, when there is none left, or for a core dump before Linux 5.16.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use syscalls::{Errno, Sysno, syscall};

use super::shared::{Mapping, SignalSet, set_signal_mask, with_all_signals_blocked, within_valgrind};
use super::spawner;

/// As many agents at once are watched; it is a page for each 1024 of them.
const GROUPS: usize = 4096;
/// Nobody else sends this one, and one that another process sends is not taken for the host's end.
const HOST_IS_GONE: c_int = libc::SIGPWR;
/// The signal is not sent if the host had given up the right to signal us. Looking now and then is for that case.
static LOOK: libc::timespec = libc::timespec { tv_sec: 60, tv_nsec: 0 };

/// A slot that nobody has.
const FREE: i32 = 0;
/// One that belongs to an agent that does not run yet.
const TAKEN: i32 = -1;

/// What the watcher reads. The memory is shared with children, forked ones, too: each enters its group by itself, before it
/// becomes the agent, so that there is no moment in which an agent runs and is not in here.
#[repr(C)]
struct Table {
    host: i32,
    /// The leaders of groups.
    groups: [AtomicI32; GROUPS],
}

/// A table that both the host and the watcher have.
struct SharedTable(Mapping);

// SAFETY: what is behind it consists of atomics, and of a number that is never changed after its creation.
unsafe impl Send for SharedTable {}
// SAFETY: as above.
unsafe impl Sync for SharedTable {}

impl SharedTable {
    fn new() -> io::Result<Self> {
        let mapping = Mapping::new(size_of::<Table>(), libc::MAP_SHARED)?;
        // SAFETY: nobody else knows this memory yet. It is large enough, begins with a page, and zeros are a `Table`.
        unsafe { mapping.start.cast::<Table>().as_mut().host = libc::getpid() };
        Ok(Self(mapping))
    }

    fn get(&self) -> &Table {
        // SAFETY: made in `new`; mapped for as long as `self` lives.
        unsafe { self.0.start.cast().as_ref() }
    }
}

/// A watcher that was started, and what it uses.
struct Watcher {
    /// None once it has been reaped, when the number may be somebody else's.
    pid: Option<libc::pid_t>,
    table: Arc<SharedTable>,
    stack: Option<Mapping>,
}

thread_local! {
    /// The spawner's own: it alone starts and ends watchers, one after the other.
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

impl Watcher {
    fn start(table: Arc<SharedTable>) -> io::Result<Self> {
        let stack = Mapping::stack()?;
        let argument: *const Table = table.get();
        let pid = with_all_signals_blocked(|| {
            // SAFETY: `watch` runs on a stack and with a table that are kept until it has ended. Nothing that this thread
            // does can disturb it, nor the other way round: see there. With signals blocked no handler of the host runs
            // in it.
            unsafe { libc::clone(watch, stack.end(), libc::CLONE_VM, argument.cast_mut().cast()) }
        })?;
        match pid {
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(Self { pid: Some(pid), table, stack: Some(stack) }),
        }
    }

    /// Its id, if it still runs.
    fn running(&mut self) -> Option<libc::pid_t> {
        let mut status = 0;
        // SAFETY: writes to `status`.
        self.pid =
            self.pid.filter(|&pid| unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG | libc::__WALL) } == 0);
        if status != 0 {
            tracing::debug!(status, "the watcher has ended: the system refuses what it needs, or somebody killed it");
        }
        self.pid
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Some(pid) = self.running() else { return };
        // SAFETY: no pointers; a child that was there just now, and that nobody but this thread reaps.
        let mut ended = unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
        while ended {
            // SAFETY: the status may be null.
            match unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL) } {
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                found if found == pid => return,
                _ => ended = false,
            }
        }
        // Nobody knows whether it still uses them.
        std::mem::forget((self.stack.take(), Arc::clone(&self.table)));
    }
}

/// An agent's place in the table. Dropped, its group is not watched any more; the last one ends the watcher.
pub(super) struct Place {
    table: Option<Arc<SharedTable>>,
    index: usize,
}

/// A place for an agent that is about to be started, and a watcher, if there is none. On the spawner thread. Without one,
/// what the agent starts outlives a host that is killed; that is no reason not to start it.
pub(super) fn place() -> Option<Place> {
    if within_valgrind() {
        return None;
    }
    let place = WATCHER.with_borrow_mut(|watcher| {
        if watcher.as_mut().and_then(Watcher::running).is_none() {
            // Groups that another one has watched stay in the table.
            let table = match watcher.take() {
                Some(former) => Arc::clone(&former.table),
                None => Arc::new(SharedTable::new()?),
            };
            *watcher = Some(Watcher::start(table)?);
        }
        let table = watcher.as_ref().map(|watcher| Arc::clone(&watcher.table));
        let taken = table.as_ref().and_then(|table| {
            let take = |slot: &AtomicI32| slot.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
            table.get().groups.iter().position(|slot| take(slot).is_ok())
        });
        let index = taken.ok_or_else(|| io::Error::other("too many agents to watch"))?;
        Ok::<_, io::Error>(Place { table, index })
    });
    place.inspect_err(|error| tracing::debug!(%error, "nobody watches over what this agent starts")).ok()
}

impl Place {
    /// Enters the caller's group, which it leads. Between fork and exec, so with system calls alone.
    pub(super) fn enter(&self) {
        // SAFETY: no pointers. It always succeeds.
        self.set(unsafe { syscall!(Sysno::getpid) }.map_or(TAKEN, |pid| pid as i32));
    }

    /// Undoes that, where exec has failed.
    pub(super) fn leave(&self) {
        self.set(TAKEN);
    }

    fn set(&self, value: i32) {
        if let Some(slot) = self.table.as_ref().and_then(|table| table.get().groups.get(self.index)) {
            slot.store(value, Ordering::Release);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A forked copy of the host has the same table, and no agents.
        if self.table.as_ref().is_some_and(|table| u32::try_from(table.get().host) == Ok(std::process::id())) {
            self.set(FREE);
            self.table = None;
            spawner::submit_if_running(Box::new(end_if_unused));
        }
    }
}

/// Places are made on this thread only: once there is none, there will be none.
fn end_if_unused() {
    WATCHER.with_borrow_mut(|watcher| {
        if watcher.as_mut().is_some_and(|watcher| Arc::get_mut(&mut watcher.table).is_some()) {
            *watcher = None;
        }
    });
}

/// What the watcher does. It runs beside the host, in its memory: see `shared.rs` for what it must not. What it returns is
/// its exit code.
extern "C" fn watch(table: *mut c_void) -> c_int {
    // SAFETY: it is what `Watcher::start` passes, and outlives this process.
    let table: &Table = unsafe { &*table.cast() };
    match watch_over(table) {
        Ok(()) => 0,
        Err(error) => error.into_raw(),
    }
}

fn watch_over(table: &Table) -> Result<(), Errno> {
    let gone: SignalSet = 1 << (HOST_IS_GONE - 1);
    let name = c"kimi-watcher".as_ptr();
    // SAFETY: system calls by their numbers; the pointers are to local variables and constants. Descriptors, the session,
    // the mask and the name are this process's own: nothing is shared with the host but the memory.
    unsafe {
        set_signal_mask(SignalSet::MAX)?;
        syscall!(Sysno::close_range, 0, u32::MAX, 0)?;
        syscall!(Sysno::setsid)?;
        syscall!(Sysno::prctl, libc::PR_SET_PDEATHSIG, HOST_IS_GONE)?;
        syscall!(Sysno::prctl, libc::PR_SET_NAME, name)?;
    }
    let host = table.host as usize;
    // The host may have died before the signal was set. As long as any of its threads lives it is our parent, so that the
    // signal comes first: it is then the word of a host that is on its way out.
    // SAFETY: as above.
    while unsafe { syscall!(Sysno::getppid) } == Ok(host) {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: as above; zeros are a `siginfo_t`, and this signal is one that has a sender.
        let (signal, sender) = unsafe {
            let signal = syscall!(
                Sysno::rt_sigtimedwait,
                &raw const gone,
                info.as_mut_ptr(),
                &raw const LOOK,
                size_of::<SignalSet>()
            );
            (signal, info.assume_init_ref().si_pid())
        };
        match signal {
            Ok(_) if sender == table.host => break,
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    for group in &table.groups {
        let leader = group.load(Ordering::Acquire);
        if leader > 1 {
            // Until its last process has ended, the group's number is nobody else's. Should all of them be gone, the numbers
            // would have to go round once within this moment.
            // SAFETY: no pointers.
            let _gone_already = unsafe { syscall!(Sysno::kill, -leader, libc::SIGKILL) };
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "watcher_tests.rs"]
pub(super) mod tests;
