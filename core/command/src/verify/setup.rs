//! The options of the recorded session, for another session.

use std::ffi::OsString;
use std::path::PathBuf;

use kimi_agent_client::SessionOptions;
use kimi_agent_client::host::{Naming, recorded_options};
use kimi_agent_protocol::options::{Kind, OPTIONS};
use kimi_agent_protocol::recording::{CallEntry, CallKind, Entry, MASK, Places, Recording};
use serde_json::{Map, Value};

use crate::Failure;
use crate::run::tools::whole_line;
use crate::session_arguments::SessionArguments;

/// Options whose values are not in a recording, with the argument that sets them.
const ABSENT: [(&str, &str); 9] = [
    ("config", "--config-file"),
    ("mcp_configs", "--mcp-config"),
    ("session_budget", "--budget"),
    ("hooks", ""),
    ("on_read_file", ""),
    ("on_write_file", ""),
    ("on_terminal", ""),
    ("session_id", "--session-id"),
    ("policy", "--policy"),
];
/// Options that are not taken from the recording, although they are in it.
const NOT_TAKEN: [&str; 4] = ["work_dir", "session_id", "env", "client_name"];

/// Options that lead to no program, file, folder or server, and approve nothing.
const HARMLESS: [&str; 18] = [
    "close_timeout",
    "cancel_timeout",
    "dialect",
    "event_buffer_bytes",
    "handshake_timeout",
    "idle_timeout",
    "max_line_bytes",
    "max_ralph_iterations",
    "max_retries_per_step",
    "max_steps_per_turn",
    "mode",
    "model",
    "output",
    "plan_mode",
    "reasoning",
    "thinking",
    "tools",
    "turn_timeout",
];

/// The options of the recorded session, and what is missing of them.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) options: SessionOptions,
    /// A line about each option that is not as recorded.
    pub(super) missing: Vec<String>,
}

impl Setup {
    /// Returns the recorded options, over which the arguments have precedence.
    ///
    /// # Errors
    /// Wrong arguments, or no agent is given although the recording masks its own.
    pub(super) fn of(
        recording: &Recording,
        places: &Places,
        arguments: &SessionArguments,
        is_trusted: bool,
    ) -> Result<Self, Failure> {
        let header = &recording.header;
        let is_known = |name: &String, value: &Value| {
            let option = OPTIONS.iter().find(|option| option.name == name);
            let is_data =
                option.is_some_and(|option| !matches!(option.kind, Kind::ApprovalHandler | Kind::QuestionHandler));
            is_data && *value != "set" && !NOT_TAKEN.contains(&name.as_str())
        };
        let known = header.options.iter().filter(|(name, value)| is_known(name, value));
        let mut known: Map<String, Value> = known.map(|(name, value)| (name.clone(), places.filled(value))).collect();
        known.extend(session_output(recording).map(|output| ("output".to_owned(), output)));
        let mut missing = missing(recording, arguments);
        if !is_trusted {
            known.retain(|name, _| {
                let is_harmless = HARMLESS.contains(&name.as_str());
                if !is_harmless {
                    missing.push(format!(
                        "`{name}` of the recording is not used, because it can lead to programs and files; set --trust"
                    ));
                }
                is_harmless
            });
        }
        known.retain(|name, value| {
            let masked = is_masked(value);
            missing.extend(masked.then(|| describe_masked(name, arguments)).flatten());
            !masked
        });
        let mut options = recorded_options(known)?;
        if arguments.executable.is_empty() && !header.executable.is_empty() {
            if let Some(word) = header.executable.iter().find(|word| word.contains(MASK)) {
                let problem = format!("a secret in the recorded command is masked: `{word}`; set the agent with -x");
                return Err(Failure::wrong("--executable", problem));
            }
            let words: Vec<String> = header.executable.iter().map(|word| places.fill_text(word)).collect();
            if !is_trusted {
                let command = whole_line(&format!("{words:?}"));
                let problem = format!(
                    "it is missing; the recording names the command {command}, which is started only with --trust: set the \
                     agent with -x, or --trust if the recording is yours"
                );
                return Err(Failure::wrong("--executable", problem));
            }
            options = options.executable(words);
        }
        // The agent inherits these variables. As values of `env`, they are masked in the new recording and in the report.
        options = options.env(inherited(recording, arguments));
        Ok(Self { options: arguments.apply(options)?, missing })
    }
}

/// Returns the recorded variables of `env` that are not given, but are in the environment of the command.
fn inherited(recording: &Recording, arguments: &SessionArguments) -> Vec<(String, OsString)> {
    let names = recorded_variables(recording).filter(|name| !is_given_variable(name, arguments));
    names.filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?))).collect()
}

/// Returns the names of the variables that the recorded session set with `env`.
fn recorded_variables(recording: &Recording) -> impl Iterator<Item = &str> {
    let names = recording.header.options.get("env").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn is_given_variable(name: &str, arguments: &SessionArguments) -> bool {
    arguments.env.iter().any(|one| one.split_once('=').is_some_and(|(given, _)| given == name))
}

/// Returns the structured output of the recorded session. Only that of a session is a tool.
fn session_output(recording: &Recording) -> Option<Value> {
    let output = recording.entries.iter().find_map(|timed| match &timed.entry {
        Entry::Call(call) if call.call == CallKind::Prompt => call.arguments.get("output"),
        _ => None,
    });
    output.filter(|_| recording.header.options.contains_key("output")).cloned()
}

/// Returns whether the recording shows the value, or a part of it, only as the mask of a secret.
fn is_masked(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(list) => list.iter().any(is_masked),
        Value::Object(map) => map.iter().any(|(name, value)| name.contains(MASK) || is_masked(value)),
        _ => false,
    }
}

/// Describes an option whose value is masked, unless an argument sets it.
fn describe_masked(name: &str, arguments: &SessionArguments) -> Option<String> {
    let settable = [
        ("model", "--model", arguments.model.is_some()),
        ("config_file", "--config-file", arguments.config_file.is_some()),
        ("agent_file", "--agent-file", arguments.agent_file.is_some()),
        ("skills_dir", "--skills-dir", arguments.skills_dir.is_some()),
        ("output", "--output-schema", arguments.output_schema.is_some()),
        ("max_steps_per_turn", "--max-steps-per-turn", arguments.max_steps_per_turn.is_some()),
        ("turn_timeout", "--timeout", arguments.timeout.is_some()),
        ("idle_timeout", "--idle-timeout", arguments.idle_timeout.is_some()),
        ("handshake_timeout", "--handshake-timeout", arguments.handshake_timeout.is_some()),
        ("dialect", "--dialect", arguments.dialect.is_some()),
    ];
    let Some((_, argument, is_given)) = settable.into_iter().find(|(option, ..)| *option == name) else {
        return Some(format!("`{name}` is masked in the recording and cannot be set"));
    };
    (!is_given).then(|| format!("`{name}` is masked in the recording; set {argument}"))
}

/// Describes the options that are not as recorded.
fn missing(recording: &Recording, arguments: &SessionArguments) -> Vec<String> {
    let options = &recording.header.options;
    let is_given = |argument: &str| match argument {
        "--config-file" => arguments.config_file.is_some(),
        "--mcp-config" => !arguments.mcp_config.is_empty(),
        "--budget" => !arguments.budget.is_empty(),
        "--session-id" => arguments.session_id.is_some(),
        "--policy" => arguments.policy.is_some(),
        _ => false,
    };
    let absent = ABSENT.iter().filter(|(name, argument)| options.contains_key(*name) && !is_given(argument));
    // The SDK sets a random id for some agents, so the id alone does not mean that a session was resumed.
    let absent = absent.filter(|(name, _)| *name != "session_id");
    let mut lines: Vec<String> = absent
        .map(|(name, argument)| match (*name, *argument) {
            ("policy", _) => {
                "`policy` is not in the recording; its recorded decisions are used, or set --policy".to_owned()
            }
            (name, "") => format!("`{name}` is not in the recording and cannot be set"),
            (name, argument) => format!("`{name}` is not in the recording; set {argument}"),
        })
        .collect();
    let is_set = |name: &str| is_given_variable(name, arguments) || std::env::var_os(name).is_some();
    let unset = recorded_variables(recording).filter(|name| !is_set(name));
    lines.extend(unset.map(|name| format!("the variable {name} was set by `env`; set --env {name}=VALUE")));
    lines
}

/// Describes the defects of the recording, which can look like differences.
pub(super) fn defects(recording: &Recording) -> Vec<String> {
    let mut lines = Vec::new();
    let entries = || recording.entries.iter().map(|timed| &timed.entry);
    if recording.is_cut || !entries().any(|entry| matches!(entry, Entry::End(_))) {
        lines.push(
            "the recording is incomplete: it has no entry `end`, because its session still runs or its program was killed"
                .to_owned(),
        );
    }
    let missing: u64 = entries().map(|entry| if let Entry::Gap(gap) = entry { gap.entries } else { 0 }).sum();
    if missing > 0 {
        lines.push(format!("the recording lacks {missing} entries, because the disk was too slow"));
    }
    for entry in entries() {
        let Entry::Call(CallEntry { call, turn, arguments }) = entry else { continue };
        let subject = match call {
            CallKind::Prompt => "prompt",
            CallKind::Steer => "steered text",
            _ => continue,
        };
        if arguments.values().any(is_masked) {
            let turn = turn.unwrap_or_default();
            lines.push(format!(
                "the {subject} of turn {turn} contains `{MASK}`, with which a recording masks secrets; the agent gets it as it is"
            ));
        }
    }
    lines
}

/// Returns the working directory of the arguments.
pub(super) fn work_dir(arguments: &SessionArguments) -> PathBuf {
    let given = arguments.work_dir.clone().unwrap_or_else(|| PathBuf::from("."));
    std::path::absolute(&given).unwrap_or(given)
}

/// The spelling of options in recordings.
pub(super) const NAMING: Naming = Naming::Snake;
