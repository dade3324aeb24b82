//! The reasons for the early end of a command, with their exit codes.

use std::fmt::Display;
use std::io;

use kimi_agent_client::host::error_fields;
use kimi_agent_client::{Error, Partial};
use kimi_agent_protocol::printable::printable_line;
use serde_json::{Map, Value, json};

use crate::{exit, spelling};

/// The reason for the early end of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of the output needs no more, as `head` does.
    Closed,
    Cancelled,
    Because(String),
    /// An argument is wrong.
    Wrong {
        argument: String,
        problem: String,
    },
    Sdk(Error),
}

impl Failure {
    /// Makes the failure of an argument.
    pub(crate) fn wrong(argument: &str, problem: impl Display) -> Self {
        Self::Wrong { argument: argument.to_owned(), problem: printable_line(&problem.to_string()).into_owned() }
    }

    /// Returns a failure without a kind as that of an argument.
    pub(crate) fn of_argument(self, argument: &str) -> Self {
        match self {
            Self::Because(problem) => Self::wrong(argument, problem),
            other => other,
        }
    }

    /// Makes the failure of the standard output.
    pub(crate) fn unwritten(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Because(format!("the standard output cannot be written: {error}")),
        }
    }

    /// Returns the exit code.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Self::Closed => exit::SUCCEEDED,
            Self::Cancelled => exit::CANCELLED,
            Self::Because(_) => exit::FAILED,
            Self::Wrong { .. } => exit::WRONG_ARGUMENTS,
            Self::Sdk(error) => exit::of(error),
        }
    }

    /// Returns the text for the standard error.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Closed => None,
            Self::Sdk(error) => Some(format!("{}\n  help: {}", self.message(), error.help())),
            other => Some(other.message()),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Closed => "the standard output is closed".to_owned(),
            Self::Cancelled => "cancelled".to_owned(),
            Self::Because(reason) => printable_line(reason).into_owned(),
            Self::Wrong { argument, problem } => format!("invalid value of {}: {problem}", printable_line(argument)),
            Self::Sdk(error) => spelling::message(error),
        }
    }

    /// Returns the error as JSON: `code`, `message`, `retryable` and the fields of its kind.
    pub(crate) fn to_json(&self) -> Value {
        let (code, fields) = match self {
            Self::Closed | Self::Cancelled => (Error::TurnCancelled(Partial::default()).code(), Map::new()),
            Self::Because(_) => ("internal_error", Map::new()),
            Self::Wrong { argument, .. } => {
                ("invalid_option", Map::from_iter([("option".to_owned(), json!(argument))]))
            }
            Self::Sdk(error) => (error.code(), error_fields(error)),
        };
        let mut error = Map::new();
        error.insert("code".to_owned(), code.into());
        error.insert("message".to_owned(), self.message().into());
        error.insert("retryable".to_owned(), false.into());
        error.extend(fields.into_iter().filter(|(name, _)| name != "message"));
        if let Some(Value::String(option)) = error.get_mut("option") {
            *option = spelling::argument(option).to_owned();
        }
        error.into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Sdk(error)
    }
}
