//! Copies of a directory. Files share their blocks with the original if the file system can do that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Copies everything in a directory: files with their permissions and times, folders, and links as links. Sockets, pipes
/// and devices are left out, and so are entries that another program deletes meanwhile. Stops when `is_stopped` returns true.
/// On Linux, holes of files stay holes.
///
/// # Errors
/// Returns the error of the first entry that cannot be copied, with its path.
pub(super) fn copy_tree(from: &Path, to: &Path, is_stopped: impl Fn() -> bool) -> io::Result<()> {
    let from = fs::canonicalize(from)?;
    let parent = to.parent().map(fs::canonicalize).transpose()?.unwrap_or_default();
    if parent.starts_with(&from) {
        let reason = format!("it contains the folder of temporary files, {}", parent.display());
        return Err(io::Error::other(reason));
    }
    fs::create_dir(to)?;
    let mut folders = vec![(from.clone(), to.to_owned())];
    for entry in WalkDir::new(&from).min_depth(1).follow_links(false) {
        if is_stopped() {
            return Err(stopped());
        }
        let entry = match entry.map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entry => entry?,
        };
        let relative = entry.path().strip_prefix(&from).map_err(io::Error::other)?;
        let target = to.join(relative);
        let kind = entry.file_type();
        let copied = if kind.is_dir() {
            folders.push((entry.path().to_owned(), target.clone()));
            fs::create_dir(&target)
        } else if kind.is_file() {
            copy_file(entry.path(), &target, &is_stopped)
        } else if kind.is_symlink() {
            copy_link(entry.path(), &target)
        } else {
            Ok(())
        };
        match copied {
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_gone(entry.path()) => {}
            copied => {
                copied.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", entry.path().display())))?;
            }
        }
    }
    folders.iter().rev().filter(|(from, _)| !is_gone(from)).try_for_each(copy_mode)
}

/// Returns whether an entry was deleted. A link without a target is still there.
fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the batch was cancelled")
}

fn copy_file(from: &Path, to: &Path, is_stopped: &impl Fn() -> bool) -> io::Result<()> {
    if reflink_copy::reflink(from, to).is_err() {
        copy_content(from, to, is_stopped)?;
    }
    let metadata = fs::metadata(from)?;
    fs::set_permissions(to, metadata.permissions())?;
    // Tools such as make compare times. Some file systems have none.
    if let Ok(modified) = metadata.modified() {
        fs::File::open(to).and_then(|file| file.set_modified(modified)).ok();
    }
    Ok(())
}

/// Copies the data of a file, and leaves out its holes: a file can be much larger than the disk.
#[cfg(target_os = "linux")]
fn copy_content(from: &Path, to: &Path, is_stopped: &impl Fn() -> bool) -> io::Result<()> {
    use std::io::{Read as _, Seek as _};
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::SeekFrom;
    use rustix::io::Errno;

    /// How much is copied between two looks at the cancel.
    const PIECE: u64 = 16 << 20;

    // Another program may have put a pipe or a link there meanwhile.
    let mut source = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(from)?;
    let found = source.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file any more"));
    }
    let mut target = fs::File::create(to)?;
    let length = found.len();
    let mut position = 0;
    while position < length {
        position = match rustix::fs::seek(&source, SeekFrom::Data(position)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            // The file system does not know holes.
            Err(_) => position,
        };
        let end = rustix::fs::seek(&source, SeekFrom::Hole(position)).unwrap_or(length).min(length);
        source.seek(io::SeekFrom::Start(position))?;
        target.seek(io::SeekFrom::Start(position))?;
        while position < end {
            if is_stopped() {
                return Err(stopped());
            }
            match io::copy(&mut (&mut source).take(PIECE.min(end - position)), &mut target)? {
                // Another program has cut the file.
                0 => return target.set_len(position),
                copied => position += copied,
            }
        }
    }
    target.set_len(length)
}

#[cfg(not(target_os = "linux"))]
fn copy_content(from: &Path, to: &Path, _is_stopped: &impl Fn() -> bool) -> io::Result<()> {
    fs::copy(from, to).map(drop)
}

#[cfg(unix)]
fn copy_link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(fs::read_link(from)?, to)
}

#[cfg(windows)]
fn copy_link(from: &Path, to: &Path) -> io::Result<()> {
    let target = fs::read_link(from)?;
    if from.is_dir() {
        std::os::windows::fs::symlink_dir(target, to)
    } else {
        std::os::windows::fs::symlink_file(target, to)
    }
}

#[cfg(not(any(unix, windows)))]
fn copy_link(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Copies the permissions of a folder. Its owner may always write, so that the copy can be deleted.
#[cfg(unix)]
fn copy_mode((from, to): &(PathBuf, PathBuf)) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let mode = fs::metadata(from)?.permissions().mode();
    fs::set_permissions(to, fs::Permissions::from_mode(mode | 0o700))
}

#[cfg(not(unix))]
fn copy_mode(_folders: &(PathBuf, PathBuf)) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn copy_keeps_modes_times_links() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("private/to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::create_dir(folder.path().join("private")).unwrap();
        fs::write(from.join("deep/er/run.sh"), "echo").unwrap();
        fs::set_permissions(from.join("deep/er/run.sh"), fs::Permissions::from_mode(0o555)).unwrap();
        fs::set_permissions(from.join("deep"), fs::Permissions::from_mode(0o555)).unwrap();
        std::os::unix::fs::symlink("nowhere", from.join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
        copy_tree(&from, &to, || false).unwrap();
        let copied = to.join("deep/er/run.sh");
        assert_eq!(fs::read_to_string(&copied).unwrap(), "echo");
        let (old, new) = (fs::metadata(from.join("deep/er/run.sh")).unwrap(), fs::metadata(&copied).unwrap());
        assert_eq!((old.mode_bits(), old.modified().unwrap()), (new.mode_bits(), new.modified().unwrap()));
        assert_eq!(fs::metadata(to.join("deep")).unwrap().mode_bits(), 0o755);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("nowhere"));
        assert!(!to.join("socket").exists());
        fs::set_permissions(from.join("deep"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[cfg(unix)]
    trait Mode {
        fn mode_bits(&self) -> u32;
    }

    #[cfg(unix)]
    impl Mode for fs::Metadata {
        fn mode_bits(&self) -> u32 {
            std::os::unix::fs::PermissionsExt::mode(&self.permissions()) & 0o777
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn holes_of_a_file_are_not_copied_as_data() {
        use std::os::unix::fs::{FileExt as _, MetadataExt as _};

        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let (size, middle) = (1_u64 << 40, 1_u64 << 39);
        let file = fs::File::create(&from).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        file.write_all_at(b"middle", middle).unwrap();
        file.set_len(size).unwrap();
        copy_content(&from, &to, &|| false).unwrap();
        let copied = fs::File::open(&to).unwrap();
        let mut bytes = [0; 6];
        copied.read_exact_at(&mut bytes, middle).unwrap();
        assert_eq!((&bytes, copied.metadata().unwrap().len()), (b"middle", size));
        copied.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"first\0");
        assert!(copied.metadata().unwrap().blocks() <= file.metadata().unwrap().blocks() + 64);
        assert_eq!(copy_content(&from, &to, &|| true).unwrap_err().kind(), io::ErrorKind::Interrupted);
        for text in ["", "short"] {
            fs::write(&from, text).unwrap();
            copy_content(&from, &to, &|| false).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), text);
        }
    }

    #[test]
    fn folder_is_not_copied_into_itself() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inside")).unwrap();
        let error = copy_tree(folder.path(), &folder.path().join("inside/to"), || false).unwrap_err();
        assert!(error.to_string().contains("contains the folder of temporary files"));
    }

    #[test]
    fn deleted_entries_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("deep")).unwrap();
        fs::write(from.join("file"), "").unwrap();
        // Deletes both after they were listed.
        let calls = std::cell::Cell::new(0);
        let delete = || {
            calls.set(calls.get() + 1);
            if calls.get() == 1 {
                fs::remove_file(from.join("file")).unwrap();
                // On Windows a folder that is being listed stays.
                #[cfg(unix)]
                fs::remove_dir(from.join("deep")).unwrap();
            }
            false
        };
        copy_tree(&from, &to, delete).unwrap();
        assert!(calls.get() > 1);
        assert!(to.is_dir() && !to.join("file").exists());
    }

    #[test]
    fn cancelled_copy_stops() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("from/x")).unwrap();
        let copied = copy_tree(&folder.path().join("from"), &folder.path().join("to"), || true);
        assert_eq!(copied.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
