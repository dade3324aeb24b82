//! Folders that only this user can read, for secret files: inline configurations, scripts of the scripted agent. A
//! folder is deleted with its owner. If a process is killed, a later one sweeps its folders: every folder contains a
//! file that its process keeps locked, and the system releases that lock when the process ends.
//!
//! All these folders are in one folder of this user, the common folder, which is deleted with the last of them. So a
//! sweep does not have to search all temporary files of the machine, of which there can be thousands.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

mod exit;
mod ownership;
mod removal;
mod sweep;
#[cfg(windows)]
mod windows;

pub use exit::delete_files_at_exit;
use ownership::{is_ours, is_safe, user};
use removal::remove_tree;
pub use sweep::{is_sweep_due, sweep};

/// The prefix of the names of all these folders.
const PREFIX: &str = "kimi-agent-";
const LOCK: &str = "lock";
/// How often the creation of a folder is retried. A concurrent sweep rarely deletes a new folder.
const ATTEMPTS: usize = 10;
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

/// Returns the folders that a recording does not name, with the names of their placeholders: the working directory, and
/// those for the user's own files and for temporary files.
pub fn known_folders(work_dir: &Path) -> Vec<(&'static str, PathBuf)> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let others = home.map(|home| ("home", home)).into_iter().chain([("temp", temp_dir())]);
    std::iter::once(("work_dir", work_dir.to_owned())).chain(others).collect()
}

/// The longest file that is read completely.
const MAX_READ: u64 = 1 << 30;

/// Reads a file completely. A pipe is read to its end if a program writes to it.
///
/// # Errors
/// An error of the system, or an error for a folder, for a file of more than 1 GiB, for a device such as `/dev/zero`, whose
/// content can have no end, and for a pipe to which no program writes, whose end never comes.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
    let mut options = OpenOptions::new();
    options.read(true);
    // The opening of a pipe would wait for a program that writes to it.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    let mut file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(wrong("it is a folder; expected a file"));
    }
    let mut bytes = Vec::new();
    #[cfg(unix)]
    if !kind.is_file() {
        if !std::os::unix::fs::FileTypeExt::is_fifo(&kind) {
            return Err(wrong("it is a device; expected a file"));
        }
        bytes = begun(&mut file)?;
    }
    file.take(MAX_READ.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_READ {
        return Err(wrong("it is longer than 1 GiB"));
    }
    Ok(bytes)
}

/// Returns the first bytes of a pipe that was opened without waiting, and lets further reads wait.
#[cfg(unix)]
fn begun(pipe: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 1 << 10];
    let length = match pipe.read(&mut bytes) {
        Ok(0) => {
            let text = "it is an empty pipe, and no program writes to it";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        length => length?,
    };
    rustix::fs::fcntl_setfl(&*pipe, rustix::fs::OFlags::empty())?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads a regular file of at most `limit` bytes. Its path comes from data, so it may name anything.
///
/// # Errors
/// An error of the system, or an error for a link, a pipe, a device, a folder, or a longer file.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(wrong("it is not a regular file"));
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // Another program may have put a pipe or a link there meanwhile.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(wrong("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(wrong("it is too long"));
    }
    Ok(bytes)
}

/// Checks that an output may be written to a path: nothing is there, or a regular file.
///
/// # Errors
/// An error of the system for its folder, or an error for a link, a pipe, a device or a folder.
pub fn check_output(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            let text = "it is a link, a pipe, a device or a folder; expected a new file, or a regular file";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = folder_of(path);
            match folder.is_dir() {
                true => Ok(()),
                false => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Checks that the path of an output is not a link, which could lead to any file. A link that leads to no file is refused, too.
///
/// # Errors
/// The path is a link.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link; expected a new file, or a regular file"))
        }
        _ => Ok(()),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a new file, or replaces a regular file. A link is not followed.
///
/// # Errors
/// Those of [`check_output`], and errors of the system.
pub fn write_output(path: &Path, content: &[u8]) -> io::Result<()> {
    check_output(path)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".kimi-agent-");
    #[cfg(unix)]
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(everyone);
    let mut file = builder.tempfile_in(folder_of(path))?;
    file.write_all(content)?;
    file.flush()?;
    if let Ok(earlier) = std::fs::symlink_metadata(path) {
        file.as_file().set_permissions(permissions_of(&earlier))?;
    }
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Returns the permissions for new content of a file. As after a write by a user, the file does not run as another user or group.
#[cfg(unix)]
fn permissions_of(earlier: &std::fs::Metadata) -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;

    std::fs::Permissions::from_mode(earlier.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn permissions_of(earlier: &std::fs::Metadata) -> std::fs::Permissions {
    earlier.permissions()
}

/// Opens the standard input, output and error that are closed, so that no other file gets their descriptors. Call it before
/// anything is opened. Returns whether the standard output was closed.
pub fn open_standard_descriptors() -> bool {
    #[cfg(unix)]
    return open_nothing();
    #[cfg(not(unix))]
    false
}

#[cfg(unix)]
fn open_nothing() -> bool {
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};

    let mut was_closed = false;
    while let Ok(file) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        if file.as_raw_fd() > 2 {
            break;
        }
        was_closed |= file.into_raw_fd() == 1;
    }
    was_closed
}

/// Returns a path as it is given, and as the system spells it without links if that differs.
pub fn spellings(path: &Path) -> Vec<String> {
    let given = path.to_string_lossy().into_owned();
    let real = std::fs::canonicalize(path).ok().map(|real| real.to_string_lossy().into_owned());
    // Windows begins such a path with a mark that programs do not show.
    let real = real.map(|real| real.strip_prefix(r"\\?\").map_or_else(|| real.clone(), str::to_owned));
    let real = real.filter(|real| *real != given);
    std::iter::once(given).chain(real).collect()
}

/// A private folder. Dropping it deletes it.
#[derive(Debug)]
pub struct PrivateDir {
    /// The process that made it. A forked child must not delete its parent's folder. 0: the folder is kept.
    owner: u32,
    /// Held while the folder is in use.
    lock: Option<File>,
    /// The names of the files in it, except the lock.
    files: Vec<PathBuf>,
    /// The common folder, if the folder is in it.
    common: Option<PathBuf>,
    path: PathBuf,
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
            if let Some(made) = exit::noting(|| Self::attempt(parent))? {
                return Ok(made);
            }
        }
        Err(io::Error::other("folders made there are taken away at once"))
    }

    /// `None` if a sweep of another process deleted the folder, or the common folder, before it was locked.
    fn attempt(parent: &Path) -> io::Result<Option<Self>> {
        let common = match is_safe(parent).then(|| common_in(parent)) {
            Some(path) => match make_common(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                made => made?.then_some(path),
            },
            None => None,
        };
        let made = Self::attempt_in(common.as_deref().unwrap_or(parent));
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

    fn attempt_in(folder: &Path) -> io::Result<Option<Self>> {
        let made = tempfile::Builder::new().prefix(PREFIX).disable_cleanup(true).make_in(folder, create_dir)?;
        let path = made.path().to_owned();
        let lock = match create_private(&path.join(LOCK)) {
            Ok(lock) => lock,
            Err(error) => {
                // An umask can make a folder without permissions, which can only be deleted while it is empty.
                drop(std::fs::remove_dir(&path));
                return if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
            }
        };
        // Then another process is deleting it.
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) || !path.join(LOCK).exists() {
            return Ok(None);
        }
        // Without locks nothing is swept.
        Ok(Some(Self { owner: std::process::id(), lock: Some(lock), files: Vec::new(), common: None, path }))
    }

    /// Returns whether it was made by this process, and not by a parent that forked.
    pub fn is_own(&self) -> bool {
        self.owner == std::process::id()
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that only this user can read.
    ///
    /// # Errors
    /// Returns the error of the system if the file cannot be written.
    pub fn write(&mut self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path().join(name);
        exit::note_file(&self.path, &path);
        let mut file = create_private(&path)?;
        self.files.push(path.clone());
        file.write_all(content)?;
        file.flush()?;
        Ok(path)
    }
}

impl PrivateDir {
    /// Deletes the folder with everything in it, and waits for that. A dropped folder with many entries is deleted in the
    /// background.
    pub fn delete(mut self) {
        if !self.is_own() {
            return;
        }
        if let Err(error) = remove_tree(&self.path, &mut self.lock, usize::MAX)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path().display(), %error, "a private folder can't be removed");
        }
        // Dropping it removes the rest: the common folder, if this was the last.
    }

    /// Keeps the folder: neither this process nor a sweep deletes it, unless it is empty. Returns its path.
    pub fn keep(mut self) -> PathBuf {
        exit::forget(&self.path);
        remove_lock(&self.path, &mut self.lock);
        let path = self.path.clone();
        self.owner = 0;
        path
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if !self.is_own() {
            return;
        }
        exit::forget(&self.path);
        // The lock is held to the end, so that no other process sweeps a half-deleted folder. When a caller that waits
        // for the deletion sees the folder deleted, no other process is still deleting it.
        // If a link has replaced the folder, the names of the files lead to other files.
        if std::fs::symlink_metadata(self.path()).is_ok_and(|metadata| metadata.is_dir()) {
            // The lock is deleted last, because a folder without it is never swept. Files with known names are deleted
            // even if no descriptor is left to list the folder.
            self.files.iter().for_each(|file| drop(std::fs::remove_file(file)));
            if !has_more_than_lock(&self.path) {
                remove_lock(&self.path, &mut self.lock);
            }
        }
        if std::fs::remove_dir(self.path()).is_err() {
            remove(self.path().to_owned(), self.lock.take(), self.common.clone());
        }
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
    match create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        // A folder of another user may be one that this user cannot look at.
        _ => match is_ours(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            checked => checked,
        },
    }
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

#[cfg(windows)]
use windows::{create_dir, create_file};

/// Creates a folder that only this user can read.
#[cfg(unix)]
fn create_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(path)?;
    // The mask of the process may have removed permissions of the user.
    if std::fs::symlink_metadata(path)?.permissions().mode() & 0o700 == 0o700 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

#[cfg(unix)]
fn create_file(path: &Path) -> io::Result<File> {
    let file =
        std::os::unix::fs::OpenOptionsExt::mode(OpenOptions::new().write(true).create_new(true), 0o600).open(path)?;
    restore_mode(&file)?;
    Ok(file)
}

/// Restores the permissions of the user that the mask of the process has removed.
#[cfg(unix)]
fn restore_mode(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    if file.metadata()?.permissions().mode() & 0o600 == 0o600 {
        return Ok(());
    }
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// Creates a file that only this user can read, for writing. On Windows the system and administrators can read it, too.
///
/// # Errors
/// Returns the error of the system, for example `AlreadyExists`.
pub fn create_private(path: &Path) -> io::Result<File> {
    create_file(path)
}

/// Returns whether a path leads to a pipe, whose opening would wait for its other end.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    return std::fs::metadata(path).is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type()));
    #[cfg(not(unix))]
    return path.as_os_str().is_empty();
}

/// Opens a file with these options. If it does not exist, it is created as [`create_private`] does. An existing file keeps
/// its permissions.
///
/// # Errors
/// Returns the error of the system, or an error for a pipe.
pub fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_with(path, options, 0)
}

/// Opens an output as [`open_private`] does, unless the path is a link.
///
/// # Errors
/// Those of [`open_private`], or an error for a link.
pub fn open_private_output(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    refuse_link(path)?;
    #[cfg(unix)]
    let flags = libc::O_NOFOLLOW;
    #[cfg(not(unix))]
    let flags = 0;
    // Another program may have put a link there meanwhile.
    open_with(path, options, flags).map_err(|error| refuse_link(path).err().unwrap_or(error))
}

/// Opens a file as [`open_private`] does, with further flags of the system.
fn open_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    // Closed first, because the options may refuse other writers. Opened again, it has the permissions of the user in any
    // mask of the process.
    let created = create_file(path).map(drop);
    if created.is_err() && is_pipe(path) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe; expected a file"));
    }
    // Nor does a pipe that has replaced the file meanwhile block the caller.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK | flags);
    #[cfg(not(unix))]
    let _ = flags;
    options.open(path).map_err(|error| match created {
        Err(first) if first.kind() != io::ErrorKind::AlreadyExists => first,
        _ => error,
    })
}

/// Checks that the path of an open file still names it, and that the file was not shortened. `length` is its known length. Files
/// without a length, such as pipes and devices, always pass.
///
/// # Errors
/// The file was deleted, replaced or shortened, or cannot be examined.
pub fn check_in_place(file: &File, path: &Path, length: u64) -> io::Result<()> {
    let own = file.metadata()?;
    if !own.is_file() {
        return Ok(());
    }
    let changed = |how: &str| io::Error::other(format!("another program has {how} it"));
    let found = path.metadata().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => changed("deleted or moved"),
        _ => error,
    })?;
    if !is_same(&own, &found) {
        return Err(changed("replaced"));
    }
    if own.len() < length { Err(changed("shortened")) } else { Ok(()) }
}

#[cfg(unix)]
fn is_same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// An open file cannot be replaced on Windows, unless it is moved first.
#[cfg(not(unix))]
fn is_same(_: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    other.is_file()
}

#[cfg(test)]
mod tests;
