//! The working directory of a call.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use kimi_agent_protocol::place::{PathMap, Resolved};

use super::expansion::Expansion;
use crate::links::{is_link, normalized};
use crate::work::Budget;

/// How many paths of a call are looked at. The system looks at each part of a path.
const MAX_PATHS: usize = 1000;
/// How many names of a call are looked at.
const MAX_NAMES: usize = 4000;
/// How many entries of folders are looked at for the globs of a call.
const MAX_ENTRIES: usize = 10_000;
/// How many of them are looked at for the globs of sources.
const MAX_FILES: usize = 5000;

/// The working directory of a call, and how many of its paths may still be looked at.
#[derive(Debug)]
pub(crate) struct WorkDir {
    given: PathBuf,
    pub(super) absolute: PathBuf,
    /// As written and with links followed.
    pub(super) spellings: [PathBuf; 2],
    pub(super) left: Cell<usize>,
    names: Cell<usize>,
    entries: Cell<usize>,
    files: Cell<usize>,
    pub(super) expansions: RefCell<HashMap<PathBuf, Rc<Expansion>>>,
    /// Whether folders are directories of git.
    repositories: RefCell<HashMap<PathBuf, bool>>,
    pub(super) budget: Rc<Budget>,
    /// The paths of an agent that has others than the program.
    place: Option<PathMap>,
}

impl WorkDir {
    pub(crate) fn new(given: &Path, budget: &Rc<Budget>) -> Self {
        let absolute = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
        let known = absolute.canonicalize().unwrap_or_else(|_| absolute.clone());
        let spellings = [normalized(&absolute), known];
        Self {
            given: absolute.clone(),
            absolute,
            spellings,
            left: Cell::new(MAX_PATHS),
            names: Cell::new(MAX_NAMES),
            entries: Cell::new(MAX_ENTRIES),
            files: Cell::new(MAX_FILES),
            expansions: RefCell::default(),
            repositories: RefCell::default(),
            budget: Rc::clone(budget),
            place: None,
        }
    }

    /// Reads the paths of calls as those of an agent in another place.
    pub(crate) fn in_place(mut self, place: Option<&PathMap>) -> Self {
        self.place = place.cloned();
        self
    }

    /// Returns a text of a call as a path of the program.
    pub(super) fn resolved<'a>(&self, text: &'a str) -> Resolved<'a> {
        self.place.as_ref().map_or(Resolved::Known(text.into()), |place| place.resolve(text))
    }

    /// Whether one more entry of a folder may be looked at.
    pub(super) fn counts(&self) -> bool {
        let left = self.entries.get();
        self.entries.set(left.saturating_sub(1));
        left > 0
    }

    /// Whether one more entry may be looked at for globs of sources.
    pub(super) fn counts_file(&self) -> bool {
        let left = self.files.get();
        self.files.set(left.saturating_sub(1));
        left > 0
    }

    /// Whether the paths of calls are those of this machine.
    pub(super) fn is_here(&self) -> bool {
        self.place.is_none()
    }

    /// Whether git takes a folder for the directory of a repository or of a worktree, whatever its name is.
    pub(super) fn is_git_directory(&self, folder: &Path) -> bool {
        if let Some(known) = self.repositories.borrow().get(folder) {
            return *known;
        }
        let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
        let is_meant = has("HEAD") && (has("commondir") || has("objects") && has("refs"));
        self.repositories.borrow_mut().insert(folder.to_owned(), is_meant);
        is_meant
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
        self.absolute.join(folder).ancestors().any(has_repository)
    }

    /// Whether a folder, or one between it and the working directory, is or has a repository of its own. Its settings name programs, and
    /// who may edit its files may write them. A folder that cannot be looked at may be one.
    pub(crate) fn has_own_repository(&self, folder: &Path) -> bool {
        let named = self.absolute.join(folder);
        if named == self.absolute {
            return false;
        }
        if !self.is_here() {
            return true;
        }
        // A folder that does not exist has no repository, but one above it can.
        let real = named.canonicalize().unwrap_or_else(|_| normalized(&named));
        let [given, known] = &self.spellings;
        let is_repository = |at: &Path| {
            has_repository(at)
                || self.is_git_directory(at)
                || OTHER_REPOSITORIES.iter().any(|name| at.join(name).symlink_metadata().is_ok())
        };
        real.ancestors().take_while(|at| at != given && at != known).any(is_repository)
    }

    /// Whether a folder is the top of the files of a repository of git.
    pub(crate) fn is_top_of_repository(&self, folder: &Path) -> bool {
        has_repository(&self.absolute.join(folder))
    }
}

/// The folders of repositories of other programs.
const OTHER_REPOSITORIES: [&str; 3] = [".hg", ".jj", ".sl"];

fn has_repository(folder: &Path) -> bool {
    folder.join(".git").is_file() || folder.join(".git/HEAD").is_file()
}

impl Deref for WorkDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.given
    }
}
