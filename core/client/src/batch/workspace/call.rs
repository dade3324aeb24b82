//! One call of git, with a deadline. Its group of processes is ended at the deadline, soon after the batch is cancelled, and
//! with this program.

use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::transport::{Guarded, spawn_guarded};

/// The limit of a call that reads the git folder only.
pub(super) const CALL: Duration = Duration::from_secs(60);
/// The limit of a call that reads or writes the files of a worktree, of which there can be very many.
pub(super) const FILES: Duration = Duration::from_secs(300);
/// The limit of all calls for one job, or for the end of the batch, after the batch was cancelled or took too long.
const AFTER_CANCEL: Duration = Duration::from_secs(10);
/// The delay between two looks at the cancel.
const LOOK: Duration = Duration::from_millis(50);
/// The largest text of an error.
const MAX_ERROR: u64 = 64 << 10;

/// How often git is called if another call of git disturbs it or it is killed, and the delay between two attempts.
const ATTEMPTS: u32 = 20;
const DELAY: Duration = Duration::from_millis(10);

/// How long the calls of git for one job may take.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    cancelled: watch::Receiver<bool>,
    /// When the calls noticed the cancel.
    since: Arc<OnceLock<Instant>>,
}

impl Limits {
    pub(super) fn new(cancelled: watch::Receiver<bool>) -> Self {
        Self { cancelled, since: Arc::default() }
    }

    /// Returns the time at which a call ends that would end at `deadline`.
    fn end(&self, deadline: Instant) -> Instant {
        if !self.is_cancelled() {
            return deadline;
        }
        deadline.min(*self.since.get_or_init(Instant::now) + AFTER_CANCEL)
    }

    /// Returns whether the batch is cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }
}

/// The output of a call.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// The number of bytes that are not in `bytes`.
    pub(super) above: u64,
    /// The beginning of the text on stderr.
    pub(super) stderr: Vec<u8>,
}

/// The bytes of a pipe up to a limit, and the number of those above it.
type Content = (Vec<u8>, u64);

/// A call that has failed.
struct Failed {
    error: String,
    may_repeat: bool,
}

impl Failed {
    fn finally(error: String) -> Self {
        Self { error, may_repeat: false }
    }

    fn new(status: ExitStatus, stderr: &[u8]) -> Self {
        let mut error = String::from_utf8_lossy(stderr).trim().to_owned();
        // Many calls read the files of all worktrees, and fail while another call makes or removes one of them. A signal
        // has ended git if it has no exit code: Ray kills the children of a process before the process itself.
        let may_repeat = error.contains("/worktrees/") || status.code().is_none();
        if error.is_empty() {
            error = format!("git ended with {status}");
        }
        Self { error, may_repeat }
    }
}

/// Calls git, and calls it again if another call has disturbed it or it was killed. Reads at most `max` bytes of its output.
///
/// # Errors
/// Returns the text on stderr if git fails, or that it took too long.
pub(super) fn run(
    mut command: impl FnMut() -> io::Result<Command>,
    limit: Duration,
    limits: &Limits,
    max: u64,
) -> Result<Output, String> {
    let deadline = Instant::now() + limit;
    let prepared = |error: io::Error| Failed::finally(format!("a call of git cannot be prepared: {error}"));
    let mut attempt = || command().map_err(prepared).and_then(|command| attempt(command, deadline, limits, max));
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(Failed { error, may_repeat: true }) => {
                tracing::debug!(error, "git has failed because of another call, or was killed; it is called again");
                thread::sleep(DELAY);
            }
            done => return done.map_err(|failed| failed.error),
        }
    }
    attempt().map_err(|failed| failed.error)
}

fn attempt(mut command: Command, deadline: Instant, limits: &Limits, max: u64) -> Result<Output, Failed> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C in a terminal reaches the whole group of processes, and git must not end before the directories are removed.
    // On Windows a helper has a console of its own, which Ctrl-C does not reach.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut git = spawn_guarded(&mut command).map_err(|error| {
        Failed::finally(match error.kind() {
            io::ErrorKind::NotFound => "the program `git` was not found on PATH".to_owned(),
            _ => format!("git cannot be started: {error}"),
        })
    })?;
    match wait(&mut git, deadline, limits, max) {
        Ok(Some((status, output))) if status.success() => Ok(output),
        Ok(Some((status, output))) => Err(Failed::new(status, &output.stderr)),
        Ok(None) => {
            git.end();
            let reason = if limits.is_cancelled() { "soon after the batch was cancelled" } else { "in time" };
            Err(Failed::finally(format!("git did not end {reason}, and was killed")))
        }
        Err(error) => {
            git.end();
            Err(Failed::finally(format!("the output of git cannot be read: {error}")))
        }
    }
}

/// Waits until git has ended. `None` at the deadline.
fn wait(git: &mut Guarded, deadline: Instant, limits: &Limits, max: u64) -> io::Result<Option<(ExitStatus, Output)>> {
    let stdout = read(git.child.stdout.take(), max)?;
    let stderr = read(git.child.stderr.take(), MAX_ERROR)?;
    let Some((bytes, above)) = receive(&stdout, deadline, limits)? else { return Ok(None) };
    let Some((stderr, _)) = receive(&stderr, deadline, limits)? else { return Ok(None) };
    // The output ends with the process, or a moment before.
    while Instant::now() < limits.end(deadline) {
        if let Some(status) = git.child.try_wait()? {
            return Ok(Some((status, Output { bytes, above, stderr })));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(None)
}

/// Reads a pipe to its end in a thread of its own, which ends with the pipe.
fn read(pipe: Option<impl Read + Send + 'static>, max: u64) -> io::Result<mpsc::Receiver<io::Result<Content>>> {
    let (sender, receiver) = mpsc::channel();
    let mut pipe = pipe.ok_or(io::ErrorKind::BrokenPipe)?;
    thread::Builder::new().name("kimi-agent-git".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.by_ref().take(max).read_to_end(&mut bytes);
        let read = read.and_then(|_| io::copy(&mut pipe, &mut io::sink()));
        sender.send(read.map(|above| (bytes, above))).ok();
    })?;
    Ok(receiver)
}

/// Waits for the content of a pipe. `None` at the deadline.
fn receive(
    pipe: &mpsc::Receiver<io::Result<Content>>,
    deadline: Instant,
    limits: &Limits,
) -> io::Result<Option<Content>> {
    loop {
        let left = limits.end(deadline).saturating_duration_since(Instant::now());
        match pipe.recv_timeout(left.min(LOOK)) {
            Ok(content) => return content.map(Some),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(mpsc::RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use super::*;

    fn limits(is_cancelled: bool) -> Limits {
        Limits::new(watch::Sender::new(is_cancelled).subscribe())
    }

    /// Runs a script in place of git.
    fn outcome(script: &str, folder: &Path, limit: Duration, limits: &Limits) -> Result<String, String> {
        let command = || {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder);
            Ok(command)
        };
        run(command, limit, limits, u64::MAX).map(|output| String::from_utf8(output.bytes).unwrap())
    }

    fn calls(folder: &Path) -> usize {
        std::fs::read(folder.join("calls")).unwrap().len()
    }

    #[test]
    fn disturbed_call_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let disturbed = "echo >> calls; echo 'failed to read .git/worktrees/a/commondir: Success' >&2; false";
        let passes = format!("[ -e calls ] && echo done || {{ {disturbed}; }}");
        assert_eq!(outcome(&passes, folder.path(), CALL, &limits(false)), Ok("done\n".to_owned()));
        std::fs::remove_file(folder.path().join("calls")).unwrap();
        assert!(outcome(disturbed, folder.path(), CALL, &limits(false)).unwrap_err().contains("commondir"));
        assert_eq!(calls(folder.path()), ATTEMPTS as usize);
    }

    #[test]
    fn killed_call_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let passes = "[ -e calls ] && echo done || { echo >> calls; kill -KILL $$; }";
        assert_eq!(outcome(passes, folder.path(), CALL, &limits(false)), Ok("done\n".to_owned()));
        let killed = outcome("kill -KILL $$", folder.path(), CALL, &limits(false));
        assert_eq!(killed, Err("git ended with signal: 9 (SIGKILL)".to_owned()));
    }

    #[test]
    fn other_errors_are_final() {
        let folder = tempfile::tempdir().unwrap();
        let failed = outcome("echo >> calls; echo 'fatal: no' >&2; false", folder.path(), CALL, &limits(false));
        assert_eq!((failed, calls(folder.path())), (Err("fatal: no".to_owned()), 1));
    }

    /// A call that waits for a pipe, with a child that does the same.
    const HANGS: &str = "mkfifo never; echo >> calls; (exec cat never) <&0 & cat never; wait";

    #[test]
    fn deadline_kills_group_of_call() {
        let folder = tempfile::tempdir().unwrap();
        let (mut alive, held) = io::pipe().unwrap();
        let command = || {
            let mut command = Command::new("sh");
            command.args(["-c", HANGS]).current_dir(folder.path()).stdin(held.try_clone()?);
            Ok(command)
        };
        let failed = run(command, Duration::from_millis(300), &limits(false), u64::MAX).unwrap_err();
        assert!(failed.contains("did not end in time"), "{failed}");
        drop(held);
        // Ends when all processes of the group have ended.
        assert_eq!(alive.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(!folder.path().join("calls").exists() || calls(folder.path()) == 1);
    }

    #[test]
    fn cancelled_batch_shortens_a_call() {
        let folder = tempfile::tempdir().unwrap();
        let limits = limits(true);
        // As if the batch had been cancelled some time ago.
        limits.since.set(Instant::now().checked_sub(AFTER_CANCEL).unwrap()).unwrap();
        let failed = outcome(HANGS, folder.path(), Duration::from_secs(100_000), &limits).unwrap_err();
        assert!(failed.contains("soon after the batch was cancelled"), "{failed}");
    }

    #[test]
    fn large_output_is_cut() {
        let command = || {
            let mut command = Command::new("sh");
            command.args(["-c", "printf 123456"]);
            Ok(command)
        };
        let output = run(command, CALL, &limits(false), 4).unwrap();
        assert_eq!((&output.bytes[..], output.above), (&b"1234"[..], 2));
    }
}
