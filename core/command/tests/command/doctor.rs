//! `kimi-agent doctor`.

use kimi_agent_client::testing::ScriptedAgent;
use serde_json::{Value, json};

use super::support::{Ran, agent, command, ended};

/// Looks at these agents.
fn looked_at(agents: &[&ScriptedAgent], further: &[&str]) -> Ran {
    let line = |agent: &&ScriptedAgent| {
        agent.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<String> = agents.iter().map(line).collect();
    let arguments: Vec<&str> =
        ["doctor"].iter().chain(further).copied().chain(lines.iter().map(|line| &**line)).collect();
    ended(command(None, &arguments).spawn().unwrap())
}

/// Makes a program.
#[cfg(unix)]
fn program(folder: &tempfile::TempDir, name: &str, script: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn findings(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn usable_agent_is_described() {
    let one = agent(json!({"server": {"name": "an agent", "version": "1.2"}, "turns": []}));
    let ran = looked_at(&[&one], &["--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found = &findings(&ran)["agents"][0];
    assert_eq!(
        (&found["state"], &found["login"], &found["name"]),
        (&json!("usable"), &json!("unknown"), &json!("an agent"))
    );
    assert_eq!((&found["protocol"], &found["capabilities"]["steer"]), (&json!("1.10"), &json!(true)));
    let text = looked_at(&[&one], &[]).out;
    assert!(text.contains("an agent 1.2: usable\n") && text.contains("  protocol  Wire 1.10\n"), "{text}");
    assert!(text.contains("  has       tools of a program, "), "{text}");
}

#[test]
fn agent_of_acp_has_settings_of_editors() {
    let one = agent(json!({"wire": "acp", "server": {"name": "an agent", "version": "1.2"}, "turns": []}));
    let text = looked_at(&[&one], &["--dialect", "acp"]).out;
    let line = |start: &str| text.lines().find_map(|line| line.trim().strip_prefix(start)).unwrap().to_owned();
    let settings: Value = serde_json::from_str(&line("Zed       settings.json: ")).unwrap();
    let server = &settings["agent_servers"]["an agent, guarded"];
    assert_eq!((&server["type"], &server["command"]), (&json!("custom"), &json!("kimi-agent")));
    let words: Vec<&str> = one.iter().map(|word| word.to_str().unwrap()).collect();
    let args: Vec<&str> = ["proxy", "--policy", "read-only", "--"].into_iter().chain(words).collect();
    assert_eq!(server["args"], json!(args));
    let jetbrains: Value = serde_json::from_str(&line("JetBrains ~/.jetbrains/acp.json: ")).unwrap();
    assert_eq!(jetbrains["agent_servers"]["an agent, guarded"]["args"], json!(args));
    assert!(
        line("Neovim    CodeCompanion: ").starts_with(r#"commands = { default = { "kimi-agent", "proxy", "#),
        "{text}"
    );
    assert!(line("Emacs     agent-shell: ").starts_with(r#"'("kimi-agent" "proxy" "#), "{text}");
    let wire = agent(json!({"turns": []}));
    assert!(!looked_at(&[&wire], &[]).out.contains("In an editor"));
}

/// An agent over ACP that refuses to open a session.
#[cfg(unix)]
const WITHOUT_LOGIN: &str = r#"#!/bin/sh
read -r line
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[{"id":"key","name":"Key"}]}}'
read -r line
echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Log in, sk-abcdefghijklmnopqrst"}}'
exec cat >/dev/null
"#;

#[cfg(unix)]
#[test]
fn missing_login_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(&folder, "vibe-acp", WITHOUT_LOGIN);
    let ran = ended(command(None, &["doctor", "--json", &program]).spawn().unwrap());
    let found = &findings(&ran)["agents"][0];
    assert_eq!(
        (ran.code, &found["state"], &found["login"]),
        (1, &json!("login_needed"), &json!("missing")),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("sk-abcdefghijklmnopqrst") && ran.out.contains("***"), "{}", ran.out);
    assert_eq!(found["login_methods"], json!([{"id": "key", "name": "Key", "description": null, "kind": "agent"}]));
    let page = ended(command(None, &["doctor", &program]).spawn().unwrap()).out;
    assert!(page.contains("  offers    Key (key, agent)\n"), "{page}");
    assert!(page.contains(&format!("  log in    kimi-agent login {program}\n")), "{page}");
}

#[test]
fn one_usable_agent_is_enough() {
    let (dead, alive) = (agent(json!("wrong")), agent(json!([])));
    assert_eq!(looked_at(&[&dead], &[]).code, 1);
    let ran = looked_at(&[&dead, &alive], &["--json"]);
    let findings = findings(&ran);
    assert_eq!(
        (ran.code, &findings["agents"][0]["state"], &findings["agents"][1]["state"]),
        (0, &json!("failed"), &json!("usable"))
    );
}

#[test]
fn silent_agent_does_not_block() {
    let silent = agent(json!({"deaf_to": ["initialize"], "turns": []}));
    let ran = looked_at(&[&silent], &["--json", "--timeout", "0.2", "--dialect", "1.10"]);
    assert_eq!((ran.code, &findings(&ran)["agents"][0]["error"]["code"]), (1, &json!("timeout")));
}

#[test]
fn installed_agents_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    let mut doctor = command(None, &["doctor", "--json"]);
    let ran = ended(doctor.env("PATH", folder.path()).env("ANTHROPIC_API_KEY", "secret").spawn().unwrap());
    let findings = findings(&ran);
    assert_eq!((ran.code, &findings["agents"]), (1, &json!([])));
    assert!(findings["missing"].as_array().unwrap().iter().any(|one| one["program"] == "gemini"));
    assert_eq!(findings["environment"], json!([{"name": "ANTHROPIC_API_KEY", "value": null}]));
}

#[cfg(unix)]
#[test]
fn program_on_path_is_started_once() {
    let folder = tempfile::tempdir().unwrap();
    let one = agent(json!({"wire": "acp", "server": {"name": "Gemini CLI", "version": "9"}, "turns": []}));
    let words: Vec<_> = one.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    program(&folder, "gemini", &format!("#!/bin/sh\nexec {}\n", words.join(" ")));
    let path = std::env::join_paths([folder.path(), folder.path()]).unwrap();
    let mut doctor = command(None, &["doctor", "--json"]);
    let ran = ended(doctor.env("PATH", path).env("KIMI_AGENT_EXECUTABLE", "gemini").spawn().unwrap());
    let findings = findings(&ran);
    let agents = findings["agents"].as_array().unwrap();
    assert_eq!((ran.code, agents.len(), &agents[0]["version"]), (0, 1, &json!("9")), "{}", ran.out);
    assert_eq!(agents[0]["login"], "found");
}
