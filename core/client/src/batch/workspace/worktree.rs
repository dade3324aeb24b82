//! Worktrees of git, one for each attempt, on a branch `kimi-agent/BATCH/JOB`.
//!
//! Each batch locks a file in the folder `kimi-agent` of the repository. If the process is killed, the system releases that
//! lock, so a later batch knows that the branches and worktrees of the dead batch can be deleted. The file names the machine,
//! because a lock on a shared file system may not be visible on other machines.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kimi_agent_files::read_regular;
use sha2::{Digest as _, Sha256};

use super::call::Limits;
use super::git::{self, Config, Isolated, Live};
use super::machine::Machine;
use super::places::{AdminDir, check_objects, check_worktree, read_line};
use super::wrong;
use crate::Result;

/// The beginning of the names of branches.
const BRANCHES: &str = "kimi-agent/";
/// The folder of the lock files in the repository.
const LOCKS: &str = "kimi-agent";
/// The ending of the names of lock files.
const LOCK: &str = ".lock";
/// The largest lock file that is read.
const MAX_LOCK: u64 = 4096;
/// The most branches that one call of git deletes.
const MAX_BRANCHES: usize = 100;
/// The mode of a submodule in git's index.
const MODE_OF_SUBMODULE: &str = "160000";
/// The index of the worktree at its beginning. It is next to the worktree, where a sandboxed agent cannot write.
const FIRST_INDEX: &str = ".index";
/// The delay between two attempts to lock a file.
const DELAY: Duration = Duration::from_millis(20);
/// The largest diff of a result, in bytes.
const MAX_DIFF: u64 = 64 << 20;

/// The repositories in which a batch has worktrees.
#[derive(Debug)]
pub(super) struct Repositories {
    batch: String,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the working directory. An agent could lead git from there to another repository.
    places: HashMap<PathBuf, Place>,
    /// The locked repositories, by their folder of git.
    used: HashMap<PathBuf, Used>,
}

/// A repository that the batch has locked.
#[derive(Debug)]
struct Used {
    live: Live,
    lock: PathBuf,
    file: File,
    config: Config,
}

/// A repository, as a working directory sees it.
#[derive(Clone, Debug)]
struct Place {
    live: Live,
    prefix: PathBuf,
    config: Config,
}

/// A repository with the commit at which a worktree begins.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    live: Live,
    /// The path of the working directory in the repository.
    pub(super) prefix: PathBuf,
    /// The commit of `HEAD`.
    commit: String,
    batch: Arc<str>,
    config: Config,
}

impl Repositories {
    pub(super) fn new(batch: &str) -> Self {
        Self { batch: batch.to_owned(), known: Mutex::default() }
    }

    /// Returns the repository of a working directory. The first call deletes what dead batches have left there.
    ///
    /// # Errors
    /// `InvalidOption` if the directory is not in a repository, or the repository has no commit.
    pub(super) fn open(&self, work_dir: &Path, limits: &Limits) -> Result<Repository> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match known.places.get(work_dir) {
            Some(place) => place.clone(),
            None => {
                let place = self.find(work_dir, &mut known.used, limits)?;
                known.places.insert(work_dir.to_owned(), place.clone());
                place
            }
        };
        drop(known);
        let Place { live, prefix, config } = place;
        let head = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let commit = live.run(&head, limits).map_err(|error| {
            let shown = work_dir.display();
            // Without a commit, git fails without a text.
            let is_quiet = error.starts_with("git ended");
            let reason = if is_quiet { "the repository has none; commit first" } else { &error };
            wrong(format!("\"worktree\" needs a commit of the repository of {shown}, but {reason}"))
        })?;
        Ok(Repository { live, prefix, commit, batch: self.batch.as_str().into(), config })
    }

    fn find(&self, work_dir: &Path, used: &mut HashMap<PathBuf, Used>, limits: &Limits) -> Result<Place> {
        let shown = work_dir.display();
        let ask = |question: &str| git::run(work_dir, &["rev-parse", question], limits);
        let top = ask("--show-toplevel").map_err(|error| {
            wrong(format!("\"worktree\" needs a git repository with files, but {shown} has none: {error}"))
        })?;
        let prefix = ask("--show-prefix").map_err(wrong)?.trim_end_matches('/').into();
        let (top, git_dir) = (PathBuf::from(top), ask("--absolute-git-dir").map_err(wrong)?.into());
        let common = work_dir.join(ask("--git-common-dir").map_err(wrong)?);
        let common = fs::canonicalize(common).map_err(|error| wrong(format!("{shown}: {error}")))?;
        let config = match used.get(&common) {
            Some(used) => used.config.clone(),
            None => Config::read(&top, &common, limits).map_err(wrong)?,
        };
        let live = Live { top, git_dir, common: common.clone(), has_long_paths: config.has_long_paths() };
        if let Entry::Vacant(entry) = used.entry(common) {
            let locks = entry.key().join(LOCKS);
            let (file, lock) = self.lock(&locks, limits)?;
            delete_left(&live, find_dead(&locks, true), limits);
            entry.insert(Used { live: live.clone(), lock, file, config: config.clone() });
        }
        Ok(Place { live, prefix, config })
    }

    /// Locks the file of this batch in the repository.
    fn lock(&self, folder: &Path, limits: &Limits) -> Result<(File, PathBuf)> {
        let path = folder.join(format!("{}{LOCK}", self.batch));
        let attempts = super::call::CALL.as_millis() / DELAY.as_millis();
        let made = (|| {
            for _ in 0..attempts {
                fs::create_dir_all(folder)?;
                let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
                match file.try_lock() {
                    Ok(()) => {}
                    // Another batch looks whether this one runs.
                    Err(TryLockError::WouldBlock) if !limits.is_cancelled() => {
                        std::thread::sleep(DELAY);
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
                // Another batch may have deleted the file before it was locked.
                if path.exists() {
                    file.write_all(Machine::this().to_line().as_bytes())?;
                    return Ok(file);
                }
            }
            Err(io::Error::other("another program has locked it"))
        })();
        made.map(|file| (file, path.clone()))
            .map_err(|error: io::Error| wrong(format!("can't write {}: {error}", path.display())))
    }

    /// Deletes what batches have left that died meanwhile, and the branches of this batch that git did not delete before.
    pub(super) fn close(&self, limits: &Limits) {
        let used = std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner)).used;
        for (_, Used { live, lock, file, .. }) in used {
            let Some(locks) = lock.parent() else { continue };
            let mut ended = find_dead(locks, false);
            ended.insert(self.batch.clone(), (file, lock.clone()));
            delete_left(&live, ended, limits);
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
        // Not a pipe, which would have no end.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(entry.path()) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let mut line = String::new();
        // The file is empty if the process was killed before it wrote the line.
        let is_read = (&mut file).take(MAX_LOCK).read_to_string(&mut line).is_ok();
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
fn delete_left(live: &Live, ended: HashMap<String, (File, PathBuf)>, limits: &Limits) {
    if ended.is_empty() {
        return;
    }
    // A branch without a lock file may be one of the user.
    let has_ended = |branch: &str| batch_of(branch).is_some_and(|batch| ended.contains_key(batch));
    let mut kept = HashSet::new();
    for admin in AdminDir::all(&live.common) {
        let (Some(path), Some(branch)) = (admin.worktree(), admin.branch()) else { continue };
        // A kept worktree is in a folder without a lock file. The folder of another one may have been swept.
        let has_lock = path.parent().is_some_and(|folder| folder.join("lock").exists());
        let is_left = fs::symlink_metadata(&path).is_err() || has_lock && admin.is_linked(&path);
        if is_left && has_ended(&branch) {
            fs::remove_dir_all(&path).ok();
            admin.remove();
        } else {
            kept.insert(branch);
        }
    }
    let left = || {
        let listed = live.run(&["for-each-ref", "--format=%(refname:short)", "refs/heads/kimi-agent/"], limits);
        let branches = listed.inspect_err(|error| tracing::warn!(error, "git does not list the branches")).ok()?;
        let is_left = |branch: &&str| has_ended(branch) && !kept.contains(*branch);
        Some(branches.lines().filter(is_left).map(str::to_owned).collect::<Vec<_>>())
    };
    for branches in left().unwrap_or_default().chunks(MAX_BRANCHES) {
        let args =
            [&["branch", "-D", "--quiet"], &branches.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
        if let Err(error) = live.run(&args, limits) {
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

/// Returns whether the new version in a line of `git diff --raw` is a submodule.
fn has_submodule(line: &str) -> bool {
    line.split(' ').nth(1) == Some(MODE_OF_SUBMODULE)
}

/// Returns whether a folder exists and is not empty.
fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Returns the identity of a folder, which one that replaces it does not have. `None` for a link, or anything else.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir).map(|found| id_of(&found))
}

#[cfg(unix)]
fn id_of(found: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;

    (found.dev(), found.ino())
}

#[cfg(not(unix))]
fn id_of(_found: &fs::Metadata) -> (u64, u64) {
    (0, 0)
}

/// A submodule in the index: the object, and the path in the worktree.
struct Submodule {
    object: String,
    path: String,
}

/// The worktree of an attempt.
#[derive(Debug)]
pub(super) struct Worktree {
    live: Live,
    path: PathBuf,
    /// The folder of git for this worktree, which the agent can change.
    admin: AdminDir,
    branch: String,
    commit: String,
    config: Config,
    /// The identity of the folder, which another one in its place does not have.
    identity: Option<(u64, u64)>,
    /// Its index at the beginning.
    index: FirstIndex,
}

/// The index with which a worktree began. Git reads a file that was written in the second of the index or later, although its size
/// and its times are those of the index.
#[derive(Debug, Default)]
struct FirstIndex {
    length: u64,
    hash: [u8; 32],
    written: Option<SystemTime>,
}

impl Worktree {
    /// Makes a worktree with a new branch at the commit of `HEAD`.
    ///
    /// # Errors
    /// `InvalidOption` with the text of git.
    pub(super) fn add(repository: &Repository, name: &str, path: &Path, limits: &Limits) -> Result<Self> {
        let branch = format!("{BRANCHES}{}/{name}", repository.batch);
        let mut worktree = Self {
            live: repository.live.clone(),
            path: path.to_owned(),
            admin: AdminDir::default(),
            branch: branch.clone(),
            commit: repository.commit.clone(),
            config: repository.config.clone(),
            identity: None,
            index: FirstIndex::default(),
        };
        match worktree.check_out(limits) {
            Ok(()) => Ok(worktree),
            Err(error) => {
                worktree.remove(limits);
                Err(wrong(format!("git cannot make a worktree: {error}")))
            }
        }
    }

    fn check_out(&mut self, limits: &Limits) -> std::result::Result<(), String> {
        // An attempt that failed may have made the branch, so it may exist.
        let args = ["worktree", "add", "--quiet", "--no-track", "--no-checkout", "-B", &self.branch];
        let args = args.map(AsRef::<OsStr>::as_ref);
        self.live.run(&[&args[..], &[self.path.as_os_str(), self.commit.as_ref()]].concat(), limits)?;
        let place = || format!("the git folder of the worktree {} is not found", self.path.display());
        self.admin = AdminDir::of(&self.path, &self.live.common).ok_or_else(place)?;
        let failed = |error: io::Error| format!("{}: {error}", self.admin.0.display());
        self.admin.set_branch(&self.branch).map_err(failed)?;
        let isolated = Isolated::make(&self.path, &self.config, limits)?.online();
        // Of a repository with a sparse checkout.
        if let Ok(patterns) = read_regular(&self.admin.0.join("info/sparse-checkout"), u64::MAX) {
            fs::write(isolated.file("info/sparse-checkout"), patterns).map_err(failed)?;
        }
        let index = self.admin.0.join("index");
        isolated.with_index(index.clone()).run(&["read-tree", "--reset", "-u", &self.commit])?;
        let bytes = read_regular(&index, u64::MAX).map_err(failed)?;
        let written = fs::symlink_metadata(&index).and_then(|found| found.modified()).map_err(failed)?;
        let (length, hash) = (bytes.len() as u64, Sha256::digest(&bytes).into());
        self.index = FirstIndex { length, hash, written: Some(written) };
        fs::write(self.first_index(), bytes).map_err(failed)?;
        self.identity = identity(&self.path);
        Ok(())
    }

    fn first_index(&self) -> PathBuf {
        self.path.with_file_name(FIRST_INDEX)
    }

    /// Writes the index of the worktree at its beginning.
    fn write_first_index(&self, isolated: &Isolated) -> std::result::Result<(), String> {
        let FirstIndex { length, hash, written } = self.index;
        let bytes = read_regular(&self.first_index(), length).ok();
        let bytes = bytes.filter(|bytes| <[u8; 32]>::from(Sha256::digest(bytes)) == hash);
        let (Some(bytes), Some(written)) = (bytes, written) else {
            // The agent has changed it. Without it, git reads all files.
            return isolated.run(&["read-tree", &self.commit]).map(drop);
        };
        let write = || {
            let mut file = File::create_new(isolated.file("index"))?;
            file.write_all(&bytes)?;
            file.set_modified(written)
        };
        write().map_err(|error: io::Error| error.to_string())
    }

    /// Checks that the folder is still the one that was made.
    fn check_identity(&self) -> std::result::Result<(), String> {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            return Ok(());
        }
        Err("another folder or a link is in place of the worktree".to_owned())
    }

    /// Returns the changes since the commit with which it began: those of new commits, and those of files that git does not
    /// know and does not ignore. Called after the session was closed. The agent can change everything in the worktree and in
    /// its git folder: see [`git`].
    ///
    /// # Errors
    /// Returns the reason why a diff cannot contain all changes.
    pub(super) fn diff(&self, limits: &Limits) -> std::result::Result<String, String> {
        self.check_identity()?;
        let with_git = check_worktree(&self.path)?;
        check_objects(&self.live.common.join("objects"))?;
        let mut isolated = Isolated::make(&self.path, &self.config, limits)?;
        self.write_first_index(&isolated)?;
        let diff = self.diff_with(&mut isolated, limits)?;
        self.check_left_out(&isolated, &with_git)?;
        isolated.check()?;
        self.check_identity()?;
        Ok(diff)
    }

    fn diff_with(&self, isolated: &mut Isolated, limits: &Limits) -> std::result::Result<String, String> {
        let submodules = self.submodules(isolated)?;
        let left: Vec<_> = submodules.iter().filter(|submodule| self.path.join(&submodule.path).is_dir()).collect();
        for submodule in &left {
            self.check_submodule(submodule, limits)?;
        }
        // Git would look for changes in a submodule, with the configuration that is in it.
        let paths: String = submodules.iter().flat_map(|submodule| [submodule.path.as_str(), "\0"]).collect();
        isolated.feed(&["update-index", "--force-remove", "-z", "--stdin"], &paths)?;
        let excluded = left.iter().map(|submodule| format!(":(top,exclude,literal){}\0", submodule.path));
        let paths: String = std::iter::once(":(top)\0".to_owned()).chain(excluded).collect();
        isolated.add_all(&paths)?;
        self.add_known(isolated, &left)?;
        let entries =
            left.iter().map(|submodule| format!("{MODE_OF_SUBMODULE} {}\t{}\0", submodule.object, submodule.path));
        isolated.feed(&["update-index", "-z", "--index-info"], &entries.collect::<String>())?;
        let raw = ["diff", "--raw", "--no-abbrev", "--ignore-submodules=none", "--cached", &self.commit];
        // A new repository looks like a submodule, too. The diff names only its commit, which is lost with the worktree.
        if isolated.run(&raw)?.lines().any(has_submodule) {
            return Err("it contains a new repository, or a submodule with changes".to_owned());
        }
        if let Ok(diff) = String::from_utf8(Self::read_diff(isolated, &self.commit)?) {
            return Ok(diff);
        }
        // In another encoding. As binary files the changes are ASCII.
        isolated.set_attributes(b"* -diff\n")?;
        let diff = Self::read_diff(isolated, &self.commit)?;
        String::from_utf8(diff).map_err(|_| "it contains text that is not UTF-8".to_owned())
    }

    /// Checks that git knows the folders with an entry `.git` as submodules, or ignores them: the files in such an entry are in no diff.
    fn check_left_out(&self, isolated: &Isolated, with_git: &[PathBuf]) -> std::result::Result<(), String> {
        if with_git.is_empty() {
            return Ok(());
        }
        let submodules = self.submodules(isolated)?;
        for folder in with_git {
            let inner = folder.strip_prefix(&self.path).unwrap_or(folder);
            let is_known = submodules.iter().any(|submodule| inner.starts_with(&submodule.path));
            let is_ignored = || isolated.run(&["check-ignore".as_ref(), "--quiet".as_ref(), inner.as_os_str()]).is_ok();
            if !is_known && !is_ignored() {
                return Err(format!("git leaves out the files of {}", folder.join(".git").display()));
            }
        }
        Ok(())
    }

    /// Adds the files that git ignores and that the agent has added nevertheless.
    fn add_known(&self, isolated: &Isolated, submodules: &[&Submodule]) -> std::result::Result<(), String> {
        let index = self.admin.0.join("index");
        if !fs::symlink_metadata(&index).is_ok_and(|found| found.is_file()) {
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
    fn check_submodule(&self, submodule: &Submodule, limits: &Limits) -> std::result::Result<(), String> {
        let folder = self.path.join(&submodule.path);
        let shown = folder.display();
        let changed = || format!("it contains a new repository, or a submodule with changes, {shown}");
        // A folder above it may be a link, too.
        let real = fs::canonicalize(&self.path).map(|path| path.join(&submodule.path));
        if fs::canonicalize(&folder).ok() != real.ok() {
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
            let text = read_line(&folder.join(".git")).ok_or_else(changed)?;
            folder.join(text.trim().strip_prefix("gitdir: ").ok_or_else(changed)?)
        };
        // Another commit, or a branch, would be lost with the worktree.
        if read_line(&git_dir.join("HEAD")).is_none_or(|head| head.trim() != submodule.object) {
            return Err(changed());
        }
        let config = self.config.of_submodule(git_dir.join("objects"));
        let isolated = Isolated::make(&folder, &config, limits)?;
        isolated.run(&["read-tree", &submodule.object])?;
        if !self.submodules(&isolated)?.is_empty() {
            return Err(format!("it contains a submodule with submodules, {shown}"));
        }
        isolated.add_all(":(top)\0")?;
        let diff = ["diff", "--raw", "--ignore-submodules=none", "--cached", &submodule.object];
        let is_empty = isolated.run(&diff)?.is_empty();
        isolated.check()?;
        if is_empty { Ok(()) } else { Err(changed()) }
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

    /// Removes the worktree from the repository, and its branch. Its folder is deleted with the private folder around it.
    pub(super) fn remove(self, limits: &Limits) {
        let AdminDir(known) = &self.admin;
        if known.as_os_str().is_empty() {
            // Git has not made all of it.
            AdminDir::all(&self.live.common)
                .filter(|admin| admin.worktree().as_deref() == Some(&*self.path))
                .for_each(|admin| admin.remove());
        }
        self.admin.remove();
        if let Err(error) = self.live.run(&["branch", "-D", "--quiet", &self.branch], limits) {
            tracing::debug!(branch = self.branch, error, "git does not delete the branch of a job");
        }
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
