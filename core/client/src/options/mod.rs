//! The options of a session.

mod acp;
mod agent;
mod argv;
mod behaviour;
mod check;
mod content;
mod content_json;
mod dialect;
mod environment;
mod executable;
mod file_url;
mod json;
mod kimi_code;
mod mcp;
mod pattern;
mod place;
mod prompt;
mod setting;
mod spec;
mod value;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kimi_agent_protocol::options as declared;
use kimi_agent_protocol::place::PathMap;
use serde_json::Value;

use crate::dialect::SystemPrompt;
use crate::handler::{ApprovalHandler, EventHandler, QuestionHandler, Responder, ServiceHandlers, StderrHandler};
use crate::recording::{RecordingFile, Replayed, Used};
use crate::session::policy::Policy;
use crate::telemetry::TelemetryOptions;
use crate::{Budget, ExternalTool, Hook, Output, Place, Prices};
pub(crate) use setting::Setting;

pub(crate) use crate::naming::Naming;
pub use agent::AgentOptions;
pub use agent::{agent_options, for_session};
pub use behaviour::{Enforce, on_event_async};
pub(crate) use content::check_content;
pub use content_json::parse_content;
pub use dialect::Dialect;
pub use environment::InheritEnv;
pub(crate) use environment::Inherited;
use environment::is_same;
pub use executable::Executable;
pub(crate) use executable::find_command;
#[cfg(feature = "batch")]
pub(crate) use json::unknown;
pub use json::{check_names, close_timeout, session_options, wrong_type};
pub use prompt::check_prompt_names;
pub use prompt::{PromptOptions, prompt_options};
pub use spec::{HookSpec, ToolSpec, parse_hook, parse_tool};
#[cfg(feature = "batch")]
pub(crate) use value::duration_problem;
pub use value::{kind_of, too_deep};

/// How a session is opened and how it behaves. Only options that are set are passed to the agent.
///
/// ```
/// use std::time::Duration;
/// use kimi_agent::SessionOptions;
///
/// let options = SessionOptions::new()
///     .work_dir(".")
///     .model("kimi")
///     .thinking(true)
///     .max_steps_per_turn(20)
///     .turn_timeout(Duration::from_secs(600));
/// options.validate()?;
/// # Ok::<(), kimi_agent::Error>(())
/// ```
#[derive(Clone)]
pub struct SessionOptions {
    pub(crate) naming: Naming,
    /// The language of the program, for recordings.
    pub(crate) language: &'static str,
    pub(crate) work_dir: Option<PathBuf>,
    pub(crate) session_id: Option<String>,
    /// The session to fork.
    pub(crate) fork_of: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) thinking: Option<bool>,
    pub(crate) yolo: bool,
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) config: Option<Value>,
    pub(crate) executable: Option<Executable>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) inherited: Inherited,
    pub(crate) auth: Option<String>,
    pub(crate) place: Option<Box<Place>>,
    /// The paths of an agent that has others than this program, once the place is settled.
    pub(crate) paths: Option<PathMap>,
    pub(crate) mcp_configs: Vec<Value>,
    pub(crate) agent_file: Option<PathBuf>,
    pub(crate) skills_dir: Option<PathBuf>,
    pub(crate) system_prompt: Option<SystemPrompt>,
    pub(crate) additional_directories: Vec<PathBuf>,
    pub(crate) agent_meta: Option<Value>,
    pub(crate) tools: Vec<ExternalTool>,
    pub(crate) max_steps_per_turn: Option<u32>,
    pub(crate) max_retries_per_step: Option<u32>,
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) enforce: Enforce,
    pub(crate) on_approval: Responder<ApprovalHandler>,
    pub(crate) on_question: Responder<QuestionHandler>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) on_event: Option<EventHandler>,
    pub(crate) on_stderr: Option<StderrHandler>,
    pub(crate) services: ServiceHandlers,
    pub(crate) client_name: Option<String>,
    pub(crate) client_version: Option<String>,
    pub(crate) extra_args: Vec<OsString>,
    pub(crate) read_session_files: bool,
    pub(crate) dialect: Dialect,
    pub(crate) handshake_timeout: Duration,
    pub(crate) cancel_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) turn_timeout: Option<Duration>,
    pub(crate) session_budget: Option<Budget>,
    pub(crate) prices: Option<Prices>,
    pub(crate) output: Option<Box<Output>>,
    pub(crate) record: Option<PathBuf>,
    /// Receives the file of the recording when it is made.
    pub(crate) recorded_at: Option<Arc<OnceLock<Arc<RecordingFile>>>>,
    /// The file of the recording, while the session is being opened.
    pub(crate) recording: Option<Arc<RecordingFile>>,
    /// The recording that the agent plays, while the session is being opened.
    pub(crate) replayed: Option<Arc<Replayed>>,
    /// The recordings of the other sessions of the agent.
    pub(crate) recorded: Option<Used>,
    pub(crate) redact: Vec<String>,
    pub(crate) telemetry: Option<Box<TelemetryOptions>>,
    pub(crate) max_line_bytes: usize,
    pub(crate) event_buffer_bytes: usize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            naming: Naming::Snake,
            language: "rust",
            work_dir: None,
            session_id: None,
            fork_of: None,
            model: None,
            thinking: None,
            yolo: false,
            config_file: None,
            config: None,
            executable: None,
            env: Vec::new(),
            inherited: Inherited::default(),
            auth: None,
            place: None,
            paths: None,
            mcp_configs: Vec::new(),
            agent_file: None,
            skills_dir: None,
            system_prompt: None,
            additional_directories: Vec::new(),
            agent_meta: None,
            tools: Vec::new(),
            max_steps_per_turn: None,
            max_retries_per_step: None,
            policy: None,
            enforce: Enforce::Approvals,
            on_approval: Responder::Unset,
            on_question: Responder::Unset,
            hooks: Vec::new(),
            on_event: None,
            on_stderr: None,
            services: ServiceHandlers::default(),
            client_name: None,
            client_version: None,
            extra_args: Vec::new(),
            read_session_files: true,
            dialect: Dialect::Auto,
            handshake_timeout: declared::HANDSHAKE_TIMEOUT,
            cancel_timeout: declared::CANCEL_TIMEOUT,
            close_timeout: declared::CLOSE_TIMEOUT,
            idle_timeout: None,
            turn_timeout: None,
            session_budget: None,
            prices: None,
            output: None,
            record: None,
            recorded_at: None,
            recording: None,
            replayed: None,
            recorded: None,
            redact: Vec::new(),
            telemetry: None,
            max_line_bytes: declared::MAX_LINE_BYTES,
            event_buffer_bytes: declared::EVENT_BUFFER_BYTES,
        }
    }
}

/// Setters. A setter of a list adds to the list.
impl SessionOptions {
    /// Makes options with all defaults: the agent's own settings, the current directory, and every approval rejected.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new();
    /// options.validate()?;
    /// # Ok::<(), kimi_agent::Error>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the agent's working directory. Default: the current directory.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// assert!(SessionOptions::new().work_dir(".").validate().is_ok());
    /// let error = SessionOptions::new().work_dir("/no/such/directory").validate().unwrap_err();
    /// assert!(error.to_string().starts_with("invalid option `work_dir`: "));
    /// ```
    #[must_use]
    pub fn work_dir(mut self, work_dir: impl Into<PathBuf>) -> Self {
        self.work_dir = Some(work_dir.into());
        self
    }

    /// Sets the session to resume, or the id of a new one: letters, digits, `.`, `_` and `-`. Default: a new session
    /// with a random id.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// assert!(SessionOptions::new().session_id("nightly-report").validate().is_ok());
    /// assert!(SessionOptions::new().session_id("../elsewhere").validate().is_err());
    /// ```
    #[must_use]
    pub fn session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Sets the model, by its name in the agent's configuration. Default: the default model there.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().model("kimi");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets whether the model thinks before it answers. Default: the configuration of the agent.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().thinking(false);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn thinking(mut self, thinking: bool) -> Self {
        self.thinking = Some(thinking);
        self
    }

    /// Sets whether every action is approved. Default: false.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().yolo(true);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn yolo(mut self, yolo: bool) -> Self {
        self.yolo = yolo;
        self
    }

    /// Sets the agent's configuration file: JSON if its name ends with `.json`, else TOML. Default: the user's own
    /// file.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// let error = SessionOptions::new().config_file("/no/such/config.toml").validate().unwrap_err();
    /// assert_eq!(error.code(), "invalid_option");
    /// ```
    #[must_use]
    pub fn config_file(mut self, config_file: impl Into<PathBuf>) -> Self {
        self.config_file = Some(config_file.into());
        self
    }

    /// Sets the agent's configuration itself instead of a file. It may contain keys, so the agent gets it in a private
    /// file, not in its arguments. The file is deleted with the session.
    ///
    /// ```
    /// use serde_json::json;
    /// let options = kimi_agent::SessionOptions::new().config(json!({"default_model": "kimi"}));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn config(mut self, config: Value) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the agent's program, or the program and its first arguments. Default: `$KIMI_AGENT_EXECUTABLE`, then `kimi`
    /// on PATH.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// let options = SessionOptions::new().executable("/opt/kimi/bin/kimi");
    /// let options = SessionOptions::new().executable(["python3", "-m", "kimi_cli"]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn executable(mut self, executable: impl Into<Executable>) -> Self {
        self.executable = Some(executable.into());
        self
    }

    /// Sets environment variables of the agent, in addition to those of this program. A `PATH` here is also searched
    /// for the agent's program.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().env([("KIMI_SHARE_DIR", "/srv/kimi")]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn env<N: Into<OsString>, V: Into<OsString>>(mut self, env: impl IntoIterator<Item = (N, V)>) -> Self {
        for (name, value) in env {
            self.set_variable(name.into(), Some(value.into()));
        }
        self
    }

    /// Removes variables that the agent would inherit from this program.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().env_remove(["AWS_SECRET_ACCESS_KEY"]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn env_remove<N: Into<OsString>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        for name in names {
            self.set_variable(name.into(), None);
        }
        self
    }

    /// Sets or removes a variable. The last call for a name counts.
    pub(crate) fn set_variable(&mut self, name: OsString, value: Option<OsString>) {
        self.inherited.removed.retain(|removed| !is_same(removed, &name));
        match value {
            Some(value) => self.env.push((name, value)),
            None => {
                self.env.retain(|(set, _)| !is_same(set, &name));
                self.inherited.removed.push(name);
            }
        }
    }

    /// Sets which variables of this program the agent inherits. The default is all of them.
    ///
    /// ```
    /// use kimi_agent::{InheritEnv, SessionOptions};
    /// let options = SessionOptions::new().inherit_env(InheritEnv::Needed).env([("KIMI_API_KEY", "sk-…")]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn inherit_env(mut self, inherit: InheritEnv) -> Self {
        self.inherited.rule = inherit;
        self
    }

    /// Adds configurations of MCP servers, each of the form `{"mcpServers": {name: {…}}}`. They may contain keys, so
    /// the agent gets them in private files, like [`config`](Self::config).
    ///
    /// ```
    /// use serde_json::json;
    /// let docs = json!({"mcpServers": {"docs": {"url": "https://example.com/mcp"}}});
    /// let options = kimi_agent::SessionOptions::new().mcp_configs([docs]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn mcp_configs(mut self, mcp_configs: impl IntoIterator<Item = Value>) -> Self {
        self.mcp_configs.extend(mcp_configs);
        self
    }

    /// Sets the file that defines the agent: its prompt and its tools. Default: the default agent.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().agent_file("agents/reviewer.yaml");
    /// # assert_eq!(options.validate().unwrap_err().code(), "invalid_option");
    /// ```
    #[must_use]
    pub fn agent_file(mut self, agent_file: impl Into<PathBuf>) -> Self {
        self.agent_file = Some(agent_file.into());
        self
    }

    /// Sets the directory of skills. Default: the agent's own directories.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().skills_dir("skills");
    /// # assert_eq!(options.validate().unwrap_err().code(), "invalid_option");
    /// ```
    #[must_use]
    pub fn skills_dir(mut self, skills_dir: impl Into<PathBuf>) -> Self {
        self.skills_dir = Some(skills_dir.into());
        self
    }

    /// Sets a text that follows the agent's own system prompt, or replaces it ([`SystemPrompt::overriding`]). Over ACP only.
    ///
    /// ```
    /// use kimi_agent::{SessionOptions, SystemPrompt};
    /// let brief = SessionOptions::new().system_prompt("Answer in one sentence.");
    /// let own = SessionOptions::new().system_prompt(SystemPrompt::overriding("You are a parser."));
    /// # brief.validate().and(own.validate()).unwrap();
    /// ```
    #[must_use]
    pub fn system_prompt(mut self, system_prompt: impl Into<SystemPrompt>) -> Self {
        self.system_prompt = Some(system_prompt.into());
        self
    }

    /// Adds directories that the agent works in. Over ACP only.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().additional_directories(["/srv/docs"]);
    /// # assert_eq!(options.validate().unwrap_err().code(), "invalid_option");
    /// ```
    #[must_use]
    pub fn additional_directories(mut self, directories: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.additional_directories.extend(directories.into_iter().map(Into::into));
        self
    }

    /// Sets members of `_meta` in the request that opens the session, for options that only one agent knows. Over ACP
    /// only.
    ///
    /// ```
    /// let meta = serde_json::json!({"claudeCode": {"options": {"maxTurns": 3}}});
    /// let options = kimi_agent::SessionOptions::new().agent_meta(meta);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn agent_meta(mut self, meta: Value) -> Self {
        self.agent_meta = Some(meta);
        self
    }

    /// Adds a tool of the program.
    ///
    /// ```
    /// use kimi_agent::{ExternalTool, SessionOptions};
    /// use serde_json::{Value, json};
    /// let time = ExternalTool::new("now", "The time", json!({"type": "object"}), |_: Value| async { Ok("noon") });
    /// let options = SessionOptions::new().tool(time.clone());
    /// options.validate()?;
    /// // Names must differ.
    /// assert!(options.tool(time).validate().is_err());
    /// # Ok::<(), kimi_agent::Error>(())
    /// ```
    #[must_use]
    pub fn tool(self, tool: ExternalTool) -> Self {
        self.tools([tool])
    }

    /// Adds tools of the program, which the model can call. A name has letters, digits, `_` and `-`.
    ///
    /// ```
    /// use kimi_agent::{ExternalTool, SessionOptions};
    /// let tools = ["ping", "pong"].map(|name| {
    ///     ExternalTool::new(name, "Says it back", serde_json::json!({"type": "object"}), move |_| async move { Ok(name) })
    /// });
    /// let options = SessionOptions::new().tools(tools);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = ExternalTool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets the limit of steps in a turn, at least 1. Default: the configuration of the agent.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// assert!(SessionOptions::new().max_steps_per_turn(20).validate().is_ok());
    /// assert!(SessionOptions::new().max_steps_per_turn(0).validate().is_err());
    /// ```
    #[must_use]
    pub fn max_steps_per_turn(mut self, max_steps_per_turn: u32) -> Self {
        self.max_steps_per_turn = Some(max_steps_per_turn);
        self
    }

    /// Sets how many requests to the model's service the agent makes for one step, including the first, at least 1.
    /// Default: the configuration of the agent.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().max_retries_per_step(1);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn max_retries_per_step(mut self, max_retries_per_step: u32) -> Self {
        self.max_retries_per_step = Some(max_retries_per_step);
        self
    }

    /// Records the session: every message, decision and call is written into this file. Secrets that the SDK knows are
    /// replaced. If the path is a directory, or ends with a slash, the file gets a name of its own there. Default:
    /// `$KIMI_AGENT_RECORD`, else no recording.
    ///
    /// ```no_run
    /// # async fn example() -> kimi_agent::Result<()> {
    /// let session = kimi_agent::Session::builder().record_to("run.jsonl").start().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn record_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Does the same as [`record_to`](Self::record_to), with the name that the option has in all languages.
    ///
    /// ```no_run
    /// # async fn example() -> kimi_agent::Result<()> {
    /// let session = kimi_agent::Session::builder().record("run.jsonl").start().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn record(self, path: impl Into<PathBuf>) -> Self {
        self.record_to(path)
    }

    /// Adds patterns of secrets that are masked in the recording, as regular expressions without look-around. They
    /// match in each text of a message, as JSON spells it.
    ///
    /// ```
    /// use kimi_agent::SessionOptions;
    /// assert!(SessionOptions::new().redact([r"ACME-\d+"]).validate().is_ok());
    /// let error = SessionOptions::new().redact(["("]).validate().unwrap_err();
    /// assert!(error.to_string().starts_with("invalid option `redact`: "));
    /// ```
    #[must_use]
    pub fn redact<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.redact.extend(patterns.into_iter().map(Into::into));
        self
    }

    /// Sets whether the SDK reads the session's files, in which Kimi Code writes the tokens, the steps and the failure of
    /// a turn. ACP does not report these. The end of a turn waits up to a second for them. Default: true.
    ///
    /// ```
    /// let options = kimi_agent::SessionOptions::new().read_session_files(false);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn read_session_files(mut self, read_session_files: bool) -> Self {
        self.read_session_files = read_session_files;
        self
    }
}

impl fmt::Debug for SessionOptions {
    /// Shows which options are set. The values of `config`, `mcp_configs` and `env`, and arguments may be secrets, and
    /// are omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SessionOptions");
        for option in declared::OPTIONS {
            match (option.name, self.setting(option.name)) {
                (name, Setting::Unset) => shown.field(name, &format_args!("unset")),
                (name, Setting::Text(text)) => shown.field(name, &text),
                (name, Setting::Path(path)) => shown.field(name, &path),
                (name, Setting::Boolean(value)) => shown.field(name, &value),
                (name, Setting::Count(count)) => shown.field(name, &count),
                (name, Setting::Bytes(bytes)) => shown.field(name, &bytes),
                (name, Setting::Duration(duration)) => shown.field(name, &duration),
                ("executable", _) => shown.field("executable", &self.executable),
                ("env", _) => shown.field("env", &self.variables().collect::<Vec<_>>()),
                ("inherit_env", _) => shown.field("inherit_env", &self.inherited.rule),
                ("place", _) => shown.field("place", &self.place),
                ("tools", _) => shown.field("tools", &self.tools),
                ("hooks", _) => shown.field("hooks", &self.hooks),
                ("dialect", _) => shown.field("dialect", &self.dialect),
                (name, Setting::Json(_) | Setting::Other) => shown.field(name, &format_args!("set")),
            };
        }
        shown.finish()
    }
}

#[cfg(test)]
mod tests;
