//! The thread that writes recordings. It wakes when a turn or a session ends or much waits, otherwise at most every
//! quarter of a second.

use std::io::{self, Seek, Write};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use kimi_agent_protocol::recording::{Entry, HeaderEntry, Side, write_entry, write_header, write_message};
use tokio::sync::oneshot;

use super::file::{RecordingFile, lock};

/// How long an entry may wait before it is written. A program that is killed loses what waits.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// From this number of bytes on they are written at once.
const MANY_BYTES: usize = 256 << 10;

/// The thread, which the first recording starts.
pub(super) static WRITER: LazyLock<Writer> = LazyLock::new(|| Writer { queue: Mutex::default(), wake: Condvar::new() });

/// Something for the thread to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Begins the file.
    Header(Box<HeaderEntry>),
    Message {
        time: f64,
        from: Side,
        line: Box<[u8]>,
    },
    Entry {
        time: f64,
        entry: Box<Entry>,
    },
    /// Reports that everything before it is written.
    Complete(oneshot::Sender<()>),
}

impl Job {
    pub(super) fn is_message(&self) -> bool {
        matches!(self, Self::Message { .. })
    }

    /// Returns the size in memory, roughly.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Message { line, .. } => line.len() + size_of::<Self>(),
            _ => size_of::<Self>(),
        }
    }

    pub(super) fn time(&self) -> f64 {
        match self {
            Self::Message { time, .. } | Self::Entry { time, .. } => *time,
            Self::Header(_) | Self::Complete(_) => 0.0,
        }
    }

    /// Returns whether it must not wait for others.
    fn is_urgent(&self) -> bool {
        match self {
            Self::Header(_) | Self::Complete(_) => true,
            Self::Entry { entry, .. } => matches!(**entry, Entry::Turn(_) | Entry::End(_)),
            Self::Message { .. } => false,
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    jobs: Vec<(Arc<RecordingFile>, Job)>,
    bytes: usize,
    is_urgent: bool,
    has_thread: bool,
}

/// The queue of the thread.
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

    pub(super) fn push(&self, file: &Arc<RecordingFile>, job: Job) {
        let mut queue = lock(&self.queue);
        let was_urgent = queue.is_urgent;
        queue.is_urgent |= job.is_urgent();
        queue.bytes += job.size();
        queue.is_urgent |= queue.bytes >= MANY_BYTES;
        let is_first = queue.jobs.is_empty();
        queue.jobs.push((Arc::clone(file), job));
        if is_first || queue.is_urgent && !was_urgent {
            self.wake.notify_one();
        }
    }

    fn run(&self) {
        let mut text = Vec::new();
        loop {
            let mut jobs = self.wait().into_iter().peekable();
            while let Some((file, job)) = jobs.next() {
                let size = job.size();
                let is_last = jobs.peek().is_none_or(|(next, _)| !Arc::ptr_eq(next, &file));
                work(&file, job, is_last, &mut text);
                file.written(size);
            }
            // One large message must not pin memory.
            text = Vec::new();
        }
    }

    /// Waits for jobs.
    fn wait(&self) -> Vec<(Arc<RecordingFile>, Job)> {
        let queue = lock(&self.queue);
        let queue = self.wake.wait_while(queue, |queue| queue.jobs.is_empty()).unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(queue, LONGEST_WAIT, |queue| !queue.is_urgent);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (queue.bytes, queue.is_urgent) = (0, false);
        std::mem::take(&mut queue.jobs)
    }
}

/// Does one job. Text is written when it is large, at the last job of the file, and before the end of a wait for it.
fn work(file: &RecordingFile, job: Job, is_last: bool, text: &mut Vec<u8>) {
    let mut output = lock(&file.output);
    let Some(redactor) = output.redactor.clone().filter(|_| output.file.is_some()) else {
        if let Job::Complete(done) = job {
            done.send(()).ok();
        }
        return;
    };
    let mut done = None;
    let mut written = Ok(());
    match job {
        Job::Header(header) => {
            text.clear();
            // An earlier attempt to open the session is replaced.
            written = output.file.as_mut().map_or(Ok(()), |file| file.set_len(0).and_then(|()| file.rewind()));
            write_header(text, *header, &redactor);
        }
        Job::Message { time, from, line } => write_message(text, time, from, &line, &redactor),
        Job::Entry { time, entry } => write_entry(text, time, *entry, &redactor),
        Job::Complete(sender) => done = Some(sender),
    }
    if is_last || done.is_some() || text.len() >= MANY_BYTES {
        written = written.and_then(|()| output.file.as_mut().map_or(Ok(()), |file| file.write_all(text)));
        text.clear();
    }
    if let Err(error) = written {
        tracing::warn!(
            path = %file.path.display(),
            %error,
            "the recording ends here, because its file cannot be written; the session continues"
        );
        output.file = None;
        text.clear();
    }
    if let Some(done) = done {
        done.send(()).ok();
    }
}
