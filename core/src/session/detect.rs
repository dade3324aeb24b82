//! Which protocol an executable speaks, where the handshake does not tell.
//!
//! Asking the executable for its version costs a second process, so it is done only where something is odd: the agent
//! refuses a flag of the command line, answers the handshake with "method not found", or is silent for long. What was
//! found is remembered for as long as the executable's file does not change.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::io::AsyncReadExt;

use crate::dialect::{Dialect, Legacy, Wire, WireVersion};
use crate::error::{AgentExit, Error};
use crate::wire::ServerInfo;

/// How long an agent may be silent before its executable is asked: old ones ignore the handshake, but a new one on a
/// loaded machine takes its time, too.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// How long an executable may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(30);

/// A release of kimi-cli.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Release {
    pub(crate) const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor, patch: 0 }
    }

    /// Reads `kimi, version 1.49.0`. Others than kimi-cli say it otherwise: Kimi Code prints the bare number.
    fn read(text: &str) -> Option<Self> {
        Self::parse(text.lines().find_map(|line| line.trim().strip_prefix("kimi, version "))?)
    }

    /// Reads `1.49.0`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.');
        let mut number = || numbers.next().map(|number| number.trim().parse());
        Some(Self {
            major: number()?.ok()?,
            minor: number()?.ok()?,
            patch: number().and_then(Result::ok).unwrap_or_default(),
        })
    }

    /// The protocol that it speaks, where it speaks one without a handshake.
    fn without_handshake(self) -> Option<Box<dyn Dialect>> {
        if self < Self::new(0, 59) {
            Some(Box::new(Legacy::new(Some(self.server()))))
        } else if self < Self::new(0, 80) {
            Some(Box::new(Wire::without_handshake(self.server())))
        } else {
            None
        }
    }

    pub(crate) fn is_legacy(self) -> bool {
        self < Self::new(0, 59)
    }

    /// What to speak with it from the start.
    pub(super) fn dialect(self) -> Box<dyn Dialect> {
        self.without_handshake().unwrap_or_else(|| Box::new(Wire::new(WireVersion::LATEST)))
    }

    fn server(self) -> ServerInfo {
        ServerInfo { name: "kimi-cli".to_owned(), version: self.to_string(), extra: Default::default() }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        // Up to 1.5 releases have two numbers, later ones three.
        if *self < Self::new(1, 6) { Ok(()) } else { write!(f, ".{}", self.patch) }
    }
}

/// What is started, without the flags of a session. Without `Debug`: values of variables may be secrets.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) dir: Option<PathBuf>,
}

type Key = (PathBuf, Vec<OsString>, Option<SystemTime>);

/// What executables said of themselves.
static KNOWN: LazyLock<Mutex<HashMap<Key, Release>>> = LazyLock::new(Mutex::default);

impl Subject {
    fn key(&self) -> Key {
        let changed = std::fs::metadata(&self.program).and_then(|file| file.modified()).ok();
        (self.program.clone(), self.args.clone(), changed)
    }

    /// What it said when it was asked before.
    pub(super) fn recall(&self) -> Option<Release> {
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&self.key()).copied()
    }

    /// Asks it.
    pub(super) async fn ask(&self) -> Option<Release> {
        let asked = tokio::time::timeout(PATIENCE, self.version()).await;
        let release = asked.ok().and_then(Result::ok).as_deref().and_then(Release::read);
        match release {
            Some(release) => {
                tracing::info!(%release, "the executable was asked for its version");
                KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(self.key(), release);
            }
            None => tracing::info!("the executable does not say that it is kimi-cli"),
        }
        release
    }

    async fn version(&self) -> std::io::Result<String> {
        let mut command = tokio::process::Command::new(&self.program);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let mut child = command
            .args(&self.args)
            .arg("--version")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut text = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(4096).read_to_end(&mut text).await?;
        }
        child.wait().await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The protocol to speak with an agent that has been silent for long, if its executable is one of those that
    /// ignore a handshake; never resolves otherwise.
    pub(super) async fn after_silence(&self) -> Release {
        tokio::time::sleep(SILENCE).await;
        match self.ask().await {
            Some(release) if release.without_handshake().is_some() => release,
            _ => std::future::pending().await,
        }
    }
}

/// Whether an agent left because it does not know a flag, as releases do that are older than it.
pub(super) fn refuses_a_flag(error: &Error) -> bool {
    matches!(error, Error::AgentExited(AgentExit { exit_code: Some(2), stderr, .. }) if stderr.contains("o such option"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kimi_cli_is_taken_for_it() {
        assert_eq!(Release::read("kimi, version 0.58\n"), Some(Release::new(0, 58)));
        assert_eq!(Release::read("note\nkimi, version 1.49.3"), Some(Release { major: 1, minor: 49, patch: 3 }));
        for other in ["2.1.0", "kimi-scripted-agent, version 0.1.0", "", "kimi, version", "kimi, version x.y"] {
            assert_eq!(Release::read(other), None, "{other}");
        }
    }

    #[test]
    fn releases_are_numbers_and_speak_what_they_speak() {
        assert!(Release::new(0, 100) > Release::new(0, 59));
        assert_eq!(Release::new(0, 58).to_string(), "0.58");
        assert_eq!(Release::new(1, 49).to_string(), "1.49.0");
        let welcome = |release: Release| release.dialect().unasked().map(|welcome| welcome.protocol_version);
        assert_eq!(welcome(Release::new(0, 58)).as_deref(), Some("legacy"));
        assert_eq!(welcome(Release::new(0, 79)).as_deref(), Some("1.0"));
        assert_eq!(welcome(Release::new(0, 80)), None);
    }

    #[test]
    fn only_a_flag_that_is_not_known_is_one() {
        let exit = |code, stderr: &str| {
            Error::AgentExited(AgentExit { exit_code: Some(code), signal: None, stderr: stderr.to_owned() })
        };
        assert!(refuses_a_flag(&exit(2, "│ No such option: --session │")));
        assert!(!refuses_a_flag(&exit(1, "No such option")));
        assert!(!refuses_a_flag(&exit(2, "Directory does not exist")));
    }
}
