//! The arguments of `run` and `verify` that become options of a session.

use std::num::ParseFloatError;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use kimi_agent_client::host::{Naming, parse_budget};
use kimi_agent_client::{Budget, Dialect, Enforce, Executable, Output, Place, SessionOptions};
use kimi_agent_policy::Policy;
use serde_json::{Map, Value};

use super::{Failure, spelling, words};

/// Options of the session.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Session")]
pub(crate) struct SessionArguments {
    /// The agent: a program, or a command line such as "node agent.js --acp".
    ///
    /// Repeat the option to give each word by itself. Default: $KIMI_AGENT_EXECUTABLE, then `kimi` on PATH.
    #[arg(short = 'x', long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) executable: Vec<String>,
    /// The directory that the agent works in. Default: the current directory.
    #[arg(short = 'C', long, value_name = "DIRECTORY")]
    pub(crate) work_dir: Option<PathBuf>,
    /// The model, by its name in the configuration of the agent.
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Whether the model thinks before it answers.
    #[arg(long, value_name = "BOOLEAN")]
    pub(crate) thinking: Option<bool>,
    /// The session to resume, or the ID of a new one.
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// Approves every action.
    #[arg(long)]
    pub(crate) yolo: bool,
    /// Runs the agent in a sandbox: it can write only in the working directory and its own directories, and cannot read ~/.ssh.
    #[arg(long)]
    pub(crate) sandbox: bool,
    /// Rules that decide about tool calls, as TOML or JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The calls that the policy must see: approvals or calls. With calls, an agent that runs others is refused.
    #[arg(long, value_name = "CALLS", value_parser = ["approvals", "calls"])]
    pub(crate) enforce: Option<String>,
    /// A limit of the session: tokens, output-tokens, steps, tool-calls, seconds or usd. Can be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) budget: Vec<String>,
    /// A JSON Schema. The answer becomes a JSON value of this schema.
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
    /// The largest number of steps in a turn.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) max_steps_per_turn: Option<u32>,
    /// The protocol: auto, acp, kimi-web, legacy, or a version of Wire. Default: auto.
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) dialect: Option<String>,
    /// An environment variable for the agent. Can be repeated.
    ///
    /// Other users of the machine can see arguments. Set keys in the environment of the command instead.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// How to log in when an agent of ACP asks for it: none, auto, or the id of a way. With auto, the key is in --env.
    #[arg(long, value_name = "WAY")]
    pub(crate) auth: Option<String>,
    /// A configuration file, for kimi-cli.
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// A file with MCP servers as JSON: {"mcpServers": {…}}. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// An agent specification, for kimi-cli.
    #[arg(long, value_name = "FILE")]
    pub(crate) agent_file: Option<PathBuf>,
    /// A directory with skills, for kimi-cli.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) skills_dir: Option<PathBuf>,
    /// A further argument for the agent, after all others. Can be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub(crate) extra_arg: Vec<String>,
    /// Records the session: a file, or a directory in which the session gets a file. Default: $KIMI_AGENT_RECORD.
    #[arg(long, value_name = "PATH")]
    pub(crate) record: Option<PathBuf>,
    /// A regular expression of secrets that the recording shows as ***. Can be repeated.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) redact: Vec<String>,
    /// The time for a turn, in seconds. Default: no limit.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: Option<Seconds>,
    /// The longest time in a turn without a message from the agent, in seconds. Default: no limit.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) idle_timeout: Option<Seconds>,
    /// The time for the agent to start and to open the session, in seconds. Default: 60.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) handshake_timeout: Option<Seconds>,
}

impl SessionArguments {
    /// Returns options of a session, without handlers.
    ///
    /// # Errors
    /// A value that is not what its option expects.
    pub(crate) fn options(&self) -> Result<SessionOptions, Failure> {
        self.apply(SessionOptions::new())
    }

    /// Sets what is given on top of these options.
    ///
    /// # Errors
    /// A value that is not what its option expects.
    pub(crate) fn apply(&self, options: SessionOptions) -> Result<SessionOptions, Failure> {
        let mut options = options.client_name("kimi-agent-command");
        if self.yolo {
            options = options.yolo(true);
        }
        if self.sandbox {
            options = options.place(Place::sandbox());
        }
        if let Some(executable) = self.executable()? {
            options = options.executable(executable);
        }
        options = given(options, self.work_dir.as_ref(), SessionOptions::work_dir);
        options = given(options, self.model.as_ref(), SessionOptions::model);
        options = given(options, self.session_id.as_ref(), SessionOptions::session_id);
        options = given(options, self.auth.as_ref(), SessionOptions::auth);
        options = given(options, self.config_file.as_ref(), SessionOptions::config_file);
        options = given(options, self.agent_file.as_ref(), SessionOptions::agent_file);
        options = given(options, self.skills_dir.as_ref(), SessionOptions::skills_dir);
        options = given(options, self.record.as_ref(), SessionOptions::record);
        if let Some(thinking) = self.thinking {
            options = options.thinking(thinking);
        }
        if let Some(limit) = self.max_steps_per_turn {
            options = options.max_steps_per_turn(limit);
        }
        if let Some(dialect) = &self.dialect {
            options = options.dialect(dialect.parse::<Dialect>()?);
        }
        if let Some(budget) = self.budget()? {
            options = options.session_budget(budget);
        }
        if let Some(path) = &self.policy {
            let policy =
                Policy::named_os(path).map_err(|error| Failure::wrong("--policy", crate::policy::reason(error)))?;
            options = options.policy(policy);
        }
        if self.enforce.as_deref() == Some("calls") {
            options = options.enforce(Enforce::Calls);
        }
        if let Some(path) = &self.output_schema {
            options = options.output(Output::new(json("--output-schema", path)?));
        }
        let servers = self.mcp_config.iter().map(|path| json("--mcp-config", path)).collect::<Result<Vec<_>, _>>()?;
        let options = options.mcp_configs(servers).env(self.env()?).extra_args(&self.extra_arg).redact(&self.redact);
        self.with_deadlines(options)
    }

    fn with_deadlines(&self, mut options: SessionOptions) -> Result<SessionOptions, Failure> {
        for (name, given, set) in [
            (
                "--timeout",
                &self.timeout,
                SessionOptions::turn_timeout as fn(SessionOptions, Duration) -> SessionOptions,
            ),
            ("--idle-timeout", &self.idle_timeout, SessionOptions::idle_timeout),
            ("--handshake-timeout", &self.handshake_timeout, SessionOptions::handshake_timeout),
        ] {
            if let Some(seconds) = given {
                options = set(options, duration(name, seconds)?);
            }
        }
        Ok(options)
    }

    /// Returns the agent that is set.
    pub(crate) fn executable(&self) -> Result<Option<Executable>, Failure> {
        match &*self.executable {
            [] => Ok(None),
            [line] => executable_of(line).map(Some),
            words => Ok(Some(words.to_vec().into())),
        }
    }

    fn budget(&self) -> Result<Option<Budget>, Failure> {
        budget("--budget", &self.budget)
    }

    fn env(&self) -> Result<Vec<(&str, &str)>, Failure> {
        self.env.iter().map(|variable| pair("--env", variable)).collect()
    }
}

/// Returns the agent of one text: the path of a file that exists, or a command line.
pub(crate) fn executable_of(line: &str) -> Result<Executable, Failure> {
    if Path::new(line).is_file() {
        return Ok(line.into());
    }
    let words = words::split(line).map_err(|problem| Failure::wrong("--executable", problem))?;
    Ok(words.into())
}

/// A number of seconds, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Seconds {
    text: String,
    number: f64,
}

impl FromStr for Seconds {
    type Err = ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { text: text.to_owned(), number: text.parse()? })
    }
}

/// Returns a duration in seconds.
pub(crate) fn duration(name: &str, seconds: &Seconds) -> Result<Duration, Failure> {
    let Seconds { text, number } = seconds;
    let limit = Duration::try_from_secs_f64(*number).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| {
        let expected = if *number > 0.0 { "a smaller number of seconds" } else { "a number of seconds above 0" };
        Failure::wrong(name, format!("expected {expected}, got {text}"))
    })
}

/// Reads a file of JSON.
fn json(name: &str, path: &Path) -> Result<Value, Failure> {
    let failed = |problem: String| Failure::wrong(name, format!("{}: {problem}", path.display()));
    let text = kimi_agent_files::read_file(path).map_err(|error| failed(format!("it cannot be read: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| failed(format!("it is not JSON: {error}")))
}

/// Reads the limits of a budget.
pub(crate) fn budget(argument: &str, given: &[String]) -> Result<Option<Budget>, Failure> {
    let mut limits = Map::new();
    for limit in given {
        let (name, value) = pair(argument, limit)?;
        let value: Value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        limits.insert(name.replace('-', "_"), value);
    }
    if limits.is_empty() {
        return Ok(None);
    }
    parse_budget(limits, Naming::Snake)
        .map(Some)
        .map_err(|problem| Failure::wrong(argument, spelling::limits(&problem)))
}

fn pair<'a>(name: &str, text: &'a str) -> Result<(&'a str, &'a str), Failure> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.ok_or_else(|| Failure::wrong(name, format!("expected NAME=VALUE, got {text:?}")))
}

fn given<V: Clone>(
    options: SessionOptions,
    value: Option<&V>,
    set: fn(SessionOptions, V) -> SessionOptions,
) -> SessionOptions {
    match value {
        Some(value) => set(options, value.clone()),
        None => options,
    }
}
