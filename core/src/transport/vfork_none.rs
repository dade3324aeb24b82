//! Where children are not started without a copy of this process.

use std::ffi::CString;
use std::io;
use std::process::ExitStatus;
use std::task::{Context, Poll};

use super::sys;
use super::watcher::Place;

/// There are none.
pub(super) enum Pidfd {}

/// There are none.
pub(super) enum Pipes {}

/// There are none.
pub(super) struct Started {
    pub(super) pid: u32,
    pub(super) pidfd: Pidfd,
    pub(super) pipes: Pipes,
}

pub(super) fn is_possible() -> bool {
    false
}

pub(super) fn is_refused(_: &io::Error) -> bool {
    true
}

pub(super) fn start(_: &sys::Exec, _: CString, _: Option<&Place>) -> io::Result<Started> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Pipes {
    pub(super) fn register(self) -> io::Result<sys::Pipes> {
        match self {}
    }
}

impl Pidfd {
    pub(super) fn register(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn poll_exit(&self, _: u32, _: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        match *self {}
    }
}
