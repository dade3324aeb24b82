//! Removes a folder with everything in it, whatever an agent has put there, without following links.
//!
//! The standard library descends one call and one descriptor a level: a folder that is nested deeply enough overflows the
//! stack or cannot be removed. Here a nested folder is first moved up to the top.

use std::io;
use std::path::Path;

/// Removes up to `budget` entries. `false` if more are left; then the lock is left, too.
#[cfg(unix)]
pub(super) fn remove_tree(path: &Path, budget: usize) -> io::Result<bool> {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};

    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(top) => {
            let mut tree = tree::Tree { top, flags, budget, moved: Vec::new(), number: 0, error: None };
            if !tree.empty()? {
                return Ok(false);
            }
            // Without the lock, nobody could remove the rest if this process ended before.
            let _ = unlinkat(&tree.top, super::LOCK, AtFlags::empty());
            unlinkat(CWD, path, AtFlags::REMOVEDIR)?;
        }
        // A link or a file has taken its place.
        Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => unlinkat(CWD, path, AtFlags::empty())?,
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

#[cfg(not(unix))]
pub(super) fn remove_tree(path: &Path, _budget: usize) -> io::Result<bool> {
    std::fs::remove_dir_all(path)?;
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
        /// Entries that may still be removed or moved.
        pub(super) budget: usize,
        /// Names below the top of folders that are not empty.
        pub(super) moved: Vec<CString>,
        /// Makes the next name.
        pub(super) number: u64,
        /// The first error; everything else is removed all the same.
        pub(super) error: Option<Errno>,
    }

    impl Tree {
        /// Removes what is in the top folder. `false` if the budget was too small.
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

        /// Removes a folder below the top, once the folders in it stand below the top themselves.
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
                    // The agent has chosen the same name.
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

    /// Without all permissions a folder can be neither read, nor emptied, nor moved.
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

    /// Removes a file, a link or an empty folder. `false` if it is a folder that is not empty, or cannot be removed.
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
    fn deep_and_locked_folders_are_removed_and_links_are_not_followed() {
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
        assert!(!remove_tree(&folder, 20).unwrap());
        assert!(remove_tree(&folder, usize::MAX).unwrap());
        assert!(!folder.exists());
        assert_eq!(std::fs::read_to_string(victim.join("precious")).unwrap(), "kept");
        assert_eq!(remove_tree(&folder, usize::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn link_in_place_of_the_folder_is_removed_alone() {
        let parent = tempfile::TempDir::new().unwrap();
        let (victim, folder) = (parent.path().join("victim"), parent.path().join("folder"));
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("precious"), "kept").unwrap();
        symlink(&victim, &folder).unwrap();
        assert!(remove_tree(&folder, usize::MAX).unwrap());
        assert!(folder.symlink_metadata().is_err());
        assert_eq!(std::fs::read_to_string(victim.join("precious")).unwrap(), "kept");
    }
}
