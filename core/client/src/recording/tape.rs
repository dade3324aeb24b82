//! The cassettes that this program records or plays. Each is the recording of one session. A session that does not open
//! leaves the old recording as it is.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use super::file::{RecordingFile, lock, private_file};

pub(crate) const TAKEN: &str = "this cassette has a session already; a cassette is the recording of one session, so use another \
                     cassette for the other session";

static TAPES: LazyLock<Mutex<HashMap<PathBuf, Tape>>> = LazyLock::new(Mutex::default);

/// The cassettes that this program plays, each with the session that plays it.
static PLAYED: LazyLock<Mutex<HashMap<PathBuf, Option<Arc<Progress>>>>> = LazyLock::new(Mutex::default);

/// A cassette that this program records.
#[derive(Debug, Default)]
struct Tape {
    /// The session that records, or has recorded.
    session: Option<Arc<Progress>>,
    /// The file of that session.
    file: Weak<RecordingFile>,
}

/// The progress of a session that is recorded.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    has_failed: AtomicBool,
    has_ended: AtomicBool,
}

impl Progress {
    /// Notes that the recording has ended.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    #[cfg(feature = "testing")]
    fn is_over(&self) -> bool {
        self.has_failed() || self.has_ended.load(Ordering::Acquire)
    }
}

/// The opening of a session. Unless it succeeds, a further session may use the cassette.
#[derive(Debug)]
pub(crate) struct Opening(Option<Arc<Progress>>);

impl Opening {
    pub(crate) fn of(file: Option<&Arc<RecordingFile>>) -> Self {
        Self(file.map(|file| Arc::clone(&file.progress)))
    }

    /// Begins a session that plays a cassette. `None` if another session plays it, or has played it.
    pub(crate) fn of_player(path: &Path) -> Option<Self> {
        let mut played = lock(&PLAYED);
        let session = played.entry(resolved(path)).or_default();
        if session.as_ref().is_some_and(|session| !session.has_failed()) {
            return None;
        }
        Some(Self(Some(Arc::clone(session.insert(Arc::default())))))
    }

    pub(crate) fn succeed(mut self) {
        self.0 = None;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(progress) = &self.0 {
            progress.has_failed.store(true, Ordering::Release);
        }
    }
}

/// Notes that the next session with this path records a cassette.
#[cfg(feature = "testing")]
pub(crate) fn add_cassette(path: &Path) {
    let mut tapes = lock(&TAPES);
    let tape = tapes.entry(path.to_owned()).or_default();
    if tape.session.as_ref().is_some_and(|session| session.is_over()) {
        tape.session = None;
    }
}

/// Notes that the next session that plays the cassette at this path may do so.
#[cfg(feature = "testing")]
pub(crate) fn add_played_cassette(path: &Path) {
    lock(&PLAYED).insert(resolved(path), None);
}

/// The path without links and `..`, because the path of a command line can be written differently.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns whether this program records a cassette to this path.
#[cfg(feature = "batch")]
pub(crate) fn is_cassette(path: &Path) -> bool {
    lock(&TAPES).contains_key(path)
}

/// Opens the file of a cassette for a session. Returns `None` if the path is not that of a cassette.
pub(super) fn open(path: &Path) -> Option<io::Result<Arc<RecordingFile>>> {
    lock(&TAPES).get_mut(path).map(|tape| tape.open(path))
}

impl Tape {
    fn open(&mut self, path: &Path) -> io::Result<Arc<RecordingFile>> {
        if self.session.as_ref().is_some_and(|session| !session.has_failed()) {
            return Err(io::Error::other(TAKEN));
        }
        if let Some(old) = self.file.upgrade() {
            old.abandon();
        }
        let file = Arc::new(RecordingFile::new(path.to_owned(), private_file(path, false)?));
        (self.session, self.file) = (Some(Arc::clone(&file.progress)), Arc::downgrade(&file));
        Ok(file)
    }
}
