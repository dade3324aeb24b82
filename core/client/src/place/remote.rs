//! An agent that runs elsewhere, and is reached over WebSocket or HTTP.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kimi_agent_protocol::place::PathMap;

use super::{Checked, Place};
use crate::transport::launch::Target;

/// A place that is reached over the network: an agent that a server offers. [`Place::remote`] makes it.
///
/// Nothing is started here. The transport is that of the proposal of ACP for WebSocket and HTTP.
///
/// ```
/// use kimi_agent::Place;
/// let place = Place::remote("wss://agents.example/acp").header("Authorization", "Bearer …").work_dir("/srv/app");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) work_dir: Option<String>,
    /// The directory of this machine that has the path `work_dir` there, once it is known.
    pub(super) base: Option<PathBuf>,
}

impl fmt::Debug for Remote {
    /// Shows neither the values of headers nor the query of the URL, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let mut shown = f.debug_struct("Remote");
        shown.field("url", &self.shown_url()).field("headers", &names).field("work_dir", &self.work_dir);
        shown.finish_non_exhaustive()
    }
}

impl Remote {
    pub(super) fn new(url: String) -> Self {
        Self { url, headers: Vec::new(), work_dir: None, base: None }
    }

    /// Adds a header of each request, for example `Authorization`. Values are not shown in logs, errors and recordings.
    ///
    /// ```
    /// let place = kimi_agent::Place::remote("wss://agents.example/acp").header("Authorization", "Bearer …");
    /// ```
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the absolute path that the working directory of the session has for the agent. Default: the agent has the same paths as
    /// this program.
    ///
    /// ```
    /// let place = kimi_agent::Place::remote("wss://agents.example/acp").work_dir("/srv/app");
    /// ```
    #[must_use]
    pub fn work_dir(mut self, work_dir: impl Into<String>) -> Self {
        self.work_dir = Some(work_dir.into());
        self
    }

    /// Returns the URL without its query, and without the name and the password of a user.
    pub(super) fn shown_url(&self) -> Cow<'_, str> {
        let url = self.url.split(['?', '#']).next().unwrap_or_default();
        let host = url.find("//").map_or(0, |at| at + 2);
        let end = url[host..].find('/').map_or(url.len(), |at| host + at);
        match url[host..end].rfind('@') {
            Some(at) => Cow::Owned([&url[..host], &url[host + at + 1..]].concat()),
            None => Cow::Borrowed(url),
        }
    }

    pub(super) fn problem(&self) -> Option<String> {
        #[cfg(feature = "remote")]
        if let Err(problem) = crate::transport::remote_address(&self.url, &self.headers) {
            return Some(problem);
        }
        let work_dir = self.work_dir.as_ref()?;
        (!work_dir.starts_with('/') || work_dir.contains(['\0', '\n'])).then(|| {
            format!("`work_dir`: expected an absolute path that the agent has, such as \"/srv/app\", got {work_dir:?}")
        })
    }

    /// Returns where the agent is reached.
    pub(super) fn target(&self, connect_timeout: Duration, max_message_bytes: usize) -> Target {
        Target { url: self.url.clone(), headers: self.headers.clone(), connect_timeout, max_message_bytes }
    }

    pub(super) fn settle(&mut self, base: &Path) {
        self.base = Some(base.to_owned());
    }

    pub(super) fn path_map(&self) -> Checked<Option<PathMap>> {
        let Some(work_dir) = &self.work_dir else { return Ok(None) };
        let base = self.base.clone().unwrap_or_default();
        PathMap::new([(base, work_dir.clone())]).map(Some).map_err(|problem| format!("`work_dir`: {problem}"))
    }
}

/// Returns the values that may be secrets: those of headers, and the query of the URL.
pub(crate) fn secrets(url: &str, headers: &[(String, String)]) -> Vec<String> {
    let values = headers.iter().map(|(_, value)| &**value);
    // A server can write a token without the word in front of it.
    let tokens = values.clone().filter_map(|value| value.split_once(' ')).map(|(_, token)| token.trim());
    let query = url.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    let parameters = query.split('&').map(|parameter| parameter.split_once('=').map_or(parameter, |(_, value)| value));
    let found = values.chain(tokens).chain(parameters);
    found.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

impl From<Remote> for Place {
    fn from(remote: Remote) -> Self {
        Self::Remote(remote)
    }
}
