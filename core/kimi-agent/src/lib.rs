//! Drive the Kimi coding agent from a program: sessions, turns, approvals, tools.
//!
//! A [`Session`] starts the agent (`kimi --wire`) as a child process; a [`Turn`] is a stream of [`Event`](wire::Event)s
//! that ends with an outcome. What the agent asks meanwhile reaches the program's own functions.
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

/// The agent's side of the protocol, to build an agent on.
#[cfg(feature = "agent")]
pub mod agent {
    pub use kimi_agent_testing::{
        Client, Connection, Failure, HookSubscription, Incoming, OfferedTool, Outcome, Profile, Server,
    };
}
#[cfg(feature = "testing")]
#[doc(inline)]
pub use kimi_agent_client::testing;

/// Messages of the Wire protocol as types. All agents are shown in them, whatever protocol they speak.
pub mod wire {
    pub use kimi_agent_protocol::wire::message::*;
    pub use kimi_agent_protocol::wire::{Added, Event, Extra, Json};
}

pub use kimi_agent_client::{
    Agent, AgentOptions, AsJson, Dialect, Executable, ExternalTool, Hook, IntoToolReturn, PromptOptions, Replay,
    Session, SessionOptions, SessionState, Step, Steps, TextStream, Turn, prompt,
};
pub use kimi_agent_protocol::{
    AgentExit, Answers, Approval, Capabilities, Error, HandlerError, HandlerFailure, HookDecision, OnError,
    PromptResult, RejectedApproval, RejectedBy, Result, RpcError, RpcErrorKind, SessionInfo, ToolCallRecord,
    TurnStatus, VersionError, WireVersion, printable,
};
