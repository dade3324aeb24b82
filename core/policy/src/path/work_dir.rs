//! The working directory of a call.

use std::cell::Cell;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::links::{is_link, normalized};
use crate::work::Budget;

/// How many paths of a call are looked at. The system looks at each part of a path.
const MAX_PATHS: usize = 1000;
/// How many names of a call are looked at.
const MAX_NAMES: usize = 4000;

/// The working directory of a call, and how many of its paths may still be looked at.
#[derive(Debug)]
pub(crate) struct WorkDir {
    given: PathBuf,
    pub(super) absolute: PathBuf,
    /// As written and with links followed.
    pub(super) spellings: [PathBuf; 2],
    pub(super) left: Cell<usize>,
    names: Cell<usize>,
    pub(super) budget: Rc<Budget>,
}

impl WorkDir {
    pub(crate) fn new(given: &Path, budget: &Rc<Budget>) -> Self {
        let absolute = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
        let known = absolute.canonicalize().unwrap_or_else(|_| absolute.clone());
        let spellings = [normalized(&absolute), known];
        Self {
            given: given.to_owned(),
            absolute,
            spellings,
            left: Cell::new(MAX_PATHS),
            names: Cell::new(MAX_NAMES),
            budget: Rc::clone(budget),
        }
    }

    /// Whether a name in a folder is a link. After too many names, each one may be.
    pub(crate) fn is_link(&self, name: &str, folder: &Path) -> bool {
        let left = self.names.get();
        self.names.set(left.saturating_sub(1));
        left == 0 || is_link(name, &self.absolute.join(folder))
    }

    /// Whether a name in a folder is a folder. After too many names, each one may be.
    pub(crate) fn is_folder(&self, name: &str, folder: &Path) -> bool {
        let left = self.names.get();
        self.names.set(left.saturating_sub(1));
        left == 0 || self.absolute.join(folder).join(name).is_dir()
    }

    /// Whether a folder is in a repository of git.
    pub(crate) fn is_in_repository(&self, folder: &Path) -> bool {
        let is_repository = |folder: &Path| folder.join(".git").is_file() || folder.join(".git/HEAD").is_file();
        self.absolute.join(folder).ancestors().any(is_repository)
    }
}

impl Deref for WorkDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.given
    }
}
