//! A command in front of the agent's, such as `kubectl exec`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kimi_agent_protocol::place::PathMap;

use super::{Checked, Place, absolute, directory_problem, find_program, put_before};
use crate::Result;
use crate::transport::launch::Launch;

/// A place behind a command. [`Place::prefix`] makes it.
///
/// ```
/// use kimi_agent::Place;
/// let pod = Place::prefix(["kubectl", "exec", "-i", "pod", "--"]).path(".", "/work");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub(super) command: Vec<OsString>,
    pub(super) paths: Vec<(PathBuf, String)>,
}

impl Prefix {
    pub(super) fn new<W: Into<OsString>>(command: impl IntoIterator<Item = W>) -> Self {
        Self { command: command.into_iter().map(Into::into).collect(), paths: Vec::new() }
    }

    /// Adds a directory that the agent has under another path. A relative one is relative to the working directory. With such
    /// a directory, the agent has no other paths of this machine.
    ///
    /// ```
    /// let pod = kimi_agent::Place::prefix(["devcontainer", "exec"]).path(".", "/workspaces/app");
    /// ```
    #[must_use]
    pub fn path(mut self, directory: impl Into<PathBuf>, inside: impl Into<String>) -> Self {
        self.paths.push((directory.into(), inside.into()));
        self
    }

    pub(super) fn problem(&self) -> Option<String> {
        if self.command.first().is_none_or(|program| program.is_empty()) {
            return Some("`command`: expected a program and its arguments, got none".to_owned());
        }
        let has_nul = |word: &OsString| word.as_encoded_bytes().contains(&0);
        self.command.iter().any(has_nul).then(|| "`command`: it contains a NUL byte".to_owned())
    }

    pub(super) fn settle(&mut self, base: &Path) {
        self.paths.iter_mut().for_each(|(directory, _)| *directory = absolute(directory, base));
    }

    pub(super) fn path_map(&self) -> Checked<Option<PathMap>> {
        if self.paths.is_empty() {
            return Ok(None);
        }
        if let Some(problem) = self.paths.iter().find_map(|(directory, _)| directory_problem(directory)) {
            return Err(format!("`paths`: {problem}"));
        }
        PathMap::new(self.paths.iter().cloned()).map(Some).map_err(|problem| format!("`paths`: {problem}"))
    }

    pub(super) fn apply(&self, launch: Launch) -> Result<Launch> {
        let Some((program, words)) = self.command.split_first() else { return Ok(launch) };
        let program = find_program(program, &launch, "")?;
        Ok(put_before(launch, program, words.iter().cloned()))
    }
}

impl From<Prefix> for Place {
    fn from(prefix: Prefix) -> Self {
        Self::Prefix(prefix)
    }
}
