//! Private files for what a host hands to an agent by path.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::private::PrivateDir;

/// A folder of files that only this user can read: it goes with this, or with [`PrivateFolder::remove`], or where the
/// process is killed, when a later one opens a session.
#[derive(Debug, Default)]
pub struct PrivateFolder(Mutex<Option<PrivateDir>>);

impl PrivateFolder {
    /// Writes a file; it is made when there is the first.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let failed = |error| {
            Error::Spawn(format!("can't write a private file in {}: {error}", crate::private::temp_dir().display()))
        };
        let mut folder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match &mut *folder {
            // A fork leaves its parent's alone.
            Some(folder) if folder.is_own() => folder,
            other => other.insert(PrivateDir::new().map_err(failed)?),
        };
        folder.write(name, content.as_bytes()).map_err(failed)
    }

    /// Removes it, and all that is in it.
    pub fn remove(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
