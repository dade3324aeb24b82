//! Tool calls against what a rule set promises: `tests/policy/hostile.json`, and commands made of others.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use kimi_agent_policy::generated::{COMMANDS, RULES, SHAPES, compose, decide, decide_anything};
use kimi_agent_policy::{Decision, Policy};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A folder whose only content is the working directory, and whether that has the links. On Windows not every user may make links.
fn work_dir(data: &Value) -> (tempfile::TempDir, PathBuf, bool) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("work");
    for file in data["files"].as_array().unwrap() {
        let path = dir.join(file.as_str().unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    #[cfg(unix)]
    use std::os::unix::fs::symlink;
    #[cfg(windows)]
    use std::os::windows::fs::symlink_dir as symlink;
    let has_links = data["links"].as_object().unwrap().iter().all(|(link, target)| {
        let link = dir.join(link);
        symlink(target.as_str().unwrap(), &link).is_ok() && link.symlink_metadata().is_ok()
    });
    assert!(has_links || cfg!(windows));
    (folder, dir, has_links)
}

#[test]
fn hostile_calls_get_their_decisions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/policy/hostile.json");
    let data: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (_folder, dir, has_links) = work_dir(&data);
    let policy = Policy::from_value(&data["policy"]).unwrap();
    let calls = data["calls"].as_array().unwrap();
    assert!(calls.len() >= 200);
    let more = data["windows"].as_array().unwrap().iter().filter(|_| cfg!(windows));
    let links: Vec<&String> = data["links"].as_object().unwrap().keys().collect();
    let wrong: Vec<String> = calls
        .iter()
        .chain(more)
        .filter(|call| has_links || !links.iter().any(|link| call.to_string().contains(*link)))
        .filter_map(|call| {
            let verdict = policy.check_json(call, &dir).unwrap();
            let is_right = verdict.decision.as_str() == call["expect"]
                || (cfg!(windows) && call["arguments"]["path"].is_null() && verdict.decision != Decision::Allow);
            (!is_right).then(|| format!("{call}: {verdict:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), calls.len(), wrong.join("\n"));
}

#[test]
fn attacks_are_refused() {
    let read = |name: &str| -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/policy").join(name);
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let (_folder, dir, has_links) = work_dir(&read("hostile.json"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for group in read("attacks.json")["groups"].as_array().unwrap() {
        if group["links"] == true && !has_links {
            continue;
        }
        let policy = Policy::from_value(&group["policy"]).unwrap();
        for call in group["calls"].as_array().unwrap() {
            count += 1;
            let verdict = policy.check_json(call, &dir).unwrap();
            let is_right = match call["expect"].as_str().unwrap() {
                "refuse" => verdict.decision != Decision::Allow,
                _ if cfg!(windows) && call["expect"] != "deny" => true,
                _ if cfg!(windows) => verdict.decision != Decision::Allow,
                expected => verdict.decision.as_str() == expected,
            };
            if !is_right {
                wrong.push(format!(
                    "{}: {call}: {} by {:?}, {}",
                    group["about"], verdict.decision, verdict.rule, verdict.reason
                ));
            }
        }
    }
    assert!(wrong.is_empty() && count >= 2500, "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[cfg(unix)]
#[test]
fn absolute_globs_through_parents() {
    let dir = tempfile::Builder::new().prefix("work").tempdir().unwrap();
    let policy = Policy::from_value(&json!({"default": "allow", "deny": ["read(secrets/**)"]})).unwrap();
    let parent = dir.path().parent().unwrap().to_str().unwrap();
    for glob in ["*", "work*", "[!x]*", "{*,x}", "w?*", "**"] {
        let command = format!("cat '{parent}'/{glob}/secrets/key");
        let call = json!({"name": "Shell", "arguments": {"command": command}});
        let verdict = policy.check_json(&call, dir.path()).unwrap();
        assert_ne!(verdict.decision, Decision::Allow, "{command}: {}", verdict.reason);
    }
}

/// Tests of the packages play this table through sessions, a batch and the command, too.
#[cfg(unix)]
#[test]
fn check_agrees_with_all_ways_of_deciding() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/policy/agreement.json");
    let mut table: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    table["links"] = json!({});
    let (_folder, dir, _) = work_dir(&table);
    let policy = Policy::from_value(&table["policy"]).unwrap();
    for call in table["calls"].as_array().unwrap() {
        let verdict = policy.check_json(call, &dir).unwrap();
        assert_eq!(verdict.decision.as_str(), call["expect"], "{call}: {}", verdict.reason);
    }
}

#[test]
fn git_in_repository_of_its_own_is_not_allowed() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["bare/objects", "bare/refs", "bare/deep", "vendor/.git", "hg/.hg", "src/deep", ".git"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    for file in ["bare/HEAD", "vendor/.git/HEAD", ".git/HEAD"] {
        std::fs::write(dir.path().join(file), "ref: refs/heads/main").unwrap();
    }
    let policy = Policy::from_value(
        &json!({"allow": ["execute(git status)", "execute(hg status)", "edit(src/**)", "execute(cd *)"]}),
    );
    let policy = policy.unwrap();
    let decide = |command: &str, folder: &str| {
        let call = json!({"name": "Shell", "arguments": {"command": command, "cwd": folder}});
        policy.check_json(&call, dir.path()).unwrap()
    };
    for folder in ["bare", "bare/deep", "./src/../bare", "vendor"] {
        for command in ["git status", "/usr/bin/git status"] {
            let verdict = decide(command, folder);
            assert_eq!(verdict.decision, Decision::Ask, "{command} in {folder}: {}", verdict.reason);
        }
    }
    assert_eq!(decide("hg status", "hg").decision, Decision::Ask);
    assert_eq!(decide("cd bare && git status", ".").decision, Decision::Ask);
    if cfg!(unix) {
        assert!(decide("git status", "bare").reason.contains("a repository of its own"));
        for folder in [".", "src", "src/deep", "missing"] {
            let verdict = decide("git status", folder);
            assert_eq!(verdict.decision, Decision::Allow, "{folder}: {}", verdict.reason);
        }
    }
}

/// A repository without a folder `.git`, as `git clone --bare` and `git init --separate-git-dir` make it.
#[test]
fn settings_of_git_are_protected_under_any_name() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["meta/objects", "meta/refs", "meta/worktrees/main", "src/refs", "src/objects"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    for (file, text) in
        [(".git", "gitdir: ./meta"), ("meta/HEAD", "ref: refs/heads/main"), ("meta/worktrees/main/commondir", "../..")]
    {
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    std::fs::write(dir.path().join("meta/worktrees/main/HEAD"), "").unwrap();
    let policy = Policy::preset("edit-files").unwrap();
    let decide = |path: &str| {
        let call = json!({"name": "WriteFile", "arguments": {"path": path, "content": "x"}});
        policy.check_json(&call, dir.path()).unwrap().decision
    };
    for path in [
        ".git",
        "meta/config",
        "meta/hooks/pre-commit",
        "meta/info/attributes",
        "meta/modules/x/config",
        "meta/worktrees/main/config.worktree",
        "src/../meta/config",
    ] {
        assert_eq!(decide(path), Decision::Deny, "{path}");
    }
    assert_eq!(decide("src/config"), Decision::Allow);
    // A bare repository is the working directory.
    let call = json!({"name": "WriteFile", "arguments": {"path": "config", "content": "x"}});
    assert_eq!(policy.check_json(&call, dir.path().join("meta")).unwrap().decision, Decision::Deny);
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
