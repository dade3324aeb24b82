//! The private folders of this process, whose files are deleted at its end, also if their owners are still in use.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{LOCK, has_more_than_lock, remove_if_empty};

struct Folder {
    /// A forked child has a copy, and must not delete the folder of its parent.
    owner: u32,
    path: PathBuf,
    common: Option<PathBuf>,
    files: Vec<PathBuf>,
}

static FOLDERS: Mutex<Vec<Folder>> = Mutex::new(Vec::new());

fn with<T>(action: impl FnOnce(&mut Vec<Folder>) -> T) -> T {
    action(&mut FOLDERS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Notes a new file in a folder.
pub(super) fn note(path: &Path, common: Option<&Path>, file: &Path) {
    with(|folders| {
        if let Some(known) = folders.iter_mut().find(|folder| folder.path == path) {
            return known.files.push(file.to_owned());
        }
        let (path, common) = (path.to_owned(), common.map(Path::to_owned));
        folders.push(Folder { owner: std::process::id(), path, common, files: vec![file.to_owned()] });
    });
}

/// Forgets a folder that is deleted or kept.
pub(super) fn forget(path: &Path) {
    with(|folders| folders.retain(|folder| folder.path != path));
}

/// Deletes the files of every private folder of this process, and the folders that have nothing else. Call it at the end
/// of the process: no owner can use its folder any more.
pub fn delete_files_at_exit() {
    let folders = with(std::mem::take);
    for folder in folders.iter().filter(|folder| folder.owner == std::process::id()) {
        delete(folder);
    }
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
    use crate::PrivateDir;

    #[test]
    fn files_of_folder_in_use_are_deleted_at_exit() {
        let parent = tempfile::tempdir().unwrap();
        let of = |path: &Path| with(|folders| position(folders, path));
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
        let folder = with(|folders| folders.remove(position(folders, used.path()).unwrap()));
        delete(&folder);
        assert!(!used.path().exists());
        drop(used);
    }

    fn position(folders: &[Folder], path: &Path) -> Option<usize> {
        folders.iter().position(|folder| folder.path == path)
    }
}
