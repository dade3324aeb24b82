//! One error type, with a stable code for each kind.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::naming::Naming;
use crate::printable::printable;
use crate::wire::Json;

/// What can go wrong. [`Error::code`] is the same string in every language and for every dialect.
///
/// ```no_run
/// # use kimi_agent_protocol as kimi_agent;
/// # struct Turn;
/// # impl Turn { async fn result(&mut self) -> kimi_agent::Result<kimi_agent::PromptResult> { unimplemented!() } }
/// # async fn example(turn: &mut Turn) {
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
    #[error("invalid option `{}`: {}", printable(.option), printable(.reason))]
    InvalidOption {
        /// The option.
        option: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The agent could not be started; the text names what was looked for, and where.
    #[error("{}", printable(.0))]
    Spawn(String),
    /// The agent did not open the session.
    #[error("{}", printable(.0))]
    Handshake(String),
    /// The agent is gone.
    #[error(transparent)]
    AgentExited(#[from] AgentExit),
    /// The agent broke the protocol beyond repair.
    #[error("{}", printable(.0))]
    Protocol(String),
    /// The agent can't do this.
    #[error("{}", printable(.0))]
    Unsupported(String),
    /// The session has been closed.
    #[error("the session is closed; open another one with the same `session_id` to continue the conversation")]
    SessionClosed,
    /// A deadline was exceeded.
    #[error("{}", printable(.0))]
    Timeout(String),
    /// A call from inside the loop over a turn waited for an answer that lies behind more unread events than the
    /// hard bound allows; or a session that shares its process left too much unread while others went on, and is over.
    #[error("{}", printable(.0))]
    EventBufferFull(String),
    /// The agent answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The turn was cancelled (from [`PromptResult::raise_for_status`](crate::PromptResult::raise_for_status)).
    #[error("the turn was cancelled before it was finished; the session can still be used")]
    TurnCancelled,
    /// The turn ran into its limit of steps (from
    /// [`PromptResult::raise_for_status`](crate::PromptResult::raise_for_status)).
    #[error(
        "the turn reached its limit of {} steps; prompt again to continue, or raise `max_steps_per_turn`",
        .steps.map_or_else(|| "the configured".to_owned(), |n| n.to_string())
    )]
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
    /// What to check, if the SDK knows: set when the agent exited before it opened the session.
    pub hint: Option<String>,
}

impl std::error::Error for AgentExit {}

impl AgentExit {
    /// How it ended, without its stderr.
    pub fn manner(&self) -> String {
        match (&self.signal, self.exit_code) {
            (Some(signal), _) => format!("the agent was ended by {signal}"),
            (None, Some(code)) => format!("the agent exited with code {code}"),
            (None, None) => "the agent closed its pipes".to_owned(),
        }
    }
}

impl fmt::Display for AgentExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.manner())?;
        if let Some(hint) = &self.hint {
            write!(f, " {hint}")?;
        }
        let stderr = self.stderr.trim();
        if stderr.is_empty() { Ok(()) } else { write!(f, "; the end of its stderr:\n{}", printable(stderr)) }
    }
}

/// An error that the agent answered with.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// What it means.
    pub kind: RpcErrorKind,
    /// JSON-RPC's number for it, as it came; `None` if the SDK raises the error itself, without asking the agent.
    pub rpc_code: Option<i64>,
    /// What the agent says.
    pub message: String,
    /// More about it.
    pub data: Option<Json>,
    /// What to do about it, if the SDK knows.
    pub hint: Option<String>,
}

impl std::error::Error for RpcError {}

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
    /// # use kimi_agent_protocol as kimi_agent;
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

    /// Whether the same call can succeed later without a change: the model is overloaded or limits the rate, the agent
    /// exited, a deadline was exceeded, or another turn was running. Nothing else is worth a retry.
    ///
    /// An agent that exits by itself before it has opened the session would do so again. The same holds for a model's
    /// service that refuses the request itself, with an HTTP status such as 401.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Error;
    /// assert!(Error::Timeout("…".into()).is_retryable());
    /// assert!(!Error::SessionClosed.is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout(_) => true,
            Self::AgentExited(exit) => exit.hint.is_none() || exit.exit_code.is_none(),
            Self::Rpc(error) => match error.kind {
                RpcErrorKind::TurnInProgress => true,
                RpcErrorKind::LlmServiceError => !http_status(&error.message).is_some_and(is_final),
                _ => false,
            },
            _ => false,
        }
    }
}

impl Error {
    /// Code in progress calls it; use [`invalid_option`].
    #[doc(hidden)]
    pub fn option(option: impl Into<String>, reason: impl Into<String>) -> Self {
        invalid_option(option, reason)
    }

    /// Code in progress calls it; use [`local_error`].
    #[doc(hidden)]
    pub fn local(kind: RpcErrorKind, message: &str) -> Self {
        local_error(kind, message)
    }
}

/// Returns the attributes of an error in the bindings, by name.
pub fn fields(error: &Error) -> Map<String, Value> {
    let fields = match error {
        Error::InvalidOption { option, .. } => json!({"option": option}),
        Error::AgentExited(exit) => {
            json!({"exit_code": exit.exit_code, "signal": exit.signal, "stderr": exit.stderr})
        }
        Error::Rpc(error) => json!({
            "rpc_code": error.rpc_code,
            "message": error.message,
            "data": error.data.as_ref().map(Json::to_value),
            "hint": error.hint,
        }),
        Error::MaxStepsReached { steps } => json!({"steps": steps}),
        _ => json!({}),
    };
    let mut fields = match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    fields.insert("retryable".to_owned(), error.is_retryable().into());
    fields
}

/// Returns the error as a language spells it: options and methods are named as that language spells them.
///
/// Texts of the core name them in backticks, in snake case. Text that the agent wrote stays as it is: it stands
/// behind the first line, or is a message of the agent's.
#[must_use]
pub fn spelled(error: Error, naming: Naming) -> Error {
    let spell = |text: String| naming.spell(&text);
    match error {
        Error::InvalidOption { option, reason } => Error::InvalidOption { option, reason: spell(reason) },
        Error::Spawn(text) => Error::Spawn(spell(text)),
        Error::Handshake(text) => Error::Handshake(spell(text)),
        Error::Protocol(text) => Error::Protocol(spell(text)),
        Error::Unsupported(text) => Error::Unsupported(spell(text)),
        Error::Timeout(text) => Error::Timeout(spell(text)),
        Error::EventBufferFull(text) => Error::EventBufferFull(spell(text)),
        Error::Internal(text) => Error::Internal(spell(text)),
        Error::AgentExited(exit) => Error::AgentExited(AgentExit { hint: exit.hint.map(spell), ..exit }),
        Error::Rpc(mut error) => {
            error.hint = error.hint.map(spell);
            if error.rpc_code.is_none() {
                error.message = spell(error.message);
            }
            Error::Rpc(error)
        }
        other => other,
    }
}

/// Returns the text of an error as a language spells it.
pub fn text(error: &Error, naming: Naming) -> String {
    match error {
        // These have a text of their own, not a stored one.
        Error::SessionClosed | Error::MaxStepsReached { .. } => naming.spell(&error.to_string()),
        _ => spelled(error.clone(), naming).to_string(),
    }
}

/// Returns the error for a wrong value of an option.
pub fn invalid_option(option: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::InvalidOption { option: option.into(), reason: reason.into() }
}

/// Returns an error that the SDK raises itself, for a call that the agent would only refuse.
pub fn local_error(kind: RpcErrorKind, message: &str) -> Error {
    Error::Rpc(RpcError { kind, rpc_code: None, message: message.to_owned(), data: None, hint: None })
}

/// The HTTP status that an agent quotes from the model's service, as in `Error code: 429 - {…}`.
fn http_status(message: &str) -> Option<u16> {
    let text = message.split_once("Error code: ").or_else(|| message.split_once("status code "))?.1;
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

/// Whether the service will answer the same request in the same way.
fn is_final(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 408 | 409 | 425 | 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_error_is_retryable_unless_the_request_is_refused() {
        let error = |message: &str| {
            let mut error = local_error(RpcErrorKind::LlmServiceError, message);
            if let Error::Rpc(error) = &mut error {
                error.rpc_code = Some(-32003);
            }
            error.is_retryable()
        };
        assert!(error("the model is overloaded") && error("Error code: 429 - {}") && error("Error code: 503"));
        assert!(!error("Error code: 401 - {'error': …}") && !error("status code 403"));
    }

    #[test]
    fn options_are_spelled_as_the_language_spells_them_and_quotes_stay() {
        let error = Error::Timeout("raise `turn_timeout` or call `set_plan_mode()`\nstderr: `turn_timeout`".to_owned());
        let expected = "raise `turnTimeout` or call `setPlanMode()`\nstderr: `turn_timeout`";
        assert_eq!(text(&error, Naming::Camel), expected);
        assert_eq!(text(&error, Naming::Snake), error.to_string());
        let closed = text(&Error::SessionClosed, Naming::Camel);
        assert!(closed.contains("`sessionId`"), "{closed}");
        assert_eq!(fields(&Error::SessionClosed)["retryable"], false);
    }
}
