//! Drive the Kimi coding agent from a program.
mod error;
mod handler;
pub mod wire;
pub use error::{AgentExit, Error, Result, RpcError, RpcErrorKind};
pub use handler::{Answers, Approval, AsJson, ExternalTool, HandlerError, Hook, HookDecision, IntoToolReturn, OnError};
