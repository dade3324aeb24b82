//! The agents that are installed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kimi_agent_client::host::program;
use kimi_agent_client::{Executable, Result, SessionOptions};
use kimi_agent_protocol::dialect::{INSTALL_KIMI_CODE, KNOWN_AGENTS};
use serde::Serialize;

/// An agent to look at.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) name: String,
    /// `None` for the agent of a session without the option.
    pub(super) executable: Option<Executable>,
    pub(super) found: Result<PathBuf>,
}

/// A known agent that is not installed.
#[derive(Debug, Serialize)]
pub(super) struct Missing {
    pub(super) name: &'static str,
    pub(super) program: &'static str,
    pub(super) install: &'static str,
}

/// Returns the known agents that are installed, and the others. The agent of $KIMI_AGENT_EXECUTABLE comes first.
pub(super) fn installed() -> (Vec<Candidate>, Vec<Missing>) {
    let (mut found, mut missing, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    if std::env::var_os("KIMI_AGENT_EXECUTABLE").is_some_and(|value| !value.is_empty()) {
        let program = program(&SessionOptions::new());
        if let Ok((path, args)) = &program
            && args.is_empty()
        {
            seen.insert(real(path));
        }
        let path = program.map(|(path, _)| path);
        found.push(Candidate { name: "$KIMI_AGENT_EXECUTABLE".to_owned(), executable: None, found: path });
    }
    let kimi = ("Kimi Code, kimi-cli", &["kimi"][..], INSTALL_KIMI_CODE);
    let known = KNOWN_AGENTS.iter().map(|agent| (agent.name, agent.programs, agent.install));
    for (name, programs, install) in std::iter::once(kimi).chain(known) {
        let paths: Vec<PathBuf> = programs.iter().flat_map(|program| on_path(program)).collect();
        if paths.is_empty() {
            missing.push(Missing { name, program: programs.first().copied().unwrap_or_default(), install });
        }
        for path in paths {
            // Directories of PATH can be links to each other.
            if seen.insert(real(&path)) {
                let executable = Some(path.clone().into());
                found.push(Candidate { name: name.to_owned(), executable, found: Ok(path) });
            }
        }
    }
    (found, missing)
}

/// Returns a path without links.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the programs of this name on PATH. The first is the one that a session starts.
fn on_path(name: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).filter(|place| place.is_absolute());
    let found = |place: PathBuf| program(&SessionOptions::new().executable(place.join(name))).ok();
    places.filter_map(found).map(|(path, _)| path).collect()
}
