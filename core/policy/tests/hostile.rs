//! Tool calls against what a rule set promises: `tests/policy/hostile.json`, and commands made of others.

#![allow(clippy::unwrap_used, reason = "a test")]

#[cfg(unix)]
use std::path::Path;

use kimi_agent_policy::generated::{COMMANDS, RULES, SHAPES, compose, decide, decide_anything};
use kimi_agent_policy::{Decision, Policy};
use proptest::prelude::*;
#[cfg(unix)]
use serde_json::Value;

#[cfg(unix)]
fn work_dir(data: &Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in data["files"].as_array().unwrap() {
        let path = dir.path().join(file.as_str().unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    for (link, target) in data["links"].as_object().unwrap() {
        std::os::unix::fs::symlink(target.as_str().unwrap(), dir.path().join(link)).unwrap();
    }
    dir
}

#[test]
#[cfg(unix)]
fn hostile_calls_get_their_decisions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/policy/hostile.json");
    let data: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let dir = work_dir(&data);
    let policy = Policy::from_value(&data["policy"]).unwrap();
    let calls = data["calls"].as_array().unwrap();
    assert!(calls.len() >= 200);
    let wrong: Vec<String> = calls
        .iter()
        .filter_map(|call| {
            let verdict = policy.check_json(call, dir.path()).unwrap();
            (verdict.decision.as_str() != call["expect"]).then(|| format!("{call}: {verdict:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), calls.len(), wrong.join("\n"));
}

#[test]
fn hidden_command_is_never_allowed() {
    let policy = Policy::from_toml(RULES).unwrap();
    for shape in 0..SHAPES.len() {
        let plain = compose("git status", [shape]);
        assert_ne!(decide(&policy, &plain), Decision::Deny, "{plain}");
        for command in COMMANDS {
            let text = compose(command, [shape]);
            assert_ne!(decide(&policy, &text), Decision::Allow, "{text}");
        }
        let text = compose(COMMANDS[0], [shape]);
        assert_eq!(decide(&policy, &text), Decision::Deny, "{text}");
    }
}

#[test]
fn deeply_nested_text_is_not_parsed() {
    let policy = Policy::from_toml(RULES).unwrap();
    for open in
        ["(", "{ ", "$(", "`", "if ", "while ", "case a in a) ", "((", "[[ ", "! ", "${A:-", "f() ", "<(", "\"$(", "'"]
    {
        for times in [10, 19, 39, 41, 5000] {
            assert_ne!(decide(&policy, &open.repeat(times)), Decision::Allow, "{times} times {open}");
        }
    }
}

proptest! {
    #[test]
    fn nested_hidden_command_is_never_allowed(
        command in 0..COMMANDS.len(),
        shapes in prop::collection::vec(0..SHAPES.len(), 1..4),
    ) {
        let policy = Policy::from_toml(RULES).unwrap();
        let text = compose(COMMANDS[command], shapes);
        prop_assert_ne!(decide(&policy, &text), Decision::Allow, "{}", text);
    }

    #[test]
    fn any_text_is_decided(text in "[ -~\n]{0,60}") {
        decide_anything(text.as_bytes());
    }
}
