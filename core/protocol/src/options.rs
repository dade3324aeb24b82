//! The declaration of every option: name, type, default, flag, documentation. The bindings' types, the tables in
//! docs/reference/options.md and the reading and checking of values come from it.

use std::time::Duration;

pub use self::declaration::{Fallback, Kind, OptionInfo, Scope, Section};
use self::declaration::{handler, limit, program, session};
use crate::naming::Naming;

mod declaration;

/// The default of `handshake_timeout`.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// The default of `cancel_timeout`.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);
/// The default of `close_timeout`.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The default of `max_line_bytes`.
pub const MAX_LINE_BYTES: usize = 256 << 20;
/// The default of `event_buffer_bytes`.
pub const EVENT_BUFFER_BYTES: usize = 256 << 10;
/// The smallest value of an option of the kind [`Kind::Bytes`].
pub const SMALLEST_BUFFER: usize = 1 << 10;
/// The largest value of an option of the kind [`Kind::Duration`]: ten years. A larger one could overflow a point in
/// time.
pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Every option of a session and of an agent, in the order of kimi-cli's arguments. Checks report the first wrong
/// option in this order.
pub const OPTIONS: &[OptionInfo] = &[
    session(
        "work_dir",
        Kind::Directory,
        Fallback::Words("the current directory"),
        "The directory that the agent works in.",
    )
    .flag("--work-dir")
    .aliases(&["cwd", "directory", "root", "working_dir", "working_directory", "workspace"]),
    session(
        "session_id",
        Kind::Text,
        Fallback::Words("a new session with a random id"),
        "The id of the session to resume, or the id of a new one: at most 128 letters, digits, `.`, `_` and `-`.",
    )
    .flag("--session")
    .since(0, 64)
    .aliases(&["continue", "continue_conversation", "conversation_id", "resume", "session", "thread_id"]),
    session(
        "model",
        Kind::Text,
        Fallback::Words("the default model of the configuration"),
        "The model, by its name in the agent's configuration.",
    )
    .flag("--model")
    .aliases(&["model_id", "model_name"]),
    session(
        "thinking",
        Kind::Boolean,
        Fallback::Words("as the agent is configured"),
        "Whether the model thinks before it answers. kimi-cli can turn thinking off since 0.67.",
    )
    .flag("--thinking")
    .aliases(&["reasoning"]),
    session(
        "yolo",
        Kind::Boolean,
        Fallback::False,
        "Whether the agent acts without asking for approval.",
    )
    .flag("--yolo")
    .aliases(&["allow_all", "auto_approve"]),
    program(
        "config_file",
        Kind::File,
        Fallback::Words("the user's own file"),
        "The path of a configuration file: JSON if its name ends with `.json`, else TOML. Not together with `config`.",
    )
    .flag("--config-file")
    .since(0, 68)
    .not_over_acp(),
    program(
        "config",
        Kind::Object,
        Fallback::Words("the user's own file"),
        "The agent's configuration itself. It may hold keys, so the agent reads it from a private file. Not together with \
         `config_file`.",
    )
    .flag("--config-file")
    .since(0, 68)
    .not_over_acp()
    .aliases(&["settings"]),
    program(
        "executable",
        Kind::Executable,
        Fallback::Words(
            "`$KIMI_AGENT_EXECUTABLE` (a path, or a JSON list such as `[\"python3\", \"-m\", \"kimi_cli\"]`), then `kimi` on \
             PATH",
        ),
        "The agent: the path or name of a program, or a list of it and its first arguments.",
    )
    .of_agent()
    .aliases(&["cli_path", "codex_path", "command", "kimi_path", "path", "path_to_claude_code_executable", "program"]),
    program(
        "env",
        Kind::Environment,
        Fallback::Words("none"),
        "Environment variables for the agent, in addition to those that it inherits. Null removes an inherited variable. The agent's \
         program is also looked for on a `PATH` that is set here.",
    )
    .of_agent()
    .aliases(&["api_key", "environment"]),
    program(
        "inherit_env",
        Kind::InheritEnv,
        Fallback::True,
        "The variables of this process that the agent inherits: all (true), only those that a process needs (false), or these and \
         those of a list. In its names, `*` stands for any characters. A process needs `PATH`, `HOME`, `TMPDIR`, the locale and the time \
         zone, and on Windows those of the system.",
    )
    .of_agent(),
    program(
        "auth",
        Kind::Text,
        Fallback::Text("none"),
        "The login that an agent of ACP gets if it requires one: `none`, `auto`, or the ID of a login method of the agent. `auto` selects \
         the method whose key is in `env`, for example `CODEX_API_KEY`. `kimi-agent login` runs methods that need a terminal. Agents \
         without ACP raise `Unsupported`.",
    )
    .of_agent()
    .aliases(&["auth_method", "authenticate", "authentication", "login"]),
    program(
        "place",
        Kind::Place,
        Fallback::Words("this machine, as a child of this program"),
        "The place in which the agent runs, for example a sandbox, a container, or another machine. Paths in options and events are \
         always those of this program. Not over Kimi Code's server.",
    )
    .of_agent()
    .aliases(&["container", "remote", "sandbox", "ssh"]),
    program(
        "mcp_configs",
        Kind::Objects,
        Fallback::Words("the user's own"),
        "Configurations of MCP servers, each of the form `{\"mcpServers\": {…}}`. They may hold keys, so the agent reads them from \
         private files.",
    )
    .flag("--mcp-config-file")
    .aliases(&["mcp", "mcp_servers"]),
    program(
        "agent_file",
        Kind::File,
        Fallback::Words("the agent's default one"),
        "The path of an agent specification: its prompt and its tools.",
    )
    .flag("--agent-file")
    .not_over_acp(),
    program(
        "skills_dir",
        Kind::Directory,
        Fallback::Words("the agent's own directories"),
        "The path of a directory with skills.",
    )
    .flag("--skills-dir")
    .since(0, 69)
    .not_over_acp()
    .aliases(&["skills"]),
    session(
        "system_prompt",
        Kind::SystemPrompt,
        Fallback::Words("the agent's own"),
        "Text that follows the agent's own system prompt; with the mode `override`, text that replaces it. Only over ACP, for example \
         with Claude Code. Other agents raise `Unsupported`.",
    )
    .aliases(&["append_system_prompt", "custom_system_prompt", "instructions", "system"]),
    session(
        "additional_directories",
        Kind::Directories,
        Fallback::Words("none"),
        "Further directories that the agent works in. Only over ACP, for example with Claude Code and Kimi Code. Other agents raise \
         `Unsupported`.",
    )
    .aliases(&["add_dirs", "additional_dirs", "roots"]),
    session(
        "agent_meta",
        Kind::Object,
        Fallback::Words("none"),
        "Members of `_meta` in the request that opens the session, for options that only one agent knows. Only over ACP.",
    )
    .aliases(&["meta"]),
    handler("tools", Kind::Tools, Fallback::Words("none"), "Tools of this program that the model can call."),
    session(
        "max_steps_per_turn",
        Kind::Count,
        Fallback::Words("as the agent is configured"),
        "The largest number of steps in a turn, at least 1. Over ACP only Kimi Code takes it, for a session with a process of its own.",
    )
    .flag("--max-steps-per-turn")
    .since(0, 73)
    .aliases(&["max_steps", "max_turns"]),
    session(
        "max_retries_per_step",
        Kind::Count,
        Fallback::Words("as the agent is configured"),
        "The largest number of requests to the model's service in a step, at least 1. The first request counts, so 1 means no \
         retry.",
    )
    .flag("--max-retries-per-step")
    .since(0, 73),
    handler(
        "policy",
        Kind::Policy,
        Fallback::Words("none"),
        "Rules that decide about approval requests before `on_approval`. If the agent has hooks, rules that deny, and a default \
         that denies, also see calls that need no approval.",
    )
    .aliases(&[
        "allowed_tools",
        "approval_mode",
        "approval_policy",
        "disallowed_tools",
        "permission_mode",
        "permission_rules",
        "permissions",
        "rules",
        "sandbox_mode",
    ]),
    handler(
        "enforce",
        Kind::Enforce,
        Fallback::Text("approvals"),
        "The calls that `policy` must see. With `\"calls\"`, a session fails to open with `Unsupported` if the agent runs calls that \
         the policy cannot see first. With `\"approvals\"`, the log has one warning about such an agent.",
    ),
    handler(
        "on_approval",
        Kind::ApprovalHandler,
        Fallback::Words("with `yolo` every request is approved, else every request is rejected"),
        "Answers approval requests. With `\"manual\"` the reader of the events answers them with `respond()`. It has no deadline.",
    )
    .aliases(&["approve", "can_use_tool", "on_permission"]),
    handler(
        "on_question",
        Kind::QuestionHandler,
        Fallback::Words("the agent cannot ask questions"),
        "Answers the agent's questions. With `\"manual\"` the reader of the events answers them with `respond()`. It has no \
         deadline.",
    ),
    handler(
        "on_read_file",
        Kind::ReadFileHandler,
        Fallback::Words("the agent reads files itself"),
        "Reads a file for the agent. Only over ACP, and only some agents use it. Sessions of an agent share a process if they set \
         the same handlers of files and terminals.",
    )
    .aliases(&["read_text_file"]),
    handler(
        "on_write_file",
        Kind::WriteFileHandler,
        Fallback::Words("the agent writes files itself"),
        "Writes a file for the agent. Only over ACP, and only some agents use it.",
    )
    .aliases(&["write_text_file"]),
    handler(
        "on_terminal",
        Kind::TerminalHandler,
        Fallback::Words("the agent runs commands itself"),
        "Runs a command for the agent. Only over ACP, and only some agents use it.",
    )
    .aliases(&["terminal"]),
    handler(
        "hooks",
        Kind::Hooks,
        Fallback::Words("none"),
        "Functions that the agent calls before or after an action, such as a tool call.",
    )
    .not_over_acp(),
    handler(
        "on_event",
        Kind::EventHandler,
        Fallback::Words("they are dropped"),
        "Gets the events outside of turns, one after the other.",
    ),
    handler(
        "on_stderr",
        Kind::StderrHandler,
        Fallback::Words("the last lines are kept for errors"),
        "Gets the lines that the agent writes to stderr, in order. If it fails, the failure is logged.",
    )
    .of_agent()
    .aliases(&["stderr"]),
    program(
        "client_name",
        Kind::Text,
        Fallback::Text("kimi-agent"),
        "The name of this program, for the agent.",
    )
    .of_agent(),
    program(
        "client_version",
        Kind::Text,
        Fallback::Words("the version of this package"),
        "The version of this program, for the agent.",
    )
    .of_agent(),
    program(
        "extra_args",
        Kind::Texts,
        Fallback::Words("none"),
        "Further arguments for the agent, after all others.",
    )
    .of_agent()
    .aliases(&["args"]),
    program(
        "read_session_files",
        Kind::Boolean,
        Fallback::True,
        "Whether the SDK reads the session's files, in which Kimi Code writes the tokens, the steps and the failure of a turn. \
         ACP does not report these. The end of a turn waits up to a second for them. Other agents have no such files.",
    ),
    program(
        "dialect",
        Kind::Dialect,
        Fallback::Text("auto"),
        "The protocol to speak. `\"auto\"` finds out what the agent speaks.",
    )
    .of_agent()
    .aliases(&["protocol"]),
    limit(
        "handshake_timeout",
        Kind::Duration,
        Fallback::Duration(HANDSHAKE_TIMEOUT),
        "The time for the agent to start and to open the session, and later to answer `steer()` and `set_plan_mode()`. Also the \
         longest silence in a `replay()`.",
    )
    .of_both("The time for the agent to start and to list its sessions. Sessions have their own.")
    .aliases(&["start_timeout"]),
    limit(
        "cancel_timeout",
        Kind::Duration,
        Fallback::Duration(CANCEL_TIMEOUT),
        "The time for a cancelled turn to end, before the SDK ends it.",
    ),
    limit(
        "close_timeout",
        Kind::Duration,
        Fallback::Duration(CLOSE_TIMEOUT),
        "The time for the agent to exit when the session closes. Then the agent gets SIGTERM, and SIGKILL two seconds later. A \
         turn that is running is cancelled within the same time. 0 kills the agent at once.",
    )
    .of_both("The time for a process that sessions share to exit, before it gets SIGTERM. Sessions have their own."),
    limit(
        "idle_timeout",
        Kind::Duration,
        Fallback::Words("no limit"),
        "The longest time in a turn without a message from the agent. Time in which the agent waits for this program does not \
         count.",
    ),
    limit("turn_timeout", Kind::Duration, Fallback::Words("no limit"), "The time for a whole turn.")
        .aliases(&["deadline", "timeout"]),
    limit(
        "session_budget",
        Kind::Budget,
        Fallback::Words("no limit"),
        "The most that all turns of the session may use together: `tokens`, `output_tokens`, `steps`, `tool_calls`, `seconds`, `usd`. The turn \
         that exceeds it is cancelled. That turn and every later prompt fail with `BudgetExceeded`.",
    )
    .aliases(&["budget", "max_budget", "max_budget_usd", "max_tokens"]),
    limit(
        "prices",
        Kind::Prices,
        Fallback::Words("none"),
        "The prices of models in US dollars for a million tokens, by the names that the agent has for its models. A price has `input` and \
         `output`, and if they differ from `input`, `cache_read` and `cache_write`. `*` is any other model. With agents that report tokens and no costs, \
         `result.cost` and the limit `usd` of budgets use them. The path of a TOML file has a table for each model.",
    )
    .aliases(&["costs", "model_prices", "pricing"]),
    session(
        "output",
        Kind::Output,
        Fallback::Words("none: a turn returns text"),
        "The value that each turn must return, by its type or JSON Schema. The model returns it with a tool of the SDK if the agent takes \
         tools, else in its text. An invalid value is returned to the model `retries` times; then the turn fails with \
         `OutputInvalid`.",
    )
    .aliases(&["output_format", "output_schema", "output_type", "response_format"]),
    session(
        "telemetry",
        Kind::Telemetry,
        Fallback::False,
        "Makes spans and metrics of OpenTelemetry for each turn, its steps and its tool calls. Handlers run in these spans, and the agent \
         gets the context of the trace. Prompts, answers, arguments and results are left out, unless the program asks for them.",
    )
    .aliases(&["observability", "opentelemetry", "otel", "tracing"]),
    program(
        "record",
        Kind::Recording,
        Fallback::Words("`$KIMI_AGENT_RECORD`, else no recording"),
        "The file into which each message, decision and call of the session is written. Secrets that the SDK knows are replaced. An \
         existing file is replaced when the session has opened. If this program writes to the file already, the recording gets the name `NAME-2`. Later sessions of an agent, and those of \
         the environment variable, get such names, too. In a directory, which exists or whose path ends with a slash, each session gets a file of its own.",
    )
    .of_agent()
    .aliases(&["cassette", "log_file", "recording", "trace"]),
    program(
        "redact",
        Kind::Patterns,
        Fallback::Words("only what the SDK knows as secret"),
        "Regular expressions of further secrets, which a recording shows as `***`. They match in each text of a message; look-around \
         is not supported.",
    )
    .of_agent()
    .aliases(&["mask", "scrub"]),
    limit(
        "max_line_bytes",
        Kind::Bytes,
        Fallback::Bytes(MAX_LINE_BYTES),
        "The longest line that the agent may send. A longer one ends the session with `ProtocolError`, and so does a line with more than \
         1,048,576 JSON values.",
    ),
    limit(
        "event_buffer_bytes",
        Kind::Bytes,
        Fallback::Bytes(EVENT_BUFFER_BYTES),
        "The size of the unread events of a turn from which on the agent has to wait.",
    ),
];

/// Every option of a prompt.
pub const PROMPT_OPTIONS: &[OptionInfo] = &[
    OptionInfo::new(
        Section::Prompt,
        "timeout",
        Kind::Duration,
        Fallback::Words("the session's `turn_timeout`"),
        "The time for the whole turn. The start of the agent does not count.",
    ),
    OptionInfo::new(
        Section::Prompt,
        "idle_timeout",
        Kind::Duration,
        Fallback::Words("the session's `idle_timeout`"),
        "The longest time without a message from the agent. Time in which the agent waits for this program does not count.",
    ),
    OptionInfo::new(
        Section::Prompt,
        "budget",
        Kind::Budget,
        Fallback::Words("no limit"),
        "The most that the turn may use: `tokens`, `output_tokens`, `steps`, `tool_calls`, `seconds`, `usd`. A turn that exceeds it is \
         cancelled and fails with `BudgetExceeded`.",
    )
    .aliases(&["session_budget"]),
    OptionInfo::new(
        Section::Prompt,
        "output",
        Kind::Output,
        Fallback::Words("the session's `output`"),
        "The value that the turn must return, by its type or JSON Schema. In an open session the model returns it in its text; only \
         the `output` of the session is a tool.",
    ),
];

/// Returns the names of the options of a session that are paths of files or directories.
pub fn path_options() -> impl Iterator<Item = &'static str> {
    let is_path = |option: &&OptionInfo| matches!(option.kind, Kind::Directory | Kind::File | Kind::Recording);
    OPTIONS.iter().filter(is_path).map(|option| option.name)
}

/// Returns the option with this name, in the caller's spelling.
pub fn find(options: &'static [OptionInfo], given: &str, naming: Naming) -> Option<&'static OptionInfo> {
    options.iter().find(|option| naming.name(option.name) == given)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_aliases_are_unique() {
        let words = OPTIONS.iter().flat_map(|option| option.aliases.iter().chain([&option.name]));
        let words: Vec<_> = words.collect();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
    }

    #[test]
    fn documentation_is_sentences_without_default() {
        for option in OPTIONS.iter().chain(PROMPT_OPTIONS) {
            assert!(option.doc.ends_with('.') && !option.doc.contains("Default"), "{}", option.name);
        }
    }
}
