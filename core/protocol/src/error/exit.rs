//! The exit of an agent, as errors report it.

use std::fmt;

use crate::connection::PromptResult;
use crate::printable::printable;

/// How the agent ended.
///
/// # Examples
/// ```
/// # use kimi_agent_protocol as kimi_agent;
/// use kimi_agent::Error;
/// fn report(error: &Error) {
///     if let Error::AgentExited(exit) = error {
///         eprintln!("{}: {}", exit.manner(), exit.stderr);
///     }
/// }
/// # report(&Error::session_closed());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentExit {
    /// The exit code. `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// The name of the signal that ended it, for example `SIGKILL`.
    pub signal: Option<String>,
    /// The last part of its stderr.
    pub stderr: String,
    /// A hint about the cause. Set if the agent exited before it opened the session, if its place ended it, or if the connection to it ended.
    pub hint: Option<String>,
    /// What the turn had produced, if the exit ended a turn.
    pub result: Option<Box<PromptResult>>,
}

/// The first words of the hint of an agent that was reached over the network, and whose connection ended.
pub const CONNECTION: &str = "the connection to the agent ";

/// The words before the stderr of the agent in the text of an error.
pub const STDERR: &str = "the end of its stderr:";

impl std::error::Error for AgentExit {}

impl AgentExit {
    /// Returns how the agent ended, without its stderr.
    ///
    /// # Examples
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::AgentExit;
    /// let exit = AgentExit { exit_code: Some(3), ..AgentExit::default() };
    /// assert_eq!(exit.manner(), "the agent exited with code 3");
    /// ```
    pub fn manner(&self) -> String {
        match (&self.signal, self.exit_code) {
            (Some(signal), _) => format!("the agent was ended by {signal}"),
            (None, Some(code)) => format!("the agent exited with code {code}"),
            (None, None) => match self.lost_connection() {
                Some(hint) => printable(hint).into_owned(),
                None => "the agent closed its pipes".to_owned(),
            },
        }
    }

    /// Returns the hint if it says how a connection over the network ended.
    fn lost_connection(&self) -> Option<&str> {
        self.hint.as_deref().filter(|hint| hint.starts_with(CONNECTION))
    }
}

impl fmt::Display for AgentExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.manner())?;
        if let Some(hint) = self.hint.as_ref().filter(|_| self.lost_connection().is_none()) {
            write!(f, " {hint}")?;
        }
        let stderr = self.stderr.trim();
        if stderr.is_empty() { Ok(()) } else { write!(f, "; {STDERR}\n{}", printable(stderr)) }
    }
}
