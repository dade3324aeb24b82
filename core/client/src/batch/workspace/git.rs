//! Calls of git. No call runs a program that an agent could have written or named:
//!
//! - Calls in the repository itself ([`Live`]) neither read nor write the files of a worktree. [`NEUTRAL`] and [`OFFLINE`] are
//!   stronger than the configuration of the repository, which an agent can change.
//! - Calls that read or write the files of a worktree ([`Isolated`]) have a git folder of their own. Its configuration is the
//!   one that the user and the repository had when the batch began. So a filter such as Git LFS works, but not a filter that
//!   an agent has added. They do not look into other repositories below the worktree.
//!
//! Each call has a deadline: see [`call`](super::call).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use kimi_agent_files::{PrivateDir, read_regular};
use kimi_agent_protocol::printable::printable_line;

use super::call::{self, CALL, Limits, Output};
use super::filters::unsafe_filters;
use super::places::{check_git_dir, check_repository};
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
/// Settings of each call, in place of those that name a program, start one, or hide changes. Filters are not here: an
/// isolated call has those of the user, and no other call converts files. Hooks that have names: see [`Live::hooks`].
const NEUTRAL: [&str; 15] = [
    if cfg!(windows) { "core.hooksPath=NUL" } else { "core.hooksPath=/dev/null" },
    "hook.post-checkout.enabled=false",
    "hook.post-index-change.enabled=false",
    "hook.reference-transaction.enabled=false",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.pager=cat",
    "core.editor=false",
    "core.alternateRefsCommand=",
    "diff.external=",
    "submodule.recurse=false",
    "gc.auto=0",
    "gc.recentObjectsHook=",
    "maintenance.auto=false",
];
/// Settings and variables of each call, except for the checkout of a partial clone. Without them, git loads a missing object
/// from a remote with a program that the configuration of the repository names: a transport, `core.sshCommand`,
/// `core.gitProxy`, `remote.*.uploadpack`, `credential.helper`, `core.askPass`. An empty list of protocols allows none, in
/// every version of git; since 2.45 git does not begin to load.
const OFFLINE: [&str; 6] = [
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "core.sshCommand=false",
    "core.gitProxy=none",
    "core.askPass=false",
    "credential.helper=",
];
const OFFLINE_VARIABLES: [(&str, &str); 2] = [("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "")];
/// Keys of the configuration that an isolated call does not take over. They name other folders, or programs that no call
/// needs, or hide changes.
const LEFT_OUT: [&str; 27] = [
    "alias.",
    "branch.",
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
    "hook.",
    "include.",
    "includeif.",
    "index.",
    "lfs.extension.",
    "maintenance.",
    "pager.",
    "submodule.",
    "trace2.",
];
/// The largest file of settings that is read, in bytes.
const MAX_SETTINGS: u64 = 16 << 20;
/// A part of git's warning about a folder that it passes over.
const UNREAD: &str = "could not open directory";
/// Files that would give the git folder of an isolated call more configuration.
const NOT_OURS: [&str; 2] = ["commondir", "config.worktree"];

/// The configuration of a repository at the beginning of a batch, before any of its agents runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    /// The text of the file.
    text: Arc<str>,
    /// The files `info/exclude` and `info/attributes`.
    exclude: Arc<[u8]>,
    attributes: Arc<[u8]>,
    objects: PathBuf,
    /// Whether git may have to load objects from the user's remote to check out files.
    is_partial: bool,
    /// Whether git for Windows makes paths above 260 characters.
    has_long_paths: bool,
}

impl Config {
    /// Reads the configuration of the repository with this worktree and this common folder of git.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails.
    pub(super) fn read(top: &Path, common: &Path, limits: &Limits) -> Result<Self, String> {
        let listed = run(top, &["config", "--list", "--includes", "--null"], limits)?;
        let (mut is_partial, mut has_long_paths) = (false, false);
        let mut text = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n".to_owned();
        let mut has_storage = false;
        let entries = listed.split('\0').filter(|entry| !entry.is_empty());
        let entries =
            entries.map(|entry| entry.split_once('\n').map_or((entry, None), |(key, value)| (key, Some(value))));
        let left_out = unsafe_filters(entries.clone(), top);
        for (filter, command) in &left_out {
            let (filter, command) = (&*printable_line(filter), &*printable_line(command));
            tracing::warn!(
                filter,
                command,
                "worktrees do without this filter of git, since an agent could change what its command runs; name a \
                 program outside of the repository by its absolute path"
            );
        }
        let is_left_out = |key: &str| {
            let filter = key.strip_prefix("filter.").and_then(|key| key.rsplit_once('.'));
            filter.is_some_and(|(name, _)| left_out.contains_key(name))
                || LEFT_OUT.iter().any(|prefix| key.starts_with(prefix))
        };
        for (key, value) in entries {
            has_storage |= key == "lfs.storage";
            is_partial |= key == "extensions.partialclone" || key.starts_with("remote.") && key.ends_with(".promisor");
            has_long_paths |= key == "core.longpaths";
            if !is_left_out(key) {
                write_entry(&mut text, key, value);
            }
        }
        if !has_storage {
            // Git LFS would look for its files in the git folder of the call.
            write_entry(&mut text, "lfs.storage", common.join("lfs").to_str());
        }
        let info = |name: &str| {
            // It may be a link of the user.
            let path = fs::canonicalize(common.join("info").join(name)).ok();
            Arc::from(path.and_then(|path| read_regular(&path, MAX_SETTINGS).ok()).unwrap_or_default())
        };
        let (exclude, attributes) = (info("exclude"), info("attributes"));
        let objects = common.join("objects");
        Ok(Self { text: text.into(), exclude, attributes, objects, is_partial, has_long_paths })
    }

    pub(super) fn has_long_paths(&self) -> bool {
        self.has_long_paths
    }

    /// Returns the configuration for a submodule with these objects.
    pub(super) fn of_submodule(&self, objects: PathBuf) -> Self {
        Self { exclude: Arc::default(), attributes: Arc::default(), objects, ..self.clone() }
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

/// Calls of git in the repository, which an agent may have changed.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) top: PathBuf,
    pub(super) git_dir: PathBuf,
    pub(super) common: PathBuf,
    pub(super) has_long_paths: bool,
}

impl Live {
    /// Runs git in the repository. Its configuration for the user and for the system is not read.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails, or a reason why it is not called.
    pub(super) fn run<A: AsRef<OsStr>>(&self, args: &[A], limits: &Limits) -> Result<String, String> {
        check_git_dir(&self.git_dir)?;
        check_repository(&self.common)?;
        let mut settings = self.hooks(limits)?;
        if self.has_long_paths {
            settings.push("core.longPaths=true".to_owned());
        }
        let output = call::run(|| Ok(self.command(&settings, args)), CALL, limits, u64::MAX)?;
        Ok(text(&output.bytes))
    }

    fn command<A: AsRef<OsStr>>(&self, settings: &[String], args: &[A]) -> Command {
        let settings = settings.iter().flat_map(|setting| [OsStr::new("-c"), setting.as_ref()]);
        let args: Vec<_> = settings.chain(args.iter().map(AsRef::as_ref)).collect();
        let mut command = command(&self.top, true, &args);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", NOTHING);
        command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.top);
        command
    }

    /// Returns settings that disable the hooks which the configuration names. Git has them since 2.54.
    ///
    /// # Errors
    /// Returns the problem if a hook cannot be disabled.
    fn hooks(&self, limits: &Limits) -> Result<Vec<String>, String> {
        let list = || Ok(self.command(&[], &["config", "--list", "--includes", "--null", "--name-only"]));
        let listed = text(&call::run(list, CALL, limits, u64::MAX)?.bytes);
        let names = listed.split('\0').filter_map(|key| key.strip_prefix("hook.")?.rsplit_once('.'));
        let settings = names.map(|(name, _)| match name.contains(['=', '\n']) {
            true => Err(format!("the hook {name:?} in the configuration of the repository cannot be disabled")),
            false => Ok(format!("hook.{name}.enabled=false")),
        });
        settings.collect()
    }
}

/// Calls of git in a worktree, with a git folder that only these calls use. It is in a private folder with a random name,
/// which is deleted with the last value.
#[derive(Clone, Debug)]
pub(super) struct Isolated {
    _folder: Arc<PrivateDir>,
    git_dir: PathBuf,
    work_tree: PathBuf,
    index: PathBuf,
    config: Config,
    is_offline: bool,
    limits: Limits,
}

impl Isolated {
    /// Makes the git folder. Make it after the agent has ended, so that the agent cannot change it.
    ///
    /// # Errors
    /// Returns the problem if the folder cannot be made.
    pub(super) fn make(work_tree: &Path, config: &Config, limits: &Limits) -> Result<Self, String> {
        let make = || -> io::Result<(PrivateDir, PathBuf)> {
            let folder = PrivateDir::new()?;
            let git_dir = folder.path().join("git");
            fs::create_dir(&git_dir)?;
            for name in ["objects", "refs", "info"] {
                fs::create_dir(git_dir.join(name))?;
            }
            fs::write(git_dir.join("HEAD"), "ref: refs/heads/none\n")?;
            for (name, content) in settings(config) {
                fs::write(git_dir.join(name), content)?;
            }
            Ok((folder, git_dir))
        };
        let (folder, git_dir) = make().map_err(|error| format!("can't make a git folder: {error}"))?;
        let (index, work_tree) = (git_dir.join("index"), work_tree.to_owned());
        let (config, limits) = (config.clone(), limits.clone());
        Ok(Self { _folder: Arc::new(folder), git_dir, work_tree, index, config, is_offline: true, limits })
    }

    /// Returns the same with another index.
    pub(super) fn with_index(&self, index: PathBuf) -> Self {
        Self { index, ..self.clone() }
    }

    /// Returns the same, with access to the user's remotes if the repository is a partial clone.
    pub(super) fn online(self) -> Self {
        Self { is_offline: !self.config.is_partial, ..self }
    }

    /// Returns the path of a file in the git folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.git_dir.join(name)
    }

    /// Sets the attributes of files, in place of those of the repository.
    ///
    /// # Errors
    /// Returns the problem if the file cannot be written.
    pub(super) fn set_attributes(&mut self, attributes: &[u8]) -> Result<(), String> {
        self.config.attributes = attributes.into();
        fs::write(self.file("info/attributes"), attributes).map_err(|error| error.to_string())
    }

    /// Checks that the settings of the git folder are still those of the SDK.
    ///
    /// # Errors
    /// Returns which file was changed. The results of the calls may be wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_changed = |(name, content): &(&str, &[u8])| {
            read_regular(&self.file(name), content.len() as u64).ok().as_deref() != Some(*content)
        };
        let changed = settings(&self.config).into_iter().find(is_changed).map(|(name, _)| name);
        match changed.or_else(|| NOT_OURS.into_iter().find(|name| fs::symlink_metadata(self.file(name)).is_ok())) {
            Some(name) => Err(format!("another program has changed `{name}` in the SDK's git folder")),
            None => Ok(()),
        }
    }

    fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = command(&self.work_tree, self.is_offline, args);
        for name in CONFIGURING {
            command.env_remove(name);
        }
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", NOTHING);
        command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.work_tree);
        command.env("GIT_INDEX_FILE", &self.index).env("GIT_OBJECT_DIRECTORY", &self.config.objects);
        command
    }

    /// Runs git in the worktree.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails.
    pub(super) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<String, String> {
        let output = call::run(|| Ok(self.command(args)), call::FILES, &self.limits, u64::MAX)?;
        Ok(text(&output.bytes))
    }

    /// Runs git in the worktree, with this input.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails.
    pub(super) fn feed<A: AsRef<OsStr>>(&self, args: &[A], input: &str) -> Result<(), String> {
        self.call(args, input).map(drop)
    }

    /// Runs `git add --all`, with these paths for its input.
    ///
    /// # Errors
    /// Returns the text on stderr if git fails, or leaves out a folder that it cannot open.
    pub(super) fn add_all(&self, paths: &str) -> Result<(), String> {
        let output = self.call(&["add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"], paths)?;
        // Git passes over such a folder with a warning.
        let stderr = text(&output.stderr);
        let unread = stderr.lines().find(|line| line.contains(UNREAD)).map(printable_line);
        unread.map_or(Ok(()), |line| Err(line.into_owned()))
    }

    fn call<A: AsRef<OsStr>>(&self, args: &[A], input: &str) -> Result<Output, String> {
        // A file cannot fill up, as a pipe can.
        let path = self.file("input");
        fs::write(&path, input).map_err(|error| format!("{}: {error}", path.display()))?;
        let command = || {
            let mut command = self.command(args);
            // The messages in English, in the user's encoding.
            command.stdin(fs::File::open(&path)?).env("LANGUAGE", "C");
            Ok(command)
        };
        call::run(command, call::FILES, &self.limits, u64::MAX)
    }

    /// Runs git in the worktree, and returns at most `limit` bytes of its output, and the number of bytes above the limit.
    ///
    /// # Errors
    /// Returns the problem if git fails.
    pub(super) fn read<A: AsRef<OsStr>>(&self, args: &[A], limit: u64) -> Result<(Vec<u8>, u64), String> {
        let output = call::run(|| Ok(self.command(args)), call::FILES, &self.limits, limit)?;
        Ok((output.bytes, output.above))
    }
}

/// Returns the files of an isolated git folder that git reads as settings.
fn settings(config: &Config) -> [(&'static str, &[u8]); 3] {
    [("config", config.text.as_bytes()), ("info/exclude", &config.exclude), ("info/attributes", &config.attributes)]
}

/// Makes a call of git in this directory.
fn command<A: AsRef<OsStr>>(dir: &Path, is_offline: bool, args: &[A]) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut command = helper(program(&path));
    command.arg("-C").arg(dir);
    // For filters, too.
    command.envs(std::env::join_paths(places(&path)).map(|path| ("PATH", path)));
    let offline = if is_offline { &OFFLINE[..] } else { &[] };
    for setting in NEUTRAL.iter().chain(offline) {
        command.args(["-c", setting]);
    }
    command.args(args);
    // Git could ask for a password.
    command.stdin(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0").env("GIT_NO_REPLACE_OBJECTS", "1");
    for name in FOREIGN {
        command.env_remove(name);
    }
    if is_offline {
        command.envs(OFFLINE_VARIABLES);
    }
    command
}

/// Returns the entries of PATH, but not those that are empty or relative: they mean the current directory, from which no program must be
/// started.
fn places(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path).filter(|place| place.is_absolute())
}

/// Returns the path of git. Without git on PATH, the name `git` of a folder that does not exist, so that the start fails.
fn program(path: &OsStr) -> PathBuf {
    let name = if cfg!(windows) { "git.exe" } else { "git" };
    let mut found = places(path).map(|place| place.join(name)).filter(|program| is_program(program));
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

/// Runs git in a directory, with the configuration of the user.
///
/// # Errors
/// Returns the text on stderr if git fails.
pub(super) fn run<A: AsRef<OsStr>>(dir: &Path, args: &[A], limits: &Limits) -> Result<String, String> {
    let output = call::run(|| Ok(command(dir, true, args)), CALL, limits, u64::MAX)?;
    Ok(text(&output.bytes))
}

/// Returns output without the last line end.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\r', '\n']).to_owned()
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tokio::sync::watch;

    use super::*;

    fn limits() -> Limits {
        Limits::new(watch::Sender::new(false).subscribe())
    }

    /// A repository without commits, with these settings.
    fn repository(settings: &[(&str, &str)]) -> (tempfile::TempDir, Live) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().to_owned();
        run(&top, &["init", "--quiet"], &limits()).unwrap();
        for (key, value) in settings {
            run(&top, &["config", key, value], &limits()).unwrap();
        }
        let git_dir = top.join(".git");
        (folder, Live { top, common: git_dir.clone(), git_dir, has_long_paths: false })
    }

    #[test]
    fn named_hooks_are_disabled() {
        let (_folder, live) = repository(&[("hook.a.b.command", "x"), ("hook.a.b.event", "post-checkout")]);
        assert!(live.hooks(&limits()).unwrap().contains(&"hook.a.b.enabled=false".to_owned()));
        let (_folder, live) = repository(&[("hook.a=b.command", "x")]);
        assert!(live.run(&["rev-parse", "--git-dir"], &limits()).unwrap_err().contains("cannot be disabled"));
    }

    /// Git before 2.45 does not know the variable against missing objects. The list of protocols stops it, too.
    #[test]
    fn older_git_loads_no_missing_object() {
        let mark = tempfile::tempdir().unwrap();
        let url = format!("ext::touch {}/mark", mark.path().display());
        let (_folder, live) = repository(&[
            ("core.repositoryformatversion", "1"),
            ("extensions.partialClone", "evil"),
            ("remote.evil.promisor", "true"),
            ("remote.evil.url", &url),
            ("protocol.ext.allow", "always"),
        ]);
        let call = |is_neutral: bool| {
            let mut command = live.command(&[], &["cat-file", "-t", "1234567812345678123456781234567812345678"]);
            command.env_remove("GIT_NO_LAZY_FETCH");
            if !is_neutral {
                command.env("GIT_ALLOW_PROTOCOL", "ext");
            }
            assert!(!command.output().unwrap().status.success());
            mark.path().join("mark").exists()
        };
        assert!(!call(true), "a program of the repository ran");
        assert!(call(false), "the attack has no effect");
    }

    #[test]
    fn changed_settings_of_isolated_git_are_noticed() {
        let (folder, live) = repository(&[]);
        let config = Config::read(&live.top, &live.common, &limits()).unwrap();
        for name in ["config", "info/attributes", "info/exclude", "commondir", "config.worktree"] {
            let mut isolated = Isolated::make(folder.path(), &config, &limits()).unwrap();
            isolated.set_attributes(b"* -diff\n").unwrap();
            assert_eq!(isolated.check(), Ok(()));
            assert!(!isolated.git_dir.starts_with(folder.path()));
            fs::write(isolated.file(name), "* filter=x\n").unwrap();
            assert!(isolated.check().unwrap_err().contains(name));
            let git_dir = isolated.git_dir.clone();
            drop(isolated);
            assert!(!git_dir.exists());
        }
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
}
