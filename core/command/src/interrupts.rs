//! Ctrl-C, and the signals that end a program in the same way.

use std::io;
#[cfg(unix)]
use std::task::Poll;

use crate::Failure;

/// Receives Ctrl-C from the time on when it is made; on Unix also SIGTERM and SIGHUP.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signals: Vec<tokio::signal::unix::Signal>,
    #[cfg(windows)]
    signals: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    /// Takes over the signals, which do not end the process any more.
    pub(crate) fn new() -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Because(format!("Ctrl-C cannot be received: {error}"));
        #[cfg(unix)]
        let signals = unix_signals();
        #[cfg(windows)]
        let signals = tokio::signal::windows::ctrl_c();
        Ok(Self { signals: signals.map_err(failed)? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        std::future::poll_fn(|cx| {
            let is_ready = |signal: &mut tokio::signal::unix::Signal| signal.poll_recv(cx) == Poll::Ready(Some(()));
            if self.signals.iter_mut().any(is_ready) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        #[cfg(windows)]
        if self.signals.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

#[cfg(unix)]
fn unix_signals() -> io::Result<Vec<tokio::signal::unix::Signal>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
    // `nohup` has it ignored, so that the end of the terminal does not end the command.
    if !is_ignored(libc::SIGHUP) {
        kinds.push(SignalKind::hangup());
    }
    kinds.into_iter().map(signal).collect()
}

/// Returns whether the process ignores a signal.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only fills `action`, which is read if the call succeeded.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
