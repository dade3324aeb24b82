//! Drive coding agents such as Kimi Code from a program: sessions, streamed turns, approvals, tools.
//!
//! A [`Session`] starts the agent as a child process. A [`Turn`] is a stream of [`Event`](wire::Event)s that ends with a
//! result. Handlers of the program answer the agent's requests, for example for approval.
//!
//! ```
//! # use kimi_agent::testing::scripted_agent;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> kimi_agent::Result<()> {
//! # let agent = scripted_agent(serde_json::json!([[{"text": "Hello!"}]]));
//! use kimi_agent::{Approval, Session};
//!
//! let session = Session::builder()
//!     .work_dir(".")
//!     .executable(&agent) // leave it out to run the `kimi` on PATH
//!     .on_approval(|request| async move {
//!         println!("may it {}?", request.description);
//!         Ok(Approval::Approve)
//!     })
//!     .start()
//!     .await?;
//!
//! let mut turn = session.prompt("Say hello")?;
//! while let Some(event) = turn.next().await {
//!     print!("{}", event?.text().unwrap_or_default());
//! }
//! session.close().await
//! # }
//! ```

#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// The agent's side of the protocol, to build an agent on.
#[cfg(feature = "agent")]
pub mod agent {
    pub use kimi_agent_testing::{
        Client, Connection, Failure, HookSubscription, Incoming, OfferedTool, Outcome, Profile, Server,
    };
}
/// Many prompts, each in a session of its own: limits, retries, a journal and workspaces. [`run_batch`] runs them.
pub mod batch {
    pub use kimi_agent_client::batch::{
        Batch, BatchOptions, Job, JobResult, JobStatus, Progress, Retry, Workspace, run_batch, run_batch_stream,
    };
}
#[cfg(feature = "testing")]
#[doc(inline)]
pub use kimi_agent_client::testing;

/// Messages as types. They are those of the Wire protocol; messages of agents with other protocols are converted to
/// them.
pub mod wire {
    pub use kimi_agent_protocol::messages::types::*;
    pub use kimi_agent_protocol::messages::{Added, Event, Extra, Json};
}

#[cfg(feature = "otel")]
pub use kimi_agent_client::Telemetry;
pub use kimi_agent_client::{
    Agent, AgentOptions, AsJson, Dialect, Enforce, Executable, ExternalTool, Files, Hook, IntoToolReturn, Output,
    PromptOptions, Replay, Session, SessionOptions, SessionState, Step, Steps, Terminals, TextStream, Turn, files,
    prompt, run_batch, terminals,
};
pub use kimi_agent_policy::{Decision, Policy, PolicyError, PolicyVerdict};
pub use kimi_agent_protocol::{
    AgentExit, Answers, Approval, Budget, BudgetCounter, BudgetExceeded, Capabilities, ConfigChoice, ConfigOption,
    ConfigValue, Error, ErrorText, HandlerError, HandlerFailure, HookDecision, OnError, OutputError, OutputInvalid,
    OutputMode, PolicyReach, PromptResult, RejectedApproval, RejectedBy, Result, RpcError, RpcErrorKind, SessionInfo,
    ToolCallRecord, TurnStatus, VersionError, WireVersion, printable,
};
