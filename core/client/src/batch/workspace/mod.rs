//! The directories in which the jobs of a batch work: the working directory itself, copies of it, or worktrees of its git
//! repository.
//!
//! Copies and worktrees are in private folders, which a later process deletes if this one is killed. What git remembers of
//! worktrees is deleted by the next batch in the same repository: see [`worktree`].

mod call;
mod copy;
mod filters;
mod git;
mod machine;
mod places;
mod worktree;

use std::path::{Path, PathBuf};

use tokio::sync::watch;

use super::job::{Hash, hex};
use super::options::Workspace;
use crate::error::invalid_option;
use crate::private::{PrivateDir, sweep};
use crate::{Error, Result};
use call::Limits;
use worktree::{Repositories, Worktree};

/// The longest part of a name that comes from the key of a job.
const MAX_NAME: usize = 40;

/// The directories of a batch.
#[derive(Debug)]
pub(super) struct Workspaces {
    kind: Workspace,
    keep_failed: bool,
    repositories: Repositories,
    cancelled: watch::Receiver<bool>,
}

/// The directory of one attempt.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The working directory of the session.
    pub(super) dir: PathBuf,
    /// The copy or the worktree.
    root: PathBuf,
    folder: PrivateDir,
    worktree: Option<Worktree>,
}

/// The changes that an attempt has made, and its directory if it is kept.
#[derive(Debug, Default)]
pub(super) struct Remains {
    pub(super) diff: Option<String>,
    pub(super) kept: Option<PathBuf>,
}

/// When the directory of an attempt is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Never: another attempt follows, and needs the branch.
    Never,
    /// If its changes cannot be read, so that no work is lost.
    Unreadable,
    /// Also if the batch keeps the directories of failed jobs.
    Failed,
}

impl Workspaces {
    /// Makes the directories of the batch with this id.
    pub(super) fn new(kind: Workspace, keep_failed: bool, batch: &str, cancelled: watch::Receiver<bool>) -> Self {
        if kind != Workspace::Shared {
            sweep();
        }
        Self { kind, keep_failed, repositories: Repositories::new(batch), cancelled }
    }

    /// Returns whether jobs work in the working directory itself.
    pub(super) fn is_shared(&self) -> bool {
        self.kind == Workspace::Shared
    }

    /// Checks that directories can be made for jobs that work in `work_dir`.
    ///
    /// # Errors
    /// `InvalidOption` if it is not in a git repository, or if the repository has no commit.
    pub(super) fn check(&self, work_dir: &Path) -> Result<()> {
        match self.kind {
            Workspace::Worktree => self.repositories.open(work_dir, &self.limits()).map(drop),
            Workspace::Shared | Workspace::Copy => Ok(()),
        }
    }

    fn limits(&self) -> Limits {
        Limits::new(self.cancelled.clone())
    }

    /// Makes the directory of an attempt.
    ///
    /// # Errors
    /// `InvalidOption` for a directory of which no copy and no worktree can be made.
    pub(super) fn prepare(&self, work_dir: &Path, key: &str, hash: &Hash) -> Result<Prepared> {
        let name = file_name(key, hash);
        let folder = PrivateDir::new().map_err(|error| wrong(format!("can't make a folder for a job: {error}")))?;
        let root = folder.path().join(&name);
        if self.kind == Workspace::Worktree {
            let limits = self.limits();
            let repository = self.repositories.open(work_dir, &limits)?;
            let worktree = Worktree::add(&repository, &name, &root, &limits)?;
            return Ok(Prepared { dir: root.join(&repository.prefix), root, folder, worktree: Some(worktree) });
        }
        let is_stopped = || *self.cancelled.borrow();
        if let Err(error) = copy::copy_tree(work_dir, &root, is_stopped) {
            folder.delete();
            return Err(wrong(format!("can't copy {}: {error}", work_dir.display())));
        }
        Ok(Prepared { dir: root.clone(), root, folder, worktree: None })
    }

    /// Takes the changes of a worktree, and removes the directory unless it is kept.
    pub(super) fn finish(&self, prepared: Prepared, keep: Keep) -> Remains {
        let Prepared { root, folder, worktree, .. } = prepared;
        let limits = self.limits();
        let diff = worktree.as_ref().map(|worktree| worktree.diff(&limits)).transpose();
        let is_kept = keep != Keep::Never && diff.is_err() || keep == Keep::Failed && self.keep_failed;
        if let Err(reason) = &diff {
            tracing::warn!(path = %root.display(), reason, is_kept, "the changes in a worktree cannot be read");
        }
        if is_kept {
            folder.keep();
            return Remains { diff: diff.ok().flatten(), kept: Some(root) };
        }
        if let Some(worktree) = worktree {
            worktree.remove(&limits);
        }
        folder.delete();
        Remains { diff: diff.ok().flatten(), kept: None }
    }

    /// Releases the repositories, after the last job.
    pub(super) fn close(&self) {
        self.repositories.close(&self.limits());
    }
}

/// Returns the error for a workspace that cannot be made.
fn wrong(reason: String) -> Error {
    invalid_option("workspace", reason)
}

/// Returns a name for files and branches: the key, if it can be one, otherwise its beginning and a part of its hash.
fn file_name(key: &str, hash: &Hash) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let is_name = !key.is_empty() && key.len() <= MAX_NAME && key.chars().all(is_plain) && !key.starts_with('-');
    // The folder has a file with this name.
    if is_name && key != "lock" {
        return key.to_owned();
    }
    let plain: String = key.chars().filter(|letter| is_plain(*letter)).take(MAX_NAME).collect();
    format!("{}-{}", plain.trim_matches('-'), &hex(hash)[..12]).trim_start_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::job::hash_of_key;
    use super::*;

    #[test]
    fn name_is_safe_for_branches() {
        let name = |key: &str| file_name(key, &hash_of_key(key));
        assert_eq!(name("issue-12"), "issue-12");
        for key in ["", "lock", "../../etc", "a b", "-x", "a..b", "a.lock", "@{", "ä", &"x".repeat(1000)] {
            let name = name(key);
            assert!(name.len() >= 12 && name.len() <= MAX_NAME + 13 && !name.starts_with('-'), "{name}");
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter)), "{name}");
        }
        assert_ne!(name("a b"), name("a.b"));
    }
}
