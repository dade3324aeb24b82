//! The agent's streams: a thread that reads lines, and a writer that ignores a closed output.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::script::SocketBreak;

/// Locked during a write to standard output, so that agents of one process do not mix their output.
static PEN: Mutex<()> = Mutex::new(());
/// The pause before a retry if a stream is non-blocking.
const RETRY: Duration = Duration::from_millis(1);

pub(crate) enum Input {
    Line(Vec<u8>),
    Eof,
    /// Nothing arrived in time.
    Nothing,
}

pub(crate) struct Io {
    lines: Receiver<Vec<u8>>,
    output: Box<dyn Output>,
}

/// The output of an agent.
pub(crate) trait Output: Write {
    /// Waits until the pending output has left this process.
    fn settle(&mut self) {}

    /// Breaks the connections of the client, if they can break while the process runs. Returns whether it is done. If
    /// not, the client is not ready yet.
    fn break_sockets(&mut self, _how: SocketBreak) -> bool {
        true
    }

    /// Returns whether a client has a connection that receives the output of this agent.
    fn is_heard(&self) -> bool {
        true
    }
}

impl Output for io::Stdout {}
impl Output for io::Sink {}

/// The output was closed by its reader.
pub(crate) struct Gone;

impl Io {
    /// Uses the streams of this process.
    pub(crate) fn standard() -> Self {
        let (io, sender) = Self::fed();
        thread::spawn(move || read_standard(|line| sender.send(line).is_ok()));
        io
    }

    /// Uses other streams.
    pub(crate) fn fed() -> (Self, SyncSender<Vec<u8>>) {
        // Capacity for one line: an agent that has stopped reading must not take more input.
        let (sender, lines) = sync_channel(1);
        (Self::of(lines), sender)
    }

    pub(crate) fn of(lines: Receiver<Vec<u8>>) -> Self {
        Self::with(lines, Box::new(io::stdout()))
    }

    pub(crate) fn with(lines: Receiver<Vec<u8>>, output: Box<dyn Output>) -> Self {
        Self { lines, output }
    }

    /// Waits until the pending output has left this process.
    pub(crate) fn settle(&mut self) {
        self.output.settle();
    }

    /// Breaks the client's connections, if they can break while the process runs. Returns whether it is done.
    pub(crate) fn break_sockets(&mut self, how: SocketBreak) -> bool {
        self.output.break_sockets(how)
    }

    /// Returns whether a client receives the output of this agent.
    pub(crate) fn is_heard(&self) -> bool {
        self.output.is_heard()
    }

    /// Returns the next line. Waits for it until `until`, or without a limit.
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

    /// Closes standard output. Later output is dropped.
    pub(crate) fn close_stdout(&mut self) {
        self.output = Box::new(io::sink());
        close_stdout();
    }
}

/// Reads lines of standard input until `take` returns that it has enough.
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

/// A reader that waits if the stream is non-blocking. A host language may have set that mode.
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
    // Replaced instead of closed: otherwise a file that is opened later could become standard output.
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
