//! The agent's own streams: a thread that reads lines, and a writer that gives up quietly when nobody reads.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Held while something is written to standard output, so that agents which share it do so one after the other.
static PEN: Mutex<()> = Mutex::new(());
/// How long to wait where a stream turns out to be non-blocking.
const RETRY: Duration = Duration::from_millis(1);

pub(crate) enum Input {
    Line(Vec<u8>),
    Eof,
    /// Nothing came in time.
    Nothing,
}

pub(crate) struct Io {
    lines: Receiver<Vec<u8>>,
    output: Box<dyn Write>,
}

/// Nobody reads what we write.
pub(crate) struct Gone;

impl Io {
    /// Streams of this process.
    pub(crate) fn standard() -> Self {
        let (io, sender) = Self::fed();
        thread::spawn(move || read_standard(|line| sender.send(line).is_ok()));
        io
    }

    /// One whose lines come from elsewhere.
    pub(crate) fn fed() -> (Self, SyncSender<Vec<u8>>) {
        // Next to no room: an agent that has stopped listening must not go on reading.
        let (sender, lines) = sync_channel(1);
        (Self::of(lines), sender)
    }

    pub(crate) fn of(lines: Receiver<Vec<u8>>) -> Self {
        Self { lines, output: Box::new(io::stdout()) }
    }

    /// The next line; waits for it until `until`, or for ever.
    pub(crate) fn read(&self, until: Option<Instant>) -> Input {
        let outcome = match until {
            None => self.lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => self.lines.recv_timeout(left),
                _ => self.lines.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
            },
        };
        match outcome {
            Ok(line) => Input::Line(line),
            Err(RecvTimeoutError::Timeout) => Input::Nothing,
            Err(RecvTimeoutError::Disconnected) => Input::Eof,
        }
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        let _pen = PEN.lock().unwrap_or_else(PoisonError::into_inner);
        while !bytes.is_empty() {
            match self.output.write(bytes) {
                Ok(0) => return Err(Gone),
                Ok(written) => bytes = &bytes[written..],
                Err(error) => wait_if_patience_helps(error).map_err(|_| Gone)?,
            }
        }
        loop {
            match self.output.flush() {
                Ok(()) => return Ok(()),
                Err(error) => wait_if_patience_helps(error).map_err(|_| Gone)?,
            }
        }
    }

    /// Ends standard output for whoever reads it; what is written after that goes nowhere.
    pub(crate) fn close_stdout(&mut self) {
        self.output = Box::new(io::sink());
        close_stdout();
    }
}

/// Reads the lines of standard input, until `take` has enough.
pub(crate) fn read_standard(mut take: impl FnMut(Vec<u8>) -> bool) {
    let mut input = io::BufReader::new(Patient(io::stdin()));
    loop {
        let mut line = Vec::new();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
            }
        }
        if !take(line) {
            return;
        }
    }
}

/// A reader that waits where the stream is non-blocking: a host language may have made it so.
struct Patient<R>(R);

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) => wait_if_patience_helps(error)?,
                outcome => return outcome,
            }
        }
    }
}

fn wait_if_patience_helps(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock => {
            thread::sleep(RETRY);
            Ok(())
        }
        _ => Err(error),
    }
}

#[cfg(unix)]
fn close_stdout() {
    use std::os::fd::AsRawFd;
    // Replaced rather than closed: a file opened later must not become standard output.
    if let Ok(nowhere) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        // SAFETY: both descriptors are open, and dup2 has no other demands.
        unsafe { libc::dup2(nowhere.as_raw_fd(), libc::STDOUT_FILENO) };
    }
}

#[cfg(windows)]
fn close_stdout() {
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    // SAFETY: the handle is open; nothing is written to it after this.
    drop(unsafe { OwnedHandle::from_raw_handle(io::stdout().as_raw_handle()) });
}

#[cfg(not(any(unix, windows)))]
fn close_stdout() {}
