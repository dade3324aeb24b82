//! `kimi-agent mcp`: agents as tools of an MCP server, so that one agent can call another.
//!
//! - `service`: the tools, and the answers to calls
//! - `sessions`: the open sessions, and their turns
//! - `progress`: the reports about a running turn

mod progress;
mod service;
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use kimi_agent_client::SessionOptions;
use rmcp::ServiceExt as _;

use crate::console::Console;
use crate::interrupts::Interrupts;
use crate::run::approvals;
use crate::session_arguments::{SessionArguments, executable_of};
use crate::{Failure, exit};
use service::Service;
use sessions::Sessions;

/// The arguments of `mcp`.
#[derive(Args, Debug)]
pub(crate) struct McpArguments {
    /// An agent that the tools run: a program such as gemini, or NAME=COMMAND. Can be repeated.
    #[arg(short, long = "agent", value_name = "AGENT", required = true, allow_hyphen_values = true)]
    agents: Vec<String>,
    /// The number of sessions that stay open. The one that was used least recently is closed for a new one. If all of them are in use, `run` fails.
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    max_sessions: u16,
    #[command(flatten)]
    session: SessionArguments,
}

/// The arguments of sessions that this command does not have, with the reason.
const WITHOUT: [(&str, &str); 3] = [
    ("--executable", "name the agent with --agent"),
    ("--session-id", "each call of the tool `run` opens a new session"),
    ("--output-schema", "each call of a tool has a schema of its own"),
];

/// Serves the tools until the client closes the standard input.
pub(crate) async fn run(arguments: McpArguments) -> Result<i32, Failure> {
    let mut interrupts = Interrupts::new()?;
    let console = Arc::new(Console::new(false));
    let sessions = Arc::new(Sessions::new(arguments.agents(&console)?, arguments.max_sessions.into()));
    let served = async {
        let service = Service::new(Arc::clone(&sessions));
        match service.serve((tokio::io::stdin(), tokio::io::stdout())).await {
            Ok(running) => running.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    };
    let outcome = tokio::select! {
        biased;
        () = interrupts.next() => Err(Failure::Cancelled),
        served = served => served.map(|()| exit::SUCCEEDED).map_err(|reason| Failure::Because(format!("the client cannot be served: {reason}"))),
    };
    tokio::select! {
        biased;
        () = interrupts.next() => {}
        () = sessions.close() => {}
    }
    outcome
}

impl McpArguments {
    /// Returns the options of sessions with each agent, by its name.
    fn agents(&self, console: &Arc<Console>) -> Result<Vec<(String, SessionOptions)>, Failure> {
        let SessionArguments { executable, session_id, output_schema, work_dir, .. } = &self.session;
        let given = [!executable.is_empty(), session_id.is_some(), output_schema.is_some()];
        if let Some(((argument, reason), _)) = WITHOUT.iter().zip(given).find(|(_, is_given)| *is_given) {
            return Err(Failure::wrong(argument, format!("`mcp` does not have it: {reason}")));
        }
        let work_dir = work_dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let work_dir = std::path::absolute(&work_dir).unwrap_or(work_dir);
        let mut agents: Vec<(String, SessionOptions)> = Vec::new();
        for agent in &self.agents {
            let (name, command) = named(agent).ok_or_else(|| {
                Failure::wrong("--agent", format!("expected a program, or NAME=COMMAND, got {agent:?}"))
            })?;
            if agents.iter().any(|(known, _)| *known == name) {
                return Err(Failure::wrong("--agent", format!("two agents have the name {name:?}; use NAME=COMMAND")));
            }
            let executable = executable_of(command).map_err(|failure| failure.of_argument("--agent"))?;
            let options = self.session.options()?.executable(executable);
            // Nobody is asked: the standard input belongs to the client.
            let options = approvals::rejecting(options, console, &work_dir);
            agents.push((name, options));
        }
        Ok(agents)
    }
}

/// Returns the name of an agent, and its command.
fn named(agent: &str) -> Option<(String, &str)> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.'))
    };
    if let Some((name, command)) = agent.split_once('=').filter(|(name, _)| is_name(name)) {
        return (!command.trim().is_empty()).then(|| (name.to_owned(), command));
    }
    let program = if Path::new(agent).is_file() { agent } else { agent.split_whitespace().next()? };
    let name = Path::new(program).file_stem()?.to_str()?;
    is_name(name).then(|| (name.to_owned(), agent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_have_names() {
        for (given, expected) in [
            ("gemini", Some(("gemini", "gemini"))),
            ("/opt/bin/codex-acp --fast", Some(("codex-acp", "/opt/bin/codex-acp --fast"))),
            ("reviewer=node agent.js --acp", Some(("reviewer", "node agent.js --acp"))),
            ("reviewer=", None),
            ("", None),
            ("=x", None),
        ] {
            let expected = expected.map(|(name, command)| (name.to_owned(), command));
            assert_eq!(named(given), expected, "{given}");
        }
    }
}
