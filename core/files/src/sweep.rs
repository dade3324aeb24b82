//! Deletes the folders of processes that were killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ownership::{is_ours, is_safe};
use super::{LOCK, PREFIX, common_in, remove, remove_if_empty, temp_dir};

/// The shortest time between two sweeps.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Returns whether a sweep is due. The caller then has to sweep.
pub fn is_sweep_due() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_some_and(|last| last.elapsed() < SWEEP_EVERY) {
        return false;
    }
    *last = Some(Instant::now());
    true
}

/// Deletes the folders of processes that were killed.
pub fn sweep() {
    sweep_in(&temp_dir());
}

pub(super) fn sweep_in(parent: &Path) {
    if !is_safe(parent) {
        return;
    }
    let common = common_in(parent);
    match is_ours(&common) {
        Ok(true) => {
            sweep_folder(&common, Some(&common));
            remove_if_empty(&common);
        }
        // No folder is in use, and none was left behind.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        _ => sweep_folder(parent, None),
    }
}

pub(super) fn sweep_folder(folder: &Path, common: Option<&Path>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        // Neither targets of links, nor folders of other users.
        let ours = is_ours(&path).unwrap_or(false);
        // Held during the deletion: a process that has just made the folder and has not locked it yet must notice the
        // deletion.
        if let Some(lock) = Some(&path).filter(|_| ours).and_then(|path| left_behind(path)) {
            tracing::info!(path = %path.display(), "private files of a killed process deleted");
            remove(path, Some(lock), common.map(Path::to_owned));
        }
    }
}

/// Takes the lock of a folder, if no process holds it.
fn left_behind(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    // An agent can create anything under that name: a pipe would block the opening until a reader comes, and a link
    // could lead to a device.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOFOLLOW);
    match options.open(path.join(LOCK)) {
        Ok(lock) => {
            (lock.metadata().is_ok_and(|metadata| metadata.is_file()) && lock.try_lock().is_ok()).then_some(lock)
        }
        Err(error) => {
            if error.kind() == io::ErrorKind::NotFound {
                // Another process is about to lock it, or was killed before. Only an empty folder can be deleted in
                // this way.
                remove_if_empty(path);
            }
            None
        }
    }
}
