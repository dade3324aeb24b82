//! Processes as Unix has them.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::{Exit, vfork, watcher};
use crate::options::Launch;

pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// How a child's end is told.
enum Told {
    /// By tokio.
    Tokio(Box<Child>),
    /// By a descriptor of its own.
    Pidfd(vfork::Pidfd),
}

/// A child that leads a process group.
pub(super) struct Running {
    pid: u32,
    /// None once it has ended.
    child: Option<Told>,
    exit: Option<Exit>,
    /// Given up when nothing of the group is left to be watched.
    place: Option<Arc<watcher::Place>>,
}

/// A child that runs, and whose pipes the runtime may not know of yet. Dropped, it is ended.
pub(super) enum Started {
    Known(Running, Pipes),
    Unknown(Running, vfork::Pipes),
}

/// Starts the program. The calling thread must outlive the child, which dies with it (on Linux), and must be in the
/// runtime's context. What it takes is made here, for one child after the other: who opens many sessions at once would
/// have as many copies of the environment.
pub(super) fn start(launch: &Launch) -> io::Result<Started> {
    let exec = Exec::new(launch)?;
    let place = watcher::place().map(Arc::new);
    if vfork::is_possible() {
        match vfork::start(&exec, c_string(launch.current_dir.as_os_str())?, place.as_deref()) {
            Err(error) if vfork::is_refused(&error) => tracing::debug!(%error, "agents are forked, which costs more"),
            Err(error) => return Err(error),
            Ok(vfork::Started { pid, pidfd, pipes }) => {
                let child = Some(Told::Pidfd(pidfd));
                return Ok(Started::Unknown(Running { pid, child, exit: None, place }, pipes));
            }
        }
    }
    let (running, pipes) = fork(launch, exec, place)?;
    Ok(Started::Known(running, pipes))
}

fn fork(launch: &Launch, exec: Exec, place: Option<Arc<watcher::Place>>) -> io::Result<(Running, Pipes)> {
    #[cfg(target_os = "linux")]
    let host = libc::pid_t::try_from(std::process::id()).map_err(io::Error::other)?;
    let entered = place.clone();
    let mut command = Command::new(&launch.program);
    command
        .current_dir(&launch.current_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // SAFETY: between fork and exec only system calls are made; all memory has been allocated before.
    unsafe {
        command.pre_exec(move || {
            #[cfg(target_os = "linux")]
            {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == -1 {
                    return Err(io::Error::last_os_error());
                }
                // The host may have died before the signal was set.
                if libc::getppid() != host {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            if let Some(place) = &entered {
                place.enter();
            }
            let error = exec.run();
            if let Some(place) = &entered {
                place.leave();
            }
            Err(error)
        });
    }
    let mut child = command.spawn()?;
    // With it goes its share in the place.
    drop(command);
    let pid = child.id();
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(pid), (Some(stdin), Some(stdout), Some(stderr))) = (pid, pipes) else {
        return Err(io::Error::other("the child has no pipes"));
    };
    let child = Some(Told::Tokio(Box::new(child)));
    Ok((Running { pid, child, exit: None, place }, Pipes { stdin, stdout, stderr }))
}

impl Started {
    /// Makes its pipes and its end known to the runtime. Panics where that has no I/O.
    pub(super) fn register(self) -> io::Result<(Running, Pipes)> {
        match self {
            Self::Known(running, pipes) => Ok((running, pipes)),
            Self::Unknown(mut running, pipes) => {
                if let Some(Told::Pidfd(pidfd)) = &mut running.child {
                    pidfd.register()?;
                }
                Ok((running, pipes.register()?))
            }
        }
    }
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        if let (None, Some(child)) = (&self.exit, &mut self.child) {
            let status = match child {
                // All that it knows of who waits is in the child.
                Told::Tokio(child) => ready!(pin!(child.wait()).poll(cx)),
                Told::Pidfd(pidfd) => ready!(pidfd.poll_exit(self.pid, cx)),
            };
            // Fails if somebody else in this program has reaped it; then nobody knows.
            self.exit = Some(status.map(exit_of).unwrap_or_default());
            self.child = None;
            // Nobody is there any more to end its descendants in good order.
            signal_group(self.pid, libc::SIGKILL);
            self.place = None;
            if !reap_group(self.pid, libc::WNOHANG) {
                let pid = self.pid;
                in_background(move || {
                    reap_group(pid, 0);
                });
            }
        }
        Poll::Ready(self.exit.clone().unwrap_or_default())
    }

    pub(super) fn terminate(&mut self) {
        self.signal(libc::SIGTERM);
    }

    pub(super) fn kill(&mut self) {
        self.signal(libc::SIGKILL);
    }

    fn signal(&self, signal: i32) {
        // Until it has been reaped its id, which is the group's, can't be anybody else's.
        if self.exit.is_none() {
            signal_group(self.pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        signal_group(self.pid, libc::SIGKILL);
        let (pid, place) = (self.pid, self.place.take());
        let known = match child {
            Told::Tokio(child) => Some(child),
            Told::Pidfd(_) => None,
        };
        in_background(move || {
            await_exit(pid);
            drop(place);
            drop(known.map(|mut child| child.try_wait()));
            reap_group(pid, 0);
        });
    }
}

/// Runs what takes as long as the system needs to end a killed process: moments, but not on the caller's time.
fn in_background(job: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name("kimi-agent-reap".to_owned()).spawn(job) {
        tracing::warn!(%error, "an agent that was killed is not reaped");
    }
}

fn signal_group(leader: u32, signal: i32) {
    if let Ok(group) = libc::pid_t::try_from(leader) {
        // SAFETY: a system call without pointers. It fails where the group is gone, which is as good.
        unsafe { libc::killpg(group, signal) };
    }
}

/// Blocks until the child has ended, and leaves it to be reaped.
fn await_exit(pid: u32) {
    loop {
        // SAFETY: `waitid` writes to `info`, for which zeros are valid.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT)
        };
        if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// Reaps what the group's leader left behind: orphans become our children where we are the first process, as in a
/// container. Whether none is left.
fn reap_group(leader: u32, flags: i32) -> bool {
    let Ok(group) = libc::pid_t::try_from(leader) else { return true };
    loop {
        // SAFETY: the status may be null.
        match unsafe { libc::waitpid(-group, ptr::null_mut(), flags) } {
            0 => return false,
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return true,
            _ => {}
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), signal: status.signal().map(signal_name), reason: None }
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

/// All that `execve` takes, allocated before the fork. The standard library's own `execvp` would hand a file that the
/// kernel refuses to the shell, which reports something else, or nothing.
pub(super) struct Exec {
    program: CString,
    argv: Pointers,
    envp: Pointers,
}

impl Exec {
    fn new(launch: &Launch) -> io::Result<Self> {
        let program = launch.program.as_os_str();
        let argv = std::iter::once(program).chain(launch.args.iter().map(OsString::as_os_str)).map(c_string);
        let laid_over: BTreeMap<&OsStr, &OsStr> = launch.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        let inherited = std::env::vars_os().filter(|(name, _)| !laid_over.contains_key(&**name));
        let own = laid_over.iter().map(|(name, value)| variable((*name).to_owned(), value));
        let envp = inherited.map(|(name, value)| variable(name, &value)).chain(own);
        Ok(Self { program: c_string(program)?, argv: Pointers::new(argv)?, envp: Pointers::new(envp)? })
    }

    /// The program, its arguments and its environment. Valid as long as `self` is.
    pub(super) fn pointers(&self) -> (*const c_char, *const *const c_char, *const *const c_char) {
        (self.program.as_ptr(), self.argv.pointers.as_ptr(), self.envp.pointers.as_ptr())
    }

    /// Returns only if it fails.
    fn run(&self) -> io::Error {
        let (program, argv, envp) = self.pointers();
        // SAFETY: all of it lives in `self`, and both lists end with a null pointer.
        unsafe { libc::execve(program, argv, envp) };
        io::Error::last_os_error()
    }
}

struct Pointers {
    _strings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers are to the strings beside them, which are never changed.
unsafe impl Send for Pointers {}
// SAFETY: as above.
unsafe impl Sync for Pointers {}

impl Pointers {
    fn new(strings: impl Iterator<Item = io::Result<CString>>) -> io::Result<Self> {
        let strings = strings.collect::<io::Result<Vec<CString>>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        Ok(Self { _strings: strings, pointers })
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn variable(mut name: OsString, value: &OsStr) -> io::Result<CString> {
    // The sign, and the zero at the end.
    name.reserve_exact(value.len() + 2);
    name.push("=");
    name.push(value);
    Ok(CString::new(name.into_vec())?)
}
