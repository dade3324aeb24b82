//! What the crate `kimi-agent` is made of above the protocol: the agent's process, event queues, handlers, options and
//! sessions.
//!
//! Programs use the crate `kimi-agent`, which re-exports the types that they see. This crate promises no stable API.

mod driver;
mod handler;
#[allow(missing_docs, reason = "not an API for programs")]
pub mod host;
#[cfg(feature = "measured")]
#[doc(hidden)]
pub mod measured;
mod options;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod tools_server;
mod transport;

use kimi_agent_files as private;
use kimi_agent_protocol::{answers, connection, dialect, endpoint, error, naming, secrets, wire};

pub use handler::{AsJson, ExternalTool, Hook, IntoToolReturn};
pub use kimi_agent_protocol::{
    Answers, Approval, Capabilities, Error, HandlerError, HookDecision, OnError, Result, TurnStatus, WireVersion,
};
pub use options::{AgentOptions, Dialect, Executable, PromptOptions, SessionOptions};
pub use session::{Agent, Replay, Session, SessionState, Step, Steps, TextStream, Turn, prompt};
