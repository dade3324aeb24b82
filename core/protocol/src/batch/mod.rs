//! The decisions of a batch, without I/O and without a clock: when a job starts, whether and when it is retried, and how
//! many run at once. The present time and random numbers are arguments.
//!
//! - `retry`: the delays between the attempts of a job.
//! - `scheduler`: the state of a batch.

mod retry;
mod scheduler;
#[cfg(test)]
mod tests;

pub use retry::Retry;
pub use scheduler::{AttemptOutcome, Counts, JobId, Scheduler, Step};

use crate::error::{Error, RpcErrorKind};

/// Returns whether an error says that the model's service has too much to do: it is overloaded, or limits the rate.
/// Other sessions would get the same error.
pub fn is_overload(error: &Error) -> bool {
    matches!(error, Error::Rpc(answer) if answer.kind == RpcErrorKind::LlmServiceError) && error.is_retryable()
}
