//! Which protocol an executable speaks, where the handshake does not tell.
//!
//! Asking the executable for its version costs a second process, so it is done only where something is odd: the agent
//! refuses a flag of the command line, answers the handshake with "method not found", or is silent for long. What was
//! found is remembered for as long as the executable's file does not change.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::io::AsyncReadExt;

use crate::dialect::{AgentKind, Release};
use crate::error::{AgentExit, Error};

/// How long an agent may be silent before its executable is asked: old ones ignore the handshake, but a new one on a
/// loaded machine takes its time, too.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// How long an executable may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads the kind of agent from the npm package that holds the program. Starting the program would take seconds.
fn agent_of_package(program: &Path) -> Option<AgentKind> {
    #[derive(serde::Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    let file = std::fs::canonicalize(program).ok()?;
    let package = file.ancestors().skip(1).take(3).map(|dir| dir.join("package.json")).find(|file| file.exists())?;
    let package: Package = serde_json::from_slice(&std::fs::read(package).ok()?).ok()?;
    let kimi_code = package.name == "@moonshot-ai/kimi-code";
    Release::parse(&package.version).filter(|_| kimi_code).map(AgentKind::KimiCode)
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
static KNOWN: LazyLock<Mutex<HashMap<Key, AgentKind>>> = LazyLock::new(Mutex::default);

impl Subject {
    fn key(&self) -> Key {
        let changed = std::fs::metadata(&self.program).and_then(|file| file.modified()).ok();
        (self.program.clone(), self.args.clone(), changed)
    }

    /// What it said when it was asked before, or what its package says.
    pub(super) fn recall(&self) -> Option<AgentKind> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&self.key()).copied();
        known.or_else(|| self.programs().find_map(agent_of_package))
    }

    /// The program, and its script if it is an interpreter's.
    fn programs(&self) -> impl Iterator<Item = &Path> {
        let script = self.args.first().map(Path::new).filter(|script| script.is_absolute());
        std::iter::once(&*self.program).chain(script)
    }

    /// Asks it. Boxed, as it is nearly never done, and every opening would carry it.
    pub(super) fn ask(&self) -> Pin<Box<impl Future<Output = Option<AgentKind>>>> {
        Box::pin(self.asked())
    }

    async fn asked(&self) -> Option<AgentKind> {
        let asked = tokio::time::timeout(PATIENCE, self.version()).await;
        let agent = asked.ok().and_then(Result::ok).as_deref().and_then(AgentKind::read);
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
            Some(AgentKind::KimiCli(release)) if release.without_handshake().is_some() => release,
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
        let kimi_code = Some(AgentKind::KimiCode(Release::new(2, 1)));
        assert_eq!(subject(&main, &[]).recall(), kimi_code);
        let node = Path::new("/no/such/node");
        assert_eq!(subject(node, &[&main]).recall(), kimi_code);
        assert_eq!(subject(node, &[Path::new("main.mjs")]).recall(), None);
        std::fs::write(dir.path().join("package.json"), r#"{"name": "kimi", "version": "2.1.0"}"#).unwrap();
        assert_eq!(subject(&main, &[]).recall(), None);
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
