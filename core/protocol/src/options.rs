//! The declaration of every option: name, type, default, flag, documentation. The bindings' types, the tables in
//! docs/options.md and the reading and checking of values come from it.

use std::time::Duration;

use serde::Serialize;

use crate::dialect::Release;
use crate::naming::Naming;

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
/// The largest value of an option of the kind [`Kind::Duration`]: ten years. Larger ones could overflow a point in time.
pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The type of an option's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Text that is not empty.
    Text,
    /// The path of a directory that exists.
    Directory,
    /// The path of a file that exists.
    File,
    /// True or false.
    Boolean,
    /// A whole number from 1 on.
    Count,
    /// A number of bytes, at least [`SMALLEST_BUFFER`].
    Bytes,
    /// Longer than zero, at most [`LONGEST`]. Its unit is that of the language, [`Naming::unit`].
    Duration,
    /// A JSON object.
    Object,
    /// A list of JSON objects.
    Objects,
    /// A list of text.
    Texts,
    /// Names and values of environment variables.
    Environment,
    /// The agent's program.
    Executable,
    /// A protocol.
    Dialect,
    /// A list of tools.
    Tools,
    /// A list of hooks.
    Hooks,
    /// A function that answers approval requests, or "manual".
    ApprovalHandler,
    /// A function that answers questions, or "manual".
    QuestionHandler,
    /// A function that gets events.
    EventHandler,
    /// A function that gets lines of stderr.
    StderrHandler,
}

impl Kind {
    /// Returns the description of the expected values, for errors.
    pub fn expected(self, naming: Naming) -> String {
        match self {
            Self::Text | Self::Dialect => "text",
            Self::Directory | Self::File => "a path",
            Self::Boolean => "a boolean",
            Self::Count => "a whole number from 1 on",
            Self::Bytes => "a whole number of bytes",
            Self::Duration => return format!("a number of {}", naming.unit().0),
            Self::Object => "an object",
            Self::Objects => "a list of objects",
            Self::Texts => "a list of text",
            Self::Environment => "an object of text",
            Self::Executable => "a path, or a list of a path and arguments",
            Self::Tools => "a list of tools",
            Self::Hooks => "a list of hooks",
            Self::ApprovalHandler | Self::QuestionHandler => "a function or \"manual\"",
            Self::EventHandler | Self::StderrHandler => "a function",
        }
        .to_owned()
    }
}

/// The value of an option that is not set, for the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// A description.
    Words(&'static str),
    /// A text.
    Text(&'static str),
    /// False.
    False,
    /// A duration.
    Duration(Duration),
    /// A number of bytes.
    Bytes(usize),
}

/// The function that takes an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// `create_session()`.
    Session,
    /// `open_agent()`. A session that has its agent for itself takes the option as well.
    Agent,
    /// `create_session()` and `open_agent()`, each for itself.
    Both,
    /// `session.prompt()`.
    Prompt,
}

/// The section of docs/options.md that an option is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Where the agent works, and what it may do.
    Session,
    /// The agent's program and its configuration.
    Program,
    /// The program's functions.
    Handlers,
    /// Deadlines and limits.
    Limits,
    /// Options of one prompt.
    Prompt,
}

/// The declaration of an option.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OptionInfo {
    /// The name in snake case.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The function that takes it.
    pub scope: Scope,
    /// The section of docs/options.md.
    pub section: Section,
    /// The value if it is not set.
    pub default: Fallback,
    /// The documentation, without unit and default. Names of other options and of methods stand in backticks.
    pub doc: &'static str,
    /// The documentation for `open_agent()`, if it is another.
    pub doc_for_agent: Option<&'static str>,
    /// The flag of kimi-cli.
    pub flag: Option<&'static str>,
    /// The release of kimi-cli that brought the flag, if Wire is older.
    #[serde(skip)]
    pub since: Option<Release>,
    /// Whether an agent that speaks ACP can be given it.
    pub over_acp: bool,
    /// Names that other SDKs and people have for it.
    #[serde(skip)]
    pub aliases: &'static [&'static str],
}

impl OptionInfo {
    const fn new(section: Section, name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> Self {
        let scope = match section {
            Section::Prompt => Scope::Prompt,
            _ => Scope::Session,
        };
        let (doc_for_agent, flag, since, over_acp, aliases) = (None, None, None, true, &[] as &[&str]);
        Self { name, kind, scope, section, default, doc, doc_for_agent, flag, since, over_acp, aliases }
    }

    const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    /// The flag came with this release of kimi-cli.
    const fn since(mut self, major: u32, minor: u32) -> Self {
        self.since = Some(Release::new(major, minor));
        self
    }

    const fn not_over_acp(mut self) -> Self {
        self.over_acp = false;
        self
    }

    const fn of_agent(mut self) -> Self {
        self.scope = Scope::Agent;
        self
    }

    const fn of_both(mut self, doc_for_agent: &'static str) -> Self {
        self.scope = Scope::Both;
        self.doc_for_agent = Some(doc_for_agent);
        self
    }

    const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }
}

const fn session(name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> OptionInfo {
    OptionInfo::new(Section::Session, name, kind, default, doc)
}

const fn program(name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> OptionInfo {
    OptionInfo::new(Section::Program, name, kind, default, doc)
}

const fn handler(name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> OptionInfo {
    OptionInfo::new(Section::Handlers, name, kind, default, doc)
}

const fn limit(name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> OptionInfo {
    OptionInfo::new(Section::Limits, name, kind, default, doc)
}

/// Every option of a session and of an agent, in the order of kimi-cli's arguments. The first one that is wrong is reported.
pub const OPTIONS: &[OptionInfo] = &[
    session(
        "work_dir",
        Kind::Directory,
        Fallback::Words("the current directory"),
        "The directory that the agent works in.",
    )
    .flag("--work-dir")
    .aliases(&["cwd", "directory", "root", "workspace"]),
    session(
        "session_id",
        Kind::Text,
        Fallback::Words("a new session with a random id"),
        "The id of the session to resume, or the id of a new one: at most 128 letters, digits, `.`, `_` and `-`.",
    )
    .flag("--session")
    .since(0, 64)
    .aliases(&["resume", "session"]),
    session(
        "model",
        Kind::Text,
        Fallback::Words("the default model of the configuration"),
        "The model, by its name in the agent's configuration.",
    )
    .flag("--model"),
    session(
        "thinking",
        Kind::Boolean,
        Fallback::Words("as the agent is configured"),
        "Whether the model thinks before it answers. kimi-cli can turn thinking off since 0.67.",
    )
    .flag("--thinking"),
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
        "The path of a configuration file: JSON if its name ends with `.json`, otherwise TOML. Not together with `config`.",
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
    .aliases(&["cli_path", "command", "kimi_path", "path"]),
    program(
        "env",
        Kind::Environment,
        Fallback::Words("none"),
        "Environment variables for the agent, in addition to those of this process. The agent's program is also looked for on a \
         `PATH` that is set here.",
    )
    .of_agent()
    .aliases(&["environment"]),
    program(
        "mcp_configs",
        Kind::Objects,
        Fallback::Words("the user's own"),
        "Configurations of MCP servers, each of the form `{\"mcpServers\": {…}}`. They may hold keys, so the agent reads them from \
         private files.",
    )
    .flag("--mcp-config-file")
    .aliases(&["mcp_servers"]),
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
    handler("tools", Kind::Tools, Fallback::Words("none"), "Tools of this program that the model can call."),
    session(
        "max_steps_per_turn",
        Kind::Count,
        Fallback::Words("as the agent is configured"),
        "The largest number of steps in a turn, at least 1.",
    )
    .flag("--max-steps-per-turn")
    .since(0, 73)
    .not_over_acp()
    .aliases(&["max_steps", "max_turns"]),
    session(
        "max_retries_per_step",
        Kind::Count,
        Fallback::Words("as the agent is configured"),
        "The largest number of requests to the model's service in a step, at least 1. The first request counts, so 1 means no \
         retry.",
    )
    .flag("--max-retries-per-step")
    .since(0, 73)
    .not_over_acp(),
    handler(
        "on_approval",
        Kind::ApprovalHandler,
        Fallback::Words("with `yolo` every request is approved, otherwise every request is rejected"),
        "Answers approval requests. With `\"manual\"` the reader of the events answers them with `respond()`. It has no deadline.",
    )
    .aliases(&["can_use_tool"]),
    handler(
        "on_question",
        Kind::QuestionHandler,
        Fallback::Words("the agent cannot ask questions"),
        "Answers the agent's questions. With `\"manual\"` the reader of the events answers them with `respond()`. It has no \
         deadline.",
    ),
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
         turn that is running is cancelled within the same time.",
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
        "max_line_bytes",
        Kind::Bytes,
        Fallback::Bytes(MAX_LINE_BYTES),
        "The longest line that the agent may send. A longer one ends the session with `ProtocolError`.",
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
];

/// Returns the option of this name, which is spelled as the caller spells names.
pub fn find(options: &'static [OptionInfo], given: &str, naming: Naming) -> Option<&'static OptionInfo> {
    options.iter().find(|option| naming.name(option.name) == given)
}

/// The declarations of all options as JSON, for the generators. Texts and names are given in both spellings.
pub fn catalog() -> serde_json::Value {
    let spelled = |option: &OptionInfo| {
        let mut value = serde_json::to_value(option).unwrap_or_default();
        value["node_name"] = Naming::Camel.name(option.name).into();
        for key in ["doc", "doc_for_agent"] {
            if let Some(text) = value[key].as_str() {
                value[&format!("node_{key}")] = Naming::Camel.spell(text).into();
            }
        }
        if let Fallback::Words(words) = option.default {
            value["node_default"] = Naming::Camel.spell(words).into();
        }
        value
    };
    let all = OPTIONS.iter().chain(PROMPT_OPTIONS).map(spelled).collect::<Vec<_>>();
    serde_json::json!({"options": all, "smallest_buffer": SMALLEST_BUFFER})
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
