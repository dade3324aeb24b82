//! Rule sets: reading, errors, warnings and the order of decisions.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use kimi_agent_policy::{Decision, Policy};
use kimi_agent_protocol::messages::ToolCallInfo;
use kimi_agent_protocol::{Error, Result};
use serde_json::{Value, json};

/// The reason of the error, which is that of the option `policy`.
fn reason(read: Result<Policy>) -> String {
    match read.unwrap_err() {
        Error::InvalidOption { option, reason } if option == "policy" => reason,
        other => other.to_string(),
    }
}

fn problem(toml: &str) -> String {
    reason(Policy::from_toml(toml))
}

fn decide(policy: &Policy, name: &str, arguments: Value) -> (Decision, Option<String>) {
    let verdict = policy.check_json(&json!({"name": name, "arguments": arguments}), "/").unwrap();
    (verdict.decision, verdict.rule)
}

#[test]
fn wrong_rule_set_names_line_and_rule() {
    assert!(problem("allow = [\n  \"read\",\n  \"execute(ls\",\n]").starts_with("line 3: allow[1] \"execute(ls\": "));
    assert!(problem("denied = []").starts_with("line 1: `denied`: the key is unknown"));
    assert!(problem("\ndefault = \"yes\"").starts_with("line 2: `default`: expected \"ask\""));
    assert!(problem("allow = \"read\"").starts_with("line 1: `allow`: expected a list"));
    assert!(problem("allow = [1]").starts_with("line 1: allow[0]: expected text"));
    assert!(problem("\nallow = [").starts_with("line 2: not valid TOML"));
    for (rule, expected) in [
        ("", "not the name of a tool"),
        ("read)", "`)` without `(`"),
        ("a b", "not the name of a tool"),
        ("execute()", "the pattern is empty"),
        ("edit(../x)", "`..`"),
        ("edit(!x)", "`!`"),
        ("edit({a)", "`{` without `}`"),
        ("fetch(https://a.example)", "expected a host"),
        ("mcp(github)", "expected `server/tool`"),
        ("think(x)", "no pattern"),
        ("exec(ls)", "write `execute`"),
        ("Execute(ls)", "write `execute`"),
        ("exectue(ls)", "write `execute`"),
        ("edits", "write `edit`"),
        ("read(a\u{202e}b)", "invisible"),
        ("execute(ls \"a)", "`\"` in the pattern is not closed"),
        ("Shell(echo don't)", "`'` in the pattern is not closed"),
    ] {
        let text = reason(Policy::from_value(&json!({ "deny": [rule] })));
        assert!(text.starts_with("deny[0] ") && text.contains(expected), "{rule}: {text}");
    }
}

#[test]
fn unknown_preset_error_names_presets() {
    let text = Policy::preset("readonly").unwrap_err().to_string();
    assert_eq!(
        text,
        r#"invalid option `policy`: expected the name of a preset: "read-only" or "edit-files", got "readonly""#
    );
}

#[test]
fn json_errors_name_line_and_rule() {
    let text = reason(Policy::from_json("{\n \"deny\": [\n  \"execute(\"\n]}"));
    assert!(text.starts_with("line 3: deny[0] \"execute(\": "), "{text}");
    let text = Policy::from_json("{\n").unwrap_err().to_string();
    assert!(text.contains("not valid JSON"), "{text}");
}

#[test]
fn json_with_duplicate_keys_is_refused() {
    for (text, expected) in [
        ("{\"deny\": [\"execute(rm *)\"],\n \"deny\": []}", "line 2: not valid JSON: the key `deny` occurs twice"),
        ("{\"default\": \"deny\", \"default\": \"allow\"}", "the key `default` occurs twice"),
        ("null", "expected an object, got `null`"),
        ("[]", "expected an object"),
    ] {
        let text = (reason(Policy::from_json(text)), expected);
        assert!(text.0.contains(text.1), "{text:?}");
    }
}

#[test]
fn rule_in_form_of_another_program_is_a_warning() {
    for (rule, meant) in [
        ("Bash(rm:*)", Some("Bash(rm *)")),
        ("execute(rm:*)", Some("execute(rm *)")),
        ("execute(git push:*)", Some("execute(git push *)")),
        ("read($HOME/.ssh/**)", Some("read(~/.ssh/**)")),
        ("read(${HOME}/.ssh/**)", Some("read(~/.ssh/**)")),
        ("read($SECRETS/**)", Some("write the path")),
        ("read(file:///etc/**)", Some("read(/etc/**)")),
        ("kind:read", Some("write `read`")),
        ("read:src/**", Some("read(src/**)")),
        ("read(//etc/passwd)", None),
        ("fetch(a.com:443)", None),
        ("edit(app/$id.tsx)", None),
        ("Bash(rm *)", None),
    ] {
        let policy = Policy::from_value(&json!({ "default": "allow", "deny": [rule] })).unwrap();
        let warning = policy.warnings().join("\n");
        assert_eq!(warning.is_empty(), meant.is_none(), "{rule}: {warning}");
        assert!(warning.contains(meant.unwrap_or_default()), "{rule}: {warning}");
    }
    let policy = Policy::from_value(&json!({"default": "allow", "deny": ["read(//etc/passwd)"]})).unwrap();
    let expected = if cfg!(windows) { Decision::Allow } else { Decision::Deny };
    assert_eq!(decide(&policy, "ReadFile", json!({"path": "/etc/passwd"})).0, expected);
    // A script of a project can have such a name.
    let policy = Policy::from_value(&json!({"allow": ["execute(npm run test:*)"]})).unwrap();
    assert!(policy.warnings().is_empty(), "{:?}", policy.warnings());
}

#[test]
fn files_are_read_by_their_ending() {
    let dir = tempfile::tempdir().unwrap();
    let (toml, json) = (dir.path().join("policy.toml"), dir.path().join("policy.json"));
    std::fs::write(&toml, "deny = [\"Shell\"]\n").unwrap();
    std::fs::write(&json, "{\"deny\": [\"Shell\"]}\n").unwrap();
    for path in [&toml, &json] {
        let policy = Policy::load(path).unwrap();
        let verdict = policy.check_json(&json!({"name": "Shell"}), "/").unwrap();
        assert_eq!((verdict.decision, verdict.source.unwrap()), (Decision::Deny, format!("{}:1", path.display())));
    }
    let missing = Policy::load(dir.path().join("none.toml")).unwrap_err().to_string();
    assert!(missing.contains("none.toml cannot be read: "), "{missing}");
}

#[test]
fn ineffective_rules_are_warnings() {
    let warnings = |value: Value| Policy::from_value(&value).unwrap().warnings().join("\n");
    assert_eq!(
        warnings(json!({"deny": ["execute(rm *)"], "allow": ["read", "Shell(git status)", "Edit", "patch"]})),
        ""
    );
    // A tool of the program has no server.
    assert_eq!(warnings(json!({"deny": ["mcp(evil/*)"], "allow": ["list_issues"]})), "");
    for (value, reason) in [
        (json!({"deny": ["mcp"], "allow": ["list_issues"]}), "deny \"mcp\" decides first"),
        (json!({"deny": ["execute"], "allow": ["execute(ls)"]}), "deny \"execute\" decides first"),
        (json!({"ask": ["Shell"], "allow": ["Shell(ls)"]}), "ask \"Shell\" decides first"),
        (json!({"allow": ["read", "read"]}), "allow \"read\" decides first"),
        (json!({"allow": ["execute(a && b)"]}), "no simple command contains `&`"),
        (json!({"default": "allow", "allow": ["read"]}), "the default is `allow`"),
    ] {
        let text = warnings(value.clone());
        assert!(text.contains(reason), "{value}: {text}");
    }
}

#[test]
fn deny_precedes_ask_allow_and_default() {
    let policy = Policy::from_value(&json!({
        "default": "deny", "deny": ["execute(rm *)"], "ask": ["execute(git push *)"], "allow": ["execute(git *)", "execute(rm *)"],
    }));
    let policy = policy.unwrap();
    let shell = |command: &str| decide(&policy, "Bash", json!({ "command": command }));
    assert_eq!(shell("git push"), (Decision::Ask, Some("execute(git push *)".to_owned())));
    assert_eq!(shell("git status"), (Decision::Allow, Some("execute(git *)".to_owned())));
    assert_eq!(shell("rm x"), (Decision::Deny, Some("execute(rm *)".to_owned())));
    assert_eq!(shell("ls"), (Decision::Deny, None));
    assert_eq!(shell("git status; rm x").0, Decision::Deny);
}

#[test]
fn quotes_in_command_pattern_are_those_of_a_shell() {
    let call = json!({"name": "Shell", "arguments": {"command": "'/a b/ü/python' -B 'c; d'"}});
    let rule = "execute('/a b/ü/python' -B 'c; d')";
    let asked = Policy::from_toml("allow = [\"read\"]").unwrap().check_json(&call, "/").unwrap();
    assert!(asked.reason.contains(&format!("the rule `{rule}` would allow it")), "{}", asked.reason);
    for rule in [rule, "execute(\"/a b\"/ü/python -B 'c; d' *)"] {
        let policy = Policy::from_toml(&format!("allow = [{}]", json!(rule))).unwrap();
        assert_eq!(policy.warnings(), Vec::<String>::new());
        assert_eq!(policy.check_json(&call, "/").unwrap().decision, Decision::Allow, "{rule}");
        let other = json!({"command": "'/a c/ü/python' -B 'c; d'"});
        assert_eq!(decide(&policy, "Shell", other).0, Decision::Ask, "{rule}");
    }
    let policy = Policy::from_toml("deny = [\"execute('a b' c)\"]\ndefault = \"allow\"").unwrap();
    assert_eq!(decide(&policy, "Shell", json!({"command": "a\\ b c"})).0, Decision::Deny);
}

#[test]
fn undecidable_command_is_asked_despite_default() {
    let policy = Policy::from_value(&json!({"default": "allow"})).unwrap();
    assert_eq!(decide(&policy, "Bash", json!({"command": "ls"})).0, Decision::Allow);
    assert_eq!(decide(&policy, "Bash", json!({"command": "echo 'x"})).0, Decision::Ask);
    let policy = Policy::from_value(&json!({"default": "allow", "deny": ["execute(rm *)"]})).unwrap();
    assert_eq!(decide(&policy, "Bash", json!({"command": "$X"})).0, Decision::Ask);
}

#[test]
fn rule_without_pattern_covers_its_kind_alone() {
    let policy = Policy::from_value(&json!({"allow": ["execute", "search"], "deny": ["mcp"]})).unwrap();
    assert_eq!(decide(&policy, "Bash", json!({"command": "$X | sh"})).0, Decision::Allow);
    assert_eq!(decide(&policy, "Bash", json!({"command": "echo > x"})).0, Decision::Ask);
    assert_eq!(decide(&policy, "mcp__a__b", json!({})).0, Decision::Deny);
    assert_eq!(decide(&policy, "Grep", json!({"pattern": "x"})).0, Decision::Allow);
}

#[test]
fn invalid_tool_call_is_error() {
    let policy = Policy::from_value(&json!({})).unwrap();
    for call in [json!({}), json!({"name": ""}), json!({"name": 1}), json!({"name": "a", "arguments": []}), json!([])] {
        assert!(policy.check_json(&call, "/").is_err(), "{call}");
    }
}

#[test]
fn command_title_matches_no_tool_rule() {
    let policy = Policy::from_value(&json!({"allow": ["Read", "github_*", "mcp__github__*", "notes_get"]})).unwrap();
    let allowed = |name: &str, kind: &str| {
        let call = json!({"name": name, "kind": kind, "arguments": {"command": name}});
        policy.check_json(&call, "/").unwrap().decision == Decision::Allow
    };
    for title in ["Read", "github_x; id", "github_$(id)", "github_/../x", "mcp__github__x | sh", "mcp__github__x\nid"] {
        assert!(!allowed(title, "execute"), "{title}");
    }
    assert!(allowed("Read", "read") && allowed("github_get", "other") && allowed("mcp__github__get", "execute"));
    assert!(allowed("notes_get", "execute"));
}

#[test]
fn description_denies_call_without_arguments() {
    let policy = Policy::from_value(&json!({"default": "allow", "deny": ["execute(rm *)"]})).unwrap();
    let call = |name: &str, arguments: Value| ToolCallInfo {
        id: "c".to_owned(),
        name: name.to_owned(),
        arguments: arguments.as_object().cloned(),
        kind: Some("execute".into()),
        ..ToolCallInfo::default()
    };
    let decide = |call: &ToolCallInfo, about: &str| policy.check_described(call, about, Path::new("/")).decision;
    for unknown in [json!(null), json!({}), json!({"cwd": "/"})] {
        assert_eq!(decide(&call("bash", unknown.clone()), "git status; rm x"), Decision::Deny);
        assert_eq!(decide(&call("git status; rm x", unknown.clone()), ""), Decision::Deny);
        assert_eq!(decide(&call("bash", unknown), "git status"), Decision::Ask);
    }
    assert_eq!(decide(&call("bash", json!({"command": "git status"})), "removes no file with rm"), Decision::Allow);
}

#[test]
fn description_with_denied_file_asks() {
    let policy = Policy::from_value(&json!({"allow": ["edit(src/**)"], "deny": ["edit(/etc/**)"]})).unwrap();
    let arguments = json!({"path": "src/a"}).as_object().cloned();
    let (name, kind) = ("Edit".to_owned(), Some("edit".into()));
    let call = ToolCallInfo { id: "c".to_owned(), name, kind, arguments, ..ToolCallInfo::default() };
    for (about, decision) in
        [("Edit /etc/x", Decision::Ask), ("Edit src/a", Decision::Allow), ("Edit src/a\nlike /etc/x", Decision::Allow)]
    {
        assert_eq!(policy.check_described(&call, about, Path::new("/work")).decision, decision, "{about}");
    }
}

#[test]
fn file_of_policy_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    std::fs::write(&file, "extends = \"edit-files\"\nallow = [\"execute(cp *)\", \"execute(rm *)\"]\n").unwrap();
    let policy = Policy::load(&file).unwrap();
    // As a binding passes it on.
    let passed_on = Policy::from_value(&policy.to_value()).unwrap();
    for policy in [policy, passed_on] {
        for (arguments, decision) in [
            (json!({"path": "rules.toml", "content": "x"}), Decision::Deny),
            (json!({"path": file.to_str().unwrap(), "content": "x"}), Decision::Deny),
            (json!({"path": "other.toml", "content": "x"}), Decision::Allow),
        ] {
            let call = json!({"name": "WriteFile", "arguments": arguments});
            assert_eq!(policy.check_json(&call, folder.path()).unwrap().decision, decision, "{call}");
        }
        if cfg!(unix) {
            for (command, decision) in
                [("cp x rules.toml", Decision::Deny), ("rm -r .", Decision::Deny), ("cat rules.toml", Decision::Allow)]
            {
                let call = json!({"name": "Bash", "arguments": {"command": command}});
                assert_eq!(policy.check_json(&call, folder.path()).unwrap().decision, decision, "{call}");
            }
        }
        let read = json!({"name": "ReadFile", "arguments": {"path": "rules.toml"}});
        assert_eq!(policy.check_json(&read, folder.path()).unwrap().decision, Decision::Allow);
    }
}

#[test]
fn locations_and_diffs_are_parts() {
    let rules = json!({"deny": ["edit(/etc/**)"], "allow": ["edit(src/**)", "read(src/**)", "execute(ls)"]});
    let policy = Policy::from_value(&rules).unwrap();
    let decide = |call: Value| policy.check_json(&call, "/work").unwrap().decision;
    let edit = |locations: &[&str], diffs: &[&str]| {
        decide(json!({"name": "Edit", "arguments": {"path": "src/a"}, "locations": locations, "diffs": diffs}))
    };
    assert_eq!(edit(&["/work/src/a"], &["/work/src/a"]), Decision::Allow);
    assert_eq!(edit(&["/etc/passwd"], &[]), Decision::Deny);
    assert_eq!(edit(&[], &["/etc/passwd"]), Decision::Deny);
    assert_eq!(edit(&["other/b"], &[]), Decision::Ask);
    assert_eq!(edit(&[], &["other/b"]), Decision::Ask);
    let read = json!({"name": "Read", "arguments": {"path": "src/a"}, "diffs": ["/etc/passwd"]});
    assert_eq!(decide(read), Decision::Deny);
    let run = |diffs: Value| decide(json!({"name": "Bash", "arguments": {"command": "ls"}, "diffs": diffs}));
    assert_eq!(run(json!([])), Decision::Allow);
    assert_eq!(run(json!(["/etc/passwd"])), Decision::Deny);
}

#[test]
fn tool_of_program_is_named_as_program_names_it() {
    let decide = |rules: Value| {
        let policy = Policy::from_value(&rules).unwrap();
        policy.check_json(&json!({"name": "search", "kind": "mcp"}), "/").unwrap().decision
    };
    assert_eq!(decide(json!({"deny": ["search"]})), Decision::Deny, "the tool has the name of the kind");
    assert_eq!(decide(json!({"allow": ["search"]})), Decision::Ask, "`search` is a kind");
    for rule in ["mcp", "mcp(*)", "mcp(*/*)", "mcp(program/*)", "mcp(program/search)"] {
        assert_eq!(decide(json!({"deny": [rule]})), Decision::Deny, "{rule}");
        assert_eq!(decide(json!({"allow": [rule]})), Decision::Allow, "{rule}");
    }
    assert_eq!(decide(json!({"allow": ["mcp(github/*)"]})), Decision::Ask);
    let policy = Policy::from_value(&json!({"allow": ["mcp(program/*)"]})).unwrap();
    let decide = |name: &str| policy.check_json(&json!({"name": name, "kind": "mcp"}), "/").unwrap().decision;
    assert_eq!(decide("get_notes"), Decision::Allow);
    for title in ["github/get_notes", "get_notes (github)", "github.get_notes", "github: get_notes"] {
        assert_eq!(decide(title), Decision::Ask, "{title}");
    }
}

#[test]
fn ineffective_rules_are_found_by_the_engine() {
    let warnings = |value: Value| Policy::from_value(&value).unwrap().warnings().join("\n");
    for (value, reason) in [
        (json!({"deny": ["execute(git *)"], "allow": ["execute(git push)"]}), "deny \"execute(git *)\" decides first"),
        (json!({"allow": ["execute(X=1 git status)"]}), "never"),
        (json!({"allow": ["mcp(my__srv/*)"]}), "two ways"),
        (
            json!({"deny": ["read(secrets/**)"], "allow": ["read(secrets/a)"]}),
            "deny \"read(secrets/**)\" decides first",
        ),
        (json!({"ask": ["fetch(*)"], "allow": ["fetch(a.example)"]}), "ask \"fetch(*)\" decides first"),
        (json!({"deny": ["mcp(github/*)"], "allow": ["mcp(github/get_x)"]}), "decides first"),
        (json!({"allow": ["edit(/etc/**)"]}), "outside"),
        (json!({"allow": ["execute(export *)"]}), "never"),
    ] {
        let text = warnings(value.clone());
        assert!(text.contains(reason), "{value}: {text}");
    }
    let useful = json!({"deny": ["execute(rm *)", "edit(**/.env*)", "fetch(169.254.169.254)"], "ask": ["execute(git push *)"],
        "allow": ["execute(git *)", "execute(find * -exec grep *)", "execute(python -m pytest *)", "mcp(github/get_*)", "fetch(*.a.example)", "edit(src/**)"]});
    assert_eq!(warnings(useful), "");
    for preset in ["read-only", "edit-files"] {
        assert_eq!(warnings(json!({"extends": preset, "allow": ["execute(make test)"]})), "");
    }
}

/// Git reads the name of a file behind a commit from the top of the repository.
#[cfg(unix)]
#[test]
fn file_of_commit_is_read_as_file_of_work_dir() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for name in [".git", "src/.git", "sub"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join(".git/HEAD"), "ref: refs/heads/main").unwrap();
    std::os::unix::fs::symlink("/etc", dir.join("link")).unwrap();
    let policy = Policy::preset("read-only").unwrap();
    let decide = |command: &str, place: &str| {
        let call = json!({"name": "Shell", "arguments": {"command": command}});
        policy.check_json(&call, dir.join(place)).unwrap().decision
    };
    for word in ["HEAD:src/a.py", "HEAD~1:README.md", "main:src/a.py", "v1.2:Makefile", "HEAD^:./a.py", "HEAD:src"] {
        assert_eq!(decide(&format!("git show {word}"), ""), Decision::Allow, "{word}");
        assert_eq!(decide(&format!("git --no-pager show {word}"), ""), Decision::Allow, "{word}");
        // The work directory is not the top.
        assert_eq!(decide(&format!("git show {word}"), "sub"), Decision::Ask, "{word}");
        assert_eq!(decide(&format!("cd sub && git show {word}"), ""), Decision::Ask, "{word}");
    }
    assert_eq!(
        decide("git show HEAD:src/a.py", "src"),
        Decision::Ask,
        "a folder `.git` without `HEAD` is no repository"
    );
    assert_eq!(decide("git grep x HEAD:", "sub"), Decision::Ask);
    for word in [
        "HEAD:.env",
        "HEAD:secrets/key",
        "HEAD:secrets",
        "HEAD:src/id_rsa",
        "HEAD:a.pem",
        "HEAD:../x",
        "HEAD:/etc/passwd",
        "HEAD:link/passwd",
        "HEAD:a:.env",
        "abcdef:src/a.py",
        ":src/a.py",
        ":0:src/a.py",
        "'HEAD^{/x: y}:src/a.py'",
        "'HEAD@{1}:src/a.py'",
        "origin/main:src/a.py",
        "HEAD:src/*",
    ] {
        assert_ne!(decide(&format!("git show {word}"), ""), Decision::Allow, "{word}");
    }
    let policy = Policy::from_value(&json!({"allow": ["execute(git clone ./**)", "execute(git show ./**)"]})).unwrap();
    let call = |command: &str| json!({"name": "Shell", "arguments": {"command": command}});
    assert_eq!(policy.check_json(&call("git show HEAD:src/a.py"), dir).unwrap().decision, Decision::Allow);
    assert_eq!(policy.check_json(&call("git clone a.example:src/a.git"), dir).unwrap().decision, Decision::Ask);
}

#[cfg(unix)]
#[test]
fn existing_files_decide_glob_of_sources() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for name in ["src/a.py", "src/deep/b.py", "docs/a.md", "odd/-x.py"] {
        std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        std::fs::write(dir.join(name), "").unwrap();
    }
    let policy = Policy::preset("read-only").unwrap();
    let calls = [
        json!({"name": "Shell", "arguments": {"command": "cat src/*.py"}}),
        json!({"name": "Shell", "arguments": {"command": "find . -name '*.py'"}}),
        json!({"name": "Glob", "arguments": {"pattern": "**/*.py"}}),
        json!({"name": "Glob", "arguments": {"pattern": "*.py", "path": "src"}}),
        json!({"name": "Grep", "arguments": {"pattern": "x", "glob": "*.py"}}),
    ];
    let decisions = || calls.each_ref().map(|call| policy.check_json(call, dir).unwrap().decision);
    let [allow, ask] = [Decision::Allow, Decision::Ask];
    // A name that is an option hides from no search, but a shell would pass it on.
    std::fs::rename(dir.join("odd/-x.py"), dir.join("odd/x.py")).unwrap();
    assert_eq!(decisions(), [allow; 5]);
    for (name, expected) in [
        ("src/secrets.py", [ask; 5]),
        ("src/id_rsa.py", [ask; 5]),
        ("src/SECRETS.PY", [ask; 5]),
        ("src/deep/secrets.py", [allow, ask, ask, ask, ask]),
        ("src/.x/credentials.py", [allow, ask, ask, ask, ask]),
        ("docs/secrets.py", [allow, ask, ask, allow, ask]),
        ("src/-x.py", [ask; 5]),
    ] {
        std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        std::fs::write(dir.join(name), "").unwrap();
        assert_eq!(decisions(), expected, "{name}");
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    for (link, target) in [("src/l.py", "../docs/a.md"), ("src/m.py", "/etc/passwd")] {
        std::os::unix::fs::symlink(target, dir.join(link)).unwrap();
        assert_ne!(decisions()[0], allow, "{link}");
        std::fs::remove_file(dir.join(link)).unwrap();
    }
    // More files than are looked at.
    for at in 0..600 {
        std::fs::write(dir.join(format!("src/{at}.py")), "").unwrap();
    }
    assert_eq!(decisions(), [ask; 5]);
}
