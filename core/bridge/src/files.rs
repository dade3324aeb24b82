//! Private files that a host passes to an agent by path.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::private::PrivateDir;

/// A folder of files that only this user can read. It is deleted when this is dropped, or by [`PrivateFolder::remove`].
/// If the process is killed, the next process that opens a session deletes it.
#[derive(Debug, Default)]
pub struct PrivateFolder(Mutex<Option<PrivateDir>>);

impl PrivateFolder {
    /// Writes a file. The first file creates the folder.
    ///
    /// # Errors
    /// Returns the message of the system.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let failed = |error| {
            Error::Spawn(format!("can't write a private file in {}: {error}", crate::private::temp_dir().display()))
        };
        let mut folder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match &mut *folder {
            // A forked child must not delete its parent's folder.
            Some(folder) if folder.is_own() => folder,
            other => other.insert(PrivateDir::new().map_err(failed)?),
        };
        folder.write(name, content.as_bytes()).map_err(failed)
    }

    /// Deletes the folder with everything in it.
    pub fn remove(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
