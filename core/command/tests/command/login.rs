//! `kimi-agent login`.

use serde_json::json;

use super::support::{Ran, agent, command, ended};

/// A program that says what it was started with if it logs in, and is else the scripted agent with these ways to log in.
fn program(folder: &tempfile::TempDir, name: &str, methods: serde_json::Value) -> String {
    let one = agent(json!({"wire": "acp", "login": {"methods": methods}, "turns": []}));
    let (script, words) = one.split_last().expect("a script");
    let copy = folder.path().join("script.json");
    std::fs::copy(script, &copy).unwrap();
    let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let path = folder.path().join(name);
    let agent = words.join(" ");
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *login*) echo \"$* $WAY\"; exit ${{CODE:-0}};; esac\nexec {agent} '{}' \"$@\"\n",
        copy.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn ran(arguments: &[&str]) -> Ran {
    let arguments: Vec<&str> = std::iter::once("login").chain(arguments.iter().copied()).collect();
    ended(command(None, &arguments).spawn().unwrap())
}

#[test]
fn terminal_way_of_agent_runs() {
    let folder = tempfile::tempdir().unwrap();
    let way = json!({"id": "tty", "name": "Terminal", "type": "terminal", "args": ["--login"], "env": {"WAY": "here"}});
    let program = program(&folder, "own-agent", json!([{"id": "key", "name": "Key"}, way]));
    let done = ran(&[&program]);
    assert_eq!((done.code, &*done.out), (0, "acp --login here\n"), "{}", done.err);
    assert!(done.err.contains("`own-agent acp --login`"), "{}", done.err);
    let done = ran(&[&program, "--method", "key"]);
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("pass it as the option `auth`"), "{}", done.err);
    let done = ran(&[&program, "--list"]);
    assert_eq!((done.code, done.out.lines().count()), (0, 2), "{}", done.err);
    assert!(done.out.contains("tty") && done.out.contains("terminal  Terminal"), "{}", done.out);
}

#[test]
fn failed_login_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let way = json!({"id": "tty", "type": "terminal", "args": ["--login"], "env": {"CODE": "7"}});
    let program = program(&folder, "own-agent", json!([way]));
    let done = ran(&[&program]);
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(done.err.contains("the login has failed: `own-agent acp --login` exited with code 7"), "{}", done.err);
}

#[test]
fn known_agent_has_command() {
    let folder = tempfile::tempdir().unwrap();
    let done = ran(&[&program(&folder, "codex-acp", json!([]))]);
    assert_eq!((done.code, done.out.trim()), (0, "cli login"), "{}", done.err);
}

#[test]
fn agent_without_terminal_login_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let done = ran(&[&program(&folder, "own-agent", json!([{"id": "key", "name": "Key"}]))]);
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("offers no login for a terminal") && done.err.contains("\"key\" (Key)"), "{}", done.err);
    let done = ran(&["/no/such/agent"]);
    assert_eq!(done.code, 127, "{}", done.err);
}

#[test]
fn silent_agent_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("silent");
    std::fs::write(&path, "#!/bin/sh\nwhile read -r line; do :; done\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let done = ran(&[path.to_str().unwrap(), "--timeout", "0.2"]);
    assert_eq!(done.code, 124, "{}", done.err);
}
