//! The agents that are known by the name of their program: how each is started with ACP, and how it is installed.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use super::Release;
use crate::messages::ServerInfo;

/// An agent of another vendor.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownAgent {
    /// The agent's name, for people.
    pub name: &'static str,
    /// The names of its program. The first is the current one.
    pub programs: &'static [&'static str],
    /// The arguments with which the program speaks ACP.
    pub args: &'static [&'static str],
    /// How to install it, after "to install it, ".
    pub install: &'static str,
    /// The arguments with which the program logs in, in a terminal. Empty if it has no such command.
    pub login: &'static [&'static str],
}

/// A program of an agent that speaks ACP only through another program.
#[derive(Debug)]
pub struct NeedsAdapter {
    program: &'static str,
    adapter: &'static str,
}

/// All of them speak ACP. To add an agent, add a row.
pub const KNOWN_AGENTS: &[KnownAgent] = &[
    agent("Gemini CLI", &["gemini"], &["--acp"], "run `npm install -g @google/gemini-cli`", &[]),
    agent(
        "Claude Code",
        &["claude-agent-acp", "claude-code-acp"],
        &[],
        "run `npm install -g @agentclientprotocol/claude-agent-acp`",
        // It names its logins over ACP.
        &[],
    ),
    agent("Codex", &["codex-acp"], &[], "run `npm install -g @agentclientprotocol/codex-acp`", &["cli", "login"]),
    agent("Qwen Code", &["qwen"], &["--acp"], "run `npm install -g @qwen-code/qwen-code`", &["auth"]),
    agent("OpenCode", &["opencode"], &["acp"], "run `npm install -g opencode-ai`", &["auth", "login"]),
    agent("GitHub Copilot CLI", &["copilot"], &["--acp"], "run `npm install -g @github/copilot`", &["login"]),
    agent("Auggie", &["auggie"], &["--acp"], "run `npm install -g @augmentcode/auggie`", &["login"]),
    agent("Cline", &["cline"], &["--acp"], "run `npm install -g cline`", &["auth"]),
    agent("Goose", &["goose"], &["acp"], "see https://block.github.io/goose", &["configure"]),
    agent("Cursor", &["cursor-agent"], &["acp"], "see https://cursor.com/docs/cli", &["login"]),
    agent("Mistral Vibe", &["vibe-acp"], &[], "run `uv tool install mistral-vibe`", &["--setup"]),
    agent("fast-agent", &["fast-agent-acp"], &[], "run `uv tool install fast-agent-mcp`", &[]),
];

const NEED_ADAPTERS: &[NeedsAdapter] = &[
    NeedsAdapter { program: "claude", adapter: "claude-agent-acp" },
    NeedsAdapter { program: "codex", adapter: "codex-acp" },
];

/// How to install Kimi Code, and the releases of kimi-cli that speak Wire.
pub const INSTALL_KIMI_CODE: &str = "run `npm install -g @moonshot-ai/kimi-code`";
/// See [`INSTALL_KIMI_CODE`].
pub const INSTALL_KIMI_CLI: &str = "run `pip install 'kimi-cli<1.52'`";

/// Agents that send the past of a session after their answer to `session/load`, by the name in their handshake.
const SEND_PAST_LATE: [&str; 1] = ["Gemini CLI"];

/// Returns whether the agent may send the past of a session after its answer to `session/load`.
pub(super) fn sends_past_late(server: Option<&ServerInfo>) -> bool {
    server.is_some_and(|server| SEND_PAST_LATE.contains(&&*server.name))
}

/// Releases of Kimi Code that open no session with an MCP server that a command starts, in any form. They answer that the
/// server "does not declare a runtime identity".
const REFUSE_MCP_COMMANDS: Range<Release> = Release::new(0, 37)..Release::new(0, 39);

/// Returns whether the agent refuses sessions with an MCP server that a command starts.
pub(super) fn refuses_mcp_commands(server: Option<&ServerInfo>) -> bool {
    server.is_some_and(|server| {
        server.name == "Kimi Code CLI"
            && Release::parse(&server.version).is_some_and(|release| REFUSE_MCP_COMMANDS.contains(&release))
    })
}

/// Agents that accept MCP servers that a command starts, and do not start them, by the names that they send.
const IGNORE_MCP_COMMANDS: [&str; 1] = ["cline"];

/// Returns whether the agent does not start the MCP servers of a session.
pub(super) fn ignores_mcp_commands(server: Option<&ServerInfo>) -> bool {
    server.is_some_and(|server| IGNORE_MCP_COMMANDS.contains(&&*server.name))
}

/// Agents that report the tokens of a turn over ACP, by the names that they send. ACP itself has no place for tokens.
const REPORT_TOKENS: [&str; 6] = ["Claude Agent", "Codex", "Gemini CLI", "Mistral Vibe", "OpenCode", "Qwen Code"];

/// Whether the agent reports the tokens of a turn over ACP.
pub(super) fn reports_tokens(server: Option<&ServerInfo>) -> bool {
    server.is_some_and(|server| REPORT_TOKENS.contains(&&*server.name))
}

/// Agents that report the cost of the session over ACP, by the names that they send.
const REPORT_COST: [&str; 2] = ["Claude Agent", "OpenCode"];

/// Returns whether the agent reports the cost of the session over ACP.
pub(super) fn reports_cost(server: Option<&ServerInfo>) -> bool {
    server.is_some_and(|server| REPORT_COST.contains(&&*server.name))
}

/// Agents whose tokens in an answer are those of the session so far, by the names that they send.
const COUNT_SESSION: [&str; 1] = ["Mistral Vibe"];

/// Returns whether the tokens that the agent reports are those of the session so far, and not of the turn.
pub(super) fn counts_session(server: Option<&ServerInfo>) -> bool {
    server.is_some_and(|server| COUNT_SESSION.contains(&&*server.name))
}

/// Agents that speak ACP and refuse to open a session without a login, by the names that they send. Others may open the
/// session, and refuse the first prompt.
const CHECK_LOGIN: [&str; 7] =
    ["Kimi Code CLI", "Gemini CLI", "Qwen Code", "Mistral Vibe", "cline", "Copilot", "Auggie Agent"];

/// Returns whether an open session means that the agent has a login.
pub fn checks_login(server: Option<&ServerInfo>, protocol_version: &str) -> bool {
    protocol_version.starts_with("acp-") && server.is_some_and(|server| CHECK_LOGIN.contains(&&*server.name))
}

const fn agent(
    name: &'static str,
    programs: &'static [&'static str],
    args: &'static [&'static str],
    install: &'static str,
    login: &'static [&'static str],
) -> KnownAgent {
    KnownAgent { name, programs, args, install, login }
}

/// The program of Kimi Code and kimi-cli, and the arguments with which both log in.
const KIMI_LOGIN: (&str, &[&str]) = ("kimi", &["login"]);

/// Returns the arguments with which the program of a known agent logs in, in a terminal. `None` if it has no such command, or is
/// not known.
pub fn login_command(program: &Path) -> Option<&'static [&'static str]> {
    if program_name(program)? == KIMI_LOGIN.0 {
        return Some(KIMI_LOGIN.1);
    }
    KnownAgent::of_program(program).map(|agent| agent.login).filter(|login| !login.is_empty())
}

impl KnownAgent {
    /// Returns the agent whose program has this name, in any directory.
    pub fn of_program(program: &Path) -> Option<&'static Self> {
        let name = program_name(program)?;
        KNOWN_AGENTS.iter().find(|agent| agent.programs.contains(&name))
    }
}

impl fmt::Display for KnownAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl NeedsAdapter {
    /// Returns the problem of a program that is named without a directory and without arguments.
    pub fn of_program(program: &Path) -> Option<&'static Self> {
        let name = program.to_str()?;
        NEED_ADAPTERS.iter().find(|one| one.program == name)
    }

    fn agent(&self) -> Option<&'static KnownAgent> {
        KnownAgent::of_program(Path::new(self.adapter))
    }
}

impl fmt::Display for NeedsAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, adapter } = self;
        let install = self.agent().map_or("", |agent| agent.install);
        write!(
            f,
            "`{program}` speaks ACP only through its adapter; pass `{adapter}` as `executable` (to install it, {install})"
        )
    }
}

/// Returns the program's name without the extension of Windows.
fn program_name(program: &Path) -> Option<&str> {
    let name = if cfg!(windows) { program.file_stem() } else { program.file_name() };
    name?.to_str()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn known_agent_is_found_by_program_name() {
        let found = |program: &str| KnownAgent::of_program(Path::new(program)).map(|agent| (agent.name, agent.args));
        assert_eq!(found("gemini"), Some(("Gemini CLI", &["--acp"][..])));
        assert_eq!(found("/opt/node/bin/opencode"), Some(("OpenCode", &["acp"][..])));
        assert_eq!(found("claude-code-acp"), Some(("Claude Code", &[][..])));
        for other in ["kimi", "claude", "codex", "Gemini", "gemini2", "/opt/gemini/bin/agent", ""] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn known_login_command_is_found_by_program_name() {
        let found = |program: &str| login_command(Path::new(program)).map(|words| words.join(" "));
        assert_eq!(found("kimi").as_deref(), Some("login"));
        assert_eq!(found("/opt/bin/codex-acp").as_deref(), Some("cli login"));
        for other in ["gemini", "claude-agent-acp", "unknown", ""] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn known_programs_and_adapters_are_listed_once() {
        let programs: Vec<_> = KNOWN_AGENTS.iter().flat_map(|agent| agent.programs).collect();
        assert_eq!(programs.iter().collect::<HashSet<_>>().len(), programs.len());
        for one in NEED_ADAPTERS {
            assert!(one.agent().is_some() && !programs.contains(&&one.program), "{}", one.program);
        }
        assert_eq!(
            NeedsAdapter::of_program(Path::new("claude")).expect("claude").to_string(),
            "`claude` speaks ACP only through its adapter; pass `claude-agent-acp` as `executable` (to install it, run \
             `npm install -g @agentclientprotocol/claude-agent-acp`)"
        );
    }
}
