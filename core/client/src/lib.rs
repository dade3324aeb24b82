//! The parts of the crate `kimi-agent` above the protocol: the agent's process, event queues, handlers, options and
//! sessions.
//!
//! Programs use the crate `kimi-agent`, which re-exports the types that they see. This crate promises no stable API.

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[cfg(feature = "batch")]
pub mod batch;
mod driver;
mod handler;
pub mod host;
mod local;
#[cfg(feature = "measured")]
#[doc(hidden)]
pub mod measured;
mod options;
mod output;
mod place;
#[doc(hidden)]
pub mod proxied;
mod recording;
mod session;
mod session_files;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod tool_context;
mod tools_server;
mod transport;
#[cfg(feature = "mcp")]
mod visitors;

use kimi_agent_files as private;
use kimi_agent_protocol::{
    answers, connection, dialect, endpoint, error, json, jsonrpc, messages, naming, secrets, turn_records,
};

#[cfg(feature = "batch")]
pub use batch::run_batch;
pub use handler::{AsJson, ExternalTool, Hook, IntoToolReturn};
pub use kimi_agent_protocol::{
    Answers, Approval, Budget, BudgetCounter, BudgetExceeded, Capabilities, ConfigChoice, ConfigOption, ConfigValue,
    Error, ErrorText, HandlerError, HookDecision, OnError, OutputError, OutputInvalid, OutputMode, Partial, Price,
    Prices, Result, TurnStatus, WireVersion,
};
pub use local::{Files, Terminals, files, terminals};
pub use options::{AgentOptions, Dialect, Enforce, Executable, InheritEnv, PromptOptions, SessionOptions};
pub use output::Output;
pub use place::{Container, Place, Prefix, Remote, Sandbox, Ssh};
pub use session::{Agent, Replay, Session, SessionState, Step, Steps, TextStream, Turn, prompt};
#[cfg(feature = "otel")]
pub use telemetry::Telemetry;
pub use tool_context::ToolContext;
