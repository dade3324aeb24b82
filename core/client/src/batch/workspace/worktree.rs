//! Worktrees of git, one for each attempt, on a branch `kimi-agent/BATCH/JOB`.
//!
//! Each batch locks a file in the folder `kimi-agent` of the repository. If the process is killed, the system releases that
//! lock, so a later batch knows that the branches and worktrees of the dead batch can be deleted. The file names the machine,
//! because a lock on a shared file system may not be visible on other machines.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::git::{self, Config, Isolated};
use super::machine::Machine;
use super::wrong;
use crate::Result;

/// The beginning of the names of branches.
const BRANCHES: &str = "kimi-agent/";
/// The folder of the lock files in the repository.
const LOCKS: &str = "kimi-agent";
/// The ending of the names of lock files.
const LOCK: &str = ".lock";
/// The most branches that one call of git deletes.
const MAX_BRANCHES: usize = 100;
/// The mode of a submodule in git's index.
const MODE_OF_SUBMODULE: &str = "160000";
/// The git folder of the SDK's calls in a worktree, the index of the worktree at its beginning, and the git folder for a
/// submodule. They are next to the worktree, where a sandboxed agent cannot write.
const OWN_GIT: &str = ".git-of-sdk";
const FIRST_INDEX: &str = ".index";
const GIT_OF_SUBMODULE: &str = ".git-of-submodule";
/// The largest diff of a result, in bytes.
const MAX_DIFF: u64 = 64 << 20;

/// The repositories in which a batch has worktrees.
#[derive(Debug)]
pub(super) struct Repositories {
    batch: String,
    /// By their folder of git.
    used: Mutex<HashMap<PathBuf, Used>>,
}

/// A repository that the batch has locked.
#[derive(Debug)]
struct Used {
    top: PathBuf,
    lock: PathBuf,
    file: File,
    config: Config,
}

/// A repository, as a working directory sees it.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    top: PathBuf,
    /// The path of the working directory in the repository.
    pub(super) prefix: PathBuf,
    /// The commit of `HEAD`.
    commit: String,
    batch: Arc<str>,
    config: Config,
}

impl Repositories {
    pub(super) fn new(batch: &str) -> Self {
        Self { batch: batch.to_owned(), used: Mutex::default() }
    }

    /// Returns the repository of a working directory. The first call deletes what dead batches have left there.
    ///
    /// # Errors
    /// `InvalidOption` if the directory is not in a repository, or the repository has no commit.
    pub(super) fn open(&self, work_dir: &Path) -> Result<Repository> {
        let shown = work_dir.display();
        let top = git::run(work_dir, &["rev-parse", "--show-toplevel"]).map_err(|error| {
            wrong(format!("\"worktree\" needs a git repository with files, but {shown} has none: {error}"))
        })?;
        let commit = git::run(work_dir, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).map_err(|_| {
            wrong(format!("\"worktree\" needs a commit, but the repository of {shown} has none; commit first"))
        })?;
        let prefix = git::run(work_dir, &["rev-parse", "--show-prefix"]).map_err(wrong)?;
        let common = git::run(work_dir, &["rev-parse", "--git-common-dir"]).map_err(wrong)?;
        let top = PathBuf::from(top);
        let common = fs::canonicalize(work_dir.join(common)).map_err(|error| wrong(format!("{shown}: {error}")))?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let config = match used.entry(common) {
            Entry::Occupied(entry) => entry.get().config.clone(),
            Entry::Vacant(entry) => {
                let config = Config::read(&top, entry.key()).map_err(wrong)?;
                let locks = entry.key().join(LOCKS);
                let (file, lock) = self.lock(&locks)?;
                delete_left(&top, find_dead(&locks, true));
                entry.insert(Used { top: top.clone(), lock, file, config: config.clone() });
                config
            }
        };
        let (prefix, batch) = (prefix.trim_end_matches('/').into(), self.batch.as_str().into());
        Ok(Repository { top, prefix, commit, batch, config })
    }

    /// Locks the file of this batch in the repository.
    fn lock(&self, folder: &Path) -> Result<(File, PathBuf)> {
        let path = folder.join(format!("{}{LOCK}", self.batch));
        let made = (|| loop {
            fs::create_dir_all(folder)?;
            let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
            file.lock()?;
            // Another batch may have deleted the file before it was locked.
            if path.exists() {
                file.write_all(Machine::this().to_line().as_bytes())?;
                return Ok(file);
            }
        })();
        made.map(|file| (file, path.clone()))
            .map_err(|error: std::io::Error| wrong(format!("can't write {}: {error}", path.display())))
    }

    /// Deletes what batches have left that died meanwhile, and the branches of this batch that git did not delete before.
    pub(super) fn close(&self) {
        for (_, Used { top, lock, file, .. }) in self.used.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            let Some(locks) = lock.parent() else { continue };
            let mut ended = find_dead(locks, false);
            ended.insert(self.batch.clone(), (file, lock.clone()));
            delete_left(&top, ended);
            // Fails if other batches have files there.
            fs::remove_dir(locks).ok();
        }
    }
}

/// Locks the files of batches whose processes have ended, and returns them by the id of the batch. Batches of other machines are
/// left, because they may still run.
fn find_dead(locks: &Path, logs_foreign: bool) -> HashMap<String, (File, PathBuf)> {
    let mut dead = HashMap::new();
    for entry in fs::read_dir(locks).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(batch) = name.to_str().and_then(|name| name.strip_suffix(LOCK)) else { continue };
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(entry.path()) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let mut line = String::new();
        // The file is empty if the process was killed before it wrote the line.
        let is_read = file.read_to_string(&mut line).is_ok();
        match Machine::parse(&line) {
            _ if line.is_empty() && is_read => {}
            Some(machine) if machine.is_this() => {}
            machine => {
                let host = machine.map(|machine| machine.host).unwrap_or_default();
                if logs_foreign {
                    let remedy = format!(
                        "if no batch runs on {host} any more, delete {}; then remove its worktrees in `git worktree list` with \
                         `git worktree remove --force PATH`, and its branches `{BRANCHES}{batch}/*` with `git branch -D`",
                        entry.path().display()
                    );
                    tracing::info!(host, batch, remedy, "worktrees of a batch of another machine are kept");
                }
                continue;
            }
        }
        dead.insert(batch.to_owned(), (file, entry.path()));
    }
    dead
}

/// Deletes the worktrees and branches of batches that have ended, unless they were kept, and their lock files. The lock file
/// of a batch stays if a branch stays, so that the next batch deletes both.
fn delete_left(top: &Path, ended: HashMap<String, (File, PathBuf)>) {
    if ended.is_empty() {
        return;
    }
    // A branch without a lock file may be one of the user.
    let has_ended = |branch: &str| batch_of(branch).is_some_and(|batch| ended.contains_key(batch));
    let mut kept = HashSet::new();
    for (path, branch) in worktrees(top) {
        // A kept worktree is in a folder without a lock file. The folder of another one may have been swept.
        let is_left = !path.exists() || path.parent().is_some_and(|folder| folder.join("lock").exists());
        if is_left && has_ended(&branch) {
            remove_worktree(top, &path);
        } else {
            kept.insert(branch);
        }
    }
    let left = || {
        let listed = git::run(top, &["for-each-ref", "--format=%(refname:short)", "refs/heads/kimi-agent/"]);
        let branches = listed.inspect_err(|error| tracing::warn!(error, "git does not list the branches")).ok()?;
        let is_left = |branch: &&str| has_ended(branch) && !kept.contains(*branch);
        Some(branches.lines().filter(is_left).map(str::to_owned).collect::<Vec<_>>())
    };
    for branches in left().unwrap_or_default().chunks(MAX_BRANCHES) {
        let args =
            [&["branch", "-D", "--quiet"], &branches.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
        if let Err(error) = git::run(top, &args) {
            tracing::warn!(error, "git does not delete branches of a batch; the next batch tries again");
        }
    }
    let left = left();
    let left: Option<HashSet<_>> =
        left.as_ref().map(|left| left.iter().filter_map(|branch| batch_of(branch)).collect());
    for (batch, (file, path)) in &ended {
        // Locked while the file is deleted, so that a batch which is about to lock it notices.
        if left.as_ref().is_some_and(|left| !left.contains(batch.as_str())) {
            fs::remove_file(path).ok();
        }
        file.unlock().ok();
    }
}

/// Returns the id of the batch in the name of a branch.
fn batch_of(branch: &str) -> Option<&str> {
    branch.strip_prefix(BRANCHES)?.split_once('/').map(|(batch, _)| batch)
}

/// Returns the worktrees of batches, with their branches.
fn worktrees(top: &Path) -> Vec<(PathBuf, String)> {
    let listed = git::run(top, &["worktree", "list", "--porcelain"]).unwrap_or_default();
    let mut path = PathBuf::new();
    let mut found = Vec::new();
    for line in listed.lines() {
        if let Some(worktree) = line.strip_prefix("worktree ") {
            path = worktree.into();
        } else if let Some(branch) = line.strip_prefix("branch refs/heads/")
            && branch.starts_with(BRANCHES)
        {
            found.push((path.clone(), branch.to_owned()));
        }
    }
    found
}

/// Removes a worktree. Never prunes: a worktree of the user may be on a disk that is not mounted.
fn remove_worktree(top: &Path, path: &Path) {
    // Twice: the agent may have locked it.
    let args = ["worktree", "remove", "--force", "--force"].map(AsRef::<OsStr>::as_ref);
    let remove = || git::run(top, &[&args[..], &[path.as_os_str()]].concat());
    if remove().is_err() {
        // The agent may have deleted the link to the repository. Git removes a worktree whose folder is missing.
        fs::remove_dir_all(path).ok();
        if let Err(error) = remove() {
            tracing::debug!(path = %path.display(), error, "git does not remove a worktree");
        }
    }
}

/// Returns whether the new version in a line of `git diff --raw` is a submodule.
fn has_submodule(line: &str) -> bool {
    line.split(' ').nth(1) == Some(MODE_OF_SUBMODULE)
}

/// Returns whether a folder exists and is not empty.
fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Reads a small regular file. The agent may have made something else of it.
fn read_small(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A submodule in the index: the object, and the path in the worktree.
struct Submodule {
    object: String,
    path: String,
}

/// The worktree of an attempt.
#[derive(Debug)]
pub(super) struct Worktree {
    top: PathBuf,
    path: PathBuf,
    /// The folder of git for this worktree, which the agent can change.
    git_dir: PathBuf,
    branch: String,
    commit: String,
    config: Config,
}

impl Worktree {
    /// Makes a worktree with a new branch at the commit of `HEAD`.
    ///
    /// # Errors
    /// `InvalidOption` with the text of git.
    pub(super) fn add(repository: &Repository, name: &str, path: &Path) -> Result<Self> {
        let branch = format!("{BRANCHES}{}/{name}", repository.batch);
        let mut worktree = Self {
            top: repository.top.clone(),
            path: path.to_owned(),
            git_dir: PathBuf::new(),
            branch: branch.clone(),
            commit: repository.commit.clone(),
            config: repository.config.clone(),
        };
        match worktree.check_out() {
            Ok(()) => Ok(worktree),
            Err(error) => {
                worktree.remove();
                Err(wrong(format!("git cannot make a worktree: {error}")))
            }
        }
    }

    fn check_out(&mut self) -> std::result::Result<(), String> {
        // An attempt that failed may have made the branch, so it may exist.
        let args = ["worktree", "add", "--quiet", "--no-track", "--no-checkout", "-B", &self.branch];
        let args = args.map(AsRef::<OsStr>::as_ref);
        git::run(&self.top, &[&args[..], &[self.path.as_os_str(), self.commit.as_ref()]].concat())?;
        self.git_dir = git::run(&self.path, &["rev-parse", "--absolute-git-dir"])?.into();
        let isolated = self.isolated()?;
        // Of a repository with a sparse checkout.
        fs::copy(self.git_dir.join("info/sparse-checkout"), isolated.file("info/sparse-checkout")).ok();
        let index = self.git_dir.join("index");
        isolated.with_index(index.clone()).run(&["read-tree", "--reset", "-u", &self.commit])?;
        fs::copy(&index, self.beside(FIRST_INDEX)).map_err(|error| format!("{}: {error}", index.display()))?;
        Ok(())
    }

    /// Returns the path of a file next to the worktree.
    fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    fn isolated(&self) -> std::result::Result<Isolated, String> {
        Isolated::make(self.beside(OWN_GIT), &self.path, &self.config)
    }

    /// Returns the changes since the commit with which it began: those of new commits, and those of files that git does not
    /// know and does not ignore. Called after the session was closed. The agent can change everything in the worktree and in
    /// its git folder: see [`git`].
    ///
    /// # Errors
    /// Returns the reason why a diff cannot contain all changes.
    pub(super) fn diff(&self) -> std::result::Result<String, String> {
        let isolated = self.isolated()?;
        // In the index of the agent, flags could hide changes.
        fs::copy(self.beside(FIRST_INDEX), isolated.file("index")).map_err(|error| error.to_string())?;
        let submodules = self.submodules(&isolated)?;
        let left: Vec<_> = submodules.iter().filter(|submodule| self.path.join(&submodule.path).is_dir()).collect();
        for submodule in &left {
            self.check_submodule(submodule)?;
        }
        // Git would look for changes in a submodule, with the configuration that is in it.
        let paths: String = submodules.iter().flat_map(|submodule| [submodule.path.as_str(), "\0"]).collect();
        isolated.feed(&["update-index", "--force-remove", "-z", "--stdin"], &paths)?;
        let excluded = left.iter().map(|submodule| format!(":(top,exclude,literal){}\0", submodule.path));
        let paths: String = std::iter::once(":(top)\0".to_owned()).chain(excluded).collect();
        isolated.feed(&["add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"], &paths)?;
        self.add_known(&isolated, &left)?;
        let entries =
            left.iter().map(|submodule| format!("{MODE_OF_SUBMODULE} {}\t{}\0", submodule.object, submodule.path));
        isolated.feed(&["update-index", "-z", "--index-info"], &entries.collect::<String>())?;
        let raw = ["diff", "--raw", "--no-abbrev", "--ignore-submodules=none", "--cached", &self.commit];
        // A new repository looks like a submodule, too. The diff names only its commit, which is lost with the worktree.
        if isolated.run(&raw)?.lines().any(has_submodule) {
            return Err("it contains a new repository, or a submodule with changes".to_owned());
        }
        if let Ok(diff) = String::from_utf8(Self::read_diff(&isolated, &self.commit)?) {
            return Ok(diff);
        }
        // In another encoding. As binary files the changes are ASCII.
        fs::write(isolated.file("info/attributes"), "* -diff\n").map_err(|error| error.to_string())?;
        let diff = Self::read_diff(&isolated, &self.commit)?;
        String::from_utf8(diff).map_err(|_| "it contains text that is not UTF-8".to_owned())
    }

    /// Adds the files that git ignores and that the agent has added nevertheless.
    fn add_known(&self, isolated: &Isolated, submodules: &[&Submodule]) -> std::result::Result<(), String> {
        let index = self.git_dir.join("index");
        if !index.exists() {
            return Ok(());
        }
        let of_agent = isolated.with_index(index).run(&["ls-files", "-z"])?;
        let known = isolated.run(&["ls-files", "-z"])?;
        let known: HashSet<_> = known.split('\0').collect();
        let is_within = |path: &str| {
            submodules.iter().any(|submodule| {
                path.strip_prefix(&submodule.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let missing = of_agent.split('\0').filter(|path| !path.is_empty() && !known.contains(path) && !is_within(path));
        let paths: String = missing.flat_map(|path| [path, "\0"]).collect();
        isolated.feed(&["update-index", "--add", "--remove", "-z", "--stdin"], &paths)
    }

    /// Returns the submodules, also those that `.gitmodules` does not name.
    ///
    /// # Errors
    /// Returns the text of git.
    fn submodules(&self, isolated: &Isolated) -> std::result::Result<Vec<Submodule>, String> {
        // Paths with special characters are quoted, unless zeros end them.
        let listed = isolated.run(&["ls-files", "--stage", "-z"])?;
        let entries = listed.split('\0').filter_map(|entry| entry.split_once('\t'));
        let submodules = entries.filter_map(|(head, path)| {
            let object = head.strip_prefix(MODE_OF_SUBMODULE)?.split_whitespace().next()?;
            Some(Submodule { object: object.to_owned(), path: path.to_owned() })
        });
        Ok(submodules.collect())
    }

    /// Checks that a submodule is as the commit has it: not checked out, or checked out without changes.
    ///
    /// # Errors
    /// Returns what is in the submodule.
    fn check_submodule(&self, submodule: &Submodule) -> std::result::Result<(), String> {
        let folder = self.path.join(&submodule.path);
        let shown = folder.display();
        let changed = || format!("it contains a new repository, or a submodule with changes, {shown}");
        if fs::symlink_metadata(&folder).is_ok_and(|found| found.is_symlink()) {
            return Err(changed());
        }
        if !has_files(&folder) {
            return Ok(());
        }
        let Ok(link) = fs::symlink_metadata(folder.join(".git")) else {
            return Err(format!("it contains files in a submodule that is not checked out, {shown}"));
        };
        let git_dir = if link.is_dir() {
            folder.join(".git")
        } else {
            let text = read_small(&folder.join(".git")).ok_or_else(changed)?;
            folder.join(text.trim().strip_prefix("gitdir: ").ok_or_else(changed)?)
        };
        // Another commit, or a branch, would be lost with the worktree.
        if read_small(&git_dir.join("HEAD")).is_none_or(|head| head.trim() != submodule.object) {
            return Err(changed());
        }
        let config = self.config.of_submodule(git_dir.join("objects"));
        let isolated = Isolated::make(self.beside(GIT_OF_SUBMODULE), &folder, &config)?;
        isolated.run(&["read-tree", &submodule.object])?;
        if !self.submodules(&isolated)?.is_empty() {
            return Err(format!("it contains a submodule with submodules, {shown}"));
        }
        isolated.run(&["add", "--all", "."])?;
        let diff = ["diff", "--raw", "--ignore-submodules=none", "--cached", &submodule.object];
        if isolated.run(&diff)?.is_empty() { Ok(()) } else { Err(changed()) }
    }

    fn read_diff(isolated: &Isolated, commit: &str) -> std::result::Result<Vec<u8>, String> {
        let args = ["diff", "--cached", "--no-color", "--no-ext-diff", "--no-textconv", "--binary", "--no-relative"];
        let submodules = ["--ignore-submodules=none", "--submodule=short"];
        let prefixes = ["--src-prefix=a/", "--dst-prefix=b/", commit];
        let (bytes, above) = isolated.read(&[&args[..], &submodules, &prefixes].concat(), MAX_DIFF)?;
        if above > 0 {
            return Err(format!("they have more than {} MiB", MAX_DIFF >> 20));
        }
        Ok(bytes)
    }

    /// Removes the worktree and its branch.
    pub(super) fn remove(self) {
        remove_worktree(&self.top, &self.path);
        if let Err(error) = git::run(&self.top, &["branch", "-D", "--quiet", &self.branch]) {
            tracing::debug!(branch = self.branch, error, "git does not delete the branch of a job");
        }
    }
}
