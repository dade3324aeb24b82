//! Deletes a folder with everything in it, without following links.
//!
//! The standard library uses one call and one descriptor for each level, so it overflows the stack or fails for a
//! folder with deep nesting. Here nested folders are first moved to the top.

use std::fs::File;
use std::io;
use std::path::Path;

/// Deletes up to `budget` entries. `false` if more are left; then the lock stays, too.
#[cfg(unix)]
pub(super) fn remove_tree(path: &Path, _lock: &mut Option<File>, budget: usize) -> io::Result<bool> {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};

    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(top) => {
            let mut tree = tree::Tree { top, flags, budget, moved: Vec::new(), number: 0, error: None };
            if !tree.empty()? {
                return Ok(false);
            }
            // Without the lock, the rest would never be swept if this process ended before.
            let _ = unlinkat(&tree.top, super::LOCK, AtFlags::empty());
            unlinkat(CWD, path, AtFlags::REMOVEDIR)?;
        }
        // A link or a file has replaced it.
        Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => unlinkat(CWD, path, AtFlags::empty())?,
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// Deletes everything, and releases the lock: on Windows a folder stays while a file in it is open. While the lock is
/// open, no link can replace the folder.
#[cfg(not(unix))]
pub(super) fn remove_tree(path: &Path, lock: &mut Option<File>, _budget: usize) -> io::Result<bool> {
    use std::fs::{remove_dir, remove_dir_all, remove_file};

    let remove = |entry: &Path| remove_file(entry).or_else(|_| remove_dir(entry)).or_else(|_| remove_dir_all(entry));
    if !std::fs::symlink_metadata(path)?.is_dir() {
        // A link or a file has replaced it.
        remove_file(path).or_else(|_| remove_dir(path))?;
        return Ok(true);
    }
    let mut error = None;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() != super::LOCK {
            error = error.or(remove(&entry.path()).err());
        }
    }
    // Without the lock, the rest would never be swept.
    if let Some(error) = error {
        return Err(error);
    }
    super::remove_lock(path, lock);
    remove_dir(path)?;
    Ok(true)
}

#[cfg(unix)]
mod tree {
    use std::ffi::{CStr, CString};
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, chmodat, openat, renameat, statat, unlinkat};
    use rustix::io::Errno;

    pub(super) struct Tree {
        pub(super) top: OwnedFd,
        pub(super) flags: OFlags,
        /// The number of entries that may still be deleted or moved.
        pub(super) budget: usize,
        /// The names at the top of folders that are not empty.
        pub(super) moved: Vec<CString>,
        /// The number for the next name.
        pub(super) number: u64,
        /// The first error. The other entries are deleted in spite of it.
        pub(super) error: Option<Errno>,
    }

    impl Tree {
        /// Deletes the content of the top folder. `false` if the budget was too small.
        pub(super) fn empty(&mut self) -> io::Result<bool> {
            for entry in Dir::read_from(&self.top)? {
                if !self.spend() {
                    return Ok(false);
                }
                let entry = entry?;
                let name = entry.file_name();
                if name.to_bytes() != super::super::LOCK.as_bytes() && !is_dot(name) && !remove(&self.top, name) {
                    self.moved.push(entry.file_name().to_owned());
                }
            }
            while let Some(name) = self.moved.pop() {
                match self.flatten(&name) {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(error) => self.error = self.error.or(Some(error)),
                }
            }
            self.error.map_or(Ok(true), |error| Err(error.into()))
        }

        /// Deletes a folder at the top. Its own folders are moved to the top first.
        fn flatten(&mut self, name: &CStr) -> Result<bool, Errno> {
            unlock(&self.top, name)?;
            let folder = openat(&self.top, name, self.flags, Mode::empty())?;
            for entry in Dir::read_from(&folder)? {
                if !self.spend() {
                    return Ok(false);
                }
                let entry = entry?;
                if !is_dot(entry.file_name()) && !remove(&folder, entry.file_name()) {
                    self.lift(&folder, entry.file_name())?;
                }
            }
            unlinkat(&self.top, name, AtFlags::REMOVEDIR)?;
            Ok(true)
        }

        /// Moves a folder to the top.
        fn lift(&mut self, from: &OwnedFd, name: &CStr) -> Result<(), Errno> {
            unlock(from, name)?;
            loop {
                self.number += 1;
                let free = CString::new(format!("moved-{}", self.number)).map_err(|_| Errno::INVAL)?;
                match renameat(from, name, &self.top, &free) {
                    // The agent has used the same name.
                    Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) if self.spend() => {}
                    Err(error) => return Err(error),
                    Ok(()) => {
                        self.moved.push(free);
                        return Ok(());
                    }
                }
            }
        }

        fn spend(&mut self) -> bool {
            self.budget = self.budget.saturating_sub(1);
            self.budget > 0
        }
    }

    /// A folder can be read, emptied and moved only with all permissions.
    fn unlock(parent: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        let mode = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
        if FileType::from_raw_mode(mode) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        if Mode::from_raw_mode(mode).contains(Mode::RWXU) {
            return Ok(());
        }
        chmodat(parent, name, Mode::RWXU, AtFlags::empty())
    }

    fn is_dot(name: &CStr) -> bool {
        matches!(name.to_bytes(), b"." | b"..")
    }

    /// Deletes a file, a link or an empty folder. `false` for a folder that is not empty or cannot be deleted.
    fn remove(folder: &OwnedFd, name: &CStr) -> bool {
        let gone = |done: Result<(), Errno>| matches!(done, Ok(()) | Err(Errno::NOENT));
        gone(unlinkat(folder, name, AtFlags::empty())) || gone(unlinkat(folder, name, AtFlags::REMOVEDIR))
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn deep_and_locked_folders_are_removed() {
        let parent = tempfile::TempDir::new().unwrap();
        let (victim, folder) = (parent.path().join("victim"), parent.path().join("folder"));
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("precious"), "kept").unwrap();
        let deep = folder.join(["d"; 300].join("/"));
        std::fs::create_dir_all(&deep).unwrap();
        symlink(&victim, deep.join("link")).unwrap();
        symlink(&victim, folder.join("link")).unwrap();
        std::fs::create_dir_all(folder.join("moved-3/moved-4/moved-5")).unwrap();
        std::fs::write(folder.join("moved-1"), "").unwrap();
        std::fs::create_dir_all(folder.join("locked/in")).unwrap();
        std::fs::set_permissions(folder.join("locked"), std::fs::Permissions::from_mode(0o000)).unwrap();
        assert!(!remove_tree(&folder, &mut None, 20).unwrap());
        assert!(remove_tree(&folder, &mut None, usize::MAX).unwrap());
        assert!(!folder.exists());
        assert_eq!(std::fs::read_to_string(victim.join("precious")).unwrap(), "kept");
        assert_eq!(remove_tree(&folder, &mut None, usize::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn link_replacing_folder_is_removed_alone() {
        let parent = tempfile::TempDir::new().unwrap();
        let (victim, folder) = (parent.path().join("victim"), parent.path().join("folder"));
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("precious"), "kept").unwrap();
        symlink(&victim, &folder).unwrap();
        assert!(remove_tree(&folder, &mut None, usize::MAX).unwrap());
        assert!(folder.symlink_metadata().is_err());
        assert_eq!(std::fs::read_to_string(victim.join("precious")).unwrap(), "kept");
    }
}
