//! What lanes and mailboxes synchronise by. They name it by way of their parent, so that `models` can put them together
//! with the types of a model checker.

pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

pub(crate) use tokio::sync::Notify;
