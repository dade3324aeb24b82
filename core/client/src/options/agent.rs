//! The options of an agent: what its sessions have in common.

use std::ffi::OsString;
use std::time::Duration;

use kimi_agent_protocol::options::{OPTIONS, Scope, find};
use serde_json::{Map, Value};

use super::json::session_options;
use super::{Dialect, Executable, Naming, SessionOptions};
use crate::Result;
use crate::error::invalid_option;

/// How an agent is started, for all of its sessions; see [`Agent`](crate::Agent). Everything else is an option of the
/// sessions.
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

/// Setters. Those of lists add to what is there already.
impl AgentOptions {
    /// Nothing set: the `kimi` on PATH, whatever protocol it speaks.
    pub fn new() -> Self {
        Self::default()
    }

    /// The agent's program; see [`SessionOptions::executable`].
    #[must_use]
    pub fn executable(self, executable: impl Into<Executable>) -> Self {
        Self(self.0.executable(executable))
    }

    /// Environment variables that the agent gets; see [`SessionOptions::env`].
    #[must_use]
    pub fn env<N: Into<OsString>, V: Into<OsString>>(self, env: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(self.0.env(env))
    }

    /// Arguments that the agent gets after all others; see [`SessionOptions::extra_args`].
    #[must_use]
    pub fn extra_args<A: Into<OsString>>(self, extra_args: impl IntoIterator<Item = A>) -> Self {
        Self(self.0.extra_args(extra_args))
    }

    /// Which protocol to speak; unset, [`Dialect::Auto`].
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Self {
        Self(self.0.dialect(dialect))
    }

    /// Gets the lines that the agent writes to stderr, whichever session they are about. It must not block.
    #[must_use]
    pub fn on_stderr<F: Fn(&str) + Send + Sync + 'static>(self, handler: F) -> Self {
        Self(self.0.on_stderr(handler))
    }

    /// The name that this program gives itself to the agent; unset, this SDK's.
    #[must_use]
    pub fn client_name(self, client_name: impl Into<String>) -> Self {
        Self(self.0.client_name(client_name))
    }

    /// The version that this program gives itself; unset, this SDK's.
    #[must_use]
    pub fn client_version(self, client_version: impl Into<String>) -> Self {
        Self(self.0.client_version(client_version))
    }

    /// How long the agent may take to list its sessions, its start included; unset, 60 seconds. Sessions have their own.
    #[must_use]
    pub fn handshake_timeout(self, handshake_timeout: Duration) -> Self {
        Self(self.0.handshake_timeout(handshake_timeout))
    }

    /// How long a process that sessions share may take to exit once it is to, before it is made to; unset, 10 seconds.
    /// Sessions have their own.
    #[must_use]
    pub fn close_timeout(self, close_timeout: Duration) -> Self {
        Self(self.0.close_timeout(close_timeout))
    }

    /// Checks everything that can be checked without looking for the program.
    ///
    /// ```
    /// let options = kimi_agent::AgentOptions::new().close_timeout(std::time::Duration::ZERO);
    /// assert_eq!(options.validate().unwrap_err().code(), "invalid_option");
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) names the first wrong one.
    pub fn validate(&self) -> Result<()> {
        self.0.validate()
    }
}

/// Reads the options of an agent, as [`super::json::session_options`] reads those of a session.
///
/// # Errors
/// `InvalidOption`, in the caller's own naming.
pub fn agent_options(map: Map<String, Value>, naming: Naming) -> Result<AgentOptions> {
    let is_of_session = |given: &str| find(OPTIONS, given, naming).is_none_or(|option| option.scope == Scope::Session);
    let other = map.iter().find(|(name, value)| !value.is_null() && is_of_session(name)).map(|(name, _)| name.clone());
    let options = session_options(map, naming)?;
    match other {
        Some(name) => Err(invalid_option(name, for_session(naming))),
        None => Ok(AgentOptions(options)),
    }
}

/// Why an option is not one of the agent's.
pub fn for_session(naming: Naming) -> String {
    format!("it is an option of a session; pass it to `{}()`", naming.name("create_session"))
}

impl SessionOptions {
    /// These, for a session of this agent: what is the agent's is not theirs to say.
    pub(crate) fn within(mut self, agent: &Self) -> Result<Self> {
        if let Some(option) = self.first_set(|option| option.scope == Scope::Agent) {
            let open_agent = self.naming.name("open_agent");
            return Err(self.invalid(option.name, format!("it is an option of the agent; pass it to `{open_agent}()`")));
        }
        let Self { executable, env, extra_args, dialect, client_name, client_version, on_stderr, .. } = agent.clone();
        (self.executable, self.env, self.extra_args, self.dialect) = (executable, env, extra_args, dialect);
        (self.client_name, self.client_version, self.on_stderr) = (client_name, client_version, on_stderr);
        Ok(self)
    }

    /// These, to go on with a session.
    pub(crate) fn resuming(self, session_id: String) -> Result<Self> {
        self.names_no_session("resume")?;
        Ok(self.session_id(session_id))
    }

    /// These, to begin with the past of a session.
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
    fn an_agents_options_are_those_of_its_process() {
        let options = read(json!({"executable": ["a", "b"], "env": {"K": "v"}, "close_timeout": 1.5}), Naming::Snake);
        let AgentOptions(options) = options.unwrap();
        assert_eq!(options.executable, Some(["a", "b"].into()));
        assert_eq!(options.close_timeout, Duration::from_millis(1500));
        let error = |options, naming| read(options, naming).unwrap_err().to_string();
        let expected = "invalid option `workDir`: it is an option of a session; pass it to `createSession()`";
        assert_eq!(error(json!({"workDir": "."}), Naming::Camel), expected);
        assert!(error(json!({"workdir": "."}), Naming::Camel).contains("there is no such option"));
        assert!(read(json!({"work_dir": null}), Naming::Snake).is_ok());
    }

    #[test]
    fn a_sessions_options_are_put_together_with_its_agents() {
        let agent =
            SessionOptions::new().executable(["a", "b"]).env([("K", "v")]).dialect(Dialect::Acp).client_name("it");
        let options = SessionOptions::new().model("m").close_timeout(Duration::from_secs(1)).within(&agent).unwrap();
        assert_eq!((options.executable, options.dialect), (Some(["a", "b"].into()), Dialect::Acp));
        assert_eq!((options.model.as_deref(), options.client_name.as_deref()), (Some("m"), Some("it")));
        assert_eq!(options.close_timeout, Duration::from_secs(1));
        let theirs = [
            (SessionOptions::new().executable("a"), "executable"),
            (SessionOptions::new().env([("K", "v")]), "env"),
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
    fn a_session_is_named_once() {
        let named = SessionOptions::new().session_id("a");
        assert_eq!(named.clone().resuming("b".to_owned()).unwrap_err().code(), "invalid_option");
        assert_eq!(named.forking("b".to_owned()).unwrap_err().code(), "invalid_option");
        assert_eq!(SessionOptions::new().resuming("b".to_owned()).unwrap().session_id.as_deref(), Some("b"));
        assert_eq!(SessionOptions::new().forking(String::new()).unwrap_err().code(), "invalid_option");
    }
}
