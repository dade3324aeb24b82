//! Converts texts of errors, log lines and documentation to the calling language's names of options and methods.

use crate::error::{AgentExit, Error};
use crate::naming::Naming;
use crate::options::OPTIONS;

/// Names of methods and fields that texts mention, in addition to the options.
const OTHER_NAMES: [&str; 21] = [
    "approval_feedback",
    "cache_read",
    "cache_write",
    "capture_content",
    "config_options",
    "create_session",
    "delete_session",
    "external_tools",
    "list_sessions",
    "on_error",
    "one_shot",
    "open_agent",
    "output_tokens",
    "plan_mode",
    "raise_for_status",
    "scripted_agent",
    "set_config_option",
    "set_plan_mode",
    "slash_commands",
    "text_stream",
    "tool_calls",
];

impl Naming {
    /// Returns a text with the names of options and methods as the caller writes them. Names stand in backticks, in the
    /// first line. Further lines are quotes, and stay unchanged.
    pub fn spell(self, text: &str) -> String {
        if self == Self::Snake {
            return text.to_owned();
        }
        let (line, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
        let mut spelled = String::with_capacity(text.len());
        for (n, piece) in line.split('`').enumerate() {
            if n > 0 {
                spelled.push('`');
            }
            if n % 2 == 0 {
                spelled.push_str(piece);
                continue;
            }
            let mut left = piece;
            while !left.is_empty() {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = left.find(|c| is_word(c) != left.starts_with(is_word)).unwrap_or(left.len());
                let (word, more) = left.split_at(end);
                let known = OPTIONS.iter().any(|option| option.name == word) || OTHER_NAMES.contains(&word);
                if known {
                    spelled.push_str(&self.name(word))
                } else {
                    spelled.push_str(word)
                }
                left = more;
            }
        }
        spelled + rest
    }
}

/// Returns the error with the names of options and methods as the language writes them.
///
/// Texts of the core have these names in backticks, in snake case. Text from the agent stays unchanged: it follows the
/// first line, or is a message of the agent.
#[must_use]
pub fn spelled(error: Error, naming: Naming) -> Error {
    let spell = |text: String| naming.spell(&text);
    match error {
        Error::InvalidOption { option, reason } => Error::InvalidOption { option, reason: spell(reason) },
        Error::Spawn(text) => Error::Spawn(spell(text)),
        Error::Handshake(text) => Error::Handshake(spell(text)),
        Error::Protocol(text) => Error::Protocol(text.map(spell)),
        Error::SessionClosed(text) => Error::SessionClosed(text.map(spell)),
        Error::Unsupported(text) => Error::Unsupported(spell(text)),
        Error::Timeout(text) => Error::Timeout(text.map(spell)),
        Error::EventBufferFull(text) => Error::EventBufferFull(text.map(spell)),
        Error::Internal(text) => Error::Internal(spell(text)),
        Error::AgentExited(exit) => Error::AgentExited(AgentExit { hint: exit.hint.map(spell), ..exit }),
        Error::Rpc(mut error) => {
            error.hint = error.hint.map(|hint| spell(hint.into()).into());
            if error.rpc_code.is_none() {
                error.message = spell(error.message);
            }
            Error::Rpc(error)
        }
        other => other,
    }
}

/// Returns the text of an error with the names of the language.
pub fn text(error: &Error, naming: Naming) -> String {
    match error {
        // Text that is made on request, not stored.
        Error::MaxStepsReached { .. }
        | Error::AnswerTruncated(_)
        | Error::AnswerRefused(_)
        | Error::BudgetExceeded(_)
        | Error::OutputInvalid(_) => naming.spell(&error.to_string()),
        _ => spelled(error.clone(), naming).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::fields;

    #[test]
    fn option_names_follow_language_except_quotes() {
        let error = Error::Timeout("raise `turn_timeout` or call `set_plan_mode()`\nstderr: `turn_timeout`".into());
        let expected = "raise `turnTimeout` or call `setPlanMode()`\nstderr: `turn_timeout`";
        assert_eq!(text(&error, Naming::Camel), expected);
        assert_eq!(text(&error, Naming::Snake), error.to_string());
        let closed = text(&Error::session_closed(), Naming::Camel);
        assert!(closed.contains("`sessionId`"), "{closed}");
        assert_eq!(fields(&Error::session_closed())["retryable"], false);
    }
}
