//! Messages of the SDK with the arguments of the command instead of the options of the SDK.

use kimi_agent_client::Error;

/// Options of the SDK, with the arguments that set them.
const NAMES: &[(&str, &str)] = &[
    ("agent_file", "--agent-file"),
    ("auth", "--auth"),
    ("config_file", "--config-file"),
    ("dialect", "--dialect"),
    ("env", "--env"),
    ("enforce", "--enforce"),
    ("executable", "--executable"),
    ("extra_args", "--extra-arg"),
    ("handshake_timeout", "--handshake-timeout"),
    ("idle_timeout", "--idle-timeout"),
    ("max_steps_per_turn", "--max-steps-per-turn"),
    ("mcp_configs", "--mcp-config"),
    ("model", "--model"),
    ("output", "--output-schema"),
    ("place", "--place"),
    ("policy", "--policy"),
    ("record", "--record"),
    ("redact", "--redact"),
    ("session_budget", "--budget"),
    ("session_id", "--session-id"),
    ("skills_dir", "--skills-dir"),
    ("thinking", "--thinking"),
    ("turn_timeout", "--timeout"),
    ("work_dir", "--work-dir"),
    ("yolo", "--yolo"),
];
/// Limits of a budget, as the command spells them.
const LIMITS: &[(&str, &str)] = &[("output_tokens", "output-tokens"), ("tool_calls", "tool-calls")];
/// The names for `doctor`, which has arguments of its own.
const DOCTOR: &[(&str, &str)] = &[("executable", "AGENT"), ("handshake_timeout", "--timeout")];
/// Remedies that the command does not have, with their replacements.
const REMEDIES: &[(&str, &str)] = &[
    ("raise `retries` of `output`, ", ""),
    (
        "every further prompt of this session fails in the same way: open another one, or raise the limit",
        "raise the limit",
    ),
];

/// Returns the argument that sets an option of the SDK, or the name itself.
pub(crate) fn argument(option: &str) -> &str {
    named(option, NAMES).unwrap_or(option)
}

/// Returns the message of an error, with the arguments of the command.
pub(crate) fn message(error: &Error) -> String {
    spelled(error, |text| with_names(text, &[NAMES, LIMITS]))
}

/// Returns the message of an error, with the arguments of `doctor`.
pub(crate) fn message_of_doctor(error: &Error) -> String {
    spelled(error, |text| with_names(text, &[DOCTOR, NAMES]))
}

/// Returns a text about a budget, with the limits as the command spells them.
pub(crate) fn limits(text: &str) -> String {
    with_names(text, &[LIMITS])
}

/// Spells an error. The message of an agent stays as it is.
fn spelled(error: &Error, spell: impl Fn(&str) -> String) -> String {
    match error {
        Error::Rpc(answer) if answer.rpc_code.is_some() => {
            let mut answer = answer.clone();
            answer.hint = answer.hint.map(|hint| spell(&hint).into());
            answer.to_string()
        }
        other => spell(&other.to_string()),
    }
}

/// Replaces names in backticks. Only the first line is of the SDK, and further lines are quotes.
fn with_names(text: &str, tables: &[&[(&str, &str)]]) -> String {
    let (line, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
    let line = REMEDIES.iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to));
    let pieces = line.split('`').enumerate().map(|(at, piece)| {
        let known = tables.iter().find_map(|table| named(piece, table));
        if at % 2 == 1 { known.unwrap_or(piece) } else { piece }
    });
    pieces.collect::<Vec<_>>().join("`") + rest
}

fn named<'a>(option: &str, table: &[(&str, &'a str)]) -> Option<&'a str> {
    table.iter().find(|(name, _)| *name == option).map(|(_, argument)| *argument)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use kimi_agent_client::Budget;
    use kimi_agent_client::host::{Naming, parse_budget};
    use kimi_agent_protocol::options::OPTIONS;

    use super::*;
    use crate::Arguments;

    #[test]
    fn names_are_options() {
        let command = Arguments::command();
        let of = |name: &str| command.find_subcommand(name).unwrap().get_arguments().filter_map(|one| one.get_long());
        let arguments: Vec<_> = of("run").chain(of("proxy")).collect();
        for (option, argument) in NAMES {
            assert!(OPTIONS.iter().any(|one| one.name == *option), "{option}");
            assert!(arguments.contains(&argument.trim_start_matches("--")), "{argument}");
        }
        let limits = LIMITS.iter().map(|(limit, _)| ((*limit).to_owned(), 1.into())).collect();
        assert_ne!(parse_budget(limits, Naming::Snake).unwrap(), Budget::new());
    }

    #[test]
    fn quotes_stay_unchanged() {
        let error = Error::Timeout("raise `turn_timeout`, or set `my model`\nstderr: `model`".into());
        assert_eq!(message(&error), "raise `--timeout`, or set `my model`\nstderr: `model`");
        let error = Error::Timeout("raise `handshake_timeout`".into());
        assert_eq!(message_of_doctor(&error), "raise `--timeout`");
    }
}
