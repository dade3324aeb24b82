//! What the bindings for Python and Node are made on: everything is pulled by the host language, nothing of it is
//! called. The core posts [`Delivery`]s to a [`Mailbox`] and rings its bell, once a batch; the host drains it on a
//! thread of its own. Not for programs, and not covered by the crate's promises.

mod agent;
mod content;
mod files;
mod log;
mod mailbox;
mod session;
mod turn;

pub use crate::options::{Naming, check_names, parse_hook, parse_tool, wrong_type};
pub use crate::wire::value::RequestOrigin;
pub use crate::wire::written_for_host;
pub use agent::{BridgeAgent, Start};
pub use content::parse_content;
pub use files::PrivateFolder;
pub use log::{LogLevel, install_log, set_wire_log};
pub use mailbox::{Delivery, JobKind, Mailbox, Payload, Reply};
pub use session::{BridgeSession, Callbacks, Mode, parse_options};
pub use turn::{Batch, BridgeTurn, Drained, Tag};

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number that nothing else in this process has: for tickets, jobs, turns and sessions.
pub fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Which request of which session an event is, for the one who answers it manually.
pub fn origin_of(event: &crate::wire::Event) -> Option<RequestOrigin> {
    event.origin()
}

/// Closes every session of this process, for its end: politely for as long as `grace`, then at once.
pub async fn close_all(grace: std::time::Duration) {
    let live = &crate::session::LIVE;
    live.close_all();
    if tokio::time::timeout(grace, live.until_none()).await.is_err() {
        live.kill_all();
        drop(tokio::time::timeout(grace, live.until_none()).await);
    }
}

/// A runtime as all bindings want it: one worker, which costs a quarter of what several cost for this work.
///
/// # Errors
/// What the system says where no thread can be had.
pub fn runtime_builder() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("kimi-agent").enable_all();
    builder
}
