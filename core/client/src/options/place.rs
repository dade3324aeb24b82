//! The place of an agent: the paths that it has there, and how it is started.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::{Dialect, InheritEnv, SessionOptions};
use crate::transport::launch::{Launch, Placed};
use crate::{Error, Place, Result};

impl SessionOptions {
    /// Sets where the agent runs. Default: on this machine, as a child of this program.
    ///
    /// ```
    /// use kimi_agent::{Place, SessionOptions};
    /// let options = SessionOptions::new().place(Place::prefix(["nice", "-n", "10"]));
    /// # options.validate().unwrap();
    /// ```
    #[must_use]
    pub fn place(mut self, place: impl Into<Place>) -> Self {
        self.place = Some(Box::new(place.into()));
        self
    }

    /// Makes the paths of the place absolute, and finds out which paths the agent has.
    pub(crate) fn settle_place(&mut self) -> Result<()> {
        if self.replayed.is_some() {
            // A recording has the paths of the program.
            self.place = None;
        }
        let base = self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?;
        let Some(place) = &mut self.place else { return Ok(()) };
        let paths = place.settle(&base, self.close_timeout).and_then(|()| place.path_map());
        self.paths = paths.map_err(|problem| self.invalid("place", problem))?;
        Ok(())
    }

    /// Settles the place of a session, and checks that the agent has its directories.
    pub(crate) fn settle_place_of_session(&mut self) -> Result<()> {
        self.settle_place()?;
        self.check_placed()
    }

    /// Checks that the agent has the directories of the session.
    pub(crate) fn check_placed(&self) -> Result<()> {
        let work_dir = self.work_dir.as_deref().unwrap_or(Path::new("."));
        let further = self.additional_directories.iter().map(|path| ("additional_directories", &**path));
        std::iter::once(("work_dir", work_dir)).chain(further).try_for_each(|(option, path)| {
            self.inside(option, path)?;
            let path = self.absolute(option, path)?;
            match self.place.as_ref().is_none_or(|place| place.shows(&path)) {
                true => Ok(()),
                false => {
                    let reason = format!(
                        "{} cannot be read in the sandbox of `place`; add it to `read` or `write`",
                        path.display()
                    );
                    Err(self.invalid(option, reason))
                }
            }
        })
    }

    /// Returns the absolute path of a file or directory of this machine, as the agent has it.
    pub(crate) fn inside(&self, option: &str, path: &Path) -> Result<PathBuf> {
        let path = self.absolute(option, path)?;
        let Some(paths) = &self.paths else { return Ok(path) };
        paths.to_agent(&path).map(PathBuf::from).ok_or_else(|| {
            let shared: Vec<_> = paths.directories().map(|path| path.display().to_string()).collect();
            let reason = format!(
                "{} is outside of the directories that the agent has in its `place`: {}",
                path.display(),
                shared.join(", ")
            );
            self.invalid(option, reason)
        })
    }

    /// Returns the address of an agent that is reached over the network.
    pub(crate) fn remote_address(&self) -> Option<Cow<'_, str>> {
        self.place.as_deref().and_then(Place::address)
    }

    /// Returns why an option cannot be combined with an agent that is reached over the network, and not started here.
    pub(super) fn problem_with_remote(&self, option: &str) -> Option<String> {
        let is_set = match option {
            "executable" => self.executable.is_some(),
            "extra_args" => !self.extra_args.is_empty(),
            "env" => !self.env.is_empty() || !self.inherited.removed.is_empty(),
            "inherit_env" => self.inherited.rule != InheritEnv::default(),
            "dialect" => !matches!(self.dialect, Dialect::Auto | Dialect::Acp),
            _ => false,
        };
        let place = self.place.as_deref().filter(|place| is_set && place.problem().is_none())?;
        let address = place.address()?;
        Some(match option {
            "dialect" => format!("the agent at {address} (from `place`) is reached over ACP; leave the option out"),
            _ => format!(
                "the agent at {address} (from `place`) is not started here; leave the option out, and configure the server"
            ),
        })
    }

    /// Returns how the agent is reached over the network.
    pub(crate) fn launch_remote(&self) -> Result<Launch> {
        let address = self.remote_address().unwrap_or_default().into_owned();
        if let Some(limit) = self.first_limit() {
            let limit = self.naming.name(limit);
            return Err(Error::Unsupported(format!(
                "an agent that is reached over the network does not support `{limit}`; configure the agent at {address} itself"
            )));
        }
        let current_dir = self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?;
        let target = self.place.as_deref().and_then(|place| place.target(self.handshake_timeout, self.max_line_bytes));
        Ok(Launch {
            program: address.into(),
            args: Vec::new(),
            env: Vec::new(),
            inherited: Default::default(),
            current_dir,
            private: Default::default(),
            server: None,
            is_gateway: false,
            placed: Box::new(Placed { paths: self.paths.clone(), remote: target, ..Placed::default() }),
        })
    }

    /// Returns how the agent is started in its place.
    pub(crate) fn placed(&self, launch: Launch) -> Result<Launch> {
        let Some(place) = &self.place else { return Ok(launch) };
        if launch.placed.remote.is_some() {
            return Ok(launch);
        }
        place.apply(Launch { placed: Box::new(Placed { paths: self.paths.clone(), ..Placed::default() }), ..launch })
    }

    /// Refuses tools that the agent could not call: their server listens on the loopback interface of this machine.
    pub(crate) fn check_tools_reachable(&self) -> Result<()> {
        if self.tools.is_empty() || self.reaches_loopback() {
            return Ok(());
        }
        if let Some(address) = self.remote_address() {
            return Err(Error::Unsupported(format!(
                "an agent of ACP calls `tools` through a server on 127.0.0.1 of this machine, which the agent at {address} does not reach; \
                 leave `tools` out, or offer them to the agent as an MCP server that it reaches, in `mcp_configs`"
            )));
        }
        let advice = self.place.as_deref().map_or("", Place::loopback_advice);
        Err(Error::Unsupported(format!(
            "an agent of ACP calls `tools` through a server on 127.0.0.1 of this machine, which it does not reach from its `place`; \
             leave `tools` out, or use an agent of Wire{advice}"
        )))
    }

    /// Returns whether the agent reaches servers on the loopback interface of this machine.
    pub(crate) fn reaches_loopback(&self) -> bool {
        self.place.as_deref().is_none_or(Place::reaches_loopback)
    }

    /// Returns why the agent does not reach the address of an MCP server from its place.
    pub(super) fn unreachable_url(&self, url: &str) -> Option<String> {
        let host = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
        let host = host.rsplit('@').next()?.trim_start_matches('[');
        let is_loopback = host.to_ascii_lowercase().starts_with("localhost")
            || ["127.", "0.0.0.0", "::1]", "::]"].iter().any(|start| host.starts_with(start));
        (is_loopback && !self.reaches_loopback())
            .then(|| format!("{url} is an address of this machine, which the agent does not reach from its `place`"))
    }
}
