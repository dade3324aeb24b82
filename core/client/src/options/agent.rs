//! The options of an agent, which all its sessions share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use kimi_agent_protocol::options::{OPTIONS, Scope, find};
use serde_json::{Map, Value};

use super::json::session_options;
use super::{Dialect, Executable, InheritEnv, Naming, SessionOptions};
use crate::error::invalid_option;
use crate::{Place, Result};

/// The options with which an agent is started, for all its sessions; see [`Agent`](crate::Agent). All other options
/// belong to the sessions.
///
/// ```
/// use kimi_agent::{AgentOptions, Dialect};
/// # let program = std::env::current_exe().unwrap();
/// let options = AgentOptions::new().executable([program.to_str().unwrap(), "--acp"]).dialect(Dialect::Acp);
/// let agent = options.open()?;
/// # Ok::<(), kimi_agent::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AgentOptions(pub(crate) SessionOptions);

/// Setters. A setter of a list adds to the list.
impl AgentOptions {
    /// Makes options with all defaults: the `kimi` on PATH, with the protocol that it speaks.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new();
    /// # options.validate().unwrap();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the agent's program; see [`SessionOptions::executable`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().executable(["python3", "-m", "kimi_cli"]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn executable(self, executable: impl Into<Executable>) -> Self {
        Self(self.0.executable(executable))
    }

    /// Sets environment variables of the agent; see [`SessionOptions::env`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().env([("KIMI_LOG_LEVEL", "debug")]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn env<N: Into<OsString>, V: Into<OsString>>(self, env: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(self.0.env(env))
    }

    /// Removes variables that the agent would inherit; see [`SessionOptions::env_remove`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().env_remove(["AWS_SECRET_ACCESS_KEY"]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn env_remove<N: Into<OsString>>(self, names: impl IntoIterator<Item = N>) -> Self {
        Self(self.0.env_remove(names))
    }

    /// Sets which variables of this program the agent inherits; see [`SessionOptions::inherit_env`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().inherit_env(kimi_agent::InheritEnv::Needed);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn inherit_env(self, inherit: InheritEnv) -> Self {
        Self(self.0.inherit_env(inherit))
    }

    /// Sets how the SDK logs in when the agent asks for it; see [`SessionOptions::auth`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().env([("GEMINI_API_KEY", "…")]).auth("auto");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn auth(self, auth: impl Into<String>) -> Self {
        Self(self.0.auth(auth))
    }

    /// Sets where the agent runs; see [`SessionOptions::place`]. Relative paths of the place are relative to the current directory.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{AgentOptions, Place};
    /// let options = AgentOptions::new().place(Place::prefix(["nice", "-n", "10"]));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn place(self, place: impl Into<Place>) -> Self {
        Self(self.0.place(place))
    }

    /// Adds arguments of the agent after all others; see [`SessionOptions::extra_args`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().extra_args(["--verbose"]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn extra_args<A: Into<OsString>>(self, extra_args: impl IntoIterator<Item = A>) -> Self {
        Self(self.0.extra_args(extra_args))
    }

    /// Sets the protocol to speak. Default: [`Dialect::Auto`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().dialect(kimi_agent::Dialect::Acp);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Self {
        Self(self.0.dialect(dialect))
    }

    /// Sets the handler of the lines that the agent writes to stderr, for all sessions. It must not block.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().on_stderr(|line| eprintln!("{line}"));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn on_stderr<F: Fn(&str) + Send + Sync + 'static>(self, handler: F) -> Self {
        Self(self.0.on_stderr(handler))
    }

    /// Sets the name of this program, for the agent. Default: `kimi-agent`.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().client_name("my-program");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn client_name(self, client_name: impl Into<String>) -> Self {
        Self(self.0.client_name(client_name))
    }

    /// Sets the version of this program, for the agent. Default: the version of this crate.
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().client_version("1.2.3");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn client_version(self, client_version: impl Into<String>) -> Self {
        Self(self.0.client_version(client_version))
    }

    /// Records each session in a file of its own; see [`SessionOptions::record`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().record("runs/");
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn record(self, path: impl Into<PathBuf>) -> Self {
        Self(self.0.record(path))
    }

    /// Adds patterns of secrets that are masked in recordings; see [`SessionOptions::redact`].
    ///
    /// # Examples
    /// ```
    /// let options = kimi_agent::AgentOptions::new().record("runs/").redact([r"ACME-\d+"]);
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn redact<P: Into<String>>(self, patterns: impl IntoIterator<Item = P>) -> Self {
        Self(self.0.redact(patterns))
    }

    /// Sets the time for the agent to start and to list its sessions. Default: 60 seconds. Each session has a timeout
    /// of its own.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::AgentOptions::new().handshake_timeout(Duration::from_secs(30));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn handshake_timeout(self, handshake_timeout: Duration) -> Self {
        Self(self.0.handshake_timeout(handshake_timeout))
    }

    /// Sets the time for a process that sessions share to exit, before it gets SIGTERM. Zero kills it at once. Default: 10
    /// seconds. Each session has a timeout of its own.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// let options = kimi_agent::AgentOptions::new().close_timeout(Duration::from_secs(2));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn close_timeout(self, close_timeout: Duration) -> Self {
        Self(self.0.close_timeout(close_timeout))
    }

    /// Checks everything that can be checked without starting the program.
    ///
    /// ```
    /// let options = kimi_agent::AgentOptions::new().handshake_timeout(std::time::Duration::ZERO);
    /// assert_eq!(options.validate().unwrap_err().code(), "invalid_option");
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) names the first wrong option.
    pub fn validate(&self) -> Result<()> {
        self.0.validate()
    }
}

/// Reads the options of an agent, as [`super::json::session_options`] reads those of a session.
///
/// # Errors
/// Returns `InvalidOption`, with the caller's names.
pub fn agent_options(map: Map<String, Value>, naming: Naming) -> Result<AgentOptions> {
    let is_of_session = |given: &str| find(OPTIONS, given, naming).is_none_or(|option| option.scope == Scope::Session);
    let other = map.iter().find(|(name, value)| !value.is_null() && is_of_session(name)).map(|(name, _)| name.clone());
    let options = session_options(map, naming)?;
    match other {
        Some(name) => Err(invalid_option(name, for_session(naming))),
        None => Ok(AgentOptions(options)),
    }
}

/// Returns why an option is not an option of agents.
pub fn for_session(naming: Naming) -> String {
    format!("it is an option of a session; pass it to `{}()`", naming.name("create_session"))
}

impl SessionOptions {
    /// Adds the options of an agent to those of a session. Fails if the session sets an option of the agent.
    pub(crate) fn within(mut self, agent: &Self) -> Result<Self> {
        if let Some(option) = self.first_set(|option| option.scope == Scope::Agent) {
            let open_agent = self.naming.name("open_agent");
            return Err(self.invalid(option.name, format!("it is an option of the agent; pass it to `{open_agent}()`")));
        }
        let agent = agent.clone();
        (self.record, self.redact, self.recorded) = (agent.record, agent.redact, agent.recorded);
        (self.inherited, self.auth) = (agent.inherited, agent.auth);
        (self.place, self.paths) = (agent.place, agent.paths);
        let Self { executable, env, extra_args, dialect, client_name, client_version, on_stderr, .. } = agent;
        (self.executable, self.env, self.extra_args, self.dialect) = (executable, env, extra_args, dialect);
        (self.client_name, self.client_version, self.on_stderr) = (client_name, client_version, on_stderr);
        Ok(self)
    }

    /// Splits the options into those of an agent and those of its sessions.
    #[cfg(feature = "batch")]
    pub(crate) fn split(self) -> (AgentOptions, Self) {
        let empty = Self { naming: self.naming, language: self.language, ..Self::default() };
        let agent = Self {
            executable: self.executable,
            env: self.env,
            inherited: self.inherited,
            auth: self.auth,
            place: self.place,
            extra_args: self.extra_args,
            dialect: self.dialect,
            client_name: self.client_name,
            client_version: self.client_version,
            on_stderr: self.on_stderr,
            record: self.record,
            redact: self.redact,
            handshake_timeout: self.handshake_timeout,
            close_timeout: self.close_timeout,
            ..empty
        };
        let session = Self {
            executable: None,
            env: Vec::new(),
            inherited: super::Inherited::default(),
            auth: None,
            place: None,
            extra_args: Vec::new(),
            dialect: Dialect::Auto,
            client_name: None,
            client_version: None,
            on_stderr: None,
            record: None,
            redact: Vec::new(),
            ..self
        };
        (AgentOptions(agent), session)
    }

    /// Makes options of a session that is resumed.
    pub(crate) fn resuming(self, session_id: String) -> Result<Self> {
        self.names_no_session("resume")?;
        Ok(self.session_id(session_id))
    }

    /// Makes options of a session that is forked.
    pub(crate) fn forking(mut self, session_id: String) -> Result<Self> {
        self.names_no_session("fork")?;
        if session_id.is_empty() {
            return Err(self.invalid("session_id", "it is empty; expected the id of a session"));
        }
        self.fork_of = Some(session_id);
        Ok(self)
    }

    fn names_no_session(&self, call: &str) -> Result<()> {
        match &self.session_id {
            Some(_) => Err(self.invalid(
                "session_id",
                format!("`{call}()` takes the id of the session as its first argument; leave this option out"),
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(options: Value, naming: Naming) -> Result<AgentOptions> {
        agent_options(options.as_object().unwrap().clone(), naming)
    }

    #[test]
    fn agent_takes_only_process_options() {
        let options = read(json!({"executable": ["a", "b"], "env": {"K": "v"}, "close_timeout": 1.5}), Naming::Snake);
        let AgentOptions(options) = options.unwrap();
        assert_eq!(options.executable, Some(["a", "b"].into()));
        assert_eq!(options.close_timeout, Duration::from_millis(1500));
        let error = |options, naming| read(options, naming).unwrap_err().to_string();
        let expected = "invalid option `workDir`: it is an option of a session; pass it to `createSession()`";
        assert_eq!(error(json!({"workDir": "."}), Naming::Camel), expected);
        assert!(error(json!({"workdir": "."}), Naming::Camel).contains("unknown option"));
        assert!(read(json!({"work_dir": null}), Naming::Snake).is_ok());
    }

    #[test]
    fn session_options_are_merged_with_agent_options() {
        let agent =
            SessionOptions::new().executable(["a", "b"]).env([("K", "v")]).dialect(Dialect::Acp).client_name("it");
        let options = SessionOptions::new().model("m").close_timeout(Duration::from_secs(1)).within(&agent).unwrap();
        assert_eq!((options.executable, options.dialect), (Some(["a", "b"].into()), Dialect::Acp));
        assert_eq!((options.model.as_deref(), options.client_name.as_deref()), (Some("m"), Some("it")));
        assert_eq!(options.close_timeout, Duration::from_secs(1));
        let theirs = [
            (SessionOptions::new().executable("a"), "executable"),
            (SessionOptions::new().env([("K", "v")]), "env"),
            (SessionOptions::new().auth("auto"), "auth"),
            (SessionOptions::new().extra_args(["-x"]), "extra_args"),
            (SessionOptions::new().dialect(Dialect::Acp), "dialect"),
            (SessionOptions::new().on_stderr(|_| {}), "on_stderr"),
            (SessionOptions::new().client_version("1"), "client_version"),
        ];
        for (options, name) in theirs {
            let error = options.within(&agent).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("invalid option `{name}`: it is an option of the agent; pass it to `open_agent()`")
            );
        }
    }

    #[test]
    fn conflicting_session_ids_are_refused() {
        let named = SessionOptions::new().session_id("a");
        assert_eq!(named.clone().resuming("b".to_owned()).unwrap_err().code(), "invalid_option");
        assert_eq!(named.forking("b".to_owned()).unwrap_err().code(), "invalid_option");
        assert_eq!(SessionOptions::new().resuming("b".to_owned()).unwrap().session_id.as_deref(), Some("b"));
        assert_eq!(SessionOptions::new().forking(String::new()).unwrap_err().code(), "invalid_option");
    }
}
