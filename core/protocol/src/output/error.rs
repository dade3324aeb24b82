//! The violations of a value, and the error of a turn without a valid value.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{MAX_ERRORS, MAX_MESSAGE, shortened};
use crate::connection::{HandlerFailure, PromptResult};
use crate::error::Error;
use crate::messages::HandlerKind;
use crate::printable::printable;

/// A violation in a value of structured output.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// let error = kimi_agent::OutputError::new("/lines/0/total", "expected a positive number");
/// assert_eq!(error.to_string(), "/lines/0/total: expected a positive number");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutputError {
    /// The place in the value, as a JSON Pointer, for example `/lines/0/total`. Empty for the value itself.
    #[serde(default)]
    pub pointer: String,
    /// The violation, for the model and for people.
    pub message: String,
}

impl OutputError {
    /// Makes a violation at a place. `pointer` is a JSON Pointer; empty for the value itself.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// let error = kimi_agent::OutputError::new("", "the end lies before the start");
    /// assert_eq!(error.pointer, "");
    /// ```
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", printable(&self.pointer))?;
        }
        f.write_str(&printable(&self.message))
    }
}

/// Reads the result of the host's check: null for a valid value, else a list of violations, each a text or
/// `{pointer?, message}`.
///
/// # Errors
/// Returns the reason if the result is neither.
pub fn parse_violations(result: Value) -> Result<Vec<OutputError>, String> {
    let items = match result {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items,
        other => return Err(format!("expected a list of violations or nothing, got {other}")),
    };
    let read = |item| match item {
        Value::String(message) => Ok(OutputError::new("", message)),
        other => serde_json::from_value(other).map_err(|error| format!("a violation cannot be read: {error}")),
    };
    items.into_iter().map(read).collect()
}

/// Limits the number of errors and their length, and returns how many are left out.
pub(super) fn limited(mut errors: Vec<OutputError>) -> (Vec<OutputError>, usize) {
    let more = errors.len().saturating_sub(MAX_ERRORS);
    errors.truncate(MAX_ERRORS);
    for error in &mut errors {
        error.pointer = shortened(&error.pointer, MAX_MESSAGE);
        error.message = shortened(&error.message, MAX_MESSAGE);
    }
    (errors, more)
}

/// A turn ended without a valid value, after all attempts.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// fn report(error: &kimi_agent::Error) {
///     if let kimi_agent::Error::OutputInvalid(invalid) = error {
///         println!("{} attempts; the last answer was {:?}", invalid.attempts, invalid.text);
///         for violation in &invalid.errors {
///             println!("{violation}");
///         }
///     }
/// }
/// # report(&kimi_agent::Error::session_closed());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutputInvalid {
    /// How many values were invalid or missing.
    pub attempts: u32,
    /// The last attempt: the answer's text, or the arguments of the call. Above 64 KiB it is cut.
    pub text: String,
    /// The violations of the last attempt, at most 20.
    pub errors: Vec<OutputError>,
    /// The result of the turn up to its end: its tool calls, its tokens, and the last text that it said.
    pub result: PromptResult,
}

impl std::error::Error for OutputInvalid {}

impl fmt::Display for OutputInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = if self.attempts == 1 { "attempt" } else { "attempts" };
        write!(f, "the turn has no valid output after {} {attempts}", self.attempts)?;
        if let Some(first) = self.errors.first() {
            write!(f, " ({first}")?;
            match self.errors.len() - 1 {
                0 => f.write_str(")")?,
                1 => f.write_str(", and 1 more error)")?,
                more => write!(f, ", and {more} more errors)")?,
            }
        }
        let is_failed_check = |failure: &HandlerFailure| failure.handler == HandlerKind::Output;
        f.write_str(if self.result.handler_failures.iter().any(is_failed_check) {
            "; the session can still be used: correct the check of `output` in the program, which failed, and prompt again"
        } else {
            "; the session can still be used: prompt again, raise `retries` of `output`, or simplify the schema"
        })
    }
}

impl OutputInvalid {
    /// Returns the attributes of the error in the bindings, without the result.
    pub(crate) fn fields(&self) -> Value {
        json!({"attempts": self.attempts, "text": self.text, "errors": self.errors})
    }
}

impl From<OutputInvalid> for Error {
    fn from(invalid: OutputInvalid) -> Self {
        Self::OutputInvalid(Box::new(invalid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_host_are_read() {
        assert_eq!(parse_violations(Value::Null), Ok(Vec::new()));
        let given = json!(["a", {"message": "b"}, {"pointer": "/x", "message": "c"}]);
        let expected = [OutputError::new("", "a"), OutputError::new("", "b"), OutputError::new("/x", "c")];
        assert_eq!(parse_violations(given), Ok(expected.to_vec()));
        assert!(parse_violations(json!(true)).is_err() && parse_violations(json!([1])).is_err());
    }

    #[test]
    fn error_counts_violations_and_remedies() {
        let errors = vec![OutputError::new("/n", "want integer"), OutputError::new("", "wrong")];
        let result = PromptResult::empty(crate::TurnStatus::Finished);
        let error: Error = OutputInvalid { attempts: 3, text: "?".to_owned(), errors, result }.into();
        assert_eq!(
            error.to_string(),
            "the turn has no valid output after 3 attempts (/n: want integer, and 1 more error); the session can still be used: \
             prompt again, raise `retries` of `output`, or simplify the schema"
        );
        assert_eq!((error.code(), error.is_retryable()), ("output_invalid", false));
        let fields = crate::error::fields(&error);
        assert_eq!((&fields["attempts"], &fields["errors"][0]["pointer"]), (&json!(3), &json!("/n")));
    }
}
