//! The findings as text.

use kimi_agent_client::Capabilities;
use kimi_agent_protocol::printable::{printable, printable_line};
use kimi_agent_protocol::{AuthMethod, PolicyReach};

use super::probe::{Finding, Login, State};
use super::{Findings, Variable, editors};

type Feature = (&'static str, fn(&Capabilities) -> bool);

/// The features of the SDK that some agents support.
const FEATURES: &[Feature] = &[
    ("tools of a program", |one| one.external_tools),
    ("structured output by a tool", |one| one.external_tools),
    ("questions", |one| one.questions),
    ("feedback of a rejection", |one| one.approval_feedback),
    ("plan mode", |one| one.plan_mode),
    ("steer", |one| one.steer),
    ("hooks", |one| !one.hooks.is_empty()),
    ("policy for every tool call", |one| one.policy == PolicyReach::ToolCalls),
    ("options of an open session", |one| one.config_options),
    ("fork", |one| one.fork),
    ("undo", |one| one.undo),
    ("replay", |one| one.replay),
    ("files of a program", |one| one.files),
    ("terminals of a program", |one| one.terminals),
];

/// The number of lines of an error that are shown.
const ERROR_LINES: usize = 6;

/// Returns the findings as text.
pub(super) fn of(findings: &Findings) -> String {
    let mut page = format!("kimi-agent {} on {}\n", findings.version, findings.platform);
    for finding in &findings.agents {
        page.push('\n');
        page.push_str(&agent(finding));
    }
    if findings.agents.is_empty() {
        page.push_str("\nNo known agent is on PATH.\n");
    }
    if !findings.missing.is_empty() {
        page.push_str("\nNot installed:\n");
        for missing in &findings.missing {
            page.push_str(&format!("  {:<20} {:<17} {}\n", missing.name, missing.program, missing.install));
        }
    }
    page.push_str(&editors::of(&findings.agents));
    if !findings.environment.is_empty() {
        page.push_str("\nEnvironment:\n");
        page.extend(findings.environment.iter().map(variable));
    }
    page
}

fn agent(finding: &Finding) -> String {
    let state = match finding.state {
        State::Usable => "usable",
        State::LoginNeeded => "login needed",
        State::Failed => "failed",
    };
    let name = finding.name.as_deref().unwrap_or(&finding.agent);
    let name = format!("{name} {}", finding.version.as_deref().unwrap_or_default());
    let mut text = format!("{}: {state}\n", printable_line(name.trim()));
    let mut row = |label: &str, value: &str| text.push_str(&format!("  {label:<9} {}\n", printable_line(value)));
    if let Some(path) = &finding.path {
        row("path", &path.display().to_string());
    }
    if let Some(protocol) = &finding.protocol {
        row("protocol", &protocol_name(protocol));
    }
    if finding.is_usable() {
        row("login", if finding.login == Login::Found { "found" } else { "unknown until the first prompt" });
    }
    if !finding.login_methods.is_empty() {
        let way = |method: &AuthMethod| format!("{} ({}, {})", method.name, method.id, method.kind);
        row("offers", &finding.login_methods.iter().map(way).collect::<Vec<_>>().join(", "));
    }
    if let Some(command) = finding.login_command.as_ref().filter(|_| finding.state == State::LoginNeeded) {
        row("log in", command);
    }
    if let Some(capabilities) = &finding.capabilities {
        let listed = |has: bool| -> Vec<&str> {
            FEATURES.iter().filter(|(_, test)| test(capabilities) == has).map(|(name, _)| *name).collect()
        };
        row("has", &listed(true).join(", "));
        row("lacks", &listed(false).join(", "));
    }
    if let Some(problem) = &finding.error {
        row("error", problem.code);
        for line in printable(&problem.message).lines().take(ERROR_LINES) {
            text.push_str(&format!("    {line}\n"));
        }
    }
    text
}

/// Returns the protocol and its version for people.
fn protocol_name(version: &str) -> String {
    match version.strip_prefix("acp-") {
        Some(version) => format!("ACP {version}"),
        None if version.starts_with(|letter: char| letter.is_ascii_digit()) => format!("Wire {version}"),
        None => version.to_owned(),
    }
}

fn variable(variable: &Variable) -> String {
    match &variable.value {
        Some(value) => format!("  {}={}\n", variable.name, printable_line(value)),
        None => format!("  {} is set\n", variable.name),
    }
}
