//! Child processes on Unix: how one is started, signalled and reaped.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::pin::pin;
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicPtr;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, setsid, waitpgid};
use tokio::io::AsyncWrite;
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::deadline::{KILL_DEADLINE, Killed};
use super::guard::{Guard, Kind};
use super::{Exit, SERVER_END_GRACE};
use crate::error::Error;
use crate::transport::launch::Launch;

/// How often a thread that reaps a killed process checks for its end.
const REAP_INTERVAL: Duration = Duration::from_millis(10);

/// This process's ends of the child's pipes.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// A child process that leads a session and a process group of its own. Dropped, it is killed and reaped.
pub(super) struct Running {
    pid: Pid,
    /// `None` once it has ended, or could not be ended.
    child: Option<Child>,
    exit: Option<Exit>,
    killed: Option<Killed>,
    /// A server, which ends its own children if it gets the time.
    is_server: bool,
    /// Ends the group with this program. `None` once the group has ended, or if the system has no `/bin/sh`.
    guard: Option<Guard>,
}

/// A child process and how its end is noticed.
enum Child {
    /// By a descriptor that becomes readable. SIGCHLD belongs to the host: asyncio and libuv handle it themselves.
    #[cfg(target_os = "linux")]
    Pidfd { child: std::process::Child, pidfd: AsyncFd<OwnedFd> },
    /// By tokio, on systems without such descriptors.
    Tokio(Box<tokio::process::Child>),
}

/// Starts the program. Its group ends with this program, see [`super::guard`]. On Linux an agent that is not a server also gets
/// KILL when the calling thread ends, so that thread must live as long as the process. Call it in the context of a runtime; it panics, without starting anything, if that runtime
/// has no I/O.
pub(super) fn start(launch: &Launch) -> io::Result<(Running, Pipes)> {
    let is_server = launch.server.is_some();
    let kind = if is_server { Kind::Server } else { Kind::Agent };
    // Before the pipes: on Linux, a child that was just started still has this program's descriptors for a moment.
    let mut guard = Guard::new(kind)?;
    let (stdin, our_stdin) = pipe()?;
    let (our_stdout, stdout) = pipe()?;
    let (our_stderr, stderr) = pipe()?;
    let pipes = Pipes {
        stdin: ChildStdin::from_std(our_stdin.into())?,
        stdout: ChildStdout::from_std(our_stdout.into())?,
        stderr: ChildStderr::from_std(our_stderr.into())?,
    };
    let exec = Exec::new(launch)?;
    let host = getpid();
    let enlisting = guard.as_ref().map(Guard::enlisting);
    let mut command = Command::new(&launch.program);
    command.current_dir(&launch.current_dir).stdin(stdin).stdout(stdout).stderr(stderr);
    // SAFETY: between fork and exec the closure makes system calls only; all memory was allocated before. `exec` keeps the
    // strings, and its lists end with a null pointer.
    unsafe {
        command.pre_exec(move || {
            // Without a controlling terminal: a tool that opens /dev/tty gets an error instead of stopping the agent. The
            // leader of a session cannot leave its process group.
            setsid()?;
            if !is_server {
                die_with(host)?;
            }
            // The agent must not inherit which signals a thread of the host blocks.
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
            // Nor that the host ignores the signals that end agents, as every job in the background of a shell ignores INT.
            for signal in [libc::SIGINT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            if let Some(enlisting) = &enlisting {
                enlisting.enlist();
            }
            // Not the standard library's `execvp`: it hands files that the kernel refuses to the shell.
            libc::execve(exec.program.as_ptr(), exec.args.as_ptr(), exec.env.as_ptr());
            let error = io::Error::last_os_error();
            if let Some(enlisting) = &enlisting {
                enlisting.withdraw();
            }
            Err(error)
        });
    }
    let (pid, child) = Child::spawn(command, guard.as_mut())?;
    Ok((Running { pid, child: Some(child), exit: None, killed: None, is_server, guard }, pipes))
}

/// Writes to the agent. A closed pipe is an error, never SIGPIPE.
#[cfg(not(target_vendor = "apple"))]
pub(super) fn writer(stdin: ChildStdin) -> Box<dyn AsyncWrite + Send + Unpin> {
    Box::new(super::sigpipe::WithoutSigpipe(stdin))
}

#[cfg(target_vendor = "apple")]
pub(super) fn writer(stdin: ChildStdin) -> Box<dyn AsyncWrite + Send + Unpin> {
    // SAFETY: a system call without pointers. The descriptor is open.
    unsafe { libc::fcntl(stdin.as_raw_fd(), libc::F_SETNOSIGPIPE, 1) };
    Box::new(stdin)
}

/// Makes a pipe whose ends are above the descriptors 0 to 2, which a host may have closed and may open again.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let above = |end: OwnedFd| if end.as_raw_fd() > libc::STDERR_FILENO { Ok(end) } else { end.try_clone() };
    let (reader, writer) = io::pipe()?;
    Ok((above(reader.into())?, above(writer.into())?))
}

/// Asks the system to kill the calling process when the thread that started it ends.
#[cfg(target_os = "linux")]
fn die_with(host: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The host may have died before the signal was set.
    if rustix::process::getppid() == Some(host) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: Pid) -> io::Result<()> {
    Ok(())
}

impl Child {
    fn spawn(command: Command, guard: Option<&mut Guard>) -> io::Result<(Pid, Self)> {
        #[cfg(target_os = "linux")]
        if pidfd::is_supported() {
            return pidfd::spawn(command, guard);
        }
        let mut command = tokio::process::Command::from(command);
        let child = command.spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id as i32)).ok_or_else(no_id)?;
        if let Some(guard) = guard {
            guard.guards(pid);
        }
        Ok((pid, Self::Tokio(Box::new(child))))
    }

    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Pidfd { child, pidfd } => loop {
                let mut ready = ready!(pidfd.poll_read_ready(cx))?;
                match child.try_wait() {
                    Ok(None) => ready.clear_ready(),
                    Ok(Some(status)) => return Poll::Ready(Ok(status)),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            },
            // The future of `wait()` has no state of its own: the waker is in the child.
            Self::Tokio(child) => pin!(child.wait()).poll(cx),
        }
    }

    /// Returns whether it has ended. Reaps it.
    fn try_wait(&mut self) -> bool {
        let ended = match self {
            #[cfg(target_os = "linux")]
            Self::Pidfd { child, .. } => child.try_wait(),
            Self::Tokio(child) => child.try_wait(),
        };
        !matches!(ended, Ok(None))
    }

    fn kill(&self, pid: Pid) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Pidfd { pidfd, .. } => Ok(rustix::process::pidfd_send_signal(pidfd, Signal::KILL)?),
            Self::Tokio(_) => Ok(kill_process(pid, Signal::KILL)?),
        }
    }
}

fn no_id() -> io::Error {
    io::Error::other("the child process has no id")
}

#[cfg(target_os = "linux")]
mod pidfd {
    use std::io;
    use std::process::Command;
    use std::sync::OnceLock;

    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

    use super::{AsyncFd, Child, Guard, Interest, Signal};

    /// Returns whether the system has such descriptors. Linux before 5.3 and some sandboxes do not.
    pub(super) fn is_supported() -> bool {
        static SUPPORTED: OnceLock<bool> = OnceLock::new();
        // A temporary lack of descriptors does not count.
        let open = || !matches!(pidfd_open(getpid(), PidfdFlags::empty()), Err(error) if error != Errno::MFILE);
        *SUPPORTED.get_or_init(open)
    }

    pub(super) fn spawn(mut command: Command, guard: Option<&mut Guard>) -> io::Result<(Pid, Child)> {
        let unwatched = Unwatched(Some(command.spawn()?));
        let pid = unwatched.pid();
        if let (Some(guard), Some(pid)) = (guard, pid) {
            guard.guards(pid);
        }
        let pid = pid.ok_or_else(super::no_id)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        // SAFETY: what is registered owns the descriptor, and never exchanges it.
        let pidfd = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }?;
        Ok((pid, Child::Pidfd { child: unwatched.watched()?, pidfd }))
    }

    /// A child whose end would go unnoticed. Dropped, for example because the runtime ends, it is killed with its group.
    struct Unwatched(Option<std::process::Child>);

    impl Unwatched {
        fn pid(&self) -> Option<Pid> {
            self.0.as_ref().map(Pid::from_child)
        }

        fn watched(mut self) -> io::Result<std::process::Child> {
            self.0.take().ok_or_else(super::no_id)
        }
    }

    impl Drop for Unwatched {
        fn drop(&mut self) {
            let Some(mut child) = self.0.take() else { return };
            super::signal_group(Pid::from_child(&child), Signal::KILL);
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                tracing::warn!(pid = child.id(), %error, "an agent that was just started could not be ended");
            }
        }
    }
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(super) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        if let (None, Some(child)) = (&self.exit, &mut self.child) {
            let exit = match child.poll_exit(cx) {
                Poll::Ready(status) => {
                    self.child = None;
                    end_group(self.pid);
                    self.guard = None;
                    status.map(exit_of).unwrap_or_else(|error| {
                        tracing::warn!(pid = self.pid(), %error, "the agent's exit status is lost: this program ignores \
                            SIGCHLD, or reaps children that are not its own");
                        Exit::default()
                    })
                }
                Poll::Pending => {
                    let error = ready!(self.poll_still_running(cx));
                    tracing::warn!(%error, "the agent is left running");
                    if let Some(child) = self.child.take() {
                        reap_in_background(self.pid, child, self.guard.take(), None);
                    }
                    Exit { still_running: Some(Box::new(error)), ..Exit::default() }
                }
            };
            self.exit = Some(exit);
        }
        Poll::Ready(self.exit.clone().unwrap_or_default())
    }

    /// Is ready if KILL has not ended the process in time.
    fn poll_still_running(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let Some(killed) = &mut self.killed else { return Poll::Pending };
        ready!(killed.poll_deadline(cx));
        Poll::Ready(still_running(self.pid, killed.refused.as_ref()))
    }

    pub(super) fn terminate(&mut self) {
        // Before the process is reaped, its id, which is also the id of the group, cannot be reused. The signal goes to
        // the group only, because the process must not get it twice.
        if self.exit.is_none() {
            signal_group(self.pid, Signal::TERM);
        }
    }

    #[cfg_attr(not(feature = "kimi-web"), allow(dead_code, reason = "only servers are ended so"))]
    pub(super) fn interrupt(&mut self) {
        if self.exit.is_none() {
            signal_group(self.pid, Signal::INT);
        }
    }

    pub(super) fn kill(&mut self) {
        let (None, Some(child)) = (&self.exit, &self.child) else { return };
        signal_group(self.pid, Signal::KILL);
        let refused = child.kill(self.pid).err();
        self.killed.get_or_insert_with(Killed::new).refused = refused;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        if self.is_server && self.killed.is_none() {
            signal_group(self.pid, Signal::INT);
            return reap_in_background(self.pid, child, self.guard.take(), Some(SERVER_END_GRACE));
        }
        signal_group(self.pid, Signal::KILL);
        drop(child.kill(self.pid));
        reap_in_background(self.pid, child, self.guard.take(), None);
    }
}

fn signal_group(leader: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(leader, signal) {
        // The group usually has no members left.
        tracing::trace!(pid = %leader, ?signal, %error, "a process group was not signalled");
    }
}

fn still_running(pid: Pid, refused: Option<&io::Error>) -> Error {
    let why = match refused {
        Some(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            format!("this program may not signal it, because it runs as another user ({error})")
        }
        Some(error) => format!("the signal was refused ({error})"),
        None => "the system has not ended it yet; it may wait for a device or a network file system".to_owned(),
    };
    Error::Timeout(format!(
        "the agent could not be ended: process {pid} still runs {KILL_DEADLINE:?} after SIGKILL: {why}. The session is \
         closed; end the process with `kill -KILL {pid}` as a user who may"
    ).into())
}

/// Waits in the background for the end of a process that was killed, and reaps it. With `grace` the process is killed
/// after this time. If the program ends before, the guard ends the group.
fn reap_in_background(pid: Pid, mut child: Child, guard: Option<Guard>, grace: Option<Duration>) {
    let reap = move || {
        let _guard = guard;
        if let Some(grace) = grace {
            let until = Instant::now() + grace;
            while Instant::now() < until {
                if child.try_wait() {
                    return end_group(pid);
                }
                std::thread::sleep(REAP_INTERVAL);
            }
            signal_group(pid, Signal::KILL);
            drop(child.kill(pid));
        }
        let until = Instant::now() + KILL_DEADLINE;
        let mut warned = false;
        while !child.try_wait() {
            if Instant::now() >= until && !warned {
                warned = true;
                tracing::warn!(%pid, "the agent still runs after SIGKILL");
            }
            std::thread::sleep(if warned { Duration::from_secs(1) } else { REAP_INTERVAL });
        }
        end_group(pid);
    };
    if let Err(error) = std::thread::Builder::new().name("kimi-agent-reap".to_owned()).spawn(reap) {
        signal_group(pid, Signal::KILL);
        tracing::warn!(%pid, %error, "the killed agent is not reaped: no thread for it");
    }
}

/// Kills the rest of the group of a process that has ended, and reaps members that are children of this process.
/// Orphans become its children if it is the first process of a container.
fn end_group(leader: Pid) {
    signal_group(leader, Signal::KILL);
    if !reap_group(leader, WaitOptions::NOHANG) {
        let reap = move || {
            reap_group(leader, WaitOptions::empty());
        };
        if let Err(error) = std::thread::Builder::new().name("kimi-agent-reap".to_owned()).spawn(reap) {
            tracing::warn!(pid = %leader, %error, "the agent's descendants are not reaped: no thread for it");
        }
    }
}

/// Returns whether nothing of the group is left to reap.
fn reap_group(leader: Pid, options: WaitOptions) -> bool {
    loop {
        match waitpgid(leader, options) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), signal: status.signal().map(signal_name), ..Exit::default() }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("SIG{other}"),
    };
    name.to_owned()
}

/// The arguments of `execve`, allocated before the fork.
struct Exec {
    program: CString,
    args: Strings,
    env: Strings,
}

impl Exec {
    fn new(launch: &Launch) -> io::Result<Self> {
        let program = launch.program.as_os_str();
        let args = std::iter::once(program).chain(launch.args.iter().map(OsString::as_os_str)).map(c_string);
        let own: BTreeMap<&OsStr, &OsStr> = launch.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        let inherited =
            std::env::vars_os().filter(|(name, _)| !own.contains_key(&**name) && launch.inherited.has(name));
        let own = own.iter().map(|(name, value)| variable((*name).to_owned(), value));
        let env = inherited.map(|(name, value)| variable(name, &value)).chain(own);
        Ok(Self { program: c_string(program)?, args: Strings::new(args)?, env: Strings::new(env)? })
    }
}

/// C strings, and the list of pointers to them that ends with a null pointer.
struct Strings {
    _strings: Vec<CString>,
    /// Atomic pointers are plain pointers in memory, and may be sent to another thread.
    pointers: Vec<AtomicPtr<c_char>>,
}

impl Strings {
    fn new(strings: impl Iterator<Item = io::Result<CString>>) -> io::Result<Self> {
        let strings = strings.collect::<io::Result<Vec<CString>>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr().cast_mut()).chain([std::ptr::null_mut()]);
        Ok(Self { pointers: pointers.map(AtomicPtr::new).collect(), _strings: strings })
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr().cast()
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn variable(mut name: OsString, value: &OsStr) -> io::Result<CString> {
    // For the `=`, and for the zero at the end.
    name.reserve_exact(value.len() + 2);
    name.push("=");
    name.push(value);
    Ok(CString::new(name.into_vec())?)
}
