//! Processes as Unix has them.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::ptr;
use std::sync::Arc;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::{Exit, watcher};
use crate::options::Launch;

pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// A child that leads a process group.
pub(super) struct Running {
    pid: u32,
    /// Taken by `drop` only.
    child: Option<Child>,
    exit: Option<Exit>,
    /// Given up when nothing of the group is left to be watched.
    place: Option<Arc<watcher::Place>>,
}

/// Starts the program. The calling thread must outlive the child, which dies with it (on Linux).
pub(super) fn start(launch: &Launch) -> io::Result<(Running, Pipes)> {
    let exec = Exec::new(launch)?;
    #[cfg(target_os = "linux")]
    let host = libc::pid_t::try_from(std::process::id()).map_err(io::Error::other)?;
    let place = watcher::place().map(Arc::new);
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
    Ok((Running { pid, child: Some(child), exit: None, place }, Pipes { stdin, stdout, stderr }))
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) async fn wait(&mut self) -> Exit {
        if let (None, Some(child)) = (&self.exit, &mut self.child) {
            // Fails if somebody else in this program has reaped it; then nobody knows.
            let exit = child.wait().await.map(exit_of).unwrap_or_default();
            self.exit = Some(exit);
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
        self.exit.clone().unwrap_or_default()
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
        let Some(mut child) = self.child.take().filter(|_| self.exit.is_none()) else { return };
        signal_group(self.pid, libc::SIGKILL);
        let (pid, place) = (self.pid, self.place.take());
        in_background(move || {
            await_exit(pid);
            drop(place);
            drop(child.try_wait());
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
    Exit { code: status.code(), signal: status.signal().map(signal_name) }
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
struct Exec {
    program: CString,
    argv: Pointers,
    envp: Pointers,
}

impl Exec {
    fn new(launch: &Launch) -> io::Result<Self> {
        let program = launch.program.as_os_str();
        let argv = std::iter::once(program).chain(launch.args.iter().map(OsString::as_os_str));
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        env.extend(launch.env.iter().cloned());
        let env: Vec<OsString> = env
            .into_iter()
            .map(|(mut pair, value)| {
                pair.push("=");
                pair.push(value);
                pair
            })
            .collect();
        Ok(Self {
            program: c_string(program)?,
            argv: Pointers::new(argv)?,
            envp: Pointers::new(env.iter().map(OsString::as_os_str))?,
        })
    }

    /// Returns only if it fails.
    fn run(&self) -> io::Error {
        // SAFETY: all of it lives in `self`, and both lists end with a null pointer.
        unsafe { libc::execve(self.program.as_ptr(), self.argv.pointers.as_ptr(), self.envp.pointers.as_ptr()) };
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
    fn new<'a>(strings: impl Iterator<Item = &'a OsStr>) -> io::Result<Self> {
        let strings = strings.map(c_string).collect::<io::Result<Vec<CString>>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        Ok(Self { _strings: strings, pointers })
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}
