//! Folders that only this user can read, for secret files: inline configurations, scripts of the scripted agent. A
//! folder is deleted with its owner. If a process is killed, a later one sweeps its folders: every folder contains a
//! file that its process keeps locked, and the system releases that lock when the process ends.
//!
//! All these folders are in one folder of this user, the common folder, which is deleted with the last of them. So a
//! sweep does not have to search all temporary files of the machine, of which there can be thousands.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

mod removal;

use removal::remove_tree;

/// The prefix of the names of all these folders.
const PREFIX: &str = "kimi-agent-";
const LOCK: &str = "lock";
/// How often the creation of a folder is retried. A concurrent sweep rarely deletes a new folder.
const ATTEMPTS: usize = 10;
/// The shortest time between two sweeps.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// The limit of entries of a private folder that are deleted immediately. If the agent has added more, a thread deletes
/// the folder, so that neither the other sessions nor the start of agents have to wait.
const REMOVED_AT_ONCE: usize = 64;

/// Returns the folder for temporary files as an absolute path, because agents may have another working directory. An
/// empty `TMPDIR` is ignored; the standard library would use the working directory.
///
/// On Windows it is in the user's profile, if possible: only this user and administrators can access it. `TMP` may name
/// a folder that every user can read.
pub fn temp_dir() -> PathBuf {
    #[cfg(windows)]
    if let Some(dir) = std::env::var_os("LOCALAPPDATA").map(|profile| PathBuf::from(profile).join("Temp"))
        && dir.is_absolute()
        && dir.is_dir()
    {
        return dir;
    }
    let dir = std::env::temp_dir();
    if dir.as_os_str().is_empty() {
        return PathBuf::from("/tmp");
    }
    std::path::absolute(&dir).unwrap_or(dir)
}

/// A private folder. Dropping it deletes it.
#[derive(Debug)]
pub struct PrivateDir {
    /// The process that made it. A forked child must not delete its parent's folder.
    owner: u32,
    /// Held while the folder is in use.
    lock: Option<File>,
    /// The names of the files in it, except the lock.
    files: Vec<PathBuf>,
    /// The common folder, if the folder is in it.
    common: Option<PathBuf>,
    dir: TempDir,
}

impl PrivateDir {
    /// Makes a private folder.
    ///
    /// # Errors
    /// Returns the error of the system if the folder cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::new_in(&temp_dir())
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        for _ in 1..ATTEMPTS {
            if let Some(made) = Self::attempt(parent)? {
                return Ok(made);
            }
        }
        Err(io::Error::other("folders made there are taken away at once"))
    }

    /// `None` if a sweep of another process deleted the folder, or the common folder, before it was locked.
    fn attempt(parent: &Path) -> io::Result<Option<Self>> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let common = match is_safe(parent).then(|| common_in(parent)) {
            Some(path) => match make_common(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                made => made?.then_some(path),
            },
            None => None,
        };
        let made = Self::attempt_in(&builder, common.as_deref().unwrap_or(parent));
        if let (Some(common), Err(_) | Ok(None)) = (&common, &made) {
            remove_if_empty(common);
        }
        match made {
            Err(error) if error.kind() == io::ErrorKind::NotFound && common.is_some() => Ok(None),
            made => Ok(made?.map(|mut made| {
                made.common = common;
                made
            })),
        }
    }

    fn attempt_in(builder: &tempfile::Builder<'_, '_>, folder: &Path) -> io::Result<Option<Self>> {
        let mut dir = builder.tempdir_in(folder)?;
        let path = dir.path().join(LOCK);
        let lock = match create(&path) {
            Ok(lock) => lock,
            Err(error) => {
                // An umask can make a folder without permissions, which can only be deleted while it is empty.
                drop(std::fs::remove_dir(dir.path()));
                dir.disable_cleanup(true);
                return if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
            }
        };
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Ok(None);
        }
        // Without locks nothing is swept.
        let still_there = path.exists();
        Ok(still_there.then(|| Self {
            owner: std::process::id(),
            lock: Some(lock),
            files: Vec::new(),
            common: None,
            dir,
        }))
    }

    /// Returns whether it was made by this process, and not by a parent that forked.
    pub fn is_own(&self) -> bool {
        self.owner == std::process::id()
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file that only this user can read.
    ///
    /// # Errors
    /// Returns the error of the system if the file cannot be written.
    pub fn write(&mut self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path().join(name);
        let mut file = create(&path)?;
        self.files.push(path.clone());
        file.write_all(content)?;
        file.flush()?;
        Ok(path)
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if !self.is_own() {
            self.dir.disable_cleanup(true);
            return;
        }
        // The lock is held to the end, so that no other process sweeps a half-deleted folder. When a caller that waits
        // for the deletion sees the folder deleted, no other process is still deleting it.
        // If a link has replaced the folder, the names of the files lead to other files.
        if std::fs::symlink_metadata(self.path()).is_ok_and(|metadata| metadata.is_dir()) {
            // The lock is deleted last, because a folder without it is never swept. Files with known names are deleted
            // even if no descriptor is left to list the folder.
            self.files.iter().for_each(|file| drop(std::fs::remove_file(file)));
            if !has_more_than_lock(self.dir.path()) {
                remove_lock(self.dir.path(), &mut self.lock);
            }
        }
        if std::fs::remove_dir(self.path()).is_err() {
            remove(self.path().to_owned(), self.lock.take(), self.common.clone());
        }
        self.dir.disable_cleanup(true);
        if let Some(common) = &self.common {
            remove_if_empty(common);
        }
    }
}

/// The common folder of this user.
fn common_in(parent: &Path) -> PathBuf {
    parent.join(format!("{PREFIX}{}", user()))
}

/// Makes sure that the common folder exists. `false` if the name belongs to another user, or if others can read the
/// folder; then private folders are created next to it.
fn make_common(path: &Path) -> io::Result<bool> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Not the target of a link.
    Ok(is_ours(&std::fs::symlink_metadata(path)?))
}

/// Returns whether an agent has added anything.
fn has_more_than_lock(folder: &Path) -> bool {
    std::fs::read_dir(folder)
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != LOCK)))
}

/// Deletes the locked file while the lock is held, so that no other process can lock it. On Windows the folder can be
/// deleted only after the file is closed.
fn remove_lock(folder: &Path, lock: &mut Option<File>) {
    drop(std::fs::remove_file(folder.join(LOCK)));
    if cfg!(windows) {
        *lock = None;
    }
}

/// Deletes a folder with everything in it, and then the common folder if it is empty. The lock is held until then, if
/// the system allows that.
fn remove(path: PathBuf, mut lock: Option<File>, common: Option<PathBuf>) {
    let rest = |path: &Path, lock: &mut Option<File>, budget| match remove_tree(path, lock, budget) {
        Ok(done) => done,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a private folder can't be removed");
            true
        }
    };
    if rest(&path, &mut lock, REMOVED_AT_ONCE) {
        return;
    }
    let all = move || {
        let mut lock = lock;
        rest(&path, &mut lock, usize::MAX);
        if let Some(common) = common {
            remove_if_empty(&common);
        }
    };
    // Without a thread the folder stays until the next sweep.
    if let Err(error) = std::thread::Builder::new().name("kimi-agent-clear".to_owned()).spawn(all) {
        tracing::warn!(%error, "no thread to remove a private folder");
    }
}

fn remove_if_empty(folder: &Path) {
    drop(std::fs::remove_dir(folder));
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

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

fn sweep_in(parent: &Path) {
    if !is_safe(parent) {
        return;
    }
    let common = common_in(parent);
    match std::fs::symlink_metadata(&common) {
        Ok(metadata) if is_ours(&metadata) => {
            sweep_folder(&common, Some(&common));
            remove_if_empty(&common);
        }
        // No folder is in use, and none was left behind.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        _ => sweep_folder(parent, None),
    }
}

fn sweep_folder(folder: &Path, common: Option<&Path>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        // Neither targets of links, nor folders of other users.
        let ours = std::fs::symlink_metadata(&path).is_ok_and(|metadata| is_ours(&metadata));
        // Held during the deletion: a process that has just made the folder and has not locked it yet must notice the
        // deletion.
        if let Some(lock) = Some(&path).filter(|_| ours).and_then(|path| left_behind(path)) {
            tracing::info!(path = %path.display(), "private files of a killed process deleted");
            remove(path, Some(lock), common.map(Path::to_owned));
        }
    }
}

/// Returns whether others cannot replace an entry between a check and an action: `/tmp` is sticky.
#[cfg(unix)]
fn is_safe(parent: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata(parent).is_ok_and(|metadata| metadata.mode() & 0o022 == 0 || metadata.mode() & 0o1000 != 0)
}

#[cfg(not(unix))]
fn is_safe(_parent: &Path) -> bool {
    true
}

#[cfg(unix)]
fn is_ours(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    metadata.is_dir() && metadata.uid() == user() && metadata.mode() & 0o077 == 0
}

#[cfg(unix)]
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The folder for temporary files belongs to the user there.
#[cfg(not(unix))]
fn user() -> &'static str {
    "private"
}

#[cfg(not(unix))]
fn is_ours(metadata: &Metadata) -> bool {
    metadata.is_dir()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(parent).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Makes the remains of a killed process: all files, and no lock.
    fn abandon(mut dir: PrivateDir) -> PathBuf {
        dir.lock = None;
        dir.owner = 0;
        dir.path().to_owned()
    }

    #[test]
    fn sweep_keeps_used_folders_and_removes_others() {
        let parent = TempDir::new().unwrap();
        let mut used = PrivateDir::new_in(parent.path()).unwrap();
        let file = used.write("config.json", b"secret").unwrap();
        let mut left = PrivateDir::new_in(parent.path()).unwrap();
        left.write("config.json", b"secret").unwrap();
        let left = abandon(left);
        assert!(left.join("config.json").exists());
        sweep_in(parent.path());
        assert!(!left.exists());
        assert_eq!(std::fs::read(&file).unwrap(), b"secret");
        drop(used);
        assert_eq!(names(parent.path()), [""; 0]);
    }

    #[test]
    fn sweep_touches_nothing_else() {
        let parent = TempDir::new().unwrap();
        let common = common_in(parent.path());
        assert!(make_common(&common).unwrap());
        for folder in [parent.path(), &common] {
            let other = folder.join("other");
            std::fs::create_dir(&other).unwrap();
            std::fs::write(other.join(LOCK), "").unwrap();
            // By its name it could be one, but it has no lock, and is not empty.
            let similar = folder.join("kimi-agent-notes");
            std::fs::create_dir(&similar).unwrap();
            std::fs::write(similar.join("notes.txt"), "").unwrap();
            std::fs::write(folder.join("kimi-agent-file"), "").unwrap();
            #[cfg(unix)]
            {
                use std::os::unix::fs::{PermissionsExt, symlink};
                symlink(&other, folder.join("kimi-agent-link")).unwrap();
                let open = folder.join("kimi-agent-open");
                std::fs::create_dir(&open).unwrap();
                std::fs::write(open.join(LOCK), "").unwrap();
                std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let all = || [names(parent.path()), names(&common)];
        let before = all();
        sweep_in(parent.path());
        // As it is where the common folder is not ours.
        sweep_folder(parent.path(), None);
        assert_eq!(all(), before);
        for folder in [parent.path(), &common] {
            assert!(folder.join("other").join(LOCK).exists() && folder.join("kimi-agent-notes/notes.txt").exists());
        }
    }

    /// The common folder is used only if nobody else can look into it or take its place.
    #[test]
    fn foreign_common_folder_is_not_used() {
        type Take = fn(&Path, &Path);
        let ways: &[Take] = &[
            |common, _| std::fs::write(common, "").unwrap(),
            #[cfg(unix)]
            |common, elsewhere| std::os::unix::fs::symlink(elsewhere, common).unwrap(),
            #[cfg(unix)]
            |common, elsewhere| std::os::unix::fs::symlink(elsewhere.join("missing"), common).unwrap(),
            #[cfg(unix)]
            |common, _| {
                std::fs::create_dir(common).unwrap();
                let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
                std::fs::set_permissions(common, open).unwrap();
            },
        ];
        for take in ways {
            let (parent, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            let common = common_in(parent.path());
            take(&common, elsewhere.path());
            let taken = names(parent.path());
            let left = abandon(PrivateDir::new_in(parent.path()).unwrap());
            assert_eq!(left.parent(), Some(parent.path()));
            let mut used = PrivateDir::new_in(parent.path()).unwrap();
            let file = used.write("config.json", b"secret").unwrap();
            sweep_in(parent.path());
            assert!(!left.exists() && file.exists());
            drop(used);
            assert_eq!((names(parent.path()), names(elsewhere.path())), (taken, vec![]));
        }
    }

    #[cfg(unix)]
    #[test]
    fn private_files_are_readable_by_user_only() {
        use std::os::unix::fs::MetadataExt;

        let parent = TempDir::new().unwrap();
        let mut dir = PrivateDir::new_in(parent.path()).unwrap();
        let file = dir.write("config.json", b"secret").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(dir.path()), mode(&file), mode(&dir.path().join(LOCK))), (0o700, 0o600, 0o600));
        assert_eq!((dir.path().parent(), mode(&common_in(parent.path()))), (Some(&*common_in(parent.path())), 0o700));
        // A name that is there already is not written to, be it a link that somebody put there.
        assert_eq!(dir.write("config.json", b"more").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    /// In a folder where others may swap what is in it for something else, a sweep could be led astray.
    #[cfg(unix)]
    #[test]
    fn folder_writable_by_others_is_not_swept() {
        use std::os::unix::fs::PermissionsExt;

        let parent = TempDir::new().unwrap();
        let left = abandon(PrivateDir::new_in(parent.path()).unwrap());
        let allow = |mode| std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o777, 0o770, 0o702] {
            allow(mode);
            sweep_in(parent.path());
            assert!(left.exists(), "{mode:o}");
        }
        allow(0o1777);
        sweep_in(parent.path());
        assert!(!left.exists());
    }

    /// A file or link that already has the folder's name is neither followed nor used.
    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;

        let parent = TempDir::new().unwrap();
        let victim = parent.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("precious"), "kept").unwrap();
        let mut dir = PrivateDir::new_in(parent.path()).unwrap();
        symlink(victim.join("precious"), dir.path().join("config.json")).unwrap();
        assert_eq!(dir.write("config.json", b"secret").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        symlink(&victim, dir.path().join("folder")).unwrap();
        drop(dir);
        // The same where it is swept away.
        let dir = PrivateDir::new_in(parent.path()).unwrap();
        symlink(&victim, dir.path().join("folder")).unwrap();
        symlink(victim.join("precious"), dir.path().join("file")).unwrap();
        let left = abandon(dir);
        assert!(left.join("file").exists());
        sweep_in(parent.path());
        assert!(!left.exists());
        assert_eq!(names(parent.path()), ["victim"]);
        assert_eq!(std::fs::read_to_string(victim.join("precious")).unwrap(), "kept");
    }

    /// A lock that is a pipe must not make the sweep wait for a reader, and a link must not be opened.
    #[cfg(unix)]
    #[test]
    fn lock_of_other_type_is_kept() {
        use std::os::unix::fs::{DirBuilderExt, symlink};

        let parent = TempDir::new().unwrap();
        let common = common_in(parent.path());
        assert!(make_common(&common).unwrap());
        for name in ["pipe", "read", "link", "socket"] {
            std::fs::DirBuilder::new().mode(0o700).create(common.join(format!("{PREFIX}{name}"))).unwrap();
        }
        let lock = |name| common.join(format!("{PREFIX}{name}")).join(LOCK);
        let made = std::process::Command::new("mkfifo").args([lock("pipe"), lock("read")]).status().unwrap();
        assert!(made.success());
        let _reader = OpenOptions::new().read(true).write(true).open(lock("read")).unwrap();
        std::fs::write(parent.path().join("target"), "").unwrap();
        symlink(parent.path().join("target"), lock("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(lock("socket")).unwrap();
        let before = names(&common);
        sweep_in(parent.path());
        assert_eq!(names(&common), before);
    }

    /// A folder that cannot be written to is not left behind, nor is the common one.
    #[cfg(unix)]
    #[test]
    fn unusable_folder_is_removed() {
        let parent = TempDir::new().unwrap();
        let missing = parent.path().join("missing");
        assert_eq!(PrivateDir::new_in(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
        // The name of a private folder is too long for a path here, and that of the common one is not.
        let limit = 4096 - common_in(Path::new("")).as_os_str().len() - 8;
        let mut deep = parent.path().to_owned();
        while deep.as_os_str().len() + 202 < limit {
            deep.push("d".repeat(200));
            std::fs::create_dir(&deep).unwrap();
        }
        deep.push("d".repeat(limit - deep.as_os_str().len() - 1));
        std::fs::create_dir(&deep).unwrap();
        assert!(PrivateDir::new_in(&deep).is_err());
        assert_eq!(names(&deep), [""; 0]);
    }

    #[cfg(unix)]
    #[test]
    fn deep_folder_is_removed_in_background() {
        let parent = TempDir::new().unwrap();
        for sweeps in [false, true] {
            let dir = PrivateDir::new_in(parent.path()).unwrap();
            std::fs::create_dir_all(dir.path().join(["d"; 500].join("/"))).unwrap();
            let common = dir.common.clone().unwrap();
            if sweeps {
                abandon(dir);
                sweep_in(parent.path());
            } else {
                drop(dir);
            }
            let since = Instant::now();
            while common.exists() {
                assert!(since.elapsed() < Duration::from_secs(60), "{:?}", names(&common));
                std::thread::yield_now();
            }
        }
    }

    /// If the agent puts a link in the place of its private folder, the files of those names behind the link stay.
    #[cfg(unix)]
    #[test]
    fn link_replacing_private_folder_is_not_followed() {
        let parent = TempDir::new().unwrap();
        let victim = parent.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        let mut dir = PrivateDir::new_in(parent.path()).unwrap();
        dir.write("config.json", b"secret").unwrap();
        std::fs::write(victim.join("config.json"), "kept").unwrap();
        std::fs::rename(dir.path(), parent.path().join("away")).unwrap();
        std::os::unix::fs::symlink(&victim, dir.path()).unwrap();
        drop(dir);
        assert_eq!(names(&victim), ["config.json"]);
        assert_eq!(names(parent.path()), ["away", "victim"]);
    }

    #[test]
    fn folders_can_be_made_and_swept_concurrently() {
        let parent = TempDir::new().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..50 {
                        let mut dir = PrivateDir::new_in(parent.path()).unwrap();
                        let file = dir.write("config.json", b"secret").unwrap();
                        sweep_in(parent.path());
                        assert!(file.exists(), "a folder in use was swept away");
                        if n % 3 == 0 {
                            abandon(dir);
                        }
                    }
                });
            }
        });
        sweep_in(parent.path());
        assert_eq!(names(parent.path()), [""; 0]);
    }
}
