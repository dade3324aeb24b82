//! The file of a recording: its name, and what waits to be written to it.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use kimi_agent_protocol::recording::{Entry, EntryWriter, GapEntry};
use tokio::sync::oneshot;

use super::tape::{self, Progress};
use super::writer::{Batch, Job, Message, WRITER};

/// The limit of bytes that wait to be written. Further entries are left out.
const MAX_WAITING: usize = if cfg!(test) { 4 << 20 } else { 64 << 20 };
/// How long the end of a session waits until its recording is complete.
const COMPLETE_TIMEOUT: Duration = Duration::from_secs(5);

/// The files that this program writes at the moment.
static OPEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// The last numbers of the files of sessions that have one option `record` in common, so that none replaces another.
pub(crate) type Used = Arc<Mutex<HashMap<PathBuf, u32>>>;

/// The file of a recording.
#[derive(Debug)]
pub(crate) struct RecordingFile {
    pub(super) path: PathBuf,
    /// The number of the attempt to open the session that is recorded.
    attempt: AtomicU32,
    waiting: Mutex<Waiting>,
    pub(super) output: Mutex<Output>,
    pub(super) progress: Arc<Progress>,
    /// Why it could not be written to its end.
    pub(super) problem: OnceLock<String>,
}

/// The entries that wait to be written.
#[derive(Debug, Default)]
struct Waiting {
    batch: Batch,
    /// The size of the entries that the writer has taken.
    taken: usize,
    /// The entries that were left out since the last one.
    missing: Option<GapEntry>,
}

/// The parts that the writer uses.
#[derive(Debug)]
pub(super) struct Output {
    /// `None` after an error.
    pub(super) file: Option<File>,
    /// The writer that the last header made.
    pub(super) writer: Option<EntryWriter>,
    /// The start of the times of its entries.
    pub(super) began: Option<Instant>,
    /// The text that waits until the session has opened, because it then replaces an old recording.
    pub(super) held: Option<Vec<u8>>,
}

impl RecordingFile {
    /// Creates a file for the session with this id. A file of an earlier recording is replaced when the session has opened.
    /// The recording gets a name of its own in a folder, if this program writes to the file already, and if `used` has the
    /// file. A cassette keeps its name.
    pub(super) fn create(path: &Path, id: &str, used: Option<&Used>) -> io::Result<Arc<Self>> {
        WRITER.start()?;
        let is_folder = super::is_folder(path);
        let first = if is_folder {
            fs::create_dir_all(path)?;
            path.join(file_name(id))
        } else {
            path.to_owned()
        };
        if let Some(file) = tape::open(&first) {
            return file;
        }
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        // In a folder the system knows which names are new.
        let mut used = used.filter(|_| !is_folder).map(|used| lock(used));
        let mut number = used.as_ref().and_then(|used| used.get(&first)).map_or(1, |last| last + 1);
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
        // Sessions can write to one pipe or device after the other.
        if let Some(used) = &mut used
            && file.metadata().is_ok_and(|kind| kind.is_file())
        {
            used.insert(first, number - 1);
        }
        Ok(Arc::new(Self::new(path, file)))
    }

    pub(super) fn new(path: PathBuf, file: File) -> Self {
        let held = file.metadata().is_ok_and(|data| data.is_file() && data.len() > 0).then(Vec::new);
        Self {
            path,
            attempt: AtomicU32::new(0),
            waiting: Mutex::default(),
            output: Mutex::new(Output { file: Some(file), writer: None, began: None, held }),
            progress: Arc::default(),
            problem: OnceLock::new(),
        }
    }

    /// Returns why the file could not be written to its end.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.get().map(String::as_str)
    }

    /// Returns the path of the file.
    #[cfg(feature = "batch")]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes nothing more, because another session uses the file.
    pub(super) fn abandon(&self) {
        let mut output = lock(&self.output);
        (output.file, output.held) = (None, None);
    }

    /// Notes that an attempt to open the session has ended its recording.
    pub(super) fn end(&self, attempt: u32) {
        if attempt == self.attempt.load(Ordering::Acquire) {
            self.progress.end();
        }
    }

    /// Begins an attempt to open the session. Entries of earlier attempts are ignored from now on.
    pub(super) fn begin(&self) -> u32 {
        self.attempt.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Passes an entry to the writer.
    pub(super) fn push(self: &Arc<Self>, attempt: u32, job: Job) {
        self.push_with(attempt, job, &[]);
    }

    /// Passes a line to the writer. It is left out if too much waits already.
    pub(super) fn push_line(self: &Arc<Self>, attempt: u32, message: Message, line: &[u8]) {
        self.push_with(attempt, Job::Message(message), line);
    }

    fn push_with(self: &Arc<Self>, attempt: u32, job: Job, line: &[u8]) {
        if attempt != self.attempt.load(Ordering::Acquire) {
            return;
        }
        let mut waiting = lock(&self.waiting);
        if waiting.taken + waiting.batch.bytes() + job.size() > MAX_WAITING && !job.is_kept() {
            let missing = waiting.missing.get_or_insert(GapEntry { entries: 0, bytes: 0 });
            missing.entries += 1;
            missing.bytes += job.size() as u64;
            return;
        }
        let (is_first, was_urgent) = (waiting.batch.is_empty(), waiting.batch.is_urgent());
        if let Some(gap) = waiting.missing.take() {
            waiting.batch.push(Job::of_entry(job.time(), Entry::Gap(gap)), &[]);
        }
        waiting.batch.push(job, line);
        let is_urgent = waiting.batch.is_urgent() && !was_urgent;
        drop(waiting);
        if is_first || is_urgent {
            WRITER.notify(is_first.then(|| Arc::clone(self)), is_urgent);
        }
    }

    /// Takes what waits. If it is much, its place gets the memory of this empty batch. [`written`](Self::written) follows.
    pub(super) fn take(&self, empty: &mut Batch) -> Batch {
        let mut waiting = lock(&self.waiting);
        let next = if waiting.batch.is_much() { std::mem::take(empty) } else { Batch::default() };
        let batch = std::mem::replace(&mut waiting.batch, next);
        waiting.taken = batch.bytes();
        batch
    }

    /// Notes that everything that was taken is written.
    pub(super) fn written(&self) {
        lock(&self.waiting).taken = 0;
    }

    /// Waits until everything is written.
    pub(crate) async fn complete(self: &Arc<Self>) {
        let (sender, done) = oneshot::channel();
        self.push(self.attempt.load(Ordering::Acquire), Job::Complete(sender));
        if tokio::time::timeout(COMPLETE_TIMEOUT, done).await.is_err() {
            tracing::warn!(path = %self.path.display(), "the recording is not complete yet: the disk or the search for secrets is slow");
        }
    }
}

impl Drop for RecordingFile {
    fn drop(&mut self) {
        self.progress.end();
        if lock(&self.output).held.is_some() {
            let path = self.path.display();
            tracing::warn!(%path, "the session was not opened, so the file keeps the recording of an earlier session");
        }
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the name of a recording in a folder: the time in UTC with milliseconds, and the id of the session. So names sort by
/// time.
fn file_name(id: &str) -> String {
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string().replace([':', '-'], "");
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

/// Opens a file, whose content stays, or creates one that only this user can read, because it contains a conversation. A link is
/// refused, because a recording would destroy the file that it leads to.
pub(super) fn private_file(path: &Path, must_be_new: bool) -> io::Result<File> {
    if must_be_new {
        return kimi_agent_files::create_private(path);
    }
    kimi_agent_files::open_private_output(path, OpenOptions::new().write(true))
}
