//! The thread that writes recordings. It wakes when a turn or a session ends or much waits, otherwise at most every
//! quarter of a second.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kimi_agent_protocol::recording::{Entry, EntryWriter, HeaderEntry, Redactor, Side};
use tokio::sync::oneshot;

use super::file::{Output, RecordingFile, lock};

/// How long an entry may wait before it is written. A program that is killed loses what waits.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// How long a piece of a text waits for the next one, if a secret may be in both. Together with the time above, this is
/// less than the second that a program loses that is killed.
const LONGEST_HOLD: Duration = Duration::from_millis(500);
/// From this number of bytes on they are written at once.
const MANY_BYTES: usize = 256 << 10;

/// The thread, which the first recording starts.
pub(super) static WRITER: LazyLock<Writer> = LazyLock::new(|| Writer { queue: Mutex::default(), wake: Condvar::new() });

/// Something for the thread to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Begins the file. An earlier attempt to open the session is removed from it.
    Header { header: Box<HeaderEntry>, redactor: Box<Redactor>, began: Instant, is_first: bool },
    /// Writes a line between the SDK and the agent.
    Message(Message),
    Entry {
        time: f64,
        entry: Box<Entry>,
        /// The size in memory, roughly.
        size: usize,
    },
    /// Reports that everything before it is written.
    Complete(oneshot::Sender<()>),
}

/// A line between the SDK and the agent. The queue has its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) time: f64,
    pub(super) from: Side,
    pub(super) is_json: bool,
    pub(super) length: usize,
}

impl Job {
    pub(super) fn of_entry(time: f64, entry: Entry) -> Self {
        // The thread of the session does not encode it.
        let size = size_of::<Entry>() + entry.text_length();
        Self::Entry { time, entry: Box::new(entry), size }
    }

    /// Returns whether it is written although too much waits. It is small, and a recording without it is of no use: the
    /// opening makes it replace an old one, and the end makes it complete.
    pub(super) fn is_kept(&self) -> bool {
        match self {
            Self::Header { .. } | Self::Complete(_) => true,
            Self::Entry { entry, .. } => matches!(**entry, Entry::Opened(_) | Entry::End(_)),
            Self::Message(_) => false,
        }
    }

    /// Returns the length of its line, which the queue has.
    fn line_length(&self) -> usize {
        if let Self::Message(message) = self { message.length } else { 0 }
    }

    /// Returns the size in memory, roughly.
    pub(super) fn size(&self) -> usize {
        let entry = if let Self::Entry { size, .. } = self { *size } else { 0 };
        self.line_length() + entry + size_of::<Self>()
    }

    pub(super) fn time(&self) -> f64 {
        match self {
            Self::Message(Message { time, .. }) | Self::Entry { time, .. } => *time,
            Self::Header { .. } | Self::Complete(_) => 0.0,
        }
    }

    /// Returns whether it must not wait for others.
    fn is_urgent(&self) -> bool {
        match self {
            Self::Header { .. } | Self::Complete(_) => true,
            Self::Entry { entry, .. } => matches!(**entry, Entry::Turn(_) | Entry::End(_)),
            Self::Message(_) => false,
        }
    }
}

/// The jobs of a file, and the lines of those that are messages.
#[derive(Debug, Default)]
pub(super) struct Batch {
    jobs: Vec<Job>,
    lines: Vec<u8>,
    bytes: usize,
    is_urgent: bool,
}

impl Batch {
    /// Adds a job. `line` is that of a message, otherwise it is empty.
    pub(super) fn push(&mut self, job: Job, line: &[u8]) {
        self.bytes += job.size();
        self.is_urgent |= job.is_urgent() || self.is_much();
        self.jobs.push(job);
        self.lines.extend_from_slice(line);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the size in memory, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether it must not wait for more.
    pub(super) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Returns whether so much waits that more follows soon.
    pub(super) fn is_much(&self) -> bool {
        self.bytes >= MANY_BYTES
    }

    /// Makes it empty for the next jobs. Memory is kept, up to some hundred kilobytes.
    fn clear(&mut self) {
        self.jobs.clear();
        self.jobs.shrink_to(MANY_BYTES / size_of::<Job>());
        clear(&mut self.lines);
        (self.bytes, self.is_urgent) = (0, false);
    }
}

/// Makes a text empty for the next one. Memory is kept, up to some hundred kilobytes.
fn clear(text: &mut Vec<u8>) {
    text.clear();
    text.shrink_to(2 * MANY_BYTES);
}

#[derive(Debug, Default)]
struct Queue {
    files: Vec<Arc<RecordingFile>>,
    is_urgent: bool,
    has_thread: bool,
}

/// The files with jobs for the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl Writer {
    /// Starts the thread, if it does not run.
    pub(super) fn start(&'static self) -> io::Result<()> {
        let mut queue = lock(&self.queue);
        if !queue.has_thread {
            std::thread::Builder::new().name("kimi-agent recordings".to_owned()).spawn(|| self.run())?;
            queue.has_thread = true;
        }
        Ok(())
    }

    /// Adds a file, whose first job has come, and wakes the thread if a job is urgent.
    pub(super) fn notify(&self, file: Option<Arc<RecordingFile>>, is_urgent: bool) {
        let mut queue = lock(&self.queue);
        queue.files.extend(file);
        queue.is_urgent |= is_urgent;
        self.wake.notify_one();
    }

    fn run(&self) {
        // The files of which pieces of texts wait.
        let mut holding: Vec<Arc<RecordingFile>> = Vec::new();
        // New memory for each batch of a busy session would cost more than all of the rest.
        let (mut empty, mut text) = (Batch::default(), Vec::new());
        loop {
            let files = self.wait(if holding.is_empty() { None } else { Some(LONGEST_HOLD / 2) });
            for file in files {
                let mut batch = file.take(&mut empty);
                let done = write(&file, &mut batch, &mut text);
                file.written();
                clear(&mut text);
                if batch.is_much() {
                    batch.clear();
                    empty = batch;
                }
                holding.retain(|held| !Arc::ptr_eq(held, &file));
                if done.is_empty() || release(&file) {
                    holding.push(file);
                } else {
                    // Before the report: the next session may use the path.
                    drop(file);
                }
                for sender in done {
                    sender.send(()).ok();
                }
            }
            holding.retain(release);
        }
    }

    /// Waits for files with jobs, at most for this time.
    fn wait(&self, limit: Option<Duration>) -> Vec<Arc<RecordingFile>> {
        let queue = lock(&self.queue);
        let is_empty = |queue: &mut Queue| queue.files.is_empty();
        let queue = match limit {
            None => self.wake.wait_while(queue, is_empty).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                self.wake.wait_timeout_while(queue, limit, is_empty).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        if queue.files.is_empty() {
            return Vec::new();
        }
        let waited = self.wake.wait_timeout_while(queue, LONGEST_WAIT, |queue| !queue.is_urgent);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.is_urgent = false;
        std::mem::take(&mut queue.files)
    }
}

/// Does the jobs of a file. Text is written when it is large, at the end, and before the end of a wait for it. Returns
/// the senders of those that wait.
fn write(file: &RecordingFile, batch: &mut Batch, text: &mut Vec<u8>) -> Vec<oneshot::Sender<()>> {
    let mut output = lock(&file.output);
    let Output { file: target, writer, began: began_at, held } = &mut *output;
    let mut is_held = held.is_some();
    let mut done = Vec::new();
    text.extend(held.take().unwrap_or_default());
    let mut lines = batch.lines.as_slice();
    for job in batch.jobs.drain(..) {
        let mut written = Ok(());
        // Taken for every message, also for one that is not written.
        let (line, rest) = lines.split_at(job.line_length());
        lines = rest;
        match (job, &mut *writer) {
            (Job::Header { header, redactor, began, is_first }, _) => {
                text.clear();
                // A pipe cannot be rewound, and a device not be cut.
                if let Some(file) = target.as_mut().filter(|_| !is_first && !is_held) {
                    written = file.set_len(0).and_then(|()| file.rewind());
                }
                *writer = Some(EntryWriter::new(text, *header, *redactor));
                *began_at = Some(began);
            }
            (Job::Message(message), Some(writer)) => {
                writer.message(text, message.time, message.from, line, message.is_json);
            }
            (Job::Entry { time, entry, .. }, Some(writer)) => {
                if is_held && matches!(*entry, Entry::Opened(_)) {
                    is_held = false;
                    written = target.as_ref().map_or(Ok(()), |file| file.set_len(0));
                }
                writer.entry(text, time, *entry);
            }
            (Job::Complete(sender), writer) => {
                if let Some(writer) = writer {
                    writer.finish(text);
                }
                if !is_held {
                    written = write_out(file, target, text);
                }
                done.push(sender);
            }
            // Each recording begins with its header.
            (Job::Message(_) | Job::Entry { .. }, None) => {}
        }
        if text.len() >= MANY_BYTES && !is_held {
            written = written.and_then(|()| write_out(file, target, text));
        }
        end_after_error(file, target, written);
    }
    if is_held {
        *held = Some(std::mem::take(text));
        return done;
    }
    let written = write_out(file, target, text);
    end_after_error(file, target, written);
    done
}

/// Writes the pieces of texts that have waited long enough. Returns whether others wait.
fn release(file: &Arc<RecordingFile>) -> bool {
    let mut output = lock(&file.output);
    let Output { file: target, writer: Some(writer), began: Some(began), held } = &mut *output else { return false };
    let mut text = Vec::new();
    writer.pause(&mut text, (began.elapsed().as_secs_f64() - LONGEST_HOLD.as_secs_f64()).max(0.0));
    match held {
        Some(held) => held.extend(text),
        None => {
            let written = write_out(file, target, &mut text);
            end_after_error(file, target, written);
        }
    }
    writer.waits_since().is_some()
}

/// Writes text to the file, unless the recording has ended.
fn write_out(file: &RecordingFile, target: &mut Option<File>, text: &mut Vec<u8>) -> io::Result<()> {
    let written = target.as_mut().map_or(Ok(()), |target| {
        // A pipe has no position. Behind the end of a shortened file, the text would be worth nothing.
        let length = target.stream_position().unwrap_or_default();
        kimi_agent_files::check_in_place(target, &file.path, length)?;
        target.write_all(text)
    });
    text.clear();
    written
}

fn end_after_error(file: &RecordingFile, target: &mut Option<File>, written: io::Result<()>) {
    if let Err(error) = written {
        tracing::warn!(
            path = %file.path.display(),
            %error,
            "the recording ends here, because its file cannot be written or was changed; the session continues"
        );
        file.problem.set(error.to_string()).ok();
        *target = None;
    }
}
