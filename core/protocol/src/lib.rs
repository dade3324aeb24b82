//! The protocols between an agent and a client, without I/O: messages, the JSON-RPC framing, the dialects (Wire, the
//! legacy dialect, ACP) and the state of one connection. The present time is always an argument.
//!
//! Programs use the crate `kimi-agent`, which re-exports the types that they see. This crate promises no stable API.

pub mod answers;
#[allow(missing_docs, reason = "not an API for programs")]
pub mod connection;
#[allow(missing_docs, reason = "not an API for programs")]
pub mod dialect;
#[allow(missing_docs, reason = "not an API for programs")]
pub mod endpoint;
pub mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "image-files")]
mod image;
pub mod naming;
pub mod options;
pub mod printable;
#[allow(missing_docs, reason = "not an API for programs")]
pub mod secrets;
pub mod wire;

pub use answers::{Answers, Approval, HandlerError, HookDecision, OnError};
pub use connection::{HandlerFailure, PromptResult, RejectedApproval, RejectedBy, ToolCallRecord, TurnStatus};
pub use dialect::{Capabilities, SessionInfo, VersionError, WireVersion};
pub use error::{AgentExit, Error, Result, RpcError, RpcErrorKind};
pub use printable::printable;
