//! The task that owns a process of an agent, and the sessions in it.
//!
//! - [`process`]: the task: reads, routes, writes, waits. [`reader`] and [`writer`] are its pipes.
//! - [`session`]: one session: connection, queues, callers. [`handlers`] runs the program's functions, [`backpressure`] says
//!   how much the session takes, [`closing`] ends it.
//! - [`shutdown`]: the end of the process, with all its waits.
//! - [`commands`]: what handles ask; [`shared`]: what a session's handles and its driver share; [`tool_calls`]: calls of tools
//!   that do not come over the connection.
//! - [`event_channel`]: a turn's events, in an [`event_queue`], and its outcome; [`turn_reader`] reads them.

mod backpressure;
mod closing;
mod commands;
pub(crate) mod event_channel;
pub(crate) mod event_queue;
mod handlers;
mod process;
mod reader;
mod session;
pub(crate) mod shared;
mod shutdown;
pub(crate) mod tool_calls;
pub(crate) mod turn_reader;
mod writer;

use std::time::Instant;

pub(crate) use commands::{Command, ProcessCommand, ProcessHandle};
pub(crate) use handlers::Handlers;
pub use handlers::served_turn;
pub(crate) use process::{ProcessTask, Sharing};
pub(crate) use session::SessionSetup;

/// The clock of the runtime's timers, which tests may stop.
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
