//! Folders that only this user can read, for what must not be seen: inline configurations, scripts of the scripted
//! agent. Each goes when its owner does. What a process leaves behind that was killed, a later one sweeps away: every
//! folder holds a file that its process keeps locked, and the system takes that lock back however a process ends.
//!
//! They stand in one folder of this user's, the common one, which goes with the last of them. So whoever sweeps need not
//! look through all temporary files of the machine, of which there can be thousands.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

mod removal;

use removal::remove_tree;

/// What all of their names begin with.
const PREFIX: &str = "kimi-agent-";
const LOCK: &str = "lock";
/// A folder is taken away while it is being made only by bad luck; not so often.
const ATTEMPTS: usize = 10;
/// What is left behind is no hurry of every session's.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Entries of a private folder that are removed at once. If an agent has put more there, a thread removes the folder: it
/// must hold up neither the other sessions nor the start of agents.
const REMOVED_AT_ONCE: usize = 64;

/// The folder for temporary files, as an absolute path: agents may have another working directory. An empty `TMPDIR` counts
/// as unset; the standard library takes it for the working directory.
pub fn temp_dir() -> PathBuf {
    let dir = std::env::temp_dir();
    if dir.as_os_str().is_empty() {
        return PathBuf::from("/tmp");
    }
    std::path::absolute(&dir).unwrap_or(dir)
}

/// A private folder, removed on drop.
#[derive(Debug)]
pub struct PrivateDir {
    /// A fork has a copy of this, and must leave the folder to its parent.
    owner: u32,
    /// Held as long as the folder is in use.
    lock: Option<File>,
    /// All that was written there, the lock first.
    files: Vec<PathBuf>,
    /// Where it stands, if that is the common folder.
    common: Option<PathBuf>,
    dir: TempDir,
}

impl PrivateDir {
    /// Makes one.
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

    /// `None` where somebody who sweeps took the folder for one that was left behind, or the common one for empty.
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
                // A folder without permissions, as an umask can make it, can only be removed while it is empty.
                drop(std::fs::remove_dir(dir.path()));
                dir.disable_cleanup(true);
                return if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
            }
        };
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Ok(None);
        }
        // Where there are no locks, nothing is swept, either.
        let still_there = path.exists();
        Ok(still_there.then(|| Self {
            owner: std::process::id(),
            lock: Some(lock),
            files: vec![path],
            common: None,
            dir,
        }))
    }

    /// Whether it is this process's, and not that of a parent that forked.
    pub fn is_own(&self) -> bool {
        self.owner == std::process::id()
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file that only this user can read.
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
        // Not what is open, on some systems. Elsewhere the lock is kept to the end: nobody sweeps what is half gone, and
        // whoever waits for the folder to go doesn't wait for somebody else to remove the rest.
        if cfg!(windows) {
            self.lock = None;
        }
        // If a link has taken the folder's place, the names of our files lead elsewhere.
        if std::fs::symlink_metadata(self.path()).is_ok_and(|metadata| metadata.is_dir()) {
            // The lock is the last to go: without it nobody could remove the rest. What we know of by name goes also where
            // no descriptor is left to list the folder with.
            let (lock, others) = self.files.split_at(1);
            others.iter().for_each(|file| drop(std::fs::remove_file(file)));
            if !has_more_than_lock(self.path()) {
                lock.iter().for_each(|file| drop(std::fs::remove_file(file)));
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

/// Sees to it that the common folder is there. `false` where the name is somebody else's, or others may look into it:
/// then private folders stand beside it.
fn make_common(path: &Path) -> io::Result<bool> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Not what a link leads to.
    Ok(is_ours(&std::fs::symlink_metadata(path)?))
}

/// Whether an agent has put something there.
fn has_more_than_lock(folder: &Path) -> bool {
    std::fs::read_dir(folder)
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != LOCK)))
}

/// Removes a folder with all that is in it, and then the common folder if that was the last one in it. The lock is held
/// until then.
fn remove(path: PathBuf, lock: Option<File>, common: Option<PathBuf>) {
    let rest = |path: &Path, budget| match remove_tree(path, budget) {
        Ok(done) => done,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a private folder can't be removed");
            true
        }
    };
    if rest(&path, REMOVED_AT_ONCE) {
        return;
    }
    let all = move || {
        let _lock = lock;
        rest(&path, usize::MAX);
        if let Some(common) = common {
            remove_if_empty(&common);
        }
    };
    // Without a thread it stays until the next sweep.
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

/// Whether it is time to sweep again. Who is told so does it.
pub fn is_sweep_due() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_some_and(|last| last.elapsed() < SWEEP_EVERY) {
        return false;
    }
    *last = Some(Instant::now());
    true
}

/// Removes what processes left behind that ended without doing so.
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
        // Nobody uses any, and nobody has left any behind.
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
        // Not what a link leads to, nor what others made.
        let ours = std::fs::symlink_metadata(&path).is_ok_and(|metadata| is_ours(&metadata));
        // Held until all is gone: who has just made it must see that it goes.
        if let Some(lock) = Some(&path).filter(|_| ours).and_then(|path| left_behind(path)) {
            tracing::info!(path = %path.display(), "private files of a process that is gone are removed");
            remove(path, Some(lock), common.map(Path::to_owned));
        }
    }
}

/// Whether others can't put something else in the place of what is there, between a look and a deed: `/tmp` is sticky.
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

/// The folder for temporary files is the user's own there.
#[cfg(not(unix))]
fn user() -> &'static str {
    "private"
}

#[cfg(not(unix))]
fn is_ours(metadata: &Metadata) -> bool {
    metadata.is_dir()
}

/// The lock of a folder that nobody holds any more.
fn left_behind(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    // An agent can put anything under that name: a pipe would make the opening wait for a reader, a link could lead to a
    // device.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOFOLLOW);
    match options.open(path.join(LOCK)) {
        Ok(lock) => {
            (lock.metadata().is_ok_and(|metadata| metadata.is_file()) && lock.try_lock().is_ok()).then_some(lock)
        }
        Err(error) => {
            if error.kind() == io::ErrorKind::NotFound {
                // Somebody is about to lock it, or was killed before. Only an empty folder can be removed like this.
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

    /// What a process leaves behind that is killed: everything, and no lock.
    fn abandon(mut dir: PrivateDir) -> PathBuf {
        dir.lock = None;
        dir.owner = 0;
        dir.path().to_owned()
    }

    #[test]
    fn what_is_in_use_stays_and_what_is_left_behind_goes() {
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
    fn nothing_else_is_touched() {
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
    fn who_takes_the_common_folders_name_gains_nothing_by_it() {
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
    fn only_this_user_can_read_them() {
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
    fn a_folder_that_others_may_change_is_not_swept() {
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

    /// Whatever lies in wait under a folder's own name is neither followed nor used.
    #[cfg(unix)]
    #[test]
    fn links_lead_nowhere() {
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
    fn lock_that_is_no_file_is_left_alone() {
        use std::os::unix::fs::{DirBuilderExt, symlink};

        let parent = TempDir::new().unwrap();
        let common = common_in(parent.path());
        assert!(make_common(&common).unwrap());
        for name in ["pipe", "read", "link", "socket"] {
            std::fs::DirBuilder::new().mode(0o700).create(common.join(format!("{PREFIX}{name}"))).unwrap();
        }
        let lock = |name| common.join(format!("{PREFIX}{name}")).join(LOCK);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        for name in ["pipe", "read"] {
            rustix::fs::mkfifoat(rustix::fs::CWD, lock(name), mode).unwrap();
        }
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
    fn folder_that_cannot_be_used_is_removed() {
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

    /// The folder goes when it is deep, in the background.
    #[cfg(unix)]
    #[test]
    fn deep_folder_that_an_agent_made_goes() {
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
    fn link_in_place_of_a_private_folder_leads_nowhere() {
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
    fn many_may_make_and_sweep_at_once() {
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
