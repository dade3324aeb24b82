//! Which protocol an executable speaks, where the handshake does not tell.
//!
//! Asking the executable for its version costs a second process, so it is done only where something is odd: the agent
//! refuses a flag of the command line, answers the handshake with "method not found", or is silent for long. What was
//! found is remembered for as long as the executable's file does not change.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
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

/// A program that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// kimi-cli, which speaks Wire or what came before it.
    KimiCli(Release),
    /// Kimi Code, which speaks ACP.
    KimiCode(Release),
}

impl Product {
    /// Reads `kimi, version 1.49.0`, as kimi-cli says it, or Kimi Code's bare `2.1.0`.
    fn read(text: &str) -> Option<Self> {
        if let Some(number) = text.lines().find_map(|line| line.trim().strip_prefix("kimi, version ")) {
            return Release::parse(number).map(Self::KimiCli);
        }
        let number = text.trim();
        let bare = number.split('.').count() == 3 && number.chars().all(|c| c.is_ascii_digit() || c == '.');
        Release::parse(number).filter(|_| bare).map(Self::KimiCode)
    }

    /// What npm's package says, where the program is in one: a start would take seconds.
    fn look_at(program: &Path) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Package {
            name: String,
            version: String,
        }
        let file = std::fs::canonicalize(program).ok()?;
        let package =
            file.ancestors().skip(1).take(3).map(|dir| dir.join("package.json")).find(|file| file.exists())?;
        let package: Package = serde_json::from_slice(&std::fs::read(package).ok()?).ok()?;
        let kimi_code = package.name == "@moonshot-ai/kimi-code";
        Release::parse(&package.version).filter(|_| kimi_code).map(Self::KimiCode)
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KimiCli(release) => write!(f, "kimi-cli {release}"),
            Self::KimiCode(release) => write!(f, "Kimi Code {release}"),
        }
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
static KNOWN: LazyLock<Mutex<HashMap<Key, Product>>> = LazyLock::new(Mutex::default);

impl Subject {
    fn key(&self) -> Key {
        let changed = std::fs::metadata(&self.program).and_then(|file| file.modified()).ok();
        (self.program.clone(), self.args.clone(), changed)
    }

    /// What it said when it was asked before, or what its package says.
    pub(super) fn recall(&self) -> Option<Product> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&self.key()).copied();
        known.or_else(|| self.programs().find_map(Product::look_at))
    }

    /// The program, and its script if it is an interpreter's.
    fn programs(&self) -> impl Iterator<Item = &Path> {
        let script = self.args.first().map(Path::new).filter(|script| script.is_absolute());
        std::iter::once(&*self.program).chain(script)
    }

    /// Asks it. Boxed, as it is nearly never done, and every opening would carry it.
    pub(super) fn ask(&self) -> Pin<Box<impl Future<Output = Option<Product>>>> {
        Box::pin(self.asked())
    }

    async fn asked(&self) -> Option<Product> {
        let asked = tokio::time::timeout(PATIENCE, self.version()).await;
        let agent = asked.ok().and_then(Result::ok).as_deref().and_then(Product::read);
        match agent {
            Some(agent) => {
                tracing::info!(%agent, "the executable was asked for its version");
                KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(self.key(), agent);
            }
            None => tracing::info!("the executable says neither that it is kimi-cli nor Kimi Code"),
        }
        agent
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
            Some(Product::KimiCli(release)) if release.without_handshake().is_some() => release,
            _ => std::future::pending().await,
        }
    }
}

/// Whether an agent left because it does not know a flag, as releases do that are older than it, and Kimi Code does.
pub(super) fn refuses_a_flag(error: &Error) -> bool {
    let Error::AgentExited(AgentExit { exit_code, stderr, .. }) = error else { return false };
    match exit_code {
        Some(2) => stderr.contains("o such option"),
        Some(1) => stderr.contains("unknown option"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_known_by_what_they_say() {
        assert_eq!(Product::read("kimi, version 0.58\n"), Some(Product::KimiCli(Release::new(0, 58))));
        let patched = Release { major: 1, minor: 49, patch: 3 };
        assert_eq!(Product::read("note\nkimi, version 1.49.3"), Some(Product::KimiCli(patched)));
        assert_eq!(Product::read("2.1.0\n"), Some(Product::KimiCode(Release::new(2, 1))));
        let others = ["2.1", "2.1.0-beta", "v2.1.0", "2..0", "kimi-scripted-agent, version 0.1.0", "", "kimi, version"];
        for other in others.into_iter().chain(["kimi, version x.y", "note\n2.1.0"]) {
            assert_eq!(Product::read(other), None, "{other}");
        }
    }

    #[test]
    fn kimi_code_is_known_by_its_package() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("dist/main.mjs");
        std::fs::create_dir(dir.path().join("dist")).unwrap();
        std::fs::write(&main, "").unwrap();
        let subject = |program: &Path, args: &[&Path]| Subject {
            program: program.to_owned(),
            args: args.iter().map(Into::into).collect(),
            env: Vec::new(),
            dir: None,
        };
        assert_eq!(subject(&main, &[]).recall(), None);
        std::fs::write(dir.path().join("package.json"), r#"{"name": "@moonshot-ai/kimi-code", "version": "2.1.0"}"#)
            .unwrap();
        let kimi_code = Some(Product::KimiCode(Release::new(2, 1)));
        assert_eq!(subject(&main, &[]).recall(), kimi_code);
        let node = Path::new("/no/such/node");
        assert_eq!(subject(node, &[&main]).recall(), kimi_code);
        assert_eq!(subject(node, &[Path::new("main.mjs")]).recall(), None);
        std::fs::write(dir.path().join("package.json"), r#"{"name": "kimi", "version": "2.1.0"}"#).unwrap();
        assert_eq!(subject(&main, &[]).recall(), None);
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
            Error::AgentExited(AgentExit { exit_code: Some(code), signal: None, stderr: stderr.to_owned(), hint: None })
        };
        assert!(refuses_a_flag(&exit(2, "│ No such option: --session │")));
        assert!(refuses_a_flag(&exit(1, "error: unknown option '--wire'")));
        assert!(!refuses_a_flag(&exit(1, "No such option")));
        assert!(!refuses_a_flag(&exit(2, "Directory does not exist")));
    }
}
