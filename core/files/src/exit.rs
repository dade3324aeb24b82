//! The private folders of this process, whose files are deleted at its end, also if their owners are still in use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{LOCK, PrivateDir, has_more_than_lock, remove_if_empty};

struct Folder {
    /// A forked child has a copy, and must not delete the folder of its parent.
    owner: u32,
    path: PathBuf,
    common: Option<PathBuf>,
    files: Vec<PathBuf>,
}

struct Folders {
    has_ended: bool,
    known: Vec<Folder>,
}

static FOLDERS: Mutex<Folders> = Mutex::new(Folders { has_ended: false, known: Vec::new() });

fn with<T>(action: impl FnOnce(&mut Folders) -> T) -> T {
    action(&mut FOLDERS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes a folder with `make`, and notes it.
///
/// # Errors
/// Those of `make`. After the end of the process no folder is made.
pub(super) fn noting(make: impl FnOnce() -> io::Result<Option<PrivateDir>>) -> io::Result<Option<PrivateDir>> {
    with(|folders| {
        if folders.has_ended {
            return Err(io::Error::other("the program is ending"));
        }
        let made = make()?;
        folders.known.extend(made.as_ref().map(|made| Folder {
            owner: made.owner,
            path: made.path.clone(),
            common: made.common.clone(),
            files: Vec::new(),
        }));
        Ok(made)
    })
}

/// Notes a new file in a folder.
pub(super) fn note_file(path: &Path, file: &Path) {
    with(|folders| {
        if let Some(known) = folders.known.iter_mut().find(|folder| folder.path == path) {
            known.files.push(file.to_owned());
        }
    });
}

/// Forgets a folder that is deleted or kept.
pub(super) fn forget(path: &Path) {
    with(|folders| folders.known.retain(|folder| folder.path != path));
}

/// Deletes the files of every private folder of this process, and the folders that have nothing else. Call it at the end
/// of the process: no owner can use its folder any more, and no folder can be made.
pub fn delete_files_at_exit() {
    with(|folders| {
        folders.has_ended = true;
        let known = std::mem::take(&mut folders.known);
        known.iter().filter(|folder| folder.owner == std::process::id()).for_each(delete);
    });
}

fn delete(folder: &Folder) {
    // As in the deletion of a single folder: a link leads to other files.
    if !std::fs::symlink_metadata(&folder.path).is_ok_and(|metadata| metadata.is_dir()) {
        return;
    }
    folder.files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    if !has_more_than_lock(&folder.path) {
        drop(std::fs::remove_file(folder.path.join(LOCK)));
        remove_if_empty(&folder.path);
    }
    folder.common.iter().for_each(|common| remove_if_empty(common));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_folder_in_use_are_deleted_at_exit() {
        let parent = tempfile::tempdir().unwrap();
        let of = |path: &Path| with(|folders| position(&folders.known, path));
        let mut used = PrivateDir::new_in(parent.path()).unwrap();
        let mut dropped = PrivateDir::new_in(parent.path()).unwrap();
        let mut kept = PrivateDir::new_in(parent.path()).unwrap();
        for dir in [&mut used, &mut dropped, &mut kept] {
            dir.write("config.json", b"secret").unwrap();
            assert!(of(dir.path()).is_some());
        }
        let path = dropped.path().to_owned();
        drop(dropped);
        assert!(of(&path).is_none());
        let kept = kept.keep();
        assert!(of(&kept).is_none() && kept.join("config.json").exists());
        // Only this folder: other tests have folders in this process.
        let folder = with(|folders| folders.known.remove(position(&folders.known, used.path()).unwrap()));
        delete(&folder);
        assert!(!used.path().exists());
        drop(used);
    }

    fn position(folders: &[Folder], path: &Path) -> Option<usize> {
        folders.iter().position(|folder| folder.path == path)
    }
}
