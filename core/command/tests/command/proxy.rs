//! `kimi-agent proxy`: between a session of the SDK and a scripted agent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use kimi_agent_client::testing::ScriptedAgent;
use kimi_agent_client::{Approval, Dialect, SessionOptions};
use serde_json::{Value, json};

use super::support::{agent, command, ended};

/// The words of the proxy before this agent.
fn proxied(options: &[&str], agent: &ScriptedAgent) -> Vec<String> {
    let mut words = vec![env!("CARGO_BIN_EXE_kimi-agent").to_owned(), "proxy".to_owned()];
    words.extend(options.iter().map(|word| (*word).to_owned()));
    words.push("--".to_owned());
    words.extend(agent.iter().map(|word| word.to_str().unwrap().to_owned()));
    words
}

fn session(dir: &std::path::Path, options: &[&str], agent: &ScriptedAgent) -> SessionOptions {
    SessionOptions::new()
        .executable(proxied(options, agent))
        .dialect(Dialect::Acp)
        .work_dir(dir)
        // The machine's own settings do not matter here.
        .env([("XDG_CONFIG_HOME", dir), ("APPDATA", dir)])
        .env_remove(["KIMI_AGENT_RECORD"])
}

fn shell(command: &str) -> Value {
    json!({"tool_call": {"name": "Bash", "arguments": {"command": command}, "approve": {"action": "run command",
        "description": command, "display": [{"type": "shell", "language": "bash", "command": command}]},
        "effect": {"write_file": "effect.txt", "content": command}, "result": "done"}})
}

fn acp(actions: Value) -> ScriptedAgent {
    agent(json!({"wire": "acp", "turns": [actions]}))
}

#[tokio::test]
async fn policy_decides_before_the_client() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.toml");
    std::fs::write(&policy, "deny = [\"execute(rm *)\"]\nallow = [\"execute(git status)\"]\n").unwrap();
    let options = ["--policy", policy.to_str().unwrap()];
    for (command, effect, asked) in [("git status", true, false), ("rm -rf x", false, false), ("make", true, true)] {
        let runs = acp(json!([shell(command), {"text": "After."}]));
        let (sender, mut requests) = tokio::sync::mpsc::unbounded_channel();
        let options = session(dir.path(), &options, &runs).on_approval(move |request| {
            sender.send(request.description).ok();
            async { Ok(Approval::Approve) }
        });
        let session = options.start().await.unwrap();
        let result = session.prompt("go").unwrap().result().await.unwrap();
        session.close().await.unwrap();
        assert!(result.text.ends_with("After."), "{}", result.text);
        assert_eq!(requests.try_recv().is_ok(), asked, "{command}");
        let file = dir.path().join("effect.txt");
        assert_eq!(file.exists(), effect, "{command}");
        std::fs::remove_file(file).ok();
    }
}

#[tokio::test]
async fn recording_of_the_proxy_can_be_inspected() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let denied = acp(json!([shell("rm -rf x"), {"text": "After."}]));
    let session = session(dir.path(), &["--policy", "read-only", "--record", runs.to_str().unwrap()], &denied);
    let session = session.start().await.unwrap();
    session.prompt("go").unwrap().result().await.unwrap();
    session.close().await.unwrap();
    let ran = ended(command(None, &["inspect", "--json", runs.to_str().unwrap()]).spawn().unwrap());
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    let turns = summary[0]["turns"].as_array().unwrap();
    assert!(turns.len() == 1 && turns[0]["status"] == "finished" && turns[0]["tool_calls"] == 1, "{summary:#}");
}

#[tokio::test]
async fn budget_of_a_day_holds_in_later_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let runs = acp(json!([shell("make"), {"text": "After."}]));
    for expected in ["finished", "cancelled", "`day_budget` allows 1"] {
        let options = session(dir.path(), &["--day-budget", "tool-calls=1"], &runs).yolo(true);
        let options = options.env([("XDG_STATE_HOME", dir.path()), ("LOCALAPPDATA", dir.path())]);
        let session = options.start().await.unwrap();
        let outcome = session.prompt("go").unwrap().result().await;
        session.close().await.unwrap();
        let ended = outcome.map_or_else(|error| error.to_string(), |result| result.status.as_str().to_owned());
        assert!(ended.contains(expected), "{ended}");
    }
    assert!(dir.path().join("kimi-agent/day.json").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn agent_over_ssh_has_its_own_directory() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let [here, there, bin] = ["here", "there", "bin"].map(|name| dir.path().join(name));
    for path in [&here, &there, &bin] {
        std::fs::create_dir(path).unwrap();
    }
    // Runs the command of the host, which is the last word, on this machine.
    std::fs::write(bin.join("ssh"), "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n").unwrap();
    std::fs::set_permissions(bin.join("ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path =
        std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    let place = format!("ssh:build.example:{}", there.display());
    let here_option = here.to_str().unwrap().to_owned();
    let runs = acp(json!([shell("make"), {"text": "After."}]));
    let options = |work_dir: &std::path::Path| {
        session(dir.path(), &["--place", &place, "-C", &here_option], &runs)
            .work_dir(work_dir)
            .env([("PATH", path.as_ref().unwrap())])
            .yolo(true)
    };
    let open = options(&here).start().await.unwrap();
    let result = open.prompt("go").unwrap().result().await.unwrap();
    open.close().await.unwrap();
    assert!(result.text.ends_with("After."), "{}", result.text);
    assert!(there.join("effect.txt").exists() && !here.join("effect.txt").exists());
    let refused = options(dir.path()).start().await.unwrap_err().to_string();
    assert!(refused.contains("outside of the directories"), "{refused}");
}

#[test]
fn agent_exit_fails_open_calls() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kimi-agent"))
        .args(["proxy", "--"])
        .arg(if cfg!(windows) { "hostname" } else { "true" })
        .env("XDG_CONFIG_HOME", dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // The pipe may break already.
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n").ok();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer["id"] == 1 && answer["error"]["message"].is_string(), "{line}");
    }
    let ran = ended(child);
    assert_eq!(ran.code, 1, "{}", ran.err);
    drop(input);
}

#[test]
fn wrong_arguments_say_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let ran = |arguments: &[&str]| {
        let mut command = command(None, &[&["proxy"], arguments].concat());
        ended(command.env("XDG_CONFIG_HOME", dir.path()).env("APPDATA", dir.path()).spawn().unwrap())
    };
    for (arguments, code, text) in [
        (&["--policy", "/no/such.toml", "--", "agent"][..], 2, "--policy"),
        (&["--budget", "tokens=0", "--", "agent"], 2, "--budget"),
        (&["--turn-budget", "tokens", "--", "agent"], 2, "--turn-budget"),
        (&["--day-budget", "token=1", "--", "agent"], 2, "--day-budget"),
        (&["--enforce", "calls", "--", "agent"], 2, "policy"),
        (&["--policy", "read-only"], 2, "AGENT"),
        (&["--place", "docker:x", "--", "agent"], 2, "expected sandbox, container:IMAGE"),
        (&["--otel", "--", "agent"], 2, "--features otel"),
        (&["--", "/no/such/agent"], 127, "/no/such/agent"),
    ] {
        let ran = ran(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(text), "{}", ran.err);
    }
    std::fs::create_dir(dir.path().join("kimi-agent")).unwrap();
    std::fs::write(dir.path().join("kimi-agent/settings.toml"), "[proxy]\npolice = 1").unwrap();
    let ran = ran(&["--", "agent"]);
    assert!(ran.code == 2 && ran.err.contains("settings.toml") && ran.err.contains("`police`"), "{}", ran.err);
}
