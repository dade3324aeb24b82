//! Whether a folder belongs to this user, and whether its parent is safe.

#[cfg(unix)]
use std::io;
use std::path::Path;

/// Returns whether others cannot replace an entry between a check and an action: `/tmp` is sticky.
#[cfg(unix)]
pub(super) fn is_safe(parent: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata(parent).is_ok_and(|metadata| metadata.mode() & 0o022 == 0 || metadata.mode() & 0o1000 != 0)
}

/// On Windows the check of [`is_ours`] opens the folder itself. The sweep holds the lock file open, so nobody can replace
/// the folders above it meanwhile.
#[cfg(not(unix))]
pub(super) fn is_safe(_parent: &Path) -> bool {
    true
}

/// Returns whether this is a folder of this user that no other user can read. Returns false for a link.
///
/// # Errors
/// Returns the error of the system if the folder does not exist or cannot be checked.
#[cfg(unix)]
pub(super) fn is_ours(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let metadata = std::fs::symlink_metadata(path)?;
    Ok(metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0)
}

#[cfg(windows)]
pub(super) use super::windows::is_private_dir as is_ours;

/// The name of this user.
#[cfg(unix)]
pub(super) fn user() -> String {
    rustix::process::geteuid().as_raw().to_string()
}

#[cfg(windows)]
pub(super) fn user() -> String {
    super::windows::user().unwrap_or_else(|_| "private".to_owned())
}
