//! `kimi-agent doctor`.
//!
//! - `search`: the agents that are installed
//! - `probe`: what an agent says when a session opens
//! - `page`: the findings as text
//! - `editors`: the settings of editors for an agent behind the proxy

mod editors;
mod page;
mod probe;
mod search;

use std::sync::Arc;

use clap::Args;
use kimi_agent_client::host::program;
use kimi_agent_client::{Dialect, SessionOptions};
use kimi_agent_files::PrivateDir;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::interrupts::Interrupts;
use crate::session_arguments::{Seconds, duration, executable_of};
use crate::{Failure, exit, write_out};
use kimi_agent_protocol::printable::visible_json;
use probe::Finding;
use search::{Candidate, Missing};

/// The arguments of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    /// The agents to look at: names, paths or command lines. Default: every known agent that is installed.
    ///
    /// The agents start in a temporary directory. Write absolute paths in the arguments of a command line.
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// The protocol: auto, acp, kimi-web, legacy, or a version of Wire.
    #[arg(long, value_name = "PROTOCOL", default_value = "auto")]
    dialect: Dialect,
    /// The time for each agent to start and to open a session, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", allow_negative_numbers = true)]
    timeout: Seconds,
    /// Prints the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
struct Findings {
    version: &'static str,
    platform: String,
    /// Variables that matter. A value that may be secret is null.
    environment: Vec<Variable>,
    agents: Vec<Finding>,
    missing: Vec<Missing>,
}

/// A variable of the environment.
#[derive(Debug, Serialize)]
struct Variable {
    name: &'static str,
    value: Option<String>,
}

/// Variables with paths and names, which are shown.
const SHOWN: [&str; 7] = [
    "KIMI_AGENT_EXECUTABLE",
    "KIMI_AGENT_RECORD",
    "KIMI_CODE_HOME",
    "KIMI_SHARE_DIR",
    "KIMI_MODEL_NAME",
    "KIMI_SCRIPTED_AGENT",
    "GOOGLE_CLOUD_PROJECT",
];
/// Variables with keys or with addresses that may contain passwords. Only their names are shown.
const HIDDEN: [&str; 13] = [
    "KIMI_API_KEY",
    "KIMI_BASE_URL",
    "KIMI_MODEL_API_KEY",
    "KIMI_MODEL_BASE_URL",
    "KIMI_CODE_PASSWORD",
    "MOONSHOT_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "OPENAI_API_KEY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Looks at the agents. Returns the exit code: 0 if one of them can be used.
pub(crate) async fn run(arguments: DoctorArguments) -> Result<i32, Failure> {
    let mut interrupts = Interrupts::new()?;
    let timeout = duration("--timeout", &arguments.timeout)?;
    let (candidates, missing) = match &*arguments.agents {
        [] => search::installed(),
        agents => (agents.iter().map(|agent| named(agent)).collect::<Result<_, _>>()?, Vec::new()),
    };
    let folder = PrivateDir::new();
    let folder = folder.map_err(|error| Failure::Because(format!("no temporary folder can be made: {error}")))?;
    let folder = Arc::new(folder);
    let mut probes = JoinSet::new();
    for (place, candidate) in candidates.into_iter().enumerate() {
        let folder = Arc::clone(&folder);
        let options = SessionOptions::new().handshake_timeout(timeout).dialect(arguments.dialect);
        probes.spawn(async move { (place, probe::probed(candidate, place, options, &folder).await) });
    }
    let mut agents = tokio::select! {
        biased;
        () = interrupts.next() => return Err(Failure::Cancelled),
        agents = probes.join_all() => agents,
    };
    agents.sort_by_key(|(place, _)| *place);
    let findings = Findings {
        version: env!("CARGO_PKG_VERSION"),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        environment: environment(),
        agents: agents.into_iter().map(|(_, finding)| finding).collect(),
        missing,
    };
    let text = match arguments.json {
        true => format!("{}\n", visible_json(&format!("{:#}", serde_json::to_value(&findings).unwrap_or_default()))),
        false => page::of(&findings),
    };
    write_out(text.as_bytes())?;
    Ok(if findings.agents.iter().any(Finding::is_usable) { exit::SUCCEEDED } else { exit::FAILED })
}

/// Returns the agent of an argument.
fn named(agent: &str) -> Result<Candidate, Failure> {
    let executable = executable_of(agent)?;
    let found = program(&SessionOptions::new().executable(executable.clone()));
    Ok(Candidate { name: agent.to_owned(), executable: Some(executable), found: found.map(|(path, _)| path) })
}

fn environment() -> Vec<Variable> {
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let shown =
        |name: &&'static str| Some(Variable { name, value: Some(probe::masked(&value(name)?.to_string_lossy())) });
    let hidden = |name: &&'static str| value(name).map(|_| Variable { name, value: None });
    SHOWN.iter().filter_map(shown).chain(HIDDEN.iter().filter_map(hidden)).collect()
}
