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

pub use agent::{BridgeAgent, Start};
pub use content::parse_content;
pub use files::PrivateFolder;
pub use kimi_agent_client::host::{check_names, error_fields, parse_hook, parse_tool, wrong_type};
pub use kimi_agent_protocol::error::{spelled, text as error_text};
pub use kimi_agent_protocol::naming::Naming;
pub use kimi_agent_protocol::wire::value::RequestOrigin;
pub use kimi_agent_protocol::wire::{Node, Reflect, written_for_host};
pub use log::{LogLevel, install_log, set_wire_log};
pub use mailbox::{Delivery, JobKind, Mailbox, Payload, Reply};
pub use session::{BridgeSession, Callbacks, Mode, parse_options};
pub use turn::{BridgeTurn, Tag};

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::runtime::Runtime;

use kimi_agent_client::{Agent, Session};
use kimi_agent_files as private;
use kimi_agent_protocol::{
    Capabilities, Error, HandlerError, Result, answers, connection, dialect, error, printable, wire,
};

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
    let live = &kimi_agent_client::host::LIVE;
    live.close_all();
    if tokio::time::timeout(grace, live.until_none()).await.is_err() {
        live.kill_all();
        drop(tokio::time::timeout(grace, live.until_none()).await);
    }
}

/// Returns the runtime of this process, which all bindings share. One thread runs everything: for this work that takes the least
/// processor time (`docs/decisions/one-runtime-thread.md`). The first call starts it. If no descriptor or no thread is left, that call
/// fails, and a later call tries again.
///
/// # Errors
/// [`Error::Spawn`] says what the system lacks.
pub fn runtime() -> crate::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Arc<Runtime>> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = start_runtime().map_err(|error| {
        crate::Error::Spawn(format!(
            "can't start the agent: the SDK's own runtime cannot be started, which takes a thread and a few descriptors: \
             {error}. Call again when they are available"
        ))
    })?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// Not a runtime with a worker: tokio panics if it can't start the thread for one, or make the descriptors for signals.
fn start_runtime() -> std::io::Result<Arc<Runtime>> {
    // So many descriptors are free, or the system says that they are not.
    drop((0..4).map(|_| std::io::pipe()).collect::<std::io::Result<Vec<_>>>()?);
    // Somebody else may have taken them meanwhile.
    let built = catch_unwind(|| tokio::runtime::Builder::new_current_thread().enable_all().build());
    let runtime = Arc::new(built.unwrap_or_else(|_| Err(std::io::Error::other("no descriptor is left")))?);
    let driven = Arc::clone(&runtime);
    std::thread::Builder::new()
        .name("kimi-agent".to_owned())
        .spawn(move || driven.block_on(std::future::pending::<()>()))?;
    Ok(runtime)
}
