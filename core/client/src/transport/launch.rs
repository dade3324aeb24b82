//! The command that starts an agent, and the private files that it reads.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kimi_agent_protocol::place::PathMap;
use serde_json::Value;

use crate::error::{AgentExit, Error, Result};
use crate::options::Inherited;
use crate::private::PrivateDir;

/// The command that starts an agent. It has no `Debug`, because values of variables may be secrets.
pub(crate) struct Launch {
    /// An absolute path.
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// Added to the variables that it inherits.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) inherited: Inherited,
    /// An absolute path.
    pub(crate) current_dir: PathBuf,
    pub(crate) private: PrivateFiles,
    /// Set if the agent is a server with HTTP.
    pub(crate) server: Option<Server>,
    /// Whether the agent speaks as the gateway to Kimi Code's server does.
    pub(crate) is_gateway: bool,
    pub(crate) placed: Box<Placed>,
}

/// The settings of an agent in another place. It has no `Debug`, because the input may have secrets.
#[derive(Default)]
pub(crate) struct Placed {
    /// The paths of an agent that has others than the program.
    pub(crate) paths: Option<PathMap>,
    /// Written to the process before everything else.
    pub(crate) input: Vec<u8>,
    /// The arguments of the shell that ends what the process leaves in the place; see [`super::cleanup`].
    #[cfg_attr(windows, allow(dead_code, reason = "no place on Windows has one"))]
    pub(crate) cleanup: Option<Vec<OsString>>,
    /// Returns the cause of an exit in the place.
    pub(crate) explain: Option<Explain>,
    /// Set if nothing is started: the agent is reached over the network.
    pub(crate) remote: Option<Target>,
}

/// The address of an agent that is reached over the network. It has no `Debug`, because headers may have secrets.
#[derive(Clone)]
#[cfg_attr(not(feature = "remote"), allow(dead_code, reason = "only the transport reads it"))]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// How long connecting may take.
    pub(crate) connect_timeout: Duration,
    /// The limit of a message from the agent.
    pub(crate) max_message_bytes: usize,
}

/// Returns a part of a sentence about the cause of an exit, such as `because …`.
pub(crate) type Explain = Box<dyn Fn(&AgentExit) -> Option<String> + Send>;

/// A server on loopback. It has no `Debug`, because it has a secret.
#[derive(Clone)]
#[cfg_attr(not(feature = "kimi-web"), allow(dead_code, reason = "only the gateway reads it"))]
pub(crate) struct Server {
    pub(crate) secret: String,
}

/// Files that only this user can read, removed on drop.
#[derive(Default)]
pub(crate) struct PrivateFiles(Option<PrivateDir>);

impl PrivateFiles {
    pub(crate) fn write(&mut self, name: &str, content: &Value) -> Result<PathBuf> {
        let dir = match &mut self.0 {
            Some(dir) => dir,
            empty => empty.insert(PrivateDir::new().map_err(|error| no_file(&crate::private::temp_dir(), &error))?),
        };
        let written = dir.write(name, content.to_string().as_bytes());
        written.map_err(|error| no_file(&dir.path().join(name), &error))
    }

    /// The folder of the files. `None` if there are no files.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.0.as_ref().map(PrivateDir::path)
    }
}

impl fmt::Debug for PrivateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "PrivateFiles(some)" } else { "PrivateFiles(none)" })
    }
}

fn no_file(path: &Path, error: &std::io::Error) -> Error {
    Error::Spawn(format!(
        "can't start the agent: its configuration can't be written to a private file in {}: {error}",
        path.display()
    ))
}
