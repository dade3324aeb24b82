//! The task that owns an agent's process and its sessions.
//!
//! - [`process`]: the task: reads, writes, waits. [`reader`] and [`writer`] are its pipes, [`io`] is the agent's side of it,
//!   [`shutdown`] its end with all waits. [`process_handle`] has the commands to it.
//! - [`sessions`]: routes lines to sessions.
//! - [`session`]: one session: connection, queues, callers. [`handlers`] runs the program's handlers. [`backpressure`] and
//!   [`flow`] limit the unread events, [`closing`] says how far the session's end is, [`records`] reads the agent's files.
//! - [`commands`]: the requests of handles; [`shared`]: the state that a session's handles and its driver share.
//! - [`event_channel`]: a turn's events, in an [`event_queue`], and its outcome; [`turn_reader`] reads them.

mod backpressure;
mod closing;
mod commands;
pub(crate) mod event_channel;
pub(crate) mod event_queue;
mod flow;
mod handlers;
mod io;
mod process;
mod process_handle;
mod reader;
mod reads;
mod records;
mod session;
mod sessions;
pub(crate) mod shared;
mod shutdown;
pub(crate) mod turn_reader;
mod writer;

use std::time::Instant;

pub(crate) use commands::Command;
pub(crate) use handlers::Handlers;
pub use handlers::{served_span, served_turn};
pub(crate) use process::ProcessTask;
pub(crate) use process_handle::{ProcessCommand, ProcessHandle};
pub(crate) use session::SessionSetup;

/// The clock of the runtime's timers. Tests can pause it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
