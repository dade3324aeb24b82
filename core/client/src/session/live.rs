//! The running agents, so that the end of the host process can end them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc};

use crate::driver::shared::Shared;
use crate::driver::{ProcessCommand, ProcessHandle};

/// The processes of agents that have not ended yet, in this host process.
#[derive(Debug, Default)]
pub struct Live {
    count: AtomicUsize,
    sessions: std::sync::Mutex<Vec<std::sync::Weak<Shared>>>,
    /// The processes that may have no session.
    processes: std::sync::Mutex<Vec<mpsc::WeakUnboundedSender<Box<ProcessCommand>>>>,
    changed: Notify,
}

/// All running agents of this host process.
pub static LIVE: std::sync::LazyLock<Live> = std::sync::LazyLock::new(Live::default);

pub(super) struct LiveGuard;

impl LiveGuard {
    pub(super) fn new(process: &ProcessHandle) -> Self {
        LIVE.count.fetch_add(1, Ordering::AcqRel);
        LIVE.register_process(process);
        Self
    }
}

impl Drop for LiveGuard {
    fn drop(&mut self) {
        LIVE.count.fetch_sub(1, Ordering::AcqRel);
        LIVE.changed.notify_waiters();
    }
}

impl Live {
    pub(super) fn register(&self, shared: &Arc<Shared>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(shared));
    }

    fn register_process(&self, process: &ProcessHandle) {
        let mut processes = self.processes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        processes.retain(|process| process.strong_count() > 0);
        processes.push(process.commands());
    }

    /// Sends a command to each process that can get sessions. The others end with their last session.
    fn each_process(&self, command: impl Fn() -> ProcessCommand) {
        let processes = self.processes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let processes = processes.iter().filter_map(mpsc::WeakUnboundedSender::upgrade);
        processes.for_each(|process| drop(process.send(Box::new(command()))));
    }

    fn each(&self, act: impl Fn(&Shared)) {
        let sessions = self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        sessions.iter().filter_map(std::sync::Weak::upgrade).for_each(|session| act(&session));
    }

    /// Starts to close every session of the host process.
    pub fn close_all(&self) {
        self.each_process(|| ProcessCommand::Close(None));
        self.each(Shared::begin_close);
    }

    /// Kills every agent of the host process.
    pub fn kill_all(&self) {
        self.each(Shared::kill);
        self.each_process(|| ProcessCommand::Kill);
    }

    /// Waits until no agent is left, for the end of a host process.
    pub async fn until_none(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }
}
