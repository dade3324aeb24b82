//! The options of a proxy.

use std::path::PathBuf;
use std::sync::Arc;

use kimi_agent_client::{Budget, Enforce, Executable, Place, Result, SessionOptions};
use kimi_agent_policy::Policy;
use kimi_agent_protocol::error::invalid_option;

use crate::place::PlaceName;
use crate::settings::Settings;

/// The options of [`proxy`](crate::proxy): the agent, and what guards it.
///
/// # Examples
/// ```
/// # use kimi_agent_proxy as kimi_agent;
/// # use kimi_agent_policy::Policy;
/// # fn main() -> kimi_agent_protocol::Result<()> {
/// let options = kimi_agent::ProxyOptions::new(["gemini", "--acp"]).policy(Policy::preset("edit-files")?).record_to("runs/");
/// # drop(options); Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ProxyOptions {
    pub(crate) session: SessionOptions,
    given: Settings,
    reads_user_settings: bool,
    /// Whether the options of the session have a place, which holds in place of a file's.
    has_place: bool,
    /// The directory in which the agent is started.
    work_dir: PathBuf,
}

impl ProxyOptions {
    /// Makes options for an agent: a program, or a program and its arguments. An agent that is known by its name, and has no
    /// arguments, gets those with which it speaks ACP.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini");
    /// # drop(options);
    /// ```
    pub fn new(executable: impl Into<Executable>) -> Self {
        let session = SessionOptions::new().executable(executable);
        Self {
            session,
            given: Settings::default(),
            reads_user_settings: false,
            has_place: false,
            work_dir: PathBuf::from("."),
        }
    }

    /// Sets the rules that decide about tool calls, and about requests for files and terminals. Default: the user decides.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_policy::Policy;
    /// let policy = Policy::from_toml(r#"deny = ["execute(rm *)"]"#)?;
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").policy(policy);
    /// # drop(options); Ok::<(), kimi_agent_protocol::Error>(())
    /// ```
    pub fn policy(mut self, policy: Policy) -> Self {
        self.given.policy = Some(Arc::new(policy));
        self
    }

    /// Sets the calls that the policy must see. With [`Enforce::Calls`], a call that the agent has made without asking, and that
    /// the policy does not allow, cancels the turn. Default: [`Enforce::Approvals`].
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_client::Enforce;
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").enforce(Enforce::Calls);
    /// # drop(options);
    /// ```
    pub fn enforce(mut self, enforce: Enforce) -> Self {
        self.given.enforce = Some(enforce);
        self
    }

    /// Limits what all turns of a session use together. A turn that exceeds the limit is cancelled. Default: no limit.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_client::Budget;
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").session_budget(Budget::new().tokens(1_000_000));
    /// # drop(options);
    /// ```
    pub fn session_budget(mut self, budget: Budget) -> Self {
        self.given.session_budget = Some(budget);
        self
    }

    /// Limits what all sessions of a day use together, in all guards of this user that have such a limit. The day is that of UTC. A turn
    /// that exceeds the limit is cancelled, and further prompts are refused. Default: no limit.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_client::Budget;
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").day_budget(Budget::new().tokens(5_000_000));
    /// # drop(options);
    /// ```
    pub fn day_budget(mut self, budget: Budget) -> Self {
        self.given.day_budget = Some(budget);
        self
    }

    /// Limits what each turn uses. A turn that exceeds the limit is cancelled. Default: no limit.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_client::Budget;
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").turn_budget(Budget::new().tool_calls(50));
    /// # drop(options);
    /// ```
    pub fn turn_budget(mut self, budget: Budget) -> Self {
        self.given.turn_budget = Some(budget);
        self
    }

    /// Records each session into a new file of this directory. Default: `$KIMI_AGENT_RECORD`, else no recording.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").record_to("runs/");
    /// # drop(options);
    /// ```
    pub fn record_to(mut self, directory: impl Into<PathBuf>) -> Self {
        self.given.record = Some(directory.into());
        self
    }

    /// Adds regular expressions of secrets, which recordings show as `***`.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").redact(["sk-[a-z0-9]+"]);
    /// # drop(options);
    /// ```
    pub fn redact<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        self.session = self.session.redact(patterns);
        self
    }

    /// Sets the directory in which the agent is started. Default: the current directory. The client names the directory of each
    /// session.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").work_dir(".");
    /// # drop(options);
    /// ```
    pub fn work_dir(mut self, work_dir: impl Into<PathBuf>) -> Self {
        self.work_dir = work_dir.into();
        self.session = self.session.work_dir(&self.work_dir);
        self
    }

    /// Sets where the agent runs. Default: on this machine, as a child of this program. Paths in messages are translated, and a session
    /// whose directory the agent does not have is refused.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_client::Place;
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").place(Place::sandbox());
    /// # drop(options);
    /// ```
    pub fn place(mut self, place: impl Into<Place>) -> Self {
        self.session = self.session.place(place);
        self.has_place = true;
        self
    }

    /// Sets where the agent runs, by name: `sandbox`, `container:IMAGE`, or `ssh:HOST:/DIRECTORY`. Without a directory, the host has
    /// the path of the working directory. Default: on this machine.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](kimi_agent_protocol::Error::InvalidOption) for another name.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").place_named("container:agents:1")?;
    /// # drop(options); Ok::<(), kimi_agent_protocol::Error>(())
    /// ```
    pub fn place_named(mut self, name: &str) -> Result<Self> {
        self.given.place = Some(PlaceName::parse(name).map_err(|reason| invalid_option("place", reason))?);
        Ok(self)
    }

    /// Reports spans and metrics through the API of OpenTelemetry. Each turn is a span. Default: no telemetry.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_client::Telemetry;
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").telemetry(Telemetry::new());
    /// # drop(options);
    /// ```
    #[cfg(feature = "otel")]
    pub fn telemetry(mut self, telemetry: kimi_agent_client::Telemetry) -> Self {
        self.session = self.session.telemetry(telemetry);
        self
    }

    /// Passes each line of the agent's standard error to a handler. Default: the lines are discarded.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").on_stderr(|line| eprintln!("{line}"));
    /// # drop(options);
    /// ```
    pub fn on_stderr<F: Fn(&str) + Send + Sync + 'static>(mut self, handler: F) -> Self {
        self.session = self.session.on_stderr(handler);
        self
    }

    /// Reads the user's file of settings, too: `kimi-agent/settings.toml` in the folder of the user's settings. What is set here
    /// holds in place of the file. Default: the file is not read.
    ///
    /// The file `.kimi-agent.toml` in the directory of a session is always read. It can only be stricter.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent_proxy::ProxyOptions::new("gemini").with_user_settings();
    /// # drop(options);
    /// ```
    pub fn with_user_settings(mut self) -> Self {
        self.reads_user_settings = true;
        self
    }

    /// Removes variables of this program from the environment of the agent.
    #[cfg(feature = "serve")]
    pub(crate) fn without_variable(mut self, name: &str) -> Self {
        self.session = self.session.env_remove([name]);
        self
    }

    /// Returns the options of sessions, and the settings that the user has given.
    pub(crate) fn resolved(&self) -> Result<(SessionOptions, Settings)> {
        let of_user = if self.reads_user_settings { Settings::of_user()? } else { Settings::default() };
        let settings = of_user.overridden_by(self.given.clone());
        if settings.enforce == Some(Enforce::Calls) && settings.policy.is_none() {
            let reason = "\"calls\" needs a policy, which says what the agent may do without asking; set one";
            return Err(invalid_option("enforce", reason));
        }
        let mut session = self.session.clone();
        if let Some(directory) = &settings.record {
            // Each session gets a file of its own.
            session = session.record(directory.join(""));
        }
        if let Some(place) = settings.place.as_ref().filter(|_| !self.has_place) {
            session = session.place(place.in_directory(&self.work_dir)?);
        }
        Ok((session, settings))
    }
}
