//! The protocols between an agent and a client, without I/O: messages, the JSON-RPC framing, the dialects (Wire, the
//! legacy dialect, ACP) and the state of one connection. The present time is always an argument.
//!
//! Programs use the crate `kimi-agent`, which re-exports the types that they see. This crate promises no stable API.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod answers;
pub mod batch;
pub mod budget;
pub mod connection;
pub mod cost;
pub mod dialect;
pub mod endpoint;
pub mod error;
#[doc(hidden)]
pub mod error_json;
#[cfg(feature = "image-files")]
mod file;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod generated;
#[cfg(feature = "image-files")]
mod image;
pub mod json;
pub mod jsonrpc;
pub mod messages;
pub mod naming;
pub mod options;
pub mod output;
pub mod place;
pub mod printable;
pub mod recording;
mod repeats;
pub mod resource;
pub mod secrets;
mod service;
pub mod spelling;
pub mod telemetry;
pub mod texts;
pub mod turn_records;
mod words;
#[cfg(any(test, feature = "measured"))]
#[doc(hidden)]
pub mod worst;

pub use answers::{Answers, Approval, HandlerError, HookDecision, OnError};
pub use budget::{Budget, BudgetCounter, BudgetExceeded};
pub use connection::{HandlerFailure, PromptResult, RejectedApproval, RejectedBy, ToolCallRecord, TurnStatus};
pub use cost::{Price, Prices};
pub use dialect::{
    AuthMethod, Capabilities, ConfigChoice, ConfigOption, ConfigValue, PolicyReach, SessionInfo, SystemPrompt,
    VersionError, WireVersion,
};
pub use error::{AgentExit, Error, ErrorText, Partial, Result, RpcError, RpcErrorKind};
/// The public name of the messages in `kimi-agent`, for the examples of this crate.
#[doc(hidden)]
pub use messages as wire;
pub use output::{OutputError, OutputInvalid, OutputMode};
pub use printable::printable;
