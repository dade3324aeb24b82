//! Whether a folder belongs to this user, and whether its parent is safe.

use std::fs::Metadata;
use std::path::Path;

/// Returns whether others cannot replace an entry between a check and an action: `/tmp` is sticky.
#[cfg(unix)]
pub(super) fn is_safe(parent: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata(parent).is_ok_and(|metadata| metadata.mode() & 0o022 == 0 || metadata.mode() & 0o1000 != 0)
}

#[cfg(not(unix))]
pub(super) fn is_safe(_parent: &Path) -> bool {
    true
}

#[cfg(unix)]
pub(super) fn is_ours(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    metadata.is_dir() && metadata.uid() == user() && metadata.mode() & 0o077 == 0
}

#[cfg(unix)]
pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The folder for temporary files belongs to the user there.
#[cfg(not(unix))]
pub(super) fn user() -> &'static str {
    "private"
}

#[cfg(not(unix))]
pub(super) fn is_ours(metadata: &Metadata) -> bool {
    metadata.is_dir()
}
