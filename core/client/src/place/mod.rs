//! The places in which agents run: each is a change of the agent's command line, and for some a map of paths.
//!
//! - `prefix`: a command in front of the agent's
//! - `sandbox`: a sandbox of the operating system
//! - `container`: a container of Docker or Podman
//! - `ssh`: another machine
//! - `remote`: an agent that a server offers over the network
//! - `own`: the directories in which agents keep their data
//! - `json`: places as the bindings pass them

mod container;
mod json;
mod own;
mod prefix;
mod remote;
mod sandbox;
mod ssh;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kimi_agent_protocol::place::PathMap;

pub use container::Container;
pub(crate) use json::read;
pub use prefix::Prefix;
pub use remote::Remote;
pub(crate) use remote::secrets;
pub use sandbox::Sandbox;
pub use ssh::Ssh;

use crate::options::find_command;
use crate::transport::launch::{Launch, Target};
use crate::{Error, Result};

/// The place in which an agent runs; see [`SessionOptions::place`](crate::SessionOptions::place).
///
/// ```
/// use kimi_agent::{Place, SessionOptions};
/// let pod = Place::prefix(["kubectl", "exec", "-i", "pod", "--"]).path(".", "/work");
/// let options = SessionOptions::new().executable("kimi").place(pod);
/// # options.validate().unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Behind a command.
    Prefix(Prefix),
    /// In a sandbox of the operating system.
    Sandbox(Sandbox),
    /// In a container.
    Container(Container),
    /// On another machine.
    Ssh(Ssh),
    /// At a server, over the network.
    Remote(Remote),
}

impl Place {
    /// Makes a place behind a command: the words of the command come before those of the agent.
    ///
    /// ```
    /// use kimi_agent::{Place, SessionOptions};
    /// let options = SessionOptions::new().place(Place::prefix(["nice", "-n", "10"]));
    /// # options.validate().unwrap();
    /// ```
    pub fn prefix<W: Into<OsString>>(command: impl IntoIterator<Item = W>) -> Prefix {
        Prefix::new(command)
    }

    /// Makes a sandbox of the operating system: bubblewrap on Linux, Seatbelt on macOS. Without changes, the agent can write only in
    /// the working directory and its own directories, and cannot read `~/.ssh`.
    ///
    /// ```
    /// use kimi_agent::{Place, SessionOptions};
    /// let options = SessionOptions::new().place(Place::sandbox().network(false));
    /// # options.validate().unwrap();
    /// ```
    pub fn sandbox() -> Sandbox {
        Sandbox::default()
    }

    /// Makes a place in a fresh container of this image, which is removed with the agent. The agent is a program of the image, or one
    /// that is mounted. The image must be on this machine.
    ///
    /// ```
    /// use kimi_agent::{Place, SessionOptions};
    /// let options = SessionOptions::new().place(Place::container("agents:1").network(false));
    /// # options.validate().unwrap();
    /// ```
    pub fn container(image: impl Into<String>) -> Container {
        Container { image: Some(image.into()), ..Container::default() }
    }

    /// Makes a place in a running container, by its name. Its mounts must be named with [`Container::mount`].
    ///
    /// ```
    /// use kimi_agent::{Place, SessionOptions};
    /// let options = SessionOptions::new().place(Place::running_container("builder").mount(".", "/src"));
    /// # options.validate().unwrap();
    /// ```
    pub fn running_container(name: impl Into<String>) -> Container {
        Container { name: Some(name.into()), ..Container::default() }
    }

    /// Makes a place on another machine, over the system's `ssh` with its configuration. The working directory has the path
    /// `work_dir` there. Files are not copied.
    ///
    /// ```
    /// use kimi_agent::{Place, SessionOptions};
    /// let options = SessionOptions::new().place(Place::ssh("ada@build.example", "/home/ada/app"));
    /// # options.validate().unwrap();
    /// ```
    pub fn ssh(host: impl Into<String>, work_dir: impl Into<String>) -> Ssh {
        Ssh::new(host.into(), work_dir.into())
    }

    /// Makes a place that is reached over the network, by its address: an agent that a server offers over WebSocket (`wss`, `ws`) or
    /// HTTP (`https`, `http`). It speaks ACP. Nothing is started on this machine.
    ///
    /// ```
    /// use kimi_agent::{Place, SessionOptions};
    /// let place = Place::remote("wss://agents.example/acp").header("Authorization", "Bearer …");
    /// let options = SessionOptions::new().place(place);
    /// # options.validate().unwrap();
    /// ```
    pub fn remote(url: impl Into<String>) -> Remote {
        Remote::new(url.into())
    }

    /// Returns why the place cannot be used.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::Prefix(prefix) => prefix.problem(),
            Self::Sandbox(sandbox) => sandbox.problem(),
            Self::Container(container) => container.problem(),
            Self::Ssh(ssh) => ssh.problem(),
            Self::Remote(remote) => remote.problem(),
        }
    }

    /// Makes the paths of this machine absolute. `close_timeout` is how long the agent may take to exit.
    ///
    /// # Errors
    /// Returns why a path cannot be used.
    pub(crate) fn settle(&mut self, base: &Path, close_timeout: Duration) -> Checked<()> {
        match self {
            Self::Prefix(prefix) => prefix.settle(base),
            Self::Sandbox(sandbox) => sandbox.settle(base)?,
            Self::Container(container) => container.settle(base)?,
            Self::Ssh(ssh) => ssh.settle(base, close_timeout),
            Self::Remote(remote) => remote.settle(base),
        }
        Ok(())
    }

    /// Returns whether the agent can read a directory of this machine that has the same path for it.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        match self {
            Self::Prefix(_) | Self::Container(_) | Self::Ssh(_) | Self::Remote(_) => true,
            Self::Sandbox(sandbox) => sandbox.shows(path),
        }
    }

    /// Returns whether the agent reaches servers on the loopback interface of this machine.
    pub(crate) fn reaches_loopback(&self) -> bool {
        match self {
            Self::Prefix(prefix) => prefix.paths.is_empty(),
            Self::Sandbox(sandbox) => sandbox.network,
            Self::Container(container) => container.reaches_loopback(),
            Self::Ssh(_) | Self::Remote(_) => false,
        }
    }

    /// Returns a part of a sentence: how the agent can reach them, if another setting of the place lets it.
    pub(crate) fn loopback_advice(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => ", or let the sandbox have the network",
            Self::Container(container) if container.image.is_some() => {
                ", or give the container the network of this machine with `--network=host` in its `args`"
            }
            _ => "",
        }
    }

    /// Returns the paths of the agent if they differ from the program's. Such an agent cannot read other files of this machine.
    ///
    /// # Errors
    /// Returns why the paths cannot be mapped.
    pub(crate) fn path_map(&self) -> Checked<Option<PathMap>> {
        match self {
            Self::Prefix(prefix) => prefix.path_map(),
            Self::Sandbox(_) => Ok(None),
            Self::Container(container) => container.path_map(),
            Self::Ssh(ssh) => ssh.path_map(),
            Self::Remote(remote) => remote.path_map(),
        }
    }

    /// Returns where an agent is reached over the network.
    pub(crate) fn target(&self, connect_timeout: Duration, max_message_bytes: usize) -> Option<Target> {
        match self {
            Self::Remote(remote) => Some(remote.target(connect_timeout, max_message_bytes)),
            _ => None,
        }
    }

    /// Returns the address of an agent that is reached over the network.
    pub(crate) fn address(&self) -> Option<Cow<'_, str>> {
        if let Self::Remote(remote) = self { Some(remote.shown_url()) } else { None }
    }

    /// Returns the values of settings that may be secrets.
    pub(crate) fn secrets(&self) -> Vec<String> {
        if let Self::Remote(remote) = self { secrets(&remote.url, &remote.headers) } else { Vec::new() }
    }

    /// Changes how the agent is started.
    ///
    /// # Errors
    /// [`Error::Spawn`] if a program of the place is missing.
    pub(crate) fn apply(&self, launch: Launch) -> Result<Launch> {
        match self {
            Self::Prefix(prefix) => prefix.apply(launch),
            Self::Sandbox(sandbox) => sandbox.apply(launch),
            Self::Container(container) => container.apply(launch),
            Self::Ssh(ssh) => ssh.apply(launch),
            // Its launch has the address.
            Self::Remote(_) => Ok(launch),
        }
    }
}

/// The result of a check. The error is the reason why a place cannot be used.
type Checked<T> = std::result::Result<T, String>;

/// Returns why a directory cannot be shared with the agent.
fn directory_problem(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(format!("{} is not a directory", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some(format!("{} does not exist", path.display()))
        }
        Err(error) => Some(format!("{}: {error}", path.display())),
    }
}

/// Returns an absolute path. `.` at the start is the base itself.
fn absolute(path: &Path, base: &Path) -> PathBuf {
    base.join(path).components().collect()
}

/// Returns an absolute path, like [`absolute`]. `~` at the start is the home directory.
fn from_home(path: &Path, base: &Path) -> Checked<PathBuf> {
    let Ok(below) = path.strip_prefix("~") else { return Ok(absolute(path, base)) };
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    Ok(absolute(&home.ok_or("`~` is not known, because HOME is not set")?.join(below), base))
}

/// Finds a program of a place.
fn find_program(word: &OsStr, launch: &Launch, advice: &str) -> Result<PathBuf> {
    find_with(word, launch, &launch.env, advice)
}

/// Finds a program that has the environment of this program, and not that of the agent.
fn find_client(word: &OsStr, launch: &Launch, advice: &str) -> Result<PathBuf> {
    find_with(word, launch, &[], advice)
}

fn find_with(word: &OsStr, launch: &Launch, env: &[(OsString, OsString)], advice: &str) -> Result<PathBuf> {
    find_command(word, &launch.current_dir, env).map_err(|reason| {
        let shown = Path::new(word).display();
        Error::Spawn(format!(
            "can't start the agent in its place: the program {shown} (from the option `place`) was {reason}{advice}"
        ))
    })
}

/// Puts words in front of the agent's command line.
fn put_before(launch: Launch, program: PathBuf, words: impl IntoIterator<Item = OsString>) -> Launch {
    let agent = launch.program.into_os_string();
    let args = words.into_iter().chain([agent]).chain(launch.args).collect();
    Launch { program, args, ..launch }
}

#[cfg(test)]
mod tests;
