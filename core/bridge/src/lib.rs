//! The base of the bindings for Python and Node. The core never calls the host's functions: it posts [`Delivery`]s to a
//! [`Mailbox`] and calls its bell, once for a batch. The host drains the mailbox on a thread of its own. Not for
//! programs; this crate promises no stable API.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod agent;
mod batch;
mod files;
mod log;
mod mailbox;
mod output;
mod policy;
mod session;
mod telemetry;
mod turn;

pub use agent::BridgeAgent;
pub use batch::BridgeBatch;
pub use files::PrivateFolder;
pub use kimi_agent_client::host::{
    QueuedEvents, TextRun, check_batch_names, check_names, check_prompt_names, error_fields, open_cassette,
    parse_content, parse_hook, parse_tool, wrong_type,
};
pub use kimi_agent_command::main as run_command;
pub use kimi_agent_protocol::messages::value::RequestOrigin;
pub use kimi_agent_protocol::messages::{Node, Reflect, written_for_host};
pub use kimi_agent_protocol::naming::Naming;
pub use kimi_agent_protocol::options::path_options;
pub use kimi_agent_protocol::resource::resource_part;
pub use kimi_agent_protocol::texts::{spelled, text as error_text};
pub use log::{LogLevel, install_log, set_log_level, set_wire_log};
pub use mailbox::{Delivery, JobKind, Mailbox, Payload, Reply};
pub use policy::{check_policy, read_policy};
pub use session::{BridgeSession, Callbacks, Mode, Start, parse_options};
pub use telemetry::telemetry_names;
pub use turn::{BridgeTurn, Tag};

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;

use kimi_agent_client::host::{BatchControl, running_batches};
use kimi_agent_client::{Agent, Session};
use kimi_agent_files as private;
use kimi_agent_protocol::{
    Capabilities, Error, HandlerError, Result, answers, connection, dialect, error, messages, printable,
};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Returns a number that is unique in this process, for tickets, jobs, turns and sessions.
pub fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the origin of a request's event, for a manual answer.
pub fn origin_of(event: &crate::messages::Event) -> Option<RequestOrigin> {
    event.origin()
}

/// How long the batches of an ending process may take to cancel their jobs, and then to remove their directories.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Cancels every batch and closes every session of this process, at its end. After `grace` it kills the agents that are
/// left.
pub async fn close_all(grace: Duration) {
    let live = &kimi_agent_client::host::LIVE;
    let batches = running_batches();
    batches.iter().for_each(|batch| batch.begin_cancel());
    // Before the sessions: a job whose session is closed has failed.
    drop(tokio::time::timeout(DRAIN_TIMEOUT, all_ended(&batches)).await);
    live.close_all();
    if tokio::time::timeout(grace, live.until_none()).await.is_err() {
        live.kill_all();
        drop(tokio::time::timeout(grace, live.until_none()).await);
    }
    // The directories of jobs are removed after the end of their agents.
    drop(tokio::time::timeout(DRAIN_TIMEOUT, all_ended(&batches)).await);
    // Sessions that are being opened can have written files, and have no agent yet.
    private::delete_files_at_exit();
}

/// Returns the error of a call that has panicked.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> crate::Error {
    crate::Error::Internal(format!("a call panicked: {}", kimi_agent_client::host::panic_text(panic)))
}

/// Kills every agent of this process.
pub fn kill_all() {
    kimi_agent_client::host::LIVE.kill_all();
}

async fn all_ended(batches: &[Arc<BatchControl>]) {
    for batch in batches {
        batch.ended().await;
    }
}

/// Returns the runtime of this process, which all bindings share. It has one thread, which takes the least processor
/// time for this work (`docs/explanation/decisions/one-runtime-thread.md`). The first call starts it. If no descriptor
/// or no thread is left, that call fails, and a later call tries again.
///
/// # Errors
/// [`Error::Spawn`] names what the system lacks.
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

/// Not a runtime with workers: tokio panics if it cannot start the worker's thread, or cannot open the descriptors for
/// signals.
fn start_runtime() -> std::io::Result<Arc<Runtime>> {
    // Checks that enough descriptors are free.
    drop((0..4).map(|_| std::io::pipe()).collect::<std::io::Result<Vec<_>>>()?);
    // Another thread may have taken them meanwhile.
    let built = catch_unwind(|| tokio::runtime::Builder::new_current_thread().enable_all().build());
    let runtime = Arc::new(built.unwrap_or_else(|_| Err(std::io::Error::other("no descriptor is left")))?);
    let driven = Arc::clone(&runtime);
    std::thread::Builder::new()
        .name("kimi-agent".to_owned())
        .spawn(move || driven.block_on(std::future::pending::<()>()))?;
    Ok(runtime)
}
