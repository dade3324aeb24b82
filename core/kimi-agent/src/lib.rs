//! Drive coding agents from a program: Claude Code, Codex, Gemini CLI, Kimi Code and others that speak the Agent Client
//! Protocol (ACP). A program opens sessions, streams turns, decides about approvals, offers tools and gets typed values.
//!
//! A [`Session`] starts the agent as a child process. A [`Turn`] is a stream of [`Event`](wire::Event)s that ends with a
//! result. Handlers of the program answer the agent's requests, for example for approval. Without a handler and without rules,
//! every approval is rejected.
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
//! #     .executable(&agent)
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
//!
//! # Items by task
//!
//! | task | items |
//! | --- | --- |
//! | run one prompt | [`prompt()`], [`SessionOptions`], [`PromptResult`] |
//! | hold a conversation | [`Session`], [`PromptOptions`], [`Turn`], [`TextStream`], [`Steps`] |
//! | share one agent's process, list and resume sessions | [`Agent`], [`AgentOptions`], [`SessionInfo`] |
//! | read events and requests | [`wire`] |
//! | decide about actions | [`SessionOptions::on_approval`], [`Approval`], [`Hook`]; by rules: `Policy`, [`Enforce`] |
//! | answer questions | [`SessionOptions::on_question`], [`Answers`] |
//! | offer tools, files and commands | [`ExternalTool`], [`ToolContext`], [`AsJson`], [`files()`], [`terminals()`] |
//! | get a value of a type | [`Output`], [`PromptResult::output`], [`OutputInvalid`] |
//! | limit tokens, steps and time | [`Budget`], [`SessionOptions::turn_timeout`] |
//! | run many prompts | `run_batch`, and the module `batch` |
//! | handle errors | [`Error`], [`Error::code`], [`Error::is_retryable`], [`Error::retry_after`] |
//! | test without a model | the module `testing`: the scripted agent, cassettes |
//! | build an agent | the module `agent` |
//! | guard an editor's agent | `proxy` and `ProxyOptions` |
//!
//! # Features
//!
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `batch` | yes | the module `batch` and `run_batch`: many prompts, with retries, a journal and workspaces |
//! | `policy` | yes | `Policy`: rules about tool calls, with a recogniser of shell commands |
//! | `mcp` | no | the program's tools with agents that speak ACP. It doubles the number of crates |
//! | `testing` | no | the scripted agent, recordings as agents, cassettes. It includes `agent` |
//! | `agent` | no | the agent's side of the protocol |
//! | `otel` | no | spans and metrics of OpenTelemetry |
//! | `proxy` | no | `proxy`: a guard between an ACP client, such as an editor, and an agent |
//! | `kimi-web` | no | [`Dialect::KimiWeb`], Kimi Code's own server, with an HTTP client |
//! | `remote` | no | [`Place::remote`], agents on a server, over WebSocket and HTTP with TLS |
//!
//! A thin client, `default-features = false`, compiles no shell recogniser, no MCP and no HTTP. The feature `testing` belongs to
//! `[dev-dependencies]`.
//!
//! # Runtime
//!
//! Sessions need a tokio runtime with its drivers for I/O and time: `#[tokio::main]`, or a `Builder` with `enable_all()`. Dropping
//! a [`Turn`] cancels it. Dropping a [`Session`] closes it in the background, on the runtime that it was started on.
//!
//! A session works on the runtime that it was started on. If that is a current-thread runtime, nothing happens while no `block_on` of
//! it runs, and calls from another runtime wait without an end.
//!
//! # Documentation
//!
//! - [The SDK in Rust](https://github.com/kimi-agent/kimi-agent/blob/main/docs/guides/rust.md) on one page, and a
//!   [tutorial](https://github.com/kimi-agent/kimi-agent/blob/main/docs/tutorial/rust.md) of ten minutes
//! - [Guides](https://github.com/kimi-agent/kimi-agent/blob/main/docs/guides/index.md), one task each, and
//!   [complete programs](https://github.com/kimi-agent/kimi-agent/blob/main/docs/cookbook/index.md)
//! - [Options](https://github.com/kimi-agent/kimi-agent/blob/main/docs/reference/options.md),
//!   [events](https://github.com/kimi-agent/kimi-agent/blob/main/docs/reference/events.md),
//!   [errors](https://github.com/kimi-agent/kimi-agent/blob/main/docs/reference/errors.md),
//!   [agents](https://github.com/kimi-agent/kimi-agent/blob/main/docs/reference/agents.md)
//! - [Troubleshooting](https://github.com/kimi-agent/kimi-agent/blob/main/docs/troubleshooting.md)

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
#[cfg(feature = "batch")]
pub mod batch {
    pub use kimi_agent_client::batch::{
        Batch, BatchOptions, Job, JobResult, JobStatus, JobValue, Progress, Retry, Workspace, run_batch,
        run_batch_stream,
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
#[cfg(feature = "batch")]
pub use kimi_agent_client::run_batch;
pub use kimi_agent_client::{
    Agent, AgentOptions, AsJson, Container, Dialect, Enforce, Executable, ExternalTool, Files, Hook, InheritEnv,
    IntoToolReturn, Output, Place, Prefix, PromptOptions, Remote, Replay, Sandbox, Session, SessionOptions,
    SessionState, Ssh, Step, Steps, Terminals, TextStream, ToolContext, Turn, files, prompt, terminals,
};
#[cfg(feature = "policy")]
pub use kimi_agent_policy::{Decision, Policy, PolicyVerdict};
pub use kimi_agent_protocol::{
    AgentExit, Answers, Approval, AuthMethod, Budget, BudgetCounter, BudgetExceeded, Capabilities, ConfigChoice,
    ConfigOption, ConfigValue, Error, ErrorText, HandlerError, HandlerFailure, HookDecision, OnError, OutputError,
    OutputInvalid, OutputMode, Partial, PolicyReach, Price, Prices, PromptResult, RejectedApproval, RejectedBy, Result,
    RpcError, RpcErrorKind, SessionInfo, SystemPrompt, ToolCallRecord, TurnStatus, VersionError, WireVersion,
};
// The function, without the module of the same name.
pub use kimi_agent_protocol::printable::printable;
#[cfg(feature = "proxy")]
pub use kimi_agent_proxy::{ProxyOptions, proxy};
