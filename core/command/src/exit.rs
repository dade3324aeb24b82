//! The exit codes of the command.

use kimi_agent_client::Error;

/// The command succeeded.
pub(crate) const SUCCEEDED: i32 = 0;
/// The command failed, or `verify` found a difference.
pub(crate) const FAILED: i32 = 1;
/// The arguments are wrong.
pub(crate) const WRONG_ARGUMENTS: i32 = 2;
/// The agent requires a login.
pub(crate) const LOGIN_NEEDED: i32 = 3;
/// The turn was cancelled. A shell reports a program that Ctrl-C ended with the same code.
pub(crate) const CANCELLED: i32 = 130;

/// An exit code: its number, its meaning, and the codes of the errors that have it.
pub(crate) struct ExitCode {
    pub(crate) number: i32,
    pub(crate) meaning: &'static str,
    pub(crate) errors: &'static [&'static str],
}

const fn code(number: i32, meaning: &'static str, errors: &'static [&'static str]) -> ExitCode {
    ExitCode { number, meaning, errors }
}

/// Every exit code. `--help` and docs/reference/command.md show this table.
pub(crate) const EXIT_CODES: &[ExitCode] = &[
    code(SUCCEEDED, "The command succeeded", &[]),
    code(
        FAILED,
        "It failed, or `verify` found a difference",
        &[
            "handshake_error",
            "agent_exited",
            "protocol_error",
            "session_closed",
            "event_buffer_full",
            "turn_in_progress",
            "no_active_turn",
            "llm_not_supported",
            "llm_service_error",
            "context_too_long",
            "answer_refused",
            "rpc_error",
            "internal_error",
        ],
    ),
    code(
        WRONG_ARGUMENTS,
        "The arguments are wrong, or the agent does not support an option",
        &["invalid_option", "unsupported"],
    ),
    code(LOGIN_NEEDED, "The agent requires a login", &["auth_expired", "llm_not_set"]),
    code(4, "The turn exceeded its budget", &["budget_exceeded"]),
    code(5, "The model returned no valid value for the output schema", &["output_invalid"]),
    code(
        6,
        "The turn reached its limit of steps, or the model's limit of tokens",
        &["max_steps_reached", "answer_truncated"],
    ),
    code(124, "A deadline was exceeded", &["timeout"]),
    code(127, "The agent could not be started, for example because it is not installed", &["spawn_error"]),
    code(CANCELLED, "The turn was cancelled, for example with Ctrl-C", &["turn_cancelled"]),
];

/// Returns the exit code for an error of the SDK.
pub(crate) fn of(error: &Error) -> i32 {
    let found = EXIT_CODES.iter().find(|exit| exit.errors.contains(&error.code()));
    found.map_or(FAILED, |exit| exit.number)
}

/// Returns the table for the `--help` of a command, in which some codes have a meaning of their own.
pub(crate) fn table(own: &[(i32, &str)]) -> String {
    let rows = EXIT_CODES.iter().map(|exit| {
        let found = own.iter().find(|(number, _)| *number == exit.number);
        (exit.number, found.map_or(exit.meaning, |(_, meaning)| meaning))
    });
    listed(rows)
}

/// Returns the table for the `--help` of a command that has these codes only.
pub(crate) fn listed<'a>(codes: impl IntoIterator<Item = (i32, &'a str)>) -> String {
    let rows = codes.into_iter().map(|(number, meaning)| format!("  {number:>3}  {meaning}\n"));
    format!("Exit codes:\n{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERRORS: &str = include_str!("../../../docs/reference/errors.md");
    const COMMAND: &str = include_str!("../../../docs/reference/command.md");

    /// The codes in the first column of the table of errors.
    fn documented() -> Vec<&'static str> {
        let rows = ERRORS.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        rows.map(|(code, _)| code).collect()
    }

    #[test]
    fn every_error_has_exit_code() {
        let documented = documented();
        assert!(documented.contains(&"invalid_option") && documented.contains(&"internal_error"));
        let listed: Vec<_> = EXIT_CODES.iter().flat_map(|exit| exit.errors).copied().collect();
        for code in &documented {
            assert_eq!(listed.iter().filter(|known| *known == code).count(), 1, "{code}");
        }
        assert_eq!(listed.len(), documented.len());
    }

    #[test]
    fn reference_lists_exit_codes() {
        for exit in EXIT_CODES {
            let errors: Vec<_> = exit.errors.iter().map(|code| format!("`{code}`")).collect();
            let row = format!("| {} | {} | {} |", exit.number, exit.meaning, errors.join(", "));
            assert!(COMMAND.lines().any(|line| line == row), "{row}");
        }
    }
}
