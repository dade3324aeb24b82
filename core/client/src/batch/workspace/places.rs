//! Files that git and the SDK read in places where an agent can write: the folders of git, and worktrees. A pipe there would
//! stop git, so it is not called if one is found.

use std::fs;
use std::path::{Path, PathBuf};

use kimi_agent_files::read_regular;
use walkdir::WalkDir;

/// The folder of git with the folders of worktrees.
const WORKTREES: &str = "worktrees";
/// The file in the folder of a worktree that names its branch. The agent can check out another branch.
const BRANCH: &str = "kimi-agent-branch";
/// The longest line that is read.
const MAX_LINE: u64 = 8 << 10;
/// How many entries of a worktree, or of a folder of objects, are looked at. Git has a deadline, too.
const MAX_ENTRIES: usize = 100_000;

/// Files that git reads in its folders.
const OF_GIT: [&str; 21] = [
    "BISECT_LOG",
    "BISECT_START",
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "index",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
    "locked",
    "objects/info/alternates",
    "packed-refs",
    "rebase-apply/head-name",
    "rebase-apply/onto",
    "rebase-merge/head-name",
    "rebase-merge/onto",
    "rebase-merge/update-refs",
    "shallow",
];
/// Files that git reads in each folder of a worktree.
const OF_WORKTREE: [&str; 4] = [".git", ".gitattributes", ".gitignore", ".gitmodules"];

/// Returns an error for a path at which there is something else than a file or a folder, for example a pipe.
fn check(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            Err(format!("{} is neither a file nor a folder, so git is not called", path.display()))
        }
        _ => Ok(()),
    }
}

/// Checks the files that git reads in one of its folders.
///
/// # Errors
/// Returns the path of a pipe, a socket or a device.
pub(super) fn check_git_dir(git_dir: &Path) -> Result<(), String> {
    OF_GIT.iter().try_for_each(|name| check(&git_dir.join(name)))
}

/// Checks the files that git reads in the folder of a repository, and in those of its worktrees.
///
/// # Errors
/// Returns the path of a pipe, a socket or a device.
pub(super) fn check_repository(common: &Path) -> Result<(), String> {
    check_git_dir(common)?;
    admin_dirs(common).iter().try_for_each(|folder| check_git_dir(folder))
}

/// Checks the files that git reads in a folder of objects.
///
/// # Errors
/// Returns the path of a pipe, a socket or a device.
pub(super) fn check_objects(objects: &Path) -> Result<(), String> {
    // Loose objects, packs, and what is known about them: two levels, and the chain of commit graphs.
    let entries = WalkDir::new(objects).max_depth(3).follow_links(true).into_iter().flatten().take(MAX_ENTRIES);
    entries
        .filter(|entry| !entry.file_type().is_file() && !entry.file_type().is_dir())
        .try_for_each(|entry| check(entry.path()))
}

/// Checks the files that git reads in the folders of a worktree, and in repositories below it. Returns the folders below it with
/// an entry `.git`.
///
/// # Errors
/// Returns the path of a pipe, a socket or a device.
pub(super) fn check_worktree(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut folders = Vec::new();
    for entry in WalkDir::new(root).min_depth(1).follow_links(false).into_iter().flatten().take(MAX_ENTRIES) {
        if !OF_WORKTREE.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        check(entry.path())?;
        if entry.file_name() == ".git" && entry.depth() > 1 {
            folders.extend(entry.path().parent().map(Path::to_owned));
            match read_regular(entry.path(), MAX_LINE) {
                Ok(link) => {
                    let link = String::from_utf8_lossy(&link);
                    let target = link.trim().strip_prefix("gitdir: ").unwrap_or_default();
                    check_git_dir(&entry.path().with_file_name(target))?;
                }
                Err(_) => check_git_dir(entry.path())?,
            }
        }
    }
    Ok(folders)
}

/// Returns the folders of the worktrees in a folder of git.
fn admin_dirs(common: &Path) -> Vec<PathBuf> {
    fs::read_dir(common.join(WORKTREES)).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Reads a line that git or the SDK has written.
pub(super) fn read_line(path: &Path) -> Option<String> {
    let text = String::from_utf8(read_regular(path, MAX_LINE).ok()?).ok()?;
    Some(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The folder in a repository for one of its worktrees.
#[derive(Clone, Debug, Default)]
pub(super) struct AdminDir(pub(super) PathBuf);

impl AdminDir {
    /// Returns the folder of a new worktree.
    pub(super) fn of(worktree: &Path, common: &Path) -> Option<Self> {
        let link = read_line(&worktree.join(".git"))?;
        let found = worktree.join(link.strip_prefix("gitdir: ")?);
        let real = fs::canonicalize(&found).ok()?;
        // On Windows git refuses the form that `canonicalize` returns.
        (real.parent() == fs::canonicalize(common.join(WORKTREES)).ok().as_deref()).then_some(Self(found))
    }

    /// Returns the folders of all worktrees of a repository.
    pub(super) fn all(common: &Path) -> impl Iterator<Item = Self> {
        admin_dirs(common).into_iter().map(Self)
    }

    /// Returns the path of the worktree.
    pub(super) fn worktree(&self) -> Option<PathBuf> {
        // Relative to this folder if git is configured so.
        Some(self.0.join(read_line(&self.0.join("gitdir"))?).parent()?.to_owned())
    }

    /// Notes the branch of the worktree.
    pub(super) fn set_branch(&self, branch: &str) -> std::io::Result<()> {
        fs::write(self.0.join(BRANCH), branch)
    }

    /// Returns the branch with which the worktree began.
    pub(super) fn branch(&self) -> Option<String> {
        let head = || Some(read_line(&self.0.join("HEAD"))?.strip_prefix("ref: refs/heads/")?.to_owned());
        read_line(&self.0.join(BRANCH)).or_else(head)
    }

    /// Returns whether the worktree links to this folder.
    pub(super) fn is_linked(&self, worktree: &Path) -> bool {
        let link = read_line(&worktree.join(".git"));
        let link = link.as_deref().and_then(|link| link.strip_prefix("gitdir: "));
        let same = |link: &str| fs::canonicalize(worktree.join(link)).ok() == fs::canonicalize(&self.0).ok();
        link.is_some_and(same)
    }

    /// Removes the folder, so that git does not know the worktree any more. Git itself removes it if it removes the worktree.
    pub(super) fn remove(&self) {
        // It is empty if the worktree was not made.
        if self.0.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "git's folder of a worktree is not removed");
        }
        // Fails if there are other worktrees.
        self.0.parent().map(fs::remove_dir);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn pipe_among_objects_is_found() {
        for place in ["ab/cdef", "info/commit-graph", "info/commit-graphs/graph-1.graph", "pack/pack-1.idx", "linked/p"]
        {
            let folder = tempfile::tempdir().unwrap();
            let (objects, elsewhere) = (folder.path().join("objects"), folder.path().join("elsewhere"));
            fs::create_dir_all(objects.join(place).parent().unwrap()).unwrap();
            fs::write(objects.join("regular"), "").unwrap();
            assert_eq!(check_objects(&objects), Ok(()), "{place}");
            if place.starts_with("linked") {
                fs::remove_dir(objects.join("linked")).unwrap();
                fs::create_dir(&elsewhere).unwrap();
                std::os::unix::fs::symlink(&elsewhere, objects.join("linked")).unwrap();
            }
            let pipe = objects.join(place);
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let problem = check_objects(&objects).expect_err("a problem");
            assert!(problem.contains(place), "{problem}");
        }
    }
}
