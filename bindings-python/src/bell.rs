//! Descriptors that wake Python: the core writes, and an event loop or a thread of Python that waits reads. So no thread of
//! the core enters Python, and signals interrupt the wait.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::{ending, lacking};

/// How long a thread waits before it looks for signals. On Windows they interrupt no wait, and elsewhere only that of the
/// thread that the system has chosen.
const PATIENCE: Duration = Duration::from_millis(100);

/// One of two ends: bytes that are written into one are read from the other.
#[cfg(target_os = "linux")]
pub(crate) type End = Arc<std::fs::File>;
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) type End = Arc<std::os::unix::net::UnixStream>;
#[cfg(windows)]
pub(crate) type End = Arc<std::net::TcpStream>;

/// Whether reading waits until there is something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Waits,
    IsAtOnce,
}

/// An eventfd, which is its own other end. A ring costs a third of what it costs with a socket, and a session has one
/// descriptor less.
#[cfg(target_os = "linux")]
pub(crate) fn ends(reading: Reading) -> std::io::Result<(End, End)> {
    use rustix::event::{EventfdFlags, eventfd};

    let flags = if reading == Reading::IsAtOnce { EventfdFlags::NONBLOCK } else { EventfdFlags::empty() };
    let end = Arc::new(std::fs::File::from(eventfd(0, EventfdFlags::CLOEXEC | flags)?));
    Ok((Arc::clone(&end), end))
}

/// Two connected sockets: loops can watch sockets everywhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ends(reading: Reading) -> std::io::Result<(End, End)> {
    let (reader, writer) = pair()?;
    reader.set_nonblocking(reading == Reading::IsAtOnce)?;
    writer.set_nonblocking(true)?;
    reader.set_read_timeout(Some(PATIENCE))?;
    Ok((Arc::new(reader), Arc::new(writer)))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn pair() -> std::io::Result<(std::os::unix::net::UnixStream, std::os::unix::net::UnixStream)> {
    std::os::unix::net::UnixStream::pair()
}

#[cfg(windows)]
fn pair() -> std::io::Result<(std::net::TcpStream, std::net::TcpStream)> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let writer = std::net::TcpStream::connect(listener.local_addr()?)?;
    loop {
        let (reader, peer) = listener.accept()?;
        // Anybody on this machine may have connected first.
        if peer == writer.local_addr()? {
            return Ok((reader, writer));
        }
    }
}

/// Waits for a ring, at most [`PATIENCE`].
fn hear(end: &End, bytes: &mut [u8]) -> std::io::Result<usize> {
    #[cfg(target_os = "linux")]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
        if poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&patience))? == 0 {
            return Ok(0);
        }
    }
    (&**end).read(bytes)
}

/// Makes the other end readable.
pub(crate) fn ring(end: &End) {
    // A full pipe is readable already.
    drop((&**end).write(&1_u64.to_ne_bytes()));
}

#[cfg(unix)]
pub(crate) fn descriptor(end: &End) -> i64 {
    use std::os::fd::AsRawFd;
    end.as_raw_fd().into()
}

#[cfg(windows)]
pub(crate) fn descriptor(end: &End) -> i64 {
    use std::os::windows::io::AsRawSocket;
    end.as_raw_socket() as i64
}

struct Ring(End);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        ring(&self.0);
    }
}

/// The bell of a thread that waits without an event loop.
struct Bell {
    reader: End,
    waker: Waker,
}

impl Bell {
    fn new() -> std::io::Result<Self> {
        let (reader, writer) = ends(Reading::Waits)?;
        Ok(Self { reader, waker: Waker::from(Arc::new(Ring(writer))) })
    }
}

thread_local! {
    static BELL: std::cell::OnceCell<Bell> = const { std::cell::OnceCell::new() };
}

/// Blocks this thread, Python's lock released, until `ready` says yes; when it says no, it has kept the waker.
pub(crate) fn wait(py: Python<'_>, ready: impl Fn(&Waker) -> bool) -> PyResult<()> {
    BELL.with(|bell| {
        if bell.get().is_none() {
            let made = Bell::new().map_err(|error| lacking(py, "descriptor", &error))?;
            // Nobody else sets what is this thread's own.
            drop(bell.set(made));
        }
        let Some(bell) = bell.get() else { return Ok(()) };
        while !ready(&bell.waker) {
            let mut bytes = [0; 64];
            // Bytes that an earlier wait left only make the reader look again.
            let woken = py.detach(|| {
                let heard = hear(&bell.reader, &mut bytes);
                ending::stay_detached();
                heard
            });
            match woken.map_err(|error| error.kind()) {
                Ok(_) | Err(ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    py.check_signals()?
                }
                Err(kind) => return Err(PyOSError::new_err(kind.to_string())),
            }
        }
        Ok(())
    })
}
