//! One error type, with a stable code for each kind.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::wire::Json;

/// What can go wrong. [`Error::code`] is the same string in every language and for every dialect.
///
/// ```no_run
/// # async fn example(turn: &mut kimi_agent::Turn) {
/// use kimi_agent::Error;
/// match turn.result().await {
///     Err(Error::AgentExited(exit)) => eprintln!("the agent is gone: {}", exit.stderr),
///     Err(error) if error.is_rpc() => eprintln!("the agent says no: {error} ({})", error.code()),
///     other => drop(other),
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option has a wrong name or value.
    #[error("invalid option `{option}`: {reason}")]
    InvalidOption {
        /// The option.
        option: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The agent could not be started; the text names what was looked for, and where.
    #[error("{0}")]
    Spawn(String),
    /// The agent did not open the session.
    #[error("{0}")]
    Handshake(String),
    /// The agent is gone.
    #[error(transparent)]
    AgentExited(#[from] AgentExit),
    /// The agent broke the protocol beyond repair.
    #[error("{0}")]
    Protocol(String),
    /// The agent can't do this.
    #[error("{0}")]
    Unsupported(String),
    /// The session has been closed.
    #[error("the session is closed")]
    SessionClosed,
    /// A deadline passed.
    #[error("{0}")]
    Timeout(String),
    /// A call from inside the loop over a turn waited for an answer that lies behind more unread events than the
    /// hard bound allows; or a session that shares its process left too much unread while others went on, and is over.
    #[error("{0}")]
    EventBufferFull(String),
    /// The agent answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The turn was cancelled (from [`PromptResult::raise_for_status`](crate::PromptResult::raise_for_status)).
    #[error("the turn was cancelled")]
    TurnCancelled,
    /// The turn ran into its limit of steps (from
    /// [`PromptResult::raise_for_status`](crate::PromptResult::raise_for_status)).
    #[error("the turn reached its limit of {} steps", .steps.map_or_else(|| "its".to_owned(), |n| n.to_string()))]
    MaxStepsReached {
        /// How many, if the agent said.
        steps: Option<i64>,
    },
    /// A defect of this SDK; please report it.
    #[error("internal error: {0}")]
    Internal(String),
}

/// How the agent ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentExit {
    /// Its exit code, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// The name of the signal that ended it, as `SIGKILL`.
    pub signal: Option<String>,
    /// The end of what it wrote to stderr.
    pub stderr: String,
}

impl std::error::Error for AgentExit {}

impl fmt::Display for AgentExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.signal, self.exit_code) {
            (Some(signal), _) => write!(f, "the agent was ended by {signal}")?,
            (None, Some(code)) => write!(f, "the agent exited with code {code}")?,
            (None, None) => f.write_str("the agent closed its pipes")?,
        }
        let stderr = self.stderr.trim();
        if stderr.is_empty() { Ok(()) } else { write!(f, "; the end of its stderr:\n{stderr}") }
    }
}

/// An error that the agent answered with.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// What it means.
    pub kind: RpcErrorKind,
    /// JSON-RPC's number for it, as it came.
    pub rpc_code: i64,
    /// What the agent says.
    pub message: String,
    /// More about it.
    pub data: Option<Json>,
}

impl std::error::Error for RpcError {}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.rpc_code)
    }
}

/// What an error of the agent's means, whatever number its dialect has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RpcErrorKind {
    /// A turn is running already.
    TurnInProgress,
    /// There is no turn to cancel or steer.
    NoActiveTurn,
    /// No model is configured.
    LlmNotSet,
    /// The model can't do what is asked.
    LlmNotSupported,
    /// The model's service failed.
    LlmServiceError,
    /// The login has expired.
    AuthExpired,
    /// Anything else.
    Other,
}

/// The result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A stable name for the kind of error.
    ///
    /// ```
    /// assert_eq!(kimi_agent::Error::SessionClosed.code(), "session_closed");
    /// ```
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidOption { .. } => "invalid_option",
            Self::Spawn(_) => "spawn_error",
            Self::Handshake(_) => "handshake_error",
            Self::AgentExited(_) => "agent_exited",
            Self::Protocol(_) => "protocol_error",
            Self::Unsupported(_) => "unsupported",
            Self::SessionClosed => "session_closed",
            Self::Timeout(_) => "timeout",
            Self::EventBufferFull(_) => "event_buffer_full",
            Self::Rpc(error) => match error.kind {
                RpcErrorKind::TurnInProgress => "turn_in_progress",
                RpcErrorKind::NoActiveTurn => "no_active_turn",
                RpcErrorKind::LlmNotSet => "llm_not_set",
                RpcErrorKind::LlmNotSupported => "llm_not_supported",
                RpcErrorKind::LlmServiceError => "llm_service_error",
                RpcErrorKind::AuthExpired => "auth_expired",
                RpcErrorKind::Other => "rpc_error",
            },
            Self::TurnCancelled => "turn_cancelled",
            Self::MaxStepsReached { .. } => "max_steps_reached",
            Self::Internal(_) => "internal_error",
        }
    }

    /// Whether the agent answered with an error (as opposed to being gone, or never reached).
    pub fn is_rpc(&self) -> bool {
        matches!(self, Self::Rpc(_))
    }

    /// Whether a deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }

    /// Whether the agent is gone.
    pub fn is_agent_exited(&self) -> bool {
        matches!(self, Self::AgentExited(_))
    }

    /// What the error knows beside its text, by name: what the bindings make attributes of.
    pub fn fields(&self) -> Map<String, Value> {
        let fields = match self {
            Self::InvalidOption { option, .. } => json!({"option": option}),
            Self::AgentExited(exit) => {
                json!({"exit_code": exit.exit_code, "signal": exit.signal, "stderr": exit.stderr})
            }
            Self::Rpc(error) => json!({
                "rpc_code": error.rpc_code,
                "message": error.message,
                "data": error.data.as_ref().map(Json::to_value),
            }),
            Self::MaxStepsReached { steps } => json!({"steps": steps}),
            _ => json!({}),
        };
        match fields {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    pub(crate) fn option(option: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidOption { option: option.into(), reason: reason.into() }
    }

    /// An error of ours in the shape of one of the agent's, for what would only be refused there.
    pub(crate) fn local(kind: RpcErrorKind, message: &str) -> Self {
        Self::Rpc(RpcError { kind, rpc_code: -32000, message: message.to_owned(), data: None })
    }
}
