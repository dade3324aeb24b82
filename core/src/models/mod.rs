//! Lanes and mailboxes under a model checker: every order in which threads can get at their locks and atomics is tried.
//! A wake-up that gets lost leaves a thread that waits for ever, and the checker says so.
//!
//! Their sources are compiled a second time here, with loom's types for `super::sync`.

#![allow(clippy::panic, reason = "that is how a checker hears of it")]

#[allow(dead_code, clippy::duplicate_mod, reason = "once more for the models, which use not all of it")]
#[path = "../driver/lane.rs"]
mod lane;
#[allow(dead_code, unreachable_pub, clippy::duplicate_mod, reason = "as above")]
#[path = "../bridge/mailbox.rs"]
mod mailbox;

mod lanes;
mod mailboxes;

use crate::bridge::{LogLevel, next_id};

mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};

    /// tokio's, whole as it is, with a switch of threads possible before each call.
    #[derive(Debug)]
    pub(crate) struct Notify {
        inner: tokio::sync::Notify,
        calls: atomic::AtomicUsize,
    }

    impl Notify {
        pub(crate) fn new() -> Self {
            Self { inner: tokio::sync::Notify::new(), calls: atomic::AtomicUsize::new(0) }
        }

        fn switch(&self) {
            self.calls.fetch_add(1, atomic::Ordering::Relaxed);
        }

        pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
            self.switch();
            self.inner.notified()
        }

        pub(crate) fn notify_one(&self) {
            self.switch();
            self.inner.notify_one();
        }

        pub(crate) fn notify_waiters(&self) {
            self.switch();
            self.inner.notify_waiters();
        }
    }
}

/// Runs every order with up to that many switches of threads that nothing forces.
fn model(switches: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(check);
}
