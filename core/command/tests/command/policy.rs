//! `kimi-agent policy`.

use serde_json::Value;

use super::support::{Ran, command, ended};

fn shown(arguments: &[&str]) -> Ran {
    let arguments: Vec<&str> = ["policy"].iter().chain(arguments).copied().collect();
    ended(command(None, &arguments).spawn().unwrap())
}

#[test]
fn check_says_decision_part_and_reason() {
    let ran = shown(&["check", "read-only", "git status; git push"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.starts_with("ask\n") && ran.out.contains("  part: git push\n") && ran.out.contains("  reason: "),
        "{}",
        ran.out
    );
    let call = r#"{"name": "ReadFile", "arguments": {"path": ".env"}}"#;
    let ran = shown(&["check", "read-only", call, "--json"]);
    let verdict: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&verdict["decision"], &verdict["part"]), (&"deny".into(), &".env".into()));
    assert_eq!(shown(&["check", "read-only", "git status"]).code, 0);
}

#[test]
fn explain_lists_rules_and_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policy.toml");
    std::fs::write(&path, "deny = [\"execute\"]\nallow = [\"execute(ls)\"]\n").unwrap();
    let ran = shown(&["explain", path.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.starts_with("deny   execute") && ran.out.contains("\n       a call that runs any command\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("a call that runs the command with exactly these words: `ls`\n"), "{}", ran.out);
    assert!(ran.out.contains("all others: ask\nwarning: ") && ran.out.contains("decides first"), "{}", ran.out);
    assert_eq!(shown(&["explain", "edit-files"]).code, 0);
    std::fs::write(&path, "deny = [\"exec(ls)\"]\n").unwrap();
    let ran = shown(&["explain", path.to_str().unwrap()]);
    assert!(ran.code == 2 && ran.err.contains("write `execute`"), "{}", ran.err);
}
