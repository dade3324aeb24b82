//! Sockets as bells: the core writes a byte, and whoever waits in Python wakes. So no thread of the core needs to enter
//! Python, and signals interrupt the wait.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::task::{Wake, Waker};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

#[cfg(unix)]
pub(crate) type Socket = std::os::unix::net::UnixStream;
#[cfg(windows)]
pub(crate) type Socket = std::net::TcpStream;

/// Two connected sockets: loops can watch sockets everywhere.
#[cfg(unix)]
pub(crate) fn pair() -> std::io::Result<(Socket, Socket)> {
    Socket::pair()
}

#[cfg(windows)]
pub(crate) fn pair() -> std::io::Result<(Socket, Socket)> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let writer = Socket::connect(listener.local_addr()?)?;
    loop {
        let (reader, peer) = listener.accept()?;
        // Anybody on this machine may have connected first.
        if peer == writer.local_addr()? {
            return Ok((reader, writer));
        }
    }
}

#[cfg(unix)]
pub(crate) fn descriptor(socket: &Socket) -> i64 {
    use std::os::fd::AsRawFd;
    socket.as_raw_fd().into()
}

#[cfg(windows)]
pub(crate) fn descriptor(socket: &Socket) -> i64 {
    use std::os::windows::io::AsRawSocket;
    socket.as_raw_socket() as i64
}

struct Ring(Socket);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        // A full socket is readable already.
        drop((&self.0).write(&[1]));
    }
}

/// The bell of a thread that waits without an event loop.
struct Bell {
    reader: Socket,
    waker: Waker,
}

impl Bell {
    fn new() -> std::io::Result<Self> {
        let (reader, writer) = pair()?;
        writer.set_nonblocking(true)?;
        // Nothing interrupts a read there.
        #[cfg(windows)]
        reader.set_read_timeout(Some(std::time::Duration::from_millis(100)))?;
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
            let made = Bell::new().map_err(|error| PyOSError::new_err(error.to_string()))?;
            // Nobody else sets what is this thread's own.
            drop(bell.set(made));
        }
        let Some(bell) = bell.get() else { return Ok(()) };
        while !ready(&bell.waker) {
            let mut bytes = [0; 64];
            // What an earlier wait left only makes it look again.
            let woken = py.detach(|| (&bell.reader).read(&mut bytes));
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
