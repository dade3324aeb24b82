//! The settings of editors with which an agent runs behind `kimi-agent proxy`.

use std::path::Path;

use kimi_agent_protocol::dialect::KnownAgent;
use kimi_agent_protocol::printable::printable_line;
use serde_json::json;

use super::probe::Finding;
use crate::words;

/// The page about it.
const PAGE: &str = "https://github.com/kimi-agent/kimi-agent/blob/main/docs/guides/guard-an-editor.md";

/// Returns the settings for the first agent that can be used and speaks ACP. Empty if there is none.
pub(super) fn of(findings: &[Finding]) -> String {
    let speaks_acp = |finding: &&Finding| {
        finding.is_usable() && finding.protocol.as_deref().is_some_and(|protocol| protocol.starts_with("acp-"))
    };
    let Some(finding) = findings.iter().find(speaks_acp) else { return String::new() };
    let mut words: Vec<String> = ["proxy", "--policy", "read-only", "--"].map(str::to_owned).into();
    words.extend(command(finding));
    let name = format!("{}, guarded", finding.name.as_deref().unwrap_or(&finding.agent));
    let server = json!({"command": "kimi-agent", "args": words});
    let mut custom = server.clone();
    custom["type"] = "custom".into();
    let quoted = |word: &String| json!(word).to_string();
    let all = || std::iter::once("kimi-agent".to_owned()).chain(words.iter().cloned());
    let listed = |separator: &str| all().map(|word| quoted(&word)).collect::<Vec<_>>().join(separator);
    let rows = [
        ("Zed", "settings.json", json!({"agent_servers": {&name: custom}}).to_string()),
        ("JetBrains", "~/.jetbrains/acp.json", json!({"agent_servers": {&name: server}}).to_string()),
        ("Neovim", "CodeCompanion", format!("commands = {{ default = {{ {} }} }}", listed(", "))),
        ("Emacs", "agent-shell", format!("'({})", listed(" "))),
    ];
    let mut text = format!("\nIn an editor, with a policy ({PAGE}):\n");
    for (editor, place, line) in rows {
        text.push_str(&format!("  {editor:<9} {place}: {}\n", printable_line(&line)));
    }
    text
}

/// Returns the words with which the agent is started.
fn command(finding: &Finding) -> Vec<String> {
    if let Ok(words) = words::split(&finding.agent)
        && words.len() > 1
    {
        return words;
    }
    let program = finding.path.as_ref().map_or_else(|| finding.agent.clone(), |path| path.display().to_string());
    let known = KnownAgent::of_program(Path::new(&program)).map(|known| known.args);
    let args = known.unwrap_or(if Path::new(&program).file_stem().is_some_and(|name| name == "kimi") {
        &["acp"]
    } else {
        &[]
    });
    std::iter::once(program).chain(args.iter().map(|word| (*word).to_owned())).collect()
}
