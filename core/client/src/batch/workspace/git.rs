//! Calls of git. No call runs a program that an agent could have written or named:
//!
//! - Calls in the repository itself ([`run`]) neither read nor write the files of a worktree, and have no hooks, no monitor of
//!   the file system and no pager.
//! - Calls that read or write the files of a worktree ([`Isolated`]) have a git folder of their own. Its configuration is the
//!   one that the user and the repository had when the batch began. So a filter such as Git LFS works, but not a filter that
//!   an agent has added. They do not look into other repositories below the worktree.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::transport::helper;

/// Variables that would lead git to another repository, for example in a hook of git.
const FOREIGN: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_ATTR_SOURCE",
];
/// Variables with more configuration. Their values are part of [`Config`].
const CONFIGURING: [&str; 4] = ["GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_EXTERNAL_DIFF"];

const NOTHING: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };
/// Configuration of each call.
const NEUTRAL: [&str; 9] = [
    if cfg!(windows) { "core.hooksPath=NUL" } else { "core.hooksPath=/dev/null" },
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.pager=cat",
    "core.alternateRefsCommand=",
    "diff.external=",
    "submodule.recurse=false",
    "gc.auto=0",
];
/// Keys of the configuration that an isolated call does not take over. They name other folders, or programs that no call
/// needs, or hide changes.
const LEFT_OUT: [&str; 23] = [
    "alias.",
    "core.askpass",
    "core.bare",
    "core.checkstat",
    "core.editor",
    "core.fsmonitor",
    "core.hookspath",
    "core.ignorestat",
    "core.pager",
    "core.repositoryformatversion",
    "core.splitindex",
    "core.trustctime",
    "core.untrackedcache",
    "core.worktree",
    "extensions.refstorage",
    "extensions.worktreeconfig",
    "gpg.",
    "include.",
    "includeif.",
    "index.",
    "pager.",
    "submodule.",
    "trace2.",
];

/// How often git is called if another call of git disturbs it or it is killed, and the delay between two attempts.
const ATTEMPTS: u32 = 20;
const DELAY: Duration = Duration::from_millis(10);

/// The configuration of a repository at the beginning of a batch, before any of its agents runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    /// The text of the file.
    text: Arc<str>,
    /// The files `info/exclude` and `info/attributes`.
    exclude: Arc<[u8]>,
    attributes: Arc<[u8]>,
    objects: PathBuf,
}

impl Config {
    /// Reads the configuration of the repository with this worktree and this common folder of git.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails.
    pub(super) fn read(top: &Path, common: &Path) -> Result<Self, String> {
        let listed = run(top, &["config", "--list", "--includes", "--null"])?;
        let mut text = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n".to_owned();
        let mut has_storage = false;
        for entry in listed.split('\0').filter(|entry| !entry.is_empty()) {
            let (key, value) = entry.split_once('\n').map_or((entry, None), |(key, value)| (key, Some(value)));
            has_storage |= key == "lfs.storage";
            if !LEFT_OUT.iter().any(|prefix| key.starts_with(prefix)) {
                write_entry(&mut text, key, value);
            }
        }
        if !has_storage {
            // Git LFS would look for its files in the git folder of the call.
            write_entry(&mut text, "lfs.storage", common.join("lfs").to_str());
        }
        let info = |name: &str| Arc::from(fs::read(common.join("info").join(name)).unwrap_or_default());
        let (exclude, attributes) = (info("exclude"), info("attributes"));
        Ok(Self { text: text.into(), exclude, attributes, objects: common.join("objects") })
    }

    /// Returns the configuration for a submodule with these objects.
    pub(super) fn of_submodule(&self, objects: PathBuf) -> Self {
        Self { text: Arc::clone(&self.text), exclude: Arc::default(), attributes: Arc::default(), objects }
    }
}

/// Writes an entry of a configuration file. An entry that cannot be written is left out.
fn write_entry(text: &mut String, key: &str, value: Option<&str>) {
    let Some((section, name)) = key.rsplit_once('.') else { return };
    let (section, part) = section.split_once('.').map_or((section, None), |(section, part)| (section, Some(part)));
    let is_plain = |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    if !is_plain(section) || !is_plain(name) || part.is_some_and(|part| part.contains(['\n', '\0'])) {
        return;
    }
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    match part {
        Some(part) => text.push_str(&format!("[{section} \"{}\"]\n", quoted(part))),
        None => text.push_str(&format!("[{section}]\n")),
    }
    match value {
        Some(value) => {
            let value = quoted(value).replace('\n', "\\n").replace('\t', "\\t");
            text.push_str(&format!("\t{name} = \"{value}\"\n"));
        }
        None => text.push_str(&format!("\t{name}\n")),
    }
}

/// Calls of git in a worktree, with a git folder that only these calls use.
#[derive(Debug)]
pub(super) struct Isolated {
    git_dir: PathBuf,
    work_tree: PathBuf,
    index: PathBuf,
    objects: PathBuf,
}

impl Isolated {
    /// Makes the git folder, in place of an earlier one.
    ///
    /// # Errors
    /// Returns the problem if the folder cannot be made.
    pub(super) fn make(git_dir: PathBuf, work_tree: &Path, config: &Config) -> Result<Self, String> {
        let make = || -> io::Result<()> {
            match fs::remove_dir_all(&git_dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            fs::create_dir(&git_dir)?;
            for folder in ["objects", "refs", "info"] {
                fs::create_dir(git_dir.join(folder))?;
            }
            fs::write(git_dir.join("HEAD"), "ref: refs/heads/none\n")?;
            fs::write(git_dir.join("config"), config.text.as_bytes())?;
            fs::write(git_dir.join("info/exclude"), &config.exclude)?;
            fs::write(git_dir.join("info/attributes"), &config.attributes)
        };
        make().map_err(|error| format!("{}: {error}", git_dir.display()))?;
        let index = git_dir.join("index");
        Ok(Self { git_dir, work_tree: work_tree.to_owned(), index, objects: config.objects.clone() })
    }

    /// Returns the same with another index.
    pub(super) fn with_index(&self, index: PathBuf) -> Self {
        let Self { git_dir, work_tree, objects, .. } = self;
        Self { git_dir: git_dir.clone(), work_tree: work_tree.clone(), index, objects: objects.clone() }
    }

    /// Returns the path of a file in the git folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.git_dir.join(name)
    }

    fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = command(&self.work_tree, args);
        for name in CONFIGURING {
            command.env_remove(name);
        }
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", NOTHING).env("GIT_NO_REPLACE_OBJECTS", "1");
        command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.work_tree);
        command.env("GIT_INDEX_FILE", &self.index).env("GIT_OBJECT_DIRECTORY", &self.objects);
        command
    }

    /// Runs git in the worktree.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails.
    pub(super) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<String, String> {
        output(self.command(args))
    }

    /// Runs git in the worktree, with this input.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails.
    pub(super) fn feed<A: AsRef<OsStr>>(&self, args: &[A], input: &str) -> Result<(), String> {
        // A file cannot fill up, as a pipe can.
        let path = self.file("input");
        fs::write(&path, input).map_err(|error| format!("{}: {error}", path.display()))?;
        repeated(|| {
            let mut command = self.command(args);
            command.stdin(fs::File::open(&path).map_err(|error| error.to_string())?);
            let output = command.output().map_err(|error| not_started(&error))?;
            if output.status.success() { Ok(()) } else { Err(Failed::new(output.status, &output.stderr)) }
        })
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

/// Makes a call of git in this directory.
fn command<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Command {
    let mut command = helper(program(&std::env::var_os("PATH").unwrap_or_default()));
    command.arg("-C").arg(dir);
    for setting in NEUTRAL {
        command.args(["-c", setting]);
    }
    command.args(args);
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

/// Returns the path of git. An entry of PATH that is empty or relative means the current directory, from which no program
/// must be started. Without git on PATH, the name `git` of a folder that does not exist, so that the start fails.
fn program(path: &OsStr) -> PathBuf {
    let places = std::env::split_paths(path).filter(|place| place.is_absolute());
    let name = if cfg!(windows) { "git.exe" } else { "git" };
    let mut found = places.map(|place| place.join(name)).filter(|program| is_program(program));
    found.next().unwrap_or_else(|| Path::new(if cfg!(windows) { r"C:\" } else { "/" }).join("missing").join(name))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
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
    fn relative_entries_of_path_are_skipped() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join("git");
        std::fs::write(&git, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
        let with = |before: &str| program(format!("{before}:{}", folder.path().display()).as_ref());
        assert_eq!(
            [with(""), with("."), with("bin:../bin"), with("/no/such")],
            [&git, &git, &git, &git].map(PathBuf::clone)
        );
        assert!(!program("".as_ref()).exists() && !program(".:".as_ref()).exists());
    }

    #[test]
    fn other_errors_are_final() {
        let folder = tempfile::tempdir().unwrap();
        let failed = outcome("echo >> calls; echo 'fatal: no' >&2; false", folder.path());
        assert_eq!(failed, Err("fatal: no".to_owned()));
        assert_eq!(std::fs::read(folder.path().join("calls")).unwrap(), b"\n");
    }
}
