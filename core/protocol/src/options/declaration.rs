//! The form of a declaration: the type of an option, its default, and where it is described.

use std::time::Duration;

use serde::Serialize;

use crate::dialect::Release;
use crate::naming::Naming;

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
    /// The path of a file to write, or of a directory.
    Recording,
    /// A boolean.
    Boolean,
    /// A whole number from 1 on.
    Count,
    /// A number of bytes, at least [`SMALLEST_BUFFER`](super::SMALLEST_BUFFER).
    Bytes,
    /// Longer than zero, at most [`LONGEST`](super::LONGEST). Its unit is that of the language, [`Naming::unit`].
    Duration,
    /// Limits on tokens, steps, tool calls, seconds and costs.
    Budget,
    /// Prices of models, or the path of a file with prices.
    Prices,
    /// A JSON Schema, with a name, a description, a mode and a number of retries.
    Output,
    /// A boolean, or providers of OpenTelemetry.
    Telemetry,
    /// A JSON object.
    Object,
    /// A list of JSON objects.
    Objects,
    /// A list of text.
    Texts,
    /// A list of paths of directories that exist.
    Directories,
    /// Text, or an object with `content` and `mode`.
    SystemPrompt,
    /// A list of regular expressions.
    Patterns,
    /// Names and values of environment variables.
    Environment,
    /// Whether variables are inherited, or names of them.
    InheritEnv,
    /// The agent's program.
    Executable,
    /// Where the agent runs.
    Place,
    /// A protocol.
    Dialect,
    /// A list of tools.
    Tools,
    /// A list of hooks.
    Hooks,
    /// The rules of a policy, a `Policy`, or the path of a file with rules.
    Policy,
    /// The calls that a policy must see.
    Enforce,
    /// A function that answers approval requests, or "manual".
    ApprovalHandler,
    /// A function that answers questions, or "manual".
    QuestionHandler,
    /// A function that gets events.
    EventHandler,
    /// A function that gets lines of stderr.
    StderrHandler,
    /// A function that reads a file.
    ReadFileHandler,
    /// A function that writes a file.
    WriteFileHandler,
    /// A function that runs a command.
    TerminalHandler,
}

impl Kind {
    /// Returns the description of the expected values, for errors.
    pub fn expected(self, naming: Naming) -> String {
        match self {
            Self::Text | Self::Dialect => "text",
            Self::Directory | Self::File | Self::Recording => "a path",
            Self::Boolean => "a boolean",
            Self::Count => "a whole number from 1 on",
            Self::Bytes => "a whole number of bytes",
            Self::Duration => return format!("a number of {}", naming.unit().0),
            Self::Budget => "an object of limits",
            Self::Prices => "an object of prices by model, or the path of a file",
            Self::Output => "an object with a `schema`",
            Self::Telemetry => "a boolean or an object",
            Self::Object => "an object",
            Self::Objects => "a list of objects",
            Self::Texts | Self::Patterns => "a list of text",
            Self::Directories => "a list of paths",
            Self::SystemPrompt => "text, or an object with `content` and `mode`",
            Self::Environment => "an object of text or null",
            Self::InheritEnv => "a boolean or a list of text",
            Self::Executable => "a path, or a list of a path and arguments",
            Self::Place => match naming {
                Naming::Snake => "a place, for example `Sandbox(…)` or `Prefix(…)`",
                Naming::Camel => "a place, for example `sandbox(…)` or `prefix(…)`",
            },
            Self::Tools => "a list of tools",
            Self::Hooks => "a list of hooks",
            Self::Policy => "an object with rules, a `Policy`, or the path of a file with rules",
            Self::Enforce => "\"approvals\" or \"calls\"",
            Self::ApprovalHandler | Self::QuestionHandler => "a function or \"manual\"",
            Self::EventHandler
            | Self::StderrHandler
            | Self::ReadFileHandler
            | Self::WriteFileHandler
            | Self::TerminalHandler => "a function",
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
    /// True.
    True,
    /// A duration.
    Duration(Duration),
    /// A number of bytes.
    Bytes(usize),
}

/// The functions that accept an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// `create_session()` only.
    Session,
    /// `open_agent()`. A session with an agent of its own accepts the option, too.
    Agent,
    /// `create_session()` and `open_agent()`. Each has a value of its own.
    Both,
    /// `session.prompt()` only.
    Prompt,
}

/// The section of docs/reference/options.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// The working directory and the permissions of the agent.
    Session,
    /// The agent's program and its configuration.
    Program,
    /// The handlers of the program.
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
    /// The functions that accept it.
    pub scope: Scope,
    /// The section of docs/reference/options.md.
    pub section: Section,
    /// The default.
    pub default: Fallback,
    /// The documentation, without unit and default. Names of other options and of methods are in backticks.
    pub doc: &'static str,
    /// The documentation for `open_agent()`, if it differs.
    pub doc_for_agent: Option<&'static str>,
    /// The flag of kimi-cli.
    pub flag: Option<&'static str>,
    /// The release of kimi-cli that added the flag, if it is later than Wire.
    #[serde(skip)]
    pub since: Option<Release>,
    /// Whether agents that speak ACP support it.
    pub over_acp: bool,
    /// Its names in other SDKs, and names that people guess.
    #[serde(skip)]
    pub aliases: &'static [&'static str],
}

impl OptionInfo {
    pub(super) const fn new(
        section: Section,
        name: &'static str,
        kind: Kind,
        default: Fallback,
        doc: &'static str,
    ) -> Self {
        let scope = match section {
            Section::Prompt => Scope::Prompt,
            _ => Scope::Session,
        };
        let (doc_for_agent, flag, since, over_acp, aliases) = (None, None, None, true, &[] as &[&str]);
        Self { name, kind, scope, section, default, doc, doc_for_agent, flag, since, over_acp, aliases }
    }

    pub(super) const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    /// Sets the release of kimi-cli that added the flag.
    pub(super) const fn since(mut self, major: u32, minor: u32) -> Self {
        self.since = Some(Release::new(major, minor));
        self
    }

    pub(super) const fn not_over_acp(mut self) -> Self {
        self.over_acp = false;
        self
    }

    pub(super) const fn of_agent(mut self) -> Self {
        self.scope = Scope::Agent;
        self
    }

    pub(super) const fn of_both(mut self, doc_for_agent: &'static str) -> Self {
        self.scope = Scope::Both;
        self.doc_for_agent = Some(doc_for_agent);
        self
    }

    pub(super) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }
}

pub(super) const fn session(name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> OptionInfo {
    OptionInfo::new(Section::Session, name, kind, default, doc)
}

pub(super) const fn program(name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> OptionInfo {
    OptionInfo::new(Section::Program, name, kind, default, doc)
}

pub(super) const fn handler(name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> OptionInfo {
    OptionInfo::new(Section::Handlers, name, kind, default, doc)
}

pub(super) const fn limit(name: &'static str, kind: Kind, default: Fallback, doc: &'static str) -> OptionInfo {
    OptionInfo::new(Section::Limits, name, kind, default, doc)
}
