//! Detects the protocol of an executable if the handshake does not show it.
//!
//! Running the executable with `--version` costs a second process, so it happens only in three cases: the agent refuses
//! a flag of the command line, answers the handshake with "method not found", or is silent for a long time. The result
//! is cached until the executable's file changes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::io::AsyncReadExt;

use crate::dialect::{AgentKind, KnownAgent, Release};
use crate::error::{AgentExit, Error, Result};
use crate::options::Inherited;
use crate::place::Place;
use crate::transport::launch::{Launch, PrivateFiles};
use crate::transport::{self, Transport};

/// How long an agent may be silent before its executable is run. Old agents ignore the handshake, but a new one on a
/// slow machine takes its time, too.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// The time for an executable to print its version.
const PATIENCE: Duration = Duration::from_secs(30);

/// Detects the kind of agent from the npm package of the program. Starting the program would take seconds.
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

/// The command without the flags of a session. It has no `Debug`: values of variables may be secrets.
#[derive(Clone)]
pub(super) struct AgentCommand {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) inherited: Inherited,
    pub(super) dir: Option<PathBuf>,
    /// The place in which the program runs.
    pub(super) place: Option<Box<Place>>,
}

type Key = (PathBuf, Vec<OsString>, Option<SystemTime>, Option<String>);

/// The results for executables that were run before.
static KNOWN: LazyLock<Mutex<HashMap<Key, AgentKind>>> = LazyLock::new(Mutex::default);

impl AgentCommand {
    fn key(&self) -> Key {
        let changed = std::fs::metadata(&self.program).and_then(|file| file.modified()).ok();
        let place = self.place.as_ref().map(|place| format!("{place:?}"));
        (self.program.clone(), self.args.clone(), changed, place)
    }

    /// Returns the cached result, the version of the npm package, or the agent that is known by the program's name.
    pub(super) fn recall(&self) -> Option<AgentKind> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&self.key()).copied();
        let by_name = || KnownAgent::of_program(&self.program).map(AgentKind::Other);
        known.or_else(|| self.programs().find_map(agent_of_package)).or_else(by_name)
    }

    /// Returns the program, and its script if the program is an interpreter.
    fn programs(&self) -> impl Iterator<Item = &Path> {
        let script = self.args.first().map(Path::new).filter(|script| script.is_absolute());
        std::iter::once(&*self.program).chain(script)
    }

    /// Runs the executable. Boxed, because it is rarely called, and every opening would contain its future.
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

    async fn version(&self) -> Result<String> {
        let dir = self.dir.as_ref().map_or_else(std::env::current_dir, |dir| Ok(dir.clone()));
        let launch = Launch {
            program: self.program.clone(),
            args: self.args.iter().cloned().chain(["--version".into()]).collect(),
            env: self.env.clone(),
            inherited: self.inherited.clone(),
            current_dir: dir.map_err(|error| Error::Spawn(error.to_string()))?,
            private: PrivateFiles::default(),
            server: None,
            is_gateway: false,
            placed: Default::default(),
        };
        let launch = match &self.place {
            Some(place) => place.apply(launch)?,
            None => launch,
        };
        let Transport { reader, writer, mut process, .. } = transport::spawn(launch, None).await?;
        drop(writer);
        let mut text = Vec::new();
        reader.take(4096).read_to_end(&mut text).await.map_err(|error| Error::Spawn(error.to_string()))?;
        process.wait().await;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the protocol to use with an agent that was silent for a long time, if its executable is one that ignores
    /// a handshake. Otherwise it never returns.
    pub(super) async fn after_silence(&self) -> Release {
        tokio::time::sleep(SILENCE).await;
        match self.ask().await {
            Some(AgentKind::KimiCli(release)) if release.without_handshake().is_some() => release,
            _ => std::future::pending().await,
        }
    }
}

/// Returns whether an agent exited because it does not know a flag. Older releases and Kimi Code do.
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
        let command = |program: &Path, args: &[&Path]| AgentCommand {
            program: program.to_owned(),
            args: args.iter().map(Into::into).collect(),
            env: Vec::new(),
            inherited: Inherited::default(),
            dir: None,
            place: None,
        };
        assert_eq!(command(&main, &[]).recall(), None);
        std::fs::write(dir.path().join("package.json"), r#"{"name": "@moonshot-ai/kimi-code", "version": "2.1.0"}"#)
            .unwrap();
        let kimi_code = Some(AgentKind::KimiCode(Release::new(2, 1)));
        assert_eq!(command(&main, &[]).recall(), kimi_code);
        let node = Path::new("/no/such/node");
        assert_eq!(command(node, &[&main]).recall(), kimi_code);
        assert_eq!(command(node, &[Path::new("main.mjs")]).recall(), None);
        std::fs::write(dir.path().join("package.json"), r#"{"name": "kimi", "version": "2.1.0"}"#).unwrap();
        assert_eq!(command(&main, &[]).recall(), None);
        let other = command(Path::new("/no/such/gemini"), &[]).recall().map(|agent| agent.to_string());
        assert_eq!(other.as_deref(), Some("Gemini CLI"));
    }

    #[test]
    fn only_unknown_flag_counts_as_refused_flag() {
        let exit = |code, stderr: &str| {
            Error::AgentExited(AgentExit {
                exit_code: Some(code),
                signal: None,
                stderr: stderr.to_owned(),
                ..AgentExit::default()
            })
        };
        assert!(refuses_a_flag(&exit(2, "│ No such option: --session │")));
        assert!(refuses_a_flag(&exit(1, "error: unknown option '--wire'")));
        assert!(!refuses_a_flag(&exit(1, "No such option")));
        assert!(!refuses_a_flag(&exit(2, "Directory does not exist")));
    }
}
