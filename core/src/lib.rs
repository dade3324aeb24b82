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

#[cfg(feature = "agent")]
pub mod agent;
mod answers;
#[cfg(feature = "bridge")]
#[doc(hidden)]
pub mod bridge;
mod connection;
mod dialect;
mod driver;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod image;
#[cfg(feature = "measured")]
#[doc(hidden)]
pub mod measured;
#[cfg(all(test, feature = "bridge"))]
mod models;
mod multiplex;
mod naming;
mod options;
mod printable;
mod private;
mod secrets;
mod session;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
mod tools_server;
mod transport;
pub mod wire;

pub use answers::{Answers, Approval, HandlerError, HookDecision, OnError};
pub use connection::{HandlerFailure, PromptResult, RejectedApproval, RejectedBy, ToolCallRecord, TurnStatus};
pub use dialect::{Capabilities, SessionInfo, VersionError, WireVersion};
pub use error::{AgentExit, Error, Result, RpcError, RpcErrorKind};
pub use handler::{AsJson, ExternalTool, Hook, IntoToolReturn};
pub use options::{AgentOptions, Dialect, Executable, PromptOptions, SessionOptions};
#[doc(hidden)]
pub use options::{HookSpec, Naming, ToolSpec, parse_hook, parse_tool};
pub use printable::printable;
pub use session::{Agent, Replay, Session, SessionState, Step, Steps, TextStream, Turn, prompt};
