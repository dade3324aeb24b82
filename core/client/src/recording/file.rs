//! The file of a recording: its name, and what waits to be written to it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use kimi_agent_protocol::recording::{Entry, GapEntry, Redactor};
use tokio::sync::oneshot;

use super::writer::{Job, WRITER};

/// The limit of bytes that wait to be written. Further messages are left out.
const MAX_WAITING: usize = 64 << 20;
/// How long the end of a session waits until its recording is complete.
const COMPLETE_TIMEOUT: Duration = Duration::from_secs(5);

/// The files that this program writes at the moment.
static OPEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// The file of a recording.
#[derive(Debug)]
pub(crate) struct RecordingFile {
    pub(super) path: PathBuf,
    /// The number of the attempt to open the session that is recorded.
    attempt: AtomicU32,
    waiting: Mutex<Waiting>,
    pub(super) output: Mutex<Output>,
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    /// What was left out since the last entry.
    missing: Option<GapEntry>,
}

/// What the writer uses.
#[derive(Debug)]
pub(super) struct Output {
    /// `None` after an error.
    pub(super) file: Option<File>,
    pub(super) redactor: Option<Arc<Redactor>>,
}

impl RecordingFile {
    /// Creates a file for the session with this id. A file of an earlier recording is replaced. In a folder, and if this
    /// program writes to the file already, the recording gets a name of its own.
    pub(super) fn create(path: &Path, id: &str) -> io::Result<Arc<Self>> {
        WRITER.start()?;
        let is_folder = super::is_folder(path);
        let first = if is_folder {
            fs::create_dir_all(path)?;
            path.join(file_name(id))
        } else {
            path.to_owned()
        };
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = 1;
        let (path, file) = loop {
            let path = numbered(&first, number);
            number += 1;
            if open.contains(&path) {
                continue;
            }
            match private_file(&path, is_folder) {
                Err(error) if is_folder && error.kind() == io::ErrorKind::AlreadyExists => {}
                file => break (path, file?),
            }
        };
        open.insert(path.clone());
        Ok(Arc::new(Self {
            path,
            attempt: AtomicU32::new(0),
            waiting: Mutex::default(),
            output: Mutex::new(Output { file: Some(file), redactor: None }),
        }))
    }

    /// Begins an attempt to open the session. Entries of earlier attempts are ignored from now on.
    pub(super) fn begin(&self, redactor: Redactor) -> u32 {
        lock(&self.output).redactor = Some(Arc::new(redactor));
        self.attempt.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Passes an entry to the writer. A message is left out if too much waits already.
    pub(super) fn push(self: &Arc<Self>, attempt: u32, job: Job) {
        if attempt != self.attempt.load(Ordering::Acquire) {
            return;
        }
        let size = job.size();
        let gap = {
            let mut waiting = lock(&self.waiting);
            if waiting.bytes + size > MAX_WAITING && job.is_message() {
                let missing = waiting.missing.get_or_insert(GapEntry { entries: 0, bytes: 0 });
                missing.entries += 1;
                missing.bytes += size as u64;
                return;
            }
            waiting.bytes += size;
            waiting.missing.take()
        };
        if let Some(gap) = gap {
            WRITER.push(self, Job::Entry { time: job.time(), entry: Box::new(Entry::Gap(gap)) });
        }
        WRITER.push(self, job);
    }

    /// Notes that an entry of this size was written.
    pub(super) fn written(&self, size: usize) {
        let mut waiting = lock(&self.waiting);
        waiting.bytes = waiting.bytes.saturating_sub(size);
    }

    /// Waits until everything is written.
    pub(crate) async fn complete(self: &Arc<Self>) {
        let (sender, done) = oneshot::channel();
        WRITER.push(self, Job::Complete(sender));
        if tokio::time::timeout(COMPLETE_TIMEOUT, done).await.is_err() {
            tracing::warn!(path = %self.path.display(), "the recording is not complete yet: its disk is too slow");
        }
    }
}

impl Drop for RecordingFile {
    fn drop(&mut self) {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the name of a recording in a folder: the time and the id of the session.
fn file_name(id: &str) -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace([':', '-'], "");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let id: String = id.chars().filter(|letter| is_plain(*letter)).take(100).collect();
    format!("{time}-{id}.jsonl")
}

/// Returns the path with a number in its name, from the second one on.
fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Creates a file that only this user can read, because it contains a conversation.
fn private_file(path: &Path, must_be_new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(must_be_new);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
