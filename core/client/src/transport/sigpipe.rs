//! Writes to a pipe whose reader may have closed it, without SIGPIPE. Command lines often set that signal to its
//! default action, which ends the process. Any thread of the host may write, so the signal is blocked for each write.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// A writer that reports a closed pipe only as an error.
pub(super) struct WithoutSigpipe<W>(pub(super) W);

impl<W: AsyncWrite + Unpin> AsyncWrite for WithoutSigpipe<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let blocked = Blocked::new();
        let written = Pin::new(&mut self.0).poll_write(cx, bytes);
        blocked.unblock(matches!(&written, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe));
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// SIGPIPE is blocked on this thread.
struct Blocked {
    sigpipe: libc::sigset_t,
    before: libc::sigset_t,
}

impl Blocked {
    fn new() -> Self {
        let (mut sigpipe, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the first call fills `sigpipe`, the third fills `before`; none fails with these arguments.
        unsafe {
            libc::sigemptyset(sigpipe.as_mut_ptr());
            libc::sigaddset(sigpipe.as_mut_ptr(), libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, sigpipe.as_ptr(), before.as_mut_ptr());
            Self { sigpipe: sigpipe.assume_init(), before: before.assume_init() }
        }
    }

    /// Restores the signal mask. `raised`: the write has raised the signal. It is discarded first, unless the host
    /// itself has blocked it.
    fn unblock(self, raised: bool) {
        // SAFETY: all pointers are to initialized local variables, or null where that is allowed. `sigwait` does not wait: a
        // signal is pending, which was raised for this thread.
        unsafe {
            let (mut pending, mut signal) = (self.sigpipe, 0);
            if raised
                && libc::sigismember(&self.before, libc::SIGPIPE) == 0
                && libc::sigpending(&mut pending) == 0
                && libc::sigismember(&pending, libc::SIGPIPE) == 1
            {
                libc::sigwait(&self.sigpipe, &mut signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut());
        }
    }
}
