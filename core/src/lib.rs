//! Drive the Kimi coding agent from a program.
mod error;
pub mod wire;
pub use error::{AgentExit, Error, Result, RpcError, RpcErrorKind};
