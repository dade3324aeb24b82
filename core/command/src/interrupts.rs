//! Ctrl-C.

use std::io;

use crate::Failure;

/// Receives Ctrl-C from the time on when it is made.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signals: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signals: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    /// Takes over Ctrl-C, which does not end the process any more.
    pub(crate) fn new() -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::Because(format!("Ctrl-C cannot be received: {error}"));
        #[cfg(unix)]
        let signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
        #[cfg(windows)]
        let signals = tokio::signal::windows::ctrl_c();
        Ok(Self { signals: signals.map_err(failed)? })
    }

    /// Waits for the next Ctrl-C.
    pub(crate) async fn next(&mut self) {
        if self.signals.recv().await.is_none() {
            std::future::pending().await
        }
    }
}
