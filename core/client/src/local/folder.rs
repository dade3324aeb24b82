//! The directory of the ready handlers. It is opened once, so that an agent cannot replace it or a directory above it by a link.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The limit of the parts of a path: each of them can become a folder.
const MAX_PARTS: usize = 128;

/// The directory, which handlers have in common.
#[derive(Clone, Debug)]
pub(super) struct Root {
    path: PathBuf,
    /// The directory that the path named first.
    opened: Arc<OnceLock<Opened>>,
}

/// An open directory.
#[derive(Debug)]
struct Opened {
    /// The path as the program gave it, and without links.
    given: PathBuf,
    real: PathBuf,
    #[cfg(unix)]
    folder: std::os::fd::OwnedFd,
}

pub(super) fn refused(path: &str, reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{path}: {reason}"))
}

impl Root {
    /// Opens the directory, if it exists already. Otherwise the first request opens it.
    pub(super) fn new(path: PathBuf) -> Self {
        let root = Self { path, opened: Arc::default() };
        root.opened().ok();
        root
    }

    fn opened(&self) -> io::Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = Opened::new(&self.path)?;
        Ok(self.opened.get_or_init(|| opened))
    }

    /// Returns the directory, and the parts of a path below it.
    fn below(&self, path: &str) -> io::Result<(&Opened, Vec<OsString>)> {
        let opened = self.opened()?;
        opened.check(path)?;
        let asked = Path::new(path);
        let rest = asked.strip_prefix(&opened.given).or_else(|_| asked.strip_prefix(&opened.real));
        let rest = rest.map_err(|_| refused(path, "it is outside of the directory"))?;
        if rest.components().count() > MAX_PARTS {
            return Err(refused(path, &format!("it has more than {MAX_PARTS} parts")));
        }
        let mut parts = Vec::new();
        for part in rest.components() {
            match part {
                Component::Normal(name) => parts.push(name.to_owned()),
                Component::CurDir => {}
                // Links are not followed, so the name before it is the folder that it leaves.
                Component::ParentDir if parts.pop().is_some() => {}
                _ => return Err(refused(path, "it is outside of the directory")),
            }
        }
        Ok((opened, parts))
    }

    fn file(&self, path: &str) -> io::Result<(&Opened, Vec<OsString>, OsString)> {
        let (opened, mut parts) = self.below(path)?;
        let name = parts.pop().ok_or_else(|| refused(path, "it is the directory itself"))?;
        Ok((opened, parts, name))
    }

    /// Returns the path of a folder.
    pub(super) fn folder(&self, path: &str) -> io::Result<PathBuf> {
        let (opened, parts) = self.below(path)?;
        opened.check_folder(&parts, path)?;
        Ok(std::iter::once(opened.real.as_os_str()).chain(parts.iter().map(AsRef::as_ref)).collect())
    }

    /// Opens a regular file.
    pub(super) fn open_file(&self, path: &str) -> io::Result<File> {
        let (opened, parts, name) = self.file(path)?;
        opened.open_file(&parts, &name, path)
    }

    /// Makes a file, or replaces its content. Missing folders are made.
    pub(super) fn write_file(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let (opened, parts, name) = self.file(path)?;
        opened.write_file(&parts, &name, path, content)
    }
}

/// The reason to refuse a path below a directory that is another one now.
const REPLACED: &str = "the directory was moved or replaced, so it is not used any more";

/// Opens each part of a path without following links: a part that was replaced after a check is not used.
#[cfg(unix)]
mod unix {
    use std::ffi::OsStr;
    use std::io::Write as _;
    use std::os::fd::OwnedFd;

    use rustix::fs::{
        AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, stat, statat, unlinkat,
    };
    use rustix::io::Errno;

    use super::{File, Opened, OsString, Path, REPLACED, io, overwrite, refused};

    const ROOT: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    const FOLDER: OFlags = ROOT.union(OFlags::NOFOLLOW);

    impl Opened {
        pub(super) fn new(path: &Path) -> io::Result<Self> {
            let given = std::path::absolute(path)?;
            let folder = openat(CWD, &given, ROOT, Mode::empty())?;
            Ok(Self { real: given.canonicalize()?, given, folder })
        }

        /// Checks that the path of the directory still names it.
        pub(super) fn check(&self, path: &str) -> io::Result<()> {
            let own = fstat(&self.folder)?;
            let is_same = |found: Stat| (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino);
            match stat(&self.given) {
                Ok(found) if is_same(found) => Ok(()),
                _ => Err(refused(path, REPLACED)),
            }
        }

        pub(super) fn check_folder(&self, parts: &[OsString], path: &str) -> io::Result<()> {
            self.inner(parts, path, false).map(drop)
        }

        /// Opens a folder. With `is_made`, missing folders are made.
        fn inner(&self, parts: &[OsString], path: &str, is_made: bool) -> io::Result<OwnedFd> {
            let mut folder = self.folder.try_clone()?;
            for part in parts {
                let mut inner = openat(&folder, part, FOLDER, Mode::empty());
                if is_made && matches!(inner, Err(Errno::NOENT)) {
                    match mkdirat(&folder, part, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                        Ok(()) | Err(Errno::EXIST) => inner = openat(&folder, part, FOLDER, Mode::empty()),
                        Err(error) => return Err(explained(error, path)),
                    }
                }
                folder = inner.map_err(|error| explained(error, path))?;
            }
            Ok(folder)
        }

        pub(super) fn open_file(&self, parts: &[OsString], name: &OsStr, path: &str) -> io::Result<File> {
            let folder = self.inner(parts, path, false)?;
            open(&folder, name, OFlags::RDONLY, path)
        }

        /// Writes a new file, which then replaces the old one: if the disk is full, the old one stays as it is.
        pub(super) fn write_file(
            &self,
            parts: &[OsString],
            name: &OsStr,
            path: &str,
            content: &[u8],
        ) -> io::Result<()> {
            let folder = self.inner(parts, path, true)?;
            // Also if it is replaced, the old file must be writable.
            let old = match open(&folder, name, OFlags::WRONLY, path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                file => Some(file?),
            };
            let temporary = format!(".{}.tmp", uuid::Uuid::new_v4());
            let temporary = OsStr::new(&temporary);
            let new = match (create(&folder, temporary, path), &old) {
                // Files can be writable in a folder that is not.
                (Err(_), Some(old)) => return overwrite(old, content),
                (new, _) => new?,
            };
            let done = match &old {
                Some(old) if !can_replace(old, &new)? => {
                    unlinkat(&folder, temporary, AtFlags::empty()).ok();
                    return overwrite(old, content);
                }
                old => filled(&new, old.as_ref(), content)
                    .and_then(|()| renameat(&folder, temporary, &folder, name).map_err(|error| explained(error, path))),
            };
            if done.is_err() {
                unlinkat(&folder, temporary, AtFlags::empty()).ok();
            }
            done
        }
    }

    /// Opens a regular file.
    fn open(folder: &OwnedFd, name: &OsStr, access: OFlags, path: &str) -> io::Result<File> {
        let irregular = || refused(path, "it is not a regular file");
        // Before the file is opened, because the opening of a device can have an effect.
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| explained(error, path))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(irregular());
        }
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(folder, name, flags, Mode::empty()).map_err(|error| explained(error, path))?;
        // It may have been replaced meanwhile.
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(irregular());
        }
        Ok(file.into())
    }

    fn create(folder: &OwnedFd, name: &OsStr, path: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        Ok(openat(folder, name, flags, mode).map_err(|error| explained(error, path))?.into())
    }

    /// Returns whether a new file can replace an old one, which has no other name and the same owner.
    fn can_replace(old: &File, new: &File) -> io::Result<bool> {
        let (old, new) = (fstat(old)?, fstat(new)?);
        Ok(old.st_nlink == 1 && (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid))
    }

    /// Writes the content of a new file, which gets the permissions of the old one.
    fn filled(mut new: &File, old: Option<&File>, content: &[u8]) -> io::Result<()> {
        new.write_all(content)?;
        let Some(old) = old else { return Ok(()) };
        new.set_permissions(old.metadata()?.permissions())
    }

    fn explained(error: Errno, path: &str) -> io::Error {
        match error {
            Errno::LOOP | Errno::MLINK | Errno::NOTDIR => refused(path, "a part of it is a link, or not a folder"),
            other => other.into(),
        }
    }
}

#[cfg(not(unix))]
mod other {
    use std::ffi::OsStr;

    use super::{File, Opened, OsString, Path, PathBuf, REPLACED, io, overwrite, refused};

    impl Opened {
        pub(super) fn new(path: &Path) -> io::Result<Self> {
            let given = std::path::absolute(path)?;
            Ok(Self { real: given.canonicalize()?, given })
        }

        /// Checks that the path of the directory still leads to it.
        pub(super) fn check(&self, path: &str) -> io::Result<()> {
            match self.given.canonicalize() {
                Ok(real) if real == self.real => Ok(()),
                _ => Err(refused(path, REPLACED)),
            }
        }

        pub(super) fn check_folder(&self, parts: &[OsString], path: &str) -> io::Result<()> {
            let folder = self.joined(parts);
            match folder.canonicalize()?.starts_with(&self.real) && folder.is_dir() {
                true => Ok(()),
                false => Err(refused(path, "it is not a folder below the directory")),
            }
        }

        fn joined(&self, parts: &[OsString]) -> PathBuf {
            std::iter::once(self.real.as_os_str()).chain(parts.iter().map(AsRef::as_ref)).collect()
        }

        pub(super) fn open_file(&self, parts: &[OsString], name: &OsStr, path: &str) -> io::Result<File> {
            self.open(parts, name, path, false)
        }

        pub(super) fn write_file(
            &self,
            parts: &[OsString],
            name: &OsStr,
            path: &str,
            content: &[u8],
        ) -> io::Result<()> {
            overwrite(&self.open(parts, name, path, true)?, content)
        }

        fn open(&self, parts: &[OsString], name: &OsStr, path: &str, for_writing: bool) -> io::Result<File> {
            let mut folder = self.real.clone();
            for part in parts {
                folder.push(part);
                match std::fs::symlink_metadata(&folder) {
                    Ok(found) if !found.is_dir() => {
                        return Err(refused(path, "a part of it is a link, or not a folder"));
                    }
                    Err(error) if for_writing && error.kind() == io::ErrorKind::NotFound => {
                        std::fs::create_dir(&folder)?
                    }
                    found => drop(found?),
                }
            }
            if !folder.canonicalize()?.starts_with(&self.real) {
                return Err(refused(path, "it is outside of the directory"));
            }
            let file = folder.join(name);
            match std::fs::symlink_metadata(&file) {
                Ok(found) if !found.is_file() => return Err(refused(path, "it is not a regular file")),
                Err(error) if !for_writing || error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            File::options().read(!for_writing).write(for_writing).create(for_writing).truncate(false).open(file)
        }
    }
}

/// Replaces the content of a file that cannot be replaced itself.
fn overwrite(mut file: &File, content: &[u8]) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(content)
}
