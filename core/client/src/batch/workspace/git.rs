//! Calls of git.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::transport::helper;

/// Variables that would lead git to another repository, for example in a hook of git.
const FOREIGN: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"];

/// How often git is called if another call of git disturbs it or it is killed, and the delay between two attempts.
const ATTEMPTS: u32 = 20;
const DELAY: Duration = Duration::from_millis(10);

/// A worktree, for calls in it. The agent can change the file that names its repository, so git does not read that file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The folder of the worktree.
    pub(super) path: PathBuf,
    /// The folder of git for this worktree.
    pub(super) git_dir: PathBuf,
}

impl Place {
    fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = command(&self.path, args);
        command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.path);
        command
    }

    /// Runs git in the worktree.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails.
    pub(super) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<String, String> {
        output(self.command(args))
    }

    /// Runs git in the worktree, and returns at most `limit` bytes of its output, and the number of bytes above the limit.
    ///
    /// # Errors
    /// Returns the problem if git fails.
    pub(super) fn read<A: AsRef<OsStr>>(&self, args: &[A], limit: u64) -> Result<(Vec<u8>, u64), String> {
        repeated(|| {
            let mut command = self.command(args);
            command.stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().map_err(|error| not_started(&error))?;
            let mut bytes = Vec::new();
            let mut above = 0;
            if let Some(mut stdout) = child.stdout.take() {
                let read = stdout.by_ref().take(limit).read_to_end(&mut bytes);
                above = read.and_then(|_| io::copy(&mut stdout, &mut io::sink())).map_err(|error| error.to_string())?;
            }
            let status = child.wait().map_err(|error| error.to_string())?;
            if status.success() { Ok((bytes, above)) } else { Err(Failed::new(status, &[])) }
        })
    }
}

/// Makes a call of git in this directory. The hooks of the repository do not run.
fn command<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Command {
    let mut command = helper("git");
    let hooks = if cfg!(windows) { "core.hooksPath=NUL" } else { "core.hooksPath=/dev/null" };
    command.arg("-C").arg(dir).args(["-c", hooks, "-c", "core.fsmonitor=false"]).args(args);
    // Git could ask for a password, for example to load missing files of a partial clone.
    command.stdin(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0");
    for name in FOREIGN {
        command.env_remove(name);
    }
    // Ctrl-C in a terminal reaches the whole group of processes, and git must not end before the directories are removed.
    // On Windows a helper has a console of its own, which Ctrl-C does not reach.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

/// Runs git, and returns its output without the last line end.
///
/// # Errors
/// Returns the text on stderr if git fails.
pub(super) fn run<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Result<String, String> {
    output(command(dir, args))
}

fn output(mut command: Command) -> Result<String, String> {
    repeated(|| {
        let output = command.output().map_err(|error| not_started(&error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches(['\r', '\n']).to_owned());
        }
        Err(Failed::new(output.status, &output.stderr))
    })
}

/// A call of git that has failed.
struct Failed {
    error: String,
    may_repeat: bool,
}

impl Failed {
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

impl From<String> for Failed {
    fn from(error: String) -> Self {
        Self { error, may_repeat: false }
    }
}

/// Calls git, and calls it again if another call has disturbed it or it was killed.
fn repeated<T>(mut call: impl FnMut() -> Result<T, Failed>) -> Result<T, String> {
    for _ in 1..ATTEMPTS {
        match call() {
            Err(Failed { error, may_repeat: true }) => {
                tracing::debug!(error, "git has failed because of another call, or was killed; it is called again");
                std::thread::sleep(DELAY);
            }
            done => return done.map_err(|failed| failed.error),
        }
    }
    call().map_err(|failed| failed.error)
}

fn not_started(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "the program `git` was not found on PATH".to_owned();
    }
    format!("git cannot be started: {error}")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Runs a script in place of git.
    fn outcome(script: &str, folder: &Path) -> Result<String, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder);
        output(command)
    }

    #[test]
    fn disturbed_call_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let disturbed = "echo >> calls; echo 'failed to read .git/worktrees/a/commondir: Success' >&2; false";
        let passes = format!("[ -e calls ] && echo done || {{ {disturbed}; }}");
        assert_eq!(outcome(&passes, folder.path()), Ok("done".to_owned()));
        std::fs::remove_file(folder.path().join("calls")).unwrap();
        assert!(outcome(disturbed, folder.path()).unwrap_err().contains("commondir"));
        assert_eq!(std::fs::read(folder.path().join("calls")).unwrap().len(), ATTEMPTS as usize);
    }

    #[test]
    fn killed_call_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let passes = "[ -e calls ] && echo done || { echo >> calls; kill -KILL $$; }";
        assert_eq!(outcome(passes, folder.path()), Ok("done".to_owned()));
        assert_eq!(outcome("kill -KILL $$", folder.path()), Err("git ended with signal: 9 (SIGKILL)".to_owned()));
    }

    #[test]
    fn other_errors_are_final() {
        let folder = tempfile::tempdir().unwrap();
        let failed = outcome("echo >> calls; echo 'fatal: no' >&2; false", folder.path());
        assert_eq!(failed, Err("fatal: no".to_owned()));
        assert_eq!(std::fs::read(folder.path().join("calls")).unwrap(), b"\n");
    }
}
