//! One error type, with a stable code for each kind.

use std::fmt;

use serde_json::{Map, Value, json};

pub use self::exit::{AgentExit, CONNECTION, STDERR};
pub use self::rpc::{RpcError, RpcErrorKind};
use crate::budget::BudgetExceeded;
use crate::connection::PromptResult;
use crate::messages::Json;
use crate::output::OutputInvalid;
use crate::printable::printable;
use crate::secrets::Secrets;

mod exit;
mod rpc;

/// The page with a section for each code of an error. The bindings have copies, which `tools/generate_options.py` writes.
pub const ERRORS_PAGE: &str = "https://github.com/kimi-agent/kimi-agent/blob/main/docs/reference/errors.md";

/// The error of all calls. [`Error::code`] is the same string in every language and for every dialect.
///
/// ```no_run
/// # use kimi_agent_protocol as kimi_agent;
/// # struct Turn;
/// # impl Turn { async fn result(&mut self) -> kimi_agent::Result<kimi_agent::PromptResult> { Err(kimi_agent::Error::session_closed()) } }
/// # async fn example(turn: &mut Turn) {
/// use kimi_agent::Error;
/// match turn.result().await {
///     Err(Error::AgentExited(exit)) => eprintln!("the agent is gone: {}", exit.stderr),
///     Err(error) if error.is_rpc() => eprintln!("the agent says no: {error} ({})", error.code()),
///     other => drop(other),
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option has a wrong name or value.
    #[error("invalid option `{}`: {}", printable(.option), printable(.reason))]
    InvalidOption {
        /// The option.
        option: String,
        /// The reason.
        reason: String,
    },
    /// The agent could not be started. The text says what was looked for, and where.
    #[error("{}", printable(.0))]
    Spawn(String),
    /// The agent did not open the session.
    #[error("{}", printable(.0))]
    Handshake(String),
    /// The agent has exited.
    #[error(transparent)]
    AgentExited(#[from] AgentExit),
    /// The agent violated the protocol, and the session cannot continue.
    #[error("{}", printable(.0))]
    Protocol(ErrorText),
    /// The agent does not support this.
    #[error("{}", printable(.0))]
    Unsupported(String),
    /// The session, or its agent, has been closed.
    #[error("{}", printable(.0))]
    SessionClosed(ErrorText),
    /// A deadline was exceeded.
    #[error("{}", printable(.0))]
    Timeout(ErrorText),
    /// The answer to a call from inside the loop over a turn lies behind more unread events than the hard limit allows.
    /// Or a session of a shared process has left too much unread while other sessions continued; it is closed.
    #[error("{}", printable(.0))]
    EventBufferFull(ErrorText),
    /// The agent answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The turn was cancelled (from [`PromptResult::raise_for_status`](crate::PromptResult::raise_for_status)).
    #[error("the turn was cancelled before it was finished; the session can still be used")]
    TurnCancelled(Partial),
    /// The turn reached its limit of steps (from
    /// [`PromptResult::raise_for_status`](crate::PromptResult::raise_for_status)).
    #[error(
        "the turn reached its limit of {}steps; prompt again to continue, or raise `max_steps_per_turn`",
        .steps.map(|n| format!("{n} ")).unwrap_or_default()
    )]
    MaxStepsReached {
        /// The number of steps, if the agent reported it.
        steps: Option<i64>,
        /// What the turn had produced.
        result: Partial,
    },
    /// The answer ends at the model's limit of tokens (from
    /// [`PromptResult::raise_for_status`](crate::PromptResult::raise_for_status)). It has the result of the turn.
    #[error(
        "the answer was cut at the model's limit of tokens; prompt again to continue, or raise the limit in the agent's \
             configuration"
    )]
    AnswerTruncated(Box<PromptResult>),
    /// The model, its provider or a hook of the agent refused to answer (from
    /// [`PromptResult::raise_for_status`](crate::PromptResult::raise_for_status)). It has the result of the turn.
    #[error("the model, its provider or a hook of the agent refused to answer; change the prompt")]
    AnswerRefused(Box<PromptResult>),
    /// The turn, or its session, used more than a budget allows.
    #[error(transparent)]
    BudgetExceeded(Box<BudgetExceeded>),
    /// The turn ended without a valid value of its `output`, after all attempts.
    #[error(transparent)]
    OutputInvalid(Box<OutputInvalid>),
    /// A defect of this SDK; please report it.
    #[error("internal error: {0}; this is a defect of kimi-agent, please report it")]
    Internal(String),
}

impl Error {
    /// Replaces values of options in an error that quotes what the agent wrote where it should have written something else.
    pub(crate) fn mask(&mut self, secrets: &Secrets) {
        let text = match self {
            Self::Handshake(text) => text,
            Self::Protocol(text) => &mut text.text,
            _ => return,
        };
        *text = secrets.shown(text.as_bytes(), text.len());
    }
}

/// The code and the text, because Rust prints this form if `main` or a test returns an error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.code())
    }
}

/// What the turn had produced, if the error ended a turn; see [`Error::result`]. Equality ignores it: a later call of a closed
/// session fails with the same error.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// assert!(kimi_agent::Error::session_closed().result().is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Partial(Option<Box<PromptResult>>);

impl PartialEq for Partial {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl From<PromptResult> for Partial {
    fn from(result: PromptResult) -> Self {
        Self(Some(Box::new(result)))
    }
}

/// The text of an error, and what the turn had produced if the error ended a turn. Equality looks at the text only: a
/// later call of a closed session fails with the same error.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::Error;
/// let error = Error::Timeout("too slow".into());
/// assert_eq!(error.to_string(), "too slow");
/// assert!(error.result().is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct ErrorText {
    text: String,
    result: Option<Box<PromptResult>>,
}

impl PartialEq for ErrorText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl From<String> for ErrorText {
    fn from(text: String) -> Self {
        Self { text, result: None }
    }
}

impl From<&str> for ErrorText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl std::ops::Deref for ErrorText {
    type Target = str;
    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ErrorText {
    /// Returns the error with another text.
    #[doc(hidden)]
    #[must_use]
    pub fn map(self, change: impl FnOnce(String) -> String) -> Self {
        Self { text: change(self.text), ..self }
    }
}

/// The result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns the error of a call to a closed session.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert_eq!(kimi_agent::Error::session_closed().code(), "session_closed");
    /// ```
    pub fn session_closed() -> Self {
        Self::SessionClosed(
            "the session is closed; open another one with the same `session_id` to continue the conversation".into(),
        )
    }

    /// Returns the error for a call of a closed agent.
    #[doc(hidden)]
    pub fn agent_closed() -> Self {
        Self::SessionClosed(
            "the agent is closed; open another agent, and pass `session_id` to continue a conversation".into(),
        )
    }

    /// Returns the stable name of the kind of error.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert_eq!(kimi_agent::Error::session_closed().code(), "session_closed");
    /// ```
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidOption { .. } => "invalid_option",
            Self::Spawn(_) => "spawn_error",
            Self::Handshake(_) => "handshake_error",
            Self::AgentExited(_) => "agent_exited",
            Self::Protocol(_) => "protocol_error",
            Self::Unsupported(_) => "unsupported",
            Self::SessionClosed(_) => "session_closed",
            Self::Timeout(_) => "timeout",
            Self::EventBufferFull(_) => "event_buffer_full",
            Self::Rpc(error) => match error.kind {
                RpcErrorKind::TurnInProgress => "turn_in_progress",
                RpcErrorKind::NoActiveTurn => "no_active_turn",
                RpcErrorKind::LlmNotSet => "llm_not_set",
                RpcErrorKind::LlmNotSupported => "llm_not_supported",
                RpcErrorKind::LlmServiceError => "llm_service_error",
                RpcErrorKind::AuthExpired => "auth_expired",
                RpcErrorKind::ContextTooLong => "context_too_long",
                RpcErrorKind::Other => "rpc_error",
            },
            Self::TurnCancelled(_) => "turn_cancelled",
            Self::MaxStepsReached { .. } => "max_steps_reached",
            Self::AnswerTruncated(_) => "answer_truncated",
            Self::AnswerRefused(_) => "answer_refused",
            Self::BudgetExceeded(_) => "budget_exceeded",
            Self::OutputInvalid(_) => "output_invalid",
            Self::Internal(_) => "internal_error",
        }
    }

    /// Returns the address of the documentation of this kind of error: its causes, what to check, and remedies.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert!(kimi_agent::Error::session_closed().help().ends_with("/docs/reference/errors.md#session_closed"));
    /// ```
    pub fn help(&self) -> String {
        format!("{ERRORS_PAGE}#{}", self.code())
    }

    /// Returns what the turn had produced: its text, tool calls and tokens. `None` if the error did not end a turn.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// fn report(error: &kimi_agent::Error) {
    ///     if let Some(result) = error.result() {
    ///         println!("so far: {}", result.text);
    ///     }
    /// }
    /// # report(&kimi_agent::Error::session_closed());
    /// ```
    pub fn result(&self) -> Option<&PromptResult> {
        match self {
            Self::Protocol(text) | Self::SessionClosed(text) | Self::Timeout(text) | Self::EventBufferFull(text) => {
                text.result.as_deref()
            }
            Self::TurnCancelled(result) | Self::MaxStepsReached { result, .. } => result.0.as_deref(),
            Self::AgentExited(exit) => exit.result.as_deref(),
            Self::Rpc(error) => error.result.as_deref(),
            Self::AnswerTruncated(result) | Self::AnswerRefused(result) => Some(result),
            Self::BudgetExceeded(exceeded) => Some(&exceeded.result),
            Self::OutputInvalid(invalid) => Some(&invalid.result),
            _ => None,
        }
    }

    /// Returns the error with what the turn had produced.
    #[doc(hidden)]
    #[must_use]
    pub fn with_result(self, result: PromptResult) -> Self {
        match self {
            Self::Protocol(text) => Self::Protocol(ErrorText { result: Some(Box::new(result)), ..text }),
            Self::Timeout(text) => Self::Timeout(ErrorText { result: Some(Box::new(result)), ..text }),
            Self::EventBufferFull(text) => Self::EventBufferFull(ErrorText { result: Some(Box::new(result)), ..text }),
            Self::SessionClosed(text) => Self::SessionClosed(ErrorText { result: Some(Box::new(result)), ..text }),
            Self::TurnCancelled(_) => Self::TurnCancelled(result.into()),
            Self::MaxStepsReached { steps, .. } => Self::MaxStepsReached { steps, result: result.into() },
            Self::AgentExited(exit) => Self::AgentExited(AgentExit { result: Some(Box::new(result)), ..exit }),
            Self::Rpc(error) => Self::Rpc(RpcError { result: Some(Box::new(result)), ..error }),
            Self::BudgetExceeded(exceeded) => BudgetExceeded { result, ..*exceeded }.into(),
            Self::OutputInvalid(invalid) => OutputInvalid { result, ..*invalid }.into(),
            other => other,
        }
    }

    /// Returns whether the agent answered with an error. If not, the agent exited, or was never reached.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert!(!kimi_agent::Error::session_closed().is_rpc());
    /// ```
    pub fn is_rpc(&self) -> bool {
        matches!(self, Self::Rpc(_))
    }

    /// Returns whether a deadline was exceeded.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert!(kimi_agent::Error::Timeout("…".into()).is_timeout());
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }

    /// Returns whether the agent has exited.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// assert!(!kimi_agent::Error::session_closed().is_agent_exited());
    /// ```
    pub fn is_agent_exited(&self) -> bool {
        matches!(self, Self::AgentExited(_))
    }

    /// Returns whether the same call can succeed later without a change: the model is overloaded or limits the rate,
    /// the agent exited, a deadline was exceeded, or another turn was running. Do not retry after other errors.
    ///
    /// An agent that exits by itself before it has opened the session would do so again. The same holds for a model's
    /// service that refuses the request itself, with an HTTP status such as 400, see [`RpcError::status`]. It may accept the
    /// request later after 408, 409, 425, 429, any status from 500 on, and a lost connection.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::Error;
    /// assert!(Error::Timeout("…".into()).is_retryable());
    /// assert!(!Error::session_closed().is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout(_) => true,
            Self::AgentExited(exit) => exit.hint.is_none() || exit.exit_code.is_none(),
            Self::Rpc(error) => match error.kind {
                RpcErrorKind::TurnInProgress => true,
                RpcErrorKind::LlmServiceError => error.is_service_retryable(),
                _ => false,
            },
            _ => false,
        }
    }
}

/// Returns the attributes of an error in the bindings, by name.
pub fn fields(error: &Error) -> Map<String, Value> {
    let fields = match error {
        Error::InvalidOption { option, .. } => json!({"option": option}),
        Error::AgentExited(exit) => {
            json!({"exit_code": exit.exit_code, "signal": exit.signal, "stderr": exit.stderr})
        }
        Error::Rpc(error) => {
            let mut fields = json!({
                "rpc_code": error.rpc_code,
                "message": error.message,
                "data": error.data.as_ref().map(Json::to_value),
                "hint": error.hint,
            });
            if error.kind.is_of_service() {
                fields["status"] = json!(error.status());
                fields["retry_after"] = json!(error.retry_after().map(|delay| delay.as_secs_f64()));
            }
            if error.kind == RpcErrorKind::AuthExpired {
                fields["methods"] = json!(*error.methods);
            }
            fields
        }
        Error::MaxStepsReached { steps, .. } => json!({"steps": steps}),
        Error::BudgetExceeded(exceeded) => exceeded.fields(),
        Error::OutputInvalid(invalid) => invalid.fields(),
        _ => json!({}),
    };
    let mut fields = match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    fields.insert("retryable".to_owned(), error.is_retryable().into());
    fields
}

/// Returns the error for a wrong value of an option.
pub fn invalid_option(option: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::InvalidOption { option: option.into(), reason: reason.into() }
}

/// Returns an error that the SDK raises itself, for a call that the agent would only refuse.
pub fn local_error(kind: RpcErrorKind, message: &str) -> Error {
    Error::Rpc(RpcError::new(kind, message))
}

/// Returns the HTTP status in a message such as `Error code: 429 - {…}`.
pub fn quoted_status(message: &str) -> Option<u16> {
    crate::service::quoted_status(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_answers_have_no_values_of_options() {
        let secrets = Secrets::new([], [std::ffi::OsStr::new("canary-1")]);
        let text = r#"the answer can't be read: ["canary-1"]"#;
        for mut error in [Error::Handshake(text.to_owned()), Error::Protocol(text.into())] {
            error.mask(&secrets);
            assert!(error.to_string().ends_with(r#"["***"]"#), "{error}");
        }
    }

    #[test]
    fn service_error_is_retryable_unless_refused() {
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
    fn service_error_has_status_in_its_data() {
        let is_retryable = |message: &str, data: Value| {
            let data = serde_json::from_value(data).unwrap();
            let kind = RpcErrorKind::LlmServiceError;
            Error::Rpc(RpcError { data, ..RpcError::new(kind, message) }).is_retryable()
        };
        for name in ["status", "status_code", "statusCode"] {
            assert!(!is_retryable("down", json!({name: 401})) && is_retryable("down", json!({name: 500})), "{name}");
            let in_details = |status: u16| json!({"code": "provider.api_error", "details": {name: status}});
            assert!(!is_retryable("403 no", in_details(403)) && is_retryable("429 no", in_details(429)), "{name}");
        }
        assert!(is_retryable("Error code: 401", json!({"status": 429})), "the data has precedence");
        assert!(!is_retryable("Error code: 401", json!({"status": "500"})), "the status is a text");
        assert!(is_retryable("down", json!({"status": 500, "details": {"status": 401}})), "the nearest one counts");
        assert!(is_retryable("down", json!({"details": [401]})) && is_retryable("down", json!({"details": null})));
        assert!(is_retryable("down", json!([401])) && is_retryable("down", json!({"status": 70_000})));
    }
}
