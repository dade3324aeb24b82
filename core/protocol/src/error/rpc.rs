//! Errors that the agent has answered to a call.

use std::fmt;
use std::sync::Arc;

use crate::connection::PromptResult;
use crate::dialect::AuthMethod;
use crate::jsonrpc::RpcFailure;
use crate::messages::Json;
use crate::printable::printable;

/// An error that the agent answered with.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::Error;
/// fn report(error: &Error) {
///     if let Error::Rpc(answer) = error {
///         eprintln!("{} ({:?})", answer.message, answer.rpc_code);
///     }
/// }
/// # report(&Error::session_closed());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// The kind of error.
    pub kind: RpcErrorKind,
    /// The number of the JSON-RPC error. `None` if the SDK raises the error itself, without asking the agent.
    pub rpc_code: Option<i64>,
    /// The agent's message.
    pub message: String,
    /// The data that the agent attached to the error.
    pub data: Option<Json>,
    /// A hint about the remedy, if the SDK has one.
    pub hint: Option<Box<str>>,
    /// What the turn had produced, if the error ended a turn.
    pub result: Option<Box<PromptResult>>,
    /// The ways to log in that the agent offers, if it needs a login.
    pub methods: Arc<Vec<AuthMethod>>,
}

impl std::error::Error for RpcError {}

impl RpcError {
    /// Makes an error with a message only.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::{RpcError, RpcErrorKind};
    /// assert_eq!(RpcError::new(RpcErrorKind::AuthExpired, "log in").to_string(), "log in");
    /// ```
    pub fn new(kind: RpcErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, rpc_code: None, message, data: None, hint: None, result: None, methods: Arc::default() }
    }

    /// Makes the error for an answer of the agent.
    pub(crate) fn of_answer(kind: RpcErrorKind, failure: RpcFailure) -> Self {
        Self { rpc_code: failure.given_code(), data: failure.data, ..Self::new(kind, failure.message) }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.message))?;
        if let Some(code) = self.rpc_code {
            write!(f, " ({code})")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; {}", printable(hint)),
            None => Ok(()),
        }
    }
}

/// The kind of an agent's error, independent of the dialect's code for it.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::{Error, RpcErrorKind};
/// fn is_logged_out(error: &Error) -> bool {
///     matches!(error, Error::Rpc(answer) if answer.kind == RpcErrorKind::AuthExpired)
/// }
/// # assert!(!is_logged_out(&Error::session_closed()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RpcErrorKind {
    /// Another turn of this session runs, or a handler waits for the turn that waits for this handler.
    TurnInProgress,
    /// No turn is running that could be steered.
    NoActiveTurn,
    /// The agent has no login and no model, or kimi-cli does not know the name in `model`.
    LlmNotSet,
    /// The model lacks an ability that the prompt needs, for example to read images.
    LlmNotSupported,
    /// The service of the model failed.
    LlmServiceError,
    /// The agent's login has expired or is missing, or the model's service refuses its key.
    AuthExpired,
    /// The prompt and the conversation exceed the context window of the model.
    ContextTooLong,
    /// Anything else.
    Other,
}

impl RpcErrorKind {
    /// Whether it is an error of the model's service.
    pub(crate) fn is_of_service(self) -> bool {
        matches!(self, Self::LlmServiceError | Self::AuthExpired | Self::ContextTooLong)
    }
}
